/* setting-comm.c - what the options about transfers and speeds mean together. */
#include "setting-comm.h"
#include "setting-private.h"

#include <math.h>

#include <pipesim/events.h>

gboolean
ps_comm_check (const PsSetting *setting, GError **error)
{
  const char *message = NULL;

  if (setting->blocking && setting->ready_order)
    message = "--blocking and --ready-order: blocking devices keep the order of their sends and receives";
  else if (setting->share_links && !setting->cluster)
    message = "--share-links: needs --cluster FILE, whose links to share, and --model FILE";
  else if (setting->latency_factor != 1 && !setting->cluster)
    message = "--latency-factor: needs --cluster FILE, whose latencies are known";
  if (message)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE, message);
  return message == NULL;
}

gboolean
ps_setting_transfers_wait (const PsSetting *setting)
{
  return setting->comm != PS_CHANNEL_LATENCY || setting->blocking || setting->share_links;
}

gboolean
ps_comm_needs_events (const PsSetting *setting)
{
  return ps_setting_transfers_wait (setting) || setting->n_speeds || setting->overlap_slowdown > 1
         || setting->ready_order;
}

gboolean
ps_setting_speeds (const PsSetting *setting, guint n_devices, double **speeds, GError **error)
{
  if (setting->n_speeds > 1 && setting->n_speeds != n_devices)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                   "--speed: %u factors for %u devices; one factor, or %u, would be right", setting->n_speeds,
                   n_devices, n_devices);
      return FALSE;
    }
  *speeds = setting->n_speeds ? g_new (double, n_devices) : NULL;
  for (guint d = 0; *speeds != NULL && d < n_devices; d++)
    (*speeds)[d] = setting->speed[setting->n_speeds == 1 ? 0 : d];
  return TRUE;
}

PsCosts *
ps_setting_fastest_costs (const PsSetting *setting, const PsPlacement *placement, const PsCosts *costs, GError **error)
{
  PsCosts *fastest;
  g_autofree double *speed = NULL;

  if (!ps_predict_placed (placement, costs, error) || !ps_setting_speeds (setting, placement->n_devices, &speed, error))
    return NULL;
  fastest = ps_costs_copy (costs);
  for (guint stage = 0; speed != NULL && stage < costs->n_stages; stage++)
    {
      double most = 0;

      for (guint copy = 0; copy < placement->n_copies; copy++)
        most = MAX (most, speed[ps_placement_device (placement, copy, stage)]);
      for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
        {
          PsOpCost *op = ps_costs_op (fastest, (PsOpKind)kind, stage);

          op->duration_ns = llrint ((double)op->duration_ns / most);
        }
      if (costs->stage[stage].pair_ns >= 0)
        fastest->stage[stage].pair_ns = llrint ((double)costs->stage[stage].pair_ns / most);
    }
  return fastest;
}
