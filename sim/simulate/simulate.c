/* simulate.c - the relaxation engine: results, the gathers of weights, and one walk over the steps. */
#include "simulate-private.h"
#include "program/weight-window.h"

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

/* The gathers of weights that ZeRO's stage 3 puts into a schedule.
 *
 * Each device has a channel for them, which carries one at a time in the order of the windows of
 * weight-window.h. A device comes to a gather when the op before it has ended; the gather starts then, or when the one
 * before it on the channel has ended. An op waits for the gather of its stage. Weights that leave the window are
 * dropped, and gathered again before they are next used.
 *
 * Gradients have no part in this: in a pipeline one whole gradient of each stage is all that waits for its scatter, at
 * stage 3 and at stage 2. PyTorch's pipelining turns the synchronisation of FSDP's gradients off for each backward and
 * scatters what they added up to after the last one (backward_maybe_with_nosync of
 * torch/distributed/pipelining/stage.py: "we need to accumulate gradients on previous steps and reduce them on the last
 * step"). DeepSpeed's pipelines refuse stages that scatter after each backward (deepspeed/runtime/pipe/engine.py:
 * "ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism").
 */

#define WINDOW (PS_WEIGHT_WINDOW + 1)

typedef struct
{
  guint32 place; /* index into the schedule's ops: the device comes to the gather before that op */
  guint32 until; /* the weights are dropped before that op */
  guint16 stage;
  gint64 start_ns; /* set by a run */
  gint64 end_ns;
} Gather;

typedef struct
{
  guint n_devices;
  guint *first;       /* [n_devices + 1] into gather */
  GArray *gather;     /* Gather, by device, then place */
  guint32 *of;        /* [n_ops] by place: the gather whose weights the op uses */
  guint *next;        /* [n_devices] the first that a run has not come to */
  gint64 *channel_ns; /* [n_devices] when the channel is free */
} Gathers;

static void
gathers_clear (Gathers *gathers)
{
  g_free (gathers->first);
  g_clear_pointer (&gathers->gather, g_array_unref);
  g_free (gathers->of);
  g_free (gathers->next);
  g_free (gathers->channel_ns);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Gathers, gathers_clear)

static guint
cell_size (const PsSchedule *schedule, guint place)
{
  return schedule->ops[place].paired ? 2 : 1;
}

/* The windows of a device's cells, found from the end; that of a pair is at its first op. */
static void
find_windows (const PsSchedule *schedule, guint device, PsWeightWindow *windows)
{
  guint first = schedule->first[device];
  PsWeightWindow window = { 0 };

  for (guint next = schedule->first[device + 1], place; next > first; next = place)
    {
      place = ps_weight_window_back (&window, schedule, first, next);
      windows[place - first] = window;
    }
}

static Gather *
gather_at (const Gathers *gathers, guint index)
{
  return &g_array_index (gathers->gather, Gather, index);
}

/* The place of a stage in `open`, which has the index + 1 of each gather whose weights are there; WINDOW: it has none.
 */
static guint
find_open (const Gathers *gathers, const guint *open, guint stage)
{
  guint i = 0;

  while (i < WINDOW && (open[i] == 0 || gather_at (gathers, open[i] - 1)->stage != stage))
    i++;
  return i;
}

/* Drops the stages that leave the window, and gathers those that come in. */
static void
change_window (Gathers *gathers, guint *open, const PsWeightWindow *window, guint place)
{
  guint n = ps_weight_window_size (window), free = 0;

  for (guint i = 0; i < WINDOW; i++)
    if (open[i] > 0 && !ps_weight_window_holds (window->stage, n, gather_at (gathers, open[i] - 1)->stage))
      {
        gather_at (gathers, open[i] - 1)->until = place;
        open[i] = 0;
      }
  for (guint k = 0; k < n; k++)
    if (find_open (gathers, open, window->stage[k]) == WINDOW)
      {
        const Gather gather = { .place = place, .stage = window->stage[k] };

        while (open[free] > 0)
          free++;
        g_array_append_val (gathers->gather, gather);
        open[free] = gathers->gather->len;
      }
}

