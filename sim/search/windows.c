/* windows.c - windows of ops, what refutes a target, and where cases or descents decide what narrowing does not. */
#include "windows.h"

#include "base/least.h"

#include <string.h>

__extension__ typedef __int128 Wide;

/* Times before everything, and after everything: all times of an iteration add up to less than 2^62. */
#define NEVER (G_MAXINT64 / 2)

/* Ops that a device runs in a fixed order: those of one F or B chain, or the W of all chains with equal costs. */
typedef struct {
  guint n;     /* ops */
  guint first; /* index of the first one's window */
  guint shift; /* of the number of ops done, in the key of a state */
  guint mask;  /* of this number */
  gint64 duration;
  gint64 take;
  gint64 give;
  guint n_chains;
  guint *chain; /* [n_chains] */
  guint needs;  /* bit set of lanes: each of them has to be ahead of this one, of W all together */
} Lane;

typedef struct {
  GPtrArray *owned; /* all arrays */
  guint n_lanes;
  Lane *lane;
  guint n_windows;
  guint n_states;
  guint64 *key;   /* [n_states] how many ops of each lane are done; states with fewer ops come first */
  guint32 *child; /* [n_states * n_lanes] state after one more op of the lane; 0: it cannot follow */
  guint32 from;   /* state that the device is known to reach; 0 at first */
  gint64 ready;   /* least time at which it is there */
  guint n_open;
  guint32 *open; /* [n_open] states that a path within the windows can have, in order */
  gint64 *early; /* [n_states] least time at which the device can be there */
  gint64 *late;  /* [n_states] latest time from which it can end all ops within their windows */
} States;

