/* partition-costs.c - the costs of a partition's stages, and their text for a command line. */
#include "partition-private.h"

/* The figures of layers that make the costs of their stage. */
typedef enum
{
  PART_F,
  PART_B,
  PART_W,
  PART_BW,
  PART_O,
  PART_KEPT,
  PART_WEIGHT_KEPT,
  PART_STATE,
  PART_VERSION,
  N_PARTS
} Part;

static const gsize part_offsets[N_PARTS] = {
  [PART_F] = G_STRUCT_OFFSET (PsLayer, forward_ns),
  [PART_B] = G_STRUCT_OFFSET (PsLayer, backward_ns),
  [PART_W] = G_STRUCT_OFFSET (PsLayer, weight_ns),
  [PART_BW] = G_STRUCT_OFFSET (PsLayer, full_backward_ns),
  [PART_O] = G_STRUCT_OFFSET (PsLayer, optimizer_ns),
  [PART_KEPT] = G_STRUCT_OFFSET (PsLayer, kept_bytes),
  [PART_WEIGHT_KEPT] = G_STRUCT_OFFSET (PsLayer, weight_kept_bytes),
  [PART_STATE] = G_STRUCT_OFFSET (PsLayer, state_bytes),
  [PART_VERSION] = G_STRUCT_OFFSET (PsLayer, parameter_bytes),
};

struct _PsStageSums
{
  const PsLayers *layers;
  gint64 *part[N_PARTS]; /* [n_layers + 1] */
};

PsStageSums *
ps_stage_sums_new (const PsLayers *layers)
{
  PsStageSums *sums = g_new0 (PsStageSums, 1);

  sums->layers = layers;
  for (guint part = 0; part < N_PARTS; part++)
    sums->part[part] = ps_layers_sums (layers, part_offsets[part]);
  return sums;
}

void
ps_stage_sums_free (PsStageSums *sums)
{
  if (sums == NULL)
    return;
  for (guint part = 0; part < N_PARTS; part++)
    g_free (sums->part[part]);
  g_free (sums);
}

static gint64
sum_between (const PsStageSums *sums, Part part, const PsPartitionStage *stage)
{
  return sums->part[part][stage->last + 1] - sums->part[part][stage->first];
}

static void
fill_stage (const PsStageSums *sums, const PsPartitionStage *range, double speed, guint stage, PsCosts *costs)
{
  static const struct
  {
    PsOpKind kind;
    Part part;
  } times[] = { { PS_OP_F, PART_F }, { PS_OP_R, PART_F },   { PS_OP_B, PART_B },
                { PS_OP_W, PART_W }, { PS_OP_BW, PART_BW }, { PS_OP_O, PART_O } };

  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    ps_costs_op (costs, times[i].kind, stage)->duration_ns
        = ps_scale_time (sum_between (sums, times[i].part, range), speed);
  ps_costs_set_memory (costs, stage, sum_between (sums, PART_KEPT, range), sum_between (sums, PART_WEIGHT_KEPT, range));
  costs->stage[stage].weight_bytes = sum_between (sums, PART_STATE, range);
  costs->stage[stage].version_bytes = sum_between (sums, PART_VERSION, range);
}

/* The activation from the stage to the next one, and the gradient back. A recompute keeps the input. */
static void
fill_boundary (const PsStageSums *sums, const PsPartitionStage *range, const PsLink *link, guint stage, PsCosts *costs)
{
  guint forward = ps_transfer_forward (costs, stage), backward = ps_transfer_backward (costs, stage + 1);
  gint64 bytes = sums->layers->layers[range->last].output_bytes;
  PsOpCost *recompute = ps_costs_op (costs, PS_OP_R, stage + 1);

  costs->transfer_ns[forward] = costs->transfer_ns[backward] = ps_link_transfer_ns (link, bytes);
  costs->message_bytes[forward] = costs->message_bytes[backward] = bytes;
  recompute->take_bytes -= MIN (bytes, recompute->take_bytes);
}

void
ps_stage_sums_fill (const PsStageSums *sums, const PsPartitionStage *stages, const double *speed, const PsLink *links,
                    PsCosts *costs)
{
  for (guint s = 0; s < costs->n_stages; s++)
    fill_stage (sums, &stages[s], speed[s], s, costs);
  for (guint s = 0; s + 1 < costs->n_stages; s++)
    fill_boundary (sums, &stages[s], &links[s], s, costs);
}

static gboolean
has_same_speeds (const PsPartitionSetting *setting, guint stage, GError **error)
{
  const PsPlacement *placement = setting->placement;
  guint first, other;

  if (placement == NULL || setting->speeds == NULL || placement->n_copies == 1)
    return TRUE;
  first = ps_placement_device (placement, 0, stage);
  other = ps_placement_device (placement, 1, stage);
  if (setting->speeds[first] == setting->speeds[other])
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "--speed: stage %u lives on devices %u and %u, which would need the same speed", stage, first,
                    other);
}

