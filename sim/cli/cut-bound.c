/* cut-bound.c - a bound over all cuts of a model: stage after stage, the least of the greatest bounds of their devices.
 */
#include "joint-bound.h"

#include <pipesim/bound.h>
#include <pipesim/search.h>

/* Times of a microbatch at a stage, in its fastest way: from the start of its F to the result, from the start of its B
 * to the gradient, and the work of both. */
typedef enum
{
  FORWARD,
  BACKWARD,
  WORK,
  N_TIMES,
} Time;

typedef struct
{
  const SearchQuestion *question;
  const SearchCuts *cuts;
  guint n_stages;
  guint n_microbatches;    /* or slices */
  const SearchWays **ways; /* [(n_units + 1)^2] of a stage with units i to j - 1; NULL: none */
  gint64 *before[N_TIMES]; /* [(n_stages + 1) * (n_units + 1)] least time of the first s stages, which hold i units */
  gint64 *after[N_TIMES];  /* least time of stages s and up, which hold all units but the first i */
  PsCosts *costs;          /* scratch */
  gint64 least_pair;       /* of any stage; G_MAXINT64: none */
  gint64 most_backward;    /* of any stage */
  PsObjective objective;
} Cutting;

static void
cutting_clear (Cutting *cutting)
{
  g_free (cutting->ways);
  for (guint time = 0; time < N_TIMES; time++)
    {
      g_free (cutting->before[time]);
      g_free (cutting->after[time]);
    }
  ps_costs_free (cutting->costs);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Cutting, cutting_clear)

static guint
at (const Cutting *cutting, guint a, guint b)
{
  return a * (cutting->cuts->n_units + 1) + b;
}

#define NS(kind) ps_costs_op (costs, kind, stage)->duration_ns

static gint64
backward_work (const PsCosts *costs, guint stage)
{
  return MIN (NS (PS_OP_B) + NS (PS_OP_W), NS (PS_OP_BW));
}

/* A pair takes the work of its backward, the longest one at most, and the rest of it is work of its F. No backward has
 * more work than the shortest pair. */
static gint64
time_of (const Cutting *cutting, const PsCosts *costs, guint stage, Time time)
{
  gint64 pair_ns = costs->stage[stage].pair_ns, f = NS (PS_OP_F);

  if (time == FORWARD)
    return MIN (f, cutting->least_pair);
  if (time == BACKWARD)
    return MIN (MIN (NS (PS_OP_B), NS (PS_OP_BW)), cutting->least_pair);
  if (pair_ns >= 0)
    f = MIN (f, MAX (pair_ns - cutting->most_backward, 0));
  return f + MIN (backward_work (costs, stage), cutting->least_pair);
}

#undef NS

static gint64
least_time (const Cutting *cutting, guint stage, guint i, guint j, Time time)
{
  const SearchWays *ways = cutting->ways[at (cutting, i, j)];
  gint64 least = G_MAXINT64;

  for (guint way = 0; ways != NULL && way < ways->n; way++)
    least = MIN (least, time_of (cutting, ways->costs[way], stage, time));
  return least;
}

static gint64
sum (gint64 a, gint64 b)
{
  return a == G_MAXINT64 || b == G_MAXINT64 ? G_MAXINT64 : a + b;
}

/* Sets the least times of the first stages and of the last ones: each stage has one unit or more. */
static void
set_times (Cutting *cutting, Time time)
{
  guint n = cutting->n_stages, n_units = cutting->cuts->n_units, size = (n + 1) * (n_units + 1);
  gint64 *before = cutting->before[time] = g_new (gint64, size), *after = cutting->after[time] = g_new (gint64, size);

  for (guint i = 0; i < size; i++)
    before[i] = after[i] = G_MAXINT64;
  before[at (cutting, 0, 0)] = after[at (cutting, n, n_units)] = 0;
  for (guint s = 0; s < n; s++)
    for (guint i = 0; i < n_units; i++)
      for (guint j = i + 1; j <= n_units; j++)
        {
          guint last = n - 1 - s;
          gint64 *below = &before[at (cutting, s + 1, j)], *above = &after[at (cutting, last, i)];

          if (before[at (cutting, s, i)] != G_MAXINT64)
            *below = MIN (*below, sum (before[at (cutting, s, i)], least_time (cutting, s, i, j, time)));
          if (after[at (cutting, last + 1, j)] != G_MAXINT64)
            *above = MIN (*above, sum (after[at (cutting, last + 1, j)], least_time (cutting, last, i, j, time)));
        }
}

