/* cuda-stage.h - a stage that is resident on a cuda device: its parameters, and what its microbatches in flight keep.
 */
#ifndef PIPESIM_CUDA_STAGE_H
#define PIPESIM_CUDA_STAGE_H

#include "cuda-shared.h"

typedef struct _PsCudaStage PsCudaStage;

/* For all of these the context of `shared` is the calling thread's, and errors don't name the stage. */

/* shared outlives it and is prepared. Runs every op once on zeros, so that kernels are loaded and the algorithms of
 * products chosen, those for a part of n_sms multiprocessors, and leaves no trace of it. */
PsCudaStage *ps_cuda_stage_new (PsCudaShared *shared, const PsStageShape *shape, guint n_sms, GError **error);

/* Blocks stay with the shared memory. */
void ps_cuda_stage_free (PsCudaStage *stage);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCudaStage, ps_cuda_stage_free)

/* F, B, BW, W and O of device.h on blocks of one boundary tensor. input is taken also on failure; *output is NULL where
 * there is none. Errors: PS_ERROR_SCHEDULE when the op is not the microbatch's next one, PS_ERROR_UNAVAILABLE. */
gboolean ps_cuda_stage_run (PsCudaStage *stage, PsOp op, void *input, void **output, GError **error);

/* Of the latest forward; NaN where there was none or the stage has no head. */
double ps_cuda_stage_loss (PsCudaStage *stage, guint microbatch);

/* On the host, without gaps; valid until the next call. NULL when they can't be read. */
const float *ps_cuda_stage_gradients (PsCudaStage *stage, gsize *n);

/* On the device, with the gaps of PsCudaParameters, which are zero. */
float *ps_cuda_stage_gradient_memory (PsCudaStage *stage, gsize *n);

#endif
