/* output.h - what pipesim-exec prints and writes about a run. */
#pragma once

#include "run/verify.h"

/* A finished run and what it is held against. Nothing is owned. */
typedef struct {
  const PsProgram *program;
  const PsRunSetting *setting;
  const PsComparedRun *compared;
  const PsPrediction *prediction; /* NULL: there were no costs to predict from */
  const PsVerdict *verdict;
  PsSlowdown slowdown; /* the machine at the run, relative to the profile; NaN: not known */
} PsRunReport;

/* "1f1b on 2 devices (cpu, threads), 4 microbatches". Free with g_free. */
char *ps_run_title (const PsProgram *program, const PsRunSetting *setting);

/* The median iteration time, the check and the comparison, for after the rows of the steps. Free with g_free. */
char *ps_run_report_to_text (const PsRunReport *report);

/* "pipesim-exec/1". Free with g_free. */
char *ps_run_report_to_json (const PsRunReport *report);

/* As ps_output_check, of a database that is there: NULL or one that ps_compared_run_store could store a run in. */
gboolean ps_output_check_database (const char *db, GError **error);

/* Prints each step of a run as it ends, and writes it to a file of losses. */

/* The first line of a file of losses. */
#define PS_LOSSES_HEAD "step,loss,learning_rate,iteration_ns\n"

typedef struct {
  const PsTraining *training;
  gboolean rows;     /* TRUE: standard output gets a row for each step, the first after a head */
  guint counted;     /* steps to the end, for a line on standard error that counts; 0: no such line */
  const char *title; /* printed before the head */

  int losses; /* file descriptor; -1: no file */
  guint n_printed;
  GError *failure; /* the first */
} PsStepLog;

/* Opens the file of losses at path; NULL: there is none. n_done: steps that a checkpoint has done; their lines
 * stay, and all other lines of an old file go. Errors: PS_ERROR_IO, PS_ERROR_INPUT for a file of something else. */
gboolean ps_step_log_open (PsStepLog *log, const char *path, guint n_done, GError **error);

/* FALSE: nothing more can be written, and `failure` says why. */
gboolean ps_step_log_add (PsStepLog *log, const PsStepReport *step);

void ps_step_log_close (PsStepLog *log);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsStepLog, ps_step_log_close)
