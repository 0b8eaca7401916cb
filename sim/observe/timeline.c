/* timeline.c - the spans and memory points of one iteration; makespan, spans, bubble ratios and peaks, from them or
 * straight from a simulation; and the figures that commands print. */
#include <pipesim/observe.h>

#include "simulate/memory-walk.h"
#include "timeline-private.h"

PsTimeline *ps_timeline_new (PsOrigin origin, const char *schedule, guint n_devices, guint n_stages,
                             guint n_microbatches)
{
  PsTimeline *timeline = g_new0 (PsTimeline, 1);

  timeline->origin = origin;
  timeline->schedule = g_strdup (schedule != NULL ? schedule : "");
  timeline->source = g_strdup ("");
  timeline->n_devices = n_devices;
  timeline->n_stages = n_stages;
  timeline->n_microbatches = n_microbatches;
  timeline->ops = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  timeline->transfers = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  timeline->posts = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  timeline->waits = g_array_new (FALSE, FALSE, sizeof (PsSpan));
  timeline->memory = g_array_new (FALSE, FALSE, sizeof (PsMemoryPoint));
  return timeline;
}

void ps_timeline_free (PsTimeline *timeline)
{
  if (timeline == NULL)
    return;
  g_free (timeline->schedule);
  g_free (timeline->source);
  g_free (timeline->remark);
  g_array_unref (timeline->ops);
  g_array_unref (timeline->transfers);
  g_array_unref (timeline->posts);
  g_array_unref (timeline->waits);
  g_array_unref (timeline->memory);
  g_free (timeline);
}

static int compare_ops (gconstpointer a, gconstpointer b)
{
  const PsSpan *x = a, *y = b;

  return x->device != y->device ? PS_COMPARE (x->device, y->device) : PS_COMPARE (x->start_ns, y->start_ns);
}

PS_DEFINE_ORDER (compare_transfers, PsSpan, start_ns)

static int compare_points (gconstpointer a, gconstpointer b)
{
  const PsMemoryPoint *x = a, *y = b;

  return x->device != y->device ? PS_COMPARE (x->device, y->device) : PS_COMPARE (x->time_ns, y->time_ns);
}

/* Sorts unless all is in order already, as in a file that pipesim wrote. g_array_sort is stable: spans of one instant
 * stay in the order in which they were appended. */
static void put_in_order (GArray *array, GCompareFunc compare)
{
  gsize size = g_array_get_element_size (array);
  guint i = 1;

  while (i < array->len && compare (array->data + (i - 1) * size, array->data + i * size) <= 0)
    i++;
  if (i < array->len)
    g_array_sort (array, compare);
}

void ps_timeline_sort (PsTimeline *timeline)
{
  put_in_order (timeline->ops, compare_ops);
  put_in_order (timeline->transfers, compare_transfers);
  put_in_order (timeline->posts, compare_ops);
  put_in_order (timeline->waits, compare_ops);
  put_in_order (timeline->memory, compare_points);
}

gint64 ps_spans_cover (const GArray *spans, guint *next, guint device, gint64 start_ns, gint64 end_ns)
{
  gint64 sum = 0;

  for (; *next < spans->len; ++*next) {
    const PsSpan *span = &g_array_index (spans, PsSpan, *next);

    if (span->device < device)
      continue;
    if (span->device > device || span->start_ns >= end_ns)
      break;
    sum += MAX (MIN (span->end_ns, end_ns) - MAX (span->start_ns, start_ns), 0);
    if (span->end_ns > end_ns)
      break;
  }
  return sum;
}

static guint span_hash (gconstpointer key)
{
  const PsSpan *span = key;
  guint stage = (span->op.stage * PS_N_OP_KINDS + span->op.kind) * 31 + span->op.slice;

  return (stage * 65599 + span->op.microbatch) * 31 + span->device;
}

static gboolean span_equal (gconstpointer a, gconstpointer b)
{
  const PsSpan *x = a, *y = b;

  return x->device == y->device && x->op.kind == y->op.kind && x->op.stage == y->op.stage
         && x->op.microbatch == y->op.microbatch && x->op.slice == y->op.slice;
}

