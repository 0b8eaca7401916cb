/* setting-recompute.c - what R ops of a schedule cost under a setting. */
#include <pipesim/sources.h>

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

PsCosts *
ps_setting_recomputed (const PsSetting *setting, const PsSchedule *schedule, const PsCosts *costs, GError **error)
{
  const PsCostSource *source = ps_setting_source (setting);
  g_autoptr (PsModel) model = source->has_model ? ps_setting_model (setting, error) : NULL;
  g_autoptr (PsCluster) cluster = source->has_cluster ? ps_setting_cluster (setting, error) : NULL;
  g_autoptr (PsCosts) full = ps_costs_copy (costs);

  if (source->has_model > (model != NULL) || source->has_cluster > (cluster != NULL)
      || !ps_setting_check_stages (setting, costs->n_stages, error) || !check_stages (setting, schedule, error))
    return NULL;
  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (!saves_all (setting, stage) && !ps_costs_recompute (full, stage, model, cluster, PS_RECOMPUTE_FULL, error))
      return NULL;
  return ps_costs_split_recompute (costs, full);
}
