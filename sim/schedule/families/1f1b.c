/* 1f1b.c - after a warm-up of p - 1 - r forwards, one forward and one backward in turn (PipeDream-Flush, DAPPLE). */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_one_chunk ("1f1b", setting, error);
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk ("1f1b", setting, ps_family_1f1b_rule);
}

const PsFamily ps_family_1f1b = {
  .name = "1f1b",
  .description = "one forward, one backward in turn after a warm-up",
  .constraints = "none",
  .memory = "min (m, p - r)",
  .source = "PipeDream-Flush, arXiv 2006.09503; DAPPLE, arXiv 2007.01045",
  .default_chunks = 1,
  .defers = TRUE,
  .check = check,
  .generate = generate,
};
