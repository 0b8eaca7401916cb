/* dualpipe-v.c - DualPipe cut in half: the two streams are the two chunks of a V, so that one weight copy is enough. */
#include "dualpipe-rule.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_two_chunks ("dualpipe-v", setting, error)
         && ps_family_check_microbatches ("dualpipe-v", setting, 2 * setting->n_devices, "two for each device", error);
}

static PsSchedule *
generate (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  PsScheduleBuilder *builder = ps_family_builder ("dualpipe-v", PS_PLACEMENT_V, setting);
  guint p = setting->n_devices;

  for (guint r = 0; r < p; r++)
    {
      PsDualPipeDevice device
          = { .half = p, .distance = r, .n_microbatches = setting->n_microbatches, .stage = { r, 2 * p - 1 - r } };

      ps_dualpipe_add (&device, builder);
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_dualpipe_v = {
  .name = "dualpipe-v",
  .description = "DualPipe on a V: forwards overlapped with backwards in pairs, one weight copy",
  .constraints = "v = 2, m >= 2 p",
  .memory = "p + 1/2",
  .source = "DualPipeV, Sea AI Lab; DeepSeek's DualPipe repository; torch.distributed.pipelining ScheduleDualPipeV",
  .default_chunks = 2,
  .check = check,
  .generate = generate,
};
