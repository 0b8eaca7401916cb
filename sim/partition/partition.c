/* partition.c - the table of partitioning algorithms, those that need nothing but sums, and what all results are judged
 * by. */
#include "partition-private.h"

#include <math.h>

void
ps_partition_free (PsPartition *partition)
{
  if (!partition)
    return;
  g_free (partition->stages);
  g_free (partition);
}

gint64
ps_scale_time (gint64 ns, double speed)
{
  return speed == 1 ? ns : llrint ((double)ns / speed);
}

gint64
ps_link_round_trip_ns (const PsLink *link, gint64 bytes)
{
  return 2 * ps_link_transfer_ns (link, bytes);
}

static guint
n_stages_of (const PsPartitionSetting *setting)
{
  return setting->n_devices * setting->n_chunks;
}

double
ps_partition_speed (const PsPartitionSetting *setting, guint stage)
{
  guint device = setting->placement ? ps_placement_device (setting->placement, 0, stage) : stage % setting->n_devices;
  return setting->speeds ? setting->speeds[device] : 1;
}

guint
ps_partition_in_flight (const PsPartitionSetting *setting, guint stage)
{
  guint behind = n_stages_of (setting) - stage;
  return setting->n_microbatches ? MIN (setting->n_microbatches, behind) : behind;
}

PsPartition *
ps_partition_from_ends (const PsPartitionSetting *setting, const guint *end)
{
  PsPartition *partition = g_new0 (PsPartition, 1);
  partition->n_stages = n_stages_of (setting);
  partition->stages = g_new0 (PsPartitionStage, partition->n_stages);
  for (guint s = 0; s < partition->n_stages; s++)
    partition->stages[s] = (PsPartitionStage){ .first = s ? end[s - 1] : 0, .last = end[s] - 1, .replicas = 1 };
  partition->bottleneck_ns = ps_partition_bottleneck (setting, partition);
  return partition;
}

/* What a partition is judged by. */

static gint64
sum_of (const PsLayers *layers, const PsPartitionStage *stage, gsize offset)
{
  gint64 sum = 0;
  for (guint i = stage->first; i <= stage->last; i++)
    sum += G_STRUCT_MEMBER (gint64, &layers->layers[i], offset);
  return sum;
}

gint64
ps_partition_stage_ns (const PsPartitionSetting *setting, const PsPartition *partition, guint stage)
{
  gint64 ns = sum_of (setting->layers, &partition->stages[stage], G_STRUCT_OFFSET (PsLayer, time_ns));
  return ps_scale_time (ns, ps_partition_speed (setting, stage));
}

gint64
ps_partition_link_ns (const PsPartitionSetting *setting, const PsPartition *partition, guint stage)
{
  if (stage + 1 == partition->n_stages)
    return 0;
  return ps_link_round_trip_ns (&setting->links[stage],
                                setting->layers->layers[partition->stages[stage].last].output_bytes);
}

gint64
ps_partition_bottleneck (const PsPartitionSetting *setting, const PsPartition *partition)
{
  gint64 largest = 0;
  for (guint s = 0; s < partition->n_stages; s++)
    {
      gint64 stage_ns = ps_partition_stage_ns (setting, partition, s);
      gint64 link_ns = ps_partition_link_ns (setting, partition, s);
      largest = MAX (largest, MAX (stage_ns, link_ns));
    }
  return largest;
}

gint64
ps_partition_memory_bytes (const PsPartitionSetting *setting, const PsPartition *partition, guint stage)
{
  gint64 state = sum_of (setting->layers, &partition->stages[stage], G_STRUCT_OFFSET (PsLayer, state_bytes));
  gint64 kept = sum_of (setting->layers, &partition->stages[stage], G_STRUCT_OFFSET (PsLayer, kept_bytes));
  return state + kept * ps_partition_in_flight (setting, stage);
}

/* The algorithms */

static PsPartition *
cut_uniform (const PsPartitionSetting *setting, G_GNUC_UNUSED GError **error)
{
  guint n = setting->layers->n_layers, n_stages = n_stages_of (setting);
  g_autofree guint *end = g_new (guint, n_stages);
  for (guint s = 0; s < n_stages; s++)
    end[s] = (s ? end[s - 1] : 0) + n / n_stages + (s < n % n_stages);
  return ps_partition_from_ends (setting, end);
}

/* The largest sum of one figure as small as possible. */
static PsPartition *
cut_by_sum (const PsPartitionSetting *setting, gsize offset)
{
  g_autofree gint64 *load = ps_layers_sums (setting->layers, offset);
  g_autofree guint *end = g_new (guint, n_stages_of (setting));
  PsChainCut cut = { .n_layers = setting->layers->n_layers, .n_stages = n_stages_of (setting), .load = load };
  gint64 largest;
  gboolean found = ps_chain_cut_solve (&cut, end, &largest);
  g_assert (found); /* there are no limits */
  return ps_partition_from_ends (setting, end);
}

