/* cmd-check.c - pipesim calib check: how good the predictions from a profile are, and what is to blame. */
#include "commands.h"

#include "check.h"
#include "clock.h"

#include <pipesim/formats.h>
#include <pipesim/work.h>

#include <math.h>
#include <unistd.h>

#define MIN_SAMPLES 6

/* The options, and what they refer to. */
typedef struct {
  PsCalibCheck check;
  char *db;
  char *profile_name;
  char **schedules;
  gint64 seed;
  char *trace;
  char *predicted;
  PsColumnChoice columns;

  PsProfile *profile;
  PsModel *model;
  guint *shares;
  GBytes *choices;
} Job;

static const PsOption rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Job, db), "FILE", "Cost database; runs and readings of the sentinel are added to it",
             .otherwise = ""),
  PS_OPTION ("profile", 0, PS_TEXT (Job, profile_name), "NAME", "Profile to predict from", .otherwise = "the only one"),
  PS_OPTION ("schedule", 's', PS_LIST (Job, schedules), "NAME|FILE,...|all", "Schedules to run",
             .otherwise = "all families that the device runs"),
  PS_OPTION ("devices", 'p', PS_COUNT (Job, check.calibration.n_devices, 1, PS_MAX_DEVICES), "P", "Devices",
             .otherwise = ""),
  PS_OPTION ("microbatches", 'm', PS_COUNTS (Job, check.microbatches, check.n_microbatches, 1, PS_MAX_MICROBATCHES),
             "M,...", "Microbatches per iteration; each schedule runs with each of them", .otherwise = ""),
  PS_OPTION ("tensor", 0, PS_COUNT (Job, check.calibration.n_tensor, 1, PS_MAX_TENSOR), "T",
             "Devices that share each stage's layers, as calib run --tensor measured them", .initial = 1),
  PS_OPTION ("rounds", 0, PS_COUNT (Job, check.n_rounds, 1, 1000), "N",
             "Times that everything runs, in another order each time", .initial = 3),
  PS_OPTION ("budget", 0, PS_TIME (Job, check.budget_ns), "T", "No run begins later than that; 0: all runs are done",
             .initial = 180e9),
  PS_OPTION ("steps", 0, PS_COUNT (Job, check.run.n_steps, 2, 1000000), "N", "Training steps of each run",
             .initial = 5),
  PS_OPTION ("time-limit", 0, PS_TIME (Job, check.calibration.rule.time_limit_ns), "T",
             "Most time to measure the ops again between two runs; a tenth of it for the transfer", .initial = 1e9),
  PS_OPTION ("seed", 0, PS_INTEGER (Job, seed, 0, 0), "N", "Seed of the orders, of weights and data", .initial = 1),
  PS_OPTION ("trace", 0, PS_FILE (Job, trace), "FILE", "Write the timeline of the last run", .group = PS_GROUP_OUTPUT),
  PS_OPTION ("predicted", 0, PS_FILE (Job, predicted), "FILE", "Write the prediction of the last run with fresh costs",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_TABLE (Job, columns, "pipesim-check/1"),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .summary = "Runs schedules on the profile's device and holds each run against its prediction. Before and after each "
             "run it measures the ops again, and reads the sentinel. So it can tell the error of the simulation from "
             "that of a machine which has changed since the profile was measured. Runs and readings are added to the "
             "database: later intervals know them. Ctrl-C (SIGINT) or SIGTERM ends it after the current run, and "
             "the figures of all runs until then are printed.",
  .examples = "pipesim calib check --db costs.db --profile here -p 2 -m 4\n"
              "pipesim calib check --db costs.db --profile here -p 2 -m 4,8 -s 1f1b,zb-h1 --rounds 5\n"
              "pipesim calib check --db costs.db --profile here -p 2 -m 4 --json\n",
};

