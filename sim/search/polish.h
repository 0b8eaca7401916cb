/* polish.h - the last method of a search whose price is not its objective. */
#pragma once

#include "order.h"
#include "runner.h"

/* Moves one op by a few places, if that leaves a solution whose objective is not above `enough`. */
gboolean ps_order_move_one (PsOrder *order, gint64 enough, PsRandom *random);

/* Moves single ops of the runner's best schedule and keeps what lowers its price, for about n_moves. */
void ps_runner_polish (PsRunner *runner, guint64 n_moves);
