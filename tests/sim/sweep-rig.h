/* sweep-rig.h - sweeps from text, and their predictions held against those of one setting at a time. */
#pragma once

#include "cases.h"
#include "error-rig.h"
#include "plan/sweep-private.h"

#include <pipesim/simulate.h>

#include <string.h>

static inline PsSweep *
parse (const char *text)
{
  return fine (ps_sweep_parse ("s.ini", text, strlen (text), &error));
}

/* The command line of a point, read as pipesim predict reads it. */
static inline PsSetting *
setting_of (const PsSweep *sweep, const PsSweepPoint *point, GError **error)
{
  PsSetting *setting = ps_setting_new ();
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  g_strv_builder_add (builder, "predict");
  for (guint i = 0; i < sweep->axes->len; i++)
    {
      const PsOption *field = g_array_index (sweep->axes, PsSweepAxis, i).field;
      const char *value = point->values[i]->text;
      g_autofree char *argument = field->type == PS_OPTION_FLAG ? g_strdup_printf ("--%s", field->name)
                                                                : g_strdup_printf ("--%s=%s", field->name, value);

      if (!field->hidden && g_strcmp0 (value, field->none) != 0 && !g_str_equal (value, "no"))
        g_strv_builder_add (builder, argument);
    }
  g_auto (GStrv) arguments = g_strv_builder_end (builder);
  ps_options_add (ps_setting_options, setting, context);
  g_assert_true (g_option_context_parse_strv (context, &arguments, NULL));
  if (ps_setting_check (setting, error))
    return setting;
  ps_setting_free (setting);
  return NULL;
}

static inline const PsValue *
value (const PsResult *result, const char *column)
{
  return &result->values[ps_result_column_find (column)];
}

/* The peaks of `predict`, of `--memory` and of the timeline that is written are the same. */
static inline void
check_peaks (const PsPrediction *prediction)
{
  const PsMetrics *metrics = &prediction->metrics;
  g_autoptr (PsMemory) memory = ps_memory_new (prediction->program, prediction->costs, prediction->simulation);
  g_autoptr (PsTimeline) timeline = ps_prediction_timeline (prediction);
  g_autofree char *json = ps_timeline_to_json (timeline);
  g_autoptr (PsTimeline) again = ps_timeline_parse_json ("t.json", json, -1, NULL);
  g_auto (PsMetrics) written = { 0 };

  ps_metrics_from_timeline (again, &written);
  for (guint d = 0; d < metrics->n_devices; d++)
    {
      g_assert_cmpint (memory->device[d].peak_bytes, ==, metrics->device[d].peak_memory_bytes);
      g_assert_cmpint (written.device[d].peak_memory_bytes, ==, metrics->device[d].peak_memory_bytes);
    }
}

static inline void
check_figures (const PsResult *result, const PsPrediction *prediction)
{
  const PsMetrics *metrics = &prediction->metrics;

  g_assert_cmpint (value (result, "makespan_ns")->integer, ==, metrics->makespan_ns);
  g_assert_cmpint (value (result, "max_span_ns")->integer, ==, metrics->max_span_ns);
  g_assert_cmpint (value (result, "iteration_ns")->integer, ==, metrics->iteration_ns);
  g_assert_cmpfloat (value (result, "bubble_ratio")->real, ==, metrics->bubble_ratio);
  g_assert_cmpint (value (result, "lower_bound_ns")->integer, ==, prediction->lower_bound_ns);
  g_assert_cmpint (value (result, "peak_memory_bytes")->integer, ==, metrics->peak_memory_bytes);
  g_assert_cmpint (value (result, "feasible")->integer, ==, prediction->feasible);
  g_assert_cmpint (value (result, "period_iterations")->integer, ==, prediction->iteration.n_iterations);
  g_assert_cmpfloat (value (result, "bubble_ratio_span")->real, ==, metrics->bubble_ratio_span);
  g_assert_cmpint (value (result, "asynchronous")->integer, ==, prediction->program->schedule->asynchronous);
  g_assert_cmpfloat (value (result, "unrest")->real, ==, prediction->costs->unrest);
  g_assert_cmpstr (value (result, "origin")->text, ==, "simulated");
  g_assert_cmpstr (value (result, "costs_origin")->text, ==, ps_origin_name (prediction->costs->time_origin));
  g_assert_cmpstr (value (result, "transfers_origin")->text, ==, ps_origin_name (prediction->costs->transfer_origin));
  g_assert_cmpstr (value (result, "memory_origin")->text, ==, ps_origin_name (prediction->costs->memory_origin));
}

/* "[[busy, span, peak, activations],[..]]": a list of each device's figures. */
static inline void
check_detail (const PsResult *result, const PsMetrics *metrics)
{
  g_autoptr (GString) text = g_string_new ("[");

  for (guint d = 0; d < metrics->n_devices; d++)
    g_string_append_printf (text, "%s[%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%u]",
                            d > 0 ? "," : "", metrics->device[d].busy_ns, metrics->device[d].span_ns,
                            metrics->device[d].peak_memory_bytes, metrics->device[d].peak_activations);
  g_string_append (text, "]");
  g_assert_cmpstr (value (result, "devices_detail")->text, ==, text->str);
}

