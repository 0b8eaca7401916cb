/* cmd-predict.c - pipesim predict: what a schedule would take, or all of them ranked. */
#include "commands.h"

#include <pipesim/report.h>
#include <pipesim/setting.h>

typedef struct
{
  char *schedule;
  gboolean json;
  char *output;
  PsSetting *setting;
} Options;

static void
options_clear (Options *options)
{
  g_free (options->schedule);
  g_free (options->output);
  ps_setting_free (options->setting);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Options, options_clear)

static const PsColumn detail_columns[] = {
  { "busy_ns", NULL, PS_COLUMN_TIME },
  { "span_ns", NULL, PS_COLUMN_TIME },
  { "peak_memory_bytes", NULL, PS_COLUMN_SIZE },
  { "peak_activations", NULL, PS_COLUMN_INTEGER },
};

static const PsColumn columns[] = {
  { "schedule", "schedule", PS_COLUMN_TEXT },
  { "devices", "p", PS_COLUMN_INTEGER },
  { "microbatches", "m", PS_COLUMN_INTEGER },
  { "chunks", "v", PS_COLUMN_INTEGER },
  { "makespan_ns", "makespan", PS_COLUMN_TIME },
  { "max_span_ns", NULL, PS_COLUMN_TIME },
  { "iteration_ns", "iteration", PS_COLUMN_TIME },
  { "bubble_ratio", "bubble of iteration", PS_COLUMN_RATIO },
  { "bubble_ratio_span", "bubble of span", PS_COLUMN_RATIO },
  { "lower_bound_ns", "lower bound", PS_COLUMN_TIME },
  { "peak_memory_bytes", "peak memory", PS_COLUMN_SIZE },
  { "feasible", "fits", PS_COLUMN_BOOLEAN },
  { "devices_detail", NULL, PS_COLUMN_TABLE },
};

static PsTable *
detail_table (const PsMetrics *metrics)
{
  PsTable *table = ps_table_new (detail_columns, G_N_ELEMENTS (detail_columns));

  for (guint d = 0; d < metrics->n_devices; d++)
    {
      ps_table_add_row (table);
      ps_table_set_integer (table, "busy_ns", metrics->device[d].busy_ns);
      ps_table_set_integer (table, "span_ns", metrics->device[d].span_ns);
      ps_table_set_integer (table, "peak_memory_bytes", metrics->device[d].peak_memory_bytes);
      ps_table_set_integer (table, "peak_activations", metrics->device[d].peak_activations);
    }
  return table;
}

static void
add_prediction (PsTable *table, const PsPrediction *prediction)
{
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
  ps_table_set_ratio (table, "bubble_ratio", metrics->bubble_ratio);
  ps_table_set_ratio (table, "bubble_ratio_span", metrics->bubble_ratio_span);
  ps_table_set_integer (table, "lower_bound_ns", prediction->lower_bound_ns);
  ps_table_set_integer (table, "peak_memory_bytes", metrics->peak_memory_bytes);
  ps_table_set_boolean (table, "feasible", prediction->feasible);
  ps_table_set_table (table, "devices_detail", detail_table (metrics));
}

static char *
describe_costs (const PsCosts *costs)
{
  return g_strdup_printf ("simulated from %s costs: %s", ps_origin_name (costs->time_origin), costs->source);
}

static gboolean
write_timeline (const PsPrediction *prediction, const char *path, GError **error)
{
  g_autoptr (PsTimeline) timeline
      = ps_timeline_from_simulation (prediction->program, prediction->costs, prediction->simulation);
  g_autofree char *text = g_str_has_suffix (path, ".trace.json") ? ps_timeline_to_chrome_trace (timeline)
                                                                 : ps_timeline_to_json (timeline);

  return ps_write_file (path, text, -1, error);
}

/* Predicts one schedule into table and says in *about what its costs are. */
static gboolean
predict_one (const Options *options, PsTable *table, char **about, GError **error)
{
  g_autoptr (PsPrediction) prediction = ps_predict (options->setting, options->schedule, error);

  if (prediction == NULL || (options->output && !write_timeline (prediction, options->output, error)))
    return FALSE;
  add_prediction (table, prediction);
  *about = describe_costs (prediction->costs);
  return TRUE;
}

