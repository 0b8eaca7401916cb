/* main.c - the program pipesim-exec: runs a schedule for real and holds it against its prediction. */
#include "exec.h"

#include "train/devices.h"

#include <pipesim/costdb.h>
#include <pipesim/formats.h>

#include <locale.h>
#include <math.h>
#include <unistd.h>

#define EXIT_OUTSIDE 3

/* No message takes longer than this, or than several whole iterations: then the run hangs. */
#define TIMEOUT_NS (60 * G_GINT64_CONSTANT (1000000000))
#define TIMEOUT_ITERATIONS 4

/* The program to run and its prediction. */
typedef struct {
  PsPrediction *prediction; /* NULL without costs */
  PsProgram *own_program;   /* NULL with prediction, which has one */
  const PsProgram *program;
} Job;

static void job_clear (Job *job)
{
  g_clear_pointer (&job->prediction, ps_prediction_free);
  g_clear_pointer (&job->own_program, ps_program_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Job, job_clear)

/* Only the first process prints and stores. */
static gboolean is_first (const PsExecOptions *options)
{
  return ps_processes_rank (options->run.processes) == 0;
}

/* The program to run, predicted first where there are costs, and the stages that a device computes. */
static gboolean prepare (PsExecOptions *options, Job *job, GError **error)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (options->setting, NULL);
  PsRunSetting *run = &options->run;

  if (ps_setting_source (options->setting) == NULL)
    job->program = job->own_program = ps_predictor_program (predictor, options->schedule, error);
  else {
    job->prediction = ps_predictor_predict (predictor, options->schedule, error);
    if (job->prediction == NULL
        || !ps_predictor_add_interval (predictor, job->prediction, MAX (run->n_steps, 2) - 1, error))
      return FALSE;
    job->program = job->prediction->program;
    ps_program_add_streams (job->prediction->program);
  }
  if (job->program == NULL || !run->device->computes)
    return job->program != NULL;
  const PsSchedule *schedule = job->program->schedule;
  const guint n_devices = schedule->placement->n_devices, n_stages = schedule->placement->n_stages;
  const guint n_rows = n_stages % n_devices == 0 ? n_devices : 1;
  run->model = ps_setting_model (options->setting, error);
  if (run->model != NULL)
    run->shapes = ps_setting_shapes (options->setting, run->model, n_rows, n_stages / n_rows, error);
  run->seed = (guint64)options->seed;
  run->n_replicas = options->setting->n_replicas > 1 ? options->setting->n_replicas : 0;
  run->n_tensor = options->setting->n_tensor;
  return run->shapes != NULL && ps_run_lengths (options->setting, job->prediction, schedule, run, error)
         && ps_training_prepare (options, schedule, error);
}

/* Costs belong to the device that they were measured on, to its parts, and to what it had chosen. */
static gboolean check_profile (PsExecOptions *options, guint n_devices, GError **error)
{
  const PsSetting *setting = options->setting;
  const PsDeviceClass *device = options->run.device;
  g_autofree char *here = ps_shares_to_text (options->run.shares, n_devices);
  g_autoptr (PsCostDb) db = NULL;
  g_autoptr (PsProfile) profile = NULL;

  if (setting->db == NULL || !device->computes)
    return TRUE;
  db = ps_costdb_open (setting->db, PS_COSTDB_READ, error);
  if (db != NULL)
    profile = ps_costdb_profile (db, setting->profile, error);
  if (profile == NULL)
    return FALSE;
  if (!g_str_equal (profile->device, device->name))
    return ps_refuse (error, PS_ERROR_USAGE, "--device: %s, but profile '%s' of %s was measured on device %s",
                      device->name, profile->name, setting->db, profile->device);
  if (!g_str_equal (profile->shares, here))
    return ps_refuse (error, PS_ERROR_USAGE, "--sm-shares: %s here, but profile '%s' of %s was measured with %s shares",
                      ps_shares_describe (here), profile->name, setting->db, ps_shares_describe (profile->shares));
  return ps_choices_parse (setting->db, profile->choices, &options->run.choices, error);
}

