/* Tests of the places in pictures: gnuplot's script, read back, has every point, box and name that the data has, and
 * gnuplot draws axes and keys around them. */
#include "script-rig.h"
#include "plots.h"

#include <pipesim/costdb.h>
#include <pipesim/schedule.h>
#include <pipesim/sweep.h>
#include <pipesim/timeline.h>

#include <math.h>

typedef InFolder Fixture;

static char *plot (const Fixture *fixture, const char *arguments)
{
  g_autofree char *line = g_strconcat (arguments, " -o a.svg", NULL);

  return script_of (fixture->folder, "pipesim-plot", line);
}

static void write_text (const Fixture *fixture, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename (fixture->folder, name, NULL);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

/* What gnuplot prints after a script, as numbers: the expressions are separated by commas. FALSE, and the test is
 * skipped, without gnuplot. */
static gboolean ask_gnuplot (const Fixture *fixture, const char *script, const char *expressions, double *values)
{
  char *argv[] = { (char *)"gnuplot", (char *)"-d", (char *)"ask.gp", NULL };
  g_autofree char *asking = g_strdup_printf ("%s\nset print 'said'\nprint %s\n", script, expressions);
  g_autofree char *path = g_build_filename (fixture->folder, "said", NULL), *svg = NULL, *talk = NULL, *said = NULL;

  if (!have_program ("gnuplot"))
    return FALSE;
  write_text (fixture, "ask.gp", asking);
  g_assert_cmpint (run_argv (fixture->folder, argv, NULL, &svg, &talk), ==, 0);
  g_assert_true (g_file_get_contents (path, &said, NULL, NULL));
  g_auto (GStrv) words = g_strsplit (g_strstrip (said), " ", -1);
  for (guint i = 0; words[i] != NULL; i++)
    values[i] = g_ascii_strtod (words[i], NULL);
  return TRUE;
}

typedef struct {
  double x_low, x_high, y_low, y_high;
} Axes;

static gboolean axes_of (const Fixture *fixture, const char *script, Axes *axes)
{
  return ask_gnuplot (fixture, script, "GPVAL_X_MIN, GPVAL_X_MAX, GPVAL_Y_MIN, GPVAL_Y_MAX", (double *)axes);
}

/* Units, colours, and the functions of style.gp */

static void test_units (G_GNUC_UNUSED Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct {
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

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    PsPlotUnit unit = cases[i].is_size ? ps_plot_size_unit (cases[i].most) : ps_plot_time_unit (cases[i].most);

    g_assert_cmpstr (unit.name, ==, cases[i].name);
    g_assert_cmpfloat (unit.size, ==, cases[i].size);
  }
  /* The last of four chunks is 62 % of the way to white, and the only one is not paler. */
  g_assert_cmphex (ps_plot_op_colour (PS_OP_F, 3, 4), ==, 0x9ec9e2);
  g_assert_cmphex (ps_plot_op_colour (PS_OP_F, 1, 4), ==, 0x358fc2);
  g_assert_cmphex (ps_plot_op_colour (PS_OP_F, 0, 1), ==, 0x0072b2);
}

/* Ticks are 1, 2 or 5 times a power of ten apart. 140 of 255 is still read with white: 0x8c8c8c; 150 of green is read
 * with black, 76 of red and 29 of blue with white. A logarithmic axis reads better for a factor of eight, or the median
 * in the lowest third; for a ratio for both a factor of eight and the median in the lowest sixth. */
static void test_style (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct {
    const char *expression;
    double value;
  } cases[] = {
    { "tick_step(10, 10)", 1 },
    { "tick_step(14.9, 10)", 1 },
    { "tick_step(15, 10)", 2 },
    { "tick_step(34.9, 10)", 2 },
    { "tick_step(35, 10)", 5 },
    { "tick_step(74.9, 10)", 5 },
    { "tick_step(75, 10)", 10 },
    { "tick_step(0.03, 3)", 0.01 },
    { "tick_step(7e6, 3)", 2e6 },
    { "ink(0x8c8c8c)", 0xffffff },
    { "ink(0x8d8d8d)", 0 },
    { "ink(0x00ff00)", 0 },
    { "ink(0xff00ff)", 0xffffff },
    { "pale(0x0040fe)", 0x7f9ffe },
    { "place(0, 1)", 0 },
    { "place(1, 5)", 0.25 },
    { "crowds(1, 5, 7.9, 0)", 0 },
    { "crowds(1, 5, 8, 0)", 1 },
    { "crowds(1, 2, 6, 0)", 0 },
    { "crowds(1, 1.9, 6, 0)", 1 },
    { "crowds(0, 1, 100, 0)", 0 },
    { "crowds(-1, 1, 100, 0)", 0 },
    { "crowds(0.01, 0.1, 0.6, 1)", 0 },
    { "crowds(0.01, 0.09, 0.6, 1)", 1 },
    { "crowds(0.1, 0.1, 0.7, 1)", 0 },
    { "words(log_digits(1, 19))", 8 },
    { "words(log_digits(1, 20))", 3 },
    { "words(log_digits(1, 1e4))", 1 },
  };
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "..", "plots", "style.gp", NULL), *style = NULL;
  g_autoptr (GString) expressions = g_string_new (NULL);
  double values[G_N_ELEMENTS (cases)];

  g_assert_true (g_file_get_contents (path, &style, NULL, NULL));
  g_autofree char *script = g_strconcat ("title = ''\nwidth = 1000.0\nheight = 500.0\nletter = 6.2\n", style, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_string_append_printf (expressions, "%s%s", i ? ", " : "", cases[i].expression);
  if (!ask_gnuplot (fixture, script, expressions->str, values))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    if (ABS (values[i] - cases[i].value) > 1e-9 * ABS (cases[i].value))
      g_test_fail_printf ("%s is %g, not %g", cases[i].expression, values[i], cases[i].value);
}

/* The sentence below the title in lines of at most (1000 - 90) / 6.2 = 146 letters. */
static void test_about (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "..", "plots", "style.gp", NULL), *style = NULL;
  g_autoptr (GString) about = g_string_new (NULL);
  double values[2];

  g_assert_true (g_file_get_contents (path, &style, NULL, NULL));
  for (guint i = 0; i < 50; i++)
    g_string_append (about, "fivel ");
  g_autofree char *script = g_strdup_printf (
      "title = ''\nabout = '%s'\nwidth = 1000.0\nheight = 500.0\nletter = 6.2\n%s", about->str, style);
  /* 24 words of five letters are 143. */
  if (!ask_gnuplot (fixture, script, "about_lines, strstrt(about_text, \"\\n\")", values))
    return;
  g_assert_cmpfloat (values[0], ==, 3);
  g_assert_cmpfloat (values[1], ==, 144);
}

