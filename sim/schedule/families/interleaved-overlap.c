/* interleaved-overlap.c - interleaved 1F1B with one more forward in the warm-up: no forward needs the backward before
 * it, so that both overlap. Megatron-LM hides the messages of experts so. */
#include "families-private.h"

gboolean
ps_family_check_overlap (const char *name, const PsFamilySetting *setting, GError **error)
{
  if (setting->n_chunks == 1)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: has two chunks per device or more, not 1", name);
  return ps_family_check_groups (name, setting, setting->n_devices, "p", error);
}

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_overlap ("interleaved-overlap", setting, error);
}

PsWalk
ps_family_overlap_rule (const PsFamilySetting *setting, guint device)
{
  PsWalk walk = ps_family_interleaved_rule (setting, device);

  walk.warmup++;
  walk.pairs = TRUE;
  return walk;
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk ("interleaved-overlap", setting, ps_family_overlap_rule);
}

const PsFamily ps_family_interleaved_overlap = {
  .name = "interleaved-overlap",
  .description = "interleaved 1F1B with forwards overlapped with backwards in pairs",
  .constraints = "v >= 2; N, when given, from p to m with m mod N = 0 or >= p",
  .memory = "min (m v, 2 (p - 1 - r) + (v - 1) N + 2) / v, N the group size, p where p divides m",
  .source = "Megatron-LM, overlap_moe_expert_parallel_comm; core/pipeline_parallel/combined_1f1b.py",
  .default_chunks = 2,
  .groups = TRUE,
  .check = check,
  .generate = generate,
};
