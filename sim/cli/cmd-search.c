/* cmd-search.c - pipesim search: the best schedule that can be found, and how far from optimal it can be. */
#include "commands.h"
#include "plan/search-joint.h"
#include "search-options.h"

#include <pipesim/bound.h>

#include <signal.h>
#include <string.h>

/* Stages per device, and slices of a microbatch, that --joint tries. */
#define MOST_CHUNKS 4
#define MOST_SLICES 4

/* See ps_note_signals. */
static const gint *caught;

/* The best that was found of some choices. */
typedef struct
{
  SearchFound found; /* no result: none yet */
  SearchChoice choice;
  PsSetting setting; /* of the choice; of what it points to, only what each stage does is its own */
} Best;

static void
best_clear (Best *best)
{
  search_found_clear (&best->found);
  g_clear_pointer (&best->setting.recompute_each, g_free);
  g_clear_pointer (&best->setting.offload_each, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Best, best_clear)

#define MOST_COPIES 2

/* The results of the choices. */
typedef struct
{
  PsColumn columns[SEARCH_N_COLUMNS];
  PsTable *table;
  GString *skipped;
  char *about;
  Best best[MOST_COPIES]; /* of the lowest figure, by weight copies less 1 */
  char *launch;           /* --to: the text for the best; NULL: the framework cannot run it, for this reason */
  GError *refusal;
} Outcome;

static void
outcome_clear (Outcome *outcome)
{
  ps_table_free (outcome->table);
  if (outcome->skipped != NULL)
    g_string_free (outcome->skipped, TRUE);
  g_free (outcome->about);
  for (guint i = 0; i < MOST_COPIES; i++)
    best_clear (&outcome->best[i]);
  g_free (outcome->launch);
  g_clear_error (&outcome->refusal);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Outcome, outcome_clear)

static Best *
best_of (Outcome *outcome)
{
  Best *best = outcome->best;

  return best[1].found.result != NULL
                 && (best[0].found.result == NULL || best[1].found.figure_ns < best[0].found.figure_ns)
             ? &best[1]
             : &best[0];
}

/* A published schedule goes by its name, another one by the file of -o, which may be called like a family. */
static void
note_launch (const SearchOptions *options, Outcome *outcome)
{
  const Best *best = best_of (outcome);
  const PsSchedule *schedule = best->found.result->schedule;
  gboolean published = ps_family_find (schedule->name) != NULL && schedule->placement->kind != PS_PLACEMENT_CUSTOM;
  gboolean alike = options->output != NULL && ps_family_find (options->output) != NULL;
  g_autofree char *file = alike ? g_build_filename (".", options->output, NULL) : g_strdup (options->output);

  g_clear_pointer (&outcome->launch, g_free);
  g_clear_error (&outcome->refusal);
  if (options->launch.to != NULL)
    outcome->launch = ps_launch_prediction (&options->launch, &best->setting, published ? schedule->name : file,
                                            best->found.prediction, &outcome->refusal);
}

/* Adds a row, and takes *made where it is the best of as many copies. */
static void
note_outcome (const SearchOptions *options, Outcome *outcome, Best *made)
{
  const SearchFound *found = &made->found;
  g_autofree char *description = ps_costs_describe (found->prediction->costs);
  Best *best = &outcome->best[found->result->schedule->placement->n_copies - 1];

  search_add_row (outcome->table, options->objective, &made->setting, &made->choice, found);
  if (outcome->about == NULL)
    outcome->about = g_strconcat ("simulated from ", description, NULL);
  if (best->found.result != NULL && found->figure_ns >= best->found.figure_ns)
    return;
  best_clear (best);
  *best = *made;
  *made = (Best){ 0 };
  if (best == best_of (outcome))
    note_launch (options, outcome);
}

static SearchLimits
limits_of (const SearchOptions *options, gint64 time_limit_ns)
{
  return (SearchLimits){ .time_limit_ns = time_limit_ns,
                         .moves = options->moves,
                         .seed = options->seed,
                         .n_threads = options->jobs,
                         .stop = caught,
                         .samples = &options->samples,
                         .measured = options->variation.is_measured };
}

static gboolean
try_costs (const SearchOptions *options, const SearchChoice *choice, const PsCosts *given, const SearchLimits *limits,
           Best *made, GError **error)
{
  *made = (Best){ .choice = *choice };
  if (!search_try (options->setting, choice, limits, given, &made->found, error))
    {
      best_clear (made);
      return FALSE;
    }
  made->setting = *options->setting;
  return TRUE;
}

/* An open layout is the best or the even one. The one with the lower bound is searched; the other one is kept where a
 * published schedule is faster with it. */
static gboolean
try_layouts (const SearchOptions *options, const SearchChoice *choice, const PsCosts *const *costs,
             SearchLimits *limits, Best *made, GError **error)
{
  const gint64 end_ns = g_get_monotonic_time () * 1000 + limits->time_limit_ns;
  SearchLimits published = *limits;
  g_auto (Best) first = { 0 }, second = { 0 };
  Best *const best[] = { &first, &second };
  guint searched;

  published.time_limit_ns = 0;
  published.moves = 1;
  for (guint i = 0; i < G_N_ELEMENTS (best); i++)
    try_costs (options, choice, costs[i], &published, best[i], NULL);
  searched
      = first.found.result == NULL
        || (second.found.result != NULL && second.found.result->lower_bound_ns < first.found.result->lower_bound_ns);
  if (limits->time_limit_ns > 0)
    limits->time_limit_ns = MAX (end_ns - g_get_monotonic_time () * 1000, 1000000);
  if (!try_costs (options, choice, costs[searched], limits, made, error))
    return FALSE;
  if (best[!searched]->found.result != NULL && best[!searched]->found.figure_ns < made->found.figure_ns)
    {
      Best other = *best[!searched];

      *best[!searched] = *made;
      *made = other;
    }
  return TRUE;
}

static gboolean
try_choice (const SearchOptions *options, const SearchChoice *choice, gint64 time_limit_ns, Outcome *outcome,
            GError **error)
{
  PsSetting *setting = options->setting, even;
  SearchLimits limits = limits_of (options, time_limit_ns);
  g_auto (Best) made = { 0 };
  g_autoptr (PsCosts) best = NULL, other = NULL;
  gboolean found;

  search_choice_apply (choice, setting);
  best = ps_setting_costs (setting, setting->n_devices, choice->n_chunks, error);
  if (best == NULL)
    return FALSE;
  if (setting->layout != NULL || best->shapes == NULL || ps_stage_shapes_are_even (best->shapes, best->n_stages))
    found = try_costs (options, choice, best, &limits, &made, error);
  else
    {
      even = *setting;
      even.layout = (char *)"even";
      other = ps_setting_costs (&even, setting->n_devices, choice->n_chunks, error);
      found = other != NULL
              && try_layouts (options, choice, (const PsCosts *const[]){ best, other }, &limits, &made, error);
    }
  if (found)
    note_outcome (options, outcome, &made);
  return found;
}

/* Choices that cannot be are skipped with their reason; when none is left the first reason is the error. Time
 * that a choice leaves goes to the choices after it. */
static gboolean
try_all (const SearchOptions *options, const GArray *choices, gint64 time_limit_ns, Outcome *outcome, GError **error)
{
  gint64 begin_ns = g_get_monotonic_time () * 1000;
  g_autoptr (GError) first = NULL;

  for (guint i = 0; i < choices->len; i++)
    {
      const SearchChoice *choice = &g_array_index (choices, SearchChoice, i);
      gint64 left_ns = time_limit_ns - (g_get_monotonic_time () * 1000 - begin_ns);
      gint64 share_ns = time_limit_ns > 0 ? MAX (left_ns / (choices->len - i), 1000000) : 0;
      g_autoptr (GError) reason = NULL;
      g_autofree char *name = search_choice_describe (choice);

      if (try_choice (options, choice, share_ns, outcome, &reason))
        continue;
      g_string_append_printf (outcome->skipped, "%s%s: %s", outcome->skipped->len ? "; " : "", name, reason->message);
      if (first == NULL)
        first = g_steal_pointer (&reason);
    }
  if (best_of (outcome)->found.result == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&first));
      return FALSE;
    }
  return TRUE;
}

