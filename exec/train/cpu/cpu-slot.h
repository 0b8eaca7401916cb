/* cpu-slot.h - the blocks of a stage's microbatches in flight: which an op takes, keeps, makes again and gives back.
 * For the stage itself alone. */
#pragma once

#include "cpu-ends.h"
#include "cpu-layer.h"
#include "cpu-stage.h"

/* The last op of a slice of a microbatch; W makes it EMPTY again. */
typedef enum {
  PS_CPU_EMPTY,
  PS_CPU_FORWARD,
  PS_CPU_BACKWARD,
} PsCpuProgress;

/* The blocks of a slice of a microbatch in flight. */
typedef struct {
  PsCpuProgress progress;
  PsRecompute recompute;   /* what it does not keep */
  PsCpuLayerState *layers; /* of the shape's n_layers; NULL when EMPTY */
  PsCpuHeadState head;
  float *dembedding; /* gradient of the embedding's output */
} PsCpuSlot;

struct _PsCpuStage {
  PsCpuContext *context;
  guint number;
  PsStageShape shape;
  gsize n_parameters;
  gsize n_whole;  /* parameters where no other device shares the layers */
  float *weights; /* the version that ops read */
  float *gradients;
  float *momentum, *variance; /* of the parameters whose optimizer state is here */
  float *joined;              /* [n_whole] for ps_cpu_stage_gradients; NULL until then, or where nothing is shared */
  float *trial;               /* weights of a tentative O; NULL: O is final */
  float **versions;           /* [n_versions] version k of the weights is in versions[k mod n_versions] */
  guint64 n_steps;
  PsCpuWorkspace workspace; /* its own, so that a stage's state is the same on every device */
  PsCpuSlot *slots;         /* [n_microbatches * slices] */
  double *losses;           /* [n_microbatches] */
};

/* Sets the error that there is no memory for n floats of `what`; FALSE. */
gboolean ps_cpu_no_room (const PsCpuStage *stage, const char *what, gsize n, GError **error);

/* Gives a block back, and takes one that counts as an activation. */
void ps_cpu_give (PsCpuStage *stage, float **block);
gboolean ps_cpu_take (PsCpuStage *stage, float **block, gsize n, GError **error);

/* Gives back all blocks of a layer. */
void ps_cpu_slot_give_layer (PsCpuStage *stage, PsCpuLayerState *layer);

/* Gives back all blocks of the microbatch. */
void ps_cpu_slot_empty (PsCpuStage *stage, PsCpuSlot *slot);

/* Returns the slot of op's slice if its last op was `last`; NULL with an error if it was another. */
PsCpuSlot *ps_cpu_slot_find (PsCpuStage *stage, PsOp op, PsCpuProgress last, GError **error);

/* The states of a layer for the slices of op's microbatch, up to op's own one. */
void ps_cpu_slot_states (PsCpuStage *stage, PsOp op, guint layer, const PsCpuLayerState **states);

/* Takes those of the blocks that a forward makes which the layer does not have. */
gboolean ps_cpu_slot_take_made (PsCpuStage *stage, PsCpuLayerState *layer, guint slice, GError **error);

/* Gives back the blocks that a recomputation makes again, or hands them to the next layer (NULL: there is none). */
void ps_cpu_slot_drop_made (PsCpuStage *stage, PsRecompute recompute, PsCpuLayerState *layer, PsCpuLayerState *next);

/* Takes all blocks at once, so that a forward that does not fit leaves no trace. */
gboolean ps_cpu_slot_take_forward (PsCpuStage *stage, PsCpuSlot *slot, PsOp op, GError **error);

/* Takes a tensor for the gradient of the input of layer `layer`; the head counts as layer n_layers. The gradient of the
 * stage's input is a buffer on its way to the stage before, unless the embedding takes it. */
gboolean ps_cpu_slot_take_gradient (PsCpuStage *stage, guint layer, float **block, GError **error);

/* Makes room for the gradients that op's slice leaves to the slices before it. */
gboolean ps_cpu_slot_take_inherited (PsCpuStage *stage, PsOp op, guint layer, GError **error);
