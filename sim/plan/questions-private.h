/* questions-private.h - how questions become SQL, and rows tables. Private to libpipesim. */
#pragma once

#include "results-private.h"
#include <pipesim/sweep.h>

/* " WHERE feasible AND ..." with the values as SQL literals. Errors: PS_ERROR_USAGE. */
gboolean ps_question_append_where (const PsQuestion *question, GString *sql, GError **error);
