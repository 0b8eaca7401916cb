/* series.h - points in named series, and the names at the right of the picture, beside the ends of the series. */
#pragma once

#include "field.h"
#include "gnuplot.h"

typedef struct
{
  double x;
  double y;
} PsPlotPoint;

typedef struct
{
  char *name;
  GArray *points; /* of PsPlotPoint */
  char *schedule; /* that it is of; NULL: of no single one */
  guint mark;     /* gnuplot's */
  guint dash;     /* gnuplot's, from 1 */
  guint32 colour;
} PsPlotSeries;

/* Series in the order in which their names first occur. */
typedef struct
{
  GPtrArray *all; /* of PsPlotSeries */
  GHashTable *by_name;
} PsPlotSeriesSet;

void ps_plot_series_set_init (PsPlotSeriesSet *set);
void ps_plot_series_set_clear (PsPlotSeriesSet *set);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsPlotSeriesSet, ps_plot_series_set_clear)

/* `schedule`: the series is of that one, and looks as it does in every picture; NULL: it looks as no series before. */
void ps_plot_series_set_add (PsPlotSeriesSet *set, const char *name, const char *schedule, double x, double y);

/* gnuplot's number of the mark of a series: filled marks first, then empty ones. */
guint ps_plot_series_mark (guint series);

/* Appends the blocks $series1.. ("x y") and the arrays colour, dash and mark. */
void ps_plot_series_set_append (const PsPlotSeriesSet *set, GString *script);

/* Appends $names ("x y name colour mark x-of-mark") right of x; at: the preferred height of each name. A single series
 * without a name stays unnamed. With lines it also appends $samples, a piece of each line before its name, and $leaders
 * from (x, at) to there. In pixels. */
void ps_plot_append_names (GString *script, const PsPlotSeriesSet *set, const double *at, double x, double bottom,
                           double top, gboolean lines);

/* Appends the block $about: a sentence about the picture, in lines below its title. Returns the height of these lines
 * in pixels. */
guint ps_plot_append_about (GString *script, const char *about, const PsPicture *picture, guint left, guint width,
                            guint height);

/* Width in pixels that the names need right of x, within reason. */
double ps_plot_names_width (const PsPlotSeriesSet *set, const PsPicture *picture);
