/* otel-trace.c - measured timelines from OpenTelemetry spans: JSON objects, one after the other. */
#include "trace-private.h"
#include "base/text.h"

#include <string.h>

#define NO_NUMBER (-1)

/* The attributes of a span or of its resource. */
typedef struct {
  gint64 rank;
  gint64 pipeline_rank;
  gint64 pipeline_size;
} Attributes;

typedef struct {
  GString *name;
  gint64 start_ns;
  gint64 end_ns;
  Attributes own;
} Span;

typedef struct {
  const char *file;
  gint64 file_rank;   /* of spans that do not say their rank */
  Span span;          /* the one being read */
  GHashTable *ranks;  /* rank -> PsRank */
  GHashTable *stages; /* rank -> pipeline rank, if that is stated */
  gint64 pipeline_size;
  PsRangeNaming naming;
} Reader;

static const Attributes no_attributes = { NO_NUMBER, NO_NUMBER, NO_NUMBER };

/* Reading values */

/* Goes into the object or array that comes next; steps over any other value. */
static gboolean enter_object (PsJsonReader *json)
{
  if (ps_json_enter_object (json))
    return TRUE;
  ps_json_skip_value (json);
  return FALSE;
}

static gboolean enter_array (PsJsonReader *json)
{
  if (ps_json_enter_array (json))
    return TRUE;
  ps_json_skip_value (json);
  return FALSE;
}

/* A number, as OTLP writes it ({"intValue": "3"}) or as it is; a text may hold it, too. */
static gint64 read_number (PsJsonReader *json)
{
  const char *text, *key;
  gint64 value = NO_NUMBER;

  if (ps_json_read_integer (json, &value))
    return value;
  if (ps_json_read_text (json, &text))
    return g_ascii_string_to_signed (text, 10, 0, G_MAXINT64, &value, NULL) ? value : NO_NUMBER;
  if (!enter_object (json))
    return NO_NUMBER;
  while ((key = ps_json_next_key (json)) != NULL)
    if (g_str_equal (key, "intValue") || g_str_equal (key, "stringValue"))
      value = read_number (json);
    else
      ps_json_skip_value (json);
  return value;
}

/* Nanoseconds since 1970, or the text of a date: "2026-08-11T12:00:00.000001Z". */
static gint64 read_time (PsJsonReader *json)
{
  const char *text;
  gint64 value;

  if (!ps_json_read_text (json, &text))
    return read_number (json);
  if (g_ascii_string_to_signed (text, 10, 0, G_MAXINT64, &value, NULL))
    return value;
  g_autoptr (GDateTime) date = g_date_time_new_from_iso8601 (text, NULL);
  if (date == NULL || g_date_time_get_year (date) < 1970 || g_date_time_get_year (date) > 2200)
    return NO_NUMBER;
  return (g_date_time_to_unix (date) * 1000000 + g_date_time_get_microsecond (date)) * 1000;
}

/* Megatron's names, and the later ones with "nv." before them. */
static void note_attribute (Attributes *attributes, const char *key, gint64 value)
{
  if (g_str_has_prefix (key, "nv."))
    key += strlen ("nv.");
  if (g_str_equal (key, "dl.rank"))
    attributes->rank = value;
  else if (g_str_equal (key, "dl.pipeline_parallel.rank"))
    attributes->pipeline_rank = value;
  else if (g_str_equal (key, "dl.pipeline_parallel.size"))
    attributes->pipeline_size = value;
}

/* One element of OTLP's array: {"key": ..., "value": ...}. */
static void read_pair (PsJsonReader *json, Attributes *attributes)
{
  g_autofree char *name = NULL;
  const char *key, *text;
  gint64 value = NO_NUMBER;

  if (!enter_object (json))
    return;
  while ((key = ps_json_next_key (json)) != NULL)
    if (g_str_equal (key, "key") && ps_json_read_text (json, &text)) {
      g_free (name);
      name = g_strdup (text);
    } else if (g_str_equal (key, "value"))
      value = read_number (json);
    else
      ps_json_skip_value (json);
  if (name != NULL)
    note_attribute (attributes, name, value);
}

static void read_attributes (PsJsonReader *json, Attributes *attributes)
{
  const char *key;

  if (ps_json_enter_array (json)) {
    while (ps_json_next_element (json))
      read_pair (json, attributes);
    return;
  }
  if (!enter_object (json))
    return;
  while ((key = ps_json_next_key (json)) != NULL) {
    g_autofree char *name = g_strdup (key);

    note_attribute (attributes, name, read_number (json));
  }
}

