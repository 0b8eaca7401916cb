/* output.h - what pipesim-exec prints and writes about a run. */
#ifndef PIPESIM_EXEC_OUTPUT_H
#define PIPESIM_EXEC_OUTPUT_H

#include "runtime/verify.h"

#include <pipesim/compare.h>
#include <pipesim/predictor.h>

G_BEGIN_DECLS

/* A finished run and what it is held against. Nothing is owned. */
typedef struct
{
  const PsProgram *program;
  const PsRunSetting *setting;
  const PsRunResult *result;
  const PsPrediction *prediction; /* NULL: there were no costs to predict from */
  const PsComparison *comparison; /* NULL without prediction */
  const PsVerdict *verdict;
  gint64 replayed_makespan_ns; /* simulated with the op and transfer times of the measured timeline; with prediction
                                  only */
} PsRunReport;

/* Iteration time and loss of each step, then the check and the comparison. Free with g_free. */
char *ps_run_report_to_text (const PsRunReport *report);

/* "pipesim-exec/1". Free with g_free. */
char *ps_run_report_to_json (const PsRunReport *report);

/* As ps_output_check, of a database that is there: NULL or one that ps_output_record could store a run in. */
gboolean ps_output_check_database (const char *db, GError **error);

/* Stores the run in the database that its costs came from, with the profile that they were (NULL: the only one). */
gboolean ps_output_record (const char *db, const char *profile, const char *started, const PsRunReport *report,
                           GError **error);

G_END_DECLS

#endif
