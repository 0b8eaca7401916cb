/* search-options.c - the command line of pipesim search. */
#include "search-options.h"

#include <pipesim/option.h>

#define DEFAULT_TIME_LIMIT_NS G_GINT64_CONSTANT (10000000000)
#define DEFAULT_SAMPLES 64

static const PsOption rows[] = {
  PS_OPTION ("time-limit", 't', PS_TIME (SearchOptions, time_limit_ns), "T",
             "How long to search, after all published schedules were tried", .otherwise = "10s",
             .given = PS_MEMBER (SearchOptions, has_time_limit, gboolean)),
  PS_OPTION ("moves", 0, PS_INTEGER (SearchOptions, moves, 1, 0), "N",
             "Search this number of moves per thread, in place of a time: the result depends on seed and jobs alone",
             .otherwise = "as many as the time allows"),
  PS_OPTION ("seed", 0, PS_INTEGER (SearchOptions, seed, 0, 0), "N", "Seed of the random choices", .initial = 1),
  PS_OPTION ("jobs", 'j', PS_COUNT (SearchOptions, jobs, 1, 1024), "N", "Threads", .otherwise = "one per processor"),
  PS_OPTION (
      "joint", 0, PS_FLAG (SearchOptions, joint), NULL,
      "Try up to 4 stages per device, or slices of a microbatch, too. Half of the time then improves the best "
      "rows of one and of two copies: stages change what they offload, and what all or some of their microbatches "
      "recompute. Without --layout layers move to neighbours. Without --placement stages move to other devices "
      "(without -v also more to one than to another). Not with --lengths"),
  PS_OPTION ("objective", 0, PS_NAME (SearchOptions, objective, search_objective), "WHAT",
             "What a good schedule makes small: the iteration time at the costs as they are, or its mean or p90 over "
             "samples of varying costs",
             .group = PS_GROUP_VARIATION),
  PS_OPTION ("samples", 0, PS_COUNT (SearchOptions, n_samples, 1, PS_MAX_SAMPLES), "N",
             "Samples of the costs for --objective, the same for all schedules", .otherwise = "64",
             .group = PS_GROUP_VARIATION),
  PS_OPTION_INCLUDE (SearchOptions, variation, ps_variation_rows),
  PS_OPTION ("microbatch-size", 0, PS_COUNT (SearchOptions, microbatch_size, 1, PS_MAX_MICROBATCHES), "B|auto",
             "Sequences per microbatch, with as many microbatches as keep the batch; auto tries powers of two",
             .any = "auto", .any_offset = PS_MEMBER (SearchOptions, any_size, gboolean), .group = PS_GROUP_COSTS,
             .otherwise = "the model's"),
  PS_OPTION ("output", 'o', PS_FILE (SearchOptions, output), "FILE", "Write the best schedule",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("json", 0, PS_FLAG (SearchOptions, json), NULL, "Print JSON (format pipesim-search/1)",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (SearchOptions, columns, ps_column_rows),
  PS_OPTION_INCLUDE (SearchOptions, launch, ps_launch_rows),
  PS_OPTION_INCLUDE_AT (SearchOptions, setting, ps_setting_options, PS_FIELD_NOT_SEARCH),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .summary = "Finds the best schedule for given costs and memory, and says how far from optimal it can be.",
  .text
  = "Without -v and --placement (or with auto) the search tries one and two stages per device, in a loop and in\n"
    "a V. For even -p and -m it also tries two copies of the weights: half of the microbatches go up through one\n"
    "(bidirectional). --recompute auto and --microbatch-size auto try several of these as well. All share the\n"
    "time. Backwards run split, or fused where bw= says that this is faster, or in pairs with forwards where pair=\n"
    "says so.\n\n"
    "A row is never slower than a published schedule of its placement that fits the memory limit, by the times\n"
    "that predict gives for the same options. Schedules with stale weights or other --slices do not count. Where\n"
    "transfers wait for each other and --comm-order is not given, the search tries planned too. The column comm\n"
    "order says which of the two a row's times belong to. The lower bound holds for every schedule of the row's\n"
    "placement within the memory limit, without O. gap says how much longer the row's iteration is: also without\n"
    "O, but with all-reduces that nothing hides.\n\n"
    "With --objective mean or p90 costs vary as --jitter, --straggler and --slow-link say. The better schedule is\n"
    "then the one with the lower mean or p90. Bound and gap stay those of the costs as they are.\n\n"
    "With --joint one more row has the best schedule with its own choice of stages. Its recompute and offload say\n"
    "what each stage does, if they differ. recompute some: in the file of -o, each microbatch that recomputes has\n"
    "an R. placement custom: the file of -o says where the stages are. The row's bound is that of its\n"
    "stages on its devices, whatever their microbatches recompute or offload.\n\n"
    "A search tries all published schedules first, before it looks at a limit or a signal: half a minute for 2048\n"
    "microbatches on 512 devices.\n"
    "The result under --time-limit differs from run to run; the result of --moves is always the same. A longer\n"
    "search goes on where a shorter one stopped, and is never worse. Ctrl-C (SIGINT) or SIGTERM ends the search:\n"
    "it prints and writes the best schedule so far, and the exit code is 0. A second one ends the program.\n",
  .examples = "pipesim search -p 4 -m 8 --costs f=6ms,b=4ms,w=4ms,c=1ms,act=2MiB,wact=1MiB --memory-limit 6MiB --moves "
              "100000 -o best.json\n"
              "pipesim search -p 4 -m 8 --model gpt-1.5b --cluster a100-80gb --time-limit 2s\n"
              "pipesim search -p 2 -m 4 --costs f=1ms,b=1ms,w=1ms --placement V --moves 10000 --jobs 1 --json\n",
};

void
search_options_clear (SearchOptions *options)
{
  ps_options_reset (rows, options);
  ps_setting_free (options->setting);
  ps_variation_clear (&options->variation);
}

void
search_options_columns (const SearchOptions *options, PsColumn *columns)
{
  search_columns (options->setting, options->objective, columns);
  for (guint i = 0; i < SEARCH_N_COLUMNS; i++)
    if ((g_str_equal (columns[i].key, "microbatch_size") && !options->any_size)
        || (g_str_equal (columns[i].key, "slices") && options->setting->n_slices <= 1 && !options->joint)
        || (g_str_equal (columns[i].key, "recompute") && !options->setting->any_recompute && !options->joint))
      columns[i].title = NULL;
}

static gboolean
set_limits (SearchOptions *options, GError **error)
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
set_samples (SearchOptions *options, GError **error)
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
finish (SearchOptions *options, int argc, char **argv, GError **error)
{
  PsSetting *setting = options->setting;
  PsColumn columns[SEARCH_N_COLUMNS];

  if (!ps_launch_imply (options->launch.to, &setting->framework, error) || !ps_setting_check (setting, error)
      || !set_limits (options, error))
    return FALSE;
  if (argc > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected; a search starts from costs alone", argv[1]);
  if (setting->n_devices == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "-p/--devices: missing; a search needs it");
  if (setting->n_microbatches == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "-m/--microbatches: missing; a search needs it");
  if (options->launch.to != NULL && (options->output == NULL || g_str_equal (options->output, "-") || options->json))
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: needs -o FILE for the schedule, and prints no JSON",
                      options->launch.to);
  if ((options->microbatch_size > 0 || options->any_size) && (setting->model == NULL || setting->cluster == NULL))
    return ps_refuse (error, PS_ERROR_USAGE, "--microbatch-size: needs modelled costs, --model FILE --cluster FILE");
  if (ps_setting_zero (setting) == 3)
    return ps_refuse (error, PS_ERROR_USAGE, "--zero 3: a search knows no gathers; predict does");
  if (options->joint && setting->lengths != NULL)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--joint: its bounds are of microbatches of one length; leave out --lengths, or leave "
                      "out --joint and give --recompute auto");
  if (setting->n_recompute > 0 || setting->n_offload > 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--%s: a search takes one for all stages; --joint finds one for each",
                      setting->n_recompute > 0 ? "recompute" : "offload");
  search_options_columns (options, columns);
  return ps_setting_refuse (setting, PS_FIELD_NOT_SEARCH, "belongs to single schedules; a search does without it",
                            error)
         && ps_column_choice_check (&options->columns, columns, SEARCH_N_COLUMNS, options->json, error)
         && set_samples (options, error) && ps_output_check ("-o", options->output, error);
}

gboolean
search_options_parse (SearchOptions *options, int argc, char **argv, GError **error)
{
  options->setting = ps_setting_new ();
  options->setting->takes_auto = TRUE;
  if (!ps_command_parse (&help, rows, options, &argc, &argv, error))
    return FALSE;
  options->any_chunks = options->setting->n_chunks == 0;
  return finish (options, argc, argv, error);
}
