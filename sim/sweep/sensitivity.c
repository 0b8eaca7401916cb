/* sensitivity.c - where one schedule overtakes another. */
#include "questions-private.h"

#include <math.h>

/* All that is known at one value of the column, in one group. */
typedef struct
{
  PsValue *cells;    /* [n_held + 1] the group, and the value; texts owned */
  GHashTable *times; /* schedule -> double, its time there */
  char *fastest;
  char *second; /* NULL: there is no other */
} Value;

typedef struct
{
  PsResults *results;
  const PsQuestion *question;
  const PsColumn *over;
  char **held;
  guint n_held;
  char *about;
  GPtrArray *values; /* of Value, by group, then value */
  PsAnswer *answer;
} Task;

static void
task_clear (Task *task)
{
  g_strfreev (task->held);
  g_free (task->about);
  g_ptr_array_unref (task->values);
  ps_answer_free (task->answer);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Task, task_clear)

/* Which columns are held fixed */

/* `over`, then --per; where that is not given all columns that vary but those that come with a schedule. */
static char **
asked_columns (const Task *task, const char *const *varying)
{
  char **per = task->question->per;
  g_autoptr (GStrvBuilder) asked = g_strv_builder_new ();

  g_strv_builder_add (asked, task->over->key);
  if (per != NULL)
    g_strv_builder_addv (asked, (const char **)per);
  for (guint i = 0; per == NULL && varying[i] != NULL; i++)
    if (!g_str_equal (varying[i], task->over->key) && !ps_question_comes_with_schedule (varying[i])
        && !ps_question_follows (varying[i], (const char *[]){ task->over->key, "microbatches", NULL }))
      g_strv_builder_add (asked, varying[i]);
  return g_strv_builder_end (asked);
}

/* Finds the columns that are held fixed, and how the answer says so. */
static gboolean
hold_columns (Task *task, GError **error)
{
  g_autoptr (PsScope) scope = ps_question_scope (task->results, task->question, error), along = NULL;
  g_auto (GStrv) asked = scope != NULL ? asked_columns (task, (const char *const *)scope->varying) : NULL;
  PsQuestion question = *task->question;

  question.per = asked;
  along = scope != NULL ? ps_question_scope (task->results, &question, error) : NULL;
  if (along == NULL)
    return FALSE;
  task->held = g_strdupv (along->per + 1);
  task->n_held = g_strv_length (task->held);
  task->about = g_steal_pointer (&along->about);
  return TRUE;
}

/* Reading */

static void
free_cells (PsValue *cells, guint n)
{
  for (guint i = 0; i < n; i++)
    ps_value_clear (&cells[i]);
  g_free (cells);
}

static void
value_free (Value *value, guint n_cells)
{
  free_cells (value->cells, n_cells);
  g_hash_table_unref (value->times);
  g_free (value->fastest);
  g_free (value->second);
  g_free (value);
}

static PsValue *
read_cells (const Task *task, PsRows *rows)
{
  PsValue *cells = g_new0 (PsValue, task->n_held + 1);

  for (guint i = 0; i < task->n_held; i++)
    cells[i] = ps_rows_value (rows, (int)i, ps_result_column (task->held[i]));
  cells[task->n_held] = ps_rows_value (rows, (int)task->n_held, task->over);
  return cells;
}

static gboolean
same_cells (const PsValue *a, const PsValue *b, guint n)
{
  for (guint i = 0; i < n; i++)
    if (a[i].type != b[i].type || (a[i].type == PS_VALUE_INTEGER && a[i].integer != b[i].integer)
        || (a[i].type == PS_VALUE_REAL && (a[i].real < b[i].real || a[i].real > b[i].real))
        || (a[i].type == PS_VALUE_TEXT && !g_str_equal (a[i].text, b[i].text)))
      return FALSE;
  return TRUE;
}

/* Rows of one value come fastest first. */
static void
add_time (Value *value, char *schedule, double time)
{
  if (value->fastest == NULL)
    value->fastest = g_strdup (schedule);
  else if (value->second == NULL)
    value->second = g_strdup (schedule);
  g_hash_table_insert (value->times, schedule, g_memdup2 (&time, sizeof time));
}

static void
read_row (Task *task, PsRows *rows)
{
  Value *value = task->values->len ? task->values->pdata[task->values->len - 1] : NULL;
  PsValue *cells = read_cells (task, rows);

  if (value != NULL && same_cells (value->cells, cells, task->n_held + 1))
    free_cells (cells, task->n_held + 1);
  else
    {
      value = g_new0 (Value, 1);
      value->cells = cells;
      value->times = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
      g_ptr_array_add (task->values, value);
    }
  add_time (value, ps_rows_text (rows, (int)task->n_held + 1), ps_rows_real (rows, (int)task->n_held + 2));
}

static gboolean
read_values (Task *task, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT ");
  g_autofree char *joined = g_strjoinv (", ", task->held);
  g_autofree char *groups = *joined ? g_strconcat (joined, ", ", NULL) : g_strdup ("");
  g_autoptr (PsRows) rows = NULL;
  gboolean found = TRUE;

  g_string_append_printf (sql, "%s%s, schedule, min (%s) AS least FROM result", groups, task->over->key,
                          task->question->by);
  if (!ps_question_append_where (task->question, sql, error))
    return FALSE;
  g_string_append_printf (sql, " AND %s IS NOT NULL GROUP BY %s%s, schedule ORDER BY %s%s, least, schedule",
                          task->over->key, groups, task->over->key, groups, task->over->key);
  rows = ps_rows_new (task->results->file, error, sql->str, "");
  while (rows != NULL && found)
    {
      if (!ps_rows_next (rows, &found, error))
        return FALSE;
      if (found)
        read_row (task, rows);
    }
  return rows != NULL;
}

