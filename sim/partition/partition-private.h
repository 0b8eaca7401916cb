/* partition-private.h - code shared by the partitioning algorithms. */
#pragma once

#include <pipesim/partition.h>

/* The running sums [n_layers + 1] of one figure of the layers, given by its offset in PsLayer. Free with g_free. */
gint64 *ps_layers_sums (const PsLayers *layers, gsize offset);
#define PS_LAYERS_SUMS(layers, member) ps_layers_sums (layers, G_STRUCT_OFFSET (PsLayer, member))

static inline guint
ps_partition_n_stages (const PsPartitionSetting *setting)
{
  return setting->n_devices * setting->n_chunks;
}

/* Checks the bounds that PsLayers promises. Errors: PS_ERROR_INPUT. */
gboolean ps_layers_check (const PsLayers *layers, GError **error);

/* A time on a device of that speed, to the nearest nanosecond. */
gint64 ps_scale_time (gint64 ns, double speed);

/* A message and one of the same size back. */
gint64 ps_link_round_trip_ns (const PsLink *link, gint64 bytes);

/* Speed of the device of a stage, of its first weight copy. */
double ps_partition_speed (const PsPartitionSetting *setting, guint stage);

/* Microbatches that a stage has under way at most under 1F1B: min (m, S - s). */
guint ps_partition_in_flight (const PsPartitionSetting *setting, guint stage);

/* Cuts a chain of loads so that the largest stage is as small as possible. Stage s may start anywhere; every stage has
 * at least one layer. */
typedef struct
{
  guint n_layers;
  guint n_stages;
  const gint64 *load;           /* [n_layers + 1] running sums */
  const double *speed;          /* [n_stages] NULL: all 1 */
  const gint64 *const *link_ns; /* [n_stages - 1] of [n_layers]: time on the link after stage s when the stage ends with
                                   that layer; NULL: none */
  const gint64 *state;          /* [n_layers + 1] running sums of bytes; NULL: no limits */
  const gint64 *kept;           /* [n_layers + 1] running sums, for each microbatch under way */
  const guint *in_flight;       /* [n_stages] */
  const gint64 *limit;          /* [n_stages] bytes */
} PsChainCut;

/* The smallest possible bottleneck; end[s] is the first layer after stage s in a partition that has it. FALSE: the
 * limits allow none, and *bottleneck is the number of bytes by which each of them would have to grow. */
gboolean ps_chain_cut_solve (const PsChainCut *cut, guint *end, gint64 *bottleneck);

/* A partition without replicas. */
PsPartition *ps_partition_from_ends (const PsPartitionSetting *setting, const guint *end);

/* Running sums from which the costs of any partition of one chain are filled. */
typedef struct _PsStageSums PsStageSums;
PsStageSums *ps_stage_sums_new (const PsLayers *layers);
void ps_stage_sums_free (PsStageSums *sums);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsStageSums, ps_stage_sums_free)

/* Fills costs for costs->n_stages stages; speed is [n_stages], links is [n_stages - 1]. */
void ps_stage_sums_fill (const PsStageSums *sums, const PsPartitionStage *stages, const double *speed,
                         const PsLink *links, PsCosts *costs);

/* The speed of the device of every stage [n_stages]. NULL and PS_ERROR_USAGE where a stage lives on devices of
 * different speeds. Free with g_free. */
double *ps_partition_stage_speeds (const PsPartitionSetting *setting, GError **error);

/* Algorithms of the table. */
PsPartition *ps_partition_uniform (const PsPartitionSetting *setting, GError **error);
PsPartition *ps_partition_bottleneck_cut (const PsPartitionSetting *setting, GError **error);
PsPartition *ps_partition_memory_cut (const PsPartitionSetting *setting, GError **error);
PsPartition *ps_partition_pipedream (const PsPartitionSetting *setting, GError **error);
PsPartition *ps_partition_pipedream_code (const PsPartitionSetting *setting, GError **error);
PsPartition *ps_partition_schedule (const PsPartitionSetting *setting, GError **error);
