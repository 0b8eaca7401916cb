/* lower.h - programs of schedules that are valid, and their simulations. */
#pragma once

#include "error-rig.h"

#include <pipesim/simulate.h>
#include <pipesim/schedule.h>
#include <pipesim/program.h>

/* Takes the schedule. */
static inline PsProgram *lower (PsSchedule *schedule)
{
  fine (ps_schedule_validate (schedule, &error));
  return fine (ps_program_lower (schedule, PS_COMM_ASAP, &error));
}

static inline guint n_channels (void)
{
  guint n;

  ps_channel_table (&n);
  return n;
}

static inline void assert_runs_on_all_channels (const PsProgram *program)
{
  for (guint channel = 0; channel < n_channels (); channel++) {
    fine (ps_program_check (program, (PsChannel)channel, &error));
  }
}

/* v 0: as many chunks as the family has by itself. */
static inline PsProgram *lower_family (const char *name, guint p, guint m, guint v)
{
  const PsFamily *family = ps_family_find (name);
  PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = v ? v : family->default_chunks };
  PsSchedule *schedule = fine (ps_family_generate (family, &setting, &error));

  return lower (schedule);
}

static inline PsSimulation *simulated (const PsProgram *program, const PsCosts *costs)
{
  PsSimulation *simulation = ps_simulation_new (program);

  ps_simulate (program, costs, simulation);
  return simulation;
}

/* By the events engine. */
static inline PsSimulation *simulated_with (const PsProgram *program, const PsCosts *costs,
                                            const PsEventsSetting *setting)
{
  PsSimulation *simulation = ps_simulation_new (program);

  fine (ps_events_simulate (program, costs, setting, simulation, &error));
  return simulation;
}
