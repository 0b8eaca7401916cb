/* partition-private.h - code shared by the partitioning algorithms. */
#pragma once

#include <pipesim/partition.h>

/* The running sums [n_layers + 1] of one figure of the layers, given by its offset in PsLayer. Free with g_free. */
gint64 *ps_layers_sums (const PsLayers *layers, gsize offset);

#define PS_LAYERS_SUMS(layers, member) ps_layers_sums (layers, G_STRUCT_OFFSET (PsLayer, member))

/* A time on a device of that speed, to the nearest nanosecond. */
gint64 ps_scale_time (gint64 ns, double speed);

/* Cuts a chain of loads so that the largest stage is as small as possible. Stage s may start anywhere; every stage has
 * at least one layer. */
typedef struct
{
  guint n_layers;
  guint n_stages;
  const gint64 *load;           /* [n_layers + 1] running sums */
  const double *speed;          /* [n_stages] NULL: all 1 */
  const gint64 *const *link_ns; /* [n_stages - 1] of [n_layers]: time on the link after stage s when the stage ends with
                                   that layer; NULL: none */
  const gint64 *state;          /* [n_layers + 1] running sums of bytes; NULL: no limits */
  const gint64 *kept;           /* [n_layers + 1] running sums, for each microbatch under way */
  const guint *in_flight;       /* [n_stages] */
  const gint64 *limit;          /* [n_stages] bytes */
} PsChainCut;

/* The smallest possible bottleneck; end[s] is the first layer after stage s in a partition that has it. FALSE: the
 * limits allow none, and *bottleneck is the number of bytes by which each of them would have to grow. */
gboolean ps_chain_cut_solve (const PsChainCut *cut, guint *end, gint64 *bottleneck);
