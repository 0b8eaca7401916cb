/* sweep-point.c - one setting of a sweep: from its number to the options, and to its row in the results. */
#include "put.h"
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
  if (point->costs->len == 0 && point->setting.costs != NULL)
    g_string_append (point->costs, point->setting.costs);
  g_string_append_printf (point->costs, "%s%s=%s", point->costs->len ? "," : "", key, text);
  point->setting.costs = point->costs->str;
}

static void
add_known (const PsSweep *sweep, PsSetting *setting)
{
  if (setting->model != NULL)
    setting->known_model = g_hash_table_lookup (sweep->models, setting->model);
  else if (setting->db != NULL)
    {
      g_autofree char *key = g_strconcat (setting->db, "\n", setting->profile, NULL);

      setting->known_model = g_hash_table_lookup (sweep->measured, key);
    }
  if (setting->cluster != NULL)
    setting->known_cluster = g_hash_table_lookup (sweep->clusters, setting->cluster);
}

/* Axes of single keys come after the axis of costs, so add_cost finds the whole text. */
void
ps_sweep_point_set (PsSweepPoint *point, const PsSweep *sweep, guint64 index)
{
  choose (point, sweep, index);
  g_string_truncate (point->costs, 0);
  point->setting = *sweep->defaults;
  point->global_batch = 0;
  for (guint i = 0; i < sweep->axes->len; i++)
    {
      const PsOption *field = g_array_index (sweep->axes, PsSweepAxis, i).field;
      const char *key = ps_sweep_field_cost (field);

      if (!(field->flags & PS_FIELD_OWN))
        ps_option_copy (field, point->values[i]->setting, &point->setting);
      else if (key != NULL)
        add_cost (point, key, point->values[i]->text);
      else if (g_str_equal (field->name, "schedule"))
        point->schedule = point->values[i]->text;
      else
        point->global_batch = point->values[i]->own;
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
      g_string_append (text, value->content != NULL ? value->content : "");
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
  return setting->known_model != NULL ? setting->known_model->microbatch_size : 0;
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
  return (PsValue){ .type = value != NULL ? PS_VALUE_TEXT : PS_VALUE_NONE, .text = value };
}

static guint
find (const char *column)
{
  return (guint)ps_result_column_find (column);
}

void
ps_sweep_find_columns (PsSweep *sweep)
{
  sweep->default_values = g_new0 (PsValue, ps_setting_n_options + PS_N_STORED_FIGURES);
  for (guint i = 0; i < ps_setting_n_options; i++)
    sweep->default_values[i] = ps_setting_column (&ps_setting_options[i], sweep->defaults);
  sweep->found = (PsFoundColumns){ .schedule = find ("schedule"),
                                   .devices = find ("devices"),
                                   .microbatches = find ("microbatches"),
                                   .chunks = find ("chunks"),
                                   .slices = find ("slices"),
                                   .microbatch_size = find ("microbatch_size"),
                                   .global_batch = find ("global_batch"),
                                   .precision = find ("precision"),
                                   .link_bandwidth = find ("link_bandwidth"),
                                   .link_latency = find ("link_latency_ns"),
                                   .placement = find ("placement"),
                                   .comm_order = find ("comm_order"),
                                   .layout = find ("layout") };
}

static void
fill_links (const PsSweep *sweep, const PsSetting *setting, PsValue *values)
{
  const PsCluster *cluster = setting->cluster != NULL ? g_hash_table_lookup (sweep->clusters, setting->cluster) : NULL;

  if (cluster == NULL)
    return;
  values[sweep->found.link_bandwidth] = real (cluster->link_bandwidth * setting->bandwidth_factor);
  values[sweep->found.link_latency]
      = integer ((gint64)((double)cluster->link_latency_ns * setting->latency_factor + 0.5));
}

static void
fill_found (const PsSweep *sweep, const PsSweepPoint *point, const PsSchedule *schedule, PsValue *values)
{
  const PsSetting *setting = &point->setting;
  guint size = ps_sweep_microbatch_size (setting);
  const PsFoundColumns *found = &sweep->found;

  values[found->schedule] = text (point->schedule);
  values[found->devices] = integer (schedule->placement->n_devices);
  values[found->microbatches] = integer (schedule->n_microbatches);
  values[found->chunks] = integer (ps_placement_max_chunks (schedule->placement));
  values[found->slices] = integer (schedule->n_slices);
  values[found->placement] = text (ps_placement_name (schedule->placement->kind));
  if (size > 0)
    values[found->microbatch_size] = integer (size);
  values[found->global_batch] = integer ((gint64)schedule->n_microbatches * MAX (size, 1) * setting->n_replicas);
  if (schedule->posts != NULL)
    values[found->comm_order] = text ("file");
}

static void
fill_setting (const PsSweep *sweep, const PsSweepPoint *point, const PsSchedule *schedule, PsValue *values)
{
  if (point->setting.known_model != NULL)
    values[sweep->found.precision] = text (ps_precision_name (point->setting.known_model->precision));
  for (guint i = 0; i < sweep->axes->len; i++)
    values[g_array_index (sweep->axes, PsSweepAxis, i).field - ps_setting_options] = point->values[i]->value;
  fill_found (sweep, point, schedule, values);
  fill_links (sweep, &point->setting, values);
}

/* Four numbers of up to 20 letters, and what stands between them. */
#define MAX_DETAIL 90

/* `room` is memory to use again, or NULL. */
static char *
detail (const PsMetrics *metrics, char *room)
{
  char *json = g_realloc (room, metrics->n_devices * (gsize)MAX_DETAIL + 2), *to = json;

  for (guint d = 0; d < metrics->n_devices; d++)
    {
      to = ps_put_integer (ps_put (to, d ? ",[" : "[["), metrics->device[d].busy_ns);
      to = ps_put_integer (ps_put (to, ","), metrics->device[d].span_ns);
      to = ps_put_integer (ps_put (to, ","), metrics->device[d].peak_memory_bytes);
      to = ps_put (ps_put_integer (ps_put (to, ","), metrics->device[d].peak_activations), "]");
    }
  ps_put (to, "]");
  return json;
}

static void
fill_figures (const PsPrediction *prediction, const char *devices_detail, PsValue *figures)
{
  const PsMetrics *metrics = &prediction->metrics;

  figures[PS_FIGURE_MAKESPAN_NS] = integer (metrics->makespan_ns);
  figures[PS_FIGURE_MAX_SPAN_NS] = integer (metrics->max_span_ns);
  figures[PS_FIGURE_ITERATION_NS] = integer (metrics->iteration_ns);
  figures[PS_FIGURE_BUBBLE_RATIO] = real (metrics->bubble_ratio);
  figures[PS_FIGURE_BUBBLE_RATIO_SPAN] = real (metrics->bubble_ratio_span);
  figures[PS_FIGURE_LOWER_BOUND_NS] = integer (prediction->lower_bound_ns);
  figures[PS_FIGURE_PEAK_MEMORY_BYTES] = integer (metrics->peak_memory_bytes);
  figures[PS_FIGURE_FEASIBLE] = integer (prediction->feasible);
  figures[PS_FIGURE_ASYNCHRONOUS] = integer (prediction->program->schedule->asynchronous);
  figures[PS_FIGURE_PERIOD_ITERATIONS] = integer (prediction->iteration.n_iterations);
  figures[PS_FIGURE_DEVICES_DETAIL] = text (devices_detail);
  figures[PS_FIGURE_ORIGIN] = text (ps_origin_name (PS_ORIGIN_SIMULATED));
  figures[PS_FIGURE_COSTS_ORIGIN] = text (ps_origin_name (prediction->costs->time_origin));
  figures[PS_FIGURE_TRANSFERS_ORIGIN] = text (ps_origin_name (prediction->costs->transfer_origin));
  figures[PS_FIGURE_MEMORY_ORIGIN] = text (ps_origin_name (prediction->costs->memory_origin));
  figures[PS_FIGURE_UNREST] = real (prediction->costs->unrest);
}

void
ps_sweep_fill (const PsSweep *sweep, const PsSweepPoint *point, const PsPrediction *prediction, PsResult *result)
{
  gsize size = (ps_setting_n_options + PS_N_STORED_FIGURES) * sizeof *result->values;

  result->values = g_realloc (result->values, size);
  memcpy (result->values, sweep->default_values, size);
  result->detail = detail (&prediction->metrics, result->detail);
  fill_setting (sweep, point, prediction->program->schedule, result->values);
  result->layout = ps_prediction_layout (prediction);
  result->values[sweep->found.layout] = text (result->layout);
  fill_figures (prediction, result->detail, result->values + ps_setting_n_options);
}
