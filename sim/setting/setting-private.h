/* setting-private.h - the chain from costs and programs on, for callers that try many settings. Private to libpipesim.
 */
#ifndef PIPESIM_SETTING_PRIVATE_H
#define PIPESIM_SETTING_PRIVATE_H

#include <pipesim/setting.h>

G_BEGIN_DECLS

/* Chunks per device that costs are asked for. A schedule file may place its stages unevenly; costs describe p * v
 * stages. Errors: PS_ERROR_SCHEDULE. */
gboolean ps_predict_chunks (const PsSchedule *schedule, guint *n_chunks, GError **error);

/* Whether the costs hold for stages placed so (PsCosts.loop_only). Errors: PS_ERROR_USAGE. */
gboolean ps_predict_placed (const PsPlacement *placement, const PsCosts *costs, GError **error);

/* What ps_predict makes of the costs of the setting for a schedule: checked, and those of its slices. given is what
 * ps_setting_costs has for its devices and chunks. Errors: PS_ERROR_USAGE. */
PsCosts *ps_predict_costs (const PsSchedule *schedule, const PsCosts *given, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The two halves of ps_setting_costs: what the source of costs says, and what the options make of it. */
PsCosts *ps_setting_source (const PsSetting *setting, guint n_devices, guint n_chunks,
                            GError **error) G_GNUC_WARN_UNUSED_RESULT;
gboolean ps_setting_adapt (const PsSetting *setting, PsCosts *costs, guint n_devices, GError **error);

/* ps_setting_schedule where what ps_setting_costs has for the family's devices and chunks is known already. A family
 * that looks at no costs, and a file, take NULL. */
PsSchedule *ps_setting_schedule_for (const PsSetting *setting, const char *name_or_file, const PsCosts *costs,
                                     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* ps_family_generate for families that keep to a limit but count what ops hold only: their limit sinks until the
 * buffers of messages fit beside it. Where the family knows no schedule that leaves them room, its last one stays. */
PsSchedule *ps_setting_generate (const PsFamily *family, const PsFamilySetting *size,
                                 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Everything behind lowering: prediction has costs and program, and gets the rest. With PS_COMM_PLANNED and with a
 * ready_order the program does not stay as it is. */
gboolean ps_predict_program (const PsSetting *setting, PsPrediction *prediction, GError **error);

G_END_DECLS

#endif
