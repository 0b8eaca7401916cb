/* list-scheduling.c - list scheduling under a policy, which may follow a plan. */
#include "methods.h"

#include "base/least.h"

#include <math.h>

typedef struct {
  const PsProblem *problem;
  const PsPlan *plan;
  guint32 *place;  /* [n_ops] of F and B in the list; NO_OP: they have run */
  gint64 *level;   /* [n_ops] most memory that the device takes for the op at a place, and for its W right after it */
  guint32 *next;   /* [n_devices] place of the first op that has not run */
  guint *n_w;      /* [n_devices] W that have room before it */
  gboolean *has_b; /* [n_devices] whether a B has run */
  guint *n_left;   /* [n_devices] F of the device's first stage that have not run */
} Progress;

/* The F or B that is next in the plan; NO_OP: none is left. */
static inline guint next_planned (const Progress *progress, guint device)
{
  const guint *first = progress->problem->first;
  guint end = first[device] + (first[device + 1] - first[device]) / N_KINDS * 2, next = progress->next[device];

  return next < end ? progress->plan->list[next] : NO_OP;
}

/* Towards the end an F or B runs before its place if that delays the op that is next in the plan by less than
 * (EAGER_PART - 1) / EAGER_PART of its own duration; else if it does not delay it. */
#define EAGER_PART 8

/* Bytes that remain taken after an op, and after its W if it is a B. */
static gint64 bytes_after (const PsProblem *problem, guint chain)
{
  gint64 bytes = problem->take[chain] - problem->give[chain];

  return chain % N_KINDS == PS_OP_B ? bytes + problem->take[chain + 1] - problem->give[chain + 1] : bytes;
}

static gint64 most_bytes (const PsProblem *problem, guint chain)
{
  return chain % N_KINDS == PS_OP_B ? ps_problem_apart_peak (problem, chain / N_KINDS) : problem->take[chain];
}

/* Reads the places of a device's ops and the memory that they take. */
static void read_device (Progress *progress, guint device)
{
  const PsProblem *problem = progress->problem;
  gint64 level = problem->held[device];
  guint *next = &progress->next[device], op;

  *next = problem->first[device];
  for (op = next_planned (progress, device); op != NO_OP; op = next_planned (progress, device)) {
    guint chain = chain_of (problem, op);

    progress->place[op] = *next;
    progress->level[*next] = level + most_bytes (problem, chain);
    level += bytes_after (problem, chain);
    ++*next;
  }
  *next = problem->first[device];
  progress->n_left[device] = problem->m;
}

static Progress *progress_new (GPtrArray *owned, const PsProblem *problem, const PsPlan *plan)
{
  Progress *progress = PS_OWN_NEW (owned, Progress, 1);
  guint n_ops = problem->n_ops, p = problem->n_devices;

  *progress = (Progress){ .problem = problem,
                          .plan = plan,
                          .place = PS_OWN_NEW (owned, guint32, n_ops),
                          .level = PS_OWN_NEW (owned, gint64, n_ops),
                          .next = PS_OWN_NEW (owned, guint32, p),
                          .n_w = PS_OWN_NEW (owned, guint, p),
                          .has_b = PS_OWN_NEW (owned, gboolean, p),
                          .n_left = PS_OWN_NEW (owned, guint, p) };
  for (guint d = 0; d < p; d++)
    read_device (progress, d);
  return progress;
}

/* Whether it is known when the op that is next in the plan can start: its producer has run. */
static gboolean knows_next (const Progress *progress, guint device)
{
  guint next = next_planned (progress, device);
  guint producer = next != NO_OP ? producer_of (progress->problem, next) : NO_OP;

  return producer == NO_OP || progress->place[producer] == NO_OP;
}

/* An F before its place changes which W have room. So where a plan says where W run, it is for the idle times before
 * the device's first B. */
static gint64 penalty_ahead (const Progress *progress, guint device, guint chain, gboolean is_last)
{
  gint64 duration = progress->problem->duration[chain];

  if (is_last)
    return duration / EAGER_PART;
  return chain % N_KINDS == PS_OP_F && progress->plan->n_w != NULL && progress->has_b[device] ? G_MAXINT64 : duration;
}

