/* results-columns.c - the columns of a prediction, as data/results.sql has them. */
#include <pipesim/results.h>

static const PsResultColumn columns[PS_N_RESULTS] = {
  [PS_RESULT_SCHEDULE] = { { "schedule", "schedule", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_DEVICES] = { { "devices", "p", PS_COLUMN_INTEGER }, PS_ROLE_SETTING },
  [PS_RESULT_MICROBATCHES] = { { "microbatches", "m", PS_COLUMN_INTEGER }, PS_ROLE_SETTING },
  [PS_RESULT_CHUNKS] = { { "chunks", "v", PS_COLUMN_INTEGER }, PS_ROLE_SETTING },
  [PS_RESULT_SLICES] = { { "slices", "slices", PS_COLUMN_INTEGER }, PS_ROLE_SETTING },
  [PS_RESULT_GROUP_SIZE] = { { "group_size", "group", PS_COLUMN_INTEGER }, PS_ROLE_SETTING },
  [PS_RESULT_MICROBATCH_SIZE] = { { "microbatch_size", "microbatch size", PS_COLUMN_INTEGER }, PS_ROLE_SETTING },
  [PS_RESULT_GLOBAL_BATCH] = { { "global_batch", "global batch", PS_COLUMN_INTEGER }, PS_ROLE_SETTING },
  [PS_RESULT_MODEL] = { { "model", "model", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_PRECISION] = { { "precision", "precision", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_CLUSTER] = { { "cluster", "cluster", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_LINK_BANDWIDTH] = { { "link_bandwidth", "link bytes/s", PS_COLUMN_NUMBER }, PS_ROLE_SETTING },
  [PS_RESULT_LINK_LATENCY_NS] = { { "link_latency_ns", "link latency", PS_COLUMN_TIME }, PS_ROLE_SETTING },
  [PS_RESULT_DB] = { { "db", "db", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_PROFILE] = { { "profile", "profile", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_COSTS] = { { "costs", "costs", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_F] = { { "cost_f_ns", "f", PS_COLUMN_TIME }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_B] = { { "cost_b_ns", "b", PS_COLUMN_TIME }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_W] = { { "cost_w_ns", "w", PS_COLUMN_TIME }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_BW] = { { "cost_bw_ns", "bw", PS_COLUMN_TIME }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_C] = { { "cost_c_ns", "c", PS_COLUMN_TIME }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_O] = { { "cost_o_ns", "o", PS_COLUMN_TIME }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_PAIR] = { { "cost_pair_ns", "pair", PS_COLUMN_TIME }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_REDUCE] = { { "cost_reduce_ns", "reduce", PS_COLUMN_TIME }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_REDUCE2] = { { "cost_reduce2_ns", "reduce2", PS_COLUMN_TIME }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_R] = { { "cost_r_ns", "r", PS_COLUMN_TIME }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_HOST] = { { "cost_host_ns", "host", PS_COLUMN_TIME }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_ACT] = { { "cost_act_bytes", "act", PS_COLUMN_SIZE }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_WACT] = { { "cost_wact_bytes", "wact", PS_COLUMN_SIZE }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_KEEP] = { { "cost_keep_bytes", "keep", PS_COLUMN_SIZE }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_WEIGHTS] = { { "cost_weights_bytes", "weights", PS_COLUMN_SIZE }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_VERSION] = { { "cost_version_bytes", "version", PS_COLUMN_SIZE }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_GRAD] = { { "cost_grad_bytes", "grad", PS_COLUMN_SIZE }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_OPT] = { { "cost_opt_bytes", "opt", PS_COLUMN_SIZE }, PS_ROLE_SETTING },
  [PS_RESULT_COST + PS_COST_MSG] = { { "cost_msg_bytes", "msg", PS_COLUMN_SIZE }, PS_ROLE_SETTING },
  [PS_RESULT_BANDWIDTH_FACTOR] = { { "bandwidth_factor", "bandwidth factor", PS_COLUMN_NUMBER }, PS_ROLE_SETTING },
  [PS_RESULT_LATENCY_FACTOR] = { { "latency_factor", "latency factor", PS_COLUMN_NUMBER }, PS_ROLE_SETTING },
  [PS_RESULT_RECOMPUTE] = { { "recompute", "recompute", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_OFFLOAD] = { { "offload", "offload", PS_COLUMN_NUMBER }, PS_ROLE_SETTING },
  [PS_RESULT_REPLICAS] = { { "replicas", "replicas", PS_COLUMN_INTEGER }, PS_ROLE_SETTING },
  [PS_RESULT_TENSOR] = { { "tensor", "tensor", PS_COLUMN_INTEGER }, PS_ROLE_SETTING },
  [PS_RESULT_ZERO] = { { "zero", "zero", PS_COLUMN_INTEGER }, PS_ROLE_SETTING },
  [PS_RESULT_REDUCE] = { { "reduce", "reduce", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_SYNC] = { { "sync", "sync", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_PLACEMENT] = { { "placement", "placement", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_COMM] = { { "comm", "comm", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_COMM_ORDER] = { { "comm_order", "comm order", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_EAGER_BYTES] = { { "eager_bytes", "eager", PS_COLUMN_SIZE }, PS_ROLE_SETTING },
  [PS_RESULT_BLOCKING] = { { "blocking", "blocking", PS_COLUMN_BOOLEAN }, PS_ROLE_SETTING },
  [PS_RESULT_SHARE_LINKS] = { { "share_links", "share links", PS_COLUMN_BOOLEAN }, PS_ROLE_SETTING },
  [PS_RESULT_SPEED] = { { "speed", "speed", PS_COLUMN_TEXT }, PS_ROLE_SETTING },
  [PS_RESULT_OVERLAP_SLOWDOWN] = { { "overlap_slowdown", "overlap slowdown", PS_COLUMN_NUMBER }, PS_ROLE_SETTING },
  [PS_RESULT_READY_ORDER] = { { "ready_order", "ready order", PS_COLUMN_INTEGER }, PS_ROLE_SETTING },
  [PS_RESULT_MEMORY_LIMIT_BYTES] = { { "memory_limit_bytes", "memory limit", PS_COLUMN_SIZE }, PS_ROLE_SETTING },
  [PS_RESULT_MAKESPAN_NS] = { { "makespan_ns", "makespan", PS_COLUMN_TIME }, PS_ROLE_FIGURE },
  [PS_RESULT_MAX_SPAN_NS] = { { "max_span_ns", "longest span", PS_COLUMN_TIME }, PS_ROLE_FIGURE },
  [PS_RESULT_ITERATION_NS] = { { "iteration_ns", "iteration", PS_COLUMN_TIME }, PS_ROLE_FIGURE },
  [PS_RESULT_BUBBLE_RATIO] = { { "bubble_ratio", "bubble of iteration", PS_COLUMN_RATIO }, PS_ROLE_FIGURE },
  [PS_RESULT_BUBBLE_RATIO_SPAN] = { { "bubble_ratio_span", "bubble of span", PS_COLUMN_RATIO }, PS_ROLE_FIGURE },
  [PS_RESULT_LOWER_BOUND_NS] = { { "lower_bound_ns", "lower bound", PS_COLUMN_TIME }, PS_ROLE_FIGURE },
  [PS_RESULT_PEAK_MEMORY_BYTES] = { { "peak_memory_bytes", "peak memory", PS_COLUMN_SIZE }, PS_ROLE_FIGURE },
  [PS_RESULT_FEASIBLE] = { { "feasible", "fits", PS_COLUMN_BOOLEAN }, PS_ROLE_FIGURE },
  [PS_RESULT_ASYNCHRONOUS] = { { "asynchronous", "async", PS_COLUMN_BOOLEAN }, PS_ROLE_FIGURE },
  [PS_RESULT_PERIOD_ITERATIONS] = { { "period_iterations", "period", PS_COLUMN_INTEGER }, PS_ROLE_FIGURE },
  [PS_RESULT_DEVICES_DETAIL] = { { "devices_detail", NULL, PS_COLUMN_TEXT }, PS_ROLE_FIGURE },
  [PS_RESULT_ORIGIN] = { { "origin", "origin", PS_COLUMN_TEXT }, PS_ROLE_ORIGIN },
  [PS_RESULT_COSTS_ORIGIN] = { { "costs_origin", "costs origin", PS_COLUMN_TEXT }, PS_ROLE_ORIGIN },
  [PS_RESULT_TRANSFERS_ORIGIN] = { { "transfers_origin", "transfers origin", PS_COLUMN_TEXT }, PS_ROLE_ORIGIN },
  [PS_RESULT_MEMORY_ORIGIN] = { { "memory_origin", "memory origin", PS_COLUMN_TEXT }, PS_ROLE_ORIGIN },
  [PS_RESULT_SEQUENCE_NS] = { { "sequence_ns", "per sequence", PS_COLUMN_TIME }, PS_ROLE_DERIVED },
  [PS_RESULT_SEQUENCES_PER_SECOND] = { { "sequences_per_second", "sequences/s", PS_COLUMN_NUMBER }, PS_ROLE_DERIVED },
  [PS_RESULT_ABOVE_BOUND] = { { "above_bound", "over bound", PS_COLUMN_RATIO }, PS_ROLE_DERIVED },
};

const PsResultColumn *
ps_result_columns (guint *n)
{
  *n = G_N_ELEMENTS (columns);
  return columns;
}

int
ps_result_column_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    if (g_str_equal (columns[i].column.key, name))
      return (int)i;
  return -1;
}
