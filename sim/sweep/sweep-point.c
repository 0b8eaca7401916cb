/* sweep-point.c - one setting of a sweep: from its number to the options, and to its row in the results. */
#include "sweep-private.h"

#include <string.h>

void
ps_sweep_point_init (PsSweepPoint *point, const PsSweep *sweep)
{
  *point = (PsSweepPoint){ .costs = g_string_new (NULL),
                           .digits = g_new0 (guint, sweep->dimensions->len + 1),
                           .values = g_new0 (const PsSweepValue *, sweep->axes->len + 1) };
}

void
ps_sweep_point_clear (PsSweepPoint *point)
{
  g_string_free (point->costs, TRUE);
  g_clear_pointer (&point->digits, g_free);
  g_clear_pointer (&point->values, g_free);
}

static void
copy_parts (const PsField *field, const PsSetting *from, PsSetting *to)
{
  for (guint i = 0; i < G_N_ELEMENTS (field->part); i++)
    memcpy ((char *)to + field->part[i].offset, (const char *)from + field->part[i].offset, field->part[i].size);
}

static void
choose (PsSweepPoint *point, const PsSweep *sweep, guint64 index)
{
  for (guint i = 0; i < sweep->dimensions->len; i++)
    {
      const PsSweepDimension *dimension = &g_array_index (sweep->dimensions, PsSweepDimension, i);

      point->digits[i] = (guint)(index / dimension->stride % dimension->n);
    }
  for (guint i = 0; i < sweep->axes->len; i++)
    {
      const PsSweepAxis *axis = &g_array_index (sweep->axes, PsSweepAxis, i);

      point->values[i] = axis->values->pdata[point->digits[axis->dimension]];
    }
}

static void
add_cost (PsSweepPoint *point, const char *key, const char *text)
{
  if (point->costs->len == 0 && point->setting.costs)
    g_string_append (point->costs, point->setting.costs);
  g_string_append_printf (point->costs, "%s%s=%s", point->costs->len ? "," : "", key, text);
  point->setting.costs = point->costs->str;
}

static void
add_known (const PsSweep *sweep, PsSetting *setting)
{
  if (setting->model)
    setting->known_model = g_hash_table_lookup (sweep->models, setting->model);
  else if (setting->db)
    {
      g_autofree char *key = g_strconcat (setting->db, "\n", setting->profile, NULL);

      setting->known_model = g_hash_table_lookup (sweep->measured, key);
    }
  if (setting->cluster)
    setting->known_cluster = g_hash_table_lookup (sweep->clusters, setting->cluster);
}

/* Keys of costs come behind costs. */
void
ps_sweep_point_set (PsSweepPoint *point, const PsSweep *sweep, guint64 index)
{
  choose (point, sweep, index);
  g_string_truncate (point->costs, 0);
  point->setting = *sweep->defaults;
  point->global_batch = 0;
  for (guint i = 0; i < sweep->axes->len; i++)
    {
      const PsField *field = g_array_index (sweep->axes, PsSweepAxis, i).field;
      const char *key = ps_sweep_field_cost (field);

      copy_parts (field, point->values[i]->setting, &point->setting);
      if (key)
        add_cost (point, key, point->values[i]->text);
      else if (g_str_equal (field->name, "schedule"))
        point->schedule = point->values[i]->text;
      else if (g_str_equal (field->name, "global-batch"))
        point->global_batch = point->values[i]->value.integer;
    }
  add_known (sweep, &point->setting);
}

void
ps_sweep_point_digest (const PsSweep *sweep, guint64 index, char digest[PS_DIGEST_LENGTH + 1])
{
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);
  g_autoptr (GString) text = g_string_sized_new (256);
  PsSweepPoint point;

  ps_sweep_point_init (&point, sweep);
  choose (&point, sweep, index);
  for (guint i = 0; i < sweep->axes->len; i++)
    {
      const PsSweepValue *value = point.values[i];

      g_string_append (text, g_array_index (sweep->axes, PsSweepAxis, i).field->name);
      g_string_append_c (text, '=');
      g_string_append (text, value->text);
      g_string_append_c (text, '\n');
      g_string_append (text, value->content ? value->content : "");
    }
  g_checksum_update (checksum, (const guchar *)text->str, (gssize)text->len);
  g_strlcpy (digest, g_checksum_get_string (checksum), PS_DIGEST_LENGTH + 1);
  ps_sweep_point_clear (&point);
}

