/* Tests of the places in pictures: gnuplot's script, read back, has every point, name, box and tick where the data put
 * it. */
#include "script-rig.h"
#include "scale.h"
#include "series.h"
#include "timeline-text.h"

#include <pipesim/costdb.h>
#include <pipesim/schedule.h>
#include <pipesim/sweep.h>
#include <pipesim/timeline.h>

#include <math.h>

#define LETTER 6.2 /* pixels of a letter of a name */

typedef InFolder Fixture;

static char *
plot (const Fixture *fixture, const char *arguments)
{
  g_autofree char *line = g_strconcat (arguments, " -o a.svg", NULL);

  return script_of (fixture->folder, "pipesim-plot", line);
}

static void
write_text (const Fixture *fixture, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename (fixture->folder, name, NULL);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

/* The height in pixels of a value on the vertical axis from low to high. */
static double
height_of (const Frame *frame, double value, double low, double high, gboolean is_log)
{
  double part = is_log ? log (value / low) / log (high / low) : (value - low) / (high - low);

  return frame->bottom + part * (frame->top - frame->bottom);
}

/* Units and axes */

static void
test_units (G_GNUC_UNUSED Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct
  {
    gint64 most;
    const char *name;
    double size;
    gboolean is_size;
  } cases[] = { { 1, "us", 1e3, FALSE },
                { 9999, "us", 1e3, FALSE },
                { 10000, "ms", 1e6, FALSE },
                { G_GINT64_CONSTANT (100000000000), "ms", 1e6, FALSE },
                { G_GINT64_CONSTANT (100000000001), "s", 1e9, FALSE },
                { 1, "B", 1, TRUE },
                { 2047, "B", 1, TRUE },
                { 2048, "KiB", 1024, TRUE },
                { (2 << 20) - 1, "KiB", 1024, TRUE },
                { 2 << 20, "MiB", 1 << 20, TRUE },
                { G_GINT64_CONSTANT (2) << 30, "GiB", 1 << 30, TRUE },
                { G_GINT64_CONSTANT (2) << 40, "TiB", 1099511627776.0, TRUE },
                { G_GINT64_CONSTANT (2) << 60, "TiB", 1099511627776.0, TRUE } };
  static const struct
  {
    double range;
    guint n;
    double step;
  } ticks[] = { { 10, 10, 1 },   { 14.9, 10, 1 }, { 15, 10, 2 },     { 34.9, 10, 2 }, { 35, 10, 5 },
                { 74.9, 10, 5 }, { 75, 10, 10 },  { 0.03, 3, 0.01 }, { 7e6, 3, 2e6 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      PsPlotUnit unit = cases[i].is_size ? ps_plot_size_unit (cases[i].most) : ps_plot_time_unit (cases[i].most);

      g_assert_cmpstr (unit.name, ==, cases[i].name);
      g_assert_cmpfloat (unit.size, ==, cases[i].size);
    }
  for (guint i = 0; i < G_N_ELEMENTS (ticks); i++)
    g_assert_cmpfloat_with_epsilon (ps_plot_tick_step (ticks[i].range, ticks[i].n) / ticks[i].step, 1, 1e-9);
  g_assert_cmphex (ps_plot_mix_colours (0x0040ff, 0x804000, 0), ==, 0x0040ff);
  g_assert_cmphex (ps_plot_mix_colours (0x0040ff, 0x804000, 1), ==, 0x804000);
  g_assert_cmphex (ps_plot_mix_colours (0x0040ff, 0x804000, 0.25), ==, 0x2040bf);
  g_assert_cmphex (ps_plot_tint (0x0040ff), ==, 0x80a0ff);
  /* The last of four chunks is 62 % of the way to white, and the only one is not paler. */
  g_assert_cmphex (ps_plot_op_colour (PS_OP_F, 3, 4), ==, ps_plot_mix_colours (0x0072b2, 0xffffff, 0.62));
  g_assert_cmphex (ps_plot_op_colour (PS_OP_F, 1, 4), ==, ps_plot_mix_colours (0x0072b2, 0xffffff, 0.62 / 3));
  g_assert_cmphex (ps_plot_op_colour (PS_OP_F, 0, 1), ==, 0x0072b2);
  /* 140 of 255 is still read with white: 0x8c8c8c. */
  g_assert_cmphex (ps_plot_text_colour (0x8c8c8c), ==, 0xffffff);
  g_assert_cmphex (ps_plot_text_colour (0x8d8d8d), ==, 0);
  g_assert_cmphex (ps_plot_text_colour (0x00ff00), ==, 0); /* 150 of green, 76 of red, 29 of blue */
  g_assert_cmphex (ps_plot_text_colour (0xff00ff), ==, 0xffffff);
  g_assert_cmphex (ps_plot_device_colour (0, 1), ==, 0x440154);
  g_assert_cmphex (ps_plot_device_colour (1, 5), ==, 0x3b528b);
  g_assert_cmphex (ps_plot_device_colour (3, 5), ==, 0x5ec962);
}

static gboolean
crowds (const char *field, double smallest, double middle, double largest)
{
  return ps_plot_axis_crowds (&(PsPlotAxis){ .smallest = smallest, .middle = middle, .largest = largest }, field);
}

/* A factor of eight, or the median in the lowest third; for a ratio the first, and the median in the lowest sixth. */
static void
test_crowds (G_GNUC_UNUSED Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_assert_false (crowds ("iteration_ns", 1, 5, 7.9));
  g_assert_true (crowds ("iteration_ns", 1, 5, 8));
  g_assert_false (crowds ("iteration_ns", 1, 2, 6));
  g_assert_true (crowds ("iteration_ns", 1, 1.9, 6));
  g_assert_false (crowds ("iteration_ns", 0, 1, 100));
  g_assert_false (crowds ("iteration_ns", -1, 1, 100));
  g_assert_false (crowds ("bubble_ratio", 0.01, 0.1, 0.6));
  g_assert_true (crowds ("bubble_ratio", 0.01, 0.09, 0.6));
  g_assert_false (crowds ("bubble_ratio", 0.1, 0.1, 0.7));
}

/* Families by their places in the catalogue; others after these. A second series of a schedule keeps the colour, and
 * has another mark and dash; series of no schedule have the next colour, and another dash when colours begin again. */
static void
test_looks (G_GNUC_UNUSED Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_auto (PsPlotSeriesSet) set = { 0 }, plain = { 0 };
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    g_assert_cmpuint (ps_plot_schedule_number (families[i]->name), ==, i);
  g_assert_cmpuint (ps_plot_schedule_number ("a file's own"), >=, n);
  g_assert_cmphex (ps_plot_schedule_colour (1), ==, 0xd55e00);
  g_assert_cmphex (ps_plot_schedule_colour (8), ==, ps_plot_mix_colours (0xd55e00, 0xffffff, 0.45));
  g_assert_cmphex (ps_plot_schedule_colour (15), ==, ps_plot_mix_colours (0xd55e00, 0x000000, 0.4));
  g_assert_cmphex (ps_plot_schedule_colour (22), ==, 0xd55e00);
  ps_plot_series_set_init (&set);
  ps_plot_series_set_init (&plain);
  for (guint i = 0; i < 9; i++)
    {
      g_autofree char *name = g_strdup_printf ("%u", i);

      ps_plot_series_set_add (&set, name, i % 3 ? "1f1b" : "gpipe", i, i);
      ps_plot_series_set_add (&plain, name, NULL, i, i);
    }
  ps_plot_series_set_add (&set, "1", "1f1b", 10, 11);
  g_assert_cmpuint (set.all->len, ==, 9);
  for (guint i = 0; i < 9; i++)
    {
      const PsPlotSeries *series = set.all->pdata[i], *other = plain.all->pdata[i];
      guint number = ps_plot_schedule_number (i % 3 ? "1f1b" : "gpipe"), before = i % 3 ? i - 1 - i / 3 : i / 3;

      g_assert_cmphex (series->colour, ==, ps_plot_schedule_colour (number));
      g_assert_cmpuint (series->dash, ==, 1 + before);
      g_assert_cmpuint (series->mark, ==, ps_plot_series_mark (number + 5 * before));
      g_assert_cmpuint (series->points->len, ==, i == 1 ? 2 : 1);
      g_assert_cmphex (other->colour, ==, ps_plot_series_colour (i % 7));
      g_assert_cmpuint (other->dash, ==, 1 + i / 7);
      g_assert_cmpuint (other->mark, ==, ps_plot_series_mark (i));
      for (guint k = 0; k < i; k++) /* no two look the same */
        {
          const PsPlotSeries *a = set.all->pdata[k];

          g_assert_true (a->colour != series->colour || a->mark != series->mark || a->dash != series->dash);
        }
    }
}

/* Accuracy */

static void
store_run (PsCostDb *db, const char *schedule, gint64 predicted_ns, gint64 measured_ns)
{
  PsRunRecord run = { .profile = (char *)"",
                      .schedule = (char *)schedule,
                      .device = (char *)"cpu",
                      .transport = (char *)"threads",
                      .n_devices = 4,
                      .n_chunks = 1,
                      .n_microbatches = 8,
                      .n_steps = 5,
                      .predicted_iteration_ns = predicted_ns,
                      .measured_iteration_ns = measured_ns,
                      .check = (char *)"not run",
                      .started = (char *)"2026-01-01T00:00:00Z" };

  fine (ps_costdb_store_run (db, &run, &error));
}

static char *
draw_accuracy (const Fixture *fixture, const char *options, const gint64 (*runs)[2], guint n)
{
  static const char *const schedules[] = { "1f1b", "gpipe", "zb-h1" };
  g_autofree char *path = g_build_filename (fixture->folder, "c.db", NULL), *line = NULL;
  g_autoptr (PsCostDb) db = fine (ps_costdb_open (path, PS_COSTDB_WRITE, &error));

  for (guint i = 0; i < n; i++)
    store_run (db, schedules[i], runs[i][0], runs[i][1]);
  line = g_strconcat ("accuracy c.db", options, NULL);
  char *script = plot (fixture, line);
  g_clear_pointer (&db, ps_costdb_close);
  g_unlink (path);
  return script;
}

/* Predicted and measured, 8 us to 10 us: some air around all, the same for both axes, 8 % of 10 % of the largest, as
 * that is more than the spread's. In a frame as high as it is wide the diagonal is at 45 degrees. */
static void
test_accuracy (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const gint64 near[][2] = { { 9900, 9500 }, { 9400, 9600 }, { 9950, 9300 } };
  g_autofree char *script = draw_accuracy (fixture, "", near, 3), *title = script_text (script, "title");
  g_autofree char *wide = draw_accuracy (fixture, " --size 900x500 --title own", near, 3);
  g_autofree char *own = script_text (wide, "title"), *label = script_text (script, "x_label");
  const Frame frame = frame_of (script);
  g_autoptr (GPtrArray) names = script_block (script, "names");

  /* 400 / 9500, 200 / 9600 and 650 / 9300: the middle one is 4.21 %. */
  g_assert_cmpstr (title, ==, "predictions against 3 runs: half of them within 4.21 %");
  g_assert_cmpstr (own, ==, "own");
  g_assert_cmpstr (label, ==, "measured iteration time (us)");
  g_assert_cmpfloat (frame.right - frame.left, ==, frame.top - frame.bottom);
  check_margins (script, wide, 900, 500);
  g_assert_nonnull (strstr (script, "\nis_log = 0\n"));
  g_assert_cmpfloat_with_epsilon (script_number (script, "low"), 9.3 - 0.08 * 0.995, 1e-9);
  g_assert_cmpfloat_with_epsilon (script_number (script, "high"), 9.95 + 0.08 * 0.995, 1e-9);
  for (guint i = 0; i < 3; i++)
    {
      g_autofree char *block = g_strdup_printf ("series%u", i + 1);
      g_autoptr (GPtrArray) points = script_block (script, block);

      g_assert_cmpuint (points->len, ==, 1);
      g_assert_cmpfloat_with_epsilon (number_at (points, 0, 0), (double)near[i][1] / 1e3, 1e-9);
      g_assert_cmpfloat_with_epsilon (number_at (points, 0, 1), (double)near[i][0] / 1e3, 1e-9);
      /* Names from the top down, 16 pixels each, after their marks. */
      assert_near (number_at (names, i, 1), frame.top - 16 * i);
      assert_near (number_at (names, i, 5), number_at (names, i, 0) - 10);
      g_assert_cmpfloat (number_at (names, i, 5), >, frame.right + 10);
    }
  g_assert_cmpstr (word_at (names, 1, 2), ==, "gpipe on cpu");
}

/* A factor of eight is linear, with 8 % of the spread; more is logarithmic, with a factor of 1.3 at both ends. */
static void
test_accuracy_wide (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const gint64 eight[][2] = { { 16000000, 15000000 }, { 2000000, 3000000 } },
                      more[][2] = { { 16000001, 15000000 }, { 2000000, 3000000 } };
  g_autofree char *linear = draw_accuracy (fixture, "", eight, 2), *log = draw_accuracy (fixture, "", more, 2);

  g_assert_nonnull (strstr (linear, "\nis_log = 0\n"));
  g_assert_cmpfloat_with_epsilon (script_number (linear, "low"), 2 - 0.08 * 14, 1e-9);
  g_assert_cmpfloat_with_epsilon (script_number (linear, "high"), 16 + 0.08 * 14, 1e-9);
  g_assert_nonnull (strstr (log, "\nis_log = 1\n"));
  g_assert_cmpfloat_with_epsilon (script_number (log, "low") * 1.3, 2, 1e-9);
  g_assert_cmpfloat_with_epsilon (script_number (log, "high") / 1.3, 16.000001, 1e-9);
}

/* Losses */

/* The pieces of lines before the names, and the names after them. */
static void
check_line_names (const char *script, const double *ends, const double *heights, guint n)
{
  const Frame frame = frame_of (script);
  g_autoptr (GPtrArray) names = script_block (script, "names"), samples = script_block (script, "samples"),
                        leaders = script_block (script, "leaders");

  g_assert_cmpuint (names->len, ==, n);
  g_assert_cmpuint (samples->len, ==, 3 * n);
  g_assert_cmpuint (leaders->len, ==, 1 + n); /* one outside the picture */
  for (guint i = 0; i < n; i++)
    {
      double begin = number_at (samples, 3 * i, 0), end = number_at (samples, 3 * i + 1, 0);

      assert_near (number_at (names, i, 1), heights[i]);
      assert_near (number_at (samples, 3 * i, 1), heights[i]);
      assert_near (number_at (samples, 3 * i + 1, 1), heights[i]);
      assert_near (end - begin, 26);
      g_assert_cmpfloat (number_at (names, i, 0), >, end);
      assert_near (number_at (names, i, 5), (begin + end) / 2);
      /* The leader goes from the end of the line, right of the frame, to the sample. */
      g_assert_true (number_at (leaders, i + 1, 0) > frame.right && number_at (leaders, i + 1, 0) < begin);
      assert_near (number_at (leaders, i + 1, 1), ends[i]);
      assert_near (number_at (leaders, i + 1, 0) + number_at (leaders, i + 1, 2), begin);
      assert_near (number_at (leaders, i + 1, 1) + number_at (leaders, i + 1, 3), heights[i]);
      g_assert_cmpuint (g_ascii_strtoull (word_at (leaders, i + 1, 4), NULL, 10), ==,
                        g_ascii_strtoull (word_at (names, i, 3), NULL, 10));
    }
}

/* Losses from 2 to 6 with 5 % of air; the third file's name is beside the end of its line, at 4, those of the first and
 * the second, whose lines end at 2, 16 pixels apart, the last at the end. */
static void
test_loss (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  write_text (fixture, "a.csv", "step,loss\n0,6\n10,2\n");
  write_text (fixture, "b.csv", "loss,time,step\n5,1,0\n2,1,12\n");
  write_text (fixture, "a-file-with-quite-a-long-name.csv", "step,loss\n1,4\n");
  g_autofree char *script = plot (fixture, "loss a.csv b.csv a-file-with-quite-a-long-name.csv");
  g_autofree char *small = plot (fixture, "loss a-file-with-quite-a-long-name.csv b.csv a.csv --size 640x300");
  const Frame frame = frame_of (script);
  g_autoptr (GPtrArray) names = script_block (script, "names"), points = script_block (script, "series2");
  double low = script_number (script, "low"), high = script_number (script, "high");

  g_assert_cmpfloat_with_epsilon (low, 1.8, 1e-9);
  g_assert_cmpfloat_with_epsilon (high, 6.2, 1e-9);
  g_assert_cmpfloat (script_number (script, "last"), ==, 12);
  g_assert_cmpfloat (number_at (points, 1, 0), ==, 12);
  g_assert_cmpfloat (number_at (points, 1, 1), ==, 2);
  double two = height_of (&frame, 2, low, high, FALSE), four = height_of (&frame, 4, low, high, FALSE);
  /* 13 pixels above the axis: the second name is moved up to the axis' height, the first 16 more. */
  g_assert_cmpfloat (two, <, frame.bottom + 16);
  check_line_names (script, (double[]){ two, two, four }, (double[]){ frame.bottom + 16, frame.bottom, four }, 3);
  g_assert_cmpstr (word_at (names, 0, 2), ==, "a.csv");
  /* The longest name fits. */
  assert_near (frame.width - number_at (names, 0, 0), LETTER * strlen ("a-file-with-quite-a-long-name.csv") + 10);
  check_margins (script, small, 640, 300);
}

/* One step alone: an axis of some width and length. */
static void
test_loss_one (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  write_text (fixture, "a.csv", "step,loss\n0,3\n");
  g_autofree char *script = plot (fixture, "loss a.csv");
  const Frame frame = frame_of (script);
  double middle = (frame.bottom + frame.top) / 2;

  g_assert_cmpfloat (script_number (script, "last"), ==, 1);
  g_assert_cmpfloat_with_epsilon (script_number (script, "low"), 3 - 0.001, 1e-9);
  g_assert_cmpfloat_with_epsilon (script_number (script, "high"), 3 + 0.001, 1e-9);
  check_line_names (script, &middle, &middle, 1);
}

/* Eight names in a frame of 104 pixels are 13 apart, from axis to top. */
static void
test_crowded_names (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (GString) line = g_string_new ("loss --size 400x200");

  for (guint i = 0; i < 8; i++)
    {
      g_autofree char *name = g_strdup_printf ("%u.csv", i);

      write_text (fixture, name, i == 0 ? "step,loss\n0,1\n1,2\n" : "step,loss\n0,1\n1,1\n");
      g_string_append_printf (line, " %s", name);
    }
  g_autofree char *script = plot (fixture, line->str);
  const Frame frame = frame_of (script);
  g_autoptr (GPtrArray) names = script_block (script, "names");
  g_assert_cmpfloat (frame.top - frame.bottom, ==, 104);
  for (guint i = 1; i < 8; i++)
    assert_near (number_at (names, i, 1), frame.bottom + 13 * (7 - i));
  g_assert_cmpfloat (number_at (names, 0, 1), <=, frame.top);
}

static void
test_loss_refusals (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct
  {
    const char *text, *talk;
  } cases[] = {
    { "", "a.csv:1: has no columns 'step' and 'loss'; *" },
    { "step,los\n1,2\n", "a.csv:1: has no columns *" },
    { "loss\n2\n", "a.csv:1: has no columns *" },
    { "step,loss\n", "a.csv: no step has ended" },
    { "step,loss\n1,2\n2\n", "a.csv:3: step or loss is no number" },
    { "step,loss\n1,2\n2,3x\n", "a.csv:3: step or loss is no number" },
    { "step,loss\n1,\n", "a.csv:2: step or loss is no number" },
    { "step,loss\n1,nan\n", "a.csv:2: step or loss is no number" },
    { "step,loss\n1,1e15\n", "a.csv:2: step or loss is no number" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      write_text (fixture, "a.csv", cases[i].text);
      check_refused (fixture->folder, "pipesim-plot", "loss a.csv -o a.svg", 1, cases[i].talk);
    }
}

/* Sweeps */

static void
sweep_into (const Fixture *fixture, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename (fixture->folder, name, NULL);
  g_autoptr (PsSweep) sweep = fine (ps_sweep_parse ("spec", text, strlen (text), &error));
  g_autoptr (PsResults) results = fine (ps_results_open (path, PS_RESULTS_WRITE, &error));
  PsSweepRun run = { .n_jobs = 1, .shard = { 0, 1 } };
  PsSweepProgress progress;

  fine (ps_sweep_run (sweep, results, &run, &progress, &error));
}

/* On 4 devices, with 1 ms for F, B and W, m microbatches take (m + 3) 3 ms with 1F1B and GPipe, and 12 m ms with naive.
 */
static void
make_sweep (const Fixture *fixture)
{
  sweep_into (fixture, "r.db",
              "[sweep]\nschedule = 1f1b, gpipe, naive\ndevices = 4\nmicrobatches = 4..16 x2\n"
              "costs = f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB\n");
}

/* The sentence below the title: lines of at most the picture's width, 14 pixels apart, the frame 24 below the last. */
static void
check_about (const char *script, double gap)
{
  const Frame frame = frame_of (script);
  g_autoptr (GPtrArray) about = script_block (script, "about");

  g_assert_cmpuint (about->len, >=, 2);
  for (guint i = 1; i < about->len; i++)
    {
      g_assert_cmpfloat (number_at (about, i, 0), ==, frame.left);
      g_assert_cmpfloat (number_at (about, i, 1), ==, frame.height - 20 - 14 * i);
      if (strchr (word_at (about, i, 2), ' ') != NULL) /* a long word stands alone */
        g_assert_cmpuint (strlen (word_at (about, i, 2)), <=, (frame.width - frame.left) / LETTER);
      if (i > 1) /* the first word of a line had no room in the one above */
        g_assert_cmpuint (strlen (word_at (about, i - 1, 2)) + 1 + strcspn (word_at (about, i, 2), " "), >,
                          (guint)((frame.width - frame.left) / LETTER));
    }
  g_assert_cmpfloat (frame.top, ==, number_at (about, about->len - 1, 1) - gap);
}

static void
test_lines (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const double times[3][3] = { { 21, 33, 57 }, { 21, 33, 57 }, { 48, 96, 192 } };
  static const char *const schedules[] = { "1f1b", "gpipe", "naive" };

  make_sweep (fixture);
  g_autofree char *script = plot (fixture, "sweep r.db --x microbatches --y iteration_ns --series schedule --log none");
  g_autofree char *small
      = plot (fixture, "sweep r.db --x microbatches --y iteration_ns --series schedule --log xy --size 500x640");
  g_autofree char *own = plot (fixture, "sweep r.db --x microbatches --y iteration_ns --series schedule");
  g_autofree char *y_label = script_text (script, "y_label");
  const Frame frame = frame_of (script);
  g_autoptr (GPtrArray) names = script_block (script, "names");
  double high = script_number (script, "y_high"), low = script_number (small, "y_low");

  for (guint i = 0; i < 3; i++)
    {
      g_autofree char *block = g_strdup_printf ("series%u", i + 1);
      g_autoptr (GPtrArray) points = script_block (script, block);

      g_assert_cmpstr (word_at (names, i, 2), ==, schedules[i]);
      for (guint k = 0; k < 3; k++)
        {
          g_assert_cmpfloat (number_at (points, k, 0), ==, 4 << k);
          g_assert_cmpfloat (number_at (points, k, 1), ==, times[i][k]);
          g_assert_cmpfloat (script_element (script, "tick", k + 1), ==, 4 << k);
        }
    }
  g_assert_cmpstr (y_label, ==, "iteration time (ms)");
  g_assert_cmpfloat (script_number (script, "n_ticks"), ==, 3);
  g_assert_cmpfloat (script_number (script, "with_leaders"), ==, 1);
  check_about (script, 24);
  check_about (small, 24);
  /* Linear: 1 % of air at both ends, and from 0 to 4 % above all. */
  g_assert_cmpfloat_with_epsilon (script_number (script, "x_low"), 4 - 0.12, 1e-9);
  g_assert_cmpfloat_with_epsilon (script_number (script, "x_high"), 16 + 0.12, 1e-9);
  g_assert_cmpfloat (script_number (script, "y_low"), ==, 0);
  g_assert_cmpfloat_with_epsilon (high, 1.04 * 192, 1e-9);
  /* Two lines end at one place: the first has it, the second the next below. */
  double same = height_of (&frame, 57, 0, high, FALSE), above = height_of (&frame, 192, 0, high, FALSE);
  check_line_names (script, (double[]){ same, same, above }, (double[]){ same, same - 16, above }, 3);
  /* Logarithmic: the same parts of the logarithms. */
  const Frame other = frame_of (small);
  g_assert_nonnull (strstr (small, "\nx_log = 1\ny_log = 1\n"));
  g_assert_cmpfloat_with_epsilon (script_number (small, "x_low"), 4 / pow (4, 0.01), 1e-9);
  g_assert_cmpfloat_with_epsilon (script_number (small, "x_high"), 16 * pow (4, 0.01), 1e-9);
  g_assert_cmpfloat_with_epsilon (low, 21 / pow (192 / 21.0, 0.04), 1e-9);
  high = script_number (small, "y_high");
  g_assert_cmpfloat_with_epsilon (high, 192 * pow (192 / 21.0, 0.04), 1e-9);
  same = height_of (&other, 57, low, high, TRUE);
  above = height_of (&other, 192, low, high, TRUE);
  check_line_names (small, (double[]){ same, same, above }, (double[]){ same, same - 16, above }, 3);
  /* By itself: 192 are more than 8 x 21; 16 are not more than 8 x 4, nor than 3 x 8, the median. */
  g_assert_nonnull (strstr (own, "\nx_log = 0\ny_log = 1\n"));
  g_assert_cmpfloat (frame.width, ==, 1000);
  g_assert_cmpfloat (frame.height, ==, 560);
}

/* The same values in all rows: an axis of some width around them, above 0 or at 0. One series without a name. */
static void
test_lines_flat (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "one.db",
              "[sweep]\nschedule = 1f1b\ndevices = 1\nmicrobatches = 4\ncosts = f=1ms,b=1ms,w=1ms\n");
  g_autofree char *script = plot (fixture, "sweep one.db --x microbatches --y bubble_ratio");
  g_autoptr (GPtrArray) names = script_block (script, "names");
  const Frame frame = frame_of (script);

  g_assert_cmpfloat_with_epsilon (script_number (script, "x_low"), 3.8, 1e-9);
  g_assert_cmpfloat_with_epsilon (script_number (script, "x_high"), 4.2, 1e-9);
  g_assert_cmpfloat (script_number (script, "y_low"), ==, 0);
  g_assert_cmpfloat_with_epsilon (script_number (script, "y_high"), 1.04, 1e-9);
  g_assert_cmpstr (word_at (names, 0, 2), ==, "");
  g_assert_cmpfloat (number_at (names, 0, 1), <, 0);
  g_assert_cmpfloat (frame.right, ==, frame.width - 30);
  g_assert_cmpfloat (script_number (script, "with_leaders"), ==, 0);
}

/* Ticks in order, each once, though the first line has the largest x alone. */
static void
test_tick_order (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "z.db",
              "[sweep]\ndevices = 4\ncosts = f=1ms,b=1ms,w=1ms\n[zip size]\nmicrobatches = 16, 4, 8, 12\n"
              "schedule = 1f1b, gpipe, naive, zb-h1\n");
  g_autofree char *script = plot (fixture, "sweep z.db --x microbatches --y bubble_ratio --series schedule");

  g_assert_cmpfloat (script_number (script, "n_ticks"), ==, 4);
  for (guint i = 1; i <= 4; i++)
    g_assert_cmpfloat (script_element (script, "tick", i), ==, 4 * i);
}

/* The sentence below the title at every width: no line is longer than the picture, or shorter than it may be. */
static void
test_about (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  make_sweep (fixture);
  for (guint width = 300; width < 400; width += 7) /* a letter more at each */
    {
      g_autofree char *line
          = g_strdup_printf ("sweep r.db --x microbatches --y iteration_ns --series schedule --size %ux400", width);
      g_autofree char *script = plot (fixture, line);

      check_about (script, 24);
    }
}

/* More x than can be named are numbered by gnuplot. */
static void
test_ticks (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  for (guint n = 14; n <= 15; n++)
    {
      g_autofree char *name = g_strdup_printf ("%u.db", n), *line = NULL, *script = NULL;
      g_autoptr (GString) spec = g_string_new ("[sweep]\nschedule = gpipe\ndevices = 2\ncosts = f=1ms,b=1ms,w=1ms\n");

      for (guint m = 1; m <= n; m++)
        g_string_append_printf (spec, "%s%u", m == 1 ? "microbatches = " : ", ", m);
      g_string_append_c (spec, '\n');
      sweep_into (fixture, name, spec->str);
      line = g_strdup_printf ("sweep %s --x microbatches --y bubble_ratio", name);
      script = plot (fixture, line);
      g_assert_cmpfloat (script_number (script, "n_ticks"), ==, n == 14 ? 14 : 0);
      if (n == 14)
        g_assert_cmpfloat (script_element (script, "tick", 14), ==, 14);
    }
}

/* A front is each setting that is faster than all with less memory; its name is beside its first place. */
static void
test_front (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "f.db",
              "[sweep]\nschedule = 1f1b, gpipe, naive, zb-h1, zb-h2\ndevices = 2, 4\nmicrobatches = 8\n"
              "costs = f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB\n");
  g_autofree char *script = plot (fixture, "sweep f.db --pareto --log none"),
                  *x_label = script_text (script, "x_label");
  g_autofree char *logs = plot (fixture, "sweep f.db --pareto --log xy");
  g_autoptr (GPtrArray) fronts = script_block (script, "front_names");
  const Frame frame = frame_of (script);
  double x_low = script_number (script, "x_low"), x_high = script_number (script, "x_high"),
         y_low = script_number (script, "y_low"), y_high = script_number (script, "y_high"), least = INFINITY, most = 0,
         fastest = INFINITY, slowest = 0;
  guint n_points = 0;

  g_assert_cmpstr (x_label, ==, "peak memory (MiB)");
  g_assert_cmpfloat (script_number (script, "n_fronts"), ==, 2);
  g_assert_cmpfloat (script_number (script, "n_series"), ==, 5);
  for (guint front = 1; front <= 2; front++)
    {
      g_autofree char *name = g_strdup_printf ("front%u", front), *text = g_strdup_printf ("%u devices", 2 * front);
      g_autoptr (GPtrArray) places = script_block (script, name);
      guint found = 0;

      for (guint i = 1; i < places->len; i++)
        {
          g_assert_cmpfloat (number_at (places, i, 0), >, number_at (places, i - 1, 0));
          g_assert_cmpfloat (number_at (places, i, 1), <, number_at (places, i - 1, 1));
        }
      for (guint series = 1; series <= 5; series++)
        {
          g_autofree char *block = g_strdup_printf ("series%u", series);
          g_autoptr (GPtrArray) points = script_block (script, block);

          g_assert_cmpuint (points->len, ==, 2);
          for (guint i = 0; i < 2; i++)
            {
              least = MIN (least, number_at (points, i, 0));
              most = MAX (most, number_at (points, i, 0));
              fastest = MIN (fastest, number_at (points, i, 1));
              slowest = MAX (slowest, number_at (points, i, 1));
              n_points++;
              for (guint k = 0; k < places->len; k++)
                found += g_str_equal (word_at (places, k, 0), word_at (points, i, 0))
                         && g_str_equal (word_at (places, k, 1), word_at (points, i, 1));
            }
        }
      g_assert_cmpuint (found, >=, places->len); /* each place is a point */
      g_assert_true (g_str_has_prefix (word_at (fronts, front - 1, 2), text));
      assert_near (number_at (fronts, front - 1, 0),
                   frame.left + 5 + (number_at (places, 0, 0) - x_low) / (x_high - x_low) * (frame.right - frame.left));
      assert_near (number_at (fronts, front - 1, 1),
                   8 + height_of (&frame, number_at (places, 0, 1), y_low, y_high, FALSE));
    }
  g_assert_cmpuint (n_points, ==, 2 * 10);
  g_assert_cmpfloat_with_epsilon (x_low, least - 0.06 * (most - least), 1e-6);
  g_assert_cmpfloat_with_epsilon (x_high, most + 0.06 * (most - least), 1e-6);
  g_assert_cmpfloat_with_epsilon (y_low, fastest - 0.06 * (slowest - fastest), 1e-6);
  g_assert_cmpfloat_with_epsilon (y_high, slowest + 0.06 * (slowest - fastest), 1e-6);
  g_assert_cmpfloat_with_epsilon (script_number (logs, "x_low") * pow (most / least, 0.06), least, 1e-6);
  g_assert_cmpfloat_with_epsilon (script_number (logs, "x_high") / pow (most / least, 0.06), most, 1e-6);
  check_about (script, 24);
}

