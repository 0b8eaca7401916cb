/* sweep.c - a spec: its fields and their values, the files that it names, its identity, and the settings that it makes.
 */
#include "sweep-private.h"
#include "base/text.h"

#include <pipesim/costdb.h>

#include <string.h>

#define MAX_LENGTH (1 << 20)

/* Fields and their values */

const PsOption *ps_sweep_field_find (const char *name)
{
  const PsOption *field = ps_setting_options;

  while (field->name != NULL && !g_str_equal (field->name, name) && !ps_column_is_called (&field->sweep->column, name))
    field++;
  return field->name != NULL && !(field->flags & PS_FIELD_DERIVED) ? field : NULL;
}

/* The key of costs that a field stands for; NULL: none. */
static const char *cost_key (const PsOption *field)
{
  return g_str_has_prefix (field->name, "costs.") ? field->name + strlen ("costs.") : NULL;
}

/* Refuses a text of a spec: "x.ini:3: devices: '4..' is no range". */
static gboolean fail (GError **error, const char *where, const char *text, const char *message)
{
  g_autofree char *quoted = ps_text_quote (text);

  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s %s", where, quoted, message);
}

/* Decimal numbers are integers of a millionth, so that steps are exact. */
#define UNIT G_GINT64_CONSTANT (1000000)
#define MAX_WHOLE G_GINT64_CONSTANT (1000000000000)

/* "1.5GiB": the number, and where its unit begins. FALSE: no number, or too large or fine. */
static gboolean read_number (const char *text, gint64 *number, const char **unit)
{
  gint64 digit = UNIT / 10;

  *number = 0;
  if (!g_ascii_isdigit (*text))
    return FALSE;
  for (; g_ascii_isdigit (*text) && *number < MAX_WHOLE * UNIT / 10; text++)
    *number = *number * 10 + (*text - '0') * UNIT;
  if (*text == '.' && g_ascii_isdigit (text[1]))
    for (text++; g_ascii_isdigit (*text) && digit > 0; text++, digit /= 10)
      *number += (*text - '0') * digit;
  *unit = text;
  return !g_ascii_isdigit (*text) && *text != '.';
}

static char *write_number (gint64 number, const char *unit)
{
  g_autofree char *fraction = g_strdup_printf ("%06" G_GINT64_FORMAT, number % UNIT);
  int n = 6;

  while (n > 0 && fraction[n - 1] == '0')
    n--;
  return g_strdup_printf ("%" G_GINT64_FORMAT "%s%.*s%s", number / UNIT, n > 0 ? "." : "", n, fraction, unit);
}

/* The text after the two ends: nothing, "step 4" or "x2". One of step and factor becomes 0. */
static gboolean read_stride (const char *text, const char *unit, gint64 *step, gint64 *factor)
{
  const char *own;

  *step = *text == '\0' ? UNIT : 0;
  *factor = 0;
  if (*text == 'x')
    return read_number (text + 1, factor, &own) && *own == '\0' && *factor > UNIT;
  if (g_str_has_prefix (text, "step "))
    return read_number (text + strlen ("step") + strspn (text + strlen ("step"), " \t"), step, &own) && *step > 0
           && (*own == '\0' || g_str_equal (own, unit));
  return *text == '\0';
}

/* Writes out "4..64GiB x2". The unit follows both ends or only the last. */
static gboolean expand_range (const char *where, const char *text, GPtrArray *texts, GError **error)
{
  g_auto (GStrv) ends = g_strsplit (text, "..", 2);
  const char *low_unit, *high_unit;
  gint64 low, high, step, factor;

  if (!read_number (g_strchomp (ends[0]), &low, &low_unit) || !read_number (g_strchug (ends[1]), &high, &high_unit))
    return fail (error, where, text, "is no range; 4..64, 4..64 step 4 or 4..64 x2 would be right");
  g_autofree char *unit = g_strndup (high_unit, strcspn (high_unit, " \t"));
  const char *stride = high_unit + strlen (unit) + strspn (high_unit + strlen (unit), " \t");
  if (*low_unit && !g_str_equal (low_unit, unit))
    return fail (error, where, text, "has two units; the same after both ends would be right");
  if (low > high)
    return fail (error, where, text, "goes down; the smaller end comes first");
  if (!read_stride (stride, unit, &step, &factor))
    return fail (error, where, text, "ends in neither 'step NUMBER' nor 'xFACTOR' with a factor above 1");
  if (factor > 0 && low == 0)
    return fail (error, where, text, "multiplies 0, which stays 0");
  for (gint64 number = low, next; number <= high; number = next) {
    next = step > 0 ? number + step : (gint64)((double)number / (double)UNIT * (double)factor);
    if (texts->len >= PS_MAX_SWEEP_VALUES || next <= number)
      return fail (error, where, text, "has too many values (more than 100000, or steps below a millionth)");
    g_ptr_array_add (texts, write_number (number, unit));
  }
  return TRUE;
}

