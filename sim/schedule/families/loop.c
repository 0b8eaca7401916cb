/* loop.c - families in loop placement that share one order: some forwards, then one forward and one backward in turn,
 * then the backwards that are left. They differ in the number of forwards at the start, in the groups of microbatches
 * and in the place of the weight gradients, which a rule says for each device. */
#include "families-private.h"

/* Groups of microbatches that go through a chunk in a row. A device that comes back to a chunk finds its input ready
 * only where a group is as long as the pipeline. So Megatron-LM asks that N >= p and that m mod N is 0 or at least p.
 * Other families wait for smaller groups. With fewer microbatches than the least there is one group. */

static gboolean
is_group_size (const PsFamilySetting *setting, guint least, guint group)
{
  guint m = setting->n_microbatches;

  return group >= 1 && group >= MIN (least, m) && group <= m && (m % group == 0 || m % group >= least);
}

/* The smallest one allowed keeps the least memory; it is `least` itself where that divides m. */
guint
ps_family_group_size (const PsFamilySetting *setting, guint least)
{
  guint group = setting->group_size ? setting->group_size : MIN (least, setting->n_microbatches);

  while (!is_group_size (setting, least, group))
    group++;
  return group;
}

/* Checks the size that is asked for. The message calls the least size `what` and names the nearest size allowed; m
 * itself always is. */
static gboolean
check_groups (const PsFamily *family, const PsFamilySetting *setting, guint least, const char *what, GError **error)
{
  guint asked = MIN (setting->group_size, setting->n_microbatches), near = 0;

  if (setting->group_size == 0 || is_group_size (setting, least, setting->group_size))
    return TRUE;
  for (guint distance = 0; near == 0; distance++)
    near = is_group_size (setting, least, asked - MIN (asked, distance)) ? asked - distance
           : is_group_size (setting, least, asked + distance)            ? asked + distance
                                                                         : 0;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "%s: groups of %u are not allowed; give %u, N from %s to m with m mod N = 0 or >= %s", family->name,
                    setting->group_size, near, what, what);
}

static PsWalk
naive (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = 0 };
}

const PsFamily ps_family_naive = {
  .name = "naive",
  .description = "layers split over devices, one microbatch at a time",
  .constraints = "none",
  .memory = "1",
  .source = "model parallelism without a pipeline",
  .default_chunks = 1,
  .walk = naive,
};

static PsWalk
gpipe (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = setting->n_microbatches };
}

const PsFamily ps_family_gpipe = {
  .name = "gpipe",
  .description = "all forwards, then all backwards",
  .constraints = "none",
  .memory = "m",
  .source = "GPipe, arXiv 1811.06965",
  .default_chunks = 1,
  .walk = gpipe,
};

/* PipeDream-Flush, DAPPLE. */
static PsWalk
one_forward_one_backward (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = setting->n_devices - 1 - device };
}

const PsFamily ps_family_1f1b = {
  .name = "1f1b",
  .description = "one forward, one backward in turn after a warm-up",
  .constraints = "none",
  .memory = "min (m, p - r)",
  .source = "PipeDream-Flush, arXiv 2006.09503; DAPPLE, arXiv 2007.01045",
  .default_chunks = 1,
  .defers = TRUE,
  .walk = one_forward_one_backward,
};

/* The next input of a device has been under way for a while, so transfers overlap with ops. */
static PsWalk
eager (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = 2 * (setting->n_devices - 1 - device) };
}

const PsFamily ps_family_eager_1f1b = {
  .name = "eager-1f1b",
  .description = "1F1B with twice the warm-up, which hides transfers",
  .constraints = "none",
  .memory = "min (m, 2 (p - r) - 1)",
  .source = "warm-up of Megatron-LM's interleaved 1F1B with one chunk; PyTorch Interleaved1F1B, v = 1",
  .default_chunks = 1,
  .walk = eager,
};

static gboolean
check_whole_groups (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  return check_groups (family, setting, setting->n_devices, "p", error);
}

/* Megatron-LM's order. With one chunk it is plain 1F1B, which Megatron-LM runs then. */
static PsWalk
interleaved (const PsFamilySetting *setting, guint device)
{
  guint group = ps_family_group_size (setting, setting->n_devices);

  if (setting->n_chunks == 1)
    return one_forward_one_backward (setting, device);
  return (PsWalk){ .warmup = 2 * (setting->n_devices - 1 - device) + (setting->n_chunks - 1) * group, .group = group };
}

const PsFamily ps_family_interleaved = {
  .name = "interleaved",
  .description = "1F1B over v chunks per device (virtual pipeline)",
  .constraints = "N, when given, from p to m with m mod N = 0 or >= p",
  .memory = "min (m v, 2 (p - 1 - r) + (v - 1) N + 1) / v, N the group size, p where p divides m; 1F1B's at v = 1",
  .source = "Megatron-LM, arXiv 2104.04473, section 2.2; core/pipeline_parallel/schedules.py",
  .default_chunks = 2,
  .groups = TRUE,
  .defers = TRUE,
  .any_chunks = TRUE,
  .check = check_whole_groups,
  .walk = interleaved,
};