static double
round_of (double value)
{
  return floor (value + 0.5);
}

/* Names of fronts that begin at nearly the same place are at least 13 pixels apart, and inside the frame. */
static void
test_front_names (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "n.db",
              "[sweep]\nschedule = naive, 1f1b\ndevices = 2\nmicrobatches = 2, 4, 8, 16, 32, 64\n"
              "costs = f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB\n");
  g_autofree char *script = plot (fixture, "sweep n.db --pareto --log none");
  g_autofree char *other = plot (fixture, "sweep n.db --pareto --by iteration_ns --log none");
  for (guint round = 0; round < 2; round++)
    {
      const char *text = round ? other : script;
      const Frame frame = frame_of (text);
      g_autoptr (GPtrArray) names = script_block (text, "front_names");
      guint n_own = 0;

      g_assert_cmpuint (names->len, ==, 6);
      for (guint i = 0; i < 6; i++)
        {
          g_autofree char *block = g_strdup_printf ("front%u", i + 1);
          g_autoptr (GPtrArray) front = script_block (text, block);
          double own = 8
                       + height_of (&frame, number_at (front, 0, 1), script_number (text, "y_low"),
                                    script_number (text, "y_high"), FALSE);
          double at = number_at (names, i, 1), offset = at - own;
          /* At its place, or whole steps of 13 above it, or above a place 16 below it. */
          double steps_up = offset / 13, steps_down = (-offset - 16) / 13;

          n_own += ABS (offset) < 0.06;
          g_assert_true ((offset > -0.06 && ABS (steps_up - round_of (steps_up)) < 0.01)
                         || (offset < -15.9 && ABS (steps_down - round_of (steps_down)) < 0.01));
          for (guint k = 0; k < i; k++) /* all begin at the same x */
            g_assert_cmpfloat (ABS (number_at (names, k, 1) - at), >=, 12.9);
        }
      g_assert_cmpuint (n_own, >=, 1);
    }
}

