/* partition.c - the table of partitioning algorithms, and the algorithms that need nothing but sums. */
#include "partition-private.h"

#include <pipesim/partition.h>

#include <math.h>
#include <string.h>

static inline guint
ps_partition_n_stages (const PsPartitionSetting *setting)
{
  return setting->n_devices * setting->n_chunks;
}

/* Running sums from which the costs of any partition of one chain are filled. */
typedef struct _PsStageSums PsStageSums;

/* Running sums over layers, and the figures by which partitions are judged. */

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

/* A message and one of the same size back. */
static gint64
link_round_trip_ns (const PsLink *link, gint64 bytes)
{
  return 2 * ps_link_transfer_ns (link, bytes);
}

/* Speed of the device of a stage, of its first weight copy. */
static double
partition_speed (const PsPartitionSetting *setting, guint stage)
{
  guint device
      = setting->placement != NULL ? ps_placement_device (setting->placement, 0, stage) : stage % setting->n_devices;

  return setting->speeds != NULL ? setting->speeds[device] : 1;
}

/* Microbatches that a stage has under way at most under 1F1B: min (m, S - s). */
static guint
partition_in_flight (const PsPartitionSetting *setting, guint stage)
{
  guint left = ps_partition_n_stages (setting) - stage;

  return setting->n_microbatches ? MIN (setting->n_microbatches, left) : left;
}

/* A partition without replicas. */
static PsPartition *
partition_from_ends (const PsPartitionSetting *setting, const guint *end)
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

  return ps_scale_time (ns, partition_speed (setting, stage));
}

