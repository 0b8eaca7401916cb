/* profile.c - a profile as text: writes it, reads it back, and refuses a text that no calibration could have written.
 */
#include "costdb-private.h"

#include "base/json.h"
#include "base/text.h"

#include <string.h>

#define FORMAT "pipesim-profile/1"

void
ps_profile_contents_free (PsProfileContents *contents)
{
  if (contents == NULL)
    return;
  ps_profile_free (contents->profile);
  g_clear_pointer (&contents->measurements, g_ptr_array_unref);
  g_clear_pointer (&contents->sentinels, g_ptr_array_unref);
  g_free (contents);
}

PsProfileContents *
ps_profile_contents_load (PsCostDb *db, const char *name, gboolean with_samples, GError **error)
{
  g_autoptr (PsProfileContents) contents = g_new0 (PsProfileContents, 1);

  contents->profile = ps_costdb_profile (db, name, error);
  if (contents->profile != NULL)
    contents->measurements = ps_costdb_measurements (db, contents->profile->name, with_samples, error);
  if (contents->measurements != NULL)
    contents->sentinels = ps_costdb_sentinels (db, contents->profile->name, error);
  return contents->sentinels != NULL ? g_steal_pointer (&contents) : NULL;
}

/* Writing */

/* Puts the separator before every member but the first. */
static void
append_key (GString *text, const char *separator, const char *key)
{
  g_string_append_printf (text, "%s\"%s\": ", text->str[text->len - 1] != '{' ? separator : "", key);
}

static void
append_record (GString *text, const char *separator, const PsStoredField *fields, gconstpointer record)
{
  guint bits = ps_stored_bits (fields, record);

  for (const PsStoredField *field = fields; field->key != NULL; field++)
    {
      g_autofree char *value = ps_stored_text (record, field);
      gboolean is_number = ps_stored_is_number (field);
      gboolean empty
          = value == NULL || (field->type != PS_STORED_THROTTLE && g_str_equal (value, is_number ? "0" : ""));

      if (field->without & bits || (field->optional & bits && empty))
        continue;
      append_key (text, separator, field->key);
      if (is_number)
        g_string_append (text, value);
      else
        ps_json_append_string (text, value);
    }
}

/* The conditions and samples of a measurement. */
static void
append_rest (GString *text, const PsMeasurement *m)
{
  for (guint i = 0; i < PS_N_MOMENTS; i++)
    {
      g_autoptr (GString) members = g_string_new ("{");

      append_record (members, ", ", ps_condition_fields, (const char *)m + ps_moments[i].offset);
      if (members->len == 1)
        continue;
      append_key (text, ", ", ps_moments[i].moment);
      g_string_append_printf (text, "%s}", members->str);
    }
  if (m->n_samples == 0)
    return;
  append_key (text, ", ", "samples_ns");
  for (guint i = 0; i < m->n_samples; i++)
    g_string_append_printf (text, "%c%" G_GINT64_FORMAT, i ? ',' : '[', m->samples_ns[i]);
  g_string_append_c (text, ']');
}

static void
append_array (GString *text, const char *key, const PsStoredField *fields, GPtrArray *records)
{
  append_key (text, ",\n", key);
  g_string_append_c (text, '[');
  for (guint i = 0; i < records->len; i++)
    {
      g_string_append (text, i ? ",\n{" : "\n{");
      append_record (text, ", ", fields, records->pdata[i]);
      if (fields == ps_measurement_fields)
        append_rest (text, records->pdata[i]);
      g_string_append_c (text, '}');
    }
  g_string_append_c (text, ']');
}

char *
ps_profile_contents_to_text (const PsProfileContents *contents)
{
  GString *text = g_string_new ("{\"format\": \"" FORMAT "\"");
  PsProfile profile = *contents->profile;
  g_autofree char *base = g_strndup (profile.name, ps_profile_name_length (profile.name));

  profile.name = base;
  append_record (text, ",\n", ps_profile_fields, &profile);
  append_array (text, "sentinels", ps_sentinel_fields, contents->sentinels);
  append_array (text, "measurements", ps_measurement_fields, contents->measurements);
  g_string_append (text, "}\n");
  return g_string_free (text, FALSE);
}

/* Reading */

typedef struct
{
  const char *where; /* the file */
  const char *begin;
  PsJsonReader reader;
  const char *counted; /* up to here lines have been counted */
  guint line;
  char *place;      /* where and the line: the beginning of messages */
  GHashTable *seen; /* keys of measurements */
} Text;

