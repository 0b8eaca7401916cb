/* output.h - what pipesim-exec prints and writes about a run. */
#pragma once

#include "runtime/trial.h"

/* A finished run and what it is held against. Nothing is owned. */
typedef struct
{
  const PsProgram *program;
  const PsRunSetting *setting;
  const PsTrial *trial;
  const PsPrediction *prediction; /* NULL: there were no costs to predict from */
  const PsVerdict *verdict;
  PsSlowdown weather; /* of the run, against the profile; NaN: not known */
} PsRunReport;

/* "1f1b on 2 devices (cpu, threads), 4 microbatches". Free with g_free. */
char *ps_run_title (const PsProgram *program, const PsRunSetting *setting);

/* The median iteration time, the check and the comparison, for after the rows of the steps. Free with g_free. */
char *ps_run_report_to_text (const PsRunReport *report);

/* "pipesim-exec/1". Free with g_free. */
char *ps_run_report_to_json (const PsRunReport *report);

/* As ps_output_check, of a database that is there: NULL or one that ps_trial_record could store a run in. */
gboolean ps_output_check_database (const char *db, GError **error);
