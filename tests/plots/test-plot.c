/* Tests of the program pipesim-plot: that it draws, how many boxes, and what it says when it cannot. */
#include "program-rig.h"

#include <pipesim/timeline.h>

#include <sys/stat.h>

static int run_plot (const InFolder *fixture, const char *path_variable, const char *arguments, char **talk)
{
  g_auto (GStrv) environment = g_get_environ ();
  g_autofree char *line = with_timelines (arguments);

  if (path_variable != NULL)
    environment = g_environ_setenv (environment, "PATH", path_variable, TRUE);
  return run_program (fixture->folder, "pipesim-plot", line, environment, NULL, talk);
}

static char *draw (const InFolder *fixture, const char *arguments, const char *name, gsize *length)
{
  g_autofree char *talk = NULL, *path = g_build_filename (fixture->folder, name, NULL);
  g_autofree char *line = g_strdup_printf ("%s -o %s", arguments, name);
  guint before = count_files (fixture->folder);
  char *contents = NULL;

  g_assert_cmpint (run_plot (fixture, NULL, line, &talk), ==, 0);
  g_assert_cmpstr (talk, ==, "");
  g_assert_true (g_file_get_contents (path, &contents, length, NULL));
  g_assert_cmpuint (count_files (fixture->folder), ==, before + 1);
  g_unlink (path);
  return contents;
}

/* Boxes are filled polygons; those of one colour belong to one kind. */
static guint count_boxes (const char *svg, int r, int g, int b)
{
  g_autofree char *fill = g_strdup_printf ("fill = 'rgb(%3d, %3d, %3d)'", r, g, b);

  return count (svg, fill);
}

static void test_svg (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = NULL;

  if (!have_program ("gnuplot"))
    return;
  svg = draw (fixture, "timeline '%P'", "a.svg", NULL);
  g_assert_true (g_str_has_prefix (svg, "<?xml"));
  /* Four ops of each of F, B, W, and one swatch of each in the legend. */
  g_assert_cmpuint (count_boxes (svg, 0x00, 0x72, 0xb2), ==, 4 + 1);
  g_assert_cmpuint (count_boxes (svg, 0x00, 0x9e, 0x73), ==, 4 + 1);
  g_assert_cmpuint (count_boxes (svg, 0xe6, 0x9f, 0x00), ==, 4 + 1);
  g_assert_cmpuint (count_boxes (svg, 0x66, 0x66, 0x66), ==, 0);
  g_assert_nonnull (strstr (svg, "two by two: 2 devices, 2 stages, 2 microbatches"));
  g_assert_nonnull (
      strstr (svg, "simulated two by two: iteration 80 ns, bubble 37.5 % of iteration, peak memory 1.172 KiB"));
  g_assert_null (strstr (svg, "measured"));
}

/* Lines in the colours of forwards and backwards: one for each transfer, the file has one of each. */
static void test_transfers (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *with = NULL, *without = NULL;

  if (!have_program ("gnuplot"))
    return;
  without = draw (fixture, "timeline '%P'", "a.svg", NULL);
  with = draw (fixture, "timeline '%P' --transfers", "a.svg", NULL);
  g_assert_cmpuint (count (without, "rgb(204,  51,  17)"), ==, 0);
  g_assert_cmpuint (count (with, "rgb(204,  51,  17)"), >, 0);
  g_assert_cmpuint (count (with, "rgb( 34,  34,  34)"), >, count (without, "rgb( 34,  34,  34)"));
}

/* Devices with an F of 1 us and a BW of 2 us for each microbatch, and the messages of the F. */
static void write_long (const InFolder *fixture, guint n_devices, guint n_microbatches)
{
  g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "long", n_devices, n_devices, n_microbatches);
  g_autofree char *path = g_build_filename (fixture->folder, "long.json", NULL), *text = NULL;

  for (guint i = 0; i < 2 * n_devices * n_microbatches; i++) {
    guint device = i / (2 * n_microbatches), microbatch = i / 2 % n_microbatches;
    gint64 start_ns = 1000 * (3 * microbatch + i % 2);
    PsSpan span = { .op = { .kind = i % 2 ? PS_OP_BW : PS_OP_F, .microbatch = microbatch, .stage = (guint16)device },
                    .device = (guint16)device,
                    .peer = (guint16)device,
                    .start_ns = start_ns,
                    .end_ns = start_ns + (i % 2 ? 2000 : 1000) };

    g_array_append_val (timeline->ops, span);
    span.peer++;
    if (i % 2 == 0 && span.peer < n_devices)
      g_array_append_val (timeline->transfers, span);
  }
  ps_timeline_sort (timeline);
  text = ps_timeline_to_json (timeline);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

