/* device-rig.h - a device of any class that computes, which holds all stages of a small model, for tests. */
#pragma once

#include "train/devices.h"
#include "error-rig.h"

#include <math.h>

/* A device that holds all stages of a model. */
typedef struct {
  PsModel model;
  PsDeviceSetting setting;
  PsDevice *device;
} Rig;

static inline PsModel small_model (guint layers, guint hidden, guint heads, guint sequence)
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

/* Of the stages of rigs that are opened. */
static double rig_offload;
static PsRecompute rig_recompute;

/* All else of the setting, which the caller has filled in, is the rig's. */
static inline void rig_open_as (Rig *rig, const PsDeviceClass *of, PsModel model, guint n_stages, guint n_microbatches)
{
  g_autoptr (GError) error = NULL;

  rig->model = model;
  rig->setting.model = &rig->model;
  rig->setting.n_stages = n_stages;
  rig->setting.n_microbatches = n_microbatches;
  rig->setting.core = -1;
  rig->setting.seed = 7;
  rig->device = fine (of->open (&rig->setting, &error));
  g_assert_true (rig->device->class->attach (rig->device, &error));
  for (guint i = 0; i < n_stages; i++) {
    const PsStageShape shape = { .first_layer = i * model.layers / n_stages,
                                 .n_layers = (i + 1) * model.layers / n_stages - i * model.layers / n_stages,
                                 .embedding = i == 0,
                                 .head = i == n_stages - 1,
                                 .recompute = rig_recompute,
                                 .offload = rig_offload };

    fine (rig->device->class->add_stage (rig->device, i, &shape, &error));
  }
}

static inline void rig_open (Rig *rig, const PsDeviceClass *of, PsModel model, guint n_stages, guint n_microbatches)
{
  rig->setting = (PsDeviceSetting){ .model = NULL };
  rig_open_as (rig, of, model, n_stages, n_microbatches);
}

static inline void rig_clear (Rig *rig)
{
  rig->device->class->close (rig->device);
}

static inline PsTensor *run (Rig *rig, PsOpKind kind, guint stage, guint microbatch, PsTensor *input)
{
  const PsOp op = { .kind = (guint8)kind, .stage = (guint16)stage, .microbatch = microbatch & 0x7fffffff };
  PsTensor *output = NULL;

  fine (rig->device->class->run (rig->device, op, input, &output, &error));
  return output;
}

/* Runs an op and finds what it took at its worst moment and gave back by its end, as a calibrator does. */
static inline PsTensor *run_measured (Rig *rig, PsOpKind kind, guint stage, guint microbatch, PsTensor *input,
                                      gint64 *take, gint64 *give)
{
  const PsDeviceClass *class = rig->device->class;
  PsMemoryUse before, after;

  class->reset_peak (rig->device);
  class->memory (rig->device, &before);
  PsTensor *output = run (rig, kind, stage, microbatch, input);
  class->memory (rig->device, &after);
  *take = after.peak_bytes - before.peak_bytes;
  *give = *take - (after.current[PS_USE_ACTIVATION] - before.current[PS_USE_ACTIVATION]);
  return output;
}

/* Runs a microbatch through all stages. */
static inline void forward (Rig *rig, guint microbatch)
{
  PsTensor *tensor = NULL;

  for (guint stage = 0; stage < rig->setting.n_stages; stage++)
    tensor = run (rig, PS_OP_F, stage, microbatch, tensor);
  g_assert_null (tensor);
}

static inline void backward (Rig *rig, PsOpKind kind, guint microbatch)
{
  PsTensor *tensor = NULL;

  for (guint stage = rig->setting.n_stages; stage > 0; stage--)
    tensor = run (rig, kind, stage - 1, microbatch, tensor);
  g_assert_null (tensor);
}

static inline void run_all_stages (Rig *rig, PsOpKind kind, guint microbatch)
{
  for (guint stage = 0; stage < rig->setting.n_stages; stage++)
    run (rig, kind, stage, microbatch, NULL);
}

/* One training step without the optimizer: all F, all BW. */
static inline void all_microbatches (Rig *rig)
{
  for (guint i = 0; i < rig->setting.n_microbatches; i++)
    forward (rig, i);
  for (guint i = 0; i < rig->setting.n_microbatches; i++)
    backward (rig, PS_OP_BW, i);
}

