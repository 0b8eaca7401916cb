/* v-min.c - split backwards on a V at a third of the memory of 1F1B; sensitive to F, B and W that differ. */
#include "v-block.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_two_chunks ("v-min", setting, error);
}

/* A p that 3 divides would make ops collide without the extra slots. */
PsSchedule *
ps_v_min_generate (const PsFamilySetting *setting, gboolean eager)
{
  guint p = setting->n_devices, extra = p % 3 == 0 ? 2 : 0;
  g_autofree guint (*offset)[4] = g_malloc (p * sizeof *offset);

  for (guint device = 0; device < p; device++)
    {
      offset[device][PS_V_F_DOWN] = device;
      offset[device][PS_V_F_UP] = 2 * p - 1 - device;
      offset[device][PS_V_B_DOWN] = 2 * p + extra + device;
      offset[device][PS_V_B_UP] = 4 * p + extra - 1 - device;
    }
  return ps_v_split_generate ("v-min", setting, (const guint (*)[4])offset, eager);
}

/* Eager ops save one or two chunk ops at the same memory. The published order stays in two cases. With p mod 3 = 1
 * they gain nothing at F = B = W. Few devices hold almost as much as ZB-V. */
gboolean
ps_v_min_is_eager (guint n_devices)
{
  return n_devices > 4 && n_devices % 3 != 1;
}

static PsSchedule *
generate (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  return ps_v_min_generate (setting, ps_v_min_is_eager (setting->n_devices));
}

const PsFamily ps_family_v_min = {
  .name = "v-min",
  .description = "split backwards on a V at about a third of the memory of 1F1B, for F = B = W",
  .constraints = "v = 2",
  .memory = "min (m, (p + 4) / 3), rounded down",
  .source = "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362",
  .default_chunks = 2,
  .check = check,
  .generate = generate,
};