static void job_clear (Job *job)
{
  ps_calib_check_clear (&job->check);
  ps_setting_free (job->check.setting);
  ps_profile_free (job->profile);
  ps_model_free (job->model);
  g_free (job->shares);
  g_clear_pointer (&job->choices, g_bytes_unref);
}

/* Options */

/* Reads the model, and how it was measured. */
static gboolean read_profile (Job *job, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (job->db, PS_COSTDB_READ, error);
  guint n;

  job->profile = db != NULL ? ps_costdb_profile (db, job->profile_name, error) : NULL;
  job->model = job->profile != NULL ? ps_costdb_model (db, job->profile_name, error) : NULL;
  if (job->model == NULL || !ps_choices_parse (job->db, job->profile->choices, &job->choices, error))
    return FALSE;
  if (*job->profile->shares == '\0')
    return TRUE;
  job->shares = ps_shares_parse (job->db, job->profile->shares, &n, error);
  if (job->shares == NULL || n == job->check.calibration.n_devices)
    return job->shares != NULL;
  return ps_refuse (error, PS_ERROR_USAGE, "-p %u: profile '%s' was measured on %u devices with shares %s",
                    job->check.calibration.n_devices, job->profile->name, n, job->profile->shares);
}

static gboolean prepare (Job *job, GError **error)
{
  PsCalibCheck *check = &job->check;
  PsCalibration *calibration = &check->calibration;
  PsSetting *setting = check->setting = ps_setting_new ();

  ps_calib_check_init (check);
  if (!read_profile (job, error))
    return FALSE;
  if (!ps_calib_find_classes (calibration, job->profile->device, job->profile->transport, error)) {
    g_prefix_error (error, "profile '%s': ", job->profile->name);
    return FALSE;
  }
  check->schedules = ps_family_names (job->schedules, 0);
  check->stop = ps_note_signals ();
  check->terminal = isatty (STDERR_FILENO);
  setting->db = g_strdup (job->db);
  setting->profile = g_strdup (job->profile_name);
  setting->n_devices = calibration->n_local = calibration->n_devices;
  setting->n_tensor = check->run.n_tensor = calibration->n_tensor;
  setting->reduce = PS_REDUCE_EXPOSED; /* runs add up gradients after all ops */
  calibration->rule.within = 0.01;
  calibration->rule.min_samples = MIN_SAMPLES;
  calibration->rule.max_samples = 2000;
  check->run.device = calibration->device;
  check->run.transport = calibration->transport;
  check->run.model = calibration->model = job->model;
  check->run.seed = calibration->seed = (guint64)job->seed;
  check->run.shares = calibration->shares = job->shares;
  check->run.choices = calibration->choices = job->choices;
  return ps_setting_check (setting, error);
}

/* Printing */

static const PsCellColumn columns[] = {
  PS_CELL (PsCheckRun, schedule, "schedule", "schedule", TEXT),
  PS_CELL (PsCheckRun, n_microbatches, "microbatches", "m", INTEGER),
  PS_CELL (PsCheckRun, n_chunks, "chunks", "v", INTEGER),
  PS_CELL (PsCheckRun, round, "round", "round", INTEGER),
  PS_CELL (PsCheckRun, predicted_ns, "predicted_iteration_ns", "predicted", TIME),
  PS_CELL (PsCheckRun, interval.p10_ns, "predicted_iteration_p10_ns", "p10", TIME),
  PS_CELL (PsCheckRun, interval.p90_ns, "predicted_iteration_p90_ns", "p90", TIME),
  PS_CELL (PsCheckRun, measured_ns, "measured_iteration_ns", "measured", TIME),
  PS_CELL_SET ("inside_interval", "inside", BOOLEAN),
  PS_CELL_SET ("iteration_error", "error", PERCENT),
  PS_CELL_SET ("fresh_error", "fresh costs", PERCENT),
  PS_CELL (PsCheckRun, replay_error, "replay_error", "replay", PERCENT),
  PS_CELL (PsCheckRun, op_error, "op_error", "|ops|", PERCENT),
  PS_CELL (PsCheckRun, memory_error, "peak_memory_error", "peak memory", PERCENT),
  PS_CELL (PsCheckRun, shift, "sentinel_shift", "sentinel", PERCENT),
  PS_CELL (PsCheckRun, others, "others", "others", PERCENT),
  PS_CELL (PsCheckRun, slowdown.factor, "machine_slowdown", "slowdown", RATIO),
};