gint64
ps_partition_link_ns (const PsPartitionSetting *setting, const PsPartition *partition, guint stage)
{
  if (stage + 1 == partition->n_stages)
    return 0;
  return link_round_trip_ns (&setting->links[stage],
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

  return state + kept * partition_in_flight (setting, stage);
}

/* Algorithms of the table. */
static PsPartition *
partition_uniform (const PsPartitionSetting *setting, G_GNUC_UNUSED GError **error)
{
  guint n = setting->layers->n_layers, n_stages = ps_partition_n_stages (setting);
  g_autofree guint *end = g_new (guint, n_stages);

  for (guint s = 0; s < n_stages; s++)
    end[s] = (s ? end[s - 1] : 0) + n / n_stages + (s < n % n_stages);
  return partition_from_ends (setting, end);
}

/* The costs of a partition's stages, and their text for a command line. */

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

static PsStageSums *
stage_sums_new (const PsLayers *layers)
{
  PsStageSums *sums = g_new0 (PsStageSums, 1);

  sums->layers = layers;
  for (guint part = 0; part < N_PARTS; part++)
    sums->part[part] = ps_layers_sums (layers, part_offsets[part]);
  return sums;
}

static void
stage_sums_free (PsStageSums *sums)
{
  if (sums == NULL)
    return;
  for (guint part = 0; part < N_PARTS; part++)
    g_free (sums->part[part]);
  g_free (sums);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsStageSums, stage_sums_free)

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

/* Fills costs for costs->n_stages stages; speed is [n_stages], links is [n_stages - 1]. */
static void
stage_sums_fill (const PsStageSums *sums, const PsPartitionStage *stages, const double *speed, const PsLink *links,
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

/* The speed of the device of every stage [n_stages]. NULL and PS_ERROR_USAGE where a stage lives on devices of
 * different speeds. Free with g_free. */
static double *
partition_stage_speeds (const PsPartitionSetting *setting, GError **error)
{
  guint n_stages = ps_partition_n_stages (setting);
  g_autofree double *speeds = g_new0 (double, n_stages);

  for (guint s = 0; s < n_stages; s++)
    {
      if (!has_same_speeds (setting, s, error))
        return NULL;
      speeds[s] = partition_speed (setting, s);
    }
  return g_steal_pointer (&speeds);
}

PsCosts *
ps_partition_costs (const PsPartitionSetting *setting, const PsPartition *partition, GError **error)
{
  const PsLayers *layers = setting->layers;
  g_autofree double *speeds = partition_stage_speeds (setting, error);

  if (speeds == NULL)
    return NULL;
  g_autoptr (PsStageSums) sums = stage_sums_new (layers);
  PsCosts *costs = ps_costs_new (partition->n_stages);
  stage_sums_fill (sums, partition->stages, speeds, setting->links, costs);
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

/* The smallest possible bottleneck, exactly: parametric search.
 *
 * A bound X is tested stage by stage. Time and memory of a stage only grow when it starts earlier. So a boundary is
 * reachable when the latest reachable boundary before it is near enough. That takes layers x stages steps. X is found
 * by bisection over integer nanoseconds. Each test also tells how far X may move without any comparison in it coming
 * out differently, and bisection skips those X. */

/* Boundaries at which each stage can end: row 0 is the start of the chain, row s + 1 belongs to stage s. Stage s leaves
 * enough layers on both sides, so it ends after layer s + 1 + column. */
typedef struct
{
  guint n_columns; /* n_layers - n_stages + 1 */
  guint8 *rows;    /* [(n_stages + 1) * n_columns] */
  gint64 least;    /* the smallest bound with the same rows */
  gint64 next;     /* no smaller bound than this adds to the rows; G_MAXINT64: none does */
} Reach;

static guint8 *
reach_row (const Reach *reach, guint row)
{
  return &reach->rows[(gsize)row * reach->n_columns];
}

static double
speed_of (const PsChainCut *cut, guint stage)
{
  return cut->speed != NULL ? cut->speed[stage] : 1;
}

/* The largest load that a stage can bear within bound; the estimate is inexact by the rounding of a product. */
static gint64
capacity (const PsChainCut *cut, guint stage, gint64 bound)
{
  double speed = speed_of (cut, stage);
  gint64 all = cut->load[cut->n_layers];
  gint64 load = (gint64)MIN (((double)bound + 0.5) * speed, (double)all);

  if (speed == 1)
    return MIN (bound, all);
  while (load < all && ps_scale_time (load + 1, speed) <= bound)
    load++;
  while (load > 0 && ps_scale_time (load, speed) > bound)
    load--;
  return load;
}

static gboolean
fits_memory (const PsChainCut *cut, guint stage, guint begin, guint end, gint64 extra)
{
  gint64 state, kept;

  if (cut->limit == NULL)
    return TRUE;
  state = cut->state[end] - cut->state[begin];
  kept = cut->kept[end] - cut->kept[begin];
  return state + kept * cut->in_flight[stage] - extra <= cut->limit[stage];
}

/* The time of the link after a stage that ends there. */
static gint64
link_after (const PsChainCut *cut, guint stage, guint end)
{
  return cut->link_ns == NULL || stage + 1 == cut->n_stages ? 0 : cut->link_ns[stage][end - 1];
}

static void
reach_stage (const PsChainCut *cut, Reach *reach, guint stage, gint64 bound, gint64 extra)
{
  const guint8 *before = reach_row (reach, stage);
  guint8 *row = reach_row (reach, stage + 1);
  gint64 most = capacity (cut, stage, bound), longest = 0, longer = G_MAXINT64, begin = -1;

  for (guint column = 0; column < reach->n_columns; column++)
    {
      guint end = stage + 1 + column;
      gint64 load, link = link_after (cut, stage, end);

      if (before[column])
        begin = stage + column;
      row[column] = FALSE;
      if (begin < 0)
        continue;
      load = cut->load[end] - cut->load[begin];
      if (load > most)
        longer = MIN (longer, load);
      else if (link > bound)
        reach->next = MIN (reach->next, link);
      else if (fits_memory (cut, stage, (guint)begin, end, extra))
        {
          row[column] = TRUE;
          longest = MAX (longest, load);
          reach->least = MAX (reach->least, link);
        }
    }
  reach->least = MAX (reach->least, ps_scale_time (longest, speed_of (cut, stage)));
  if (longer < G_MAXINT64)
    reach->next = MIN (reach->next, ps_scale_time (longer, speed_of (cut, stage)));
}

/* TRUE: every stage and link stays within bound, and every stage within its memory limit and extra bytes. */
static gboolean
is_possible (const PsChainCut *cut, Reach *reach, gint64 bound, gint64 extra)
{
  reach->least = 0;
  reach->next = G_MAXINT64;
  for (guint stage = 0; stage < cut->n_stages; stage++)
    reach_stage (cut, reach, stage, bound, extra);
  return reach_row (reach, cut->n_stages)[reach->n_columns - 1];
}

/* The smallest bound from 0 to `high` that is possible, which `high` must be. With a bound (not -1): the smallest extra
 * bytes beside it. */
static gint64
bisect (const PsChainCut *cut, Reach *reach, gint64 high, gint64 bound)
{
  gint64 low = 0;

  while (low < high)
    {
      gint64 middle = low + (high - low) / 2;

      if (bound < 0 ? is_possible (cut, reach, middle, 0) : is_possible (cut, reach, bound, middle))
        high = bound < 0 ? reach->least : middle;
      else
        low = bound < 0 ? reach->next : middle + 1;
    }
  return low;
}

/* Any partition keeps this bound. */
static gint64
loosest_bound (const PsChainCut *cut)
{
  gint64 bound = 0;

  for (guint s = 0; s < cut->n_stages; s++)
    {
      bound = MAX (bound, ps_scale_time (cut->load[cut->n_layers], speed_of (cut, s)));
      for (guint i = 0; cut->link_ns != NULL && s + 1 < cut->n_stages && i < cut->n_layers; i++)
        bound = MAX (bound, cut->link_ns[s][i]);
    }
  return bound;
}

/* Takes a partition within the bound whose stages are near their even share. It goes from the last stage back. The even
 * boundary before a stage makes all stages before it equally long; the stage begins at the reachable boundary nearest
 * to it. */
static void
trace_back (const PsChainCut *cut, const Reach *reach, gint64 bound, guint *end)
{
  double before = 0;

  for (guint s = 0; s < cut->n_stages; s++)
    before += speed_of (cut, s);
  end[cut->n_stages - 1] = cut->n_layers;
  for (guint stage = cut->n_stages - 1; stage > 0; stage--)
    {
      double all = before, wanted, nearest = INFINITY;
      gint64 most = capacity (cut, stage, bound);

      before -= speed_of (cut, stage);
      wanted = (double)cut->load[end[stage]] * before / all;
      for (guint begin = end[stage] - 1; begin >= stage; begin--)
        {
          double distance = fabs ((double)cut->load[begin] - wanted);

          if (cut->load[end[stage]] - cut->load[begin] > most || !fits_memory (cut, stage, begin, end[stage], 0))
            break;
          if (reach_row (reach, stage)[begin - stage] && distance < nearest)
            {
              nearest = distance;
              end[stage - 1] = begin;
            }
        }
    }
}

gboolean
ps_chain_cut_solve (const PsChainCut *cut, guint *end, gint64 *bottleneck)
{
  Reach reach = { .n_columns = cut->n_layers - cut->n_stages + 1 };
  gint64 loosest = loosest_bound (cut);
  g_autofree guint8 *rows = g_new0 (guint8, (gsize)(cut->n_stages + 1) * reach.n_columns);

  reach.rows = rows;
  rows[0] = TRUE;
  if (!is_possible (cut, &reach, loosest, 0))
    {
      *bottleneck = bisect (cut, &reach, G_MAXINT64 / 2, loosest);
      return FALSE;
    }
  *bottleneck = bisect (cut, &reach, loosest, -1);
  is_possible (cut, &reach, *bottleneck, 0);
  trace_back (cut, &reach, *bottleneck, end);
  return TRUE;
}

/* From a setting to a cut and back. */

typedef struct
{
  PsChainCut cut;
  gint64 *load, *state, *kept;
  double *speed;
  const gint64 **link_ns;
  GPtrArray *link_tables; /* one for each different link; owns them */
  guint *in_flight;
  gint64 *limit;
} Problem;

static void
problem_clear (Problem *problem)
{
  g_free (problem->load);
  g_free (problem->state);
  g_free (problem->kept);
  g_free (problem->speed);
  g_free (problem->link_ns);
  g_clear_pointer (&problem->link_tables, g_ptr_array_unref);
  g_free (problem->in_flight);
  g_free (problem->limit);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Problem, problem_clear)

static gboolean
is_same_link (const PsLink *a, const PsLink *b)
{
  return a->latency_ns == b->latency_ns && a->bandwidth == b->bandwidth && a->n_points == b->n_points
         && a->points == b->points;
}

/* A cluster has one or two kinds of links, whatever the number of stages. */
static const gint64 *
link_table (Problem *problem, const PsPartitionSetting *setting, guint stage)
{
  const PsLink *link = &setting->links[stage];

  for (guint s = 0; s < stage; s++)
    if (is_same_link (&setting->links[s], link))
      return problem->link_ns[s];
  gint64 *table = g_new (gint64, setting->layers->n_layers);
  for (guint i = 0; i < setting->layers->n_layers; i++)
    table[i] = link_round_trip_ns (link, setting->layers->layers[i].output_bytes);
  g_ptr_array_add (problem->link_tables, table);
  return table;
}

static void
problem_init (Problem *problem, const PsPartitionSetting *setting)
{
  guint n_stages = ps_partition_n_stages (setting);

  problem->load = PS_LAYERS_SUMS (setting->layers, time_ns);
  problem->speed = g_new (double, n_stages);
  problem->link_ns = g_new (const gint64 *, n_stages);
  problem->link_tables = g_ptr_array_new_with_free_func (g_free);
  for (guint s = 0; s < n_stages; s++)
    {
      problem->speed[s] = partition_speed (setting, s);
      if (s + 1 < n_stages)
        problem->link_ns[s] = link_table (problem, setting, s);
    }
  problem->cut = (PsChainCut){ .n_layers = setting->layers->n_layers,
                               .n_stages = n_stages,
                               .load = problem->load,
                               .speed = problem->speed,
                               .link_ns = problem->link_ns };
}

static void
problem_limit (Problem *problem, const PsPartitionSetting *setting)
{
  guint n_stages = problem->cut.n_stages;

  problem->state = PS_LAYERS_SUMS (setting->layers, state_bytes);
  problem->kept = PS_LAYERS_SUMS (setting->layers, kept_bytes);
  problem->in_flight = g_new (guint, n_stages);
  problem->limit = g_new (gint64, n_stages);
  for (guint s = 0; s < n_stages; s++)
    {
      problem->in_flight[s] = partition_in_flight (setting, s);
      problem->limit[s] = setting->memory_limit[s % setting->n_devices];
    }
  problem->cut.state = problem->state;
  problem->cut.kept = problem->kept;
  problem->cut.in_flight = problem->in_flight;
  problem->cut.limit = problem->limit;
}

static PsPartition *
solve (const Problem *problem, const PsPartitionSetting *setting, GError **error)
{
  g_autofree guint *end = g_new (guint, problem->cut.n_stages);
  gint64 bottleneck;

  if (ps_chain_cut_solve (&problem->cut, end, &bottleneck))
    return partition_from_ends (setting, end);
  g_autofree char *missing = ps_format_size (bottleneck);
  return ps_refuse_null (
      error, PS_ERROR_SCHEDULE,
      "memory-aware: no partition of %s over %u stages keeps within --memory-limit; %s (%" G_GINT64_FORMAT
      " bytes) more on every device would do",
      setting->layers->source, problem->cut.n_stages, missing, bottleneck);
}

static PsPartition *
partition_bottleneck_cut (const PsPartitionSetting *setting, GError **error)
{
  g_auto (Problem) problem = { 0 };

  problem_init (&problem, setting);
  return solve (&problem, setting, error);
}

static PsPartition *
partition_memory_cut (const PsPartitionSetting *setting, GError **error)
{
  g_auto (Problem) problem = { 0 };

  if (setting->memory_limit == NULL || setting->n_chunks != 1)
    return ps_refuse_null (error, PS_ERROR_USAGE, "memory-aware: %s",
                           setting->memory_limit != NULL
                               ? "counts what 1F1B keeps with one chunk on a device; algorithm schedule takes "
                                 "any placement"
                               : "needs --memory-limit SIZE[:SIZE...]");
  problem_init (&problem, setting);
  problem_limit (&problem, setting);
  return solve (&problem, setting, error);
}

/* PipeDream's dynamic program.
 *
 * A(j, m) is the smallest bottleneck of layers 0..j on exactly m devices. It is the time of one stage of m replicas, or
 * that of the best split. A split takes A(k, m - r), the transfer between layer k and k + 1, and a stage k+1..j of r
 * replicas. Earlier k, then smaller r, win ties. */

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
  const gint64 *time_ns;
  const gint64 *parameter_bytes;
  PsLink link;
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

/* Layers first..last on r devices: max (sum of T, 2 (r - 1) |w| / B) / r. An all-reduce of the weights overlaps with
 * computation. */
static gint64
stage_ns (const Recurrence *recurrence, guint first, guint last, guint r)
{
  double time = (double)(recurrence->time_ns[last + 1] - recurrence->time_ns[first]);
  double bytes = (double)(recurrence->parameter_bytes[last + 1] - recurrence->parameter_bytes[first]);

  return to_ns (MAX (time, 2 * ns_of_bytes (recurrence, (r - 1.0) * bytes)) / r);
}

static void
improve_cell (const Recurrence *recurrence, guint k, guint j, guint devices, Cell *cell)
{
  for (guint r = 1; r < devices; r++)
    {
      gint64 ns = cell_at (recurrence, k, devices - r)->bottleneck_ns;

      if (ns >= cell->bottleneck_ns)
        continue;
      ns = MAX (ns, stage_ns (recurrence, k + 1, j, r));
      ns = MAX (ns, link_round_trip_ns (&recurrence->link, recurrence->layers->layers[k].output_bytes));
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
        Cell cell = { stage_ns (recurrence, 0, j, devices), NO_SPLIT, devices };

        for (guint k = 0; k < j && devices > 1; k++)
          improve_cell (recurrence, k, j, devices, &cell);
        *cell_at (recurrence, j, devices) = cell;
      }
}

static PsPartition *
pipedream_trace_back (const Recurrence *recurrence)
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
check_size (const PsPartitionSetting *setting, GError **error)
{
  double n = setting->layers->n_layers, p = setting->n_devices, steps = n * n * p * p / 4;

  return steps <= MAX_STEPS
         || ps_refuse (error, PS_ERROR_USAGE,
                       "pipedream: %u layers on %u devices take %.2g steps of its recurrence, more than %.0g; "
                       "bottleneck takes them",
                       setting->layers->n_layers, setting->n_devices, steps, MAX_STEPS);
}

static PsPartition *
partition_pipedream (const PsPartitionSetting *setting, GError **error)
{
  g_autofree gint64 *time_ns = PS_LAYERS_SUMS (setting->layers, time_ns);
  g_autofree gint64 *parameter_bytes = PS_LAYERS_SUMS (setting->layers, parameter_bytes);
  Recurrence recurrence = { .layers = setting->layers,
                            .n_devices = setting->n_devices,
                            .time_ns = time_ns,
                            .parameter_bytes = parameter_bytes,
                            .link = slowest_link (setting) };

  if (!check_size (setting, error))
    return NULL;
  g_autofree Cell *cells = g_new0 (Cell, (gsize)setting->layers->n_layers * setting->n_devices);
  recurrence.cells = cells;
  fill_cells (&recurrence);
  return pipedream_trace_back (&recurrence);
}

/* A schedule's real time with a partition, and boundaries moved until it gets no better. */

/* Ops that one search may simulate: a second or two. Each op counts STEPS_TO_ORDER times where every partition needs a
 * new order or the period of a pattern. */
#define MAX_IMPROVEMENTS ((gint64)400 * 1000 * 1000)
#define STEPS_TO_ORDER 50

/* One family and one chain, for many partitions. */
typedef struct
{
  const PsPartitionSetting *setting;
  PsStageSums *sums;
  double *speeds;
  PsCosts *costs;     /* of the partition at hand */
  PsProgram *program; /* NULL: the family orders by costs */
  PsSimulation *simulation;
} Evaluator;

static void
evaluator_clear (Evaluator *evaluator)
{
  stage_sums_free (evaluator->sums);
  g_free (evaluator->speeds);
  ps_costs_free (evaluator->costs);
  ps_program_free (evaluator->program);
  ps_simulation_free (evaluator->simulation);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Evaluator, evaluator_clear)

static PsSchedule *
make_schedule (const PsPartitionSetting *setting, const PsCosts *costs, GError **error)
{
  PsFamilySetting size = { .n_devices = setting->n_devices,
                           .n_microbatches = setting->n_microbatches,
                           .n_chunks = setting->n_chunks,
                           .n_slices = setting->n_slices,
                           .group_size = setting->group_size,
                           .defer_head = setting->defer_head,
                           .costs = costs,
                           .memory_limit = costs != NULL ? setting->memory_limit : NULL,
                           .by_makespan = setting->sync == PS_SYNC_GLOBAL };

  return ps_family_generate (setting->family, &size, error);
}

PsPlacement *
ps_partition_placement (const PsPartitionSetting *setting, GError **error)
{
  g_autoptr (PsSchedule) schedule = make_schedule (setting, NULL, error);

  return schedule != NULL ? ps_placement_copy (schedule->placement) : NULL;
}

static gboolean
evaluator_init (Evaluator *evaluator, const PsPartitionSetting *setting, GError **error)
{
  g_autoptr (PsSchedule) schedule = make_schedule (setting, NULL, error);

  evaluator->setting = setting;
  if (schedule == NULL)
    return FALSE;
  evaluator->speeds = partition_stage_speeds (setting, error);
  if (evaluator->speeds == NULL)
    return FALSE;
  evaluator->sums = stage_sums_new (setting->layers);
  evaluator->costs = ps_costs_new (schedule->placement->n_stages);
  g_free (evaluator->costs->source);
  evaluator->costs->source = g_strdup (setting->layers->source);
  if (setting->family->uses_costs)
    return TRUE;
  evaluator->program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, error);
  if (evaluator->program == NULL)
    return FALSE;
  evaluator->simulation = ps_simulation_new (evaluator->program);
  return TRUE;
}

static PsPartitionRun
simulate (const PsPartitionSetting *setting, const PsProgram *program, const PsCosts *costs, PsSimulation *simulation)
{
  g_autoptr (PsCosts) slice = NULL;
  PsPartitionRun run = { 0 };

  if (program->schedule->n_slices > 1)
    {
      slice = ps_costs_slice (costs, program->schedule->n_slices);
      costs = slice;
    }
  simulation->times_only = setting->memory_limit == NULL;
  ps_simulate (program, costs, simulation);
  run.iteration_ns = ps_iteration (program, costs, simulation, setting->sync, PS_REDUCE_OVERLAPPED).period_ns;
  for (guint d = 0; setting->memory_limit != NULL && d < simulation->n_devices; d++)
    {
      gint64 excess = MAX (simulation->device[d].peak_bytes - setting->memory_limit[d], 0);

      run.excess_bytes += excess;
      run.most_excess_bytes = MAX (run.most_excess_bytes, excess);
    }
  return run;
}

static gboolean
evaluate_ordered (const Evaluator *evaluator, PsPartitionRun *run, GError **error)
{
  g_autoptr (PsSchedule) schedule = make_schedule (evaluator->setting, evaluator->costs, error);
  g_autoptr (PsProgram) program
      = schedule != NULL ? ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, error) : NULL;
  g_autoptr (PsSimulation) simulation = program != NULL ? ps_simulation_new (program) : NULL;

  if (program == NULL)
    return FALSE;
  *run = simulate (evaluator->setting, program, evaluator->costs, simulation);
  return TRUE;
}

static gboolean
evaluate (const Evaluator *evaluator, const PsPartitionStage *stages, PsPartitionRun *run, GError **error)
{
  const PsPartitionSetting *setting = evaluator->setting;

  stage_sums_fill (evaluator->sums, stages, evaluator->speeds, setting->links, evaluator->costs);
  if (!ps_costs_check (evaluator->costs, setting->n_microbatches, error))
    return FALSE;
  if (evaluator->program == NULL)
    return evaluate_ordered (evaluator, run, error);
  *run = simulate (setting, evaluator->program, evaluator->costs, evaluator->simulation);
  return TRUE;
}

static gboolean
check_setting (const PsPartitionSetting *setting, GError **error)
{
  if (setting->family != NULL && setting->n_microbatches)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "schedule: needs %s",
                    setting->family != NULL ? "-m microbatches" : "--schedule FAMILY, the family to partition for");
}

