/* cuda-slot.h - what a microbatch in flight keeps on a stage: which block is taken and given back when; and the plan of
 * an op: on which blocks its kernels work. Taking blocks is apart from launching kernels, so that an op's launches
 * depend on nothing but its plan. */
#ifndef PIPESIM_CUDA_SLOT_H
#define PIPESIM_CUDA_SLOT_H

#include "cuda-head.h"
#include "cuda-layer.h"

/* The op that a microbatch did last; W makes it EMPTY again. */
typedef enum
{
  PS_CUDA_EMPTY,
  PS_CUDA_FORWARD,
  PS_CUDA_BACKWARD,
} PsCudaProgress;

typedef struct
{
  PsCudaProgress progress;
  PsCudaLayerState *layers; /* of the shape's n_layers; NULL when EMPTY */
  PsCudaHeadState head;
  void *output;     /* of the forward, until the stage hands it on; NULL on the last stage */
  void *dembedding; /* gradient of the embedding's output */
} PsCudaSlot;

/* A layer in a plan. */
typedef struct
{
  PsCudaLayerState state;
  void *stream; /* the residual stream in front of the layer for F, its gradient for B */
} PsCudaStep;

/* One op: all that its launches depend on. Plans are compared as bytes. */
typedef struct
{
  guint32 kind;         /* PsOpKind */
  guint32 microbatch;   /* for embedding and head; 0 on stages without */
  PsCudaHeadState head; /* these blocks and those of the steps: NULL where there is none */
  PsCudaStep steps[];   /* [n_layers + 1]; the last has a stream only: what leaves the layers */
} PsCudaPlan;

gsize ps_cuda_plan_bytes (const PsStageShape *shape);

/* These take what the op's kernels write, fill the plan's blocks, and give back what is only needed until the op ends:
 * the next op's kernels come behind this one's in the stream. */

/* input: of the stage before, NULL: the embedding's output is a block of its own; taken also on failure. */
gboolean ps_cuda_slot_forward (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, void *input,
                               PsCudaPlan *plan, GError **error);

/* input: gradient of the output, NULL for the head's; taken also on failure. *output: the gradient of the stage's
 * input, NULL where it is the embedding's. The plan serves a W that follows at once as well. */
gboolean ps_cuda_slot_backward (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, void *input,
                                void **output, PsCudaPlan *plan, GError **error);

/* Takes nothing; the caller empties the slot once W is launched. */
void ps_cuda_slot_weights (const PsCudaSlot *slot, const PsStageShape *shape, PsCudaPlan *plan);

/* Gives back everything. */
void ps_cuda_slot_empty (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape);

#endif
