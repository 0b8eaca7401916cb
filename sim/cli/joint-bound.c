/* joint-bound.c - relaxed stages, and the ways of more and more of them. */
#include "joint-bound.h"

#include <pipesim/search.h>

/* Ops of all bounds together, at most: half of them for the mixes of ways of each device, which decide which devices
 * come first, and half for those of several devices. */
#define MAX_OPS 8000000

/* Steps of windows, at most. */
#define MAX_STEPS 200000000

typedef struct
{
  const SearchQuestion *question;
  const SearchWays *ways;
  PsCosts *relaxed; /* each stage is as fast as in the fastest way, and holds as little as in the leanest */
  guint n_stages;
  guint n_bounds; /* that half of MAX_OPS allow */
  gint64 enough;
  guint64 n_steps; /* left for windows */
} Bounding;

/* The ways of the first stages of an order; the others are relaxed. */
typedef struct
{
  gint64 bound;
  guint n;
  guint8 *of; /* [n] */
} Node;

void
search_take_stage (PsCosts *costs, const PsCosts *from, guint stage)
{
  ps_costs_copy_stage (costs, stage, from, stage);
  if (costs->shapes != NULL)
    costs->shapes[stage] = from->shapes[stage];
}

static void
set_bytes (PsCosts *costs, PsOpKind kind, guint stage, gint64 change)
{
  ps_costs_op (costs, kind, stage)->take_bytes = MAX (change, 0);
  ps_costs_op (costs, kind, stage)->give_bytes = MAX (-change, 0);
}

static gboolean
differ (const gint64 *limit, const double *speed, guint n)
{
  for (guint d = 1; d < n; d++)
    if ((limit != NULL && limit[d] != limit[0]) || (speed != NULL && speed[d] != speed[0]))
      return TRUE;
  return FALSE;
}

gboolean
search_open_placement (SearchQuestion *question, const PsCosts *costs)
{
  const PsSetting *setting = question->setting;
  guint p = setting->n_devices, n = costs->n_stages;
  g_autofree double *speed = NULL;
  g_autofree guint16 *device = g_new (guint16, (gsize)p * n);

  if (!ps_setting_speeds (setting, p, &speed, NULL))
    return FALSE;
  if (setting->has_placement || costs->loop_only || p == 1 || question->placement->n_copies > 1
      || (n == p && !differ (question->memory_limit, speed, p)))
    return TRUE;
  for (guint i = 0; i < p * n; i++)
    device[i] = (guint16)(i / n);
  ps_placement_free (question->placement);
  question->placement = ps_placement_new_custom (p, n, p, device);
  question->any_device = TRUE;
  return TRUE;
}

guint
search_find_way (const SearchWays *ways, PsRecompute recompute)
{
  guint way = 0;

  while (way < ways->n && (ways->recompute[way] != recompute || ways->offload[way] > 0))
    way++;
  return way;
}

/* No pair whose F is on the stage is shorter: where it has no time of its own, its backward may be on any stage. */
static gint64
least_pair_ns (const PsCosts *costs, guint stage)
{
  gint64 pair_ns = costs->stage[stage].pair_ns;

  return pair_ns >= 0 ? pair_ns : ps_costs_op (costs, PS_OP_F, stage)->duration_ns;
}

/* The R of a stage that is relaxed over its ways and those costs: a microbatch without one keeps that many bytes more
 * than `kept` in each of these. */
static PsOpCost
relax_again (const SearchWays *ways, const PsCosts *costs, guint stage, gint64 kept)
{
  PsOpCost again = { G_MAXINT64, G_MAXINT64, 0 };

  for (guint i = 0; i <= ways->n; i++)
    {
      const PsCosts *way = i < ways->n ? ways->costs[i] : costs;

      again.take_bytes = MIN (again.take_bytes,
                              ps_costs_act_bytes (way, stage) - kept + ps_costs_op (way, PS_OP_R, stage)->take_bytes);
    }
  for (guint i = 0; i <= ways->n; i++)
    {
      const PsCosts *way = i < ways->n ? ways->costs[i] : costs;

      if (ps_costs_act_bytes (way, stage) < kept + again.take_bytes)
        again.duration_ns = MIN (again.duration_ns, ps_costs_op (way, PS_OP_R, stage)->duration_ns);
    }
  return again.take_bytes > 0 ? again : (PsOpCost){ 0 };
}

