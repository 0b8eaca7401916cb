/* interleaved-overlap-w.c - interleaved-overlap with W after each pair, so that the gradient goes on its way first. The
 * time of a pair (pair= in costs) is that of an F and a B here. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_overlap ("interleaved-overlap-w", setting, error);
}

static PsWalk
rule (const PsFamilySetting *setting, guint device)
{
  PsWalk walk = ps_family_overlap_rule (setting, device);

  walk.split = TRUE;
  return walk;
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk ("interleaved-overlap-w", setting, rule);
}

const PsFamily ps_family_interleaved_overlap_w = {
  .name = "interleaved-overlap-w",
  .description = "interleaved-overlap with W after each pair; pair= is F and B there",
  .constraints = "v >= 2; N, when given, from p to m with m mod N = 0 or >= p",
  .memory = "min (m v, 2 (p - 1 - r) + (v - 1) N + 2) / v, N the group size, p where p divides m",
  .source = "Megatron-LM, delay_wgrad_compute; core/pipeline_parallel/combined_1f1b.py",
  .default_chunks = 2,
  .groups = TRUE,
  .check = check,
  .generate = generate,
};
