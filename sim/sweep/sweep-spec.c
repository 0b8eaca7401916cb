/* sweep-spec.c - reads the lines of a spec. */
#include "sweep-private.h"

#include "text.h"

#include <string.h>

#define MAX_LENGTH (1 << 20)

typedef struct
{
  PsSweep *sweep;
  GHashTable *seen; /* groups and fields */
  guint line;
  char *zip;     /* the group's name; NULL: [sweep] */
  guint shared;  /* dimension of the zip */
  gboolean open; /* a group has begun */
} Reader;

static char *
place (const Reader *reader)
{
  return g_strdup_printf ("%s:%u", reader->sweep->where, reader->line);
}

static guint
add_dimension (PsSweep *sweep, const char *zip)
{
  PsSweepDimension dimension = { .zip = g_strdup (zip) };

  g_array_append_val (sweep->dimensions, dimension);
  return sweep->dimensions->len - 1;
}

/* "[sweep]" or "[zip sizes]". */
static gboolean
read_group (Reader *reader, const char *line, GError **error)
{
  g_autofree char *quoted = ps_text_quote (line), *name = NULL;
  gsize length = strlen (line);

  if (length < 3 || line[length - 1] != ']')
    return ps_refuse_at (place (reader), error, "%s is no group; [sweep] and [zip NAME] are", quoted);
  name = g_strndup (line + 1, length - 2);
  g_strstrip (name);
  if (!g_hash_table_add (reader->seen, g_strconcat ("[", name, NULL)))
    return ps_refuse_at (place (reader), error, "group %s appears twice", quoted);
  g_clear_pointer (&reader->zip, g_free);
  reader->open = TRUE;
  if (g_str_equal (name, "sweep"))
    return TRUE;
  if (!g_str_has_prefix (name, "zip ") || *g_strstrip (name + strlen ("zip ")) == '\0')
    return ps_refuse_at (place (reader), error, "unknown group %s; [sweep] and [zip NAME] are known", quoted);
  reader->zip = g_strdup (g_strstrip (name + strlen ("zip ")));
  reader->shared = add_dimension (reader->sweep, reader->zip);
  return TRUE;
}

static gboolean
join_dimension (const Reader *reader, const PsSweepAxis *axis, GError **error)
{
  PsSweepDimension *dimension = &g_array_index (reader->sweep->dimensions, PsSweepDimension, axis->dimension);

  if (dimension->n > 0 && dimension->n != axis->values->len)
    return ps_refuse_at (place (reader), error, "%s: has %u values, the other fields of [zip %s] have %u",
                         axis->field->name, axis->values->len, dimension->zip, dimension->n);
  dimension->n = axis->values->len;
  dimension->keys |= axis->field->sweep->keys;
  return TRUE;
}

static gboolean
read_values (const Reader *reader, const PsOption *field, const char *text, PsSweepAxis *axis, GError **error)
{
  g_autofree char *at = place (reader), *where = g_strdup_printf ("%s: %s", at, field->name);
  g_autoptr (GPtrArray) texts = ps_sweep_expand (where, field, text, error);

  axis->values = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_sweep_value_free);
  for (guint i = 0; texts != NULL && i < texts->len; i++)
    {
      PsSweepValue *value = ps_sweep_value_new (at, field, texts->pdata[i], error);

      if (value == NULL)
        return FALSE;
      g_ptr_array_add (axis->values, value);
    }
  return texts != NULL;
}

static gboolean
read_field (Reader *reader, const char *name, const char *text, GError **error)
{
  const PsOption *field = ps_sweep_field_find (name);
  g_autofree char *quoted = ps_text_quote (name), *names = NULL, *meant = NULL;
  g_auto (GStrv) all = NULL;
  PsSweepAxis axis = { .field = field };
  gboolean read;

  if (field == NULL)
    {
      names = ps_sweep_field_names ();
      all = g_strsplit (names, " ", -1);
      meant = ps_did_you_mean (name, (const char *const *)all, g_strv_length (all), "");
      return ps_refuse_at (place (reader), error, "unknown field %s; known are: %s%s", quoted, names, meant);
    }
  if (!g_hash_table_add (reader->seen, g_strdup (field->name)))
    return ps_refuse_at (place (reader), error, "field %s appears twice", quoted);
  read = read_values (reader, field, text, &axis, error);
  axis.dimension = read && reader->zip == NULL ? add_dimension (reader->sweep, NULL) : reader->shared;
  g_array_append_val (reader->sweep->axes, axis);
  return read && join_dimension (reader, &axis, error);
}

/* A # begins a comment at the start of a line or after white space. */
static void
cut_comment (char *line)
{
  for (char *c = line; *c; c++)
    if (*c == '#' && (c == line || g_ascii_isspace (c[-1])))
      {
        *c = '\0';
        break;
      }
  g_strchomp (line);
}

