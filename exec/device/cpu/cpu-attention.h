/* cpu-attention.h - causal attention of every head on queries, keys and values that lie side by side. */
#ifndef PIPESIM_CPU_ATTENTION_H
#define PIPESIM_CPU_ATTENTION_H

#include "cpu-sizes.h"

/* qkv is tokens x 3 hidden, context is tokens x hidden. probabilities holds one sequence x sequence square per sequence
 * and head. */
void ps_cpu_attention_forward (float *context, float *probabilities, const float *qkv, const PsCpuSizes *sizes);

/* Overwrites qkv with its gradient. */
void ps_cpu_attention_backward (float *qkv, const float *dcontext, const float *context, const float *probabilities,
                                const PsCpuSizes *sizes, const PsCpuWorkspace *workspace);

#endif
