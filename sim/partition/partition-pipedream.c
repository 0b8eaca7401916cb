/* partition-pipedream.c - PipeDream's dynamic program, by its paper and by its released program.
 *
 * A(j, m) is the smallest bottleneck of layers 0..j on exactly m devices. It is the time of one stage of m replicas, or
 * that of the best split. A split takes A(k, m - r), the transfer between layer k and k + 1, and a stage k+1..j of r
 * replicas. Earlier k, then smaller r, win ties. Paper and program differ in the cost of a stage and of a transfer.
 */
#include "partition-private.h"

#include <math.h>

#define UNREACHABLE G_MAXINT64
#define NO_SPLIT G_MAXUINT

/* Steps of the recurrence, about n^2 p^2 / 4: some seconds. */
#define MAX_STEPS 4e9

#define LONGEST_NS ((gint64)1 << 62)

typedef struct
{
  gint64 bottleneck_ns;
  guint split;    /* k, NO_SPLIT: one stage */
  guint replicas; /* of the last stage */
} Cell;

typedef struct
{
  const PsLayers *layers;
  guint n_devices;
  guint max_replicas; /* of a stage */
  const gint64 *time_ns;
  const gint64 *parameter_bytes;
  PsLink link;
  gboolean code; /* as the released program counts */
  double compression;
  Cell *cells; /* [layer * n_devices + devices - 1] */
} Recurrence;

static Cell *
cell_at (const Recurrence *recurrence, guint layer, guint devices)
{
  return &recurrence->cells[(gsize)layer * recurrence->n_devices + devices - 1];
}

static double
ns_of_bytes (const Recurrence *recurrence, double bytes)
{
  return recurrence->link.bandwidth > 0 ? bytes * 1e9 / recurrence->link.bandwidth : 0;
}

/* Huge weights over a slow link last longer than a gint64 holds. */
static gint64
to_ns (double ns)
{
  return ns < (double)LONGEST_NS ? llrint (ns) : LONGEST_NS;
}

/* Layers first..last on r devices. Paper: max (sum of T, 2 (r - 1) |w| / B) / r: an all-reduce of the weights overlaps
 * with computation. Program: (sum of T + 4 (r - 1) |w| / (r B)) / r: it does not. */
static gint64
stage_ns (const Recurrence *recurrence, guint first, guint last, guint r)
{
  double time = (double)(recurrence->time_ns[last + 1] - recurrence->time_ns[first]);
  double bytes = (double)(recurrence->parameter_bytes[last + 1] - recurrence->parameter_bytes[first]);
  double sync = ns_of_bytes (recurrence, (r - 1.0) * bytes);

  return to_ns (recurrence->code ? (time + 4 * sync / r) / r : MAX (time, 2 * sync) / r);
}

/* The released program divides a transfer by the replicas of the stage and by the compression of activations, and
 * leaves transfers out where no compression is given. */
static gint64
code_transfer_ns (const Recurrence *recurrence, guint layer, guint r)
{
  double ns = (double)ps_link_round_trip_ns (&recurrence->link, recurrence->layers->layers[layer].output_bytes);

  return recurrence->compression > 0 ? to_ns (ns / r / recurrence->compression) : 0;
}

/* Time of the transfers around a last stage k+1..j of r replicas. */
static gint64
transfers_ns (const Recurrence *recurrence, guint k, guint j, guint r)
{
  if (!recurrence->code)
    return ps_link_round_trip_ns (&recurrence->link, recurrence->layers->layers[k].output_bytes);
  gint64 ns = code_transfer_ns (recurrence, k, r);
  return j + 1 < recurrence->layers->n_layers ? MAX (ns, code_transfer_ns (recurrence, j, r)) : ns;
}

static void
improve_cell (const Recurrence *recurrence, guint k, guint j, guint devices, Cell *cell)
{
  guint most = MIN (recurrence->max_replicas, devices - 1);

  for (guint r = 1; r <= most; r++)
    {
      gint64 ns = cell_at (recurrence, k, devices - r)->bottleneck_ns;

      if (ns >= cell->bottleneck_ns)
        continue;
      ns = MAX (ns, stage_ns (recurrence, k + 1, j, r));
      ns = MAX (ns, transfers_ns (recurrence, k, j, r));
      if (ns < cell->bottleneck_ns)
        *cell = (Cell){ ns, k, r };
    }
}