/* Writes out `a, 4..64 x2` as single texts; values of a zip may repeat. Errors: PS_ERROR_INPUT "where: ...". */
static GPtrArray *expand (const char *where, const PsOption *field, const char *text, gboolean zipped, GError **error)
{
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  g_auto (GStrv) parts = g_strsplit (text, g_str_equal (field->name, "costs") ? ";" : ",", -1);
  gboolean has_ranges = field->type == PS_OPTION_FACTORS || field->type == PS_OPTION_COUNT
                        || (field->type != PS_OPTION_FLAG && field->sweep->column.type != PS_COLUMN_TEXT);
  gboolean is_schedule = g_str_equal (field->name, "schedule");
  guint n_families;
  const PsFamily *const *families = ps_family_table (&n_families);

  for (guint i = 0; parts[i] != NULL; i++) {
    const char *part = g_strstrip (parts[i]);

    if (*part == '\0')
      return fail (error, where, text, "has an empty value in its list"), NULL;
    if (texts->len >= PS_MAX_SWEEP_VALUES)
      return fail (error, where, text, "has more than 100000 values"), NULL;
    if (is_schedule && g_str_equal (part, "all"))
      for (guint k = 0; k < n_families; k++)
        g_ptr_array_add (texts, g_strdup (families[k]->name));
    else if (is_schedule && ps_family_own_name (part, 0) == ps_family_own_name (part, 1))
      g_ptr_array_add (texts, g_strdup (ps_family_own_name (part, 0)));
    else if (!has_ranges || strstr (part, "..") == NULL) /* also a name whose family depends on chunks */
      g_ptr_array_add (texts, g_strdup (part));
    else if (!expand_range (where, part, texts, error))
      return NULL;
  }
  if (texts->len == 0)
    return fail (error, where, text, "holds no value"), NULL;
  for (guint i = 0; i < texts->len; i++)
    if (!g_hash_table_add (seen, texts->pdata[i]) && !zipped)
      return fail (error, where, texts->pdata[i], "appears twice"), NULL;
  return g_steal_pointer (&texts);
}

static gboolean digest_file (const char *path, char **digest, GError **error)
{
  g_autofree char *contents = NULL;
  gsize length;

  if (!ps_read_file (path, &contents, &length, error))
    return FALSE;
  *digest = g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *)contents, length);
  return TRUE;
}

static gboolean read_schedule (PsSweepValue *value, GError **error)
{
  g_autoptr (PsSetting) setting = ps_setting_new ();
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
  g_autoptr (PsSchedule) schedule = NULL;

  value->value = (PsValue){ .type = PS_VALUE_TEXT, .text = value->text };
  if (ps_family_find (value->text) != NULL)
    return TRUE;
  schedule = ps_predictor_schedule (predictor, value->text, error);
  return schedule != NULL && digest_file (value->text, &value->content, error);
}

/* The value for the results: texts as they are typed, a list of sizes as the smallest. */
static gboolean read_value (const PsOption *field, PsSweepValue *value, GError **error)
{
  gpointer base = field->flags & PS_FIELD_OWN ? (gpointer)&value->own : value->setting;

  if (g_str_equal (field->name, "schedule"))
    return read_schedule (value, error);
  /* A column of numbers has no place for one value per stage. */
  if (cost_key (field) != NULL && strchr (value->text, ':') != NULL)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: '%s' has a value per stage; such lists go into costs, whole",
                      field->name, value->text);
  if (!ps_option_read (field, base, value->text, error))
    return FALSE;
  if (field->sweep->column.type == PS_COLUMN_TEXT)
    value->value = (PsValue){ .type = PS_VALUE_TEXT, .text = value->text };
  else
    value->value = field->flags & PS_FIELD_OWN ? ps_option_value (field, base) : ps_setting_column (field, base);
  return TRUE;
}

