/* replay.c - the times of a timeline at the steps of a program: as they are, or simulated again with the same
 * durations; and the schedule that it shows. */
#include <pipesim/simulate.h>
#include <pipesim/timeline.h>

#include "simulate/simulate-private.h"

/* The spans of a program's ops and messages. */
typedef struct {
  const PsProgram *program;
  const PsSpan **op;       /* [n_steps] by step */
  const PsSpan **transfer; /* [n_steps] of the step's input; NULL: the timeline does not have it */
  const PsSpan **wait;     /* [n_steps] for the step's input; the same */
} Spans;

static void spans_clear (Spans *spans)
{
  g_free (spans->op);
  g_free (spans->transfer);
  g_free (spans->wait);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Spans, spans_clear)

static gboolean find_device (Spans *spans, const PsTimeline *timeline, guint device, guint *span_index, GError **error)
{
  const PsSchedule *schedule = spans->program->schedule;
  char name[48];

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; (*span_index)++) {
    const PsSpan *span = *span_index < timeline->ops->len ? &g_array_index (timeline->ops, PsSpan, *span_index) : NULL;

    if (span != NULL && span->device == device && span->op.kind == PS_OP_O)
      continue;
    PsOp op = schedule->ops[i];
    if (span == NULL || span->device != device || span->op.kind != op.kind || span->op.stage != op.stage
        || span->op.microbatch != op.microbatch || span->op.slice != op.slice)
      return ps_refuse (error, PS_ERROR_INPUT, "%s: device %u: the timeline does not go on with %s", timeline->source,
                        device, ps_op_format (schedule->ops[i], name));
    spans->op[spans->program->step_of[i++]] = span;
  }
  while (*span_index < timeline->ops->len && g_array_index (timeline->ops, PsSpan, *span_index).device == device)
    (*span_index)++;
  return TRUE;
}

/* Finds the span of each step's input among spans of messages. */
static const PsSpan **find_messages (const PsProgram *program, const GArray *spans)
{
  g_autofree const PsSpan **by_result = g_new0 (const PsSpan *, 2 * ps_schedule_n_cells (program->schedule));
  const PsSpan **by_step = g_new0 (const PsSpan *, program->n_steps);

  for (guint i = 0; i < spans->len; i++) {
    const PsSpan *span = &g_array_index (spans, PsSpan, i);

    by_result[ps_schedule_result (program->schedule, span->op)] = span;
  }
  for (guint i = 0; i < program->n_messages; i++)
    by_step[program->messages[i].consumer] = by_result[ps_schedule_result (program->schedule, program->messages[i].op)];
  return by_step;
}

static gboolean find_spans (Spans *spans, const PsTimeline *timeline, GError **error)
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
static void transfer_times (const Spans *spans, const PsCosts *costs, guint step, gint64 *start_ns, gint64 *end_ns)
{
  const PsStep *s = &spans->program->steps[step];
  const PsSpan *transfer = spans->transfer[step], *wait = spans->wait[step];

  *start_ns = *end_ns = s->input ? spans->op[s->input - 1]->end_ns : 0;
  if (transfer != NULL) {
    *start_ns = transfer->start_ns;
    *end_ns = transfer->end_ns;
  } else if (s->input)
    *end_ns = CLAMP (wait != NULL ? wait->end_ns : *start_ns + costs->transfer_ns[s->transfer], *start_ns,
                     MAX (*start_ns, spans->op[step]->start_ns));
}

/* How long the transfer of a step's input takes. Where only the wait for it is known, it takes the costs' time, but at
 * least the wait, and at most until the wait ends. */
static gint64 transfer_length (const Spans *spans, const PsCosts *costs, guint step)
{
  const PsSpan *wait = spans->wait[step];
  gint64 start_ns, end_ns, costs_ns = costs->transfer_ns[spans->program->steps[step].transfer];

  transfer_times (spans, costs, step, &start_ns, &end_ns);
  if (spans->transfer[step] != NULL)
    return end_ns - start_ns;
  return wait != NULL ? MIN (end_ns - start_ns, MAX (costs_ns, wait->end_ns - wait->start_ns)) : 0;
}

