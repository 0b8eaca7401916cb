/* cut.h - minimum cuts: which nodes to take so that what they cost is least. */
#pragma once

#include <pipesim/base.h>

typedef struct PsCut PsCut;

/* Free with ps_cut_free. */
PsCut *ps_cut_new (guint n_nodes);
void ps_cut_free (PsCut *cut);

/* Removes all costs and arcs. */
void ps_cut_clear (PsCut *cut);

/* Taking the node costs this, which may be negative. Costs of a node add up. */
void ps_cut_add_cost (PsCut *cut, guint node, double cost);

/* Taking `from` and not `to` costs this, at least 0. */
void ps_cut_add_arc (PsCut *cut, guint from, guint to, double cost);

/* Finds the smallest of the sets that cost least (Dinic, Algorithm for solution of a problem of maximum flow in a
 * network with power estimation, 1970). Costs of less than 1e-13 count as 0. */
void ps_cut_solve (PsCut *cut);

/* Whether the set has the node. */
gboolean ps_cut_has (const PsCut *cut, guint node);
