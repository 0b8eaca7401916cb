/* ticks.c - axes whose ticks are named one by one. */
#include "ticks.h"

#include "gnuplot.h"

#include <math.h>

#define AIR 0.05 /* of the axis, at each end */
#define TICK_LETTERS 8

PsPlotRange
ps_plot_range (double smallest, double largest)
{
  double factor = pow (largest / smallest, AIR);

  if (largest > 8 * smallest)
    return (PsPlotRange){ smallest / factor, largest * factor, TRUE };
  return (PsPlotRange){ 0, largest * (1 + AIR), FALSE };
}

guint
ps_plot_most_ticks (double length, double letter)
{
  return (guint)MAX (length / (TICK_LETTERS * letter), 2);
}

static void
append_frame (GString *script, const char *name, const PsPlotRange *range)
{
  g_autofree char *low = g_strconcat ("low_", name, NULL), *high = g_strconcat ("high_", name, NULL);

  ps_gnuplot_append_number (script, low, range->low);
  ps_gnuplot_append_number (script, high, range->high);
  g_string_append_printf (script, "log_%s = %d\n", name, range->is_log);
}

typedef char *(*Format) (gint64 value);

static void
append_ticks (GString *script, const char *name, const GArray *at, Format format)
{
  g_string_append_printf (script, "n_%s = %u\narray tick_%s[%u]\narray text_%s[%u]\n", name, at->len, name,
                          MAX (at->len, 1), name, MAX (at->len, 1));
  for (guint i = 0; i < at->len; i++)
    {
      double value = g_array_index (at, double, i);
      g_autofree char *tick = g_strdup_printf ("tick_%s[%u]", name, i + 1);
      g_autofree char *text = g_strdup_printf ("text_%s[%u]", name, i + 1);
      g_autofree char *formatted = format (llround (value));

      ps_gnuplot_append_number (script, tick, value);
      ps_gnuplot_append_text (script, text, formatted);
    }
}

/* Ticks at 1, 2 and 5 times powers of ten; at the powers alone if those are too many, at more digits if they are
 * few. */
static void
collect_log (GArray *at, const PsPlotRange *range, guint most)
{
  static const double few[] = { 1, 1.5, 2, 3, 4, 5, 6, 8 }, usual[] = { 1, 2, 5 };
  double ratio = range->high / range->low;
  gboolean is_short = ratio < 20;
  gboolean is_long = log10 (ratio) * G_N_ELEMENTS (usual) > most;
  const double *digits = is_short ? few : usual;
  guint n_digits = is_short ? G_N_ELEMENTS (few) : is_long ? 1 : G_N_ELEMENTS (usual);

  for (int power = (int)floor (log10 (range->low)); power <= log10 (range->high); power++)
    for (guint i = 0; i < n_digits; i++)
      {
        double value = pow (10, power) * digits[i];

        if (value >= MAX (range->low, 1) && value <= range->high)
          g_array_append_val (at, value);
      }
}

static void
collect_linear (GArray *at, const PsPlotRange *range, guint most)
{
  double step = MAX (1, ps_plot_tick_step (range->high - range->low, most));

  for (guint i = 0; i * step <= range->high; i++)
    {
      double value = i * step;

      g_array_append_val (at, value);
    }
}

void
ps_plot_append_time_ticks (GString *script, const char *name, const PsPlotRange *range, guint most)
{
  g_autoptr (GArray) at = g_array_new (FALSE, FALSE, sizeof (double));

  if (range->is_log)
    collect_log (at, range, most);
  else
    collect_linear (at, range, most);
  append_frame (script, name, range);
  append_ticks (script, name, at, ps_format_time);
}

void
ps_plot_append_size_ticks (GString *script, const char *name, const PsPlotRange *range, guint most)
{
  g_autoptr (GArray) at = g_array_new (FALSE, FALSE, sizeof (double));
  guint bits = log2 (range->high / range->low) / 3 > most ? 6 : 3;

  for (guint i = 0; i <= log2 (range->high); i += bits)
    {
      double value = exp2 (i);

      if (value >= range->low)
        g_array_append_val (at, value);
    }
  append_frame (script, name, range);
  append_ticks (script, name, at, ps_format_size);
}