static const char *const wide[] = {
  "predicted_iteration_p10_ns", "predicted_iteration_p90_ns", "replay_error", "op_error", "peak_memory_error", NULL
};

static PsTable *runs_table (const GArray *runs)
{
  PsTable *table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);

  for (guint i = 0; i < runs->len; i++) {
    const PsCheckRun *run = &g_array_index (runs, PsCheckRun, i);

    ps_table_add (table, run);
    ps_table_set_boolean (table, "inside_interval", ps_interval_holds (&run->interval, run->measured_ns));
    ps_table_set_ratio (table, "iteration_error", ps_relative_error (run->predicted_ns, run->measured_ns));
    ps_table_set_ratio (table, "fresh_error", ps_relative_error (run->fresh_ns, run->measured_ns));
  }
  return table;
}

static char *figure_to_text (const PsCheckSummary *summary, guint i)
{
  double value = summary->figure[i];

  if (isnan (value))
    return g_strdup ("-");
  return ps_check_figures[i].is_ratio ? g_strdup_printf ("%.3f", value) : g_strdup_printf ("%.2f %%", 100 * value);
}

static char *summary_to_text (const PsCheckSummary *all, const PsCheckSummary *quiet)
{
  static const PsColumn summary_columns[] = {
    { "figure", "figure", PS_COLUMN_TEXT },
    { "all", "all runs", PS_COLUMN_TEXT },
    { "quiet", "on a quiet machine", PS_COLUMN_TEXT },
  };
  g_autoptr (PsTable) table = ps_table_new (summary_columns, G_N_ELEMENTS (summary_columns));

  for (guint i = 0; i <= PS_N_CHECK_FIGURES; i++) {
    g_autofree char *of_all = i > 0 ? figure_to_text (all, i - 1) : g_strdup_printf ("%u", all->n_runs);
    g_autofree char *of_quiet = i > 0 ? figure_to_text (quiet, i - 1) : g_strdup_printf ("%u", quiet->n_runs);

    ps_table_add_row (table);
    ps_table_set_text (table, "figure", i > 0 ? ps_check_figures[i - 1].title : "runs");
    ps_table_set_text (table, "all", of_all);
    ps_table_set_text (table, "quiet", of_quiet);
  }
  return ps_table_to_text (table);
}

/* "the machine was quiet" or not, and how that is known. */
static char *describe_quiet (const Job *job, const PsCheckSummary *all, const PsCheckSummary *quiet)
{
  double shift = 0, others = 0;

  for (guint i = 0; i < job->check.runs->len; i++) {
    const PsCheckRun *run = &g_array_index (job->check.runs, PsCheckRun, i);

    shift = fmax (shift, run->shift);
    others = fmax (others, run->others);
  }
  return g_strdup_printf (
      "the machine was %s: around runs the sentinel op moved by up to %.0f %%, and others had up to "
      "%.0f %% of the processors; a quiet machine has at most %.0f %% and %.0f %%",
      quiet->n_runs < all->n_runs ? "not quiet" : "quiet", 100 * shift, 100 * others, 100 * PS_SENTINEL_TOLERANCE,
      100 * PS_QUIET_OTHERS);
}

static PsTable *summary_table (const PsCheckSummary *summary, const PsColumn *summary_columns)
{
  PsTable *table = ps_table_new (summary_columns, PS_N_CHECK_FIGURES + 1);

  ps_table_add_row (table);
  ps_table_set_integer (table, "n_runs", summary->n_runs);
  for (guint i = 0; i < PS_N_CHECK_FIGURES; i++)
    ps_table_set_ratio (table, ps_check_figures[i].key, summary->figure[i]);
  return table;
}

