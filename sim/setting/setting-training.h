/* setting-training.h - the options about a training step as a whole: synchronisation, replicas, what is kept where.
 * Private to libpipesim. */
#ifndef PIPESIM_SETTING_TRAINING_H
#define PIPESIM_SETTING_TRAINING_H

#include <pipesim/setting.h>

G_BEGIN_DECLS

/* What GOption wrote. */
typedef struct
{
  char *sync;
  char *reduce;
  char *replicas;
  char *tensor;
  char *zero;
  char *recompute;
  char *offload;
} PsTrainingText;

void ps_training_text_clear (PsTrainingText *text);
void ps_training_add_options (PsTrainingText *text, GOptionContext *context);

/* Reads the texts into the setting. Errors: PS_ERROR_USAGE. */
gboolean ps_training_read (const PsTrainingText *text, PsSetting *setting, GError **error);

/* Refuses options that say nothing together. Errors: PS_ERROR_USAGE. */
gboolean ps_training_check (const PsSetting *setting, GError **error);

G_END_DECLS

#endif
