/* partial.c - partial schedules, the bound that steers them, and the two methods that build them op by op. */
#include "partial.h"
#include "windows.h"
#include "order.h"
#include "random.h"

#include <string.h>

/* Data that all partial schedules of one problem share. */
typedef struct
{
  const PsProblem *problem;
  guint n_chains;
  guint *producer; /* [n_chains] chain whose op of the same microbatch this chain's op needs; NO_OP: none */
  gint64 *tail;    /* [n_chains] least time from an op's end to the end of the last op that needs it and counts */
  gsize size;      /* bytes of a PsPartial with its arrays */
} PsPartialFrame;

/* One block of memory, copied with its arrays by partial_assign. */
typedef struct
{
  guint n_placed;
  gint64 bound;      /* no completion can be better */
  gint64 weight;     /* sum of the bounds of all devices */
  gint64 *end;       /* [n_ops] of the placed ops */
  gint64 *release;   /* [n_chains] earliest start of the chain's next op, exact when it is available */
  gint64 *free_ns;   /* [n_devices] */
  gint64 *level;     /* [n_devices] memory */
  guint32 *sequence; /* [n_ops] as in PsOrder */
  guint32 *fill;     /* [n_devices] next position there */
  guint32 *next;     /* [n_chains] microbatch */
  guint8 *refused;   /* [n_chains] forwards that wait until their device has done something else */
} PsPartial;

/* The largest problems. */
#define EXACT_MAX_OPS 320

#define EXACT_MAX_DEVICES 16

#define EXACT_MAX_STAGES 32

static PsPartialFrame *
partial_frame_new (const PsProblem *problem)
{
  PsPartialFrame *frame = g_new0 (PsPartialFrame, 1);
  guint n = problem->n_stages * N_KINDS;

  frame->problem = problem;
  frame->n_chains = n;
  frame->producer = g_new0 (guint, n);
  frame->tail = g_new0 (gint64, n);
  for (guint chain = 0; chain < n; chain++)
    {
      guint producer = producer_of (problem, chain * problem->m);

      frame->producer[chain] = producer == NO_OP ? NO_OP : chain_of (problem, producer);
    }
  ps_windows_tails (problem, frame->tail);
  frame->size = sizeof (PsPartial) + (problem->n_ops + n + 2 * (gsize)problem->n_devices) * sizeof (gint64)
                + (problem->n_ops + problem->n_devices + n) * sizeof (guint32) + n;
  frame->size = (frame->size + 7) & ~(gsize)7;
  return frame;
}

static void
partial_frame_free (PsPartialFrame *frame)
{
  if (frame == NULL)
    return;
  g_free (frame->producer);
  g_free (frame->tail);
  g_free (frame);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPartialFrame, partial_frame_free)

static void
set_pointers (const PsPartialFrame *frame, PsPartial *partial)
{
  const PsProblem *problem = frame->problem;

  partial->end = (gint64 *)(partial + 1);
  partial->release = partial->end + problem->n_ops;
  partial->free_ns = partial->release + frame->n_chains;
  partial->level = partial->free_ns + problem->n_devices;
  partial->sequence = (guint32 *)(partial->level + problem->n_devices);
  partial->fill = partial->sequence + problem->n_ops;
  partial->next = partial->fill + problem->n_devices;
  partial->refused = (guint8 *)(partial->next + frame->n_chains);
}

static void
partial_assign (const PsPartialFrame *frame, PsPartial *partial, const PsPartial *from)
{
  memcpy (partial, from, frame->size);
  set_pointers (frame, partial);
}

static gboolean
is_available (const PsPartialFrame *frame, const PsPartial *partial, guint chain)
{
  guint producer = frame->producer[chain];

  return partial->next[chain] < frame->problem->m
         && (producer == NO_OP || partial->next[producer] > partial->next[chain]);
}

/* Sets the earliest start of the chain's next op. Its producer may not be placed yet; the producer's chain then has a
 * release already. */
