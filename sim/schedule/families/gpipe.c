/* gpipe.c - all forwards, then all backwards. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("gpipe", setting, error);
}

static PsWalk
rule (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = setting->n_microbatches };
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk ("gpipe", setting, rule);
}

const PsFamily ps_family_gpipe = {
  .name = "gpipe",
  .description = "all forwards, then all backwards",
  .constraints = "none",
  .memory = "m",
  .source = "GPipe, arXiv 1811.06965",
  .default_chunks = 1,
  .check = check,
  .generate = generate,
};