/* Constraints name their family themselves, missing measurements do not. */
static void
note_skipped (GString *skipped, const char *name, const GError *reason)
{
  gboolean named = g_str_has_prefix (reason->message, name);

  g_string_append_printf (skipped, "%s%s%s%s", skipped->len ? "; " : "", named ? "" : name, named ? "" : ": ",
                          reason->message);
}

/* A family that this setting excludes is skipped with its reason; when it excludes all, the first reason is the error.
 */
static gboolean
predict_all (const Options *options, PsTable *table, char **about, GString *skipped, GError **error)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);
  g_autoptr (GError) first = NULL;

  for (guint i = 0; i < n; i++)
    {
      g_autoptr (GError) reason = NULL;
      g_autoptr (PsPrediction) prediction = ps_predict (options->setting, families[i]->name, &reason);

      if (prediction == NULL)
        {
          note_skipped (skipped, families[i]->name, reason);
          if (first == NULL)
            first = g_steal_pointer (&reason);
          continue;
        }
      add_prediction (table, prediction);
      if (*about == NULL)
        *about = describe_costs (prediction->costs);
    }
  if (ps_table_n_rows (table) == 0)
    {
      g_propagate_error (error, g_steal_pointer (&first));
      return FALSE;
    }
  ps_table_sort (table, "iteration_ns", FALSE);
  return TRUE;
}

static gboolean
print_result (const Options *options, const PsTable *table, const char *about, const char *skipped, GError **error)
{
  const char *extra[] = { "origin", ps_origin_name (PS_ORIGIN_SIMULATED), "costs", about, "skipped", skipped, NULL };
  g_autofree char *json = NULL, *text = NULL, *page = NULL;

  if (*skipped && !options->json)
    g_printerr ("skipped: %s\n", skipped);
  if (options->json)
    {
      json = ps_table_to_json (table, "pipesim-predict/1", extra);
      return ps_print (json, error);
    }
  text = ps_table_to_text (table);
  page = g_strdup_printf ("%s\n%s", about, text);
  return ps_print (page, error);
}

static gboolean
parse_options (Options *options, int argc, char **argv, GError **error)
{
  const GOptionEntry entries[] = {
    { "schedule", 's', 0, G_OPTION_ARG_FILENAME, &options->schedule, "Family name, schedule file, or all",
      "NAME|FILE|all" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &options->json, "Print JSON (format pipesim-predict/1)", NULL },
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options->output,
      "Write the simulated timeline; FILE.trace.json is a Chrome trace", "FILE" },
    G_OPTION_ENTRY_NULL,
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("- simulate schedules: time, bubble, memory");

  options->setting = ps_setting_new ();
  g_option_context_set_description (context, "bubble of iteration = 1 - busy time / (p * iteration time)\n"
                                             "bubble of span = 1 - (busy time / p) / longest span of a device\n");
  g_option_context_add_main_entries (context, entries, NULL);
  ps_setting_add_options (options->setting, context);
  if (!g_option_context_parse (context, &argc, &argv, error) || !ps_setting_finish (options->setting, error))
    return FALSE;
  if (argc > 1)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "'%s': not expected; the schedule goes behind --schedule", argv[1]);
  else if (options->schedule == NULL)
    g_set_error_literal (error, PS_ERROR, PS_ERROR_USAGE,
                         "--schedule: missing; give a family, a schedule file, or all");
  else if (options->output && g_str_equal (options->schedule, "all"))
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "-o %s: a timeline is of one schedule, not of --schedule all",
                 options->output);
  else
    return TRUE;
  return FALSE;
}

int
ps_cmd_predict (int argc, char **argv, GError **error)
{
  g_auto (Options) options = { 0 };
  g_autoptr (PsTable) table = ps_table_new (columns, G_N_ELEMENTS (columns));
  g_autoptr (GString) skipped = g_string_new (NULL);
  g_autofree char *about = NULL;
  gboolean done;

  if (!parse_options (&options, argc, argv, error))
    return 0;
  if (g_str_equal (options.schedule, "all"))
    done = predict_all (&options, table, &about, skipped, error);
  else
    done = predict_one (&options, table, &about, error);
  /* A timeline on stdout is the data; the table would spoil it. */
  if (done && g_strcmp0 (options.output, "-") != 0)
    print_result (&options, table, about, skipped->str, error);
  return 0;
}
