/* loop.c - families in loop placement that share one order: some forwards, then one forward and one backward in turn,
 * then the backwards that are left. They differ in the number of forwards at the start, in the groups of microbatches
 * and in the place of the weight gradients. */
#include "families-private.h"

const PsFamily ps_family_naive = {
  .name = "naive",
  .description = "layers split over devices, one microbatch at a time",
  .constraints = "none",
  .memory = "1",
  .source = "model parallelism without a pipeline",
  .default_chunks = 1,
  .walk = &(const PsWalk){ 0 },
};

const PsFamily ps_family_gpipe = {
  .name = "gpipe",
  .torch = "GPipe",
  .description = "all forwards, then all backwards",
  .constraints = "none",
  .memory = "m",
  .source = "GPipe, arXiv 1811.06965",
  .default_chunks = 1,
  .forward = TRUE,
  .walk = &(const PsWalk){ .all = TRUE },
};

/* PipeDream-Flush, DAPPLE. */
const PsFamily ps_family_1f1b = {
  .name = "1f1b",
  .torch = "1F1B",
  .also = "TrainSchedule OneForwardOneBackwardSchedule forward_backward_pipelining_without_interleaving",
  .description = "one forward, one backward in turn after a warm-up",
  .constraints = "none",
  .memory = "min (m, p - r)",
  .source = "PipeDream-Flush, arXiv 2006.09503; DAPPLE, arXiv 2007.01045",
  .default_chunks = 1,
  .defers = TRUE,
  .walk = &(const PsWalk){ .depth = 1 },
};

/* The next input of a device has been under way for a while, so transfers overlap with ops. */
const PsFamily ps_family_eager_1f1b = {
  .name = "eager-1f1b",
  .torch_one = "Interleaved1F1B",
  .description = "1F1B with twice the warm-up, which hides transfers",
  .constraints = "none",
  .memory = "min (m, 2 (p - r) - 1)",
  .source = "warm-up of Megatron-LM's interleaved 1F1B with one chunk; PyTorch Interleaved1F1B, v = 1",
  .default_chunks = 1,
  .walk = &(const PsWalk){ .depth = 2 },
};

/* Megatron-LM's order. With one chunk it is plain 1F1B, which Megatron-LM runs then. */
const PsFamily ps_family_interleaved = {
  .name = "interleaved",
  .torch = "Interleaved1F1B",
  .also = "InterleavedSchedule forward_backward_pipelining_with_interleaving",
  .description = "1F1B over v chunks per device (virtual pipeline)",
  .constraints = "N, when given, from p to m with m mod N = 0 or >= p",
  .memory = "min (m v, 2 (p - 1 - r) + (v - 1) N + 1) / v, N the group size, p where p divides m; 1F1B's at v = 1",
  .source = "Megatron-LM, arXiv 2104.04473, section 2.2; core/pipeline_parallel/schedules.py",
  .default_chunks = 2,
  .forward = TRUE,
  .groups = TRUE,
  .defers = TRUE,
  .any_chunks = TRUE,
  .walk = &(const PsWalk){ .depth = 2 },
};

/* One more forward in the warm-up: no forward needs the backward before it, so that both overlap. Megatron-LM hides the
 * messages of experts so. */
const PsFamily ps_family_interleaved_overlap = {
  .name = "interleaved-overlap",
  .description = "interleaved 1F1B with forwards overlapped with backwards in pairs",
  .constraints = "v >= 2; N, when given, from p to m with m mod N = 0 or >= p",
  .memory = "min (m v, 2 (p - 1 - r) + (v - 1) N + 2) / v, N the group size, p where p divides m",
  .source = "Megatron-LM, overlap_moe_expert_parallel_comm; core/pipeline_parallel/combined_1f1b.py",
  .default_chunks = 2,
  .groups = TRUE,
  .any_chunks = TRUE,
  .walk = &(const PsWalk){ .depth = 2, .more = 1, .pairs = TRUE },
};

/* W after each pair, so that the gradient goes on its way first. The time of a pair (pair= in costs) is that of an F
 * and a B here. */
