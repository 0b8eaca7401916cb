/* sweep-plot.h - the results of a sweep as lines, as a front of time against memory, and as a map. */
#pragma once

#include "gnuplot.h"

#include <pipesim/sweep.h>

#define PS_PLOT_MAX_SERIES 40

/* Choice of what is drawn of a sweep. Names are columns of the view result. */
typedef struct
{
  char *x;      /* pareto: not used */
  char *y;      /* pareto: not used */
  char *series; /* one line, or one colour, for each of its values; NULL: one for all. Maps: not used */
  char *heat;   /* draws a map in the colours of this column; NULL: no map */
  gboolean pareto;
  char *log;           /* logarithmic axes: "none", "x", "y" or "xy"; NULL: as reads better */
  PsQuestion question; /* its `where` and `by` count */
} PsSweepPicture;

/* Draws lines: for each value of x and series the fastest setting. Errors: PS_ERROR_USAGE for unknown columns,
 * PS_ERROR_INPUT if nothing is left to draw. */
gboolean ps_sweep_plot (const PsPicture *picture, PsResults *results, const PsSweepPicture *what, GError **error);

/* Draws question.by against peak memory: for each series, number of devices and peak memory the fastest setting as a
 * point, and one front for each number of devices. */
gboolean ps_pareto_plot (const PsPicture *picture, PsResults *results, const PsSweepPicture *what, GError **error);

/* Draws a map: one box for each value of x and y, coloured by the fastest setting's `heat`, a number or a text
 * ("schedule" shows who wins where). The 7 most frequent texts have colours of their own, all others share one. */
gboolean ps_heat_plot (const PsPicture *picture, PsResults *results, const PsSweepPicture *what, GError **error);