PsSweepValue *ps_sweep_value_new (const char *where, const PsOption *field, const char *text, GError **error)
{
  PsSweepValue *value = g_new0 (PsSweepValue, 1);
  g_autoptr (GError) reason = NULL;

  value->text = g_strdup (text);
  value->setting = ps_setting_new ();
  if (read_value (field, value, &reason))
    return value;
  g_set_error (error, PS_ERROR, g_error_matches (reason, PS_ERROR, PS_ERROR_IO) ? PS_ERROR_IO : PS_ERROR_INPUT,
               "%s: %s", where, reason->message);
  ps_sweep_value_free (value);
  return NULL;
}

void ps_sweep_value_free (PsSweepValue *value)
{
  if (value == NULL)
    return;
  g_free (value->text);
  ps_setting_free (value->setting);
  g_free (value->content);
  g_free (value);
}

/* The sweep */

static void axis_clear (gpointer data)
{
  PsSweepAxis *axis = data;

  g_free (axis->zip);
  g_ptr_array_unref (axis->values);
}

static PsSweepAxis *axis_at (const PsSweep *sweep, guint i)
{
  return &g_array_index (sweep->axes, PsSweepAxis, i);
}

const PsSweepAxis *ps_sweep_axis (const PsSweep *sweep, const char *name)
{
  for (guint i = 0; i < sweep->axes->len; i++)
    if (g_str_equal (axis_at (sweep, i)->field->name, name))
      return axis_at (sweep, i);
  return NULL;
}

/* The first field of the zip that a field is in; the field itself where it is in none. */
static guint first_of_zip (const PsSweep *sweep, guint i)
{
  guint first = 0;

  while (first < i
         && (axis_at (sweep, i)->zip == NULL || g_strcmp0 (axis_at (sweep, first)->zip, axis_at (sweep, i)->zip) != 0))
    first++;
  return first;
}

/* No fields yet. Free with ps_sweep_free. */
static PsSweep *sweep_new (const char *where)
{
  PsSweep *sweep = g_new0 (PsSweep, 1);

  sweep->where = g_strdup (where);
  sweep->axes = g_array_new (FALSE, TRUE, sizeof (PsSweepAxis));
  g_array_set_clear_func (sweep->axes, axis_clear);
  sweep->defaults = ps_setting_new ();
  sweep->default_values = g_new0 (PsValue, ps_setting_n_options + PS_N_STORED_FIGURES);
  for (guint i = 0; i < ps_setting_n_options; i++)
    sweep->default_values[i] = ps_setting_column (&ps_setting_options[i], sweep->defaults);
  sweep->clusters = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)ps_cluster_free);
  sweep->models = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)ps_model_free);
  return sweep;
}

void ps_sweep_free (PsSweep *sweep)
{
  if (sweep == NULL)
    return;
  g_free (sweep->where);
  g_array_unref (sweep->axes);
  ps_setting_free (sweep->defaults);
  g_free (sweep->default_values);
  g_hash_table_unref (sweep->clusters);
  g_hash_table_unref (sweep->models);
  g_free (sweep->text);
  g_free (sweep->digest);
  g_free (sweep);
}

guint64 ps_sweep_n_points (const PsSweep *sweep)
{
  return sweep->n_points;
}

/* Lines */

typedef struct {
  PsSweep *sweep;
  GHashTable *seen; /* groups and fields */
  guint line;
  char *zip;     /* the group's name; NULL: [sweep] */
  gboolean open; /* a group has begun */
} Reader;

static char *place (const Reader *reader)
{
  return g_strdup_printf ("%s:%u", reader->sweep->where, reader->line);
}

