/* metamorphic-figures.c - a prediction's figures agree with each other, and no bound lies above them. */
#include "metamorphic.h"

#include <pipesim/bound.h>
#include <pipesim/simulate.h>

#define ANYTHING                                                                                                       \
  (META_CHANNEL | META_BLOCKING | META_EAGER | META_ORDER | META_PLANNED | META_SPEED | META_SLOWDOWN | META_BANDWIDTH \
   | META_BYPASS | META_WINDOW | META_EXPOSED | META_RECOMPUTE)

/* A family, or a schedule where any will do, under any setting; NULL: it cannot be run. */
static MetaRun *run_wanted (MetaProperty *property, MetaDraw *draw, MetaWanted wanted)
{
  g_autofree char *limit = NULL;

  if (wanted == meta_any_family && meta_one_in (property, 4))
    meta_draw_schedule (property, draw);
  else if (!meta_draw_family (property, draw, wanted))
    return NULL;
  meta_draw_costs (property, draw);
  meta_draw_memory (property, draw);
  if (meta_one_in (property, 2))
    meta_draw_messages (property, draw);
  meta_draw_options (property, draw, ANYTHING);
  if (meta_one_in (property, 2))
    limit = g_strdup_printf ("--memory-limit %uB", META_UNIT * (2 + meta_below (property, 12 * draw->m)));
  g_autoptr (MetaRun) run = meta_run_draw (draw, limit);
  return run->prediction != NULL ? g_steal_pointer (&run) : NULL;
}

static MetaRun *run_anything (MetaProperty *property, MetaDraw *draw)
{
  return run_wanted (property, draw, meta_any_family);
}

static void bound_below_makespan (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) run = run_anything (property, &draw);

  if (run != NULL && !draw.asynchronous)
    meta_expect (property, "lower bound and makespan", run->prediction->lower_bound_ns,
                 "<=", run->prediction->metrics.makespan_ns, run, NULL);
}

/* Of one row: the time printed beside the bound is not below it, with --sync bypass either. */
static void expect_bound_below_iteration (MetaProperty *property, const MetaRun *run)
{
  meta_expect (property, "lower bound and iteration", run->prediction->lower_bound_ns,
               "<=", run->prediction->metrics.iteration_ns, run, NULL);
}

static void bound_below_iteration (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) run = run_anything (property, &draw);

  if (run != NULL && !draw.asynchronous)
    expect_bound_below_iteration (property, run);
}

static gboolean is_asynchronous (const PsFamily *family)
{
  return g_str_has_prefix (family->name, "pipedream");
}

static void bound_below_period (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) run = run_wanted (property, &draw, is_asynchronous);

  if (run != NULL)
    expect_bound_below_iteration (property, run);
}

/* A schedule keeps to the limit that its own peaks make. */
static void bound_within_memory (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) run = run_anything (property, &draw);
  const PsPrediction *prediction = run != NULL ? run->prediction : NULL;
  const PsSchedule *schedule = run != NULL ? prediction->program->schedule : NULL;

  if (run == NULL || schedule->n_slices > 1 || run->setting->n_speeds > 0)
    return;
  g_autoptr (PsSimulation) ops = ps_simulation_new (prediction->program);
  ps_simulate (prediction->program, prediction->costs, ops);
  g_autofree gint64 *limit = g_new (gint64, ops->n_devices);
  for (guint d = 0; d < ops->n_devices; d++)
    limit[d] = ops->device[d].peak_bytes;
  meta_expect (property, "bound within its memory and makespan",
               ps_lower_bound_within (schedule->placement, schedule->n_microbatches, prediction->costs, limit,
                                      PS_OBJECTIVE_MAKESPAN),
               "<=", prediction->metrics.makespan_ns, run, NULL);
  meta_expect (property, "bound within its memory and longest span",
               ps_lower_bound_within (schedule->placement, schedule->n_microbatches, prediction->costs, limit,
                                      PS_OBJECTIVE_SPAN),
               "<=", prediction->metrics.max_span_ns, run, NULL);
}