/* Boxes too thin to be seen one by one are pieces of lines, else the picture would take megabytes: 16 devices times 280
 * ops of 1.3 and 2.6 pixels. */
static void test_svg_long (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = NULL;
  gsize length;

  if (!have_program ("gnuplot"))
    return;
  write_long (fixture, 16, 280);
  svg = draw (fixture, "timeline long.json", "a.svg", &length);
  g_assert_cmpuint (count_boxes (svg, 0x00, 0x72, 0xb2), ==, 1); /* the legend's */
  g_assert_cmpuint (count (svg, "<path stroke='rgb(  0, 114, 178)'"), >, 0);
  g_assert_cmpuint (count (svg, "<path stroke='rgb(213,  94,   0)'"), >, 0);
  g_assert_cmpuint (length, <, 16 * 2 * 280 * 50);
  g_assert_null (strstr (svg, "mixed"));
}

/* Below a pixel, 6,000 ops as columns: a third of F (0, 114, 178) and two of BW (213, 94, 0) are (142, 101, 59), to
 * steps of 17 (136, 102, 51). Of the 1,500 messages those remain that are 3 of the 1108 pixels apart. */
static void test_svg_dense (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = NULL, *transfers = NULL;
  gsize length, with_transfers;

  if (!have_program ("gnuplot"))
    return;
  write_long (fixture, 2, 1500);
  svg = draw (fixture, "timeline long.json", "a.svg", &length);
  transfers = draw (fixture, "timeline long.json --transfers", "b.svg", &with_transfers);
  g_assert_cmpuint (count (svg, "<path stroke='rgb(136, 102,  51)'"), >, 0);
  g_assert_cmpuint (count (svg, "<path stroke='rgb(  0, 114, 178)'"), ==, 0);
  g_assert_cmpuint (length, <, 2 * 1108 / 2 * 50);
  g_assert_nonnull (strstr (svg, "; ops below a pixel are mixed"));
  g_assert_nonnull (strstr (transfers, "; of near transfers one is drawn"));
  g_assert_cmpuint (with_transfers - length, <, 1108 / 3 * 50);
}

static void test_svg_two (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = NULL;
  const char *simulated, *measured;

  if (!have_program ("gnuplot"))
    return;
  svg = draw (fixture, "timeline '%P' '%M' --title \"it's <b>90\\\\% & `date` @x\"", "a.svg", NULL);
  g_assert_cmpuint (count_boxes (svg, 0x00, 0x72, 0xb2), ==, 2 * 4 + 1);
  g_assert_cmpuint (count_boxes (svg, 0x66, 0x66, 0x66), ==, 2 + 1); /* O, measured only */
  simulated = strstr (svg, "simulated two by two");
  measured = strstr (svg, "measured two by two");
  g_assert_nonnull (simulated);
  g_assert_nonnull (measured);
  g_assert_true (simulated < measured);
  /* The title is text, whatever it holds. */
  g_assert_nonnull (strstr (svg, "it's &lt;b>90\\% &amp; `date` @x"));
}