/* Families by their places in the catalogue; others after these. A second series of a schedule keeps the colour, and
 * has another mark and dash; series of no schedule have the next colour, and another dash when colours begin again. */
static void test_looks (G_GNUC_UNUSED Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (GPtrArray) set = ps_plot_series_new (), plain = ps_plot_series_new ();
  guint n, numbers[] = { 1, 8, 15, 22 };
  const guint32 colours[] = { 0xd55e00, 0x803800, 0xe49659, 0x4b2100 };
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    g_assert_cmphex (ps_plot_schedule_colour (families[numbers[i]]->name), ==, colours[i]);
  for (guint i = 0; i < 9; i++) {
    g_autofree char *name = g_strdup_printf ("%u", i);

    ps_plot_series_add (set, name, i % 3 ? "1f1b" : "gpipe", i, i, NULL);
    ps_plot_series_add (plain, name, NULL, i, i, NULL);
  }
  ps_plot_series_add (set, "1", "1f1b", 10, 11, g_strdup ("hover"));
  g_assert_cmpuint (set->len, ==, 9);
  for (guint i = 0; i < 9; i++) {
    const PsPlotSeries *series = set->pdata[i], *other = plain->pdata[i];
    const char *name = i % 3 ? "1f1b" : "gpipe";
    guint number = 0, before = i % 3 ? i - 1 - i / 3 : i / 3;

    while (!g_str_equal (families[number]->name, name))
      number++;
    g_assert_cmphex (series->colour, ==, ps_plot_schedule_colour (name));
    g_assert_cmpuint (series->dash, ==, 1 + before);
    g_assert_cmpuint (series->mark, ==, ps_plot_series_mark (number % 5 + 5 * before));
    g_assert_cmpuint (series->points->len, ==, i == 1 ? 2 : 1);
    g_assert_cmphex (other->colour, ==, ps_plot_series_colour (i % 7));
    g_assert_cmpuint (other->dash, ==, 1 + i / 7);
    g_assert_cmpuint (other->mark, ==, ps_plot_series_mark (i));
    for (guint k = 0; k < i; k++) /* no two look the same */
    {
      const PsPlotSeries *a = set->pdata[k];

      g_assert_true (a->colour != series->colour || a->mark != series->mark || a->dash != series->dash);
    }
  }
}

/* Accuracy */

static void store_run (PsCostDb *db, const char *schedule, gint64 predicted_ns, gint64 measured_ns)
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

static char *draw_accuracy (const Fixture *fixture, const char *options, const gint64 (*runs)[2], guint n)
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

/* Predicted and measured, 9.3 us to 9.95 us: some air around all, the same for both axes, 8 % of 10 % of the largest,
 * as that is more than the spread's. */
static void test_accuracy (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const gint64 near[][2] = { { 9900, 9500 }, { 9400, 9600 }, { 9950, 9300 } };
  g_autofree char *script = draw_accuracy (fixture, "", near, 3), *title = script_text (script, "title");
  g_autofree char *wide = draw_accuracy (fixture, " --size 900x500 --title own", near, 3);
  g_autofree char *own = script_text (wide, "title"), *label = script_text (script, "x_label");
  g_autofree char *second = script_text (script, "series_name[2]");
  g_autoptr (GPtrArray) points = script_block (script, "series");
  Axes axes;

  /* 400 / 9500, 200 / 9600 and 650 / 9300: the middle one is 4.21 %. */
  g_assert_cmpstr (title, ==, "predictions against 3 runs: half of them within 4.21 %");
  g_assert_cmpstr (own, ==, "own");
  g_assert_cmpstr (label, ==, "measured iteration time (us)");
  g_assert_cmpstr (second, ==, "gpipe on cpu");
  g_assert_cmpfloat (script_number (wide, "width"), ==, 900);
  g_assert_cmpfloat (script_number (wide, "height"), ==, 500);
  g_assert_cmpfloat (script_number (script, "n_series"), ==, 3);
  for (guint i = 0; i < 3; i++) /* one point in each, and two blank lines */
  {
    g_assert_cmpfloat_with_epsilon (number_at (points, 3 * i, 0), (double)near[i][1] / 1e3, 1e-9);
    g_assert_cmpfloat_with_epsilon (number_at (points, 3 * i, 1), (double)near[i][0] / 1e3, 1e-9);
  }
  if (!axes_of (fixture, script, &axes))
    return;
  g_assert_cmpfloat_with_epsilon (axes.x_low, 9.3 - 0.08 * 0.995, 1e-9);
  g_assert_cmpfloat_with_epsilon (axes.y_high, 9.95 + 0.08 * 0.995, 1e-9);
}

