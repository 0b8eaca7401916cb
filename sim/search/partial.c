/* partial.c - partial schedules and the bound that steers them. */
#include "partial.h"

#include "windows.h"

#include <string.h>

PsPartialFrame *
ps_partial_frame_new (const PsProblem *problem)
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

void
ps_partial_frame_free (PsPartialFrame *frame)
{
  if (frame == NULL)
    return;
  g_free (frame->producer);
  g_free (frame->tail);
  g_free (frame);
}

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

void
ps_partial_assign (const PsPartialFrame *frame, PsPartial *partial, const PsPartial *from)
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

PsPartial *
ps_partial_new (const PsPartialFrame *frame)
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

void
ps_partial_place (const PsPartialFrame *frame, PsPartial *partial, guint chain)
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

guint
ps_partial_choices (const PsPartialFrame *frame, const PsPartial *partial, guint *chains, guint *device, gint64 *moment)
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

gboolean
ps_partial_may_refuse (const PsPartialFrame *frame, const PsPartial *partial, guint device, gint64 moment)
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

void
ps_partial_refuse (const PsPartialFrame *frame, PsPartial *partial, guint device, gint64 moment)
{
  const PsProblem *problem = frame->problem;

  for (guint i = problem->first_stage[device]; i < problem->first_stage[device + 1]; i++)
    {
      guint chain = problem->stages[i] * N_KINDS + PS_OP_F;

      if (is_available (frame, partial, chain) && partial->release[chain] < moment)
        partial->refused[chain] = TRUE;
    }
}

guint
ps_partial_times (const PsPartialFrame *frame, const PsPartial *partial, gint64 *times)
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
