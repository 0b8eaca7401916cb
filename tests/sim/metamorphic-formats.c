/* metamorphic-formats.c - what is written and read again is what it was. */
#include "metamorphic.h"

#include <pipesim/observe.h>
#include <pipesim/formats.h>

#include <math.h>
#include <string.h>

static MetaRun *run_from (MetaProperty *property, const PsFormat *format, const char *text, const MetaDraw *draw)
{
  g_autofree char *name = g_strconcat (format->name, g_str_has_prefix (format->name, "torch") ? ".csv" : ".json", NULL);
  g_autofree char *path = meta_write_file (property, name, text);
  MetaDraw file = *draw;

  file.v = file.slices = file.group = 0;
  g_autofree char *line = meta_line (&file, NULL);
  return meta_run (path, line);
}

/* NULL: the format is not read, or cannot hold the schedule. */
static char *write_as (const PsFormat *format, const PsProgram *program)
{
  g_autoptr (GError) error = NULL;
  char *text = NULL;

  if (format->read != NULL)
    text = format->write_program != NULL ? format->write_program (program, &error)
                                         : format->write (program->schedule, &error);
  g_assert_true (error == NULL || g_error_matches (error, PS_ERROR, PS_ERROR_SCHEDULE));
  return text;
}

/* With sends and receives where the format has them. */
static void schedules (MetaProperty *property)
{
  guint n;
  const PsFormat *const *formats = ps_format_table (&n);
  g_auto (MetaDraw) draw = { 0 };

  if (meta_one_in (property, 4))
    meta_draw_schedule (property, &draw);
  else if (!meta_draw_family (property, &draw, meta_any_family) || draw.asynchronous)
    return;
  meta_draw_costs (property, &draw);
  meta_draw_memory (property, &draw);
  meta_draw_options (property, &draw, META_CHANNEL | META_BLOCKING | META_BYPASS);
  g_autoptr (MetaRun) run = meta_run_draw (&draw, NULL);
  if (run->prediction != NULL)
    ps_program_add_streams (run->prediction->program);
  for (guint i = 0; run->prediction != NULL && i < n; i++) {
    g_autofree char *text = write_as (formats[i], run->prediction->program);

    if (text == NULL)
      continue;
    g_autoptr (MetaRun) again = run_from (property, formats[i], text, &draw);
    meta_expect_scaled (property, run, again, 1, 1);
  }
}

/* A torch-comms file holds the order of sends and receives, too. */
static void orders (MetaProperty *property)
{
  const PsFormat *format = ps_format_find ("torch-comms", NULL);
  g_auto (MetaDraw) draw = { 0 };
  g_autoptr (MetaRun) run = NULL, again = NULL;

  if (!meta_draw_family (property, &draw, meta_any_family) || draw.asynchronous)
    return;
  meta_draw_plain (property, &draw);
  meta_draw_options (property, &draw, META_CHANNEL | META_BLOCKING);
  run = meta_run_draw (&draw, "--comm-order planned");
  g_autofree char *text = run->prediction != NULL ? format->write_program (run->prediction->program, NULL) : NULL;
  if (text == NULL)
    return;
  again = run_from (property, format, text, &draw);
  meta_expect_scaled (property, run, again, 1, 1);
}

/* What a run records at its end: each device steps the optimizer of its stages. */
static void append_optimizer (PsTimeline *timeline, const MetaRun *run)
{
  const PsPlacement *placement = run->prediction->program->schedule->placement;
  g_autofree gint64 *now = g_new (gint64, placement->n_devices);

  for (guint d = 0; d < placement->n_devices; d++)
    now[d] = run->prediction->metrics.makespan_ns;
  for (guint i = 0; i < placement->n_copies * placement->n_stages; i++) {
    guint device = placement->device[i], stage = i % placement->n_stages;
    PsSpan span = { .start_ns = now[device],
                    .end_ns = now[device] + ps_costs_op (run->prediction->costs, PS_OP_O, stage)->duration_ns,
                    .op = { .kind = PS_OP_O, .stage = (guint16)stage },
                    .device = (guint16)device,
                    .peer = (guint16)device,
                    .chunk = placement->chunk[i] };

    now[device] = span.end_ns;
    g_array_append_val (timeline->ops, span);
  }
  ps_timeline_sort (timeline);
}