const PsFamily ps_family_interleaved_overlap_w = {
  .name = "interleaved-overlap-w",
  .description = "interleaved-overlap with W after each pair; pair= is F and B there",
  .constraints = "v >= 2; N, when given, from p to m with m mod N = 0 or >= p",
  .memory = "min (m v, 2 (p - 1 - r) + (v - 1) N + 2) / v, N the group size, p where p divides m",
  .source = "Megatron-LM, delay_wgrad_compute; core/pipeline_parallel/combined_1f1b.py",
  .default_chunks = 2,
  .groups = TRUE,
  .any_chunks = TRUE,
  .walk = &(const PsWalk){ .depth = 2, .more = 1, .pairs = TRUE, .split = TRUE },
};

/* Device r starts its W with the backward of microbatch r. So every device keeps as many activations as device 0 of
 * 1F1B, and W fills the drain. */
const PsFamily ps_family_zb_h1 = {
  .name = "zb-h1",
  .description = "1F1B with W split off and moved into the drain, at the memory of 1F1B",
  .constraints = "none",
  .memory = "min (m, p)",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2.1",
  .default_chunks = 1,
  .walk = &(const PsWalk){ .depth = 1, .split = TRUE, .delay = 1 },
};

/* Twice the warm-up fills the bubble before the first backward as well. Every device is busy from its first forward to
 * its last W where F, B and W take the same time, m >= 2p and transfers are free. */
const PsFamily ps_family_zb_h2 = {
  .name = "zb-h2",
  .description = "ZB-H1 with twice the warm-up: no bubble in a device's span from m = 2p on",
  .constraints = "none",
  .memory = "min (m, 2p - 1)",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2.2",
  .default_chunks = 1,
  .walk = &(const PsWalk){ .depth = 2, .split = TRUE, .delay = 2 },
};

/* Half the warm-up of interleaved 1F1B; device r runs each W r units after its B. */
const PsFamily ps_family_interleaved_zb = {
  .name = "interleaved-zb",
  .torch = "InterleavedZeroBubble",
  .description = "ZB-H1 over v chunks per device",
  .constraints = "N, when given, from p to m with m mod N = 0 or >= p",
  .memory = "min (m v, p + (v - 1) N) / v, N the group size, p where p divides m",
  .source = "PyTorch InterleavedZeroBubble, after arXiv 2401.10241",
  .default_chunks = 2,
  .groups = TRUE,
  .any_chunks = TRUE,
  .walk = &(const PsWalk){ .depth = 1, .split = TRUE, .delay = 1 },
};

/* The generalized interleaved schedule of PipeOffload: half the warm-up of interleaved 1F1B and each W right after its
 * B, in groups down to half a pipeline. A group of N < p waits p - N forwards for its next chunk and keeps fewer
 * activations. */
const PsFamily ps_family_gis = {
  .name = "gis",
  .description = "1F1B over v chunks in groups of half a pipeline, W right after B: less memory",
  .constraints = "N, when given, from p / 2 to m with m mod N = 0 or >= p / 2",
  .memory = "min (m v, p - r + (v - 1) N) / v, N the group size, p / 2 where that divides m",
  .source = "PipeOffload, arXiv 2503.01328, section 4",
  .default_chunks = 2,
  .groups = TRUE,
  .half_groups = TRUE,
  .any_chunks = TRUE,
  .walk = &(const PsWalk){ .depth = 1, .split = TRUE },
};

/* Slices forward in order, backward in reverse. The warm-up holds the whole first microbatch, and the bubble shrinks to
 * that of a slice. */
const PsFamily ps_family_seq1f1b = {
  .name = "seq1f1b",
  .description = "1F1B over q sequence slices of each microbatch",
  .constraints = "none",
  .memory = "min (m q, p - r + q - 1) / q",
  .source = "Seq1F1B, arXiv 2406.03488",
  .default_chunks = 1,
  .default_slices = 4,
  .walk = &(const PsWalk){ .depth = 1 },
};

static gboolean check_slimpipe (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  return setting->n_slices >= setting->n_devices || setting->n_chunks == 1
         || ps_refuse (error, PS_ERROR_USAGE,
                       "%s: %u slices on %u devices; give --slices %u or more, so that a device that comes back to a "
                       "microbatch finds its next chunk ready",
                       family->name, setting->n_slices, setting->n_devices, setting->n_devices);
}

/* Interleaved 1F1B over slices, in groups of one microbatch: its slices go through all chunks of the device before
 * those of the next microbatch. So a device keeps one microbatch, and 2 (p - 1 - r) slices of a chunk on top of it. */