/* Which process has which part follows from their places on one host. */
static gboolean read_shares (PsExecOptions *options, const Job *job, GError **error)
{
  PsRunSetting *run = &options->run;
  const guint n_devices = job->program->schedule->placement->n_devices;
  const guint n_ranks = ps_processes_n_ranks (run->processes), n_local = ps_processes_n_local (run->processes);

  if (options->sm_shares == NULL)
    return check_profile (options, n_devices, error);
  if (run->transport->exclusive)
    return ps_refuse (error, PS_ERROR_USAGE, "--sm-shares: with transport %s every device has a GPU to itself",
                      run->transport->name);
  if (MAX (run->n_replicas, 1) * MAX (run->n_tensor, 1) > 1)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--sm-shares: are for one copy of %u devices; --replicas and --tensor make several", n_devices);
  if (n_ranks > n_devices || n_local != n_ranks)
    return ps_refuse (
        error, PS_ERROR_USAGE,
        "--sm-shares: are for one copy of %u devices on one host; these are %u processes, %u of them here", n_devices,
        n_ranks, n_local);
  run->shares = ps_device_shares_parse (run->device, "--sm-shares", options->sm_shares, n_devices, error);
  return run->shares != NULL && check_profile (options, n_devices, error);
}

/* See ps_note_signals; NULL: signals are not noted. */
static const gint *interrupted;

static gboolean end_step (const PsStepReport *step, gpointer log)
{
  return ps_step_log_add (log, step) && (interrupted == NULL || g_atomic_int_get (interrupted) == 0);
}

/* A timeline on stdout has it to itself. */
static gboolean prints (const PsExecOptions *options)
{
  return g_strcmp0 (options->trace, "-") != 0 && g_strcmp0 (options->predicted, "-") != 0;
}

/* Completes the setting of the run, and opens the log of its steps. Rows show that a run goes on; where there are none,
 * a line on a terminal does. */
static gboolean prepare_steps (PsExecOptions *options, const Job *job, PsStepLog *log, GError **error)
{
  PsRunSetting *run = &options->run;
  const guint before = run->start != NULL ? ps_checkpoint_step (run->start) : 0;

  const PsEventsSetting *events = job->prediction != NULL ? ps_prediction_events (job->prediction) : NULL;

  run->costs = run->device == &ps_paced_device ? job->prediction->costs : NULL;
  run->speed = run->costs != NULL && events != NULL ? events->speed : NULL;
  run->gradients = options->check;
  run->bypass = options->setting->sync == PS_SYNC_BYPASS;
  run->zero = ps_setting_zero (options->setting) > 0;
  if (!options->has_timeout)
    run->timeout_ns = TIMEOUT_NS;
  if (!options->has_timeout && job->prediction != NULL)
    run->timeout_ns = MAX (run->timeout_ns, TIMEOUT_ITERATIONS * job->prediction->metrics.iteration_ns);
  run->progress = end_step;
  run->progress_data = log;
  if (!options->check && run->processes == NULL)
    interrupted = ps_note_signals ();
  log->training = run->training;
  log->rows = prints (options) && !options->json;
  log->n_steps = run->n_steps;
  return ps_step_log_open (log, is_first (options) ? options->losses : NULL, before, error);
}

/* The first failure is kept; later ones mostly follow from it. */
static GError **unless_set (GError **first)
{
  return *first == NULL ? first : NULL;
}

/* Prints and writes everything about the finished run. The run may have been long: one thing that can't be written is
 * no reason to lose the others. */
static gboolean publish (const PsExecOptions *options, const Job *job, const PsRunReport *report, GError **error)
{
  const PsSetting *setting = options->setting;
  GError *first = NULL;

  if (options->trace != NULL)
    ps_timeline_write (report->compared->result->timeline, options->trace, unless_set (&first));
  if (options->predicted != NULL) {
    g_autoptr (PsTimeline) predicted = ps_compared_run_prediction (job->prediction);

    ps_timeline_write (predicted, options->predicted, unless_set (&first));
  }
  if (setting->db != NULL && !report->compared->result->emulated)
    ps_compared_run_store (report->compared, job->program, report->setting, report->verdict->check, setting->db,
                           setting->profile, unless_set (&first));
  g_autofree char *text = options->json ? ps_run_report_to_json (report) : ps_run_report_to_text (report);
  if (prints (options))
    ps_print (text, unless_set (&first));
  if (first != NULL)
    g_propagate_error (error, first);
  return first == NULL;
}

/* The first process reads the sentinel before the run, and the others wait for that as long as it takes. A run without
 * costs of a profile reads none. */