gboolean
ps_partition_simulate (const PsPartitionSetting *setting, const PsPartition *partition, PsPartitionRun *run,
                       GError **error)
{
  g_auto (Evaluator) evaluator = { 0 };

  return check_setting (setting, error) && evaluator_init (&evaluator, setting, error)
         && evaluate (&evaluator, partition->stages, run, error);
}

/* The search */

typedef struct
{
  const Evaluator *evaluator;
  guint n_stages;
  PsPartitionStage *stages; /* the best so far from this start */
  PsPartitionStage *trial;
  PsPartitionRun run; /* of stages */
  gint64 steps_left;
  gint64 steps_each;
} Search;

/* Within the limits first, then fast. */
static gboolean
is_better (const PsPartitionRun *a, const PsPartitionRun *b)
{
  if (a->excess_bytes != b->excess_bytes)
    return a->excess_bytes < b->excess_bytes;
  return a->iteration_ns < b->iteration_ns;
}

/* Moves the last n layers of stage `from` to `to` (the first n layers when `to` lies before it). The stages between
 * keep their sizes and move along. */
static void
move_layers (Search *search, guint from, guint to, guint n)
{
  guint low = MIN (from, to), high = MAX (from, to);

  memcpy (search->trial, search->stages, search->n_stages * sizeof *search->trial);
  for (guint s = low; s < high; s++)
    {
      guint last = search->stages[s].last;

      search->trial[s].last = from < to ? last - n : last + n;
      search->trial[s + 1].first = search->trial[s].last + 1;
    }
}