/* On 2 devices 8 microbatches of 3 ms take 27 ms with 1F1B (8 + 2 - 1 turns) and each holds 2 activations of 2 MiB;
 * GPipe holds 8 in the same time, naive 1 in 48 ms: so the front is naive and 1F1B. */
static void
test_front_figures (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "g.db",
              "[sweep]\nschedule = 1f1b, gpipe, naive\ndevices = 2\nmicrobatches = 8\n"
              "costs = f=1ms,b=1ms,w=1ms,act=2MiB\n");
  g_autofree char *script = plot (fixture, "sweep g.db --pareto --by iteration_ns");
  g_autoptr (GPtrArray) front = script_block (script, "front1");

  g_assert_cmpuint (front->len, ==, 2);
  g_assert_cmpfloat (number_at (front, 0, 0), ==, 2);
  g_assert_cmpfloat (number_at (front, 0, 1), ==, 48);
  g_assert_cmpfloat (number_at (front, 1, 0), ==, 4);
  g_assert_cmpfloat (number_at (front, 1, 1), ==, 27);
}

/* Maps */

static void
check_box (const GPtrArray *boxes, guint row, double left, double right, double bottom, double top)
{
  assert_near (number_at (boxes, row, 0), (left + right) / 2);
  assert_near (number_at (boxes, row, 1), (bottom + top) / 2);
  assert_near (number_at (boxes, row, 2), left);
  assert_near (number_at (boxes, row, 3), right);
  assert_near (number_at (boxes, row, 4), bottom);
  assert_near (number_at (boxes, row, 5), top);
}