static PsPartition *
cut_parameters (const PsPartitionSetting *setting, G_GNUC_UNUSED GError **error)
{
  return cut_by_sum (setting, G_STRUCT_OFFSET (PsLayer, parameter_bytes));
}

static PsPartition *
cut_flops (const PsPartitionSetting *setting, GError **error)
{
  if (setting->layers->has_flops)
    return cut_by_sum (setting, G_STRUCT_OFFSET (PsLayer, flops));
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "flops: %s says nothing of FLOPs; a column flops would be right",
               setting->layers->source);
  return NULL;
}

static const PsPartitioner table[] = {
  { .name = "uniform",
    .description = "as many layers for every stage",
    .source = "common practice",
    .cut = cut_uniform },
  { .name = "parameters",
    .description = "the largest stage by parameter bytes as small as possible",
    .source = "exact, by parametric search",
    .cut = cut_parameters },
  { .name = "flops",
    .description = "the largest stage by FLOPs as small as possible",
    .source = "exact, by parametric search",
    .cut = cut_flops },
  { .name = "bottleneck",
    .description = "the slowest stage or link as fast as possible; devices may have speeds",
    .source = "exact, by parametric search",
    .cut = ps_partition_bottleneck_cut },
  { .name = "memory-aware",
    .description = "like bottleneck, within --memory-limit under 1F1B",
    .source = "exact, by parametric search",
    .cut = ps_partition_memory_cut },
  { .name = "pipedream",
    .description = "stages may be replicated; the recurrence of the paper",
    .source = "PipeDream, SOSP 2019 (arXiv 1806.03377), section 3.1",
    .replicates = TRUE,
    .cut = ps_partition_pipedream },
  { .name = "pipedream-code",
    .description = "the same as the program released with the paper counts it, --straight without replication",
    .source = "PipeDream's optimizer_graph_hierarchical.py, one level",
    .replicates = TRUE,
    .cut = ps_partition_pipedream_code },
  { .name = "schedule",
    .description = "the simulated iteration time of --schedule as short as local search gets it",
    .source = "local search over boundaries from the best of the above",
    .cut = ps_partition_schedule },
};

const PsPartitioner *
ps_partitioner_table (guint *n)
{
  *n = G_N_ELEMENTS (table);
  return table;
}

const PsPartitioner *
ps_partitioner_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (g_str_equal (table[i].name, name))
      return &table[i];
  return NULL;
}

static gboolean
check_replicating (const PsPartitioner *partitioner, const PsPartitionSetting *setting, GError **error)
{
  if (setting->n_chunks != 1)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %u chunks on a device; its stages take whole devices, give 1",
                 partitioner->name, setting->n_chunks);
  else if (setting->speeds)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                 "%s: takes all devices as equally fast; --speed is for bottleneck, "
                 "memory-aware and schedule",
                 partitioner->name);
  else
    return TRUE;
  return FALSE;
}

/* The bytes kept by all layers, for each of at most S microbatches, must stay an exact sum. */
static gboolean
check_sums (const PsPartitionSetting *setting, GError **error)
{
  gint64 kept = 0, limit = G_MAXINT64 / 4 / n_stages_of (setting);
  for (guint i = 0; i < setting->layers->n_layers; i++)
    kept += setting->layers->layers[i].kept_bytes;
  if (kept <= limit)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
               "%s: the layers keep %" G_GINT64_FORMAT " bytes of a microbatch, too many for exact sums over %u stages",
               setting->layers->source, kept, n_stages_of (setting));
  return FALSE;
}

PsPartition *
ps_partition (const PsPartitioner *partitioner, const PsPartitionSetting *setting, GError **error)
{
  guint64 n_stages = (guint64)setting->n_devices * setting->n_chunks;
  if (n_stages > PS_MAX_STAGES)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %u chunks on %u devices; give 1 to %u stages in all",
                 partitioner->name, setting->n_chunks, setting->n_devices, PS_MAX_STAGES);
  else if (!partitioner->replicates && n_stages > setting->layers->n_layers)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: the %u layers of %s cannot be cut into %u stages",
                 partitioner->name, setting->layers->n_layers, setting->layers->source, (guint)n_stages);
  else if ((!partitioner->replicates || check_replicating (partitioner, setting, error)) && check_sums (setting, error))
    return partitioner->cut (setting, error);
  return NULL;
}
