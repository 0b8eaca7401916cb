/* cmd-search.c - pipesim search: the best schedule that can be found, and how far from optimal it can be. */
#include "cli.h"
#include "plan/setting-search.h"

#include <pipesim/plan.h>

#include <signal.h>
#include <string.h>

/* Stages per device, and slices of a microbatch, that --joint tries. */
#define MOST_CHUNKS 4
#define MOST_SLICES 4

#define DEFAULT_TIME_LIMIT_NS G_GINT64_CONSTANT (10000000000)
#define DEFAULT_SAMPLES 64

typedef struct {
  char *output;
  PsSetting *setting;
  PsLaunchChoice launch;
  PsColumnChoice columns;
  gint64 time_limit_ns;
  gboolean has_time_limit;
  gint64 seed;
  gint64 moves;          /* 0: not given */
  guint jobs;            /* 0: not given */
  guint microbatch_size; /* 0: not given */
  gboolean any_size;     /* --microbatch-size auto */
  gboolean joint;
  gboolean any_chunks; /* no -v */
  gboolean any_shape;  /* nor --placement or --slices */
  guint objective;     /* PsSearchObjective */
  guint n_samples;     /* 0: not given */
  PsVariation variation;
  PsSearchSamples samples;
  PsFromChoice from;
} Options;

static const PsOption rows[] = {
  PS_OPTION_INCLUDE (Options, from, ps_from_rows),
  PS_OPTION ("time-limit", 't', PS_TIME (Options, time_limit_ns), "T",
             "How long to search, after all published schedules were tried", .otherwise = "10s",
             .given = PS_MEMBER (Options, has_time_limit, gboolean)),
  PS_OPTION ("moves", 0, PS_INTEGER (Options, moves, 1, 0), "N",
             "Search this number of moves per thread, in place of a time: the result depends on seed and jobs alone",
             .otherwise = "as many as the time allows"),
  PS_OPTION ("seed", 0, PS_INTEGER (Options, seed, 0, 0), "N", "Seed of the random choices", .initial = 1),
  PS_OPTION ("jobs", 'j', PS_COUNT (Options, jobs, 1, 1024), "N", "Threads", .otherwise = "one per processor"),
  PS_OPTION (
      "joint", 0, PS_FLAG (Options, joint), NULL,
      "Try up to 4 stages per device, or slices of a microbatch, too. Half of the time then improves the best "
      "rows of one and of two copies: stages change what they offload, and what all or some of their microbatches "
      "recompute. Without --layout layers move to neighbours. Without --placement stages move to other devices "
      "(without -v also more to one than to another). Not with --lengths"),
  PS_OPTION ("objective", 0, PS_NAME (Options, objective, ps_search_objective), "WHAT",
             "What a good schedule makes small: the iteration time at the costs as they are, or its mean or p90 over "
             "samples of varying costs",
             .group = PS_GROUP_VARIATION),
  PS_OPTION ("samples", 0, PS_COUNT (Options, n_samples, 1, PS_MAX_SAMPLES), "N",
             "Samples of the costs for --objective, the same for all schedules", .otherwise = "64",
             .group = PS_GROUP_VARIATION),
  PS_OPTION_INCLUDE (Options, variation, ps_variation_rows),
  PS_OPTION ("microbatch-size", 0, PS_COUNT (Options, microbatch_size, 1, PS_MAX_MICROBATCHES), "B|auto",
             "Sequences per microbatch, with as many microbatches as keep the batch; auto tries powers of two",
             .any = "auto", .any_offset = PS_MEMBER (Options, any_size, gboolean), .group = PS_GROUP_COSTS,
             .otherwise = "the model's"),
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE", "Write the best schedule", .group = PS_GROUP_OUTPUT),
  PS_OPTION_TABLE (Options, columns, "pipesim-search/1"),
  PS_OPTION_INCLUDE (Options, launch, ps_launch_rows),
  PS_OPTION_INCLUDE_AT (Options, setting, ps_setting_options, PS_FIELD_NOT_SEARCH),
  PS_OPTION_END,
};

/* Rows */

