/* work-time.c - the time of kernels on a cluster. */
#include <pipesim/work-time.h>

#include <math.h>

static double
move_ns (const PsCluster *cluster, double bytes)
{
  return cluster->memory_bandwidth > 0 ? bytes / (cluster->memory_bandwidth / 1e9) : 0;
}

static gint64
round_time (double ns)
{
  return ns < (double)PS_MAX_TIME_NS ? llrint (ns) : PS_MAX_TIME_NS;
}

gint64
ps_work_ns (const PsWork *work, const PsCluster *cluster)
{
  double rate = cluster->peak_flops * cluster->efficiency / 1e9; /* per nanosecond */
  double flops = 0, bytes = 0;

  for (guint i = 0; i < work->n_kernels; i++)
    {
      const PsWorkKernel *kernel = &work->kernel[i];
      double repeats = kernel->repeats;

      flops += 2 * repeats * (double)kernel->products * (double)kernel->m * (double)kernel->n * (double)kernel->k;
      bytes += repeats * (double)kernel->bytes;
    }
  return round_time (flops / rate + move_ns (cluster, bytes));
}

gint64
ps_work_optimizer_ns (const PsModel *model, const PsCluster *cluster, gint64 n_parameters)
{
  PsStateBytes state = ps_model_state (model, n_parameters);
  gint64 weights = model->precision == PS_PRECISION_FP32 ? 2 * state.weight_bytes : state.weight_bytes;

  return round_time (move_ns (cluster, (double)(state.gradient_bytes + 2 * state.optimizer_bytes + weights)));
}