static gboolean
check_overlap (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  if (setting->n_chunks == 1)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: has two chunks per device or more, not 1", family->name);
  return check_whole_groups (family, setting, error);
}

/* One more forward in the warm-up: no forward needs the backward before it, so that both overlap. Megatron-LM hides the
 * messages of experts so. */
static PsWalk
overlap (const PsFamilySetting *setting, guint device)
{
  PsWalk walk = interleaved (setting, device);

  walk.warmup++;
  walk.pairs = TRUE;
  return walk;
}

const PsFamily ps_family_interleaved_overlap = {
  .name = "interleaved-overlap",
  .description = "interleaved 1F1B with forwards overlapped with backwards in pairs",
  .constraints = "v >= 2; N, when given, from p to m with m mod N = 0 or >= p",
  .memory = "min (m v, 2 (p - 1 - r) + (v - 1) N + 2) / v, N the group size, p where p divides m",
  .source = "Megatron-LM, overlap_moe_expert_parallel_comm; core/pipeline_parallel/combined_1f1b.py",
  .default_chunks = 2,
  .groups = TRUE,
  .any_chunks = TRUE,
  .check = check_overlap,
  .walk = overlap,
};

/* W after each pair, so that the gradient goes on its way first. The time of a pair (pair= in costs) is that of an F
 * and a B here. */
static PsWalk
overlap_w (const PsFamilySetting *setting, guint device)
{
  PsWalk walk = overlap (setting, device);

  walk.split = TRUE;
  return walk;
}

const PsFamily ps_family_interleaved_overlap_w = {
  .name = "interleaved-overlap-w",
  .description = "interleaved-overlap with W after each pair; pair= is F and B there",
  .constraints = "v >= 2; N, when given, from p to m with m mod N = 0 or >= p",
  .memory = "min (m v, 2 (p - 1 - r) + (v - 1) N + 2) / v, N the group size, p where p divides m",
  .source = "Megatron-LM, delay_wgrad_compute; core/pipeline_parallel/combined_1f1b.py",
  .default_chunks = 2,
  .groups = TRUE,
  .any_chunks = TRUE,
  .check = check_overlap,
  .walk = overlap_w,
};

/* Device r starts its W with the backward of microbatch r. So every device keeps as many activations as device 0 of
 * 1F1B, and W fills the drain. */
static PsWalk
zb_h1 (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = setting->n_devices - 1 - device, .split = TRUE, .delay = device };
}

const PsFamily ps_family_zb_h1 = {
  .name = "zb-h1",
  .description = "1F1B with W split off and moved into the drain, at the memory of 1F1B",
  .constraints = "none",
  .memory = "min (m, p)",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2.1",
  .default_chunks = 1,
  .walk = zb_h1,
};

/* Twice the warm-up fills the bubble before the first backward as well. Every device is busy from its first forward to
 * its last W where F, B and W take the same time, m >= 2p and transfers are free. */
static PsWalk
zb_h2 (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = 2 * (setting->n_devices - 1 - device), .split = TRUE, .delay = 2 * device };
}

const PsFamily ps_family_zb_h2 = {
  .name = "zb-h2",
  .description = "ZB-H1 with twice the warm-up: no bubble in a device's span from m = 2p on",
  .constraints = "none",
  .memory = "min (m, 2p - 1)",
  .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2.2",
  .default_chunks = 1,
  .walk = zb_h2,
};

/* Half the warm-up of interleaved 1F1B; device r runs each W r units after its B. */
static PsWalk
interleaved_zb (const PsFamilySetting *setting, guint device)
{
  guint group = ps_family_group_size (setting, setting->n_devices);

  return (PsWalk){ .warmup = setting->n_devices - 1 - device + (setting->n_chunks - 1) * group,
                   .group = group,
                   .split = TRUE,
                   .delay = device };
}

const PsFamily ps_family_interleaved_zb = {
  .name = "interleaved-zb",
  .description = "ZB-H1 over v chunks per device",
  .constraints = "N, when given, from p to m with m mod N = 0 or >= p",
  .memory = "min (m v, p + (v - 1) N) / v, N the group size, p where p divides m",
  .source = "PyTorch InterleavedZeroBubble, after arXiv 2401.10241",
  .default_chunks = 2,
  .groups = TRUE,
  .any_chunks = TRUE,
  .check = check_whole_groups,
  .walk = interleaved_zb,
};

static guint
least_gis_group (const PsFamilySetting *setting)
{
  return (setting->n_devices + 1) / 2;
}

