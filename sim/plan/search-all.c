/* search-all.c - searches all choices, one after the other, and goes on from the best of them. */
#include "setting-search.h"

static void best_clear (PsSearchBest *best)
{
  ps_search_found_clear (&best->found);
  g_clear_pointer (&best->setting.recompute_each, g_free);
  g_clear_pointer (&best->setting.offload_each, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsSearchBest, best_clear)

void ps_search_all_clear (PsSearchAll *all)
{
  for (guint i = 0; i < PS_SEARCH_MOST_COPIES; i++)
    best_clear (&all->best[i]);
  if (all->skipped != NULL)
    g_string_free (all->skipped, TRUE);
}

const PsSearchBest *ps_search_all_best (const PsSearchAll *all)
{
  const PsSearchBest *one = &all->best[0], *two = &all->best[1];

  return two->found.result != NULL && (one->found.result == NULL || two->found.figure_ns < one->found.figure_ns) ? two
                                                                                                                 : one;
}

/* Takes *made where it is the best of as many copies. */
static void note (PsSearchAll *all, PsSearchBest *made)
{
  PsSearchBest *best = &all->best[made->found.result->schedule->placement->n_copies - 1];

  all->note (made, all->data);
  if (best->found.result != NULL && made->found.figure_ns >= best->found.figure_ns)
    return;
  best_clear (best);
  *best = *made;
  *made = (PsSearchBest){ 0 };
}

static gboolean try_costs (const PsSetting *choice, const PsCosts *costs, const PsSearchLimits *limits,
                           PsSearchBest *made, GError **error)
{
  *made = (PsSearchBest){ .setting = *choice };
  if (ps_search_try (choice, limits, costs, &made->found, error))
    return TRUE;
  best_clear (made);
  return FALSE;
}

/* Searches the layout with the lower bound; keeps the other one where a published schedule is faster with it. */
static gboolean try_layouts (const PsSetting *choice, const PsCosts *const *costs, PsSearchLimits *limits,
                             PsSearchBest *made, GError **error)
{
  const gint64 end_ns = g_get_monotonic_time () * 1000 + limits->time_limit_ns;
  PsSearchLimits published = *limits;
  g_auto (PsSearchBest) first = { 0 }, second = { 0 };
  PsSearchBest *const best[] = { &first, &second };
  guint searched;

  published.time_limit_ns = 0;
  published.moves = 1;
  for (guint i = 0; i < G_N_ELEMENTS (best); i++)
    try_costs (choice, costs[i], &published, best[i], NULL);
  searched
      = first.found.result == NULL
        || (second.found.result != NULL && second.found.result->lower_bound_ns < first.found.result->lower_bound_ns);
  if (limits->time_limit_ns > 0)
    limits->time_limit_ns = MAX (end_ns - g_get_monotonic_time () * 1000, 1000000);
  if (!try_costs (choice, costs[searched], limits, made, error))
    return FALSE;
  if (best[!searched]->found.result != NULL && best[!searched]->found.figure_ns < made->found.figure_ns) {
    PsSearchBest other = *best[!searched];

    *best[!searched] = *made;
    *made = other;
  }
  return TRUE;
}

static gboolean try_choice (PsSearchAll *all, const PsSetting *choice, PsSearchLimits limits, GError **error)
{
  PsSetting even = *choice;
  g_auto (PsSearchBest) made = { 0 };
  g_autoptr (PsCosts) best = NULL, other = NULL;
  gboolean found;

  best = ps_setting_costs (choice, choice->n_devices, choice->n_chunks, error);
  if (best == NULL)
    return FALSE;
  if (choice->layout != NULL || best->shapes == NULL || ps_stage_shapes_are_even (best->shapes, best->n_stages))
    found = try_costs (choice, best, &limits, &made, error);
  else {
    even.layout = (char *)"even";
    other = ps_setting_costs (&even, choice->n_devices, choice->n_chunks, error);
    found = other != NULL && try_layouts (choice, (const PsCosts *const[]){ best, other }, &limits, &made, error);
  }
  if (found)
    note (all, &made);
  return found;
}

static gint64 left_of (gint64 time_limit_ns, gint64 begin_ns)
{
  return time_limit_ns - (g_get_monotonic_time () * 1000 - begin_ns);
}

static void try_joint (PsSearchAll *all, gint64 begin_ns)
{
  guint n = (all->best[0].found.result != NULL) + (all->best[1].found.result != NULL);
  PsSearchLimits limits = all->limits;

  if (limits.time_limit_ns > 0)
    limits.time_limit_ns = MAX (left_of (limits.time_limit_ns, begin_ns), PS_SEARCH_MOST_COPIES) / n;
  for (guint i = 0; i < PS_SEARCH_MOST_COPIES && g_atomic_int_get (limits.stop) == 0; i++) {
    const PsSearchBest *best = &all->best[i];
    g_auto (PsSearchBest) made = { .setting = best->setting };

    if (best->found.result != NULL
        && ps_search_joint (&made.setting, all->any_chunks, &limits, &best->found, &made.found))
      note (all, &made);
  }
}

gboolean ps_search_all (PsSearchAll *all, GError **error)
{
  gint64 begin_ns = g_get_monotonic_time () * 1000, time_limit_ns = all->limits.time_limit_ns / (all->joint ? 2 : 1);
  g_autoptr (GError) first = NULL;

  ps_progress_begin (all->limits.time_limit_ns);
  all->skipped = g_string_new (NULL);
  for (guint i = 0; i < all->choices->len; i++) {
    const PsSetting *choice = &g_array_index (all->choices, PsSetting, i);
    PsSearchLimits limits = all->limits;
    g_autoptr (GError) reason = NULL;
    g_autofree char *name = ps_search_choice_describe (choice);

    if (time_limit_ns > 0)
      limits.time_limit_ns = MAX (left_of (time_limit_ns, begin_ns) / (all->choices->len - i), 1000000);
    if (try_choice (all, choice, limits, &reason))
      continue;
    g_string_append_printf (all->skipped, "%s%s: %s", all->skipped->len ? "; " : "", name, reason->message);
    if (first == NULL)
      first = g_steal_pointer (&reason);
  }
  if (ps_search_all_best (all)->found.result == NULL) {
    g_propagate_error (error, g_steal_pointer (&first));
    return FALSE;
  }
  if (all->joint)
    try_joint (all, begin_ns);
  return TRUE;
}
