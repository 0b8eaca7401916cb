/* states.c - the states of one device. */
#include "states.h"

#include <string.h>

/* Stages of a device, at most: PsLane.needs has a bit for each F and each B. */
#define MAX_STAGES (PS_MAX_LANES / N_KINDS)

/* States while they are listed. */
typedef struct
{
  const PsProblem *problem;
  PsStates *states;
  gint64 room; /* bytes beside the weights */
  guint max_states;
  guint32 *slot; /* hash table of states, 0: empty */
  guint32 mask;
  GArray *key;
  GArray *child;
} Listing;

static void
listing_clear (Listing *listing)
{
  g_free (listing->slot);
  g_array_unref (listing->key);
  g_array_unref (listing->child);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Listing, listing_clear)

static gboolean
costs_equal (const PsProblem *problem, guint a, guint b)
{
  return problem->duration[a] == problem->duration[b] && problem->take[a] == problem->take[b]
         && problem->give[a] == problem->give[b];
}

/* Adds a chain to a lane of W with its costs, or as a lane of its own. `needs` are the lanes ahead of it. */
static void
add_chain (PsStates *states, const PsProblem *problem, guint chain, guint needs)
{
  PsLane *lane = NULL;

  for (guint i = 0; i < states->n_lanes && chain % N_KINDS == PS_OP_W; i++)
    if (states->lane[i].chain[0] % N_KINDS == PS_OP_W && costs_equal (problem, states->lane[i].chain[0], chain))
      lane = &states->lane[i];
  if (lane == NULL)
    {
      lane = &states->lane[states->n_lanes++];
      *lane = (PsLane){ .duration = problem->duration[chain],
                        .take = problem->take[chain],
                        .give = problem->give[chain],
                        .chain = g_new (guint, problem->n_stages) };
    }
  lane->chain[lane->n_chains++] = chain;
  lane->n += problem->m;
  lane->needs |= needs;
}

/* Lanes of forwards up the stages, of backwards, then of W. FALSE: a key has no room for them. */
static gboolean
set_lanes (PsStates *states, const PsProblem *problem, guint device)
{
  guint begin = problem->first_stage[device], n = problem->first_stage[device + 1] - begin;
  guint shift = 0;

  states->lane = g_new0 (PsLane, (gsize)n * N_KINDS);
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
  for (guint i = 0; i < states->n_lanes; i++)
    {
      states->lane[i].shift = shift;
      states->lane[i].mask = (1U << g_bit_storage (states->lane[i].n)) - 1;
      states->lane[i].first = states->n_windows;
      shift += g_bit_storage (states->lane[i].n);
      states->n_windows += states->lane[i].n;
    }
  return shift <= 64;
}

/* Whether one more op of a lane can follow a state. */
static gboolean
may_follow (const Listing *listing, guint64 key, const PsLane *lane, gint64 level)
{
  const PsStates *states = listing->states;
  guint done = n_done (lane, key), ahead = 0;
  gboolean together = lane->chain[0] % N_KINDS == PS_OP_W;

  if (done == lane->n || level + lane->take > listing->room)
    return FALSE;
  for (guint i = 0; i < states->n_lanes; i++)
    if (lane->needs >> i & 1)
      {
        ahead += n_done (&states->lane[i], key);
        if (!together && n_done (&states->lane[i], key) <= done)
          return FALSE;
      }
  return !together || ahead > done;
}

/* The index of a state, which is added if it is new. */
static guint32
index_of (Listing *listing, guint64 key)
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

static void
list_children (Listing *listing, guint64 key)
{
  PsStates *states = listing->states;
  gint64 level = 0;

  for (guint i = 0; i < states->n_lanes; i++)
    level += (states->lane[i].take - states->lane[i].give) * n_done (&states->lane[i], key);
  for (guint i = 0; i < states->n_lanes; i++)
    {
      const PsLane *lane = &states->lane[i];
      guint32 child
          = may_follow (listing, key, lane, level) ? index_of (listing, key + ((guint64)1 << lane->shift)) : 0;

      g_array_append_val (listing->child, child);
    }
}

/* Lists the states, those with fewer ops first. FALSE: they are too many, or do not lead to the end. */
static gboolean
list_states (Listing *listing)
{
  PsStates *states = listing->states;
  guint64 none = 0, all = 0;

  for (guint i = 0; i < states->n_lanes; i++)
    all += (guint64)states->lane[i].n << states->lane[i].shift;
  g_array_append_val (listing->key, none);
  for (guint i = 0; i < listing->key->len && listing->key->len <= listing->max_states; i++)
    list_children (listing, g_array_index (listing->key, guint64, i));
  states->n_states = listing->key->len;
  return states->n_states <= listing->max_states && g_array_index (listing->key, guint64, states->n_states - 1) == all;
}

