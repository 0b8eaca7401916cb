/* zb-h2.c - ZB-H1 with twice the warm-up, which fills the bubble before the first backward as well. Every device is
 * busy from its first forward to its last W where F, B and W take the same time, m >= 2p and transfers are free. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("zb-h2", setting, error);
}

static PsWalk
rule (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = 2 * (setting->n_devices - 1 - device), .split = TRUE, .delay = 2 * device };
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk ("zb-h2", setting, rule);
}

const PsFamily ps_family_zb_h2 = {
  .name = "zb-h2",
  .description = "ZB-H1 with twice the warm-up: no bubble in a device's span from m = 2p on",
  .constraints = "none",
  .memory = "min (m, 2p - 1)",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2.2",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
