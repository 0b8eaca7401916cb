/* main.c - the program pipesim-exec: runs a schedule for real and holds it against its prediction. */
#include "exec.h"

#include "train/data.h"
#include "train/devices.h"

#include <pipesim/formats.h>
#include <pipesim/option.h>

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <unistd.h>

#define DEFAULT_STEPS 5
#define MAX_STEPS 1000000
#define DEFAULT_AHEAD 4
#define MAX_AHEAD 1000
#define MAX_NORM 1e9
#define EXIT_OUTSIDE 3

/* No message takes longer than this, or than several whole iterations: then the run hangs. */
#define TIMEOUT_NS (60 * G_GINT64_CONSTANT (1000000000))
#define TIMEOUT_ITERATIONS 4

typedef struct {
  char *text_name; /* NULL: no text */
  PsTraining setting;
  char *load; /* NULL: training begins with the weights of the seed */
  char *save; /* NULL: no checkpoint is written */
  guint save_every;
} PsTrainingOptions;

typedef struct {
  char *schedule;
  char *device;
  char *transport;
  gint64 seed;
  gboolean has_timeout;
  gboolean has_ahead;
  char *trace;
  char *predicted;
  char *losses;
  char *sm_shares;
  gboolean check;
  gboolean json;
  double tolerance; /* a ratio; negative: not given */
  PsTrainingOptions training;
  PsSetting *setting;
  PsRunSetting run; /* owns model, shapes, shares, tokens, choices, start and data */
} PsExecOptions;

/* Lengths of microbatches */

static gboolean check_lengths (const PsSetting *setting, const PsLengths *lengths, const PsSchedule *schedule,
                               const PsRunSetting *run, GError **error)
{
  if (!run->device->lengths)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--lengths: device %s runs microbatches that are alike",
                      run->device->name);
  if (schedule->n_slices > 1)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--lengths: sequences of different lengths cannot be sliced");
  if (lengths->n != schedule->n_microbatches)
    return ps_refuse (error, PS_ERROR_USAGE, "--lengths %s: has %u microbatches; the schedule has %u", setting->lengths,
                      lengths->n, schedule->n_microbatches);
  if (setting->microbatch_order != PS_ORDER_GIVEN && ps_setting_source (setting) == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--microbatch-order: needs costs, which say how long microbatches take");
  for (guint i = 0; i < lengths->n_lengths; i++)
    if (lengths->length[i].tokens == 0)
      return ps_refuse (error, PS_ERROR_USAGE, "--lengths %s: has factors; device %s needs tokens", setting->lengths,
                        run->device->name);
    else if (lengths->length[i].tokens > run->model->sequence)
      return ps_refuse (error, PS_ERROR_USAGE, "--lengths %s: %u tokens are more than the model's sequence of %u",
                        setting->lengths, lengths->length[i].tokens, run->model->sequence);
  return TRUE;
}

/* The tokens of the chunks of --serve, the same for all prompts. Free with g_free. */
static guint *read_chunks (const PsSetting *setting, const PsPrediction *prediction, const PsSchedule *schedule,
                           GError **error)
{
  g_autoptr (PsPrefill) own
      = prediction == NULL ? ps_prefill_new (setting, schedule->n_microbatches, TRUE, error) : NULL;
  const PsPrefill *prefill = own != NULL ? own : prediction != NULL ? prediction->prefill : NULL;
  g_autofree guint *tokens = g_new (guint, schedule->n_slices);

  if (prefill == NULL)
    return NULL;
  for (guint i = 0; i < prefill->lengths->n; i++) {
    guint chunk = prefill->lengths->length[prefill->lengths->of[i]].tokens, *first = &tokens[i % prefill->n_slices];

    if (i < prefill->n_slices)
      *first = chunk;
    if (schedule->slices != NULL || *first != chunk)
      return ps_refuse_null (error, PS_ERROR_UNAVAILABLE,
                             "--prompt: devices that compute run prompts of one length; --device paced runs any");
  }
  return g_steal_pointer (&tokens);
}

