/* setting-private.h - the two halves of reading a setting, and the chain from a program on, for those who try many
 * settings. Private to libpipesim. */
#ifndef PIPESIM_SETTING_PRIVATE_H
#define PIPESIM_SETTING_PRIVATE_H

#include <pipesim/setting.h>

G_BEGIN_DECLS

/* Reads what GOption collected, each option by itself. Errors: PS_ERROR_USAGE. */
gboolean ps_setting_read (PsSetting *setting, GError **error);

/* Refuses options that say nothing together. Errors: PS_ERROR_USAGE. */
gboolean ps_setting_check (const PsSetting *setting, GError **error);

/* Chunks per device that costs are asked for. A schedule file may place its stages unevenly; costs describe p * v
 * stages. Errors: PS_ERROR_SCHEDULE. */
gboolean ps_predict_chunks (const PsSchedule *schedule, guint *n_chunks, GError **error);

/* What ps_predict makes of the costs of the setting for a schedule: checked, and those of its slices. given is what
 * ps_setting_costs has for its devices and chunks. Errors: PS_ERROR_USAGE. */
PsCosts *ps_predict_costs (const PsSchedule *schedule, const PsCosts *given, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* ps_setting_schedule where what ps_setting_costs has for the family's devices and chunks is known already. A family
 * that looks at no costs, and a file, take NULL. */
PsSchedule *ps_setting_schedule_for (const PsSetting *setting, const char *name_or_file, const PsCosts *costs,
                                     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Everything behind lowering: prediction has costs and program, and gets the rest. With PS_COMM_PLANNED and with a
 * ready_order the program does not stay as it is. */
gboolean ps_predict_program (const PsSetting *setting, PsPrediction *prediction, GError **error);

G_END_DECLS

#endif
