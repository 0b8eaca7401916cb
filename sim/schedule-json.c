/* schedule-json.c - the native schedule file. */
#include "json-object.h"
#include <pipesim/schedule.h>

#include <string.h>

#define FORMAT "pipesim-schedule/1"

static void
append_placement (GString *json, const PsPlacement *placement)
{
  g_string_append (json, ",\n  \"placement\": [");
  for (guint copy = 0; copy < placement->n_copies; copy++)
    {
      g_string_append (json, copy ? ", [" : "[");
      for (guint stage = 0; stage < placement->n_stages; stage++)
        g_string_append_printf (json, "%s%u", stage ? ", " : "", ps_placement_device (placement, copy, stage));
      g_string_append_c (json, ']');
    }
  g_string_append_c (json, ']');
}

static void
append_device (GString *json, const PsSchedule *schedule, guint device)
{
  char name[48];
  gboolean joined = FALSE;
  g_string_append (json, device ? ",\n    [" : "\n    [");
  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
    {
      const char *separator = i == schedule->first[device] ? "\"" : joined ? "+" : ", \"";
      PsOp op = schedule->ops[i];
      joined = op.paired;
      g_string_append_printf (json, "%s%s%s", separator, ps_op_format (op, name), joined ? "" : "\"");
    }
  g_string_append_c (json, ']');
}

static void
append_numbers (GString *json, const char *key, const guint8 *bytes, const guint *words, guint n)
{
  g_string_append_printf (json, ",\n  \"%s\": [", key);
  for (guint i = 0; i < n; i++)
    g_string_append_printf (json, "%s%u", i ? ", " : "", bytes ? bytes[i] : words[i]);
  g_string_append_c (json, ']');
}

char *
ps_schedule_to_json (const PsSchedule *schedule)
{
  const PsPlacement *placement = schedule->placement;
  GString *json = g_string_new ("{\n  \"format\": \"" FORMAT "\",\n  \"name\": ");
  ps_json_append_string (json, schedule->name);
  g_string_append_printf (json, ",\n  \"devices\": %u,\n  \"stages\": %u,\n  \"microbatches\": %u,\n  \"slices\": %u",
                          placement->n_devices, placement->n_stages, schedule->n_microbatches, schedule->n_slices);
  append_placement (json, placement);
  if (schedule->copy)
    append_numbers (json, "copy_of_microbatch", schedule->copy, NULL, schedule->n_microbatches);
  if (schedule->asynchronous)
    g_string_append (json, ",\n  \"asynchronous\": true");
  if (schedule->weight_versions)
    append_numbers (json, "weight_versions", NULL, schedule->weight_versions, placement->n_devices);
  g_string_append (json, ",\n  \"order\": [");
  for (guint device = 0; device < placement->n_devices; device++)
    append_device (json, schedule, device);
  g_string_append (json, "\n  ]\n}\n");
  return g_string_free (json, FALSE);
}

/* The counts in the head of a file. */
typedef struct
{
  const char *where;
  JsonObject *object;
  const char *name;
  gint64 n_devices;
  gint64 n_stages;
  gint64 n_microbatches;
  gint64 n_slices;
} Head;

static gboolean
read_head (Head *head, GError **error)
{
  return ps_json_get_text (head->where, head->object, "name", &head->name, error)
         && ps_json_get_integer (head->where, head->object, "devices", 1, PS_MAX_DEVICES, &head->n_devices, error)
         && ps_json_get_integer (head->where, head->object, "stages", 1, PS_MAX_STAGES, &head->n_stages, error)
         && ps_json_get_integer (head->where, head->object, "microbatches", 1, PS_MAX_MICROBATCHES,
                                 &head->n_microbatches, error)
         && ps_json_get_integer (head->where, head->object, "slices", 1, PS_MAX_SLICES, &head->n_slices, error);
}

static gboolean
check_length (const Head *head, const char *key, JsonArray *array, gint64 wanted, GError **error)
{
  if (json_array_get_length (array) == wanted)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s: has %u entries, not %" G_GINT64_FORMAT, head->where, key,
               json_array_get_length (array), wanted);
  return FALSE;
}

static PsPlacement *
read_placement (const Head *head, GError **error)
{
  JsonArray *copies = ps_json_get_array (head->where, head->object, "placement", error);
  if (!copies)
    return NULL;
  guint n_copies = json_array_get_length (copies);
  if (n_copies < 1 || n_copies > 2)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: placement: has %u weight copies; 1 or 2 are possible",
                   head->where, n_copies);
      return NULL;
    }
  g_autofree guint16 *device = g_new (guint16, n_copies * (gsize)head->n_stages);
  for (guint copy = 0; copy < n_copies; copy++)
    {
      JsonArray *stages = ps_json_element_array (head->where, "placement", copies, copy, error);
      if (!stages || !check_length (head, "placement", stages, head->n_stages, error))
        return NULL;
      for (guint stage = 0; stage < head->n_stages; stage++)
        {
          gint64 value;
          if (!ps_json_element_integer (head->where, "placement", stages, stage, 0, head->n_devices - 1, &value, error))
            return NULL;
          device[copy * (gsize)head->n_stages + stage] = (guint16)value;
        }
    }
  return ps_placement_new_custom ((guint)head->n_devices, (guint)head->n_stages, n_copies, device);
}