static gboolean
try_move (Search *search, guint from, guint to, guint n)
{
  PsPartitionRun run;

  search->steps_left -= search->steps_each;
  move_layers (search, from, to, n);
  if (!evaluate (search->evaluator, search->trial, &run, NULL) || !is_better (&run, &search->run))
    return FALSE;
  memcpy (search->stages, search->trial, search->n_stages * sizeof *search->trial);
  search->run = run;
  return TRUE;
}

/* 1, 2, 4, ... layers from one stage to another. */
static gboolean
try_moves (Search *search, guint from, guint to)
{
  gboolean improved = FALSE;

  for (guint n = 1; search->steps_left > 0; n *= 2)
    {
      guint size = search->stages[from].last - search->stages[from].first + 1;

      if (n >= size)
        break;
      improved |= try_move (search, from, to, n);
    }
  return improved;
}

/* Neighbours first; until no move helps. */
static void
descend (Search *search)
{
  gboolean improved = TRUE;

  while (improved && search->steps_left > 0)
    {
      improved = FALSE;
      for (guint distance = 1; distance < search->n_stages; distance++)
        for (guint s = 0; s + distance < search->n_stages; s++)
          {
            improved |= try_moves (search, s, s + distance);
            improved |= try_moves (search, s + distance, s);
          }
    }
}