static void
set_release (const PsPartialFrame *frame, PsPartial *partial, guint chain)
{
  const PsProblem *problem = frame->problem;
  guint producer = frame->producer[chain], next = partial->next[chain];
  gint64 release = partial->free_ns[problem->device[chain / N_KINDS]];

  if (next == problem->m)
    return;
  if (producer != NO_OP && partial->next[producer] > next)
    release = MAX (release, partial->end[producer * problem->m + next] + problem->lag[chain]);
  else if (producer != NO_OP)
    release = MAX (release, partial->release[producer] + problem->lag[chain]
                                + (next - partial->next[producer] + 1) * problem->duration[producer]);
  partial->release[chain] = release;
}

static void
set_releases (const PsPartialFrame *frame, PsPartial *partial)
{
  guint n = frame->problem->n_stages;

  for (guint s = 0; s < n; s++)
    set_release (frame, partial, s * N_KINDS + PS_OP_F);
  for (guint s = n; s-- > 0;)
    set_release (frame, partial, s * N_KINDS + PS_OP_B);
  for (guint s = 0; s < n; s++)
    set_release (frame, partial, s * N_KINDS + PS_OP_W);
}

/* For each r and q: the device's chains released no earlier than r, with a tail of at least q, end no earlier than r +
 * their work + q. */
static gint64
device_bound (const PsPartialFrame *frame, const PsPartial *partial, guint device)
{
  const PsProblem *problem = frame->problem;
  gint64 longest = partial->free_ns[device];
  guint begin = problem->first_stage[device], n = (problem->first_stage[device + 1] - begin) * N_KINDS;

#define CHAIN(i) (problem->stages[begin + (i) / N_KINDS] * N_KINDS + (i) % N_KINDS)
  for (guint a = 0; a < n; a++)
    for (guint b = 0; b < n; b++)
      {
        gint64 r = partial->release[CHAIN (a)], q = frame->tail[CHAIN (b)], work = 0;

        if (partial->next[CHAIN (a)] == problem->m || partial->next[CHAIN (b)] == problem->m)
          continue;
        for (guint i = 0; i < n; i++)
          {
            guint chain = CHAIN (i);

            if (partial->release[chain] >= r && frame->tail[chain] >= q)
              work += (problem->m - partial->next[chain]) * problem->duration[chain];
          }
        if (work > 0)
          longest = MAX (longest, r + work + q);
      }
#undef CHAIN
  return longest + problem->offset[device];
}

/* Until a gradient arrives the device can only do the W at hand and the forwards that its memory has room for. */
static gint64
memory_bound (const PsPartialFrame *frame, const PsPartial *partial, guint device)
{
  const PsProblem *problem = frame->problem;
  gint64 gradient = G_MAXINT64, work = 0, possible = 0, least = G_MAXINT64, longest = 0, n = 0;
  gint64 room = problem->limit[device] - partial->level[device];

  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    {
      guint f = problem->stages[i] * N_KINDS + PS_OP_F, b = f + PS_OP_B, w = f + PS_OP_W;
      guint at_hand = partial->next[b] - partial->next[w];

      work += (problem->m - partial->next[f]) * problem->duration[f]
              + (problem->m - partial->next[b]) * problem->duration[b]
              + (problem->m - partial->next[w]) * problem->duration[w];
      possible += at_hand * problem->duration[w];
      room += at_hand * MAX (problem->give[w] - problem->take[w], 0);
      if (partial->next[b] < problem->m)
        gradient = MIN (gradient, partial->release[b]);
      if (partial->next[f] == problem->m)
        continue;
      n += problem->m - partial->next[f];
      least = MIN (least, problem->take[f] - problem->give[f]);
      longest = MAX (longest, problem->duration[f]);
    }
  if (gradient == G_MAXINT64)
    return 0;
  if (least > 0 && n > 0)
    n = MIN (n, MAX (room, 0) / least);
  return gradient + MAX (work - possible - n * longest, 0);
}

static void
set_bound (const PsPartialFrame *frame, PsPartial *partial)
{
  set_releases (frame, partial);
  partial->bound = partial->weight = 0;
  for (guint d = 0; d < frame->problem->n_devices; d++)
    {
      gint64 bound = device_bound (frame, partial, d);

      if (frame->problem->limit[d] != G_MAXINT64)
        bound = MAX (bound, memory_bound (frame, partial, d) + frame->problem->offset[d]);

      partial->bound = MAX (partial->bound, bound);
      partial->weight += bound;
    }
}

