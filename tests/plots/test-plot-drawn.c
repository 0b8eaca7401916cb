/* Tests of what gnuplot draws of the data: boxes, lines, marks and names in the SVG, in pixels. */
#include "costdb-rig.h"
#include "script-rig.h"

#include <pipesim/sweep.h>
#include <pipesim/timeline.h>

#include <math.h>
#include <stdio.h>

typedef struct {
  double x, y;
} Point;

/* Draws a.svg with a program. NULL, and the test is skipped, without gnuplot. */
static char *draw (const char *program, const char *arguments)
{
  g_autofree char *line = g_strconcat (arguments, " -o a.svg", NULL), *path = path_of ("a.svg"), *talk = NULL;
  char *svg = NULL;

  if (!have_program ("gnuplot"))
    return NULL;
  g_assert_cmpint (run_program (folder, program, line, NULL, NULL, &talk), ==, 0);
  g_assert_cmpstr (talk, ==, "");
  g_assert_true (g_file_get_contents (path, &svg, NULL, NULL));
  return svg;
}

/* The points of every line of that colour, or of every box. An element may have several lines. */
static GPtrArray *shapes (const char *svg, const char *begin, guint32 colour, const char *attribute)
{
  g_autofree char *head
      = g_strdup_printf ("%s'rgb(%3u, %3u, %3u)'", begin, colour >> 16, colour >> 8 & 0xff, colour & 0xff);
  GPtrArray *all = g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref);

  for (const char *at = strstr (svg, head); at != NULL; at = strstr (at, head)) {
    GArray *points = NULL;
    Point point;
    int length;

    at = strstr (at, attribute) + strlen (attribute);
    for (gboolean fresh = TRUE;; fresh = FALSE) {
      fresh |= *at == 'M';
      at += *at == 'M' || *at == 'L';
      if (sscanf (at, "%lf,%lf %n", &point.x, &point.y, &length) != 2)
        break;
      if (fresh)
        g_ptr_array_add (all, points = g_array_new (FALSE, FALSE, sizeof (Point)));
      g_array_append_val (points, point);
      at += length;
    }
  }
  return all;
}

static GPtrArray *boxes (const char *svg, guint32 colour)
{
  return shapes (svg, "<polygon fill = ", colour, "points = '");
}

static GPtrArray *lines (const char *svg, guint32 colour)
{
  return shapes (svg, "<path stroke=", colour, " d='");
}

/* The widest: lines are wider than their samples in the key. */
static guint widest (const GPtrArray *shapes)
{
  double most = 0;
  guint found = 0;

  for (guint i = 0; i < shapes->len; i++) {
    const GArray *points = shapes->pdata[i];
    double width = g_array_index (points, Point, points->len - 1).x - g_array_index (points, Point, 0).x;

    found = width > most ? i : found;
    most = MAX (most, width);
  }
  return found;
}

static Point point_of (const GPtrArray *shapes, guint i, guint k)
{
  g_assert_cmpuint (i, <, shapes->len);
  g_assert_cmpuint (k, <, ((GArray *)shapes->pdata[i])->len);
  return g_array_index ((GArray *)shapes->pdata[i], Point, k);
}

/* Middle and height of a box. */
static double middle_of (const GPtrArray *boxes, guint i)
{
  return (point_of (boxes, i, 0).y + point_of (boxes, i, 2).y) / 2;
}

static double height_of (const GPtrArray *boxes, guint i)
{
  return fabs (point_of (boxes, i, 0).y - point_of (boxes, i, 2).y);
}

/* Where a text stands. */
static Point text_at (const char *svg, const char *text)
{
  g_autofree char *element = g_strdup_printf ("<text>%s</text>", text);
  const char *at = strstr (svg, element);
  Point point;

  if (at == NULL)
    g_error ("no text '%s'", text);
  at = g_strrstr_len (svg, at - svg, "translate(");
  g_assert_cmpint (sscanf (at, "translate(%lf,%lf)", &point.x, &point.y), ==, 2);
  return point;
}