/* What the score of an op is to be above its start, in ns; G_MAXINT64: it has to wait. w_penalty is that of a W
 * wherever the device would wait. */
static gint64 planned_penalty (const Progress *progress, guint device, guint op, gint64 w_penalty)
{
  guint chain = chain_of (progress->problem, op);
  gboolean is_last = progress->n_left[device] <= progress->plan->n_last;

  if (op == next_planned (progress, device))
    return 0;
  if (chain % N_KINDS != PS_OP_W)
    return penalty_ahead (progress, device, chain, is_last);
  if (progress->plan->n_w == NULL)
    return w_penalty;
  if (progress->n_w[device] == 0 && !knows_next (progress, device))
    return G_MAXINT64;
  if (is_last)
    return progress->problem->duration[chain];
  return progress->n_w[device] > 0 ? 0 : w_penalty;
}

/* Whether the device has room for an F or B before its place. */
static gboolean has_room (const Progress *progress, guint device, guint op)
{
  guint chain = chain_of (progress->problem, op);
  gint64 limit = progress->problem->limit[device], bytes = bytes_after (progress->problem, chain);

  if (bytes <= 0 || limit == G_MAXINT64)
    return TRUE;
  for (guint i = progress->next[device]; i < progress->place[op]; i++)
    if (progress->level[i] + bytes > limit)
      return FALSE;
  return TRUE;
}

/* Goes on to the next op that has not run. All W that have room before it may run. */
static void pass_done (Progress *progress, guint device)
{
  const PsPlan *plan = progress->plan;
  guint *next = &progress->next[device], n_w = 0;

  for (; next_planned (progress, device) != NO_OP && progress->place[plan->list[*next]] == NO_OP; ++*next)
    n_w += plan->n_w != NULL ? plan->n_w[*next] : 0;
  progress->n_w[device] = n_w;
}

/* Takes note that an op runs. */
static void note_run (Progress *progress, guint device, guint op)
{
  const PsProblem *problem = progress->problem;
  guint chain = chain_of (problem, op), place = progress->place[op];

  if (chain % N_KINDS == PS_OP_W) {
    progress->n_w[device] -= progress->n_w[device] > 0;
    return;
  }
  for (guint i = progress->next[device]; i < place; i++)
    progress->level[i] += bytes_after (problem, chain);
  if (chain % N_KINDS == PS_OP_B)
    progress->has_b[device] = TRUE;
  if (chain == problem->stages[problem->first_stage[device]] * N_KINDS)
    progress->n_left[device]--;
  progress->place[op] = NO_OP;
  if (progress->next[device] == place)
    pass_done (progress, device);
}

/* The state of one device. */
typedef struct {
  gint64 free_ns; /* end of its last op */
  gint64 level;   /* memory */
  guint oldest;   /* first microbatch that has not been forwarded through all its stages here */
  guint alive;    /* microbatches let into its first stage and not yet done with it */
  guint allowed;  /* limit of `alive` */
  gint64 burst;   /* most that an op, or a B and its W, take only while they run */
  guint32 choice; /* op with the lowest score; NO_OP: none */
  guint32 with;   /* as in PsOrder.partner */
  gint64 start;   /* its start; G_MAXINT64: none */
} DeviceState;

typedef struct {
  GPtrArray *owned; /* all arrays */
  PsOrder *order;
  const PsProblem *problem;
  DeviceState *state;   /* [n_devices] */
  guint *next;          /* [chains] next microbatch of the chain */
  gint64 *penalty;      /* [chains] bias in ns */
  gint64 *pair_penalty; /* [stages] of pairs with an F of that stage */
  const PsPolicy *policy;
  Progress *progress; /* NULL: no plan */
  guint group;
  gint64 *end;    /* [n_ops] -1: not placed */
  PsLeast starts; /* of choices */
} Greedy;

static double rule_value (const PsPolicyRule *rule, double x, double y)
{
  return rule->base + rule->by_device * x + rule->by_chunk * y;
}

static void greedy_clear (Greedy *greedy)
{
  g_ptr_array_unref (greedy->owned);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Greedy, greedy_clear)

/* Memory that an F of the stage gives back at its end, or that its B and W take, or that the BW takes instead of both.
 */