/* 21, 33 and 57 ms with 4, 8 and 16 microbatches at two bandwidths: the least is the scale's darkest colour, the most
 * its lightest, 33 a third of the way: shade 85 of 255, a third of the way from the second of five colours, 3b528b, to
 * the third, 21918c, each channel to the nearest number: 32, 67, 8b. */
static void
test_heat (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const guint32 colours[] = { 0x440154, 0x32678b, 0xe8cf20 };
  static const char *const numbers[] = { "21", "33", "57" }, *const scale[] = { "21", "30", "39", "48", "57" };

  sweep_into (fixture, "h.db",
              "[sweep]\nschedule = 1f1b\ndevices = 4\nmicrobatches = 4..16 x2\nbandwidth-factor = 0.5, 1\n"
              "costs = f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB\n");
  g_autofree char *script = plot (fixture, "sweep h.db --x bandwidth_factor --y microbatches --heat iteration_ns");
  g_autofree char *small
      = plot (fixture, "sweep h.db --x bandwidth_factor --y microbatches --heat iteration_ns --size 310x200");
  g_autofree char *label = script_text (script, "heat_label");
  g_autoptr (GPtrArray) cells = script_block (script, "cells"), texts = script_block (script, "texts"),
                        x = script_block (script, "x_ticks"), y = script_block (script, "y_ticks"),
                        boxes = script_block (script, "scale"), values = script_block (script, "scale_texts"),
                        few = script_block (small, "texts");
  const Frame frame = frame_of (script);
  double wide = (frame.right - frame.left) / 2, high = (frame.top - frame.bottom) / 3;

  g_assert_cmpstr (label, ==, "iteration time (ms)");
  g_assert_cmpuint (cells->len, ==, 6);
  g_assert_cmpuint (texts->len, ==, 1 + 6);
  for (guint row = 0; row < 6; row++)
    {
      guint i = number_at (cells, row, 0) > frame.left + wide;
      guint k = (guint)((number_at (cells, row, 1) - frame.bottom) / high);
      double left = frame.left + i * wide, bottom = frame.bottom + k * high;

      check_box (cells, row, left + 0.5, left + wide - 0.5, bottom + 0.5, bottom + high - 0.5);
      g_assert_cmphex ((guint64)number_at (cells, row, 6), ==, colours[k]);
      assert_near (number_at (texts, row + 1, 0), left + wide / 2);
      assert_near (number_at (texts, row + 1, 1), bottom + high / 2);
      g_assert_cmpstr (word_at (texts, row + 1, 2), ==, numbers[k]);
      /* White on dark, black on light. */
      g_assert_cmphex ((guint64)number_at (texts, row + 1, 3), ==, k == 2 ? 0 : 0xffffff);
    }
  for (guint i = 0; i < 2; i++)
    {
      assert_near (number_at (x, i, 0), frame.left + (i + 0.5) * wide);
      g_assert_cmpfloat (number_at (x, i, 1), <, frame.bottom - 6);
      g_assert_cmpstr (word_at (x, i, 2), ==, i ? "1" : "0.5");
    }
  for (guint k = 0; k < 3; k++)
    {
      assert_near (number_at (y, k, 1), frame.bottom + (k + 0.5) * high);
      g_assert_cmpfloat (number_at (y, k, 0), <, frame.left);
      g_assert_cmpfloat (g_ascii_strtod (word_at (y, k, 2), NULL), ==, 4 << k);
    }
  /* The scale: 64 steps from bottom to top, each under the next; five values along them. */
  g_assert_cmpuint (boxes->len, ==, 64);
  for (guint i = 0; i < 64; i++)
    check_box (boxes, i, frame.right + 24, frame.right + 40, frame.bottom + i * (frame.top - frame.bottom) / 64,
               frame.bottom + MIN (i + 2, 64) * (frame.top - frame.bottom) / 64);
  g_assert_cmphex ((guint64)number_at (boxes, 0, 6), ==, 0x440154);
  g_assert_cmphex ((guint64)number_at (boxes, 63, 6), ==, 0xe8cf20);
  for (guint i = 0; i < 5; i++)
    {
      assert_near (number_at (values, i, 1), frame.bottom + i * (frame.top - frame.bottom) / 4);
      g_assert_cmpfloat (number_at (values, i, 0), >, frame.right + 40);
      g_assert_cmpstr (word_at (values, i, 2), ==, scale[i]);
    }
  g_assert_cmpuint (few->len, ==, 1);
  /* Texts of two letters want more than 18 pixels, and 13 of height; boxes are a half or a third of the frame. */
  static const struct
  {
    guint width, height;
    gboolean fits;
  } sizes[] = { { 280 + 36, 560, FALSE }, { 280 + 37, 560, TRUE }, { 280 + 38, 560, TRUE } };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autofree char *line
          = g_strdup_printf ("sweep h.db --x bandwidth_factor --y microbatches --heat iteration_ns --size %ux%u",
                             sizes[i].width, sizes[i].height);
      g_autofree char *drawn = plot (fixture, line);
      g_autoptr (GPtrArray) shown = script_block (drawn, "texts");

      g_assert_cmpuint (shown->len, ==, sizes[i].fits ? 7 : 1);
    }
  for (guint height = 203; height < 219; height++)
    {
      g_autofree char *line = g_strdup_printf (
          "sweep h.db --x bandwidth_factor --y microbatches --heat iteration_ns --size 900x%u", height);
      g_autofree char *drawn = plot (fixture, line);
      g_autoptr (GPtrArray) shown = script_block (drawn, "texts");
      const Frame low = frame_of (drawn);

      g_assert_cmpuint (shown->len, ==, (low.top - low.bottom) / 3 > 13 ? 7 : 1);
    }
  check_about (script, 44);
}

