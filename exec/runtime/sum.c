/* sum.c - finds the devices with the same stages and adds up their gradients. */
#include "sum.h"

gboolean
ps_sum_twins (const PsSchedule *schedule, guint **twin, GError **error)
{
  const PsPlacement *placement = schedule->placement;
  g_autofree guint *found = g_new (guint, placement->n_devices);

  *twin = NULL;
  if (placement->n_copies == 1)
    return TRUE;
  for (guint i = 0; i < placement->n_devices; i++)
    found[i] = i;
  for (guint copy = 0; copy < placement->n_copies; copy++)
    for (guint stage = 0; stage < placement->n_stages; stage++)
      {
        guint own = ps_placement_device (placement, copy, stage);
        guint other = ps_placement_device (placement, 1 - copy, stage);

        if (own == other)
          return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                            "schedule '%s': device %u holds both copies of stage %u; devices that compute hold one",
                            schedule->name, own, stage);
        if (found[own] != own && found[own] != other)
          return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                            "schedule '%s': device %u shares its stages with devices %u and %u; one is possible",
                            schedule->name, own, found[own], other);
        found[own] = other;
      }
  *twin = g_steal_pointer (&found);
  return TRUE;
}

/* Whether all replicas need all sums: to show them, to find their norm, or to add those of a twin or another stage. */
static gboolean
needs_all (const PsRun *run)
{
  const PsRunSetting *setting = run->setting;

  return !setting->zero || setting->gradients || setting->clip > 0 || setting->model->tied || run->twin != NULL;
}

gboolean
ps_sum_gradients (PsWorker *worker, guint stage, GError **error)
{
  PsRun *run = worker->run;
  PsTransport *transport = run->transport;
  const PsDeviceClass *class = worker->device->class;
  gsize n;

  if (!class->computes || (run->twin == NULL && run->n_replicas == 1))
    return TRUE;
  if (!ps_worker_catch_up (worker, error))
    return FALSE;
  float *values = class->gradient_memory (worker->device, stage, &n);
  return needs_all (run)
             ? transport->class->sum (transport, worker->at, PS_CIRCLE_WEIGHTS, PS_SUM_WHOLE, values, n, error)
             : transport->class->sum (transport, worker->at, PS_CIRCLE_REPLICAS, PS_SUM_SCATTER, values, n, error);
}

gboolean
ps_sum_weights (PsWorker *worker, guint stage, GError **error)
{
  PsTransport *transport = worker->run->transport;
  gsize n;

  if (!worker->setting.sharded || !worker->device->class->computes)
    return TRUE;
  if (!ps_worker_catch_up (worker, error))
    return FALSE;
  float *values = worker->device->class->weight_memory (worker->device, stage, &n);
  return transport->class->sum (transport, worker->at, PS_CIRCLE_REPLICAS, PS_SUM_GATHER, values, n, error);
}
