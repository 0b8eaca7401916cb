/* plots.h - parts shared by all pictures: the start of their programs, units, colours, marks and series. */
#pragma once

#include "gnuplot.h"

#include <pipesim/timeline.h>

/* Runs a program that users call `name` ("pipesim plot") and returns its exit code. A failure is one line on standard
 * error, whatever the arguments contain. */
int ps_plot_program (const char *name, gboolean (*run) (int argc, char **argv, GError **error), int argc, char **argv);

/* ps_timeline_load; also prints the timeline's remark. */
PsTimeline *ps_plot_load (const char *path, GError **error);

typedef struct {
  const char *name; /* "ms", "MiB" */
  double size;      /* in ns or bytes */
} PsPlotUnit;

/* Milliseconds, unless the whole axis would be below 0.01 or above 100 000 of them. */
PsPlotUnit ps_plot_time_unit (gint64 longest_ns);
PsPlotUnit ps_plot_size_unit (gint64 largest_bytes);

/* 0xrrggbb. Hue by kind (after Okabe and Ito; colour-blind eyes tell them apart), lighter for later chunks. */
guint32 ps_plot_op_colour (PsOpKind kind, guint chunk, guint n_chunks);

/* 0xrrggbb of one of many series: Okabe and Ito's colours, which colour-blind eyes tell apart; they repeat from the
 * eighth series on. */
guint32 ps_plot_series_colour (guint series);
#define PS_PLOT_N_COLOURS 7

/* gnuplot's number of the mark of a series: filled marks first, then empty ones. */
guint ps_plot_series_mark (guint series);

/* The colour of a schedule in all pictures: by its place in the catalogue, or by its name if it is a file's own. No two
 * families share a colour: a map has no marks. */
guint32 ps_plot_schedule_colour (const char *name);

typedef struct {
  double x;
  double y;
  char *hover; /* shown at the point in SVG; NULL: nothing */
} PsPlotPoint;

typedef struct {
  char *name;
  char *schedule; /* that it is of; NULL: of no single one */
  GArray *points; /* of PsPlotPoint */
  guint mark;     /* gnuplot's */
  guint dash;     /* gnuplot's, from 1 */
  guint32 colour;
} PsPlotSeries;

/* Series (of PsPlotSeries) in the order in which their names first occur. Free with g_ptr_array_unref. */
GPtrArray *ps_plot_series_new (void);

/* Adds a point to the series of that name. schedule: the series is of that one, and looks as it does in every picture;
 * NULL: it looks as no series before. hover is taken. */
void ps_plot_series_add (GPtrArray *all, const char *name, const char *schedule, double x, double y, char *hover);

/* Appends n_NAME, the arrays NAME_name, NAME_colour, NAME_dash and NAME_mark, and the block $NAME ("x y hover"), in
 * which two blank lines follow each series. x and y are divided by their units. */
void ps_plot_series_append (const GPtrArray *all, const char *name, double x_unit, double y_unit, GString *script);
