/* cuda-graph.h - an op's launches as one CUDA graph, launched at once instead of kernel by kernel, so that the GPU does
 * not wait for the host between short kernels (CUDA C++ Programming Guide, "CUDA Graphs"). Only where
 * PIPESIM_CUDA_GRAPHS=1. */
#ifndef PIPESIM_CUDA_GRAPH_H
#define PIPESIM_CUDA_GRAPH_H

#include "cuda-context.h"

/* Ops captured so far, by what their launches depend on. */
typedef struct _PsCudaGraphs PsCudaGraphs;

/* At most `most` ops are captured, which bounds the memory that they take. */
PsCudaGraphs *ps_cuda_graphs_new (guint most);
void ps_cuda_graphs_free (PsCudaGraphs *graphs);

/* Puts work into the context's stream, nothing else, and notes problems in the context. */
typedef void (*PsCudaLaunch) (gpointer data);

/* Between ps_cuda_begin and ps_cuda_finish: launches what was captured for the same key, bytes that tell all that
 * launch (data) depends on. Where that has not happened, captures it first; or just calls it, where enough is captured.
 * Problems are noted in the context. */
void ps_cuda_graphs_run (PsCudaGraphs *graphs, PsCudaContext *context, gconstpointer key, gsize key_bytes,
                         PsCudaLaunch launch, gpointer data);

#endif
