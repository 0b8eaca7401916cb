/* cuda-graph.c - captures the launches of ops, and launches them again. */
#include "cuda-graph.h"

struct _PsCudaGraphs {
  guint most;
  GHashTable *made; /* cudaGraphExec_t by GBytes */
};

static void destroy (gpointer made)
{
  cudaGraphExecDestroy (made);
}

PsCudaGraphs *ps_cuda_graphs_new (guint most)
{
  PsCudaGraphs *graphs = g_new0 (PsCudaGraphs, 1);

  graphs->most = most;
  graphs->made = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, destroy);
  return graphs;
}

void ps_cuda_graphs_free (PsCudaGraphs *graphs)
{
  if (graphs == NULL)
    return;
  g_hash_table_unref (graphs->made);
  g_free (graphs);
}

/* Returns the captured graph, or NULL after noting a problem. The capture is of this thread alone: threads of other
 * devices go on, and may allocate. */
static cudaGraph_t capture (PsCudaContext *context, PsLaunch launch, gpointer data)
{
  cudaGraph_t graph = NULL;
  const cudaError_t status = cudaStreamBeginCapture (context->stream, cudaStreamCaptureModeThreadLocal);

  ps_cuda_note (context, "beginning to capture an op", status);
  if (status != cudaSuccess)
    return NULL;
  launch (data);
  ps_cuda_note (context, "capturing an op", cudaStreamEndCapture (context->stream, &graph));
  return graph;
}

static cudaGraphExec_t make (PsCudaContext *context, PsLaunch launch, gpointer data)
{
  cudaGraph_t captured = capture (context, launch, data);
  cudaGraphExec_t made = NULL;

  if (captured == NULL)
    return NULL;
  ps_cuda_note (context, "making a graph of an op", cudaGraphInstantiate (&made, captured, 0));
  cudaGraphDestroy (captured);
  return made;
}

void ps_cuda_graphs_run (PsCudaGraphs *graphs, PsCudaContext *context, gconstpointer key, gsize key_bytes,
                         PsLaunch launch, gpointer data)
{
  g_autoptr (GBytes) wanted = g_bytes_new_static (key, key_bytes);
  cudaGraphExec_t made = g_hash_table_lookup (graphs->made, wanted);

  if (made == NULL && g_hash_table_size (graphs->made) >= graphs->most) {
    launch (data);
    return;
  }
  if (made == NULL) {
    made = make (context, launch, data);
    if (made == NULL)
      return;
    g_hash_table_insert (graphs->made, g_bytes_new (key, key_bytes), made);
  }
  ps_cuda_note (context, "launching an op's graph", cudaGraphLaunch (made, context->stream));
}
