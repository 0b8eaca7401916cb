/* schedule-json.c - the native schedule file. */
#include "base/json.h"
#include <pipesim/schedule.h>

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
    g_string_append_printf (json, "%s%u", i ? ", " : "", bytes != NULL ? bytes[i] : words[i]);
  g_string_append_c (json, ']');
}

static void
append_text (GString *json, const char *key, const char *text)
{
  if (text == NULL)
    return;
  g_string_append_printf (json, ",\n  \"%s\": ", key);
  ps_json_append_string (json, text);
}

static void
append_integer (GString *json, const char *key, guint value)
{
  g_string_append_printf (json, ",\n  \"%s\": %u", key, value);
}

char *
ps_schedule_to_json (const PsSchedule *schedule)
{
  const PsPlacement *placement = schedule->placement;
  GString *json = g_string_new ("{\n  \"format\": \"" FORMAT "\"");

  append_text (json, "name", schedule->name);
  append_text (json, "origin", schedule->origin);
  append_text (json, "family", schedule->family);
  if (schedule->n_chunks)
    append_integer (json, "chunks", schedule->n_chunks);
  if (schedule->group_size)
    append_integer (json, "group", schedule->group_size);
  if (schedule->defer_head)
    append_integer (json, "defer_head", schedule->defer_head);
  append_integer (json, "devices", placement->n_devices);
  append_integer (json, "stages", placement->n_stages);
  append_integer (json, "microbatches", schedule->n_microbatches);
  append_integer (json, "slices", schedule->n_slices);
  append_placement (json, placement);
  if (schedule->copy != NULL)
    append_numbers (json, "copy_of_microbatch", schedule->copy, NULL, schedule->n_microbatches);
  if (schedule->asynchronous)
    g_string_append (json, ",\n  \"asynchronous\": true");
  if (schedule->weight_versions != NULL)
    append_numbers (json, "weight_versions", NULL, schedule->weight_versions, placement->n_devices);
  if (schedule->update_every > 0)
    append_integer (json, "update_every", schedule->update_every);
  g_string_append (json, ",\n  \"order\": [");
  for (guint device = 0; device < placement->n_devices; device++)
    append_device (json, schedule, device);
  g_string_append (json, "\n  ]\n}\n");
  return g_string_free (json, FALSE);
}

/* The counts in the head of a file. */
typedef struct
{
  const PsJsonObject *object;
  PsJsonReader *reader;
  gint64 n_devices;
  gint64 n_stages;
  gint64 n_microbatches;
  gint64 n_slices;
} Head;

static gboolean
read_head (Head *head, GError **error)
{
  return ps_json_get_integer (head->object, "devices", 1, PS_MAX_DEVICES, &head->n_devices, error)
         && ps_json_get_integer (head->object, "stages", 1, PS_MAX_STAGES, &head->n_stages, error)
         && ps_json_get_integer (head->object, "microbatches", 1, PS_MAX_MICROBATCHES, &head->n_microbatches, error)
         && ps_json_get_integer (head->object, "slices", 1, PS_MAX_SLICES, &head->n_slices, error);
}

/* Of the array that was stepped into just now. */
static gboolean
check_length (const Head *head, const char *key, gint64 wanted, GError **error)
{
  guint n = ps_json_count_elements (head->reader);

  if (n == wanted)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s: has %u entries, not %" G_GINT64_FORMAT, head->reader->where, key, n,
                    wanted);
}

/* One weight copy: the device of each stage. */
static gboolean
read_copy (const Head *head, guint copy, guint16 *device, GError **error)
{
  if (!ps_json_element_array (head->reader, "placement", copy, error)
      || !check_length (head, "placement", head->n_stages, error))
    return FALSE;
  for (guint stage = 0; ps_json_next_element (head->reader); stage++)
    {
      gint64 value;

      if (!ps_json_element_integer (head->reader, "placement", stage, 0, head->n_devices - 1, &value, error))
        return FALSE;
      device[stage] = (guint16)value;
    }
  return TRUE;
}

static PsPlacement *
read_placement (const Head *head, GError **error)
{
  if (!ps_json_get_array (head->object, "placement", error))
    return NULL;
  guint n_copies = ps_json_count_elements (head->reader);
  if (n_copies < 1 || n_copies > 2)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: placement: has %u weight copies; 1 or 2 are possible",
                           head->reader->where, n_copies);
  g_autofree guint16 *device = g_new (guint16, n_copies * (gsize)head->n_stages);
  for (guint copy = 0; ps_json_next_element (head->reader); copy++)
    if (!read_copy (head, copy, &device[copy * (gsize)head->n_stages], error))
      return NULL;
  return ps_placement_new_custom ((guint)head->n_devices, (guint)head->n_stages, n_copies, device);
}

