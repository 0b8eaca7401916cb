/* range-names.h - what the ranges of a profiler are called by PyTorch and Megatron-LM. Private to sim/observe.
 *
 * - torch.distributed.pipelining's runtime: "PP:0F0", "PP:(0F7;7B3)OVERLAP_F_B", "PP:0SEND_F0".
 *
 * - Its ScheduleGPipe: "Forward 0" and "Backward 0", of the rank's only stage.
 *
 * - Megatron-LM names neither stage nor microbatch: NVTX ranges and timers "forward_step", "forward-compute",
 *   "backward_step", "backward-compute"; OpenTelemetry spans "megatron.microbatch.forward" (later
 *   "nv.mcore.microbatch.forward"), "megatron.p2p.recv_forward" and the like. A module path may stand before the name:
 *   "megatron.core.pipeline_parallel.schedules.forward_step".
 */
#pragma once

#include "program/torch-actions.h"

typedef enum
{
  PS_RANGES_COUNTED, /* neither stage nor microbatch */
  PS_RANGES_OF_RANK, /* the microbatch, and no stage */
  PS_RANGES_NAMED,   /* both */
} PsRangeNaming;

typedef struct
{
  PsRangeNaming naming;
  guint n; /* 1, or 2 for a pair */
  PsTorchAction actions[2];
} PsRangeName;

/* FALSE: the name is none of those above. */
gboolean ps_range_name_parse (const char *name, PsRangeName *parsed);

/* Whether a range of this name updates the weights: "Optimizer.step#SGD.step", "megatron.optimizer_step". */
gboolean ps_range_name_is_update (const char *name);

/* Whether it begins between two iterations: an update, "ProfilerStep#3", "megatron.train_step" and the like. */
gboolean ps_range_name_is_mark (const char *name);

static inline gboolean
ps_range_name_computes (const PsRangeName *name)
{
  return name->actions[0].type < TORCH_N_COMPUTE;
}
