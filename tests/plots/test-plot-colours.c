/* Tests of the pictures' colours: that eyes with two kinds of cones tell them apart, too. */
#include "plots.h"

#include <math.h>
#include <string.h>

/* What is seen without one kind of cones, in linear RGB: Machado, Oliveira and Fernandes, A physiologically-based model
 * for simulation of color vision deficiency, IEEE Transactions on Visualization and Computer Graphics 15 (2009), table
 * 1, severity 1; the first is what all see. */
static const double eyes[][3][3] = {
  { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } },
  { { 0.152286, 1.052583, -0.204868 }, { 0.114503, 0.786281, 0.099216 }, { -0.003882, -0.048116, 1.051998 } },
  { { 0.367322, 0.860646, -0.227968 }, { 0.280085, 0.672501, 0.047413 }, { -0.011820, 0.042940, 0.968881 } },
  { { 1.255528, -0.076749, -0.178779 }, { -0.078411, 0.930809, 0.147602 }, { 0.004733, 0.691367, 0.303900 } },
};

/* Of the distances in CIELAB some 2 can just be seen side by side; apart and in small marks more is needed. */
#define LEAST_DISTANCE 15

typedef struct {
  double part[3];
} Colour;

/* sRGB, IEC 61966-2-1. */
static double linear (guint8 value)
{
  double part = value / 255.0;

  return part <= 0.04045 ? part / 12.92 : pow ((part + 0.055) / 1.055, 2.4);
}

static Colour seen (guint32 rgb, guint eye)
{
  const double of[3] = { linear (rgb >> 16 & 0xff), linear (rgb >> 8 & 0xff), linear (rgb & 0xff) };
  Colour colour = { 0 };

  for (guint i = 0; i < 3; i++) {
    for (guint k = 0; k < 3; k++)
      colour.part[i] += eyes[eye][i][k] * of[k];
    colour.part[i] = CLAMP (colour.part[i], 0, 1);
  }
  return colour;
}

static double root (double t)
{
  return t > 216.0 / 24389 ? cbrt (t) : (24389.0 / 27 * t + 16) / 116;
}

/* CIELAB under D65. */
static Colour lab (Colour c)
{
  double x = root ((0.4124 * c.part[0] + 0.3576 * c.part[1] + 0.1805 * c.part[2]) / 0.9505),
         y = root (0.2126 * c.part[0] + 0.7152 * c.part[1] + 0.0722 * c.part[2]),
         z = root ((0.0193 * c.part[0] + 0.1192 * c.part[1] + 0.9505 * c.part[2]) / 1.0891);

  return (Colour){ { 116 * y - 16, 500 * (x - y), 200 * (y - z) } };
}

static double distance (guint32 a, guint32 b, guint eye)
{
  Colour x = lab (seen (a, eye)), y = lab (seen (b, eye));

  return hypot (hypot (x.part[0] - y.part[0], x.part[1] - y.part[1]), x.part[2] - y.part[2]);
}

static void check_apart (const guint32 *colours, guint n)
{
  for (guint eye = 0; eye < G_N_ELEMENTS (eyes); eye++)
    for (guint i = 0; i < n; i++)
      for (guint k = 0; k < i; k++)
        if (distance (colours[i], colours[k], eye) < LEAST_DISTANCE)
          g_test_fail_printf ("eye %u: #%06x and #%06x are %.1f apart", eye, colours[k], colours[i],
                              distance (colours[i], colours[k], eye));
}

/* Black and white are 100 apart for everybody, and green and red come nearer without the cones between them. */
static void test_distance (void)
{
  for (guint eye = 0; eye < G_N_ELEMENTS (eyes); eye++)
    g_assert_cmpfloat_with_epsilon (distance (0x000000, 0xffffff, eye), 100, 0.1);
  g_assert_cmpfloat (distance (0xa04040, 0x608040, 2), <, distance (0xa04040, 0x608040, 0) / 3);
}

static void test_series (void)
{
  guint32 colours[PS_PLOT_N_COLOURS];

  for (guint i = 0; i < PS_PLOT_N_COLOURS; i++)
    colours[i] = ps_plot_series_colour (i);
  check_apart (colours, PS_PLOT_N_COLOURS);
}

/* A map tells families apart by colour alone. */
static void test_families (void)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    for (guint k = 0; k < i; k++)
      g_assert_cmphex (ps_plot_schedule_colour (families[i]->name), !=, ps_plot_schedule_colour (families[k]->name));
}

static void test_ops (void)
{
  guint32 colours[PS_N_OP_KINDS];

  for (PsOpKind kind = 0; kind < PS_N_OP_KINDS; kind++)
    colours[kind] = ps_plot_op_colour (kind, 0, 1);
  check_apart (colours, PS_N_OP_KINDS);
}

/* The colours of devices and of maps, the palette of style.gp, from dark to light: what is read as more or less is
 * lighter at every step, for every eye. */
static void test_devices (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "..", "plots", "style.gp", NULL), *style = NULL;
  guint32 colours[16];
  guint n = 0;

  g_assert_true (g_file_get_contents (path, &style, NULL, NULL));
  const char *palette = strstr (style, "set palette defined ("), *end = palette != NULL ? strchr (palette, ')') : NULL;
  g_assert_nonnull (end);
  for (const char *at = strchr (palette, '#'); at != NULL && at < end && n < G_N_ELEMENTS (colours);
       at = strchr (at + 1, '#'))
    colours[n++] = (guint32)g_ascii_strtoull (at + 1, NULL, 16);
  g_assert_cmpuint (n, ==, 5);
  for (guint eye = 0; eye < G_N_ELEMENTS (eyes); eye++)
    for (guint i = 1; i < n; i++)
      g_assert_cmpfloat (lab (seen (colours[i], eye)).part[0], >, lab (seen (colours[i - 1], eye)).part[0] + 5);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plot-colours/distance", test_distance);
  g_test_add_func ("/plot-colours/series", test_series);
  g_test_add_func ("/plot-colours/families", test_families);
  g_test_add_func ("/plot-colours/ops", test_ops);
  g_test_add_func ("/plot-colours/devices", test_devices);
  return g_test_run ();
}
