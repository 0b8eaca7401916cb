/* simulate.c - the relaxation engine: results, the times of pairs and of devices of another speed, and one walk over
 * the steps. */
#include "gathers.h"
#include "simulate-private.h"

#include <math.h>
#include <string.h>

PsSimulation *ps_simulation_new (const PsProgram *program)
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

void ps_simulation_allot_times (PsSimulation *simulation)
{
  if (simulation->start_ns != NULL)
    return;
  simulation->start_ns = g_new0 (gint64, simulation->n_steps);
  simulation->transfer_start_ns = g_new0 (gint64, simulation->n_steps);
  simulation->transfer_end_ns = g_new0 (gint64, simulation->n_steps);
}

void ps_simulation_free (PsSimulation *simulation)
{
  if (simulation == NULL)
    return;
  g_free (simulation->end_ns);
  g_free (simulation->start_ns);
  g_free (simulation->transfer_start_ns);
  g_free (simulation->transfer_end_ns);
  g_free (simulation->memory);
  g_free (simulation->device);
  g_free (simulation);
}

PsHostTime ps_step_host_time (const PsProgram *program, const PsCosts *costs, guint step)
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

void ps_simulation_begin (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation)
{
  const PsPlacement *placement = program->schedule->placement;
  const guint *versions = program->schedule->weight_versions;
  guint n_ops = PS_N_OP_KINDS * program->n_lengths * placement->n_stages;

  g_assert (costs->n_stages == placement->n_stages && costs->n_lengths == program->n_lengths);
  g_assert (!ps_costs_lack_host_time (costs));
  memset (simulation->device, 0, simulation->n_devices * sizeof *simulation->device);
  memset (simulation->memory, 0, simulation->n_devices * sizeof *simulation->memory);
  for (guint copy = 0; copy < placement->n_copies; copy++)
    for (guint stage = 0; stage < placement->n_stages; stage++) {
      guint index = ps_placement_device (placement, copy, stage);
      const guint32 *count = &program->count[(gsize)copy * n_ops];
      PsDeviceResult *device = &simulation->device[index];
      PsMemoryLevel *memory = &simulation->memory[index];

      memory->held_bytes += ps_costs_held_bytes (costs, stage, versions != NULL ? versions[index] : 1);
      device->step_bytes += costs->stage[stage].state.step_bytes;
      memory->peak_bytes = memory->held_bytes + device->step_bytes;
      device->optimizer_ns += ps_costs_op (costs, PS_OP_O, stage)->duration_ns;
      for (guint op = stage; op < n_ops; op += placement->n_stages) {
        gint64 n = count[op], host = ps_host_time_sum (ps_costs_host_time (costs, op));

        device->host_ns += n * host;
        device->busy_ns += n * (costs->op[op].duration_ns - host);
      }
    }
}

void ps_simulation_finish (PsSimulation *simulation)
{
  gint64 first = G_MAXINT64, last = 0;

  simulation->max_span_ns = simulation->optimizer_ns = 0;
  for (guint device = 0; device < simulation->n_devices; device++) {
    const PsDeviceResult *result = &simulation->device[device];

    first = MIN (first, result->start_ns);
    last = MAX (last, result->end_ns);
    simulation->max_span_ns = MAX (simulation->max_span_ns, result->end_ns - result->start_ns);
    simulation->optimizer_ns = MAX (simulation->optimizer_ns, result->optimizer_ns);
  }
  simulation->makespan_ns = last - first;
}

gint64 ps_event_at_speed (const PsEventsSetting *setting, guint device, gint64 duration_ns)
{
  return setting->speed != NULL && setting->speed[device] != 1 ? llrint ((double)duration_ns / setting->speed[device])
                                                               : duration_ns;
}

gint64 ps_event_step_at_speed (const PsEventsSetting *setting, const PsProgram *program, const PsCosts *costs,
                               guint step, gint64 duration_ns)
{
  if (setting->speed == NULL)
    return duration_ns;
  gint64 host_ns = MIN (ps_host_time_sum (ps_step_host_time (program, costs, step)), duration_ns);
  return host_ns + ps_event_at_speed (setting, program->steps[step].device, duration_ns - host_ns);
}

