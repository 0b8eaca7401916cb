/* guess.h - a guess of the price of an order whose transfers queue, hold up devices or slow them down. A price lowers a
 * program and simulates several orders of its sends and receives. A guess goes through the order once. Of the transfers
 * that may begin, the most urgent one goes first: of the orders that a price tries, this one is the best most often. A
 * guess is near the price, and mostly not below it. */
#pragma once

#include "order.h"

typedef struct _PsGuess PsGuess;

/* For orders of the problem. NULL: the channels say too little of prices, or nothing beyond the objective. Free with
 * ps_guess_free. */
PsGuess *ps_guess_new (const PsProblem *problem, const PsSearchChannels *channels);
void ps_guess_free (PsGuess *guess);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsGuess, ps_guess_free)

/* The order must be evaluated, tails too. Any value above `enough` as soon as the guess is certain to exceed that. */
gint64 ps_guess_price (PsGuess *guess, const PsOrder *order, gint64 enough);
