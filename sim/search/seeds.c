/* seeds.c - what the families come to under the problem's costs and limit. */
#include "seeds.h"

static PsSchedule *
generate (const PsFamily *family, const PsSearchSetting *setting)
{
  const PsPlacement *placement = setting->placement;
  PsFamilySetting family_setting = { .n_devices = placement->n_devices,
                                     .n_microbatches = setting->n_microbatches,
                                     .n_chunks = placement->n_stages / placement->n_devices,
                                     .costs = setting->costs,
                                     .memory_limit = setting->memory_limit };
  g_autoptr (PsSchedule) schedule = NULL;

  if (placement->n_stages % placement->n_devices != 0)
    return NULL;
  schedule = ps_family_generate (family, &family_setting, NULL);
  if (schedule == NULL || schedule->placement->n_copies != 1)
    return NULL;
  for (guint s = 0; s < placement->n_stages; s++)
    if (ps_placement_device (schedule->placement, 0, s) != ps_placement_device (placement, 0, s))
      return NULL;
  return g_steal_pointer (&schedule);
}

Order *
best_family (const Problem *problem, const PsSearchSetting *setting, const char **name)
{
  g_autoptr (Order) best = NULL;
  g_autoptr (Order) order = order_new (problem);
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    {
      g_autoptr (PsSchedule) schedule = generate (families[i], setting);

      if (schedule == NULL || !order_from_schedule (order, schedule) || !order_evaluate (order) || order->excess > 0
          || (best != NULL && best->objective <= order->objective))
        continue;
      if (best == NULL)
        best = order_new (problem);
      order_assign (best, order);
      *name = families[i]->name;
    }
  return g_steal_pointer (&best);
}