/* An optional array of n integers from low to high; *values stays NULL where the file has none. */
static gboolean
read_numbers (const Head *head, const char *key, gint64 n, gint64 low, gint64 high, guint **values, GError **error)
{
  *values = NULL;
  if (!ps_json_object_has (head->object, key))
    return TRUE;
  if (!ps_json_get_array (head->object, key, error) || !check_length (head, key, n, error))
    return FALSE;
  g_autofree guint *read = g_new0 (guint, (gsize)n);
  for (guint i = 0; ps_json_next_element (head->reader); i++)
    {
      gint64 value;

      if (!ps_json_element_integer (head->reader, key, i, low, high, &value, error))
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
read_device (const Head *head, PsScheduleBuilder *builder, guint device, GError **error)
{
  g_autofree char *key = g_strdup_printf ("order[%u]", device);

  if (!ps_json_element_array (head->reader, "order", device, error))
    return FALSE;
  for (guint i = 0; ps_json_next_element (head->reader); i++)
    {
      const char *text;

      if (!ps_json_element_text (head->reader, key, i, &text, error))
        return FALSE;
      if (!add_ops (builder, text))
        return ps_refuse (error, PS_ERROR_INPUT,
                          "%s: %s[%u]: '%s' is no op such as F0.1 (kind, microbatch, dot, stage)", head->reader->where,
                          key, i, text);
    }
  ps_schedule_builder_next_device (builder);
  return TRUE;
}

static gboolean
read_orders (const Head *head, PsScheduleBuilder *builder, GError **error)
{
  if (!ps_json_get_array (head->object, "order", error) || !check_length (head, "order", head->n_devices, error))
    return FALSE;
  for (guint device = 0; ps_json_next_element (head->reader); device++)
    if (!read_device (head, builder, device, error))
      return FALSE;
  return TRUE;
}

static gboolean
read_text (const PsJsonObject *object, const char *key, char **text, GError **error)
{
  return !ps_json_object_has (object, key) || ps_json_get_text (object, key, text, error);
}

static gboolean
read_integer (const PsJsonObject *object, const char *key, gint64 high, guint *value, GError **error)
{
  gint64 read = 0;

  if (ps_json_object_has (object, key) && !ps_json_get_integer (object, key, 1, high, &read, error))
    return FALSE;
  *value = (guint)read;
  return TRUE;
}

static gboolean
read_options (const Head *head, PsSchedule *schedule, GError **error)
{
  const PsJsonObject *object = head->object;
  g_autofree guint *copy = NULL;

  if (!read_text (object, "origin", &schedule->origin, error) || !read_text (object, "family", &schedule->family, error)
      || !read_integer (object, "chunks", PS_MAX_STAGES, &schedule->n_chunks, error)
      || !read_integer (object, "group", PS_MAX_MICROBATCHES, &schedule->group_size, error)
      || !read_integer (object, "defer_head", PS_MAX_MICROBATCHES, &schedule->defer_head, error))
    return FALSE;
  if (ps_json_object_has (object, "asynchronous")
      && !ps_json_get_boolean (object, "asynchronous", &schedule->asynchronous, error))
    return FALSE;
  if (!read_numbers (head, "copy_of_microbatch", head->n_microbatches, 0, schedule->placement->n_copies - 1, &copy,
                     error)
      || !read_numbers (head, "weight_versions", head->n_devices, 1, PS_MAX_STAGES, &schedule->weight_versions, error)
      || !read_integer (object, "update_every", head->n_microbatches, &schedule->update_every, error))
    return FALSE;
  if (copy != NULL)
    schedule->copy = g_new (guint8, (gsize)head->n_microbatches);
  for (guint i = 0; copy != NULL && i < head->n_microbatches; i++)
    schedule->copy[i] = (guint8)copy[i];
  return TRUE;
}

static PsSchedule *
read_schedule (const PsJsonObject *object, GError **error)
{
  g_autofree char *name = NULL;
  Head head = { .object = object, .reader = object->reader };

  if (!ps_json_get_text (object, "name", &name, error) || !read_head (&head, error))
    return NULL;
  PsPlacement *placement = read_placement (&head, error);
  if (placement == NULL)
    return NULL;
  PsScheduleBuilder *builder = ps_schedule_builder_new (name, placement, (guint)head.n_microbatches);
  gboolean complete = read_orders (&head, builder, error);
  g_autoptr (PsSchedule) schedule = ps_schedule_builder_end (builder);
  schedule->n_slices = (guint)head.n_slices;
  return complete && read_options (&head, schedule, error) ? g_steal_pointer (&schedule) : NULL;
}

PsSchedule *
ps_schedule_parse_json (const char *where, const char *text, gssize length, GError **error)
{
  static const char *const required[]
      = { "name", "devices", "stages", "microbatches", "slices", "placement", "order", NULL };
  static const char *const optional[]
      = { "origin",       "family",          "chunks",       "group", "defer_head", "copy_of_microbatch",
          "asynchronous", "weight_versions", "update_every", NULL };
  g_auto (PsJsonReader) reader = { 0 };
  g_auto (PsJsonObject) object = { 0 };

  if (!ps_json_reader_init (&reader, where, text, length, error)
      || !ps_json_object_init (&object, &reader, FORMAT, required, optional, error))
    return NULL;
  return read_schedule (&object, error);
}
