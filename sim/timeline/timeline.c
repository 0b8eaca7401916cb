/* timeline.c - the spans and memory points of one iteration, and the figures that follow from them. */
#include <pipesim/timeline.h>

#include "simulate/memory-buffers.h"

PsTimeline *
ps_timeline_new (PsOrigin origin, const char *schedule, guint n_devices, guint n_stages, guint n_microbatches)
{
  PsTimeline *timeline = g_new0 (PsTimeline, 1);

  timeline->origin = origin;
  timeline->schedule = g_strdup (schedule ? schedule : "");
  timeline->source = g_strdup ("");
  timeline->n_devices = n_devices;
  timeline->n_stages = n_stages;
  timeline->n_microbatches = n_microbatches;
  timeline->ops = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  timeline->transfers = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  timeline->memory = g_array_new (FALSE, FALSE, sizeof (PsMemoryPoint));
  return timeline;
}

void
ps_timeline_free (PsTimeline *timeline)
{
  if (!timeline)
    return;
  g_free (timeline->schedule);
  g_free (timeline->source);
  g_free (timeline->remark);
  g_array_unref (timeline->ops);
  g_array_unref (timeline->transfers);
  g_array_unref (timeline->memory);
  g_free (timeline);
}

static int
compare_times (gint64 a, gint64 b)
{
  return (a > b) - (a < b);
}

static int
compare_ops (gconstpointer a, gconstpointer b)
{
  const PsSpan *x = a, *y = b;

  if (x->device != y->device)
    return x->device < y->device ? -1 : 1;
  return compare_times (x->start_ns, y->start_ns);
}

static int
compare_transfers (gconstpointer a, gconstpointer b)
{
  const PsSpan *x = a, *y = b;

  return compare_times (x->start_ns, y->start_ns);
}

static int
compare_points (gconstpointer a, gconstpointer b)
{
  const PsMemoryPoint *x = a, *y = b;

  if (x->device != y->device)
    return x->device < y->device ? -1 : 1;
  return compare_times (x->time_ns, y->time_ns);
}

/* g_array_sort is stable: what happens at one instant stays in the order in which it was appended. */
void
ps_timeline_sort (PsTimeline *timeline)
{
  g_array_sort (timeline->ops, compare_ops);
  g_array_sort (timeline->transfers, compare_transfers);
  g_array_sort (timeline->memory, compare_points);
}

/* Memory of one device while its ops are walked in order. What an op gives back waits until the next op starts: given
 * and taken at one instant make one point, so that the curve never shows a dip that lasts no time. */
typedef struct
{
  GArray *points;
  guint device;
  gint64 bytes;
  gint64 give_bytes;
  gint64 give_ns;
  const PsBufferChange *change; /* the next of the messages' buffers; NULL: not counted. With them several things happen
                                   at one instant: it is one point, and before it the peak that lasted no time, if any
                                   did */
  const PsBufferChange *change_end;
} MemoryCurve;

/* The point that is n before the end, if it is of this device. */
static const PsMemoryPoint *
memory_curve_last (const MemoryCurve *curve, guint n)
{
  const PsMemoryPoint *point
      = curve->points->len > n ? &g_array_index (curve->points, PsMemoryPoint, curve->points->len - 1 - n) : NULL;

  return point && point->device == curve->device ? point : NULL;
}

/* Whether the last point is of that instant and neither where the curve goes on from nor a peak. */
static gboolean
memory_curve_passes (const MemoryCurve *curve, gint64 time_ns, gint64 bytes)
{
  const PsMemoryPoint *last = memory_curve_last (curve, 0), *before = memory_curve_last (curve, 1);

  return curve->change && last && last->time_ns == time_ns
         && (last->bytes <= bytes || (before && last->bytes <= before->bytes));
}

static void
memory_curve_set (MemoryCurve *curve, gint64 time_ns, gint64 bytes)
{
  if (bytes == curve->bytes)
    return;
  while (memory_curve_passes (curve, time_ns, bytes))
    g_array_set_size (curve->points, curve->points->len - 1);
  curve->bytes = bytes;
  g_array_append_val (curve->points, ((PsMemoryPoint){ time_ns, bytes, (guint16)curve->device }));
}

static void
memory_curve_settle (MemoryCurve *curve)
{
  memory_curve_set (curve, curve->give_ns, curve->bytes - curve->give_bytes);
  curve->give_bytes = 0;
}

/* Buffers that come or go up to that time. What ops give back by then is gone first. */
static void
memory_curve_buffers (MemoryCurve *curve, gint64 until_ns)
{
  for (; curve->change != curve->change_end && curve->change->time_ns <= until_ns; curve->change++)
    {
      if (curve->give_bytes != 0 && curve->give_ns <= curve->change->time_ns)
        memory_curve_settle (curve);
      memory_curve_set (curve, curve->change->time_ns, curve->bytes + curve->change->bytes);
    }
}