static void read_resource (PsJsonReader *json, Attributes *attributes)
{
  const char *key;

  if (!enter_object (json))
    return;
  while ((key = ps_json_next_key (json)) != NULL)
    if (g_str_equal (key, "attributes"))
      read_attributes (json, attributes);
    else
      ps_json_skip_value (json);
}

/* Spans */

/* Adds the span that was read; its own attributes go before those of its resource. */
static void add_span (Reader *reader, const Attributes *resource)
{
  const Span *span = &reader->span;
  const Attributes *own = &span->own;
  gint64 number = own->rank >= 0 ? own->rank : resource->rank >= 0 ? resource->rank : reader->file_rank;
  gint64 stage = own->pipeline_rank >= 0 ? own->pipeline_rank : resource->pipeline_rank;
  gboolean mark = ps_range_name_is_mark (span->name->str);
  PsRangeName name;

  if ((!mark && !ps_range_name_parse (span->name->str, &name)) || span->start_ns < 0 || span->end_ns < span->start_ns
      || span->end_ns - span->start_ns > PS_MAX_TIME_NS || number > G_MAXINT32)
    return;
  PsRank *rank = g_hash_table_lookup (reader->ranks, GSIZE_TO_POINTER ((gsize)number));
  if (rank == NULL) {
    rank = ps_rank_new (reader->file);
    rank->number = (guint)number;
    g_hash_table_insert (reader->ranks, GSIZE_TO_POINTER ((gsize)number), rank);
  }
  reader->pipeline_size = MAX (reader->pipeline_size, MAX (own->pipeline_size, resource->pipeline_size));
  if (stage >= 0 && stage < PS_MAX_DEVICES)
    g_hash_table_insert (reader->stages, GSIZE_TO_POINTER ((gsize)number), GSIZE_TO_POINTER ((gsize)stage + 1));
  if (mark)
    ps_rank_add_mark (rank, ps_range_name_is_update (span->name->str), span->start_ns, span->end_ns);
  else {
    ps_rank_add (rank, &name, span->start_ns, span->end_ns);
    reader->naming = MAX (reader->naming, name.naming);
  }
}

/* Reads the members of a span. resource: where a resource of its own goes. */
static void read_span_members (Reader *reader, PsJsonReader *json, Attributes *resource)
{
  Span *span = &reader->span;
  const char *key, *text;

  g_string_truncate (span->name, 0);
  span->start_ns = span->end_ns = NO_NUMBER;
  span->own = no_attributes;
  while ((key = ps_json_next_key (json)) != NULL)
    if (g_str_equal (key, "name") && ps_json_read_text (json, &text))
      g_string_assign (span->name, text);
    else if (g_str_equal (key, "startTimeUnixNano") || g_str_equal (key, "start_time"))
      span->start_ns = read_time (json);
    else if (g_str_equal (key, "endTimeUnixNano") || g_str_equal (key, "end_time"))
      span->end_ns = read_time (json);
    else if (g_str_equal (key, "attributes"))
      read_attributes (json, &span->own);
    else if (g_str_equal (key, "resource"))
      read_resource (json, resource);
    else
      ps_json_skip_value (json);
}

static void read_spans (Reader *reader, PsJsonReader *json, const Attributes *resource)
{
  if (!enter_array (json))
    return;
  while (ps_json_next_element (json)) {
    Attributes own = *resource;

    if (!enter_object (json))
      continue;
    read_span_members (reader, json, &own);
    add_span (reader, &own);
  }
}

/* The scopes of a resource: [{"spans": [...]}]. */
static void read_scopes (Reader *reader, PsJsonReader *json, const Attributes *resource)
{
  const char *key;

  if (!enter_array (json))
    return;
  while (ps_json_next_element (json)) {
    if (!enter_object (json))
      continue;
    while ((key = ps_json_next_key (json)) != NULL)
      if (g_str_equal (key, "spans"))
        read_spans (reader, json, resource);
      else
        ps_json_skip_value (json);
  }
}

/* The spans of one resource, whose attributes may come after them. */
static void read_resource_spans (Reader *reader, PsJsonReader *json)
{
  Attributes resource = no_attributes;
  const char *key, *scopes = NULL, *end;

  while ((key = ps_json_next_key (json)) != NULL) {
    if (g_str_equal (key, "resource")) {
      read_resource (json, &resource);
      continue;
    }
    if (g_str_equal (key, "scopeSpans"))
      scopes = json->at;
    ps_json_skip_value (json);
  }
  end = json->at;
  if (scopes != NULL) {
    json->at = scopes;
    read_scopes (reader, json, &resource);
  }
  json->at = end;
}