/* A factor of eight is linear, with 8 % of the spread; more is logarithmic, with a factor of 1.3 at both ends. */
static void test_accuracy_wide (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const gint64 eight[][2] = { { 16000000, 15000000 }, { 2000000, 3000000 } },
                      more[][2] = { { 16000001, 15000000 }, { 2000000, 3000000 } };
  g_autofree char *linear = draw_accuracy (fixture, "", eight, 2), *log = draw_accuracy (fixture, "", more, 2);
  Axes axes;
  double is_log;

  if (!axes_of (fixture, linear, &axes))
    return;
  g_assert_cmpfloat_with_epsilon (axes.x_low, 2 - 0.08 * 14, 1e-9);
  g_assert_cmpfloat_with_epsilon (axes.y_high, 16 + 0.08 * 14, 1e-9);
  g_assert_true (ask_gnuplot (fixture, linear, "is_log", &is_log) && is_log == 0);
  g_assert_true (ask_gnuplot (fixture, log, "is_log", &is_log) && is_log == 1);
  g_assert_true (axes_of (fixture, log, &axes));
  g_assert_cmpfloat_with_epsilon (axes.y_low * 1.3, 2, 1e-9);
  g_assert_cmpfloat_with_epsilon (axes.x_high / 1.3, 16.000001, 1e-9);
}

/* Losses */

/* Losses from 2 to 6 with 5 % of the axis as air, steps from 0 on; columns are found by name. */
static void test_loss (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  write_text (fixture, "a.csv", "step,loss\n0,6\n10,2\n");
  write_text (fixture, "b.csv", "loss,time,step\n5,1,0\n2,1,12\n");
  g_autofree char *script = plot (fixture, "loss a.csv b.csv"), *name = script_text (script, "series_name[2]");
  g_autofree char *small = plot (fixture, "loss b.csv a.csv --size 640x300");
  g_autoptr (GPtrArray) points = script_block (script, "series");
  Axes axes;

  g_assert_cmpstr (name, ==, "b.csv");
  g_assert_cmpfloat (script_number (small, "width"), ==, 640);
  g_assert_cmpfloat (number_at (points, 5, 0), ==, 12);
  g_assert_cmpfloat (number_at (points, 5, 1), ==, 2);
  if (!axes_of (fixture, script, &axes))
    return;
  g_assert_cmpfloat (axes.x_low, ==, 0);
  g_assert_cmpfloat (axes.x_high, >=, 12);
  g_assert_true (1.75 < axes.y_low && axes.y_low < 2 && 6 < axes.y_high && axes.y_high < 6.25);
  write_text (fixture, "a.csv", "step,loss\n0,3\n"); /* one step alone: an axis of some height */
  g_autofree char *one = plot (fixture, "loss a.csv");
  g_assert_true (axes_of (fixture, one, &axes) && axes.y_low < 3 && 3 < axes.y_high);
}

static void test_loss_refusals (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct {
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

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    write_text (fixture, "a.csv", cases[i].text);
    check_refused (fixture->folder, "pipesim-plot", "loss a.csv -o a.svg", 1, cases[i].talk);
  }
}

/* Sweeps */

static void sweep_into (const Fixture *fixture, const char *name, const char *text)
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
static void make_sweep (const Fixture *fixture)
{
  sweep_into (fixture, "r.db",
              "[sweep]\nschedule = 1f1b, gpipe, naive\ndevices = 4\nmicrobatches = 4..16 x2\n"
              "costs = f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB\n");
}

/* Three lines of three points each, in the order in which they end; the values of x are the ticks. */
static void test_lines (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const double times[3][3] = { { 48, 96, 192 }, { 21, 33, 57 }, { 21, 33, 57 } };

  make_sweep (fixture);
  g_autofree char *script = plot (fixture, "sweep r.db --x microbatches --y iteration_ns --series schedule --log none");
  g_autofree char *logs = plot (fixture, "sweep r.db --x microbatches --y iteration_ns --series schedule --log xy");
  g_autofree char *own
      = plot (fixture, "sweep r.db --x microbatches --y iteration_ns --series schedule --size 500x640");
  g_autofree char *y_label = script_text (script, "y_label"), *first = script_text (script, "series_name[1]");
  g_autoptr (GPtrArray) points = script_block (script, "series");
  double is_log[3];
  Axes axes;

  g_assert_cmpstr (y_label, ==, "iteration time (ms)");
  g_assert_cmpstr (first, ==, "naive");
  for (guint i = 0; i < 3; i++)
    for (guint k = 0; k < 3; k++) {
      g_assert_cmpfloat (number_at (points, 5 * i + k, 0), ==, 4 << k);
      g_assert_cmpfloat (number_at (points, 5 * i + k, 1), ==, times[i][k]);
    }
  g_assert_cmpfloat (script_number (script, "width"), ==, 1000);
  g_assert_cmpfloat (script_number (script, "height"), ==, 560);
  g_assert_cmpfloat (script_number (own, "height"), ==, 640);
  if (!axes_of (fixture, script, &axes))
    return;
  /* Linear: some air at both ends, and from 0 to more than all. */
  g_assert_true (3.8 < axes.x_low && axes.x_low < 4 && 16 < axes.x_high && axes.x_high < 16.2);
  g_assert_true (axes.y_low == 0 && 192 < axes.y_high && axes.y_high < 205);
  g_assert_true (ask_gnuplot (fixture, script, "x_log, y_log, words(places)", is_log));
  g_assert_true (is_log[0] == 0 && is_log[1] == 0 && is_log[2] == 3);
  g_assert_true (ask_gnuplot (fixture, logs, "x_log, y_log", is_log) && is_log[0] == 1 && is_log[1] == 1);
  g_assert_true (axes_of (fixture, logs, &axes));
  g_assert_true (3.9 < axes.x_low && axes.x_low < 4 && 18 < axes.y_low && axes.y_low < 21 && 192 < axes.y_high
                 && axes.y_high < 220);
  /* By itself: 192 are more than 8 x 21; 16 are not more than 8 x 4, nor than 3 x 8, the median. */
  g_assert_true (ask_gnuplot (fixture, own, "x_log, y_log", is_log) && is_log[0] == 0 && is_log[1] == 1);
}

