/* output.c - what pipesim-exec prints and writes about a run: a row on standard output and a line in a file of losses
 * for each step, and the report. */
#include "exec.h"

#include "train/data.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_WORST_OPS 10

/* A row of the JSON output, and its cells that are not known in every run. */
typedef struct {
  PsFigures figures;
  gint64 predicted_iteration_ns;
  PsInterval interval;
  gint64 replayed_makespan_ns;
  gint64 clock_mhz;
  const char *check;
  double slowdown;
  gint64 predicted_slowdown_ns;
} Row;

static const PsCellColumn result_columns[] = {
  PS_FIGURE ("schedule"),
  PS_FIGURE ("iteration_ns"),
  PS_CELL_KNOWN (Row, predicted_iteration_ns, "predicted_iteration_ns", NULL, TIME),
  PS_CELL_KNOWN (Row, interval.p10_ns, "predicted_iteration_p10_ns", NULL, TIME),
  PS_CELL_KNOWN (Row, interval.p90_ns, "predicted_iteration_p90_ns", NULL, TIME),
  PS_CELL_SET ("inside_interval", NULL, BOOLEAN),
  PS_FIGURE ("makespan_ns"),
  PS_CELL_KNOWN (Row, replayed_makespan_ns, "replayed_makespan_ns", NULL, TIME),
  PS_FIGURE ("bubble_ratio"),
  PS_FIGURE ("peak_memory_bytes"),
  PS_CELL_SET ("predicted_peak_memory_bytes", NULL, SIZE),
  PS_CELL_KNOWN (Row, clock_mhz, "clock_mhz", NULL, INTEGER),
  PS_CELL_SET ("posting_ns", NULL, JSON),
  PS_CELL_SET ("losses", NULL, JSON),
  PS_CELL (Row, check, "check", NULL, TEXT),
  PS_CELL_SET ("rollbacks", NULL, INTEGER),
  PS_CELL (Row, slowdown, "machine_slowdown", NULL, NUMBER),
  PS_CELL_KNOWN (Row, predicted_slowdown_ns, "predicted_iteration_slowdown_ns", NULL, TIME),
  PS_CELL_SET ("inside_interval_slowdown", NULL, BOOLEAN),
};

char *ps_run_title (const PsProgram *program, const PsRunSetting *setting)
{
  g_autofree char *tensor = setting->n_tensor > 1 ? g_strdup_printf (" x %u", setting->n_tensor) : g_strdup ("");

  guint n_microbatches = program->schedule->n_microbatches;

  return g_strdup_printf ("%s on %u%s devices (%s, %s), %u microbatch%s", program->schedule->name,
                          program->schedule->placement->n_devices, tensor, setting->device->name,
                          setting->transport->name, n_microbatches, n_microbatches == 1 ? "" : "es");
}

/* For each device, how long its host posted sends and receives in the step of the timeline. Free with g_free. */
static double *posting_times (const PsTimeline *timeline)
{
  double *times_ns = g_new0 (double, timeline->n_devices);

  for (guint i = 0; i < timeline->posts->len; i++) {
    const PsSpan *post = &g_array_index (timeline->posts, PsSpan, i);

    times_ns[post->device] += (double)(post->end_ns - post->start_ns);
  }
  return times_ns;
}

/* The prediction times the slowdown, and whether the run lies inside the interval times that. */
static gint64 slowed_ns (const PsRunReport *report, gboolean *inside)
{
  PsInterval interval = ps_interval_at_speed (&report->prediction->interval, report->slowdown);

  *inside = ps_interval_holds (&interval, report->compared->result->median_iteration_ns);
  return llround ((double)report->prediction->metrics.iteration_ns * report->slowdown.factor);
}

static void append_slowdown (GString *text, const PsRunReport *report)
{
  double factor = report->slowdown.factor;
  gint64 measured_ns = report->compared->result->median_iteration_ns, predicted_ns;
  gboolean inside;

  if (isnan (factor))
    return;
  predicted_ns = slowed_ns (report, &inside);
  g_autofree char *predicted = ps_format_time (predicted_ns);
  g_autofree char *sentences
      = g_strdup_printf ("machine: around this run the sentinel op took %.2f times as long as in the profile: the "
                         "machine is %s\npredicted for that speed: %s, %+.2f %% against the run, which lies %s "
                         "p10 .. p90 then",
                         factor,
                         fabs (factor - 1) <= PS_SENTINEL_TOLERANCE ? "as fast as then"
                         : factor > 1                               ? "slower now"
                                                                    : "faster now",
                         predicted, 100 * ps_relative_error (predicted_ns, measured_ns), inside ? "inside" : "outside");
  g_autofree char *lines = ps_fit_sentence (sentences, 0);
  g_string_append_printf (text, "\n%s", lines);
}

