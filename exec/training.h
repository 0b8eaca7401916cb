/* training.h - the options of pipesim-exec that say what a model learns from, how fast, and where its state is kept. */
#pragma once

#include "run/runtime.h"

#include <pipesim/option.h>
#include <pipesim/setting.h>

/* The text that ships: sums of two numbers below a hundred in words, one to a line, the same in every run. */
#define PS_CORPUS_SUMS "sums"

/* The bytes of a text: PS_CORPUS_SUMS or a file. Each byte is a token, so the model needs a vocabulary of 256, and the
 * text has to be longer than a sequence. Errors: PS_ERROR_USAGE "option: ...", PS_ERROR_IO. Free with
 * g_bytes_unref. */
GBytes *ps_corpus_load (const char *option, const char *name, const PsModel *model,
                        GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Microbatches of different lengths, as --lengths gives them to devices that compute: sets tokens and n_tokens of the
 * run, in the order in which the schedule runs the microbatches. Free tokens with g_free. */
gboolean ps_run_lengths (const PsSetting *setting, const PsSchedule *schedule, PsRunSetting *run, GError **error);

typedef struct {
  char *text_name; /* NULL: no text */
  PsTraining setting;
  char *load; /* NULL: training begins with the weights of the seed */
  char *save; /* NULL: no checkpoint is written */
  guint save_every;
  PsCheckpoint *start; /* of load */
  char *data;          /* see PsRunSetting */
} PsTrainingOptions;

extern const PsOption ps_training_options[];

/* Loads text and checkpoint into the setting of a run, which has all else and trains up to step n_steps. Warns on
 * standard error of a checkpoint of other data. Errors: PS_ERROR_USAGE for what contradicts, those of ps_corpus_load
 * and ps_checkpoint_load. Clear with ps_training_options_clear; ps_options_reset frees the options' texts. */
gboolean ps_training_prepare (PsTrainingOptions *options, const PsSchedule *schedule, PsRunSetting *run,
                              GError **error);
void ps_training_options_clear (PsTrainingOptions *options);

/* The first option that is given, without dashes; NULL: none. */
const char *ps_training_given (const PsTrainingOptions *options);