GHashTable *ps_spans_index (const GArray *spans)
{
  GHashTable *index = g_hash_table_new (span_hash, span_equal);

  for (guint i = 0; i < spans->len; i++)
    g_hash_table_add (index, &g_array_index (spans, PsSpan, i));
  return index;
}

const PsSpan *ps_spans_find (GHashTable *index, PsOp op, guint device)
{
  return g_hash_table_lookup (index, &(PsSpan){ .op = op, .device = (guint16)device });
}

guint ps_timeline_n_slices (const PsTimeline *timeline)
{
  guint n = 1;

  for (guint i = 0; i < timeline->ops->len; i++)
    n = MAX (n, g_array_index (timeline->ops, PsSpan, i).op.slice + 1U);
  return n;
}

static gboolean check_messages (const char *where, const PsTimeline *timeline, const GArray *spans, GError **error)
{
  guint n_slices = ps_timeline_n_slices (timeline);
  char name[48];

  for (guint i = 0; i < spans->len; i++) {
    PsOp op = g_array_index (spans, PsSpan, i).op;

    if (op.stage >= timeline->n_stages || op.microbatch >= timeline->n_microbatches || op.slice >= n_slices)
      return ps_refuse (error, PS_ERROR_INPUT, "%s: no op has the stage, microbatch or slice of the message %s", where,
                        ps_op_format (op, name));
  }
  return TRUE;
}

gboolean ps_timeline_check (const char *where, const PsTimeline *timeline, GError **error)
{
  if ((guint64)timeline->n_stages * timeline->n_microbatches * ps_timeline_n_slices (timeline) > PS_MAX_OPS)
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: %u stages and %u microbatches have more than the %d ops that are possible", where,
                      timeline->n_stages, timeline->n_microbatches, PS_MAX_OPS);
  return check_messages (where, timeline, timeline->transfers, error)
         && check_messages (where, timeline, timeline->posts, error)
         && check_messages (where, timeline, timeline->waits, error);
}

/* The first of a pair takes no time as a step: its span is that of the second, which follows it in the order. */
static void append_ops (PsTimeline *timeline, const PsProgram *program, const PsCosts *costs,
                        const PsSimulation *simulation, guint device)
{
  const PsSchedule *schedule = program->schedule;

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
    PsOp op = schedule->ops[i];
    guint step = program->step_of[op.paired ? i + 1 : i];
    PsHostTime host = ps_step_host_time (program, costs, step);
    PsSpan span = { .start_ns = ps_simulation_start (program, costs, simulation, step) + host.before_ns,
                    .end_ns = simulation->end_ns[step + 1] - host.after_ns,
                    .op = op,
                    .device = (guint16)device,
                    .peer = (guint16)device,
                    .chunk = ps_schedule_chunk (schedule, op) };

    g_array_append_val (timeline->ops, span);
  }
}

/* TRUE if the last point may go: it is of the same instant, and neither the level that the curve continues from nor a
 * peak. The device's first point stays. */
static gboolean is_passing (const GArray *points, guint first, const PsMemoryPoint *next)
{
  const PsMemoryPoint *last = &g_array_index (points, PsMemoryPoint, points->len - 1);

  return points->len > first + 1 && last->time_ns == next->time_ns
         && (last->bytes <= next->bytes || last->bytes <= last[-1].bytes);
}

/* The curve of a device while it is made. */
typedef struct {
  GArray *points; /* PsMemoryPoint */
  guint first;
  PsMemoryPoint last;
} Curve;

/* Changes of one instant make one point, and before it the peak that lasted no time, if there was one. */
static gboolean append_change (gpointer data, const PsMemoryChange *change)
{
  Curve *curve = data;
  PsMemoryPoint *point = &curve->last;
  GArray *points = curve->points;

  point->time_ns = change->time_ns;
  point->bytes += change->bytes;
  point->buffer_bytes += change->kind == PS_MEMORY_CHANGE_BUFFER ? change->bytes : 0;
  while (is_passing (points, curve->first, point))
    g_array_set_size (points, points->len - 1);
  if (g_array_index (points, PsMemoryPoint, points->len - 1).bytes != point->bytes)
    g_array_append_val (points, *point);
  return FALSE;
}