/* The same values in all rows: an axis of some width around them, from 0 on. One series without a name. */
static void test_lines_flat (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "one.db",
              "[sweep]\nschedule = 1f1b\ndevices = 1\nmicrobatches = 4\ncosts = f=1ms,b=1ms,w=1ms\n");
  g_autofree char *script = plot (fixture, "sweep one.db --x microbatches --y bubble_ratio");
  g_autofree char *name = script_text (script, "series_name[1]");
  Axes axes;

  g_assert_cmpstr (name, ==, "");
  if (axes_of (fixture, script, &axes))
    g_assert_true (axes.x_low < 4 && 4 < axes.x_high && axes.y_low <= 0 && 0 < axes.y_high);
}

/* More x than can be named are numbered by gnuplot; each is named once, whichever line has it. */
static void test_ticks (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  for (guint n = 14; n <= 15; n++) {
    g_autofree char *name = g_strdup_printf ("%u.db", n), *line = NULL, *script = NULL;
    g_autoptr (GString) spec
        = g_string_new ("[sweep]\nschedule = gpipe, 1f1b\ndevices = 2\ncosts = f=1ms,b=1ms,w=1ms\n");
    double n_places;

    for (guint m = 1; m <= n; m++)
      g_string_append_printf (spec, "%s%u", m == 1 ? "microbatches = " : ", ", m);
    g_string_append_c (spec, '\n');
    sweep_into (fixture, name, spec->str);
    line = g_strdup_printf ("sweep %s --x microbatches --y bubble_ratio --series schedule", name);
    script = plot (fixture, line);
    if (!ask_gnuplot (fixture, script, "words(places)", &n_places))
      return;
    g_assert_cmpfloat (n_places, ==, n);
  }
}

/* A front is each setting that is faster than all with less memory; each of its places is a point. */
static void test_front (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "f.db",
              "[sweep]\nschedule = 1f1b, gpipe, naive, zb-h1, zb-h2\ndevices = 2, 16\nmicrobatches = 32\n"
              "costs = f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB\n");
  g_autofree char *script = plot (fixture, "sweep f.db --pareto --log none"),
                  *x_label = script_text (script, "x_label"), *name = script_text (script, "front_name[2]");
  g_autoptr (GPtrArray) front = script_block (script, "front"), points = script_block (script, "series");
  guint n_points = 0, n_places = 0, n_fronts = 0;
  Axes axes;

  g_assert_cmpstr (x_label, ==, "peak memory (MiB)");
  g_assert_cmpstr (name, ==, "16 devices");
  g_assert_cmpfloat (script_number (script, "n_front"), ==, 2);
  g_assert_cmpfloat (script_number (script, "n_series"), ==, 5);
  for (guint i = 0; i < front->len; i++) {
    gboolean found = FALSE;

    if (g_strv_length (front->pdata[i]) == 0) {
      n_fronts += i > 0 && g_strv_length (front->pdata[i - 1]) > 0;
      continue;
    }
    n_places++;
    if (i > 0 && g_strv_length (front->pdata[i - 1]) > 0)
      g_assert_true (number_at (front, i, 0) > number_at (front, i - 1, 0)
                     && number_at (front, i, 1) < number_at (front, i - 1, 1));
    for (guint k = 0; k < points->len; k++)
      found |= g_strv_length (points->pdata[k]) > 0 && g_str_equal (word_at (front, i, 0), word_at (points, k, 0))
               && g_str_equal (word_at (front, i, 1), word_at (points, k, 1));
    g_assert_true (found);
  }
  for (guint k = 0; k < points->len; k++)
    n_points += g_strv_length (points->pdata[k]) > 0;
  g_assert_cmpuint (n_fronts, ==, 2);
  g_assert_cmpuint (n_places, >=, 4);
  g_assert_cmpuint (n_points, ==, 10);
  if (!axes_of (fixture, script, &axes))
    return;
  for (guint k = 0; k < points->len; k++)
    if (g_strv_length (points->pdata[k]) > 0)
      g_assert_true (axes.x_low < number_at (points, k, 0) && number_at (points, k, 0) < axes.x_high
                     && axes.y_low < number_at (points, k, 1) && number_at (points, k, 1) < axes.y_high);
}

/* On 2 devices 8 microbatches of 3 ms take 27 ms with 1F1B (8 + 2 - 1 ops of each) and each holds 2 activations of 2
 * MiB; GPipe holds 8 in the same time, naive 1 in 48 ms: so the front is naive and 1F1B. */
