/* cmd-run.c - pipesim calib run: measures everything that a profile still lacks. */
#include "commands.h"

#include "clock.h"
#include "fill.h"
#include "links.h"
#include "provenance.h"
#include "train/devices.h"

#include <pipesim/setting.h>
#include <pipesim/work.h>
#include <unistd.h>

#define DEFAULT_MAX_DEVICES 4
#define MAX_BLOCKS 1024
#define MIN_SAMPLES 10
#define PATIENCE 2 /* with a machine that has slowed down, in time limits */

/* The options, and what they refer to. */
typedef struct {
  PsCalibration calibration;
  PsFill fill;
  char *db;
  char *profile;
  char *model_name;
  char *device;
  char *transport;
  guint sharing; /* 0: not given */
  char *sm_shares;
  char *caches;
  guint *chunks; /* NULL: not given */
  guint n_chunks;
  guint *slices; /* NULL: none */
  guint *blocks; /* NULL: none */
  char *layout;
  char *precision;
  gint64 seed;
  gint64 budget_ns; /* 0: none */

  PsModel *model;
  guint *shares;
  char *places;
  PsProfile *here; /* this machine, build and moment */
} Run;

static const PsOption rows[] = {
  PS_OPTION ("db", 0, PS_FILE (Run, db), "FILE", "Cost database, created when missing", .otherwise = ""),
  PS_OPTION ("profile", 0, PS_TEXT (Run, profile), "NAME", "Name of the profile", .otherwise = ""),
  PS_OPTION ("model", 0, PS_FILE (Run, model_name), "FILE", "Model description or name of a shipped one",
             .otherwise = ""),
  PS_OPTION ("precision", 0, PS_TEXT (Run, precision), "NAME",
             "Number format of the model, fp32, fp16, bf16, fp8, fp8-block, mxfp8 or nvfp4", .otherwise = "its own"),
  PS_OPTION ("device", 0, PS_TEXT (Run, device), "NAME", "Device class", .otherwise = "cpu"),
  PS_OPTION ("transport", 0, PS_TEXT (Run, transport), "NAME", "Transport class", .otherwise = "threads"),
  PS_OPTION ("devices", 'p', PS_COUNT (Run, calibration.n_devices, 1, PS_MAX_DEVICES), "P", "Devices",
             .otherwise = "cores, at most 4"),
  PS_OPTION ("sharing", 0, PS_COUNT (Run, sharing, 1, PS_MAX_DEVICES), "N",
             "Devices that run at the same time; they share accelerators if there are fewer", .otherwise = "all"),
  PS_OPTION ("sm-shares", 0, PS_TEXT (Run, sm_shares), "N,...",
             "Proportions in which devices split a GPU's multiprocessors, rounded to pieces it can split off",
             .otherwise = "equal"),
  PS_OPTION ("caches", 0, PS_TEXT (Run, caches), "STATE,...",
             "Data of ops in the caches: run as in real runs, cold none, warm all that fits", .otherwise = "run"),
  PS_OPTION ("blocks", 0, PS_COUNTS (Run, blocks, calibration.n_blocks, 0, MAX_BLOCKS), "N,...",
             "Measure ops also while blocks hold this number of multiprocessors, as NCCL's receives do; of a whole GPU",
             .otherwise = "none"),
  PS_OPTION ("chunks", 'v', PS_COUNTS (Run, chunks, n_chunks, 1, PS_MAX_STAGES), "V,...",
             "Numbers of chunks per device", .otherwise = "1,2"),
  PS_OPTION ("slices", 0, PS_COUNTS (Run, slices, calibration.n_slices, 2, PS_MAX_SLICES), "Q,...",
             "Measure ops also on each of Q slices of a sequence, for seq1f1b, which has 4; with one chunk per device",
             .otherwise = "none"),
  PS_OPTION ("layout", 0, PS_TEXT (Run, layout), "STRING|FILE|even",
             "Stages to measure, as predict --layout says them; then -v is 1 unless given", .otherwise = "even",
             .parse = ps_setting_layout_parse),
  PS_OPTION ("recompute", 0, PS_NAME (Run, calibration.recompute, ps_recompute), "KIND",
             "Part of a forward that backwards compute again, none, selective or full, for exec --recompute"),
  PS_OPTION ("offload", 0, PS_NUMBER (Run, calibration.offload, 0, 1), "RATIO",
             "Part of the activations that moves to the host, 0 to 1, for exec --offload"),
  PS_OPTION ("tensor", 0, PS_COUNT (Run, calibration.n_tensor, 1, PS_MAX_TENSOR), "T",
             "Devices that share each stage's layers, for exec --tensor; ops are measured with their sums",
             .initial = 1),
  PS_OPTION ("within", 0, PS_PERCENT (Run, calibration.rule.within, 0.0001, 100), "PERCENT",
             "Sample until each median is known to this percentage of itself, 0.5 or 0.5%", .initial = 0.01),
  PS_OPTION ("max-samples", 0, PS_COUNT (Run, calibration.rule.max_samples, 1, 1000000), "N",
             "Most samples of each quantity", .initial = 2000),
  PS_OPTION ("time-limit", 0, PS_TIME (Run, calibration.rule.time_limit_ns), "T",
             "Most time for ops that are measured together; a tenth of it for each size of transfers", .initial = 6e9),
  PS_OPTION ("budget", 0, PS_TIME (Run, budget_ns), "T",
             "Time for all together: half to measure everything once, the rest for further samples of whatever "
             "predictions are most uncertain from; 0: as long as it takes"),
  PS_OPTION ("seed", 0, PS_INTEGER (Run, seed, 0, 0), "N", "Seed of weights and data", .initial = 1),
  PS_OPTION ("again", 0, PS_COUNT (Run, fill.n_again, 0, 100), "N",
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

static void run_clear (Run *run)
{
  ps_costdb_close (run->fill.db);
  ps_fill_clear (&run->fill);
  ps_model_free (run->model);
  ps_profile_free (run->here);
  g_free (run->shares);
  g_free (run->places);
}

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

static gboolean parse_shares (Run *run, GError **error)
{
  PsCalibration *calibration = &run->calibration;

  if (run->sm_shares == NULL)
    return TRUE;
  if (calibration->n_local < calibration->n_devices)
    return ps_refuse (error, PS_ERROR_USAGE, "--sm-shares: needs all %u devices at the same time; --sharing says %u",
                      calibration->n_devices, calibration->n_local);
  run->shares
      = ps_device_shares_parse (calibration->device, "--sm-shares", run->sm_shares, calibration->n_devices, error);
  g_autofree char *unequal = run->shares != NULL ? ps_shares_to_text (run->shares, calibration->n_devices) : NULL;
  calibration->shares = unequal != NULL && *unequal ? run->shares : NULL;
  return run->shares != NULL;
}

/* --precision was once the name of --within, so its error says which is which. */
static gboolean read_model (Run *run, GError **error)
{
  run->model = ps_model_load (run->model_name, error);
  return run->model != NULL
         && ps_model_set_precision (run->model, "--precision (a number format; --within says how well to know medians)",
                                    run->precision, error);
}

/* Without -v chunks are 1 and 2, as far as the model has layers. */
static gboolean prepare (Run *run, GError **error)
{
  static const guint usual[] = { 1, 2 };
  PsCalibration *calibration = &run->calibration;
  PsSamplingRule *rule = &calibration->rule;

  if (!ps_calib_find_classes (calibration, run->device != NULL ? run->device : "cpu",
                              run->transport != NULL ? run->transport : "threads", error))
    return FALSE;
  if (calibration->n_devices == 0)
    calibration->n_devices = CLAMP (ps_count_cores (), 1, DEFAULT_MAX_DEVICES);
  calibration->n_local = run->sharing > 0 ? run->sharing : calibration->n_devices;
  if (calibration->n_local > calibration->n_devices)
    return ps_refuse (error, PS_ERROR_USAGE, "--sharing: '%u' is not an integer from 1 to %u", run->sharing,
                      calibration->n_devices);
  if (!parse_shares (run, error)
      || !parse_caches (run->caches != NULL ? run->caches : "run", &calibration->caches, error))
    return FALSE;
  if (g_strcmp0 (run->layout, "best") == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--layout best: needs costs; pipesim partition prints its string");
  if (!read_model (run, error))
    return FALSE;
  calibration->chunks = run->chunks != NULL ? run->chunks : usual;
  calibration->n_chunks = run->chunks != NULL                                                      ? run->n_chunks
                          : run->layout != NULL || 2 * calibration->n_devices > run->model->layers ? 1
                                                                                                   : 2;
  calibration->slices = run->slices;
  calibration->blocks = run->blocks;
  calibration->layout = run->layout;
  calibration->model = run->model;
  calibration->seed = (guint64)run->seed;
  calibration->patience_ns = PATIENCE * rule->time_limit_ns;
  rule->min_samples = MIN (MIN_SAMPLES, rule->max_samples);
  if (run->budget_ns > 0) {
    run->fill.n_again = 0;
    rule->time_limit_ns = MIN (rule->time_limit_ns, ps_fill_first_limit (calibration, run->budget_ns));
  }
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
    return ps_refuse (error, PS_ERROR_USAGE, "--device: the times of device %s are not worth measuring", class->name);
  if (calibration->n_blocks > 0 && class->occupy == NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--blocks: device %s has no multiprocessors to keep from ops",
                      class->name);
  if (!check_tensor (calibration, error))
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

static gboolean open_profile (Run *run, GError **error)
{
  PsProfile *profile = run->here
      = ps_profile_new_here (run->profile, run->model, run->calibration.device, run->calibration.transport);

  g_free (profile->places);
  profile->places = g_strdup (run->places);
  g_free (profile->shares);
  profile->shares = ps_shares_to_text (run->calibration.shares, run->calibration.n_devices);
  if (run->calibration.processes != NULL) {
    g_free (profile->transport);
    profile->transport = g_strdup_printf ("%s, %u processes", run->calibration.transport->name,
                                          ps_processes_n_ranks (run->calibration.processes));
  }
  run->fill.here = profile;
  run->fill.db = ps_costdb_open (run->db, PS_COSTDB_WRITE, error);
  return run->fill.db != NULL && ps_costdb_begin_profile (run->fill.db, profile, &run->fill.profile, error);
}

static gboolean print_result (const Run *run, gint64 begin_ns, GError **error)
{
  g_autoptr (GPtrArray) measurements = ps_costdb_measurements (run->fill.db, run->profile, FALSE, error);

  if (measurements == NULL)
    return FALSE;
  g_autofree char *elapsed = ps_format_time (ps_clock_now () - begin_ns);
  g_autoptr (PsTable) table = ps_calib_table (measurements);
  g_autofree char *rows_text = ps_table_to_text (table), *of_shapes = ps_shape_error_to_text (measurements);
  g_autofree char *shapes = ps_fit_sentence (of_shapes, 0);
  g_autofree char *links = ps_calib_links_to_text (run->places, measurements);
  g_autofree char *text = g_strconcat (rows_text, shapes, links, NULL);
  g_printerr ("profile '%s' of %s: %u measured in %s, %u there already\n", run->profile, run->db, run->fill.n_measured,
              elapsed, run->fill.n_there);
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

static gboolean measure_all (Run *run, GError **error)
{
  PsCalibration *calibration = &run->calibration;
  gint64 begin_ns = ps_clock_now ();

  ps_fill_init (&run->fill, run->profile);
  run->fill.terminal = isatty (STDERR_FILENO);
  if (!prepare (run, error) || !check_processes (calibration, error) || !check_possible (calibration, error))
    return FALSE;
  calibration->places = run->places = ps_calib_places (calibration);
  if (ps_processes_rank (calibration->processes) > 0)
    return ps_calibrate_others (calibration, error);
  warn_of_sharing (calibration);
  if (!open_profile (run, error) || !ps_fill_measure (&run->fill, calibration, error)
      || (run->budget_ns > 0 && !ps_fill_spend (&run->fill, calibration, begin_ns + run->budget_ns, error)))
    return FALSE;
  ps_calibrate_end (calibration);
  return print_result (run, begin_ns, error);
}

static gboolean run_command (gpointer base, PsProcesses *processes, GError **error)
{
  Run *run = base;

  run->calibration.processes = processes;
  gboolean ok = measure_all (run, error);
  run_clear (run);
  return ok;
}

const PsCalibCommand ps_calib_run
    = { "run",        "measure a model on this machine into a cost database; run it again to measure what is missing",
        &help,        rows,
        sizeof (Run), run_command,
        TRUE };
