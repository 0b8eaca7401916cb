/* fake-device.h - a device to measure that computes nothing, and the same on parts of an accelerator. */
#pragma once

#include "error-rig.h"
#include "measure.h"

#include <string.h>

/* A device that computes nothing, checks that every op may run, and holds this much memory per microbatch: F leaves 100
 * and needs 30 more while it runs; B needs 20 and frees 40; W frees the other 60; BW needs 20 and frees 100. A stage
 * has 1000 bytes of state per layer. */
typedef struct {
  PsDevice base;
  PsDeviceSetting setting;
  PsMemoryUse use;
  GThread *thread;      /* that attached */
  PsStageShape *shapes; /* [n_stages] */
  guint8 *state;        /* [n_stages * n_microbatches] 0 idle, 1 after F, 2 after B */
} FakeDevice;

static int n_fake_ops;        /* over all devices; atomic */
static int fail_at;           /* the op that fails; 0: none */
static int n_fake_devices;    /* open now; atomic */
static int n_fake_tensors;    /* alive now; atomic */
static int n_fake_flushes;    /* atomic */
static int n_fake_conditions; /* atomic */

static PsDevice *fake_open (const PsDeviceSetting *setting, GError **error);

static void fake_close (PsDevice *base)
{
  FakeDevice *fake = (FakeDevice *)base;

  g_atomic_int_add (&n_fake_devices, -1);
  g_free (fake->shapes);
  g_free (fake->state);
  g_free (fake);
}

static gboolean fake_attach (PsDevice *base, GError **error)
{
  ((FakeDevice *)base)->thread = g_thread_self ();
  return TRUE;
}

static gboolean fake_add_stage (PsDevice *base, guint stage, const PsStageShape *shape, GError **error)
{
  FakeDevice *fake = (FakeDevice *)base;

  g_assert_true (fake->thread == g_thread_self ());
  fake->shapes[stage] = *shape;
  fake->use.current[PS_USE_STATE] += 1000 * (gint64)shape->n_layers;
  return TRUE;
}

static PsTensor *fake_tensor_new (PsDevice *base)
{
  FakeDevice *fake = (FakeDevice *)base;
  PsTensor *tensor = g_new0 (PsTensor, 1);

  g_atomic_int_inc (&n_fake_tensors);
  tensor->device = base;
  tensor->bytes = (gsize)ps_model_boundary_bytes (fake->setting.model);
  tensor->data = g_malloc0 (tensor->bytes);
  return tensor;
}

static void fake_tensor_free (PsTensor *tensor)
{
  g_atomic_int_add (&n_fake_tensors, -1);
  g_free (tensor->data);
  g_free (tensor);
}

/* The first `extra` bytes are there only while the op runs. */
static void fake_use_memory (FakeDevice *fake, gint64 extra, gint64 kept)
{
  gint64 held = fake->use.current[PS_USE_STATE] + fake->use.current[PS_USE_ACTIVATION];

  fake->use.peak_bytes = MAX (fake->use.peak_bytes, held + extra + MAX (kept, 0));
  fake->use.current[PS_USE_ACTIVATION] += kept;
}

static gboolean fake_run (PsDevice *base, PsOp op, PsTensor *input, PsTensor **output, GError **error)
{
  FakeDevice *fake = (FakeDevice *)base;
  const PsStageShape *shape = &fake->shapes[op.stage];
  guint8 *state = &fake->state[op.stage * fake->setting.n_microbatches + op.microbatch];
  gboolean forward = op.kind == PS_OP_F, backward = op.kind == PS_OP_B || op.kind == PS_OP_BW;

  g_assert_true (fake->thread == g_thread_self ());
  g_assert_cmpuint (op.microbatch, <, fake->setting.n_microbatches);
  g_assert_cmpint (input != NULL, ==, (forward && !shape->embedding) || (backward && !shape->head));
  if (input != NULL)
    fake_tensor_free (input);
  if ((forward && !shape->head) || (backward && !shape->embedding))
    *output = fake_tensor_new (base);
  static const guint8 needed[] = { 0, 1, 2, 1 }, left[] = { 1, 2, 0, 0 };
  static const gint64 extra[] = { 30, 20, 0, 20 }, kept[] = { 100, -40, -60, -100 };
  if (op.kind != PS_OP_O) {
    g_assert_cmpuint (*state, ==, needed[op.kind]);
    *state = left[op.kind];
    fake_use_memory (fake, extra[op.kind], kept[op.kind]);
  }
  if (g_atomic_int_add (&n_fake_ops, 1) + 1 != fail_at)
    return TRUE;
  g_clear_pointer (output, fake_tensor_free);
  g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "stage %u: broken on purpose", op.stage);
  return FALSE;
}

