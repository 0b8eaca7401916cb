/* zb-h1.c - 1F1B with the weight gradients split off: device r starts its W with the backward of microbatch r, so that every
 * device keeps as many activations as device 0 of 1F1B, and W fills the drain. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("zb-h1", setting, error);
}

static void
add_device (PsScheduleBuilder *builder, guint device, guint n_devices, guint m)
{
  guint warmup = MIN (m, n_devices - 1 - device);
  guint n_weights = 0;
  for (guint i = 0; i < warmup; i++)
    ps_schedule_builder_add (builder, PS_OP_F, device, i);
  for (guint i = 0; i < m; i++)
    {
      if (warmup + i < m)
        ps_schedule_builder_add (builder, PS_OP_F, device, warmup + i);
      ps_schedule_builder_add (builder, PS_OP_B, device, i);
      if (i >= device)
        ps_schedule_builder_add (builder, PS_OP_W, device, n_weights++);
    }
  while (n_weights < m)
    ps_schedule_builder_add (builder, PS_OP_W, device, n_weights++);
}

static PsSchedule *
generate (const PsFamilySetting *setting)
{
  PsScheduleBuilder *builder = ps_family_builder ("zb-h1", PS_PLACEMENT_LOOP, setting);
  for (guint device = 0; device < setting->n_devices; device++)
    {
      add_device (builder, device, setting->n_devices, setting->n_microbatches);
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_zb_h1 = {
  .name = "zb-h1",
  .description = "1F1B with W split off and moved into the drain, at the memory of 1F1B",
  .constraints = "none",
  .memory = "min (m, p)",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2.1",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
