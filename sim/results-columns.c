/* results-columns.c - the columns of a prediction, as data/results.sql has them. */
#include <pipesim/results.h>

static const PsResultColumn columns[] = {
  { { "schedule", "schedule", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "devices", "p", PS_COLUMN_INTEGER }, PS_RESULT_SETTING },
  { { "microbatches", "m", PS_COLUMN_INTEGER }, PS_RESULT_SETTING },
  { { "chunks", "v", PS_COLUMN_INTEGER }, PS_RESULT_SETTING },
  { { "slices", "slices", PS_COLUMN_INTEGER }, PS_RESULT_SETTING },
  { { "group_size", "group", PS_COLUMN_INTEGER }, PS_RESULT_SETTING },
  { { "microbatch_size", "microbatch size", PS_COLUMN_INTEGER }, PS_RESULT_SETTING },
  { { "global_batch", "global batch", PS_COLUMN_INTEGER }, PS_RESULT_SETTING },
  { { "model", "model", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "cluster", "cluster", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "link_bandwidth", "link bytes/s", PS_COLUMN_NUMBER }, PS_RESULT_SETTING },
  { { "link_latency_ns", "link latency", PS_COLUMN_TIME }, PS_RESULT_SETTING },
  { { "db", "db", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "profile", "profile", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "costs", "costs", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "bandwidth_factor", "bandwidth factor", PS_COLUMN_NUMBER }, PS_RESULT_SETTING },
  { { "latency_factor", "latency factor", PS_COLUMN_NUMBER }, PS_RESULT_SETTING },
  { { "recompute", "recompute", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "offload", "offload", PS_COLUMN_NUMBER }, PS_RESULT_SETTING },
  { { "replicas", "replicas", PS_COLUMN_INTEGER }, PS_RESULT_SETTING },
  { { "zero", "zero", PS_COLUMN_INTEGER }, PS_RESULT_SETTING },
  { { "reduce", "reduce", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "sync", "sync", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "placement", "placement", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "comm", "comm", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "comm_order", "comm order", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "eager_bytes", "eager", PS_COLUMN_SIZE }, PS_RESULT_SETTING },
  { { "blocking", "blocking", PS_COLUMN_BOOLEAN }, PS_RESULT_SETTING },
  { { "share_links", "share links", PS_COLUMN_BOOLEAN }, PS_RESULT_SETTING },
  { { "speed", "speed", PS_COLUMN_TEXT }, PS_RESULT_SETTING },
  { { "overlap_slowdown", "overlap slowdown", PS_COLUMN_NUMBER }, PS_RESULT_SETTING },
  { { "ready_order", "ready order", PS_COLUMN_INTEGER }, PS_RESULT_SETTING },
  { { "memory_limit_bytes", "memory limit", PS_COLUMN_SIZE }, PS_RESULT_SETTING },
  { { "makespan_ns", "makespan", PS_COLUMN_TIME }, PS_RESULT_FIGURE },
  { { "max_span_ns", "longest span", PS_COLUMN_TIME }, PS_RESULT_FIGURE },
  { { "iteration_ns", "iteration", PS_COLUMN_TIME }, PS_RESULT_FIGURE },
  { { "bubble_ratio", "bubble of iteration", PS_COLUMN_RATIO }, PS_RESULT_FIGURE },
  { { "bubble_ratio_span", "bubble of span", PS_COLUMN_RATIO }, PS_RESULT_FIGURE },
  { { "lower_bound_ns", "lower bound", PS_COLUMN_TIME }, PS_RESULT_FIGURE },
  { { "peak_memory_bytes", "peak memory", PS_COLUMN_SIZE }, PS_RESULT_FIGURE },
  { { "feasible", "fits", PS_COLUMN_BOOLEAN }, PS_RESULT_FIGURE },
  { { "period_iterations", "period", PS_COLUMN_INTEGER }, PS_RESULT_FIGURE },
  { { "devices_detail", NULL, PS_COLUMN_TEXT }, PS_RESULT_FIGURE },
  { { "origin", "origin", PS_COLUMN_TEXT }, PS_RESULT_ORIGIN },
  { { "costs_origin", "costs origin", PS_COLUMN_TEXT }, PS_RESULT_ORIGIN },
  { { "transfers_origin", "transfers origin", PS_COLUMN_TEXT }, PS_RESULT_ORIGIN },
  { { "memory_origin", "memory origin", PS_COLUMN_TEXT }, PS_RESULT_ORIGIN },
  { { "sequence_ns", "per sequence", PS_COLUMN_TIME }, PS_RESULT_DERIVED },
  { { "sequences_per_second", "sequences/s", PS_COLUMN_NUMBER }, PS_RESULT_DERIVED },
  { { "above_bound", "over bound", PS_COLUMN_RATIO }, PS_RESULT_DERIVED },
};

const PsResultColumn *
ps_result_columns (guint *n)
{
  *n = G_N_ELEMENTS (columns);
  return columns;
}

guint
ps_result_n_stored (void)
{
  guint n = 0;

  while (columns[n].role != PS_RESULT_DERIVED)
    n++;
  return n;
}

int
ps_result_column_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    if (g_str_equal (columns[i].column.key, name))
      return (int)i;
  return -1;
}
