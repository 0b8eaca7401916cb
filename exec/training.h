/* training.h - the options of pipesim-exec that say what a model learns from, and how fast. */
#ifndef PIPESIM_EXEC_TRAINING_H
#define PIPESIM_EXEC_TRAINING_H

#include <pipesim/device.h>
#include <pipesim/option.h>

G_BEGIN_DECLS

typedef struct
{
  char *text_name; /* NULL: no text */
  PsTraining setting;
} PsTrainingOptions;

extern const PsOption ps_training_options[];

/* Loads the text. option names are those of the rows. Errors: PS_ERROR_USAGE for what contradicts, those of
 * ps_corpus_load. Clear with ps_training_options_clear; the strings are those of ps_options_reset. */
gboolean ps_training_prepare (PsTrainingOptions *options, const PsModel *model, GError **error);
void ps_training_options_clear (PsTrainingOptions *options);

/* The first option that is given, without dashes; NULL: none. */
const char *ps_training_given (const PsTrainingOptions *options);

G_END_DECLS

#endif