/* What gnuplot could take for an end of the string, a command, a macro, a format or markup. */
static void test_hostile (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const char *const texts[] = { "'quoted'",
                                       "it''s 1.05",
                                       "'one",
                                       "\"; system 'touch pwned'; x=\"",
                                       "`touch pwned` $(touch pwned) @pwned $pwned",
                                       "\\\"\n!touch pwned\n\\140touch pwned\\140 %s%n {/Bold x}^2_1 ~a{b} &{c}",
                                       "\xc3\xa4'\xe2\x82\xac" };

  const PsSpan span = { .end_ns = 5 };

  if (!have_program ("gnuplot"))
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++) {
    g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, texts[i], 1, 1, 1);
    g_autofree char *path = g_build_filename (fixture->folder, "hostile.json", NULL), *json = NULL, *svg = NULL;
    g_autofree char *title = g_shell_quote (texts[i]), *arguments = NULL, *line = ps_format_line (texts[i]);
    g_autoptr (GString) drawn = g_string_new (line);

    g_array_append_val (timeline->ops, span);
    json = ps_timeline_to_json (timeline);
    g_assert_true (g_file_set_contents (path, json, -1, NULL));
    arguments = g_strdup_printf ("timeline hostile.json --title %s", title);
    svg = draw (fixture, arguments, "a.svg", NULL);
    g_string_replace (drawn, "&", "&amp;", 0);
    g_string_replace (drawn, "<", "&lt;", 0);
    g_assert_cmpuint (count (svg, drawn->str), ==, 2); /* the title and the name of the schedule */
  }
}

static void test_png (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *png = NULL;
  gsize length;

  if (!have_program ("gnuplot"))
    return;
  png = draw (fixture, "timeline '%P' --size 640x320", "a.png", &length);
  g_assert_cmpuint (length, >, 1000);
  g_assert_cmpmem (png, 8, "\x89PNG\r\n\x1a\n", 8);
  /* Width and height stand in the header, big end first. */
  g_assert_cmpmem (png + 16, 8, "\0\0\x02\x80\0\0\x01\x40", 8);
}

static void test_pdf (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *pdf = NULL;

  if (!have_program ("gnuplot"))
    return;
  pdf = draw (fixture, "timeline '%P' '%M'", "a.pdf", NULL);
  g_assert_true (g_str_has_prefix (pdf, "%PDF-"));
}

static void test_memory (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *svg = NULL;

  if (!have_program ("gnuplot"))
    return;
  svg = draw (fixture, "memory '%P' '%M' --memory-limit 2KiB", "a.svg", NULL);
  g_assert_cmpuint (count (svg, "limit 2 KiB"), ==, 2);
  g_assert_cmpuint (count (svg, "weights"), ==, 2);
  g_assert_cmpuint (count (svg, "device 1"), ==, 2);
}

static void test_refusals (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const Refusal cases[] = {
    { "", 2, "'' is nothing to draw; there are timeline, memory, sweep, loss, accuracy, calibration" },
    { "gantt '%P' -o a.svg", 2,
      "'gantt' is nothing to draw; there are timeline, memory, sweep, loss, accuracy, calibration" },
    { "timeline -o a.svg", 2, "timeline: 0 files given; one or two timelines are wanted" },
    { "timeline '%P' '%P' '%P' -o a.svg", 2, "timeline: 3 files given; one or two timelines are wanted" },
    { "timeline '%P'", 2, "-o: missing; name a file ending in .svg, .png or .pdf, or give --terminal" },
    { "timeline '%P' -o a.gif", 2, "-o: 'a.gif' does not end in .svg, .png or .pdf" },
    { "timeline '%P' -o a.svg --size 10", 2, "--size: '10' is no WIDTHxHEIGHT in pixels, each from 200 to 16000" },
    { "timeline '%P' -o a.svg --size 100000x300", 2,
      "--size: '100000x300' is no WIDTHxHEIGHT in pixels, each from 200 to 16000" },
    { "timeline '%P' '%P' -o a.svg --size 640x200", 2,
      "--size 640x200: too low for * rows of devices; 640x* or more would be right" },
    { "memory '%P' -o a.svg --size 640x200", 2,
      "--size 640x200: too small for 1 panel of memory; 640x208 or more would be right" },
    { "memory '%P' '%P' -o a.svg --size 200x300", 2,
      "--size 200x300: too small for 2 panels of memory; 330x328 or more would be right" },
    { "timeline '%P' -o a.svg --memory-limit 1GiB", 2, "--memory-limit: belongs to memory, not to timeline" },
    { "memory '%P' -o a.svg --transfers", 2, "--transfers: belongs to timeline, not to memory" },
    { "memory '%P' -o a.svg --memory-limit much", 2, "--memory-limit: 'much' is no size; *" },
    { "timeline '%P' -o a.svg --colour", 2, "*--colour*" },
    { "timeline nowhere.json -o a.svg", 1, "nowhere.json: *" },
    { "timeline '%P' nowhere.json -o a.svg", 1, "nowhere.json: *" },
    { "timeline /dev/null -o a.svg", 1,
      "/dev/null: is no timeline: neither pipesim-timeline/1 nor a trace with traceEvents" },
  };

  check_refusals (fixture->folder, "pipesim-plot", cases, G_N_ELEMENTS (cases));
}

