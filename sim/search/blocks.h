/* blocks.h - orders that repeat one block: every microbatch takes the same way, a period after the one before it. */
#pragma once

#include "greedy.h"

typedef struct
{
  PsRandom random;
  guint8 *wait;                      /* [2 * n_stages] before F and B of each stage, of the best block */
  gint64 best_ns;                    /* objective of its order; G_MAXINT64: none yet */
  guint64 n_tries;                   /* orders of one search */
  gboolean (*go_on) (gpointer data); /* called before each try; FALSE ends the search */
  void (*offer) (const PsOrder *order, gpointer data); /* told each solution that is no worse than the one before */
  gpointer data;
} PsBlocks;

/* Whether blocks may help: no ops are sliced or joined, and the problem is a V, or large with several stages per
 * device. */
gboolean ps_blocks_suit (const PsProblem *problem);

/* Whether the placement is a V of two chunks, whose blocks are those of ps_family_v_hops. */
gboolean ps_blocks_have_slots (const PsProblem *problem);

/* Tries blocks, each like the last good one but for the waits of a few stages. `scratch` takes their orders. */
void ps_blocks_search (PsBlocks *blocks, PsOrder *scratch);
