/* Tests of what pictures draw of more than can be seen: columns of mixed colours, and the largest of a curve. In a
 * picture of 1092 pixels the time axis has 1000, so that a pixel of these timelines is 100 ns and a column 200. */
#include "script-rig.h"

#include <pipesim/timeline.h>

#define END_NS 100000
#define SIZE " --size 1092x300"

static void add_op (PsTimeline *timeline, PsOpKind kind, guint device, gint64 start_ns, gint64 end_ns)
{
  PsSpan span = { .op = { .kind = kind, .microbatch = timeline->ops->len, .stage = (guint16)device },
                  .start_ns = start_ns,
                  .end_ns = end_ns,
                  .device = (guint16)device,
                  .peer = (guint16)device };

  g_array_append_val (timeline->ops, span);
}

static void add_memory (PsTimeline *timeline, gint64 time_ns, gint64 bytes, guint device)
{
  const PsMemoryPoint point = { .time_ns = time_ns, .bytes = bytes, .device = (guint16)device };

  g_array_append_val (timeline->memory, point);
}

/* A second device makes n ops of it all. */
static void fill (PsTimeline *timeline, guint n)
{
  guint more = n - timeline->ops->len;

  for (guint i = 0; i < more; i++)
    add_op (timeline, PS_OP_F, 1, (gint64)END_NS * i / more, (gint64)END_NS * (i + 1) / more);
}

static char *draw (const InFolder *fixture, const PsTimeline *timeline, const char *options)
{
  g_autofree char *path = g_build_filename (fixture->folder, "t.json", NULL), *json = ps_timeline_to_json (timeline);
  g_autofree char *line = g_strconcat ("timeline t.json -o a.svg", options, NULL);

  g_assert_true (g_file_set_contents (path, json, -1, NULL));
  return script_of (fixture->folder, "pipesim-plot", line);
}

static PsTimeline *new_timeline (void)
{
  return ps_timeline_new (PS_ORIGIN_SIMULATED, "many", 2, 2, 6000);
}

/* F is (0, 114, 178), BW (213, 94, 0); mixed colours have steps of 17. The first column is all F; the second F for a
 * quarter and white else; the third F and BW for a half each; the fourth empty; the fifth and the sixth F, one piece.
 * An op of 3 pixels is a piece in its own colour, and one of 6 a box. */
static void test_mix (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct {
    gint64 left, right;
    guint colour;
  } pieces[] = { { 2000, 2300, 0x0072b2 },
                 { 0, 200, 0x0077aa },
                 { 800, 1200, 0x0077aa },
                 { 400, 600, 0x666655 },
                 { 200, 400, 0xbbddee } };
  g_autoptr (PsTimeline) timeline = new_timeline ();
  guint n = 0;

  for (gint64 start = 0; start < 250; start += 50)
    add_op (timeline, PS_OP_F, 0, start, start + 50);
  add_op (timeline, PS_OP_F, 0, 400, 499);
  add_op (timeline, PS_OP_F, 0, 499, 500);
  add_op (timeline, PS_OP_BW, 0, 500, 599);
  add_op (timeline, PS_OP_BW, 0, 599, 600);
  for (gint64 start = 800; start < 1200; start += 50)
    add_op (timeline, PS_OP_F, 0, start, start + 50);
  add_op (timeline, PS_OP_F, 0, 2000, 2300);
  add_op (timeline, PS_OP_F, 0, 3000, 3600);
  fill (timeline, 5000);
  g_autofree char *script = draw (fixture, timeline, SIZE), *caption = script_text (script, "caption[1]");
  g_autoptr (GPtrArray) dense = script_block (script, "dense1"), ops = script_block (script, "ops1");
  for (guint i = 0; i < dense->len; i++) {
    if (number_at (dense, i, 2) > 0)
      continue;
    g_assert_cmpuint (n, <, G_N_ELEMENTS (pieces));
    g_assert_cmpfloat_with_epsilon (number_at (dense, i, 0) * 1e6, (double)pieces[n].left, 1e-6);
    g_assert_cmpfloat_with_epsilon (number_at (dense, i, 1) * 1e6, (double)pieces[n].right, 1e-6);
    g_assert_cmphex ((guint)number_at (dense, i, 4), ==, pieces[n].colour);
    n++;
  }
  g_assert_cmpuint (n, ==, G_N_ELEMENTS (pieces));
  g_assert_cmpuint (ops->len, ==, 1);
  g_assert_true (g_str_has_suffix (caption, "; ops below a pixel are mixed"));
}

/* A picture of more than 4000 ops is coarse. */
static void test_many_ops (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  for (guint n = 4000; n <= 4001; n++) {
    g_autoptr (PsTimeline) timeline = new_timeline ();

    add_op (timeline, PS_OP_F, 0, 0, END_NS);
    fill (timeline, n);
    g_autofree char *script = draw (fixture, timeline, SIZE);
    g_autoptr (GPtrArray) dense = script_block (script, "dense1"), ops = script_block (script, "ops1");
    g_assert_cmpuint (ops->len, ==, n == 4000 ? n : 1);
    g_assert_cmpuint (dense->len, >=, n == 4000 ? 0 : 1);
  }
}