/* An optional array of n integers below limit; *values stays NULL where the file has none. */
static gboolean
read_numbers (const Head *head, const char *key, gint64 n, gint64 low, gint64 high, guint **values, GError **error)
{
  *values = NULL;
  if (!json_object_has_member (head->object, key))
    return TRUE;
  JsonArray *array = ps_json_get_array (head->where, head->object, key, error);
  if (!array || !check_length (head, key, array, n, error))
    return FALSE;
  g_autofree guint *read = g_new (guint, (gsize)n);
  for (guint i = 0; i < n; i++)
    {
      gint64 value;
      if (!ps_json_element_integer (head->where, key, array, i, low, high, &value, error))
        return FALSE;
      read[i] = (guint)value;
    }
  *values = g_steal_pointer (&read);
  return TRUE;
}

static gboolean
add_ops (PsScheduleBuilder *builder, const char *text)
{
  PsOp op;
  const char *end;
  while (ps_op_parse (text, &end, &op))
    {
      op.paired = *end == '+';
      ps_schedule_builder_add_op (builder, op);
      if (!op.paired)
        return *end == '\0';
      text = end + 1;
    }
  return FALSE;
}

static gboolean
read_device (const Head *head, PsScheduleBuilder *builder, JsonArray *orders, guint device, GError **error)
{
  g_autofree char *key = g_strdup_printf ("order[%u]", device);
  JsonArray *order = ps_json_element_array (head->where, "order", orders, device, error);
  if (!order)
    return FALSE;
  for (guint i = 0; i < json_array_get_length (order); i++)
    {
      const char *text;
      if (!ps_json_element_text (head->where, key, order, i, &text, error))
        return FALSE;
      if (!add_ops (builder, text))
        {
          g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
                       "%s: %s[%u]: '%s' is no op such as F0.1 (kind, microbatch, dot, stage)", head->where, key, i,
                       text);
          return FALSE;
        }
    }
  ps_schedule_builder_next_device (builder);
  return TRUE;
}

static gboolean
read_orders (const Head *head, PsScheduleBuilder *builder, GError **error)
{
  JsonArray *orders = ps_json_get_array (head->where, head->object, "order", error);
  if (!orders || !check_length (head, "order", orders, head->n_devices, error))
    return FALSE;
  for (guint device = 0; device < head->n_devices; device++)
    if (!read_device (head, builder, orders, device, error))
      return FALSE;
  return TRUE;
}

static gboolean
read_options (const Head *head, PsSchedule *schedule, GError **error)
{
  g_autofree guint *copy = NULL;
  if (json_object_has_member (head->object, "asynchronous")
      && !ps_json_get_boolean (head->where, head->object, "asynchronous", &schedule->asynchronous, error))
    return FALSE;
  if (!read_numbers (head, "copy_of_microbatch", head->n_microbatches, 0, schedule->placement->n_copies - 1, &copy,
                     error)
      || !read_numbers (head, "weight_versions", head->n_devices, 1, PS_MAX_STAGES, &schedule->weight_versions, error))
    return FALSE;
  if (copy)
    schedule->copy = g_new (guint8, (gsize)head->n_microbatches);
  for (guint i = 0; copy && i < head->n_microbatches; i++)
    schedule->copy[i] = (guint8)copy[i];
  return TRUE;
}

static PsSchedule *
read_schedule (Head *head, GError **error)
{
  PsPlacement *placement = read_head (head, error) ? read_placement (head, error) : NULL;
  if (!placement)
    return NULL;
  PsScheduleBuilder *builder = ps_schedule_builder_new (head->name, placement, (guint)head->n_microbatches);
  gboolean complete = read_orders (head, builder, error);
  g_autoptr (PsSchedule) schedule = ps_schedule_builder_end (builder);
  schedule->n_slices = (guint)head->n_slices;
  return complete && read_options (head, schedule, error) ? g_steal_pointer (&schedule) : NULL;
}

PsSchedule *
ps_schedule_parse_json (const char *where, const char *text, gssize length, GError **error)
{
  static const char *const required[]
      = { "name", "devices", "stages", "microbatches", "slices", "placement", "order", NULL };
  static const char *const optional[] = { "copy_of_microbatch", "asynchronous", "weight_versions", NULL };
  g_autoptr (JsonParser) parser = ps_json_parse (where, text, length, error);
  if (!parser)
    return NULL;
  Head head = { .where = where, .object = json_node_get_object (json_parser_get_root (parser)) };
  if (!ps_json_check_format (where, head.object, FORMAT, required, optional, error))
    return NULL;
  return read_schedule (&head, error);
}

PsSchedule *
ps_schedule_read (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;
  if (!ps_read_file (path, &text, &length, error))
    return NULL;
  return ps_schedule_parse_json (path, text, (gssize)length, error);
}
