/* beam.c - beam search over partial schedules. */
#include "beam.h"

#include "partial.h"

#include <string.h>

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
  ps_partial_frame_free (search->frame);
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

  n = ps_partial_choices (frame, partial, chains, &device, &moment);
  for (guint i = 0; i < n; i++)
    {
      PsPartial *child = next_block (search);

      ps_partial_assign (frame, child, partial);
      ps_partial_place (frame, child, chains[i]);
      add_child (search, child);
    }
  if (n > 0 && depth < frame->problem->n_devices && ps_partial_may_refuse (frame, partial, device, moment))
    {
      g_autofree PsPartial *waiting = g_malloc (frame->size);

      ps_partial_assign (frame, waiting, partial);
      ps_partial_refuse (frame, waiting, device, moment);
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

  search.frame = ps_partial_frame_new (problem);
  search.now = g_ptr_array_new_with_free_func (g_free);
  search.then = g_ptr_array_new_with_free_func (g_free);
  search.entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  g_ptr_array_add (search.now, ps_partial_new (search.frame));
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
