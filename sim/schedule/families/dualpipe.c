/* dualpipe.c - two streams of microbatches in opposite directions, the forwards of one overlapped with the backwards of
 * the other. */
#include "dualpipe-rule.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("dualpipe", setting, error)
         && ps_family_check_multiple ("dualpipe", "devices", setting->n_devices, 2, error)
         && ps_family_check_multiple ("dualpipe", "microbatches", setting->n_microbatches, 2, error)
         && ps_family_check_microbatches ("dualpipe", setting, 2 * setting->n_devices, "two for each device", error);
}

/* Copy 0 of the weights goes down the devices and takes the first half of the microbatches. The near end of the first
 * half of the devices is the source of copy 0. */
static PsDualPipeDevice
describe (const PsFamilySetting *setting, guint r)
{
  guint p = setting->n_devices, half = setting->n_microbatches / 2;
  PsDualPipeDevice device = { .half = p / 2, .distance = MIN (r, p - 1 - r), .n_microbatches = half };
  guint near = r < p / 2 ? 0 : 1;

  for (guint phase = 0; phase < 2; phase++)
    {
      gboolean up = (phase == 0) == (near == 1);

      device.stage[phase] = up ? p - 1 - r : r;
      device.first[phase] = up ? half : 0;
    }
  return device;
}

static PsSchedule *
generate (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  PsScheduleBuilder *builder = ps_family_builder ("dualpipe", PS_PLACEMENT_BIDIRECTIONAL, setting);
  guint m = setting->n_microbatches;

  for (guint r = 0; r < setting->n_devices; r++)
    {
      PsDualPipeDevice device = describe (setting, r);

      ps_dualpipe_add (&device, builder);
      ps_schedule_builder_next_device (builder);
    }
  PsSchedule *schedule = ps_schedule_builder_end (builder);
  schedule->copy = g_new (guint8, m);
  for (guint microbatch = 0; microbatch < m; microbatch++)
    schedule->copy[microbatch] = microbatch >= m / 2;
  return schedule;
}

const PsFamily ps_family_dualpipe = {
  .name = "dualpipe",
  .description = "two opposite streams, forwards overlapped with backwards in pairs, two weight copies",
  .constraints = "p even, m even, m >= 2 p",
  .memory = "p + 1",
  .source = "DeepSeek-V3, arXiv 2412.19437, section 3.2.1",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
