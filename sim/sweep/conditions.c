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
  if (value->type == PS_VALUE_REAL && g_str_equal (name, "link_bandwidth"))
    return g_strdup_printf ("%.4g GB/s", value->real / 1e9);
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

gboolean
ps_result_column_check (const char *option, const char *name, gboolean number, GError **error)
{
  g_autoptr (GString) names = g_string_new (NULL);
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);
  int index = ps_result_column_find (name);

  if (index >= 0 && columns[index].column.title != NULL && (!number || columns[index].column.type != PS_COLUMN_TEXT))
    return TRUE;
  for (guint i = 0; i < n; i++)
    if (columns[i].column.title != NULL && (!number || columns[i].column.type != PS_COLUMN_TEXT))
      g_string_append_printf (names, "%s%s", names->len ? " " : "", columns[i].column.key);
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is no column%s; there are %s", option, name,
                    number ? " of numbers" : "", names->str);
}

gboolean
ps_question_check (const PsQuestion *question, GError **error)
{
  for (guint i = 0; question->per != NULL && question->per[i] != NULL; i++)
    if (!ps_result_column_check ("--per", question->per[i], FALSE, error))
      return FALSE;
  return ps_result_column_check ("--by", question->by, TRUE, error);
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
  if (*value || g_str_equal (text, "no"))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is not yes, no or any, as %s is", text, column->key);
}

static gboolean
append_value (GString *sql, const PsColumn *column, const char *text, GError **error)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];
  g_auto (GStrv) parts = NULL;
  g_autofree char *quoted = NULL;
  double number = 0;
  gint64 value = 0;

  if (column->type == PS_COLUMN_TEXT)
    {
      parts = g_strsplit (text, "'", -1);
      quoted = g_strjoinv ("''", parts);
      g_string_append_printf (sql, "'%s'", quoted);
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

  if (!g_strv_contains (signs, sign))
    return ps_refuse (error, PS_ERROR_USAGE, "--where: '%s' is not COLUMN=VALUE, nor with one of != <= >= < >", text);
  if (!ps_result_column_check ("--where", name, FALSE, error))
    return FALSE;
  g_string_append_printf (sql, " AND %s %s ", name, sign);
  return append_value (sql, ps_result_column (name), text + name_length + length, error);
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
ps_question_counts_asynchronous (const PsQuestion *question)
{
  for (guint i = 0; question->where != NULL && question->where[i] != NULL; i++)
    if (g_str_has_prefix (question->where[i], "schedule=") || g_str_has_prefix (question->where[i], "asynchronous"))
      return TRUE;
  return FALSE;
}

char *
ps_question_left_out (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT group_concat (DISTINCT schedule) FROM result WHERE asynchronous");
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
