/* ini.c - strict reading of the small .ini descriptions under data/, and finding those that the library holds. */
#include "ini.h"

#include "base/files.h"
#include "base/text.h"

#include <pipesim/model.h>

#include <math.h>
#include <string.h>

/* No description comes near this; a file beyond it is something else. */
#define MAX_LENGTH (1 << 16)

struct _PsIni {
  GHashTable *values; /* by key */
  char *where;        /* how messages call the description */
  const char *group;
  gboolean inside; /* the group has begun */
  GError *error;   /* the first thing wrong */
};

void ps_ini_free (PsIni *ini)
{
  if (ini == NULL)
    return;
  g_hash_table_unref (ini->values);
  g_free (ini->where);
  g_clear_error (&ini->error);
  g_free (ini);
}

static const char *value_of (const PsIni *ini, const char *key)
{
  return g_hash_table_lookup (ini->values, key);
}

gboolean ps_ini_has (const PsIni *ini, const char *key)
{
  return value_of (ini, key) != NULL;
}

void ps_ini_set (PsIni *ini, const char *key, const char *value)
{
  g_hash_table_insert (ini->values, g_strdup (key), g_strdup (value));
}

char *ps_ini_name (PsIni *ini)
{
  char *name;

  if (ps_ini_has (ini, "name"))
    return ps_ini_text (ini, "name");
  name = g_path_get_basename (ini->where);
  if (g_str_has_suffix (name, ".ini"))
    name[strlen (name) - strlen (".ini")] = '\0';
  return name;
}

static gboolean begin_group (PsIni *ini, guint number, const char *line, GError **error)
{
  g_autofree char *wanted = g_strdup_printf ("[%s]", ini->group), *quoted = ps_text_quote (line);

  if (!g_str_equal (line, wanted))
    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: unknown group %s; only %s is known", ini->where, number, quoted,
                      wanted);
  if (ini->inside)
    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: group %s appears twice", ini->where, number, wanted);
  ini->inside = TRUE;
  return TRUE;
}

static gboolean add_key (PsIni *ini, guint number, char *line, const char *const *keys, GError **error)
{
  char *equals = strchr (line, '=');

  if (equals == NULL || equals == line) {
    g_autofree char *quoted = ps_text_quote (line);

    return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: %s is neither 'key = value' nor a [group] nor a # comment",
                      ini->where, number, quoted);
  }
  *equals = '\0';
  const char *key = g_strchomp (line);
  g_autofree char *quoted = ps_text_quote (key);
  if (!g_strv_contains (keys, key)) {
    g_autofree char *problem = g_strdup_printf ("%s:%u: unknown key %s; known are:", ini->where, number, quoted);

    ps_refuse_name (error, problem, key, keys, g_strv_length ((char **)keys));
    return ps_text_blame_input (error);
  }
  return g_hash_table_insert (ini->values, g_strdup (key), g_strdup (g_strchug (equals + 1)))
         || ps_refuse (error, PS_ERROR_INPUT, "%s:%u: key %s appears twice", ini->where, number, quoted);
}

static gboolean add_lines (PsIni *ini, const char *text, const char *const *keys, GError **error)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (guint i = 0; lines[i] != NULL; i++) {
    char *line = g_strstrip (lines[i]);

    if (*line == '\0' || *line == '#')
      continue;
    if (*line != '[' && !ini->inside)
      return ps_refuse (error, PS_ERROR_INPUT, "%s:%u: expected [%s] first", ini->where, i + 1, ini->group);
    if (*line == '[' ? !begin_group (ini, i + 1, line, error) : !add_key (ini, i + 1, line, keys, error))
      return FALSE;
  }
  return ini->inside || ps_refuse (error, PS_ERROR_INPUT, "%s: holds no [%s] group", ini->where, ini->group);
}

PsIni *ps_ini_parse (const char *where, const char *text, gsize length, const char *group, const PsIniField *fields,
                     guint n, GError **error)
{
  g_autofree const char **keys = g_new0 (const char *, n + 2);
  g_autoptr (PsIni) ini = g_new0 (PsIni, 1);

  ini->values = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  ini->where = g_strdup (where);
  ini->group = group;
  if (!ps_text_check (where, text, length, MAX_LENGTH, error))
    return NULL;
  keys[0] = "name";
  for (guint i = 0; i < n; i++)
    keys[i + 1] = fields[i].key;
  g_autofree char *terminated = g_strndup (text, length);
  return add_lines (ini, terminated, keys, error) ? g_steal_pointer (&ini) : NULL;
}

gboolean ps_ini_read (const char *path, const char *folder, char **text, gsize *length, GError **error)
{
  gboolean is_path = strchr (path, '/') != NULL || g_str_has_suffix (path, ".ini");

  if (!is_path && *path != '\0') {
    *text = ps_shipped_text (folder, path);
    if (*text != NULL) {
      *length = strlen (*text);
      return TRUE;
    }
    is_path = g_file_test (path, G_FILE_TEST_EXISTS);
  }
  if (is_path)
    return ps_read_file (path, text, length, error);
  g_auto (GStrv) names = ps_shipped_names (folder);
  g_autofree char *quoted = ps_text_quote (path);
  g_autofree char *problem
      = g_strdup_printf ("%s: neither a file nor one of the %s shipped; there are", quoted, folder);
  ps_refuse_name (error, problem, path, (const char *const *)names, g_strv_length (names));
  return ps_text_blame_input (error);
}

