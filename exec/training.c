/* training.c - reads and checks the options of a training. */
#include "training.h"

#include "corpus.h"

#define MAX_STEPS 1000000

const PsOption ps_training_options[] = {
  PS_OPTION ("text", 0, PS_FILE (PsTrainingOptions, text_name), "FILE|" PS_CORPUS_SUMS,
             "Text to learn, byte by byte; " PS_CORPUS_SUMS " ships",
             .otherwise = "tokens drawn by --seed, the same in every step", .group = PS_GROUP_TRAINING),
  PS_OPTION ("learning-rate", 0, PS_NUMBER (PsTrainingOptions, setting.learning_rate, 0, 1), "RATE",
             "Learning rate of Adam", .initial = 1e-3, .group = PS_GROUP_TRAINING),
  PS_OPTION ("warm-up", 0, PS_COUNT (PsTrainingOptions, setting.warm_up, 0, MAX_STEPS), "N",
             "Steps in which the learning rate rises to it", .group = PS_GROUP_TRAINING),
  PS_OPTION ("decay", 0, PS_COUNT (PsTrainingOptions, setting.decay, 0, MAX_STEPS), "N",
             "Let the learning rate fall as a cosine until step N", .otherwise = "it stays",
             .group = PS_GROUP_TRAINING),
  PS_OPTION ("least-rate", 0, PS_NUMBER (PsTrainingOptions, setting.least_rate, 0, 1), "RATE",
             "Learning rate at the end of --decay", .group = PS_GROUP_TRAINING),
  PS_OPTION_END,
};

const char *
ps_training_given (const PsTrainingOptions *options)
{
  for (const PsOption *row = ps_training_options; row->name != NULL; row++)
    if (!ps_option_is_initial (row, options))
      return row->name;
  return NULL;
}

gboolean
ps_training_prepare (PsTrainingOptions *options, const PsModel *model, GError **error)
{
  const PsTraining *setting = &options->setting;

  if (setting->decay > 0 && setting->decay <= setting->warm_up)
    return ps_refuse (error, PS_ERROR_USAGE, "--decay: %u is not after the warm-up of %u steps", setting->decay,
                      setting->warm_up);
  if (setting->decay == 0 && setting->least_rate > 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--least-rate: needs --decay, at whose end it is reached");
  if (setting->least_rate > setting->learning_rate)
    return ps_refuse (error, PS_ERROR_USAGE, "--least-rate: %g is above --learning-rate, %g", setting->least_rate,
                      setting->learning_rate);
  if (options->text_name != NULL)
    options->setting.text = ps_corpus_load ("--text", options->text_name, model, error);
  return options->text_name == NULL || options->setting.text != NULL;
}

void
ps_training_options_clear (PsTrainingOptions *options)
{
  g_clear_pointer (&options->setting.text, g_bytes_unref);
}
