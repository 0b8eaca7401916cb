/* seq1f1b.c - 1F1B over sequence slices of a microbatch: slices forward in order, backward in reverse. The warm-up
 * holds the whole first microbatch, and the bubble shrinks to that of a slice. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("seq1f1b", setting, error);
}

static PsWalk
rule (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = setting->n_devices - 1 - device + setting->n_slices - 1 };
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk ("seq1f1b", setting, rule);
}

const PsFamily ps_family_seq1f1b = {
  .name = "seq1f1b",
  .description = "1F1B over q sequence slices of each microbatch",
  .constraints = "none",
  .memory = "min (m q, p - r + q - 1) / q",
  .source = "Seq1F1B, arXiv 2406.03488",
  .default_chunks = 1,
  .default_slices = 4,
  .check = check,
  .generate = generate,
};
