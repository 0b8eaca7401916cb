/* runtime.c - opens the parts of a run, starts one thread per device of this process, and makes the result from their
 * records. */
#include "run.h"

#include "train/conditions.h"
#include "train/memory.h"

#include <pipesim/work.h>

#include <string.h>

/* Opens the devices, and runs one thread for each. A thread that could not be started is missed at the first barrier,
 * so its failure ends the run. Clocks are medians from a device's first op to its last. */
static void run_workers (PsWorker *workers, PsRun *run)
{
  const guint n = run->n_here, n_cores = ps_count_cores ();
  GError *error = NULL;

  run->devices = g_new (PsDevice *, n);
  for (guint i = 0; i < n && error == NULL; i++)
    if (ps_worker_open (&workers[i], run, run->first + i, n_cores, &error))
      run->devices[i] = workers[i].device;
    else
      g_prefix_error (&error, "device %u: ", workers[i].index);
  run->conditions = error == NULL ? ps_conditions_new (run->devices, n) : NULL;
  run->result->emulated = error == NULL && run->devices[0]->class->computes && !run->devices[0]->class->measures;
  for (guint i = 0; i < n && error == NULL; i++) {
    workers[i].thread = g_thread_try_new ("device", ps_worker_main, &workers[i], &error);
    if (error != NULL)
      g_prefix_error (&error, "%u devices: ", n);
  }
  if (error != NULL)
    ps_crew_fail (run->crew, error);
  for (guint i = 0; i < n; i++)
    if (workers[i].thread != NULL)
      g_thread_join (workers[i].thread);
  for (guint i = 0; i < n; i++) {
    PsDeviceRecord *records = &run->recorder->device[run->first + i];
    const PsOpRecord *end = records->ops + (gsize)run->recorder->n_steps * records->n_ops;
    PsCondition median = { 0 };

    if (records->n_ops > 0)
      ps_conditions_median (run->conditions, i, records->ops->times.start_ns, end[-1].times.end_ns, &median);
    records->clock_mhz = median.clock_mhz;
  }
  g_clear_pointer (&run->conditions, ps_conditions_free);
}

static void finish_result (PsRun *run)
{
  PsRunResult *result = run->result;

  result->n_steps = run->recorder->n_steps;
  for (guint i = 0; i < result->n_steps; i++)
    result->iteration_ns[i] = ps_recorder_iteration (run->recorder, i);
  for (guint i = 0; i < run->recorder->n_devices; i++) {
    gint64 clock_mhz = run->recorder->device[i].clock_mhz;

    if (clock_mhz > 0 && (result->clock_mhz == 0 || clock_mhz < result->clock_mhz))
      result->clock_mhz = clock_mhz;
  }
  result->timeline_step = ps_recorder_median_step (run->recorder);
  result->median_iteration_ns = result->iteration_ns[result->timeline_step];
  if (run->setting->measuring != NULL)
    return;
  result->timeline = ps_recorder_timeline (run->recorder, run->program, run->scripts, result->timeline_step);
  g_free (result->timeline->source);
  result->timeline->source = g_strdup_printf ("device %s%s, transport %s, step %u of %u", run->setting->device->name,
                                              result->emulated ? " (emulated)" : "", run->setting->transport->name,
                                              result->timeline_step + 1, result->n_steps);
}

/* Refuses schedules that ask for more than the device has. */
static gboolean check_schedule (const PsSchedule *schedule, const PsRunSetting *setting, GError **error)
{
  const PsDeviceClass *device = setting->device;

  if (device->computes && (schedule->weight_versions != NULL || schedule->update_every > 0)
      && device->use_version == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "schedule '%s': device %s runs schedules with one version of the weights only", schedule->name,
                      device->name);
  if (schedule->asynchronous && (setting->save != NULL || setting->start != NULL))
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "schedule '%s': never drains, and checkpoints hold one version of the weights", schedule->name);
  if (schedule->asynchronous && schedule->placement->n_copies > 1)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "schedule '%s': has two weight copies that never meet",
                      schedule->name);
  if (device->computes && schedule->asynchronous && setting->model->tied)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "schedule '%s': never drains, and embedding and head of the model share a matrix",
                      schedule->name);
  return TRUE;
}

