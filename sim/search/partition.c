/* partition.c - the table of algorithms that cut a chain of layers into stages, and the figures by which a partition is
 * judged. */
#include <pipesim/partition.h>

#include <math.h>
#include <string.h>

static guint n_stages_of (const PsPartitionSetting *setting)
{
  return setting->n_devices * setting->n_chunks;
}

void ps_partition_free (PsPartition *partition)
{
  if (partition == NULL)
    return;
  g_free (partition->stages);
  g_free (partition);
}

/* A time on a device of that speed, to the nearest nanosecond. */
static gint64 scale_time (gint64 ns, double speed)
{
  return speed == 1 ? ns : llrint ((double)ns / speed);
}

/* A message and one of the same size back. */
static gint64 link_round_trip_ns (const PsLink *link, gint64 bytes)
{
  return 2 * ps_link_transfer_ns (link, bytes);
}

/* Speed of the device of a stage, of its first weight copy. */
static double speed_of (const PsPartitionSetting *setting, guint stage)
{
  const PsPlacement *placement = setting->placement;
  guint device = placement != NULL ? ps_placement_device (placement, 0, stage) : stage % setting->n_devices;

  return setting->speeds != NULL ? setting->speeds[device] : 1;
}

/* Microbatches that a stage has under way at most under 1F1B: min (m, S - s). */
static guint in_flight (const PsPartitionSetting *setting, guint stage)
{
  guint left = n_stages_of (setting) - stage;

  return setting->n_microbatches ? MIN (setting->n_microbatches, left) : left;
}

/* Sums of layers */

#define FIGURE(member) G_STRUCT_OFFSET (PsLayer, member)

static const gsize figures[]
    = { FIGURE (time_ns),           FIGURE (forward_ns),      FIGURE (backward_ns), FIGURE (weight_ns),
        FIGURE (full_backward_ns),  FIGURE (optimizer_ns),    FIGURE (flops),       FIGURE (kept_bytes),
        FIGURE (weight_kept_bytes), FIGURE (parameter_bytes), FIGURE (state_bytes) };

/* Element i holds the sums of the figures of the first i layers. Free with g_free. */
static PsLayer *sum_layers (const PsLayers *layers)
{
  PsLayer *sums = g_new0 (PsLayer, layers->n_layers + 1);

  for (guint i = 0; i < layers->n_layers; i++)
    for (guint k = 0; k < G_N_ELEMENTS (figures); k++)
      G_STRUCT_MEMBER (gint64, &sums[i + 1], figures[k])
          = G_STRUCT_MEMBER (gint64, &sums[i], figures[k]) + G_STRUCT_MEMBER (gint64, &layers->layers[i], figures[k]);
  return sums;
}

static gint64 sum_between (const PsLayer *sums, gsize figure, guint begin, guint end)
{
  return G_STRUCT_MEMBER (gint64, &sums[end], figure) - G_STRUCT_MEMBER (gint64, &sums[begin], figure);
}

/* One figure of all layers of a stage. */
static gint64 sum_stage (const PsPartitionSetting *setting, const PsPartition *partition, guint stage, gsize figure)
{
  gint64 sum = 0;

  for (guint i = partition->stages[stage].first; i <= partition->stages[stage].last; i++)
    sum += G_STRUCT_MEMBER (gint64, &setting->layers->layers[i], figure);
  return sum;
}

gint64 ps_partition_stage_ns (const PsPartitionSetting *setting, const PsPartition *partition, guint stage)
{
  return scale_time (sum_stage (setting, partition, stage, FIGURE (time_ns)), speed_of (setting, stage));
}

gint64 ps_partition_link_ns (const PsPartitionSetting *setting, const PsPartition *partition, guint stage)
{
  const PsLayer *last = &setting->layers->layers[partition->stages[stage].last];

  return stage + 1 < partition->n_stages ? link_round_trip_ns (&setting->links[stage], last->output_bytes) : 0;
}

gint64 ps_partition_bottleneck (const PsPartitionSetting *setting, const PsPartition *partition)
{
  gint64 largest = 0;

  for (guint s = 0; s < partition->n_stages; s++) {
    largest = MAX (largest, ps_partition_stage_ns (setting, partition, s));
    largest = MAX (largest, ps_partition_link_ns (setting, partition, s));
  }
  return largest;
}

gint64 ps_partition_memory_bytes (const PsPartitionSetting *setting, const PsPartition *partition, guint stage)
{
  return sum_stage (setting, partition, stage, FIGURE (state_bytes))
         + sum_stage (setting, partition, stage, FIGURE (kept_bytes)) * in_flight (setting, stage);
}

