/* cmd-search.c - pipesim search: the best schedule that can be found, and how far from optimal it can be. */
#include "commands.h"
#include "predict-spread.h"
#include "search-joint.h"
#include "search-rows.h"
#include "search-try.h"

#include <pipesim/bound.h>
#include <pipesim/command.h>
#include <pipesim/launch.h>
#include <pipesim/report.h>
#include <pipesim/setting.h>

#include <signal.h>
#include <string.h>

#define DEFAULT_TIME_LIMIT_NS G_GINT64_CONSTANT (10000000000)
#define DEFAULT_SAMPLES 64

/* Stages per device, and slices of a microbatch, that --joint tries. */
#define MOST_CHUNKS 4
#define MOST_SLICES 4

/* See ps_note_signals. */
static const gint *caught;

typedef struct
{
  PsSetting *setting;
  char *output;
  char *to;
  gboolean json;
  PsColumnChoice columns;
  gint64 time_limit_ns;
  gboolean has_time_limit;
  gint64 seed;
  gint64 moves;          /* 0: not given */
  guint jobs;            /* 0: not given */
  guint microbatch_size; /* 0: not given */
  gboolean any_size;     /* --microbatch-size auto */
  gboolean joint;
  guint objective; /* SearchObjective */
  guint n_samples; /* 0: not given */
  PsVariation variation;
  PsPowerOptions power;
  SearchSamples samples;
} Options;

