/* work-time.c - the time of kernels on a cluster. */
#include <pipesim/work.h>

#include <math.h>

/* Tiles of a product's result, and the part of the best rate that each reaches (see the header). */
static const struct
{
  gint64 rows;
  gint64 columns;
  double rate;
} tiles[] = { { 256, 128, 1 }, { 128, 256, 1 }, { 128, 128, 0.9 }, { 128, 64, 0.75 }, { 64, 64, 0.55 } };

static double
move_ns (const PsCluster *cluster, double bytes)
{
  double part = cluster->memory_efficiency > 0 ? cluster->memory_efficiency : 1;

  return cluster->memory_bandwidth > 0 ? bytes / (cluster->memory_bandwidth * part / 1e9) : 0;
}

static gint64
round_time (double ns)
{
  return ns < (double)PS_MAX_TIME_NS ? llrint (ns) : PS_MAX_TIME_NS;
}

/* The part of the multiprocessors' time that the best tiles use: the last wave of tiles may leave some idle, and tiles
 * hang over the edges of the result. */
static double
tile_rate (const PsCluster *cluster, const PsWorkKernel *kernel)
{
  double best = 0, work = (double)kernel->products * (double)kernel->m * (double)kernel->n;

  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++)
    {
      double rows = ceil ((double)kernel->m / (double)tiles[i].rows);
      double columns = ceil ((double)kernel->n / (double)tiles[i].columns);
      double waves = ceil (rows * columns * (double)kernel->products / cluster->multiprocessors);
      double room = waves * cluster->multiprocessors * (double)(tiles[i].rows * tiles[i].columns);

      best = MAX (best, tiles[i].rate * work / room);
    }
  return best;
}

static gboolean
is_aligned (const PsWorkKernel *kernel)
{
  gint64 elements = 128 / kernel->bits;

  return kernel->m % elements == 0 && kernel->n % elements == 0 && kernel->k % elements == 0;
}

static double
rate_part (const PsCluster *cluster, PsWorkClass type)
{
  double part = type == PS_WORK_ATTENTION ? cluster->attention_efficiency
                : type == PS_WORK_SCORES  ? cluster->scores_efficiency
                                          : cluster->efficiency;

  return part > 0 ? part : cluster->efficiency;
}

static double
multiply_ns (const PsCluster *cluster, const PsWorkKernel *kernel)
{
  double flops = 2 * (double)kernel->products * (double)kernel->m * (double)kernel->n * (double)kernel->k;
  double rate = ps_work_peak_flops (cluster, kernel->bits, NULL) * rate_part (cluster, kernel->type) / 1e9;

  if (flops <= 0)
    return 0;
  if (kernel->type == PS_WORK_ATTENTION)
    return flops / rate;
  if (cluster->multiprocessors > 0)
    rate *= tile_rate (cluster, kernel) * (double)kernel->k / ((double)kernel->k + cluster->product_depth);
  if (cluster->unaligned > 0 && !is_aligned (kernel))
    rate *= kernel->type == PS_WORK_SCORES ? cluster->unaligned_scores : cluster->unaligned;
  return flops / rate;
}

static double
kernel_ns (const PsCluster *cluster, const PsWorkKernel *kernel)
{
  return MAX (multiply_ns (cluster, kernel), move_ns (cluster, (double)kernel->bytes)) + (double)cluster->kernel_ns;
}

gint64
ps_work_ns (const PsWork *work, const PsCluster *cluster, gint64 talk_ns)
{
  double ns = (double)talk_ns, host_ns = 0;

  for (guint i = 0; i < work->n_kernels; i++)
    {
      ns += work->kernel[i].repeats * kernel_ns (cluster, &work->kernel[i]);
      host_ns += work->kernel[i].repeats * (double)cluster->launch_ns;
    }
  return round_time (MAX (ns, host_ns));
}

gint64
ps_work_optimizer_ns (const PsModel *model, const PsCluster *cluster, gint64 n_parameters)
{
  PsStateBytes state = ps_model_state (model, n_parameters);
  gint64 weights = model->precision == PS_PRECISION_FP32 ? 2 * state.weight_bytes : state.weight_bytes;
  double bytes = (double)(state.gradient_bytes + 2 * state.optimizer_bytes + weights);

  return round_time (move_ns (cluster, bytes * MAX (cluster->optimizer_passes, 1)));
}