static void
memory_curve_op (MemoryCurve *curve, const PsOpCost *cost, const PsSpan *span, gboolean joins_previous)
{
  if (!joins_previous)
    memory_curve_buffers (curve, span->start_ns);
  gint64 given = joins_previous ? 0 : curve->give_bytes;

  if (!joins_previous && curve->give_ns < span->start_ns)
    {
      memory_curve_settle (curve);
      given = 0;
    }
  memory_curve_set (curve, span->start_ns, curve->bytes - given + cost->take_bytes);
  curve->give_bytes += cost->give_bytes - given;
  curve->give_ns = span->end_ns;
}

static gint64
device_weight_bytes (const PsSchedule *schedule, const PsCosts *costs, guint device)
{
  const PsPlacement *placement = schedule->placement;
  guint versions = schedule->weight_versions ? schedule->weight_versions[device] : 1;
  gint64 bytes = 0;

  for (guint i = 0; i < placement->n_copies * placement->n_stages; i++)
    if (placement->device[i] == device)
      bytes += ps_costs_held_bytes (costs, i % placement->n_stages, versions);
  return bytes;
}

static guint16
op_chunk (const PsSchedule *schedule, PsOp op)
{
  const PsPlacement *placement = schedule->placement;
  guint copy = schedule->copy ? schedule->copy[op.microbatch] : 0;

  return placement->chunk[(gsize)copy * placement->n_stages + op.stage];
}

/* The first of a pair takes no time as a step: its span is that of the second, which follows it in the order. */
static PsSpan
op_span (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, guint index, guint device)
{
  PsOp op = program->schedule->ops[index];
  guint step = program->step_of[op.paired ? index + 1 : index];
  gint64 end = simulation->end_ns[step + 1];

  return (PsSpan){ .start_ns = ps_simulation_start (program, costs, simulation, step),
                   .end_ns = end,
                   .op = op,
                   .device = (guint16)device,
                   .peer = (guint16)device,
                   .chunk = op_chunk (program->schedule, op) };
}

static void
append_device (PsTimeline *timeline, const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
               const PsMemoryBuffers *buffers, guint device)
{
  const PsSchedule *schedule = program->schedule;
  MemoryCurve curve = { .points = timeline->memory, .device = device, .bytes = -1 };
  gboolean joins_previous = FALSE;

  if (buffers)
    {
      curve.change = &buffers->changes[buffers->first[device]];
      curve.change_end = &buffers->changes[buffers->first[device + 1]];
    }
  memory_curve_set (&curve, 0, device_weight_bytes (schedule, costs, device));
  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
    {
      PsSpan span = op_span (program, costs, simulation, i, device);

      g_array_append_val (timeline->ops, span);
      memory_curve_op (&curve, ps_costs_op (costs, span.op.kind, span.op.stage), &span, joins_previous);
      joins_previous = span.op.paired;
    }
  memory_curve_buffers (&curve, G_MAXINT64);
  memory_curve_settle (&curve);
}

static void
append_transfers (PsTimeline *timeline, const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation)
{
  for (guint i = 0; i < program->n_steps; i++)
    {
      const PsStep *step = &program->steps[i];
      PsSpan span = { .peer = step->device };
      guint producer;

      if (step->input == 0)
        continue;
      producer = step->input - 1;
      span.op = ps_program_producer (program, i);
      span.device = program->steps[producer].device;
      span.chunk = op_chunk (program->schedule, span.op);
      ps_simulation_transfer (program, costs, simulation, i, &span.start_ns, &span.end_ns);
      g_array_append_val (timeline->transfers, span);
    }
}

PsTimeline *
ps_timeline_from_simulation (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  const PsPlacement *placement = schedule->placement;
  PsTimeline *timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, schedule->name, placement->n_devices,
                                          placement->n_stages, schedule->n_microbatches);
  g_auto (PsMemoryBuffers) buffers = { NULL, NULL };

  g_free (timeline->source);
  timeline->source = g_strdup (costs->source ? costs->source : "");
  timeline->iteration_ns = simulation->makespan_ns + simulation->optimizer_ns;
  if (simulation->has_buffers)
    ps_memory_buffers_init (&buffers, program, costs, simulation);
  for (guint d = 0; d < placement->n_devices; d++)
    append_device (timeline, program, costs, simulation, simulation->has_buffers ? &buffers : NULL, d);
  append_transfers (timeline, program, costs, simulation);
  ps_timeline_sort (timeline);
  return timeline;
}
