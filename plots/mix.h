/* mix.h - boxes narrower than a pixel, of one row, as columns in the mean of their colours: what the eye would see of
 * them, in a picture whose size does not grow with their number. */
#ifndef PS_PLOT_MIX_H
#define PS_PLOT_MIX_H

#include "strokes.h"

G_BEGIN_DECLS

typedef struct _PsPlotMix PsPlotMix;

/* n_columns from 0 on, each `column` wide, in the coordinates of the boxes. Free with ps_plot_mix_free. */
PsPlotMix *ps_plot_mix_new (guint n_columns, double column);
void ps_plot_mix_free (PsPlotMix *mix);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPlotMix, ps_plot_mix_free)

void ps_plot_mix_add (PsPlotMix *mix, guint32 colour, double left, double right);

/* Adds the columns that boxes have touched to strokes, what they leave free mixed in as white, and begins anew. Shades
 * are coarse, so that columns that hardly differ become one piece. */
void ps_plot_mix_flush (PsPlotMix *mix, PsPlotStrokes *strokes, double y, double width);

G_END_DECLS

#endif
