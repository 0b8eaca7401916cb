/* pipedream-2bw.c - 1F1B that never drains: weights are updated once per m microbatches, and with m >= p two versions
 * serve all of them. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("pipedream-2bw", setting, error)
         && ps_family_check_microbatches ("pipedream-2bw", setting, setting->n_devices,
                                          "so that two versions of the weights serve them all", error);
}

static guint
versions (const PsFamilySetting *setting, guint device)
{
  return 2;
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk_asynchronous ("pipedream-2bw", setting, versions);
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