static void
text_clear (Text *text)
{
  ps_json_reader_clear (&text->reader);
  g_free (text->place);
  g_clear_pointer (&text->seen, g_hash_table_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Text, text_clear)

static const char *const none[] = { NULL };

/* Begins an object with the members of a record, and others (NULL ends them). read_record finds those that are missing.
 * A line number begins the messages of objects without format; lines only go up. */
static gboolean
begin_object (Text *text, PsJsonObject *object, const char *format, const PsStoredField *fields,
              const char *const *required, const char *const *optional, GError **error)
{
  g_autoptr (GPtrArray) keys = g_ptr_array_new ();

  for (; text->counted < text->reader.at && format == NULL; text->counted++)
    text->line += *text->counted == '\n';
  g_free (text->place);
  text->place = format == NULL ? g_strdup_printf ("%s:%u", text->where, text->line) : g_strdup (text->where);
  text->reader.where = text->place;
  for (const PsStoredField *field = fields; field->key != NULL; field++)
    if (field->without != PS_ALL_SUBJECTS)
      g_ptr_array_add (keys, (gpointer)field->key);
  for (; *optional != NULL; optional++)
    g_ptr_array_add (keys, (gpointer)*optional);
  g_ptr_array_add (keys, NULL);
  return ps_json_object_init (object, &text->reader, format, required, (const char *const *)keys->pdata, error);
}

static gboolean
refuse (const PsJsonObject *object, const char *key, const char *problem, GError **error)
{
  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s: %s", object->reader->where, key, problem);
}

static gboolean
read_member (const PsJsonObject *object, const PsStoredField *field, gpointer record, GError **error)
{
  gint64 number, high = field->high > 0 ? field->high : MAX (PS_MAX_TIME_NS, PS_MAX_SIZE_BYTES);
  g_autofree char *text = NULL;

  if (!ps_stored_is_number (field) ? !ps_json_get_text (object, field->key, &text, error)
                                   : !ps_json_get_integer (object, field->key, field->low, high, &number, error))
    return FALSE;
  if (text == NULL)
    text = g_strdup_printf ("%" G_GINT64_FORMAT, number);
  if (*text == '\0' && field->low > 0)
    return refuse (object, field->key, "'' is empty", error);
  return ps_stored_parse (object->reader->where, record, field, g_steal_pointer (&text), error);
}

/* The members of a measurement depend on its subject, which is the first field. */
static gboolean
read_record (const PsJsonObject *object, const PsStoredField *fields, gpointer record, GError **error)
{
  for (const PsStoredField *field = fields; field->key != NULL; field++)
    {
      guint bits = ps_stored_bits (fields, record);
      gboolean has = ps_json_object_has (object, field->key);

      if (has && field->without & bits)
        return refuse (object, field->key, "does not belong to this subject", error);
      if (!has && !((field->without | field->optional) & bits))
        return refuse (object, field->key, "is missing", error);
      if (has && !read_member (object, field, record, error))
        return FALSE;
      if (!has && field->type == PS_STORED_TEXT && !ps_stored_parse ("", record, field, g_strdup (""), error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_conditions (Text *text, const PsJsonObject *object, PsMeasurement *m, GError **error)
{
  for (guint i = 0; i < PS_N_MOMENTS; i++)
    {
      g_auto (PsJsonObject) members = { 0 };

      if (!ps_json_object_has (object, ps_moments[i].moment))
        continue;
      ps_json_object_go (object, ps_moments[i].moment);
      if (!begin_object (text, &members, NULL, ps_condition_fields, none, none, error)
          || !read_record (&members, ps_condition_fields, (char *)m + ps_moments[i].offset, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_samples (const PsJsonObject *object, PsMeasurement *m, GError **error)
{
  if (!ps_json_object_has (object, "samples_ns"))
    return TRUE;
  if (!ps_json_get_array (object, "samples_ns", error))
    return FALSE;
  PsJsonReader *reader = object->reader;
  guint n = ps_json_count_elements (reader);
  if (n != m->time.n)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: samples_ns: %u of them, where n is %u", reader->where, n, m->time.n);
  m->samples_ns = g_new (gint64, n);
  for (; ps_json_next_element (reader); m->n_samples++)
    if (!ps_json_element_integer (reader, "samples_ns", m->n_samples, 0, PS_MAX_TIME_NS, &m->samples_ns[m->n_samples],
                                  error))
      return FALSE;
  return TRUE;
}

static gboolean
check_measurement (Text *text, const PsMeasurement *m, GError **error)
{
  const PsStatistics *time = &m->time;
  char *key = g_strdup_printf ("%d %d %" G_GINT64_FORMAT " %u %u %u %d %s", m->subject, m->kind, m->bytes, m->devices,
                               m->sharing, m->share, m->cache, m->shape);

  if (!g_hash_table_add (text->seen, key))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: the measurement is there twice", text->reader.where);
  if (time->min_ns <= time->q1_ns && time->q1_ns <= time->median_ns && time->median_ns <= time->q3_ns)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: median_ns: min, q1, median and q3 are out of order",
                    text->reader.where);
}

static gboolean
read_array (Text *text, const PsJsonObject *object, const char *key, const PsStoredField *fields, gsize size,
            GPtrArray *into, GError **error)
{
  static const char *const more[] = { "before", "during", "after", "samples_ns", NULL };
  gboolean measured = fields == ps_measurement_fields, ok = TRUE;

  text->reader.where = text->where;
  if (!ps_json_get_array (object, key, error))
    return FALSE;
  text->counted = text->begin;
  text->line = 1;
  while (ok && ps_json_next_element (&text->reader))
    {
      g_auto (PsJsonObject) item = { 0 };
      gpointer record = g_malloc0 (size);
      const char *end;

      g_ptr_array_add (into, record);
      if (!begin_object (text, &item, NULL, fields, none, measured ? more : none, error))
        return FALSE;
      end = text->reader.at;
      ok = read_record (&item, fields, record, error)
           && (!measured
               || (check_measurement (text, record, error) && read_conditions (text, &item, record, error)
                   && read_samples (&item, record, error)));
      text->reader.at = end;
    }
  return ok;
}

/* A model's text says more than its digest, which must follow from it. Without a model all three texts are empty. */
static gboolean
check_model (const char *where, const PsProfile *profile, GError **error)
{
  if (*profile->model_name == '\0' && *profile->model_digest == '\0' && *profile->model_text == '\0')
    return TRUE;
  g_autofree char *place = g_strdup_printf ("%s: model_text", where);
  g_autoptr (PsModel) model = ps_model_parse (place, profile->model_text, strlen (profile->model_text), error);
  g_autofree char *digest = model != NULL ? ps_model_digest (model) : NULL;

  if (digest == NULL || g_str_equal (digest, profile->model_digest))
    return digest != NULL;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: model_digest: is not that of model_text, which is %s", where, digest);
}

/* Equal parts are left out. */
static gboolean
check_shares (const char *where, const PsProfile *profile, GError **error)
{
  g_autofree char *place = g_strdup_printf ("%s: shares", where);
  guint n;

  if (*profile->shares == '\0')
    return TRUE;
  g_autofree guint *shares = ps_shares_parse (place, profile->shares, &n, error);
  g_autofree char *text = shares != NULL ? ps_shares_to_text (shares, n) : NULL;
  if (shares == NULL)
    return ps_text_blame_input (error);
  if (g_str_equal (text, profile->shares))
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: '%s' are %s", place, profile->shares,
                    *text ? "not in lowest terms" : "equal, which no shares at all say");
}

PsProfileContents *
ps_profile_contents_parse (const char *where, const char *text, gsize length, GError **error)
{
  static const char *const arrays[] = { "sentinels", "measurements", NULL };
  g_auto (Text) state
      = { .where = where, .begin = text, .seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL) };
  g_auto (PsJsonObject) object = { 0 };
  g_autoptr (PsProfileContents) contents = g_new0 (PsProfileContents, 1);
  g_autoptr (GBytes) choices = NULL;
  PsProfile *profile = contents->profile = g_new0 (PsProfile, 1);

  contents->measurements = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  contents->sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_sentinel_free);
  if (!ps_json_reader_init (&state.reader, where, text, (gssize)length, error)
      || !begin_object (&state, &object, FORMAT, ps_profile_fields, arrays, none, error)
      || !read_record (&object, ps_profile_fields, profile, error) || !check_shares (where, profile, error)
      || !ps_choices_parse (where, profile->choices, &choices, error) || !check_model (where, profile, error)
      || !read_array (&state, &object, "sentinels", ps_sentinel_fields, sizeof (PsSentinel), contents->sentinels, error)
      || !read_array (&state, &object, "measurements", ps_measurement_fields, sizeof (PsMeasurement),
                      contents->measurements, error))
    return NULL;
  return g_steal_pointer (&contents);
}