/* The gradients of all stages in a row. */
static inline GArray *all_gradients (Rig *rig)
{
  GArray *all = g_array_new (FALSE, FALSE, sizeof (float));

  for (guint stage = 0; stage < rig->setting.n_stages; stage++) {
    gsize n;
    const float *gradients = rig->device->class->gradients (rig->device, stage, &n);

    g_array_append_vals (all, gradients, (guint)n);
  }
  return all;
}

static inline void assert_same_bits (GArray *a, GArray *b)
{
  g_assert_cmpmem (a->data, a->len * sizeof (float), b->data, b->len * sizeof (float));
}

/* B and W apart, in other orders, give the gradients of BW; with R before one B, too. */
static inline void check_split_backward (const PsDeviceClass *of, PsModel model)
{
  Rig fused, split;

  rig_open (&fused, of, model, 2, 3);
  rig_open (&split, of, model, 2, 3);
  all_microbatches (&fused);
  for (guint i = 0; i < 3; i++)
    forward (&split, i);
  run_all_stages (&split, PS_OP_R, 1);
  for (guint i = 0; i < 3; i++)
    backward (&split, PS_OP_B, 2 - i);
  for (guint i = 0; i < 3; i++)
    run_all_stages (&split, PS_OP_W, i);
  g_autoptr (GArray) a = all_gradients (&fused);
  g_autoptr (GArray) b = all_gradients (&split);
  assert_same_bits (a, b);
  rig_clear (&fused);
  rig_clear (&split);
}

/* Gradients and losses of two steps, so that the optimizer's bits count too. */
static inline GArray *train_cut (const PsDeviceClass *of, PsModel model, guint n_stages, double losses[2])
{
  Rig rig;

  rig_open (&rig, of, model, n_stages, 2);
  all_microbatches (&rig);
  run_all_stages (&rig, PS_OP_O, 0);
  all_microbatches (&rig);
  for (guint i = 0; i < 2; i++)
    losses[i] = rig.device->class->loss (rig.device, i);
  GArray *gradients = all_gradients (&rig);
  rig_clear (&rig);
  return gradients;
}

/* It does not matter into how many stages the model is cut. */
static inline void check_cuts (const PsDeviceClass *of, PsModel model)
{
  double losses[2], others[2];
  g_autoptr (GArray) whole = train_cut (of, model, 1, losses);

  for (guint n_stages = 2; n_stages <= model.layers; n_stages++) {
    g_autoptr (GArray) cut = train_cut (of, model, n_stages, others);

    assert_same_bits (whole, cut);
    g_assert_cmpmem (losses, sizeof losses, others, sizeof others);
  }
}

/* The gradients of a step in slices, and its loss. */
static inline GArray *train_slices (const PsDeviceClass *of, PsModel model, guint n_slices, const guint *tokens)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W };
  Rig rig = { .setting = { .n_slices = n_slices, .slice_tokens = tokens } };

  rig_open_as (&rig, of, model, 1, 1);
  for (guint kind = 0; kind < G_N_ELEMENTS (kinds); kind++)
    for (guint i = 0; i < n_slices; i++) {
      const guint slice = kinds[kind] == PS_OP_B ? n_slices - 1 - i : i;

      fine (of->run (rig.device, (PsOp){ .kind = kinds[kind], .slice = (guint8)slice }, NULL, NULL, &error));
    }
  const float loss = (float)of->loss (rig.device, 0);
  GArray *numbers = all_gradients (&rig);
  g_array_append_val (numbers, loss);
  rig_clear (&rig);
  return numbers;
}

/* Slices, of equal lengths or others, only change the order of sums. tolerance: of the largest gradient. */
static inline void check_slices (const PsDeviceClass *of, PsModel model, double tolerance)
{
  g_autoptr (GArray) whole = train_slices (of, model, 1, NULL);
  double largest = 0;

  for (guint k = 0; k < whole->len - 1; k++)
    largest = MAX (largest, fabs (g_array_index (whole, float, k)));
  for (guint row = 2; row <= 6; row++) {
    const guint sequence = model.sequence, n_slices = row <= 4 ? row : 3;
    const guint tokens[] = { row == 5 ? 1 : sequence - 3, row == 5 ? sequence - 3 : 1, 2 };
    g_autoptr (GArray) cut = train_slices (of, model, n_slices, row <= 4 ? NULL : tokens);

    for (guint k = 0; k < whole->len; k++)
      g_assert_cmpfloat (fabs (g_array_index (whole, float, k) - g_array_index (cut, float, k)), <,
                         tolerance * largest);
  }
}
