/* gathers.h - the gathers of weights that ZeRO's stage 3 puts into a schedule. Private to libpipesim.
 *
 * Each device has a channel for them, which carries one at a time in the order of the windows of
 * weight-window.h. A device comes to a gather when the op before it has ended; the gather starts then, or when the one
 * before it on the channel has ended. An op waits for the gather of its stage. Weights that leave the window are
 * dropped, and gathered again before they are next used.
 *
 * Gradients have no part in this: in a pipeline one whole gradient of each stage is all that waits for its scatter, at
 * stage 3 and at stage 2. PyTorch's pipelining turns the synchronisation of FSDP's gradients off for each backward and
 * scatters what they added up to after the last one (backward_maybe_with_nosync of
 * torch/distributed/pipelining/stage.py: "we need to accumulate gradients on previous steps and reduce them on the last
 * step"). DeepSpeed's pipelines refuse stages that scatter after each backward (deepspeed/runtime/pipe/engine.py:
 * "ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism").
 */
#pragma once

#include <pipesim/simulate.h>

typedef struct {
  guint32 place; /* index into the schedule's ops: the device comes to the gather before that op */
  guint32 until; /* the weights are dropped before that op */
  guint16 stage;
  gint64 start_ns; /* set by a run */
  gint64 end_ns;
} PsGather;

typedef struct {
  guint n_devices;
  guint *first;       /* [n_devices + 1] into gather */
  GArray *gather;     /* PsGather, by device, then place */
  guint32 *of;        /* [n_ops] by place: the gather whose weights the op uses */
  guint *next;        /* [n_devices] the first that a run has not come to */
  gint64 *channel_ns; /* [n_devices] when the channel is free */
} PsGathers;

void ps_gathers_init (PsGathers *gathers, const PsProgram *program);
void ps_gathers_clear (PsGathers *gathers);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsGathers, ps_gathers_clear)

/* Runs the gathers before the device's next op (or pair), at that place; before_ns: when the op before it ended.
 * Returns when all weights that it needs are there, before_ns or later. Call it once for each op, in their order. */
gint64 ps_gathers_wait (PsGathers *gathers, const PsProgram *program, const PsCosts *costs, guint device, guint place,
                        gint64 before_ns);

/* The weights of a stage that a device has gathered (ZeRO's stage 3): from the start of the gather until the end of the
 * op before which they are dropped. */
typedef struct {
  guint device;
  gint64 bytes;
  gint64 from_ns;
  gint64 until_ns;
} PsWholeWeights;

/* All of them in a finished simulation, by device. Free with g_array_unref. */
GArray *ps_gathers_whole_weights (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation);