static gint64 burst_of (const PsProblem *problem, const PsPolicy *policy, guint stage)
{
  gboolean fuses = policy->fuses && problem->fuses[stage];

  return MAX (problem->give[stage * N_KINDS + PS_OP_F],
              fuses ? problem->bw_take[stage] : ps_problem_apart_peak (problem, stage));
}

/* x and y are the places of the device and of the chunk. */
static void init_stage (Greedy *greedy, guint device, guint stage, double x, double y)
{
  const PsProblem *problem = greedy->problem;
  const PsPolicy *policy = greedy->policy;
  gint64 *burst = &greedy->state[device].burst;

  for (guint kind = 0; kind < N_KINDS; kind++) {
    guint chain = stage * N_KINDS + kind;

    greedy->penalty[chain] = (gint64)lrint (rule_value (&policy->bias[kind], x, y) * (double)problem->duration[chain]);
  }
  if (policy->pairs)
    greedy->pair_penalty[stage] = (gint64)lrint (rule_value (&policy->pair, x, y) * (double)problem->pair[stage]);
  *burst = MAX (*burst, burst_of (problem, policy, stage));
}

static void greedy_init (Greedy *greedy, PsOrder *order, const PsPolicy *policy)
{
  const PsProblem *problem = order->problem;
  GPtrArray *owned = greedy->owned = g_ptr_array_new_with_free_func (g_free);
  guint p = problem->n_devices;

  ps_order_clear (order);
  greedy->order = order;
  greedy->problem = problem;
  greedy->policy = policy;
  greedy->progress = policy->plan != NULL ? progress_new (owned, problem, policy->plan) : NULL;
  greedy->state = PS_OWN_NEW (owned, DeviceState, p);
  greedy->next = PS_OWN_NEW (owned, guint, (gsize)problem->n_stages * N_KINDS);
  greedy->penalty = PS_OWN_NEW (owned, gint64, (gsize)problem->n_stages * N_KINDS);
  greedy->pair_penalty = PS_OWN_NEW (owned, gint64, problem->n_stages);
  greedy->end = PS_OWN_NEW (owned, gint64, problem->n_ops);
  ps_least_init (&greedy->starts, p);
  ps_own (owned, greedy->starts.ns);
  for (guint i = 0; i < problem->n_ops; i++)
    greedy->end[i] = -1;
  for (guint d = 0; d < p; d++) {
    double x = p > 1 ? (double)d / (p - 1) : 0, ahead = rule_value (&policy->ahead, x, 0);
    guint n = problem->first_stage[d + 1] - problem->first_stage[d];

    greedy->state[d] = (DeviceState){ .level = problem->held[d],
                                      .choice = NO_OP,
                                      .start = G_MAXINT64,
                                      .allowed = (guint)CLAMP (ahead * p + problem->n_slices + 0.5, 1, problem->m) };
    for (guint k = 0; k < n; k++)
      init_stage (greedy, d, problem->stages[problem->first_stage[d] + k], x, n > 1 ? (double)k / (n - 1) : 0);
  }
}

/* Where the microbatch after this one begins: all slices of this one are before. */
static guint next_whole (const PsProblem *problem, guint microbatch)
{
  return microbatch - microbatch % problem->n_slices + problem->n_slices;
}

/* Room that the device's oldest microbatch, with all its slices, still needs for what its forwards keep. */
static gint64 reserve (const Greedy *greedy, guint device)
{
  const PsProblem *problem = greedy->problem;
  guint end = next_whole (problem, greedy->state[device].oldest);
  gint64 bytes = 0;

  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++) {
    guint chain = problem->stages[i] * N_KINDS + PS_OP_F;

    if (greedy->next[chain] < end)
      bytes += (problem->take[chain] - problem->give[chain]) * (end - greedy->next[chain]);
  }
  return bytes;
}

/* Whether other microbatches have begun on the device and are not finished. */
static gboolean has_others (const Greedy *greedy, guint device, guint microbatch)
{
  const PsProblem *problem = greedy->problem;
  guint end = next_whole (problem, microbatch), begin = end - problem->n_slices;

  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++) {
    guint base = problem->stages[i] * N_KINDS;

    if (greedy->next[base + PS_OP_W] < begin || greedy->next[base + PS_OP_F] > end)
      return TRUE;
  }
  return FALSE;
}

