/* sweep.c - a spec: its fields and their values, how they combine, the files that it names, and its identity. */
#include "sweep-private.h"
#include "base/text.h"
#include "setting/options.h"

#include <pipesim/costdb.h>
#include <pipesim/sweep.h>

#include <string.h>

/* The fields of a spec, their lists and ranges written out, and the single values read. */

/* Decimal numbers as integers of a millionth, so that steps are exact. */
#define UNIT G_GINT64_CONSTANT (1000000)
#define MAX_WHOLE G_GINT64_CONSTANT (1000000000000)

const PsOption *
ps_sweep_field_find (const char *name)
{
  const PsOption *field = ps_setting_options;

  while (field->name != NULL && !g_str_equal (field->name, name) && !ps_column_is_called (&field->sweep->column, name))
    field++;
  return field->name != NULL && !(field->flags & PS_FIELD_DERIVED) ? field : NULL;
}

/* All names, in the order of the table. Free with g_free. */
static char *
sweep_field_names (void)
{
  GString *names = g_string_new (NULL);

  for (const PsOption *field = ps_setting_options; field->name != NULL; field++)
    if (!(field->flags & PS_FIELD_DERIVED))
      g_string_append_printf (names, "%s%s", names->len > 0 ? " " : "", field->name);
  return g_string_free (names, FALSE);
}

/* The key of costs that a field stands for; NULL: none. */
static const char *
sweep_field_cost (const PsOption *field)
{
  return g_str_has_prefix (field->name, "costs.") ? field->name + strlen ("costs.") : NULL;
}

void
ps_sweep_value_free (PsSweepValue *value)
{
  if (value == NULL)
    return;
  g_free (value->text);
  ps_setting_free (value->setting);
  g_free (value->content);
  g_free (value);
}

/* "1.5GiB": the number, and where its unit begins. FALSE: no number, or too large or fine. */
static gboolean
read_number (const char *text, gint64 *number, const char **unit)
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

static char *
write_number (gint64 number, const char *unit)
{
  g_autofree char *fraction = g_strdup_printf ("%06" G_GINT64_FORMAT, number % UNIT);
  int n = 6;

  while (n > 0 && fraction[n - 1] == '0')
    n--;
  return g_strdup_printf ("%" G_GINT64_FORMAT "%s%.*s%s", number / UNIT, n > 0 ? "." : "", n, fraction, unit);
}

typedef struct
{
  gint64 low;
  gint64 high;
  gint64 step;   /* 0: factor counts */
  gint64 factor; /* of 1 / UNIT */
  const char *unit;
} Range;

static gboolean
fail (GError **error, const char *where, const char *text, const char *message)
{
  g_autofree char *quoted = ps_text_quote (text);

  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s %s", where, quoted, message);
}

/* The text after the two ends: nothing, "step 4" or "x2". */
static gboolean
read_stride (const char *text, Range *range)
{
  gint64 *number = *text == 'x' ? &range->factor : &range->step;
  const char *unit = "";

  range->step = UNIT;
  range->factor = 0;
  if (*text == '\0')
    return TRUE;
  range->step = 0;
  if (*text == 'x')
    text++;
  else if (g_str_has_prefix (text, "step "))
    text = text + strspn (text + strlen ("step"), " \t") + strlen ("step");
  else
    return FALSE;
  return read_number (text, number, &unit) && (*unit == '\0' || g_str_equal (unit, range->unit))
         && (number == &range->factor ? *unit == '\0' && range->factor > UNIT : range->step > 0);
}

