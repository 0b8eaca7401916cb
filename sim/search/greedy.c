/* greedy.c - list scheduling under a policy. */
#include "greedy.h"

#include <math.h>

/* What waits on a device. */
typedef struct
{
  gint64 free_ns; /* end of its last op */
  gint64 level;   /* memory */
  guint oldest;   /* first microbatch that has not been forwarded through all its stages here */
  guint alive;    /* microbatches let into its first stage and not yet done with it */
  guint allowed;  /* most of them */
  gint64 burst;   /* most that a B or W takes while it runs */
  guint32 choice; /* op with the lowest score; NO_OP: none */
  gint64 start;   /* its start */
  guint fill;     /* next position in the sequence */
} Station;

typedef struct
{
  Order *order;
  const Problem *problem;
  Station *station; /* [n_devices] */
  guint *next;      /* [chains] next microbatch of the chain */
  gint64 *penalty;  /* [chains] bias in ns */
  const gint64 *nudge;
  guint group;
  gint64 *end; /* [n_ops] -1: not placed */
} Greedy;

static double
rule_value (const Rule *rule, double x, double y)
{
  return rule->base + rule->by_device * x + rule->by_chunk * y;
}

static void
greedy_clear (Greedy *greedy)
{
  g_free (greedy->station);
  g_free (greedy->next);
  g_free (greedy->penalty);
  g_free (greedy->end);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Greedy, greedy_clear)

static void
greedy_init (Greedy *greedy, Order *order, const Policy *policy)
{
  const Problem *problem = order->problem;
  guint p = problem->n_devices;

  greedy->order = order;
  greedy->problem = problem;
  greedy->station = g_new0 (Station, p);
  greedy->next = g_new0 (guint, (gsize)problem->n_stages * N_KINDS);
  greedy->penalty = g_new0 (gint64, (gsize)problem->n_stages * N_KINDS);
  greedy->end = g_new (gint64, problem->n_ops);
  for (guint i = 0; i < problem->n_ops; i++)
    greedy->end[i] = -1;
  for (guint d = 0; d < p; d++)
    {
      double x = p > 1 ? (double)d / (p - 1) : 0, ahead = rule_value (&policy->ahead, x, 0);
      guint n = problem->first_stage[d + 1] - problem->first_stage[d];

      greedy->station[d] = (Station){ .level = problem->held[d],
                                      .choice = NO_OP,
                                      .fill = problem->first[d],
                                      .allowed = (guint)CLAMP (ahead * p + 1.5, 1, problem->m) };
      for (guint k = 0; k < n; k++)
        for (guint kind = 0; kind < N_KINDS; kind++)
          {
            guint chain = problem->stages[problem->first_stage[d] + k] * N_KINDS + kind;
            double bias = rule_value (&policy->bias[kind], x, n > 1 ? (double)k / (n - 1) : 0);

            greedy->penalty[chain] = (gint64)lrint (bias * (double)problem->duration[chain]);
            if (kind != PS_OP_F)
              greedy->station[d].burst = MAX (greedy->station[d].burst, problem->take[chain]);
          }
    }
}

/* Room that the oldest microbatch of the device still needs for its forwards. */
static gint64
reserve (const Greedy *greedy, guint device)
{
  const Problem *problem = greedy->problem;
  gint64 bytes = 0;

  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    {
      guint chain = problem->stages[i] * N_KINDS + PS_OP_F;

      if (greedy->next[chain] == greedy->station[device].oldest)
        bytes += problem->take[chain];
    }
  return bytes;
}

/* Whether the device has begun other microbatches and not done with them. */
static gboolean
has_others (const Greedy *greedy, guint device, guint microbatch)
{
  const Problem *problem = greedy->problem;

  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    {
      guint base = problem->stages[i] * N_KINDS;

      if (greedy->next[base + PS_OP_W] < microbatch || greedy->next[base + PS_OP_F] > microbatch + 1)
        return TRUE;
    }
  return FALSE;
}

/* Alone, a microbatch finds the room that it needs; beside others it must leave some for what their backwards take. */
static gint64
room_to_leave (const Greedy *greedy, guint device, guint microbatch)
{
  const Station *station = &greedy->station[device];
  gint64 bytes = microbatch > station->oldest ? reserve (greedy, device) : 0;

  return bytes + (has_others (greedy, device, microbatch) ? station->burst : 0);
}

static gboolean
may_start (const Greedy *greedy, guint device, guint chain)
{
  const Problem *problem = greedy->problem;
  const Station *station = &greedy->station[device];
  guint microbatch = greedy->next[chain];
  gint64 level = station->level + problem->take[chain];

  if (chain % N_KINDS != PS_OP_F)
    return level <= problem->limit[device];
  if (chain / N_KINDS == problem->stages[problem->first_stage[device]] && microbatch > station->oldest
      && station->alive >= station->allowed)
    return FALSE;
  if (problem->limit[device] == G_MAXINT64)
    return TRUE;
  return level + room_to_leave (greedy, device, microbatch) <= problem->limit[device];
}

/* Place of a chain's next op in the order of groups: forwards from the first chunk on, backwards from the last. */
static guint64
group_place (const Greedy *greedy, guint device, guint index, guint kind)
{
  const Problem *problem = greedy->problem;
  guint n = problem->first_stage[device + 1] - problem->first_stage[device];
  guint64 microbatch = greedy->next[problem->stages[problem->first_stage[device] + index] * N_KINDS + kind];
  guint chunk = kind == PS_OP_F ? index : n - 1 - index;

  return (microbatch / greedy->group * n + chunk) * greedy->group + microbatch % greedy->group;
}

