/* exec-options.c - what exec's command line says. */
#include "exec-options.h"

#include "train/devices.h"
#include "output.h"
#include "run/crew.h"

#include <pipesim/option.h>
#include <pipesim/setting.h>

#define DEFAULT_STEPS 5
#define MAX_STEPS 1000000
#define DEFAULT_AHEAD 4
#define MAX_AHEAD 1000
#define MAX_NORM 1e9

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
  PS_OPTION_INCLUDE (PsExecOptions, training, ps_training_options),
  PS_OPTION ("json", 0, PS_FLAG (PsExecOptions, json), NULL, "Print results as JSON", .group = PS_GROUP_OUTPUT),
  PS_OPTION_INCLUDE_AT (PsExecOptions, setting, ps_setting_options, PS_FIELD_NOT_RUN),
  PS_OPTION_END,
};

void ps_exec_options_clear (PsExecOptions *options)
{
  ps_training_options_clear (&options->training);
  ps_options_reset (rows, options);
  g_free ((gpointer)options->run.shares);
  g_free ((gpointer)options->run.tokens);
  ps_setting_free (options->setting);
  g_clear_pointer (&options->run.choices, g_bytes_unref);
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

static PsFieldFlags not_run_by (const PsDeviceClass *device)
{
  if (!device->computes)
    return PS_FIELD_NOT_RUN;
  return PS_FIELD_NOT_RUN | PS_FIELD_NOT_COMPUTED | (device->tensor ? 0 : PS_FIELD_SHARED);
}

/* Refuses options that others rule out. */
static gboolean check_options (const PsExecOptions *options, GError **error)
{
  const char *message = NULL;

  if (options->schedule == NULL)
    message = "--schedule: missing; a family or a schedule file is needed";
  else if (options->device == NULL)
    message = "--device: missing; cpu, cuda, paced or null is needed";
  else if (options->check && !options->run.device->computes)
    message = "--check: this device computes nothing that could be compared; cpu does";
  else if (options->has_ahead && options->run.ahead > 0 && options->run.device->start == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--ahead %u: %s runs one op after the other; give 0, or --device cuda",
                      options->run.ahead, options->run.device->name);
  else if (ps_training_given (&options->training) != NULL && !options->run.device->computes)
    return ps_refuse (error, PS_ERROR_USAGE, "--%s: this device computes nothing that could learn; cpu does",
                      ps_training_given (&options->training));
  else if (ps_setting_zero (options->setting) >= 2)
    return ps_refuse (error, PS_ERROR_USAGE, "--zero %u: is predicted only; devices hold whole weights and gradients",
                      options->setting->zero);
  else if (options->trace != NULL && g_strcmp0 (options->trace, options->predicted) == 0)
    message = "--predicted: is the file of --trace; they are two timelines";
  else
    return ps_setting_refuse (options->setting, not_run_by (options->run.device), NULL, error);
  return ps_refuse (error, PS_ERROR_USAGE, "%s", message);
}

static gboolean find_classes (PsExecOptions *options, GError **error)
{
  if (options->device != NULL) {
    options->run.device = ps_device_find (options->device, error);
    if (options->run.device == NULL)
      return FALSE;
  }
  options->run.transport = ps_transport_find (options->transport != NULL ? options->transport : "threads", error);
  if (options->run.transport != NULL && options->run.transport->occupies && !options->setting->reorder)
    options->setting->comm_order = PS_COMM_PLANNED;
  return options->run.transport != NULL;
}

/* Only the first process stores. A device that computes runs the even layout unless another one is given, and adds up
 * gradients after all ops. */
static gboolean finish (PsExecOptions *options, GError **error)
{
  if (!ps_setting_check (options->setting, error) || !find_classes (options, error))
    return FALSE;
  if (options->run.device != NULL && options->run.device->computes && options->setting->layout == NULL)
    options->setting->layout = g_strdup ("even");
  if (options->run.device != NULL && options->run.device->computes)
    options->setting->reduce = PS_REDUCE_EXPOSED;
  options->setting->op_by_op = options->run.ahead == 0;
  return check_options (options, error) && check_costs (options, error)
         && ps_output_check ("--trace", options->trace, error)
         && ps_output_check ("--predicted", options->predicted, error)
         && ps_output_check ("--losses", options->losses, error)
         && (ps_processes_rank (options->run.processes) != 0 || ps_output_check_database (options->setting->db, error));
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
      ".trace.json. FILE.gz is packed. The measured timeline is the step whose iteration time is the median over the\n"
      "steps after the first. It also says how long posting each send and receive held its device's host (\"posts\").\n"
      "Device paced needs costs. Device cpu needs a model; with costs, too, the run is compared with a prediction.\n"
      "\n--text " PS_CORPUS_SUMS
      " trains on sums of two numbers in words; the model needs a vocabulary of 256 at least.\n"
      "Every synchronous schedule, layout and number of devices gives the same losses, and can go on with any\n"
      "other's checkpoint. A checkpoint of a gelu model has the names and shapes of transformers' GPT-2.\n"
      "\nDevices that share a GPU get parts of its multiprocessors (green contexts), equal ones or in proportion to\n"
      "--sm-shares. A part is one or more of the pieces that the GPU can split off (8 multiprocessors on Hopper);\n"
      "equal shares get equal parts. A profile predicts the device and the shares that it was measured with. It\n"
      "brings the algorithms of cuBLASLt that it was measured with, for that version and model of GPU. Its times are\n"
      "of ops one by one, with the host's part in each; --ahead 0 runs them so, too.\n"
      "\nIn the environment, PIPESIM_CUDA_GRAPHS=1 launches each op as one CUDA graph instead of kernel by kernel.\n"
      "PIPESIM_CUDA_WAIT=spin waits for a GPU without sleeping. PIPESIM_CUDA_HOPPER=0 lets attention use only the\n"
      "instructions that older GPUs have, too. Each op is an NVTX range with PyTorch's name for it, such as PP:0F3.\n"
      "\nNCCL's receives occupy multiprocessors from their post on. So with transport nccl --comm-order is planned by\n"
      "default, in the prediction too, and NCCL_MAX_P2P_NCHANNELS in the environment is 4 unless it is set.\n"
      "\nOne process uses all cores and GPUs of a machine, with a thread for each device. Several processes need MPI:\n"
      "started by mpirun or srun --mpi=pmix, each process runs one device, or an equal part of them where there are\n"
      "fewer processes. With d times as many processes as devices, d copies of the pipeline add up their gradients.\n"
      "Rank 0 prints. --replicas D says how many copies there are: then one process can run several.\n"
      "--tensor T lets T copies share their layers (devices cpu and cuda).\n"
      "\nCtrl-C (SIGINT) or SIGTERM ends a run of one process after the current step, and the results so far are\n"
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
