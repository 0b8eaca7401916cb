/* conditions.c - the columns of results, their values as text, and the conditions of a question. */
#include "questions-private.h"

#include <math.h>
#include <string.h>

PsValue
ps_rows_value (PsRows *rows, int index, const PsColumn *column)
{
  if (ps_rows_is_null (rows, index))
    return (PsValue){ .type = PS_VALUE_NONE };
  switch (column->type)
    {
    case PS_COLUMN_RATIO:
    case PS_COLUMN_NUMBER:
    case PS_COLUMN_RATE:
      return (PsValue){ .type = PS_VALUE_REAL, .real = ps_rows_real (rows, index) };
    case PS_COLUMN_BOOLEAN:
    case PS_COLUMN_INTEGER:
      return (PsValue){ .type = PS_VALUE_INTEGER, .integer = ps_rows_integer (rows, index) };
    case PS_COLUMN_TIME: /* some are means */
    case PS_COLUMN_SIZE:
      return (PsValue){ .type = PS_VALUE_INTEGER, .integer = llround (ps_rows_real (rows, index)) };
    default:
      return (PsValue){ .type = PS_VALUE_TEXT, .text = ps_rows_text (rows, index) };
    }
}

void
ps_value_clear (PsValue *value)
{
  if (value->type == PS_VALUE_TEXT)
    g_free ((char *)value->text);
  value->type = PS_VALUE_NONE;
}

const PsColumn *
ps_result_column (const char *name)
{
  guint n;

  return &ps_result_columns (&n)[ps_result_column_find (name)].column;
}

char *
ps_result_value_text (const char *name, const PsValue *value)
{
  const PsColumn *column = ps_result_column (name);

  if (value->type == PS_VALUE_NONE)
    return g_strdup ("none");
  if (value->type == PS_VALUE_TEXT)
    return g_strdup (value->text);
  if (column->type == PS_COLUMN_RATE)
    return ps_format_rate (value->real);
  if (value->type == PS_VALUE_REAL)
    return g_strdup_printf ("%.6g", value->real);
  if (column->type == PS_COLUMN_TIME)
    return ps_format_time (value->integer);
  if (column->type == PS_COLUMN_SIZE)
    return ps_format_size (value->integer);
  if (column->type == PS_COLUMN_BOOLEAN)
    return g_strdup (value->integer ? "yes" : "no");
  return g_strdup_printf ("%" G_GINT64_FORMAT, value->integer);
}

/* Checking */

static const PsColumn *
find_called (const char *option, const char *name, gboolean number, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autofree char *problem
      = g_strdup_printf ("%s: '%s' is no column%s; there are", option, name, number ? " of numbers" : "");
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);

  for (guint i = 0; i < n; i++)
    {
      const PsColumn *column = &columns[i].column;

      if (column->title == NULL || (number && column->type == PS_COLUMN_TEXT))
        continue;
      if (ps_column_is_called (column, name))
        return column;
      g_ptr_array_add (names, (gpointer)column->title);
    }
  ps_refuse_name (error, problem, name, (const char *const *)names->pdata, names->len);
  return NULL;
}

gboolean
ps_result_column_resolve (const char *option, char **name, gboolean number, GError **error)
{
  const PsColumn *column = find_called (option, *name, number, error);

  if (column == NULL)
    return FALSE;
  g_free (*name);
  *name = g_strdup (column->key);
  return TRUE;
}