/* One value of a file: a batch of spans, one span, or an array of them. */
static void read_value (Reader *reader, PsJsonReader *json)
{
  const char *start = json->at, *key, *batch = NULL, *end;
  Attributes resource = no_attributes;

  if (ps_json_enter_array (json)) {
    while (ps_json_next_element (json))
      read_value (reader, json);
    return;
  }
  if (!enter_object (json))
    return;
  while ((key = ps_json_next_key (json)) != NULL) {
    if (g_str_equal (key, "resourceSpans"))
      batch = json->at;
    ps_json_skip_value (json);
  }
  end = json->at;
  json->at = batch != NULL ? batch : start;
  if (batch == NULL && ps_json_enter_object (json)) {
    read_span_members (reader, json, &resource);
    add_span (reader, &resource);
  } else if (batch != NULL && ps_json_enter_array (json)) {
    while (ps_json_next_element (json))
      if (enter_object (json))
        read_resource_spans (reader, json);
  }
  json->at = end;
}

/* Files */

static gboolean read_file (Reader *reader, const PsTraceFile *file, GError **error)
{
  g_auto (PsJsonStream) stream = { 0 };
  g_auto (PsJsonReader) json = { 0 };
  char next;

  ps_json_stream_init (&stream, file->name, file->text, file->length);
  while (ps_json_stream_peek (&stream, &next, error))
    if (next == ',')
      ps_json_stream_enter (&stream);
    else if (next != '{' && next != '[')
      return ps_json_stream_end (&stream, error);
    else if (!ps_json_stream_value (&stream, &json, error))
      return FALSE;
    else
      read_value (reader, &json);
  return FALSE;
}

gboolean ps_otel_recognise (const char *text, gsize length)
{
  gssize n = (gssize)MIN (length, 1 << 16);

  return g_strstr_len (text, n, "\"resourceSpans\"") != NULL
         || (g_strstr_len (text, n, "\"start_time\"") != NULL && g_strstr_len (text, n, "\"context\"") != NULL);
}

/* Choosing ranks */

static int compare_numbers (gconstpointer a, gconstpointer b)
{
  const PsRank *x = *(PsRank *const *)a, *y = *(PsRank *const *)b;

  return PS_COMPARE (x->number, y->number);
}

/* The first rank of each pipeline stage counts; the others differ in tensor or data parallelism. Without a stated
 * stage, ranks are in Megatron's order, where those of a stage follow each other. */
static GPtrArray *choose_ranks (const Reader *reader)
{
  g_autoptr (GPtrArray) all = g_ptr_array_new ();
  GPtrArray *ranks = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, reader->ranks);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (((const PsRank *)value)->ranges->len > 0)
      g_ptr_array_add (all, value);
  g_ptr_array_sort (all, compare_numbers);
  for (guint i = 0; i < all->len; i++) {
    PsRank *rank = g_ptr_array_index (all, i);
    gsize stage = GPOINTER_TO_SIZE (g_hash_table_lookup (reader->stages, GSIZE_TO_POINTER ((gsize)rank->number)));
    gint64 size = reader->pipeline_size;

    if (stage == 0)
      stage = size > 0 && all->len % size == 0 ? i * (gsize)size / all->len + 1 : i + 1;
    if (stage == ranks->len + 1) {
      rank->number = ranks->len;
      g_ptr_array_add (ranks, rank);
    }
  }
  return ranks;
}

GPtrArray *ps_otel_read (const char *where, const PsTraceFile *files, guint n, GError **error)
{
  g_autoptr (GHashTable) ranks = g_hash_table_new_full (NULL, NULL, NULL, ps_rank_free);
  g_autoptr (GHashTable) stages = g_hash_table_new (NULL, NULL);
  g_autoptr (GString) name = g_string_new (NULL);
  Reader reader = { .ranks = ranks, .stages = stages, .span = { .name = name } };

  for (guint i = 0; i < n; i++) {
    gint64 stated = ps_rank_of_path (files[i].name);

    reader.file = files[i].name;
    reader.file_rank = stated >= 0 ? stated : i;
    if (!read_file (&reader, &files[i], error))
      return NULL;
  }
  g_autoptr (GPtrArray) chosen = choose_ranks (&reader);
  if (chosen->len == 0 || chosen->len > PS_MAX_DEVICES)
    return ps_refuse_null (
        error, PS_ERROR_INPUT,
        "%s: spans of %u ranks have names of a pipeline, such as megatron.microbatch.forward; between 1 and %d "
        "would be right",
        where, chosen->len, PS_MAX_DEVICES);
  return ps_ranks_number (chosen, reader.naming, error)
             ? ps_ranks_to_timelines (where, "OpenTelemetry spans, host time", chosen, error)
             : NULL;
}