/* What runs on devices that compute: sets slice_tokens of the run, by --slices or by the chunks of --serve (those of
 * the prediction, if there is one), and its tokens and n_tokens by --lengths, in the order in which the schedule runs
 * the microbatches. Errors: PS_ERROR_UNAVAILABLE for prompts of several lengths. */
static gboolean find_lengths (const PsSetting *setting, const PsPrediction *prediction, const PsSchedule *schedule,
                              PsRunSetting *run, GError **error)
{
  g_autoptr (PsLengths) lengths = NULL;
  guint *tokens;

  if (schedule->n_slices > 1 || setting->serve != PS_SERVE_NONE) {
    run->slice_tokens = tokens = setting->serve != PS_SERVE_NONE
                                     ? read_chunks (setting, prediction, schedule, error)
                                     : ps_setting_cut_slices (setting, run->model, schedule->n_slices, error);
    if (tokens == NULL)
      return FALSE;
  }
  if (setting->lengths == NULL)
    return TRUE;
  lengths = ps_lengths_read (setting->lengths, error);
  if (lengths == NULL || !check_lengths (setting, lengths, schedule, run, error))
    return FALSE;
  run->n_tokens = lengths->n;
  run->tokens = tokens = g_new (guint, lengths->n);
  for (guint i = 0; i < lengths->n; i++)
    tokens[i] = lengths->length[schedule->length != NULL ? schedule->length[i] : lengths->of[i]].tokens;
  return TRUE;
}

/* The options of a training */

static const PsOption training_rows[] = {
  PS_OPTION ("text", 0, PS_FILE (PsTrainingOptions, text_name), "FILE|" PS_CORPUS_SUMS,
             "Text to learn, byte by byte; " PS_CORPUS_SUMS " ships",
             .otherwise = "tokens drawn by --seed, the same in every step", .group = PS_GROUP_TRAINING),
  PS_OPTION ("learning-rate", 0, PS_NUMBER (PsTrainingOptions, setting.learning_rate, 0, 1), "RATE",
             "Learning rate of Adam", .initial = 1e-3, .group = PS_GROUP_TRAINING),
  PS_OPTION ("warm-up", 0, PS_COUNT (PsTrainingOptions, setting.warm_up, 0, MAX_STEPS), "N",
             "Steps in which the learning rate rises to it", .group = PS_GROUP_TRAINING),
  PS_OPTION ("decay", 0, PS_COUNT (PsTrainingOptions, setting.decay, 0, MAX_STEPS), "N",
             "Let the learning rate fall as a cosine until step N", .otherwise = "it stays",
             .group = PS_GROUP_TRAINING),
  PS_OPTION ("least-rate", 0, PS_NUMBER (PsTrainingOptions, setting.least_rate, 0, 1), "RATE",
             "Learning rate at the end of --decay", .group = PS_GROUP_TRAINING),
  PS_OPTION ("load", 0, PS_FILE (PsTrainingOptions, load), "FILE", "Checkpoint to go on from, up to step --steps",
             .group = PS_GROUP_TRAINING),
  PS_OPTION ("save", 0, PS_FILE (PsTrainingOptions, save), "FILE",
             "Write a checkpoint at the end (safetensors); Ctrl-C ends there, too", .group = PS_GROUP_TRAINING),
  PS_OPTION ("save-every", 0, PS_COUNT (PsTrainingOptions, save_every, 1, MAX_STEPS), "N", "And after every N steps",
             .otherwise = "only at the end", .group = PS_GROUP_TRAINING),
  PS_OPTION_END,
};

