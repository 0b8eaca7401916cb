/* device-rig.h - a device of any class that computes, which holds all stages of a small model, for tests. */
#ifndef DEVICE_RIG_H
#define DEVICE_RIG_H

#include "device/devices.h"

/* A device that holds all stages of a model. */
typedef struct
{
  PsModel model;
  PsDeviceSetting setting;
  PsDevice *device;
} Rig;

static inline PsModel
small_model (guint layers, guint hidden, guint heads, guint sequence)
{
  return (PsModel){ .layers = layers,
                    .hidden = hidden,
                    .heads = heads,
                    .kv_heads = heads,
                    .sequence = sequence,
                    .feed_forward = 2 * hidden,
                    .vocabulary = 11,
                    .microbatch_size = 2 };
}

static inline void
rig_open (Rig *rig, const PsDeviceClass *of, PsModel model, guint n_stages, guint n_microbatches)
{
  g_autoptr (GError) error = NULL;

  rig->model = model;
  rig->setting = (PsDeviceSetting){
    .model = &rig->model, .n_stages = n_stages, .n_microbatches = n_microbatches, .core = -1, .seed = 7
  };
  rig->device = of->open (&rig->setting, &error);
  g_assert_no_error (error);
  g_assert_true (rig->device->class->attach (rig->device, &error));
  for (guint i = 0; i < n_stages; i++)
    {
      const PsStageShape shape = { .first_layer = i * model.layers / n_stages,
                                   .n_layers = (i + 1) * model.layers / n_stages - i * model.layers / n_stages,
                                   .embedding = i == 0,
                                   .head = i == n_stages - 1 };
      rig->device->class->add_stage (rig->device, i, &shape, &error);
      g_assert_no_error (error);
    }
}

static inline void
rig_clear (Rig *rig)
{
  rig->device->class->close (rig->device);
}

static inline PsTensor *
run (Rig *rig, PsOpKind kind, guint stage, guint microbatch, PsTensor *input)
{
  const PsOp op = { .kind = (guint8)kind, .stage = (guint16)stage, .microbatch = microbatch & 0x7fffffff };
  g_autoptr (GError) error = NULL;
  PsTensor *output = NULL;

  rig->device->class->run (rig->device, op, input, &output, &error);
  g_assert_no_error (error);
  return output;
}

/* Runs a microbatch through all stages. */
static inline void
forward (Rig *rig, guint microbatch)
{
  PsTensor *tensor = NULL;

  for (guint stage = 0; stage < rig->setting.n_stages; stage++)
    tensor = run (rig, PS_OP_F, stage, microbatch, tensor);
  g_assert_null (tensor);
}

static inline void
backward (Rig *rig, PsOpKind kind, guint microbatch)
{
  PsTensor *tensor = NULL;

  for (guint stage = rig->setting.n_stages; stage > 0; stage--)
    tensor = run (rig, kind, stage - 1, microbatch, tensor);
  g_assert_null (tensor);
}

static inline void
run_all_stages (Rig *rig, PsOpKind kind, guint microbatch)
{
  for (guint stage = 0; stage < rig->setting.n_stages; stage++)
    run (rig, kind, stage, microbatch, NULL);
}

/* One training step without the optimizer: all F, all BW. */
static inline void
all_microbatches (Rig *rig)
{
  for (guint i = 0; i < rig->setting.n_microbatches; i++)
    forward (rig, i);
  for (guint i = 0; i < rig->setting.n_microbatches; i++)
    backward (rig, PS_OP_BW, i);
}

/* The gradients of all stages in a row. */
static inline GArray *
all_gradients (Rig *rig)
{
  GArray *all = g_array_new (FALSE, FALSE, sizeof (float));

  for (guint stage = 0; stage < rig->setting.n_stages; stage++)
    {
      gsize n;
      const float *gradients = rig->device->class->gradients (rig->device, stage, &n);
      g_array_append_vals (all, gradients, (guint)n);
    }
  return all;
}

static inline void
assert_same_bits (GArray *a, GArray *b)
{
  g_assert_cmpmem (a->data, a->len * sizeof (float), b->data, b->len * sizeof (float));
}

#endif