static gboolean read_speed (const PsExecOptions *options, const Job *job, PsMachineSpeed *speed, GError **error)
{
  const PsSetting *setting = options->setting;
  gboolean reads = setting->db != NULL && job->prediction != NULL && options->run.device->measures;

  if (reads && is_first (options)
      && (!ps_machine_speed_open (speed, setting->db, setting->profile, &options->run, error)
          || !ps_machine_speed_read (speed, error)))
    return FALSE;
  if (options->run.processes != NULL)
    ps_processes_exchange (options->run.processes, NULL, 0, NULL, reads ? 0 : options->run.timeout_ns);
  return TRUE;
}

static int run_job (PsExecOptions *options, const Job *job, GError **error)
{
  g_auto (PsComparedRun) compared = { 0 };
  g_auto (PsVerdict) verdict = { .check = PS_CHECK_NOT_RUN };
  g_autofree char *title = ps_run_title (job->program, &options->run);
  g_auto (PsStepLog) log = { .title = title, .losses = -1 };
  g_auto (PsMachineSpeed) speed = { 0 };
  gboolean done = prepare_steps (options, job, &log, error) && read_speed (options, job, &speed, error)
                  && ps_compared_run_make (&compared, job->program, job->prediction, &options->run, error);

  options->run.progress = NULL;
  options->run.progress_data = NULL;
  if (!done)
    return 1;
  /* One reading does for the slowdown: a run is not lost for the other one. */
  ps_machine_speed_read (&speed, NULL);
  if (compared.result->timeline == NULL) /* rank 0 has it, and says what there is to say */
    return 0;
  if (log.failure != NULL) {
    g_propagate_error (error, g_steal_pointer (&log.failure));
    return 1;
  }
  g_autofree char *warning = options->run.device->warning != NULL ? options->run.device->warning () : NULL;
  if (warning != NULL)
    g_printerr ("warning: device %s: %s\n", options->run.device->name, warning);
  if (options->check && !ps_verify (job->program->schedule, compared.result, &options->run, &verdict, error))
    return 1;
  PsRunReport report = { .program = job->program,
                         .setting = &options->run,
                         .compared = &compared,
                         .prediction = job->prediction,
                         .verdict = &verdict,
                         .slowdown = ps_machine_speed_of_run (&speed, compared.started) };
  if (!isnan (report.slowdown.factor))
    compared.result->timeline->usual_ns
        = llround ((double)compared.result->timeline->iteration_ns / report.slowdown.factor);
  if (!publish (options, job, &report, error))
    return 1;
  if (compared.result->n_steps < options->run.n_steps) {
    ps_refuse (error, PS_ERROR_INPUT, "interrupted after %u of %u steps: all figures are of these",
               compared.result->n_steps, options->run.n_steps);
    return 1;
  }
  if (verdict.check == PS_CHECK_DIFFERS) {
    ps_refuse (error, PS_ERROR_INPUT, "--check: differs from one device, first at %s", verdict.first_difference);
    return 1;
  }
  return options->tolerance < 0 || fabs (compared.comparison->iteration_error) <= options->tolerance ? 0 : EXIT_OUTSIDE;
}

/* The end of a program that fails. */
static int report_failure (const GError *error, gpointer argv)
{
  return ps_error_report ("pipesim exec", error, argv);
}

static int run (int argc, char **argv, GError **error)
{
  g_auto (PsExecOptions) options = { .setting = ps_setting_new () };
  g_auto (Job) job = { 0 };
  int code = 1;

  /* Joined first: the others hear of an option that this process refuses. */
  if (!ps_processes_join (&options.run.processes, report_failure, argv, error))
    return 1;
  if (ps_exec_options_parse (&options, &argc, &argv, error) && prepare (&options, &job, error)
      && read_shares (&options, &job, error))
    code = run_job (&options, &job, error);
  ps_processes_part (options.run.processes, *error);
  return code;
}

int main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;

  ps_log_to_stderr ();
  ps_catch_signals ();
  /* hwloc complains on stderr where /sys is missing; what it then does not know is reported or done without. */
  g_setenv ("HWLOC_HIDE_ERRORS", "2", FALSE);
  setlocale (LC_CTYPE, "");
  g_set_prgname ("pipesim exec");
  int code = run (argc, argv, &error);
  return error != NULL ? report_failure (error, argv) : code;
}
