/* replay.c - the times of a timeline at the steps of a program: as they are, or simulated again with the same
 * durations. */
#include <pipesim/simulate.h>
#include <pipesim/timeline.h>

#include "simulate/simulate-private.h"

/* The spans of a program's ops and messages. */
typedef struct
{
  const PsProgram *program;
  const PsSpan **op;       /* [n_steps] by step */
  const PsSpan **transfer; /* [n_steps] of the step's input; NULL: the timeline does not have it */
  const PsSpan **wait;     /* [n_steps] for the step's input; the same */
} Spans;

static void
spans_clear (Spans *spans)
{
  g_free (spans->op);
  g_free (spans->transfer);
  g_free (spans->wait);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Spans, spans_clear)

static gboolean
same_op (PsOp a, PsOp b)
{
  return a.kind == b.kind && a.stage == b.stage && a.microbatch == b.microbatch && a.slice == b.slice;
}

static gboolean
find_device (Spans *spans, const PsTimeline *timeline, guint device, guint *span_index, GError **error)
{
  const PsSchedule *schedule = spans->program->schedule;
  char name[48];

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; (*span_index)++)
    {
      const PsSpan *span
          = *span_index < timeline->ops->len ? &g_array_index (timeline->ops, PsSpan, *span_index) : NULL;

      if (span != NULL && span->device == device && span->op.kind == PS_OP_O)
        continue;
      if (span == NULL || span->device != device || !same_op (span->op, schedule->ops[i]))
        return ps_refuse (error, PS_ERROR_INPUT, "%s: device %u: the timeline does not go on with %s", timeline->source,
                          device, ps_op_format (schedule->ops[i], name));
      spans->op[spans->program->step_of[i++]] = span;
    }
  while (*span_index < timeline->ops->len && g_array_index (timeline->ops, PsSpan, *span_index).device == device)
    (*span_index)++;
  return TRUE;
}

/* Finds the span of each step's input among spans of messages. */
static const PsSpan **
find_messages (const PsProgram *program, const GArray *spans)
{
  g_autofree const PsSpan **by_result = g_new0 (const PsSpan *, 2 * ps_schedule_n_cells (program->schedule));
  const PsSpan **by_step = g_new0 (const PsSpan *, program->n_steps);

  for (guint i = 0; i < spans->len; i++)
    {
      const PsSpan *span = &g_array_index (spans, PsSpan, i);

      by_result[ps_schedule_result (program->schedule, span->op)] = span;
    }
  for (guint i = 0; i < program->n_messages; i++)
    by_step[program->messages[i].consumer] = by_result[ps_schedule_result (program->schedule, program->messages[i].op)];
  return by_step;
}

static gboolean
find_spans (Spans *spans, const PsTimeline *timeline, GError **error)
{
  const PsProgram *program = spans->program;
  guint next = 0;

  spans->op = g_new0 (const PsSpan *, program->n_steps);
  spans->transfer = find_messages (program, timeline->transfers);
  spans->wait = find_messages (program, timeline->waits);
  for (guint device = 0; device < program->schedule->placement->n_devices; device++)
    if (!find_device (spans, timeline, device, &next, error))
      return FALSE;
  return TRUE;
}

/* The transfer of a step's input. Where the timeline does not have it, it begins when the input is made. It then ends
 * with the wait for it, or takes the costs' time, but ends before the step starts. */
static void
transfer_times (const Spans *spans, const PsCosts *costs, guint step, gint64 *start_ns, gint64 *end_ns)
{
  const PsStep *s = &spans->program->steps[step];
  const PsSpan *transfer = spans->transfer[step], *wait = spans->wait[step];

  *start_ns = *end_ns = s->input ? spans->op[s->input - 1]->end_ns : 0;
  if (transfer != NULL)
    {
      *start_ns = transfer->start_ns;
      *end_ns = transfer->end_ns;
    }
  else if (s->input)
    *end_ns = CLAMP (wait != NULL ? wait->end_ns : *start_ns + costs->transfer_ns[s->transfer], *start_ns,
                     MAX (*start_ns, spans->op[step]->start_ns));
}

/* How long the transfer of a step's input takes. Where only the wait for it is known, it takes the costs' time, but at
 * least the wait, and at most until the wait ends. */
static gint64
transfer_length (const Spans *spans, const PsCosts *costs, guint step)
{
  const PsSpan *wait = spans->wait[step];
  gint64 start_ns, end_ns;

  transfer_times (spans, costs, step, &start_ns, &end_ns);
  if (spans->transfer[step] != NULL)
    return end_ns - start_ns;
  if (wait == NULL)
    return 0;
  return MIN (end_ns - start_ns,
              MAX (costs->transfer_ns[spans->program->steps[step].transfer], wait->end_ns - wait->start_ns));
}

