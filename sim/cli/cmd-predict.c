/* cmd-predict.c - pipesim predict: what a schedule would take, or all of them ranked. */
#include "commands.h"
#include "predict-rows.h"

#include <pipesim/option.h>
#include <pipesim/formats.h>
#include <pipesim/plan.h>
#include <pipesim/partition.h>
#include <pipesim/setting.h>

typedef struct
{
  char **schedules;
  gboolean print_costs;
  guint microbatch_size; /* 0: not given */
  gboolean has_faster;
  char *output;
  PsLaunchChoice launch;
  PsSetting *setting;
  PsPredictShown shown;
} Options;

static const PsOption rows[] = {
  PS_OPTION ("schedule", 's', PS_LIST (Options, schedules), "NAME|FILE,...|all",
             "Family names or schedule files, or all", .group = PS_GROUP_WHAT, .otherwise = ""),
  PS_OPTION ("json", 0, PS_FLAG (Options, shown.json), NULL, "Print JSON (format pipesim-predict/1)",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (Options, shown.columns, ps_column_rows),
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE",
             "Write the simulated timeline; FILE.trace.json is a Chrome trace, FILE.gz is packed",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (Options, launch, ps_launch_rows),
  PS_OPTION ("memory", 0, PS_FLAG (Options, shown.memory), NULL,
             "Show what fills the memory of each device at its peak", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("explain", 0, PS_FLAG (Options, shown.explain), NULL,
             "Show the critical path, the causes of waiting, and the parts that would pay off",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("faster", 0, PS_PERCENT (Options, shown.faster, 0.001, 100), "PERCENT",
             "With --explain: time that a part saves in the list of parts that would pay off, in percent",
             .initial = 0.1, .given = PS_MEMBER (Options, has_faster, gboolean), .group = PS_GROUP_OUTPUT),
  PS_OPTION ("microbatch-size", 0, PS_COUNT (Options, microbatch_size, 1, PS_MAX_MICROBATCHES), "N",
             "Sequences per microbatch in place of the model's, for modelled costs", .group = PS_GROUP_COSTS,
             .otherwise = "the model's"),
  PS_OPTION ("print-costs", 0, PS_FLAG (Options, print_costs), NULL,
             "Print the costs of -p times -v stages as --costs takes them, and predict nothing",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (Options, shown.spread, ps_spread_rows),
  PS_OPTION_INCLUDE_AT (Options, setting, ps_setting_options, 0),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .summary = "Simulates schedules: time, bubble, memory, and a bound that no schedule can beat.",
  .text
  = "bubble of iteration = 1 - busy time / (p * iteration time)\n"
    "bubble of span = 1 - (busy time / p) / longest span of a device\n"
    "p10-p90: 80 of 100 runs of 5 steps at other times have a median iteration time in between (measured costs)\n",
  .examples = "pipesim predict -s all -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB\n"
              "pipesim predict -s 1f1b,zb-h1 -p 4 -m 32 --model llama-3-70b --cluster h100-80gb --tensor 8 --memory\n"
              "pipesim predict -s zb-h1 -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms -o zb-h1.json --explain\n",
};

static void
options_clear (Options *options)
{
  ps_options_reset (rows, options);
  ps_setting_free (options->setting);
  ps_spread_options_clear (&options->shown.spread);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static gboolean
write_timeline (const PsPrediction *prediction, const char *path, GError **error)
{
  g_autoptr (PsTimeline) timeline = ps_prediction_timeline (prediction);

  return ps_timeline_write (timeline, path, error);
}

static PsPrediction *
predict_one (PsPredictor *predictor, const char *name, GError **error)
{
  g_autoptr (PsPrediction) prediction = ps_predictor_predict (predictor, name, error);

  return prediction != NULL && ps_predictor_add_interval (predictor, prediction, PS_INTERVAL_STEPS, error)
             ? g_steal_pointer (&prediction)
             : NULL;
}

/* Writes what -o and --to ask for; else the prediction, whose ownership it takes, becomes a row. */
static gboolean
take (const Options *options, PsPredictRows *rows, PsPrediction *taken, GError **error)
{
  g_autoptr (PsPrediction) prediction = taken;

  if (options->output != NULL && !write_timeline (prediction, options->output, error))
    return FALSE;
  if (options->launch.to == NULL)
    return ps_predict_rows_take (rows, g_steal_pointer (&prediction), error);
  g_autofree char *launch
      = ps_launch_prediction (&options->launch, options->setting, options->schedules[0], prediction, error);
  return launch != NULL && ps_print (launch, error);
}

/* Predicts each schedule. With `all`, a family that this setting excludes is skipped with its reason; when none is
 * left, the first reason is the error. */
static gboolean
predict (const Options *options, PsPredictor *predictor, PsPredictRows *rows, GError **error)
{
  g_auto (GStrv) names = ps_family_names (options->schedules);
  gboolean all = g_str_equal (options->schedules[0], "all") && options->schedules[1] == NULL;
  g_autoptr (GError) first = NULL;

  for (guint i = 0; names[i] != NULL && (all || first == NULL); i++)
    {
      const char *name = names[i];
      g_autoptr (GError) reason = NULL;
      g_autoptr (PsPrediction) prediction = predict_one (predictor, name, &reason);

      if (prediction == NULL)
        {
          ps_predict_rows_skip (rows, name, reason);
          if (first == NULL)
            first = g_steal_pointer (&reason);
        }
      else if (!take (options, rows, g_steal_pointer (&prediction), error))
        return FALSE;
    }
  if (first == NULL || (all && !ps_predict_rows_are_empty (rows)))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&first));
  return FALSE;
}

static gboolean
check_analysis (Options *options, GError **error)
{
  if (options->shown.explain && options->shown.several)
    return ps_refuse (error, PS_ERROR_USAGE, "--explain: explains one schedule, not several");
  if (options->has_faster && !options->shown.explain)
    return ps_refuse (error, PS_ERROR_USAGE, "--faster: belongs to --explain");
  if (!ps_spread_options_finish (&options->shown.spread, options->setting, options->shown.several, error))
    return FALSE;
  return ps_setting_zero (options->setting) < 3
         || (!options->shown.explain && options->shown.spread.sampling.n_samples == 0)
         || ps_refuse (error, PS_ERROR_USAGE, "--zero 3: --explain and --samples know no gathers");
}

static gboolean
parse_options (Options *options, int argc, char **argv, GError **error)
{
  options->setting = ps_setting_new ();
  if (!ps_command_parse (&help, rows, options, &argc, &argv, error))
    return FALSE;
  options->setting->microbatch_size = options->microbatch_size;
  if (!ps_launch_imply (options->launch.to, &options->setting->framework, error)
      || !ps_setting_check (options->setting, error))
    return FALSE;
  options->shown.several
      = options->schedules != NULL && (options->schedules[1] != NULL || g_str_equal (options->schedules[0], "all"));
  if (argc > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected; the schedule goes after --schedule", argv[1]);
  if (options->schedules == NULL && !options->print_costs)
    return ps_refuse (error, PS_ERROR_USAGE, "--schedule: missing; give a family, a schedule file, or all");
  if (options->launch.to != NULL && (options->shown.several || options->shown.json))
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: is for one schedule, and prints no JSON", options->launch.to);
  if (options->output != NULL && options->shown.several)
    return ps_refuse (error, PS_ERROR_USAGE, "-o %s: a timeline is of one schedule, not of several", options->output);
  return check_analysis (options, error);
}

static gboolean
print_costs (const PsSetting *setting, GError **error)
{
  g_autoptr (PsCosts) costs = NULL;
  g_autofree char *text = NULL, *line = NULL;

  if (setting->n_devices == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "-p/--devices: missing; the costs are those of their stages");
  costs = ps_setting_costs (setting, setting->n_devices, MAX (setting->n_chunks, 1), error);
  if (costs == NULL)
    return FALSE;
  text = ps_partition_costs_to_text (costs);
  line = g_strconcat (text, "\n", NULL);
  return ps_print (line, error);
}

int
ps_cmd_predict (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };
  g_autoptr (PsPredictor) predictor = NULL; /* outlives the predictions in the rows */

  if (!parse_options (&options, argc, argv, error))
    return 0;
  if (options.print_costs)
    {
      print_costs (options.setting, error);
      return 0;
    }
  predictor = ps_predictor_new (options.setting, NULL);
  g_autoptr (PsPredictRows) rows = ps_predict_rows_new (&options.shown, options.setting, error);
  /* Text of --to or a timeline on stdout is the data; the table would spoil it. */
  if (rows != NULL && predict (&options, predictor, rows, error) && options.launch.to == NULL
      && g_strcmp0 (options.output, "-") != 0)
    ps_predict_rows_print (rows, error);
  return 0;
}
