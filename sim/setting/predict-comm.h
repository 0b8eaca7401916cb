/* predict-comm.h - runs a prediction's program. Private to libpipesim. */
#pragma once

#include <pipesim/setting.h>

/* Runs prediction->program under prediction->costs into prediction->simulation, by the engine that
 * the setting needs. Planning rewrites the program's sends and receives, ready order replaces it by what came of it.
 * memory_limit is [n_devices] or NULL. */
gboolean ps_comm_simulate (const PsSetting *setting, const gint64 *memory_limit, PsPrediction *prediction,
                           GError **error);

void ps_events_task_free (struct PsEventsTask *task);