double *
ps_partition_stage_speeds (const PsPartitionSetting *setting, GError **error)
{
  guint n_stages = ps_partition_n_stages (setting);
  g_autofree double *speeds = g_new0 (double, n_stages);

  for (guint s = 0; s < n_stages; s++)
    {
      if (!has_same_speeds (setting, s, error))
        return NULL;
      speeds[s] = ps_partition_speed (setting, s);
    }
  return g_steal_pointer (&speeds);
}

PsCosts *
ps_partition_costs (const PsPartitionSetting *setting, const PsPartition *partition, GError **error)
{
  const PsLayers *layers = setting->layers;
  g_autofree double *speeds = ps_partition_stage_speeds (setting, error);

  if (speeds == NULL)
    return NULL;
  g_autoptr (PsStageSums) sums = ps_stage_sums_new (layers);
  PsCosts *costs = ps_costs_new (partition->n_stages);
  ps_stage_sums_fill (sums, partition->stages, speeds, setting->links, costs);
  costs->time_origin = costs->transfer_origin = layers->time_origin;
  costs->memory_origin = layers->memory_origin;
  g_free (costs->source);
  costs->source = g_strdup_printf ("layers of %s", layers->source);
  return costs;
}

/* Text */

typedef struct
{
  const char *key;
  const char *unit;
  gsize offset;
  enum
  {
    OF_OP,       /* a member of PsOpCost */
    OF_STAGE,    /* a member of PsStageCost */
    OF_BOUNDARY, /* an array of PsCosts by transfer; an activation's stands for the gradient's too */
    OF_ALL,      /* a host time, a member of PsCosts; goes without saying where both are 0 */
  } sort;
  PsOpKind kind;
} Figure;

static const Figure figures[] = {
  { "f", "ns", G_STRUCT_OFFSET (PsOpCost, duration_ns), OF_OP, PS_OP_F },
  { "b", "ns", G_STRUCT_OFFSET (PsOpCost, duration_ns), OF_OP, PS_OP_B },
  { "w", "ns", G_STRUCT_OFFSET (PsOpCost, duration_ns), OF_OP, PS_OP_W },
  { "bw", "ns", G_STRUCT_OFFSET (PsOpCost, duration_ns), OF_OP, PS_OP_BW },
  { "c", "ns", G_STRUCT_OFFSET (PsCosts, transfer_ns), OF_BOUNDARY, 0 },
  { "o", "ns", G_STRUCT_OFFSET (PsOpCost, duration_ns), OF_OP, PS_OP_O },
  { "pair", "ns", G_STRUCT_OFFSET (PsStageCost, pair_ns), OF_STAGE, 0 },
  { "op", "ns", G_STRUCT_OFFSET (PsCosts, op_ns), OF_ALL, 0 },
  { "post", "ns", G_STRUCT_OFFSET (PsCosts, post_ns), OF_ALL, 0 },
  { "act", "B", G_STRUCT_OFFSET (PsOpCost, take_bytes), OF_OP, PS_OP_F },
  { "wact", "B", G_STRUCT_OFFSET (PsOpCost, give_bytes), OF_OP, PS_OP_W },
  { "weights", "B", G_STRUCT_OFFSET (PsStageCost, weight_bytes), OF_STAGE, 0 },
  { "version", "B", G_STRUCT_OFFSET (PsStageCost, version_bytes), OF_STAGE, 0 },
  { "msg", "B", G_STRUCT_OFFSET (PsCosts, message_bytes), OF_BOUNDARY, 0 },
};

static gint64
figure_at (const Figure *figure, const PsCosts *costs, guint i)
{
  if (figure->sort == OF_OP)
    return G_STRUCT_MEMBER (gint64, ps_costs_op (costs, figure->kind, i), figure->offset);
  if (figure->sort == OF_STAGE)
    return G_STRUCT_MEMBER (gint64, &costs->stage[i], figure->offset);
  if (figure->sort == OF_ALL)
    return G_STRUCT_MEMBER (gint64, costs, figure->offset);
  return G_STRUCT_MEMBER (gint64 *, costs, figure->offset)[ps_transfer_forward (costs, i)];
}

/* Nothing where a value is not known. */
static void
append_list (GString *text, const Figure *figure, const PsCosts *costs)
{
  guint n = figure->sort == OF_ALL ? costs->op_ns + costs->post_ns > 0
                                   : costs->n_stages - (figure->sort == OF_BOUNDARY ? 1 : 0);

  for (guint i = 0; i < n; i++)
    if (figure_at (figure, costs, i) < 0)
      return;
  if (n > 0)
    g_string_append_printf (text, "%s%s", text->len ? "," : "", figure->key);
  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%c%" G_GINT64_FORMAT "%s", i ? ':' : '=', figure_at (figure, costs, i),
                            figure->unit);
}

char *
ps_partition_costs_to_text (const PsCosts *costs)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    append_list (text, &figures[i], costs);
  return g_string_free (text, FALSE);
}