/* Refuses what contradicts in a training. */
static gboolean check_training (const PsTrainingOptions *options, const PsSchedule *schedule, GError **error)
{
  const PsTraining *setting = &options->setting;

  if (setting->decay > 0 && setting->decay <= setting->warm_up)
    return ps_refuse (error, PS_ERROR_USAGE, "--decay: %u is not after the warm-up of %u steps", setting->decay,
                      setting->warm_up);
  if (setting->decay == 0 && setting->least_rate > 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--least-rate: needs --decay, at whose end it is reached");
  if (setting->least_rate > setting->learning_rate)
    return ps_refuse (error, PS_ERROR_USAGE, "--least-rate: %g is above --learning-rate, %g", setting->least_rate,
                      setting->learning_rate);
  if (options->save_every > 0 && options->save == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--save-every: needs --save, the file to write");
  if (schedule->asynchronous && (options->load != NULL || options->save != NULL))
    return ps_refuse (error, PS_ERROR_USAGE, "%s: schedule '%s' is asynchronous: its devices never agree on one state",
                      options->load != NULL ? "--load" : "--save", schedule->name);
  return ps_output_check ("--save", options->save, error);
}

/* Loads text and checkpoint into options->run, which has all else and trains up to step n_steps. Warns on standard
 * error of a checkpoint of other data. Errors: PS_ERROR_USAGE for what contradicts, those of ps_corpus_load and
 * ps_checkpoint_load. */
static gboolean prepare_training (PsExecOptions *options, const PsSchedule *schedule, GError **error)
{
  PsTrainingOptions *training = &options->training;
  PsTraining *setting = &training->setting;
  PsRunSetting *run = &options->run;
  const guint n_copies = ps_run_n_replicas (run, schedule->placement->n_devices);
  g_autofree char *sum = NULL;

  if (!check_training (training, schedule, error))
    return FALSE;
  if (training->text_name != NULL) {
    setting->text = ps_corpus_load ("--text", training->text_name, run->model, error);
    if (setting->text == NULL)
      return FALSE;
    sum = g_compute_checksum_for_bytes (G_CHECKSUM_SHA256, setting->text);
  }
  run->training = setting;
  run->save = training->save;
  run->save_every = training->save_every;
  /* Steps of the same number read the same data where this is the same. */
  run->data = g_strdup_printf ("%s%.16s, seed %" G_GUINT64_FORMAT ", %u microbatches of %u x %u tokens",
                               sum != NULL ? "text " : "drawn tokens", sum != NULL ? sum : "", run->seed,
                               schedule->n_microbatches * n_copies, run->model->microbatch_size, run->model->sequence);
  if (training->load == NULL)
    return TRUE;
  run->start = ps_checkpoint_load (training->load, run->model, error);
  if (run->start == NULL)
    return FALSE;
  const guint step = ps_checkpoint_step (run->start);
  if (step >= run->n_steps)
    return ps_refuse (error, PS_ERROR_USAGE, "--steps: %u, but %s has done %u steps already", run->n_steps,
                      training->load, step);
  run->n_steps -= step;
  const char *data = ps_checkpoint_data (run->start);
  if (g_strcmp0 (data, run->data) != 0 && ps_processes_rank (run->processes) == 0)
    g_printerr ("warning: %s went through %s; this run goes through %s\n", training->load,
                data != NULL ? data : "other data", run->data);
  return TRUE;
}

/* The command line */

static const PsOption rows[] = {
  PS_OPTION ("schedule", 's', PS_FILE (PsExecOptions, schedule), "NAME|FILE", "Family or schedule file", .single = TRUE,
             .group = PS_GROUP_WHAT, .otherwise = ""),
  PS_OPTION ("device", 0, PS_TEXT (PsExecOptions, device), "NAME", "Device class", .group = PS_GROUP_MACHINE,
             .otherwise = ""),
  PS_OPTION ("transport", 0, PS_TEXT (PsExecOptions, transport), "NAME", "Transport class", .otherwise = "threads",
             .group = PS_GROUP_MACHINE),
  PS_OPTION ("steps", 0, PS_COUNT (PsExecOptions, run.n_steps, 1, MAX_STEPS), "N", "Training steps",
             .initial = DEFAULT_STEPS, .group = PS_GROUP_TRAINING),
  PS_OPTION ("seed", 0, PS_INTEGER (PsExecOptions, seed, 0, 0), "N", "Seed of weights and data", .initial = 1,
             .group = PS_GROUP_TRAINING),
  PS_OPTION ("clip", 0, PS_NUMBER (PsExecOptions, run.clip, 0, MAX_NORM), "NORM",
             "Greatest global norm of the gradients", .otherwise = "none", .group = PS_GROUP_TRAINING),
  PS_OPTION ("check", 0, PS_FLAG (PsExecOptions, check), NULL, "Compare losses and gradients with one device"),
  PS_OPTION ("tolerance", 0, PS_PERCENT (PsExecOptions, tolerance, 0, PS_MAX_PERCENT), "PERCENT",
             "Exit with 3 when prediction and measured iteration time differ by more", .initial = -1,
             .otherwise = "none"),
  PS_OPTION ("timeout", 0, PS_TIME (PsExecOptions, run.timeout_ns), "TIME", "Fail when a message takes longer",
             .otherwise = "60s, or 4 predicted iterations", .given = PS_MEMBER (PsExecOptions, has_timeout, gboolean)),
  PS_OPTION ("trace", 0, PS_FILE (PsExecOptions, trace), "FILE", "Write the measured timeline",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("sm-shares", 0, PS_TEXT (PsExecOptions, sm_shares), "N,...",
             "Shares of a GPU's multiprocessors that devices get", .otherwise = "even", .group = PS_GROUP_MACHINE),
  PS_OPTION ("ahead", 0, PS_COUNT (PsExecOptions, run.ahead, 0, MAX_AHEAD), "N",
             "Ops that a GPU is given before an earlier one has ended", .initial = DEFAULT_AHEAD,
             .given = PS_MEMBER (PsExecOptions, has_ahead, gboolean), .group = PS_GROUP_MACHINE),
  PS_OPTION ("predicted", 0, PS_FILE (PsExecOptions, predicted), "FILE", "Write the simulated timeline",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION ("losses", 0, PS_FILE (PsExecOptions, losses), "FILE.csv", "Write a line for each step as it ends",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE (PsExecOptions, training, training_rows),
  PS_OPTION ("json", 0, PS_FLAG (PsExecOptions, json), NULL, "Print results as JSON", .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE_AT (PsExecOptions, setting, ps_setting_options, PS_FIELD_NOT_RUN),
  PS_OPTION_END,
};

static void options_clear (PsExecOptions *options)
{
  ps_options_reset (rows, options);
  g_clear_pointer (&options->training.setting.text, g_bytes_unref);
  ps_checkpoint_free ((gpointer)options->run.start);
  g_free ((gpointer)options->run.data);
  ps_model_free ((gpointer)options->run.model);
  g_free ((gpointer)options->run.shapes);
  g_free ((gpointer)options->run.shares);
  g_free ((gpointer)options->run.slice_tokens);
  g_free ((gpointer)options->run.tokens);
  ps_setting_free (options->setting);
  g_clear_pointer (&options->run.choices, g_bytes_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsExecOptions, options_clear)

/* The first option of a training that is given, without dashes; NULL: none. */
static const char *training_given (const PsTrainingOptions *options)
{
  const PsOption *row = training_rows;

  while (row->name != NULL && ps_option_is_initial (row, options))
    row++;
  return row->name;
}

static gboolean check_costs (const PsExecOptions *options, GError **error)
{
  const gboolean computes = options->run.device->computes;
  const char *option = options->run.device == &ps_paced_device          ? "--device paced"
                       : options->tolerance >= 0                        ? "--tolerance"
                       : options->predicted != NULL                     ? "--predicted"
                       : options->setting->lengths != NULL && !computes ? "--lengths"
                                                                        : NULL;
  g_autofree char *usage = ps_source_usage (FALSE);

  if (option == NULL || ps_setting_source (options->setting) != NULL)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: needs costs; give %s", option, usage);
}

/* Refuses options that others rule out. */
static gboolean check_options (const PsExecOptions *options, GError **error)
{
  const PsDeviceClass *device = options->run.device;

  if (options->schedule == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--schedule: missing; a family or a schedule file is needed");
  if (device == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--device: missing; cpu, cuda, paced or null is needed");
  if (options->check && !device->computes)
    return ps_refuse (error, PS_ERROR_USAGE, "--check: this device computes nothing that could be compared; cpu does");
  if (options->has_ahead && options->run.ahead > 0 && device->start == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--ahead %u: %s runs one op after the other; give 0, or --device cuda",
                      options->run.ahead, device->name);
  if (training_given (&options->training) != NULL && !device->computes)
    return ps_refuse (error, PS_ERROR_USAGE, "--%s: this device computes nothing that could learn; cpu does",
                      training_given (&options->training));
  if (ps_setting_zero (options->setting) >= 2)
    return ps_refuse (error, PS_ERROR_USAGE, "--zero %u: is predicted only; devices hold whole weights and gradients",
                      options->setting->zero);
  if (options->trace != NULL && g_strcmp0 (options->trace, options->predicted) == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--predicted: is the file of --trace; they are two timelines");
  return ps_setting_refuse (options->setting,
                            PS_FIELD_NOT_RUN | (device->computes ? PS_FIELD_NOT_COMPUTED : 0)
                                | (device->computes && !device->tensor ? PS_FIELD_SHARED : 0),
                            NULL, error);
}

/* A database that is there must be writable, and its folder too: SQLite's log lies there. */
static gboolean check_database (const char *db, GError **error)
{
  if (db == NULL || !g_file_test (db, G_FILE_TEST_EXISTS))
    return TRUE;
  if (access (db, W_OK) == 0)
    return ps_output_check ("--db", db, error);
  return ps_refuse (error, PS_ERROR_IO, "--db: %s: %s", db, g_strerror (errno));
}

/* Only the first process stores. A device that computes runs the even layout unless another one is given, and adds up
 * gradients after all ops. */
static gboolean finish (PsExecOptions *options, GError **error)
{
  PsSetting *setting = options->setting;
  PsRunSetting *run = &options->run;

  if (!ps_setting_check (setting, error))
    return FALSE;
  run->device = options->device != NULL ? ps_device_find (options->device, error) : NULL;
  if (options->device != NULL && run->device == NULL)
    return FALSE;
  run->transport = ps_transport_find (options->transport != NULL ? options->transport : "threads", error);
  if (run->transport == NULL)
    return FALSE;
  if (run->transport->occupies && !setting->reorder)
    setting->comm_order = PS_COMM_PLANNED;
  if (run->device != NULL && run->device->computes && setting->layout == NULL)
    setting->layout = g_strdup ("even");
  if (run->device != NULL && run->device->computes)
    setting->reduce = PS_REDUCE_EXPOSED;
  setting->op_by_op = run->ahead == 0;
  return check_options (options, error) && check_costs (options, error)
         && ps_output_check ("--trace", options->trace, error)
         && ps_output_check ("--predicted", options->predicted, error)
         && ps_output_check ("--losses", options->losses, error)
         && (ps_processes_rank (run->processes) != 0 || check_database (setting->db, error));
}

/* The help; its text is owned by *owned. */
static PsCommandHelp describe (char **owned)
{
  GString *text = g_string_new ("Devices:\n");
  guint n_devices, n_transports;
  const PsDeviceClass *const *devices = ps_device_table (&n_devices);
  const PsTransportClass *const *transports = ps_transport_table (&n_transports);

  for (guint i = 0; i < n_devices; i++)
    g_string_append_printf (text, "  %-10s %s\n", devices[i]->name, devices[i]->description);
  g_string_append (text, "\nTransports:\n");
  for (guint i = 0; i < n_transports; i++)
    g_string_append_printf (text, "  %-10s %s%s\n", transports[i]->name, transports[i]->description,
                            transports[i]->occupies ? "; default --comm-order: planned" : "");
  g_string_append (
      text,
      "\nTimelines are written natively, or as Chrome trace (Perfetto, chrome://tracing) to a FILE that ends in\n"
      ".trace.json. FILE.gz is packed. The measured timeline is the step whose iteration time is the median over the "
      "steps after the first. It also says how long posting each send and receive held its device's host (\"posts\"). "
      "Device paced needs costs. Device cpu needs a model; with costs, too, the run is compared with a prediction.\n"
      "\n--text " PS_CORPUS_SUMS
      " trains on sums of two numbers in words; the model needs a vocabulary of 256 at least. "
      "Every synchronous schedule, layout and number of devices gives the same losses, and can go on with any "
      "other's checkpoint. A checkpoint of a gelu model has the names and shapes of transformers' GPT-2.\n"
      "\nDevices that share a GPU get parts of its multiprocessors (green contexts), equal ones or in proportion to "
      "--sm-shares. A part is one or more of the pieces that the GPU can split off (8 multiprocessors on Hopper); "
      "equal shares get equal parts. A profile predicts the device and the shares that it was measured with. It "
      "brings the algorithms of cuBLASLt that it was measured with, for that version and model of GPU. Its times are "
      "of ops one by one, with the host's part in each; --ahead 0 runs them so, too.\n"
      "\nIn the environment, PIPESIM_CUDA_GRAPHS=1 launches each op as one CUDA graph instead of kernel by kernel. "
      "PIPESIM_CUDA_WAIT=spin waits for a GPU without sleeping. PIPESIM_CUDA_HOPPER=0 lets attention use only the "
      "instructions that older GPUs have, too. Each op is an NVTX range with PyTorch's name for it, such as PP:0F3.\n"
      "\nNCCL's receives occupy multiprocessors from their post on. So with transport nccl --comm-order is planned by "
      "default, in the prediction too, and NCCL_MAX_P2P_NCHANNELS in the environment is 4 unless it is set.\n"
      "\nOne process uses all cores and GPUs of a machine, with a thread for each device. Several processes need MPI: "
      "started by mpirun or srun --mpi=pmix, each process runs one device, or an equal part of them where there are "
      "fewer processes. With d times as many processes as devices, d copies of the pipeline add up their gradients. "
      "Rank 0 prints. --replicas D says how many copies there are: then one process can run several. "
      "--tensor T lets T copies share their layers (devices cpu and cuda).\n"
      "\nCtrl-C (SIGINT) or SIGTERM ends a run of one process after the current step, and the results so far are "
      "printed (not with --check).\n"
      "\nExit codes: 0 done, 1 failed or --check differs, 2 wrong usage, 3 outside --tolerance.\n");
  *owned = g_string_free (text, FALSE);
  return (PsCommandHelp){
    .summary = "Runs a schedule for real, and holds it against its prediction where costs are given.",
    .text = *owned,
    .examples = "pipesim exec -s 1f1b -p 2 -m 4 --model tiny-gpt --device cpu --check\n"
                "pipesim exec -s zb-h1 -p 4 -m 8 --costs f=1ms,b=1ms,w=1ms --device paced --trace measured.json"
                " --predicted predicted.json\n"
                "mpirun -n 2 pipesim exec -s 1f1b -p 2 -m 4 --model tiny-gpt --device cpu --transport mpi\n",
  };
}

/* Reads the command line into options, whose setting and run.processes are there, and completes them. Errors:
 * PS_ERROR_USAGE, and PS_ERROR_IO where a file cannot be written later. */
static gboolean parse_options (PsExecOptions *options, int *argc, char ***argv, GError **error)
{
  g_autofree char *text = NULL;
  PsCommandHelp help = describe (&text);

  if (!ps_command_parse (&help, rows, options, argc, argv, error))
    return FALSE;
  if (*argc > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': unexpected argument", (*argv)[1]);
  return finish (options, error);
}

/* The run */

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
  return run->shapes != NULL && find_lengths (options->setting, job->prediction, schedule, run, error)
         && prepare_training (options, schedule, error);
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

  const PsEventsSetting *events = job->prediction != NULL ? job->prediction->events : NULL;

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
  if (parse_options (&options, &argc, &argv, error) && prepare (&options, &job, error)
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
