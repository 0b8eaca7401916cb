/* partition-bottleneck.c - the smallest possible bottleneck, exactly: parametric search.
 *
 * A bound X is tested stage by stage. Time and memory of a stage only grow when it starts earlier. So a boundary is
 * reachable when the latest reachable boundary before it is near enough. That takes layers x stages steps. X is found
 * by bisection over integer nanoseconds. Each test also tells how far X may move without any comparison in it coming
 * out differently, and bisection skips those X.
 */
#include "partition-private.h"

#include <math.h>

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
    table[i] = ps_link_round_trip_ns (link, setting->layers->layers[i].output_bytes);
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
      problem->speed[s] = ps_partition_speed (setting, s);
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
      problem->in_flight[s] = ps_partition_in_flight (setting, s);
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
    return ps_partition_from_ends (setting, end);
  g_autofree char *missing = ps_format_size (bottleneck);
  return ps_refuse_null (
      error, PS_ERROR_SCHEDULE,
      "memory-aware: no partition of %s over %u stages keeps within --memory-limit; %s (%" G_GINT64_FORMAT
      " bytes) more on every device would do",
      setting->layers->source, problem->cut.n_stages, missing, bottleneck);
}

PsPartition *
ps_partition_bottleneck_cut (const PsPartitionSetting *setting, GError **error)
{
  g_auto (Problem) problem = { 0 };

  problem_init (&problem, setting);
  return solve (&problem, setting, error);
}

PsPartition *
ps_partition_memory_cut (const PsPartitionSetting *setting, GError **error)
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