static void states_free (States *states)
{
  if (states == NULL)
    return;
  g_ptr_array_unref (states->owned);
  g_free (states);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (States, states_free)

struct PsWindows {
  const PsProblem *problem;
  GPtrArray *owned;   /* all arrays but `trail` */
  States **states;    /* [n_devices] NULL: none */
  gint64 *earliest;   /* [n_ops] earliest starts for any target; NULL: only longest paths, because they take too long */
  guint earliest_of;  /* the device whose span they are for; n_devices: makespan */
  gint64 *start;      /* [n_ops] earliest start */
  gint64 *end;        /* [n_ops] latest end */
  GArray *trail;      /* of WindowBefore, since the first mark; NULL: no marks */
  guint32 *noted;     /* [n_ops] the last mark after which the trail took the op */
  guint32 mark;       /* the last one; 0: none */
  gint64 *lane_start; /* of one device, by lane */
  gint64 *lane_end;
  guint32 *fixed;   /* [n_ops] the ops that devices do first, in order, placed as in an order's sequence */
  guint32 *n_fixed; /* [n_devices] */
  guint8 *touched;  /* [n_devices] whether a window changed since the device was narrowed */
  gboolean is_new;  /* opened, and not yet narrowed */
  gint64 target;
  gint64 open;   /* least target that n_cases are known not to refute */
  guint n_cases; /* most cases that a target was split into */
  guint span_of; /* the device whose first op starts at 0 and whose last one ends at the target; n_devices: all */
  guint refuter; /* the device whose span refuted the last target */
  gboolean (*go_on) (gpointer data);
  gpointer data;
  gboolean stopped;
};

/* Whether the ops of a device end by the target. */
static inline gboolean counts (const PsWindows *windows, guint device)
{
  return windows->span_of == windows->problem->n_devices || windows->span_of == device;
}

/* Lanes of a device, at most. */
#define MAX_LANES 48

static inline guint n_done (const Lane *lane, guint64 key)
{
  return (guint)(key >> lane->shift) & lane->mask;
}

/* The window of an op as it was. */
typedef struct {
  guint32 op;
  gint64 start;
  gint64 end;
} WindowBefore;

/* The states of one device. */

/* Stages of a device, at most: Lane.needs has a bit for each F and each B. */
#define MAX_STAGES (MAX_LANES / N_KINDS)

/* States while they are listed. */
typedef struct {
  const PsProblem *problem;
  States *states;
  gint64 room; /* bytes that the weights leave */
  guint max_states;
  guint32 *slot; /* hash table of states, 0: empty */
  guint32 mask;
  GArray *key;
  GArray *child;
} Listing;

static void listing_clear (Listing *listing)
{
  g_free (listing->slot);
  g_array_unref (listing->key);
  g_array_unref (listing->child);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Listing, listing_clear)

static gboolean costs_equal (const PsProblem *problem, guint a, guint b)
{
  return problem->duration[a] == problem->duration[b] && problem->take[a] == problem->take[b]
         && problem->give[a] == problem->give[b];
}

/* Adds a chain to a lane of W with its costs, or as a new lane. `needs` are the lanes ahead of it. */
static void add_chain (States *states, const PsProblem *problem, guint chain, guint needs)
{
  Lane *lane = NULL;

  for (guint i = 0; i < states->n_lanes && chain % N_KINDS == PS_OP_W; i++)
    if (states->lane[i].chain[0] % N_KINDS == PS_OP_W && costs_equal (problem, states->lane[i].chain[0], chain))
      lane = &states->lane[i];
  if (lane == NULL) {
    lane = &states->lane[states->n_lanes++];
    *lane = (Lane){ .duration = problem->duration[chain],
                    .take = problem->take[chain],
                    .give = problem->give[chain],
                    .chain = PS_OWN_NEW (states->owned, guint, problem->n_stages) };
  }
  lane->chain[lane->n_chains++] = chain;
  lane->n += problem->m;
  lane->needs |= needs;
}

/* Lanes of forwards up the stages, of backwards, then of W. FALSE: a key has no room for them. */
static gboolean set_lanes (States *states, const PsProblem *problem, guint device)
{
  guint begin = problem->first_stage[device], n = problem->first_stage[device + 1] - begin;
  guint shift = 0;

  states->lane = PS_OWN_NEW (states->owned, Lane, (gsize)n * N_KINDS);
  if (n > MAX_STAGES)
    return FALSE;
#define COPY(i) (problem->stages[begin + (i)] / problem->n_copy_stages)
  for (guint i = 0; i < n; i++)
    add_chain (states, problem, problem->stages[begin + i] * N_KINDS + PS_OP_F,
               i > 0 && COPY (i - 1) == COPY (i) ? 1U << (i - 1) : 0);
  for (guint i = 0; i < n; i++)
    add_chain (states, problem, problem->stages[begin + i] * N_KINDS + PS_OP_B,
               1U << i | (i + 1 < n && COPY (i + 1) == COPY (i) ? 1U << (n + i + 1) : 0));
  for (guint i = 0; i < n; i++)
    add_chain (states, problem, problem->stages[begin + i] * N_KINDS + PS_OP_W, 1U << (n + i));
#undef COPY
  for (guint i = 0; i < states->n_lanes; i++) {
    states->lane[i].shift = shift;
    states->lane[i].mask = (1U << g_bit_storage (states->lane[i].n)) - 1;
    states->lane[i].first = states->n_windows;
    shift += g_bit_storage (states->lane[i].n);
    states->n_windows += states->lane[i].n;
  }
  return shift <= 64;
}

/* Whether one more op of a lane can follow a state. */
static gboolean may_follow (const Listing *listing, guint64 key, const Lane *lane, gint64 level)
{
  const States *states = listing->states;
  guint done = n_done (lane, key), ahead = 0;
  gboolean together = lane->chain[0] % N_KINDS == PS_OP_W;

  if (done == lane->n || level + lane->take > listing->room)
    return FALSE;
  for (guint i = 0; i < states->n_lanes; i++)
    if (lane->needs >> i & 1) {
      ahead += n_done (&states->lane[i], key);
      if (!together && n_done (&states->lane[i], key) <= done)
        return FALSE;
    }
  return !together || ahead > done;
}

/* The index of a state, which is added if it is new. */
static guint32 index_of (Listing *listing, guint64 key)
{
  guint64 digest = key * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  guint32 at = (guint32)(digest >> 32) & listing->mask;

  for (; listing->slot[at] != 0; at = (at + 1) & listing->mask)
    if (g_array_index (listing->key, guint64, listing->slot[at]) == key)
      return listing->slot[at];
  listing->slot[at] = listing->key->len;
  g_array_append_val (listing->key, key);
  return listing->slot[at];
}

static void list_children (Listing *listing, guint64 key)
{
  States *states = listing->states;
  gint64 level = 0;

  for (guint i = 0; i < states->n_lanes; i++)
    level += (states->lane[i].take - states->lane[i].give) * n_done (&states->lane[i], key);
  for (guint i = 0; i < states->n_lanes; i++) {
    const Lane *lane = &states->lane[i];
    guint32 child = may_follow (listing, key, lane, level) ? index_of (listing, key + ((guint64)1 << lane->shift)) : 0;

    g_array_append_val (listing->child, child);
  }
}

/* Lists the states, those with fewer ops first. FALSE: they are too many, or do not lead to the end. */
static gboolean list_states (Listing *listing)
{
  States *states = listing->states;
  guint64 none = 0, all = 0;

  for (guint i = 0; i < states->n_lanes; i++)
    all += (guint64)states->lane[i].n << states->lane[i].shift;
  g_array_append_val (listing->key, none);
  for (guint i = 0; i < listing->key->len && listing->key->len <= listing->max_states; i++)
    list_children (listing, g_array_index (listing->key, guint64, i));
  states->n_states = listing->key->len;
  return states->n_states <= listing->max_states && g_array_index (listing->key, guint64, states->n_states - 1) == all;
}

/* Opens all states, for windows of any width. */
static void states_open (States *states)
{
  states->n_open = states->n_states;
  for (guint i = 0; i < states->n_states; i++)
    states->open[i] = i;
}

/* NULL: there are more than max_states, or no order keeps to the limit (bytes). */
static States *states_new (const PsProblem *problem, guint device, gint64 limit, guint max_states)
{
  g_autoptr (States) states = g_new0 (States, 1);
  g_auto (Listing) listing = { .problem = problem,
                               .states = states,
                               .room = limit == G_MAXINT64 ? limit / 2 : limit - problem->held[device],
                               .max_states = max_states,
                               .mask = (1U << (g_bit_storage (max_states) + 2)) - 1 };

  states->owned = g_ptr_array_new_with_free_func (g_free);
  listing.slot = g_new0 (guint32, (gsize)listing.mask + 1);
  listing.key = g_array_new (FALSE, FALSE, sizeof (guint64));
  listing.child = g_array_new (FALSE, FALSE, sizeof (guint32));
  if (!set_lanes (states, problem, device) || !list_states (&listing))
    return NULL;
  states->key = ps_own (states->owned, g_array_steal (listing.key, NULL));
  states->child = ps_own (states->owned, g_array_steal (listing.child, NULL));
  states->open = PS_OWN_NEW (states->owned, guint32, states->n_states);
  states->early = PS_OWN_NEW (states->owned, gint64, states->n_states);
  states->late = PS_OWN_NEW (states->owned, gint64, states->n_states);
  states->ready = -NEVER;
  states_open (states);
  return g_steal_pointer (&states);
}

/* Closes the states that the last narrowing left no path through; windows within those of now have none either. */
static void states_close (States *states)
{
  guint n = 0;

  for (guint a = 0; a < states->n_open; a++) {
    guint32 i = states->open[a];

    if (states->early[i] <= states->late[i])
      states->open[n++] = i;
    else
      states->late[i] = -NEVER;
  }
  states->n_open = n;
}

/* Sets when the device can be at each state at the earliest. The lanes are copied, so that writing times does not make
 * the loop read them again. */
static void go_forth (States *states, const gint64 *start, const gint64 *end)
{
  guint first = 0, n_lanes = states->n_lanes, n_open = states->n_open;
  const guint32 *open = states->open;
  gint64 *early = states->early;
  Lane lanes[MAX_LANES];

  memcpy (lanes, states->lane, n_lanes * sizeof *lanes);
  while (open[first] < states->from)
    first++;
  for (guint a = first; a < n_open; a++)
    early[open[a]] = NEVER;
  early[states->from] = states->ready;
  for (guint a = first; a < n_open; a++) {
    guint32 i = open[a];
    gint64 at = early[i];
    guint64 key = states->key[i];
    const guint32 *child = states->child + (gsize)i * n_lanes;

    if (at == NEVER)
      continue;
    for (guint k = 0; k < n_lanes; k++) {
      guint window = lanes[k].first + n_done (&lanes[k], key);

      if (child[k] == 0)
        continue;
      gint64 ended = MAX (at, start[window]) + lanes[k].duration, before = early[child[k]];
      ended = ended <= end[window] ? ended : NEVER;
      early[child[k]] = MIN (before, ended);
    }
  }
}

/* Sets until when the device has to be at each state, and the windows of all steps that remain possible. */
static void go_back (States *states, const gint64 *start, const gint64 *end, gint64 *new_start, gint64 *new_end)
{
  guint n_lanes = states->n_lanes;
  const guint32 *open = states->open;
  gint64 *late = states->late;
  Lane lanes[MAX_LANES];

  memcpy (lanes, states->lane, n_lanes * sizeof *lanes);
  late[states->n_states - 1] = NEVER;
  for (guint a = states->n_open - 1; a-- > 0 && open[a] >= states->from;) {
    guint32 i = open[a];
    gint64 at = states->early[i], latest = -NEVER;
    guint64 key = states->key[i];
    const guint32 *child = states->child + (gsize)i * n_lanes;

    for (guint k = 0; k < n_lanes && at < NEVER; k++) {
      guint window = lanes[k].first + n_done (&lanes[k], key);

      if (child[k] == 0)
        continue;
      gint64 first_start = MAX (at, start[window]), last = MIN (late[child[k]], end[window]);
      if (first_start + lanes[k].duration > last)
        continue;
      latest = MAX (latest, last - lanes[k].duration);
      new_start[window] = MIN (new_start[window], first_start);
      new_end[window] = MAX (new_end[window], last);
    }
    late[i] = latest;
  }
}

/* Narrows windows, which are [n_windows]: the earliest start and the latest end of an op, of the ops after
 * states->from. FALSE: no order of the device keeps to them. */
static gboolean states_narrow (States *states, gint64 *start, gint64 *end)
{
  gsize size = states->n_windows * sizeof *start;
  g_autofree gint64 *new_start = g_memdup2 (start, size), *new_end = g_memdup2 (end, size);

  go_forth (states, start, end);
  if (states->early[states->n_states - 1] == NEVER)
    return FALSE;
  for (guint i = 0; i < states->n_lanes; i++)
    for (guint k = n_done (&states->lane[i], states->key[states->from]); k < states->lane[i].n; k++) {
      new_start[states->lane[i].first + k] = NEVER;
      new_end[states->lane[i].first + k] = -NEVER;
    }
  go_back (states, start, end, new_start, new_end);
  memcpy (start, new_start, size);
  memcpy (end, new_end, size);
  return TRUE;
}

/* Earliest starts of ops by longest paths, by the work before them, and by the memory that forwards need. */

/* Ops before another one that are looked at, from the latest back; more gain little. */
#define MAX_LOOK 512

/* The first ops of a chain, which all run before another op of the same device. */
typedef struct {
  guint chain;
  guint n;
} Part;

typedef struct {
  const PsProblem *problem;
  guint base;    /* stages below it may start at any time */
  gint64 *start; /* [n_ops] */
  gint64 *each;  /* [n_stages] most bytes that the B and W of a microbatch give back */
  gint64 *time;  /* [n_stages] in this time, backwards of the stage, or of lower ones of its device, give back.. */
  gint64 *bytes; /* [n_stages] ..at most these bytes; 0: none */
  Part *parts;   /* scratch, [2 * n_stages] */
} Earliest;

/* Takes a time in which bytes are given back over if it is faster than that of the stage. */
static void note_return (Earliest *earliest, guint stage, gint64 time, gint64 bytes)
{
  if (bytes <= 0
      || (earliest->bytes[stage] > 0 && (Wide)time * earliest->bytes[stage] >= (Wide)earliest->time[stage] * bytes))
    return;
  earliest->time[stage] = time;
  earliest->bytes[stage] = bytes;
}

/* Bytes come back by B alone, by B and W, or by the ops of a lower stage. */
static void set_return (Earliest *earliest, guint stage, guint below)
{
  const PsProblem *problem = earliest->problem;
  const gint64 *duration = problem->duration + (gsize)stage * N_KINDS;
  gint64 kept = ps_problem_kept (problem, stage, PS_OP_F), after_b = ps_problem_kept (problem, stage, PS_OP_B),
         after_w = ps_problem_kept (problem, stage, PS_OP_W);

  earliest->each[stage] = MAX (kept - MIN (after_b, after_w), 0);
  note_return (earliest, stage, duration[PS_OP_B], kept - after_b);
  note_return (earliest, stage, duration[PS_OP_B] + duration[PS_OP_W], kept - after_w);
  if (below != stage)
    note_return (earliest, stage, earliest->time[below], earliest->bytes[below]);
}

/* Least time in which backwards of the stage, or of lower ones of its device, give back `bytes`. */
static gint64 time_to_return (const Earliest *earliest, guint stage, gint64 bytes)
{
  return bytes > 0 && earliest->bytes[stage] > 0
             ? (gint64)((Wide)bytes * earliest->time[stage] / earliest->bytes[stage])
             : 0;
}

/* Least start of any op of the stage. */
static gint64 floor_of (const Earliest *earliest, guint stage)
{
  return stage < earliest->base ? -NEVER : 0;
}

/* The part with the latest last op; NULL: all are empty. */
static Part *latest (const Earliest *earliest, guint n_parts)
{
  Part *parts = earliest->parts, *latest = NULL;
  gint64 start = 0;

  for (guint i = 0; i < n_parts; i++) {
    gsize end = (gsize)parts[i].chain * earliest->problem->m + parts[i].n;

    if (parts[i].n == 0 || (latest != NULL && earliest->start[end - 1] <= start))
      continue;
    latest = &parts[i];
    start = earliest->start[end - 1];
  }
  return latest;
}

/* The least start of an op of a stage, if the parts run before it. From any moment on, the device has to run all of
 * their ops that start at that moment or later. Where `returns`, backwards only have to give back `need` bytes: the
 * earlier ones are free, and the later ones take their time. */
static gint64 start_after (const Earliest *earliest, guint stage, guint n_parts, gint64 need, gboolean returns)
{
  const PsProblem *problem = earliest->problem;
  const Part *parts = earliest->parts;
  gint64 least = floor_of (earliest, stage), work = 0, all = time_to_return (earliest, stage, need);

#define RETURNS(part) (returns && (part)->chain % N_KINDS == PS_OP_B)
  for (guint i = 0; i < n_parts; i++)
    if (RETURNS (&parts[i]))
      need -= parts[i].n * earliest->each[parts[i].chain / N_KINDS];
    else
      all += parts[i].n * problem->duration[parts[i].chain];
  for (guint i = 0; i < MAX_LOOK; i++) {
    Part *last = latest (earliest, n_parts);

    if (last == NULL)
      break;
    gint64 start = earliest->start[(gsize)last->chain * problem->m + --last->n];
    if (start + all <= least)
      break;
    if (RETURNS (last))
      need += earliest->each[last->chain / N_KINDS];
    else
      work += problem->duration[last->chain];
    if (work > 0 || need > 0)
      least = MAX (least, start + work + time_to_return (earliest, stage, need));
  }
#undef RETURNS
  return least;
}

/* Stages of the device and copy of a stage, in model order; returns how many. */
static guint list_stages (const PsProblem *problem, guint stage, const guint **stages)
{
  guint d = problem->device[stage], begin = problem->first_stage[d], end = problem->first_stage[d + 1];

  while (problem->stages[begin] / problem->n_copy_stages != stage / problem->n_copy_stages)
    begin++;
  while (problem->stages[end - 1] / problem->n_copy_stages != stage / problem->n_copy_stages)
    end--;
  *stages = problem->stages + begin;
  return end - begin;
}

/* A forward runs after those of its microbatch in lower stages and those before it, and has to find room. Only earlier
 * microbatches can have given back bytes of these. */
static gint64 forward_start (const Earliest *earliest, guint stage, guint k)
{
  const PsProblem *problem = earliest->problem;
  gint64 limit = problem->asked[problem->device[stage]], need = problem->take[stage * N_KINDS];
  const guint *stages;
  guint n = list_stages (problem, stage, &stages), n_parts = 0;

  for (guint i = 0; i < n && stages[i] <= stage; i++) {
    guint done = k + (stages[i] < stage);

    earliest->parts[n_parts++] = (Part){ stages[i] * N_KINDS + PS_OP_F, done };
    earliest->parts[n_parts++] = (Part){ stages[i] * N_KINDS + PS_OP_B, k - k % problem->n_slices };
    need += done * ps_problem_kept (problem, stages[i], PS_OP_F);
  }
  need -= limit == G_MAXINT64 ? limit / 2 : limit - problem->held[problem->device[stage]];
  return start_after (earliest, stage, n_parts, MAX (need, 0), TRUE);
}

/* A B runs after all forwards of its microbatch, its B in higher stages, and those before it. */
static gint64 backward_start (const Earliest *earliest, guint stage, guint k)
{
  const PsProblem *problem = earliest->problem;
  const guint *stages;
  guint n = list_stages (problem, stage, &stages), n_parts = 0;

  for (guint i = 0; i < n; i++) {
    earliest->parts[n_parts++] = (Part){ stages[i] * N_KINDS + PS_OP_F, k - k % problem->n_slices + problem->n_slices };
    if (stages[i] >= stage)
      earliest->parts[n_parts++] = (Part){ stages[i] * N_KINDS + PS_OP_B, k + (stages[i] > stage) };
  }
  return start_after (earliest, stage, n_parts, 0, FALSE);
}

/* The start of an op, `least` or later, after the op before it in its chain has ended, unless it is the first, and
 * after its producer's result has arrived. start: [n_ops] */
static inline gint64 after_inputs (const PsProblem *problem, const gint64 *start, guint chain, guint op, gint64 least)
{
  guint producer = producer_of (problem, op);

  if (op > chain * problem->m)
    least = MAX (least, start[op - 1] + problem->duration[chain]);
  if (producer != NO_OP)
    least = MAX (least, start[producer] + problem->duration[chain_of (problem, producer)] + problem->lag[chain]);
  return least;
}

/* Sets the start of an op after its inputs, and what is known of its device. */
static void set_start (const Earliest *earliest, guint stage, guint kind, guint k)
{
  const PsProblem *problem = earliest->problem;
  guint op = op_at (problem, stage, kind, k);
  gint64 start = after_inputs (problem, earliest->start, stage * N_KINDS + kind, op, floor_of (earliest, stage));

  if (kind != PS_OP_W)
    start = MAX (start, kind == PS_OP_F ? forward_start (earliest, stage, k) : backward_start (earliest, stage, k));
  earliest->start[op] = start;
}

/* Sets the earliest starts of a problem without joins: [n_ops]. Each follows from longest paths, the work before it on
 * its device, and the memory that earlier microbatches must have given back. The first F of stage `base` is at 0 or
 * later; stages below it may have run before. */
static void set_earliest_starts (const PsProblem *problem, guint base, gint64 *start)
{
  guint n = problem->n_stages, q = problem->n_slices;
  g_autofree gint64 *each = g_new0 (gint64, n), *time = g_new0 (gint64, n), *bytes = g_new0 (gint64, n);
  g_autofree Part *parts = g_new (Part, 2 * (gsize)n);
  Earliest earliest = { problem, base, start, each, time, bytes, parts };

  for (guint s = 0; s < n; s++) {
    const guint *stages;
    guint n_stages = list_stages (problem, s, &stages), below = s;

    for (guint i = 0; i < n_stages && stages[i] < s; i++)
      below = stages[i];
    set_return (&earliest, s, below);
  }
  for (guint first = 0; first < problem->m; first += q) {
    for (guint i = 0; i < n * q; i++)
      set_start (&earliest, i / q, PS_OP_F, first + i % q);
    for (guint i = 0; i < n * q; i++) {
      set_start (&earliest, n - 1 - i / q, PS_OP_B, first + i % q);
      set_start (&earliest, n - 1 - i / q, PS_OP_W, first + i % q);
    }
  }
}

/* Passes over a device for one target, at most; later ones gain little. */
#define MAX_ROUNDS 60

/* Most windows that a trail keeps. */
#define MAX_TRAIL 4000000

/* Ops times devices, at most, for which spans have starts by work and memory: they differ from device to device. */
#define MAX_SPAN_STARTS 500000

static void windows_open (PsWindows *windows, guint span_of, gint64 target)
{
  const PsProblem *problem = windows->problem;
  gboolean spans = span_of < problem->n_devices;
  /* the lowest stage of the device: its first op is that stage's first forward */
  guint base = spans ? problem->stages[problem->first_stage[span_of]] : 0;

  if (windows->earliest != NULL && windows->earliest_of != span_of)
    set_earliest_starts (problem, base, windows->earliest);
  windows->earliest_of = span_of;
  windows->span_of = span_of;
  windows->is_new = TRUE;
  windows->target = target;
  windows->mark = 0;
  if (windows->trail != NULL) {
    g_array_set_size (windows->trail, 0);
    memset (windows->noted, 0, problem->n_ops * sizeof *windows->noted);
  }
  for (guint d = 0; d < problem->n_devices && windows->states != NULL; d++) {
    windows->n_fixed[d] = 0;
    windows->touched[d] = TRUE;
    if (windows->states[d] == NULL)
      continue;
    windows->states[d]->from = 0;
    states_open (windows->states[d]);
  }
  for (guint i = 0; i < problem->n_ops; i++) {
    windows->start[i] = spans && chain_of (problem, i) / N_KINDS < base ? -NEVER : 0;
    if (windows->earliest != NULL)
      windows->start[i] = windows->earliest[i];
    windows->end[i] = counts (windows, device_of (problem, i)) ? target : NEVER;
  }
}

/* Puts the window of an op into the trail, unless it is there since the last mark. */
static void note (PsWindows *windows, guint op)
{
  const WindowBefore before = { op, windows->start[op], windows->end[op] };

  if (windows->noted[op] == windows->mark)
    return;
  windows->noted[op] = windows->mark;
  g_array_append_val (windows->trail, before);
}

/* Narrows the window of one op. */
static void windows_limit (PsWindows *windows, guint op, gint64 start, gint64 end)
{
  if (start <= windows->start[op] && end >= windows->end[op])
    return;
  if (windows->mark > 0)
    note (windows, op);
  windows->start[op] = MAX (windows->start[op], start);
  windows->end[op] = MIN (windows->end[op], end);
  if (windows->touched != NULL)
    windows->touched[device_of (windows->problem, op)] = TRUE;
}

/* Marks the windows, once they are narrowed; returns a place of the trail, to bring them back to. */
static guint windows_mark (PsWindows *windows)
{
  windows->mark++;
  return windows->trail->len;
}

static void windows_undo (PsWindows *windows, guint place)
{
  while (windows->trail->len > place) {
    WindowBefore before = g_array_index (windows->trail, WindowBefore, windows->trail->len - 1);

    windows->start[before.op] = before.start;
    windows->end[before.op] = before.end;
    g_array_set_size (windows->trail, windows->trail->len - 1);
  }
  windows->mark++;
  memset (windows->touched, 0, windows->problem->n_devices);
}

static void spread_starts_of (PsWindows *windows, guint chain)
{
  const PsProblem *problem = windows->problem;
  guint first = chain * problem->m;

  for (guint i = first; i < first + problem->m; i++)
    windows_limit (windows, i, after_inputs (problem, windows->start, chain, i, windows->start[i]), NEVER);
}

static void spread_ends_of (PsWindows *windows, guint chain)
{
  const PsProblem *problem = windows->problem;
  guint first = chain * problem->m, consumer[2];

  for (guint i = first + problem->m; i-- > first;) {
    gint64 end = windows->end[i];

    if (i + 1 < first + problem->m)
      end = MIN (end, windows->end[i + 1] - problem->duration[chain]);
    for (guint k = consumers_of (problem, i, consumer); k-- > 0;)
      end = MIN (end, windows->end[consumer[k]] - problem->duration[chain_of (problem, consumer[k])]
                          - problem->lag[chain_of (problem, consumer[k])]);
    windows_limit (windows, i, -NEVER, end);
  }
}

static void spread_ends (PsWindows *windows)
{
  guint n = windows->problem->n_stages;

  for (guint s = 0; s < n; s++) {
    spread_ends_of (windows, s * N_KINDS + PS_OP_W);
    spread_ends_of (windows, s * N_KINDS + PS_OP_B);
  }
  for (guint s = n; s-- > 0;)
    spread_ends_of (windows, s * N_KINDS + PS_OP_F);
}

static gboolean spread (PsWindows *windows)
{
  const PsProblem *problem = windows->problem;
  guint n = problem->n_stages;

  for (guint s = 0; s < n; s++)
    spread_starts_of (windows, s * N_KINDS + PS_OP_F);
  for (guint s = n; s-- > 0;) {
    spread_starts_of (windows, s * N_KINDS + PS_OP_B);
    spread_starts_of (windows, s * N_KINDS + PS_OP_W);
  }
  spread_ends (windows);
  for (guint i = 0; i < problem->n_ops; i++)
    if (windows->start[i] + problem->duration[chain_of (problem, i)] > windows->end[i])
      return FALSE;
  return TRUE;
}

/* Copies the windows of a lane's ops. Those of several chains are sorted: its k-th op neither starts before the k-th
 * smallest start nor ends after the k-th smallest end. */
static void fill_lane (PsWindows *windows, const Lane *lane)
{
  guint m = windows->problem->m;
  gint64 *start = windows->lane_start + lane->first, *end = windows->lane_end + lane->first;

  for (guint i = 0; i < lane->n_chains; i++) {
    memcpy (start + i * m, windows->start + lane->chain[i] * m, m * sizeof *start);
    memcpy (end + i * m, windows->end + lane->chain[i] * m, m * sizeof *end);
  }
  if (lane->n_chains == 1)
    return;
  qsort (start, lane->n, sizeof *start, ps_compare_int64);
  qsort (end, lane->n, sizeof *end, ps_compare_int64);
}

/* Ops that are fixed follow each other; the device is at its state when the last one ends. */
static void limit_fixed_starts (PsWindows *windows, guint device)
{
  const PsProblem *problem = windows->problem;
  const guint32 *fixed = windows->fixed + problem->first[device];
  gint64 ready = -NEVER;

  for (guint i = 0; i < windows->n_fixed[device]; i++) {
    windows_limit (windows, fixed[i], ready, NEVER);
    ready = windows->start[fixed[i]] + problem->duration[chain_of (problem, fixed[i])];
  }
  windows->states[device]->ready = ready;
}

/* The device has to be at its state by `late`. */
static void limit_fixed_ends (PsWindows *windows, guint device, gint64 late)
{
  const PsProblem *problem = windows->problem;
  const guint32 *fixed = windows->fixed + problem->first[device];

  for (guint i = windows->n_fixed[device]; i-- > 0;) {
    windows_limit (windows, fixed[i], -NEVER, late);
    late = windows->end[fixed[i]] - problem->duration[chain_of (problem, fixed[i])];
  }
}

/* Narrows the windows of one device. FALSE: no order of it is left. */
static gboolean narrow_device (PsWindows *windows, guint device)
{
  States *states = windows->states[device];
  guint m = windows->problem->m;

  limit_fixed_starts (windows, device);
  for (guint i = 0; i < states->n_lanes; i++)
    fill_lane (windows, &states->lane[i]);
  if (!states_narrow (states, windows->lane_start, windows->lane_end))
    return FALSE;
  for (guint i = 0; i < states->n_lanes; i++)
    for (guint k = 0; k < m && states->lane[i].n_chains == 1; k++)
      windows_limit (windows, states->lane[i].chain[0] * m + k, windows->lane_start[states->lane[i].first + k],
                     windows->lane_end[states->lane[i].first + k]);
  limit_fixed_ends (windows, device, states->late[states->from]);
  windows->touched[device] = FALSE;
  return TRUE;
}

/* Narrows until nothing changes. FALSE: the windows prove that no order meets the target. */
static gboolean windows_narrow (PsWindows *windows)
{
  guint n = windows->problem->n_devices, idle = 0;

  if (!spread (windows))
    return FALSE;
  /* Up, then down, and again, because windows narrow along the pipeline. */
  for (guint i = 0; i < MAX_ROUNDS * n && idle < n; i++) {
    guint d = i / n % 2 == 0 ? n - 1 - i % n : i % n;

    idle++;
    if (!windows->touched[d] || windows->states[d] == NULL)
      continue;
    windows->stopped |= !windows->go_on (windows->data) || windows->trail->len > MAX_TRAIL;
    if (windows->stopped)
      return TRUE;
    if (!narrow_device (windows, d) || !spread (windows))
      return FALSE;
    idle = 0;
  }
  for (guint d = 0; d < n && windows->is_new; d++)
    if (windows->states[d] != NULL)
      states_close (windows->states[d]);
  windows->is_new = FALSE;
  return TRUE;
}

guint64 ps_windows_steps (const PsWindows *windows)
{
  guint64 n = 0;

  for (guint d = 0; d < windows->problem->n_devices; d++)
    if (windows->states[d] != NULL)
      n += (guint64)windows->states[d]->n_states * windows->states[d]->n_lanes;
  return n / MAX (windows->problem->n_devices, 1);
}

static gboolean has_earliest_starts (const PsProblem *problem)
{
  return problem->objective == PS_OBJECTIVE_MAKESPAN || problem->n_ops <= MAX_SPAN_STARTS / problem->n_devices;
}

PsWindows *ps_windows_new (const PsProblem *problem, guint max_states)
{
  g_autoptr (PsWindows) windows = g_new0 (PsWindows, 1);
  GPtrArray *owned = g_ptr_array_new_with_free_func (g_free);
  gboolean helps = FALSE;

  windows->problem = problem;
  windows->owned = owned;
  windows->open = NEVER;
  windows->states = PS_OWN_NEW (owned, States *, problem->n_devices);
  if (problem->joins || (problem->n_copies > 1 && problem->objective == PS_OBJECTIVE_SPAN))
    return NULL;
  for (guint d = 0; d < problem->n_devices; d++) {
    windows->states[d] = states_new (problem, d, problem->asked[d], max_states / problem->n_devices);
    helps |= windows->states[d] != NULL;
  }
  if (has_earliest_starts (problem))
    windows->earliest = PS_OWN_NEW (owned, gint64, problem->n_ops);
  windows->earliest_of = G_MAXUINT;
  windows->start = PS_OWN_NEW (owned, gint64, problem->n_ops);
  windows->end = PS_OWN_NEW (owned, gint64, problem->n_ops);
  windows->trail = g_array_new (FALSE, FALSE, sizeof (WindowBefore));
  windows->noted = PS_OWN_NEW (owned, guint32, problem->n_ops);
  windows->lane_start = PS_OWN_NEW (owned, gint64, problem->n_ops);
  windows->lane_end = PS_OWN_NEW (owned, gint64, problem->n_ops);
  windows->fixed = PS_OWN_NEW (owned, guint32, problem->n_ops);
  windows->n_fixed = PS_OWN_NEW (owned, guint32, problem->n_devices);
  windows->touched = PS_OWN_NEW (owned, guint8, problem->n_devices);
  return helps ? g_steal_pointer (&windows) : NULL;
}

void ps_windows_free (PsWindows *windows)
{
  if (windows == NULL)
    return;
  for (guint d = 0; d < windows->problem->n_devices; d++)
    states_free (windows->states[d]);
  g_clear_pointer (&windows->trail, g_array_unref);
  g_ptr_array_unref (windows->owned);
  g_free (windows);
}

/* Depth-first search over the windows of ops: fixes the next op of one device after the other. */

/* How far the rank of a step goes from the middle of its window, in windows. */
#define NOISE 0.5

typedef struct {
  PsWindows *windows;
  const PsDescent *descent;
  guint n_fails;
} Search;

/* A step of a device that its windows leave open. */
typedef struct {
  guint32 child;
  guint lane;
  double rank;
} Step;

/* The state after one more op of a lane; 0: it cannot follow. */
static guint32 child_of (const States *states, guint lane)
{
  return states->child[states->from * states->n_lanes + lane];
}

PS_DEFINE_ORDER (compare_ranks, Step, rank)

/* The next op of a lane: of several W, any whose B is done. */
static guint next_op (const PsWindows *windows, guint device, const Lane *lane)
{
  const PsProblem *problem = windows->problem;
  const guint32 *fixed = windows->fixed + problem->first[device];
  guint n = windows->n_fixed[device];

  for (guint i = 0; i < lane->n_chains; i++) {
    guint chain = lane->chain[i], done = 0, ahead = 0;

    for (guint k = 0; k < n; k++) {
      done += chain_of (problem, fixed[k]) == chain;
      ahead += chain_of (problem, fixed[k]) + 1 == chain;
    }
    if (lane->n_chains == 1 || ahead > done)
      return chain * problem->m + done;
  }
  g_return_val_if_reached (0);
}

/* Lists the steps that the device's windows leave open, best first: those that have to come soon and can. */
static guint list_steps (Search *search, guint device, Step *steps)
{
  PsWindows *windows = search->windows;
  const States *states = windows->states[device];
  guint n = 0;

  for (guint i = 0; i < states->n_lanes; i++) {
    Step step = { .child = child_of (states, i), .lane = i };
    const Lane *lane = &states->lane[i];

    if (step.child == 0)
      continue;
    guint op = next_op (windows, device, lane);
    gint64 first = MAX (states->ready, windows->start[op]), last = MIN (states->late[step.child], windows->end[op]);

    if (first + lane->duration > last)
      continue;
    last -= lane->duration;
    step.rank = (double)first + (double)(last - first) * (0.5 + NOISE * ps_random_unit (search->descent->random));
    steps[n++] = step;
  }
  qsort (steps, n, sizeof *steps, compare_ranks);
  return n;
}

/* The device whose next op can end first; n_devices: all ops are fixed. */
static guint choose_device (const PsWindows *windows)
{
  guint best = windows->problem->n_devices;
  gint64 least = G_MAXINT64;

  for (guint d = 0; d < windows->problem->n_devices; d++) {
    const States *states = windows->states[d];

    for (guint i = 0; i < states->n_lanes && states->from + 1 < states->n_states; i++) {
      if (child_of (states, i) == 0)
        continue;
      gint64 start = windows->start[next_op (windows, d, &states->lane[i])];
      gint64 end = MAX (states->ready, start) + states->lane[i].duration;
      if (end < least) {
        least = end;
        best = d;
      }
    }
  }
  return best;
}

static PsDescended accept (const Search *search)
{
  PsOrder *order = search->descent->order;

  ps_order_fill (order, search->windows->fixed);
  return ps_order_evaluate (order) && order->excess == 0 && order->objective <= search->descent->target
             ? PS_DESCENDED_FOUND
             : PS_DESCENDED_STOPPED;
}

static PsDescended explore (Search *search);

static PsDescended try_step (Search *search, guint device, const Step *step)
{
  PsWindows *windows = search->windows;
  States *states = windows->states[device];
  guint32 from = states->from;
  guint place = windows_mark (windows);
  PsDescended result;

  windows->fixed[windows->problem->first[device] + windows->n_fixed[device]]
      = next_op (windows, device, &states->lane[step->lane]);
  windows->n_fixed[device]++;
  states->from = step->child;
  windows->touched[device] = TRUE;
  result = explore (search);
  states->from = from;
  windows->n_fixed[device]--;
  windows_undo (windows, place);
  return result;
}

static PsDescended explore (Search *search)
{
  PsWindows *windows = search->windows;
  PsDescended result = PS_DESCENDED_REFUTED;
  gboolean open = windows_narrow (windows);
  guint device = open ? choose_device (windows) : 0, n;
  Step steps[MAX_LANES];

  if (open && device == windows->problem->n_devices)
    return windows->stopped ? PS_DESCENDED_STOPPED : accept (search);
  /* The states of a device are those of its last pass, which may have been for a step that was undone. */
  windows->touched[device] = TRUE;
  if (!open || !windows_narrow (windows))
    return search->n_fails++ < search->descent->max_fails ? PS_DESCENDED_REFUTED : PS_DESCENDED_STOPPED;
  if (windows->stopped)
    return PS_DESCENDED_STOPPED;
  n = list_steps (search, device, steps);
  for (guint i = 0; i < n && result == PS_DESCENDED_REFUTED; i++)
    result = try_step (search, device, &steps[i]);
  return result;
}

/* Descends from the windows as they are. */
static PsDescended windows_explore (PsWindows *windows, const PsDescent *descent)
{
  Search search = { .windows = windows, .descent = descent };

  return explore (&search);
}

gboolean ps_windows_can_descend (const PsWindows *windows)
{
  for (guint d = 0; d < windows->problem->n_devices; d++)
    if (windows->states[d] == NULL)
      return FALSE;
  return windows->problem->objective == PS_OBJECTIVE_MAKESPAN && windows->problem->n_slices == 1;
}

PsDescended ps_windows_descend (PsWindows *windows, const PsDescent *descent)
{
  windows->go_on = descent->go_on;
  windows->data = descent->data;
  windows->stopped = FALSE;
  windows_open (windows, windows->problem->n_devices, descent->target);
  return windows_explore (windows, descent);
}

/* Refutes targets, by narrowing or by cases: the F of a microbatch in its last stage runs before a moment, or after it.
 */

/* The part of a window that is tried as a case, at each of its ends: 1 / SHAVED_PART. */
#define SHAVED_PART 8

/* Dead ends of a descent until it stops. */
#define MAX_FAILS 20

typedef struct {
  PsWindows *windows;
  guint n_cases;   /* left */
  gboolean shaved; /* some window, in the sweep under way */
  PsOrder *order;  /* takes better ones; NULL: none is wanted */
} Cases;

static gboolean may_go_on (const Cases *cases)
{
  return cases->n_cases > 0 && !cases->windows->stopped;
}

/* How far an op can move. 0 if nothing is known of its start, or of its end, because the span of another device counts.
 */
static gint64 room_of (const PsWindows *windows, guint op)
{
  if (windows->start[op] < 0 || windows->end[op] > windows->target)
    return 0;
  return windows->end[op] - windows->start[op] - windows->problem->duration[chain_of (windows->problem, op)];
}

/* The F of a microbatch in the last stage of its copy: microbatches of both copies alternate. */
static guint last_forward (const PsProblem *problem, guint i)
{
  guint copy = i % problem->n_copies;

  return op_at (problem, (copy + 1) * problem->n_copy_stages - 1, PS_OP_F, i / problem->n_copies);
}

/* The last forward with the widest window; n_ops: none has room to move. */
static guint widest_forward (const PsWindows *windows)
{
  const PsProblem *problem = windows->problem;
  guint best = problem->n_ops;
  gint64 most = 0;

  for (guint i = 0; i < problem->m * problem->n_copies; i++) {
    guint op = last_forward (problem, i);

    if (room_of (windows, op) <= most)
      continue;
    most = room_of (windows, op);
    best = op;
  }
  return best;
}

/* Cuts a part off the window of an op, at the front or at the back, as often as narrowing refutes that the op runs
 * there. TRUE: the target is refuted. */
static gboolean shave_end (Cases *cases, guint op, gboolean front)
{
  PsWindows *windows = cases->windows;
  gint64 time = windows->problem->duration[chain_of (windows->problem, op)];

  while (may_go_on (cases) && room_of (windows, op) > 0) {
    gint64 part = room_of (windows, op) / SHAVED_PART, start = windows->start[op], end = windows->end[op];
    guint place = windows_mark (windows);
    gboolean refuted;

    cases->n_cases--;
    windows_limit (windows, op, front ? start : end - part - time, front ? start + part + time : end);
    refuted = !windows_narrow (windows);
    windows_undo (windows, place);
    if (!refuted)
      return FALSE;
    cases->shaved = TRUE;
    windows_limit (windows, op, front ? start + part + 1 : start, front ? end : end - part - 1);
    if (!windows_narrow (windows))
      return TRUE;
  }
  return FALSE;
}

/* Shaves the windows of all last forwards: starts up the microbatches, ends down. TRUE: the target is refuted. */
static gboolean shave (Cases *cases)
{
  const PsProblem *problem = cases->windows->problem;
  guint n = problem->m * problem->n_copies;

  do {
    cases->shaved = FALSE;
    for (guint i = 0; i < 2 * n; i++)
      if (shave_end (cases, last_forward (problem, i < n ? i : 2 * n - 1 - i), i < n))
        return TRUE;
  } while (may_go_on (cases) && cases->shaved);
  return FALSE;
}

/* Looks for an order where no last forward can move. TRUE: there is none. */
static gboolean finish (Cases *cases)
{
  PsWindows *windows = cases->windows;
  g_autoptr (PsOrder) order = ps_order_new (windows->problem);
  PsRandom random = { 0 };
  const PsDescent descent = { .order = order, .target = windows->target, .max_fails = MAX_FAILS, .random = &random };
  PsDescended result = ps_windows_can_descend (windows) ? windows_explore (windows, &descent) : PS_DESCENDED_STOPPED;

  if (result == PS_DESCENDED_FOUND && cases->order != NULL && order->objective < cases->order->objective)
    ps_order_assign (cases->order, order);
  return result == PS_DESCENDED_REFUTED;
}

/* Narrows the windows, and splits them into cases. TRUE: each case is refuted. */
static gboolean split (Cases *cases, gboolean is_first)
{
  PsWindows *windows = cases->windows;

  if (!windows_narrow (windows) || (is_first && cases->n_cases > 0 && shave (cases)))
    return TRUE;
  if (!may_go_on (cases))
    return FALSE;
  guint op = widest_forward (windows);

  if (op == windows->problem->n_ops)
    return finish (cases);
  gint64 half = windows->start[op] + room_of (windows, op) / 2;
  guint place = windows_mark (windows);
  gboolean refuted;

  cases->n_cases--;
  windows_limit (windows, op, windows->start[op], half + windows->problem->duration[chain_of (windows->problem, op)]);
  refuted = split (cases, FALSE);
  windows_undo (windows, place);
  if (!refuted)
    return FALSE;
  windows_limit (windows, op, half + 1, windows->end[op]);
  return split (cases, FALSE);
}

/* Whether no order meets the target: of all devices, or of the span of one, first the one that refuted the last target.
 */
static gboolean refute (PsWindows *windows, gint64 target, guint n_cases, PsOrder *order)
{
  guint n = windows->problem->n_devices;
  gboolean spans = windows->problem->objective == PS_OBJECTIVE_SPAN;

  for (guint i = 0; i < (spans ? n : 1) && !windows->stopped; i++) {
    guint d = spans ? (windows->refuter + i) % n : n;
    Cases cases = { .windows = windows, .n_cases = n_cases, .order = order };

    windows_open (windows, d, target);
    if (!split (&cases, TRUE))
      continue;
    windows->refuter = d;
    return TRUE;
  }
  return FALSE;
}

gint64 ps_windows_bound (PsWindows *windows, gint64 lower, gint64 upper, guint n_cases, PsOrder *order,
                         gboolean (*go_on) (gpointer data), gpointer data)
{
  gint64 least, target, step;

  if (n_cases > windows->n_cases)
    windows->open = NEVER;
  windows->n_cases = n_cases;
  upper = MIN (upper, windows->open);
  least = MAX ((upper - lower) / 128, 1);
  /* Narrowing takes as long for all targets; cases go on from targets that few of them refute. */
  step = n_cases == 0 ? upper - 1 - lower : (upper - lower) / 16;
  target = lower + step;
  windows->go_on = go_on;
  windows->data = data;
  windows->stopped = FALSE;
  while (upper - lower >= least && lower <= target) {
    gboolean refuted = refute (windows, target, n_cases, order);

    if (!refuted && windows->stopped)
      break;
    if (refuted)
      lower = target + 1;
    else
      upper = windows->open = target;
    if (order != NULL)
      upper = MIN (upper, order->objective);
    step = MIN (refuted && n_cases > 0 ? 2 * step + 1 : upper - lower, (upper - lower) / 2);
    target = lower + step;
  }
  return lower;
}

/* A bound before any target is known: each device for itself, preempted at will. */

/* Ops of a device, as Jackson's rule takes them. */
typedef struct {
  gint64 release;
  gint64 tail;
  gint64 left;
} Job;

PS_DEFINE_ORDER (compare_releases, Job, release)

/* The longest tail runs first, until it ends or another job arrives. Returns the largest end plus tail. */
static gint64 jackson (Job *jobs, guint n)
{
  gint64 now = -NEVER, longest = 0;
  g_auto (PsLeast) waiting = { 0 }; /* -tail of those that have arrived */

  ps_least_init (&waiting, n);
  qsort (jobs, n, sizeof *jobs, compare_releases);
  for (guint next = 0;;) {
    guint job = ps_least_find (&waiting);

    if (job == G_MAXUINT && next == n)
      return longest;
    if (job == G_MAXUINT)
      now = MAX (now, jobs[next].release);
    for (; next < n && jobs[next].release <= now; next++)
      ps_least_set (&waiting, next, -jobs[next].tail);
    job = ps_least_find (&waiting);
    gint64 run = next < n ? MIN (jobs[job].left, jobs[next].release - now) : jobs[job].left;
    now += run;
    jobs[job].left -= run;
    if (jobs[job].left > 0)
      continue;
    longest = MAX (longest, now + jobs[job].tail);
    ps_least_set (&waiting, job, G_MAXINT64);
  }
}

static gint64 device_bound (const PsWindows *windows, guint device, Job *jobs)
{
  const PsProblem *problem = windows->problem;
  guint n = 0;

  for (guint i = problem->first_stage[device] * N_KINDS; i < problem->first_stage[device + 1] * N_KINDS; i++)
    for (guint k = 0; k < problem->m; k++) {
      guint chain = problem->stages[i / N_KINDS] * N_KINDS + i % N_KINDS, op = chain * problem->m + k;

      jobs[n++] = (Job){ windows->start[op], -windows->end[op], problem->duration[chain] };
    }
  return n > 0 ? jackson (jobs, n) : 0;
}

gint64 ps_one_machine_bound (const PsProblem *problem)
{
  g_autofree Job *jobs = g_new (Job, problem->n_ops);
  g_autofree gint64 *start = g_new0 (gint64, problem->n_ops), *end = g_new0 (gint64, problem->n_ops),
                    *earliest = g_new (gint64, problem->n_ops);
  gboolean spans = problem->objective == PS_OBJECTIVE_SPAN;
  PsWindows windows = { .problem = problem,
                        .earliest = has_earliest_starts (problem) ? earliest : NULL,
                        .earliest_of = G_MAXUINT,
                        .start = start,
                        .end = end };
  guint n = problem->n_devices;
  gint64 bound = 0;

  if (problem->joins || (problem->n_copies > 1 && spans))
    return 0;
  for (guint d = 0; d < n; d++) {
    if (d == 0 || spans) {
      windows_open (&windows, spans ? d : n, 0);
      spread (&windows);
    }
    if (problem->first_stage[d + 1] == problem->first_stage[d])
      continue;
    bound = MAX (bound, device_bound (&windows, d, jobs));
  }
  return bound;
}