static gboolean
read_line (Reader *reader, char *line, GError **error)
{
  char *equals;
  g_autofree char *quoted = NULL;

  cut_comment (line);
  equals = strchr (line, '=');
  quoted = ps_text_quote (line);
  if (*line == '\0')
    return TRUE;
  if (*line == '[')
    return read_group (reader, line, error);
  if (!reader->open)
    return ps_refuse_at (place (reader), error, "expected [sweep] or [zip NAME] first");
  if (equals == NULL || equals == line)
    return ps_refuse_at (place (reader), error, "%s is neither 'field = values' nor a [group] nor a # comment", quoted);
  *equals = '\0';
  return read_field (reader, g_strchomp (line), g_strchug (equals + 1), error);
}

static gboolean
read_lines (PsSweep *sweep, const char *text, gsize length, GError **error)
{
  g_autofree char *terminated = g_strndup (text, length);
  g_auto (GStrv) lines = g_strsplit (terminated, "\n", -1);
  Reader reader = { .sweep = sweep, .seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL) };
  gboolean ok = TRUE;

  for (; ok && lines[reader.line] != NULL;)
    {
      char *line = g_strstrip (lines[reader.line++]);

      ok = read_line (&reader, line, error);
    }
  g_hash_table_unref (reader.seen);
  g_free (reader.zip);
  return ok;
}

static gboolean
has_key (const char *costs, const char *key)
{
  g_auto (GStrv) entries = g_strsplit (costs, ",", -1);
  gsize length = strlen (key);

  for (guint i = 0; entries[i] != NULL; i++)
    if (strncmp (entries[i], key, length) == 0 && entries[i][length] == '=')
      return TRUE;
  return FALSE;
}

/* A key that has a field of its own stands nowhere else. */
static gboolean
check_key (const PsSweep *sweep, const PsOption *field, const char *key, GError **error)
{
  const PsSweepAxis *costs = ps_sweep_axis (sweep, "costs");

  for (guint i = 0; costs != NULL && i < costs->values->len; i++)
    {
      const char *text = ((PsSweepValue *)costs->values->pdata[i])->text;

      if (!has_key (text, key))
        continue;
      return ps_refuse (error, PS_ERROR_INPUT, "%s: holds %s, and %s= in costs '%s' too; one of them is right",
                        sweep->where, field->name, key, text);
    }
  return TRUE;
}

static gboolean
check_keys (const PsSweep *sweep, gboolean *any, GError **error)
{
  *any = FALSE;
  for (guint i = 0; i < sweep->axes->len; i++)
    {
      const PsOption *field = g_array_index (sweep->axes, PsSweepAxis, i).field;
      const char *key = ps_sweep_field_cost (field);

      *any |= key != NULL;
      if (key != NULL && !check_key (sweep, field, key, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
has_source (const PsSweep *sweep)
{
  for (guint i = 0; i < sweep->axes->len; i++)
    if (ps_source_find (g_array_index (sweep->axes, PsSweepAxis, i).field->name) != NULL)
      return TRUE;
  return FALSE;
}

/* Runs at the end: a field may need others, which may come after it. */
static gboolean
check_fields (const PsSweep *sweep, GError **error)
{
  const char *message = NULL;
  g_autofree char *sources = ps_source_usage (TRUE), *no_costs = g_strdup_printf ("holds no costs; give %s", sources);
  gboolean batch = ps_sweep_axis (sweep, "global-batch") != NULL, keys;

  if (!check_keys (sweep, &keys, error))
    return FALSE;
  if (ps_sweep_axis (sweep, "schedule") == NULL)
    message = "holds no schedule; 'schedule = all' would be right";
  else if (!keys && !has_source (sweep))
    message = no_costs;
  else if (batch && ps_sweep_axis (sweep, "microbatches") != NULL)
    message = "holds both global-batch and microbatches; one follows from the other";
  if (message != NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s", sweep->where, message);
  return message == NULL;
}

PsSweep *
ps_sweep_parse (const char *where, const char *text, gsize length, GError **error)
{
  g_autoptr (PsSweep) sweep = NULL;

  if (!ps_text_check (where, text, length, MAX_LENGTH, error))
    return NULL;
  sweep = ps_sweep_new (where);
  if (!read_lines (sweep, text, length, error) || !check_fields (sweep, error) || !ps_sweep_arrange (sweep, error))
    return NULL;
  return g_steal_pointer (&sweep);
}

PsSweep *
ps_sweep_load (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  return ps_read_file (path, &text, &length, error) ? ps_sweep_parse (path, text, length, error) : NULL;
}
