/* polish.h - the last method of a search whose price is not its objective. */
#ifndef PS_SEARCH_POLISH_H
#define PS_SEARCH_POLISH_H

#include "runner.h"

G_BEGIN_DECLS

/* Moves single ops of the runner's best schedule and keeps what lowers its price, for about n_moves. */
void ps_runner_polish (PsRunner *runner, guint64 n_moves);

G_END_DECLS

#endif