/* "4..64GiB x2". The unit follows both ends or only the last. */
static gboolean
read_range (const char *where, const char *text, char **unit, Range *range, GError **error)
{
  const char *dots = strstr (text, ".."), *low_unit, *high_unit;
  g_autofree char *low = g_strchomp (g_strndup (text, (gsize)(dots - text)));
  const char *high = dots + 2 + strspn (dots + 2, " \t");
  gsize length;

  if (!read_number (low, &range->low, &low_unit) || !read_number (high, &range->high, &high_unit))
    return fail (error, where, text, "is no range; 4..64, 4..64 step 4 or 4..64 x2 would be right");
  length = strcspn (high_unit, " \t");
  *unit = g_strndup (high_unit, length);
  range->unit = *unit;
  if (*low_unit && !g_str_equal (low_unit, *unit))
    return fail (error, where, text, "has two units; the same after both ends would be right");
  if (range->low > range->high)
    return fail (error, where, text, "goes down; the smaller end comes first");
  if (!read_stride (high_unit + length + strspn (high_unit + length, " \t"), range))
    return fail (error, where, text, "ends in neither 'step NUMBER' nor 'xFACTOR' with a factor above 1");
  if (range->factor && range->low == 0)
    return fail (error, where, text, "multiplies 0, which stays 0");
  return TRUE;
}

static gboolean
expand_range (const char *where, const char *text, GPtrArray *texts, GError **error)
{
  g_autofree char *unit = NULL;
  Range range = { 0 };

  if (!read_range (where, text, &unit, &range, error))
    return FALSE;
  for (gint64 number = range.low; number <= range.high;)
    {
      gint64 next = range.step ? number + range.step : (gint64)((double)number / (double)UNIT * (double)range.factor);

      if (texts->len >= PS_MAX_SWEEP_VALUES || next <= number)
        return fail (error, where, text, "has too many values (more than 100000, or steps below a millionth)");
      g_ptr_array_add (texts, write_number (number, unit));
      number = next;
    }
  return TRUE;
}

static gboolean
has_ranges (const PsOption *field)
{
  return field->type != PS_OPTION_FLAG
         && (field->sweep->column.type != PS_COLUMN_TEXT || field->type == PS_OPTION_FACTORS);
}

static gboolean
check_once (const char *where, const GPtrArray *texts, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; i < texts->len; i++)
    if (!g_hash_table_add (seen, texts->pdata[i]))
      return fail (error, where, texts->pdata[i], "appears twice");
  return TRUE;
}

static void
add_families (GPtrArray *texts)
{
  guint n;
  const PsFamily *const *table = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    g_ptr_array_add (texts, g_strdup (table[i]->name));
}

GPtrArray *
ps_sweep_expand (const char *where, const PsOption *field, const char *text, GError **error)
{
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  g_auto (GStrv) parts = g_strsplit (text, g_str_equal (field->name, "costs") ? ";" : ",", -1);

  for (guint i = 0; parts[i] != NULL; i++)
    {
      const char *part = g_strstrip (parts[i]);

      if (*part == '\0')
        return fail (error, where, text, "has an empty value in its list"), NULL;
      if (texts->len >= PS_MAX_SWEEP_VALUES)
        return fail (error, where, text, "has more than 100000 values"), NULL;
      if (g_str_equal (field->name, "schedule") && g_str_equal (part, "all"))
        add_families (texts);
      else if (!has_ranges (field) || strstr (part, "..") == NULL)
        g_ptr_array_add (texts, g_strdup (part));
      else if (!expand_range (where, part, texts, error))
        return NULL;
    }
  if (texts->len == 0)
    return fail (error, where, text, "holds no value"), NULL;
  return check_once (where, texts, error) ? g_steal_pointer (&texts) : NULL;
}

/* Single values */

static gboolean
read_schedule (const char *text, PsSweepValue *value, GError **error)
{
  g_autoptr (PsSetting) setting = ps_setting_new ();
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);
  g_autoptr (PsSchedule) schedule = NULL;
  g_autofree char *contents = NULL;
  gsize length;

  value->value = (PsValue){ .type = PS_VALUE_TEXT, .text = value->text };
  if (ps_family_find (text) != NULL)
    return TRUE;
  schedule = ps_predictor_schedule (predictor, text, error);
  if (schedule == NULL || !ps_read_file (text, &contents, &length, error))
    return FALSE;
  value->content = g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *)contents, length);
  return TRUE;
}