/* A partition without replicas; end[s] is the first layer after stage s. */
static PsPartition *partition_from_ends (const PsPartitionSetting *setting, const guint *end)
{
  PsPartition *partition = g_new0 (PsPartition, 1);

  partition->n_stages = n_stages_of (setting);
  partition->stages = g_new0 (PsPartitionStage, partition->n_stages);
  for (guint s = 0; s < partition->n_stages; s++)
    partition->stages[s] = (PsPartitionStage){ .first = s ? end[s - 1] : 0, .last = end[s] - 1, .replicas = 1 };
  partition->bottleneck_ns = ps_partition_bottleneck (setting, partition);
  return partition;
}

/* The costs of a partition's stages, and their text for a command line. */

/* The speed of the device of every stage [n_stages]. NULL and PS_ERROR_USAGE where a stage lives on devices of
 * different speeds. Free with g_free. */
static double *stage_speeds (const PsPartitionSetting *setting, GError **error)
{
  const PsPlacement *placement = setting->placement;
  guint n_stages = n_stages_of (setting);
  g_autofree double *speeds = g_new0 (double, n_stages);

  for (guint s = 0; s < n_stages; s++) {
    guint first = placement != NULL ? ps_placement_device (placement, 0, s) : 0;
    guint other = placement != NULL && placement->n_copies > 1 ? ps_placement_device (placement, 1, s) : first;

    if (setting->speeds != NULL && setting->speeds[first] != setting->speeds[other])
      return ps_refuse_null (error, PS_ERROR_USAGE,
                             "--speed: stage %u lives on devices %u and %u, which would need the same speed", s, first,
                             other);
    speeds[s] = speed_of (setting, s);
  }
  return g_steal_pointer (&speeds);
}

/* Fills the costs of all stages. A transfer carries the activation to the next stage, another one the gradient back. A
 * recompute keeps the input of its stage. */
static void fill_costs (const PsPartitionSetting *setting, const PsLayer *sums, const double *speeds,
                        const PsPartitionStage *stages, PsCosts *costs)
{
  static const struct {
    PsOpKind kind;
    gsize figure;
  } times[] = { { PS_OP_F, FIGURE (forward_ns) },        { PS_OP_R, FIGURE (forward_ns) },
                { PS_OP_B, FIGURE (backward_ns) },       { PS_OP_W, FIGURE (weight_ns) },
                { PS_OP_BW, FIGURE (full_backward_ns) }, { PS_OP_O, FIGURE (optimizer_ns) } };

  for (guint s = 0; s < costs->n_stages; s++) {
    guint begin = stages[s].first, end = stages[s].last + 1;

    for (guint i = 0; i < G_N_ELEMENTS (times); i++)
      ps_costs_op (costs, times[i].kind, s)->duration_ns
          = scale_time (sum_between (sums, times[i].figure, begin, end), speeds[s]);
    ps_costs_set_memory (costs, s, sum_between (sums, FIGURE (kept_bytes), begin, end),
                         sum_between (sums, FIGURE (weight_kept_bytes), begin, end));
    costs->stage[s].weight_bytes = sum_between (sums, FIGURE (state_bytes), begin, end);
    costs->stage[s].version_bytes = sum_between (sums, FIGURE (parameter_bytes), begin, end);
  }
  for (guint s = 0; s + 1 < costs->n_stages; s++) {
    guint forward = ps_transfer_forward (costs, s), backward = ps_transfer_backward (costs, s + 1);
    gint64 bytes = setting->layers->layers[stages[s].last].output_bytes;
    PsOpCost *recompute = ps_costs_op (costs, PS_OP_R, s + 1);

    costs->transfer_ns[forward] = costs->transfer_ns[backward] = ps_link_transfer_ns (&setting->links[s], bytes);
    costs->message_bytes[forward] = costs->message_bytes[backward] = bytes;
    recompute->take_bytes -= MIN (bytes, recompute->take_bytes);
  }
}

PsCosts *ps_partition_costs (const PsPartitionSetting *setting, const PsPartition *partition, GError **error)
{
  const PsLayers *layers = setting->layers;
  g_autofree double *speeds = stage_speeds (setting, error);

  if (speeds == NULL)
    return NULL;
  g_autofree PsLayer *sums = sum_layers (layers);
  PsCosts *costs = ps_costs_new (partition->n_stages);
  fill_costs (setting, sums, speeds, partition->stages, costs);
  costs->time_origin = costs->transfer_origin = layers->time_origin;
  costs->memory_origin = layers->memory_origin;
  g_free (costs->source);
  costs->source = g_strdup_printf ("layers of %s", layers->source);
  return costs;
}

