/* eager-1f1b.c - 1F1B with twice the warm-up: the next input of a device has been under way for a while, so transfers
 * overlap with ops. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("eager-1f1b", setting, error);
}

static PsWalk
rule (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = 2 * (setting->n_devices - 1 - device) };
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk ("eager-1f1b", setting, rule);
}

const PsFamily ps_family_eager_1f1b = {
  .name = "eager-1f1b",
  .description = "1F1B with twice the warm-up, which hides transfers",
  .constraints = "none",
  .memory = "min (m, 2 (p - r) - 1)",
  .source = "warm-up of Megatron-LM's interleaved 1F1B with one chunk; PyTorch Interleaved1F1B, v = 1",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
