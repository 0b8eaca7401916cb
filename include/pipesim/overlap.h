/* overlap.h - the time of an overlapped pair: F of one microbatch beside B and W of another (DualPipe; DeepSeek-V3,
 * arXiv 2412.19437, section 3.2.1, figure 4).
 *
 * A GPU has two streams, one that computes and one for the all-to-alls of experts. Kernels of a stream run one after
 * the other. F of a layer with experts is attention, dispatch, experts, combine; its B goes back through them. The
 * layers of F and of the backward come in turn, and their parts stand in these orders:
 *
 *   computing  attention F, experts B, experts W, experts F, attention B, attention W
 *   talking    combine B, dispatch F, dispatch B, combine F
 *
 * A part starts when the one before it on its stream has ended, and the one before it in its own microbatch. Kernels
 * that compute side by side share the multiprocessors, so their times add up. The result is what `pair` in --costs
 * takes. Modelled costs have it for stages whose experts several GPUs share; another pair takes the sum of its parts.
 */
#ifndef PIPESIM_OVERLAP_H
#define PIPESIM_OVERLAP_H

#include <pipesim/base.h>

G_BEGIN_DECLS

/* A layer of F and one of the backward. */
typedef struct
{
  gint64 attention_ns[3]; /* by PS_OP_F, PS_OP_B and PS_OP_W; all that computes outside the experts */
  gint64 experts_ns[3];   /* the same */
  gint64 dispatch_ns[2];  /* by PS_OP_F and PS_OP_B: tokens, or their gradients, between attention and experts */
  gint64 combine_ns[2];   /* the same, between experts and the next layer */
} PsPairLayer;

/* From the start of the first part to the end of the last. */
gint64 ps_overlap_pair_ns (const PsPairLayer *layers, guint n_layers);

G_END_DECLS

#endif