/* The level at the end is the simulation's, so it says the level at the beginning. */
static void append_curve (PsTimeline *timeline, const PsSimulation *simulation, PsMemoryBuffers *buffers, guint device)
{
  GArray *points = timeline->memory;
  Curve curve = { points, points->len, { .device = (guint16)device } };

  g_array_append_val (points, curve.last);
  ps_memory_walk (buffers, device, append_change, &curve);
  for (guint i = curve.first; i < points->len; i++)
    g_array_index (points, PsMemoryPoint, i).bytes += simulation->device[device].held_bytes - curve.last.bytes;
}

static void append_transfers (PsTimeline *timeline, const PsProgram *program, const PsCosts *costs,
                              const PsSimulation *simulation)
{
  for (guint i = 0; i < program->n_steps; i++) {
    if (program->message_of[i] == 0)
      continue;
    const PsMessage *message = &program->messages[program->message_of[i] - 1];
    PsSpan span = { .op = message->op,
                    .device = message->sender,
                    .peer = message->receiver,
                    .chunk = ps_schedule_chunk (program->schedule, message->op) };
    ps_simulation_transfer (program, costs, simulation, i, &span.start_ns, &span.end_ns);
    g_array_append_val (timeline->transfers, span);
  }
}

PsTimeline *ps_timeline_from_simulation (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation)
{
  const PsSchedule *schedule = program->schedule;
  const PsPlacement *placement = schedule->placement;
  PsTimeline *timeline = ps_timeline_new (PS_ORIGIN_SIMULATED, schedule->name, placement->n_devices,
                                          placement->n_stages, schedule->n_microbatches);
  g_autoptr (PsMemoryBuffers) buffers = ps_memory_buffers_new (program, costs, simulation);

  g_free (timeline->source);
  timeline->source = g_strdup (costs->source != NULL ? costs->source : "");
  timeline->iteration_ns = simulation->makespan_ns + simulation->optimizer_ns;
  for (guint d = 0; d < placement->n_devices; d++) {
    append_ops (timeline, program, costs, simulation, d);
    append_curve (timeline, simulation, buffers, d);
  }
  append_transfers (timeline, program, costs, simulation);
  ps_timeline_sort (timeline);
  return timeline;
}

PsTimeline *ps_timeline_of_order (const PsProgram *program, gint64 unit_ns)
{
  g_autoptr (PsCosts) costs = ps_costs_new (program->schedule->placement->n_stages);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);

  for (guint stage = 0; stage < costs->n_stages; stage++)
    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns = kind == PS_OP_BW  ? 2 * unit_ns
                                                                : kind == PS_OP_O ? 0
                                                                                  : unit_ns;
  ps_simulate (program, costs, simulation);
  return ps_timeline_from_simulation (program, costs, simulation);
}

/* Iterations */

static gint64 iteration_time (const GPtrArray *iterations, guint i)
{
  return ((const PsTimeline *)iterations->pdata[i])->iteration_ns;
}

PsIterationSpread ps_iteration_spread (const GPtrArray *iterations)
{
  guint n = iterations->len;
  g_autofree gint64 *times_ns = g_new (gint64, n);
  PsIterationSpread spread = { .n = n };

  for (guint i = 0; i < n; i++)
    times_ns[i] = iteration_time (iterations, i);
  spread.median_ns = ps_median (times_ns, n); /* sorts them */
  spread.p10_ns = ps_quantile (times_ns, n, 0.1).value_ns;
  spread.p90_ns = ps_quantile (times_ns, n, 0.9).value_ns;
  return spread;
}

guint ps_median_iteration (const GPtrArray *iterations)
{
  gint64 median_ns = ps_iteration_spread (iterations).median_ns;
  guint i = 0;

  while (iteration_time (iterations, i) != median_ns)
    i++;
  return i;
}

/* Metrics */

void ps_metrics_clear (PsMetrics *metrics)
{
  g_clear_pointer (&metrics->device, g_free);
}

