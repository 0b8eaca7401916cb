/* work-time.h - the time that the GPUs of a cluster take for kernels:
 *
 *   time = operations / (peak_flops * efficiency) + bytes / memory_bandwidth
 *
 * Bytes are those that kernels state. The inputs and outputs of matrix products take no time of their own, but for the
 * attention scores: h / a operations per score hide neither their writing nor their reading. Where the cluster states
 * no memory_bandwidth bytes take no time, and efficiency stands for everything.
 *
 * Not modelled: narrower matrices may reach less of the peak rate, no kernel reaches all of the memory's, and starting
 * a kernel takes time.
 */
#ifndef PIPESIM_WORK_TIME_H
#define PIPESIM_WORK_TIME_H

#include <pipesim/cluster.h>
#include <pipesim/work.h>

G_BEGIN_DECLS

/* The time that the work takes, ns, rounded to the nearest and at most PS_MAX_TIME_NS. */
gint64 ps_work_ns (const PsWork *work, const PsCluster *cluster);

/* The time of an optimizer step of one GPU that holds n_parameters, ns. The step reads the gradients, reads and writes
 * the optimizer state, and writes the weights. In fp32 it also reads the weights; else the state has the master copy.
 * 28 bytes per parameter, 30 in mixed precision with fp32 gradients. 0 where the cluster states no memory_bandwidth. */
gint64 ps_work_optimizer_ns (const PsModel *model, const PsCluster *cluster, gint64 n_parameters);

G_END_DECLS

#endif
