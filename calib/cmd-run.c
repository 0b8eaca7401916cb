/* cmd-run.c - pipesim calib run: measures everything that a profile still lacks. */
#include "commands.h"

#include "budget.h"
#include "clock.h"
#include "cut.h"
#include "train/devices.h"
#include "links.h"
#include "measure.h"
#include "run/crew.h"
#include "provenance.h"
#include "rounds.h"
#include "shape-error.h"
#include "transfers.h"

#include <pipesim/setting.h>
#include <pipesim/work.h>
#include <unistd.h>

#define DEFAULT_MAX_DEVICES 4
#define MAX_BLOCKS 1024
#define MIN_SAMPLES 10
#define PATIENCE 2 /* with a machine that has slowed down, in time limits */

typedef struct {
  char *db;
  char *profile;
  char *model;
  char *device;
  char *transport;
  guint n_devices; /* 0: not given, as the next one */
  guint sharing;
  char *sm_shares;
  char *caches;
  guint *chunks; /* NULL: not given */
  guint n_chunks;
  guint *slices; /* NULL: none */
  guint n_slices;
  char *layout;
  PsRecompute recompute;
  double offload;
  guint n_tensor;
  guint *blocks; /* NULL: none */
  guint n_blocks;
  char *precision;
  PsSamplingRule rule;
  gint64 seed;
  guint n_again;
  gint64 budget_ns; /* 0: none */
} Options;

static const PsOption rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Options, db), "FILE", "Cost database, created when missing", .otherwise = ""),
  PS_OPTION ("profile", 0, PS_TEXT (Options, profile), "NAME", "Name of the profile", .otherwise = ""),
  PS_OPTION ("model", 0, PS_FILE (Options, model), "FILE", "Model description or name of a shipped one",
             .otherwise = ""),
  PS_OPTION ("precision", 0, PS_TEXT (Options, precision), "NAME",
             "Number format of the model, fp32, fp16, bf16, fp8 or fp4", .otherwise = "its own"),
  PS_OPTION ("device", 0, PS_TEXT (Options, device), "NAME", "Device class", .otherwise = "cpu"),
  PS_OPTION ("transport", 0, PS_TEXT (Options, transport), "NAME", "Transport class", .otherwise = "threads"),
  PS_OPTION ("devices", 'p', PS_COUNT (Options, n_devices, 1, PS_MAX_DEVICES), "P", "Devices",
             .otherwise = "cores, at most 4"),
  PS_OPTION ("sharing", 0, PS_COUNT (Options, sharing, 1, PS_MAX_DEVICES), "N",
             "Devices that run at the same time; they share accelerators if there are fewer", .otherwise = "all"),
  PS_OPTION ("sm-shares", 0, PS_TEXT (Options, sm_shares), "N,...",
             "Proportions in which devices split a GPU's multiprocessors, rounded to pieces it can split off",
             .otherwise = "equal"),
  PS_OPTION ("caches", 0, PS_TEXT (Options, caches), "STATE,...",
             "Data of ops in the caches: run as in real runs, cold none, warm all that fits", .otherwise = "run"),
  PS_OPTION ("blocks", 0, PS_COUNTS (Options, blocks, n_blocks, 0, MAX_BLOCKS), "N,...",
             "Measure ops also while blocks hold this number of multiprocessors, as NCCL's receives do; of a whole GPU",
             .otherwise = "none"),
  PS_OPTION ("chunks", 'v', PS_COUNTS (Options, chunks, n_chunks, 1, PS_MAX_STAGES), "V,...",
             "Numbers of chunks per device", .otherwise = "1,2"),
  PS_OPTION ("slices", 0, PS_COUNTS (Options, slices, n_slices, 2, PS_MAX_SLICES), "Q,...",
             "Measure ops also on each of Q slices of a sequence, for seq1f1b, which has 4; with one chunk per device",
             .otherwise = "none"),
  PS_OPTION ("layout", 0, PS_TEXT (Options, layout), "STRING|FILE|even",
             "Stages to measure, as predict --layout says them; then -v is 1 unless given", .otherwise = "even",
             .parse = ps_setting_layout_parse),
  PS_OPTION ("recompute", 0, PS_NAME (Options, recompute, ps_recompute), "KIND",
             "Part of a forward that backwards compute again, none, selective or full, for exec --recompute"),
  PS_OPTION ("offload", 0, PS_NUMBER (Options, offload, 0, 1), "RATIO",
             "Part of the activations that moves to the host, 0 to 1, for exec --offload"),
  PS_OPTION ("tensor", 0, PS_COUNT (Options, n_tensor, 1, PS_MAX_TENSOR), "T",
             "Devices that share each stage's layers, for exec --tensor; ops are measured with their sums",
             .initial = 1),
  PS_OPTION ("within", 0, PS_PERCENT (Options, rule.within, 0.0001, 100), "PERCENT",
             "Sample until each median is known to this percentage of itself, 0.5 or 0.5%", .initial = 0.01),
  PS_OPTION ("max-samples", 0, PS_COUNT (Options, rule.max_samples, 1, 1000000), "N", "Most samples of each quantity",
             .initial = 2000),
  PS_OPTION ("time-limit", 0, PS_TIME (Options, rule.time_limit_ns), "T",
             "Most time for ops that are measured together; a tenth of it for each size of transfers", .initial = 6e9),
  PS_OPTION ("budget", 0, PS_TIME (Options, budget_ns), "T",
             "Time for all together: half to measure everything once, the rest for further samples of whatever "
             "predictions are most uncertain from; 0: as long as it takes"),
  PS_OPTION ("seed", 0, PS_INTEGER (Options, seed, 0, 0), "N", "Seed of weights and data", .initial = 1),
  PS_OPTION ("again", 0, PS_COUNT (Options, n_again, 0, 100), "N",
             "Times to measure again what was taken while the machine was not quiet; 0 with --budget", .initial = 1),
  PS_OPTION_END,
};

