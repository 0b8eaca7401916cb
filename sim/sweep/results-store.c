/* results-store.c - stores predictions. A sweep changes few of their columns, and a row takes as long as it has
 * columns: a column is stored from the first prediction on that differs in it from those before. */
#include "results-private.h"
#include "setting/options.h"

#include <math.h>

#define ROWS_AT_ONCE 16 /* of one statement */

static guint
n_columns (void)
{
  return ps_setting_n_options + PS_N_STORED_FIGURES;
}

static const PsColumn *
column_at (guint index)
{
  guint n;

  return &ps_result_columns (&n)[index].column;
}

/* SQL */

static const char *
sql_type (PsColumnType type)
{
  gboolean real = type == PS_COLUMN_NUMBER || type == PS_COLUMN_RATE || type == PS_COLUMN_RATIO;

  return type == PS_COLUMN_TEXT ? "TEXT" : real ? "REAL" : "INTEGER";
}

void
ps_results_declare (GString *sql, guint column)
{
  gboolean may_be_null = column < ps_setting_n_options && ps_setting_options[column].flags & PS_FIELD_NULL;

  g_string_append_printf (sql, "%s %s%s", column_at (column)->key, sql_type (column_at (column)->type),
                          may_be_null ? "" : " NOT NULL");
}

/* "point, digest, schedule, makespan_ns": the columns of the table. */
static void
append_stored (const PsResults *results, GString *sql)
{
  g_string_append (sql, "point, digest");
  for (guint i = 0; i < n_columns (); i++)
    if (results->varies[i])
      g_string_append_printf (sql, ", %s", column_at (i)->key);
}

/* How the file keeps predictions */

void
ps_results_forget (PsResults *results)
{
  for (guint i = 0; results->same != NULL && i < n_columns (); i++)
    if (results->same[i].type == PS_VALUE_TEXT)
      g_free ((char *)results->same[i].text);
  g_clear_pointer (&results->same, g_free);
  g_clear_pointer (&results->varies, g_free);
  g_clear_pointer (&results->many, ps_rows_free);
  g_clear_pointer (&results->single, ps_rows_free);
  results->schema = -1;
}

static PsValue *
copy_values (const PsValue *values)
{
  PsValue *copy = g_memdup2 (values, n_columns () * sizeof *values);

  for (guint i = 0; i < n_columns (); i++)
    if (values[i].type == PS_VALUE_TEXT)
      copy[i].text = g_strdup (values[i].text);
  return copy;
}

static PsValue
read_value (PsRows *rows, guint column)
{
  const char *type = sql_type (column_at (column)->type);
  int index = (int)column + 2; /* after point and digest */

  if (ps_rows_is_null (rows, index))
    return (PsValue){ .type = PS_VALUE_NONE };
  if (g_str_equal (type, "TEXT"))
    return (PsValue){ .type = PS_VALUE_TEXT, .text = ps_rows_text (rows, index) };
  if (g_str_equal (type, "REAL"))
    return (PsValue){ .type = PS_VALUE_REAL, .real = ps_rows_real (rows, index) };
  return (PsValue){ .type = PS_VALUE_INTEGER, .integer = ps_rows_integer (rows, index) };
}

/* Some prediction of a database, "main" or "other"; its texts are the caller's. *values is NULL if there is none. */
static gboolean
read_any (PsResults *results, const char *database, PsValue **values, GError **error)
{
  g_autofree char *columns = ps_results_list_columns ();
  g_autofree char *sql = g_strdup_printf ("SELECT %s FROM %s.prediction LIMIT 1", columns, database);
  g_autoptr (PsRows) rows = ps_rows_new (results->file, error, sql, "");
  gboolean found;

  *values = NULL;
  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  if (!found)
    return TRUE;
  *values = g_new (PsValue, n_columns ());
  for (guint i = 0; i < n_columns (); i++)
    (*values)[i] = read_value (rows, i);
  return TRUE;
}

static gboolean
read_schema (PsResults *results, gint64 *schema, GError **error)
{
  return ps_database_integer (results->file, "PRAGMA main.schema_version", schema, error);
}

