/* zb-v.c - zero bubble on a V with the memory of 1F1B, the static form: F, B and W are taken to cost the same. Device r
 * holds stage r (its near chunk) and stage 2 p - 1 - r (its far chunk). Fewer than 2 p - 1 microbatches keep PyTorch's
 * order too, in which the others are left out; zb-v-auto does better there. */
#include "families-private.h"

/* Walks one device's order. Leaves out ops of microbatches that only the steady pattern needs. */
typedef struct {
  PsScheduleBuilder *builder;
  guint m;
  guint n;          /* microbatches of the pattern */
  guint stage[2];   /* near, far */
  guint next[3][2]; /* [F, B, W][near, far] next microbatch */
} Device;

enum { NEAR, FAR };

static void add (Device *device, PsOpKind kind, guint chunk)
{
  guint microbatch = device->next[kind][chunk]++;

  if (microbatch < device->m)
    ps_schedule_builder_add (device->builder, kind, device->stage[chunk], microbatch);
}

static void add_backward (Device *device, guint chunk)
{
  add (device, PS_OP_B, chunk);
  add (device, PS_OP_W, chunk);
}

static void add_warmup (Device *device, guint p, guint r)
{
  for (guint i = 0; i < 2 * (p - r) - 1; i++)
    add (device, PS_OP_F, NEAR);
  for (guint i = 0; i < r; i++) {
    add (device, PS_OP_F, FAR);
    add (device, PS_OP_F, NEAR);
  }
  for (guint i = 0; i < p - r; i++) {
    add (device, PS_OP_F, FAR);
    add_backward (device, FAR);
  }
}

static void add_steady (Device *device)
{
  while (device->next[PS_OP_F][FAR] < device->n) {
    if (device->next[PS_OP_F][NEAR] < device->n)
      add (device, PS_OP_F, NEAR);
    add_backward (device, NEAR);
    add (device, PS_OP_F, FAR);
    add_backward (device, FAR);
  }
}

static void add_drain (Device *device, guint p, guint r)
{
  for (guint i = 0; i < r; i++) {
    add (device, PS_OP_B, NEAR);
    add (device, PS_OP_B, FAR);
  }
  for (guint i = 0; i < p - r; i++)
    add_backward (device, NEAR);
  while (device->next[PS_OP_W][FAR] < device->n)
    add (device, PS_OP_W, FAR);
  while (device->next[PS_OP_W][NEAR] < device->n)
    add (device, PS_OP_W, NEAR);
}

static PsSchedule *generate (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  PsScheduleBuilder *builder = ps_family_builder ("zb-v", PS_PLACEMENT_V, setting);
  guint p = setting->n_devices, m = setting->n_microbatches;

  for (guint r = 0; r < p; r++) {
    Device device = { .builder = builder, .m = m, .n = MAX (m, 2 * p - 1), .stage = { r, 2 * p - 1 - r } };

    add_warmup (&device, p, r);
    add_steady (&device);
    add_drain (&device, p, r);
    ps_schedule_builder_next_device (builder);
  }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_zb_v = {
  .name = "zb-v",
  .torch = "ZBVZeroBubble",
  .description = "zero bubble on a V at the memory of 1F1B, for F = B = W and m >= 2 p; PyTorch's order",
  .constraints = "v = 2",
  .memory = "min (m, p)",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 6",
  .default_chunks = 2,
  .forward = TRUE,
  .generate = generate,
};
