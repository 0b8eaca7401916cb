/* field.h - the columns of a sweep as axes and legends. */
#pragma once

#include <pipesim/sweep.h>

/* One axis of a picture. */
typedef struct
{
  char *label;     /* "peak memory (GiB)" */
  double unit;     /* values are shown divided by it */
  double smallest; /* of the values, in units */
  double middle;   /* the median */
  double largest;
} PsPlotAxis;

void ps_plot_axis_clear (PsPlotAxis *axis);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsPlotAxis, ps_plot_axis_clear)

/* Makes a column of values the axis of that field, in a unit that suits the largest. Rows without a value do not
 * count. */
void ps_plot_axis_init (PsPlotAxis *axis, const char *field, const PsResultValues *values, guint column);

/* TRUE if a logarithmic axis reads better: if values (all above 0) spread over a factor of eight or more, or if
 * more than half of them lie in the lowest third. A ratio is read from 0 on, unless most of its values would lie in the
 * lowest sixth. */
gboolean ps_plot_axis_crowds (const PsPlotAxis *axis, const char *field);

/* A value as a number: times in ns, sizes in bytes; NaN if there is none. */
double ps_plot_value_number (const PsValue *value);

/* The name of a field: "bubble ratio" for "bubble_ratio". Free with g_free. */
char *ps_plot_field_name (const char *field);

/* 0xrrggbb of one of many series: Okabe and Ito's colours, which colour-blind eyes tell apart; they repeat from the
 * eighth series on. */
guint32 ps_plot_series_colour (guint series);
#define PS_PLOT_N_COLOURS 7

/* The number of a schedule in all pictures: its place in the catalogue. A file's own schedule has one after those, by
 * its name. Its mark is ps_plot_series_mark of the number, its colour the one below: no two families share both. */
guint ps_plot_schedule_number (const char *name);
guint32 ps_plot_schedule_colour (guint number);