void
search_relax_stage (const SearchWays *ways, PsCosts *costs, guint stage)
{
  PsStageCost *cost = &costs->stage[stage];
  gint64 least_kept = ps_costs_act_bytes (costs, stage), least_left = ps_costs_wact_bytes (costs, stage);
  gint64 least_pair = least_pair_ns (costs, stage);
  gboolean has_pair = cost->pair_ns >= 0;

  for (guint i = 0; i < ways->n; i++)
    {
      const PsCosts *way = ways->costs[i];

      for (guint kind = 0; kind < PS_OP_R; kind++)
        ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns
            = MIN (ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns,
                   ps_costs_op (way, (PsOpKind)kind, stage)->duration_ns);
      least_pair = MIN (least_pair, least_pair_ns (way, stage));
      has_pair |= way->stage[stage].pair_ns >= 0;
      cost->weight_bytes = MIN (cost->weight_bytes, way->stage[stage].weight_bytes);
      least_kept = MIN (least_kept, ps_costs_act_bytes (way, stage));
      least_left = MIN (least_left, ps_costs_wact_bytes (way, stage));
    }
  cost->pair_ns = has_pair ? least_pair : -1;
  *ps_costs_op (costs, PS_OP_R, stage) = relax_again (ways, costs, stage, least_kept);
  set_bytes (costs, PS_OP_F, stage, least_kept);
  set_bytes (costs, PS_OP_B, stage, least_left - least_kept);
  set_bytes (costs, PS_OP_W, stage, -least_left);
  set_bytes (costs, PS_OP_BW, stage, -least_kept);
}

void
search_mix_stage (PsCosts *costs, const PsCosts *full, guint stage, guint n_slices)
{
  const SearchWays way = { .n = 1, .costs = { (PsCosts *)full } };
  gint64 rounded = 2 * n_slices, longer_ns = G_MAXINT64, bytes = 0;
  PsOpCost *r = ps_costs_op (costs, PS_OP_R, stage);

  if (full != NULL)
    {
      for (PsOpKind kind = PS_OP_B; kind <= PS_OP_BW; kind++)
        if (kind != PS_OP_W)
          longer_ns = MIN (longer_ns, ps_costs_op (full, kind, stage)->duration_ns
                                          - ps_costs_op (costs, kind, stage)->duration_ns);
      bytes = ps_costs_act_bytes (costs, stage) - ps_costs_act_bytes (full, stage);
      search_relax_stage (&way, costs, stage);
    }
  costs->may_recompute = TRUE;
  *r = (PsOpCost){ 0 };
  if (full == NULL || costs->warm != NULL || full->warm != NULL) /* warm ops are not like those of its costs */
    return;
  if (longer_ns > rounded && bytes > rounded)
    *r = (PsOpCost){ longer_ns - rounded, bytes - rounded, 0 };
}

void
search_mix_ways (SearchWays *ways, guint n_slices)
{
  guint none = search_find_way (ways, PS_RECOMPUTE_NONE), full = search_find_way (ways, PS_RECOMPUTE_FULL);

  if (none == ways->n || full == ways->n)
    return;
  for (guint way = 0; way < ways->n; way++)
    for (guint stage = 0; stage < ways->costs[way]->n_stages && way != full; stage++)
      search_mix_stage (ways->costs[way], way == none ? ways->costs[full] : NULL, stage, n_slices);
  ps_costs_free (ways->costs[full]);
  ways->n--;
  ways->costs[full] = ways->costs[ways->n];
  ways->recompute[full] = ways->recompute[ways->n];
  ways->offload[full] = ways->offload[ways->n];
}

gint64
search_bound (const SearchQuestion *question, const PsCosts *costs, gint64 enough, guint64 *n_steps)
{
  const PsSetting *setting = question->setting;
  const SearchChoice *choice = question->choice;
  g_autoptr (PsCosts) fastest = ps_setting_fastest_costs (setting, question->placement, costs, choice->n_slices, NULL);
  const PsSearchSetting search = { .placement = question->placement,
                                   .n_microbatches = choice->n_microbatches,
                                   .n_slices = choice->n_slices,
                                   .costs = fastest,
                                   .memory_limit = question->memory_limit,
                                   .objective = ps_sync_objective (setting->sync) };

  return fastest != NULL ? ps_search_bound (&search, enough, n_steps) : 0;
}

/* The least of all mixes of ways that the stages of one device can run in; if they are too many, stages of a mix stay
 * relaxed. */
