/* interleaved.c - 1F1B over v chunks per device in loop placement, in Megatron-LM's order. With one chunk it is plain
 * 1F1B, which Megatron-LM runs then. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_groups ("interleaved", setting, setting->n_devices, "p", error);
}

PsWalk
ps_family_interleaved_rule (const PsFamilySetting *setting, guint device)
{
  guint group = ps_family_group_size (setting, setting->n_devices);

  if (setting->n_chunks == 1)
    return ps_family_1f1b_rule (setting, device);
  return (PsWalk){ .warmup = 2 * (setting->n_devices - 1 - device) + (setting->n_chunks - 1) * group, .group = group };
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk ("interleaved", setting, ps_family_interleaved_rule);
}

const PsFamily ps_family_interleaved = {
  .name = "interleaved",
  .description = "1F1B over v chunks per device (virtual pipeline)",
  .constraints = "N, when given, from p to m with m mod N = 0 or >= p",
  .memory = "min (m v, 2 (p - 1 - r) + (v - 1) N + 1) / v, N the group size, p where p divides m; 1F1B's at v = 1",
  .source = "Megatron-LM, arXiv 2104.04473, section 2.2; core/pipeline_parallel/schedules.py",
  .default_chunks = 2,
  .groups = TRUE,
  .defers = TRUE,
  .check = check,
  .generate = generate,
};