static const PsCommandHelp help = {
  .summary
  = "Measures every op of every stage shape, and transfers of many sizes. R is not measured by "
    "itself: --recompute measures the ops that have it in them. Ops that find their data in the caches, because "
    "the op right before has made it, are measured apart. Three sizes up to the boundary's are also "
    "sent in both directions at once, in two pairs (4 devices) and while others compute (3). Links between devices are "
    "grouped by what they share, a cache, a package, a host, NVLink: each class is measured over one link and looked "
    "at over others, which count for themselves if they differ by more than the noise. One op, the "
    "sentinel, is read in between: the machine was not quiet if its time moved by more than 3 %. A run that "
    "was cut short goes on when it is repeated. When the profile has everything, all is measured anew and "
    "kept as a further calibration: predictions take the last one, or the one that --profile "
    "NAME#2 says. In several processes, which mpirun or srun --mpi=pmix starts, the first process measures "
    "ops, it and the second measure the transfers between them, and all processes measure an all-reduce. "
    "In one process two devices do, as both weight copies of a stage in chimera.",
  .examples = "pipesim calib run --db costs.db --profile here --model tiny-gpt\n"
              "pipesim calib run --db costs.db --profile quick --model tiny-gpt -p 2 -v 1 --within 5 --time-limit 1s\n"
              "mpirun -n 2 pipesim calib run --db costs.db --profile pair --model tiny-gpt -p 2 --transport mpi\n",
};

/* A run under way. */
typedef struct {
  PsModel *model;
  guint *shares;
  char *places;
  PsProfile *here; /* this machine, build and moment */
  PsCalibration calibration;
  PsCalibRounds rounds;
} Run;

static void run_clear (Run *run)
{
  ps_costdb_close (run->rounds.db);
  ps_calib_rounds_clear (&run->rounds);
  ps_model_free (run->model);
  ps_profile_free (run->here);
  g_free (run->shares);
  g_free (run->places);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Run, run_clear)

