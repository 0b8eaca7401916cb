/* program.h - what the main functions of pipesim-plot and pipesim-report share. */
#ifndef PS_PLOT_PROGRAM_H
#define PS_PLOT_PROGRAM_H

#include <pipesim/base.h>

G_BEGIN_DECLS

/* Runs a program that users call by that name ("pipesim plot") and returns its exit code; a failure is one line on
 * standard error, whatever the user typed into it. */
int ps_plot_program (const char *name, gboolean (*run) (int argc, char **argv, GError **error), int argc, char **argv);

G_END_DECLS

#endif