/* Answering */

static double
time_of (const Value *value, const char *schedule)
{
  const double *time = schedule != NULL ? g_hash_table_lookup (value->times, schedule) : NULL;

  return time != NULL ? *time : NAN;
}

static double
number_of (const PsValue *value)
{
  return value->type == PS_VALUE_INTEGER ? (double)value->integer : value->type == PS_VALUE_REAL ? value->real : NAN;
}

/* Between the last value at which the old winner was ahead, and this one. NaN where either is not known at both. */
static double
break_even (const Task *task, const Value *last, const char *before, const Value *now)
{
  double left = time_of (last, now->fastest) - time_of (last, before);
  double ahead = time_of (now, before) - time_of (now, now->fastest);
  double from = number_of (&last->cells[task->n_held]), to = number_of (&now->cells[task->n_held]);

  return from + (to - from) * left / (left + ahead);
}

/* "zb-v beats zb-h1 from m = 8 to 16". */
static void
set_statement (const Task *task, const char *before, const Value *first, const Value *last)
{
  g_autofree char *from = ps_result_value_text (task->over->key, &first->cells[task->n_held]);
  g_autofree char *to = ps_result_value_text (task->over->key, &last->cells[task->n_held]);
  g_autofree char *text
      = g_strdup_printf ("%s %s%s %s %s = %s%s%s", first->fastest, before != NULL ? "beats " : "is the fastest",
                         before != NULL ? before : "", first != last ? "from" : "at", task->over->title, from,
                         first != last ? " to " : "", first != last ? to : "");

  ps_table_set_text (task->answer->table, "statement", text);
}

static const PsColumn *
column_of (const Task *task, const char *key)
{
  for (const PsColumn *column = task->answer->columns;; column++)
    if (g_str_equal (column->key, key))
      return column;
}

/* last, before: NULL at the beginning of a group. */
static void
begin_stretch (const Task *task, const Value *last, const char *before, const Value *now)
{
  PsTable *table = task->answer->table;
  double best = time_of (now, now->fastest), second = time_of (now, now->second);

  ps_table_add_row (table);
  for (guint i = 0; i < task->n_held; i++)
    ps_answer_set (task->answer, ps_result_column (task->held[i]), &now->cells[i]);
  ps_answer_set (task->answer, column_of (task, "from"), &now->cells[task->n_held]);
  ps_table_set_text (table, "winner", now->fastest);
  ps_table_set_ratio (table, "ahead", (second - best) / second);
  if (before == NULL)
    return;
  ps_table_set_text (table, "before", before);
  ps_table_set_ratio (table, "break_even", break_even (task, last, before, now));
}

static void
answer (const Task *task)
{
  const Value *last = NULL, *first = NULL;
  const char *winner = NULL, *before = NULL;

  for (guint i = 0; i < task->values->len; i++)
    {
      const Value *now = task->values->pdata[i];

      if (last == NULL || !same_cells (last->cells, now->cells, task->n_held))
        winner = NULL;
      if (winner == NULL || !(time_of (now, winner) <= time_of (now, now->fastest)))
        {
          begin_stretch (task, last, winner, now);
          before = winner;
          winner = now->fastest;
          first = now;
        }
      /* The stretch reaches to here so far. */
      ps_answer_set (task->answer, column_of (task, "to"), &now->cells[task->n_held]);
      set_statement (task, before, first, now);
      last = now;
    }
}

static void
prepare_answer (Task *task)
{
  static const PsColumn figures[] = { { "winner", "winner", PS_COLUMN_TEXT },
                                      { "ahead", "ahead", PS_COLUMN_RATIO },
                                      { "before", "before", PS_COLUMN_TEXT },
                                      { "break_even", "break even", PS_COLUMN_NUMBER },
                                      { "statement", "in words", PS_COLUMN_TEXT } };
  g_autoptr (GArray) columns = g_array_new (FALSE, FALSE, sizeof (PsColumn));
  PsColumn from = { "from", "from", task->over->type }, to = { "to", "to", task->over->type };

  for (guint i = 0; i < task->n_held; i++)
    g_array_append_vals (columns, ps_result_column (task->held[i]), 1);
  g_array_append_val (columns, from);
  g_array_append_val (columns, to);
  g_array_append_vals (columns, figures, G_N_ELEMENTS (figures));
  task->answer = ps_answer_new ((const PsColumn *)(gconstpointer)columns->data, columns->len);
  task->answer->about = g_steal_pointer (&task->about);
}

static gboolean
check_over (const char *over, GError **error)
{
  guint n;
  int index = ps_result_column_find (over);

  if (index >= 0 && ps_result_columns (&n)[index].role == PS_ROLE_SETTING && !g_str_equal (over, "schedule"))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--over: '%s' is no setting; a column such as microbatches is", over);
}

PsAnswer *
ps_results_sensitivity (PsResults *results, const PsQuestion *question, GError **error)
{
  const char *over = question->over != NULL ? question->over : "microbatches";
  g_auto (Task) task = { .results = results, .question = question, .values = g_ptr_array_new () };
  gboolean done;

  if (!ps_question_check (question, error) || !check_over (over, error))
    return NULL;
  task.over = ps_result_column (over);
  done = hold_columns (&task, error) && read_values (&task, error);
  if (done)
    {
      prepare_answer (&task);
      answer (&task);
    }
  for (guint i = 0; i < task.values->len; i++)
    value_free (task.values->pdata[i], task.n_held + 1);
  return done ? g_steal_pointer (&task.answer) : NULL;
}
