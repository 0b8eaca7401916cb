/* zb-h1.c - 1F1B with the weight gradients split off. Device r starts its W with the backward of microbatch r. So every
 * device keeps as many activations as device 0 of 1F1B, and W fills the drain. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("zb-h1", setting, error);
}

static PsWalk
rule (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = setting->n_devices - 1 - device, .split = TRUE, .delay = device };
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk ("zb-h1", setting, rule);
}

const PsFamily ps_family_zb_h1 = {
  .name = "zb-h1",
  .description = "1F1B with W split off and moved into the drain, at the memory of 1F1B",
  .constraints = "none",
  .memory = "min (m, p)",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2.1",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
