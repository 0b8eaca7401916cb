/* setting-comm.h - the options about transfers: how they share channels and links, in which order they are posted, and
 * what they do to devices. Private to libpipesim. */
#ifndef PIPESIM_SETTING_COMM_H
#define PIPESIM_SETTING_COMM_H

#include <pipesim/setting.h>

G_BEGIN_DECLS

/* Refuses options that say nothing together. Errors: PS_ERROR_USAGE. */
gboolean ps_comm_check (const PsSetting *setting, GError **error);

/* Runs prediction->program under prediction->costs into prediction->simulation, made here, by the engine that the
 * setting needs. Planning rewrites the program's sends and receives, ready order replaces it by what came of it.
 * memory_limit is [n_devices] or NULL. */
gboolean ps_comm_simulate (const PsSetting *setting, const gint64 *memory_limit, PsPrediction *prediction,
                           GError **error);

void ps_events_task_free (struct PsEventsTask *task);

/* Whether the relaxation engine cannot do what the setting asks for. */
gboolean ps_comm_needs_events (const PsSetting *setting);

G_END_DECLS

#endif