/* The next op of this device finds nothing in its caches. */
static gboolean fake_flush_cache (PsDevice *base, GError **error)
{
  FakeDevice *fake = (FakeDevice *)base;

  g_assert_true (fake->thread == g_thread_self ());
  g_atomic_int_inc (&n_fake_flushes);
  return TRUE;
}

static guint fake_throttle = PS_THROTTLE_POWER;
static gint64 time_limit_ns = G_GINT64_CONSTANT (60000000000);

/* Of the whole accelerator, 100 MHz and a degree more each time; throttled from the third reading on. */
static void fake_condition (PsDevice *base, PsCondition *condition)
{
  gint n = g_atomic_int_add (&n_fake_conditions, 1);

  *condition = (PsCondition){ .clock_mhz = 1000 + 100 * n,
                              .temperature_c = 40 + n,
                              .throttle = PS_THROTTLE_KNOWN | (n >= 2 ? fake_throttle : 0) };
}

static guint fake_sharing (PsDevice *base)
{
  return ((FakeDevice *)base)->setting.n_local;
}

static gint64 fake_op_ns (PsDevice *base)
{
  return 77;
}

static void fake_memory (PsDevice *base, PsMemoryUse *use)
{
  *use = ((FakeDevice *)base)->use;
}

static void fake_reset_peak (PsDevice *base)
{
  PsMemoryUse *use = &((FakeDevice *)base)->use;

  use->peak_bytes = use->current[PS_USE_STATE] + use->current[PS_USE_ACTIVATION];
}

static const PsDeviceClass fake_class = {
  .name = "fake",
  .description = "for tests",
  .measures = TRUE,
  .open = fake_open,
  .close = fake_close,
  .attach = fake_attach,
  .add_stage = fake_add_stage,
  .tensor_new = fake_tensor_new,
  .tensor_free = fake_tensor_free,
  .run = fake_run,
  .memory = fake_memory,
  .reset_peak = fake_reset_peak,
};

/* The same on parts of one accelerator. */
static const PsDeviceClass split_class = {
  .name = "split",
  .description = "for tests",
  .measures = TRUE,
  .open = fake_open,
  .close = fake_close,
  .attach = fake_attach,
  .add_stage = fake_add_stage,
  .tensor_new = fake_tensor_new,
  .tensor_free = fake_tensor_free,
  .run = fake_run,
  .op_ns = fake_op_ns,
  .flush_cache = fake_flush_cache,
  .condition = fake_condition,
  .sharing = fake_sharing,
  .memory = fake_memory,
  .reset_peak = fake_reset_peak,
};

static const PsDeviceClass *opened_class = &fake_class;
static int fake_indices; /* bit 1 << index of every device opened */

static PsDevice *fake_open (const PsDeviceSetting *setting, GError **error)
{
  FakeDevice *fake = g_new0 (FakeDevice, 1);

  g_atomic_int_inc (&n_fake_devices);
  g_atomic_int_or ((guint *)&fake_indices, 1U << setting->index);
  fake->base.class = opened_class;
  fake->setting = *setting;
  fake->shapes = g_new0 (PsStageShape, setting->n_stages);
  fake->state = g_new0 (guint8, setting->n_stages * setting->n_microbatches);
  return &fake->base;
}
