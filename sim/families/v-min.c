/* v-min.c - split backwards on a V at a third of the memory of 1F1B; sensitive to F, B and W that differ. */
#include "v-block.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_two_chunks ("v-min", setting, error);
}

/* A p that 3 divides would make ops collide without the extra slots. */
static void
offsets (guint p, guint device, guint offset[4])
{
  guint extra = p % 3 == 0 ? 2 : 0;

  offset[PS_V_F_DOWN] = device;
  offset[PS_V_F_UP] = 2 * p - 1 - device;
  offset[PS_V_B_DOWN] = 2 * p + extra + device;
  offset[PS_V_B_UP] = 4 * p + extra - 1 - device;
}

PsSchedule *
ps_v_min_generate (const PsFamilySetting *setting, gboolean eager)
{
  return ps_v_split_generate ("v-min", setting, offsets, eager);
}

/* Eager ops save one or two chunk ops at the same memory. The published order stays in two cases. With p mod 3 = 1
 * they gain nothing at F = B = W. Few devices hold almost as much as ZB-V. */
static PsSchedule *
generate (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  return ps_v_min_generate (setting, setting->n_devices > 4 && setting->n_devices % 3 != 1);
}

const PsFamily ps_family_v_min = {
  .name = "v-min",
  .description = "split backwards on a V at about a third of the memory of 1F1B, for F = B = W",
  .constraints = "v = 2",
  .memory = "min (m, (p + 4) / 3), rounded down",
  .source = "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362",
  .default_chunks = 2,
  .tried = TRUE,
  .check = check,
  .generate = generate,
};