/* As the column has it: texts as they are typed, a list of sizes as the smallest. */
static PsValue
column_value (const PsOption *field, gconstpointer base, const char *text)
{
  if (field->sweep->column.type == PS_COLUMN_TEXT)
    return (PsValue){ .type = PS_VALUE_TEXT, .text = text };
  return field->flags & PS_FIELD_OWN ? ps_option_value (field, base) : ps_setting_column (field, base);
}

static gboolean
read_value (const PsOption *field, PsSweepValue *value, GError **error)
{
  gpointer base = field->flags & PS_FIELD_OWN ? (gpointer)&value->own : value->setting;

  if (g_str_equal (field->name, "schedule"))
    return read_schedule (value->text, value, error);
  /* A column of numbers has no place for one value per stage. */
  if (sweep_field_cost (field) != NULL && strchr (value->text, ':') != NULL)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: '%s' has a value per stage; such lists go into costs, whole",
                      field->name, value->text);
  if (!ps_option_read (field, base, value->text, error))
    return FALSE;
  value->value = column_value (field, base, value->text);
  return TRUE;
}

PsSweepValue *
ps_sweep_value_new (const char *where, const PsOption *field, const char *text, GError **error)
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

static void
axis_clear (gpointer data)
{
  g_ptr_array_unref (((PsSweepAxis *)data)->values);
}

static void
dimension_clear (gpointer data)
{
  g_free (((PsSweepDimension *)data)->zip);
}

static guint
find (const char *column)
{
  return (guint)ps_result_column_find (column);
}

/* Finds columns of the results, and what they hold where nothing is swept. */
static void
sweep_find_columns (PsSweep *sweep)
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

/* No fields yet. Free with ps_sweep_free. */
static PsSweep *
sweep_new (const char *where)
{
  PsSweep *sweep = g_new0 (PsSweep, 1);

  sweep->where = g_strdup (where);
  sweep->axes = g_array_new (FALSE, TRUE, sizeof (PsSweepAxis));
  g_array_set_clear_func (sweep->axes, axis_clear);
  sweep->dimensions = g_array_new (FALSE, TRUE, sizeof (PsSweepDimension));
  g_array_set_clear_func (sweep->dimensions, dimension_clear);
  sweep->defaults = ps_setting_new ();
  sweep_find_columns (sweep);
  sweep->clusters = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)ps_cluster_free);
  sweep->models = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)ps_model_free);
  sweep->measured = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)ps_model_free);
  return sweep;
}

void
ps_sweep_free (PsSweep *sweep)
{
  if (sweep == NULL)
    return;
  g_free (sweep->where);
  g_array_unref (sweep->axes);
  g_array_unref (sweep->dimensions);
  ps_setting_free (sweep->defaults);
  g_free (sweep->default_values);
  g_hash_table_unref (sweep->clusters);
  g_hash_table_unref (sweep->models);
  g_hash_table_unref (sweep->measured);
  g_free (sweep->text);
  g_free (sweep->digest);
  g_free (sweep);
}

guint64
ps_sweep_n_points (const PsSweep *sweep)
{
  return sweep->n_points;
}

const char *
ps_sweep_text (const PsSweep *sweep)
{
  return sweep->text;
}

const char *
ps_sweep_digest (const PsSweep *sweep)
{
  return sweep->digest;
}

const PsSweepAxis *
ps_sweep_axis (const PsSweep *sweep, const char *name)
{
  for (guint i = 0; i < sweep->axes->len; i++)
    {
      const PsSweepAxis *axis = &g_array_index (sweep->axes, PsSweepAxis, i);

      if (g_str_equal (axis->field->name, name))
        return axis;
    }
  return NULL;
}

/* Order */

static int
compare_axes (gconstpointer a, gconstpointer b)
{
  const PsOption *x = ((const PsSweepAxis *)a)->field, *y = ((const PsSweepAxis *)b)->field;
  int faster = x->sweep->pace - y->sweep->pace;

  return faster != 0 ? faster : PS_COMPARE (x, y); /* both point into the table of options */
}

