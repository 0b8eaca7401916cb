/* polish.h - moves of the last method of a search, whose price is not its objective. */
#pragma once

#include "order.h"
#include "random.h"

/* Moves one op by a few places, if that leaves a solution whose objective is not above `enough`. */
gboolean ps_order_move_one (PsOrder *order, gint64 enough, PsRandom *random);
