/* ticks.h - axes whose ticks are named one by one: "64 KiB", "20 us". */
#pragma once

#include "scale.h"

typedef struct
{
  double low; /* ends of the axis, in ns or bytes */
  double high;
  gboolean is_log;
} PsPlotRange;

/* A range around values from smallest to largest (> 0), with some air. It is logarithmic if they differ by more than a
 * factor of eight, else it begins at 0. */
PsPlotRange ps_plot_range (double smallest, double largest);

/* How many named ticks fit along an axis; its length and the width of a letter are in pixels. */
guint ps_plot_most_ticks (double length, double letter);

/* Appends low_NAME, high_NAME, log_NAME, n_NAME and the arrays tick_NAME and text_NAME of a time axis; about `most`
 * ticks. */
void ps_plot_append_time_ticks (GString *script, const char *name, const PsPlotRange *range, guint most);

/* Appends the same for a logarithmic axis of sizes: ticks at powers of eight, or of 64 if those would be more than
 * `most`. */
void ps_plot_append_size_ticks (GString *script, const char *name, const PsPlotRange *range, guint most);