char *ps_partition_costs_to_text (const PsCosts *costs)
{
  GString *text = g_string_new (NULL);
  const PsStageCost *stage = costs->stage;
  const guint n = costs->n_stages, n_links = n - 1, link = ps_transfer_forward (costs, 0);
  const guint n_host = costs->op_ns + costs->post_ns > 0; /* host times go without saying where both are 0 */
  const gsize each_op = sizeof (PsOpCost), each_stage = sizeof (PsStageCost), each = sizeof (gint64);
  const struct {
    const char *key, *unit;
    const gint64 *first;
    gsize step; /* bytes from one value to the next */
    guint n;
  } lists[] = {
    { "f", "ns", &ps_costs_op (costs, PS_OP_F, 0)->duration_ns, each_op, n },
    { "b", "ns", &ps_costs_op (costs, PS_OP_B, 0)->duration_ns, each_op, n },
    { "w", "ns", &ps_costs_op (costs, PS_OP_W, 0)->duration_ns, each_op, n },
    { "bw", "ns", &ps_costs_op (costs, PS_OP_BW, 0)->duration_ns, each_op, n },
    { "c", "ns", &costs->transfer_ns[link], each, n_links },
    { "o", "ns", &ps_costs_op (costs, PS_OP_O, 0)->duration_ns, each_op, n },
    { "pair", "ns", &stage->pair_ns, each_stage, n },
    { "op", "ns", &costs->op_ns, each, n_host },
    { "post", "ns", &costs->post_ns, each, n_host },
    { "act", "B", &ps_costs_op (costs, PS_OP_F, 0)->take_bytes, each_op, n },
    { "wact", "B", &ps_costs_op (costs, PS_OP_W, 0)->give_bytes, each_op, n },
    { "weights", "B", &stage->weight_bytes, each_stage, n },
    { "version", "B", &stage->version_bytes, each_stage, n },
    { "msg", "B", &costs->message_bytes[link], each, n_links },
  };

  for (guint k = 0; k < G_N_ELEMENTS (lists); k++) {
    g_autoptr (GString) values = g_string_new (NULL);
    gboolean known = lists[k].n > 0;

    for (guint i = 0; i < lists[k].n; i++) {
      gint64 value = G_STRUCT_MEMBER (gint64, lists[k].first, i * lists[k].step);

      known = known && value >= 0;
      g_string_append_printf (values, "%c%" G_GINT64_FORMAT "%s", i ? ':' : '=', value, lists[k].unit);
    }
    if (known)
      g_string_append_printf (text, "%s%s%s", text->len ? "," : "", lists[k].key, values->str);
  }
  return g_string_free (text, FALSE);
}

static PsPartition *cut_uniform (const PsPartitionSetting *setting, G_GNUC_UNUSED GError **error)
{
  guint n = setting->layers->n_layers, n_stages = n_stages_of (setting);
  g_autofree guint *end = g_new (guint, n_stages);

  for (guint s = 0; s < n_stages; s++)
    end[s] = (s ? end[s - 1] : 0) + n / n_stages + (s < n % n_stages);
  return partition_from_ends (setting, end);
}

/* The smallest possible bottleneck, exactly: parametric search.
 *
 * A bound X is tested stage by stage. Time and memory of a stage only grow when it starts earlier. So a boundary is
 * reachable when the latest reachable boundary before it is near enough. That takes layers x stages steps. X is found
 * by bisection over integer nanoseconds. Each test also tells how far X may move without any comparison in it coming
 * out differently, and bisection skips those X. */

/* Makes the largest stage as small as possible. */
typedef struct {
  const PsPartitionSetting *setting;
  guint n_layers;
  guint n_stages;
  const PsLayer *sums;
  gsize load;       /* the figure that counts */
  gboolean plain;   /* devices are equally fast, and links do not count */
  gboolean limited; /* by the memory that 1F1B keeps */
} Cut;

/* Boundaries at which each stage can end: row 0 is the start of the chain, row s + 1 belongs to stage s. Stage s leaves
 * enough layers on both sides, so it ends after layer s + 1 + column. */
typedef struct {
  guint n_columns; /* n_layers - n_stages + 1 */
  guint8 *rows;    /* [(n_stages + 1) * n_columns] */
  gint64 least;    /* the smallest bound with the same rows */
  gint64 next;     /* no smaller bound than this adds to the rows; G_MAXINT64: none does */
} Reach;

static guint8 *reach_row (const Reach *reach, guint row)
{
  return &reach->rows[(gsize)row * reach->n_columns];
}

static double cut_speed (const Cut *cut, guint stage)
{
  return cut->plain ? 1 : speed_of (cut->setting, stage);
}

static gint64 load_between (const Cut *cut, guint begin, guint end)
{
  return sum_between (cut->sums, cut->load, begin, end);
}