/* The same timeline, as if measured, by way of a text. */
static PsTimeline *measured_from (MetaProperty *property, PsTimeline *timeline, gboolean chrome, const MetaRun *run)
{
  g_autofree char *text = NULL, *path = NULL;
  g_autoptr (GError) error = NULL;

  timeline->origin = PS_ORIGIN_MEASURED;
  text = chrome ? ps_timeline_to_chrome_trace (timeline) : ps_timeline_to_json (timeline);
  timeline->origin = PS_ORIGIN_SIMULATED;
  path = meta_write_file (property, chrome ? "timeline.trace.json" : "timeline.json", text);
  PsTimeline *read = ps_timeline_load (path, &error);
  meta_expect_true (property, error != NULL ? error->message : "timeline is read", read != NULL, run, NULL);
  return read;
}

static gboolean same_spans (const GArray *a, const GArray *b)
{
  gboolean same = a->len == b->len;

  for (guint i = 0; i < a->len && same; i++) {
    const PsSpan *left = &g_array_index (a, PsSpan, i), *right = &g_array_index (b, PsSpan, i);

    same = left->start_ns == right->start_ns && left->end_ns == right->end_ns && left->device == right->device
           && left->peer == right->peer && left->chunk == right->chunk && left->op.kind == right->op.kind
           && left->op.stage == right->op.stage && left->op.microbatch == right->op.microbatch
           && left->op.slice == right->op.slice;
  }
  return same;
}

/* compare sees no difference, nor does anybody else. */
static void expect_same_timeline (MetaProperty *property, const PsTimeline *predicted, const PsTimeline *measured,
                                  const MetaRun *run)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsComparison) comparison = ps_compare (predicted, measured, &error);
  g_auto (PsMetrics) before = { 0 }, after = { 0 };

  ps_metrics_from_timeline (predicted, &before);
  ps_metrics_from_timeline (measured, &after);
  meta_expect (property, "iteration, read again", before.iteration_ns, "==", after.iteration_ns, run, NULL);
  meta_expect (property, "makespan, read again", before.makespan_ns, "==", after.makespan_ns, run, NULL);
  meta_expect (property, "peak memory, read again", before.peak_memory_bytes, "==", after.peak_memory_bytes, run, NULL);
  meta_expect_true (property, "ops, read again", same_spans (predicted->ops, measured->ops), run, NULL);
  meta_expect_true (property, "transfers, read again", same_spans (predicted->transfers, measured->transfers), run,
                    NULL);
  meta_expect_true (property, error != NULL ? error->message : "timelines are compared", comparison != NULL, run, NULL);
  if (comparison == NULL)
    return;
  meta_expect (property, "ops in both", comparison->ops->len, "==", predicted->ops->len, run, NULL);
  meta_expect_true (property, "iteration, compared", comparison->iteration_error == 0, run, NULL);
  meta_expect_true (property, "bubble, compared", fabs (comparison->bubble_difference) < 1e-9, run, NULL);
}

static void timelines (MetaProperty *property)
{
  g_auto (MetaDraw) draw = { 0 };

  if (meta_one_in (property, 4))
    meta_draw_schedule (property, &draw);
  else if (!meta_draw_family (property, &draw, meta_any_family))
    return;
  meta_draw_costs (property, &draw);
  meta_draw_memory (property, &draw);
  meta_draw_messages (property, &draw);
  meta_draw_options (property, &draw, META_CHANNEL | META_BLOCKING | META_BYPASS | META_SLOWDOWN);
  g_autoptr (MetaRun) run = meta_run_draw (&draw, NULL);
  if (run->prediction == NULL)
    return;
  g_autoptr (PsTimeline) timeline = ps_prediction_timeline (run->prediction);
  append_optimizer (timeline, run);
  for (guint chrome = 0; chrome < 2; chrome++) {
    g_autoptr (PsTimeline) measured = measured_from (property, timeline, chrome, run);

    if (measured != NULL)
      expect_same_timeline (property, timeline, measured, run);
  }
}

const MetaRow meta_formats[]
    = { { "formats", 2000, schedules }, { "comm-orders", 300, orders }, { "timelines", 1000, timelines }, { 0 } };