/* Of transfers from one device to the other that begin within 3 pixels the first is drawn. */
static void test_transfers (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const gint64 starts[] = { 0, 100, 299, 300, 599, 600 };
  g_autoptr (PsTimeline) timeline = new_timeline ();

  add_op (timeline, PS_OP_F, 0, 0, END_NS);
  fill (timeline, 5000);
  for (guint i = 0; i < G_N_ELEMENTS (starts); i++) {
    PsSpan span = { .op = { .microbatch = i }, .start_ns = starts[i], .end_ns = starts[i] + 10, .peer = 1 };

    g_array_append_val (timeline->transfers, span);
  }
  g_autofree char *script = draw (fixture, timeline, SIZE " --transfers");
  g_autoptr (GPtrArray) transfers = script_block (script, "transfers1");
  g_assert_cmpuint (transfers->len, ==, 3);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpfloat_with_epsilon (number_at (transfers, i, 0) * 1e6, 300 * i, 1e-6);
}

/* In grains of 200: 5, then 9 for a moment; what goes on after it is 3; 7 from 800 on, at the end of which nothing
 * changes any more. The second device has its own. */
static void test_memory (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const double expected[][2] = { { 0, 5 }, { 200, 9 }, { 400, 3 }, { 800, 7 }, { END_NS, 7 } };
  g_autoptr (PsTimeline) timeline = new_timeline ();

  add_op (timeline, PS_OP_F, 0, 0, END_NS);
  fill (timeline, 5000);
  add_memory (timeline, 0, 5, 0);
  add_memory (timeline, 240, 9, 0);
  add_memory (timeline, 260, 3, 0);
  add_memory (timeline, 820, 7, 0);
  add_memory (timeline, 0, 2, 1);
  g_autofree char *script = draw (fixture, timeline, SIZE);
  g_autoptr (GPtrArray) memory = script_block (script, "memory1");
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++) {
    g_assert_cmpfloat_with_epsilon (number_at (memory, i, 0) * 1e6, expected[i][0], 1e-6);
    g_assert_cmpfloat (number_at (memory, i, 1), ==, expected[i][1]);
  }
  g_assert_cmpfloat (number_at (memory, 7, 1), ==, 2);
  g_assert_cmpuint (memory->len, ==, 5 + 2 + 2 + 2);
}

/* The largest level of a step curve in [from, from + grain). */
static gint64 largest_of (const GArray *points, gint64 from_ns, gint64 grain_ns)
{
  gint64 largest = 0;

  for (guint i = 0; i < points->len; i++) {
    const PsMemoryPoint *point = &g_array_index (points, PsMemoryPoint, i);
    gint64 until = i + 1 < points->len ? point[1].time_ns : G_MAXINT64;

    if (point->time_ns < from_ns + grain_ns && (until > from_ns || (until == from_ns && point->time_ns == from_ns)))
      largest = MAX (largest, point->bytes);
  }
  return largest;
}

/* Whatever the curve, the drawn line is at the largest of each grain. */
static void test_random_memory (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);
  g_autoptr (PsTimeline) timeline = new_timeline ();
  g_autoptr (GArray) drawn = g_array_new (FALSE, FALSE, sizeof (PsMemoryPoint));

  add_op (timeline, PS_OP_F, 0, 0, END_NS);
  fill (timeline, 5000);
  for (gint64 time_ns = 0; time_ns < END_NS; time_ns += g_rand_int_range (rand, 0, 400))
    add_memory (timeline, time_ns, g_rand_int_range (rand, 1, 9), 0);
  g_autofree char *script = draw (fixture, timeline, SIZE);
  g_autoptr (GPtrArray) memory = script_block (script, "memory1");
  for (guint i = 0; g_strv_length (memory->pdata[i]) > 0; i++) {
    const PsMemoryPoint point
        = { .time_ns = (gint64)(number_at (memory, i, 0) * 1e6 + 0.5), .bytes = (gint64)number_at (memory, i, 1) };

    g_array_append_val (drawn, point);
  }
  g_assert_cmpuint (drawn->len, >, 200);
  for (gint64 from = 0; from < END_NS; from += 200)
    g_assert_cmpint (largest_of (drawn, from, 200), ==, largest_of (timeline->memory, from, 200));
}

#define ADD(path, function) g_test_add (path, InFolder, NULL, make_folder, function, clear_folder)

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/plot-coarse/mix", test_mix);
  ADD ("/plot-coarse/many-ops", test_many_ops);
  ADD ("/plot-coarse/transfers", test_transfers);
  ADD ("/plot-coarse/memory", test_memory);
  ADD ("/plot-coarse/random-memory", test_random_memory);
  return g_test_run ();
}
