/* main.c - the program pipesim-exec: runs a schedule for real and holds it against its prediction. */
#include "exec.h"

#include "machine-speed.h"
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
  PsModel *model;       /* NULL unless the device computes */
  PsStageShape *shapes; /* NULL unless the device computes */
} Job;

static void job_clear (Job *job)
{
  g_clear_pointer (&job->prediction, ps_prediction_free);
  g_clear_pointer (&job->own_program, ps_program_free);
  g_clear_pointer (&job->model, ps_model_free);
  g_clear_pointer (&job->shapes, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Job, job_clear)

/* Only the first process prints and stores. */
static gboolean is_first (const PsExecOptions *options)
{
  return ps_processes_rank (options->run.processes) == 0;
}

/* The program to run, predicted first where there are costs. */
static gboolean prepare_program (const PsExecOptions *options, Job *job, GError **error)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (options->setting, NULL);

  if (ps_setting_source (options->setting) == NULL) {
    job->program = job->own_program = ps_predictor_program (predictor, options->schedule, error);
    return job->program != NULL;
  }
  job->prediction = ps_predictor_predict (predictor, options->schedule, error);
  if (job->prediction == NULL
      || !ps_predictor_add_interval (predictor, job->prediction, MAX (options->run.n_steps, 2) - 1, error))
    return FALSE;
  job->program = job->prediction->program;
  ps_program_add_streams (job->prediction->program);
  return TRUE;
}

static gboolean prepare_stages (const PsExecOptions *options, Job *job, GError **error)
{
  const PsPlacement *placement = job->program->schedule->placement;
  guint n_rows = placement->n_stages % placement->n_devices == 0 ? placement->n_devices : 1;

  job->model = ps_setting_model (options->setting, error);
  if (job->model != NULL)
    job->shapes = ps_setting_shapes (options->setting, job->model, n_rows, placement->n_stages / n_rows, error);
  return job->shapes != NULL;
}

static gboolean prepare (PsExecOptions *options, Job *job, GError **error)
{
  if (!prepare_program (options, job, error))
    return FALSE;
  if (!options->run.device->computes)
    return TRUE;
  if (!prepare_stages (options, job, error))
    return FALSE;
  options->run.model = job->model;
  options->run.shapes = job->shapes;
  options->run.seed = (guint64)options->seed;
  options->run.n_replicas = options->setting->n_replicas > 1 ? options->setting->n_replicas : 0;
  options->run.n_tensor = options->setting->n_tensor;
  return ps_run_lengths (options->setting, job->program->schedule, &options->run, error)
         && ps_training_prepare (&options->training, job->program->schedule, &options->run, error);
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
static gboolean check_host (const PsExecOptions *options, guint n_devices, GError **error)
{
  guint n_ranks = ps_processes_n_ranks (options->run.processes);
  guint n_local = ps_processes_n_local (options->run.processes);

  if (MAX (options->run.n_replicas, 1) * MAX (options->run.n_tensor, 1) > 1)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--sm-shares: are for one copy of %u devices; --replicas and --tensor make several", n_devices);
  if (n_ranks <= n_devices && n_local == n_ranks)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "--sm-shares: are for one copy of %u devices on one host; these are %u processes, %u of them here",
                    n_devices, n_ranks, n_local);
}

/* Needs the number of devices. */
static gboolean read_shares (PsExecOptions *options, const Job *job, GError **error)
{
  guint n_devices = job->program->schedule->placement->n_devices;

  if (options->sm_shares == NULL)
    return check_profile (options, n_devices, error);
  if (options->run.transport->exclusive)
    return ps_refuse (error, PS_ERROR_USAGE, "--sm-shares: with transport %s every device has a GPU to itself",
                      options->run.transport->name);
  if (!check_host (options, n_devices, error))
    return FALSE;
  options->run.shares
      = ps_device_shares_parse (options->run.device, "--sm-shares", options->sm_shares, n_devices, error);
  return options->run.shares != NULL && check_profile (options, n_devices, error);
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

/* Rows show that a run goes on; where there are none, a line on a terminal does. */
static gboolean open_log (const PsExecOptions *options, PsStepLog *log, GError **error)
{
  guint before = options->run.start != NULL ? ps_checkpoint_step (options->run.start) : 0;

  log->training = options->run.training;
  log->rows = prints (options) && !options->json;
  log->counted = !log->rows && isatty (STDERR_FILENO) ? before + options->run.n_steps : 0;
  return ps_step_log_open (log, is_first (options) ? options->losses : NULL, before, error);
}

static void complete_run_setting (PsExecOptions *options, const Job *job, PsStepLog *log)
{
  PsRunSetting *run = &options->run;

  run->costs = run->device == &ps_paced_device ? job->prediction->costs : NULL;
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
}

static gboolean print_report (const PsExecOptions *options, const PsRunReport *report, GError **error)
{
  if (!prints (options))
    return TRUE;
  g_autofree char *text = options->json ? ps_run_report_to_json (report) : ps_run_report_to_text (report);
  return ps_print (text, error);
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
  print_report (options, report, unless_set (&first));
  if (first != NULL)
    g_propagate_error (error, first);
  return first == NULL;
}

static gboolean check_outcome (const PsExecOptions *options, const PsRunReport *report, GError **error)
{
  if (report->compared->result->n_steps < options->run.n_steps)
    return ps_refuse (error, PS_ERROR_INPUT, "interrupted after %u of %u steps: all figures are of these",
                      report->compared->result->n_steps, options->run.n_steps);
  if (report->verdict->check == PS_CHECK_DIFFERS)
    return ps_refuse (error, PS_ERROR_INPUT, "--check: differs from one device, first at %s",
                      report->verdict->first_difference);
  return TRUE;
}

static void warn_of_device (const PsDeviceClass *device)
{
  g_autofree char *warning = device->warning != NULL ? device->warning () : NULL;

  if (warning != NULL)
    g_printerr ("warning: device %s: %s\n", device->name, warning);
}

/* The first process reads the sentinel before the run, and the others wait for that as long as it takes. A run without
 * costs of a profile reads none. */
static gboolean read_speed (const PsExecOptions *options, const Job *job, PsMachineSpeed *speed, GError **error)
{
  const PsSetting *setting = options->setting;
  gboolean reads = setting->db != NULL && job->prediction != NULL && options->run.device->measures;

  if (reads && is_first (options)
      && (!ps_machine_speed_open (speed, setting->db, setting->profile, &options->run,
                                  job->program->schedule->placement->n_devices, error)
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

  complete_run_setting (options, job, &log);
  gboolean done = open_log (options, &log, error) && read_speed (options, job, &speed, error)
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
  warn_of_device (options->run.device);
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
  if (!publish (options, job, &report, error) || !check_outcome (options, &report, error))
    return 1;
  return options->tolerance < 0 || fabs (compared.comparison->iteration_error) <= options->tolerance ? 0 : EXIT_OUTSIDE;
}

/* The end of a program that fails. */
static int report_failure (const GError *error, gpointer argv)
{
  g_autofree char *line = ps_error_line (error, argv);

  g_printerr ("%spipesim exec: %s\n", isatty (STDERR_FILENO) ? PS_CLEAR_LINE : "", line);
  return ps_error_exit_code (error);
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
