/* cmd-predict.c - pipesim predict: what a schedule would take, or all of them ranked. */
#include "commands.h"
#include "devices-detail.h"
#include "predict-explain.h"
#include "predict-memory.h"
#include "predict-spread.h"

#include <pipesim/formats.h>
#include <pipesim/launch.h>
#include <pipesim/partition.h>
#include <pipesim/predictor.h>
#include <pipesim/report.h>
#include <pipesim/sources.h>

typedef struct
{
  char **schedules;
  gboolean several; /* of them, or all */
  gboolean json;
  gboolean memory;
  gboolean explain;
  gboolean print_costs;
  guint microbatch_size; /* 0: not given */
  double faster;
  gboolean has_faster;
  char *output;
  char *to;
  PsSetting *setting;
  PsSpreadOptions spread;
} Options;

static const PsOption rows[] = {
  PS_OPTION ("schedule", 's', PS_FILES (Options, schedules), "NAME|FILE,...|all",
             "Family names or schedule files, or all"),
  PS_OPTION ("json", 0, PS_FLAG (Options, json), NULL, "Print JSON (format pipesim-predict/1)"),
  PS_OPTION ("output", 'o', PS_FILE (Options, output), "FILE",
             "Write the simulated timeline; FILE.trace.json is a Chrome trace"),
  PS_OPTION ("to", 0, PS_TEXT (Options, to), "FRAMEWORK",
             "Print only what megatron, torchtitan or deepspeed take to run it: flags and configuration keys",
             .parse = ps_launch_parse),
  PS_OPTION ("memory", 0, PS_FLAG (Options, memory), NULL, "Show what fills the memory of each device at its peak"),
  PS_OPTION ("explain", 0, PS_FLAG (Options, explain), NULL,
             "Show the critical path, the causes of waiting, and the parts that would pay off"),
  PS_OPTION ("faster", 0, PS_PERCENT (Options, faster, 0.001, 100), "PERCENT",
             "With --explain: time that a part saves in the list of parts that would pay off, in percent (default: 10)",
             .initial = 0.1, .given = PS_MEMBER (Options, has_faster, gboolean)),
  PS_OPTION ("microbatch-size", 0, PS_COUNT (Options, microbatch_size, 1, PS_MAX_MICROBATCHES), "N",
             "Sequences per microbatch in place of the model's, for modelled costs"),
  PS_OPTION ("print-costs", 0, PS_FLAG (Options, print_costs), NULL,
             "Print the costs of -p times -v stages as --costs takes them, and predict nothing"),
  PS_OPTION_INCLUDE (Options, spread, ps_spread_rows),
  PS_OPTION_INCLUDE_AT (Options, setting, ps_setting_options),
  PS_OPTION_END,
};