gint64 *ps_step_tails (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting)
{
  gint64 *tails = g_new0 (gint64, (gsize)program->n_steps + 1); /* entry 0: steps without input or predecessor */

  for (guint i = program->n_steps; i-- > 0;) {
    const PsStep *step = &program->steps[i];
    gint64 transfer = setting->transfer_ns != NULL ? setting->transfer_ns[i] : costs->transfer_ns[step->transfer];
    gint64 duration = setting->duration_ns != NULL ? setting->duration_ns[i] : ps_step_duration (program, costs, i);

    tails[i + 1] += ps_event_step_at_speed (setting, program, costs, i, duration);
    tails[step->previous] = MAX (tails[step->previous], tails[i + 1]);
    tails[step->input] = MAX (tails[step->input], tails[i + 1] + transfer);
  }
  memmove (tails, tails + 1, program->n_steps * sizeof *tails);
  return tails;
}

/* The walk */

/* Every step has its own times; NULL: the times of the costs. */
typedef struct {
  const gint64 *duration_ns;
  const gint64 *transfer_ns;
} StepTimes;

/* The time that a pair takes beyond its parts. Busy time so far counts the parts alone. */
static gint64 pair_excess (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation, guint second)
{
  const PsStep *steps = &program->steps[second];
  gint64 excess = ps_step_duration (program, costs, second) - costs->op[steps[-1].cost].duration_ns
                  - costs->op[steps[0].cost].duration_ns;
  gint64 host = ps_host_time_sum (ps_step_host_time (program, costs, second))
                - ps_host_time_sum (ps_costs_host_time (costs, steps[-1].cost))
                - ps_host_time_sum (ps_costs_host_time (costs, steps[0].cost));

  simulation->device[steps->device].busy_ns += excess - host;
  simulation->device[steps->device].host_ns += host;
  return excess;
}

/* Whether any pair takes anything else than its parts. */
static gboolean has_pair_times (const PsCosts *costs)
{
  gint64 all = -1;

  for (guint stage = 0; stage < costs->n_stages; stage++)
    all &= costs->stage[stage].pair_ns;
  return all >= 0;
}

typedef enum {
  WALK_OPS,        /* no pairs */
  WALK_PAIRS,      /* pairs take the sum of their parts */
  WALK_PAIR_TIMES, /* pairs have times of their own */
} WalkKind;

static inline G_ALWAYS_INLINE gint64 transfer_of (const PsStep *step, guint i, const gint64 *transfer_ns,
                                                  const StepTimes *times)
{
  return times != NULL ? (step->input ? times->transfer_ns[i] : 0) : transfer_ns[step->transfer];
}

/* Compiled once for each kind of call, so that no call tests for cases that it cannot have. Per op it stores one time
 * and the device's memory; sums that follow from counting are not made here. Both ops of a pair are walked at once:
 * they take memory at its start and give it at its end. */
static inline G_ALWAYS_INLINE void walk (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation,
                                         WalkKind kind, const StepTimes *times, PsGathers *gathers)
{
  const PsOpCost *restrict op_costs = costs->op;
  const gint64 *restrict transfer_ns = costs->transfer_ns;
  gint64 *restrict end_ns = simulation->end_ns;
  PsMemoryLevel *restrict levels = simulation->memory;
  const guint8 *restrict pair = program->pair;
  guint n = program->n_steps;

  end_ns[0] = 0;
  for (guint i = 0; i < n; i++) {
    const PsStep *step = &program->steps[i];
    const PsOpCost *cost = &op_costs[step->cost];
    PsMemoryLevel *memory = &levels[step->device];
    gint64 arrival = end_ns[step->input] + transfer_of (step, i, transfer_ns, times);
    gint64 free_ns = end_ns[step->previous];
    gint64 start = MAX (
        gathers != NULL ? ps_gathers_wait (gathers, program, costs, step->device, program->op_of[i], free_ns) : free_ns,
        arrival);
    gint64 level = memory->held_bytes + cost->take_bytes;
    gint64 give = cost->give_bytes, duration = times != NULL ? times->duration_ns[i] : cost->duration_ns;

    if (kind != WALK_OPS && pair[i] != PS_PAIR_NONE) {
      const PsStep *second = step + 1;

      cost = &op_costs[second->cost];
      end_ns[++i] = start;
      arrival = end_ns[second->input] + transfer_of (second, i, transfer_ns, times);
      start = MAX (start, arrival);
      level += cost->take_bytes;
      give += cost->give_bytes;
      duration = times != NULL ? times->duration_ns[i] : duration + cost->duration_ns;
      if (kind == WALK_PAIR_TIMES)
        duration += pair_excess (program, costs, simulation, i);
    }
    if (times != NULL)
      simulation->device[step->device].busy_ns += duration;
    memory->peak_bytes = MAX (memory->peak_bytes, level);
    memory->held_bytes = level - give;
    end_ns[i + 1] = start + duration;
  }
}