/* Sizes count in their own unit: 4 activations of 2 GiB, as 1F1B holds them on the first of 4 devices, and the same
 * value in all boxes is at the scale's dark end. */
static void
test_heat_sizes (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "s.db",
              "[sweep]\nschedule = 1f1b\ndevices = 4\nmicrobatches = 4, 8\ncosts = f=1ms,b=1ms,w=1ms,act=2GiB\n");
  g_autofree char *script = plot (fixture, "sweep s.db --x microbatches --y devices --heat peak_memory_bytes");
  g_autoptr (GPtrArray) cells = script_block (script, "cells"), texts = script_block (script, "texts");
  g_autofree char *label = script_text (script, "heat_label");

  g_assert_cmpstr (label, ==, "peak memory (GiB)");
  for (guint i = 0; i < 2; i++)
    {
      g_assert_cmpstr (word_at (texts, i + 1, 2), ==, "8");
      g_assert_cmphex ((guint64)number_at (cells, i, 6), ==, 0x440154);
    }
}

/* Ticks of a map with many values: every n-th, with the smallest n that leaves room, 44 pixels across and 15 up. */
static void
test_heat_ticks (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (GString) spec = g_string_new ("[sweep]\nschedule = gpipe\ndevices = 2, 4\ncosts = f=1ms,b=1ms,w=1ms\n");

  for (guint m = 1; m <= 30; m++)
    g_string_append_printf (spec, "%s%u", m == 1 ? "microbatches = " : ", ", m);
  g_string_append_c (spec, '\n');
  sweep_into (fixture, "t.db", spec->str);
  g_autofree char *across
      = plot (fixture, "sweep t.db --x microbatches --y devices --heat bubble_ratio --size 700x300");
  g_autofree char *up = plot (fixture, "sweep t.db --x devices --y microbatches --heat bubble_ratio --size 700x300");
  const Frame a = frame_of (across), b = frame_of (up);
  g_autoptr (GPtrArray) x = script_block (across, "x_ticks"), y = script_block (up, "y_ticks");
  double cell = (a.right - a.left) / 30, row = (b.top - b.bottom) / 30;
  guint step_x = (guint)ceil (44 / cell), step_y = (guint)ceil (15 / row);

  g_assert_true (step_x > 1 && step_y > 1);
  g_assert_cmpuint (x->len, ==, (30 + step_x - 1) / step_x);
  g_assert_cmpuint (y->len, ==, (30 + step_y - 1) / step_y);
  g_assert_cmpfloat (g_ascii_strtod (word_at (x, 1, 2), NULL), ==, 1 + step_x);
  g_assert_cmpfloat (g_ascii_strtod (word_at (y, 1, 2), NULL), ==, 1 + step_y);
  assert_near (number_at (x, 1, 0) - number_at (x, 0, 0), step_x * cell);
  assert_near (number_at (y, 1, 1) - number_at (y, 0, 1), step_y * row);
}