static void
options_clear (Options *options)
{
  ps_options_reset (rows, options);
  ps_setting_free (options->setting);
  ps_spread_options_clear (&options->spread);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

/* The rows to print, and the predictions that they show. */
typedef struct
{
  PsPredictor *predictor;
  PsColumn *columns;
  PsTable *table;
  GPtrArray *predictions; /* PsPrediction */
  PsMemoryRows *memory;   /* NULL: not asked for, as the next two */
  PsExplainReport *explain;
  PsSpreadReport *spread;
  GString *skipped;
  GString *asynchronous; /* names of those schedules */
  gint64 fastest_ns;     /* iteration of the fastest synchronous schedule; 0: none yet */
  char *launch;          /* the text of --to; NULL: not asked for */
  char *gain;            /* the schedule's layout against the even one; NULL: it is even, or was given */
  char *about;           /* what the costs are */
} Result;

static void
result_clear (Result *result)
{
  ps_predictor_free (result->predictor);
  ps_table_free (result->table);
  ps_memory_rows_free (result->memory);
  ps_explain_report_free (result->explain);
  ps_spread_report_free (result->spread);
  g_clear_pointer (&result->predictions, g_ptr_array_unref);
  if (result->skipped != NULL)
    g_string_free (result->skipped, TRUE);
  if (result->asynchronous != NULL)
    g_string_free (result->asynchronous, TRUE);
  g_free (result->columns);
  g_free (result->about);
  g_free (result->gain);
  g_free (result->launch);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Result, result_clear)

static const PsColumn columns[] = {
  { "schedule", "schedule", PS_COLUMN_TEXT },
  { "devices", "p", PS_COLUMN_INTEGER },
  { "microbatches", "m", PS_COLUMN_INTEGER },
  { "chunks", "v", PS_COLUMN_INTEGER },
  { "makespan_ns", "makespan", PS_COLUMN_TIME },
  { "max_span_ns", NULL, PS_COLUMN_TIME },
  { "iteration_ns", "iteration", PS_COLUMN_TIME },
  { "iteration_p10_ns", NULL, PS_COLUMN_TIME },
  { "iteration_p90_ns", NULL, PS_COLUMN_TIME },
  { "interval", "p10-p90", PS_COLUMN_TEXT },
  { "bubble_ratio", "bubble of iteration", PS_COLUMN_RATIO },
  { "bubble_ratio_span", "bubble of span", PS_COLUMN_RATIO },
  { "lower_bound_ns", "lower bound", PS_COLUMN_TIME },
  { "peak_memory_bytes", "peak memory", PS_COLUMN_SIZE },
  { "feasible", "fits", PS_COLUMN_BOOLEAN },
  { "layout", "layout", PS_COLUMN_TEXT },
  { "asynchronous", NULL, PS_COLUMN_BOOLEAN },
  { "devices_detail", NULL, PS_COLUMN_TABLE },
  { "period_iterations", NULL, PS_COLUMN_INTEGER },
  { "memory", NULL, PS_COLUMN_TABLE },
  { "critical_path", NULL, PS_COLUMN_TABLE },
  { "critical_iterations", NULL, PS_COLUMN_INTEGER },
  { "idle", NULL, PS_COLUMN_TABLE },
  { "slack", NULL, PS_COLUMN_TABLE },
  { "what_if", NULL, PS_COLUMN_TABLE },
  { "spread", NULL, PS_COLUMN_TABLE },
  { "wins", NULL, PS_COLUMN_TABLE },
  { "tornado", NULL, PS_COLUMN_TABLE },
};

/* TRUE: iterations have intervals, because their costs are measured. */
static gboolean
has_intervals (const Options *options)
{
  const PsCostSource *source = ps_setting_source (options->setting);

  return source != NULL && source->spread != NULL;
}

/* Columns that appear only where their option is used. */
static gboolean
is_wanted (const Options *options, const char *key)
{
  if (g_str_has_prefix (key, "iteration_p"))
    return has_intervals (options);
  if (g_str_equal (key, "interval"))
    return has_intervals (options) && !options->json;
  if (g_str_equal (key, "period_iterations"))
    return options->setting->sync == PS_SYNC_BYPASS;
  if (g_str_equal (key, "layout"))
    return options->setting->cluster != NULL || options->setting->layout != NULL;
  if (g_str_equal (key, "memory"))
    return options->memory;
  if (g_str_has_prefix (key, "critical_") || g_str_equal (key, "idle") || g_str_equal (key, "slack")
      || g_str_equal (key, "what_if"))
    return options->explain;
  if (g_str_equal (key, "spread"))
    return options->spread.sampling.n_samples > 0;
  if (g_str_equal (key, "wins"))
    return options->spread.sampling.n_samples > 0 && options->several;
  if (g_str_equal (key, "tornado"))
    return options->spread.tornado;
  return TRUE;
}

static void
result_init (Result *result, const Options *options)
{
  guint n = 0;

  result->predictor = ps_predictor_new (options->setting, NULL);
  result->columns = g_new (PsColumn, G_N_ELEMENTS (columns));
  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    if (is_wanted (options, columns[i].key))
      result->columns[n++] = columns[i];
  result->table = ps_table_new (result->columns, n);
  result->predictions = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_prediction_free);
  result->memory = options->memory ? ps_memory_rows_new () : NULL;
  if (options->spread.sampling.n_samples > 0)
    result->spread = ps_spread_report_new (&options->spread, options->setting);
  result->skipped = g_string_new (NULL);
  result->asynchronous = g_string_new (NULL);
}

static void
set_table (PsTable *table, const char *key, PsTable *nested)
{
  if (nested != NULL)
    ps_table_set_table (table, key, nested);
}