/* Room that a forward must leave at its end. A microbatch alone on the device needs none. Others must leave room for
 * any op of the device: then the oldest one ends, and the next one finds the room that it had. */
static gint64 room_to_leave (const Greedy *greedy, guint device, guint microbatch)
{
  const DeviceState *state = &greedy->state[device];
  gint64 bytes = microbatch >= next_whole (greedy->problem, state->oldest) ? reserve (greedy, device) : 0;

  return bytes + (has_others (greedy, device, microbatch) ? state->burst : 0);
}

static inline G_ALWAYS_INLINE gboolean may_start (const Greedy *greedy, guint device, guint chain, guint kind)
{
  const PsProblem *problem = greedy->problem;
  const DeviceState *state = &greedy->state[device];
  guint microbatch = greedy->next[chain];
  gint64 level = state->level + problem->take[chain];

  if (kind != PS_OP_F || level > problem->limit[device] || greedy->progress != NULL)
    return level <= problem->limit[device];
  if (chain / N_KINDS == problem->stages[problem->first_stage[device]]
      && microbatch >= next_whole (problem, state->oldest) && state->alive >= state->allowed)
    return FALSE;
  if (problem->limit[device] == G_MAXINT64)
    return TRUE;
  return level - problem->give[chain] + room_to_leave (greedy, device, microbatch) <= problem->limit[device];
}

/* Place of a chain's next op in the order of groups: forwards from the first chunk up, backwards from the last down. */
static guint64 group_place (const Greedy *greedy, guint device, guint index, guint kind)
{
  const PsProblem *problem = greedy->problem;
  guint n = problem->first_stage[device + 1] - problem->first_stage[device];
  guint64 microbatch = greedy->next[problem->stages[problem->first_stage[device] + index] * N_KINDS + kind];
  guint chunk = kind == PS_OP_F ? index : n - 1 - index;

  return (microbatch / greedy->group * n + chunk) * greedy->group + microbatch % greedy->group;
}

/* Whether the groups, or the memory that the plan takes, let this chunk of the device go next. */
static gboolean may_be_next (const Greedy *greedy, guint device, guint index, guint kind)
{
  const PsProblem *problem = greedy->problem;
  guint begin = problem->first_stage[device], n = problem->first_stage[device + 1] - begin;
  guint chain = problem->stages[begin + index] * N_KINDS + kind;

  if (greedy->progress != NULL && kind != PS_OP_W)
    return has_room (greedy->progress, device, chain * problem->m + greedy->next[chain]);
  if (greedy->group == 0 || kind == PS_OP_W)
    return TRUE;
  for (guint i = 0; i < n; i++)
    if (greedy->next[problem->stages[begin + i] * N_KINDS + kind] < problem->m
        && group_place (greedy, device, i, kind) < group_place (greedy, device, index, kind))
      return FALSE;
  return TRUE;
}

/* The next op of a chain, and when its inputs arrive. */
typedef struct {
  guint op; /* NO_OP: the chain is finished, or an input has not been made */
  gint64 arrival;
} Next;

static inline G_ALWAYS_INLINE Next next_of (const Greedy *greedy, guint chain)
{
  const PsProblem *problem = greedy->problem;
  guint op = chain * problem->m + greedy->next[chain], producer;

  if (greedy->next[chain] == problem->m)
    return (Next){ NO_OP, 0 };
  producer = producer_of (problem, op);
  if (producer == NO_OP)
    return (Next){ op, 0 };
  if (greedy->end[producer] < 0)
    return (Next){ NO_OP, 0 };
  return (Next){ op, greedy->end[producer] + problem->lag[chain] };
}

/* Whether a B runs as BW: because the policy says so, or because there is memory for BW only. */
static gboolean prefers_fused (const Greedy *greedy, guint device, guint b)
{
  const PsProblem *problem = greedy->problem;
  guint stage = b / N_KINDS;
  const DeviceState *state = &greedy->state[device];

  if (!problem->fuses[stage] || greedy->next[b] != greedy->next[b + 1]
      || state->level + problem->bw_take[stage] > problem->limit[device])
    return FALSE;
  return greedy->policy->fuses || state->level + problem->take[b] > problem->limit[device]
         || state->level + problem->take[b] - problem->give[b] + problem->take[b + 1] > problem->limit[device];
}