/* Nothing placed; free with g_free. */
static PsPartial *
partial_new (const PsPartialFrame *frame)
{
  const PsProblem *problem = frame->problem;
  PsPartial *partial = g_malloc0 (frame->size);

  set_pointers (frame, partial);
  for (guint d = 0; d < problem->n_devices; d++)
    {
      partial->level[d] = problem->held[d];
      partial->fill[d] = problem->first[d];
    }
  set_bound (frame, partial);
  return partial;
}

/* Places the next op of a chain, which must be available, at its release, and updates bound and weight. */
static void
partial_place (const PsPartialFrame *frame, PsPartial *partial, guint chain)
{
  const PsProblem *problem = frame->problem;
  guint device = problem->device[chain / N_KINDS], op = chain * problem->m + partial->next[chain];

  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    partial->refused[problem->stages[i] * N_KINDS + PS_OP_F] = FALSE;
  partial->end[op] = partial->free_ns[device] = partial->release[chain] + problem->duration[chain];
  partial->level[device] += problem->take[chain] - problem->give[chain];
  partial->next[chain]++;
  partial->sequence[partial->fill[device]++] = op;
  partial->n_placed++;
  set_bound (frame, partial);
}

static gboolean
fits (const PsPartialFrame *frame, const PsPartial *partial, guint chain)
{
  const PsProblem *problem = frame->problem;
  guint device = problem->device[chain / N_KINDS];

  return !partial->refused[chain] && partial->level[device] + problem->take[chain] <= problem->limit[device];
}

static guint
first_to_end (const PsPartialFrame *frame, const PsPartial *partial, gint64 *moment)
{
  guint best = NO_OP;

  for (guint chain = 0; chain < frame->n_chains; chain++)
    if (is_available (frame, partial, chain) && fits (frame, partial, chain))
      {
        gint64 end = partial->release[chain] + frame->problem->duration[chain];

        if (best != NO_OP && end >= *moment)
          continue;
        best = chain;
        *moment = end;
      }
  return best;
}

/* Sorts chains by the longest path to the end, longest first. */
static void
sort_urgent (const PsPartialFrame *frame, const PsPartial *partial, guint *chains, guint n)
{
  for (guint i = 1; i < n; i++)
    for (guint k = i; k > 0; k--)
      {
        guint a = chains[k - 1], b = chains[k];

        if (frame->tail[a] - partial->release[a] >= frame->tail[b] - partial->release[b])
          break;
        chains[k - 1] = b;
        chains[k] = a;
      }
}

/* Lists the possible next steps. They are of the device whose next op can end first: all its ops that could start
 * before that moment (Giffler and Thompson, Operations Research 8, 1960). Writes chains (room for n_chains), most
 * urgent first, and returns how many; 0: a dead end. *device and *moment are that device and that moment. */
static guint
partial_choices (const PsPartialFrame *frame, const PsPartial *partial, guint *chains, guint *device, gint64 *moment)
{
  const PsProblem *problem = frame->problem;
  guint first = first_to_end (frame, partial, moment), n = 0;

  if (first == NO_OP)
    return 0;
  *device = problem->device[first / N_KINDS];
  for (guint i = problem->first_stage[*device]; i < problem->first_stage[*device + 1]; i++)
    for (guint kind = 0; kind < N_KINDS; kind++)
      {
        guint chain = problem->stages[i] * N_KINDS + kind;

        if (is_available (frame, partial, chain) && fits (frame, partial, chain)
            && (partial->release[chain] < *moment || chain == first))
          chains[n++] = chain;
      }
  sort_urgent (frame, partial, chains, n);
  return n;
}

/* Whether the device may have to refuse its forwards: a forward that fits the memory now may have to wait for a later
 * one. That is so only if memory is limited and the op that can end first is a forward. */
static gboolean
partial_may_refuse (const PsPartialFrame *frame, const PsPartial *partial, guint device, gint64 moment)
{
  const PsProblem *problem = frame->problem;

  if (problem->limit[device] == G_MAXINT64)
    return FALSE;
  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    {
      guint base = problem->stages[i] * N_KINDS;

      for (guint kind = PS_OP_B; kind <= PS_OP_W; kind++)
        if (is_available (frame, partial, base + kind) && fits (frame, partial, base + kind)
            && partial->release[base + kind] + problem->duration[base + kind] <= moment)
          return FALSE;
    }
  return TRUE;
}