/* Finds out what is known after predictions have been stored. Another process may have changed it since. */
static gboolean
read_form (PsResults *results, GError **error)
{
  g_auto (GStrv) names = NULL;
  PsValue *values;
  gint64 schema;

  if (!read_schema (results, &schema, error))
    return FALSE;
  if (results->varies != NULL && schema == results->schema)
    return TRUE;
  ps_results_forget (results);
  names = ps_results_names (results->file, "varying", error);
  if (names == NULL || !read_any (results, "main", &values, error))
    return FALSE;
  if (values == NULL)
    return TRUE;
  results->whole = names[0] == NULL;
  results->same = values;
  results->varies = g_new0 (gboolean, n_columns ());
  for (guint i = 0; i < n_columns (); i++)
    results->varies[i] = results->whole || g_strv_contains ((const char *const *)names, column_at (i)->key);
  results->schema = schema;
  return TRUE;
}

/* Whether SQLite reads the literal of a number as that number: it rounds some decimals another way. */
static gboolean
reads_back (PsResults *results, const PsValue *value)
{
  g_autoptr (GString) sql = g_string_new ("SELECT ");
  g_autoptr (PsRows) rows = NULL;
  gboolean found;

  if (value->type != PS_VALUE_REAL)
    return TRUE;
  if (!isfinite (value->real))
    return FALSE;
  ps_results_quote (sql, value);
  rows = ps_rows_new (results->file, NULL, sql->str, "");
  return rows != NULL && ps_rows_next (rows, &found, NULL) && found && ps_rows_real (rows, 0) == value->real;
}

/* Stores columns that `differs` names from now on: in a new table, or added to the one that is there, with the value
 * that they had in all its rows. A transaction that fails must forget the form. */
static gboolean
store_columns (PsResults *results, const gboolean *differs, gboolean is_new, GError **error)
{
  g_autoptr (GString) sql = g_string_new (NULL), view = g_string_new (NULL);

  g_clear_pointer (&results->many, ps_rows_free);
  g_clear_pointer (&results->single, ps_rows_free);
  if (is_new)
    g_string_append (sql, "CREATE TABLE main.varying (point INTEGER PRIMARY KEY, digest TEXT NOT NULL");
  for (guint i = 0; i < n_columns (); i++)
    {
      if (differs[i] && !results->varies[i])
        {
          results->varies[i] = TRUE;
          g_string_append (sql, is_new ? ", " : "ALTER TABLE main.varying ADD COLUMN ");
          ps_results_declare (sql, i);
          if (!is_new)
            {
              g_string_append (sql, " DEFAULT ");
              ps_results_quote (sql, &results->same[i]);
              g_string_append (sql, ";\n");
            }
        }
      g_string_append (view, ",\n  ");
      if (!results->varies[i])
        {
          g_string_append (view, "CAST (");
          ps_results_quote (view, &results->same[i]);
          g_string_append_printf (view, " AS %s) AS ", sql_type (column_at (i)->type));
        }
      g_string_append (view, column_at (i)->key);
    }
  g_string_append_printf (sql,
                          "%s;\nDROP VIEW IF EXISTS main.prediction;\n"
                          "CREATE VIEW main.prediction AS SELECT point, digest%s\nFROM varying",
                          is_new ? ") STRICT" : "", view->str);
  return ps_database_script (results->file, sql->str, error) && read_schema (results, &results->schema, error);
}

/* Drops what keeps predictions, of which there are none. Takes the values of the first one. */
static gboolean
begin_same (PsResults *results, PsValue *values, GError **error)
{
  g_auto (GStrv) names = ps_results_names (results->file, "varying", error);

  results->same = values;
  results->varies = g_new0 (gboolean, n_columns ());
  results->whole = FALSE;
  return names != NULL
         && ps_database_script (
             results->file,
             names[0] != NULL
                 ? "DROP VIEW main.prediction; DROP TABLE main.varying"
                 : "DROP TABLE main.prediction; PRAGMA main.user_version = " G_STRINGIFY (PS_RESULTS_VERSION),
             error);
}

/* Rows */

static gboolean
is_same (const PsValue *a, const PsValue *b)
{
  return a->type == b->type
         && (a->integer == b->integer || (a->type == PS_VALUE_TEXT && g_str_equal (a->text, b->text)));
}

/* Marks columns that do not vary yet and in which a row has another value. `seen` has the texts of the row before: most
 * are at the same place. */