/* A message, which has room for the longest slice. */
static gsize message_bytes (const PsSchedule *schedule, const PsRunSetting *setting)
{
  gsize bytes = (gsize)ps_model_boundary_bytes (setting->model), longest = 0;

  for (guint k = 0; setting->slice_tokens != NULL && k < schedule->n_slices; k++)
    longest = MAX (longest, setting->slice_tokens[k]);
  return longest > 0 ? bytes / setting->model->sequence * longest : bytes / schedule->n_slices;
}

/* Refuses steps without a barrier, and clipping, where they are not possible. */
static gboolean check_bypass (const PsProgram *program, const PsRunSetting *setting, GError **error)
{
  const PsDeviceClass *device = setting->device;
  const PsSchedule *schedule = program->schedule;
  gsize n_bytes = schedule->placement->n_stages * sizeof (double);

  if (schedule->forward_only && (setting->bypass || setting->clip > 0))
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "--sync bypass and --clip: '%s' has forwards alone, and no optimizer step", schedule->name);
  if (setting->clip > 0 && schedule->asynchronous)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--clip: '%s' never meets, so there is no global norm",
                      schedule->name);
  if ((!setting->bypass || schedule->asynchronous) && setting->clip == 0)
    return TRUE;
  if (device->computes && device->settle == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--sync bypass and --clip: device %s knows no norm of its gradients",
                      device->name);
  if (setting->bypass && (setting->transport->ordered || setting->save != NULL || schedule->weight_versions != NULL))
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--sync bypass: not with %s",
                      setting->transport->ordered ? "transport nccl"
                      : setting->save != NULL     ? "--save"
                                                  : "a schedule that keeps versions of the weights");
  if (device->computes && setting->bypass && message_bytes (schedule, setting) < n_bytes)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--sync bypass: a message of the model has no room for %u norms",
                      schedule->placement->n_stages);
  return TRUE;
}

/* Refuses a spread optimizer state where it is not possible. */
static gboolean check_zero (const PsSchedule *schedule, const PsRunSetting *setting, GError **error)
{
  if (!setting->zero || !setting->device->computes)
    return TRUE;
  if (setting->device->weight_memory == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--zero 1: each device %s holds the whole optimizer state",
                      setting->device->name);
  if (!setting->transport->splits_sums)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "--zero 1: transport %s doesn't gather weights; threads and mpi do",
                      setting->transport->name);
  return !setting->bypass || schedule->asynchronous
         || ps_refuse (error, PS_ERROR_UNAVAILABLE, "--zero 1: not with --sync bypass, which tries out whole steps");
}

guint ps_run_n_replicas (const PsRunSetting *setting, guint n_devices)
{
  guint n_tensor = MAX (setting->n_tensor, 1);

  return setting->n_replicas > 0 ? setting->n_replicas
                                 : MAX (ps_processes_n_ranks (setting->processes) / (n_devices * n_tensor), 1);
}

/* Whether every process gets equally many devices, of one pipeline, or of whole ones. */
static gboolean divides (guint n_ranks, guint n_devices, guint n_pipelines)
{
  guint n = n_devices * n_pipelines, n_here = n / n_ranks;

  return n % n_ranks == 0 && (n_devices % n_here == 0 || n_here % n_devices == 0);
}