/* Refuses the forwards that could start before the moment, until the device has done something else. */
static void
partial_refuse (const PsPartialFrame *frame, PsPartial *partial, guint device, gint64 moment)
{
  const PsProblem *problem = frame->problem;

  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    {
      guint chain = problem->stages[i] * N_KINDS + PS_OP_F;

      if (is_available (frame, partial, chain) && partial->release[chain] < moment)
        partial->refused[chain] = TRUE;
    }
}

/* Writes the times that decide a comparison: when devices are free, and when results that are made but not used arrive.
 * A partial schedule of the same ops with no time later is as good. Returns how many (at most n_devices + n_ops). */
static guint
partial_times (const PsPartialFrame *frame, const PsPartial *partial, gint64 *times)
{
  const PsProblem *problem = frame->problem;
  guint n = 0;

  for (guint d = 0; d < problem->n_devices; d++)
    times[n++] = partial->free_ns[d];
  for (guint chain = 0; chain < frame->n_chains; chain++)
    if (frame->producer[chain] != NO_OP && chain % N_KINDS != PS_OP_W)
      for (guint i = partial->next[chain]; i < partial->next[frame->producer[chain]]; i++)
        times[n++] = MAX (partial->end[frame->producer[chain] * problem->m + i] + problem->lag[chain],
                          partial->free_ns[problem->device[chain / N_KINDS]]);
  return n;
}

/* Beam search over partial schedules. */

/* A step that could be taken: which state, which chain, and how good it would be. */
typedef struct
{
  double rank;
  guint64 digest; /* equal for equal states */
  guint index;    /* of the child in the next generation's store */
} Entry;

typedef struct
{
  const PsBeam *beam;
  PsPartialFrame *frame;
  GPtrArray *now; /* of Partial, blocks are reused */
  GPtrArray *then;
  guint n_now;
  guint n_then;
  GArray *entries; /* of `then` */
  PsRandom random;
} Search;

static void
search_clear (Search *search)
{
  partial_frame_free (search->frame);
  g_ptr_array_unref (search->now);
  g_ptr_array_unref (search->then);
  g_array_unref (search->entries);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Search, search_clear)

static guint64
mix (guint64 digest, guint64 value)
{
  PsRandom random = { digest ^ value };

  return ps_random_next (&random);
}

static guint64
digest_of (const PsPartialFrame *frame, const PsPartial *partial)
{
  guint64 digest = 0;

  for (guint i = 0; i < frame->n_chains; i++)
    digest
        = mix (digest, ((guint64)partial->next[i] << 1 | partial->refused[i]) + ((guint64)partial->release[i] << 20));
  for (guint d = 0; d < frame->problem->n_devices; d++)
    digest = mix (digest, (guint64)partial->free_ns[d]);
  return digest;
}

/* Returns a block for one more state of the next generation. */
static PsPartial *
next_block (Search *search)
{
  if (search->n_then == search->then->len)
    g_ptr_array_add (search->then, g_malloc (search->frame->size));
  return search->then->pdata[search->n_then];
}

static void
add_child (Search *search, PsPartial *child)
{
  const PsBeam *beam = search->beam;
  Entry entry;

  if (child->bound >= beam->stop_at_ns)
    return;
  entry.rank = (double)child->bound + beam->blend * (double)child->weight / search->frame->problem->n_devices
               + beam->noise * ps_random_unit (&search->random);
  entry.digest = digest_of (search->frame, child);
  entry.index = search->n_then++;
  g_array_append_val (search->entries, entry);
}

/* Lists all steps from one state. Refusing forwards alone is no step: the steps that remain after it are listed with
 * it. */
