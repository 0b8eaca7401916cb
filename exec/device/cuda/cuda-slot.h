/* cuda-slot.h - what a microbatch in flight keeps on a stage: which block is taken and given back when. */
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

/* Takes all blocks of a forward. input: of the stage before, NULL: the embedding's output is a block of its own; taken
 * also on failure. The first layer's X, or what stands for it, is then the stream's begin. */
gboolean ps_cuda_slot_begin (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, void *input,
                             GError **error);

/* Where the output of the embedding (layer 0) or of layer - 1 goes: X of that layer, of the head, or the output. */
void *ps_cuda_slot_stream (const PsCudaSlot *slot, const PsStageShape *shape, guint layer);

/* Takes the blocks of the backward of a layer, or of the head for layer n_layers, and the gradient of its input, which
 * goes to *dx: on its way out for layer 0 without embedding. doutput (NULL for the head): taken. */
gboolean ps_cuda_slot_backward (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, guint layer,
                                void *doutput, void **dx, GError **error);

/* Gives back what the backward of that layer no longer needs. */
void ps_cuda_slot_end_backward (PsCudaSlot *slot, PsCudaShared *shared, guint layer);

/* Gives back everything. */
void ps_cuda_slot_empty (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape);

#endif