static void
add_explanation (PsTable *table, const PsExplainReport *report)
{
  set_table (table, "critical_path", ps_explain_report_path (report));
  ps_table_set_integer (table, "critical_iterations", ps_explain_report_iterations (report));
  set_table (table, "idle", ps_explain_report_idle (report));
  set_table (table, "slack", ps_explain_report_slack (report));
  set_table (table, "what_if", ps_explain_report_what_if (report));
}

static void
add_spread (const Options *options, PsTable *table, const PsSpreadReport *report, const char *schedule)
{
  set_table (table, "spread", ps_spread_report_samples (report, schedule));
  if (options->several)
    set_table (table, "wins", ps_spread_report_wins (report, schedule));
  if (options->spread.tornado)
    set_table (table, "tornado", ps_spread_report_tornado (report, schedule));
}

static void
add_interval (const Options *options, PsTable *table, const PsInterval *interval)
{
  g_autofree char *text = ps_interval_to_text (interval);

  ps_table_set_integer (table, "iteration_p10_ns", interval->p10_ns);
  ps_table_set_integer (table, "iteration_p90_ns", interval->p90_ns);
  if (!options->json)
    ps_table_set_text (table, "interval", text);
}

static void
note_gain (Result *result, const PsPrediction *prediction)
{
  gint64 iteration_ns = prediction->metrics.iteration_ns;
  g_autofree char *layout = ps_prediction_layout (prediction);

  if (prediction->program->schedule->asynchronous || (result->fastest_ns > 0 && result->fastest_ns <= iteration_ns))
    return;
  result->fastest_ns = iteration_ns;
  g_clear_pointer (&result->gain, g_free);
  if (prediction->even_ns > iteration_ns)
    result->gain = g_strdup_printf ("%s: layout %s: %.1f %% faster than even\n", prediction->program->schedule->name,
                                    layout, 100 * ((double)prediction->even_ns / (double)iteration_ns - 1));
  else if (prediction->even_ns > 0)
    result->gain
        = g_strdup_printf ("%s: layout %s: fits, and even does not\n", prediction->program->schedule->name, layout);
}

static void
add_prediction (const Options *options, Result *result, const PsPrediction *prediction)
{
  g_autofree char *layout = is_wanted (options, "layout") ? ps_prediction_layout (prediction) : NULL;
  PsTable *table = result->table;
  const PsSchedule *schedule = prediction->program->schedule;
  const PsMetrics *metrics = &prediction->metrics;

  ps_table_add_row (table);
  ps_table_set_text (table, "schedule", schedule->name);
  ps_table_set_integer (table, "devices", schedule->placement->n_devices);
  ps_table_set_integer (table, "microbatches", schedule->n_microbatches);
  ps_table_set_integer (table, "chunks", ps_placement_max_chunks (schedule->placement));
  ps_table_set_integer (table, "makespan_ns", metrics->makespan_ns);
  ps_table_set_integer (table, "max_span_ns", metrics->max_span_ns);
  ps_table_set_integer (table, "iteration_ns", metrics->iteration_ns);
  if (has_intervals (options))
    add_interval (options, table, &prediction->interval);
  ps_table_set_ratio (table, "bubble_ratio", metrics->bubble_ratio);
  ps_table_set_ratio (table, "bubble_ratio_span", metrics->bubble_ratio_span);
  ps_table_set_integer (table, "lower_bound_ns", prediction->lower_bound_ns);
  ps_table_set_integer (table, "peak_memory_bytes", metrics->peak_memory_bytes);
  ps_table_set_boolean (table, "feasible", prediction->feasible);
  if (layout != NULL)
    ps_table_set_text (table, "layout", layout);
  note_gain (result, prediction);
  ps_table_set_boolean (table, "asynchronous", schedule->asynchronous);
  if (schedule->asynchronous)
    g_string_append_printf (result->asynchronous, "%s%s", result->asynchronous->len ? ", " : "", schedule->name);
  ps_table_set_table (table, "devices_detail", ps_devices_detail (metrics));
  if (options->setting->sync == PS_SYNC_BYPASS && prediction->iteration.n_iterations > 0)
    ps_table_set_integer (table, "period_iterations", prediction->iteration.n_iterations);
  if (options->memory)
    ps_table_set_table (table, "memory", ps_memory_rows_add (result->memory, prediction));
  if (result->explain != NULL)
    add_explanation (table, result->explain);
  if (result->spread != NULL)
    add_spread (options, table, result->spread, schedule->name);
}

