/* cpu-attention.h - causal attention of every head on queries, keys and values that lie side by side. */
#pragma once

#include "cpu-sizes.h"

/* A slice attends to itself and to the slices before it: qkv[0] .. qkv[slice], each tokens x 3 width. context is
 * tokens x width. probabilities holds, per sequence and head, a rectangle of sequence rows and (slice + 1) * sequence
 * columns. */
void ps_cpu_attention_forward (float *context, float *probabilities, float *const *qkv, guint slice,
                               const PsCpuSizes *sizes);

/* Overwrites qkv[slice] with its gradient. Slices run backward in reverse: each adds the gradients of the keys and
 * values of the slices before it to inherited[0] .. inherited[slice - 1], and uses up inherited[slice]. These are
 * tokens x 2 width, keys first; inherited[slice] NULL: there is no later slice. */
void ps_cpu_attention_backward (float *const *qkv, float *const *inherited, guint slice, const float *dcontext,
                                const float *context, const float *probabilities, const PsCpuSizes *sizes,
                                const PsCpuWorkspace *workspace);
