/* blocks.h - orders on a V that repeat one block. */
#pragma once

#include "order.h"
#include "random.h"

typedef struct
{
  PsRandom random;
  guint8 *wait;                                        /* [4 * n_devices] of the best block, see ps_family_v_hops */
  gint64 best_ns;                                      /* its objective; G_MAXINT64: none yet */
  guint64 n_tries;                                     /* of one search */
  gboolean (*go_on) (gpointer data);                   /* called before each try; FALSE ends the search */
  void (*offer) (const PsOrder *order, gpointer data); /* told each solution that is no worse than the one before */
  gpointer data;
} PsBlocks;

/* Whether the problem's placement is a V of two chunks, without slices and without joined ops. */
gboolean ps_blocks_suit (const PsProblem *problem);

/* Tries blocks, each like the last good one but for the waits of a few devices. `scratch` takes their orders. */
void ps_blocks_search (PsBlocks *blocks, PsOrder *scratch);