typedef struct {
  PsFigures figures;
  const char *placement;
  guint n_slices, microbatch_size;
  char *recompute, *offload;
  const char *comm_order, *objective;
  gint64 objective_ns;
  double gap;
  gboolean proved_optimal;
  gint64 n_moves;
  const char *found_by;
} Row;

static const PsCellColumn columns[] = {
  PS_FIGURE_JSON ("schedule"),
  PS_CELL (Row, placement, "placement", "placement", TEXT),
  PS_FIGURE ("devices"),
  PS_FIGURE ("microbatches"),
  PS_FIGURE ("chunks"),
  PS_CELL (Row, n_slices, "slices", "slices", INTEGER),
  PS_CELL_KNOWN (Row, microbatch_size, "microbatch_size", "b", INTEGER),
  PS_CELL (Row, recompute, "recompute", "recompute", TEXT),
  PS_CELL (Row, offload, "offload", "offload", TEXT),
  PS_CELL (Row, comm_order, "comm_order", "comm order", TEXT),
  PS_FIGURE ("makespan_ns"),
  PS_FIGURE_JSON ("max_span_ns"),
  PS_FIGURE ("iteration_ns"),
  PS_CELL (Row, objective, "objective", NULL, TEXT),
  PS_CELL (Row, objective_ns, "objective_ns", NULL, TIME),
  PS_FIGURE ("bubble_ratio"),
  PS_FIGURE_JSON ("bubble_ratio_span"),
  PS_FIGURE ("lower_bound_ns"),
  PS_CELL (Row, gap, "gap", "gap", PERCENT),
  PS_CELL (Row, proved_optimal, "proved_optimal", "optimal", BOOLEAN),
  PS_FIGURE ("peak_memory_bytes"),
  PS_FIGURE_JSON ("feasible"),
  PS_CELL (Row, n_moves, "moves", NULL, INTEGER),
  PS_CELL (Row, found_by, "found_by", "found by", TEXT),
  PS_FIGURE ("layout"),
  PS_CELL_SET ("order", NULL, JSON),
  PS_FIGURE ("devices_detail"),
  PS_FIGURE ("first_token_ns"), /* last: of prefill alone */
};

/* One microbatch size, one slice, and one part that is recomputed go without saying. The order of sends and receives is
 * of no concern where nothing waits for them, nor is the layout of stages that are given or measured as they are. */