static void
expand (Search *search, const PsPartial *partial, guint depth)
{
  const PsPartialFrame *frame = search->frame;
  g_autofree guint *chains = g_new (guint, frame->n_chains);
  guint device, n;
  gint64 moment;

  n = partial_choices (frame, partial, chains, &device, &moment);
  for (guint i = 0; i < n; i++)
    {
      PsPartial *child = next_block (search);

      partial_assign (frame, child, partial);
      partial_place (frame, child, chains[i]);
      add_child (search, child);
    }
  if (n > 0 && depth < frame->problem->n_devices && partial_may_refuse (frame, partial, device, moment))
    {
      g_autofree PsPartial *waiting = g_malloc (frame->size);

      partial_assign (frame, waiting, partial);
      partial_refuse (frame, waiting, device, moment);
      expand (search, waiting, depth + 1);
    }
}

static int
compare_entries (gconstpointer a, gconstpointer b)
{
  const Entry *x = a, *y = b;

  return x->rank != y->rank       ? PS_COMPARE (x->rank, y->rank)
         : x->digest != y->digest ? PS_COMPARE (x->digest, y->digest)
                                  : PS_COMPARE (x->index, y->index);
}

/* Makes the best `width` different states the present generation. */
static void
select_best (Search *search)
{
  GPtrArray *blocks = search->then;
  g_autoptr (GHashTable) seen = g_hash_table_new (g_int64_hash, g_int64_equal);
  guint n = 0;

  g_array_sort (search->entries, compare_entries);
  for (guint i = 0; i < search->entries->len && n < search->beam->width; i++)
    {
      Entry *entry = &g_array_index (search->entries, Entry, i);
      gpointer block;

      if (!g_hash_table_add (seen, &entry->digest))
        continue;
      if (n == search->now->len)
        g_ptr_array_add (search->now, g_malloc (search->frame->size));
      block = search->now->pdata[n];
      search->now->pdata[n++] = blocks->pdata[entry->index];
      blocks->pdata[entry->index] = block;
    }
  search->n_now = n;
  search->n_then = 0;
  g_array_set_size (search->entries, 0);
}

gboolean
ps_beam_search (PsOrder *order, PsBeam *beam)
{
  const PsProblem *problem = order->problem;
  g_auto (Search) search = { .beam = beam, .random = beam->random };

  search.frame = partial_frame_new (problem);
  search.now = g_ptr_array_new_with_free_func (g_free);
  search.then = g_ptr_array_new_with_free_func (g_free);
  search.entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  g_ptr_array_add (search.now, partial_new (search.frame));
  search.n_now = 1;
  for (guint i = 0; i < problem->n_ops && search.n_now > 0; i++)
    {
      for (guint k = 0; k < search.n_now; k++)
        {
          if (!beam->go_on (beam->data))
            return FALSE;
          expand (&search, search.now->pdata[k], 0);
        }
      select_best (&search);
    }
  beam->random = search.random;
  if (search.n_now == 0)
    return FALSE;
  ps_order_fill (order, ((PsPartial *)search.now->pdata[0])->sequence);
  return ps_order_evaluate (order) && order->excess == 0 && order->objective < beam->stop_at_ns;
}

/* Branch and bound over partial schedules, depth first. */

#define MAX_CHAINS (N_KINDS * EXACT_MAX_STAGES)
#define MAX_REMEMBERED (1 << 21)
#define ASK_EVERY 256

typedef struct
{
  PsPartialFrame *frame;
  PsOrder *best;
  PsOrder *scratch;
  gboolean (*go_on) (gpointer data);
  gpointer data;
  guint64 n_nodes;
  gboolean stopped;
  GHashTable *seen; /* GBytes of the ops placed and refused -> GArray of times */
  guint n_remembered;
} Exact;

static void
exact_clear (Exact *exact)
{
  partial_frame_free (exact->frame);
  ps_order_free (exact->scratch);
  g_hash_table_unref (exact->seen);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Exact, exact_clear)

static gboolean
is_no_later (const gint64 *a, const gint64 *b, guint n)
{
  for (guint i = 0; i < n; i++)
    if (a[i] > b[i])
      return FALSE;
  return TRUE;
}

