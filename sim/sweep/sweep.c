/* sweep.c - how the fields of a spec combine, the files that it names, and its identity. */
#include "sweep-private.h"

#include <pipesim/costdb.h>

#include <string.h>

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

PsSweep *
ps_sweep_new (const char *where)
{
  PsSweep *sweep = g_new0 (PsSweep, 1);

  sweep->where = g_strdup (where);
  sweep->axes = g_array_new (FALSE, TRUE, sizeof (PsSweepAxis));
  g_array_set_clear_func (sweep->axes, axis_clear);
  sweep->dimensions = g_array_new (FALSE, TRUE, sizeof (PsSweepDimension));
  g_array_set_clear_func (sweep->dimensions, dimension_clear);
  sweep->defaults = ps_setting_new ();
  ps_sweep_find_columns (sweep);
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

gboolean
ps_sweep_arrange (PsSweep *sweep, GError **error)
{
  order (sweep);
  if (!count (sweep, error) || !open_files (sweep, error))
    return FALSE;
  describe (sweep);
  return TRUE;
}