static void test_unwritable (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *talk = NULL;

  if (!have_program ("gnuplot"))
    return;
  g_assert_cmpint (run_plot (fixture, NULL, "timeline '%P' -o nowhere/a.svg", &talk), ==, 1);
  g_assert_true (g_str_has_prefix (talk, "pipesim plot: nowhere/a.svg: "));
  g_assert_cmpuint (count (talk, "\n"), ==, 1);
  g_assert_cmpuint (count_files (fixture->folder), ==, 0);
}

static void test_no_gnuplot (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  g_autofree char *talk = NULL;

  g_assert_cmpint (run_plot (fixture, fixture->folder, "timeline '%P' -o a.svg", &talk), ==, 1);
  g_assert_cmpstr (talk, ==, "pipesim plot: gnuplot: not found; install Debian's gnuplot-nox\n");
  g_assert_cmpuint (count_files (fixture->folder), ==, 0);
}

/* A gnuplot that fails after much talk, one that draws half a picture, and one that ends before it has read its script.
 */
static void test_broken_gnuplot (InFolder *fixture, G_GNUC_UNUSED gconstpointer data)
{
  static const struct {
    const char *script;
    const char *talk;
  } cases[] = {
    { "echo first >&2; echo '  last words  ' >&2; echo >&2; exit 2", "pipesim plot: gnuplot: last words\n" },
    { "exit 3", "pipesim plot: gnuplot: failed without a word\n" },
    { "cat >/dev/null; echo '<?xml half'", "pipesim plot: gnuplot: drew no whole picture for a.svg\n" },
    { "exit 0", "pipesim plot: gnuplot: *\n" },
  };
  g_autofree char *gnuplot = g_build_filename (fixture->folder, "gnuplot", NULL);
  g_autofree char *path_variable = g_strconcat (fixture->folder, ":/usr/bin:/bin", NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autofree char *script = g_strdup_printf ("#!/bin/sh\n%s\n", cases[i].script), *talk = NULL;

    g_assert_true (g_file_set_contents (gnuplot, script, -1, NULL));
    g_assert_cmpint (g_chmod (gnuplot, 0755), ==, 0);
    g_assert_cmpint (run_plot (fixture, path_variable, "timeline '%P' -o a.svg", &talk), ==, 1);
    if (!g_pattern_match_simple (cases[i].talk, talk))
      g_assert_cmpstr (talk, ==, cases[i].talk);
    g_assert_cmpuint (count_files (fixture->folder), ==, 1); /* the gnuplot */
  }
}

#define ADD(path, function) g_test_add (path, InFolder, NULL, make_folder, function, clear_folder)

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/plot/svg", test_svg);
  ADD ("/plot/svg/transfers", test_transfers);
  ADD ("/plot/svg/long", test_svg_long);
  ADD ("/plot/svg/dense", test_svg_dense);
  ADD ("/plot/svg/two", test_svg_two);
  ADD ("/plot/svg/hostile", test_hostile);
  ADD ("/plot/png", test_png);
  ADD ("/plot/pdf", test_pdf);
  ADD ("/plot/memory", test_memory);
  ADD ("/plot/refusals", test_refusals);
  ADD ("/plot/unwritable", test_unwritable);
  ADD ("/plot/no-gnuplot", test_no_gnuplot);
  ADD ("/plot/broken-gnuplot", test_broken_gnuplot);
  return g_test_run ();
}