void ps_ini_fail (PsIni *ini, const char *key, const char *format, ...)
{
  if (ini->error != NULL)
    return;
  va_list arguments;
  va_start (arguments, format);
  g_autofree char *message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  ini->error = g_error_new (PS_ERROR, PS_ERROR_INPUT, "%s: [%s] %s: %s", ini->where, ini->group, key, message);
}

gboolean ps_ini_finish (PsIni *ini, GError **error)
{
  if (ini->error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&ini->error));
  return FALSE;
}

char *ps_ini_text (PsIni *ini, const char *key)
{
  const char *value = value_of (ini, key);

  if (value == NULL)
    ps_ini_fail (ini, key, "missing");
  else if (*value == '\0')
    ps_ini_fail (ini, key, "has no value");
  return g_strdup (ini->error == NULL ? value : "");
}

guint ps_ini_choice (PsIni *ini, const char *key, const char *const *choices)
{
  g_autofree char *text = ps_ini_text (ini, key);
  g_autofree char *place = g_strdup_printf ("%s: [%s] %s", ini->where, ini->group, key);
  guint index = 0;

  if (ini->error == NULL
      && !ps_parse_name (place, text, choices, g_strv_length ((char **)choices), &index, &ini->error))
    ps_text_blame_input (&ini->error);
  return index;
}

/* Times, sizes and rates are integers. */
static gint64 read_integer (PsIni *ini, const PsIniField *field)
{
  g_autofree char *text = ps_ini_text (ini, field->key);
  g_autofree char *place = g_strdup_printf ("%s: [%s] %s", ini->where, ini->group, field->key);
  gint64 value = 0;

  if (ini->error == NULL
      && !(field->type == PS_INI_TIME   ? ps_parse_time (place, text, &value, &ini->error)
           : field->type == PS_INI_SIZE ? ps_parse_size (place, text, &value, &ini->error)
           : field->type == PS_INI_RATE
               ? ps_parse_rate (place, text, &value, &ini->error)
               : ps_parse_integer (place, text, (gint64)field->low, (gint64)field->high, &value, &ini->error)))
    ps_text_blame_input (&ini->error);
  return value;
}

static double read_real (PsIni *ini, const PsIniField *field)
{
  g_autofree char *text = ps_ini_text (ini, field->key), *quoted = ps_text_quote (text);
  char *end;
  double value = g_ascii_strtod (text, &end);

  if (end != text && *end == '\0' && isfinite (value) && value >= field->low && value <= field->high)
    return value;
  ps_ini_fail (ini, field->key, "%s is not a number in %g..%g", quoted, field->low, field->high);
  return field->low;
}

void ps_ini_fields (PsIni *ini, const PsIniField *fields, guint n, gpointer base)
{
  for (const PsIniField *field = fields; field < fields + n; field++) {
    gpointer member = G_STRUCT_MEMBER_P (base, field->offset);
    gboolean given = field->presence == PS_INI_REQUIRED || ps_ini_has (ini, field->key);

    switch (field->type) {
    case PS_INI_COUNT:
      *(guint *)member = (guint)(given ? read_integer (ini, field) : (gint64)field->fallback);
      break;
    case PS_INI_CHOICE:
      *(guint *)member = given ? ps_ini_choice (ini, field->key, field->choices) : (guint)field->fallback;
      break;
    case PS_INI_REAL:
      *(double *)member = given ? read_real (ini, field) : field->fallback;
      break;
    case PS_INI_RATE:
      *(double *)member = given ? (double)read_integer (ini, field) : field->fallback;
      break;
    case PS_INI_TIME:
    case PS_INI_SIZE:
      *(gint64 *)member = given ? read_integer (ini, field) : (gint64)field->fallback;
      break;
    case PS_INI_TEXT:
      *(char **)member = given ? ps_ini_text (ini, field->key) : NULL;
      break;
    case PS_INI_OTHER:
      break;
    }
  }
}

/* What ships. */

static int compare_names (const void *a, const void *b)
{
  return g_strcmp0 (*(const char *const *)a, *(const char *const *)b);
}

char **ps_shipped_names (const char *folder)
{
  g_autofree char *prefix = g_strconcat (folder, "/", NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();

  for (const PsDataFile *file = ps_data_files; file->name != NULL; file++)
    if (g_str_has_prefix (file->name, prefix))
      g_ptr_array_add (
          names, g_strndup (file->name + strlen (prefix), strlen (file->name) - strlen (prefix) - strlen (".ini")));
  g_assert (names->len > 0);
  g_ptr_array_sort (names, compare_names);
  g_ptr_array_add (names, NULL);
  return (char **)g_ptr_array_free (g_steal_pointer (&names), FALSE);
}

char *ps_shipped_text (const char *folder, const char *name)
{
  g_autofree char *path = g_strdup_printf ("%s/%s.ini", folder, name);

  return g_strdup (ps_data_file_text (ps_data_files, path));
}

char *ps_shipped_about (const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  GString *about = g_string_new (NULL);

  for (guint i = 0; lines[i] != NULL && lines[i][0] == '#'; i++)
    g_string_append_printf (about, "%s%s", i > 0 ? " " : "", g_strstrip (lines[i] + 1));
  return g_string_free (about, FALSE);
}
