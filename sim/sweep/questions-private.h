/* questions-private.h - how questions become SQL, and rows tables. Private to libpipesim. */
#pragma once

#include "results-private.h"

#include <pipesim/questions.h>

/* Checks the columns of a question. Errors: PS_ERROR_USAGE. */
gboolean ps_question_check (const PsQuestion *question, GError **error);

/* Refuses a name that is no key of a column, or with `number` of no column of numbers. */
gboolean ps_question_check_key (const char *option, const char *name, gboolean number, GError **error);

/* " WHERE feasible AND ..." with the values as SQL literals. Errors: PS_ERROR_USAGE. */
gboolean ps_question_append_where (const PsQuestion *question, GString *sql, GError **error);

/* Whether a condition lets asynchronous schedules count. */
gboolean ps_question_counts_asynchronous (const PsQuestion *question);

/* Whether a condition on the column begins with one of the signs. */
gboolean ps_question_asks (const PsQuestion *question, const PsColumn *column, const char *signs);

/* Whether the column's value comes with the schedule, as chunks do. */
gboolean ps_question_comes_with_schedule (const char *column);

/* Whether the column follows from one of `per`, or is known to predictions alone. */
gboolean ps_question_follows (const char *column, const char *const *per);

/* The column of the result of that name, which is one. */
const PsColumn *ps_result_column (const char *name);

/* An answer with these columns and no rows; columns are copied. */
PsAnswer *ps_answer_new (const PsColumn *columns, guint n);

/* The value of a column as its type has it; its text is the caller's, ps_value_clear frees it. */
PsValue ps_rows_value (PsRows *rows, int index, const PsColumn *column);
void ps_value_clear (PsValue *value);

/* Sets a cell of the last row, unless there is no value. */
void ps_answer_set (PsAnswer *answer, const PsColumn *column, const PsValue *value);
