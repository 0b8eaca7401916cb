/* search-all.c - searches all choices, one after the other, and goes on from the best of them. */
#include "search-all.h"

static void
best_clear (SearchBest *best)
{
  search_found_clear (&best->found);
  g_clear_pointer (&best->setting.recompute_each, g_free);
  g_clear_pointer (&best->setting.offload_each, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SearchBest, best_clear)

void
search_all_clear (SearchAll *all)
{
  for (guint i = 0; i < SEARCH_MOST_COPIES; i++)
    best_clear (&all->best[i]);
  if (all->skipped != NULL)
    g_string_free (all->skipped, TRUE);
}

const SearchBest *
search_all_best (const SearchAll *all)
{
  const SearchBest *one = &all->best[0], *two = &all->best[1];

  return two->found.result != NULL && (one->found.result == NULL || two->found.figure_ns < one->found.figure_ns) ? two
                                                                                                                 : one;
}

/* Takes *made where it is the best of as many copies. */
static void
note (SearchAll *all, SearchBest *made)
{
  SearchBest *best = &all->best[made->found.result->schedule->placement->n_copies - 1];

  all->note (made, all->data);
  if (best->found.result != NULL && made->found.figure_ns >= best->found.figure_ns)
    return;
  best_clear (best);
  *best = *made;
  *made = (SearchBest){ 0 };
}

static gboolean
try_costs (PsSetting *setting, const SearchChoice *choice, const PsCosts *costs, const SearchLimits *limits,
           SearchBest *made, GError **error)
{
  *made = (SearchBest){ .choice = *choice };
  if (!search_try (setting, choice, limits, costs, &made->found, error))
    {
      best_clear (made);
      return FALSE;
    }
  made->setting = *setting;
  return TRUE;
}

/* Searches the layout with the lower bound; keeps the other one where a published schedule is faster with it. */
static gboolean
try_layouts (PsSetting *setting, const SearchChoice *choice, const PsCosts *const *costs, SearchLimits *limits,
             SearchBest *made, GError **error)
{
  const gint64 end_ns = g_get_monotonic_time () * 1000 + limits->time_limit_ns;
  SearchLimits published = *limits;
  g_auto (SearchBest) first = { 0 }, second = { 0 };
  SearchBest *const best[] = { &first, &second };
  guint searched;

  published.time_limit_ns = 0;
  published.moves = 1;
  for (guint i = 0; i < G_N_ELEMENTS (best); i++)
    try_costs (setting, choice, costs[i], &published, best[i], NULL);
  searched
      = first.found.result == NULL
        || (second.found.result != NULL && second.found.result->lower_bound_ns < first.found.result->lower_bound_ns);
  if (limits->time_limit_ns > 0)
    limits->time_limit_ns = MAX (end_ns - g_get_monotonic_time () * 1000, 1000000);
  if (!try_costs (setting, choice, costs[searched], limits, made, error))
    return FALSE;
  if (best[!searched]->found.result != NULL && best[!searched]->found.figure_ns < made->found.figure_ns)
    {
      SearchBest other = *best[!searched];

      *best[!searched] = *made;
      *made = other;
    }
  return TRUE;
}

static gboolean
try_choice (SearchAll *all, const SearchChoice *choice, SearchLimits limits, GError **error)
{
  PsSetting *setting = all->setting, even;
  g_auto (SearchBest) made = { 0 };
  g_autoptr (PsCosts) best = NULL, other = NULL;
  gboolean found;

  search_choice_apply (choice, setting);
  best = ps_setting_costs (setting, setting->n_devices, choice->n_chunks, error);
  if (best == NULL)
    return FALSE;
  if (setting->layout != NULL || best->shapes == NULL || ps_stage_shapes_are_even (best->shapes, best->n_stages))
    found = try_costs (setting, choice, best, &limits, &made, error);
  else
    {
      even = *setting;
      even.layout = (char *)"even";
      other = ps_setting_costs (&even, setting->n_devices, choice->n_chunks, error);
      found = other != NULL
              && try_layouts (setting, choice, (const PsCosts *const[]){ best, other }, &limits, &made, error);
    }
  if (found)
    note (all, &made);
  return found;
}

static gint64
left_of (gint64 time_limit_ns, gint64 begin_ns)
{
  return time_limit_ns - (g_get_monotonic_time () * 1000 - begin_ns);
}

static void
try_joint (SearchAll *all, gint64 begin_ns)
{
  guint n = (all->best[0].found.result != NULL) + (all->best[1].found.result != NULL);
  SearchLimits limits = all->limits;

  if (limits.time_limit_ns > 0)
    limits.time_limit_ns = MAX (left_of (limits.time_limit_ns, begin_ns), SEARCH_MOST_COPIES) / n;
  for (guint i = 0; i < SEARCH_MOST_COPIES && g_atomic_int_get (limits.stop) == 0; i++)
    {
      const SearchBest *best = &all->best[i];
      g_auto (SearchBest) made = { .choice = best->choice, .setting = best->setting };

      if (best->found.result != NULL
          && search_joint (&made.setting, &made.choice, all->any_chunks, &limits, &best->found, &made.found))
        note (all, &made);
    }
}

gboolean
search_all (SearchAll *all, GError **error)
{
  gint64 begin_ns = g_get_monotonic_time () * 1000, time_limit_ns = all->limits.time_limit_ns / (all->joint ? 2 : 1);
  g_autoptr (GError) first = NULL;

  all->skipped = g_string_new (NULL);
  for (guint i = 0; i < all->choices->len; i++)
    {
      const SearchChoice *choice = &g_array_index (all->choices, SearchChoice, i);
      SearchLimits limits = all->limits;
      g_autoptr (GError) reason = NULL;
      g_autofree char *name = search_choice_describe (choice);

      if (time_limit_ns > 0)
        limits.time_limit_ns = MAX (left_of (time_limit_ns, begin_ns) / (all->choices->len - i), 1000000);
      if (try_choice (all, choice, limits, &reason))
        continue;
      g_string_append_printf (all->skipped, "%s%s: %s", all->skipped->len ? "; " : "", name, reason->message);
      if (first == NULL)
        first = g_steal_pointer (&reason);
    }
  if (search_all_best (all)->found.result == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&first));
      return FALSE;
    }
  if (all->joint)
    try_joint (all, begin_ns);
  return TRUE;
}
