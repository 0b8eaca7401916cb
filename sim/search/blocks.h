/* blocks.h - orders that repeat a block: on a V, ways with the waits of ps_family_v_hops; else the periods of a cell.
 */
#pragma once

#include "cell.h"
#include "greedy.h"

typedef struct
{
  guint8 *wait; /* [2 * n_stages] on a V: slots before F and B of each stage */
  PsCell cell;
  guint n_w;      /* of every two W, that the cell has room for */
  double stretch; /* of the cell's period, in parts of the work in it */
  double pace;    /* least time between microbatches, in parts of what time and memory allow on average */
  guint burst;    /* microbatches that may come ahead of the pace */
} PsBlock;

typedef struct
{
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

/* Whether blocks may help: no ops are sliced or joined, and the problem is a V, or large and has cells. */
gboolean ps_blocks_suit (const PsProblem *problem);

/* Whether the placement is a V of two chunks, whose blocks are those of ps_family_v_hops. */
gboolean ps_blocks_have_slots (const PsProblem *problem);

/* Tries blocks, each like the last good one with a change. `scratch` takes their orders. */
void ps_blocks_search (PsBlocks *blocks, PsOrder *scratch);
