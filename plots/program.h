/* program.h - parts shared by the main functions of pipesim-plot and pipesim-report. */
#ifndef PS_PLOT_PROGRAM_H
#define PS_PLOT_PROGRAM_H

#include <pipesim/formats.h>

G_BEGIN_DECLS

/* Runs a program that users call `name` ("pipesim plot") and returns its exit code. A failure is one line on standard
 * error, whatever the arguments contain. */
int ps_plot_program (const char *name, gboolean (*run) (int argc, char **argv, GError **error), int argc, char **argv);

/* ps_timeline_load; also prints the timeline's remark. */
PsTimeline *ps_plot_load (const char *path, GError **error);

G_END_DECLS

#endif
