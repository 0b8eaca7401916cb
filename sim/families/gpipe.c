/* gpipe.c - all forwards, then all backwards. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("gpipe", setting, error);
}

static PsSchedule *
generate (const PsFamilySetting *setting)
{
  PsScheduleBuilder *builder = ps_family_builder ("gpipe", PS_PLACEMENT_LOOP, setting);
  for (guint device = 0; device < setting->n_devices; device++)
    {
      for (guint microbatch = 0; microbatch < setting->n_microbatches; microbatch++)
        ps_schedule_builder_add (builder, PS_OP_F, device, microbatch);
      for (guint microbatch = 0; microbatch < setting->n_microbatches; microbatch++)
        ps_schedule_builder_add (builder, PS_OP_BW, device, microbatch);
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_gpipe = {
  .name = "gpipe",
  .description = "all forwards, then all backwards",
  .constraints = "none",
  .memory = "m",
  .source = "GPipe, arXiv 1811.06965",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