/* The largest load that a stage can bear within bound; the estimate is inexact by the rounding of a product. */
static gint64 capacity (const Cut *cut, guint stage, gint64 bound)
{
  double speed = cut_speed (cut, stage);
  gint64 all = load_between (cut, 0, cut->n_layers);
  gint64 load = (gint64)MIN (((double)bound + 0.5) * speed, (double)all);

  if (speed == 1)
    return MIN (bound, all);
  while (load < all && scale_time (load + 1, speed) <= bound)
    load++;
  while (load > 0 && scale_time (load, speed) > bound)
    load--;
  return load;
}

static gboolean fits_memory (const Cut *cut, guint stage, guint begin, guint end, gint64 extra)
{
  const PsPartitionSetting *setting = cut->setting;

  return !cut->limited
         || sum_between (cut->sums, FIGURE (state_bytes), begin, end)
                    + sum_between (cut->sums, FIGURE (kept_bytes), begin, end) * in_flight (setting, stage) - extra
                <= setting->memory_limit[stage % setting->n_devices];
}

/* The time of the link after a stage that ends there. */
static gint64 link_after (const Cut *cut, guint stage, guint end)
{
  return cut->plain || stage + 1 == cut->n_stages
             ? 0
             : link_round_trip_ns (&cut->setting->links[stage], cut->setting->layers->layers[end - 1].output_bytes);
}

static void reach_stage (const Cut *cut, Reach *reach, guint stage, gint64 bound, gint64 extra)
{
  const guint8 *before = reach_row (reach, stage);
  guint8 *row = reach_row (reach, stage + 1);
  gint64 most = capacity (cut, stage, bound), longest = 0, longer = G_MAXINT64, begin = -1;

  for (guint column = 0; column < reach->n_columns; column++) {
    guint end = stage + 1 + column;

    if (before[column])
      begin = stage + column;
    row[column] = FALSE;
    if (begin < 0)
      continue;
    gint64 load = load_between (cut, (guint)begin, end);
    gint64 link = load <= most ? link_after (cut, stage, end) : 0;
    if (load > most)
      longer = MIN (longer, load);
    else if (link > bound)
      reach->next = MIN (reach->next, link);
    else if (fits_memory (cut, stage, (guint)begin, end, extra)) {
      row[column] = TRUE;
      longest = MAX (longest, load);
      reach->least = MAX (reach->least, link);
    }
  }
  reach->least = MAX (reach->least, scale_time (longest, cut_speed (cut, stage)));
  if (longer < G_MAXINT64)
    reach->next = MIN (reach->next, scale_time (longer, cut_speed (cut, stage)));
}

/* TRUE: every stage and link stays within bound, and every stage within its memory limit and extra bytes. */
static gboolean is_possible (const Cut *cut, Reach *reach, gint64 bound, gint64 extra)
{
  reach->least = 0;
  reach->next = G_MAXINT64;
  for (guint stage = 0; stage < cut->n_stages; stage++)
    reach_stage (cut, reach, stage, bound, extra);
  return reach_row (reach, cut->n_stages)[reach->n_columns - 1];
}

/* The smallest bound from 0 to `high` that is possible, which `high` must be. With a bound (not -1): the fewest extra
 * bytes that make it possible. */
static gint64 bisect (const Cut *cut, Reach *reach, gint64 high, gint64 bound)
{
  gint64 low = 0;

  while (low < high) {
    gint64 middle = low + (high - low) / 2;

    if (bound < 0 ? is_possible (cut, reach, middle, 0) : is_possible (cut, reach, bound, middle))
      high = bound < 0 ? reach->least : middle;
    else
      low = bound < 0 ? reach->next : middle + 1;
  }
  return low;
}

/* Any partition keeps this bound. */
static gint64 loosest_bound (const Cut *cut)
{
  gint64 bound = 0;

  for (guint s = 0; s < cut->n_stages; s++) {
    bound = MAX (bound, scale_time (load_between (cut, 0, cut->n_layers), cut_speed (cut, s)));
    for (guint i = 0; i < cut->n_layers; i++)
      bound = MAX (bound, link_after (cut, s, i + 1));
  }
  return bound;
}

/* Takes a partition within the bound whose stages are near their even share. It goes from the last stage back. The even
 * boundary before a stage makes all stages before it equally long; the stage begins at the reachable boundary nearest
 * to it. */
static void trace_back (const Cut *cut, const Reach *reach, gint64 bound, guint *end)
{
  double before = 0;

  for (guint s = 0; s < cut->n_stages; s++)
    before += cut_speed (cut, s);
  end[cut->n_stages - 1] = cut->n_layers;
  for (guint stage = cut->n_stages - 1; stage > 0; stage--) {
    double all = before, wanted, nearest = INFINITY;
    gint64 most = capacity (cut, stage, bound);

    before -= cut_speed (cut, stage);
    wanted = (double)load_between (cut, 0, end[stage]) * before / all;
    for (guint begin = end[stage] - 1; begin >= stage; begin--) {
      double distance = fabs ((double)load_between (cut, 0, begin) - wanted);

      if (load_between (cut, begin, end[stage]) > most || !fits_memory (cut, stage, begin, end[stage], 0))
        break;
      if (reach_row (reach, stage)[begin - stage] && distance < nearest) {
        nearest = distance;
        end[stage - 1] = begin;
      }
    }
  }
}