static gboolean
find_differences (const PsResults *results, PsResult *const *rows, guint n, gboolean *differs)
{
  g_autofree guint *columns = g_new (guint, n_columns ());
  g_autofree PsValue *seen = g_memdup2 (results->same, n_columns () * sizeof *seen);
  gboolean any = FALSE;
  guint n_same = 0;

  for (guint i = 0; i < n_columns (); i++)
    if (!results->varies[i])
      columns[n_same++] = i;
  for (guint i = 0; i < n; i++)
    for (guint k = 0; rows[i]->reason == NULL && k < n_same; k++)
      {
        guint c = columns[k];
        const PsValue *value = &rows[i]->values[c];

        if (value->type == seen[c].type && value->integer == seen[c].integer)
          continue;
        if (!is_same (value, &results->same[c]))
          any = differs[c] = TRUE;
        else if (value->text != rows[i]->layout && value->text != rows[i]->detail)
          seen[c] = *value;
      }
  return any;
}

static gboolean
vary (PsResults *results, PsResult *const *rows, guint n, GError **error)
{
  g_autofree gboolean *differs = g_new0 (gboolean, n_columns ());

  return !find_differences (results, rows, n, differs) || store_columns (results, differs, FALSE, error);
}

/* The columns that vary within the first rows are stored from the start. */
static gboolean
begin_form (PsResults *results, PsResult *const *rows, guint n, GError **error)
{
  g_autofree gboolean *differs = g_new0 (gboolean, n_columns ());
  guint first = 0;

  while (first < n && rows[first]->reason != NULL)
    first++;
  if (first == n)
    return TRUE;
  if (!begin_same (results, copy_values (rows[first]->values), error))
    return FALSE;
  find_differences (results, rows, n, differs);
  for (guint i = 0; i < n_columns (); i++)
    differs[i] |= !reads_back (results, &results->same[i]);
  return store_columns (results, differs, TRUE, error);
}

static PsRows *
insert_new (PsResults *results, guint n_rows, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("INSERT OR IGNORE INTO main."), row = g_string_new ("(?, ?");

  g_string_append_printf (sql, "%s (", results->whole ? "prediction" : "varying");
  append_stored (results, sql);
  for (guint i = 0; i < n_columns (); i++)
    g_string_append (row, results->varies[i] ? ", ?" : "");
  for (guint i = 0; i < n_rows; i++)
    g_string_append_printf (sql, "%s %s)", i ? "," : ") VALUES", row->str);
  return ps_rows_new (results->file, error, sql->str, "");
}

static void
set_value (PsRows *insert, int parameter, const PsValue *value)
{
  switch (value->type)
    {
    case PS_VALUE_INTEGER:
      ps_rows_set_integer (insert, parameter, value->integer);
      return;
    case PS_VALUE_REAL:
      ps_rows_set_real (insert, parameter, value->real);
      return;
    case PS_VALUE_TEXT:
      ps_rows_set_text (insert, parameter, value->text);
      return;
    case PS_VALUE_NONE:
    default:
      ps_rows_set_null (insert, parameter);
      return;
    }
}

static gboolean
store_predicted (const PsResults *results, PsRows *insert, PsResult *const *rows, guint n, GError **error)
{
  int parameter = 0;
  gboolean found;

  ps_rows_repeat (insert);
  for (guint i = 0; i < n; i++)
    {
      ps_rows_set_integer (insert, parameter++, (gint64)rows[i]->point);
      ps_rows_set_text (insert, parameter++, rows[i]->digest);
      for (guint c = 0; c < n_columns (); c++)
        if (results->varies[c])
          set_value (insert, parameter++, &rows[i]->values[c]);
    }
  return ps_rows_next (insert, &found, error);
}

static gboolean
store_all_predicted (PsResults *results, PsResult *const *rows, guint n, GError **error)
{
  if (results->many == NULL)
    results->many = insert_new (results, ROWS_AT_ONCE, error);
  if (results->many == NULL)
    return FALSE;
  if (results->single == NULL)
    results->single = insert_new (results, 1, error);
  if (results->single == NULL)
    return FALSE;
  for (; n >= ROWS_AT_ONCE; rows += ROWS_AT_ONCE, n -= ROWS_AT_ONCE)
    if (!store_predicted (results, results->many, rows, ROWS_AT_ONCE, error))
      return FALSE;
  for (; n > 0; rows++, n--)
    if (!store_predicted (results, results->single, rows, 1, error))
      return FALSE;
  return TRUE;
}