/* "[sweep]" or "[zip sizes]". */
static gboolean read_group (Reader *reader, const char *line, GError **error)
{
  g_autofree char *quoted = ps_text_quote (line), *name = NULL;
  gsize length = strlen (line);

  if (length < 3 || line[length - 1] != ']')
    return ps_refuse_at (place (reader), error, "%s is no group; [sweep] and [zip NAME] are", quoted);
  name = g_strstrip (g_strndup (line + 1, length - 2));
  if (!g_hash_table_add (reader->seen, g_strconcat ("[", name, NULL)))
    return ps_refuse_at (place (reader), error, "group %s appears twice", quoted);
  g_clear_pointer (&reader->zip, g_free);
  reader->open = TRUE;
  if (g_str_equal (name, "sweep"))
    return TRUE;
  if (!g_str_has_prefix (name, "zip ") || *g_strstrip (name + strlen ("zip ")) == '\0')
    return ps_refuse_at (place (reader), error, "unknown group %s; [sweep] and [zip NAME] are known", quoted);
  reader->zip = g_strdup (name + strlen ("zip "));
  return TRUE;
}

static gboolean read_values (const Reader *reader, const PsOption *field, const char *text, GPtrArray *values,
                             GError **error)
{
  g_autofree char *at = place (reader), *where = g_strdup_printf ("%s: %s", at, field->name);
  g_autoptr (GPtrArray) texts = expand (where, field, text, reader->zip != NULL, error);

  for (guint i = 0; texts != NULL && i < texts->len; i++) {
    PsSweepValue *value = ps_sweep_value_new (at, field, texts->pdata[i], error);

    if (value == NULL)
      return FALSE;
    g_ptr_array_add (values, value);
  }
  return texts != NULL;
}

static gboolean refuse_field (const Reader *reader, const char *name, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autofree char *at = place (reader), *quoted = ps_text_quote (name);
  g_autofree char *problem = g_strdup_printf ("%s: unknown field %s; known are:", at, quoted);

  for (const PsOption *field = ps_setting_options; field->name != NULL; field++)
    if (!(field->flags & PS_FIELD_DERIVED))
      g_ptr_array_add (names, (gpointer)field->name);
  ps_refuse_name (error, problem, name, (const char *const *)names->pdata, names->len);
  return ps_text_blame_input (error);
}

static gboolean read_field (Reader *reader, const char *name, const char *text, GError **error)
{
  PsSweep *sweep = reader->sweep;
  const PsOption *field = ps_sweep_field_find (name);
  g_autofree char *quoted = ps_text_quote (name);
  PsSweepAxis axis = { .field = field };

  if (field == NULL)
    return refuse_field (reader, name, error);
  if (!g_hash_table_add (reader->seen, g_strdup (field->name)))
    return ps_refuse_at (place (reader), error, "field %s appears twice", quoted);
  axis.zip = g_strdup (reader->zip);
  axis.values = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_sweep_value_free);
  g_array_append_val (sweep->axes, axis);
  if (!read_values (reader, field, text, axis.values, error))
    return FALSE;
  const GPtrArray *others = axis_at (sweep, first_of_zip (sweep, sweep->axes->len - 1))->values;
  return others->len == axis.values->len
         || ps_refuse_at (place (reader), error, "%s: has %u values, the other fields of [zip %s] have %u", field->name,
                          axis.values->len, axis.zip, others->len);
}

