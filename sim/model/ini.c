/* ini.c - strict reading of the small .ini descriptions under data/. */
#include "ini.h"

#include "base/text.h"

#include <pipesim/model.h>

#include <math.h>
#include <string.h>

/* No description comes near this; a file beyond it is something else. */
#define MAX_LENGTH (1 << 16)

struct _PsIni
{
  GKeyFile *file;
  char *where; /* how messages call the description */
  char *name;
  const char *group;
  GError *error; /* the first thing wrong */
};

void
ps_ini_free (PsIni *ini)
{
  if (ini == NULL)
    return;
  g_key_file_free (ini->file);
  g_free (ini->where);
  g_free (ini->name);
  g_clear_error (&ini->error);
  g_free (ini);
}

const char *
ps_ini_name (const PsIni *ini)
{
  return ini->name;
}

gboolean
ps_ini_has (const PsIni *ini, const char *key)
{
  return g_key_file_has_key (ini->file, ini->group, key, NULL);
}

static gboolean
check_group (const char *where, guint number, const char *line, const char *group, GHashTable *seen, GError **error)
{
  g_autofree char *wanted = g_strdup_printf ("[%s]", group);
  g_autofree char *quoted = ps_text_quote (line);

  if (g_strcmp0 (line, wanted) != 0)
    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: unknown group %s; only %s is known", where, number, quoted,
                      wanted);
  if (!g_hash_table_add (seen, g_strdup (wanted)))
    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: group %s appears twice", where, number, wanted);
  return TRUE;
}

static gboolean
refuse_key (const char *where, guint number, const char *quoted, const char *key, const char *const *keys,
            GError **error)
{
  g_autofree char *known = g_strjoinv (" ", (char **)keys);
  g_autofree char *meant = ps_did_you_mean (key, keys, g_strv_length ((char **)keys), "");

  return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: unknown key %s; known are: %s%s", where, number, quoted, known,
                    meant);
}

static gboolean
check_key (const char *where, guint number, const char *line, const char *const *keys, GHashTable *seen, GError **error)
{
  const char *equals = strchr (line, '=');

  if (equals == NULL || equals == line)
    {
      g_autofree char *quoted = ps_text_quote (line);

      return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: %s is neither 'key = value' nor a [group] nor a # comment",
                        where, number, quoted);
    }
  g_autofree char *key = g_strchomp (g_strndup (line, (gsize)(equals - line)));
  g_autofree char *quoted = ps_text_quote (key);
  if (!g_strv_contains (keys, key))
    return refuse_key (where, number, quoted, key, keys, error);
  if (!g_hash_table_add (seen, g_strdup (key)))
    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: key %s appears twice", where, number, quoted);
  return TRUE;
}

/* Refuses lines that GKeyFile would accept or merge without a word. */
static gboolean
check_lines (const char *where, const char *text, const char *group, const char *const *keys, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  gboolean inside = FALSE;

  for (guint i = 0; lines[i] != NULL; i++)
    {
      const char *line = g_strstrip (lines[i]);

      if (*line == '\0' || *line == '#')
        continue;
      if (*line == '[')
        {
          if (!check_group (where, i + 1, line, group, seen, error))
            return FALSE;
          inside = TRUE;
        }
      else if (!inside)
        return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: expected [%s] first", where, i + 1, group);
      else if (!check_key (where, i + 1, line, keys, seen, error))
        return FALSE;
    }
  if (inside)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no [%s] group", where, group);
}

PsIni *
ps_ini_parse (const char *where, const char *text, gsize length, const char *group, const char *const *keys,
              GError **error)
{
  if (!ps_text_check (where, text, length, MAX_LENGTH, error))
    return NULL;
  g_autofree char *terminated = g_strndup (text, length);
  if (!check_lines (where, terminated, group, keys, error))
    return NULL;

  g_autoptr (GError) cause = NULL;
  g_autoptr (PsIni) ini = g_new0 (PsIni, 1);
  ini->file = g_key_file_new ();
  ini->where = g_strdup (where);
  ini->group = group;
  ini->name = g_path_get_basename (where);
  if (g_str_has_suffix (ini->name, ".ini"))
    ini->name[strlen (ini->name) - strlen (".ini")] = '\0';
  if (!g_key_file_load_from_data (ini->file, terminated, length, G_KEY_FILE_NONE, &cause))
    {
      g_autofree char *quoted = ps_text_quote (cause->message);

      return ps_refuse_null (error, PS_ERROR_INPUT, "%s: %s", where, quoted);
    }
  return g_steal_pointer (&ini);
}

