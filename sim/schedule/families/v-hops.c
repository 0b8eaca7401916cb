/* v-hops.c - blocks on a V with waits of their own at each device; V-Half and V-Min are two of them. */
#include "v-block.h"

/* Whether no op before `type` starts in the same slot of a later period. */
static gboolean
is_free (const guint offset[4], guint type, guint slot)
{
  for (guint i = 0; i < type; i++)
    if (offset[i] % PS_V_PERIOD == slot % PS_V_PERIOD)
      return FALSE;
  return TRUE;
}

PsSchedule *
ps_family_v_hops (const PsFamilySetting *setting, const guint8 *wait, gboolean eager)
{
  guint p = setting->n_devices, slot = 0;
  g_autofree guint (*offset)[4] = g_malloc (p * sizeof *offset);

  for (guint i = 0; i < 4 * p; i++)
    {
      guint type = i / p, device = type % 2 == 0 ? i % p : p - 1 - i % p;

      slot += wait[type * p + device];
      while (!is_free (offset[device], type, slot))
        slot++;
      offset[device][type] = slot++;
    }
  return ps_v_split_generate ("search", setting, (const guint (*)[4])offset, eager);
}