/* Dimensions stand where the first of their fields does. */
static void
order (PsSweep *sweep)
{
  GArray *sorted = g_array_new (FALSE, TRUE, sizeof (PsSweepDimension));
  g_autofree guint *to = g_new (guint, sweep->dimensions->len + 1);

  g_array_sort (sweep->axes, compare_axes);
  memset (to, 0xff, (sweep->dimensions->len + 1) * sizeof *to);
  for (guint i = 0; i < sweep->axes->len; i++)
    {
      PsSweepAxis *axis = &g_array_index (sweep->axes, PsSweepAxis, i);

      if (to[axis->dimension] == G_MAXUINT)
        {
          to[axis->dimension] = sorted->len;
          g_array_append_val (sorted, g_array_index (sweep->dimensions, PsSweepDimension, axis->dimension));
          g_array_index (sweep->dimensions, PsSweepDimension, axis->dimension).zip = NULL;
        }
      axis->dimension = to[axis->dimension];
    }
  g_array_unref (sweep->dimensions);
  sweep->dimensions = sorted;
  g_array_set_clear_func (sweep->dimensions, dimension_clear);
}

static gboolean
count (PsSweep *sweep, GError **error)
{
  sweep->n_points = 1;
  for (guint i = sweep->dimensions->len; i-- > 0;)
    {
      PsSweepDimension *dimension = &g_array_index (sweep->dimensions, PsSweepDimension, i);

      dimension->stride = sweep->n_points;
      sweep->n_points *= dimension->n; /* at most 10^9 * 10^6 */
      if (sweep->n_points <= PS_MAX_SWEEP_POINTS)
        continue;
      return ps_refuse (error, PS_ERROR_INPUT, "%s: has more than %u settings", sweep->where, PS_MAX_SWEEP_POINTS);
    }
  return TRUE;
}

/* Files */

static gboolean
open_model (PsSweep *sweep, PsSweepValue *value, GError **error)
{
  PsModel *model = ps_model_load (value->text, error);

  if (model == NULL)
    return FALSE;
  value->content = ps_model_digest (model);
  g_hash_table_insert (sweep->models, g_strdup (value->text), model);
  return TRUE;
}

/* Keeps the models of measured profiles, which tell the sizes of microbatches. */
static void
note_measured (PsSweep *sweep, const char *path)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_READ, NULL);
  const PsSweepAxis *profiles = ps_sweep_axis (sweep, "profile");

  for (guint i = 0; db != NULL && i < (profiles != NULL ? profiles->values->len : 1); i++)
    {
      const char *name = profiles != NULL ? ((PsSweepValue *)profiles->values->pdata[i])->text : NULL;
      PsModel *model = ps_costdb_model (db, name, NULL);

      if (model != NULL)
        g_hash_table_insert (sweep->measured, g_strconcat (path, "\n", name, NULL), model);
    }
}

/* Options that name files which no source of costs reads. A layout may also be a text of its own. */
static gboolean
digest_text (const char *field, PsSweepValue *value, GError **error)
{
  g_autofree char *contents = NULL;
  gsize length;

  if (!(g_str_equal (field, "lengths") || g_str_equal (field, "layout"))
      || !g_file_test (value->text, G_FILE_TEST_EXISTS))
    return TRUE;
  if (!ps_read_file (value->text, &contents, &length, error))
    return FALSE;
  value->content = g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *)contents, length);
  return TRUE;
}

/* Digests the file that a value names, and keeps its content, so that no prediction reads it again. */
static gboolean
open_file (PsSweep *sweep, const char *field, PsSweepValue *value, GError **error)
{
  const PsCostSource *source = ps_source_find (field);

  if (g_str_equal (field, "model"))
    return open_model (sweep, value, error);
  if (source == NULL || source->digest == NULL)
    return digest_text (field, value, error);
  if (!source->digest (value->text, &value->content, error))
    return FALSE;
  if (g_str_equal (field, "cluster"))
    g_hash_table_insert (sweep->clusters, g_strdup (value->text), ps_cluster_load (value->text, NULL));
  else if (g_str_equal (field, "db"))
    note_measured (sweep, value->text);
  return TRUE;
}