/* Of --time-limit, some for each number of copies; 0: there is none. */
static gint64
time_left (const SearchOptions *options, gint64 begin_ns)
{
  gint64 spent_ns = g_get_monotonic_time () * 1000 - begin_ns;

  return options->time_limit_ns > 0 ? MAX (options->time_limit_ns - spent_ns, MOST_COPIES) : 0;
}

/* Goes on from the best row of one copy, whose stages may change places, and from that of two. */
static void
try_joint (const SearchOptions *options, gint64 time_limit_ns, Outcome *outcome)
{
  guint n = (outcome->best[0].found.result != NULL) + (outcome->best[1].found.result != NULL);
  const SearchLimits limits = limits_of (options, time_limit_ns / n);

  for (guint i = 0; i < MOST_COPIES && g_atomic_int_get (caught) == 0; i++)
    {
      const Best *best = &outcome->best[i];
      g_auto (Best) made = { .choice = best->choice, .setting = best->setting };

      if (best->found.result != NULL
          && search_joint (&made.setting, &made.choice, options->any_chunks, &limits, &best->found, &made.found))
        note_outcome (options, outcome, &made);
    }
}

/* "pipesim predict ...", of the file with the best schedule, which says chunks and slices. NULL: there is none. */
static char *
write_command (const SearchOptions *options, Outcome *outcome)
{
  PsSetting setting = best_of (outcome)->setting;
  const SearchFound *best = &best_of (outcome)->found;
  g_autofree char *layout = ps_prediction_layout (best->prediction), *typed = NULL, *file = NULL;

  if (options->output == NULL)
    return NULL;
  setting.n_chunks = setting.n_slices = 0;
  setting.has_placement = FALSE;
  setting.layout = layout;
  setting.reorder = setting.reorder || best->comm_order != setting.comm_order;
  setting.comm_order = best->comm_order;
  typed = ps_setting_typed (&setting);
  file = g_shell_quote (options->output);
  return g_strdup_printf ("pipesim predict --schedule %s%s", file, typed);
}