/* The cut by `load` alone, or else by the times of stages and links. */
static PsPartition *cut_chain (const PsPartitionSetting *setting, gsize load, gboolean plain, gboolean limited,
                               GError **error)
{
  g_autofree PsLayer *sums = sum_layers (setting->layers);
  const Cut cut = { setting, setting->layers->n_layers, n_stages_of (setting), sums, load, plain, limited };
  Reach reach = { .n_columns = cut.n_layers - cut.n_stages + 1 };
  g_autofree guint8 *rows = g_new0 (guint8, (gsize)(cut.n_stages + 1) * reach.n_columns);
  g_autofree guint *end = g_new (guint, cut.n_stages);
  gint64 bound = loosest_bound (&cut);

  reach.rows = rows;
  rows[0] = TRUE;
  if (!is_possible (&cut, &reach, bound, 0)) {
    gint64 bytes = bisect (&cut, &reach, G_MAXINT64 / 2, bound);
    g_autofree char *missing = ps_format_size (bytes);

    return ps_refuse_null (error, PS_ERROR_SCHEDULE,
                           "memory-aware: no partition of %s over %u stages keeps within --memory-limit; %s "
                           "(%" G_GINT64_FORMAT " bytes) more on every device would do",
                           setting->layers->source, cut.n_stages, missing, bytes);
  }
  bound = bisect (&cut, &reach, bound, -1);
  is_possible (&cut, &reach, bound, 0);
  trace_back (&cut, &reach, bound, end);
  return partition_from_ends (setting, end);
}

static PsPartition *cut_bottleneck (const PsPartitionSetting *setting, GError **error)
{
  return cut_chain (setting, FIGURE (time_ns), FALSE, FALSE, error);
}

static PsPartition *cut_memory (const PsPartitionSetting *setting, GError **error)
{
  if (setting->memory_limit != NULL && setting->n_chunks == 1)
    return cut_chain (setting, FIGURE (time_ns), FALSE, TRUE, error);
  return ps_refuse_null (
      error, PS_ERROR_USAGE, "memory-aware: %s",
      setting->memory_limit != NULL
          ? "counts what 1F1B keeps with one chunk on a device; algorithm schedule takes any placement"
          : "needs --memory-limit SIZE[:SIZE...]");
}

static PsPartition *cut_parameters (const PsPartitionSetting *setting, GError **error)
{
  return cut_chain (setting, FIGURE (parameter_bytes), TRUE, FALSE, error);
}