/* Words: one box of the legend below the other, in the colours of the boxes on the map, from the top down. */
static void
test_heat_words (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "w.db",
              "[sweep]\ndevices = 4\nbandwidth-factor = 0.5, 1\ncosts = f=1ms,b=1ms,w=1ms,act=2MiB\n[zip size]\n"
              "microbatches = 4, 8\nschedule = 1f1b, zb-h1\n");
  g_autofree char *script = plot (fixture, "sweep w.db --x bandwidth_factor --y microbatches --heat schedule");
  g_autofree char *label = script_text (script, "heat_label"), *title = script_text (script, "title");
  g_autoptr (GPtrArray) cells = script_block (script, "cells"), boxes = script_block (script, "scale"),
                        names = script_block (script, "scale_texts");
  const Frame frame = frame_of (script);

  g_assert_cmpstr (label, ==, "schedule");
  g_assert_cmpstr (title, ==, "simulated: schedule of the fastest setting");
  g_assert_cmpuint (boxes->len, ==, 2);
  for (guint i = 0; i < 2; i++)
    {
      double y = number_at (names, i, 1);

      check_box (boxes, i, frame.right + 24, frame.right + 36, y - 6, y + 6);
      g_assert_cmpfloat (number_at (names, i, 0), >, frame.right + 36);
      g_assert_cmpstr (word_at (names, i, 2), ==, i ? "zb-h1" : "1f1b");
    }
  g_assert_cmpuint (cells->len, ==, 4);
  for (guint row = 0; row < 4; row++)
    g_assert_cmpstr (word_at (cells, row, 6), ==,
                     word_at (boxes, number_at (cells, row, 1) > (frame.bottom + frame.top) / 2, 6));
  assert_near (number_at (names, 0, 1), frame.top - 8);
  assert_near (number_at (names, 1, 1), frame.top - 25);
}

/* Timelines */

static PsTimeline *
fixture_timeline (const char *name)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fixtures", name, NULL), *text = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  return fine (ps_timeline_parse_json (path, text, -1, &error));
}

static guint
block_count (const char *script, const char *name, guint panel)
{
  return (guint)script_element (script, name, panel);
}

/* Every op a box around its device's row, in us, with its microbatch in the middle; every transfer a line from the edge
 * of one row to the near edge of the other. */
static void
check_panel (const char *script, const PsTimeline *timeline, guint panel)
{
  g_autofree char *boxes_name = g_strdup_printf ("boxes%u", panel),
                  *numbers_name = g_strdup_printf ("numbers%u", panel);
  g_autofree char *forward_name = g_strdup_printf ("activations%u", panel),
                  *backward_name = g_strdup_printf ("gradients%u", panel);
  g_autoptr (GPtrArray) boxes = script_block (script, boxes_name), numbers = script_block (script, numbers_name);
  g_autoptr (GPtrArray) activations = script_block (script, forward_name),
                        gradients = script_block (script, backward_name);
  GPtrArray *const lines[] = { activations, gradients };
  guint n[] = { 1, 1 }, k = 0;

  g_assert_cmpuint (boxes->len, ==, timeline->ops->len);
  for (guint i = 0; i < timeline->ops->len; i++)
    {
      const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);
      double left = (double)span->start_ns / 1e3, right = (double)span->end_ns / 1e3;
      double pixels = (double)(span->end_ns - span->start_ns) * (1200 - 74 - 18) / 100;

      g_assert_cmpfloat_with_epsilon (number_at (boxes, i, 0), (left + right) / 2, 1e-9);
      g_assert_cmpfloat_with_epsilon (number_at (boxes, i, 1), span->device, 1e-9);
      g_assert_cmpfloat_with_epsilon (number_at (boxes, i, 2), left, 1e-9);
      g_assert_cmpfloat_with_epsilon (number_at (boxes, i, 3), right, 1e-9);
      g_assert_cmpfloat_with_epsilon (number_at (boxes, i, 4), span->device - 0.46, 1e-9);
      g_assert_cmpfloat_with_epsilon (number_at (boxes, i, 5), span->device + 0.46, 1e-9);
      g_assert_cmphex ((guint64)number_at (boxes, i, 6), ==, ps_plot_op_colour (span->op.kind, 0, 1));
      if (span->op.kind == PS_OP_O || pixels < 5.9 + 3)
        continue;
      g_assert_cmpfloat_with_epsilon (number_at (numbers, k, 0), (left + right) / 2, 1e-9);
      g_assert_cmpfloat (number_at (numbers, k, 1), ==, span->device);
      g_assert_cmpuint (g_ascii_strtoull (word_at (numbers, k++, 2), NULL, 10), ==, span->op.microbatch);
    }
  g_assert_cmpuint (numbers->len, ==, k);
  g_assert_cmpuint (block_count (script, "n_numbers", panel), ==, k);
  g_assert_cmpuint (block_count (script, "n_transfers", panel), ==, timeline->transfers->len);
  for (guint i = 0; i < timeline->transfers->len; i++)
    {
      const PsSpan *span = &g_array_index (timeline->transfers, PsSpan, i);
      guint way = span->op.kind != PS_OP_F, row = 3 * n[way]++;
      double down = span->peer > span->device ? 0.46 : -0.46;

      g_assert_cmpfloat_with_epsilon (number_at (lines[way], row, 0), (double)span->start_ns / 1e3, 1e-9);
      g_assert_cmpfloat_with_epsilon (number_at (lines[way], row, 1), span->device + down, 1e-9);
      g_assert_cmpfloat_with_epsilon (number_at (lines[way], row + 1, 0), (double)span->end_ns / 1e3, 1e-9);
      g_assert_cmpfloat_with_epsilon (number_at (lines[way], row + 1, 1), span->peer - down, 1e-9);
    }
  g_assert_cmpuint (lines[0]->len + lines[1]->len, ==, 3 * (n[0] + n[1]));
}

/* Rows of `row` pixels below each caption of 24, the memory's strip below the rows, 10 pixels to the next, and the
 * axis' 34 at the foot. */
static void
check_panels (const char *script, guint n_panels, const guint *n_devices, double row)
{
  double y = script_number (script, "height") - 62, strip = script_number (script, "strip"),
         gap = script_number (script, "strip_gap");

  g_assert_cmpfloat (script_number (script, "panels"), ==, n_panels);
  for (guint i = 0; i < n_panels; i++)
    {
      assert_near (script_element (script, "rows_top", i + 1), y - 24);
      assert_near (script_element (script, "rows_bottom", i + 1), y - 24 - row * n_devices[i]);
      g_assert_cmpuint (block_count (script, "devices", i + 1), ==, n_devices[i]);
      y -= 24 + row * n_devices[i] + 10 + (script_element (script, "has_memory", i + 1) > 0 ? gap + strip : 0);
    }
  assert_near (y, 34);
}