static void test_front_figures (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "g.db",
              "[sweep]\nschedule = 1f1b, gpipe, naive\ndevices = 2\nmicrobatches = 8\n"
              "costs = f=1ms,b=1ms,w=1ms,act=2MiB\n");
  g_autofree char *script = plot (fixture, "sweep g.db --pareto --by iteration_ns");
  g_autoptr (GPtrArray) points = script_block (script, "series");
  g_autoptr (GPtrArray) front = script_block (script, "front");

  g_assert_cmpuint (front->len, ==, 2 + 2);
  g_assert_cmpfloat (number_at (front, 0, 0), ==, 2);
  g_assert_cmpfloat (number_at (front, 0, 1), ==, 48);
  g_assert_cmpfloat (number_at (front, 1, 0), ==, 4);
  g_assert_cmpfloat (number_at (front, 1, 1), ==, 27);
  /* A point says what it is, with its signs as in a URL. */
  g_assert_cmpstr (word_at (points, 0, 2), ==, "1f1b, 2 devices, 8 microbatches: 27 ms, 4 MiB");
}

/* Maps */

/* 21, 33 and 57 ms with 4, 8 and 16 microbatches at two bandwidths: a box for each, its column and row from 1 on. */
static void test_heat (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const double times[] = { 21, 33, 57 };

  sweep_into (fixture, "h.db",
              "[sweep]\nschedule = 1f1b\ndevices = 4\nmicrobatches = 4..16 x2\nbandwidth-factor = 0.5, 1\n"
              "costs = f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB\n");
  g_autofree char *script = plot (fixture, "sweep h.db --x bandwidth_factor --y microbatches --heat iteration_ns");
  g_autofree char *label = script_text (script, "heat_label"), *x = script_text (script, "x_name[1]"),
                  *y = script_text (script, "y_name[3]");
  g_autoptr (GPtrArray) cells = script_block (script, "cells");
  double values[7];
  Axes axes;

  g_assert_cmpstr (label, ==, "iteration time (ms)");
  g_assert_cmpstr (x, ==, "0.5");
  g_assert_cmpstr (y, ==, "16");
  g_assert_cmpfloat (script_number (script, "n_words"), ==, 0);
  g_assert_cmpuint (cells->len, ==, 6);
  for (guint row = 0; row < 6; row++) {
    guint column = (guint)number_at (cells, row, 0), k = (guint)number_at (cells, row, 1) - 1;

    g_assert_true (column == 1 || column == 2);
    g_assert_cmpfloat (number_at (cells, row, 2), ==, times[k]);
    g_assert_cmpfloat (g_ascii_strtod (word_at (cells, row, 3), NULL), ==, times[k]);
  }
  if (!axes_of (fixture, script, &axes))
    return;
  g_assert_true (axes.x_low == 0.5 && axes.x_high == 2.5 && axes.y_low == 0.5 && axes.y_high == 3.5);
  /* The least has the scale's darkest colour, the most its lightest. A text of two letters wants 18 pixels of width and
   * 13 of height. */
  g_assert_true (
      ask_gnuplot (fixture, script, "GPVAL_CB_MIN, GPVAL_CB_MAX, palette(21), palette(57), fits('21')", values));
  g_assert_true (values[0] == 21 && values[1] == 57);
  g_assert_cmphex ((guint)values[2], ==, 0x440154);
  g_assert_cmphex ((guint)values[3], ==, 0xe8cf20);
  g_assert_cmpfloat (values[4], ==, 1);
  g_autofree char *small
      = plot (fixture, "sweep h.db --x bandwidth_factor --y microbatches --heat iteration_ns --size 310x200");
  g_assert_true (ask_gnuplot (fixture, small, "fits('21')", values) && values[0] == 0);
}

/* Sizes count in their own unit: 4 activations of 2 GiB, as 1F1B holds them on the first of 4 devices. */
static void test_heat_sizes (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "s.db",
              "[sweep]\nschedule = 1f1b\ndevices = 4\nmicrobatches = 4, 8\ncosts = f=1ms,b=1ms,w=1ms,act=2GiB\n");
  g_autofree char *script = plot (fixture, "sweep s.db --x microbatches --y devices --heat peak_memory_bytes");
  g_autoptr (GPtrArray) cells = script_block (script, "cells");
  g_autofree char *label = script_text (script, "heat_label");

  g_assert_cmpstr (label, ==, "peak memory (GiB)");
  for (guint i = 0; i < 2; i++)
    g_assert_cmpstr (word_at (cells, i, 3), ==, "8");
}

/* Words have the colours of their schedules, on the map and in the key. */
static void test_heat_words (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  sweep_into (fixture, "w.db",
              "[sweep]\ndevices = 4\nbandwidth-factor = 0.5, 1\ncosts = f=1ms,b=1ms,w=1ms,act=2MiB\n[zip size]\n"
              "microbatches = 4, 8\nschedule = 1f1b, zb-h1\n");
  g_autofree char *script = plot (fixture, "sweep w.db --x bandwidth_factor --y microbatches --heat schedule");
  g_autofree char *label = script_text (script, "heat_label"), *title = script_text (script, "title");
  g_autofree char *first = script_text (script, "word[1]"), *second = script_text (script, "word[2]");
  g_autoptr (GPtrArray) cells = script_block (script, "cells");

  g_assert_cmpstr (label, ==, "schedule");
  g_assert_cmpstr (title, ==, "simulated: schedule of the fastest setting");
  g_assert_cmpstr (first, ==, "1f1b");
  g_assert_cmpstr (second, ==, "zb-h1");
  g_assert_cmpfloat (script_number (script, "n_words"), ==, 2);
  g_assert_cmpuint (cells->len, ==, 4);
  for (guint row = 0; row < 4; row++) {
    guint word = number_at (cells, row, 1) > 1.5 ? 2 : 1;

    g_assert_cmpfloat (number_at (cells, row, 4), ==, script_element (script, "word_colour", word));
    g_assert_cmphex ((guint32)number_at (cells, row, 4), ==, ps_plot_schedule_colour (word == 2 ? "zb-h1" : "1f1b"));
    g_assert_cmpstr (word_at (cells, row, 3), ==, word == 2 ? "zb-h1" : "1f1b");
  }
}

