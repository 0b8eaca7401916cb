/* sweep-rows.c - reads what a picture of a sweep shows. */
#include "sweep-rows.h"

void
ps_sweep_rows_clear (PsSweepRows *rows)
{
  ps_scope_free (rows->scope);
  g_strfreev (rows->columns);
  ps_result_values_free (rows->values);
}

gboolean
ps_sweep_rows_read (PsSweepRows *rows, PsResults *results, const PsQuestion *question, const char *const *own,
                    GError **error)
{
  g_autoptr (GStrvBuilder) columns = g_strv_builder_new ();

  rows->scope = ps_question_scope (results, question, error);
  if (rows->scope == NULL)
    return FALSE;
  rows->n_own = g_strv_length ((char **)own);
  g_strv_builder_addv (columns, (const char **)own);
  for (guint i = 0; rows->scope->per[i] != NULL; i++)
    if (!g_strv_contains (own, rows->scope->per[i])
        && g_strv_contains ((const char *const *)rows->scope->varying, rows->scope->per[i]))
      g_strv_builder_add (columns, rows->scope->per[i]);
  rows->columns = g_strv_builder_end (columns);
  rows->values = ps_results_values (results, question, (const char *const *)rows->columns, error);
  return rows->values != NULL;
}

const char *
ps_sweep_rows_title (const PsSweepRows *rows, guint i)
{
  guint n;

  return ps_result_columns (&n)[ps_result_column_find (rows->columns[i])].column.title;
}

void
ps_sweep_rows_append_apart (const PsSweepRows *rows, guint row, GString *name)
{
  for (guint i = rows->n_own; rows->columns[i] != NULL; i++)
    {
      g_autofree char *text = ps_result_value_text (rows->columns[i], &ps_sweep_rows_at (rows, row)[i]);

      g_string_append_printf (name, "%s%s %s", name->len ? ", " : "", ps_sweep_rows_title (rows, i), text);
    }
}

char *
ps_sweep_rows_apart (const PsSweepRows *rows)
{
  GString *names = g_string_new (NULL);

  for (guint i = rows->n_own; rows->columns[i] != NULL; i++)
    g_string_append_printf (names, "%s%s", names->len ? ", " : "", ps_sweep_rows_title (rows, i));
  return g_string_free (names, FALSE);
}
