/* circumstances.c - what a question holds fixed or apart, and what it leaves to be chosen. */
#include "questions-private.h"
#include "setting/options.h"

#include <pipesim/costdb.h>

/* The schedule, and the columns that come with it: they are no question of their own. */
static const char *const with_schedule[]
    = { "schedule", "chunks", "slices", "group_size", "defer_head", "placement", "layout", NULL };

/* Columns that whoever trains decides. All others are circumstances: the machine, the model and the training, which are
 * as they are. */
static const char *const decided[]
    = { "devices",    "microbatches", "microbatch_size",  "recompute", "offload", "replicas", "adjacent_replicas",
        "tensor",     "context",      "experts",          "zero",      "reduce",  "sync",     "cuda_graphs",
        "comm_order", "ready_order",  "microbatch_order", NULL };

static const char *const nothing[] = { NULL };

gboolean
ps_question_comes_with_schedule (const char *column)
{
  return g_strv_contains (with_schedule, column);
}

/* Columns that follow from one of the question, or that only a prediction knows. */
gboolean
ps_question_follows (const char *column, const char *const *per)
{
  static const char *const causes[][2] = { { "link_bandwidth", "bandwidth_factor" },
                                           { "link_latency_ns", "latency_factor" },
                                           { "microbatches", "global_batch" } };

  if (g_str_equal (column, "link_bandwidth") || g_str_equal (column, "link_latency_ns"))
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (causes); i++)
    if (g_str_equal (column, causes[i][1]) && g_strv_contains (per, causes[i][0]))
      return TRUE;
  return FALSE;
}

/* Circumstances, and with the microbatches what makes the batch of them. */
static gboolean
is_held (const char *column, const char *const *per)
{
  if (g_str_equal (column, "replicas") || g_str_equal (column, "microbatch_size"))
    return g_strv_contains (per, "microbatches");
  return !g_strv_contains (with_schedule, column) && !g_strv_contains (decided, column)
         && !ps_question_follows (column, per);
}

void
ps_scope_free (PsScope *scope)
{
  if (scope == NULL)
    return;
  g_strfreev (scope->per);
  g_strfreev (scope->varying);
  g_free (scope->about);
  g_free (scope);
}

static gboolean
is_default (guint column, const PsSetting *defaults, const PsColumn *shown, const PsValue *value)
{
  const PsOption *option = &ps_setting_options[column];
  PsValue usual = ps_setting_column (option, defaults);
  g_autofree char *a = ps_result_value_text (shown->key, value), *b = ps_result_value_text (shown->key, &usual);

  return value->type == PS_VALUE_NONE || g_str_equal (a, b);
}

/* Appends "p = 4" of a column that has one value, unless the value goes without saying and was not asked for. */
static void
append_fixed (GString *fixed, guint index, const PsColumn *column, PsRows *rows, const PsQuestion *question)
{
  gboolean implied = g_strv_contains (with_schedule + 1, column->key) || ps_question_follows (column->key, nothing);
  g_autoptr (PsSetting) defaults = ps_setting_new ();
  PsValue value = ps_rows_value (rows, 2 * (int)index + 2, column);
  g_autofree char *text = ps_result_value_text (column->key, &value);

  if (column->title != NULL && !implied
      && (!is_default (index, defaults, column, &value) || ps_question_asks (question, column, "=")))
    g_string_append_printf (fixed, "%s%s = %s", fixed->len ? ", " : "", column->title, text);
  ps_value_clear (&value);
}

static void
append_title (GString *list, const PsColumn *column)
{
  if (column->title != NULL)
    g_string_append_printf (list, "%s%s", list->len ? ", " : "", column->title);
}

/* One row: for each column whether it varies, and its least value; last the largest unrest. */
static PsRows *
survey (PsResults *results, const PsQuestion *question, GError **error)
{
  g_autoptr (GString) sql = g_string_new ("SELECT count (*)");
  g_autoptr (PsRows) rows = NULL;
  gboolean found;
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);

  for (guint i = 0; columns[i].role == PS_ROLE_SETTING; i++)
    {
      const char *key = columns[i].column.key;

      g_string_append_printf (sql, ", min (%s) IS NOT max (%s) OR count (%s) NOT IN (0, count (*)), min (%s)", key, key,
                              key, key);
    }
  g_string_append (sql, ", max (unrest) FROM result");
  if (!ps_question_append_where (question, sql, error))
    return NULL;
  rows = ps_rows_new (results->file, error, sql->str, "");
  return rows != NULL && ps_rows_next (rows, &found, error) ? g_steal_pointer (&rows) : NULL;
}

static char *
describe (const GString *fixed, const GString *apart, const GString *chosen, gboolean asynchronous, double unrest)
{
  g_autofree char *restless = ps_unrest_to_text (unrest, "");

  return g_strdup_printf ("%s%s%s%s%s%s%s%s%s%s%s", fixed->len ? "fixed: " : "", fixed->str,
                          fixed->len && apart->len + chosen->len ? "; " : "", apart->len ? "held apart: " : "",
                          apart->str, apart->len && chosen->len ? "; " : "", chosen->len ? "chosen: " : "", chosen->str,
                          asynchronous ? "; asynchronous schedules count" : "", *restless ? "; " : "", restless);
}

PsScope *
ps_question_scope (PsResults *results, const PsQuestion *question, GError **error)
{
  const char *const *asked = question->per != NULL ? (const char *const *)question->per : nothing;
  g_autoptr (PsRows) rows = ps_question_check (question, error) ? survey (results, question, error) : NULL;
  g_autoptr (GStrvBuilder) per = g_strv_builder_new (), varying = g_strv_builder_new ();
  g_autoptr (GString) fixed = g_string_new (NULL), apart = g_string_new (NULL), chosen = g_string_new (NULL);
  guint n;
  const PsResultColumn *columns = ps_result_columns (&n);
  PsScope *scope;
  guint n_settings = 0;

  if (rows == NULL)
    return NULL;
  g_strv_builder_addv (per, (const char **)asked);
  for (guint i = 0; columns[i].role == PS_ROLE_SETTING; i++, n_settings++)
    {
      const PsColumn *column = &columns[i].column;
      gboolean is_asked = g_strv_contains (asked, column->key), held = *asked != NULL && is_held (column->key, asked);

      if (!ps_rows_integer (rows, 2 * (int)i + 1))
        {
          append_fixed (fixed, i, column, rows, question);
          continue;
        }
      g_strv_builder_add (varying, column->key);
      if (held && !is_asked)
        g_strv_builder_add (per, column->key);
      if (is_asked || !ps_question_follows (column->key, asked))
        append_title (is_asked || held ? apart : chosen, column);
    }
  scope = g_new0 (PsScope, 1);
  scope->per = g_strv_builder_end (per);
  scope->varying = g_strv_builder_end (varying);
  scope->asynchronous = ps_question_counts_asynchronous (question);
  scope->about = describe (fixed, apart, chosen, scope->asynchronous, ps_rows_real (rows, 2 * (int)n_settings + 1));
  return scope;
}
