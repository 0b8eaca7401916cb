/* framework.h - what frameworks hold in memory besides what the formulas of model.h say a model needs.
 *
 * Megatron (Megatron-LM's core with Transformer Engine):
 *
 * - a gradient in the precision of the weights for each shape of matrix in a layer that nobody reads: Transformer
 * Engine adds gradients to the fp32 ones and hands autograd such a dummy. They are made once and stay;
 * - workspaces of cuBLAS, 32 MiB each of PyTorch's and Transformer Engine's (their defaults from compute capability 9.0
 *   on);
 * - the gradients that run through one layer at a time, per token: 4h + 4f, with experts 2h + r (4h + 4f); and with
 *   sequence parallelism the input and the gradient of one matrix gathered from t GPUs, 4h;
 * - at the head cross-entropy fused with its gradient: the logits stay as their gradient in 2 bytes, and F has them in
 *   fp32 besides while it runs; B makes a dummy gradient of the output matrix, 2Vh.
 *
 * DeepSpeed (ZeRO stage 1 and the pipeline engine, as in Megatron-DeepSpeed):
 *
 * - gradients in bf16, which are added to the fp32 ones at once: 2 bytes per parameter that nobody reduces;
 * - PyTorch's allocator reserves 1.145 of what stays, and 1.345 of what comes and goes with microbatches. Both are
 *   fitted to the published peaks of the experiments for BLOOM (data/README.md), for all sizes of models and
 *   microbatches at once.
 *
 * Both: 5 GB of the driver, of NCCL and its channels, fitted to the same peaks. PyTorch's own count of allocated bytes
 * does not hold them.
 */
#ifndef PIPESIM_FRAMEWORK_H
#define PIPESIM_FRAMEWORK_H

#include <pipesim/tensor.h>

G_BEGIN_DECLS

const char *ps_framework_name (PsFramework framework); /* "none", "megatron", "deepspeed" */
gboolean ps_framework_parse (const char *where, const char *text, PsFramework *framework, GError **error);

/* What one of t GPUs holds of a stage by the habits of the model's framework. */
typedef struct
{
  gint64 kept_bytes;     /* of a microbatch, more than ps_tensor_kept_bytes; negative: less */
  gint64 forward_bytes;  /* while F runs */
  gint64 backward_bytes; /* while B or BW runs */
  gint64 buffer_bytes;   /* throughout */
} PsHabits;

PsHabits ps_framework_habits (const PsModel *model, const PsStageShape *shape, guint n_tensor);

/* Bytes reserved for one that is asked for: of what stays, and of what comes and goes. */
double ps_framework_reserve (PsFramework framework);
double ps_framework_passing_reserve (PsFramework framework);

/* Bytes of driver and libraries on each GPU. */
gint64 ps_framework_context_bytes (PsFramework framework);

G_END_DECLS

#endif