static gboolean
store_skipped (PsResults *results, const PsResult *row, GError **error)
{
  gboolean found;

  if (results->skipped == NULL)
    results->skipped = ps_rows_new (results->file, error, "INSERT OR IGNORE INTO skipped VALUES (?, ?, ?)", "");
  if (results->skipped == NULL)
    return FALSE;
  ps_rows_repeat (results->skipped);
  ps_rows_set_integer (results->skipped, 0, (gint64)row->point);
  ps_rows_set_text (results->skipped, 1, row->digest);
  ps_rows_set_text (results->skipped, 2, row->reason);
  return ps_rows_next (results->skipped, &found, error);
}

static gboolean
store_rows (PsResults *results, PsResult *const *rows, guint n, GError **error)
{
  g_autoptr (GPtrArray) predicted = g_ptr_array_sized_new (n);

  if (!read_form (results, error))
    return FALSE;
  if (results->varies != NULL ? !vary (results, rows, n, error) : !begin_form (results, rows, n, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    if (rows[i]->reason == NULL)
      g_ptr_array_add (predicted, rows[i]);
    else if (!store_skipped (results, rows[i], error))
      return FALSE;
  return predicted->len == 0
         || store_all_predicted (results, (PsResult *const *)predicted->pdata, predicted->len, error);
}

gboolean
ps_results_end (PsResults *results, gboolean ok, GError **error)
{
  if (ps_database_end (results->file, ok, error))
    return TRUE;
  ps_results_forget (results);
  return FALSE;
}

gboolean
ps_results_store (PsResults *results, PsResult *const *rows, guint n, GError **error)
{
  return ps_database_begin (results->file, error)
         && ps_results_end (results, store_rows (results, rows, n, error), error);
}

/* Merging */

/* Marks columns that do not vary here and in which a prediction of `other` has another value. */
static gboolean
find_differences_of_other (PsResults *results, gboolean *differs, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT count (*)");
  g_autoptr (PsRows) rows = NULL;
  gboolean found;

  for (guint i = 0; i < n_columns (); i++)
    {
      g_string_append_printf (sql, ", max (%s IS NOT ", column_at (i)->key);
      ps_results_quote (sql, &results->same[i]);
      g_string_append (sql, ")");
    }
  g_string_append (sql, " FROM other.prediction");
  rows = ps_rows_new (results->file, error, sql->str, "");
  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  for (guint i = 0; i < n_columns (); i++)
    differs[i] = ps_rows_integer (rows, (int)i + 1) || !reads_back (results, &results->same[i]);
  return TRUE;
}

static gboolean
begin_like_other (PsResults *results, GError **error)
{
  PsValue *values;

  return read_any (results, "other", &values, error) && (values == NULL || begin_same (results, values, error));
}

static gboolean
copy_predicted (PsResults *results, gboolean is_new, GError **error)
{
  g_autofree gboolean *differs = g_new0 (gboolean, n_columns ());
  g_autoptr (GString) sql = g_string_new ("INSERT OR IGNORE INTO main.");
  g_autoptr (GString) columns = g_string_new (NULL);

  if (!results->whole
      && (!find_differences_of_other (results, differs, error) || !store_columns (results, differs, is_new, error)))
    return FALSE;
  append_stored (results, columns);
  g_string_append_printf (sql, "%s (%s) SELECT %s FROM other.prediction", results->whole ? "prediction" : "varying",
                          columns->str, columns->str);
  return ps_database_script (results->file, sql->str, error);
}

gboolean
ps_results_copy (PsResults *results, GError **error)
{
  gboolean is_new;

  if (!read_form (results, error))
    return FALSE;
  is_new = results->varies == NULL;
  return (!is_new || begin_like_other (results, error))
         && (results->varies == NULL || copy_predicted (results, is_new, error))
         && ps_database_script (results->file, "INSERT OR IGNORE INTO main.skipped SELECT * FROM other.skipped", error);
}