gboolean
ps_timeline_replay (const PsProgram *program, const PsCosts *costs, const PsTimeline *timeline,
                    PsSimulation *simulation, GError **error)
{
  g_auto (Spans) spans = { .program = program };
  g_autofree gint64 *duration_ns = g_new (gint64, program->n_steps), *transfer_ns = g_new (gint64, program->n_steps);

  if (!find_spans (&spans, timeline, error))
    return FALSE;
  /* The first op of a pair takes no time as a step: the pair's span is that of both. */
  for (guint i = 0; i < program->n_steps; i++)
    {
      duration_ns[i] = spans.op[i]->op.paired ? 0 : spans.op[i]->end_ns - spans.op[i]->start_ns;
      transfer_ns[i] = transfer_length (&spans, costs, i);
    }
  ps_simulate_steps (program, costs, duration_ns, transfer_ns, simulation);
  /* A run of a schedule that never drains shows its steady state. */
  if (program->schedule->asynchronous && timeline->origin == PS_ORIGIN_MEASURED)
    {
      const PsEventsSetting steady
          = { .comm = PS_CHANNEL_LATENCY, .duration_ns = duration_ns, .transfer_ns = transfer_ns };

      ps_iteration_times (program, costs, &steady, simulation);
    }
  return TRUE;
}

/* Times of single steps and transfers */

/* The first op of a pair takes no time as a step: its turn and its input have come, and the pair begins by then. */
static gint64
pair_ready (const Spans *spans, guint step, const PsSimulation *simulation)
{
  const PsStep *s = &spans->program->steps[step];
  gint64 ready_ns = MAX (s->previous ? simulation->end_ns[s->previous] : 0,
                         s->input ? simulation->transfer_end_ns[step] : spans->op[step]->start_ns);

  return MIN (ready_ns, spans->op[step]->start_ns);
}

static void
take_step (const Spans *spans, const PsCosts *costs, guint step, PsSimulation *simulation)
{
  const PsStep *s = &spans->program->steps[step];
  const PsSpan *span = spans->op[step];
  PsDeviceResult *device = &simulation->device[s->device];

  transfer_times (spans, costs, step, &simulation->transfer_start_ns[step], &simulation->transfer_end_ns[step]);
  simulation->start_ns[step] = span->op.paired ? pair_ready (spans, step, simulation) : span->start_ns;
  simulation->end_ns[step + 1] = span->op.paired ? simulation->start_ns[step] : span->end_ns;
  device->start_ns = MIN (device->start_ns, span->start_ns);
  device->end_ns = MAX (device->end_ns, span->end_ns);
  device->busy_ns += simulation->end_ns[step + 1] - simulation->start_ns[step];
}

static void
take_devices (const PsTimeline *timeline, PsSimulation *simulation)
{
  g_auto (PsMetrics) metrics = { 0 };

  ps_metrics_from_timeline (timeline, &metrics);
  for (guint d = 0; d < simulation->n_devices; d++)
    simulation->device[d].peak_bytes = metrics.device[d].peak_memory_bytes;
}

/* The costs' O counts only where the timeline has none. */
static void
take_updates (const PsTimeline *timeline, PsSimulation *simulation)
{
  gboolean known = FALSE;

  for (guint i = 0; i < timeline->ops->len; i++)
    {
      const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

      if (span->op.kind != PS_OP_O)
        continue;
      for (guint d = 0; d < simulation->n_devices && !known; d++)
        simulation->device[d].optimizer_ns = 0;
      known = TRUE;
      simulation->device[span->device].optimizer_ns += span->end_ns - span->start_ns;
    }
}

PsSimulation *
ps_timeline_simulation (const PsProgram *program, const PsCosts *costs, const PsTimeline *timeline, GError **error)
{
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  g_auto (Spans) spans = { .program = program };

  if (!find_spans (&spans, timeline, error))
    return NULL;
  ps_simulation_begin (program, costs, simulation);
  simulation->start_ns = g_new (gint64, program->n_steps);
  simulation->transfer_start_ns = g_new (gint64, program->n_steps);
  simulation->transfer_end_ns = g_new (gint64, program->n_steps);
  for (guint d = 0; d < simulation->n_devices; d++)
    {
      simulation->device[d].busy_ns = simulation->device[d].host_ns = 0;
      simulation->device[d].start_ns = G_MAXINT64;
    }
  for (guint i = 0; i < program->n_steps; i++)
    take_step (&spans, costs, i, simulation);
  take_devices (timeline, simulation);
  take_updates (timeline, simulation);
  ps_simulation_finish (simulation);
  return g_steal_pointer (&simulation);
}

gint64 *
ps_timeline_host_times (const PsProgram *program, const PsTimeline *timeline, const PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  gint64 *host_ns = g_new0 (gint64, program->n_steps);
  guint next = 0;

  for (guint device = 0; device < schedule->placement->n_devices; device++)
    {
      gint64 free_ns = simulation->device[device].start_ns;

      for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
        {
          guint step = program->step_of[i];
          gint64 ready_ns = program->steps[step].input ? simulation->transfer_end_ns[step] : free_ns;

          host_ns[step]
              = ps_spans_cover (timeline->posts, &next, device, MAX (free_ns, ready_ns), simulation->start_ns[step]);
          free_ns = simulation->end_ns[step + 1];
        }
    }
  return host_ns;
}