static char *
describe_samples (const SearchOptions *options)
{
  g_autofree char *causes = ps_variation_describe (&options->variation);

  return g_strdup_printf ("%s of the iteration, simulated from %u samples, seed %" G_GINT64_FORMAT "%s\n",
                          search_objective_name (options->objective), options->samples.n_samples, options->seed,
                          causes);
}

static gboolean
publish (const SearchOptions *options, Outcome *outcome, GError **error)
{
  g_autofree char *command = write_command (options, outcome);
  const char *extra[] = { "origin",
                          ps_origin_name (PS_ORIGIN_SIMULATED),
                          "costs",
                          outcome->about,
                          "skipped",
                          outcome->skipped->str,
                          command != NULL ? "command" : NULL,
                          command,
                          NULL };
  g_autofree char *json = NULL, *text = NULL, *page = NULL, *schedule = NULL, *samples = NULL, *head = NULL,
                  *about = NULL;

  if (options->output != NULL)
    {
      schedule = ps_schedule_to_json (best_of (outcome)->found.result->schedule);
      if (!ps_write_file (options->output, schedule, -1, error))
        return FALSE;
    }
  if (g_strcmp0 (options->output, "-") == 0)
    return TRUE;
  if (g_atomic_int_get (caught) != 0)
    g_printerr ("stopped by %s: the best found so far\n", g_atomic_int_get (caught) == SIGINT ? "SIGINT" : "SIGTERM");
  if (outcome->skipped->len > 0 && !options->json)
    g_printerr ("skipped: %s\n", outcome->skipped->str);
  if (outcome->refusal != NULL)
    {
      g_propagate_error (error, g_error_copy (outcome->refusal));
      return FALSE;
    }
  if (outcome->launch != NULL)
    return ps_print (outcome->launch, error);
  if (options->json)
    {
      json = ps_table_to_json (outcome->table, "pipesim-search/1", extra);
      return ps_print (json, error);
    }
  text = ps_table_to_text (outcome->table);
  samples = options->objective != SEARCH_TIME ? describe_samples (options) : g_strdup ("");
  head = g_strdup_printf ("%s\n%s", outcome->about, samples);
  about = ps_fit_sentence (head, 0);
  page = g_strdup_printf ("%s%s%s%s%s", about, text, command != NULL ? "predict it again: " : "",
                          command != NULL ? command : "", command != NULL ? "\n" : "");
  return ps_print (page, error);
}

int
ps_cmd_search (int argc, char **argv, GError **error)
{
  g_auto (SearchOptions) options = { 0 };
  g_auto (Outcome) outcome = { 0 };

  if (!search_options_parse (&options, argc, argv, error))
    return 0;
  g_autoptr (GArray) choices = search_choices (options.setting, options.microbatch_size, options.any_size,
                                               options.joint ? MOST_CHUNKS : 2, options.joint ? MOST_SLICES : 1, error);
  if (choices == NULL)
    return 0;
  search_options_columns (&options, outcome.columns);
  outcome.table = ps_table_new (outcome.columns, SEARCH_N_COLUMNS);
  ps_table_choose (outcome.table, &options.columns, NULL);
  outcome.skipped = g_string_new (NULL);
  caught = ps_note_signals ();
  gint64 begin_ns = g_get_monotonic_time () * 1000;
  if (!try_all (&options, choices, options.time_limit_ns / (options.joint ? 2 : 1), &outcome, error))
    return 0;
  if (options.joint)
    try_joint (&options, time_left (&options, begin_ns), &outcome);
  ps_table_sort (outcome.table, "objective_ns", FALSE);
  publish (&options, &outcome, error);
  return 0;
}
