/* pipedream.c - 1F1B that never drains: weights are updated after every backward, and a device keeps the versions that its
 * microbatches under way have seen, p - r of them. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("pipedream", setting, error);
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  PsSchedule *schedule = ps_family_walk ("pipedream", setting, ps_family_1f1b_rule);
  schedule->asynchronous = TRUE;
  schedule->weight_versions = g_new (guint, setting->n_devices);
  for (guint device = 0; device < setting->n_devices; device++)
    schedule->weight_versions[device] = setting->n_devices - device;
  return schedule;
}

const PsFamily ps_family_pipedream = {
  .name = "pipedream",
  .description = "asynchronous 1F1B with one stashed version of the weights per microbatch under way",
  .constraints = "none",
  .memory = "min (m, p - r), and p - r versions of the weights",
  .source = "PipeDream, arXiv 1806.03377",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
