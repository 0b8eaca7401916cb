/* partition-sums.c - running sums over layers, and the figures by which partitions are judged. */
#include "partition-private.h"

#include <math.h>

gint64 *
ps_layers_sums (const PsLayers *layers, gsize offset)
{
  gint64 *sums = g_new (gint64, layers->n_layers + 1);

  sums[0] = 0;
  for (guint i = 0; i < layers->n_layers; i++)
    sums[i + 1] = sums[i] + G_STRUCT_MEMBER (gint64, &layers->layers[i], offset);
  return sums;
}

void
ps_partition_free (PsPartition *partition)
{
  if (partition == NULL)
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

double
ps_partition_speed (const PsPartitionSetting *setting, guint stage)
{
  guint device
      = setting->placement != NULL ? ps_placement_device (setting->placement, 0, stage) : stage % setting->n_devices;

  return setting->speeds != NULL ? setting->speeds[device] : 1;
}

guint
ps_partition_in_flight (const PsPartitionSetting *setting, guint stage)
{
  guint left = ps_partition_n_stages (setting) - stage;

  return setting->n_microbatches ? MIN (setting->n_microbatches, left) : left;
}

PsPartition *
ps_partition_from_ends (const PsPartitionSetting *setting, const guint *end)
{
  PsPartition *partition = g_new0 (PsPartition, 1);

  partition->n_stages = ps_partition_n_stages (setting);
  partition->stages = g_new0 (PsPartitionStage, partition->n_stages);
  for (guint s = 0; s < partition->n_stages; s++)
    partition->stages[s] = (PsPartitionStage){ .first = s ? end[s - 1] : 0, .last = end[s] - 1, .replicas = 1 };
  partition->bottleneck_ns = ps_partition_bottleneck (setting, partition);
  return partition;
}

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

PsPartition *
ps_partition_uniform (const PsPartitionSetting *setting, G_GNUC_UNUSED GError **error)
{
  guint n = setting->layers->n_layers, n_stages = ps_partition_n_stages (setting);
  g_autofree guint *end = g_new (guint, n_stages);

  for (guint s = 0; s < n_stages; s++)
    end[s] = (s ? end[s - 1] : 0) + n / n_stages + (s < n % n_stages);
  return ps_partition_from_ends (setting, end);
}