static char *to_json (const Job *job, const PsCheckSummary *all, const PsCheckSummary *quiet, const char *verdict)
{
  static const PsColumn result_columns[] = {
    { "all", NULL, PS_COLUMN_TABLE },
    { "quiet", NULL, PS_COLUMN_TABLE },
    { "runs", NULL, PS_COLUMN_TABLE },
  };
  const char *const extra[] = { "machine", verdict, "skipped", job->check.skipped->str, NULL };
  PsColumn summary_columns[PS_N_CHECK_FIGURES + 1] = { { "n_runs", NULL, PS_COLUMN_INTEGER } };
  g_autoptr (PsTable) table = ps_table_new (result_columns, G_N_ELEMENTS (result_columns));

  for (guint i = 0; i < PS_N_CHECK_FIGURES; i++)
    summary_columns[i + 1] = (PsColumn){ ps_check_figures[i].key, NULL, PS_COLUMN_NUMBER };
  ps_table_add_row (table);
  ps_table_set_table (table, "all", summary_table (all, summary_columns));
  ps_table_set_table (table, "quiet", summary_table (quiet, summary_columns));
  ps_table_set_table (table, "runs", runs_table (job->check.runs));
  return ps_table_to_json (table, "pipesim-check/1", extra);
}

static gboolean print_result (const Job *job, GError **error)
{
  PsCheckSummary all, quiet;

  ps_check_summary_init (&all, job->check.runs, FALSE);
  ps_check_summary_init (&quiet, job->check.runs, TRUE);
  g_autofree char *verdict = describe_quiet (job, &all, &quiet);
  if (job->columns.json) {
    g_autofree char *json = to_json (job, &all, &quiet, verdict);

    return ps_print (json, error);
  }
  g_autoptr (PsTable) runs = runs_table (job->check.runs);
  ps_table_choose (runs, &job->columns, wide, NULL);
  g_autofree char *table = ps_table_to_text (runs), *summary = summary_to_text (&all, &quiet);
  g_autofree char *legend = ps_fit_sentence (
      "error = (predicted - measured) / measured; fresh costs: with ops as measured right before and after the run;\n"
      "sentinel: how far the sentinel op moved around the run; others: the part of the processors that other "
      "programs had meanwhile;\n"
      "slowdown: how much slower the sentinel was around the run than in the profile;\n"
      "replay (--wide): of the makespan, simulated with the op and transfer times of the run itself",
      0);
  g_autofree char *quietness = ps_fit_sentence (verdict, 0);
  g_autofree char *page
      = g_strdup_printf ("%s\n%s\n%s\n%spipesim plot accuracy %s -o FILE draws all runs that the database holds\n",
                         table, legend, summary, quietness, job->db);
  if (job->check.skipped->len > 0)
    g_printerr ("skipped: %s\n", job->check.skipped->str);
  return ps_print (page, error);
}

static gboolean write_timelines (const Job *job, GError **error)
{
  const PsCalibCheck *check = &job->check;

  return check->last_measured == NULL
         || ((job->trace == NULL || ps_timeline_write (check->last_measured, job->trace, error))
             && (job->predicted == NULL || ps_timeline_write (check->last_fresh, job->predicted, error)));
}

static gboolean check (gpointer base, PsProcesses *processes, GError **error)
{
  Job *job = base;
  g_autoptr (PsTable) empty = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);

  if (!ps_table_choose (empty, &job->columns, wide, error))
    return FALSE;
  gboolean ok = prepare (job, error) && ps_calib_check_run (&job->check, error);
  ok = ok && write_timelines (job, error) && print_result (job, error);
  job_clear (job);
  return ok;
}

const PsCalibCommand ps_calib_check = {
  "check", "hold predictions against runs, and say how far they are off, and why", &help, rows, sizeof (Job), check,
  FALSE
};
