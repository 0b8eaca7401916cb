/* gis.c - the generalized interleaved schedule of PipeOffload: interleaved 1F1B with half the warm-up and each W right
 * after its B, in groups down to half a pipeline. A group of N < p waits p - N forwards for its next chunk and keeps
 * fewer activations. */
#include "families-private.h"

static guint
least_group (const PsFamilySetting *setting)
{
  return (setting->n_devices + 1) / 2;
}

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_groups ("gis", setting, least_group (setting), "half of p", error);
}

static PsWalk
rule (const PsFamilySetting *setting, guint device)
{
  guint group = ps_family_group_size (setting, least_group (setting));

  return (PsWalk){ .warmup = setting->n_devices - 1 - device + (setting->n_chunks - 1) * group,
                   .group = group,
                   .split = TRUE };
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk ("gis", setting, rule);
}

const PsFamily ps_family_gis = {
  .name = "gis",
  .description = "1F1B over v chunks in groups of half a pipeline, W right after B: less memory",
  .constraints = "N, when given, from p / 2 to m with m mod N = 0 or >= p / 2",
  .memory = "min (m v, p - r + (v - 1) N) / v, N the group size, p / 2 where that divides m",
  .source = "PipeOffload, arXiv 2503.01328, section 4",
  .default_chunks = 2,
  .groups = TRUE,
  .check = check,
  .generate = generate,
};
