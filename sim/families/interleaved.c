/* interleaved.c - 1F1B over v chunks per device in loop placement, in Megatron-LM's order. */
#include "families-private.h"

/* Microbatches go through a chunk in groups of N >= p; Megatron-LM asks that m mod N is 0 or at least p. The smallest such N keeps the
 * least memory; it is p itself where p divides m. */
static guint
group_size (guint n_devices, guint m)
{
  guint group = n_devices;
  while (m % group != 0 && m % group < n_devices)
    group++;
  return group;
}

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  if (setting->n_chunks < 2)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "interleaved: needs 2 or more chunks per device, not %u", setting->n_chunks);
  else if (setting->n_microbatches < setting->n_devices)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "interleaved: needs as many microbatches as devices, at least %u, not %u",
                 setting->n_devices, setting->n_microbatches);
  else
    return TRUE;
  return FALSE;
}

/* The k-th forward (chunk 0 first) or backward (last chunk first) of a device. */
static void
add_unit (PsScheduleBuilder *builder, const PsFamilySetting *setting, guint device, PsOpKind kind, guint k, guint group)
{
  guint v = setting->n_chunks;
  guint start = k / (group * v) * group; /* first microbatch of the group */
  guint size = MIN (group, setting->n_microbatches - start);
  guint within = k - start * v;
  guint chunk = within / size;
  guint stage = (kind == PS_OP_F ? chunk : v - 1 - chunk) * setting->n_devices + device;
  ps_schedule_builder_add (builder, kind, stage, start + within % size);
}

static PsSchedule *
generate (const PsFamilySetting *setting)
{
  PsScheduleBuilder *builder = ps_family_builder ("interleaved", PS_PLACEMENT_LOOP, setting);
  guint group = group_size (setting->n_devices, setting->n_microbatches);
  guint units = setting->n_microbatches * setting->n_chunks;
  for (guint device = 0; device < setting->n_devices; device++)
    {
      guint warmup = MIN (units, 2 * (setting->n_devices - 1 - device) + (setting->n_chunks - 1) * group);
      for (guint k = 0; k < warmup; k++)
        add_unit (builder, setting, device, PS_OP_F, k, group);
      for (guint k = 0; k < units; k++)
        {
          if (warmup + k < units)
            add_unit (builder, setting, device, PS_OP_F, warmup + k, group);
          add_unit (builder, setting, device, PS_OP_BW, k, group);
        }
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_interleaved = {
  .name = "interleaved",
  .description = "1F1B over v chunks per device (virtual pipeline)",
  .constraints = "v >= 2, m >= p",
  .memory = "min (m v, 2 (p - 1 - r) + (v - 1) N + 1) / v, N the group size, p where p divides m",
  .source = "Megatron-LM, arXiv 2104.04473, section 2.2; core/pipeline_parallel/schedules.py",
  .default_chunks = 2,
  .check = check,
  .generate = generate,
};