/* Refuses transports that don't reach other processes or don't add up gradients, if the run needs that. */
static gboolean check_processes (const PsProgram *program, const PsRunSetting *setting, GError **error)
{
  guint n_devices = program->schedule->placement->n_devices;
  guint n_ranks = ps_processes_n_ranks (setting->processes);
  guint n_replicas = ps_run_n_replicas (setting, n_devices), n_pipelines = n_replicas * MAX (setting->n_tensor, 1);
  gboolean adds = !setting->device->computes || setting->transport->sum != NULL;

  if (setting->processes != NULL && !setting->transport->spans_processes)
    return ps_refuse (error, PS_ERROR_USAGE, "transport %s: stays inside one process, and these are %u",
                      setting->transport->name, n_ranks);
  if ((setting->n_replicas > 0 || setting->n_tensor > 1) && !divides (n_ranks, n_devices, n_pipelines))
    return ps_refuse (
        error, PS_ERROR_USAGE,
        "%u processes: can't run %u pipelines of %u devices; each needs equally many of them, or an equal part "
        "of one",
        n_ranks, n_pipelines, n_devices);
  if (!divides (n_ranks, n_devices, n_pipelines))
    return ps_refuse (
        error, PS_ERROR_USAGE,
        "%u processes: as many as the schedule has devices, %u, a multiple of that or a divisor of it are needed",
        n_ranks, n_devices);
  if (n_replicas > 1 && !adds)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                      "%u processes: transport %s doesn't add up the gradients of several copies of %u devices",
                      n_ranks, setting->transport->name, n_devices);
  return TRUE;
}

static gboolean check_setting (const PsProgram *program, const PsRunSetting *setting, GError **error)
{
  const PsDeviceClass *device = setting->device;

  g_return_val_if_fail (setting->model != NULL || !device->computes, FALSE);
  g_return_val_if_fail (setting->n_tensor <= 1 || !device->computes || device->tensor, FALSE);

  return (device->available == NULL || device->available (error))
         && (setting->transport->available == NULL || setting->transport->available (error))
         && check_schedule (program->schedule, setting, error) && check_bypass (program, setting, error)
         && check_zero (program->schedule, setting, error)
         && (setting->n_tensor <= 1 || !device->computes
             || ps_tensor_check (setting->model, setting->n_tensor, FALSE, error))
         && check_processes (program, setting, error)
         && (!setting->transport->ordered || setting->measuring != NULL
             || ps_program_check (program, PS_CHANNEL_DIRECTION, error));
}

static void run_clear (PsRun *run)
{
  guint n_devices = run->program->schedule->placement->n_devices;

  if (run->transport != NULL)
    run->transport->class->close (run->transport);
  ps_crew_free (run->crew);
  g_free (run->uses);
  g_free (run->twin);
  g_free (run->tied);
  ps_bypass_plans_free (run->plans, n_devices);
  ps_scripts_free (run->scripts, n_devices);
  ps_recorder_free (run->recorder);
  ps_run_result_free (run->result);
  ps_checkpoint_free (run->saved);
  g_free (run->shapes);
  g_free (run->devices);
  g_free (run->state_bytes);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsRun, run_clear)

static gboolean exchange (gpointer data, guint device, gconstpointer mine, gsize n_bytes, gpointer all, GError **error)
{
  PsRun *run = data;

  return ps_crew_exchange (run->crew, device - run->first, mine, n_bytes, all, error);
}

static void fail (gpointer data, GError *error)
{
  ps_crew_fail (((PsRun *)data)->crew, error);
}

static void abort_transport (gpointer data)
{
  PsTransport *transport = data;

  transport->class->abort (transport);
}

