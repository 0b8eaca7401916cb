/* runtime.c - opens the parts of a run, starts one thread per device of this process, and makes the result from their
 * records. */
#include "run.h"

#include "train/conditions.h"
#include "train/memory.h"

#include <pipesim/work.h>

static gboolean open_workers (PsWorker *workers, PsRun *run, GError **error)
{
  guint n_cores = ps_count_cores ();

  for (guint i = 0; i < run->n_here; i++)
    if (!ps_worker_open (&workers[i], run, run->first + i, n_cores, error)) {
      g_prefix_error (error, "device %u: ", workers[i].index);
      return FALSE;
    }
  run->result->emulated = workers[0].device->class->computes && !workers[0].device->class->measures;
  return TRUE;
}

/* Records the median clock from a device's first op to its last. */
static void record_clock (PsRecorder *recorder, PsConditions *conditions, guint i, guint device)
{
  PsDeviceRecord *records = &recorder->device[device];
  PsCondition median;

  if (records->n_ops == 0)
    return;
  ps_conditions_median (conditions, i, records->ops[0].times.start_ns,
                        records->ops[(gsize)recorder->n_steps * records->n_ops - 1].times.end_ns, &median);
  records->clock_mhz = median.clock_mhz;
}

/* A thread that could not be started is missed at the first barrier, so its failure ends the run. */
static void run_threads (PsWorker *workers, PsRun *run)
{
  guint n = run->n_here;
  GError *error = NULL;

  run->devices = g_new (PsDevice *, n);
  for (guint i = 0; i < n; i++)
    run->devices[i] = workers[i].device;
  run->conditions = ps_conditions_new (run->devices, n);
  for (guint i = 0; i < n && error == NULL; i++)
    workers[i].thread = g_thread_try_new ("device", ps_worker_main, &workers[i], &error);
  if (error != NULL) {
    g_prefix_error (&error, "%u devices: ", n);
    ps_crew_fail (run->crew, error);
  }
  for (guint i = 0; i < n; i++)
    if (workers[i].thread != NULL)
      g_thread_join (workers[i].thread);
  for (guint i = 0; i < n; i++)
    record_clock (run->recorder, run->conditions, i, run->first + i);
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

/* Refuses steps without a barrier, and clipping, where they are not possible. */
static gboolean check_bypass (const PsProgram *program, const PsRunSetting *setting, GError **error)
{
  const PsDeviceClass *device = setting->device;
  const PsSchedule *schedule = program->schedule;
  gsize n_bytes = schedule->placement->n_stages * sizeof (double);

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
  if (device->computes && setting->bypass
      && (gsize)ps_model_boundary_bytes (setting->model) / schedule->n_slices < n_bytes)
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

/* Refuses layers that devices share where that is not possible. */
static gboolean check_tensor (const PsRunSetting *setting, GError **error)
{
  if (setting->n_tensor <= 1 || !setting->device->computes)
    return TRUE;
  g_return_val_if_fail (setting->device->tensor, FALSE);

  return ps_tensor_check (setting->model, setting->n_tensor, FALSE, error);
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
  g_return_val_if_fail (setting->model != NULL || !setting->device->computes, FALSE);

  if (setting->device->available != NULL && !setting->device->available (error))
    return FALSE;
  if (setting->transport->available != NULL && !setting->transport->available (error))
    return FALSE;
  if (!check_schedule (program->schedule, setting, error) || !check_bypass (program, setting, error)
      || !check_zero (program->schedule, setting, error) || !check_tensor (setting, error)
      || !check_processes (program, setting, error))
    return FALSE;
  return !setting->transport->ordered || setting->measuring != NULL
         || ps_program_check (program, PS_CHANNEL_DIRECTION, error);
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

/* Finds the part of the run that is in this process. */
static void find_place (PsRun *run)
{
  guint n_devices = run->program->schedule->placement->n_devices;
  guint rank = ps_processes_rank (run->setting->processes);
  guint n_ranks = ps_processes_n_ranks (run->setting->processes);

  run->n_replicas = ps_run_n_replicas (run->setting, n_devices);
  run->n_tensor = run->setting->device->computes ? MAX (run->setting->n_tensor, 1) : 1;
  run->n_pipelines = run->n_replicas * run->n_tensor;
  run->n_here = n_devices * run->n_pipelines / n_ranks;
  run->first = rank * run->n_here % n_devices;
  run->pipeline = rank * run->n_here / n_devices;
}

static guint8 *channels_in_use (const PsRun *run)
{
  const PsProgram *program = run->program;
  guint n = program->schedule->placement->n_devices;
  guint8 *uses = g_new0 (guint8, (gsize)n * n);

  for (guint i = 0; i < program->n_messages; i++)
    uses[(gsize)program->messages[i].sender * n + program->messages[i].receiver] = TRUE;
  for (guint i = 0; i < n && run->setting->measuring != NULL; i++)
    for (guint k = program->first[i]; k < program->first[i + 1]; k++)
      if (program->instructions[k].type == PS_INSTRUCTION_SEND)
        uses[(gsize)i * n + program->instructions[k].peer] = TRUE;
  return uses;
}

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
  PsTransportSetting transport
      = { .n_devices = run->program->schedule->placement->n_devices,
          .message_bytes = setting->device->computes || setting->measuring != NULL
                               ? ps_model_boundary_bytes (setting->model) / run->program->schedule->n_slices
                               : 0,
          .timeout_ns = setting->timeout_ns,
          .first = run->first,
          .n_here = run->n_here,
          .local = ps_processes_local_rank (setting->processes) * run->n_here,
          .pipeline = run->pipeline,
          .n_replicas = run->n_replicas,
          .n_tensor = run->n_tensor,
          .n_stages = run->program->schedule->placement->n_stages,
          .n_slices = run->program->schedule->n_slices,
          .twin = run->twin,
          .tied = run->tied,
          .uses = run->uses = channels_in_use (run),
          .clock_offset_ns = ps_processes_clock_offset (setting->processes, ps_processes_rank (setting->processes)),
          .group = &run->group };

  run->group = (PsTransportGroup){ .data = run, .exchange = exchange, .fail = fail };
  run->transport = setting->transport->open (&transport, error);
  if (run->transport != NULL)
    ps_crew_watch (run->crew, abort_transport, run->transport);
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

/* The device with the same stages in the other weight copy, for each device; NULL: the schedule has one copy. Fails
 * where devices do not pair up so, or where a device holds a stage twice. */
static gboolean find_twins (const PsSchedule *schedule, guint **twin, GError **error)
{
  const PsPlacement *placement = schedule->placement;
  g_autofree guint *found = g_new (guint, placement->n_devices);

  *twin = NULL;
  if (placement->n_copies == 1)
    return TRUE;
  for (guint i = 0; i < placement->n_devices; i++)
    found[i] = i;
  for (guint copy = 0; copy < placement->n_copies; copy++)
    for (guint stage = 0; stage < placement->n_stages; stage++) {
      guint own = ps_placement_device (placement, copy, stage);
      guint other = ps_placement_device (placement, 1 - copy, stage);

      if (own == other)
        return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                          "schedule '%s': device %u holds both copies of stage %u; devices that compute hold one",
                          schedule->name, own, stage);
      if (found[own] != own && found[own] != other)
        return ps_refuse (error, PS_ERROR_UNAVAILABLE,
                          "schedule '%s': device %u shares its stages with devices %u and %u; one is possible",
                          schedule->name, own, found[own], other);
      found[own] = other;
    }
  *twin = g_steal_pointer (&found);
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

static gboolean set_shapes (PsRun *run, GError **error)
{
  const PsRunSetting *setting = run->setting;
  guint n_stages = run->program->schedule->placement->n_stages;

  run->shapes = setting->shapes != NULL ? g_memdup2 (setting->shapes, n_stages * sizeof *run->shapes)
                                        : g_new0 (PsStageShape, n_stages);
  return !setting->device->computes || setting->shapes != NULL
         || ps_model_split (setting->model, n_stages, run->shapes, error);
}

static gboolean run_open (PsRun *run, GError **error)
{
  const PsRunSetting *setting = run->setting;
  const PsPlacement *placement = run->program->schedule->placement;

  if (!set_shapes (run, error)
      || (setting->device->computes && !find_twins (run->program->schedule, &run->twin, error)))
    return FALSE;
  if (setting->measuring == NULL)
    find_ends (run);
  run->scripts = ps_scripts_new (run->program, setting->costs, setting->measuring);
  run->state_bytes = g_new0 (gint64, placement->n_stages);
  if (setting->bypass && !run->program->schedule->asynchronous)
    run->plans = ps_bypass_plans_new (run->scripts, run->program);
  if (!check_room (run, error))
    return FALSE;
  run->recorder = ps_recorder_new (run->scripts, placement->n_devices, MAX (run->n_here / placement->n_devices, 1),
                                   setting->n_steps);
  run->result = ps_run_result_new (run->program, setting, run->n_replicas);
  if (setting->save != NULL)
    run->saved = ps_checkpoint_new (setting->model, setting->data);
  return ps_gather_agreement (run, error) && open_transport (run, error);
}

/* Runs the steps; the crew notes any failure. */
static void run_steps (PsRun *run)
{
  g_autofree PsWorker *workers = g_new0 (PsWorker, run->n_here);
  GError *failure = NULL;

  if (!run_open (run, &failure) || !open_workers (workers, run, &failure))
    ps_crew_fail (run->crew, failure);
  else
    run_threads (workers, run);
  ps_crew_watch (run->crew, NULL, NULL);
  if (run->transport != NULL)
    run->transport->class->close (g_steal_pointer (&run->transport));
  for (guint i = 0; i < run->n_here; i++)
    ps_worker_close (&workers[i]);
}

PsRunResult *ps_run (const PsProgram *program, const PsRunSetting *setting, GError **error)
{
  g_auto (PsRun) run
      = { .program = program, .setting = setting, .endless = setting->bypass || program->schedule->asynchronous };

  g_return_val_if_fail (setting->n_steps >= 1, NULL);

  if (!check_setting (program, setting, error))
    return NULL;
  find_place (&run);
  run.crew = ps_crew_new (run.n_here, setting->processes, setting->timeout_ns);
  run_steps (&run);
  if (!ps_crew_check (run.crew, error))
    return NULL;
  if (setting->measuring == NULL)
    ps_gather (&run);
  if (run.first == 0 && run.pipeline == 0)
    finish_result (&run);
  return g_steal_pointer (&run.result);
}
