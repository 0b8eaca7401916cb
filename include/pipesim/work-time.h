/* work-time.h - the time that the GPUs of a cluster take for kernels:
 *
 *   time of an op = max (sum of launches, collectives + sum of kernels)
 *   kernel = start + max (operations / rate, bytes / (memory_bandwidth * memory_efficiency))
 *   rate = peak rate * efficiency of the class * tiles * k / (k + product_depth) * alignment
 *
 * - launch: launch_time of the cluster. The host starts kernels one after the other and runs ahead of the GPU, which
 *   has them in a queue. So the slower of the two decides, over the whole op (the reason for CUDA graphs). start:
 *   kernel_time, which the GPU needs to start and end a kernel.
 * - peak rate: that of the bits multiplied. efficiency of the class: of products with weights, of the products of
 *   attention heads (scores_efficiency), of flash attention (attention_efficiency).
 * - tiles: the part of the multiprocessors' work that is no waste. The result of a product is cut into tiles, one to a
 *   multiprocessor at a time; the last wave of tiles leaves some of them idle, and tiles at the edges are partly empty
 *   (NVIDIA, Matrix Multiplication Background User's Guide, sections 3 and 4: tile and wave quantisation). Of tiles of
 *   256 x 128, 128 x 128, 128 x 64 and 64 x 64, which reach 1, 0.9, 0.75 and 0.55 of the best rate because each element
 *   read serves fewer operations (as its figure 5 shows for A100), the fastest counts. Flash attention has no tiles
 * here.
 * - k / (k + product_depth): filling and emptying the pipeline of a tile (same guide, section 2.1).
 * - alignment: 1 where rows start at multiples of 16 bytes (same guide, section 2.2), else unaligned, or
 *   unaligned_scores for the products of heads.
 *
 * Where the cluster states no multiprocessors only efficiency counts; where it states no memory_bandwidth bytes take no
 * time.
 */
#ifndef PIPESIM_WORK_TIME_H
#define PIPESIM_WORK_TIME_H

#include <pipesim/cluster.h>
#include <pipesim/work.h>

G_BEGIN_DECLS

/* The time that the work takes, ns, rounded to the nearest and at most PS_MAX_TIME_NS. talk_ns: of collectives, which
 * the GPU waits for between its kernels (tensor.h). */
gint64 ps_work_ns (const PsWork *work, const PsCluster *cluster, gint64 talk_ns);

/* The peak rate of a GPU, FLOP/s, for products of elements of so many bits (ps_work_bits): the cluster's peak for the
 * least number of bits, no less than these, that it states one for. *key, unless NULL: the key that states it. */
static inline double
ps_work_peak_flops (const PsCluster *cluster, guint bits, const char **key)
{
  gboolean fp4 = bits <= 4 && cluster->peak_flops_fp4 > 0, fp8 = !fp4 && bits <= 8 && cluster->peak_flops_fp8 > 0;

  if (key != NULL)
    *key = fp4 ? "peak_flops_fp4" : fp8 ? "peak_flops_fp8" : "peak_flops";
  return fp4 ? cluster->peak_flops_fp4 : fp8 ? cluster->peak_flops_fp8 : cluster->peak_flops;
}

/* The time of an optimizer step of one GPU that holds n_parameters, ns. The step reads the gradients, reads and writes
 * the optimizer state, and writes the weights. In fp32 it also reads the weights; else the state has the master copy.
 * 28 bytes per parameter, 30 in mixed precision with fp32 gradients. 0 where the cluster states no memory_bandwidth. */
gint64 ps_work_optimizer_ns (const PsModel *model, const PsCluster *cluster, gint64 n_parameters);

G_END_DECLS

#endif