static gboolean read_line (Reader *reader, char *line, GError **error)
{
  char *equals, *hash = line;

  /* A # begins a comment at the start of a line or after white space. */
  while (*hash && !(*hash == '#' && (hash == line || g_ascii_isspace (hash[-1]))))
    hash++;
  *hash = '\0';
  g_strchomp (line);
  equals = strchr (line, '=');
  g_autofree char *quoted = ps_text_quote (line);
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

static gboolean read_lines (PsSweep *sweep, const char *text, gsize length, GError **error)
{
  g_autofree char *terminated = g_strndup (text, length);
  g_auto (GStrv) lines = g_strsplit (terminated, "\n", -1);
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  Reader reader = { .sweep = sweep, .seen = seen };
  gboolean ok = TRUE;

  while (ok && lines[reader.line] != NULL) {
    char *line = g_strstrip (lines[reader.line++]);

    ok = read_line (&reader, line, error);
  }
  g_free (reader.zip);
  return ok;
}

/* A key that has a field stands nowhere else. */
static gboolean check_key (const PsSweep *sweep, const PsOption *field, GError **error)
{
  const PsSweepAxis *costs = ps_sweep_axis (sweep, "costs");
  g_autofree char *entry = g_strconcat (cost_key (field), "=", NULL);

  for (guint i = 0; costs != NULL && i < costs->values->len; i++) {
    const char *text = ((PsSweepValue *)costs->values->pdata[i])->text;
    g_auto (GStrv) entries = g_strsplit (text, ",", -1);

    for (guint k = 0; entries[k] != NULL; k++)
      if (g_str_has_prefix (entries[k], entry))
        return ps_refuse (error, PS_ERROR_INPUT, "%s: holds %s, and %s in costs '%s' too; give one of them",
                          sweep->where, field->name, entry, text);
  }
  return TRUE;
}

/* Values of one field of a zip may repeat, those of all of them together may not. */
static gboolean check_zip (const PsSweep *sweep, guint first, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  const PsSweepAxis *axis = axis_at (sweep, first);

  for (guint i = 0; axis->zip != NULL && i < axis->values->len; i++) {
    g_autoptr (GString) texts = g_string_new (NULL);

    for (guint k = first; k < sweep->axes->len; k++)
      if (first_of_zip (sweep, k) == first)
        g_string_append_printf (texts, "%s\n", ((PsSweepValue *)axis_at (sweep, k)->values->pdata[i])->text);
    if (!g_hash_table_add (seen, g_strdup (texts->str)))
      return ps_refuse (error, PS_ERROR_INPUT, "%s: [zip %s]: value %u of its fields is that of an earlier one",
                        sweep->where, axis->zip, i + 1);
  }
  return TRUE;
}

/* Runs at the end: a field may need others, which may come after it. */
static gboolean check_fields (const PsSweep *sweep, GError **error)
{
  g_autofree char *sources = ps_source_usage (TRUE);
  gboolean has_costs = FALSE;

  for (guint i = 0; i < sweep->axes->len; i++) {
    const PsOption *field = axis_at (sweep, i)->field;

    has_costs = has_costs || cost_key (field) != NULL || ps_source_find (field->name) != NULL;
    if ((cost_key (field) != NULL && !check_key (sweep, field, error))
        || (first_of_zip (sweep, i) == i && !check_zip (sweep, i, error)))
      return FALSE;
  }
  if (ps_sweep_axis (sweep, "schedule") == NULL)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no schedule; 'schedule = all' would be right", sweep->where);
  if (!has_costs)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no costs; give %s", sweep->where, sources);
  if (ps_sweep_axis (sweep, "global-batch") != NULL && ps_sweep_axis (sweep, "microbatches") != NULL)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds both global-batch and microbatches; one follows from the other",
                      sweep->where);
  return TRUE;
}

/* Order, files, identity */

static int compare_axes (gconstpointer a, gconstpointer b)
{
  const PsOption *x = ((const PsSweepAxis *)a)->field, *y = ((const PsSweepAxis *)b)->field;
  int faster = x->sweep->pace - y->sweep->pace;

  return faster != 0 ? faster : PS_COMPARE (x, y); /* both point into the table of options */
}

/* Sets the order of the fields and their strides. A zip stands where the first of its fields does. */
static gboolean order (PsSweep *sweep, GError **error)
{
  g_array_sort (sweep->axes, compare_axes);
  sweep->n_points = 1;
  for (guint i = sweep->axes->len; i-- > 0;) {
    PsSweepAxis *axis = axis_at (sweep, i);

    if (first_of_zip (sweep, i) != i)
      continue;
    axis->stride = sweep->n_points;
    sweep->n_points *= axis->values->len; /* at most 10^9 * 10^6 */
    if (sweep->n_points > PS_MAX_SWEEP_POINTS)
      return ps_refuse (error, PS_ERROR_INPUT, "%s: has more than %u settings", sweep->where, PS_MAX_SWEEP_POINTS);
  }
  for (guint i = 0; i < sweep->axes->len; i++)
    axis_at (sweep, i)->stride = axis_at (sweep, first_of_zip (sweep, i))->stride;
  return TRUE;
}

