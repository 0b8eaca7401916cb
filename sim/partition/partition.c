/* partition.c - the table of partitioning algorithms, and the algorithms that need nothing but sums. */
#include "partition-private.h"

/* The largest sum of one figure as small as possible. */
static PsPartition *
cut_by_sum (const PsPartitionSetting *setting, gsize offset)
{
  g_autofree gint64 *load = ps_layers_sums (setting->layers, offset);
  g_autofree guint *end = g_new (guint, ps_partition_n_stages (setting));
  PsChainCut cut = { .n_layers = setting->layers->n_layers, .n_stages = ps_partition_n_stages (setting), .load = load };
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
  return ps_refuse_null (error, PS_ERROR_USAGE, "flops: %s has no FLOPs; give it a column flops",
                         setting->layers->source);
}

static const PsPartitioner table[] = {
  { .name = "uniform",
    .description = "as many layers for every stage",
    .source = "common practice",
    .cut = ps_partition_uniform },
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
    return ps_refuse (error, PS_ERROR_USAGE, "%s: %u chunks on a device; its stages take whole devices, give 1",
                      partitioner->name, setting->n_chunks);
  if (setting->speeds != NULL)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "%s: takes all devices as equally fast; --speed is for bottleneck, "
                      "memory-aware and schedule",
                      partitioner->name);
  return TRUE;
}

/* The bytes kept by all layers, for each of at most S microbatches, must stay an exact sum. */
static gboolean
check_sums (const PsPartitionSetting *setting, GError **error)
{
  gint64 kept = 0, limit = G_MAXINT64 / 4 / ps_partition_n_stages (setting);

  for (guint i = 0; i < setting->layers->n_layers; i++)
    kept += setting->layers->layers[i].kept_bytes;
  if (kept <= limit)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "%s: the layers keep %" G_GINT64_FORMAT
                    " bytes of a microbatch, too many for exact sums over %u stages",
                    setting->layers->source, kept, ps_partition_n_stages (setting));
}

PsPartition *
ps_partition (const PsPartitioner *partitioner, const PsPartitionSetting *setting, GError **error)
{
  guint64 n_stages = (guint64)setting->n_devices * setting->n_chunks;

  if (n_stages > PS_MAX_STAGES)
    return ps_refuse_null (error, PS_ERROR_USAGE, "%s: %u chunks on %u devices; give 1 to %u stages in all",
                           partitioner->name, setting->n_chunks, setting->n_devices, PS_MAX_STAGES);
  if (!partitioner->replicates && n_stages > setting->layers->n_layers)
    return ps_refuse_null (error, PS_ERROR_USAGE, "%s: the %u layers of %s cannot be cut into %u stages",
                           partitioner->name, setting->layers->n_layers, setting->layers->source, (guint)n_stages);
  if ((!partitioner->replicates || check_replicating (partitioner, setting, error)) && check_sums (setting, error))
    return partitioner->cut (setting, error);
  return NULL;
}
