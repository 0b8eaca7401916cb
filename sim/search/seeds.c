/* seeds.c - what the families come to under the problem's costs and limit. */
#include "seeds.h"

/* Sizes of groups that are tried where a family has them: its own, and from half a pipeline to a whole one. */
#define N_GROUP_SIZES 5

static guint
group_size (guint n_devices, guint i)
{
  guint half = (n_devices + 1) / 2;

  return i > 0 ? half + (i - 1) * (n_devices - half) / (N_GROUP_SIZES - 2) : 0;
}

static PsSchedule *
generate (const PsFamily *family, const PsSearchSetting *setting, guint group)
{
  const PsPlacement *placement = setting->placement;
  PsFamilySetting family_setting = { .n_devices = placement->n_devices,
                                     .n_microbatches = setting->n_microbatches,
                                     .n_chunks = placement->n_stages / placement->n_devices,
                                     .group_size = group,
                                     .costs = setting->costs,
                                     .memory_limit = setting->memory_limit,
                                     .by_makespan = setting->objective == PS_OBJECTIVE_MAKESPAN };
  g_autoptr (PsSchedule) schedule = NULL;

  if (placement->n_stages % placement->n_devices != 0)
    return NULL;
  schedule = ps_family_generate (family, &family_setting, NULL);
  if (schedule == NULL || schedule->placement->n_copies != placement->n_copies)
    return NULL;
  for (guint i = 0; i < placement->n_copies * placement->n_stages; i++)
    if (schedule->placement->device[i] != placement->device[i])
      return NULL;
  return g_steal_pointer (&schedule);
}

/* Whether a schedule is a solution that is better than the best so far, which it then becomes; order is scratch. */
static gboolean
take_better (const PsSchedule *schedule, Order *order, Order **best)
{
  if (!order_from_schedule (order, schedule) || !order_evaluate (order) || order->excess > 0
      || (*best != NULL && (*best)->objective <= order->objective))
    return FALSE;
  if (*best == NULL)
    *best = order_new (order->problem);
  order_assign (*best, order);
  return TRUE;
}

Order *
best_family (const Problem *problem, const PsSearchSetting *setting, const char **name)
{
  g_autoptr (Order) best = NULL;
  g_autoptr (Order) order = order_new (problem);
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    for (guint k = 0; k < (families[i]->groups ? N_GROUP_SIZES : 1); k++)
      {
        g_autoptr (PsSchedule) schedule = generate (families[i], setting, group_size (problem->n_devices, k));

        if (schedule != NULL && take_better (schedule, order, &best))
          *name = families[i]->name;
      }
  return g_steal_pointer (&best);
}

void
one_by_one (Order *order)
{
  const Problem *problem = order->problem;

  order_clear (order);
  for (guint i = 0; i < problem->m; i++)
    {
      for (guint s = 0; s < problem->n_stages; s++)
        order_add (order, op_at (problem, s, PS_OP_F, i), problem->n_ops);
      for (guint s = problem->n_stages; s-- > 0;)
        {
          guint b = op_at (problem, s, PS_OP_B, i);
          gboolean fused = problem->fuses[s] && problem->bw_take[s] < problem_apart_peak (problem, s);

          order_add (order, b, fused ? b : problem->n_ops);
          if (!fused)
            order_add (order, b + problem->m, problem->n_ops);
        }
    }
}