static PsPartition *cut_flops (const PsPartitionSetting *setting, GError **error)
{
  if (setting->layers->has_flops)
    return cut_chain (setting, FIGURE (flops), TRUE, FALSE, error);
  return ps_refuse_null (error, PS_ERROR_USAGE, "flops: %s has no FLOPs; give it a column flops",
                         setting->layers->source);
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

typedef struct {
  gint64 bottleneck_ns;
  guint split;    /* k, NO_SPLIT: one stage */
  guint replicas; /* of the last stage */
} Cell;

typedef struct {
  const PsLayers *layers;
  guint n_devices;
  const PsLayer *sums;
  PsLink link;
  Cell *cells; /* [layer * n_devices + devices - 1] */
} Recurrence;

static Cell *cell_at (const Recurrence *recurrence, guint layer, guint devices)
{
  return &recurrence->cells[(gsize)layer * recurrence->n_devices + devices - 1];
}

/* Layers first..last on r devices: max (sum of T, 2 (r - 1) |w| / B) / r. An all-reduce of the weights overlaps with
 * computation. Huge weights over a slow link last longer than a gint64 holds. */
static gint64 replicated_stage_ns (const Recurrence *recurrence, guint first, guint last, guint r)
{
  double time = (double)sum_between (recurrence->sums, FIGURE (time_ns), first, last + 1);
  double bytes = (double)sum_between (recurrence->sums, FIGURE (parameter_bytes), first, last + 1);
  double reduce = recurrence->link.bandwidth > 0 ? (r - 1.0) * bytes * 1e9 / recurrence->link.bandwidth : 0;
  double ns = MAX (time, 2 * reduce) / r;

  return ns < (double)LONGEST_NS ? llrint (ns) : LONGEST_NS;
}

static void improve_cell (const Recurrence *recurrence, guint k, guint j, guint devices, Cell *cell)
{
  for (guint r = 1; r < devices; r++) {
    gint64 ns = cell_at (recurrence, k, devices - r)->bottleneck_ns;

    if (ns >= cell->bottleneck_ns)
      continue;
    ns = MAX (ns, replicated_stage_ns (recurrence, k + 1, j, r));
    ns = MAX (ns, link_round_trip_ns (&recurrence->link, recurrence->layers->layers[k].output_bytes));
    if (ns < cell->bottleneck_ns)
      *cell = (Cell){ ns, k, r };
  }
}

static PsPartition *pipedream_trace_back (const Recurrence *recurrence)
{
  guint layer = recurrence->layers->n_layers - 1, devices = recurrence->n_devices;
  g_autoptr (GArray) stages = g_array_new (FALSE, FALSE, sizeof (PsPartitionStage));
  PsPartition *partition = g_new0 (PsPartition, 1);

  partition->bottleneck_ns = cell_at (recurrence, layer, devices)->bottleneck_ns;
  for (;;) {
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

/* The recurrence knows one link: the slowest, for a transfer of the largest output. */
static PsLink slowest_link (const PsPartitionSetting *setting)
{
  PsLink slowest = { 0 };
  gint64 bytes = 0, ns = -1;

  for (guint i = 0; i < setting->layers->n_layers; i++)
    bytes = MAX (bytes, setting->layers->layers[i].output_bytes);
  for (guint s = 0; s + 1 < setting->n_devices; s++)
    if (ps_link_transfer_ns (&setting->links[s], bytes) > ns) {
      slowest = setting->links[s];
      ns = ps_link_transfer_ns (&slowest, bytes);
    }
  return slowest;
}

static PsPartition *cut_pipedream (const PsPartitionSetting *setting, GError **error)
{
  const guint n = setting->layers->n_layers, p = setting->n_devices;
  const double steps = (double)n * n * p * p / 4;

  if (steps > MAX_STEPS)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "pipedream: %u layers on %u devices take %.2g steps of its recurrence, more than %.0g; "
                           "bottleneck takes them",
                           n, p, steps, MAX_STEPS);
  g_autofree PsLayer *sums = sum_layers (setting->layers);
  g_autofree Cell *cells = g_new0 (Cell, (gsize)n * p);
  const Recurrence recurrence = { setting->layers, p, sums, slowest_link (setting), cells };
  for (guint j = 0; j < n; j++)
    for (guint devices = 1; devices <= p; devices++) {
      Cell cell = { replicated_stage_ns (&recurrence, 0, j, devices), NO_SPLIT, devices };

      for (guint k = 0; k < j && devices > 1; k++)
        improve_cell (&recurrence, k, j, devices, &cell);
      *cell_at (&recurrence, j, devices) = cell;
    }
  return pipedream_trace_back (&recurrence);
}

/* A schedule's real time with a partition, and boundaries moved until it gets no better. */

/* Ops that one search may simulate: a second or two. Each op counts STEPS_TO_ORDER times where every partition needs a
 * new order or the period of a pattern. */
#define MAX_IMPROVEMENTS ((gint64)400 * 1000 * 1000)
#define STEPS_TO_ORDER 50

/* One family and one chain, for many partitions. */
typedef struct {
  const PsPartitionSetting *setting;
  PsLayer *sums;
  double *speeds;
  PsCosts *costs;     /* of the partition at hand */
  PsProgram *program; /* NULL: the family orders by costs */
  PsSimulation *simulation;
} Evaluator;

static void evaluator_clear (Evaluator *evaluator)
{
  g_free (evaluator->sums);
  g_free (evaluator->speeds);
  ps_costs_free (evaluator->costs);
  ps_program_free (evaluator->program);
  ps_simulation_free (evaluator->simulation);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Evaluator, evaluator_clear)

static PsSchedule *make_schedule (const PsPartitionSetting *setting, const PsCosts *costs, GError **error)
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

PsPlacement *ps_partition_placement (const PsPartitionSetting *setting, GError **error)
{
  g_autoptr (PsSchedule) schedule = make_schedule (setting, NULL, error);

  return schedule != NULL ? ps_placement_copy (schedule->placement) : NULL;
}

static gboolean evaluator_init (Evaluator *evaluator, const PsPartitionSetting *setting, GError **error)
{
  evaluator->setting = setting;
  if (setting->family == NULL || setting->n_microbatches == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "schedule: needs %s",
                      setting->family != NULL ? "-m microbatches" : "--schedule FAMILY, the family to partition for");
  g_autoptr (PsSchedule) schedule = make_schedule (setting, NULL, error);
  evaluator->speeds = schedule != NULL ? stage_speeds (setting, error) : NULL;
  if (evaluator->speeds == NULL)
    return FALSE;
  evaluator->sums = sum_layers (setting->layers);
  evaluator->costs = ps_costs_new (schedule->placement->n_stages);
  g_free (evaluator->costs->source);
  evaluator->costs->source = g_strdup (setting->layers->source);
  if (setting->family->uses_costs)
    return TRUE;
  evaluator->program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, error);
  evaluator->simulation = evaluator->program != NULL ? ps_simulation_new (evaluator->program) : NULL;
  return evaluator->program != NULL;
}

static PsPartitionRun simulate (const PsPartitionSetting *setting, const PsProgram *program, const PsCosts *costs,
                                PsSimulation *simulation)
{
  guint n_slices = program->schedule->n_slices;
  g_autoptr (PsCosts) slice = n_slices > 1 ? ps_costs_slice (costs, n_slices) : NULL;
  PsPartitionRun run = { 0 };

  costs = slice != NULL ? slice : costs;
  simulation->times_only = setting->memory_limit == NULL;
  ps_simulate (program, costs, simulation);
  run.iteration_ns = ps_iteration (program, costs, simulation, setting->sync, PS_REDUCE_OVERLAPPED).period_ns;
  run.excess_bytes = ps_simulation_excess (simulation, setting->memory_limit, &run.most_excess_bytes);
  return run;
}

static gboolean evaluate (const Evaluator *evaluator, const PsPartitionStage *stages, PsPartitionRun *run,
                          GError **error)
{
  const PsPartitionSetting *setting = evaluator->setting;

  fill_costs (setting, evaluator->sums, evaluator->speeds, stages, evaluator->costs);
  if (!ps_costs_check (evaluator->costs, setting->n_microbatches, error))
    return FALSE;
  if (evaluator->program != NULL) {
    *run = simulate (setting, evaluator->program, evaluator->costs, evaluator->simulation);
    return TRUE;
  }
  PsSchedule *schedule = make_schedule (setting, evaluator->costs, error);
  g_autoptr (PsProgram) program = schedule != NULL ? ps_program_lower (schedule, PS_COMM_ASAP, error) : NULL;
  g_autoptr (PsSimulation) simulation = program != NULL ? ps_simulation_new (program) : NULL;
  if (program != NULL)
    *run = simulate (setting, program, evaluator->costs, simulation);
  return program != NULL;
}

gboolean ps_partition_simulate (const PsPartitionSetting *setting, const PsPartition *partition, PsPartitionRun *run,
                                GError **error)
{
  g_auto (Evaluator) evaluator = { 0 };

  return evaluator_init (&evaluator, setting, error) && evaluate (&evaluator, partition->stages, run, error);
}

typedef struct {
  const Evaluator *evaluator;
  guint n_stages;
  PsPartitionStage *stages; /* the best so far from this start */
  PsPartitionStage *trial;
  PsPartitionRun run; /* of stages */
  gint64 steps_left;
  gint64 steps_each;
} Search;

/* Within the limits first, then fast. */
static gboolean is_better (const PsPartitionRun *a, const PsPartitionRun *b)
{
  return a->excess_bytes != b->excess_bytes ? a->excess_bytes < b->excess_bytes : a->iteration_ns < b->iteration_ns;
}

/* Moves the last n layers of stage `from` to `to` (the first n layers when `to` lies before it). The stages between
 * keep their sizes and move along. */
static gboolean try_move (Search *search, guint from, guint to, guint n)
{
  PsPartitionRun run;

  search->steps_left -= search->steps_each;
  memcpy (search->trial, search->stages, search->n_stages * sizeof *search->trial);
  for (guint s = MIN (from, to); s < MAX (from, to); s++) {
    search->trial[s].last = search->stages[s].last + (from < to ? -n : n);
    search->trial[s + 1].first = search->trial[s].last + 1;
  }
  if (!evaluate (search->evaluator, search->trial, &run, NULL) || !is_better (&run, &search->run))
    return FALSE;
  memcpy (search->stages, search->trial, search->n_stages * sizeof *search->trial);
  search->run = run;
  return TRUE;
}

/* 1, 2, 4, ... layers from one stage to another. */
static gboolean try_moves (Search *search, guint from, guint to)
{
  const PsPartitionStage *stage = &search->stages[from];
  gboolean improved = FALSE;

  for (guint n = 1; search->steps_left > 0 && n <= stage->last - stage->first; n *= 2)
    improved |= try_move (search, from, to, n);
  return improved;
}

/* Neighbours first; until no move helps. */
static void descend (Search *search)
{
  gboolean improved = TRUE;

  while (improved && search->steps_left > 0) {
    improved = FALSE;
    for (guint distance = 1; distance < search->n_stages; distance++)
      for (guint s = 0; s + distance < search->n_stages; s++) {
        improved |= try_moves (search, s, s + distance);
        improved |= try_moves (search, s + distance, s);
      }
  }
}

/* The steps of one evaluation. */
static gint64 steps_each (const Evaluator *evaluator)
{
  const PsPartitionSetting *setting = evaluator->setting;
  gint64 n = (gint64)n_stages_of (setting) * setting->n_microbatches * 3;
  gboolean meets
      = evaluator->program != NULL && !evaluator->program->schedule->asynchronous && setting->sync == PS_SYNC_GLOBAL;

  return meets ? evaluator->program->n_steps : n * STEPS_TO_ORDER;
}

/* Improves a start and keeps it in *best if it is better. */
static void search_from (const Evaluator *evaluator, PsPartition *start, gint64 steps, PsPartition **best,
                         PsPartitionRun *best_run, GError **error)
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

static PsPartition *cut_schedule (const PsPartitionSetting *setting, GError **error)
{
  static PsPartition *(*const starts[]) (const PsPartitionSetting *, GError **)
      = { cut_bottleneck, cut_memory, cut_uniform };
  g_auto (Evaluator) evaluator = { 0 };
  g_autoptr (PsPartition) best = NULL;
  g_autoptr (GError) first = NULL;
  PsPartitionRun run = { 0 };

  if (!evaluator_init (&evaluator, setting, error))
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (starts); i++) {
    PsPartition *start = starts[i](setting, NULL);

    if (start != NULL)
      search_from (&evaluator, start, MAX_IMPROVEMENTS / G_N_ELEMENTS (starts), &best, &run,
                   first != NULL ? NULL : &first);
  }
  if (best == NULL)
    g_propagate_error (error, g_steal_pointer (&first));
  else
    best->bottleneck_ns = ps_partition_bottleneck (setting, best);
  return g_steal_pointer (&best);
}

