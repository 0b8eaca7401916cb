/* program.h - parts shared by the main functions of pipesim-plot and pipesim-report. */
#pragma once

#include <pipesim/formats.h>

/* Runs a program that users call `name` ("pipesim plot") and returns its exit code. A failure is one line on standard
 * error, whatever the arguments contain. */
int ps_plot_program (const char *name, gboolean (*run) (int argc, char **argv, GError **error), int argc, char **argv);

/* ps_timeline_load; also prints the timeline's remark. */
PsTimeline *ps_plot_load (const char *path, GError **error);
