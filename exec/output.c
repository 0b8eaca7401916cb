/* output.c - what pipesim-exec prints and writes about a run: a row on standard output and a line in a file of losses
 * for each step, and the report. */
#include "output.h"

#include "train/data.h"

#include <pipesim/option.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_WORST_OPS 10

static const PsColumn result_columns[] = {
  { "schedule", NULL, PS_COLUMN_TEXT },
  { "iteration_ns", NULL, PS_COLUMN_TIME },
  { "predicted_iteration_ns", NULL, PS_COLUMN_TIME },
  { "predicted_iteration_p10_ns", NULL, PS_COLUMN_TIME },
  { "predicted_iteration_p90_ns", NULL, PS_COLUMN_TIME },
  { "inside_interval", NULL, PS_COLUMN_BOOLEAN },
  { "makespan_ns", NULL, PS_COLUMN_TIME },
  { "replayed_makespan_ns", NULL, PS_COLUMN_TIME },
  { "bubble_ratio", NULL, PS_COLUMN_RATIO },
  { "peak_memory_bytes", NULL, PS_COLUMN_SIZE },
  { "predicted_peak_memory_bytes", NULL, PS_COLUMN_SIZE },
  { "clock_mhz", NULL, PS_COLUMN_INTEGER },
  { "posting_ns", NULL, PS_COLUMN_NUMBERS },
  { "losses", NULL, PS_COLUMN_NUMBERS },
  { "check", NULL, PS_COLUMN_TEXT },
  { "rollbacks", NULL, PS_COLUMN_INTEGER },
  { "machine_slowdown", NULL, PS_COLUMN_NUMBER },
  { "predicted_iteration_slowdown_ns", NULL, PS_COLUMN_TIME },
  { "inside_interval_slowdown", NULL, PS_COLUMN_BOOLEAN },
};