static gboolean open_transport (PsRun *run, GError **error)
{
  const PsRunSetting *setting = run->setting;
  const PsProgram *program = run->program;
  const guint n = program->schedule->placement->n_devices;
  PsTransportSetting transport
      = { .n_devices = n,
          .message_bytes = setting->device->computes || setting->measuring != NULL
                               ? (gint64)message_bytes (program->schedule, setting)
                               : 0,
          .timeout_ns = setting->timeout_ns,
          .first = run->first,
          .n_here = run->n_here,
          .local = ps_processes_local_rank (setting->processes) * run->n_here,
          .pipeline = run->pipeline,
          .n_replicas = run->n_replicas,
          .n_tensor = run->n_tensor,
          .n_stages = program->schedule->placement->n_stages,
          .n_slices = program->schedule->n_slices,
          .twin = run->twin,
          .tied = run->tied,
          .uses = run->uses = g_new0 (guint8, (gsize)n * n),
          .clock_offset_ns = ps_processes_clock_offset (setting->processes, ps_processes_rank (setting->processes)),
          .group = &run->group };

  for (guint i = 0; i < n; i++)
    for (guint k = program->first[i]; k < program->first[i + 1]; k++)
      if (program->instructions[k].type == PS_INSTRUCTION_SEND)
        run->uses[(gsize)i * n + program->instructions[k].peer] = TRUE;
  run->group = (PsTransportGroup){ .data = run, .exchange = exchange, .fail = fail };
  run->transport = setting->transport->open (&transport, error);
  if (run->transport != NULL)
    ps_crew_on_failure (run->crew, abort_transport, run->transport);
  return run->transport != NULL;
}

/* Refuses more steps than memory holds: the records of every step are kept until the end. */
static gboolean check_room (const PsRun *run, GError **error)
{
  const PsSchedule *schedule = run->program->schedule;
  guint n_steps = run->setting->n_steps;
  guint n_pipelines = MAX (run->n_here / schedule->placement->n_devices, 1);
  gsize of_step = ps_recorder_step_bytes (run->scripts, schedule->placement->n_devices) * n_pipelines
                  + (gsize)run->n_replicas * schedule->n_microbatches * sizeof (double);
  g_autofree char *taken = NULL, *there = NULL;

  if (of_step <= (gsize)ps_physical_bytes () / n_steps)
    return TRUE;
  taken = ps_format_size ((gint64)of_step);
  there = ps_format_size (ps_physical_bytes ());
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "%u steps: %s is recorded of each, and this machine has %s", n_steps,
                    taken, there);
}

/* Finds the device with the same stages in the other weight copy, for each device, where the schedule has two. Fails
 * where devices do not pair up so, or where a device holds a stage twice. */
static gboolean find_twins (PsRun *run, GError **error)
{
  const PsSchedule *schedule = run->program->schedule;
  const PsPlacement *placement = schedule->placement;

  if (placement->n_copies == 1)
    return TRUE;
  run->twin = g_new (guint, placement->n_devices);
  for (guint i = 0; i < placement->n_devices; i++)
    run->twin[i] = i;
  for (guint i = 0; i < placement->n_copies * placement->n_stages; i++) {
    const guint copy = i / placement->n_stages, stage = i % placement->n_stages;
    const guint own = ps_placement_device (placement, copy, stage);
    const guint other = ps_placement_device (placement, 1 - copy, stage);

    if (own == other)
      return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                        "schedule '%s': device %u holds both copies of stage %u; devices that compute hold one",
                        schedule->name, own, stage);
    if (run->twin[own] != own && run->twin[own] != other)
      return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                        "schedule '%s': device %u shares its stages with devices %u and %u; one is possible",
                        schedule->name, own, run->twin[own], other);
    run->twin[own] = other;
  }
  return TRUE;
}

/* Finds the stages of embedding and head, and the devices that share a matrix of them. */
static void find_ends (PsRun *run)
{
  const PsPlacement *placement = run->program->schedule->placement;
  const gboolean computes = run->setting->device->computes;
  guint first = 0, last = placement->n_stages - 1;

  while (computes && first < last && !run->shapes[first].embedding)
    first++;
  while (computes && last > 0 && !run->shapes[last].head)
    last--;
  run->embedding_stage = first;
  run->loss_stage = last;
  if (!computes || !run->setting->model->tied)
    return;
  run->tied = g_new (guint, placement->n_devices);
  for (guint i = 0; i < placement->n_devices; i++)
    run->tied[i] = i;
  for (guint copy = 0; copy < placement->n_copies; copy++) {
    const guint embedding = ps_placement_device (placement, copy, first);
    const guint head = ps_placement_device (placement, copy, last);

    if (!ps_placement_holds (placement, embedding, last) && !ps_placement_holds (placement, head, first)) {
      run->tied[embedding] = head;
      run->tied[head] = embedding;
    }
  }
}