gboolean ps_timeline_replay (const PsProgram *program, const PsCosts *costs, const PsTimeline *timeline,
                             PsSimulation *simulation, GError **error)
{
  g_auto (Spans) spans = { .program = program };
  g_autofree gint64 *duration_ns = g_new (gint64, program->n_steps), *transfer_ns = g_new (gint64, program->n_steps);

  if (!find_spans (&spans, timeline, error))
    return FALSE;
  /* The first op of a pair takes no time as a step: the pair's span is that of both. */
  for (guint i = 0; i < program->n_steps; i++) {
    duration_ns[i] = spans.op[i]->op.paired ? 0 : spans.op[i]->end_ns - spans.op[i]->start_ns;
    transfer_ns[i] = transfer_length (&spans, costs, i);
  }
  ps_simulate_steps (program, costs, duration_ns, transfer_ns, simulation);
  /* A run of a schedule that never drains shows its steady state. */
  if (program->schedule->asynchronous && timeline->origin == PS_ORIGIN_MEASURED) {
    const PsEventsSetting steady
        = { .comm = PS_CHANNEL_LATENCY, .duration_ns = duration_ns, .transfer_ns = transfer_ns };

    ps_iteration_times (program, costs, &steady, simulation);
  }
  return TRUE;
}

/* Times of single steps and transfers */

/* The first op of a pair takes no time as a step: the op before it and its input have ended, and the pair begins by
 * then. */
static void take_step (const Spans *spans, const PsCosts *costs, guint step, PsSimulation *simulation)
{
  const PsStep *s = &spans->program->steps[step];
  const PsSpan *span = spans->op[step];
  PsDeviceResult *device = &simulation->device[s->device];
  gint64 start_ns = span->start_ns, end_ns = span->end_ns;

  transfer_times (spans, costs, step, &simulation->transfer_start_ns[step], &simulation->transfer_end_ns[step]);
  /* A message that is known by the wait for it counts from when its receiver comes to it. */
  if (spans->transfer[step] == NULL && spans->wait[step] != NULL && s->previous)
    simulation->transfer_start_ns[step] = CLAMP (simulation->end_ns[s->previous], simulation->transfer_start_ns[step],
                                                 simulation->transfer_end_ns[step]);
  if (span->op.paired) {
    gint64 ready_ns = MAX (s->previous ? simulation->end_ns[s->previous] : 0,
                           s->input ? simulation->transfer_end_ns[step] : span->start_ns);

    start_ns = end_ns = MIN (ready_ns, span->start_ns);
  }
  simulation->start_ns[step] = start_ns;
  simulation->end_ns[step + 1] = end_ns;
  device->start_ns = MIN (device->start_ns, span->start_ns);
  device->end_ns = MAX (device->end_ns, span->end_ns);
  device->busy_ns += end_ns - start_ns;
}

/* The costs' O counts only where the timeline has none. */
static void take_updates (const PsTimeline *timeline, PsSimulation *simulation)
{
  gboolean known = FALSE;

  for (guint i = 0; i < timeline->ops->len; i++) {
    const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

    if (span->op.kind != PS_OP_O)
      continue;
    for (guint d = 0; d < simulation->n_devices && !known; d++)
      simulation->device[d].optimizer_ns = 0;
    known = TRUE;
    simulation->device[span->device].optimizer_ns += span->end_ns - span->start_ns;
  }
}

PsSimulation *ps_timeline_simulation (const PsProgram *program, const PsCosts *costs, const PsTimeline *timeline,
                                      GError **error)
{
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  g_auto (Spans) spans = { .program = program };
  g_auto (PsMetrics) metrics = { 0 };

  if (!find_spans (&spans, timeline, error))
    return NULL;
  ps_simulation_begin (program, costs, simulation);
  ps_simulation_allot_times (simulation);
  for (guint d = 0; d < simulation->n_devices; d++) {
    simulation->device[d].busy_ns = simulation->device[d].host_ns = 0;
    simulation->device[d].start_ns = G_MAXINT64;
  }
  for (guint i = 0; i < program->n_steps; i++)
    take_step (&spans, costs, i, simulation);
  ps_metrics_from_timeline (timeline, &metrics);
  for (guint d = 0; d < simulation->n_devices; d++)
    simulation->device[d].peak_bytes = metrics.device[d].peak_memory_bytes;
  take_updates (timeline, simulation);
  ps_simulation_finish (simulation);
  return g_steal_pointer (&simulation);
}