char *ps_run_title (const PsProgram *program, const PsRunSetting *setting)
{
  g_autofree char *tensor = setting->n_tensor > 1 ? g_strdup_printf (" x %u", setting->n_tensor) : g_strdup ("");

  return g_strdup_printf ("%s on %u%s devices (%s, %s), %u microbatches", program->schedule->name,
                          program->schedule->placement->n_devices, tensor, setting->device->name,
                          setting->transport->name, program->schedule->n_microbatches);
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

static void append_posting (GString *text, const PsTimeline *timeline)
{
  g_autofree double *times_ns = posting_times (timeline);

  for (guint i = 0; i < timeline->n_devices; i++) {
    g_autofree char *time = ps_format_time ((gint64)times_ns[i]);

    g_string_append_printf (text, "%s%s", i == 0 ? "posting sends and receives held each device's host for: " : ", ",
                            time);
  }
  g_string_append_c (text, '\n');
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
  g_string_append_printf (text,
                          "\nmachine: around this run the sentinel op took %.2f times as long as in the profile: the "
                          "machine is %s\npredicted for that speed: %s, %+.2f %% against the run, which lies %s "
                          "p10 .. p90 then\n",
                          factor,
                          fabs (factor - 1) <= PS_SENTINEL_TOLERANCE ? "as fast as then"
                          : factor > 1                               ? "slower now"
                                                                     : "faster now",
                          predicted, 100 * ps_relative_error (predicted_ns, measured_ns),
                          inside ? "inside" : "outside");
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

char *ps_run_report_to_text (const PsRunReport *report)
{
  const PsSchedule *schedule = report->program->schedule;
  g_autofree char *median = ps_format_time (report->compared->result->median_iteration_ns);
  GString *text = g_string_new (NULL);

  if (report->compared->result->emulated)
    g_string_append (text, "\nThe device is emulated: its times are those of the emulation, and none is stored.\n");
  g_string_append_printf (
      text, "\n%s iteration time%s: %s\n", report->compared->result->emulated ? "emulated" : "measured",
      report->compared->result->n_steps > 1 ? ", median over the steps after the first" : "", median);
  if (report->compared->result->clock_mhz > 0)
    g_string_append_printf (text, "clock %" G_GINT64_FORMAT " MHz, median over the steps%s\n",
                            report->compared->result->clock_mhz,
                            schedule->placement->n_devices > 1 ? " of the slowest device" : "");
  if (report->setting->bypass)
    g_string_append_printf (text, "post-validation took back %u of %u steps\n", report->compared->result->n_rollbacks,
                            report->compared->result->n_steps);
  append_posting (text, report->compared->result->timeline);
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

static void set_losses (PsTable *table, const PsRunResult *result)
{
  g_autofree double *losses = g_new (double, result->n_steps);

  for (guint i = 0; i < result->n_steps; i++)
    losses[i] = ps_run_result_mean_loss (result, i);
  ps_table_set_numbers (table, "losses", losses, result->n_steps);
}

static void set_interval (PsTable *table, const PsInterval *interval, gint64 measured_ns)
{
  ps_table_set_integer (table, "predicted_iteration_p10_ns", interval->p10_ns);
  ps_table_set_integer (table, "predicted_iteration_p90_ns", interval->p90_ns);
  ps_table_set_boolean (table, "inside_interval", ps_interval_holds (interval, measured_ns));
}

static void set_slowdown (PsTable *table, const PsRunReport *report)
{
  gboolean inside;

  ps_table_set_ratio (table, "machine_slowdown", report->slowdown.factor);
  ps_table_set_integer (table, "predicted_iteration_slowdown_ns", slowed_ns (report, &inside));
  ps_table_set_boolean (table, "inside_interval_slowdown", inside);
}

char *ps_run_report_to_json (const PsRunReport *report)
{
  g_autoptr (PsTable) table = ps_table_new (result_columns, G_N_ELEMENTS (result_columns));
  const char *const extra[]
      = { "device",    report->setting->device->name,
          "transport", report->setting->transport->name,
          "origin",    report->compared->result->emulated ? "emulated" : ps_origin_name (PS_ORIGIN_MEASURED),
          NULL };
  g_autofree double *posting_ns = posting_times (report->compared->result->timeline);
  g_auto (PsMetrics) metrics = { 0 };

  ps_metrics_from_timeline (report->compared->result->timeline, &metrics);
  ps_table_add_row (table);
  ps_table_set_text (table, "schedule", report->program->schedule->name);
  ps_table_set_integer (table, "iteration_ns", report->compared->result->median_iteration_ns);
  if (report->prediction != NULL)
    ps_table_set_integer (table, "predicted_iteration_ns", report->prediction->metrics.iteration_ns);
  if (report->prediction != NULL && report->prediction->interval.p90_ns > 0)
    set_interval (table, &report->prediction->interval, report->compared->result->median_iteration_ns);
  ps_table_set_integer (table, "makespan_ns", metrics.makespan_ns);
  if (report->prediction != NULL)
    ps_table_set_integer (table, "replayed_makespan_ns", report->compared->replayed_makespan_ns);
  ps_table_set_ratio (table, "bubble_ratio", metrics.bubble_ratio);
  ps_table_set_integer (table, "peak_memory_bytes", metrics.peak_memory_bytes);
  if (report->compared->comparison != NULL)
    ps_table_set_integer (table, "predicted_peak_memory_bytes",
                          report->compared->comparison->predicted.peak_memory_bytes);
  if (report->compared->result->clock_mhz > 0)
    ps_table_set_integer (table, "clock_mhz", report->compared->result->clock_mhz);
  ps_table_set_numbers (table, "posting_ns", posting_ns, report->compared->result->timeline->n_devices);
  if (report->setting->device->computes)
    set_losses (table, report->compared->result);
  ps_table_set_text (table, "check", ps_check_name (report->verdict->check));
  if (report->setting->bypass)
    ps_table_set_integer (table, "rollbacks", report->compared->result->n_rollbacks);
  if (report->prediction != NULL && !isnan (report->slowdown.factor))
    set_slowdown (table, report);
  return ps_table_to_json (table, "pipesim-exec/1", extra);
}

/* Its folder must be writable too: SQLite's log lies there. A missing database is not this function's error. */
gboolean ps_output_check_database (const char *db, GError **error)
{
  if (db == NULL || !g_file_test (db, G_FILE_TEST_EXISTS))
    return TRUE;
  if (access (db, W_OK) == 0)
    return ps_output_check ("--db", db, error);
  return ps_refuse (error, PS_ERROR_IO, "--db: %s: %s", db, g_strerror (errno));
}

/* Steps */

/* The length of the old lines that belong to steps up to n_done. */
static gsize old_lines (const char *text, guint n_done)
{
  const char *end = text + strlen (PS_LOSSES_HEAD);

  for (const char *next = strchr (end, '\n'); next != NULL && strtoul (end, NULL, 10) <= n_done;
       next = strchr (end, '\n'))
    end = next + 1;
  return (gsize)(end - text);
}

/* The lines that a new file of losses begins with. */
static char *first_lines (const char *path, guint n_done, GError **error)
{
  g_autofree char *text = NULL;

  if (n_done == 0 || !g_file_test (path, G_FILE_TEST_EXISTS))
    return g_strdup (PS_LOSSES_HEAD);
  if (!ps_read_file (path, &text, NULL, error))
    return NULL;
  if (g_str_has_prefix (text, PS_LOSSES_HEAD))
    return g_strndup (text, old_lines (text, n_done));
  return ps_refuse_null (error, PS_ERROR_INPUT, "--losses: %s: does not begin with '%.*s'", path,
                         (int)strlen (PS_LOSSES_HEAD) - 1, PS_LOSSES_HEAD);
}

gboolean ps_step_log_open (PsStepLog *log, const char *path, guint n_done, GError **error)
{
  g_autofree char *head = path != NULL ? first_lines (path, n_done, error) : NULL;

  log->losses = -1;
  if (path == NULL)
    return TRUE;
  if (head == NULL || !ps_write_file (path, head, -1, error))
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

static gboolean print_row (PsStepLog *log, const PsStepReport *step)
{
  g_autofree char *time = ps_format_time (step->iteration_ns);
  g_autofree char *loss = isnan (step->loss) ? g_strdup ("-") : g_strdup_printf ("%.5f", step->loss);
  g_autofree char *row = g_strdup_printf ("%4u  %9s  %9s\n", step->number, time, loss);
  g_autofree char *text
      = log->n_printed++ > 0 ? NULL : g_strconcat (log->title, "\n\nstep  iteration  mean loss\n", row, NULL);

  return ps_print (text != NULL ? text : row, &log->failure);
}

gboolean ps_step_log_add (PsStepLog *log, const PsStepReport *step)
{
  if (log->failure != NULL)
    return FALSE;
  if (log->counted > 0)
    g_printerr (PS_CLEAR_LINE "step %u of %u", step->number, log->counted);
  if (log->counted > 0 && step->number == log->counted)
    g_printerr (PS_CLEAR_LINE);
  return write_line (log, step) && (!log->rows || print_row (log, step));
}

void ps_step_log_close (PsStepLog *log)
{
  if (log->losses >= 0)
    close (log->losses);
  log->losses = -1;
  g_clear_error (&log->failure);
}
