/* v-half.c - split backwards on a V at half the memory of 1F1B. */
#include "v-block.h"

static gboolean
check (const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_two_chunks ("v-half", setting, error);
}

/* An even p would make ops collide without the extra slots. */
static PsSchedule *
generate (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  guint p = setting->n_devices, extra = p % 2 == 0 ? 3 : 0;
  g_autofree guint (*offset)[4] = g_malloc (p * sizeof *offset);

  for (guint device = 0; device < p; device++)
    {
      offset[device][PS_V_F_DOWN] = 2 * device;
      offset[device][PS_V_F_UP] = 3 * p - 2 - device;
      offset[device][PS_V_B_DOWN] = 3 * p + extra + 2 * device - 1;
      offset[device][PS_V_B_UP] = 6 * p + extra - device - 2;
    }
  return ps_v_split_generate ("v-half", setting, (const guint (*)[4])offset, FALSE);
}

const PsFamily ps_family_v_half = {
  .name = "v-half",
  .description = "zero bubble on a V at about half the memory of 1F1B, for F = B = W",
  .constraints = "v = 2",
  .memory = "min (m, p / 2 + 1), rounded down",
  .source = "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362",
  .default_chunks = 2,
  .check = check,
  .generate = generate,
};