static void write_timeline (PsTimeline *timeline)
{
  g_autofree char *json = ps_timeline_to_json (timeline), *path = path_of ("t.json");

  g_assert_true (g_file_set_contents (path, json, -1, NULL));
}

static void add_op (PsTimeline *timeline, PsOpKind kind, guint device, gint64 start_ns, gboolean paired)
{
  PsSpan span
      = { .op = { .kind = kind, .stage = (guint16)device, .microbatch = timeline->ops->len % 2, .paired = paired },
          .start_ns = start_ns,
          .end_ns = start_ns + 1000,
          .device = (guint16)device,
          .peer = (guint16)device };

  g_array_append_val (timeline->ops, span);
}

/* F of device 0, then a pair of BW and W, in 2000 ns of 1108 pixels; on device 1 an R. A transfer from row to row. */
static void test_timeline (void)
{
  g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "t", 2, 2, 2);
  const PsSpan transfer = { .start_ns = 1000, .end_ns = 1500, .peer = 1 };
  const PsMemoryPoint memory[]
      = { { .bytes = 1000 }, { .time_ns = 1000, .bytes = 3000 }, { .bytes = 1500, .device = 1 } };

  add_op (timeline, PS_OP_F, 0, 0, FALSE);
  add_op (timeline, PS_OP_BW, 0, 1000, TRUE);
  add_op (timeline, PS_OP_W, 0, 1000, FALSE);
  add_op (timeline, PS_OP_R, 1, 1000, FALSE);
  g_array_append_val (timeline->transfers, transfer);
  g_array_append_vals (timeline->memory, memory, G_N_ELEMENTS (memory));
  write_timeline (timeline);
  g_autofree char *svg = draw ("pipesim-plot", "timeline t.json --transfers");
  if (svg == NULL)
    return;
  g_autoptr (GPtrArray) f = boxes (svg, 0x0072b2), upper = boxes (svg, 0xd55e00), lower = boxes (svg, 0xe69f00),
                        r = boxes (svg, 0xcc79a7), sent = lines (svg, 0x222222), first = lines (svg, 0x440154),
                        second = lines (svg, 0xe8cf20);
  /* From the left edge of the frame on, half of it each. */
  g_assert_cmpfloat_with_epsilon (point_of (f, 0, 0).x, 74, 0.1);
  g_assert_cmpfloat_with_epsilon (point_of (f, 0, 1).x, 74 + 554, 0.1);
  g_assert_cmpfloat_with_epsilon (point_of (upper, 0, 1).x, 74 + 1108, 0.1);
  /* A row of 30 pixels, whose 0.92 a box fills; each of a pair a half. */
  g_assert_cmpfloat_with_epsilon (height_of (f, 0), 0.92 * 30, 0.1);
  g_assert_cmpfloat_with_epsilon (height_of (upper, 0), 0.46 * 30, 0.1);
  g_assert_cmpfloat_with_epsilon (middle_of (f, 0) - middle_of (upper, 0), 0.23 * 30, 0.1);
  g_assert_cmpfloat_with_epsilon (middle_of (lower, 0) - middle_of (f, 0), 0.23 * 30, 0.1);
  g_assert_cmpfloat_with_epsilon (middle_of (r, 0) - middle_of (f, 0), 30, 0.1);
  /* From the lower edge of the sender's boxes to the upper edge of the receiver's. */
  g_assert_cmpfloat_with_epsilon (point_of (sent, 0, 0).y - middle_of (f, 0), 0.46 * 30, 0.1);
  g_assert_cmpfloat_with_epsilon (middle_of (r, 0) - point_of (sent, 0, 1).y, 0.46 * 30, 0.1);
  g_assert_cmpfloat_with_epsilon (point_of (sent, 0, 1).x - point_of (sent, 0, 0).x, 277, 0.1);
  /* Numbers in the middle of their boxes. */
  g_assert_cmpfloat_with_epsilon (text_at (svg, "0").x, 74 + 277, 0.1);
  /* 1000 B, then 3000; the other device 1500. */
  const GArray *steps = first->pdata[0];
  double low = point_of (first, 0, 0).y, high = g_array_index (steps, Point, steps->len - 1).y;
  g_assert_cmpfloat_with_epsilon ((low - point_of (second, 0, 0).y) / (low - high), 0.25, 0.01);
}

