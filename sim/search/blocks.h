/* blocks.h - orders that repeat a block: the slots of ps_family_v_hops, with waits of their own, or periods of a cell.
 */
#pragma once

#include "cell.h"
#include "greedy.h"

typedef struct
{
  guint8 *wait; /* [2 * n_stages] slots before F and B of each stage */
  PsCell cell;
  guint n_w;      /* of every two W, that the cell has room for */
  double stretch; /* of the cell's period, in parts of the work in it */
  double pace;    /* least time between microbatches, in parts of what time and memory allow on average */
  guint burst;    /* microbatches that may come ahead of the pace */
  gboolean has_w; /* whether the plan says where W run */
  guint n_last;   /* as in PsPlan */
} PsBlock;

typedef struct
{
  gboolean have_slots; /* slots, not cells */
  PsRandom random;
  PsBlock best;
  gint64 best_ns;                                      /* objective of its order; G_MAXINT64: none yet */
  guint64 n_tries;                                     /* orders of one search */
  guint64 n_moves;                                     /* that an order counts as */
  gboolean (*spend) (guint64 n_moves, gpointer data);  /* told of moves before they are made; FALSE ends the search */
  void (*offer) (const PsOrder *order, gpointer data); /* told each solution that is no worse than the one before */
  gpointer data;
} PsBlocks;

void ps_blocks_init (PsBlocks *blocks, const PsProblem *problem);
void ps_blocks_clear (PsBlocks *blocks);

/* Whether blocks may help: no ops are sliced or joined, and the problem is a V of two chunks, which has slots, or is
 * large and has cells. */
gboolean ps_blocks_suit (const PsProblem *problem, gboolean have_slots);

/* Tries blocks, each like the last good one with a change. `scratch` takes their orders. */
void ps_blocks_search (PsBlocks *blocks, PsOrder *scratch);