static const PsPartitioner table[] = {
  { "uniform", "as many layers for every stage", "common practice", FALSE, cut_uniform },
  { "parameters", "the largest stage by parameter bytes as small as possible", "exact, by parametric search", FALSE,
    cut_parameters },
  { "flops", "the largest stage by FLOPs as small as possible", "exact, by parametric search", FALSE, cut_flops },
  { "bottleneck", "the slowest stage or link as fast as possible; devices may have speeds",
    "exact, by parametric search", FALSE, cut_bottleneck },
  { "memory-aware", "like bottleneck, within --memory-limit under 1F1B", "exact, by parametric search", FALSE,
    cut_memory },
  { "pipedream", "stages may be replicated; the recurrence of the paper",
    "PipeDream, SOSP 2019 (arXiv 1806.03377), section 3.1", TRUE, cut_pipedream },
  { "schedule", "the simulated iteration time of --schedule as short as local search gets it",
    "local search over boundaries from the best of the above", FALSE, cut_schedule },
};

const PsPartitioner *ps_partitioner_table (guint *n)
{
  *n = G_N_ELEMENTS (table);
  return table;
}

const PsPartitioner *ps_partitioner_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (g_str_equal (table[i].name, name))
      return &table[i];
  return NULL;
}

/* The bytes kept by all layers, for each of at most S microbatches, must stay an exact sum. */
static gboolean check_sums (const PsPartitionSetting *setting, GError **error)
{
  gint64 kept = 0, limit = G_MAXINT64 / 4 / n_stages_of (setting);

  for (guint i = 0; i < setting->layers->n_layers; i++)
    kept += setting->layers->layers[i].kept_bytes;
  return kept <= limit
         || ps_refuse (error, PS_ERROR_USAGE,
                       "%s: the layers keep %" G_GINT64_FORMAT
                       " bytes of a microbatch, too many for exact sums over %u stages",
                       setting->layers->source, kept, n_stages_of (setting));
}

