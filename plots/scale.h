/* scale.h - parts shared by all pictures: units and ticks of axes, colours of ops and devices. */
#pragma once

#include <pipesim/base.h>

typedef struct
{
  const char *name; /* "ms", "MiB" */
  double size;      /* in ns or bytes */
} PsPlotUnit;

/* Milliseconds, unless the whole axis would be below 0.01 or above 100 000 of them. */
PsPlotUnit ps_plot_time_unit (gint64 longest_ns);
PsPlotUnit ps_plot_size_unit (gint64 largest_bytes);

/* Sorts an array of double, the least first. */
void ps_plot_sort_numbers (GArray *numbers);

/* Distance of ticks: 1, 2 or 5 times a power of ten, so that about n ticks cover the range. range > 0. */
double ps_plot_tick_step (double range, guint n);

/* 0xrrggbb. Hue by kind (after Okabe and Ito; colour-blind eyes tell them apart), lighter for later chunks. */
guint32 ps_plot_op_colour (PsOpKind kind, guint chunk, guint n_chunks);

/* a at part = 0, b at part = 1, channel by channel. */
guint32 ps_plot_mix_colours (guint32 a, guint32 b, double part);

/* The same hue half way to white, for a background of that colour. */
guint32 ps_plot_tint (guint32 colour);

/* Black or white, whichever reads better on that background. */
guint32 ps_plot_text_colour (guint32 background);

/* Colours of n devices, from dark violet to yellow, evenly lighter. */
guint32 ps_plot_device_colour (guint device, guint n_devices);

/* "F forward", "B backward, input", ... */
const char *ps_plot_kind_label (PsOpKind kind);