/* Gives a stage nothing but times. */
static void
set_stage (PsCosts *costs, guint stage, gint64 forward, gint64 backward)
{
  for (guint kind = 0; kind < PS_OP_O; kind++)
    {
      PsOpCost *op = ps_costs_op (costs, (PsOpKind)kind, stage);

      *op = (PsOpCost){ .duration_ns = kind == PS_OP_F ? forward : kind == PS_OP_W ? 0 : backward };
    }
  costs->stage[stage] = (PsStageCost){ .pair_ns = -1 };
}

/* No schedule is faster if this stage holds units i to j - 1: all other units take their least times. */
static gint64
stage_bound (const Cutting *cutting, guint stage, guint i, guint j, gint64 enough)
{
  const SearchQuestion *question = cutting->question;
  const SearchWays *ways = cutting->ways[at (cutting, i, j)];
  guint n = cutting->n_stages;
  PsCosts *costs = cutting->costs;
  gint64 least = enough;

  for (guint s = 0; s < n; s++)
    set_stage (costs, s, 0, 0);
  if (stage > 0)
    set_stage (costs, 0, cutting->before[FORWARD][at (cutting, stage, i)],
               cutting->before[BACKWARD][at (cutting, stage, i)]);
  if (stage + 1 < n)
    set_stage (costs, stage + 1, cutting->after[FORWARD][at (cutting, stage + 1, j)],
               cutting->after[BACKWARD][at (cutting, stage + 1, j)]);
  for (guint way = 0; ways != NULL && way < ways->n; way++)
    {
      ps_costs_copy_stage (costs, stage, ways->costs[way], stage);
      if (question->memory_limit != NULL
          && ps_search_least_memory (question->placement, costs, question->choice->n_slices, stage)
                 > question->memory_limit[stage])
        continue;
      least = MIN (least, ps_lower_bound_device (question->placement, cutting->n_microbatches, costs,
                                                 question->memory_limit, cutting->objective, stage));
    }
  return least;
}

/* The least over all cuts of the greatest bound of a stage, where each device has one. */
static gint64
bound_stages (const Cutting *cutting, gint64 enough)
{
  guint n = cutting->n_stages, n_units = cutting->cuts->n_units;
  g_autofree gint64 *bound = g_new (gint64, (n + 1) * (n_units + 1));

  for (guint i = 0; i < (n + 1) * (n_units + 1); i++)
    bound[i] = enough;
  bound[0] = 0;
  for (guint s = 0; s < n; s++)
    for (guint i = 0; i < n_units; i++)
      for (guint j = i + 1; j <= n_units; j++)
        {
          gint64 *least = &bound[at (cutting, s + 1, j)], below = bound[at (cutting, s, i)];

          if (below >= *least || cutting->ways[at (cutting, i, j)] == NULL
              || cutting->after[FORWARD][at (cutting, s + 1, j)] == G_MAXINT64
              || (gint64)cutting->n_microbatches * least_time (cutting, s, i, j, WORK) >= *least)
            continue;
          *least = MIN (*least, MAX (below, stage_bound (cutting, s, i, j, enough)));
        }
  return bound[at (cutting, n, n_units)];
}

/* Takes pairs and transfers over that are faster than others. */
static void
take_least (Cutting *cutting, const PsCosts *costs)
{
  gint64 *transfer_ns = cutting->costs->transfer_ns;

  for (guint s = 0; s < cutting->n_stages; s++)
    {
      if (costs->stage[s].pair_ns >= 0)
        cutting->least_pair = MIN (cutting->least_pair, costs->stage[s].pair_ns);
      cutting->most_backward = MAX (cutting->most_backward, backward_work (costs, s));
    }
  for (guint i = 1; i <= 2 * cutting->n_stages; i++)
    transfer_ns[i] = MIN (transfer_ns[i], costs->transfer_ns[i]);
}