static void metrics_init (PsMetrics *metrics, guint n_devices)
{
  *metrics = (PsMetrics){ .n_devices = n_devices };
  metrics->device = g_new0 (struct PsDeviceMetrics, n_devices);
}

/* The part of all devices' time in which they idle. One division of whole numbers: 1 of 20 is 0.05, and 1 - 19 / 20
 * more. */
static double idle_ratio (double busy_ns, guint n_devices, gint64 time_ns)
{
  double all_ns = n_devices * (double)time_ns;

  return time_ns > 0 ? (all_ns - busy_ns) / all_ns : 0;
}

/* Figures that follow from the devices' own. Both sources end here, so they cannot define a ratio differently. */
static void metrics_finish (PsMetrics *metrics)
{
  double busy_ns = 0;

  for (guint d = 0; d < metrics->n_devices; d++) {
    busy_ns += (double)metrics->device[d].busy_ns;
    metrics->max_span_ns = MAX (metrics->max_span_ns, metrics->device[d].span_ns);
    metrics->peak_memory_bytes = MAX (metrics->peak_memory_bytes, metrics->device[d].peak_memory_bytes);
  }
  metrics->bubble_ratio = idle_ratio (busy_ns, metrics->n_devices, metrics->iteration_ns);
  metrics->bubble_ratio_span = idle_ratio (busy_ns, metrics->n_devices, metrics->max_span_ns);
}

/* One device while its ops are walked. */
typedef struct {
  struct PsDeviceMetrics *metrics;
  gint64 start_ns;
  gint64 end_ns;
  guint alive;
  guint ending; /* activations that the first op of a pair lets go when the pair ends */
} DeviceWalk;

static void walk_op (DeviceWalk *walk, const PsSpan *span)
{
  guint ended = span->op.kind == PS_OP_W || span->op.kind == PS_OP_BW;

  walk->start_ns = MIN (walk->start_ns, span->start_ns);
  walk->end_ns = MAX (walk->end_ns, span->end_ns);
  walk->alive += span->op.kind == PS_OP_F;
  walk->metrics->peak_activations = MAX (walk->metrics->peak_activations, walk->alive);
  if (span->op.paired) {
    walk->ending = ended;
    return;
  }
  walk->metrics->busy_ns += span->end_ns - span->start_ns;
  walk->alive -= MIN (walk->alive, ended + walk->ending);
  walk->ending = 0;
}

void ps_metrics_from_timeline (const PsTimeline *timeline, PsMetrics *metrics)
{
  gint64 start_ns = G_MAXINT64, end_ns = 0;
  guint i = 0;

  metrics_init (metrics, timeline->n_devices);
  metrics->iteration_ns = timeline->iteration_ns;
  for (guint d = 0; d < timeline->n_devices; d++) {
    DeviceWalk walk = { .metrics = &metrics->device[d], .start_ns = G_MAXINT64 };

    /* O belongs to the iteration time but, as in the simulator, neither to makespan nor to the work. */
    for (; i < timeline->ops->len && g_array_index (timeline->ops, PsSpan, i).device == d; i++)
      if (g_array_index (timeline->ops, PsSpan, i).op.kind != PS_OP_O)
        walk_op (&walk, &g_array_index (timeline->ops, PsSpan, i));
    walk.metrics->span_ns = MAX (walk.end_ns - MIN (walk.start_ns, walk.end_ns), 0);
    start_ns = MIN (start_ns, walk.start_ns);
    end_ns = MAX (end_ns, walk.end_ns);
  }
  metrics->makespan_ns = end_ns > start_ns ? end_ns - start_ns : 0;
  for (guint k = 0; k < timeline->memory->len; k++) {
    const PsMemoryPoint *point = &g_array_index (timeline->memory, PsMemoryPoint, k);
    struct PsDeviceMetrics *device = &metrics->device[point->device];

    device->peak_memory_bytes = MAX (device->peak_memory_bytes, point->bytes);
  }
  metrics_finish (metrics);
}

void ps_metrics_set_iteration (PsMetrics *metrics, gint64 iteration_ns)
{
  metrics->iteration_ns = iteration_ns;
  metrics_finish (metrics);
}

