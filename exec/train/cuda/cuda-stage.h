/* cuda-stage.h - a stage that is resident on a cuda device: its parameters, and the data of its microbatches in
 * flight. */
#pragma once

#include "cuda-shared.h"

typedef struct _PsCudaStage PsCudaStage;

/* The context of `shared` is current to the thread that calls these. Their errors don't name the stage. */

/* shared outlives the stage and is prepared. Runs every op once on zeros, which loads the kernels and chooses the
 * algorithms for a part of n_sms multiprocessors. The stage is as new afterwards. */
PsCudaStage *ps_cuda_stage_new (PsCudaShared *shared, const PsStageShape *shape, guint n_sms, GError **error);

/* The blocks stay with the shared memory. */
void ps_cuda_stage_free (PsCudaStage *stage);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCudaStage, ps_cuda_stage_free)

/* Puts F, R, B, BW, W or O of device.h, on blocks of one boundary tensor, into the stream. input is taken, also on
 * failure; *output is NULL if the op has none. Errors: PS_ERROR_SCHEDULE if the op is not the microbatch's next one,
 * PS_ERROR_UNAVAILABLE.
 */
gboolean ps_cuda_stage_run (PsCudaStage *stage, PsOp op, void *input, void **output, GError **error);

/* Ops run in the stream and the scratch of `shared` from now on: the one that the stage was made with, or a twin. */
void ps_cuda_stage_move (PsCudaStage *stage, PsCudaShared *shared);

const PsStageShape *ps_cuda_stage_shape (const PsCudaStage *stage);

/* Returns the loss of the latest forward; NaN if there was none or the stage has no head. */
double ps_cuda_stage_loss (PsCudaStage *stage, guint microbatch);

/* Returns the gradients on the host, without gaps, valid until the next call. NULL: they can't be read. */
const float *ps_cuda_stage_gradients (PsCudaStage *stage, gsize *n);

/* Returns the gradients on the device, with the gaps of PsCudaParameters, which are zero. */
float *ps_cuda_stage_gradient_memory (PsCudaStage *stage, gsize *n);

/* See PsDeviceClass. number: the stage's, for errors. */
gboolean ps_cuda_stage_use (PsCudaStage *stage, guint number, guint64 version, GError **error);
double ps_cuda_stage_norm_square (PsCudaStage *stage);
gboolean ps_cuda_stage_settle (PsCudaStage *stage, float scale, GError **error);
void ps_cuda_stage_forget (PsCudaStage *stage);

/* See PsDeviceClass. */
gboolean ps_cuda_stage_read_state (PsCudaStage *stage, PsStageState *state, GError **error);
gboolean ps_cuda_stage_write_state (PsCudaStage *stage, const PsStageState *state, GError **error);
