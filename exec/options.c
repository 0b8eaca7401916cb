/* options.c - what pipesim-exec's command line says, and what a run learns from: the text, or the one that ships, which
 * is made by a rule, and the tokens of each microbatch. */
#include "exec.h"

#include "train/devices.h"

#include <pipesim/philox.h>

#include <errno.h>
#include <unistd.h>

#define DEFAULT_STEPS 5
#define MAX_STEPS 1000000
#define DEFAULT_AHEAD 4
#define MAX_AHEAD 1000
#define MAX_NORM 1e9
#define N_SUMS 2000
#define N_TOKENS 256 /* values of a byte */

/* Texts */

/* Appends a number below 200 in words. */
static void append_number (GString *text, guint number)
{
  static const char *const ones[] = { "zero",     "one",     "two",     "three",     "four",     "five",    "six",
                                      "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                                      "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen" };
  static const char *const tens[]
      = { "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety" };
  guint rest = number % 100;

  if (number >= 100)
    g_string_append (text, rest > 0 ? "one hundred and " : "one hundred");
  if (rest >= 20)
    g_string_append_printf (text, "%s%s", tens[rest / 10], rest % 10 > 0 ? "-" : "");
  if (rest < 20 && (rest > 0 || number == 0))
    g_string_append (text, ones[rest]);
  else if (rest % 10 > 0)
    g_string_append (text, ones[rest % 10]);
}

static char *make_sums (gsize *length)
{
  GString *text = g_string_new (NULL);
  guint64 counter = 1;

  for (guint i = 0; i < N_SUMS; i++) {
    guint64 drawn = ps_splitmix_next (&counter);
    guint a = (guint)(drawn % 100), b = (guint)(drawn / 100 % 100);

    append_number (text, a);
    g_string_append (text, " and ");
    append_number (text, b);
    g_string_append (text, " make ");
    append_number (text, a + b);
    g_string_append (text, ".\n");
  }
  *length = text->len;
  return g_string_free (text, FALSE);
}

GBytes *ps_corpus_load (const char *option, const char *name, const PsModel *model, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (model->vocabulary < N_TOKENS)
    return ps_refuse_null (error, PS_ERROR_USAGE, "%s: the model has a vocabulary of %u; bytes need %d", option,
                           model->vocabulary, N_TOKENS);
  if (g_str_equal (name, PS_CORPUS_SUMS))
    text = make_sums (&length);
  else if (!ps_read_file (name, &text, &length, error))
    return NULL;
  if (length > model->sequence)
    return g_bytes_new_take (g_steal_pointer (&text), length);
  return ps_refuse_null (error, PS_ERROR_INPUT,
                         "%s: %s has %" G_GSIZE_FORMAT " bytes; a sequence of %u tokens needs %u", option, name, length,
                         model->sequence, model->sequence + 1);
}

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

gboolean ps_run_lengths (const PsSetting *setting, const PsSchedule *schedule, PsRunSetting *run, GError **error)
{
  g_autoptr (PsLengths) lengths = NULL;
  guint *tokens;

  if (schedule->n_slices > 1 && run->device->computes) {
    run->slice_tokens = tokens = ps_setting_cut_slices (setting, run->model, schedule->n_slices, error);
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

gboolean ps_run_check_prompts (const PsSetting *setting, const PsPrediction *prediction, const PsSchedule *schedule,
                               const PsModel *model, GError **error)
{
  g_autoptr (PsPrefill) own = NULL;
  const PsLengths *chunks;

  if (setting->serve == PS_SERVE_NONE)
    return TRUE;
  own = prediction == NULL ? ps_prefill_new (setting, schedule->n_microbatches, TRUE, error) : NULL;
  if (own == NULL && prediction == NULL)
    return FALSE;
  chunks = own != NULL ? own->lengths : prediction->prefill->lengths;
  for (guint i = 0; i < chunks->n_lengths; i++)
    if (schedule->slices != NULL || chunks->length[i].tokens * schedule->n_slices != model->sequence)
      return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                        "--chunk %u: devices that compute run prompts of one length in chunks of one length",
                        setting->chunk);
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

gboolean ps_training_prepare (PsExecOptions *options, const PsSchedule *schedule, GError **error)
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

void ps_exec_options_clear (PsExecOptions *options)
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
      "\nTimelines are written natively, or as Chrome trace (Perfetto, chrome://tracing) to a FILE that ends in "
      ".trace.json. FILE.gz is packed. The measured timeline is the step whose iteration time is the median over the "
      "steps after the first. It also says how long posting each send and receive held its device's host (\"posts\").\n"
      "Device paced needs costs. Device cpu needs a model; with costs, too, the run is compared with a prediction.\n"
      "\n--text " PS_CORPUS_SUMS
      " trains on sums of two numbers in words; the model needs a vocabulary of 256 at least.\n"
      "Every synchronous schedule, layout and number of devices gives the same losses, and can go on with any "
      "other's checkpoint. A checkpoint of a gelu model has the names and shapes of transformers' GPT-2.\n"
      "\nDevices that share a GPU get parts of its multiprocessors (green contexts), equal ones or in proportion to\n"
      "--sm-shares. A part is one or more of the pieces that the GPU can split off (8 multiprocessors on Hopper); "
      "equal shares get equal parts. A profile predicts the device and the shares that it was measured with. It "
      "brings the algorithms of cuBLASLt that it was measured with, for that version and model of GPU. Its times are "
      "of ops one by one, with the host's part in each; --ahead 0 runs them so, too.\n"
      "\nIn the environment, PIPESIM_CUDA_GRAPHS=1 launches each op as one CUDA graph instead of kernel by kernel.\n"
      "PIPESIM_CUDA_WAIT=spin waits for a GPU without sleeping. PIPESIM_CUDA_HOPPER=0 lets attention use only the "
      "instructions that older GPUs have, too. Each op is an NVTX range with PyTorch's name for it, such as PP:0F3.\n"
      "\nNCCL's receives occupy multiprocessors from their post on. So with transport nccl --comm-order is planned by "
      "default, in the prediction too, and NCCL_MAX_P2P_NCHANNELS in the environment is 4 unless it is set.\n"
      "\nOne process uses all cores and GPUs of a machine, with a thread for each device. Several processes need MPI:\n"
      "started by mpirun or srun --mpi=pmix, each process runs one device, or an equal part of them where there are "
      "fewer processes. With d times as many processes as devices, d copies of the pipeline add up their gradients.\n"
      "Rank 0 prints. --replicas D says how many copies there are: then one process can run several.\n"
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

gboolean ps_exec_options_parse (PsExecOptions *options, int *argc, char ***argv, GError **error)
{
  g_autofree char *text = NULL;
  PsCommandHelp help = describe (&text);

  if (!ps_command_parse (&help, rows, options, argc, argv, error))
    return FALSE;
  if (*argc > 1)
    return ps_refuse (error, PS_ERROR_USAGE, "'%s': unexpected argument", (*argv)[1]);
  return finish (options, error);
}
