/* series.h - points in named series, and their names at the right of the picture beside where they end. */
#ifndef PS_PLOT_SERIES_H
#define PS_PLOT_SERIES_H

#include "field.h"
#include "gnuplot.h"

G_BEGIN_DECLS

typedef struct
{
  double x;
  double y;
} PsPlotPoint;

typedef struct
{
  char *name;
  GArray *points; /* of PsPlotPoint */
  guint32 colour;
} PsPlotSeries;

/* In the order in which names come up first. */
typedef struct
{
  GPtrArray *all; /* of PsPlotSeries */
  GHashTable *by_name;
} PsPlotSeriesSet;

void ps_plot_series_set_init (PsPlotSeriesSet *set);
void ps_plot_series_set_clear (PsPlotSeriesSet *set);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsPlotSeriesSet, ps_plot_series_set_clear)
void ps_plot_series_set_add (PsPlotSeriesSet *set, const char *name, double x, double y);

/* Appends the blocks $series1.. ("x y") and the arrays colour, dash and mark. */
void ps_plot_series_set_append (const PsPlotSeriesSet *set, GString *script);

/* Moves heights (pixels, one per name) apart until they are `step` from each other, in [bottom, top] as far as they
 * fit, and as near to where they were as their order allows. */
void ps_plot_spread (double *heights, guint n, double bottom, double top, double step);

/* Appends $names ("x y name colour mark") right of x and $leaders, where wanted, from (x, at) to its name; at: where
 * each name would like to be. In pixels. */
void ps_plot_append_names (GString *script, const PsPlotSeriesSet *set, const double *at, double x, double bottom,
                           double top, gboolean leaders);

G_END_DECLS

#endif
