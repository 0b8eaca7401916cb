/* setting-recompute.c - what R ops of a schedule cost under a setting. */
#include <pipesim/setting.h>

/* Whether a stage recomputes or offloads every microbatch. */
static gboolean
saves_all (const PsSetting *setting, guint stage)
{
  return ps_setting_recompute (setting, stage) != PS_RECOMPUTE_NONE || ps_setting_offload (setting, stage) > 0;
}

/* Refuses R on a stage that recomputes or offloads every microbatch. */
static gboolean
check_stages (const PsSetting *setting, const PsSchedule *schedule, GError **error)
{
  for (guint i = 0; i < ps_schedule_n_ops (schedule); i++)
    {
      PsOp op = schedule->ops[i];

      if (op.kind == PS_OP_R && saves_all (setting, op.stage))
        return ps_refuse (
            error, PS_ERROR_USAGE,
            "schedule '%s': stage %u has an R, which recomputes one microbatch; with it %s would be right",
            schedule->name, op.stage, ps_setting_offload (setting, op.stage) > 0 ? "--offload 0" : "--recompute none");
    }
  return TRUE;
}

/* The same costs with full recomputation, as they say themselves what it takes. */
static PsCosts *
recompute_given (const PsCosts *costs, GError **error)
{
  g_autoptr (PsCosts) full = ps_costs_copy (costs);

  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (!ps_costs_recompute (full, stage, NULL, NULL, PS_RECOMPUTE_FULL, error))
      return NULL;
  return g_steal_pointer (&full);
}

PsCosts *
ps_setting_full_costs (const PsSetting *setting, const PsCosts *costs, guint n_devices, GError **error)
{
  PsSetting full = *setting;

  if (ps_setting_source (setting) == NULL)
    return recompute_given (costs, error);
  full.recompute = PS_RECOMPUTE_FULL;
  full.n_recompute = full.n_offload = 0;
  full.offload = 0;
  return ps_setting_costs_alike (&full, costs, n_devices, error);
}

PsCosts *
ps_setting_recomputed (const PsSetting *setting, const PsSchedule *schedule, const PsCosts *costs, const PsCosts *full,
                       GError **error)
{
  g_autoptr (PsCosts) some = NULL;

  if (!ps_setting_check_stages (setting, costs->n_stages, error) || !check_stages (setting, schedule, error))
    return NULL;
  some = ps_costs_copy (full);
  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (saves_all (setting, stage))
      ps_costs_copy_stage (some, stage, costs, stage);
  return ps_costs_split_recompute (costs, some);
}