/* Whether groups want another chunk of the device first. */
static gboolean
has_turn (const Greedy *greedy, guint device, guint index, guint kind)
{
  const Problem *problem = greedy->problem;
  guint begin = problem->first_stage[device], n = problem->first_stage[device + 1] - begin;

  if (greedy->group == 0 || kind == PS_OP_W)
    return TRUE;
  for (guint i = 0; i < n; i++)
    if (greedy->next[problem->stages[begin + i] * N_KINDS + kind] < problem->m
        && group_place (greedy, device, i, kind) < group_place (greedy, device, index, kind))
      return FALSE;
  return TRUE;
}

/* The op with the lowest score among those whose start is known. */
static void
choose (Greedy *greedy, guint device)
{
  const Problem *problem = greedy->problem;
  Station *station = &greedy->station[device];
  gint64 best = G_MAXINT64;

  station->choice = NO_OP;
  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    for (guint kind = 0; kind < N_KINDS; kind++)
      {
        guint chain = problem->stages[i] * N_KINDS + kind, op = chain * problem->m + greedy->next[chain];
        gint64 start = station->free_ns;

        if (greedy->next[chain] == problem->m)
          continue;
        guint producer = producer_of (problem, op);
        if (producer != NO_OP)
          {
            if (greedy->end[producer] < 0)
              continue;
            start = MAX (start, greedy->end[producer] + problem->lag[chain]);
          }
        gint64 score = start + greedy->penalty[chain] + (greedy->nudge ? greedy->nudge[op] : 0);
        if (score >= best || !may_start (greedy, device, chain)
            || !has_turn (greedy, device, i - problem->first_stage[device], kind))
          continue;
        best = score;
        station->choice = op;
        station->start = start;
      }
}

static void
note_alive (Greedy *greedy, guint device, guint chain)
{
  const Problem *problem = greedy->problem;
  Station *station = &greedy->station[device];
  guint first = problem->stages[problem->first_stage[device]] * N_KINDS;

  if (chain == first + PS_OP_F)
    station->alive++;
  if (chain == first + PS_OP_W)
    station->alive--;
  if (chain % N_KINDS != PS_OP_F)
    return;
  station->oldest = problem->m;
  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    station->oldest = MIN (station->oldest, greedy->next[problem->stages[i] * N_KINDS + PS_OP_F]);
}

static void
place (Greedy *greedy, guint device)
{
  const Problem *problem = greedy->problem;
  Station *station = &greedy->station[device];
  guint op = station->choice, chain = chain_of (problem, op), consumer[2], n = consumers_of (problem, op, consumer);

  greedy->end[op] = station->free_ns = station->start + problem->duration[chain];
  station->level += problem->take[chain] - problem->give[chain];
  greedy->next[chain]++;
  greedy->order->sequence[station->fill++] = op;
  note_alive (greedy, device, chain);
  choose (greedy, device);
  for (guint i = 0; i < n; i++)
    {
      guint other = device_of (problem, consumer[i]);

      if (other != device)
        choose (greedy, other);
    }
}

gboolean
greedy_build (Order *order, const Policy *policy, const gint64 *nudge)
{
  const Problem *problem = order->problem;
  g_auto (Greedy) greedy = { .nudge = nudge, .group = policy->group };

  greedy_init (&greedy, order, policy);
  for (guint d = 0; d < problem->n_devices; d++)
    choose (&greedy, d);
  for (guint i = 0; i < problem->n_ops; i++)
    {
      guint best = problem->n_devices;

      for (guint d = 0; d < problem->n_devices; d++)
        if (greedy.station[d].choice != NO_OP
            && (best == problem->n_devices || greedy.station[d].start < greedy.station[best].start))
          best = d;
      if (best == problem->n_devices)
        return FALSE;
      place (&greedy, best);
    }
  return TRUE;
}

static double
draw (Random *random, double low, double high)
{
  return low + (high - low) * random_unit (random);
}

void
policy_draw (Policy *policy, const Problem *problem, Random *random)
{
  guint p = problem->n_devices;

  *policy = (Policy){ 0 };
  if (problem->n_stages > p && random_below (random, 2))
    policy->group = p / 2 + 1 + random_below (random, p / 2 + 1) - (p > 1);
  policy->bias[PS_OP_F] = (Rule){ draw (random, -0.5, 1), draw (random, -0.5, 0.5), draw (random, -1, 0.5) };
  policy->bias[PS_OP_B] = (Rule){ draw (random, -1, 0), draw (random, -0.5, 0.5), draw (random, -0.5, 0.5) };
  policy->bias[PS_OP_W] = (Rule){ draw (random, 0, 2), draw (random, -0.5, 0.5), draw (random, -0.5, 0.5) };
  policy->ahead = (Rule){ draw (random, 0.4, 2.2), random_below (random, 2) ? 0 : draw (random, -2, 0), 0 };
}

static void
rule_change (Rule *rule, Random *random, double step)
{
  rule->base += draw (random, -step, step);
  rule->by_device += draw (random, -step, step);
  rule->by_chunk += draw (random, -step, step);
}

void
policy_change (Policy *policy, Random *random, double step)
{
  for (guint kind = 0; kind < N_KINDS; kind++)
    if (random_below (random, 2))
      rule_change (&policy->bias[kind], random, step);
  if (random_below (random, 2))
    rule_change (&policy->ahead, random, step);
}