/* The row of the printed table is made of those of the devices. */
static void row_of_devices (MetaProperty *property, const MetaRun *run)
{
  const PsMetrics *metrics = &run->prediction->metrics;
  g_autofree gint64 *limit = NULL;
  gint64 peak = 0, span = 0, busy = 0;
  gboolean fits = TRUE;

  g_assert_true (ps_setting_memory_limit (run->setting, metrics->n_devices, &limit, NULL, NULL));
  for (guint d = 0; d < metrics->n_devices; d++) {
    peak = MAX (peak, metrics->device[d].peak_memory_bytes);
    span = MAX (span, metrics->device[d].span_ns);
    busy += metrics->device[d].busy_ns;
    fits = fits && (limit == NULL || metrics->device[d].peak_memory_bytes <= limit[d]);
  }
  double bubble = 1 - (double)busy / ((double)metrics->n_devices * (double)metrics->iteration_ns);
  meta_expect (property, "peak memory and that of devices", metrics->peak_memory_bytes, "==", peak, run, NULL);
  meta_expect (property, "longest span and that of devices", metrics->max_span_ns, "==", span, run, NULL);
  meta_expect (property, "fits and peaks", run->prediction->feasible, "==", fits, run, NULL);
  meta_expect_true (property, "bubble ratio and busy time", ABS (metrics->bubble_ratio - bubble) < 1e-9, run, NULL);
}

/* Of one device, or of all. Host times before its first op and after its last are no part of a timeline. */
static void expect_span (MetaProperty *property, const char *what, gint64 timeline_ns, gint64 row_ns,
                         const MetaRun *run)
{
  const PsCosts *costs = run->prediction->costs;
  gint64 longest = 0;

  for (guint i = 0; costs->host_time != NULL && i < PS_OP_O * costs->n_stages; i++)
    longest = MAX (longest, ps_host_time_sum (costs->host_time[i]) + ps_host_time_sum (costs->pair_host));
  meta_expect (property, what, timeline_ns, "<=", row_ns, run, NULL);
  meta_expect (property, what, row_ns, "<=", timeline_ns + 2 * longest, run, NULL);
}

static void row_of_timeline (MetaProperty *property, const MetaRun *run)
{
  const PsMetrics *row = &run->prediction->metrics;
  g_autoptr (PsTimeline) timeline = ps_prediction_timeline (run->prediction);
  g_auto (PsMetrics) metrics = { 0 };
  gboolean same = TRUE;

  ps_metrics_from_timeline (timeline, &metrics);
  expect_span (property, "makespan of the timeline", metrics.makespan_ns, row->makespan_ns, run);
  meta_expect (property, "iteration of the timeline", metrics.iteration_ns, "==", row->iteration_ns, run, NULL);
  meta_expect (property, "peak memory of the timeline", metrics.peak_memory_bytes, "==", row->peak_memory_bytes, run,
               NULL);
  for (guint d = 0; d < row->n_devices; d++)
    expect_span (property, "span of a device in the timeline", metrics.device[d].span_ns, row->device[d].span_ns, run);
  for (guint d = 0; d < row->n_devices; d++)
    same = same && metrics.device[d].busy_ns == row->device[d].busy_ns
           && metrics.device[d].peak_memory_bytes == row->device[d].peak_memory_bytes
           && metrics.device[d].peak_activations == row->device[d].peak_activations;
  meta_expect_true (property, "devices of the timeline", same, run, NULL);
}

/* --memory. */
static void row_of_memory (MetaProperty *property, const MetaRun *run)
{
  const PsPrediction *prediction = run->prediction;
  g_autoptr (PsMemory) memory = ps_memory_new (prediction->program, prediction->costs, prediction->simulation);

  for (guint d = 0; d < memory->n_devices; d++) {
    const PsDeviceMemory *device = &memory->device[d];
    gint64 most = 0;

    for (guint i = 0; i < device->curve->len; i++)
      most = MAX (most, ps_memory_sum (&g_array_index (device->curve, PsMemoryMoment, i)));
    meta_expect (property, "peak and where its bytes go", prediction->metrics.device[d].peak_memory_bytes,
                 "==", device->peak_bytes, run, NULL);
    meta_expect (property, "peak and sum of its parts", device->peak_bytes, "==", ps_memory_sum (&device->peak), run,
                 NULL);
    meta_expect (property, "memory curve and peak", most, "<=", device->peak_bytes, run, NULL);
  }
}

static void figures_of_row (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) run = run_anything (property, &draw);

  if (run == NULL)
    return;
  row_of_devices (property, run);
  row_of_timeline (property, run);
}

static void memory_of_row (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) run = run_anything (property, &draw);

  if (run != NULL)
    row_of_memory (property, run);
}

const MetaRow meta_figures[] = { { "bound-makespan", 1000, bound_below_makespan },
                                 { "bound-iteration", 1000, bound_below_iteration },
                                 { "bound-asynchronous", 300, bound_below_period },
                                 { "bound-memory", 1500, bound_within_memory },
                                 { "figures", 3000, figures_of_row },
                                 { "memory", 2000, memory_of_row },
                                 { 0 } };
