/* pipedream.c - 1F1B that never drains: weights are updated after every backward, and a device keeps the versions that
 * its microbatches under way have seen, one for each. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("pipedream", setting, error);
}

static guint
versions (const PsFamilySetting *setting, guint device)
{
  return MIN (setting->n_microbatches, setting->n_devices - device);
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  PsSchedule *schedule = ps_family_walk_asynchronous ("pipedream", setting, versions);

  schedule->update_every = 1;
  return schedule;
}

const PsFamily ps_family_pipedream = {
  .name = "pipedream",
  .description = "asynchronous 1F1B with one stashed version of the weights per microbatch under way",
  .constraints = "none",
  .memory = "min (m, p - r), and as many versions of the weights",
  .source = "PipeDream, arXiv 1806.03377",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
