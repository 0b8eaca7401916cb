/* polish.h - the last method of a search whose price is not its objective. */
#pragma once

#include "runner.h"

/* Moves single ops of the runner's best schedule and keeps what lowers its price, for about n_moves. */
void ps_runner_polish (PsRunner *runner, guint64 n_moves);