/* Loads the ways of all stages that a cut may have. FALSE: there are no costs. */
static gboolean
load_ways (Cutting *cutting)
{
  const SearchCuts *cuts = cutting->cuts;
  guint most = cuts->n_units - cutting->n_stages + 1;

  for (guint i = 1; i <= 2 * cutting->n_stages; i++)
    cutting->costs->transfer_ns[i] = G_MAXINT64;
  cutting->ways = g_new0 (const SearchWays *, (cuts->n_units + 1) * (cuts->n_units + 1));
  for (guint i = 0; i < cuts->n_units; i++)
    for (guint j = i + 1; j <= MIN (i + most, cuts->n_units); j++)
      {
        const SearchWays *ways = cutting->ways[at (cutting, i, j)] = cuts->load (i, j, cuts->data);

        if (ways == NULL)
          return FALSE;
        for (guint way = 0; way < ways->n; way++)
          take_least (cutting, ways->costs[way]);
      }
  return TRUE;
}

/* The least time before the first F of stage i, of any cut. */
static gint64
head_of (const Cutting *cutting, guint i)
{
  gint64 least = G_MAXINT64;

  for (guint j = i; j <= cutting->cuts->n_units; j++)
    least = MIN (least, cutting->before[FORWARD][at (cutting, i, j)]);
  return least;
}

static int
compare_speeds (gconstpointer a, gconstpointer b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return (x < y) - (x > y);
}

/* No schedule is faster than all devices together: each works from its first F on. No two devices begin with the same
 * stage of a copy, so the first stage of the i-th device has i or more before it where there is one copy; at best the
 * fastest devices begin first. `work` is that of the fastest one: each op rounded, and with its host time, which no
 * speed changes. */
static gint64
share_work (const Cutting *cutting, gint64 work)
{
  const SearchQuestion *question = cutting->question;
  guint p = question->placement->n_devices, n_copies = question->any_device ? 1 : question->placement->n_copies;
  double sum = 0, time = (double)work, op_ns = (double)cutting->ways[at (cutting, 0, 1)]->costs[0]->op_ns;
  g_autofree double *speed = NULL;

  if (question->any_device && ps_setting_speeds (question->setting, p, &speed, NULL) && speed != NULL)
    {
      qsort (speed, p, sizeof *speed, compare_speeds);
      time -= (double)cutting->n_stages * cutting->n_microbatches * PS_OP_BW * (op_ns + 1);
    }
  for (guint i = 0; i < p; i++)
    {
      double part = speed != NULL ? speed[i] / speed[0] : 1;

      sum += part;
      if (cutting->objective == PS_OBJECTIVE_MAKESPAN)
        time += part * (double)head_of (cutting, i / n_copies);
    }
  return (gint64)(time / sum);
}

gint64
search_bound_cuts (const SearchQuestion *question, const SearchCuts *cuts, gint64 enough)
{
  const PsPlacement *placement = question->placement;
  guint n = placement->n_stages, last = (n + 1) * (cuts->n_units + 1) - 1;
  g_auto (Cutting) cutting = { .question = question,
                               .cuts = cuts,
                               .n_stages = n,
                               .n_microbatches = question->choice->n_microbatches * question->choice->n_slices,
                               .costs = ps_costs_new (n),
                               .least_pair = G_MAXINT64,
                               .objective = ps_sync_objective (question->setting->sync) };
  gint64 work, way;

  if (cuts->n_units < n || !load_ways (&cutting))
    return 0;
  for (Time time = 0; time < N_TIMES; time++)
    set_times (&cutting, time);
  work = share_work (&cutting, cutting.before[WORK][last] * cutting.n_microbatches);
  way = cutting.before[FORWARD][last] + cutting.before[BACKWARD][last];
  if (placement->n_copies == 1 && n == placement->n_devices && !question->any_device)
    work = MAX (work, bound_stages (&cutting, enough));
  return MIN (MAX (work, cutting.objective == PS_OBJECTIVE_MAKESPAN ? way : 0), enough);
}
