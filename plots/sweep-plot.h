/* sweep-plot.h - the results of a sweep as lines, as a front of time against memory, and as a map. */
#pragma once

#include "plots.h"

#include <pipesim/sweep.h>

/* The settings of a sweep that a picture shows, and how they are told apart. */
typedef struct {
  PsScope *scope;
  char **columns; /* the picture's own, then those that are held apart */
  guint n_own;
  PsResultValues *values; /* of these columns */
} PsSweepRows;

void ps_sweep_rows_clear (PsSweepRows *rows);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsSweepRows, ps_sweep_rows_clear)

/* Reads the fastest settings of each group of the question. Errors: those of ps_results_values. */
gboolean ps_sweep_rows_read (PsSweepRows *rows, PsResults *results, const PsQuestion *question, const char *const *own,
                             GError **error);

/* The title of the i-th column, and its value in a row as text; free the text with g_free. */
const char *ps_sweep_rows_title (const PsSweepRows *rows, guint i);
char *ps_sweep_rows_text (const PsSweepRows *rows, guint row, guint i);

/* What holds a row apart from others: "bandwidth factor 0.5, p 4"; "" for nothing. Free with g_free. */
char *ps_sweep_rows_apart (const PsSweepRows *rows, guint row);

/* Choice of what is drawn of a sweep. Names are columns of the view result. */
typedef struct {
  char *x;      /* pareto: not used */
  char *y;      /* pareto: not used */
  char *series; /* one line, or one colour, for each of its values; NULL: one for all. Maps: not used */
  char *heat;   /* draws a map in the colours of this column; NULL: no map */
  gboolean pareto;
  char *log;           /* logarithmic axes: "none", "x", "y" or "xy"; NULL: as reads better */
  PsQuestion question; /* its `where` and `by` count */
} PsSweepPicture;

/* Draws what is chosen.
 *
 * - Lines: for each value of x and series the fastest setting.
 * - A front, question.by against peak memory: for each series, number of devices and peak memory the fastest setting as
 *   a point, and a line for each number of devices through the settings that are faster than all with less memory.
 * - A map: one box for each value of x and y, coloured by the fastest setting's `heat`, a number or a text ("schedule"
 *   shows who wins where). The 7 most frequent texts have colours of their own, all others share one.
 *
 * Errors: PS_ERROR_USAGE for unknown columns, PS_ERROR_INPUT if nothing is left to draw. */
gboolean ps_sweep_plot (const PsPicture *picture, PsResults *results, const PsSweepPicture *what, GError **error);

/* Reads the settings of a front, and draws those of them that are held apart by `apart` (ps_sweep_rows_apart); NULL:
 * all. */
gboolean ps_front_read (PsSweepRows *rows, PsResults *results, const PsSweepPicture *what, GError **error);
gboolean ps_front_plot (const PsPicture *picture, const PsSweepRows *rows, const PsSweepPicture *what,
                        const char *apart, GError **error);