static PsTable *new_table (const Options *options)
{
  const PsSetting *setting = options->setting;
  gboolean serves = setting->serve != PS_SERVE_NONE;
  PsTable *table = ps_table_of (columns, G_N_ELEMENTS (columns) - !serves, NULL, 0, 0);
  const struct {
    const char *key;
    gboolean shown;
  } conditions[] = {
    { "microbatch_size", options->any_size },
    { "slices", setting->n_slices > 1 || options->joint },
    { "recompute", setting->any_recompute || options->joint },
    { "comm_order", ps_setting_transfers_wait (setting) },
    { "offload", setting->offload != 0 },
    { "iteration_ns", !serves },
    { "layout", setting->cluster != NULL || setting->layout != NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (conditions); i++)
    if (!conditions[i].shown)
      ps_table_set_title (table, conditions[i].key, NULL);
  if (options->objective != PS_SEARCH_TIME)
    ps_table_set_title (table, "objective_ns", ps_search_objective_name (options->objective));
  return table;
}

static char *write_orders (const PsSchedule *schedule)
{
  GString *json = g_string_new (NULL);
  char name[48];

  for (guint d = 0; d < schedule->placement->n_devices; d++) {
    g_string_append_printf (json, "%s\n        [", d ? "," : "[");
    for (guint i = schedule->first[d]; i < schedule->first[d + 1]; i++) {
      const char *before = i == schedule->first[d] ? "\"" : schedule->ops[i - 1].paired ? "+" : ", \"";

      g_string_append_printf (json, "%s%s%s", before, ps_op_format (schedule->ops[i], name),
                              schedule->ops[i].paired ? "" : "\"");
    }
    g_string_append_c (json, ']');
  }
  return g_string_free (g_string_append (json, "\n      ]"), FALSE);
}

/* The value as a command line has it: "full", or "full:none" with one for each stage. Free with g_free. */
static char *typed_value (const char *name, const PsSetting *setting)
{
  g_autofree char *typed = ps_option_typed (ps_option_find (ps_setting_options, name), setting);

  return g_strdup (strchr (typed, ' ') + 1);
}

/* Stages some of whose microbatches have an R are "some". Free with g_free. */
static char *describe_recompute (const PsSetting *setting, const PsSchedule *schedule)
{
  g_autofree guint8 *recomputed = ps_schedule_recomputed (schedule);
  gsize n_stages = schedule->placement->n_stages, n = ps_schedule_n_cells (schedule) / n_stages;

  if (recomputed == NULL)
    return typed_value ("recompute", setting);
  GString *text = g_string_new (NULL);
  for (guint stage = 0; stage < n_stages; stage++)
    g_string_append_printf (text, "%s%s", stage > 0 ? ":" : "",
                            memchr (&recomputed[stage * n], 1, n) != NULL
                                ? "some"
                                : ps_recompute_name (ps_setting_recompute (setting, stage)));
  return g_string_free (text, FALSE);
}

static void add_row (PsTable *table, PsSearchObjective objective, const PsSearchBest *made)
{
  const PsSetting *choice = &made->setting;
  const PsSearchFound *found = &made->found;
  const PsSearchResult *result = found->result;
  g_autofree char *layout = ps_prediction_layout (found->prediction),
                  *offload = typed_value ("offload", &made->setting);
  g_autofree char *recompute = describe_recompute (&made->setting, result->schedule);
  Row row = { .figures = ps_prediction_figures (found->prediction),
              .placement = ps_placement_name (result->schedule->placement->kind),
              .n_slices = choice->n_slices,
              .microbatch_size = choice->microbatch_size,
              .recompute = recompute,
              .offload = offload,
              .comm_order = ps_comm_order_name (found->comm_order),
              .objective = ps_search_objective_name (objective),
              .objective_ns = found->figure_ns,
              .gap = (double)result->price_ns / (double)MAX (result->lower_bound_ns, 1) - 1,
              .proved_optimal = result->proved_optimal,
              .n_moves = (gint64)result->n_moves,
              .found_by = result->found_by };

  row.figures.schedule = result->schedule->name;
  row.figures.n_microbatches = choice->n_microbatches;
  row.figures.n_chunks = choice->n_chunks;
  row.figures.lower_bound_ns = result->lower_bound_ns;
  row.figures.layout = layout;
  ps_table_add (table, &row);
  ps_table_set_json (table, "order", write_orders (result->schedule));
}

/* The results of the choices. */
typedef struct {
  const Options *options;
  PsTable *table;
  char *about;
  PsSearchAll all;
} Outcome;

static void outcome_clear (Outcome *outcome)
{
  ps_table_free (outcome->table);
  g_free (outcome->about);
  ps_search_all_clear (&outcome->all);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Outcome, outcome_clear)

static void note_found (const PsSearchBest *made, gpointer data)
{
  Outcome *outcome = data;

  add_row (outcome->table, outcome->options->objective, made);
  if (outcome->about == NULL) {
    g_autofree char *description = ps_costs_describe (made->found.prediction->costs);

    outcome->about = g_strconcat ("simulated from ", description, NULL);
  }
}

/* "pipesim predict ...", of the file with the best schedule, which says chunks and slices. NULL: there is none. */
static char *write_command (const Options *options, const PsSearchBest *made)
{
  PsSetting setting = made->setting;
  const PsSearchFound *best = &made->found;
  g_autofree char *layout = ps_prediction_layout (best->prediction), *typed = NULL, *file = NULL;

  if (options->output == NULL)
    return NULL;
  setting.n_chunks = 0;
  if (!setting.even_work && setting.n_slice_tokens == 0)
    setting.n_slices = 0;
  setting.has_placement = FALSE;
  setting.layout = layout;
  setting.reorder = setting.reorder || best->comm_order != setting.comm_order;
  setting.comm_order = best->comm_order;
  typed = ps_setting_typed (&setting);
  file = g_shell_quote (options->output);
  return g_strdup_printf ("pipesim predict --schedule %s%s", file, typed);
}

/* A published schedule goes by its name, another one by the file of -o, which may be called like a family. */
static gboolean print_launch (const Options *options, const PsSearchBest *best, GError **error)
{
  const PsSchedule *schedule = best->found.result->schedule;
  gboolean published = ps_family_find (schedule->name) != NULL && schedule->placement->kind != PS_PLACEMENT_CUSTOM;
  g_autofree char *path = g_build_filename (".", options->output, NULL);
  const char *file = ps_family_find (options->output) != NULL ? path : options->output;
  g_autofree char *text = ps_launch_prediction (&options->launch, &best->setting, published ? schedule->name : file,
                                                best->found.prediction, error);

  return text != NULL && ps_print (text, error);
}

/* The published schedules that cut sequences into slices, fit, and are faster than a search that cut none; "": none.
 * Free with g_free. */
static char *find_sliced (const Options *options, const PsSearchBest *best)
{
  PsSetting setting = best->setting;
  g_autoptr (GString) text = g_string_new (NULL);
  guint n_families, n_slices = 0;
  const PsFamily *const *families = ps_family_table (&n_families);

  if (!options->any_shape || options->joint || setting.serve != PS_SERVE_NONE || options->objective != PS_SEARCH_TIME)
    return g_strdup ("");
  setting.n_slices = setting.n_chunks = 0;
  setting.has_placement = FALSE;
  g_autoptr (PsPredictor) predictor = ps_predictor_new (&setting, NULL);
  for (guint i = 0; i < n_families; i++) {
    g_autoptr (PsPrediction) sliced
        = families[i]->default_slices > 0 ? ps_predictor_predict (predictor, families[i]->name, NULL) : NULL;

    if (sliced == NULL || !sliced->feasible
        || sliced->metrics.iteration_ns >= best->found.prediction->metrics.iteration_ns)
      continue;
    g_autofree char *time = ps_format_time (sliced->metrics.iteration_ns);
    n_slices = sliced->program->schedule->n_slices;
    g_string_append_printf (text, "%s%s takes %s", text->len > 0 ? ", " : "", families[i]->name, time);
  }
  if (text->len > 0)
    g_string_append_printf (text,
                            " with slices of sequences, which these rows do not have; --slices %u searches with "
                            "them",
                            n_slices);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static gboolean publish (const Options *options, Outcome *outcome, GError **error)
{
  const PsSearchBest *best = ps_search_all_best (&outcome->all);
  gint caught = g_atomic_int_get (outcome->all.limits.stop);
  const char *skipped = outcome->all.skipped->str;
  g_autofree char *command = write_command (options, best), *sliced = find_sliced (options, best);
  g_autofree char *head = NULL, *about = NULL, *text = NULL, *note = ps_fit_sentence (sliced, 0), *page = NULL;
  const char *extra[] = { "origin",
                          ps_origin_name (PS_ORIGIN_SIMULATED),
                          "costs",
                          outcome->about,
                          "skipped",
                          skipped,
                          "sliced",
                          sliced,
                          command != NULL ? "command" : NULL,
                          command,
                          NULL };

  if (options->output != NULL) {
    g_autofree char *schedule = ps_schedule_to_json (best->found.result->schedule);

    if (!ps_write_file (options->output, schedule, -1, error))
      return FALSE;
  }
  if (g_strcmp0 (options->output, "-") == 0)
    return TRUE;
  if (caught != 0)
    g_printerr ("stopped by %s: the best found so far\n", caught == SIGINT ? "SIGINT" : "SIGTERM");
  if (*skipped && !options->columns.json)
    g_printerr ("skipped: %s\n", skipped);
  if (options->launch.to != NULL)
    return print_launch (options, best, error);
  if (options->columns.json)
    return ps_table_print (outcome->table, "pipesim-search/1", extra, error);
  if (options->objective == PS_SEARCH_TIME)
    head = g_strdup (outcome->about);
  else {
    g_autofree char *causes = ps_variation_describe (&options->variation);

    head = g_strdup_printf ("%s\n%s of the iteration, simulated from %u samples, seed %" G_GINT64_FORMAT "%s",
                            outcome->about, ps_search_objective_name (options->objective), options->samples.n_samples,
                            options->seed, causes);
  }
  about = ps_fit_sentence (head, 0);
  text = ps_table_to_text (outcome->table);
  page = g_strdup_printf ("%s%s%s%s%s%s", about, text, note, command != NULL ? "predict it again: " : "",
                          command != NULL ? command : "", command != NULL ? "\n" : "");
  return ps_print (page, error);
}

/* The command */

static gboolean set_samples (Options *options, GError **error)
{
  gboolean varies, samples = options->objective != PS_SEARCH_TIME;

  if (!ps_variation_finish (&options->variation, options->setting, &varies, error))
    return FALSE;
  if (varies != samples || (options->n_samples > 0 && !samples))
    return ps_refuse (error, PS_ERROR_USAGE,
                      samples ? "--objective %s: nothing varies; give --jitter, --straggler or --slow-link"
                              : "--objective %s: looks at no samples; mean or p90 would",
                      ps_search_objective_name (options->objective));
  if (!ps_uncertainty_check (&options->variation.uncertainty, options->setting->n_devices, error))
    return FALSE;
  options->samples = (PsSearchSamples){ .objective = options->objective,
                                        .uncertainty = options->variation.uncertainty,
                                        .n_samples = options->n_samples > 0 ? options->n_samples : DEFAULT_SAMPLES,
                                        .seed = (guint64)options->seed };
  return TRUE;
}

static gboolean finish_options (Options *options, const char *stray, GError **error)
{
  PsSetting *setting = options->setting;

  if (stray != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected; a search starts from costs alone", stray);
  if (!ps_launch_imply (options->launch.to, setting, error) || !ps_setting_check (setting, error))
    return FALSE;
  if (options->jobs == 0)
    options->jobs = g_get_num_processors ();
  if (options->has_time_limit && options->time_limit_ns == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--time-limit: '0' leaves no time; 10s would be right");
  if (!options->has_time_limit && options->moves == 0)
    options->time_limit_ns = DEFAULT_TIME_LIMIT_NS;
  if (setting->n_devices == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "-p/--devices: missing; a search needs it");
  if (setting->n_microbatches == 0 && setting->serve != PS_SERVE_NONE)
    setting->n_microbatches = MAX (setting->n_prompt_each, 1);
  if (setting->n_microbatches == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "-m/--microbatches: missing; a search needs it");
  if (options->launch.to != NULL
      && (options->output == NULL || g_str_equal (options->output, "-") || options->columns.json))
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: needs -o FILE for the schedule, and prints no JSON",
                      options->launch.to);
  if ((options->microbatch_size > 0 || options->any_size) && (setting->model == NULL || setting->cluster == NULL))
    return ps_refuse (error, PS_ERROR_USAGE, "--microbatch-size: needs modelled costs, --model FILE --cluster FILE");
  if (ps_setting_zero (setting) == 3)
    return ps_refuse (error, PS_ERROR_USAGE, "--zero 3: a search knows no gathers; predict does");
  if (options->joint && setting->serve != PS_SERVE_NONE)
    return ps_refuse (error, PS_ERROR_USAGE, "--joint: is of training; --serve prefill does without it");
  if (options->joint && setting->lengths != NULL)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--joint: its bounds are of microbatches of one length; leave out --lengths, or leave "
                      "out --joint and give --recompute auto");
  if (setting->n_recompute > 0 || setting->n_offload > 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--%s: a search takes one for all stages; --joint finds one for each",
                      setting->n_recompute > 0 ? "recompute" : "offload");
  return ps_setting_refuse (setting, PS_FIELD_NOT_SEARCH, "belongs to single schedules; a search does without it",
                            error);
}

static int run (G_GNUC_UNUSED const PsCmd *command, gpointer base, int argc, char **argv, GError **error)
{
  Options *options = base;
  g_auto (Outcome) outcome = { .options = options };

  options->any_chunks = options->setting->n_chunks == 0;
  options->any_shape = options->any_chunks && options->setting->n_slices == 0 && !options->setting->has_placement;
  if (!finish_options (options, argc > 1 ? argv[1] : NULL, error))
    return 0;
  outcome.table = new_table (options);
  if (!ps_table_choose (outcome.table, &options->columns, NULL, error) || !set_samples (options, error)
      || !ps_output_check ("-o", options->output, error))
    return 0;
  g_autoptr (GArray) choices
      = ps_search_choices (options->setting, options->microbatch_size, options->any_size,
                           options->joint ? MOST_CHUNKS : 2, options->joint ? MOST_SLICES : 1, error);
  if (choices == NULL)
    return 0;
  outcome.all = (PsSearchAll){ .choices = choices,
                               .limits = { .time_limit_ns = options->time_limit_ns,
                                           .moves = options->moves,
                                           .seed = options->seed,
                                           .n_threads = options->jobs,
                                           .stop = ps_note_signals (),
                                           .samples = &options->samples,
                                           .measured = options->variation.is_measured },
                               .joint = options->joint,
                               .any_chunks = options->any_chunks,
                               .note = note_found,
                               .data = &outcome };
  if (!ps_search_all (&outcome.all, error))
    return 0;
  ps_table_sort (outcome.table, "objective_ns", FALSE);
  publish (options, &outcome, error);
  return 0;
}

static void clear (gpointer options)
{
  g_free (((Options *)options)->variation.slowness);
}

const PsCmd ps_cmd_search = {
  .help = {
  .summary = "Finds the best schedule for given costs and memory, and says how far from optimal it can be.",
  .text
  = "Without -v and --placement (or with auto) the search tries one and two stages per device, in a loop and in "
    "a V. For even -p and -m it also tries two copies of the weights: half of the microbatches go up through one "
    "(bidirectional). --recompute auto and --microbatch-size auto try several of these as well. All share the "
    "time. Backwards run split, or fused where bw= says that this is faster, or in pairs with forwards where pair= "
    "says so.\n\n"
    "A row is never slower than a published schedule of its placement that fits the memory limit, by the times "
    "that predict gives for the same options. Schedules with stale weights or other --slices do not count; a "
    "line after the rows names those with slices that are faster. Where transfers wait for each other and "
    "--comm-order is not given, the search tries planned too. The column comm order says which of the two a row's"
    " times belong to. The lower bound holds for every schedule of the row's "
    "placement within the memory limit, without O. gap says how much longer the row's iteration is: also without "
    "O, but with all-reduces that nothing hides.\n\n"
    "found by: the name of a published schedule that was best as it is; list scheduling, which lets each device start "
    "the op that a rule ranks first; beam search, which keeps several such orders side by side; local search, which "
    "moves ops of a good order; windows of ops, which fixes what can run when and so proves its answer; joint moves, "
    "which change stages and order together.\n\n"
    "With --objective mean or p90 costs vary as --jitter, --straggler and --slow-link say. The better schedule is "
    "then the one with the lower mean or p90. Bound and gap stay those of the costs as they are.\n\n"
    "With --joint one more row has the best schedule with its own choice of stages. Its recompute and offload say "
    "what each stage does, if they differ. recompute some: in the file of -o, each microbatch that recomputes has "
    "an R. placement custom: the file of -o says where the stages are. The row's bound is that of its "
    "stages on its devices, whatever their microbatches recompute or offload.\n\n"
    "With --serve prefill a search orders the chunks of all prompts: by the makespan, and where that is equal by the "
    "mean time to the first token.\n\n"
    "A search tries all published schedules first, before it looks at a limit or a signal: half a minute for 2048 "
    "microbatches on 512 devices.\n"
    "The result under --time-limit differs from run to run; the result of --moves is always the same. A longer "
    "search goes on where a shorter one stopped, and is never worse. Ctrl-C (SIGINT) or SIGTERM ends the search: "
    "it prints and writes the best schedule so far, and the exit code is 0. A second one ends the program.\n",
  .examples = "pipesim search -p 4 -m 8 --costs f=6ms,b=4ms,w=4ms,c=1ms,act=2MiB,wact=1MiB --memory-limit 6MiB --moves "
              "100000 -o best.json\n"
              "pipesim search -p 4 -m 8 --model gpt-1.5b --cluster a100-80gb --time-limit 2s\n"
              "pipesim search -p 2 -m 4 --costs f=1ms,b=1ms,w=1ms --placement V --moves 10000 --jobs 1 --json\n",
  },
  .rows = rows,
  .size = sizeof (Options),
  .setting = offsetof (Options, setting),
  .takes_auto = TRUE,
  .run = run,
  .clear = clear,
};
