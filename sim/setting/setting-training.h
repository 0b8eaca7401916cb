/* setting-training.h - the options about a training step as a whole: synchronisation, replicas, what is kept where.
 * Private to libpipesim. */
#ifndef PIPESIM_SETTING_TRAINING_H
#define PIPESIM_SETTING_TRAINING_H

#include <pipesim/setting.h>

G_BEGIN_DECLS

/* Refuses options that say nothing together. Errors: PS_ERROR_USAGE. */
gboolean ps_training_check (const PsSetting *setting, GError **error);

/* Makes costs of the setting's source those of the training that the setting describes. Errors: PS_ERROR_USAGE where
 * the source does not say what that takes. */
gboolean ps_training_apply (const PsSetting *setting, PsCosts *costs, guint n_devices, GError **error);

G_END_DECLS

#endif