const PsFamily ps_family_slimpipe = {
  .name = "slimpipe",
  .description = "interleaved 1F1B over slices: the memory of about one microbatch",
  .constraints = "q >= p where v >= 2",
  .memory = "min (m q v, 2 (p - 1 - r) + q v) / (q v), q = p unless given; seq1f1b's at v = 1",
  .source = "SlimPipe, arXiv 2504.14519",
  .default_chunks = 2,
  .default_slices = 1,
  .slices_by_p = TRUE,
  .any_chunks = TRUE,
  .check = check_slimpipe,
  .walk = &(const PsWalk){ .depth = 2, .alone = TRUE },
};

/* 1F1B without a flush. Where weights are updated after every backward, a device stashes the versions that its
 * microbatches under way have seen, one for each. Where they are updated once per m microbatches, m >= p, two versions
 * serve all of them. */
static PsSchedule *walk_asynchronous (const PsFamily *family, const PsFamilySetting *setting, gboolean stash)
{
  PsSchedule *schedule = ps_family_walk (family, setting);
  guint p = setting->n_devices;

  schedule->asynchronous = TRUE;
  schedule->update_every = stash ? 1 : 0;
  schedule->weight_versions = g_new (guint, p);
  for (guint device = 0; device < p; device++)
    schedule->weight_versions[device] = stash ? MIN (setting->n_microbatches, p - device) : 2;
  return schedule;
}

static PsSchedule *pipedream (const PsFamilySetting *setting, GError **error)
{
  return walk_asynchronous (&ps_family_pipedream, setting, TRUE);
}

const PsFamily ps_family_pipedream = {
  .name = "pipedream",
  .description = "asynchronous 1F1B with one stashed version of the weights per microbatch under way",
  .constraints = "none",
  .memory = "min (m, p - r), and as many versions of the weights",
  .source = "PipeDream, arXiv 1806.03377",
  .default_chunks = 1,
  .walk = &(const PsWalk){ .depth = 1 },
  .generate = pipedream,
};

static gboolean check_pipedream_2bw (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_microbatches (family->name, setting, setting->n_devices,
                                       "so that two versions of the weights serve them all", error);
}

static PsSchedule *pipedream_2bw (const PsFamilySetting *setting, GError **error)
{
  return walk_asynchronous (&ps_family_pipedream_2bw, setting, FALSE);
}

const PsFamily ps_family_pipedream_2bw = {
  .name = "pipedream-2bw",
  .description = "asynchronous 1F1B with two versions of the weights",
  .constraints = "m >= p",
  .memory = "p - r, and 2 versions of the weights",
  .source = "PipeDream-2BW, arXiv 2006.09503",
  .default_chunks = 1,
  .check = check_pipedream_2bw,
  .walk = &(const PsWalk){ .depth = 1 },
  .generate = pipedream_2bw,
};

/* Breadth first: every chunk takes all microbatches before the next one starts. The backward walks the microbatches in
 * reverse, as PyTorch does; first in, first out takes as long. */
static PsSchedule *looped_bfs (const PsFamilySetting *setting, GError **error)
{
  PsScheduleBuilder *builder = ps_family_builder ("looped-bfs", PS_PLACEMENT_LOOP, setting);
  guint p = setting->n_devices, m = setting->n_microbatches, v = setting->n_chunks;

  for (guint device = 0; device < p; device++) {
    for (guint chunk = 0; chunk < v; chunk++)
      for (guint microbatch = 0; microbatch < m; microbatch++)
        ps_schedule_builder_add (builder, PS_OP_F, chunk * p + device, microbatch);
    for (guint chunk = v; chunk-- > 0;)
      for (guint microbatch = m; microbatch-- > 0;)
        ps_schedule_builder_add (builder, PS_OP_BW, chunk * p + device, microbatch);
    ps_schedule_builder_next_device (builder);
  }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_looped_bfs = {
  .name = "looped-bfs",
  .torch = "LoopedBFS",
  .description = "breadth first: all microbatches through one chunk after the other",
  .constraints = "none",
  .memory = "m",
  .source = "Breadth-First Pipeline Parallelism, arXiv 2211.05953; PyTorch LoopedBFS",
  .default_chunks = 2,
  .forward = TRUE,
  .any_chunks = TRUE,
  .generate = looped_bfs,
};
