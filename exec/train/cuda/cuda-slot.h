/* cuda-slot.h - the blocks of a microbatch in flight on a stage, and the plan of an op: the blocks that its kernels
 * work on. Taking blocks is separate from launching kernels, so that an op's launches depend only on its plan. */
#pragma once

#include "cuda-head.h"
#include "cuda-layer.h"
#include "train/devices.h"

/* The last op of a slice of a microbatch; W makes it EMPTY again. */
typedef enum {
  PS_CUDA_EMPTY,
  PS_CUDA_FORWARD,
  PS_CUDA_BACKWARD,
} PsCudaProgress;

typedef struct {
  PsCudaProgress progress;
  guint slice;              /* the slots of the microbatch's earlier slices lie before this one */
  PsCudaLayerState *layers; /* of the shape's n_layers; NULL when EMPTY */
  PsCudaHeadState head;
  void *output;     /* output of the forward until the stage hands it on; NULL on the last stage */
  void *dembedding; /* gradient of the embedding's output */
} PsCudaSlot;

/* One layer of a plan. */
typedef struct {
  PsCudaLayerState state;
  void *stream; /* F: the residual stream before the layer; B: its gradient */
  void *again;  /* R, B: a block for the layer's output, which recomputation makes once more; NULL: it does not */
} PsCudaStep;

/* One op, with everything that its launches depend on. Plans are compared as bytes. */
typedef struct {
  guint32 kind;       /* PsOpKind */
  guint32 microbatch; /* on stages with embedding or head, else 0 */
  guint32 slice;
  guint32 lane;         /* of PsCudaShared, whose scratch the kernels use */
  const void *weights;  /* that the kernels read */
  PsCudaHeadState head; /* blocks here and in steps are NULL if there is none */
  PsCudaStep steps[];   /* [n_layers + 1]; the last one has only a stream: the output of the layers. The slices before
                           the op's own follow, see ps_cuda_plan_earlier */
} PsCudaPlan;

gsize ps_cuda_plan_bytes (const PsStageShape *shape, const PsCudaSizes *sizes);

/* Returns the entries for the earlier slices of a layer, one less than there are slices. */
PsCudaEarlier *ps_cuda_plan_earlier (PsCudaPlan *plan, const PsStageShape *shape, const PsCudaSizes *sizes,
                                     guint layer);

/* Each of these takes the blocks that the op's kernels write, and fills the plan's blocks. It gives back blocks that
 * are needed only until the op ends: the next op's kernels run after this op's in the stream. */

/* Whether a stage's R or B makes again what its F made. There are no scores that selective recomputation could drop. */
static inline gboolean ps_cuda_recomputes (const PsStageShape *shape)
{
  return shape->recompute == PS_RECOMPUTE_FULL;
}

/* The shape of the stage as op's microbatch runs on it. */
static inline PsStageShape ps_cuda_shape_of (const PsCudaShared *shared, const PsStageShape *shape, PsOp op)
{
  PsStageShape own = *shape;

  own.recompute = ps_device_recompute (shared->setting, shape, op);
  return own;
}

/* input: from the stage before; NULL: the embedding's output gets a block of its own. It is taken, also on failure. */
gboolean ps_cuda_slot_forward (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, void *input,
                               PsCudaPlan *plan, GError **error);

/* Makes again what a forward has made and does not keep; nothing where that is done. */
gboolean ps_cuda_slot_recompute (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, PsCudaPlan *plan,
                                 GError **error);

/* weights: a W follows at once, layer by layer. input: the gradient of the output; NULL: the head's. It is taken, also
 * on failure. *output: the gradient of the stage's input; NULL if that is the embedding's. */
gboolean ps_cuda_slot_backward (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, gboolean weights,
                                void *input, void **output, PsCudaPlan *plan, GError **error);

/* Takes no blocks. The caller empties the slot after launching W. */
void ps_cuda_slot_weights (const PsCudaSlot *slot, const PsCudaShared *shared, const PsStageShape *shape,
                           PsCudaPlan *plan);

/* Gives back all blocks. */
void ps_cuda_slot_empty (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape);
