/* cuda-graph.h - the launches of an op as one CUDA graph, which is launched at once instead of kernel by kernel. The
 * GPU then does not wait for the host between short kernels (CUDA C++ Programming Guide, "CUDA Graphs"). Only with
 * PIPESIM_CUDA_GRAPHS=1. */
#pragma once

#include "cuda-context.h"

/* The captured ops, by keys that hold everything their launches depend on. */
typedef struct _PsCudaGraphs PsCudaGraphs;

/* Captures `most` ops at most, which bounds the memory for them. */
PsCudaGraphs *ps_cuda_graphs_new (guint most);
void ps_cuda_graphs_free (PsCudaGraphs *graphs);

/* Launches the graph that was captured for the same key. Without one it captures the op first, or, if enough are
 * captured, just calls launch (data). The key's bytes hold everything that the launches depend on. Problems are noted
 * in the context. */
void ps_cuda_graphs_run (PsCudaGraphs *graphs, PsCudaContext *context, gconstpointer key, gsize key_bytes,
                         PsLaunch launch, gpointer data);