/* The measured run above the predicted one: 100 ns of ops take the width of 1108 pixels. */
static void
test_timeline (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (PsTimeline) measured = fixture_timeline ("timeline-measured.json"),
                         predicted = fixture_timeline ("timeline-predicted.json");

  /* The last op ends at 100, so that a pixel is a round number. */
  g_array_index (measured->ops, PsSpan, 6).end_ns = 100;
  g_autofree char *json = ps_timeline_to_json (measured), *script = NULL, *high = NULL, *label = NULL, *unit = NULL;
  write_text (fixture, "m.json", json);
  script = plot (fixture, "timeline m.json '%P' --transfers");
  high = plot (fixture, "timeline m.json '%P' --size 800x700");
  check_panel (script, measured, 1);
  check_panel (script, predicted, 2);
  check_panels (script, 2, (guint[]){ 2, 2 }, 30);
  check_panels (high, 2, (guint[]){ 2, 2 }, (700 - 62 - 34 - 2 * (24 + 10 + 7 + 80)) / 4.0);
  g_assert_cmpfloat (script_number (script, "width"), ==, 1200);
  g_assert_cmpfloat (script_number (high, "width"), ==, 800);
  g_assert_cmpfloat (script_number (script, "right") - script_number (script, "left"), ==, 1200 - 74 - 18);
  g_assert_cmpfloat_with_epsilon (script_number (script, "time_end"), 0.1, 1e-9);
  label = script_text (script, "time_label");
  g_assert_cmpstr (label, ==, "time (us)");
  /* 0.1 in about twelve steps: 0.0083 is nearest to 0.01. */
  g_assert_cmpfloat_with_epsilon (script_number (script, "time_tick"), 0.01, 1e-9);
  /* Memory from 1000 to 1600 B on an axis that begins below the least, as that is more than a third of the most. */
  unit = script_text (script, "memory_unit");
  g_assert_cmpstr (unit, ==, "B");
  g_assert_cmpfloat_with_epsilon (script_number (script, "memory_bottom"), 1000 - 60, 1e-9);
  g_assert_cmpfloat_with_epsilon (script_number (script, "memory_top"), 1600 + 66, 1e-9);
}

/* A chip in the colour of each device's memory, left of its row's middle; a swatch for each kind, above. */
static void
test_legend (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W };
  g_autofree char *script = plot (fixture, "timeline '%P'");
  g_autoptr (GPtrArray) legend = script_block (script, "legend"), labels = script_block (script, "legend_labels");
  double left = script_number (script, "left"), height = script_number (script, "height"), x = left;

  g_assert_cmpuint (legend->len, ==, 3 + 2);
  g_assert_cmpuint (labels->len, ==, 3);
  for (guint i = 0; i < 3; i++)
    {
      const char *label = ps_plot_kind_label (kinds[i]);

      g_assert_cmphex ((guint64)number_at (legend, i, 6), ==, ps_plot_op_colour (kinds[i], 0, 1));
      check_box (legend, i, x, x + 15, height - 51, height - 39);
      g_assert_cmpstr (word_at (labels, i, 2), ==, label);
      assert_near (number_at (labels, i, 0), x + 16 + 4);
      assert_near (number_at (labels, i, 1), height - 45);
      x += 16 + 22 + 5.6 * (double)strlen (label);
    }
  for (guint d = 0; d < 2; d++)
    {
      double middle = script_element (script, "rows_top", 1) - 30 * (d + 0.5);

      check_box (legend, 3 + d, left - 8, left - 4, middle - 5, middle + 5);
      g_assert_cmphex ((guint64)number_at (legend, 3 + d, 6), ==, d ? 0xe8cf20 : 0x440154);
    }
}

/* Rows of 64 devices are 7 pixels high: every second one is numbered, and no box. */
static void
test_rows (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct
  {
    guint n_devices;
    double row;
    guint tick;
  } cases[] = { { 8, 30, 1 }, { 9, 22, 1 }, { 16, 22, 1 }, { 17, 448.0 / 17, 1 }, { 64, 7, 2 }, { 128, 4, 4 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      guint n = cases[i].n_devices;
      g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "wide", n, n, 1);

      for (guint d = 0; d < n; d++)
        {
          PsSpan span = { .op = { .stage = (guint16)d }, .end_ns = 1000, .device = (guint16)d, .peer = (guint16)d };

          g_array_append_val (timeline->ops, span);
        }
      g_autofree char *json = ps_timeline_to_json (timeline), *script = NULL;
      write_text (fixture, "w.json", json);
      script = plot (fixture, "timeline w.json");
      check_panels (script, 1, &n, cases[i].row);
      g_assert_cmpuint (block_count (script, "device_tick", 1), ==, cases[i].tick);
      /* 0.92 of a row must hold 11 pixels. */
      g_assert_cmpuint (block_count (script, "n_numbers", 1), ==, 0.92 * cases[i].row >= 11 ? n : 0);
      g_assert_cmpuint (block_count (script, "n_outlined", 1), ==, n);
    }
}

/* Memory pictures: both timelines on the same axes, 8 % above the most or the limit. */
static void
test_memory_places (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *script = plot (fixture, "memory '%M' '%P'"),
                  *limit = plot (fixture, "memory '%P' --memory-limit 2KiB");
  g_autofree char *high = plot (fixture, "memory '%P' '%M' --size 900x500"), *label = script_text (limit, "size_label");
  g_autoptr (GPtrArray) names = script_block (script, "names"), curve = script_block (script, "memory1");
  const double right = script_number (script, "right"), width = script_number (script, "width");
  static const double first[][2] = { { 0, 1000 },    { 0, 1000 },    { 0, 1250 },    { 0.02, 1250 },
                                     { 0.02, 1600 }, { 0.09, 1600 }, { 0.09, 1000 }, { 0.096, 1000 } };

  g_assert_cmpfloat (script_number (script, "size_top"), ==, 1600 * 1.08);
  g_assert_cmpfloat (script_number (script, "limit"), ==, 0);
  g_assert_cmpfloat (script_number (limit, "limit"), ==, 2);
  g_assert_cmpfloat (script_number (limit, "size_top"), ==, 2 * 1.08);
  g_assert_cmpstr (label, ==, "memory (KiB)");
  g_assert_cmpfloat_with_epsilon (script_number (script, "time_end"), 0.096, 1e-9);
  g_assert_cmpfloat_with_epsilon (script_number (script, "time_tick"), 0.01, 1e-9);
  g_assert_cmpfloat (script_number (script, "size_tick"), ==, 200); /* 1600 in six steps of 267: 2 is nearest */
  /* What the devices hold before their first op. */
  g_assert_cmpfloat (script_element (script, "weights_low", 1), ==, 1000);
  g_assert_cmpfloat (script_element (script, "weights_high", 1), ==, 1000);
  for (guint i = 0; i < G_N_ELEMENTS (first); i++)
    {
      g_assert_cmpfloat_with_epsilon (number_at (curve, i, 0), first[i][0], 1e-9);
      g_assert_cmpfloat (number_at (curve, i, 1), ==, first[i][1]);
    }
  g_assert_cmpuint (names->len, ==, 4);
  for (guint i = 0; i < 2; i++)
    {
      double top = script_element (script, "panel_top", i + 1), bottom = script_element (script, "panel_bottom", i + 1);

      g_assert_cmpfloat (top - bottom, ==, 300);
      for (guint d = 0; d < 2; d++)
        {
          assert_near (number_at (names, 2 * i + d, 1), top - 8 - 16 * d);
          g_assert_cmpfloat (number_at (names, 2 * i + d, 0), ==, right + 30);
          g_assert_cmpstr (word_at (names, 2 * i + d, 2), ==, d ? "device 1" : "device 0");
        }
    }
  g_assert_cmpfloat (right, ==, width - 130);
  for (guint i = 0; i < 2; i++) /* captions of 24 and gaps of 14 between panels; the axis at the foot */
    {
      const char *text = i ? high : script;

      assert_near (script_element (text, "panel_top", 1), script_number (text, "height") - 40 - 24);
      assert_near (script_element (text, "panel_bottom", 1) - script_element (text, "panel_top", 2), 24 + 14);
      assert_near (script_element (text, "panel_bottom", 2), 48 + 14);
      assert_near (script_element (text, "panel_top", 2) - script_element (text, "panel_bottom", 2),
                   script_element (text, "panel_top", 1) - script_element (text, "panel_bottom", 1));
    }
}