guint
ps_sweep_microbatch_size (const PsSetting *setting)
{
  if (setting->microbatch_size)
    return setting->microbatch_size;
  return setting->known_model ? setting->known_model->microbatch_size : 0;
}

/* Rows */

static PsValue
integer (gint64 value)
{
  return (PsValue){ .type = PS_VALUE_INTEGER, .integer = value };
}

static PsValue
real (double value)
{
  return (PsValue){ .type = PS_VALUE_REAL, .real = value };
}

static PsValue
text (const char *value)
{
  return (PsValue){ .type = value ? PS_VALUE_TEXT : PS_VALUE_NONE, .text = value };
}

static void
set (PsValue *values, PsResultField field, PsValue value)
{
  values[field] = value;
}

PsValue *
ps_sweep_default_values (void)
{
  PsValue *values = g_new0 (PsValue, PS_N_STORED);

  set (values, PS_RESULT_BANDWIDTH_FACTOR, real (1));
  set (values, PS_RESULT_LATENCY_FACTOR, real (1));
  set (values, PS_RESULT_RECOMPUTE, text (ps_recompute_name (PS_RECOMPUTE_NONE)));
  set (values, PS_RESULT_OFFLOAD, real (0));
  set (values, PS_RESULT_REPLICAS, integer (1));
  set (values, PS_RESULT_TENSOR, integer (1));
  set (values, PS_RESULT_ZERO, integer (0));
  set (values, PS_RESULT_REDUCE, text (ps_reduce_name (PS_REDUCE_OVERLAPPED)));
  set (values, PS_RESULT_SYNC, text (ps_sync_name (PS_SYNC_GLOBAL)));
  set (values, PS_RESULT_COMM, text (ps_channel_name (PS_CHANNEL_LATENCY)));
  set (values, PS_RESULT_COMM_ORDER, text (ps_comm_order_name (PS_COMM_ASAP)));
  set (values, PS_RESULT_EAGER_BYTES, integer (0));
  set (values, PS_RESULT_BLOCKING, integer (0));
  set (values, PS_RESULT_SHARE_LINKS, integer (0));
  set (values, PS_RESULT_SPEED, text ("1"));
  set (values, PS_RESULT_OVERLAP_SLOWDOWN, real (1));
  set (values, PS_RESULT_READY_ORDER, integer (0));
  set (values, PS_RESULT_ORIGIN, text (ps_origin_name (PS_ORIGIN_SIMULATED)));
  return values;
}

static void
fill_links (const PsSweep *sweep, const PsSetting *setting, PsValue *values)
{
  const PsCluster *cluster = setting->cluster ? g_hash_table_lookup (sweep->clusters, setting->cluster) : NULL;

  if (!cluster)
    return;
  set (values, PS_RESULT_LINK_BANDWIDTH,
       real (cluster->link_bandwidth * (setting->bandwidth_factor > 0 ? setting->bandwidth_factor : 1)));
  set (values, PS_RESULT_LINK_LATENCY_NS,
       integer ((gint64)((double)cluster->link_latency_ns * (setting->latency_factor > 0 ? setting->latency_factor : 1)
                         + 0.5)));
}