static void append_verdict (GString *text, const PsVerdict *verdict)
{
  g_string_append_printf (text, "\ncheck against one device: %s", ps_check_name (verdict->check));
  if (verdict->first_difference != NULL)
    g_string_append_printf (text,
                            " (first at %s; losses differ by %.3g, gradients of the last step by %.3g of the largest)",
                            verdict->first_difference, verdict->loss_difference, verdict->gradient_difference);
  g_string_append_c (text, '\n');
}

/* Costs aside: what the simulator makes of the run's order when every op lasts as long as it did. */
static void append_replay (GString *text, const PsRunReport *report)
{
  g_autofree char *replayed = ps_format_time (report->compared->replayed_makespan_ns);
  gint64 measured_ns = report->compared->comparison->measured.makespan_ns;

  g_autofree char *sentence = g_strdup_printf (
      "with the op and transfer times of this run itself, the simulated makespan is %s: %+.2f %% against the measured "
      "one, an error that does not come from the costs",
      replayed, 100.0 * (double)(report->compared->replayed_makespan_ns - measured_ns) / (double)MAX (measured_ns, 1));
  g_autofree char *lines = ps_fit_sentence (sentence, 0);

  g_string_append_printf (text, "\n%s", lines);
}

/* More devices than cores wait for each other's ops, which no schedule says and no other machine has. */
static void append_shared_cores (GString *text, const PsRunReport *report)
{
  const PsRunSetting *setting = report->setting;
  guint n_cores = ps_count_cores (),
        n = report->program->schedule->placement->n_devices * MAX (setting->n_tensor, 1) * MAX (setting->n_replicas, 1);
  gboolean on_cores = setting->device->computes && !setting->device->splits && setting->processes == NULL;

  if (!on_cores || n <= n_cores)
    return;
  g_autofree char *sentence = g_strdup_printf ("%u devices took turns on %u core%s: their times are those of devices "
                                               "that do, and other schedules may be faster where each has its own",
                                               n, n_cores, n_cores == 1 ? "" : "s");
  g_autofree char *lines = ps_fit_sentence (sentence, 0);
  g_string_append (text, lines);
}

char *ps_run_report_to_text (const PsRunReport *report)
{
  const PsRunResult *result = report->compared->result;
  g_autofree char *median = ps_format_time (result->median_iteration_ns);
  g_autofree double *posting_ns = posting_times (result->timeline);
  g_autoptr (GString) posting = g_string_new (NULL);
  GString *text = g_string_new (NULL);

  if (result->emulated)
    g_string_append (text, "\nThe device is emulated: its times are those of the emulation, and none is stored.\n");
  g_string_append_printf (text, "\n%s iteration time%s: %s\n", result->emulated ? "emulated" : "measured",
                          result->n_steps > 1 ? ", median over the steps after the first" : "", median);
  if (result->clock_mhz > 0)
    g_string_append_printf (text, "clock %" G_GINT64_FORMAT " MHz, median over the steps%s\n", result->clock_mhz,
                            result->timeline->n_devices > 1 ? " of the slowest device" : "");
  append_shared_cores (text, report);
  if (report->setting->bypass)
    g_string_append_printf (text, "post-validation took back %u of %u steps\n", result->n_rollbacks, result->n_steps);
  for (guint i = 0; i < result->timeline->n_devices; i++) {
    g_autofree char *time = ps_format_time ((gint64)posting_ns[i]);

    g_string_append_printf (posting, "%s%s", i == 0 ? "posting sends and receives held each device's host for: " : ", ",
                            time);
  }
  g_autofree char *lines = ps_fit_sentence (posting->str, 0);
  g_string_append (text, lines);
  if (report->program->pair != NULL && report->setting->device->computes)
    g_string_append_printf (text, "the two ops of a pair ran %s\n",
                            report->setting->device->overlaps ? "at the same time" : "one after the other");
  if (report->verdict->check != PS_CHECK_NOT_RUN)
    append_verdict (text, report->verdict);
  if (report->compared->comparison != NULL) {
    g_autofree char *comparison = ps_comparison_to_text (report->compared->comparison, N_WORST_OPS, NULL, NULL);

    g_string_append_printf (text, "\n%s", comparison);
    append_replay (text, report);
    append_slowdown (text, report);
  }
  return g_string_free (text, FALSE);
}