/* The weights' band is from the least to the most that a device begins with; of 17 devices and more the names are those
 * of the first and the last. */
static void
test_memory_devices (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  for (guint n = 16; n <= 17; n++)
    {
      g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "wide", n, n, 1);

      for (guint d = 0; d < n; d++)
        {
          PsSpan span = { .op = { .stage = (guint16)d }, .end_ns = 1000, .device = (guint16)d, .peer = (guint16)d };
          PsMemoryPoint points[] = { { .bytes = 4096 + 1024 * (d % 3), .device = (guint16)d },
                                     { .time_ns = 500, .bytes = 9216, .device = (guint16)d } };

          g_array_append_val (timeline->ops, span);
          g_array_append_vals (timeline->memory, points, 2);
        }
      g_autofree char *json = ps_timeline_to_json (timeline), *script = NULL;
      write_text (fixture, "w.json", json);
      script = plot (fixture, "memory w.json");
      g_autoptr (GPtrArray) names = script_block (script, "names");
      g_assert_cmpfloat (script_element (script, "weights_low", 1), ==, 4);
      g_assert_cmpfloat (script_element (script, "weights_high", 1), ==, 6);
      g_assert_cmpuint (names->len, ==, n == 16 ? 16 : 2);
      g_assert_cmpstr (word_at (names, 1, 2), ==, n == 16 ? "device 1" : "to device 16");
      assert_near (number_at (names, 0, 1) - number_at (names, 1, 1), 16);
      g_assert_cmphex ((guint64)number_at (names, names->len - 1, 3), ==, 0xe8cf20);
    }
}

/* The memory axis begins at 0, or a tenth of the spread below the least, wherever that is, if it is above a third of
 * the most; a tenth of the axis is above the most. The same points for the second device. */
static void
test_memory_axis (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct
  {
    gint64 bytes[3];
    double bottom, top;
  } cases[] = { { { 1500, 1100, 1900 }, 1100 - 80, 1900 + 88 },
                { { 600, 1800, 700 }, 0, 1980 },
                { { 601, 1800, 700 }, 601 - 119.9, 1800 + 131.89 },
                { { 1000, 1000, 1000 }, 1000, 1010 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "m", 2, 2, 1);
      g_autofree char *json = NULL, *script = NULL;

      for (guint d = 0; d < 2; d++)
        {
          PsSpan span = { .op = { .stage = (guint16)d }, .end_ns = 1000, .device = (guint16)d, .peer = (guint16)d };

          g_array_append_val (timeline->ops, span);
          for (guint k = 0; k < 3; k++)
            {
              PsMemoryPoint point = { .time_ns = 100 * k, .bytes = cases[i].bytes[d ? 0 : k], .device = (guint16)d };

              g_array_append_val (timeline->memory, point);
            }
        }
      json = ps_timeline_to_json (timeline);
      write_text (fixture, "m.json", json);
      script = plot (fixture, "timeline m.json");
      g_assert_cmpfloat_with_epsilon (script_number (script, "memory_bottom"), cases[i].bottom, 1e-6);
      g_assert_cmpfloat_with_epsilon (script_number (script, "memory_top"), cases[i].top, 1e-6);
    }
}

/* Ops below a pixel are mixed up to the end of the axis. */
static void
test_dense_end (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "dense", 1, 1, 5001);
  double end = 0;

  for (guint i = 0; i < 5001; i++)
    {
      PsSpan span = { .op = { .microbatch = i }, .start_ns = 100 * i, .end_ns = 100 * i + 100 };

      g_array_append_val (timeline->ops, span);
    }
  g_autofree char *json = ps_timeline_to_json (timeline), *script = NULL;
  write_text (fixture, "d.json", json);
  for (guint width = 1000; width < 1002; width++)
    {
      g_autofree char *line = g_strdup_printf ("timeline d.json --size %ux300", width);

      g_free (script);
      script = plot (fixture, line);
      g_autoptr (GPtrArray) strokes = script_block (script, "strokes1");
      for (guint i = 0; i < strokes->len; i++)
        if (g_strv_length (strokes->pdata[i]) == 2)
          end = MAX (end, number_at (strokes, i, 0));
      g_assert_cmpfloat (end, >=, script_number (script, "time_end") * (1 - 1e-9));
    }
}

/* The number in 256 colours of the nearest of 6 x 6 x 6. */
static guint
nearest_cube (guint32 colour)
{
  static const int levels[] = { 0, 95, 135, 175, 215, 255 };
  guint number = 0;

  for (int shift = 16; shift >= 0; shift -= 8)
    {
      int part = (int)(colour >> shift & 0xff);
      guint best = 0;

      for (guint i = 1; i < 6; i++)
        if (ABS (levels[i] - part) <= ABS (levels[best] - part)) /* the lighter of two */
          best = i;
      number = 6 * number + best;
    }
  return 16 + number;
}

/* In colours: one device of four ops of 10 ns, the third on its second chunk, in 41 columns: label and blank, and 40
 * columns, ten of each op. */
static void
test_painted (G_GNUC_UNUSED Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct
  {
    PsOpKind kind;
    guint16 chunk;
    guint microbatch;
  } ops[] = { { PS_OP_F, 0, 0 }, { PS_OP_B, 0, 12 }, { PS_OP_W, 1, 3 }, { PS_OP_BW, 0, 4 } };
  g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "paint", 1, 2, 13);
  g_autoptr (GString) row = g_string_new ("0 ");

  for (guint i = 0; i < 4; i++)
    {
      PsSpan span = { .op = { .kind = ops[i].kind, .microbatch = ops[i].microbatch, .stage = ops[i].chunk },
                      .chunk = ops[i].chunk,
                      .start_ns = 10 * i,
                      .end_ns = 10 * i + 10 };
      guint32 colour = ps_plot_op_colour (ops[i].kind, ops[i].chunk, 4); /* chunks of twice as many: not too light */

      g_array_append_val (timeline->ops, span);
      g_string_append_printf (row, "\033[38;5;%d;48;5;%um%-10u\033[0m", ps_plot_text_colour (colour) == 0 ? 16 : 231,
                              nearest_cube (colour), ops[i].microbatch);
    }
  timeline->iteration_ns = 40;
  g_autofree char *text = ps_timeline_to_text (&timeline, 1, 42, FALSE);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_assert_cmpstr (lines[1], ==, row->str);
  g_assert_nonnull (strstr (text, "lighter: later chunks"));
  for (guint i = 0; i < 4; i++)
    {
      guint32 colour = ps_plot_op_colour (ops[i].kind, 0, 4);
      g_autofree char *entry
          = g_strdup_printf (";48;5;%um  \033[0m %s", nearest_cube (colour), ps_plot_kind_label (ops[i].kind));

      g_assert_cmpuint (count (text, entry), ==, 1);
    }
}

#define ADD(path, function) g_test_add (path, Fixture, NULL, make_folder, function, clear_folder)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/plot-places/units", test_units);
  ADD ("/plot-places/crowds", test_crowds);
  ADD ("/plot-places/looks", test_looks);
  ADD ("/plot-places/accuracy", test_accuracy);
  ADD ("/plot-places/accuracy-wide", test_accuracy_wide);
  ADD ("/plot-places/loss", test_loss);
  ADD ("/plot-places/loss-one", test_loss_one);
  ADD ("/plot-places/crowded-names", test_crowded_names);
  ADD ("/plot-places/loss-refusals", test_loss_refusals);
  ADD ("/plot-places/lines", test_lines);
  ADD ("/plot-places/lines-flat", test_lines_flat);
  ADD ("/plot-places/tick-order", test_tick_order);
  ADD ("/plot-places/about", test_about);
  ADD ("/plot-places/ticks", test_ticks);
  ADD ("/plot-places/front", test_front);
  ADD ("/plot-places/front-names", test_front_names);
  ADD ("/plot-places/front-figures", test_front_figures);
  ADD ("/plot-places/heat", test_heat);
  ADD ("/plot-places/heat-sizes", test_heat_sizes);
  ADD ("/plot-places/heat-ticks", test_heat_ticks);
  ADD ("/plot-places/heat-words", test_heat_words);
  ADD ("/plot-places/timeline", test_timeline);
  ADD ("/plot-places/memory-axis", test_memory_axis);
  ADD ("/plot-places/dense-end", test_dense_end);
  ADD ("/plot-places/painted", test_painted);
  ADD ("/plot-places/legend", test_legend);
  ADD ("/plot-places/rows", test_rows);
  ADD ("/plot-places/memory", test_memory_places);
  ADD ("/plot-places/memory-devices", test_memory_devices);
  return g_test_run ();
}
