/* commands.h - the subcommands of pipesim-calib and their helpers. */
#pragma once

#include <pipesim/option.h>
#include <pipesim/costdb.h>

/* The subcommands. argv[0] is the subcommand's name. main prints an error as one line on stderr and sets the exit
 * code. */
gboolean ps_calib_cmd_run (int argc, char **argv, GError **error);
gboolean ps_calib_cmd_list (int argc, char **argv, GError **error);
gboolean ps_calib_cmd_show (int argc, char **argv, GError **error);
gboolean ps_calib_cmd_diff (int argc, char **argv, GError **error);
gboolean ps_calib_cmd_check (int argc, char **argv, GError **error);
gboolean ps_calib_cmd_export (int argc, char **argv, GError **error);
gboolean ps_calib_cmd_import (int argc, char **argv, GError **error);

/* Parses options into base; whatever is left over is PS_ERROR_USAGE. */
gboolean ps_calib_parse (int argc, char **argv, const char *command, const PsCommandHelp *help, const PsOption *rows,
                         gpointer base, GError **error);
gboolean ps_calib_require (const char *option, const char *value, GError **error);

/* The end of a program that fails: says why, and returns the exit code. argv: see ps_error_line. */
int ps_calib_report_failure (const GError *error, gpointer argv);

/* Returns the measurements of a profile as one table, ops first. */
PsTable *ps_calib_table (GPtrArray *measurements, gboolean with_samples);

/* Lets it show other columns than the usual ones. Errors: those of ps_table_choose. */
gboolean ps_calib_table_choose (PsTable *table, const PsColumnChoice *choice, GError **error);

/* Returns "F of layers=2,head, 2 devices busy" or "transfer of 64 KiB, 2 devices busy". Free with g_free. */
char *ps_calib_describe (const PsMeasurement *measurement);