char *ps_run_report_to_json (const PsRunReport *report)
{
  const PsRunResult *result = report->compared->result;
  const PsPrediction *prediction = report->prediction;
  const char *const extra[] = { "device",    report->setting->device->name,
                                "transport", report->setting->transport->name,
                                "origin",    result->emulated ? "emulated" : ps_origin_name (PS_ORIGIN_MEASURED),
                                NULL };
  g_autofree double *posting_ns = posting_times (result->timeline), *losses = g_new (double, result->n_steps);
  g_auto (PsMetrics) metrics = { 0 };
  gboolean inside = FALSE;
  Row row = { .clock_mhz = result->clock_mhz, .check = ps_check_name (report->verdict->check), .slowdown = NAN };

  ps_metrics_from_timeline (result->timeline, &metrics);
  row.figures = (PsFigures){ .schedule = report->program->schedule->name, .metrics = metrics };
  row.figures.metrics.iteration_ns = result->median_iteration_ns;
  if (prediction != NULL) {
    row.predicted_iteration_ns = prediction->metrics.iteration_ns;
    row.interval = prediction->interval;
    row.replayed_makespan_ns = report->compared->replayed_makespan_ns;
    row.slowdown = report->slowdown.factor;
    row.predicted_slowdown_ns = isnan (row.slowdown) ? 0 : slowed_ns (report, &inside);
  }
  g_autoptr (PsTable) table = ps_table_of (result_columns, G_N_ELEMENTS (result_columns), &row, sizeof row, 1);
  if (row.interval.p90_ns > 0)
    ps_table_set_boolean (table, "inside_interval", ps_interval_holds (&row.interval, result->median_iteration_ns));
  if (row.predicted_slowdown_ns > 0)
    ps_table_set_boolean (table, "inside_interval_slowdown", inside);
  if (report->compared->comparison != NULL)
    ps_table_set_integer (table, "predicted_peak_memory_bytes",
                          report->compared->comparison->predicted.peak_memory_bytes);
  ps_table_set_numbers (table, "posting_ns", posting_ns, result->timeline->n_devices);
  for (guint i = 0; i < result->n_steps; i++)
    losses[i] = ps_run_result_mean_loss (result, i);
  if (report->setting->device->computes)
    ps_table_set_numbers (table, "losses", losses, result->n_steps);
  if (report->setting->bypass)
    ps_table_set_integer (table, "rollbacks", result->n_rollbacks);
  return ps_table_to_json (table, "pipesim-exec/1", extra);
}

/* Steps */

gboolean ps_step_log_open (PsStepLog *log, const char *path, guint n_done, GError **error)
{
  g_autofree char *text = NULL;

  log->losses = -1;
  log->n_done = n_done;
  ps_progress_begin (0);
  if (path == NULL)
    return TRUE;
  if (n_done > 0 && g_file_test (path, G_FILE_TEST_EXISTS)) {
    if (!ps_read_file (path, &text, NULL, error))
      return FALSE;
    if (!g_str_has_prefix (text, PS_LOSSES_HEAD))
      return ps_refuse (error, PS_ERROR_INPUT, "--losses: %s: does not begin with '%.*s'", path,
                        (int)strlen (PS_LOSSES_HEAD) - 1, PS_LOSSES_HEAD);
    /* The whole lines of steps up to n_done stay. */
    char *end = text + strlen (PS_LOSSES_HEAD);
    for (char *next = strchr (end, '\n'); next != NULL && strtoul (end, NULL, 10) <= n_done; next = strchr (end, '\n'))
      end = next + 1;
    *end = '\0';
  }
  if (!ps_write_file (path, text != NULL ? text : PS_LOSSES_HEAD, -1, error))
    return FALSE;
  log->losses = open (path, O_WRONLY | O_APPEND | O_CLOEXEC);
  return log->losses >= 0 || ps_refuse (error, PS_ERROR_IO, "--losses: %s: %s", path, g_strerror (errno));
}

/* One write for each line, so that a run that is killed leaves whole lines. */
static gboolean write_line (PsStepLog *log, const PsStepReport *step)
{
  char loss[G_ASCII_DTOSTR_BUF_SIZE], rate[G_ASCII_DTOSTR_BUF_SIZE];
  g_autofree char *line = g_strdup_printf (
      "%u,%s,%s,%" G_GINT64_FORMAT "\n", step->number, g_ascii_dtostr (loss, sizeof loss, step->loss),
      g_ascii_dtostr (rate, sizeof rate, ps_data_rate (log->training, step->number - 1)), step->iteration_ns);
  const gsize n = strlen (line);

  if (log->losses < 0 || write (log->losses, line, n) == (gssize)n)
    return TRUE;
  return ps_refuse (&log->failure, PS_ERROR_IO, "--losses: %s", g_strerror (errno));
}

gboolean ps_step_log_add (PsStepLog *log, const PsStepReport *step)
{
  if (log->failure != NULL)
    return FALSE;
  g_autofree char *time = ps_format_time (step->iteration_ns);
  if (!log->rows && ps_progress_due ())
    ps_progress_show (step->number - log->n_done, log->n_steps, "steps", "the last one took %s", time);
  if (!write_line (log, step) || !log->rows)
    return log->failure == NULL;
  g_autofree char *loss = isnan (step->loss) ? g_strdup ("-") : g_strdup_printf ("%.5f", step->loss);
  g_autofree char *head = g_strconcat (log->title, "\n\nstep  iteration  mean loss\n", NULL);
  g_autofree char *row
      = g_strdup_printf ("%s%4u  %9s  %9s\n", log->n_printed++ > 0 ? "" : head, step->number, time, loss);
  return ps_print (row, &log->failure);
}

void ps_step_log_close (PsStepLog *log)
{
  if (log->losses >= 0)
    close (log->losses);
  log->losses = -1;
  g_clear_error (&log->failure);
}