/* Of 17 devices and more the first and the last are named; each has its curve, the least of the first. */
static void test_memory (void)
{
  for (guint n = 16; n <= 17; n++) {
    g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "t", n, n, 2);
    g_autofree char *svg = NULL;

    for (guint d = 0; d < n; d++) {
      PsMemoryPoint point = { .bytes = 100 * (d + 1), .device = (guint16)d };

      add_op (timeline, PS_OP_F, d, 0, FALSE);
      g_array_append_val (timeline->memory, point);
    }
    write_timeline (timeline);
    svg = draw ("pipesim-plot", "memory t.json");
    if (svg == NULL)
      return;
    g_autoptr (GPtrArray) first = lines (svg, 0x440154), last = lines (svg, 0xe8cf20);
    g_assert_cmpuint (count (svg, ">device 1<"), ==, n == 16);
    g_assert_cmpuint (count (svg, ">to device 16<"), ==, n == 17);
    g_assert_cmpfloat (point_of (first, widest (first), 0).y, >, point_of (last, widest (last), 0).y + 100);
  }
}

/* A front goes from place to place in steps. */
static void test_front (void)
{
  static const char spec[] = "[sweep]\nschedule = 1f1b, gpipe, naive\ndevices = 2\nmicrobatches = 8\n"
                             "costs = f=1ms,b=1ms,w=1ms,act=2MiB\n";
  g_autofree char *path = path_of ("r.db"), *svg = NULL;
  g_autoptr (PsSweep) sweep = fine (ps_sweep_parse ("spec", spec, strlen (spec), &error));
  g_autoptr (PsResults) results = fine (ps_results_open (path, PS_RESULTS_WRITE, &error));
  PsSweepRun run = { .n_jobs = 1, .shard = { 0, 1 } };
  PsSweepProgress progress;

  fine (ps_sweep_run (sweep, results, &run, &progress, &error));
  g_clear_pointer (&results, ps_results_close);
  svg = draw ("pipesim-plot", "sweep r.db --pareto --by iteration_ns");
  remove_database (path);
  if (svg == NULL)
    return;
  g_autoptr (GPtrArray) front = lines (svg, 0x888888);
  const guint i = widest (front);
  const Point from = point_of (front, i, 0), over = point_of (front, i, 1), to = point_of (front, i, 2);
  g_assert_true (over.y == from.y && over.x > from.x && to.x == over.x && to.y > over.y);
}

/* The name of an op is in the middle of its row, between the marks of its two groups. Each group of messages has its
 * own line. */
static void test_calibration (void)
{
  g_autofree char *path = path_of ("c.db"), *svg = NULL;
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);
  gint64 profile = begin (db, "one");

  for (guint i = 0; i < 6; i++) {
    store (db, profile, new_transfer ((gint64)8 << 2 * i, 2, 2000 + ((gint64)4 << 2 * i)));
    store (db, profile, new_transfer ((gint64)8 << 2 * i, 4, 9000 + ((gint64)16 << 2 * i)));
  }
  store (db, profile, new_op (PS_OP_W, "layers=2", 1, 1000000));
  store (db, profile, new_op (PS_OP_W, "layers=2", 2, 1500000));
  store (db, profile, new_op (PS_OP_F, "layers=2", 1, 1000000));
  g_clear_pointer (&db, ps_costdb_close);
  svg = draw ("pipesim-plot", "calibration c.db");
  remove_database (path);
  if (svg == NULL)
    return;
  g_autoptr (GPtrArray) two = lines (svg, 0x0072b2), four = lines (svg, 0xd55e00);
  g_assert_cmpfloat (point_of (two, 0, 0).y, >, point_of (four, 0, 0).y + 20);
  /* The marks of W. */
  double least = INFINITY, most = 0;
  for (const char *at = strstr (svg, " color='rgb(230, 159,   0)'"); at != NULL;
       at = strstr (at + 1, " color='rgb(230, 159,   0)'")) {
    Point mark;

    g_assert_cmpint (sscanf (g_strrstr_len (svg, at - svg, "translate("), "translate(%lf,%lf)", &mark.x, &mark.y), ==,
                     2);
    least = MIN (least, mark.y);
    most = MAX (most, mark.y);
  }
  g_assert_cmpfloat (most, >, least + 5);
  g_assert_cmpfloat_with_epsilon ((least + most) / 2, text_at (svg, "W of layers=2").y - 3, 2);
}