static gboolean
check_gis (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  return check_groups (family, setting, least_gis_group (setting), "half of p", error);
}

/* The generalized interleaved schedule of PipeOffload: half the warm-up of interleaved 1F1B and each W right after its
 * B, in groups down to half a pipeline. A group of N < p waits p - N forwards for its next chunk and keeps fewer
 * activations. */
static PsWalk
gis (const PsFamilySetting *setting, guint device)
{
  guint group = ps_family_group_size (setting, least_gis_group (setting));

  return (PsWalk){ .warmup = setting->n_devices - 1 - device + (setting->n_chunks - 1) * group,
                   .group = group,
                   .split = TRUE };
}

const PsFamily ps_family_gis = {
  .name = "gis",
  .description = "1F1B over v chunks in groups of half a pipeline, W right after B: less memory",
  .constraints = "N, when given, from p / 2 to m with m mod N = 0 or >= p / 2",
  .memory = "min (m v, p - r + (v - 1) N) / v, N the group size, p / 2 where that divides m",
  .source = "PipeOffload, arXiv 2503.01328, section 4",
  .default_chunks = 2,
  .groups = TRUE,
  .any_chunks = TRUE,
  .check = check_gis,
  .walk = gis,
};

/* Slices forward in order, backward in reverse. The warm-up holds the whole first microbatch, and the bubble shrinks to
 * that of a slice. */
static PsWalk
seq1f1b (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = setting->n_devices - 1 - device + setting->n_slices - 1 };
}

const PsFamily ps_family_seq1f1b = {
  .name = "seq1f1b",
  .description = "1F1B over q sequence slices of each microbatch",
  .constraints = "none",
  .memory = "min (m q, p - r + q - 1) / q",
  .source = "Seq1F1B, arXiv 2406.03488",
  .default_chunks = 1,
  .default_slices = 4,
  .walk = seq1f1b,
};

/* 1F1B without a flush. Where weights are updated after every backward, a device stashes the versions that its
 * microbatches under way have seen, one for each. Where they are updated once per m microbatches, m >= p, two versions
 * serve all of them. */
static PsSchedule *
walk_asynchronous (const char *name, const PsFamilySetting *setting, gboolean stash)
{
  PsSchedule *schedule = ps_family_walk (name, setting, one_forward_one_backward);
  guint p = setting->n_devices;

  schedule->asynchronous = TRUE;
  schedule->update_every = stash ? 1 : 0;
  schedule->weight_versions = g_new (guint, p);
  for (guint device = 0; device < p; device++)
    schedule->weight_versions[device] = stash ? MIN (setting->n_microbatches, p - device) : 2;
  return schedule;
}

static PsSchedule *
pipedream (const PsFamilySetting *setting, GError **error)
{
  return walk_asynchronous ("pipedream", setting, TRUE);
}

const PsFamily ps_family_pipedream = {
  .name = "pipedream",
  .description = "asynchronous 1F1B with one stashed version of the weights per microbatch under way",
  .constraints = "none",
  .memory = "min (m, p - r), and as many versions of the weights",
  .source = "PipeDream, arXiv 1806.03377",
  .default_chunks = 1,
  .generate = pipedream,
};

static gboolean
check_pipedream_2bw (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_microbatches (family->name, setting, setting->n_devices,
                                       "so that two versions of the weights serve them all", error);
}

static PsSchedule *
pipedream_2bw (const PsFamilySetting *setting, GError **error)
{
  return walk_asynchronous ("pipedream-2bw", setting, FALSE);
}

const PsFamily ps_family_pipedream_2bw = {
  .name = "pipedream-2bw",
  .description = "asynchronous 1F1B with two versions of the weights",
  .constraints = "m >= p",
  .memory = "p - r, and 2 versions of the weights",
  .source = "PipeDream-2BW, arXiv 2006.09503",
  .default_chunks = 1,
  .check = check_pipedream_2bw,
  .generate = pipedream_2bw,
};

/* Breadth first: every chunk takes all microbatches before the next one starts. The backward walks the microbatches in
 * reverse, as PyTorch does; first in, first out takes as long. */
static PsSchedule *
looped_bfs (const PsFamilySetting *setting, GError **error)
{
  PsScheduleBuilder *builder = ps_family_builder ("looped-bfs", PS_PLACEMENT_LOOP, setting);
  guint p = setting->n_devices, m = setting->n_microbatches, v = setting->n_chunks;

  for (guint device = 0; device < p; device++)
    {
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
  .description = "breadth first: all microbatches through one chunk after the other",
  .constraints = "none",
  .memory = "m",
  .source = "Breadth-First Pipeline Parallelism, arXiv 2211.05953; PyTorch LoopedBFS",
  .default_chunks = 2,
  .any_chunks = TRUE,
  .generate = looped_bfs,
};