gboolean
ps_question_check_key (const char *option, const char *name, gboolean number, GError **error)
{
  const PsColumn *column = find_called (option, name, number, error);

  return column != NULL
         && (g_str_equal (column->key, name)
             || ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is no key of a column; %s is", option, name, column->key));
}

gboolean
ps_question_check (const PsQuestion *question, GError **error)
{
  for (guint i = 0; question->per != NULL && question->per[i] != NULL; i++)
    if (!ps_question_check_key ("--per", question->per[i], FALSE, error))
      return FALSE;
  for (guint i = 0; question->columns != NULL && question->columns[i] != NULL; i++)
    if (!ps_question_check_key ("--columns", question->columns[i], FALSE, error))
      return FALSE;
  return ps_question_check_key ("--by", question->by, TRUE, error);
}

static gboolean
read_number (const PsColumn *column, const char *text, double *number, GError **error)
{
  char *end;

  *number = g_ascii_strtod (text, &end);
  if (end != text && *end == '\0' && isfinite (*number))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is no number, as %s is", text, column->key);
}

static gboolean
read_quantity (const PsColumn *column, const char *text, gint64 *value, GError **error)
{
  *value = g_str_equal (text, "yes");
  if (column->type == PS_COLUMN_TIME)
    return ps_parse_time ("--where", text, value, error);
  if (column->type == PS_COLUMN_SIZE)
    return ps_parse_size ("--where", text, value, error);
  if (column->type == PS_COLUMN_RATE)
    return ps_parse_rate ("--where", text, value, error);
  if (*value || g_str_equal (text, "no"))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is not yes, no or any, as %s is", text, column->key);
}

static gboolean
append_value (GString *sql, const PsColumn *column, const char *text, GError **error)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];
  double number = 0;
  gint64 value = 0;

  if (column->type == PS_COLUMN_TEXT)
    {
      ps_results_quote (sql, &(PsValue){ .type = PS_VALUE_TEXT, .text = text });
      return TRUE;
    }
  if (column->type == PS_COLUMN_BOOLEAN && g_str_equal (text, "any"))
    {
      g_string_append (sql, column->key); /* equals itself */
      return TRUE;
    }
  if (column->type == PS_COLUMN_INTEGER || column->type == PS_COLUMN_NUMBER || column->type == PS_COLUMN_RATIO)
    {
      if (!read_number (column, text, &number, error))
        return FALSE;
      g_string_append (sql, g_ascii_dtostr (buffer, sizeof buffer, number));
      return TRUE;
    }
  if (!read_quantity (column, text, &value, error))
    return FALSE;
  g_string_append_printf (sql, "%" G_GINT64_FORMAT, value);
  return TRUE;
}

/* "devices>=8": column, operator, value. */
static gboolean
append_condition (GString *sql, const char *text, GError **error)
{
  gsize name_length = strcspn (text, "!<>="), length = strspn (text + name_length, "!<>=");
  g_autofree char *name = g_strndup (text, name_length), *sign = g_strndup (text + name_length, length);
  static const char *const signs[] = { "=", "!=", "<=", ">=", "<", ">", NULL };
  const PsColumn *column;

  if (!g_strv_contains (signs, sign))
    return ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is not COLUMN=VALUE, nor with one of != <= >= < >", text);
  column = find_called ("--where", g_strstrip (name), FALSE, error);
  if (column == NULL)
    return FALSE;
  g_string_append_printf (sql, " AND %s %s ", column->key, sign);
  return append_value (sql, column, text + name_length + length, error);
}

static gboolean
append_conditions (const PsQuestion *question, GString *sql, GError **error)
{
  for (guint i = 0; question->where != NULL && question->where[i] != NULL; i++)
    if (!append_condition (sql, question->where[i], error))
      return FALSE;
  return TRUE;
}

gboolean
ps_question_asks (const PsQuestion *question, const PsColumn *column, const char *signs)
{
  for (guint i = 0; question->where != NULL && question->where[i] != NULL; i++)
    {
      const char *text = question->where[i];
      gsize length = strcspn (text, "!<>=");
      g_autofree char *name = g_strndup (text, length);

      if (ps_column_is_called (column, name) && strchr (signs, text[length]) != NULL)
        return TRUE;
    }
  return FALSE;
}

gboolean
ps_question_counts_asynchronous (const PsQuestion *question)
{
  return ps_question_asks (question, ps_result_column ("schedule"), "=")
         || ps_question_asks (question, ps_result_column ("asynchronous"), "!<>=");
}

char *
ps_question_left_out (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (GString) sql
      = g_string_new ("SELECT replace (group_concat (DISTINCT schedule), ',', ', ') FROM result WHERE asynchronous");
  g_autoptr (PsRows) rows = NULL;
  g_autofree char *names = NULL;
  gboolean found;

  if (ps_question_counts_asynchronous (question))
    return g_strdup ("");
  g_string_append (sql, " AND feasible");
  if (!append_conditions (question, sql, error))
    return NULL;
  rows = ps_rows_new (results->file, error, sql->str, "");
  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return NULL;
  if (ps_rows_is_null (rows, 0))
    return g_strdup ("");
  names = ps_rows_text (rows, 0);
  return g_strdup_printf (
      "%s: asynchronous, their gradients are of older weights; --where asynchronous=any counts them", names);
}

gboolean
ps_question_append_where (const PsQuestion *question, GString *sql, GError **error)
{
  g_string_append (sql, ps_question_counts_asynchronous (question) ? " WHERE feasible"
                                                                   : " WHERE feasible AND NOT asynchronous");
  return append_conditions (question, sql, error);
}
