/* setting-training.c - applies --replicas, --zero, --recompute and --offload to costs. */
#include "setting-training.h"

gboolean
ps_training_check (const PsSetting *setting, GError **error)
{
  if (setting->zero && setting->n_replicas == 1)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE,
                         "--zero 1: needs --replicas D of 2 or more to spread the optimizer state over");
  else if (setting->any_recompute && !setting->takes_auto)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE,
                         "--recompute auto: is for pipesim search; none, selective or full would be right");
  else if (setting->n_tensor > 1 && !setting->cluster)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                 "--tensor %u: needs modelled costs, --model with --cluster; given and measured costs are those of a "
                 "device as they are",
                 setting->n_tensor);
  else
    return TRUE;
  return FALSE;
}

static gboolean
recompute (const PsSetting *setting, PsCosts *costs, GError **error)
{
  g_autoptr (PsModel) model = NULL;
  g_autoptr (PsCluster) cluster = NULL;

  if (setting->recompute == PS_RECOMPUTE_NONE)
    return TRUE;
  if ((!setting->costs && (model = ps_setting_model (setting, error)) == NULL)
      || (setting->cluster && (cluster = ps_setting_cluster (setting, error)) == NULL))
    return FALSE;
  return ps_costs_recompute (costs, model, cluster, setting->recompute, error);
}

static gboolean
has_reduce (const PsCosts *costs)
{
  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (costs->stage[stage].reduce_ns > 0)
      return TRUE;
  return FALSE;
}

static gboolean
replicate (const PsSetting *setting, PsCosts *costs, guint n_devices, GError **error)
{
  g_autoptr (PsCluster) cluster = NULL;

  if (setting->cluster)
    {
      if ((cluster = ps_setting_cluster (setting, error)) == NULL)
        return FALSE;
      ps_costs_set_reduce (costs, cluster, n_devices, setting->n_replicas);
    }
  if (setting->n_replicas == 1)
    return TRUE;
  if (has_reduce (costs))
    return !setting->zero || ps_costs_zero (costs, setting->n_replicas, error);
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
               "--replicas %u: %s does not say what an all-reduce takes; give reduce=TIME in --costs, or a model on a "
               "cluster",
               setting->n_replicas, costs->source);
  return FALSE;
}

gboolean
ps_training_apply (const PsSetting *setting, PsCosts *costs, guint n_devices, GError **error)
{
  return recompute (setting, costs, error) && ps_costs_offload (costs, setting->offload, error)
         && replicate (setting, costs, n_devices, error);
}