/* Timelines */

static PsTimeline *fixture_timeline (const char *name)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "fixtures", name, NULL), *text = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  return fine (ps_timeline_parse_json (path, text, -1, &error));
}

/* Every op a row of its device, in us, with its microbatch; every transfer from its sender to its receiver. */
static void check_panel (const char *script, const PsTimeline *timeline, guint panel)
{
  g_autofree char *ops_name = g_strdup_printf ("ops%u", panel),
                  *transfers_name = g_strdup_printf ("transfers%u", panel);
  g_autoptr (GPtrArray) ops = script_block (script, ops_name), transfers = script_block (script, transfers_name);

  g_assert_cmpuint (ops->len, ==, timeline->ops->len);
  for (guint i = 0; i < timeline->ops->len; i++) {
    const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

    g_assert_cmpfloat_with_epsilon (number_at (ops, i, 0), (double)span->start_ns / 1e3, 1e-9);
    g_assert_cmpfloat_with_epsilon (number_at (ops, i, 1), (double)span->end_ns / 1e3, 1e-9);
    g_assert_cmpfloat (number_at (ops, i, 2), ==, span->device);
    g_assert_cmpfloat (number_at (ops, i, 3), ==, 0);
    g_assert_cmphex ((guint64)number_at (ops, i, 4), ==, ps_plot_op_colour (span->op.kind, 0, 1));
    if (span->op.kind == PS_OP_O)
      g_assert_cmpstr (word_at (ops, i, 5), ==, "");
    else
      g_assert_cmpuint (g_ascii_strtoull (word_at (ops, i, 5), NULL, 10), ==, span->op.microbatch);
  }
  g_assert_cmpuint (transfers->len, ==, timeline->transfers->len);
  for (guint i = 0; i < timeline->transfers->len; i++) {
    const PsSpan *span = &g_array_index (timeline->transfers, PsSpan, i);

    g_assert_cmpfloat_with_epsilon (number_at (transfers, i, 0), (double)span->start_ns / 1e3, 1e-9);
    g_assert_cmpfloat (number_at (transfers, i, 1), ==, span->device);
    g_assert_cmpfloat_with_epsilon (number_at (transfers, i, 2), (double)span->end_ns / 1e3, 1e-9);
    g_assert_cmpfloat (number_at (transfers, i, 3), ==, span->peer);
    g_assert_cmphex ((guint)number_at (transfers, i, 4), ==, span->op.kind == PS_OP_F ? 0x222222 : 0xcc3311);
  }
}

/* The measured run above the predicted one: rows of 30 pixels, or as high as the picture that was asked for lets them
 * be, and the margins: 86 above, 44 below, 34 between, and 87 for memory. */
static void test_timeline (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (PsTimeline) measured = fixture_timeline ("timeline-measured.json"),
                         predicted = fixture_timeline ("timeline-predicted.json");
  g_autofree char *script = plot (fixture, "timeline '%M' '%P' --transfers");
  g_autofree char *high = plot (fixture, "timeline '%M' '%P' --size 800x700"),
                  *label = script_text (script, "time_label");
  g_autofree char *unit = script_text (script, "memory_label"), *kind = script_text (script, "kind[2]");
  const double margins = 86 + 44 + 34 + 2 * 87;
  double edges[2];

  check_panel (script, measured, 1);
  check_panel (script, predicted, 2);
  g_assert_cmpfloat (script_number (script, "row"), ==, 30);
  g_assert_cmpfloat (script_number (script, "height"), ==, margins + 4 * 30);
  g_assert_cmpfloat (script_number (script, "width"), ==, 1200);
  g_assert_cmpfloat (script_number (high, "row"), ==, (700 - margins) / 4);
  g_assert_cmpfloat (script_number (high, "right"), ==, 800 - 18);
  g_assert_cmpfloat (script_number (script, "left"), ==, 74);
  g_assert_cmpfloat_with_epsilon (script_number (script, "time_end"), 0.096, 1e-9);
  g_assert_cmpstr (label, ==, "time (us)");
  g_assert_cmpstr (kind, ==, "B  backward for input");
  g_assert_cmpfloat (script_number (script, "n_kinds"), ==, 4);
  /* Memory from 1000 to 1600 B on an axis that begins below the least, as that is more than a third of the most. */
  g_assert_cmpstr (unit, ==, "B");
  g_assert_cmpfloat (script_number (script, "memory_low"), ==, 1000);
  g_assert_cmpfloat (script_number (script, "memory_high"), ==, 1600);
  /* All panels and margins make the height. */
  if (ask_gnuplot (fixture, script, "y, height", edges))
    g_assert_cmpfloat_with_epsilon (edges[0] + 44 - 34, edges[1], 1e-9);
  if (ask_gnuplot (fixture, high, "y, height", edges))
    g_assert_cmpfloat_with_epsilon (edges[0] + 44 - 34, edges[1], 1e-9);
}

