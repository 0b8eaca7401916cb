/* blocks.h - orders in which every microbatch takes the same way: a period after the one before it, or on a grid that
 * leaves some microbatches out. */
#pragma once

#include "greedy.h"

typedef struct
{
  guint8 *wait; /* [2 * n_stages] before F and B of each stage */
  double width; /* of the grid, in parts of the least one */
  double pace;  /* least time between microbatches on a grid, in parts of what the memory allows on average */
  guint burst;  /* microbatches that may come ahead of the pace */
} PsBlock;

typedef struct
{
  PsRandom random;
  PsBlock best[2];                                     /* with a period, and on a grid */
  gint64 best_ns[2];                                   /* objectives of their orders; G_MAXINT64: none yet */
  guint64 n_tries;                                     /* orders of one search, of each kind */
  gboolean (*go_on) (gpointer data);                   /* called before each try; FALSE ends the search */
  void (*offer) (const PsOrder *order, gpointer data); /* told each solution that is no worse than the one before */
  gpointer data;
} PsBlocks;

void ps_blocks_init (PsBlocks *blocks, const PsProblem *problem);
void ps_blocks_clear (PsBlocks *blocks);

/* Whether blocks may help: no ops are sliced or joined, and the problem is a V, or large. */
gboolean ps_blocks_suit (const PsProblem *problem);

/* Whether the placement is a V of two chunks, whose blocks are those of ps_family_v_hops. */
gboolean ps_blocks_have_slots (const PsProblem *problem);

/* Tries blocks, each like the last good one but for the waits of a few stages. `scratch` takes their orders. */
void ps_blocks_search (PsBlocks *blocks, PsOrder *scratch);
