/* exec.h - the parts of the program pipesim-exec: its options, and what it prints and writes about a run. */
#pragma once

#include "run/runtime.h"

#include <pipesim/costdb.h>
#include <pipesim/option.h>

/* options.c */

/* The text that ships: sums of two numbers below a hundred in words, one to a line, the same in every run. */
#define PS_CORPUS_SUMS "sums"

/* The bytes of a text: PS_CORPUS_SUMS or a file. Each byte is a token, so the model needs a vocabulary of 256, and the
 * text has to be longer than a sequence. Errors: PS_ERROR_USAGE "option: ...", PS_ERROR_IO. Free with
 * g_bytes_unref. */
GBytes *ps_corpus_load (const char *option, const char *name, const PsModel *model,
                        GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* What runs on devices that compute: sets slice_tokens of the run, by --slices or by the chunks of --serve (those of
 * the prediction, if there is one), and its tokens and n_tokens by --lengths, in the order in which the schedule runs
 * the microbatches. Errors: PS_ERROR_UNAVAILABLE for prompts of several lengths, and those of ps_prefill_new,
 * ps_setting_cut_slices and ps_lengths_read. Free tokens and slice_tokens with g_free. */
gboolean ps_run_lengths (const PsSetting *setting, const PsPrediction *prediction, const PsSchedule *schedule,
                         PsRunSetting *run, GError **error);

typedef struct {
  char *text_name; /* NULL: no text */
  PsTraining setting;
  char *load; /* NULL: training begins with the weights of the seed */
  char *save; /* NULL: no checkpoint is written */
  guint save_every;
} PsTrainingOptions;

typedef struct {
  char *schedule;
  char *device;
  char *transport;
  gint64 seed;
  gboolean has_timeout;
  gboolean has_ahead;
  char *trace;
  char *predicted;
  char *losses;
  char *sm_shares;
  gboolean check;
  gboolean json;
  double tolerance; /* a ratio; negative: not given */
  PsTrainingOptions training;
  PsSetting *setting;
  PsRunSetting run; /* owns model, shapes, shares, tokens, choices, start and data */
} PsExecOptions;

/* Loads text and checkpoint into options->run, which has all else and trains up to step n_steps. Warns on standard
 * error of a checkpoint of other data. Errors: PS_ERROR_USAGE for what contradicts, those of ps_corpus_load and
 * ps_checkpoint_load. */
gboolean ps_training_prepare (PsExecOptions *options, const PsSchedule *schedule, GError **error);

/* Reads the command line into options, whose setting and run.processes are there, and completes them. Errors:
 * PS_ERROR_USAGE, and PS_ERROR_IO where a file cannot be written later. */
gboolean ps_exec_options_parse (PsExecOptions *options, int *argc, char ***argv, GError **error);

void ps_exec_options_clear (PsExecOptions *options);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsExecOptions, ps_exec_options_clear)

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
  GPtrArray *measurements; /* PsMeasurement of the profile */
  GPtrArray *sentinels;    /* PsSentinel of the profile, then those read here; NULL: the profile has none */
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