gboolean
ps_ini_read (const char *path, const char *folder, char **text, gsize *length, GError **error)
{
  gboolean is_path = strchr (path, '/') != NULL || g_str_has_suffix (path, ".ini");

  if (!is_path && *path != '\0')
    {
      *text = ps_shipped_text (folder, path);
      if (*text != NULL)
        {
          *length = strlen (*text);
          return TRUE;
        }
      is_path = g_file_test (path, G_FILE_TEST_EXISTS);
    }
  if (is_path)
    return ps_read_file (path, text, length, error);
  g_auto (GStrv) names = ps_shipped_names (folder);
  g_autofree char *all = g_strjoinv (" ", names), *quoted = ps_text_quote (path);
  g_autofree char *meant = ps_did_you_mean (path, (const char *const *)names, g_strv_length (names), "");
  return ps_refuse (error, PS_ERROR_INPUT, "%s: neither a file nor one of the %s shipped: %s%s", quoted, folder, all,
                    meant);
}

PsIni *
ps_ini_load (const char *path, const char *folder, const char *group, const char *const *keys, GError **error)
{
  g_autofree char *text = NULL;
  gsize length = 0;

  return ps_ini_read (path, folder, &text, &length, error) ? ps_ini_parse (path, text, length, group, keys, error)
                                                           : NULL;
}

void
ps_ini_fail (PsIni *ini, const char *key, const char *format, ...)
{
  if (ini->error != NULL)
    return;
  va_list arguments;
  va_start (arguments, format);
  g_autofree char *message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  ini->error = g_error_new (PS_ERROR, PS_ERROR_INPUT, "%s: [%s] %s: %s", ini->where, ini->group, key, message);
}

gboolean
ps_ini_finish (PsIni *ini, GError **error)
{
  if (ini->error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&ini->error));
  return FALSE;
}

char *
ps_ini_text (PsIni *ini, const char *key)
{
  if (ini->error != NULL)
    return g_strdup ("");
  g_autofree char *value = g_key_file_get_value (ini->file, ini->group, key, NULL);
  if (value == NULL)
    ps_ini_fail (ini, key, "missing");
  else if (*g_strstrip (value) == '\0')
    ps_ini_fail (ini, key, "has no value");
  return value != NULL ? g_steal_pointer (&value) : g_strdup ("");
}

static char *
key_place (const PsIni *ini, const char *key)
{
  return g_strdup_printf ("%s: [%s] %s", ini->where, ini->group, key);
}

gint64
ps_ini_integer (PsIni *ini, const char *key, gint64 low, gint64 high)
{
  g_autofree char *text = ps_ini_text (ini, key);
  g_autofree char *place = key_place (ini, key);
  gint64 value = low;

  if (ini->error == NULL && !ps_parse_integer (place, text, low, high, &value, &ini->error))
    ps_text_blame_input (&ini->error);
  return value;
}

static gint64
read_quantity (PsIni *ini, const char *key,
               gboolean (*parse) (const char *where, const char *text, gint64 *value, GError **error))
{
  g_autofree char *text = ps_ini_text (ini, key);
  g_autofree char *place = key_place (ini, key);
  gint64 value = 0;

  if (ini->error == NULL && !parse (place, text, &value, &ini->error))
    ps_text_blame_input (&ini->error);
  return value;
}

gint64
ps_ini_time (PsIni *ini, const char *key)
{
  return read_quantity (ini, key, ps_parse_time);
}

gint64
ps_ini_size (PsIni *ini, const char *key)
{
  return read_quantity (ini, key, ps_parse_size);
}

double
ps_ini_rate (PsIni *ini, const char *key)
{
  return (double)read_quantity (ini, key, ps_parse_rate);
}

double
ps_ini_real (PsIni *ini, const char *key, double low, double high)
{
  g_autofree char *text = ps_ini_text (ini, key);

  if (ini->error != NULL)
    return low;
  char *end;
  double value = g_ascii_strtod (text, &end);
  if (end != text && *end == '\0' && isfinite (value) && value >= low && value <= high)
    return value;
  g_autofree char *quoted = ps_text_quote (text);
  ps_ini_fail (ini, key, "%s is not a number in %g..%g", quoted, low, high);
  return low;
}

guint
ps_ini_choice (PsIni *ini, const char *key, const char *const *choices)
{
  g_autofree char *text = ps_ini_text (ini, key);
  g_autofree char *place = key_place (ini, key);
  guint index = 0;

  if (ini->error == NULL
      && !ps_parse_name (place, text, choices, g_strv_length ((char **)choices), &index, &ini->error))
    ps_text_blame_input (&ini->error);
  return index;
}
