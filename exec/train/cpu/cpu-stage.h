/* cpu-stage.h - a stage that is resident on a cpu device: its parameters, and the data of its microbatches in flight.
 *
 * Parameters, gradients and the two moments of Adam are one array each, without gaps: the embedding if the stage has
 * it, the layers in model order, the head if the stage has it. Each part has the order of PsCpuEmbedding, PsCpuLayer or
 * PsCpuHead. The arrays of all stages, one after the other, are the arrays of the uncut model.
 */
#pragma once

#include "cpu-sizes.h"

typedef struct _PsCpuStage PsCpuStage;

/* Shared by the stages of a device, which it outlives. */
typedef struct {
  PsMemoryPool *memory;
  PsMemoryPool *host; /* memory that activations move to */
  PsCpuSizes sizes;
  PsCpuSizes whole_sizes; /* where no other device shares the layers */
  guint n_microbatches;
  guint n_summed;   /* see PsDeviceSetting; >= 1 */
  guint n_replicas; /* >= 1 */
  guint64 seed;
  const PsDeviceSetting *setting; /* of the device: says which words a microbatch has */
  guint64 step;                   /* that its data and its learning rate are of */
} PsCpuContext;

/* number: the stage's number, for errors. PS_ERROR_UNAVAILABLE: the parameters do not fit into memory. */
PsCpuStage *ps_cpu_stage_new (PsCpuContext *context, guint number, const PsStageShape *shape, GError **error);

/* The blocks stay with the context's memory. */
void ps_cpu_stage_free (PsCpuStage *stage);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCpuStage, ps_cpu_stage_free)

/* The ops of device.h on blocks of one boundary tensor. input is taken, also on failure; *output is NULL if the op
 * has none. Errors: PS_ERROR_SCHEDULE if the op is not the microbatch's next one, PS_ERROR_UNAVAILABLE if memory
 * runs out. */
gboolean ps_cpu_stage_forward (PsCpuStage *stage, PsOp op, float *input, float **output, GError **error);
gboolean ps_cpu_stage_backward (PsCpuStage *stage, PsOp op, float *input, float **output, GError **error);
gboolean ps_cpu_stage_weight_gradients (PsCpuStage *stage, PsOp op, GError **error);
gboolean ps_cpu_stage_recompute (PsCpuStage *stage, PsOp op, GError **error);

/* See PsDeviceClass. */
void ps_cpu_stage_forget (PsCpuStage *stage);

/* Returns the loss of the latest forward; NaN if there was none or the stage has no head. */
double ps_cpu_stage_loss (const PsCpuStage *stage, guint microbatch);

const PsStageShape *ps_cpu_stage_shape (const PsCpuStage *stage);

/* Arrays of ps_cpu_stage_parameters floats. */
gsize ps_cpu_stage_parameters (const PsCpuStage *stage);
float *ps_cpu_stage_gradients (PsCpuStage *stage);

/* The gradients in an array of the whole stage, see ps_cpu_stage_join; *n floats. */
const float *ps_cpu_stage_joined_gradients (PsCpuStage *stage, gsize *n);
