/* cut-bound.c - a bound over all cuts of a model: stage after stage, the least of the greatest bounds of their devices.
 */
#include "joint-bound.h"

#include <pipesim/bound.h>
#include <pipesim/search.h>

/* Stages that bound_maps puts on a device, at most. */
#define MAX_MAPPED 2000000

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

  cutting->costs->may_recompute |= costs->may_recompute;
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

/* The maps of given stages to devices, one stage after the other. */
typedef struct
{
  const Cutting *cutting;
  gint64 *head;    /* [n_stages] least time before the first F of each stage */
  gint64 *tail;    /* after its last B */
  double *speed;   /* [n_devices]; NULL: all alike */
  double fastest;  /* speed */
  gint64 *work;    /* [n_devices] of the stages there */
  gint64 *through; /* the part of it before the last B */
  guint *lowest;   /* stage there; n_stages: none yet */
  gint64 best;     /* time of the best map so far */
  guint n_left;    /* stages to put on a device, until the search gives up */
} Mapping;

static void
mapping_clear (Mapping *mapping)
{
  g_free (mapping->head);
  g_free (mapping->tail);
  g_free (mapping->speed);
  g_free (mapping->work);
  g_free (mapping->through);
  g_free (mapping->lowest);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Mapping, mapping_clear)

/* All microbatches of a stage take so long on a device, as each op there is so much slower, but for its host time and
 * rounding. */
static gint64
slow_down (const Mapping *mapping, guint device, gint64 ns)
{
  const Cutting *cutting = mapping->cutting;
  double fixed_ns = (double)cutting->ways[at (cutting, 0, 1)]->costs[0]->op_ns + 1;

  ns *= cutting->n_microbatches;
  if (mapping->speed == NULL)
    return ns;
  fixed_ns *= (double)cutting->n_microbatches * PS_OP_BW;
  return MAX (ns, (gint64)(((double)ns - fixed_ns) * mapping->fastest / mapping->speed[device]));
}

/* A device starts with the first F of its lowest stage. After its last B, those of the stages below follow. */
static gint64
device_time (const Mapping *mapping, guint device)
{
  guint lowest = mapping->lowest[device];

  if (lowest == mapping->cutting->n_stages)
    return 0;
  return mapping->head[lowest] + MAX (mapping->work[device], mapping->through[device] + mapping->tail[lowest]);
}

/* Whether the stages from `first` on have more work than the devices have time for in a better map. */
static gboolean
is_full (const Mapping *mapping, guint first)
{
  const Cutting *cutting = mapping->cutting;
  gint64 work = 0, room = 0;

  for (guint stage = first; stage < cutting->n_stages; stage++)
    work += cutting->n_microbatches * least_time (cutting, stage, stage, stage + 1, WORK);
  for (guint d = 0; d < cutting->question->placement->n_devices; d++)
    {
      guint lowest = MIN (mapping->lowest[d], first);

      room += MAX (mapping->best - 1 - mapping->head[lowest] - mapping->work[d], 0);
    }
  return work > room;
}

/* Devices without stages are alike if they are as fast. */
static gboolean
is_like_one_before (const Mapping *mapping, guint device)
{
  guint none = mapping->cutting->n_stages;

  for (guint d = 0; d < device && mapping->lowest[device] == none; d++)
    if (mapping->lowest[d] == none && (mapping->speed == NULL || mapping->speed[d] == mapping->speed[device]))
      return TRUE;
  return FALSE;
}

/* F and B of a microbatch; 0 where they may be a pair. */
static gint64
through_ns (const Cutting *cutting, guint stage)
{
  return cutting->least_pair < G_MAXINT64 ? 0
                                          : least_time (cutting, stage, stage, stage + 1, FORWARD)
                                                + least_time (cutting, stage, stage, stage + 1, BACKWARD);
}

static void
map_stages (Mapping *mapping, guint stage)
{
  const Cutting *cutting = mapping->cutting;
  guint p = cutting->question->placement->n_devices;
  gint64 time = 0;

  for (guint d = 0; d < p; d++)
    time = MAX (time, device_time (mapping, d));
  if (time >= mapping->best || mapping->n_left == 0)
    return;
  if (stage == cutting->n_stages)
    {
      mapping->best = time;
      return;
    }
  if (is_full (mapping, stage))
    return;
  for (guint d = 0; d < p && mapping->n_left > 0; d++)
    {
      guint lowest = mapping->lowest[d];
      gint64 work = mapping->work[d], through = mapping->through[d];

      if (is_like_one_before (mapping, d))
        continue;
      mapping->n_left--;
      mapping->lowest[d] = MIN (lowest, stage);
      mapping->work[d] += slow_down (mapping, d, least_time (cutting, stage, stage, stage + 1, WORK));
      mapping->through[d] += slow_down (mapping, d, through_ns (cutting, stage));
      map_stages (mapping, stage + 1);
      mapping->lowest[d] = lowest;
      mapping->work[d] = work;
      mapping->through[d] = through;
    }
}

/* The least over all maps of given stages to devices of the longest device's time; 0: there are too many. */
static gint64
bound_maps (const Cutting *cutting, gint64 enough)
{
  guint n = cutting->n_stages, p = cutting->question->placement->n_devices;
  g_auto (Mapping) mapping = { .cutting = cutting,
                               .head = g_new0 (gint64, n),
                               .tail = g_new0 (gint64, n),
                               .work = g_new0 (gint64, p),
                               .through = g_new0 (gint64, p),
                               .lowest = g_new (guint, p),
                               .best = enough,
                               .n_left = MAX_MAPPED };

  if (!ps_setting_speeds (cutting->question->setting, p, &mapping.speed, NULL))
    return 0;
  for (guint d = 0; d < p; d++)
    {
      mapping.lowest[d] = n;
      mapping.fastest = MAX (mapping.fastest, mapping.speed != NULL ? mapping.speed[d] : 1);
    }
  for (guint s = 0; s < n && cutting->objective == PS_OBJECTIVE_MAKESPAN; s++)
    {
      mapping.head[s] = cutting->before[FORWARD][at (cutting, s, s)];
      mapping.tail[s] = cutting->before[BACKWARD][at (cutting, s, s)];
    }
  map_stages (&mapping, 0);
  return mapping.n_left > 0 ? mapping.best : 0;
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
  if (question->any_device && cuts->n_units == n)
    work = MAX (work, bound_maps (&cutting, enough));
  return MIN (MAX (work, cutting.objective == PS_OBJECTIVE_MAKESPAN ? way : 0), enough);
}