/* Keeps the models of measured profiles, which tell the sizes of microbatches. */
static void note_measured (PsSweep *sweep, const char *path)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_READ, NULL);
  const PsSweepAxis *profiles = ps_sweep_axis (sweep, "profile");

  for (guint i = 0; db != NULL && i < (profiles != NULL ? profiles->values->len : 1); i++) {
    const char *name = profiles != NULL ? ((PsSweepValue *)profiles->values->pdata[i])->text : NULL;
    PsModel *model = ps_costdb_model (db, name, NULL);

    if (model != NULL)
      g_hash_table_insert (sweep->models, g_strconcat (path, "\n", name, NULL), model);
  }
}

/* Digests the file that a value names, and keeps its content, so that no prediction reads it again. A layout may also
 * be a text. */
static gboolean open_file (PsSweep *sweep, const char *field, PsSweepValue *value, GError **error)
{
  const PsCostSource *source = ps_source_find (field);

  if (g_str_equal (field, "model")) {
    PsModel *model = ps_model_load (value->text, error);

    if (model == NULL)
      return FALSE;
    value->content = ps_model_digest (model);
    g_hash_table_insert (sweep->models, g_strdup (value->text), model);
    return TRUE;
  }
  if (source == NULL || source->digest == NULL)
    return !(g_str_equal (field, "lengths") || g_str_equal (field, "layout"))
           || !g_file_test (value->text, G_FILE_TEST_EXISTS) || digest_file (value->text, &value->content, error);
  if (!source->digest (value->text, &value->content, error))
    return FALSE;
  if (g_str_equal (field, "cluster"))
    g_hash_table_insert (sweep->clusters, g_strdup (value->text), ps_cluster_load (value->text, NULL));
  else if (g_str_equal (field, "db"))
    note_measured (sweep, value->text);
  return TRUE;
}

static gboolean open_files (PsSweep *sweep, GError **error)
{
  for (guint i = 0; i < sweep->axes->len; i++)
    for (guint k = 0; k < axis_at (sweep, i)->values->len; k++)
      if (!open_file (sweep, axis_at (sweep, i)->field->name, axis_at (sweep, i)->values->pdata[k], error)) {
        g_prefix_error (error, "%s: %s: ", sweep->where, axis_at (sweep, i)->field->name);
        return FALSE;
      }
  return TRUE;
}

static void append_axis (GString *text, const PsSweepAxis *axis)
{
  const char *comma = g_str_equal (axis->field->name, "costs") ? "; " : ", ";

  g_string_append_printf (text, "%s = ", axis->field->name);
  for (guint i = 0; i < axis->values->len; i++)
    g_string_append_printf (text, "%s%s", i ? comma : "", ((const PsSweepValue *)axis->values->pdata[i])->text);
  g_string_append_c (text, '\n');
}

/* The text is a spec; the digest covers the files that it names, too. */
static void describe (PsSweep *sweep)
{
  g_autoptr (GString) text = g_string_new ("[sweep]\n"), contents = g_string_new (NULL);
  guint n = sweep->axes->len;

  for (guint i = 0; i < n; i++)
    if (axis_at (sweep, i)->zip == NULL)
      append_axis (text, axis_at (sweep, i));
  for (guint first = 0; first < n; first++) {
    if (axis_at (sweep, first)->zip == NULL || first_of_zip (sweep, first) != first)
      continue;
    g_string_append_printf (text, "[zip %s]\n", axis_at (sweep, first)->zip);
    for (guint i = first; i < n; i++)
      if (first_of_zip (sweep, i) == first)
        append_axis (text, axis_at (sweep, i));
  }
  sweep->text = g_strdup (text->str);
  for (guint i = 0; i < n; i++)
    for (guint k = 0; k < axis_at (sweep, i)->values->len; k++) {
      const PsSweepValue *value = axis_at (sweep, i)->values->pdata[k];

      if (value->content != NULL)
        g_string_append_printf (contents, "%s %s\n", value->text, value->content);
    }
  g_string_append (text, contents->str);
  sweep->digest = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text->str, (gssize)text->len);
}