static gboolean
open_files (PsSweep *sweep, GError **error)
{
  for (guint i = 0; i < sweep->axes->len; i++)
    {
      const PsSweepAxis *axis = &g_array_index (sweep->axes, PsSweepAxis, i);

      for (guint k = 0; k < axis->values->len; k++)
        if (!open_file (sweep, axis->field->name, axis->values->pdata[k], error))
          {
            g_prefix_error (error, "%s: %s: ", sweep->where, axis->field->name);
            return FALSE;
          }
    }
  return TRUE;
}

/* Identity */

static void
describe (PsSweep *sweep)
{
  g_autoptr (GString) text = g_string_new (NULL), contents = g_string_new (NULL);

  for (guint i = 0; i < sweep->axes->len; i++)
    {
      const PsSweepAxis *axis = &g_array_index (sweep->axes, PsSweepAxis, i);
      const char *zip = g_array_index (sweep->dimensions, PsSweepDimension, axis->dimension).zip;
      const char *comma = g_str_equal (axis->field->name, "costs") ? "; " : ", ";

      g_string_append_printf (text, "%s%s%s%s = ", axis->field->name, zip != NULL ? " [zip " : "",
                              zip != NULL ? zip : "", zip != NULL ? "]" : "");
      for (guint k = 0; k < axis->values->len; k++)
        {
          const PsSweepValue *value = axis->values->pdata[k];

          g_string_append_printf (text, "%s%s", k ? comma : "", value->text);
          if (value->content != NULL)
            g_string_append_printf (contents, "%s %s\n", value->text, value->content);
        }
      g_string_append_c (text, '\n');
    }
  sweep->text = g_strdup (text->str);
  g_string_append (text, contents->str);
  sweep->digest = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text->str, (gssize)text->len);
}

/* When all fields are there: order, number, files, identity. Errors: PS_ERROR_INPUT, PS_ERROR_IO. */
static gboolean
sweep_arrange (PsSweep *sweep, GError **error)
{
  order (sweep);
  if (!count (sweep, error) || !open_files (sweep, error))
    return FALSE;
  describe (sweep);
  return TRUE;
}

/* One setting of a sweep: from its number to the options, and to its row in the results. */

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

/* Returns whether a value changed that costs depend on. */
static gboolean
choose (PsSweepPoint *point, const PsSweep *sweep, guint64 index)
{
  gboolean changed = FALSE;

  for (guint i = 0; i < sweep->dimensions->len; i++)
    {
      const PsSweepDimension *dimension = &g_array_index (sweep->dimensions, PsSweepDimension, i);
      guint digit = (guint)(index / dimension->stride % dimension->n);

      changed |= dimension->costs && digit != point->digits[i];
      point->digits[i] = digit;
    }
  for (guint i = 0; i < sweep->axes->len; i++)
    {
      const PsSweepAxis *axis = &g_array_index (sweep->axes, PsSweepAxis, i);

      point->values[i] = axis->values->pdata[point->digits[axis->dimension]];
    }
  return changed;
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
gboolean
ps_sweep_point_set (PsSweepPoint *point, const PsSweep *sweep, guint64 index)
{
  gboolean changed = choose (point, sweep, index);

  g_string_truncate (point->costs, 0);
  point->setting = *sweep->defaults;
  point->global_batch = 0;
  for (guint i = 0; i < sweep->axes->len; i++)
    {
      const PsOption *field = g_array_index (sweep->axes, PsSweepAxis, i).field;
      const char *key = sweep_field_cost (field);

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
  return changed;
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

/* Reads the lines of a spec. */

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
  dimension->costs |= axis->field->sweep->costs;
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
      names = sweep_field_names ();
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
      const char *key = sweep_field_cost (field);

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
  sweep = sweep_new (where);
  if (!read_lines (sweep, text, length, error) || !check_fields (sweep, error) || !sweep_arrange (sweep, error))
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
