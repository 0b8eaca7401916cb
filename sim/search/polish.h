/* polish.h - the last method of a search whose price is not its objective. */
#pragma once

#include "random.h"
#include "windows.h"
#include "seeds.h"
#include "blocks.h"
#include "greedy.h"
#include "order.h"

/* Moves one op by a few places, if that leaves a solution whose objective is not above `enough`. */
gboolean ps_order_move_one (PsOrder *order, gint64 enough, PsRandom *random);
