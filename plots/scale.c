/* scale.c - units and ticks of axes, colours of ops and devices. */
#include "scale.h"

#include <math.h>

PsPlotUnit
ps_plot_time_unit (gint64 longest_ns)
{
  if (longest_ns < 10 * 1000)
    return (PsPlotUnit){ "us", 1e3 };
  if (longest_ns > G_GINT64_CONSTANT (100) * 1000 * 1000 * 1000)
    return (PsPlotUnit){ "s", 1e9 };
  return (PsPlotUnit){ "ms", 1e6 };
}

PsPlotUnit
ps_plot_size_unit (gint64 largest_bytes)
{
  static const PsPlotUnit units[] = {
    { "B", 1 }, { "KiB", 1024 }, { "MiB", 1048576 }, { "GiB", 1073741824 }, { "TiB", 1099511627776 },
  };
  guint unit = 0;

  while (unit + 1 < G_N_ELEMENTS (units) && (double)largest_bytes >= 2 * units[unit + 1].size)
    unit++;
  return units[unit];
}

void
ps_plot_sort_numbers (GArray *numbers)
{
  g_array_sort (numbers, ps_compare_double);
}

double
ps_plot_tick_step (double range, guint n)
{
  double rough = range / n;
  double power = pow (10, floor (log10 (rough)));
  double digit = rough / power;

  return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

guint32
ps_plot_mix_colours (guint32 a, guint32 b, double part)
{
  guint32 colour = 0;

  for (int shift = 16; shift >= 0; shift -= 8)
    {
      double from = (a >> shift) & 0xff, to = (b >> shift) & 0xff;

      colour |= (guint32)lround (from + (to - from) * part) << shift;
    }
  return colour;
}

guint32
ps_plot_op_colour (PsOpKind kind, guint chunk, guint n_chunks)
{
  static const guint32 hues[PS_N_OP_KINDS] = {
    [PS_OP_F] = 0x0072b2,  [PS_OP_B] = 0x009e73, [PS_OP_W] = 0xe69f00,
    [PS_OP_BW] = 0xd55e00, [PS_OP_R] = 0xcc79a7, [PS_OP_O] = 0x666666,
  };

  return ps_plot_mix_colours (hues[kind], 0xffffff, n_chunks > 1 ? 0.62 * chunk / (n_chunks - 1) : 0);
}

guint32
ps_plot_tint (guint32 colour)
{
  return ps_plot_mix_colours (colour, 0xffffff, 0.5);
}

guint32
ps_plot_text_colour (guint32 background)
{
  double luminance = 0.299 * (background >> 16 & 0xff) + 0.587 * (background >> 8 & 0xff) + 0.114 * (background & 0xff);

  return luminance > 140 ? 0x000000 : 0xffffff;
}

guint32
ps_plot_device_colour (guint device, guint n_devices)
{
  static const guint32 steps[] = { 0x440154, 0x3b528b, 0x21918c, 0x5ec962, 0xe8cf20 };
  double place = n_devices > 1 ? (double)device / (n_devices - 1) * (G_N_ELEMENTS (steps) - 1) : 0;
  guint step = MIN ((guint)place, G_N_ELEMENTS (steps) - 2);

  return ps_plot_mix_colours (steps[step], steps[step + 1], place - step);
}

const char *
ps_plot_kind_label (PsOpKind kind)
{
  static const char *const labels[PS_N_OP_KINDS] = {
    [PS_OP_F] = "F  forward",         [PS_OP_B] = "B  backward for input", [PS_OP_W] = "W  backward for weights",
    [PS_OP_BW] = "BW  full backward", [PS_OP_R] = "R  recompute",          [PS_OP_O] = "O  optimizer",
  };

  return labels[kind];
}