/* Columns of the setting that a prediction knows better, and those that any setting has. */
static inline void
check_columns (const PsResult *result, const PsSetting *setting, const PsPrediction *prediction)
{
  static const char *const found[] = { "schedule",  "devices",        "microbatches",    "chunks", "slices",
                                       "placement", "global_batch",   "microbatch_size", "layout", "comm_order",
                                       "precision", "link_bandwidth", "link_latency_ns", NULL };
  const PsSchedule *schedule = prediction->program->schedule;
  g_autofree char *layout = ps_prediction_layout (prediction);
  gint64 size
      = value (result, "microbatch_size")->type == PS_VALUE_NONE ? 0 : value (result, "microbatch_size")->integer;

  if (setting->microbatch_size > 0)
    g_assert_cmpint (size, ==, setting->microbatch_size);
  if (layout == NULL)
    g_assert_cmpint (value (result, "layout")->type, ==, PS_VALUE_NONE);
  else
    g_assert_cmpstr (value (result, "layout")->text, ==, layout);
  g_assert_cmpint (value (result, "chunks")->integer, ==, ps_placement_max_chunks (schedule->placement));
  g_assert_cmpint (value (result, "slices")->integer, ==, schedule->n_slices);
  g_assert_cmpstr (value (result, "placement")->text, ==, ps_placement_name (schedule->placement->kind));
  g_assert_cmpint (value (result, "global_batch")->integer, ==,
                   (gint64)schedule->n_microbatches * MAX (size, 1) * setting->n_replicas);
  for (guint i = 0; i < ps_setting_n_options; i++)
    {
      const char *key = ps_setting_options[i].sweep->column.key;

      if (g_strv_contains (found, key) || g_str_has_prefix (key, "cost_"))
        continue;
      const PsValue wanted = ps_setting_column (&ps_setting_options[i], setting), *has = value (result, key);
      if (wanted.type != PS_VALUE_NONE && has->type != wanted.type)
        g_error ("%s: type %d", key, has->type);
      if (wanted.type == PS_VALUE_TEXT)
        g_assert_cmpstr (has->text, ==, wanted.text);
      else if (wanted.type == PS_VALUE_REAL)
        g_assert_cmpfloat (has->real, ==, wanted.real);
      else if (wanted.type == PS_VALUE_INTEGER)
        g_assert_cmpint (has->integer, ==, wanted.integer);
    }
}

/* Every point, in the sweep's order and then backwards, so that what is kept from other points is of no concern. An odd
 * stride meets all values of an axis. */
static inline void
check_against_predict (const char *text, guint least_predicted, guint least_skipped)
{
  g_autoptr (PsSweep) sweep = parse (text);
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (sweep);
  guint64 n = ps_sweep_n_points (sweep), stride = n / n_cases ((guint)n) | 1;
  guint predicted = 0, skipped = 0;
  PsSweepPoint point;

  ps_sweep_point_init (&point, sweep);
  for (guint64 i = 0; i < 2 * n; i += stride)
    {
      g_autoptr (GError) error = NULL, reason = NULL;
      guint64 index = i < n ? i : 2 * n - 1 - i;
      g_autoptr (PsResult) result = ps_sweep_worker_predict (worker, index, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (result->point, ==, index);
      ps_sweep_point_set (&point, sweep, index);
      g_autoptr (PsSetting) setting = setting_of (sweep, &point, &reason);
      g_autoptr (PsPrediction) prediction = setting != NULL ? ps_predict (setting, point.schedule, &reason) : NULL;
      if (prediction != NULL)
        {
          g_assert_cmpstr (result->reason, ==, NULL);
          check_figures (result, prediction);
          check_detail (result, &prediction->metrics);
          check_columns (result, setting, prediction);
          if (index % 8 == 0)
            check_peaks (prediction);
          g_assert_cmpstr (value (result, "schedule")->text, ==, point.schedule);
          g_assert_cmpint (value (result, "devices")->integer, ==, setting->n_devices);
          g_assert_cmpint (value (result, "microbatches")->integer, ==, setting->n_microbatches);
          predicted++;
        }
      else
        {
          g_assert_cmpstr (result->reason, ==, reason->message);
          skipped++;
        }
    }
  ps_sweep_point_clear (&point);
  g_assert_cmpuint (stride * predicted, >=, 2 * least_predicted);
  g_assert_cmpuint (stride * skipped, >=, 2 * least_skipped);
}

static inline const PsValue *
value_at (PsSweepWorker *worker, guint64 point, const char *column, PsResult **result)
{
  g_clear_pointer (result, ps_result_free);
  *result = ps_sweep_worker_predict (worker, point, NULL);
  g_assert_cmpstr ((*result)->reason, ==, NULL);
  return value (*result, column);
}
