/* search-prompts.c - the order in which the chunks of prompts enter a pipeline of forwards. */
#include "search/problem.h"
#include "setting-search.h"

#include <string.h>

typedef struct {
  const PsSearchPricing *pricing;
  PsFamilySetting size; /* prompt: the order that is tried */
  const PsFamily *family;
  guint *tried;             /* [n_microbatches] the prompt of each chunk */
  guint *best;              /* [n_microbatches] the same of the best order */
  PsSchedule *found;        /* in that order; NULL: none yet */
  PsPrediction *prediction; /* of it */
} Search;

static void search_clear (Search *search)
{
  ps_schedule_free (search->found);
  ps_prediction_free (search->prediction);
  g_free (search->best);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Search, search_clear)

static double sum_first_tokens (const PsPrediction *prediction)
{
  double sum = 0;

  for (guint i = 0; i < prediction->prefill->n; i++)
    sum += (double)prediction->first_token_ns[i];
  return sum;
}

static gboolean is_better (const PsPrediction *a, const PsPrediction *b)
{
  if (b == NULL || a->feasible != b->feasible)
    return b == NULL || a->feasible;
  return a->metrics.iteration_ns != b->metrics.iteration_ns ? a->metrics.iteration_ns < b->metrics.iteration_ns
                                                            : sum_first_tokens (a) < sum_first_tokens (b);
}

/* Predicts the order that is tried. TRUE: it is the best so far, and noted. */
static gboolean try_order (Search *search, const PsFamily *family, PsPlacementKind placement, GError **error)
{
  g_autoptr (PsSchedule) schedule = ps_family_generate (family, &search->size, NULL);
  g_autoptr (PsPrediction) prediction = NULL;
  PsCommOrder comm_order;

  if (schedule != NULL && schedule->placement->kind == placement)
    prediction = ps_search_predict (search->pricing, schedule, &comm_order, error);
  if (prediction == NULL || !is_better (prediction, search->prediction))
    return FALSE;
  search_clear (search);
  search->family = family;
  search->best = g_memdup2 (search->tried, search->size.n_microbatches * sizeof *search->best);
  search->found = g_steal_pointer (&schedule);
  search->prediction = g_steal_pointer (&prediction);
  return TRUE;
}

/* Changes the best order: brings all chunks of a prompt together to another place, or exchanges two chunks. */
static void change (const Search *search, PsRandom *random)
{
  guint n = search->size.n_microbatches, at = ps_random_below (random, n), other = ps_random_below (random, n), k = 0;

  memcpy (search->tried, search->best, n * sizeof *search->tried);
  if (ps_random_below (random, 2) == 0) {
    search->tried[other] = search->best[at];
    search->tried[at] = search->best[other];
    return;
  }
  for (guint i = 0; i <= n; i++) {
    for (guint j = 0; i == at && j < n; j++)
      if (search->best[j] == search->best[other])
        search->tried[k++] = search->best[other];
    if (i < n && search->best[i] != search->best[other])
      search->tried[k++] = search->best[i];
  }
}

PsSearchResult *ps_search_prompts (const PsSearchChoice *choice, const PsSearchPricing *pricing,
                                   const PsSearchLimits *limits, GError **error)
{
  const PsSetting *setting = pricing->setting;
  gint64 until_us = g_get_monotonic_time () + limits->time_limit_ns / 1000, n_moves = 0;
  g_autoptr (PsPrefill) prefill = ps_prefill_new (setting, setting->n_microbatches, FALSE, error);
  guint n_families;
  const PsFamily *const *families = ps_family_table (&n_families);
  g_auto (Search) search = { .pricing = pricing };
  PsRandom random = { (guint64)limits->seed };
  g_autoptr (GError) reason = NULL;
  PsSearchResult *result = NULL;
  gboolean moved = FALSE;

  if (prefill == NULL)
    return NULL;
  search.tried = prefill->prompt;
  search.size = (PsFamilySetting){ .n_devices = setting->n_devices,
                                   .n_microbatches = prefill->n_chunks,
                                   .n_chunks = choice->n_chunks,
                                   .prompt = prefill->prompt,
                                   .n_prompts = prefill->n };
  for (guint f = 0; f < n_families; f++)
    if (families[f]->forward)
      try_order (&search, families[f], choice->placement, reason == NULL ? &reason : NULL);
  if (search.found == NULL && reason != NULL) {
    g_propagate_error (error, g_steal_pointer (&reason));
    return NULL;
  }
  if (search.found == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "no schedule of forwards alone has this placement");
  for (; prefill->n > 1 && g_atomic_int_get (limits->stop) == 0 && (limits->moves == 0 || n_moves < limits->moves)
         && (limits->time_limit_ns == 0 || g_get_monotonic_time () < until_us);
       n_moves++) {
    change (&search, &random);
    moved |= try_order (&search, search.family, choice->placement, NULL);
  }
  result = g_new0 (PsSearchResult, 1);
  result->schedule = g_steal_pointer (&search.found);
  result->n_moves = (guint64)n_moves;
  result->found_by = moved ? "local search" : search.family->name;
  g_free (result->schedule->name);
  result->schedule->name = g_strdup ("search");
  return result;
}
