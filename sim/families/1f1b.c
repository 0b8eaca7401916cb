/* 1f1b.c - after a warm-up of p - 1 - r forwards, one forward and one backward in turn (PipeDream-Flush, DAPPLE). */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("1f1b", setting, error);
}

static PsSchedule *
generate (const PsFamilySetting *setting)
{
  PsScheduleBuilder *builder = ps_family_builder ("1f1b", PS_PLACEMENT_LOOP, setting);
  guint m = setting->n_microbatches;
  for (guint device = 0; device < setting->n_devices; device++)
    {
      guint warmup = MIN (m, setting->n_devices - 1 - device);
      for (guint i = 0; i < warmup; i++)
        ps_schedule_builder_add (builder, PS_OP_F, device, i);
      for (guint i = 0; i < m; i++)
        {
          if (warmup + i < m)
            ps_schedule_builder_add (builder, PS_OP_F, device, warmup + i);
          ps_schedule_builder_add (builder, PS_OP_BW, device, i);
        }
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_1f1b = {
  .name = "1f1b",
  .description = "one forward, one backward in turn after a warm-up",
  .constraints = "none",
  .memory = "min (m, p - r)",
  .source = "PipeDream-Flush, arXiv 2006.09503; DAPPLE, arXiv 2007.01045",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
