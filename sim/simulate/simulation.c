/* simulation.c - the result of an engine's run: room for it, figures that follow from counting or at the end, and the
 * durations of pairs. */
#include "simulate-private.h"

#include <string.h>

PsSimulation *
ps_simulation_new (const PsProgram *program)
{
  PsSimulation *simulation = g_new0 (PsSimulation, 1);

  simulation->n_steps = program->n_steps;
  simulation->n_devices = program->schedule->placement->n_devices;
  simulation->end_ns = g_new (gint64, (gsize)simulation->n_steps + 1);
  simulation->end_ns[0] = 0;
  simulation->memory = g_new0 (PsMemoryLevel, simulation->n_devices);
  simulation->device = g_new0 (PsDeviceResult, simulation->n_devices);
  return simulation;
}

void
ps_simulation_free (PsSimulation *simulation)
{
  if (simulation == NULL)
    return;
  g_free (simulation->end_ns);
  g_free (simulation->start_ns);
  g_free (simulation->transfer_start_ns);
  g_free (simulation->transfer_end_ns);
  g_free (simulation->memory);
  g_free (simulation->buffers);
  g_free (simulation->device);
  g_free (simulation);
}

gint64
ps_paired_duration (const PsProgram *program, const PsCosts *costs, guint step)
{
  return program->pair[step] == PS_PAIR_FIRST ? 0 : ps_pair_duration (program, costs, step);
}

PsHostTime
ps_step_host_time (const PsProgram *program, const PsCosts *costs, guint step)
{
  PsPairRole role = program->pair != NULL ? program->pair[step] : PS_PAIR_NONE;
  guint32 own = program->steps[step].cost, forward;
  PsHostTime sum, other;

  if (role == PS_PAIR_NONE)
    return ps_costs_host_time (costs, own);
  if (role == PS_PAIR_FIRST || costs->host_time == NULL)
    return (PsHostTime){ 0 };
  forward = MIN (own, program->steps[step - 1].cost); /* as in ps_costs_pair_ns */
  sum = costs->host_time[forward];
  other = costs->stage[forward % costs->n_stages].pair_ns >= 0
              ? costs->pair_host
              : costs->host_time[MAX (own, program->steps[step - 1].cost)];
  return (PsHostTime){ sum.before_ns + other.before_ns, sum.after_ns + other.after_ns };
}

void
ps_simulation_begin (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation)
{
  const PsPlacement *placement = program->schedule->placement;
  const guint *versions = program->schedule->weight_versions;
  guint n_ops = PS_N_OP_KINDS * program->n_lengths * placement->n_stages;

  g_assert (costs->n_stages == placement->n_stages && costs->n_lengths == program->n_lengths);
  g_assert (!ps_costs_lack_host_time (costs));
  memset (simulation->device, 0, simulation->n_devices * sizeof *simulation->device);
  memset (simulation->memory, 0, simulation->n_devices * sizeof *simulation->memory);
  for (guint copy = 0; copy < placement->n_copies; copy++)
    for (guint stage = 0; stage < placement->n_stages; stage++)
      {
        guint index = ps_placement_device (placement, copy, stage);
        const guint32 *count = &program->count[(gsize)copy * n_ops];
        PsDeviceResult *device = &simulation->device[index];
        PsMemoryLevel *memory = &simulation->memory[index];

        memory->held_bytes += ps_costs_held_bytes (costs, stage, versions != NULL ? versions[index] : 1);
        memory->peak_bytes = memory->held_bytes;
        device->optimizer_ns += ps_costs_op (costs, PS_OP_O, stage)->duration_ns;
        for (guint op = stage; op < n_ops; op += placement->n_stages)
          {
            gint64 n = count[op], host = ps_host_time_sum (ps_costs_host_time (costs, op));

            device->host_ns += n * host;
            device->busy_ns += n * (costs->op[op].duration_ns - host);
          }
      }
}

void
ps_simulation_finish (PsSimulation *simulation)
{
  gint64 first = G_MAXINT64, last = 0;

  simulation->max_span_ns = simulation->optimizer_ns = 0;
  for (guint device = 0; device < simulation->n_devices; device++)
    {
      const PsDeviceResult *result = &simulation->device[device];

      first = MIN (first, result->start_ns);
      last = MAX (last, result->end_ns);
      simulation->max_span_ns = MAX (simulation->max_span_ns, result->end_ns - result->start_ns);
      simulation->optimizer_ns = MAX (simulation->optimizer_ns, result->optimizer_ns);
    }
  simulation->makespan_ns = last - first;
}
