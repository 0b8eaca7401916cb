/* predict-comm.h - runs a prediction's program. Private to libpipesim. */
#pragma once

#include <pipesim/predictor.h>

/* A program that several predictions run, with the events engine of the last that needed one. */
typedef struct
{
  PsProgram *program;
  PsSimulation *simulation[2]; /* of the last prediction, and of its even layout; NULL: none so far */
  PsEvents *events;            /* NULL: none so far */
  PsChannel comm;              /* of events */
  gboolean blocking;
} PsSharedProgram;

void ps_shared_program_free (PsSharedProgram *shared);

/* Memory of a program and of the engine that the setting needs for it. */
gsize ps_shared_program_bytes (const PsSetting *setting, const PsProgram *program);

/* Runs prediction->program under prediction->costs into prediction->simulation, by the engine that
 * the setting needs. Planning rewrites the program's sends and receives, ready order replaces it by what came of it.
 * memory_limit is [n_devices] or NULL. shared holds that program, or is NULL. */
gboolean ps_comm_simulate (const PsSetting *setting, const gint64 *memory_limit, PsSharedProgram *shared,
                           PsPrediction *prediction, GError **error);

void ps_events_task_free (struct PsEventsTask *task);