/* All that ranks must have in common, in words for errors. */
static const char *const topics[]
    = { "version", "schedule", "device or transport", "model", "number of steps", "seed", "training" };

/* The text of each topic. */
static char **describe_run (const PsRun *run)
{
  const PsRunSetting *setting = run->setting;
  const PsSchedule *schedule = run->program->schedule;
  const PsTraining none = { 0 }, *training = setting->training != NULL ? setting->training : &none;
  g_autofree char *text
      = training->text != NULL ? g_compute_checksum_for_bytes (G_CHECKSUM_SHA256, training->text) : g_strdup ("");
  g_autoptr (GString) program = g_string_new (NULL);
  char **texts = g_new0 (char *, G_N_ELEMENTS (topics) + 1);

  g_string_printf (program, "%u %u %u %u", schedule->placement->n_devices, schedule->placement->n_stages,
                   schedule->n_microbatches, ps_schedule_update_every (schedule));
  for (guint i = 0; i < run->program->first[schedule->placement->n_devices]; i++) {
    g_autofree char *instruction = ps_instruction_format (&run->program->instructions[i]);

    g_string_append (program, instruction);
  }
  texts[0] = g_strdup_printf ("%s %" G_GSIZE_FORMAT, PS_VERSION, sizeof (PsOpRecord));
  texts[1] = g_strdup (program->str);
  texts[2] = g_strdup_printf ("%s %s", setting->device->name, setting->transport->name);
  texts[3] = setting->model != NULL ? ps_model_digest (setting->model) : g_strdup ("");
  texts[4] = g_strdup_printf ("%u", setting->n_steps);
  texts[5] = g_strdup_printf ("%" G_GUINT64_FORMAT, setting->seed);
  texts[6] = g_strdup_printf ("%d %d %d %u %u %a %a %u %u %s", setting->zero, setting->gradients, setting->save != NULL,
                              setting->save_every, setting->start != NULL ? ps_checkpoint_step (setting->start) : 0,
                              training->learning_rate, training->least_rate, training->warm_up, training->decay, text);
  return texts;
}

/* Whether all ranks are about to run the same program with the same setting: rank 0 compares digests of all topics, and
 * fails for all. */
static gboolean check_agreement (const PsRun *run, GError **error)
{
  const guint n = G_N_ELEMENTS (topics), length = 64; /* of SHA-256 in hex */
  PsProcesses *processes = run->setting->processes;
  g_autoptr (GString) mine = g_string_new (NULL);

  if (processes == NULL)
    return TRUE;
  g_auto (GStrv) texts = describe_run (run);
  for (guint i = 0; i < n; i++) {
    g_autofree char *digest = g_compute_checksum_for_string (G_CHECKSUM_SHA256, texts[i], -1);

    g_string_append (mine, digest);
  }
  g_autofree char *all = g_malloc (mine->len * processes->n_ranks);
  processes->meeting = NULL; /* of an earlier run */
  ps_processes_exchange (processes, mine->str, mine->len, all, run->setting->timeout_ns);
  for (guint i = 0; processes->rank == 0 && i < n * processes->n_ranks; i++)
    if (memcmp (all + i * length, all + i % n * length, length) != 0)
      return ps_refuse (error, PS_ERROR_INPUT, "rank %u runs another %s than rank 0", i / n, topics[i % n]);
  return TRUE;
}

