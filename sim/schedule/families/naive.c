/* naive.c - layers split over devices, one microbatch at a time. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("naive", setting, error);
}

static PsWalk
rule (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = 0 };
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk ("naive", setting, rule);
}

const PsFamily ps_family_naive = {
  .name = "naive",
  .description = "layers split over devices, one microbatch at a time",
  .constraints = "none",
  .memory = "1",
  .source = "model parallelism without a pipeline",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