static inline G_ALWAYS_INLINE gint64 penalty_of (const Greedy *greedy, guint device, guint chain, guint op)
{
  gint64 penalty = greedy->penalty[chain];

  return greedy->progress == NULL ? penalty : planned_penalty (greedy->progress, device, op, penalty);
}

/* Makes the op the device's choice if its score is the lowest so far. */
static inline G_ALWAYS_INLINE void choose_single (Greedy *greedy, guint device, guint index, guint kind, gint64 *best)
{
  const PsProblem *problem = greedy->problem;
  DeviceState *state = &greedy->state[device];
  guint chain = problem->stages[problem->first_stage[device] + index] * N_KINDS + kind;
  Next next = next_of (greedy, chain);
  gint64 start = MAX (state->free_ns, next.arrival), penalty, score;
  gboolean fused;

  if (next.op == NO_OP)
    return;
  penalty = penalty_of (greedy, device, chain, next.op);
  if (penalty == G_MAXINT64)
    return;
  score = start + penalty;
  if (score >= *best)
    return;
  fused = kind == PS_OP_B && problem->joins && prefers_fused (greedy, device, chain);
  if ((!fused && !may_start (greedy, device, chain, kind)) || !may_be_next (greedy, device, index, kind))
    return;
  *best = score;
  state->choice = next.op;
  state->with = fused ? next.op : problem->n_ops;
  state->start = start;
}

/* Does the same for a pair of two chunks' next F and B, if no W of the B's chunk waits. */
static void choose_pair (Greedy *greedy, guint device, guint forward, guint backward, gint64 *best)
{
  const PsProblem *problem = greedy->problem;
  DeviceState *state = &greedy->state[device];
  guint begin = problem->first_stage[device], stage = problem->stages[begin + forward];
  guint f = stage * N_KINDS + PS_OP_F, b = problem->stages[begin + backward] * N_KINDS + PS_OP_B;
  Next first = next_of (greedy, f), second = next_of (greedy, b);
  gint64 start = MAX (MAX (first.arrival, second.arrival), state->free_ns), score;

  if (problem->pair[stage] < 0 || first.op == NO_OP || second.op == NO_OP || greedy->next[b] != greedy->next[b + 1])
    return;
  score = start + greedy->pair_penalty[stage];
  if (score >= *best || !may_start (greedy, device, f, PS_OP_F)
      || state->level + problem->take[f] + problem->bw_take[b / N_KINDS] > problem->limit[device]
      || !may_be_next (greedy, device, forward, PS_OP_F) || !may_be_next (greedy, device, backward, PS_OP_B))
    return;
  *best = score;
  state->choice = second.op;
  state->with = first.op;
  state->start = start;
}

static void choose (Greedy *greedy, guint device)
{
  const PsProblem *problem = greedy->problem;
  guint begin = problem->first_stage[device], n = problem->first_stage[device + 1] - begin;
  gint64 best = G_MAXINT64;

  greedy->state[device].choice = NO_OP;
  greedy->state[device].start = G_MAXINT64;
  for (guint i = 0; i < n; i++) {
    choose_single (greedy, device, i, PS_OP_F, &best);
    choose_single (greedy, device, i, PS_OP_B, &best);
    choose_single (greedy, device, i, PS_OP_W, &best);
  }
  for (guint i = 0; greedy->policy->pairs && i < n * n; i++)
    choose_pair (greedy, device, i / n, i % n, &best);
  ps_least_set (&greedy->starts, device, greedy->state[device].start);
}

static void note_alive (Greedy *greedy, guint device, guint chain)
{
  const PsProblem *problem = greedy->problem;
  DeviceState *state = &greedy->state[device];
  guint first = problem->stages[problem->first_stage[device]] * N_KINDS;

  if (chain == first + PS_OP_F)
    state->alive++;
  if (chain == first + PS_OP_W)
    state->alive--;
  if (chain % N_KINDS != PS_OP_F)
    return;
  state->oldest = problem->m;
  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    state->oldest = MIN (state->oldest, greedy->next[problem->stages[i] * N_KINDS + PS_OP_F]);
}