static void
fill_setting (const PsSweep *sweep, const PsSweepPoint *point, const PsSchedule *schedule, PsValue *values)
{
  guint size = ps_sweep_microbatch_size (&point->setting);

  if (point->setting.known_model)
    set (values, PS_RESULT_PRECISION, text (ps_precision_name (point->setting.known_model->precision)));
  for (guint i = 0; i < sweep->axes->len; i++)
    {
      int column = g_array_index (sweep->axes, PsSweepAxis, i).column;

      if (column >= 0)
        values[column] = point->values[i]->value;
    }
  if (schedule->posts != NULL)
    set (values, PS_RESULT_COMM_ORDER, text ("file"));
  set (values, PS_RESULT_SCHEDULE, text (point->schedule));
  set (values, PS_RESULT_DEVICES, integer (schedule->placement->n_devices));
  set (values, PS_RESULT_MICROBATCHES, integer (schedule->n_microbatches));
  set (values, PS_RESULT_CHUNKS, integer (ps_placement_max_chunks (schedule->placement)));
  set (values, PS_RESULT_SLICES, integer (schedule->n_slices));
  set (values, PS_RESULT_PLACEMENT, text (ps_placement_name (schedule->placement->kind)));
  set (values, PS_RESULT_MICROBATCH_SIZE, size ? integer (size) : (PsValue){ .type = PS_VALUE_NONE });
  set (values, PS_RESULT_GLOBAL_BATCH,
       integer ((gint64)schedule->n_microbatches * MAX (size, 1) * point->setting.n_replicas));
  fill_links (sweep, &point->setting, values);
}

static char *
detail (const PsMetrics *metrics)
{
  g_autoptr (GString) json = g_string_sized_new (48 * metrics->n_devices + 2);

  for (guint d = 0; d < metrics->n_devices; d++)
    g_string_append_printf (json, "%c[%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%u]",
                            d ? ',' : '[', metrics->device[d].busy_ns, metrics->device[d].span_ns,
                            metrics->device[d].peak_memory_bytes, metrics->device[d].peak_activations);
  g_string_append_c (json, ']');
  return g_string_free (g_steal_pointer (&json), FALSE);
}

static void
fill_figures (const PsPrediction *prediction, const char *devices_detail, PsValue *values)
{
  const PsMetrics *metrics = &prediction->metrics;

  set (values, PS_RESULT_MAKESPAN_NS, integer (metrics->makespan_ns));
  set (values, PS_RESULT_MAX_SPAN_NS, integer (metrics->max_span_ns));
  set (values, PS_RESULT_ITERATION_NS, integer (metrics->iteration_ns));
  set (values, PS_RESULT_BUBBLE_RATIO, real (metrics->bubble_ratio));
  set (values, PS_RESULT_BUBBLE_RATIO_SPAN, real (metrics->bubble_ratio_span));
  set (values, PS_RESULT_LOWER_BOUND_NS, integer (prediction->lower_bound_ns));
  set (values, PS_RESULT_PEAK_MEMORY_BYTES, integer (metrics->peak_memory_bytes));
  set (values, PS_RESULT_FEASIBLE, integer (prediction->feasible));
  set (values, PS_RESULT_ASYNCHRONOUS, integer (prediction->program->schedule->asynchronous));
  set (values, PS_RESULT_PERIOD_ITERATIONS, integer (prediction->iteration.n_iterations));
  set (values, PS_RESULT_DEVICES_DETAIL, text (devices_detail));
  set (values, PS_RESULT_COSTS_ORIGIN, text (ps_origin_name (prediction->costs->time_origin)));
  set (values, PS_RESULT_TRANSFERS_ORIGIN, text (ps_origin_name (prediction->costs->transfer_origin)));
  set (values, PS_RESULT_MEMORY_ORIGIN, text (ps_origin_name (prediction->costs->memory_origin)));
}

void
ps_sweep_fill (const PsSweep *sweep, const PsSweepPoint *point, const PsPrediction *prediction, PsResult *result)
{
  result->values = g_memdup2 (sweep->default_values, PS_N_STORED * sizeof *result->values);
  result->detail = detail (&prediction->metrics);
  fill_setting (sweep, point, prediction->program->schedule, result->values);
  fill_figures (prediction, result->detail, result->values);
}
