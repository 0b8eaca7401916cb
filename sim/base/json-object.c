/* json-object.c - reading versioned JSON objects strictly. */
#include "json-object.h"

#include "text.h"

#include <string.h>

/* "where: key", or "where: key[i]" for element i. */
static char *
place (const PsJsonReader *reader, const char *key, gint64 i)
{
  return i < 0 ? g_strdup_printf ("%s: %s", reader->where, key)
               : g_strdup_printf ("%s: %s[%" G_GINT64_FORMAT "]", reader->where, key, i);
}

/* For place (): the whole value, not an element of it. */
#define WHOLE (-1)

PsJsonReader *
ps_json_object_go (const PsJsonObject *object, const char *key)
{
  object->reader->at = g_hash_table_lookup (object->places, key);
  return object->reader;
}

static gboolean
check_format (const PsJsonObject *object, const char *format, GError **error)
{
  gsize family = (gsize)(strchr (format, '/') + 1 - format);
  const char *found = "";

  if (!ps_json_object_has (object, "format"))
    return ps_refuse_at (place (object->reader, "format", WHOLE), error, "is missing; %s would be right", format);
  ps_json_read_text (ps_json_object_go (object, "format"), &found);
  if (g_str_equal (found, format))
    return TRUE;
  if (strncmp (found, format, family) == 0)
    return ps_refuse_at (place (object->reader, "format", WHOLE), error,
                         "'%s' is another version; this pipesim reads %s", found, format);
  return ps_refuse_at (place (object->reader, "format", WHOLE), error, "'%s' is not %s", found, format);
}

static gboolean
is_known (const char *key, const char *format, const char *const *required, const char *const *optional)
{
  return (format != NULL && g_str_equal (key, "format")) || g_strv_contains (required, key)
         || (optional != NULL && g_strv_contains (optional, key));
}

gboolean
ps_json_object_init (PsJsonObject *object, PsJsonReader *reader, const char *format, const char *const *required,
                     const char *const *optional, GError **error)
{
  g_autofree char *unknown = NULL, *twice = NULL;
  const char *key;

  *object = (PsJsonObject){ reader, g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL) };
  if (!ps_json_enter_object (reader))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: is no JSON object", reader->where);
  while ((key = ps_json_next_key (reader)) != NULL)
    {
      if (unknown == NULL && !is_known (key, format, required, optional))
        unknown = g_strdup (key);
      if (!g_hash_table_insert (object->places, g_strdup (key), (gpointer)reader->at) && twice == NULL)
        twice = g_strdup (key);
      ps_json_skip_value (reader);
    }
  if (format != NULL && !check_format (object, format, error))
    return FALSE;
  for (guint i = 0; required[i] != NULL; i++)
    if (!ps_json_object_has (object, required[i]))
      return ps_refuse_at (place (reader, required[i], WHOLE), error, "is missing");
  if (unknown != NULL)
    return ps_refuse_at (place (reader, unknown, WHOLE), error, "is no key of %s",
                         format != NULL ? format : "this object");
  return twice == NULL || ps_refuse_at (place (reader, twice, WHOLE), error, "is there twice");
}

void
ps_json_object_clear (PsJsonObject *object)
{
  g_clear_pointer (&object->places, g_hash_table_unref);
}

gboolean
ps_json_object_has (const PsJsonObject *object, const char *key)
{
  return g_hash_table_contains (object->places, key);
}

static gboolean
read_text (PsJsonReader *reader, const char *key, gint64 i, const char **text, GError **error)
{
  return ps_json_read_text (reader, text) || ps_refuse_at (place (reader, key, i), error, "is no text");
}

static gboolean
read_integer (PsJsonReader *reader, const char *key, gint64 i, gint64 low, gint64 high, gint64 *value, GError **error)
{
  if (!ps_json_read_integer (reader, value))
    return ps_refuse_at (place (reader, key, i), error, "is no integer");
  if (*value >= low && *value <= high)
    return TRUE;
  return ps_refuse_at (place (reader, key, i), error,
                       "%" G_GINT64_FORMAT " is not between %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, *value, low,
                       high);
}

static gboolean
enter_array (PsJsonReader *reader, const char *key, gint64 i, GError **error)
{
  return ps_json_enter_array (reader) || ps_refuse_at (place (reader, key, i), error, "is no array");
}

gboolean
ps_json_get_text (const PsJsonObject *object, const char *key, char **text, GError **error)
{
  const char *found;

  if (!read_text (ps_json_object_go (object, key), key, WHOLE, &found, error))
    return FALSE;
  *text = g_strdup (found);
  return TRUE;
}

gboolean
ps_json_get_integer (const PsJsonObject *object, const char *key, gint64 low, gint64 high, gint64 *value,
                     GError **error)
{
  return read_integer (ps_json_object_go (object, key), key, WHOLE, low, high, value, error);
}

gboolean
ps_json_get_boolean (const PsJsonObject *object, const char *key, gboolean *value, GError **error)
{
  PsJsonReader *reader = ps_json_object_go (object, key);

  return ps_json_read_boolean (reader, value)
         || ps_refuse_at (place (reader, key, WHOLE), error, "is neither true nor false");
}

gboolean
ps_json_get_array (const PsJsonObject *object, const char *key, GError **error)
{
  return enter_array (ps_json_object_go (object, key), key, WHOLE, error);
}

gboolean
ps_json_element_text (PsJsonReader *reader, const char *key, guint i, const char **text, GError **error)
{
  return read_text (reader, key, i, text, error);
}

gboolean
ps_json_element_integer (PsJsonReader *reader, const char *key, guint i, gint64 low, gint64 high, gint64 *value,
                         GError **error)
{
  return read_integer (reader, key, i, low, high, value, error);
}

gboolean
ps_json_element_array (PsJsonReader *reader, const char *key, guint i, GError **error)
{
  return enter_array (reader, key, i, error);
}