gint64 *ps_timeline_host_times (const PsProgram *program, const PsTimeline *timeline, const PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  gint64 *host_ns = g_new0 (gint64, program->n_steps);
  guint next = 0;

  for (guint device = 0; device < schedule->placement->n_devices; device++) {
    gint64 free_ns = simulation->device[device].start_ns;

    for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
      guint step = program->step_of[i];
      gint64 ready_ns = program->steps[step].input ? simulation->transfer_end_ns[step] : free_ns;

      host_ns[step]
          = ps_spans_cover (timeline->posts, &next, device, MAX (free_ns, ready_ns), simulation->start_ns[step]);
      free_ns = simulation->end_ns[step + 1];
    }
  }
  return host_ns;
}

/* The schedule that a timeline shows */

#define NOWHERE G_MAXUINT16

/* The devices that hold the stages. A microbatch whose stages lie elsewhere than those of microbatch 0 uses a second
 * copy of the weights. */
typedef struct {
  guint n_stages;
  guint n_copies;
  guint16 *device; /* [2 * n_stages] */
  guint8 *copy;    /* [n_microbatches] */
} Map;

static void map_clear (Map *map)
{
  g_free (map->device);
  g_free (map->copy);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Map, map_clear)

static gboolean map_stages (Map *map, const PsTimeline *timeline, GError **error)
{
  guint m = timeline->n_microbatches;
  gsize n = (gsize)timeline->n_stages * m;
  g_autofree guint16 *device = g_new (guint16, n); /* of every [stage * m + microbatch] */

  for (gsize i = 0; i < n; i++)
    device[i] = NOWHERE;
  for (guint i = 0; i < timeline->ops->len; i++) {
    const PsSpan *span = &g_array_index (timeline->ops, PsSpan, i);

    if (span->op.kind != PS_OP_O)
      device[(gsize)span->op.stage * m + span->op.microbatch] = span->device;
  }
  for (guint stage = 0; stage < map->n_stages; stage++)
    for (guint microbatch = 0; microbatch < m; microbatch++) {
      guint16 at = device[(gsize)stage * m + microbatch];

      if (at == NOWHERE)
        return ps_refuse (error, PS_ERROR_INPUT, "the timeline has no op of stage %u and microbatch %u", stage,
                          microbatch);
      if (microbatch == 0)
        map->device[stage] = at;
      if (at != map->device[stage])
        map->copy[microbatch] = 1;
      if (map->copy[microbatch] == 1)
        map->n_copies = 2;
    }
  for (guint microbatch = 0; microbatch < m; microbatch++)
    for (guint stage = 0; stage < map->n_stages && map->copy[microbatch] == 1; stage++)
      map->device[map->n_stages + stage] = device[(gsize)stage * m + microbatch];
  return TRUE;
}

PsSchedule *ps_timeline_schedule (const PsTimeline *timeline, GError **error)
{
  g_auto (Map) map = { .n_stages = timeline->n_stages, .n_copies = 1 };
  g_autoptr (PsSchedule) schedule = NULL;
  guint next = 0;

  map.device = g_new0 (guint16, 2 * (gsize)map.n_stages);
  map.copy = g_new0 (guint8, timeline->n_microbatches);
  if (!map_stages (&map, timeline, error))
    return NULL;
  PsScheduleBuilder *builder = ps_schedule_builder_new (
      timeline->schedule, ps_placement_new_custom (timeline->n_devices, map.n_stages, map.n_copies, map.device),
      timeline->n_microbatches);
  for (guint device = 0; device < timeline->n_devices; device++) {
    for (; next < timeline->ops->len && g_array_index (timeline->ops, PsSpan, next).device == device; next++)
      if (g_array_index (timeline->ops, PsSpan, next).op.kind != PS_OP_O)
        ps_schedule_builder_add_op (builder, g_array_index (timeline->ops, PsSpan, next).op);
    ps_schedule_builder_next_device (builder);
  }
  schedule = ps_schedule_builder_end (builder);
  schedule->n_slices = ps_timeline_n_slices (timeline);
  if (map.n_copies > 1)
    schedule->copy = g_steal_pointer (&map.copy);
  return ps_schedule_validate (schedule, error) ? g_steal_pointer (&schedule) : NULL;
}