/* The steps of one evaluation. */
static gint64
steps_each (const Evaluator *evaluator)
{
  const PsPartitionSetting *setting = evaluator->setting;
  gint64 n = (gint64)ps_partition_n_stages (setting) * setting->n_microbatches * 3;
  gboolean meets
      = evaluator->program != NULL && !evaluator->program->schedule->asynchronous && setting->sync == PS_SYNC_GLOBAL;

  return meets ? evaluator->program->n_steps : n * STEPS_TO_ORDER;
}

/* Improves a start and keeps it in *best if it is better. */
static void
search_from (const Evaluator *evaluator, PsPartition *start, gint64 steps, PsPartition **best, PsPartitionRun *best_run,
             GError **error)
{
  g_autofree PsPartitionStage *trial = g_memdup2 (start->stages, start->n_stages * sizeof *start->stages);
  Search search = { .evaluator = evaluator,
                    .n_stages = start->n_stages,
                    .stages = start->stages,
                    .trial = trial,
                    .steps_left = steps,
                    .steps_each = steps_each (evaluator) };
  g_autoptr (PsPartition) candidate = start;

  if (!evaluate (evaluator, start->stages, &search.run, error))
    return;
  descend (&search);
  if (*best != NULL && !is_better (&search.run, best_run))
    return;
  ps_partition_free (*best);
  *best = g_steal_pointer (&candidate);
  *best_run = search.run;
}

