/* drawn-events.h - a program and costs drawn at random, to run by simulate.h. */
#pragma once

#include "lower.h"
#include "random-costs.h"
#include "random-schedule.h"

#include <pipesim/simulate.h>
#include <pipesim/timeline.h>

typedef struct {
  PsProgram *program;
  PsCosts *costs;
  guint n_devices;
} Drawn;

static inline void drawn_clear (Drawn *drawn)
{
  ps_program_free (drawn->program);
  ps_costs_free (drawn->costs);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Drawn, drawn_clear)

static inline void draw (Drawn *drawn, GRand *rand, PsCommOrder order, gint32 least_transfer)
{
  PsSchedule *schedule = random_schedule (rand, g_rand_boolean (rand));

  drawn->costs = random_costs (rand, schedule->placement->n_stages, least_transfer);
  random_host_times (rand, drawn->costs, 1, schedule->placement->device, schedule->placement->n_copies);
  drawn->n_devices = schedule->placement->n_devices;
  drawn->program = fine (ps_program_lower (schedule, order, &error));
}

static inline void assert_same_times (const PsSimulation *a, const PsSimulation *b)
{
  g_assert_cmpmem (a->end_ns, (a->n_steps + 1) * sizeof (gint64), b->end_ns, (b->n_steps + 1) * sizeof (gint64));
  g_assert_cmpint (a->makespan_ns, ==, b->makespan_ns);
  g_assert_cmpint (a->max_span_ns, ==, b->max_span_ns);
  g_assert_cmpint (a->optimizer_ns, ==, b->optimizer_ns);
}

static inline void assert_same (const Drawn *drawn, const PsSimulation *events, const PsSimulation *relaxation)
{
  assert_same_times (events, relaxation);
  g_assert_cmpmem (events->device, events->n_devices * sizeof (PsDeviceResult), relaxation->device,
                   relaxation->n_devices * sizeof (PsDeviceResult));
  for (guint i = 0; i < events->n_steps; i++) {
    gint64 start[2] = { 0 }, end[2] = { 0 };

    g_assert_cmpint (ps_simulation_start (drawn->program, drawn->costs, events, i), ==,
                     ps_simulation_start (drawn->program, drawn->costs, relaxation, i));
    if (drawn->program->steps[i].input == 0)
      continue;
    ps_simulation_transfer (drawn->program, drawn->costs, events, i, &start[0], &end[0]);
    ps_simulation_transfer (drawn->program, drawn->costs, relaxation, i, &start[1], &end[1]);
    g_assert_cmpint (start[0], ==, start[1]);
    g_assert_cmpint (end[0], ==, end[1]);
  }
}
