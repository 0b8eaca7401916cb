/* naive.c - layers split over devices, one microbatch at a time. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("naive", setting, error);
}

static PsSchedule *
generate (const PsFamilySetting *setting)
{
  PsScheduleBuilder *builder = ps_family_builder ("naive", PS_PLACEMENT_LOOP, setting);
  for (guint device = 0; device < setting->n_devices; device++)
    {
      for (guint microbatch = 0; microbatch < setting->n_microbatches; microbatch++)
        {
          ps_schedule_builder_add (builder, PS_OP_F, device, microbatch);
          ps_schedule_builder_add (builder, PS_OP_BW, device, microbatch);
        }
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_naive = {
  .name = "naive",
  .description = "layers split over devices, one microbatch at a time",
  .constraints = "none",
  .memory = "1",
  .source = "model parallelism without a pipeline",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