static void
add_device (Gathers *gathers, const PsSchedule *schedule, guint device)
{
  const PsWeightWindow none = { 0 };
  guint first = schedule->first[device], last = schedule->first[device + 1], n;
  g_autofree PsWeightWindow *windows = g_new0 (PsWeightWindow, last - first + 1);
  guint open[WINDOW] = { 0 };

  find_windows (schedule, device, windows);
  for (guint place = first; place < last; place += n)
    {
      n = cell_size (schedule, place);
      change_window (gathers, open, &windows[place - first], place);
      for (guint i = place; i < place + n; i++)
        gathers->of[i] = open[find_open (gathers, open, schedule->ops[i].stage)] - 1;
    }
  change_window (gathers, open, &none, last);
}

static void
gathers_init (Gathers *gathers, const PsProgram *program)
{
  guint n = program->schedule->placement->n_devices;

  gathers->n_devices = n;
  gathers->first = g_new (guint, n + 1);
  gathers->gather = g_array_new (FALSE, FALSE, sizeof (Gather));
  gathers->of = g_new (guint32, ps_schedule_n_ops (program->schedule) + 1);
  gathers->next = g_new (guint, n);
  gathers->channel_ns = g_new0 (gint64, n);
  for (guint d = 0; d < n; d++)
    {
      gathers->first[d] = gathers->next[d] = gathers->gather->len;
      add_device (gathers, program->schedule, d);
    }
  gathers->first[n] = gathers->gather->len;
}

/* Runs the gathers before the device's next op (or pair), at that place; before_ns: when the op before it ended.
 * Returns when all weights that it needs are there, before_ns or later. Call it once for each op, in their order. */
static gint64
gathers_wait (Gathers *gathers, const PsProgram *program, const PsCosts *costs, guint device, guint place,
              gint64 before_ns)
{
  guint n = cell_size (program->schedule, place), *next = &gathers->next[device];
  gint64 ready_ns = before_ns, *channel_ns = &gathers->channel_ns[device];

  for (; *next < gathers->first[device + 1] && gather_at (gathers, *next)->place <= place; ++*next)
    {
      Gather *gather = gather_at (gathers, *next);

      gather->start_ns = MAX (*channel_ns, before_ns);
      *channel_ns = gather->end_ns = gather->start_ns + costs->stage[gather->stage].gather_ns;
    }
  for (guint i = place; i < place + n; i++)
    ready_ns = MAX (ready_ns, gather_at (gathers, gathers->of[i])->end_ns);
  return ready_ns;
}

GArray *
ps_simulation_whole_weights (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  GArray *held = g_array_new (FALSE, FALSE, sizeof (PsWholeWeights));
  g_auto (Gathers) gathers = { 0 };

  gathers_init (&gathers, program);
  for (guint d = 0; d < gathers.n_devices; d++)
    {
      gint64 before_ns = 0;

      for (guint place = schedule->first[d], n; place < schedule->first[d + 1]; place += n)
        {
          n = cell_size (schedule, place);
          gathers_wait (&gathers, program, costs, d, place, before_ns);
          before_ns = simulation->end_ns[program->step_of[place + n - 1] + 1];
        }
      for (guint i = gathers.first[d]; i < gathers.first[d + 1]; i++)
        {
          const Gather *gather = gather_at (&gathers, i);
          const PsWholeWeights whole = { d, costs->stage[gather->stage].whole_bytes, gather->start_ns,
                                         simulation->end_ns[program->step_of[gather->until - 1] + 1] };

          g_array_append_val (held, whole);
        }
    }
  return held;
}

/* The walk */

/* Every step has its own times; NULL: the times of the costs. */
typedef struct
{
  const gint64 *duration_ns;
  const gint64 *transfer_ns;
} StepTimes;

/* The time that a pair takes beyond its parts. Busy time so far counts the parts alone. */
static gint64
pair_excess (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation, guint second)
{
  const PsStep *steps = &program->steps[second];
  gint64 excess = ps_pair_duration (program, costs, second) - costs->op[steps[-1].cost].duration_ns
                  - costs->op[steps[0].cost].duration_ns;
  gint64 host = ps_host_time_sum (ps_step_host_time (program, costs, second))
                - ps_host_time_sum (ps_costs_host_time (costs, steps[-1].cost))
                - ps_host_time_sum (ps_costs_host_time (costs, steps[0].cost));

  simulation->device[steps->device].busy_ns += excess - host;
  simulation->device[steps->device].host_ns += host;
  return excess;
}

