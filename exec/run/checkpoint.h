/* checkpoint.h - the state of a training in a safetensors file: weights and both moments of Adam, in fp32.
 *
 * The weights have the names and shapes that Hugging Face's transformers gives those of a GPT-2 (gelu), or of a Phi-3
 * (swiglu). The moments stand under the same names after "optimizer.exp_avg." and "optimizer.exp_avg_sq.". A checkpoint
 * knows no stages: another schedule, layout, number of devices or device class can go on with it. */
#pragma once

#include <pipesim/device.h>

typedef struct _PsCheckpoint PsCheckpoint;

/* Room for the state of a model, to be filled and written. data: what is said of the data that it went through. */
PsCheckpoint *ps_checkpoint_new (const PsModel *model, const char *data);

/* The state in a file, which must be that of this model. Errors: PS_ERROR_IO, PS_ERROR_INPUT "path: ...". */
PsCheckpoint *ps_checkpoint_load (const char *path, const PsModel *model, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_checkpoint_free (PsCheckpoint *checkpoint);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCheckpoint, ps_checkpoint_free)

/* Steps that a loaded training has done, and the data that they went through; NULL: not said. */
guint ps_checkpoint_step (const PsCheckpoint *checkpoint);
const char *ps_checkpoint_data (const PsCheckpoint *checkpoint);

/* Makes n numbers whole of which a device has a part. */
typedef gboolean (*PsCheckpointGather) (float *values, gsize n, PsStateArray array, gpointer data, GError **error);

/* Fills in the state of a stage from the device that holds it, or gives the device the state. The device's thread
 * calls it, several threads at a time for different stages. fills FALSE: the device only helps another one to gather.
 * gather: called for each array. */
gboolean ps_checkpoint_take (PsCheckpoint *checkpoint, PsDevice *device, guint stage, const PsStageShape *shape,
                             gboolean fills, PsCheckpointGather gather, gpointer data, GError **error);
gboolean ps_checkpoint_give (const PsCheckpoint *checkpoint, PsDevice *device, guint stage, const PsStageShape *shape,
                             GError **error);

/* Where array number 0 .. PS_N_STATE_ARRAYS - 1 of a stage lies in a new checkpoint, to be carried to another process.
 */
gpointer ps_checkpoint_part (PsCheckpoint *checkpoint, const PsStageShape *shape, guint array, gsize *n_bytes);

/* Writes the file, which appears whole or not at all. */
gboolean ps_checkpoint_write (PsCheckpoint *checkpoint, const char *path, guint step, GError **error);