void ps_metrics_from_simulation (const PsProgram *program, const PsSimulation *simulation, PsMetrics *metrics)
{
  metrics_init (metrics, simulation->n_devices);
  metrics->makespan_ns = simulation->makespan_ns;
  metrics->iteration_ns = simulation->makespan_ns + simulation->optimizer_ns;
  for (guint d = 0; d < simulation->n_devices; d++) {
    const PsDeviceResult *result = &simulation->device[d];

    metrics->device[d] = (struct PsDeviceMetrics){ .busy_ns = result->busy_ns,
                                                   .span_ns = result->end_ns - result->start_ns,
                                                   .peak_memory_bytes = result->peak_bytes,
                                                   .peak_activations = program->peak_activations[d] };
  }
  metrics_finish (metrics);
}

/* Figures as columns */

static gpointer devices_detail (gconstpointer row)
{
  static const PsCellColumn columns[] = {
    PS_CELL (struct PsDeviceMetrics, busy_ns, "busy_ns", NULL, TIME),
    PS_CELL (struct PsDeviceMetrics, span_ns, "span_ns", NULL, TIME),
    PS_CELL (struct PsDeviceMetrics, peak_memory_bytes, "peak_memory_bytes", NULL, SIZE),
    PS_CELL (struct PsDeviceMetrics, peak_activations, "peak_activations", NULL, INTEGER),
  };
  const PsMetrics *metrics = &((const PsFigures *)row)->metrics;

  return ps_table_of (columns, G_N_ELEMENTS (columns), metrics->device, sizeof *metrics->device, metrics->n_devices);
}

const PsCellColumn ps_figures[] = {
  PS_CELL (PsFigures, schedule, "schedule", "schedule", TEXT),
  PS_CELL (PsFigures, n_devices, "devices", "p", INTEGER),
  PS_CELL (PsFigures, n_stages, "stages", NULL, INTEGER),
  PS_CELL (PsFigures, n_microbatches, "microbatches", "m", INTEGER),
  PS_CELL (PsFigures, n_chunks, "chunks", "v", INTEGER),
  PS_CELL (PsFigures, metrics.makespan_ns, "makespan_ns", "makespan", TIME),
  PS_CELL (PsFigures, metrics.max_span_ns, "max_span_ns", "longest span", TIME),
  PS_CELL (PsFigures, metrics.iteration_ns, "iteration_ns", "iteration", TIME),
  PS_CELL (PsFigures, metrics.bubble_ratio, "bubble_ratio", "bubble of iteration", RATIO),
  PS_CELL (PsFigures, metrics.bubble_ratio_span, "bubble_ratio_span", "bubble of span", RATIO),
  PS_CELL (PsFigures, first_token_ns, "first_token_ns", "first token", TIME),
  PS_CELL (PsFigures, prompts_per_s, "prompts_per_s", "prompts/s", NUMBER),
  PS_CELL (PsFigures, tokens_per_s, "tokens_per_s", "tokens/s", NUMBER),
  PS_CELL (PsFigures, lower_bound_ns, "lower_bound_ns", "lower bound", TIME),
  PS_CELL (PsFigures, metrics.peak_memory_bytes, "peak_memory_bytes", "peak memory", SIZE),
  PS_CELL (PsFigures, feasible, "feasible", "fits", BOOLEAN),
  PS_CELL (PsFigures, fits, "fits", "fits", TEXT),
  PS_CELL (PsFigures, layout, "layout", "layout", TEXT),
  PS_CELL (PsFigures, asynchronous, "asynchronous", "async", BOOLEAN),
  PS_CELL_GET (devices_detail, "devices_detail", NULL, TABLE),
  { .column = { NULL, NULL, PS_COLUMN_TEXT } },
};

const PsColumn *ps_figure (const char *key)
{
  const PsCellColumn *figure = ps_figures;

  while (figure->column.key != NULL && !g_str_equal (figure->column.key, key))
    figure++;
  g_assert (figure->column.key != NULL);
  return &figure->column;
}