/* Memory, and when the device's first op starts and its last one ends. The first step of a pair takes no time and ends
 * where the pair starts. */
static void finish_device (const PsProgram *program, const PsCosts *costs, const StepTimes *times, guint device,
                           PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  guint begin = schedule->first[device], end = schedule->first[device + 1];

  simulation->device[device].held_bytes = simulation->memory[device].held_bytes;
  simulation->device[device].peak_bytes = simulation->memory[device].peak_bytes;
  if (begin == end)
    return;
  guint first = program->step_of[begin], last = program->step_of[end - 1];
  gint64 duration = times != NULL ? times->duration_ns[first] : ps_step_duration (program, costs, first);
  /* A gather starts at once. */
  simulation->device[device].start_ns = costs->zero == 3 ? 0 : simulation->end_ns[first + 1] - duration;
  simulation->device[device].end_ns = simulation->end_ns[last + 1];
}

static void finish (const PsProgram *program, const PsCosts *costs, const StepTimes *times, PsSimulation *simulation)
{
  /* An earlier run may have been the events engine's. */
  g_clear_pointer (&simulation->start_ns, g_free);
  g_clear_pointer (&simulation->transfer_start_ns, g_free);
  g_clear_pointer (&simulation->transfer_end_ns, g_free);
  for (guint device = 0; device < simulation->n_devices; device++)
    finish_device (program, costs, times, device, simulation);
  ps_simulation_finish (simulation);
}

static void walk_gathers (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation)
{
  g_auto (PsGathers) gathers = { 0 };

  ps_gathers_init (&gathers, program);
  if (program->pair == NULL)
    walk (program, costs, simulation, WALK_OPS, NULL, &gathers);
  else
    walk (program, costs, simulation, WALK_PAIR_TIMES, NULL, &gathers);
}

void ps_simulate (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation)
{
  g_return_if_fail (simulation->n_steps == program->n_steps);
  ps_simulation_begin (program, costs, simulation);
  if (costs->zero == 3)
    walk_gathers (program, costs, simulation);
  else if (program->pair == NULL)
    walk (program, costs, simulation, WALK_OPS, NULL, NULL);
  else if (!has_pair_times (costs))
    walk (program, costs, simulation, WALK_PAIRS, NULL, NULL);
  else
    walk (program, costs, simulation, WALK_PAIR_TIMES, NULL, NULL);
  finish (program, costs, NULL, simulation);
  ps_simulation_count_buffers (program, costs, simulation);
}

void ps_simulate_steps (const PsProgram *program, const PsCosts *costs, const gint64 *duration_ns,
                        const gint64 *transfer_ns, PsSimulation *simulation)
{
  const StepTimes times = { duration_ns, transfer_ns };

  g_return_if_fail (simulation->n_steps == program->n_steps);
  ps_simulation_begin (program, costs, simulation);
  for (guint device = 0; device < simulation->n_devices; device++)
    simulation->device[device].busy_ns = simulation->device[device].host_ns = 0;
  walk (program, costs, simulation, program->pair != NULL ? WALK_PAIRS : WALK_OPS, &times, NULL);
  finish (program, costs, &times, simulation);
}

PsSimulation *ps_simulate_schedule (const PsSchedule *schedule, const PsCosts *costs, GError **error)
{
  g_autoptr (PsProgram) program = ps_program_lower (ps_schedule_copy (schedule), PS_COMM_ASAP, error);
  PsSimulation *simulation = program != NULL ? ps_simulation_new (program) : NULL;

  if (simulation != NULL)
    ps_simulate (program, costs, simulation);
  return simulation;
}

gint64 ps_simulation_excess (const PsSimulation *simulation, const gint64 *memory_limit, gint64 *most)
{
  gint64 sum = 0, largest = 0;

  for (guint d = 0; memory_limit != NULL && d < simulation->n_devices; d++) {
    gint64 excess = MAX (simulation->device[d].peak_bytes - memory_limit[d], 0);

    sum += excess;
    largest = MAX (largest, excess);
  }
  if (most != NULL)
    *most = largest;
  return sum;
}