/* A pair shares its row: the first op has the upper half, the second the lower. */
static void test_pair (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const double halves[] = { 0, 1, -1, 0 };
  g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "pair", 1, 1, 4);

  for (guint i = 0; i < 4; i++) {
    gint64 start = i == 2 ? 1000 : 1000 * i;
    PsSpan span = { .op = { .microbatch = i, .paired = i == 1 }, .start_ns = start, .end_ns = start + 1000 };

    g_array_append_val (timeline->ops, span);
  }
  g_autofree char *json = ps_timeline_to_json (timeline), *script = NULL;
  write_text (fixture, "p.json", json);
  script = plot (fixture, "timeline p.json");
  g_autoptr (GPtrArray) ops = script_block (script, "ops1");
  for (guint i = 0; i < 4; i++)
    g_assert_cmpfloat (number_at (ops, i, 3), ==, halves[i]);
}

/* Rows get lower with more devices: every second of 64 is numbered. Numbers stay in their boxes: 11 pixels of height,
 * 5.9 for each letter and 3. */
static void test_rows (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct {
    guint n_devices;
    double row;
    guint tick;
  } cases[] = { { 8, 30, 1 }, { 9, 22, 1 }, { 16, 22, 1 }, { 17, 448.0 / 17, 1 }, { 64, 7, 2 }, { 128, 4, 4 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    guint n = cases[i].n_devices;
    g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "wide", n, n, 1);
    double values[4];

    for (guint d = 0; d < n; d++) {
      PsSpan span = { .op = { .stage = (guint16)d }, .end_ns = 1000, .device = (guint16)d, .peer = (guint16)d };

      g_array_append_val (timeline->ops, span);
    }
    g_autofree char *json = ps_timeline_to_json (timeline), *script = NULL;
    write_text (fixture, "w.json", json);
    script = plot (fixture, "timeline w.json");
    g_assert_cmpfloat_with_epsilon (script_number (script, "row"), cases[i].row, 1e-9);
    if (!ask_gnuplot (fixture, script,
                      "row < 13 ? ceil(13 / row) : 1, fits(0, 9 * pixel, 0, '0'), fits(0, 8.8 * pixel, 0, '0'), "
                      "fits(0, 99 * pixel, 1, '0')",
                      values))
      return;
    g_assert_cmpfloat (values[0], ==, cases[i].tick);
    g_assert_cmpfloat (values[1], ==, 0.92 * cases[i].row >= 11);
    g_assert_cmpfloat (values[2], ==, 0);
    g_assert_cmpfloat (values[3], ==, 0.46 * cases[i].row >= 11);
  }
}

/* Memory pictures: both timelines on the same axes, 8 % above the most or the limit. */
static void test_memory_places (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *script = plot (fixture, "memory '%M' '%P'"),
                  *limit = plot (fixture, "memory '%P' --memory-limit 2KiB");
  g_autofree char *label = script_text (limit, "size_label");
  g_autoptr (GPtrArray) curve = script_block (script, "memory1");
  static const double first[][2] = { { 0, 1000 }, { 0, 1250 }, { 0.02, 1600 }, { 0.09, 1000 }, { 0.096, 1000 } };
  Axes axes;

  g_assert_cmpfloat (script_number (script, "size_top"), ==, 1600);
  g_assert_cmpfloat (script_number (script, "limit"), ==, 0);
  g_assert_cmpfloat (script_number (limit, "limit"), ==, 2);
  g_assert_cmpfloat (script_number (limit, "size_top"), ==, 2);
  g_assert_cmpstr (label, ==, "memory (KiB)");
  g_assert_cmpfloat_with_epsilon (script_number (script, "time_end"), 0.096, 1e-9);
  /* What the devices hold before their first op. */
  g_assert_cmpfloat (script_element (script, "weights_low", 1), ==, 1000);
  g_assert_cmpfloat (script_element (script, "weights_high", 1), ==, 1000);
  for (guint i = 0; i < G_N_ELEMENTS (first); i++) {
    g_assert_cmpfloat_with_epsilon (number_at (curve, i, 0), first[i][0], 1e-9);
    g_assert_cmpfloat (number_at (curve, i, 1), ==, first[i][1]);
  }
  g_assert_cmpuint (g_strv_length (curve->pdata[G_N_ELEMENTS (first)]), ==, 0);
  if (axes_of (fixture, script, &axes))
    g_assert_true (axes.x_low == 0 && axes.x_high == 0.096 && axes.y_low == 0 && axes.y_high == 1.08 * 1600);
}

/* The weights' band is from the least to the most that a device begins with. */
static void test_memory_devices (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "wide", 17, 17, 1);

  for (guint d = 0; d < 17; d++) {
    PsSpan span = { .op = { .stage = (guint16)d }, .end_ns = 1000, .device = (guint16)d, .peer = (guint16)d };
    PsMemoryPoint points[] = { { .bytes = 4096 + 1024 * (d % 3), .device = (guint16)d },
                               { .time_ns = 500, .bytes = 9216, .device = (guint16)d } };

    g_array_append_val (timeline->ops, span);
    g_array_append_vals (timeline->memory, points, 2);
  }
  g_autofree char *json = ps_timeline_to_json (timeline), *script = NULL;
  write_text (fixture, "w.json", json);
  script = plot (fixture, "memory w.json");
  g_assert_cmpfloat (script_element (script, "weights_low", 1), ==, 4);
  g_assert_cmpfloat (script_element (script, "weights_high", 1), ==, 6);
}

/* The memory axis begins at 0, or a tenth of the spread below the least, wherever that is, if it is above a third of
 * the most; a tenth of the axis is above the most. The same points for the second device. */