static void
fill_cells (Recurrence *recurrence)
{
  for (guint j = 0; j < recurrence->layers->n_layers; j++)
    for (guint devices = 1; devices <= recurrence->n_devices; devices++)
      {
        Cell cell = { UNREACHABLE, NO_SPLIT, devices };

        if (devices <= recurrence->max_replicas)
          cell.bottleneck_ns = stage_ns (recurrence, 0, j, devices);
        for (guint k = 0; k < j && devices > 1; k++)
          improve_cell (recurrence, k, j, devices, &cell);
        *cell_at (recurrence, j, devices) = cell;
      }
}

static PsPartition *
trace_back (const Recurrence *recurrence)
{
  guint layer = recurrence->layers->n_layers - 1, devices = recurrence->n_devices;
  g_autoptr (GArray) stages = g_array_new (FALSE, FALSE, sizeof (PsPartitionStage));
  PsPartition *partition = g_new0 (PsPartition, 1);

  partition->bottleneck_ns = cell_at (recurrence, layer, devices)->bottleneck_ns;
  for (;;)
    {
      const Cell *cell = cell_at (recurrence, layer, devices);
      PsPartitionStage stage = { cell->split == NO_SPLIT ? 0 : cell->split + 1, layer, cell->replicas };

      g_array_prepend_val (stages, stage);
      if (cell->split == NO_SPLIT)
        break;
      layer = cell->split;
      devices -= cell->replicas;
    }
  partition->n_stages = stages->len;
  partition->stages = (PsPartitionStage *)g_array_free (g_steal_pointer (&stages), FALSE);
  return partition;
}

/* The recurrences know one link: the slowest, for a transfer of the largest output. */
static PsLink
slowest_link (const PsPartitionSetting *setting)
{
  PsLink slowest = { 0 };
  gint64 bytes = 0, ns = -1;

  for (guint i = 0; i < setting->layers->n_layers; i++)
    bytes = MAX (bytes, setting->layers->layers[i].output_bytes);
  for (guint s = 0; s + 1 < setting->n_devices; s++)
    if (ps_link_transfer_ns (&setting->links[s], bytes) > ns)
      {
        slowest = setting->links[s];
        ns = ps_link_transfer_ns (&slowest, bytes);
      }
  return slowest;
}

static gboolean
check_size (const char *name, const PsPartitionSetting *setting, guint max_replicas, GError **error)
{
  double n = setting->layers->n_layers, p = setting->n_devices;
  double steps = n * n / 2 * (max_replicas == 1 ? p : p * p / 2);

  if (max_replicas == 1 && setting->layers->n_layers < setting->n_devices)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: the %u layers of %s cannot be cut into %u stages", name,
                      setting->layers->n_layers, setting->layers->source, setting->n_devices);
  if (steps > MAX_STEPS)
    return ps_refuse (
        error, PS_ERROR_USAGE,
        "%s: %u layers on %u devices take %.2g steps of its recurrence, more than %.0g; bottleneck takes them", name,
        setting->layers->n_layers, setting->n_devices, steps, MAX_STEPS);
  return TRUE;
}

static PsPartition *
solve (const char *name, const PsPartitionSetting *setting, gboolean code, GError **error)
{
  guint max_replicas = code && setting->straight ? 1 : setting->n_devices;
  g_autofree gint64 *time_ns = PS_LAYERS_SUMS (setting->layers, time_ns);
  g_autofree gint64 *parameter_bytes = PS_LAYERS_SUMS (setting->layers, parameter_bytes);
  Recurrence recurrence = { .layers = setting->layers,
                            .n_devices = setting->n_devices,
                            .max_replicas = max_replicas,
                            .time_ns = time_ns,
                            .parameter_bytes = parameter_bytes,
                            .link = slowest_link (setting),
                            .code = code,
                            .compression = setting->compression };

  if (!check_size (name, setting, max_replicas, error))
    return NULL;
  g_autofree Cell *cells = g_new0 (Cell, (gsize)setting->layers->n_layers * setting->n_devices);
  recurrence.cells = cells;
  fill_cells (&recurrence);
  return trace_back (&recurrence);
}

PsPartition *
ps_partition_pipedream (const PsPartitionSetting *setting, GError **error)
{
  return solve ("pipedream", setting, FALSE, error);
}

PsPartition *
ps_partition_pipedream_code (const PsPartitionSetting *setting, GError **error)
{
  return solve ("pipedream-code", setting, TRUE, error);
}