/* The diagonal from corner to corner. */
static void test_accuracy (void)
{
  const PsRunRecord run = { (char *)"",
                            (char *)"1f1b",
                            (char *)"cpu",
                            (char *)"threads",
                            4,
                            1,
                            8,
                            5,
                            96,
                            100,
                            1,
                            2,
                            0,
                            (char *)"not run",
                            (char *)"2026-01-01T00:00:00Z" };
  g_autofree char *path = path_of ("c.db"), *svg = NULL;
  g_autoptr (PsCostDb) db = open_db (path, PS_COSTDB_WRITE);

  g_assert_true (ps_costdb_store_run (db, &run, NULL));
  g_clear_pointer (&db, ps_costdb_close);
  svg = draw ("pipesim-plot", "accuracy c.db");
  remove_database (path);
  if (svg == NULL)
    return;
  g_autoptr (GPtrArray) diagonal = lines (svg, 0x777777);
  const Point from = point_of (diagonal, 0, 0);
  const GArray *points = diagonal->pdata[0];
  const Point to = g_array_index (points, Point, points->len - 1);
  g_assert_cmpfloat_with_epsilon (to.x - from.x, from.y - to.y, 2);
  g_assert_cmpfloat (to.x - from.x, >, 400);
}

/* The dashed line is where the bar of the run as predicted ends; each bar has its figures right of it. */
static void test_diagnose (void)
{
  g_autofree char *svg = NULL, *talk = NULL;

  g_assert_cmpint (run_program (folder, "pipesim", "predict -s zb-h1 -p 2 -m 4 --costs f=1ms,b=1ms,w=1ms -o t.json",
                                NULL, NULL, &talk),
                   ==, 0);
  svg = draw ("pipesim-diagnose", "t.json -t 0");
  if (svg == NULL)
    return;
  g_autoptr (GPtrArray) run = boxes (svg, 0x555555), dashed = lines (svg, 0x222222), f = boxes (svg, 0x0072b2),
                        measured = boxes (svg, 0x999999);
  g_assert_cmpfloat_with_epsilon (point_of (dashed, 0, 0).x, point_of (run, 0, 1).x, 0.2);
  /* Parts begin where their axis does. The key's box is the first or the last of its colour. */
  gboolean found = FALSE;
  for (guint i = 0; i < f->len; i++)
    found |= fabs (point_of (f, i, 0).x - point_of (run, 0, 0).x) < 0.2;
  g_assert_true (found);
  g_assert_cmpfloat_with_epsilon (text_at (svg, "simulated").y - 3, middle_of (measured, 0), 2);
  g_assert_cmpuint (count (svg, ", +0.0 %<"), ==, 1);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plot-drawn/timeline", test_timeline);
  g_test_add_func ("/plot-drawn/memory", test_memory);
  g_test_add_func ("/plot-drawn/front", test_front);
  g_test_add_func ("/plot-drawn/calibration", test_calibration);
  g_test_add_func ("/plot-drawn/accuracy", test_accuracy);
  g_test_add_func ("/plot-drawn/diagnose", test_diagnose);
  return run_in_folder ();
}
