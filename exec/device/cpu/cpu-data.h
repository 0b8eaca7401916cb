/* cpu-data.h - initial weights and training data from a seed, the same however the model is cut. */
#ifndef PIPESIM_CPU_DATA_H
#define PIPESIM_CPU_DATA_H

#include "cpu-sizes.h"

/* Where a number stream belongs: a layer's number, or one of these. */
#define PS_CPU_STREAM_EMBEDDING 0xffffff00u
#define PS_CPU_STREAM_HEAD 0xffffff01u

/* n numbers with mean 0 and the given standard deviation that depend on (seed, stream, index) alone; nearly normal:
 * sums of four uniform numbers. */
void ps_cpu_data_weights (float *weights, gsize n, float deviation, guint64 seed, guint32 stream, guint32 index);

/* words[row * (sequence + 1) + i]: the input token i of a sequence and, one further, its target. Each token determines
 * the next one most of the time, so that there is something to learn. */
void ps_cpu_data_words (guint32 *words, const PsCpuSizes *sizes, guint64 seed, guint microbatch);

#endif