PsPartition *ps_partition (const PsPartitioner *partitioner, const PsPartitionSetting *setting, GError **error)
{
  guint64 n_stages = (guint64)setting->n_devices * setting->n_chunks;
  const char *name = partitioner->name;

  if (n_stages > PS_MAX_STAGES)
    return ps_refuse_null (error, PS_ERROR_USAGE, "%s: %u chunks on %u devices; give 1 to %u stages in all", name,
                           setting->n_chunks, setting->n_devices, PS_MAX_STAGES);
  if (!partitioner->replicates && n_stages > setting->layers->n_layers)
    return ps_refuse_null (error, PS_ERROR_USAGE, "%s: the %u layers of %s cannot be cut into %u stages", name,
                           setting->layers->n_layers, setting->layers->source, (guint)n_stages);
  if (partitioner->replicates && setting->n_chunks != 1)
    return ps_refuse_null (error, PS_ERROR_USAGE, "%s: %u chunks on a device; its stages take whole devices, give 1",
                           name, setting->n_chunks);
  if (partitioner->replicates && setting->speeds != NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "%s: takes all devices as equally fast; --speed is for bottleneck, memory-aware and "
                           "schedule",
                           name);
  return check_sums (setting, error) ? partitioner->cut (setting, error) : NULL;
}