static const PsOption rows[] = {
  PS_OPTION ("time-limit", 't', PS_TIME (Options, time_limit_ns), "T", "How long to search", .otherwise = "10s",
             .given = PS_MEMBER (Options, has_time_limit, gboolean)),
  PS_OPTION ("moves", 0, PS_INTEGER (Options, moves, 1, 0), "N",
             "Search this number of moves per thread, in place of a time: the result depends on seed and jobs alone",
             .otherwise = "as many as the time allows"),
  PS_OPTION ("seed", 0, PS_INTEGER (Options, seed, 0, 0), "N", "Seed of the random choices", .initial = 1),
  PS_OPTION ("jobs", 'j', PS_COUNT (Options, jobs, 1, 1024), "N", "Threads", .otherwise = "one per processor"),
  PS_OPTION ("joint", 0, PS_FLAG (Options, joint), NULL,
             "Up to 4 stages per device, or slices of a microbatch, are tried, too. Half of the time then goes on from "
             "the best row: stages change "
             "what they recompute and offload, and without --layout layers move to neighbours"),
  PS_OPTION ("objective", 0, PS_NAME (Options, objective, search_objective), "WHAT",
             "What a good schedule makes small: the iteration time at the costs as they are, or its mean or p90 over "
             "samples of varying costs",
             .group = PS_GROUP_VARIATION),
  PS_OPTION ("samples", 0, PS_COUNT (Options, n_samples, 1, PS_MAX_SAMPLES), "N",
             "Samples of the costs for --objective, the same for all schedules", .otherwise = "64",
             .group = PS_GROUP_VARIATION),
  PS_OPTION_INCLUDE (Options, variation, ps_variation_rows),
  PS_OPTION_INCLUDE (Options, power, ps_power_rows),
  PS_OPTION ("microbatch-size", 0, PS_COUNT (Options, microbatch_size, 1, PS_MAX_MICROBATCHES), "B|auto",
             "Sequences per microbatch, with as many microbatches as keep the batch; auto tries powers of two",
             .any = "auto", .any_offset = PS_MEMBER (Options, any_size, gboolean), .group = PS_GROUP_COSTS,
             .otherwise = "the model's"),
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE", "Write the best schedule", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("json", 0, PS_FLAG (Options, json), NULL, "Print JSON (format pipesim-search/1)",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (Options, columns, ps_column_rows),
  PS_OPTION ("to", 0, PS_TEXT (Options, to), "FRAMEWORK",
             "With -o: print what megatron, torchtitan or deepspeed take to run the best schedule",
             .parse = ps_launch_parse, .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE_AT (Options, setting, ps_setting_options, PS_FIELD_NOT_SEARCH),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .summary = "Finds the best schedule for given costs and memory, and says how far from optimal it can be.",
  .text
  = "Without -v and --placement (or with auto) one and two stages per device are tried, in a loop and in a\n"
    "V, and for even -p and -m two copies of the weights, half of the microbatches going up through one\n"
    "(bidirectional); --recompute auto and --microbatch-size auto try these as well. The time is shared\n"
    "by all. Backwards run split, or fused where bw= says that this is faster, or in pairs with forwards\n"
    "where pair= does.\n\n"
    "A row is never worse than a published schedule of its placement within the memory limit, as predict\n"
    "tells its time for the same options; schedules with stale weights or other --slices do not count.\n"
    "Where transfers wait for each other and --comm-order is not given, planned is tried too; comm order\n"
    "says which of both the times belong to. The lower bound holds for every schedule of the row's placement\n"
    "within the memory limit, O aside; gap is how much longer its iteration is, O aside too, all-reduces\n"
    "that nothing hides included.\n\n"
    "With --objective mean or p90 costs vary as --jitter, --straggler and --slow-link say. A schedule is better\n"
    "than another where that figure of its iteration is lower; bound and gap stay those of the costs as they are.\n\n"
    "With --joint a row more has the best schedule with stages of its own. Its recompute and offload say what each\n"
    "stage does where they differ; its bound holds whatever the stages hold, recompute and offload.\n\n"
    "The result under --time-limit differs from run to run, that of --moves repeats. More of either goes on where\n"
    "less has stopped and is never worse. Ctrl-C (SIGINT) or SIGTERM ends the search: the best found so far is\n"
    "printed and written, and the exit code is 0. A second one ends the program.\n",
  .examples = "pipesim search -p 4 -m 8 --costs f=6ms,b=4ms,w=4ms,c=1ms,act=2MiB,wact=1MiB --memory-limit 6MiB --moves "
              "100000 -o best.json\n"
              "pipesim search -p 4 -m 8 --model gpt-1.5b --cluster a100-80gb --time-limit 2s\n"
              "pipesim search -p 2 -m 4 --costs f=1ms,b=1ms,w=1ms --placement V --moves 10000 --jobs 1 --json\n",
};

static void
options_clear (Options *options)
{
  ps_options_reset (rows, options);
  ps_setting_free (options->setting);
  ps_variation_clear (&options->variation);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

/* One microbatch size, one slice, and one part that is recomputed go without saying. Returns how many columns there
 * are. */
static guint
init_columns (const Options *options, PsColumn *columns)
{
  search_columns (options->setting, options->objective, columns);
  for (guint i = 0; i < SEARCH_N_COLUMNS; i++)
    if ((g_str_equal (columns[i].key, "microbatch_size") && !options->any_size)
        || (g_str_equal (columns[i].key, "slices") && options->setting->n_slices <= 1 && !options->joint)
        || (g_str_equal (columns[i].key, "recompute") && !options->setting->any_recompute && !options->joint))
      columns[i].title = NULL;
  return options->power.text != NULL ? SEARCH_N_COLUMNS : SEARCH_N_COLUMNS - PS_N_ENERGY_COLUMNS;
}

/* The results of the choices. */
typedef struct
{
  PsColumn columns[SEARCH_N_COLUMNS];
  PsTable *table;
  GString *skipped;
  char *about;
  SearchFound best;    /* of the lowest figure; no result: none yet */
  SearchChoice choice; /* its choice */
  char *launch;        /* --to: the text for the best; NULL: the framework cannot run it, for this reason */
  GError *refusal;
} Outcome;

static void
outcome_clear (Outcome *outcome)
{
  ps_table_free (outcome->table);
  if (outcome->skipped != NULL)
    g_string_free (outcome->skipped, TRUE);
  g_free (outcome->about);
  search_found_clear (&outcome->best);
  g_free (outcome->launch);
  g_clear_error (&outcome->refusal);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Outcome, outcome_clear)

static gboolean
parse_options (Options *options, int *argc, char ***argv, GError **error)
{
  options->setting = ps_setting_new ();
  options->setting->takes_auto = TRUE;
  return ps_command_parse (&help, rows, options, argc, argv, error);
}

static gboolean
set_limits (Options *options, GError **error)
{
  if (options->jobs == 0)
    options->jobs = g_get_num_processors ();
  if (options->has_time_limit && options->time_limit_ns == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--time-limit: '0' leaves no time; 10s would be right");
  if (!options->has_time_limit && options->moves == 0)
    options->time_limit_ns = DEFAULT_TIME_LIMIT_NS;
  return TRUE;
}

static gboolean
set_samples (Options *options, GError **error)
{
  gboolean varies, samples = options->objective != SEARCH_TIME;

  if (!ps_variation_finish (&options->variation, options->setting, &varies, error))
    return FALSE;
  if (varies != samples || (options->n_samples > 0 && !samples))
    return ps_refuse (error, PS_ERROR_USAGE,
                      samples ? "--objective %s: nothing varies; give --jitter, --straggler or --slow-link"
                              : "--objective %s: looks at no samples; mean or p90 would",
                      search_objective_name (options->objective));
  if (!ps_uncertainty_check (&options->variation.uncertainty, options->setting->n_devices, error))
    return FALSE;
  options->samples = (SearchSamples){ .objective = options->objective,
                                      .uncertainty = options->variation.uncertainty,
                                      .n_samples = options->n_samples > 0 ? options->n_samples : DEFAULT_SAMPLES,
                                      .seed = (guint64)options->seed };
  return TRUE;
}

static gboolean
finish_options (Options *options, int argc, char **argv, GError **error)
{
  PsSetting *setting = options->setting;
  PsColumn columns[SEARCH_N_COLUMNS];
  guint n_columns;

  if (!ps_setting_check (setting, error) || !set_limits (options, error))
    return FALSE;
  if (argc > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected; a search starts from costs alone", argv[1]);
  if (setting->n_devices == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "-p/--devices: missing; a search needs it");
  if (setting->n_microbatches == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "-m/--microbatches: missing; a search needs it");
  if (options->to != NULL && (options->output == NULL || g_str_equal (options->output, "-") || options->json))
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: needs -o FILE for the schedule, and prints no JSON",
                      options->to);
  if ((options->microbatch_size > 0 || options->any_size) && (setting->model == NULL || setting->cluster == NULL))
    return ps_refuse (error, PS_ERROR_USAGE, "--microbatch-size: needs modelled costs, --model FILE --cluster FILE");
  if (ps_setting_zero (setting) >= 2)
    return ps_refuse (error, PS_ERROR_USAGE, "--zero %u: a search knows no gathers and scatters; predict does",
                      setting->zero);
  if (options->joint && setting->lengths != NULL)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--joint: its bounds are of microbatches of one length; leave out --lengths");
  if (setting->n_recompute > 0 || setting->n_offload > 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--%s: a search takes one for all stages; --joint finds one for each",
                      setting->n_recompute > 0 ? "recompute" : "offload");
  n_columns = init_columns (options, columns);
  return ps_setting_refuse (setting, PS_FIELD_NOT_SEARCH, "belongs to single schedules; a search does without it",
                            error)
         && ps_column_choice_check (&options->columns, columns, n_columns, options->json, error)
         && set_samples (options, error) && ps_power_finish (&options->power, setting, error)
         && ps_output_check ("-o", options->output, error);
}

/* A published schedule goes by its name, another one by the file of -o. */
static void
note_launch (const Options *options, Outcome *outcome)
{
  const char *name = outcome->best.result->schedule->name;

  g_clear_pointer (&outcome->launch, g_free);
  g_clear_error (&outcome->refusal);
  if (options->to != NULL)
    outcome->launch
        = ps_launch_prediction (options->to, options->setting, ps_family_find (name) != NULL ? name : options->output,
                                outcome->best.prediction, &outcome->refusal);
}

/* Adds a row, and takes *found where it is the best. */
static void
note_outcome (const Options *options, Outcome *outcome, const SearchChoice *choice, SearchFound *found)
{
  const PsCosts *costs = found->prediction->costs;

  search_add_row (outcome->table, options->objective, options->setting, choice, found, &options->power);
  if (outcome->about == NULL)
    outcome->about
        = g_strdup_printf ("simulated from %s costs: %s", ps_origin_name (costs->time_origin), costs->source);
  if (outcome->best.result != NULL && found->figure_ns >= outcome->best.figure_ns)
    return;
  search_found_clear (&outcome->best);
  outcome->best = *found;
  *found = (SearchFound){ 0 };
  outcome->choice = *choice;
  note_launch (options, outcome);
}

static SearchLimits
limits_of (const Options *options, gint64 time_limit_ns)
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
try_costs (const Options *options, const SearchChoice *choice, const PsCosts *given, gint64 time_limit_ns,
           Outcome *outcome, GError **error)
{
  const SearchLimits limits = limits_of (options, time_limit_ns);
  g_auto (SearchFound) found = { 0 };

  if (!search_try (options->setting, choice, &limits, given, &found, error))
    return FALSE;
  note_outcome (options, outcome, choice, &found);
  return TRUE;
}

/* No schedule of these stages is faster. */
static gint64
bound_costs (const PsCosts *costs, const SearchChoice *choice)
{
  g_autoptr (PsPlacement) placement
      = ps_placement_new (choice->placement, costs->n_stages / choice->n_chunks, choice->n_chunks);
  g_autofree guint8 *copy = g_new0 (guint8, choice->n_microbatches);

  for (guint i = 0; i < choice->n_microbatches; i++)
    copy[i] = (guint8)(i % placement->n_copies);
  return ps_lower_bound (placement, copy, choice->n_microbatches, costs);
}

/* An open layout is the best one where that lowers the bound. The even one gets its turn where memory is too small for
 * it. */
static gboolean
try_choice (const Options *options, const SearchChoice *choice, gint64 time_limit_ns, Outcome *outcome, GError **error)
{
  PsSetting *setting = options->setting, even;
  gint64 begin_ns = g_get_monotonic_time () * 1000;
  g_autoptr (PsCosts) best = NULL, other = NULL;

  search_choice_apply (choice, setting);
  best = ps_setting_costs (setting, setting->n_devices, choice->n_chunks, error);
  if (best == NULL)
    return FALSE;
  if (setting->layout != NULL || best->shapes == NULL || ps_stage_shapes_are_even (best->shapes, best->n_stages))
    return try_costs (options, choice, best, time_limit_ns, outcome, error);
  even = *setting;
  even.layout = (char *)"even";
  other = ps_setting_costs (&even, setting->n_devices, choice->n_chunks, error);
  if (other == NULL)
    return FALSE;
  if (bound_costs (best, choice) < bound_costs (other, choice)
      && try_costs (options, choice, best, time_limit_ns, outcome, NULL))
    return TRUE;
  if (time_limit_ns > 0)
    time_limit_ns = MAX (time_limit_ns - (g_get_monotonic_time () * 1000 - begin_ns), 1000000);
  return try_costs (options, choice, other, time_limit_ns, outcome, error);
}

/* Choices that cannot be are skipped with their reason; when none is left the first reason is the error. Time
 * that a choice leaves goes to the choices after it. */
static gboolean
try_all (const Options *options, const GArray *choices, gint64 time_limit_ns, Outcome *outcome, GError **error)
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
  if (outcome->best.result == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&first));
      return FALSE;
    }
  return TRUE;
}

