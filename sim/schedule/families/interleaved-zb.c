/* interleaved-zb.c - interleaved 1F1B with half the warm-up and the weight gradients split off, ZB-H1 over v chunks:
 * device r runs each W r units after its B. */
#include "families-private.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_groups ("interleaved-zb", setting, setting->n_devices, "p", error);
}

static PsWalk
rule (const PsFamilySetting *setting, guint device)
{
  guint group = ps_family_group_size (setting, setting->n_devices);

  return (PsWalk){
    .warmup = setting->n_devices - 1 - device + (setting->n_chunks - 1) * group,
    .group = group,
    .split = TRUE,
    .delay = device,
  };
}

static PsSchedule *
generate (const PsFamilySetting *setting, GError **error)
{
  return ps_family_walk ("interleaved-zb", setting, rule);
}

const PsFamily ps_family_interleaved_zb = {
  .name = "interleaved-zb",
  .description = "ZB-H1 over v chunks per device",
  .constraints = "N, when given, from p to m with m mod N = 0 or >= p",
  .memory = "min (m v, p + (v - 1) N) / v, N the group size, p where p divides m",
  .source = "PyTorch InterleavedZeroBubble, after arXiv 2401.10241",
  .default_chunks = 2,
  .groups = TRUE,
  .check = check,
  .generate = generate,
};