static gint64
bound_device (const Bounding *bounding, guint device)
{
  const SearchWays *ways = bounding->ways;
  g_autoptr (PsCosts) costs = ps_costs_copy (bounding->relaxed);
  gint64 least = G_MAXINT64;
  guint n_mixes = 1, most = bounding->n_bounds / bounding->question->placement->n_devices;

  for (guint mix = 0; mix < n_mixes; mix++)
    {
      n_mixes = 1;
      for (guint stage = 0; stage < bounding->n_stages && n_mixes * ways->n <= most; stage++)
        if (ps_placement_holds (bounding->question->placement, device, stage))
          {
            search_take_stage (costs, ways->costs[mix / n_mixes % ways->n], stage);
            n_mixes *= ways->n;
          }
      least = MIN (least, search_bound (bounding->question, costs, G_MAXINT64, NULL));
    }
  return least;
}

typedef struct
{
  guint device;
  gint64 bound;
} Ranked;

PS_DEFINE_FALLING_ORDER (compare_ranked, Ranked, bound)

/* Lists all stages, first those of the device with the highest bound; returns that bound. */
static gint64
rank_stages (const Bounding *bounding, guint *stages)
{
  const PsPlacement *placement = bounding->question->placement;
  g_autofree Ranked *ranked = g_new (Ranked, placement->n_devices);
  g_autofree gboolean *listed = g_new0 (gboolean, bounding->n_stages);
  guint n = 0;

  for (guint d = 0; d < placement->n_devices; d++)
    ranked[d] = (Ranked){ d, bound_device (bounding, d) };
  qsort (ranked, placement->n_devices, sizeof *ranked, compare_ranked);
  for (guint i = 0; i < placement->n_devices; i++)
    for (guint stage = 0; stage < bounding->n_stages; stage++)
      if (!listed[stage] && ps_placement_holds (placement, ranked[i].device, stage))
        {
          listed[stage] = TRUE;
          stages[n++] = stage;
        }
  return ranked[0].bound;
}

static void
node_free (gpointer data)
{
  g_free (((Node *)data)->of);
  g_free (data);
}

/* Adds a node with the way of one more stage. */
static void
add_child (Bounding *bounding, const guint *stages, const Node *node, guint8 way, GPtrArray *open)
{
  g_autoptr (PsCosts) costs = ps_costs_copy (bounding->relaxed);
  Node *child = g_new (Node, 1);

  *child = (Node){ .n = node->n + 1, .of = g_new (guint8, node->n + 1) };
  for (guint i = 0; i <= node->n; i++)
    {
      child->of[i] = i < node->n ? node->of[i] : way;
      search_take_stage (costs, bounding->ways->costs[child->of[i]], stages[i]);
    }
  child->bound = MAX (node->bound, search_bound (bounding->question, costs, bounding->enough, &bounding->n_steps));
  g_ptr_array_add (open, child);
}

/* Of equal nodes, the one with more stages. */
static guint
least_node (const GPtrArray *open)
{
  guint least = 0;

  for (guint i = 1; i < open->len; i++)
    {
      const Node *a = open->pdata[i], *b = open->pdata[least];

      if (a->bound < b->bound || (a->bound == b->bound && a->n > b->n))
        least = i;
    }
  return least;
}

/* The least bound of all mixes: the node with the least bound is replaced by its children, until no stage is relaxed
 * there. Before that, this least bound holds too. */
static gint64
bound_mixes (Bounding *bounding, const guint *stages, gint64 bound)
{
  g_autoptr (GPtrArray) open = g_ptr_array_new_with_free_func (node_free);
  Node *root = g_new0 (Node, 1);

  root->bound = bound;
  g_ptr_array_add (open, root);
  for (guint n_nodes = 0;; n_nodes += bounding->ways->n)
    {
      guint least = least_node (open);
      Node *node = open->pdata[least];

      if (node->n == bounding->n_stages || n_nodes >= bounding->n_bounds)
        return node->bound;
      g_ptr_array_steal_index_fast (open, least);
      for (guint8 way = 0; way < bounding->ways->n; way++)
        add_child (bounding, stages, node, way, open);
      node_free (node);
    }
}

gint64
search_bound_ways (const SearchQuestion *question, const SearchWays *ways, gint64 enough)
{
  g_autoptr (PsCosts) relaxed = ps_costs_copy (ways->costs[0]);
  guint n_ops = relaxed->n_stages * question->choice->n_microbatches * question->choice->n_slices * PS_OP_O;
  Bounding bounding = { question, ways, relaxed, relaxed->n_stages, MAX_OPS / 2 / n_ops, enough, MAX_STEPS };
  g_autofree guint *stages = g_new (guint, relaxed->n_stages);

  for (guint stage = 0; stage < relaxed->n_stages; stage++)
    search_relax_stage (ways, relaxed, stage);
  return MIN (bound_mixes (&bounding, stages, rank_stages (&bounding, stages)), enough);
}
