/* exact.c - branch and bound over partial schedules, depth first. */
#include "exact.h"

#include "partial.h"

#include <string.h>

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
  ps_partial_frame_free (exact->frame);
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
  guint n = ps_partial_times (exact->frame, partial, times);
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

  ps_partial_assign (exact->frame, child, partial);
  if (chain != NO_OP)
    ps_partial_place (exact->frame, child, chain);
  else
    ps_partial_refuse (exact->frame, child, device, moment);
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
  n = ps_partial_choices (exact->frame, partial, chains, &device, &moment);
  for (guint i = 0; i < n && !exact->stopped; i++)
    branch (exact, partial, chains[i], device, moment);
  if (n > 0 && !exact->stopped && ps_partial_may_refuse (exact->frame, partial, device, moment))
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

  exact.frame = ps_partial_frame_new (best->problem);
  exact.scratch = ps_order_new (best->problem);
  exact.seen = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref,
                                      (GDestroyNotify)g_array_unref);
  root = ps_partial_new (exact.frame);
  explore (&exact, root);
  return !exact.stopped;
}