/* Reads a list such as "run,cold". g_strsplit makes no item of "": the parser of one empty item reports the error. */
static gboolean parse_caches (const char *text, guint *caches, GError **error)
{
  g_auto (GStrv) items = g_strsplit (*text ? text : ",", ",", -1);

  *caches = 0;
  for (guint i = 0; items[i] != NULL; i++) {
    PsCacheState state;

    if (!ps_cache_state_parse ("--caches", items[i], &state, error))
      return FALSE;
    *caches |= 1U << state;
  }
  return TRUE;
}

static gboolean check_classes (const PsDeviceClass *device, const PsTransportClass *transport, GError **error)
{
  return (device->available == NULL || device->available (error))
         && (transport->available == NULL || transport->available (error));
}

static gboolean parse_shares (Run *run, const char *text, GError **error)
{
  PsCalibration *calibration = &run->calibration;

  if (text == NULL)
    return TRUE;
  if (calibration->n_local < calibration->n_devices)
    return ps_refuse (error, PS_ERROR_USAGE, "--sm-shares: needs all %u devices at the same time; --sharing says %u",
                      calibration->n_devices, calibration->n_local);
  run->shares = ps_device_shares_parse (calibration->device, "--sm-shares", text, calibration->n_devices, error);
  g_autofree char *unequal = run->shares != NULL ? ps_shares_to_text (run->shares, calibration->n_devices) : NULL;
  calibration->shares = unequal != NULL && *unequal ? run->shares : NULL;
  return run->shares != NULL;
}

/* --precision was once the name of --within, so its error says which is which. */
static gboolean read_model (Run *run, const Options *options, GError **error)
{
  run->model = ps_model_load (options->model, error);
  return run->model != NULL
         && ps_model_set_precision (run->model, "--precision (a number format; --within says how well to know medians)",
                                    options->precision, error);
}

static gboolean set_sizes (Run *run, const Options *options, GError **error)
{
  PsCalibration *calibration = &run->calibration;

  run->rounds.n_again = options->budget_ns > 0 ? 0 : options->n_again;
  calibration->rule = options->rule;
  calibration->rule.min_samples = MIN (MIN_SAMPLES, options->rule.max_samples);
  calibration->seed = (guint64)options->seed;
  calibration->n_devices = options->n_devices ? options->n_devices : CLAMP (ps_count_cores (), 1, DEFAULT_MAX_DEVICES);
  calibration->n_local = options->sharing ? options->sharing : calibration->n_devices;
  if (calibration->n_local <= calibration->n_devices)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--sharing: '%u' is not an integer from 1 to %u", options->sharing,
                    calibration->n_devices);
}

/* Without -v chunks are 1 and 2, as far as the model has layers. */
static void set_chunks (Run *run, const Options *options)
{
  static const guint usual[] = { 1, 2 };
  PsCalibration *calibration = &run->calibration;
  gboolean one = options->layout != NULL || 2 * calibration->n_devices > run->model->layers;

  calibration->chunks = options->chunks != NULL ? options->chunks : usual;
  calibration->n_chunks = options->chunks != NULL ? options->n_chunks : one ? 1 : 2;
  calibration->slices = options->slices;
  calibration->n_slices = options->n_slices;
  calibration->blocks = options->blocks;
  calibration->n_blocks = options->n_blocks;
}

