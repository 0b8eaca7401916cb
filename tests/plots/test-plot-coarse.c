/* Tests of what pictures draw of more than can be seen: columns of mixed colours, and the largest of a curve. */
#include "timeline-plot.h"

static char *
flushed (PsPlotMix *mix)
{
  g_autoptr (PsPlotStrokes) strokes = ps_plot_strokes_new ();
  g_autoptr (GString) script = g_string_new (NULL);

  ps_plot_mix_flush (mix, strokes, 3, 5);
  ps_plot_strokes_append (strokes, script);
  return g_string_free (g_steal_pointer (&script), FALSE);
}

/* Columns of 2: the first all black; the second black for a quarter, (1 - 1/4) 255 = 191 to steps of 17 is 187, 0xbb;
 * the third black and red for a half each, (128, 0, 0), 0x88 in steps; the fourth untouched; the fifth and the sixth
 * black, one piece. */
static void
test_mix (void)
{
  g_autoptr (PsPlotMix) mix = ps_plot_mix_new (6, 2);

  ps_plot_mix_add (mix, 0x000000, 0, 2.5);
  ps_plot_mix_add (mix, 0x000000, 4, 5);
  ps_plot_mix_add (mix, 0xff0000, 5, 6);
  ps_plot_mix_add (mix, 0x000000, 8, 12);
  g_autofree char *script = flushed (mix), *again = flushed (mix);
  g_assert_nonnull (strstr (script, "stroke_colour[1] = 0\n$strokes1 << EOD\n0 3\n2 3\n\n8 3\n12 3\n\nEOD\n"));
  g_assert_nonnull (strstr (script, "stroke_colour[2] = 12303291\n$strokes2 << EOD\n2 3\n4 3\n\nEOD\n"));
  g_assert_nonnull (strstr (script, "stroke_colour[3] = 8912896\n$strokes3 << EOD\n4 3\n6 3\n\nEOD\n"));
  g_assert_null (strstr (again, "$strokes1"));
}

static void
append (PsTimeline *timeline, gint64 time_ns, gint64 bytes, guint device)
{
  const PsMemoryPoint point = { .time_ns = time_ns, .bytes = bytes, .device = (guint16)device };

  g_array_append_val (timeline->memory, point);
}

/* In grains of 10: 5, then 9 for a moment; what goes on behind it is 3; 7 from 40 on, at the end of which nothing
 * changes any more. The second device has its own. */
static void
test_memory (void)
{
  g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "curve", 2, 2, 1);
  g_autoptr (GString) script = g_string_new (NULL);

  append (timeline, 0, 5, 0);
  append (timeline, 12, 9, 0);
  append (timeline, 13, 3, 0);
  append (timeline, 41, 7, 0);
  append (timeline, 0, 2, 1);
  ps_timeline_append_memory (script, timeline, 1, 1, 100, 10);
  g_auto (GStrv) lines = g_strsplit (script->str, "\n", -1);
  static const struct
  {
    double x, y;
  } expected[] = { { 0, 5 }, { 10, 5 }, { 10, 9 }, { 20, 9 }, { 20, 3 }, { 40, 3 }, { 40, 7 }, { 100, 7 } };
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      g_auto (GStrv) cells = g_strsplit (lines[i], " ", -1);

      g_assert_cmpfloat (g_ascii_strtod (cells[0], NULL), ==, expected[i].x);
      g_assert_cmpfloat (g_ascii_strtod (cells[1], NULL), ==, expected[i].y);
    }
  g_assert_cmpstr (lines[8], ==, "");
  g_assert_true (g_str_has_prefix (lines[9], "0 2 "));
  g_assert_true (g_str_has_prefix (lines[10], "100 2 "));
}

/* The largest level of a step curve in [from, from + grain). */
static gint64
largest_of (const GArray *points, gint64 from_ns, gint64 grain_ns)
{
  gint64 largest = 0;

  for (guint i = 0; i < points->len; i++)
    {
      const PsMemoryPoint *point = &g_array_index (points, PsMemoryPoint, i);
      gint64 until = i + 1 < points->len ? point[1].time_ns : G_MAXINT64;

      if (point->time_ns < from_ns + grain_ns && (until > from_ns || (until == from_ns && point->time_ns == from_ns)))
        largest = MAX (largest, point->bytes);
    }
  return largest;
}

/* Whatever the curve, the drawn line is at the largest of each grain. */
static void
test_random_memory (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);

  for (guint round = 0; round < 300; round++)
    {
      g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "curve", 1, 1, 1);
      g_autoptr (GString) script = g_string_new (NULL);
      g_autoptr (GArray) drawn = g_array_new (FALSE, FALSE, sizeof (PsMemoryPoint));
      gint64 time_ns = 0;

      for (guint i = 0; i < 20; i++, time_ns += g_rand_int_range (rand, 0, 12))
        append (timeline, time_ns, g_rand_int_range (rand, 1, 9), 0);
      ps_timeline_append_memory (script, timeline, 1, 1, 400, 7);
      g_auto (GStrv) lines = g_strsplit (script->str, "\n", -1);
      for (guint i = 0; lines[i][0]; i += 2)
        {
          g_auto (GStrv) cells = g_strsplit (lines[i], " ", -1);
          const PsMemoryPoint point = { .time_ns = (gint64)g_ascii_strtod (cells[0], NULL), .bytes = atoi (cells[1]) };

          g_array_append_val (drawn, point);
        }
      for (gint64 from = 0; from < time_ns; from += 7)
        g_assert_cmpint (largest_of (drawn, from, 7), ==, largest_of (timeline->memory, from, 7));
    }
}

/* A picture of many ops is coarse; SVG, which grows with them, sooner. */
static void
test_many_ops (void)
{
  const PsPicture svg = { .output = "a.svg" }, png = { .output = "a.png" }, pdf = { .output = "a.pdf" };
  g_autoptr (PsTimeline) timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, "many", 1, 1, 1);

  g_array_set_size (timeline->ops, 4000);
  g_assert_false (ps_timeline_is_coarse (&svg, timeline));
  g_array_set_size (timeline->ops, 40000);
  g_assert_true (ps_timeline_is_coarse (&svg, timeline));
  g_assert_false (ps_timeline_is_coarse (&png, timeline));
  g_array_set_size (timeline->ops, 40001);
  g_assert_true (ps_timeline_is_coarse (&png, timeline));
  g_assert_true (ps_timeline_is_coarse (&pdf, timeline));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plot-coarse/mix", test_mix);
  g_test_add_func ("/plot-coarse/memory", test_memory);
  g_test_add_func ("/plot-coarse/random-memory", test_random_memory);
  g_test_add_func ("/plot-coarse/many-ops", test_many_ops);
  return g_test_run ();
}
