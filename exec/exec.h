/* exec.h - parts of the program pipesim-exec: what it prints and writes about a run, and the speed of the machine. */
#pragma once

#include "run/runtime.h"

#include <pipesim/costdb.h>

/* output.c */

/* A finished run and what it is held against. Nothing is owned. */
typedef struct {
  const PsProgram *program;
  const PsRunSetting *setting;
  const PsComparedRun *compared;
  const PsPrediction *prediction; /* NULL: there were no costs to predict from */
  const PsVerdict *verdict;
  PsSlowdown slowdown; /* of the machine at the run, relative to the profile; NaN: not known */
} PsRunReport;

/* "1f1b on 2 devices (cpu, threads), 4 microbatches". Free with g_free. */
char *ps_run_title (const PsProgram *program, const PsRunSetting *setting);

/* The median iteration time, the check and the comparison, for after the rows of the steps. Free with g_free. */
char *ps_run_report_to_text (const PsRunReport *report);

/* "pipesim-exec/1". Free with g_free. */
char *ps_run_report_to_json (const PsRunReport *report);

/* Prints each step of a run as it ends, and writes it to a file of losses. */

/* The first line of a file of losses. */
#define PS_LOSSES_HEAD "step,loss,learning_rate,iteration_ns\n"

typedef struct {
  const PsTraining *training;
  gboolean rows;     /* TRUE: standard output gets a row for each step, the first after a head */
  guint n_steps;     /* of the run */
  const char *title; /* printed before the head */

  int losses; /* file descriptor; -1: no file */
  guint n_printed;
  guint n_done;
  GError *failure; /* the first */
} PsStepLog;

/* Opens the file of losses at path; NULL: there is none. n_done: steps that a checkpoint has done; their lines
 * stay, and all other lines of an old file go. Errors: PS_ERROR_IO, PS_ERROR_INPUT for a file of something else. */
gboolean ps_step_log_open (PsStepLog *log, const char *path, guint n_done, GError **error);

/* FALSE: nothing more can be written, and `failure` says why. */
gboolean ps_step_log_add (PsStepLog *log, const PsStepReport *step);

void ps_step_log_close (PsStepLog *log);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsStepLog, ps_step_log_close)

/* machine-speed.c: how fast the machine is at the time of a run, by the sentinel of the profile that predicts it. */

/* All 0: nothing is read. */
typedef struct {
  const PsRunSetting *run;
  PsProfileContents *profile; /* its readings of the sentinel, then those made here; NULL: it has none */
} PsMachineSpeed;

/* Reads what the profile says. run outlives the readings. */
gboolean ps_machine_speed_open (PsMachineSpeed *speed, const char *db, const char *profile, const PsRunSetting *run,
                                GError **error);
void ps_machine_speed_clear (PsMachineSpeed *speed);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsMachineSpeed, ps_machine_speed_clear)

/* Reads the sentinel, where the profile has one. It takes some tenths of a second, or a few ops. */
gboolean ps_machine_speed_read (PsMachineSpeed *speed, GError **error);

/* Of a run that started then, between two readings (ps_sentinel_slowdown); NaN: not known. */
PsSlowdown ps_machine_speed_of_run (const PsMachineSpeed *speed, const char *started);