/* Places one of the ops that run as one. */
static void place_op (Greedy *greedy, guint device, guint op, gint64 end)
{
  guint chain = chain_of (greedy->problem, op);

  greedy->end[op] = end;
  greedy->next[chain]++;
  if (greedy->progress != NULL)
    note_run (greedy->progress, device, op);
  note_alive (greedy, device, chain);
}

static void choose_after (Greedy *greedy, guint device, guint op)
{
  guint consumer[2], n = consumers_of (greedy->problem, op, consumer);

  for (guint i = 0; i < n; i++) {
    guint other = device_of (greedy->problem, consumer[i]);

    if (other != device)
      choose (greedy, other);
  }
}

static void place (Greedy *greedy, guint device)
{
  gboolean joins = greedy->problem->joins;
  DeviceState *state = &greedy->state[device];
  guint op = state->choice;
  PsMembers members;

  ps_order_add (greedy->order, op, state->with);
  members = members_of (greedy->order, op, joins);
  state->free_ns = state->start + greedy->order->nodes[op].duration;
  state->level += take_of (greedy->order, op, joins) - give_of (greedy->order, op, joins);
  for (guint i = 0; i < members.n; i++)
    place_op (greedy, device, members.op[i], state->free_ns);
  choose (greedy, device);
  for (guint i = 0; i < members.n; i++)
    choose_after (greedy, device, members.op[i]);
}

static gboolean is_complete (const Greedy *greedy)
{
  for (guint chain = 0; chain < greedy->problem->n_stages * N_KINDS; chain++)
    if (greedy->next[chain] < greedy->problem->m)
      return FALSE;
  return TRUE;
}

gboolean ps_list_schedule (PsOrder *order, const PsPolicy *policy)
{
  const PsProblem *problem = order->problem;
  g_auto (Greedy) greedy = { .group = policy->group };

  greedy_init (&greedy, order, policy);
  for (guint d = 0; d < problem->n_devices; d++)
    choose (&greedy, d);
  for (guint d = ps_least_find (&greedy.starts); d != G_MAXUINT; d = ps_least_find (&greedy.starts))
    place (&greedy, d);
  return is_complete (&greedy);
}

static double draw (PsRandom *random, double low, double high)
{
  return low + (high - low) * ps_random_unit (random);
}

void ps_policy_draw (PsPolicy *policy, const PsProblem *problem, PsRandom *random)
{
  guint p = problem->n_devices;

  *policy = (PsPolicy){ 0 };
  if (problem->n_stages > p && ps_random_below (random, 2))
    policy->group = p / 2 + 1 + ps_random_below (random, p / 2 + 1) - (p > 1);
  policy->bias[PS_OP_F] = (PsPolicyRule){ draw (random, -0.5, 1), draw (random, -0.5, 0.5), draw (random, -1, 0.5) };
  policy->bias[PS_OP_B] = (PsPolicyRule){ draw (random, -1, 0), draw (random, -0.5, 0.5), draw (random, -0.5, 0.5) };
  policy->bias[PS_OP_W] = (PsPolicyRule){ draw (random, 0, 2), draw (random, -0.5, 0.5), draw (random, -0.5, 0.5) };
  policy->ahead = (PsPolicyRule){ draw (random, 0.4, 2.2), ps_random_below (random, 2) ? 0 : draw (random, -2, 0), 0 };
  if (!problem->joins)
    return;
  policy->pairs = ps_random_below (random, 4) > 0;
  policy->fuses = ps_random_below (random, 2);
  policy->pair = (PsPolicyRule){ draw (random, -1.5, 0.2), draw (random, -0.5, 0.5), draw (random, -0.5, 0.5) };
}

static void rule_change (PsPolicyRule *rule, PsRandom *random, double step)
{
  rule->base += draw (random, -step, step);
  rule->by_device += draw (random, -step, step);
  rule->by_chunk += draw (random, -step, step);
}

void ps_policy_change (PsPolicy *policy, PsRandom *random, double step)
{
  for (guint kind = 0; kind < N_KINDS; kind++)
    if (ps_random_below (random, 2))
      rule_change (&policy->bias[kind], random, step);
  if (ps_random_below (random, 2))
    rule_change (&policy->ahead, random, step);
  if (policy->pairs && ps_random_below (random, 2))
    rule_change (&policy->pair, random, step);
}