PsSweep *ps_sweep_parse (const char *where, const char *text, gsize length, GError **error)
{
  g_autoptr (PsSweep) sweep = NULL;

  if (!ps_text_check (where, text, length, MAX_LENGTH, error))
    return NULL;
  sweep = sweep_new (where);
  if (!read_lines (sweep, text, length, error) || !check_fields (sweep, error) || !order (sweep, error)
      || !open_files (sweep, error))
    return NULL;
  describe (sweep);
  return g_steal_pointer (&sweep);
}

PsSweep *ps_sweep_load (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  return ps_read_file (path, &text, &length, error) ? ps_sweep_parse (path, text, length, error) : NULL;
}

/* One setting of a sweep, by its number */

static const PsSweepValue *value_at (const PsSweep *sweep, guint axis, guint64 index)
{
  const PsSweepAxis *at = axis_at (sweep, axis);

  return at->values->pdata[index / at->stride % at->values->len];
}

void ps_sweep_point_init (PsSweepPoint *point, const PsSweep *sweep)
{
  *point
      = (PsSweepPoint){ .costs = g_string_new (NULL), .values = g_new0 (const PsSweepValue *, sweep->axes->len + 1) };
}

void ps_sweep_point_clear (PsSweepPoint *point)
{
  g_string_free (point->costs, TRUE);
  g_clear_pointer (&point->values, g_free);
}

static void add_cost (PsSweepPoint *point, const char *key, const char *text)
{
  if (point->costs->len == 0 && point->setting.costs != NULL)
    g_string_append (point->costs, point->setting.costs);
  g_string_append_printf (point->costs, "%s%s=%s", point->costs->len ? "," : "", key, text);
  point->setting.costs = point->costs->str;
}

/* Fields of single keys come after costs, so add_cost finds the whole text. */
gboolean ps_sweep_point_set (PsSweepPoint *point, const PsSweep *sweep, guint64 index)
{
  PsSetting *setting = &point->setting;
  gboolean changed = FALSE;

  g_string_truncate (point->costs, 0);
  *setting = *sweep->defaults;
  point->global_batch = 0;
  for (guint i = 0; i < sweep->axes->len; i++) {
    const PsOption *field = axis_at (sweep, i)->field;
    const PsSweepValue *value = value_at (sweep, i, index);

    changed |= field->sweep->costs && value != point->values[i];
    point->values[i] = value;
    if (!(field->flags & PS_FIELD_OWN))
      ps_option_copy (field, value->setting, setting);
    else if (cost_key (field) != NULL)
      add_cost (point, cost_key (field), value->text);
    else if (g_str_equal (field->name, "schedule"))
      point->schedule = value->text;
    else
      point->global_batch = value->own;
  }
  g_autofree char *measured
      = setting->model == NULL && setting->db != NULL ? g_strconcat (setting->db, "\n", setting->profile, NULL) : NULL;
  if (setting->model != NULL || measured != NULL)
    setting->known_model = g_hash_table_lookup (sweep->models, measured != NULL ? measured : setting->model);
  if (setting->cluster != NULL)
    setting->known_cluster = g_hash_table_lookup (sweep->clusters, setting->cluster);
  return changed;
}

void ps_sweep_point_digest (const PsSweep *sweep, guint64 index, char digest[PS_DIGEST_LENGTH + 1])
{
  g_autoptr (GString) text = g_string_sized_new (256);
  g_autofree char *whole = NULL;

  for (guint i = 0; i < sweep->axes->len; i++) {
    const PsSweepValue *value = value_at (sweep, i, index);

    g_string_append (text, axis_at (sweep, i)->field->name);
    g_string_append_c (text, '=');
    g_string_append (text, value->text);
    g_string_append_c (text, '\n');
    g_string_append (text, value->content != NULL ? value->content : "");
  }
  whole = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text->str, (gssize)text->len);
  g_strlcpy (digest, whole, PS_DIGEST_LENGTH + 1);
}

guint ps_sweep_microbatch_size (const PsSetting *setting)
{
  if (setting->microbatch_size)
    return setting->microbatch_size;
  return setting->known_model != NULL ? setting->known_model->microbatch_size : 0;
}
