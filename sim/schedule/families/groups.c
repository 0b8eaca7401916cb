/* groups.c - groups of microbatches that go through a chunk in a row. A device that comes back to a chunk finds its
 * input ready only where a group is as long as the pipeline. So Megatron-LM asks that N >= p and that m mod N is 0 or
 * at least p. Other families wait for smaller groups. With fewer microbatches than the least there is one group. */
#include "families-private.h"

static gboolean
is_group_size (const PsFamilySetting *setting, guint least, guint group)
{
  guint m = setting->n_microbatches;

  return group >= 1 && group >= MIN (least, m) && group <= m && (m % group == 0 || m % group >= least);
}

/* The smallest one allowed keeps the least memory; it is `least` itself where that divides m. */
guint
ps_family_group_size (const PsFamilySetting *setting, guint least)
{
  guint group = setting->group_size ? setting->group_size : MIN (least, setting->n_microbatches);

  while (!is_group_size (setting, least, group))
    group++;
  return group;
}

/* m itself always goes. */
static guint
nearest_group (const PsFamilySetting *setting, guint least)
{
  guint asked = MIN (setting->group_size, setting->n_microbatches);

  for (guint distance = 0;; distance++)
    {
      if (asked > distance && is_group_size (setting, least, asked - distance))
        return asked - distance;
      if (is_group_size (setting, least, asked + distance))
        return asked + distance;
    }
}

gboolean
ps_family_check_groups (const char *name, const PsFamilySetting *setting, guint least, const char *what, GError **error)
{
  if (setting->group_size == 0 || is_group_size (setting, least, setting->group_size))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "%s: groups of %u are not allowed; give %u, N from %s to m with m mod N = 0 or >= %s", name,
                    setting->group_size, nearest_group (setting, least), what, what);
}