static gboolean run_open (PsRun *run, GError **error)
{
  const PsRunSetting *setting = run->setting;
  const PsPlacement *placement = run->program->schedule->placement;

  run->shapes = g_new0 (PsStageShape, placement->n_stages);
  if (setting->shapes != NULL)
    memcpy (run->shapes, setting->shapes, placement->n_stages * sizeof *run->shapes);
  else if (setting->device->computes && !ps_model_split (setting->model, placement->n_stages, run->shapes, error))
    return FALSE;
  if (setting->device->computes && !find_twins (run, error))
    return FALSE;
  if (setting->measuring == NULL)
    find_ends (run);
  run->scripts = ps_scripts_new (run->program, setting->costs, setting->measuring);
  run->state_bytes = g_new0 (gint64, (gsize)(run->first + run->n_here) * placement->n_stages);
  if (setting->bypass && !run->program->schedule->asynchronous)
    run->plans = ps_bypass_plans_new (run->scripts, run->program);
  if (!check_room (run, error))
    return FALSE;
  run->recorder = ps_recorder_new (run->scripts, placement->n_devices, MAX (run->n_here / placement->n_devices, 1),
                                   setting->n_steps);
  run->result = ps_run_result_new (run->program, setting, run->n_replicas);
  if (setting->save != NULL)
    run->saved = ps_checkpoint_new (setting->model, setting->data);
  return check_agreement (run, error) && open_transport (run, error);
}

/* Runs the steps; the crew notes any failure. */
static void run_steps (PsRun *run)
{
  g_autofree PsWorker *workers = g_new0 (PsWorker, run->n_here);
  GError *failure = NULL;

  if (run_open (run, &failure))
    run_workers (workers, run);
  else
    ps_crew_fail (run->crew, failure);
  ps_crew_on_failure (run->crew, NULL, NULL);
  if (run->transport != NULL)
    run->transport->class->close (g_steal_pointer (&run->transport));
  for (guint i = 0; i < run->n_here; i++)
    ps_worker_close (&workers[i]);
}

PsRunResult *ps_run (const PsProgram *program, const PsRunSetting *setting, GError **error)
{
  const guint n_devices = program->schedule->placement->n_devices, rank = ps_processes_rank (setting->processes);
  g_auto (PsRun) run
      = { .program = program, .setting = setting, .endless = setting->bypass || program->schedule->asynchronous };

  g_return_val_if_fail (setting->n_steps >= 1, NULL);

  if (!check_setting (program, setting, error))
    return NULL;
  run.n_replicas = ps_run_n_replicas (setting, n_devices);
  run.n_tensor = setting->device->computes ? MAX (setting->n_tensor, 1) : 1;
  run.n_pipelines = run.n_replicas * run.n_tensor;
  run.n_here = n_devices * run.n_pipelines / ps_processes_n_ranks (setting->processes);
  run.first = rank * run.n_here % n_devices;
  run.pipeline = rank * run.n_here / n_devices;
  run.crew = ps_crew_new (run.n_here, setting->processes, setting->timeout_ns);
  run_steps (&run);
  if (!ps_crew_check (run.crew, error))
    return NULL;
  if (setting->measuring == NULL)
    ps_gather (&run);
  if (rank == 0)
    finish_result (&run);
  return g_steal_pointer (&run.result);
}

gboolean ps_measuring_run (GArray *const *streams, guint n_devices, guint n_stages, guint n_microbatches,
                           guint n_slices, const PsRunSetting *setting, GError **error)
{
  g_autofree guint16 *device = g_new0 (guint16, n_stages);
  PsScheduleBuilder *builder
      = ps_schedule_builder_new ("measuring", ps_placement_new_custom (n_devices, n_stages, 1, device), n_microbatches);
  g_autoptr (PsProgram) program = g_new0 (PsProgram, 1);
  guint n = 0;

  program->schedule = ps_schedule_builder_end (builder);
  program->schedule->n_slices = n_slices;
  program->first = g_new0 (guint, n_devices + 1);
  for (guint i = 0; i < n_devices; i++)
    program->first[i + 1] = n += streams[i]->len;
  program->instructions = g_new (PsInstruction, MAX (n, 1));
  for (guint i = 0; i < n_devices; i++)
    if (streams[i]->len > 0)
      memcpy (program->instructions + program->first[i], streams[i]->data, streams[i]->len * sizeof (PsInstruction));
  g_autoptr (PsRunResult) result = ps_run (program, setting, error);
  return result != NULL;
}
