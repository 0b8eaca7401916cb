/* pipedream-2bw.c - 1F1B that never drains: weights are updated once per m microbatches, and with m >= p two versions serve all of
 * them. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  if (!ps_family_check_one_chunk ("pipedream-2bw", setting, error))
    return FALSE;
  if (setting->n_microbatches >= setting->n_devices)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "pipedream-2bw: %u microbatches on %u devices; two versions of the weights serve %u or more",
               setting->n_microbatches, setting->n_devices, setting->n_devices);
  return FALSE;
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  PsSchedule *schedule = ps_family_walk ("pipedream-2bw", setting, ps_family_1f1b_rule);
  schedule->asynchronous = TRUE;
  schedule->weight_versions = g_new (guint, setting->n_devices);
  for (guint device = 0; device < setting->n_devices; device++)
    schedule->weight_versions[device] = 2;
  return schedule;
}

const PsFamily ps_family_pipedream_2bw = {
  .name = "pipedream-2bw",
  .description = "asynchronous 1F1B with two versions of the weights",
  .constraints = "m >= p",
  .memory = "p - r, and 2 versions of the weights",
  .source = "PipeDream-2BW, arXiv 2006.09503",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
