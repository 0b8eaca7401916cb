/* commands.h - the subcommands of pipesim-calib and their helpers. */
#pragma once

#include "run/crew.h"

#include <pipesim/option.h>
#include <pipesim/costdb.h>

/* A subcommand. */
typedef struct {
  const char *name;
  const char *description; /* one line */
  const PsCommandHelp *help;
  const PsOption *rows; /* a text, file or number whose `otherwise` is "" must be given */
  gsize base_size;      /* of the structure that rows write to */

  /* processes: NULL unless it is parallel, and they are several. */
  gboolean (*run) (gpointer base, PsProcesses *processes, GError **error);
  gboolean parallel; /* several processes run it together */
} PsCalibCommand;

extern const PsCalibCommand ps_calib_run, ps_calib_list, ps_calib_show, ps_calib_check, ps_calib_cluster, ps_calib_diff,
    ps_calib_export, ps_calib_import;

/* Refuses a text that is missing or empty. */
gboolean ps_calib_require (const char *option, const char *value, GError **error);

/* Returns the measurements of a profile as one table, ops first. */
PsTable *ps_calib_table (GPtrArray *measurements);

/* Lets it show other columns than the usual ones. Errors: those of ps_table_choose. */
gboolean ps_calib_table_choose (PsTable *table, const PsColumnChoice *choice, GError **error);

/* Returns "F of layers=2,head, 2 devices busy" or "transfer of 64 KiB, 2 devices busy". Free with g_free. */
char *ps_calib_describe (const PsMeasurement *measurement);