static void test_memory_axis (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct {
    gint64 bytes[3];
    double bottom, top;
  } cases[] = { { { 1500, 1100, 1900 }, 1100 - 80, 1900 + 88 },
                { { 600, 1800, 700 }, 0, 1980 },
                { { 601, 1800, 700 }, 601 - 119.9, 1800 + 131.89 },
                { { 1000, 1000, 1000 }, 1000, 1010 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "m", 2, 2, 1);
    g_autofree char *json = NULL, *script = NULL;
    Axes axes;

    for (guint d = 0; d < 2; d++) {
      PsSpan span = { .op = { .stage = (guint16)d }, .end_ns = 1000, .device = (guint16)d, .peer = (guint16)d };

      g_array_append_val (timeline->ops, span);
      for (guint k = 0; k < 3; k++) {
        PsMemoryPoint point = { .time_ns = 100 * k, .bytes = cases[i].bytes[d ? 0 : k], .device = (guint16)d };

        g_array_append_val (timeline->memory, point);
      }
    }
    json = ps_timeline_to_json (timeline);
    write_text (fixture, "m.json", json);
    script = plot (fixture, "timeline m.json");
    if (!axes_of (fixture, script, &axes))
      return;
    g_assert_cmpfloat_with_epsilon (axes.y_low, cases[i].bottom, 1e-6);
    g_assert_cmpfloat_with_epsilon (axes.y_high, cases[i].top, 1e-6);
  }
}

/* Ops below a pixel are mixed up to the end of the axis. */
static void test_dense_end (Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "dense", 1, 1, 5001);
  double end = 0;

  for (guint i = 0; i < 5001; i++) {
    PsSpan span = { .op = { .microbatch = i }, .start_ns = 100 * i, .end_ns = 100 * i + 100 };

    g_array_append_val (timeline->ops, span);
  }
  g_autofree char *json = ps_timeline_to_json (timeline), *script = NULL;
  write_text (fixture, "d.json", json);
  for (guint width = 1000; width < 1002; width++) {
    g_autofree char *line = g_strdup_printf ("timeline d.json --size %ux300", width);

    g_free (script);
    script = plot (fixture, line);
    g_autoptr (GPtrArray) pieces = script_block (script, "dense1");
    for (guint i = 0; i < pieces->len; i++)
      end = MAX (end, number_at (pieces, i, 1));
    g_assert_cmpfloat (end, >=, script_number (script, "time_end") * (1 - 1e-9));
  }
}

/* In colours: one device of four ops of 10 ns, the third on its second chunk, in 46 columns: label, and 40 columns, ten
 * of each op. */
static void test_painted (G_GNUC_UNUSED Fixture *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct {
    PsOpKind kind;
    guint16 chunk;
    guint microbatch;
    const char *paint;
  } ops[] = { { PS_OP_F, 0, 0, "38;5;231;48;5;25" },
              { PS_OP_B, 0, 12, "38;5;231;48;5;36" },
              { PS_OP_W, 1, 3, "38;5;16;48;5;222" },
              { PS_OP_BW, 0, 4, "38;5;231;48;5;166" } };
  g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "paint", 1, 2, 13);
  g_autoptr (GString) row = g_string_new ("  0 | ");
  const PsTimelineText style = { .columns = 46, .colour = TRUE };

  for (guint i = 0; i < 4; i++) {
    PsSpan span = { .op = { .kind = ops[i].kind, .microbatch = ops[i].microbatch, .stage = ops[i].chunk },
                    .chunk = ops[i].chunk,
                    .start_ns = 10 * i,
                    .end_ns = 10 * i + 10 };

    g_array_append_val (timeline->ops, span);
    g_string_append_printf (row, "\033[%sm%-10u\033[0m", ops[i].paint, ops[i].microbatch);
  }
  timeline->iteration_ns = 40;
  g_autofree char *text = ps_timelines_to_text (&timeline, 1, &style, NULL);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_assert_cmpstr (lines[1], ==, row->str);
  g_assert_nonnull (strstr (text, "lighter: later chunks"));
  g_assert_cmpuint (count (text, "\033[38;5;16;48;5;178m  \033[0m W  backward for weights"), ==, 1);
}

#define ADD(path, function) g_test_add (path, Fixture, NULL, make_folder, function, clear_folder)

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/plot-places/units", test_units);
  ADD ("/plot-places/style", test_style);
  ADD ("/plot-places/about", test_about);
  ADD ("/plot-places/looks", test_looks);
  ADD ("/plot-places/accuracy", test_accuracy);
  ADD ("/plot-places/accuracy-wide", test_accuracy_wide);
  ADD ("/plot-places/loss", test_loss);
  ADD ("/plot-places/loss-refusals", test_loss_refusals);
  ADD ("/plot-places/lines", test_lines);
  ADD ("/plot-places/lines-flat", test_lines_flat);
  ADD ("/plot-places/ticks", test_ticks);
  ADD ("/plot-places/front", test_front);
  ADD ("/plot-places/front-figures", test_front_figures);
  ADD ("/plot-places/heat", test_heat);
  ADD ("/plot-places/heat-sizes", test_heat_sizes);
  ADD ("/plot-places/heat-words", test_heat_words);
  ADD ("/plot-places/timeline", test_timeline);
  ADD ("/plot-places/pair", test_pair);
  ADD ("/plot-places/rows", test_rows);
  ADD ("/plot-places/memory", test_memory_places);
  ADD ("/plot-places/memory-devices", test_memory_devices);
  ADD ("/plot-places/memory-axis", test_memory_axis);
  ADD ("/plot-places/dense-end", test_dense_end);
  ADD ("/plot-places/painted", test_painted);
  return g_test_run ();
}
