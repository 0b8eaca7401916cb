/* search-prompts.c - the order in which the chunks of prompts enter a pipeline of forwards. */
#include "search/problem.h"
#include "setting-search.h"

#include <string.h>

typedef struct {
  const PsSearchPricing *pricing;
  PsSchedule *schedule; /* of the family: chunks in the order of the prompts */
  guint n;              /* chunks */
  guint *tried;         /* [n] the prompt of each chunk; those of a prompt are in order */
  guint *best;          /* [n] the same of the best order */
  PsSchedule *found;    /* in that order; NULL: none yet */
  gboolean feasible;
  gint64 time_ns;
  gint64 first_token_ns; /* of all prompts together */
} Search;

static void search_clear (Search *search)
{
  ps_schedule_free (search->schedule);
  ps_schedule_free (search->found);
  g_free (search->tried);
  g_free (search->best);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Search, search_clear)

/* The schedule with its chunks in the order that is tried. */
static PsSchedule *reorder (const Search *search)
{
  guint m = search->schedule->n_microbatches;
  PsSchedule *other = ps_schedule_copy (search->schedule);
  g_autofree guint *first = g_new0 (guint, m + 1);
  g_autofree guint8 *next = g_new0 (guint8, m);
  g_autofree PsOp *chunk = g_new0 (PsOp, search->n);

  for (guint i = 0; i < m; i++)
    first[i + 1] = first[i] + ps_schedule_slices (other, i);
  for (guint i = 0; i < search->n; i++)
    chunk[i] = (PsOp){ .slice = next[search->tried[i]]++, .microbatch = search->tried[i] & G_MAXINT32 };
  for (guint i = 0; i < ps_schedule_n_ops (other); i++) {
    PsOp *op = &other->ops[i];
    guint stage = op->stage;

    *op = chunk[first[op->microbatch] + op->slice];
    op->stage = (guint16)stage;
  }
  return other;
}

/* Prices the order that is tried. TRUE: it is the best so far, and noted. */
static gboolean try_order (Search *search, GError **error)
{
  g_autoptr (PsSchedule) other = reorder (search);
  PsCommOrder comm_order;
  g_autoptr (PsPrediction) prediction = ps_search_predict (search->pricing, other, &comm_order, error);
  gint64 first_token_ns = 0;

  for (guint i = 0; prediction != NULL && i < other->n_microbatches; i++)
    first_token_ns += prediction->first_token_ns[i];
  if (prediction == NULL
      || (search->found != NULL
          && (prediction->feasible != search->feasible              ? search->feasible
              : prediction->metrics.iteration_ns != search->time_ns ? prediction->metrics.iteration_ns > search->time_ns
                                                                    : first_token_ns >= search->first_token_ns)))
    return FALSE;
  search->feasible = prediction->feasible;
  search->time_ns = prediction->metrics.iteration_ns;
  search->first_token_ns = first_token_ns;
  memcpy (search->best, search->tried, search->n * sizeof *search->best);
  ps_schedule_free (search->found);
  search->found = g_steal_pointer (&other);
  return TRUE;
}

/* Begins with the best family of the placement, whose name it returns. NULL: there is none. */
static const char *begin (Search *search, PsPlacementKind placement, GError **error)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (search->pricing->setting, search->pricing->given);
  guint n;
  const PsFamily *const *families = ps_family_table (&n);
  const char *name = NULL;

  for (guint f = 0; f < n; f++) {
    g_autoptr (PsSchedule) schedule
        = families[f]->forward ? ps_predictor_schedule (predictor, families[f]->name, NULL) : NULL;
    PsSchedule *before = search->schedule;

    if (schedule == NULL || schedule->placement->kind != placement)
      continue;
    search->n = ps_schedule_n_ops (schedule) / schedule->placement->n_stages;
    search->tried = g_renew (guint, search->tried, search->n);
    search->best = g_renew (guint, search->best, search->n);
    for (guint i = 0, k = 0; i < schedule->n_microbatches; i++)
      for (guint slice = 0; slice < ps_schedule_slices (schedule, i); slice++)
        search->tried[k++] = i;
    search->schedule = schedule;
    if (!try_order (search, error)) {
      search->schedule = before;
      continue;
    }
    name = families[f]->name;
    ps_schedule_free (before);
    schedule = NULL;
  }
  if (name == NULL && (error == NULL || *error == NULL))
    ps_refuse (error, PS_ERROR_USAGE, "no schedule of forwards alone has this placement");
  return name;
}

/* Changes the best order: brings all chunks of a prompt together to another place, or exchanges two chunks. */
static void change (const Search *search, PsRandom *random)
{
  guint n = search->n, at = ps_random_below (random, n), k = 0, prompt = search->best[ps_random_below (random, n)];

  memcpy (search->tried, search->best, n * sizeof *search->tried);
  if (ps_random_below (random, 2) == 0) {
    guint other = ps_random_below (random, n);

    search->tried[other] = search->best[at];
    search->tried[at] = search->best[other];
    return;
  }
  for (guint i = 0; i <= n; i++) {
    for (guint j = 0; i == at && j < n; j++)
      if (search->best[j] == prompt)
        search->tried[k++] = prompt;
    if (i < n && search->best[i] != prompt)
      search->tried[k++] = search->best[i];
  }
}

PsSearchResult *ps_search_prompts (const PsSearchChoice *choice, const PsSearchPricing *pricing,
                                   const PsSearchLimits *limits, GError **error)
{
  gint64 until_us = g_get_monotonic_time () + limits->time_limit_ns / 1000;
  g_auto (Search) search = { .pricing = pricing };
  PsRandom random = { (guint64)limits->seed };
  const char *found_by = begin (&search, choice->placement, error);
  gint64 n_moves = 0;

  if (found_by == NULL)
    return NULL;
  for (; search.schedule->n_microbatches > 1 && g_atomic_int_get (limits->stop) == 0
         && (limits->moves == 0 || n_moves < limits->moves)
         && (limits->time_limit_ns == 0 || g_get_monotonic_time () < until_us);
       n_moves++) {
    change (&search, &random);
    if (try_order (&search, NULL))
      found_by = "local search";
  }
  PsSearchResult *result = g_new0 (PsSearchResult, 1);
  result->schedule = g_steal_pointer (&search.found);
  result->n_moves = (guint64)n_moves;
  result->found_by = found_by;
  g_free (result->schedule->name);
  result->schedule->name = g_strdup ("search");
  return result;
}