PsStates *
ps_states_new (const PsProblem *problem, guint device, gint64 limit, guint max_states)
{
  g_autoptr (PsStates) states = g_new0 (PsStates, 1);
  g_auto (Listing) listing = { .problem = problem,
                               .states = states,
                               .room = limit == G_MAXINT64 ? limit / 2 : limit - problem->held[device],
                               .max_states = max_states,
                               .mask = (1U << (g_bit_storage (max_states) + 2)) - 1 };

  listing.slot = g_new0 (guint32, (gsize)listing.mask + 1);
  listing.key = g_array_new (FALSE, FALSE, sizeof (guint64));
  listing.child = g_array_new (FALSE, FALSE, sizeof (guint32));
  if (!set_lanes (states, problem, device) || !list_states (&listing))
    return NULL;
  states->key = (guint64 *)(void *)g_array_steal (listing.key, NULL);
  states->child = (guint32 *)(void *)g_array_steal (listing.child, NULL);
  states->open = g_new (guint32, states->n_states);
  states->early = g_new (gint64, states->n_states);
  states->late = g_new (gint64, states->n_states);
  states->ready = -NEVER;
  ps_states_open (states);
  return g_steal_pointer (&states);
}

void
ps_states_free (PsStates *states)
{
  if (states == NULL)
    return;
  for (guint i = 0; i < states->n_lanes; i++)
    g_free (states->lane[i].chain);
  g_free (states->lane);
  g_free (states->key);
  g_free (states->child);
  g_free (states->open);
  g_free (states->early);
  g_free (states->late);
  g_free (states);
}

void
ps_states_open (PsStates *states)
{
  states->n_open = states->n_states;
  for (guint i = 0; i < states->n_states; i++)
    states->open[i] = i;
}

void
ps_states_close (PsStates *states)
{
  guint n = 0;

  for (guint a = 0; a < states->n_open; a++)
    {
      guint32 i = states->open[a];

      if (states->early[i] <= states->late[i])
        states->open[n++] = i;
      else
        states->late[i] = -NEVER;
    }
  states->n_open = n;
}

/* The first open state from `from` on. */
static guint
first_open (const PsStates *states)
{
  guint low = 0, high = states->n_open;

  while (low < high)
    {
      guint mid = low + (high - low) / 2;

      if (states->open[mid] < states->from)
        low = mid + 1;
      else
        high = mid;
    }
  return low;
}

/* Sets when the device can be at each state at the earliest. The lanes are copied, so that writing times does not make
 * the loop read them again. */
static void
go_forth (PsStates *states, const gint64 *start, const gint64 *end)
{
  guint first = first_open (states), n_lanes = states->n_lanes, n_open = states->n_open;
  const guint32 *open = states->open;
  gint64 *early = states->early;
  PsLane lanes[PS_MAX_LANES];

  memcpy (lanes, states->lane, n_lanes * sizeof *lanes);
  for (guint a = first; a < n_open; a++)
    early[open[a]] = NEVER;
  early[states->from] = states->ready;
  for (guint a = first; a < n_open; a++)
    {
      guint32 i = open[a];
      gint64 at = early[i];
      guint64 key = states->key[i];
      const guint32 *child = states->child + (gsize)i * n_lanes;

      if (at == NEVER)
        continue;
      for (guint k = 0; k < n_lanes; k++)
        {
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
static void
go_back (PsStates *states, const gint64 *start, const gint64 *end, gint64 *new_start, gint64 *new_end)
{
  guint first = first_open (states), n_lanes = states->n_lanes;
  const guint32 *open = states->open;
  gint64 *late = states->late;
  PsLane lanes[PS_MAX_LANES];

  memcpy (lanes, states->lane, n_lanes * sizeof *lanes);
  late[states->n_states - 1] = NEVER;
  for (guint a = states->n_open - 1; a-- > first;)
    {
      guint32 i = open[a];
      gint64 at = states->early[i], latest = -NEVER;
      guint64 key = states->key[i];
      const guint32 *child = states->child + (gsize)i * n_lanes;

      for (guint k = 0; k < n_lanes && at < NEVER; k++)
        {
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

gboolean
ps_states_narrow (PsStates *states, gint64 *start, gint64 *end)
{
  gsize size = states->n_windows * sizeof *start;
  g_autofree gint64 *new_start = g_memdup2 (start, size), *new_end = g_memdup2 (end, size);

  go_forth (states, start, end);
  if (states->early[states->n_states - 1] == NEVER)
    return FALSE;
  for (guint i = 0; i < states->n_lanes; i++)
    for (guint k = n_done (&states->lane[i], states->key[states->from]); k < states->lane[i].n; k++)
      {
        new_start[states->lane[i].first + k] = NEVER;
        new_end[states->lane[i].first + k] = -NEVER;
      }
  go_back (states, start, end, new_start, new_end);
  memcpy (start, new_start, size);
  memcpy (end, new_end, size);
  return TRUE;
}