static PsPartition *
partition_schedule (const PsPartitionSetting *setting, GError **error)
{
  static PsPartition *(*const starts[]) (const PsPartitionSetting *, GError **)
      = { partition_bottleneck_cut, partition_memory_cut, partition_uniform };
  g_auto (Evaluator) evaluator = { 0 };
  g_autoptr (PsPartition) best = NULL;
  g_autoptr (GError) first = NULL;
  PsPartitionRun run = { 0 };

  if (!check_setting (setting, error) || !evaluator_init (&evaluator, setting, error))
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (starts); i++)
    {
      PsPartition *start = starts[i](setting, NULL);

      if (start != NULL)
        search_from (&evaluator, start, MAX_IMPROVEMENTS / G_N_ELEMENTS (starts), &best, &run,
                     first != NULL ? NULL : &first);
    }
  if (best == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&first));
      return NULL;
    }
  best->bottleneck_ns = ps_partition_bottleneck (setting, best);
  return g_steal_pointer (&best);
}

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
  return partition_from_ends (setting, end);
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
    .cut = partition_uniform },
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
    .cut = partition_bottleneck_cut },
  { .name = "memory-aware",
    .description = "like bottleneck, within --memory-limit under 1F1B",
    .source = "exact, by parametric search",
    .cut = partition_memory_cut },
  { .name = "pipedream",
    .description = "stages may be replicated; the recurrence of the paper",
    .source = "PipeDream, SOSP 2019 (arXiv 1806.03377), section 3.1",
    .replicates = TRUE,
    .cut = partition_pipedream },
  { .name = "schedule",
    .description = "the simulated iteration time of --schedule as short as local search gets it",
    .source = "local search over boundaries from the best of the above",
    .cut = partition_schedule },
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
