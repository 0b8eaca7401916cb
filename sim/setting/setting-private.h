/* setting-private.h - the two halves of reading a setting. Private to libpipesim. */
#ifndef PIPESIM_SETTING_PRIVATE_H
#define PIPESIM_SETTING_PRIVATE_H

#include <pipesim/setting.h>

G_BEGIN_DECLS

/* Reads what GOption collected, each option by itself. Errors: PS_ERROR_USAGE. */
gboolean ps_setting_read (PsSetting *setting, GError **error);

/* Refuses options that say nothing together. Errors: PS_ERROR_USAGE. */
gboolean ps_setting_check (const PsSetting *setting, GError **error);

G_END_DECLS

#endif
