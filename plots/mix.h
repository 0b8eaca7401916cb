/* mix.h - boxes of one row that are narrower than a pixel, drawn as columns in the mean of their colours. The picture
 * looks the same, but its size does not grow with their number. */
#pragma once

#include "strokes.h"

typedef struct _PsPlotMix PsPlotMix;

/* Makes n_columns from 0 on, each `column` wide, in the coordinates of the boxes. Free with ps_plot_mix_free. */
PsPlotMix *ps_plot_mix_new (guint n_columns, double column);
void ps_plot_mix_free (PsPlotMix *mix);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPlotMix, ps_plot_mix_free)

void ps_plot_mix_add (PsPlotMix *mix, guint32 colour, double left, double right);

/* Adds the touched columns to strokes and empties them. Free parts of a column count as white. Shades are coarse, so
 * that similar neighbours become one piece. */
void ps_plot_mix_flush (PsPlotMix *mix, PsPlotStrokes *strokes, double y, double width);
