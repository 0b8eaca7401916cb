/* questions.h - questions to a database of results: the settings that are worth having, the best one, and the point
 * where one schedule overtakes another. */
#ifndef PIPESIM_QUESTIONS_H
#define PIPESIM_QUESTIONS_H

#include <pipesim/results.h>

G_BEGIN_DECLS

/* Columns are named by their keys in the view result (data/results.sql); conditions take what people call them, too.
 * Settings that do not fit their memory limit never count. Asynchronous schedules train differently: they count only
 * where a condition of `where` names one ("schedule=NAME") or is about the column asynchronous ("asynchronous=any"
 * always holds). */
typedef struct
{
  char **per;     /* columns: one answer for each combination of their values (PsScope); NULL or none: one for all */
  char **where;   /* "COLUMN=VALUE" (or != <= >= < >) that all must hold; NULL: nothing. With units */
  char **columns; /* pareto, best: columns that rows hold besides; NULL: none */
  char *by;       /* a column that should be small, such as time */
  guint top;      /* best: number of settings in each group, at least 1 */
  char *over;     /* sensitivity: the column that changes; NULL: microbatches */
  gint64 *limits; /* best: memory limits in bytes, ascending, one answer for each; NULL: those of the settings */
  guint n_limits;
} PsQuestion;

/* A table with the columns that it points into. */
typedef struct
{
  PsColumn *columns;
  guint n_columns;
  PsTable *table;
  char *about; /* as of PsScope */
} PsAnswer;

/* How a question divides the settings. Circumstances are no choices: bandwidth, latency, model, cluster, costs, memory
 * limit, batch and all else that is as it is. Where they vary, each combination has an answer of its own, as if `per`
 * named them. With microbatches in `per` the batch follows from them, and what multiplies it is held instead. */
typedef struct
{
  char **per;     /* the question's own, then the circumstances that vary; only its own where those are NULL or none */
  char **varying; /* columns of settings with several values */
  gboolean asynchronous; /* asynchronous schedules count */
  char *about; /* "fixed: p = 4; held apart: bandwidth factor; chosen: schedule, m, v"; defaults are left out */
} PsScope;

void ps_scope_free (PsScope *scope);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsScope, ps_scope_free)

/* All functions below divide so. Errors: PS_ERROR_USAGE for unknown columns and values. */
PsScope *ps_question_scope (PsResults *results, const PsQuestion *question, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A value of that column for people: "zb-h1", "8", "16 GiB", "yes"; "none" if there is none. Free with g_free. */
char *ps_result_value_text (const char *column, const PsValue *value);

/* The schedules that a question leaves out because they are asynchronous, as a sentence for people; "" for none. Free
 * with g_free. Errors: PS_ERROR_USAGE for unknown columns and values. */
char *ps_question_left_out (PsResults *results, const PsQuestion *question, GError **error) G_GNUC_WARN_UNUSED_RESULT;

void ps_answer_free (PsAnswer *answer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsAnswer, ps_answer_free)

/* Puts the key of a column of the view result in place of what people call it (ps_column_is_called). With `number` it
 * must be a column of numbers. The message starts with `option`. Errors: PS_ERROR_USAGE. */
gboolean ps_result_column_resolve (const char *option, char **name, gboolean number, GError **error);

/* Fails about a question that no setting answers: says whether the database holds no prediction, or none that fits. Its
 * path stands first in the message. */
gboolean ps_question_refuse_none (PsResults *results, const PsQuestion *question, const char *path, GError **error);

/* Values of some columns, row by row. */
typedef struct
{
  guint n_columns;
  guint n_rows;
  PsValue *values; /* [row * n_columns + column]; texts are owned here */
} PsResultValues;

void ps_result_values_free (PsResultValues *values);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsResultValues, ps_result_values_free)

/* These columns (ending with NULL) of the fastest setting of each group, by the columns of `per`. `top` and limits
 * count for nothing. Errors: PS_ERROR_USAGE for unknown columns and values. */
PsResultValues *ps_results_values (PsResults *results, const PsQuestion *question, const char *const *columns,
                                   GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The Pareto front of time against peak memory of each group, by group, then memory. It leaves out a setting where
 * another one is faster without more memory, or needs less without being slower; of equal ones it keeps the first. Rows
 * hold the columns of `per`, the settings that differ anywhere, and the figures. Errors: PS_ERROR_USAGE for unknown
 * columns and values. */
PsAnswer *ps_results_pareto (PsResults *results, const PsQuestion *question, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The fastest settings of each group; among equals those that need less memory. */
PsAnswer *ps_results_best (PsResults *results, const PsQuestion *question, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The fastest schedule as the column `over` goes from its smallest value to its largest: one row for each stretch that
 * one schedule wins. Everything else that was swept is held fixed; or only `per`, when given, with the best of all that
 * it leaves open.
 *
 * - from, to: first and last value of the stretch;
 * - winner: its fastest schedule; the winner before stays so while it is as fast as any;
 * - ahead: the time that it saves against the second at `from`, as a part of the second's;
 * - before: the winner of the stretch before;
 * - break_even: the value where both are as fast, by linear interpolation between the last value before and `from`;
 *   numbers only;
 * - statement: the same in words.
 *
 * Errors: PS_ERROR_USAGE for unknown columns and values.
 */
PsAnswer *ps_results_sensitivity (PsResults *results, const PsQuestion *question,
                                  GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
