/* chimera.c - two pipelines in opposite directions over the same devices, each with its own copy of the weights. */
#include "families-private.h"

#include <string.h>

static gboolean check (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_multiple (family->name, "devices", setting->n_devices, 2, error)
         && ps_family_check_multiple (family->name, "microbatches", setting->n_microbatches, setting->n_devices, error);
}

/* Ops of one device by time slot. An F and a BW take one slot each, and no two ops of a device share one. A unit of p
 * microbatches, half of them per direction, begins every 2 p slots. */
static void fill_slots (PsOp *slot, guint8 *used, const PsFamilySetting *setting, guint device)
{
  guint p = setting->n_devices, m = setting->n_microbatches, half = p / 2;

  g_assert (half > 0);
  for (guint microbatch = 0; microbatch < m; microbatch++) {
    guint unit = microbatch / p, within = microbatch % p;
    gboolean up = within >= half;
    guint stage = up ? p - 1 - device : device, begin = 2 * (within % half) + 2 * p * unit;
    guint forward = begin + stage, backward = begin + 2 * p - 1 - stage;

    slot[forward] = (PsOp){ .kind = PS_OP_F, .stage = (guint16)stage, .microbatch = microbatch & G_MAXINT32 };
    slot[backward] = (PsOp){ .kind = PS_OP_BW, .stage = (guint16)stage, .microbatch = microbatch & G_MAXINT32 };
    used[forward] = used[backward] = TRUE;
  }
}

static PsSchedule *generate (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  PsScheduleBuilder *builder = ps_family_builder ("chimera", PS_PLACEMENT_BIDIRECTIONAL, setting);
  guint p = setting->n_devices, m = setting->n_microbatches, n_slots = 2 * m + 2 * p;
  g_autofree PsOp *slot = g_new (PsOp, n_slots);
  g_autofree guint8 *used = g_new0 (guint8, n_slots);

  for (guint device = 0; device < p; device++) {
    memset (used, 0, n_slots);
    fill_slots (slot, used, setting, device);
    for (guint i = 0; i < n_slots; i++)
      if (used[i])
        ps_schedule_builder_add_op (builder, slot[i]);
    ps_schedule_builder_next_device (builder);
  }
  PsSchedule *schedule = ps_schedule_builder_end (builder);
  g_assert (p >= 2);
  schedule->copy = g_new (guint8, m);
  for (guint microbatch = 0; microbatch < m; microbatch++)
    schedule->copy[microbatch] = microbatch % p >= p / 2;
  return schedule;
}

const PsFamily ps_family_chimera = {
  .name = "chimera",
  .description = "two pipelines in opposite directions, two weight copies",
  .constraints = "p even, m a multiple of p",
  .memory = "p / 2 + 1 at the ends to p in the middle",
  .source = "Chimera, arXiv 2107.06925",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