static char *
describe_costs (const PsCosts *costs)
{
  return g_strdup_printf ("simulated from %s costs: %s", ps_origin_name (costs->time_origin), costs->source);
}

/* Asynchronous schedules train differently and are no winners: they come last. */
static void
finish_rows (const Options *options, Result *result)
{
  for (guint i = 0; i < result->predictions->len; i++)
    add_prediction (options, result, result->predictions->pdata[i]);
  ps_table_sort (result->table, "iteration_ns", FALSE);
  ps_table_sort (result->table, "asynchronous", FALSE);
}

/* The table, the gain of the first row's layout, and what sets the last rows apart. Free with g_free. */
static char *
rows_to_text (const Result *result)
{
  g_autofree char *text = ps_table_to_text (result->table);
  const char *gain = result->gain != NULL ? result->gain : "";

  if (result->asynchronous->len == 0)
    return g_strconcat (text, gain, NULL);
  return g_strdup_printf (
      "%s%s%s: asynchronous; gradients are of older weights, the lower bound is that of the period\n", text, gain,
      result->asynchronous->str);
}

/* Rows of sampled schedules say how often they win over the others, so they wait until all are sampled. An
 * explained prediction stays for the printed explanation. */
static gboolean
take_prediction (const Options *options, Result *result, PsPrediction *taken, GError **error)
{
  g_autoptr (PsPrediction) prediction = taken;

  if (result->about == NULL)
    result->about = describe_costs (prediction->costs);
  if (options->to != NULL)
    {
      result->launch = ps_launch_prediction (options->to, options->setting, options->schedules[0], prediction, error);
      return result->launch != NULL;
    }
  if (result->spread == NULL && !options->explain)
    {
      add_prediction (options, result, prediction);
      return TRUE;
    }
  g_ptr_array_add (result->predictions, taken);
  g_steal_pointer (&prediction);
  if (options->explain)
    result->explain = ps_explain_report_new (options->setting, taken, options->faster, error);
  return (!options->explain || result->explain != NULL)
         && (result->spread == NULL || ps_spread_report_add (result->spread, taken, error));
}

/* Constraints name their family themselves, missing measurements do not: families in a row share a reason. */
static void
note_skipped (GString *skipped, const char *name, const GError *reason)
{
  g_autofree char *after = g_strconcat (": ", reason->message, NULL);
  gboolean named = g_str_has_prefix (reason->message, name);

  if (!named && g_str_has_suffix (skipped->str, after))
    {
      gssize end = (gssize)(skipped->len - strlen (after));

      g_string_insert (skipped, end, name);
      g_string_insert (skipped, end, ", ");
    }
  else
    g_string_append_printf (skipped, "%s%s%s", skipped->len ? "; " : "", named ? "" : name,
                            named ? reason->message : after);
}

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

/* Predicts each schedule. With `all`, a family that this setting excludes is skipped with its reason; when none is
 * left, the first reason is the error. */
static gboolean
predict (const Options *options, Result *result, GError **error)
{
  gboolean all = g_str_equal (options->schedules[0], "all") && options->schedules[1] == NULL;
  guint n_families, n;
  const PsFamily *const *families = ps_family_table (&n_families);
  g_autoptr (GError) first = NULL;

  n = all ? n_families : g_strv_length (options->schedules);
  for (guint i = 0; i < n && (all || first == NULL); i++)
    {
      const char *name = all ? families[i]->name : options->schedules[i];
      g_autoptr (GError) reason = NULL;
      g_autoptr (PsPrediction) prediction = predict_one (result->predictor, name, &reason);

      if (prediction == NULL)
        {
          note_skipped (result->skipped, name, reason);
          if (first == NULL)
            first = g_steal_pointer (&reason);
        }
      else if ((options->output != NULL && !write_timeline (prediction, options->output, error))
               || !take_prediction (options, result, g_steal_pointer (&prediction), error))
        return FALSE;
    }
  if (first == NULL || (all && result->about != NULL))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&first));
  return FALSE;
}