static gboolean prepare (Run *run, const Options *options, GError **error)
{
  PsCalibration *calibration = &run->calibration;

  calibration->device = ps_device_find (options->device != NULL ? options->device : "cpu", error);
  if (calibration->device == NULL)
    return FALSE;
  calibration->transport = ps_transport_find (options->transport != NULL ? options->transport : "threads", error);
  if (calibration->transport == NULL || !check_classes (calibration->device, calibration->transport, error)
      || !set_sizes (run, options, error) || !parse_shares (run, options->sm_shares, error)
      || !parse_caches (options->caches != NULL ? options->caches : "run", &calibration->caches, error))
    return FALSE;
  calibration->layout = options->layout;
  calibration->recompute = options->recompute;
  calibration->offload = options->offload;
  calibration->n_tensor = options->n_tensor;
  if (g_strcmp0 (options->layout, "best") == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--layout best: needs costs; pipesim partition prints its string");
  if (!read_model (run, options, error))
    return FALSE;
  set_chunks (run, options);
  calibration->model = run->model;
  calibration->patience_ns = PATIENCE * options->rule.time_limit_ns;
  if (options->budget_ns > 0)
    calibration->rule.time_limit_ns
        = MIN (calibration->rule.time_limit_ns, ps_budget_first_limit (calibration, options->budget_ns));
  return TRUE;
}

static gboolean check_tensor (const PsCalibration *calibration, GError **error)
{
  const guint t = calibration->n_tensor, n_ranks = ps_processes_n_ranks (calibration->processes);

  if (t == 1)
    return TRUE;
  if (!calibration->device->tensor)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--tensor %u: device %s does not share layers; cpu and cuda do", t,
                      calibration->device->name);
  if (calibration->shares != NULL || calibration->n_blocks > 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--tensor %u: not with %s", t,
                      calibration->shares != NULL ? "--sm-shares" : "--blocks");
  if (n_ranks > 1 && n_ranks != t)
    return ps_refuse (error, PS_ERROR_USAGE, "--tensor %u: needs one process, or one for each part; these are %u", t,
                      n_ranks);
  return ps_tensor_check (calibration->model, t, FALSE, error);
}

/* Refuses a calibration that can't be done before it creates a database or a profile. */
static gboolean check_possible (const PsCalibration *calibration, GError **error)
{
  const PsDeviceClass *class = calibration->device;

  if (!class->measures)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "--device: the times of device %s are not worth measuring",
                 class->name);
  else if (calibration->n_blocks > 0 && class->occupy == NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "--blocks: device %s has no multiprocessors to keep from ops",
                 class->name);
  if (!class->measures || (calibration->n_blocks > 0 && class->occupy == NULL) || !check_tensor (calibration, error))
    return FALSE;
  for (guint i = 0; i < calibration->n_chunks; i++) {
    g_autoptr (PsCut) cut = ps_cut_new (calibration, calibration->chunks[i], error);

    if (cut == NULL)
      return FALSE;
  }
  for (guint i = 0; i <= calibration->n_slices; i++) {
    PsDeviceSetting setting = ps_calib_device_setting (calibration, calibration->model, calibration->n_devices, 1, 0);
    const PsStageShape shape = { .recompute = calibration->recompute, .offload = calibration->offload };

    setting.n_slices = i > 0 ? calibration->slices[i - 1] : 1;
    PsDevice *device = class->open (&setting, error);
    if (device == NULL)
      return FALSE;
    class->close (device);
    if (!ps_device_check_slices (&setting, 0, &shape, error))
      return FALSE;
  }
  return TRUE;
}

/* Warns of what the device says of its hardware, and of more cpu devices than cores. Devices that share an accelerator
 * get no warning: `sharing` says so. */
static void warn_of_sharing (const PsCalibration *calibration)
{
  const PsDeviceClass *device = calibration->device;
  guint n_cores = ps_count_cores ();
  g_autofree char *warning = device->warning != NULL ? device->warning () : NULL;

  if (warning != NULL)
    g_printerr ("warning: device %s: %s\n", device->name, warning);
  if (device == &ps_cpu_device && calibration->n_local > n_cores)
    g_printerr ("warning: -p: %u devices take turns on %u cores, and their times are those of devices that do\n",
                calibration->n_local, n_cores);
}

