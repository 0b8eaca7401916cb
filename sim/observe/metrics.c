/* metrics.c - makespan, spans, bubble ratios and peaks, from a timeline or straight from a simulation; and the figures
 * that commands print. */
#include <pipesim/timeline.h>

void
ps_metrics_clear (PsMetrics *metrics)
{
  g_clear_pointer (&metrics->device, g_free);
}

static void
metrics_init (PsMetrics *metrics, guint n_devices)
{
  *metrics = (PsMetrics){ .n_devices = n_devices };
  metrics->device = g_new0 (struct PsDeviceMetrics, n_devices);
}

/* Figures that follow from the devices' own. Both sources end here, so they cannot define a ratio differently. */
static void
metrics_finish (PsMetrics *metrics)
{
  double busy = 0;

  for (guint d = 0; d < metrics->n_devices; d++)
    {
      busy += (double)metrics->device[d].busy_ns;
      metrics->max_span_ns = MAX (metrics->max_span_ns, metrics->device[d].span_ns);
      metrics->peak_memory_bytes = MAX (metrics->peak_memory_bytes, metrics->device[d].peak_memory_bytes);
    }
  busy /= metrics->n_devices;
  metrics->bubble_ratio = metrics->iteration_ns > 0 ? 1 - busy / (double)metrics->iteration_ns : 0;
  metrics->bubble_ratio_span = metrics->max_span_ns > 0 ? 1 - busy / (double)metrics->max_span_ns : 0;
}

/* One device while its ops are walked. */
typedef struct
{
  struct PsDeviceMetrics *metrics;
  gint64 start_ns;
  gint64 end_ns;
  guint alive;
  guint ending; /* activations that the first op of a pair lets go when the pair ends */
} DeviceWalk;

static void
walk_op (DeviceWalk *walk, const PsSpan *span)
{
  guint ended = span->op.kind == PS_OP_W || span->op.kind == PS_OP_BW;

  walk->start_ns = MIN (walk->start_ns, span->start_ns);
  walk->end_ns = MAX (walk->end_ns, span->end_ns);
  walk->alive += span->op.kind == PS_OP_F;
  walk->metrics->peak_activations = MAX (walk->metrics->peak_activations, walk->alive);
  if (span->op.paired)
    {
      walk->ending = ended;
      return;
    }
  walk->metrics->busy_ns += span->end_ns - span->start_ns;
  walk->alive -= MIN (walk->alive, ended + walk->ending);
  walk->ending = 0;
}

void
ps_metrics_from_timeline (const PsTimeline *timeline, PsMetrics *metrics)
{
  gint64 start_ns = G_MAXINT64, end_ns = 0;
  guint i = 0;

  metrics_init (metrics, timeline->n_devices);
  metrics->iteration_ns = timeline->iteration_ns;
  for (guint d = 0; d < timeline->n_devices; d++)
    {
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
  for (guint k = 0; k < timeline->memory->len; k++)
    {
      const PsMemoryPoint *point = &g_array_index (timeline->memory, PsMemoryPoint, k);
      struct PsDeviceMetrics *device = &metrics->device[point->device];

      device->peak_memory_bytes = MAX (device->peak_memory_bytes, point->bytes);
    }
  metrics_finish (metrics);
}

void
ps_metrics_set_iteration (PsMetrics *metrics, gint64 iteration_ns)
{
  metrics->iteration_ns = iteration_ns;
  metrics_finish (metrics);
}

void
ps_metrics_from_simulation (const PsProgram *program, const PsSimulation *simulation, PsMetrics *metrics)
{
  metrics_init (metrics, simulation->n_devices);
  metrics->makespan_ns = simulation->makespan_ns;
  metrics->iteration_ns = simulation->makespan_ns + simulation->optimizer_ns;
  for (guint d = 0; d < simulation->n_devices; d++)
    {
      const PsDeviceResult *result = &simulation->device[d];

      metrics->device[d] = (struct PsDeviceMetrics){ .busy_ns = result->busy_ns,
                                                     .span_ns = result->end_ns - result->start_ns,
                                                     .peak_memory_bytes = result->peak_bytes,
                                                     .peak_activations = program->peak_activations[d] };
    }
  metrics_finish (metrics);
}

/* Figures as columns */

static gpointer
devices_detail (gconstpointer row)
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
  PS_CELL (PsFigures, lower_bound_ns, "lower_bound_ns", "lower bound", TIME),
  PS_CELL (PsFigures, metrics.peak_memory_bytes, "peak_memory_bytes", "peak memory", SIZE),
  PS_CELL (PsFigures, feasible, "feasible", "fits", BOOLEAN),
  PS_CELL (PsFigures, fits, "fits", "fits", TEXT),
  PS_CELL (PsFigures, layout, "layout", "layout", TEXT),
  PS_CELL (PsFigures, asynchronous, "asynchronous", "async", BOOLEAN),
  PS_CELL_GET (devices_detail, "devices_detail", NULL, TABLE),
  { .column = { NULL, NULL, PS_COLUMN_TEXT } },
};

const PsColumn *
ps_figure (const char *key)
{
  const PsCellColumn *figure = ps_figures;

  while (figure->column.key != NULL && !g_str_equal (figure->column.key, key))
    figure++;
  g_assert (figure->column.key != NULL);
  return &figure->column;
}
