/* sweep-timelines.c - reads a sweep back from its database and simulates its settings again. */
#include "questions-private.h"
#include "sweep-private.h"

#include <pipesim/sweep.h>

#include <string.h>

/* The row of table `sweep`. */
typedef struct
{
  char *digest;
  char *spec;
  char *version;
} Stored;

static void
stored_clear (Stored *stored)
{
  g_free (stored->digest);
  g_free (stored->spec);
  g_free (stored->version);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Stored, stored_clear)

static gboolean
read_stored (PsResults *results, Stored *stored, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (results->file, error, "SELECT digest, spec, version FROM sweep", "");
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  if (!found)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: holds no sweep yet", results->file->path);
  stored->digest = ps_rows_text (rows, 0);
  stored->spec = ps_rows_text (rows, 1);
  stored->version = ps_rows_text (rows, 2);
  return TRUE;
}

/* "name [zip sizes] = values" goes below [zip sizes], in one group per name; *groups is a GString for each. */
static void
sort_line (GString *plain, GHashTable *groups, GPtrArray *order, const char *line)
{
  const char *equals = strstr (line, " = "), *zip = strstr (line, " [zip ");
  g_autofree char *name = NULL, *group = NULL;
  GString *text;

  if (zip == NULL || equals == NULL || zip > equals)
    {
      g_string_append_printf (plain, "%s\n", line);
      return;
    }
  name = g_strndup (line, (gsize)(zip - line));
  group = g_strndup (zip + 1, (gsize)(equals - zip - 1));
  text = g_hash_table_lookup (groups, group);
  if (text == NULL)
    {
      text = g_string_new (NULL);
      g_string_append_printf (text, "%s\n", group);
      g_ptr_array_add (order, text);
      g_hash_table_insert (groups, g_steal_pointer (&group), text);
    }
  g_string_append_printf (text, "%s%s\n", name, equals);
}

static void
string_free (gpointer data)
{
  g_string_free (data, TRUE);
}

/* The text that a database keeps as the spec that it was. */
static char *
spec_from_stored (const char *stored)
{
  g_autoptr (GHashTable) groups = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GPtrArray) order = g_ptr_array_new_with_free_func (string_free);
  g_auto (GStrv) lines = g_strsplit (stored, "\n", -1);
  GString *spec = g_string_new ("[sweep]\n");

  for (guint i = 0; lines[i] != NULL; i++)
    sort_line (spec, groups, order, lines[i]);
  for (guint i = 0; i < order->len; i++)
    g_string_append (spec, ((const GString *)order->pdata[i])->str);
  return g_string_free (spec, FALSE);
}

PsSweep *
ps_sweep_from_results (PsResults *results, GError **error)
{
  g_auto (Stored) stored = { 0 };
  g_autoptr (PsSweep) sweep = NULL;
  g_autofree char *spec = NULL;

  if (!read_stored (results, &stored, error))
    return NULL;
  if (!g_str_equal (stored.version, PS_VERSION))
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: made by pipesim %s, this is %s", results->file->path,
                           stored.version, PS_VERSION);
  spec = spec_from_stored (stored.spec);
  sweep = ps_sweep_parse (results->file->path, spec, strlen (spec), error);
  if (sweep == NULL || g_str_equal (ps_sweep_digest (sweep), stored.digest))
    return g_steal_pointer (&sweep);
  return ps_refuse_null (error, PS_ERROR_INPUT,
                         "%s: files that its spec names have changed since (digest %.8s then, %.8s now)",
                         results->file->path, stored.digest, ps_sweep_digest (sweep));
}

/* A setting of the database and what came out. */
typedef struct
{
  guint64 point;
  guint n_microbatches;
  gint64 iteration_ns;
} Row;

static GArray *
fastest_rows (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (PsScope) scope = ps_question_scope (results, question, error);
  g_autofree char *groups = scope != NULL ? g_strjoinv (", ", scope->per) : g_strdup ("");
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (Row));
  g_autoptr (GString) sql = g_string_new (NULL);
  g_autoptr (PsRows) rows = NULL;
  gboolean found = TRUE;

  g_string_append_printf (sql,
                          "SELECT point, microbatches, iteration_ns FROM (SELECT *, row_number () OVER (%s%s ORDER BY "
                          "%s, peak_memory_bytes, point) AS place FROM result",
                          *groups ? "PARTITION BY " : "", groups, question->by);
  if (scope == NULL || !ps_question_append_where (question, sql, error))
    return NULL;
  g_string_append_printf (sql, ") WHERE place = 1 ORDER BY %s%spoint", groups, *groups ? ", " : "");
  rows = ps_rows_new (results->file, error, sql->str, "");
  while (rows != NULL && ps_rows_next (rows, &found, error))
    {
      Row row;

      if (!found)
        return g_steal_pointer (&all);
      row = (Row){ (guint64)ps_rows_integer (rows, 0), (guint)ps_rows_integer (rows, 1), ps_rows_integer (rows, 2) };
      g_array_append_val (all, row);
    }
  return NULL;
}

static gboolean
is_within (PsResults *results, const PsSweep *sweep, const Row *row, GError **error)
{
  if (row->point < ps_sweep_n_points (sweep))
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: setting %" G_GUINT64_FORMAT " is after the last of its sweep",
                    results->file->path, row->point);
}

static gboolean
is_same (PsResults *results, const PsPrediction *prediction, const Row *row, GError **error)
{
  if (prediction->metrics.iteration_ns == row->iteration_ns)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT,
                    "%s: setting %" G_GUINT64_FORMAT " takes %" G_GINT64_FORMAT
                    " ns when simulated again, the database says %" G_GINT64_FORMAT,
                    results->file->path, row->point, prediction->metrics.iteration_ns, row->iteration_ns);
}

/* The number of microbatches may follow from a global batch, so it is taken from the row. */
static PsTimeline *
simulate (PsResults *results, const PsSweep *sweep, const Row *row, GError **error)
{
  g_autoptr (PsPrediction) prediction = NULL;
  PsSweepPoint point;

  if (!is_within (results, sweep, row, error))
    return NULL;
  ps_sweep_point_init (&point, sweep);
  ps_sweep_point_set (&point, sweep, row->point);
  point.setting.n_microbatches = row->n_microbatches;
  prediction = ps_predict (&point.setting, point.schedule, error);
  ps_sweep_point_clear (&point);
  if (prediction == NULL || !is_same (results, prediction, row, error))
    return NULL;
  return ps_prediction_timeline (prediction);
}

GPtrArray *
ps_results_timelines (PsResults *results, const PsQuestion *question, guint max_ops, guint *n_left, GError **error)
{
  g_autoptr (GPtrArray) timelines = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_timeline_free);
  g_autoptr (GArray) rows = fastest_rows (results, question, error);
  g_autoptr (PsSweep) sweep = rows != NULL ? ps_sweep_from_results (results, error) : NULL;
  guint n_ops = 0;

  if (sweep == NULL)
    return NULL;
  *n_left = 0;
  for (guint i = 0; i < rows->len && *n_left == 0; i++)
    {
      const Row *row = &g_array_index (rows, Row, i);
      g_autoptr (PsTimeline) timeline = simulate (results, sweep, row, error);

      if (timeline == NULL)
        return NULL;
      n_ops += timeline->ops->len;
      if (n_ops > max_ops)
        *n_left = rows->len - i;
      else
        g_ptr_array_add (timelines, g_steal_pointer (&timeline));
    }
  return g_steal_pointer (&timelines);
}