static gboolean open_profile (Run *run, const Options *options, GError **error)
{
  PsProfile *profile = run->here
      = ps_profile_new_here (options->profile, run->model, run->calibration.device, run->calibration.transport);

  g_free (profile->places);
  profile->places = g_strdup (run->places);
  g_free (profile->shares);
  profile->shares = ps_shares_to_text (run->calibration.shares, run->calibration.n_devices);
  if (run->calibration.processes != NULL) {
    g_free (profile->transport);
    profile->transport = g_strdup_printf ("%s, %u processes", run->calibration.transport->name,
                                          ps_processes_n_ranks (run->calibration.processes));
  }
  run->rounds.here = profile;
  run->rounds.db = ps_costdb_open (options->db, PS_COSTDB_WRITE, error);
  return run->rounds.db != NULL && ps_costdb_begin_profile (run->rounds.db, profile, &run->rounds.profile, error);
}

static gboolean print_result (const Run *run, const Options *options, gint64 begin_ns, GError **error)
{
  g_autoptr (GPtrArray) measurements = ps_costdb_measurements (run->rounds.db, options->profile, FALSE, error);

  if (measurements == NULL)
    return FALSE;
  g_autofree char *elapsed = ps_format_time (ps_clock_now () - begin_ns);
  g_autoptr (PsTable) table = ps_calib_table (measurements, FALSE);
  g_autofree char *rows_text = ps_table_to_text (table), *shapes = ps_shape_error_to_text (measurements);
  g_autofree char *links = ps_calib_links_to_text (run->places, measurements);
  g_autofree char *text = g_strconcat (rows_text, shapes, *shapes ? "\n" : "", links, NULL);
  g_printerr ("%sprofile '%s' of %s: %u measured in %s, %u there already\n", run->rounds.terminal ? PS_CLEAR_LINE : "",
              options->profile, options->db, run->rounds.n_measured, elapsed, run->rounds.n_there);
  return ps_print (text, error);
}

/* All processes but the first one only answer its messages. */
static gboolean check_processes (const PsCalibration *calibration, GError **error)
{
  if (calibration->processes == NULL || calibration->transport->spans_processes)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "transport %s: stays inside one process, and these are %u",
                    calibration->transport->name, ps_processes_n_ranks (calibration->processes));
}

static gboolean parse (Options *options, int argc, char **argv, GError **error)
{
  return ps_calib_parse (argc, argv, "run", &help, rows, options, error)
         && ps_calib_require ("--db", options->db, error) && ps_calib_require ("--profile", options->profile, error)
         && ps_calib_require ("--model", options->model, error);
}

static gboolean measure_all (Run *run, const Options *options, GError **error)
{
  PsCalibration *calibration = &run->calibration;
  gint64 begin_ns = ps_clock_now ();

  ps_calib_rounds_init (&run->rounds, options->profile);
  run->rounds.terminal = isatty (STDERR_FILENO);
  if (!prepare (run, options, error) || !check_processes (calibration, error) || !check_possible (calibration, error))
    return FALSE;
  calibration->places = run->places = ps_calib_places (calibration);
  if (ps_processes_rank (calibration->processes) > 0)
    return ps_answer_transfers (calibration, error);
  warn_of_sharing (calibration);
  if (!open_profile (run, options, error))
    return FALSE;
  if (!ps_calib_rounds_measure (&run->rounds, calibration, error)
      || (options->budget_ns > 0 && !ps_budget_spend (&run->rounds, calibration, begin_ns + options->budget_ns, error)))
    return FALSE;
  ps_end_transfers (calibration);
  return print_result (run, options, begin_ns, error);
}

gboolean ps_calib_cmd_run (int argc, char **argv, GError **error)
{
  g_auto (Run) run = { 0 };
  GError *failure = NULL;
  Options options = { 0 };

  /* Joined first: the others hear of an option that this process refuses. */
  if (!ps_processes_join (&run.calibration.processes, ps_calib_report_failure, argv, error))
    return FALSE;
  if (parse (&options, argc, argv, &failure))
    measure_all (&run, &options, &failure);
  ps_processes_part (run.calibration.processes, failure);
  ps_options_reset (rows, &options);
  if (failure != NULL)
    g_propagate_error (error, failure);
  return failure == NULL;
}