static gboolean
print_result (const Options *options, const Result *result, GError **error)
{
  const char *extra[] = {
    "origin", ps_origin_name (PS_ORIGIN_SIMULATED), "costs", result->about, "skipped", result->skipped->str, NULL
  };
  if (result->launch != NULL)
    return ps_print (result->launch, error);
  g_autofree char *json = NULL, *text = NULL, *memory = NULL, *explain = NULL, *spread = NULL, *page = NULL;

  if (result->skipped->len && !options->json)
    g_printerr ("skipped: %s\n", result->skipped->str);
  if (options->json)
    {
      json = ps_table_to_json (result->table, "pipesim-predict/1", extra);
      return ps_print (json, error);
    }
  text = rows_to_text (result);
  memory = result->memory != NULL ? ps_memory_rows_to_text (result->memory) : NULL;
  explain = result->explain != NULL ? ps_explain_report_to_text (result->explain) : NULL;
  spread = result->spread != NULL ? ps_spread_report_to_text (result->spread) : NULL;
  page = g_strdup_printf ("%s\n%s%s%s%s%s", result->about, text, memory != NULL ? "\nat the peak of each device\n" : "",
                          memory != NULL ? memory : "", explain != NULL ? explain : "", spread != NULL ? spread : "");
  return ps_print (page, error);
}

static gboolean
take_size (Options *options, GError **error)
{
  options->setting->microbatch_size = options->microbatch_size;
  if (options->microbatch_size == 0 || options->setting->cluster != NULL)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--microbatch-size: needs modelled costs, --model FILE --cluster FILE");
}

static gboolean
check_analysis (Options *options, GError **error)
{
  if (options->explain && options->several)
    return ps_refuse (error, PS_ERROR_USAGE, "--explain: explains one schedule, not several");
  if (options->has_faster && !options->explain)
    return ps_refuse (error, PS_ERROR_USAGE, "--faster: belongs to --explain");
  return ps_spread_options_finish (&options->spread, options->setting, options->several, error);
}

/* The names of all --schedule options; each may name several. */
static void
split_schedules (Options *options)
{
  g_autofree char *names = options->schedules != NULL ? g_strjoinv (",", options->schedules) : g_strdup ("");

  g_strfreev (options->schedules);
  options->schedules = g_strsplit (names, ",", -1);
  options->several = g_str_equal (names, "all") || g_strv_length (options->schedules) > 1;
}

static gboolean
parse_options (Options *options, int argc, char **argv, GError **error)
{
  g_autoptr (GOptionContext) context = g_option_context_new ("- simulate schedules: time, bubble, memory");

  options->setting = ps_setting_new ();
  g_option_context_set_description (
      context,
      "bubble of iteration = 1 - busy time / (p * iteration time)\n"
      "bubble of span = 1 - (busy time / p) / longest span of a device\n"
      "p10-p90: 80 of 100 runs of 5 steps at other times have a median iteration time in between (measured costs)\n");
  ps_options_add (rows, options, context);
  if (!g_option_context_parse (context, &argc, &argv, error) || !ps_setting_check (options->setting, error))
    return FALSE;
  split_schedules (options);
  if (argc > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': not expected; the schedule goes after --schedule", argv[1]);
  if (options->schedules[0] == NULL && !options->print_costs)
    return ps_refuse (error, PS_ERROR_USAGE, "--schedule: missing; give a family, a schedule file, or all");
  if (options->to != NULL && (options->several || options->json))
    return ps_refuse (error, PS_ERROR_USAGE, "--to %s: is for one schedule, and prints no JSON", options->to);
  if (options->output != NULL && options->several)
    return ps_refuse (error, PS_ERROR_USAGE, "-o %s: a timeline is of one schedule, not of several", options->output);
  return take_size (options, error) && check_analysis (options, error);
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
  g_auto (Result) result = { 0 };
  gboolean done;

  if (!parse_options (&options, argc, argv, error))
    return 0;
  if (options.print_costs)
    {
      print_costs (options.setting, error);
      return 0;
    }
  result_init (&result, &options);
  done = predict (&options, &result, error);
  if (done)
    finish_rows (&options, &result);
  /* A timeline on stdout is the data; the table would spoil it. */
  if (done && g_strcmp0 (options.output, "-") != 0)
    print_result (&options, &result, error);
  return 0;
}