static GArray *
times_seen (Exact *exact, const PsPartial *partial)
{
  guint n = exact->frame->n_chains;
  guint8 what[MAX_CHAINS * (sizeof *partial->next + 1)];
  g_autoptr (GBytes) key = NULL;
  GArray *list;

  memcpy (what, partial->next, n * sizeof *partial->next);
  memcpy (what + n * sizeof *partial->next, partial->refused, n);
  key = g_bytes_new (what, n * (sizeof *partial->next + 1));
  list = g_hash_table_lookup (exact->seen, key);
  if (list == NULL)
    {
      list = g_array_new (FALSE, FALSE, sizeof (gint64));
      g_hash_table_insert (exact->seen, g_bytes_ref (key), list);
    }
  return list;
}

/* Whether the same ops were placed before with no time later; remembers the times if not. */
static gboolean
was_seen (Exact *exact, const PsPartial *partial)
{
  gint64 times[EXACT_MAX_DEVICES + EXACT_MAX_OPS];
  guint n = partial_times (exact->frame, partial, times);
  GArray *list = times_seen (exact, partial);

  for (guint i = 0; i < list->len; i += n)
    if (is_no_later (&g_array_index (list, gint64, i), times, n))
      return TRUE;
  for (guint i = list->len; i > 0; i -= n)
    if (is_no_later (times, &g_array_index (list, gint64, i - n), n))
      g_array_remove_range (list, i - n, n);
  g_array_append_vals (list, times, n);
  exact->n_remembered++;
  return FALSE;
}

static void
accept (Exact *exact, const PsPartial *partial)
{
  ps_order_fill (exact->scratch, partial->sequence);
  if (ps_order_evaluate (exact->scratch) && exact->scratch->objective < exact->best->objective)
    ps_order_assign (exact->best, exact->scratch);
}

static void explore (Exact *exact, const PsPartial *partial);

/* Places the chain's next op, or refuses forwards if chain is NO_OP. */
static void
branch (Exact *exact, const PsPartial *partial, guint chain, guint device, gint64 moment)
{
  g_autofree PsPartial *child = g_malloc (exact->frame->size);

  partial_assign (exact->frame, child, partial);
  if (chain != NO_OP)
    partial_place (exact->frame, child, chain);
  else
    partial_refuse (exact->frame, child, device, moment);
  explore (exact, child);
}

static void
explore (Exact *exact, const PsPartial *partial)
{
  guint chains[MAX_CHAINS], n, device;
  gint64 moment;

  if (partial->n_placed == exact->frame->problem->n_ops)
    {
      accept (exact, partial);
      return;
    }
  if (++exact->n_nodes % ASK_EVERY == 0 && (!exact->go_on (exact->data) || exact->n_remembered > MAX_REMEMBERED))
    exact->stopped = TRUE;
  if (exact->stopped || partial->bound >= exact->best->objective || was_seen (exact, partial))
    return;
  n = partial_choices (exact->frame, partial, chains, &device, &moment);
  for (guint i = 0; i < n && !exact->stopped; i++)
    branch (exact, partial, chains[i], device, moment);
  if (n > 0 && !exact->stopped && partial_may_refuse (exact->frame, partial, device, moment))
    branch (exact, partial, NO_OP, device, moment);
}

gboolean
ps_exact_can_decide (const PsProblem *problem)
{
  if (problem->joins || problem->reserves || problem->n_slices > 1
      || (problem->n_copies > 1 && problem->objective == PS_OBJECTIVE_SPAN) || problem->n_ops > EXACT_MAX_OPS
      || problem->n_devices > EXACT_MAX_DEVICES || problem->n_stages > EXACT_MAX_STAGES)
    return FALSE;
  for (guint chain = 0; chain < problem->n_stages * N_KINDS; chain++)
    if (chain % N_KINDS != PS_OP_F && problem->take[chain] > problem->give[chain]
        && ps_problem_may_run_out (problem, problem->device[chain / N_KINDS]))
      return FALSE;
  return TRUE;
}

gboolean
ps_exact_solve (PsOrder *best, gboolean (*go_on) (gpointer data), gpointer data)
{
  g_auto (Exact) exact = { .best = best, .go_on = go_on, .data = data };
  g_autofree PsPartial *root = NULL;

  exact.frame = partial_frame_new (best->problem);
  exact.scratch = ps_order_new (best->problem);
  exact.seen = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref,
                                      (GDestroyNotify)g_array_unref);
  root = partial_new (exact.frame);
  explore (&exact, root);
  return !exact.stopped;
}