/* Whether any pair takes anything else than its parts. */
static gboolean
has_pair_times (const PsCosts *costs)
{
  gint64 all = -1;

  for (guint stage = 0; stage < costs->n_stages; stage++)
    all &= costs->stage[stage].pair_ns;
  return all >= 0;
}

typedef enum
{
  WALK_OPS,        /* no pairs */
  WALK_PAIRS,      /* pairs take the sum of their parts */
  WALK_PAIR_TIMES, /* pairs have times of their own */
} WalkKind;

static inline G_ALWAYS_INLINE gint64
transfer_of (const PsStep *step, guint i, const gint64 *transfer_ns, const StepTimes *times)
{
  return times != NULL ? (step->input ? times->transfer_ns[i] : 0) : transfer_ns[step->transfer];
}

/* Compiled once for each kind of call, so that no call tests for cases that it cannot have. Per op it stores one time
 * and the device's memory; sums that follow from counting are not made here. Both ops of a pair are walked at once:
 * they take memory at its start and give it at its end. */
static inline G_ALWAYS_INLINE void
walk (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation, WalkKind kind, const StepTimes *times,
      Gathers *gathers)
{
  const PsOpCost *restrict op_costs = costs->op;
  const gint64 *restrict transfer_ns = costs->transfer_ns;
  gint64 *restrict end_ns = simulation->end_ns;
  PsMemoryLevel *restrict levels = simulation->memory;
  const guint8 *restrict pair = program->pair;
  guint n = program->n_steps;

  end_ns[0] = 0;
  for (guint i = 0; i < n; i++)
    {
      const PsStep *step = &program->steps[i];
      const PsOpCost *cost = &op_costs[step->cost];
      PsMemoryLevel *memory = &levels[step->device];
      gint64 arrival = end_ns[step->input] + transfer_of (step, i, transfer_ns, times);
      gint64 free_ns = end_ns[step->previous];
      gint64 start = MAX (
          gathers != NULL ? gathers_wait (gathers, program, costs, step->device, program->op_of[i], free_ns) : free_ns,
          arrival);
      gint64 level = memory->held_bytes + cost->take_bytes;
      gint64 give = cost->give_bytes, duration = times != NULL ? times->duration_ns[i] : cost->duration_ns;

      if (kind != WALK_OPS && pair[i] != PS_PAIR_NONE)
        {
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
static void
finish_device (const PsProgram *program, const PsCosts *costs, const StepTimes *times, guint device,
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

static void
finish (const PsProgram *program, const PsCosts *costs, const StepTimes *times, PsSimulation *simulation)
{
  /* An earlier run may have been the events engine's. */
  g_clear_pointer (&simulation->start_ns, g_free);
  g_clear_pointer (&simulation->transfer_start_ns, g_free);
  g_clear_pointer (&simulation->transfer_end_ns, g_free);
  for (guint device = 0; device < simulation->n_devices; device++)
    finish_device (program, costs, times, device, simulation);
  ps_simulation_finish (simulation);
}

static void
walk_gathers (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation)
{
  g_auto (Gathers) gathers = { 0 };

  gathers_init (&gathers, program);
  if (program->pair == NULL)
    walk (program, costs, simulation, WALK_OPS, NULL, &gathers);
  else
    walk (program, costs, simulation, WALK_PAIR_TIMES, NULL, &gathers);
}

void
ps_simulate (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation)
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

void
ps_simulate_steps (const PsProgram *program, const PsCosts *costs, const gint64 *duration_ns, const gint64 *transfer_ns,
                   PsSimulation *simulation)
{
  const StepTimes times = { duration_ns, transfer_ns };

  g_return_if_fail (simulation->n_steps == program->n_steps);
  ps_simulation_begin (program, costs, simulation);
  for (guint device = 0; device < simulation->n_devices; device++)
    simulation->device[device].busy_ns = simulation->device[device].host_ns = 0;
  walk (program, costs, simulation, program->pair != NULL ? WALK_PAIRS : WALK_OPS, &times, NULL);
  finish (program, costs, &times, simulation);
}