/* Of --time-limit; 0: there is none. */
static gint64
time_left (const Options *options, gint64 begin_ns)
{
  gint64 spent_ns = g_get_monotonic_time () * 1000 - begin_ns;

  return options->time_limit_ns > 0 ? MAX (options->time_limit_ns - spent_ns, 1) : 0;
}

/* Goes on from the best row. */
static void
try_joint (const Options *options, gint64 time_limit_ns, Outcome *outcome)
{
  const SearchLimits limits = limits_of (options, time_limit_ns);
  const SearchChoice choice = outcome->choice;
  g_auto (SearchFound) found = { 0 };

  search_choice_apply (&choice, options->setting);
  if (search_joint (options->setting, &choice, &limits, &outcome->best, &found))
    note_outcome (options, outcome, &choice, &found);
}

/* "pipesim predict ...", of the file with the best schedule, which says chunks and slices. NULL: there is none. */
static char *
write_command (const Options *options, const Outcome *outcome)
{
  PsSetting setting = *options->setting;
  const SearchFound *best = &outcome->best;
  g_autofree char *layout = ps_prediction_layout (best->prediction), *typed = NULL, *file = NULL;

  if (options->output == NULL)
    return NULL;
  search_choice_apply (&outcome->choice, &setting);
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
describe_samples (const Options *options)
{
  g_autofree char *causes = ps_variation_describe (&options->variation);

  return g_strdup_printf ("%s of the iteration, simulated from %u samples, seed %" G_GINT64_FORMAT "%s\n",
                          search_objective_name (options->objective), options->samples.n_samples, options->seed,
                          causes);
}

static gboolean
publish (const Options *options, const Outcome *outcome, GError **error)
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
  g_autofree char *json = NULL, *text = NULL, *page = NULL, *schedule = NULL, *samples = NULL;

  if (options->output != NULL)
    {
      schedule = ps_schedule_to_json (outcome->best.result->schedule);
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
  page = g_strdup_printf ("%s\n%s%s%s%s%s%s", outcome->about, samples, text, ps_energy_note (&options->power),
                          command != NULL ? "predict it again: " : "", command != NULL ? command : "",
                          command != NULL ? "\n" : "");
  return ps_print (page, error);
}

int
ps_cmd_search (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };
  g_auto (Outcome) outcome = { 0 };
  g_autoptr (GArray) choices = NULL;
  gint64 begin_ns;

  if (!parse_options (&options, &argc, &argv, error) || !finish_options (&options, argc, argv, error))
    return 0;
  choices = search_choices (options.setting, options.microbatch_size, options.any_size, options.joint ? MOST_CHUNKS : 2,
                            options.joint ? MOST_SLICES : 1, error);
  if (choices == NULL)
    return 0;
  outcome.table = ps_table_new (outcome.columns, init_columns (&options, outcome.columns));
  ps_table_choose (outcome.table, &options.columns, NULL);
  outcome.skipped = g_string_new (NULL);
  caught = ps_note_signals ();
  begin_ns = g_get_monotonic_time () * 1000;
  if (!try_all (&options, choices, options.time_limit_ns / (options.joint ? 2 : 1), &outcome, error))
    return 0;
  if (options.joint && g_atomic_int_get (caught) == 0)
    try_joint (&options, time_left (&options, begin_ns), &outcome);
  ps_table_sort (outcome.table, "objective_ns", FALSE);
  publish (&options, &outcome, error);
  return 0;
}
