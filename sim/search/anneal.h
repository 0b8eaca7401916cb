/* anneal.h - local search: single ops move along their device, worse orders are taken with falling probability. */
#pragma once

#include "order.h"
#include "random.h"

/* Moves between two calls of go_on. */
#define ANNEAL_ROUND 512

typedef struct
{
  PsRandom random;
  double hot;      /* temperature at the start, ns */
  double cold;     /* at the end */
  double price;    /* of a byte of excess at the start, ns; ten times that at the end; negative: no excess is allowed */
  double pull;     /* weight of the devices' mean finish in the cost that is minimised */
  guint64 n_moves; /* to try */
  gint64 stop_at_ns;                 /* an objective that ends the search: a lower bound */
  gboolean (*go_on) (gpointer data); /* called now and then; FALSE ends the search; NULL: always TRUE */
  void (*offer) (const PsOrder *best, gpointer data); /* told the best so far at moments that depend on n_moves alone,
                                                         but not at the end; NULL: not told */
  gpointer data;
} PsAnnealing;

/* Improves the order (evaluated, a solution) in place; at the end it is the best solution met. Orders on the way may
 * exceed limits, at a rising price. Returns the moves tried. */
guint64 ps_anneal (PsOrder *order, PsAnnealing *annealing);
