/* worker.c - the thread of one device: it computes, sends and waits by its script. Barriers separate the steps, unless
 * the run is endless: then each device goes on with the next round of its script at once. */
#include "bypass.h"
#include "gather.h"
#include "show.h"
#include "sum.h"

#include "processes/choices.h"

/* where and step say what waits for the meeting: "before O of step", 0. */
static gboolean
meet (PsWorker *worker, const char *where, guint step, gint64 *moment_ns, GError **error)
{
  PsProcesses *processes = worker->run->setting->processes;

  if (processes != NULL && ps_worker_member (worker) == 0)
    {
      processes->meeting = where;
      processes->step = ps_worker_steps_before (worker) + step + 1;
    }
  return ps_worker_catch_up (worker, error)
         && ps_crew_meet (worker->run->crew, ps_worker_member (worker), moment_ns, error);
}

static gboolean
walk (PsWorker *worker, guint step, GError **error)
{
  PsTransport *transport = worker->run->transport;
  gboolean done = TRUE;

  for (guint i = 0; i < worker->script->n_actions && done; i++)
    done = ps_worker_act (worker, &worker->script->actions[i], step, error);
  return done && transport->class->flush (transport, worker->at, error);
}

/* All devices meet between work and O. Devices that compute then show their results and meet again. Showing is no part
 * of training, so that time does not count. */
static gboolean
end_work (PsWorker *worker, guint step, GError **error)
{
  gint64 work_ns, read_ns;

  if (!meet (worker, "before O of step", step, &work_ns, error))
    return FALSE;
  if (!worker->device->class->computes)
    return TRUE;
  for (guint i = 0; i < worker->script->n_updates; i++)
    if (!ps_show_gradients (worker, step, worker->script->stages[i], error))
      return FALSE;
  if (!ps_show_losses (worker, step, error) || !meet (worker, "before O of step", step, &read_ns, error))
    return FALSE;
  if (ps_worker_keeps_time (worker))
    worker->run->recorder->pause_ns[step] = read_ns - work_ns;
  return TRUE;
}

/* PsDeviceSetting.add_up */
static gboolean
add_up (gpointer data, float *values, gsize n, GError **error)
{
  PsWorker *worker = data;
  PsTransport *transport = worker->run->transport;

  return transport->class->sum (transport, worker->at, PS_CIRCLE_TENSOR, PS_SUM_WHOLE, values, n, error);
}

/* Devices that share layers add up their parts: each has zeros where it has none. Of the moments each replica may have
 * a share. */
static gboolean
gather (float *values, gsize n, PsStateArray array, gpointer data, GError **error)
{
  PsWorker *worker = data;
  PsTransport *transport = worker->run->transport;
  const gboolean shared = worker->run->n_tensor > 1;

  if (shared && !add_up (worker, values, n, error))
    return FALSE;
  return !worker->setting.sharded || array == PS_STATE_WEIGHTS
         || transport->class->sum (transport, worker->at, PS_CIRCLE_REPLICAS, shared ? PS_SUM_WHOLE : PS_SUM_GATHER,
                                   values, n, error);
}

/* Replica 0 fills in the checkpoint, and where each replica has a share of the state, the others help. When all have,
 * one member of each process brings it to rank 0, which writes it. */
static gboolean
save (PsWorker *worker, guint step, GError **error)
{
  PsRun *run = worker->run;
  const gboolean helps = worker->setting.sharded || worker->setting.replica == 0;
  gint64 moment_ns;

  for (guint i = 0; i < worker->script->n_stages && helps; i++)
    {
      guint stage = worker->script->stages[i];

      if (ps_shows_gradients (run->program->schedule, worker->index, stage)
          && !ps_checkpoint_take (run->saved, worker->device, stage, &run->shapes[stage], ps_worker_counts (worker),
                                  gather, worker, error))
        return FALSE;
    }
  if (!meet (worker, "before step", step, &moment_ns, error))
    return FALSE;
  if (ps_worker_member (worker) == 0)
    ps_gather_checkpoint (run);
  return !ps_worker_keeps_time (worker)
         || ps_checkpoint_write (run->saved, run->setting->save, ps_worker_steps_before (worker) + step, error);
}

/* Between two meetings, which training has not, so that time does not count. */
static gboolean
end_step (PsWorker *worker, guint step, gboolean saves, GError **error)
{
  PsRecorder *recorder = worker->run->recorder;
  gint64 moment_ns;

  if (saves && !save (worker, step, error))
    return FALSE;
  if (ps_worker_keeps_time (worker) && worker->run->setting->progress != NULL)
    ps_worker_report (worker, step);
  if (!meet (worker, "before step", step, &moment_ns, error))
    return FALSE;
  if (ps_worker_keeps_time (worker))
    {
      recorder->pause_ns[step - 1] += moment_ns - recorder->begin_ns[step];
      recorder->begin_ns[step] = moment_ns;
    }
  return TRUE;
}

static gboolean
begin_step (PsWorker *worker, guint step, GError **error)
{
  PsRecorder *recorder = worker->run->recorder;
  const PsRunSetting *setting = worker->run->setting;
  const guint every = setting->save_every;
  const gboolean saves
      = setting->save != NULL && (step == recorder->n_steps || (every > 0 && step > 0 && step % every == 0));
  gint64 moment_ns;

  if (step < recorder->n_steps && !ps_worker_turn_to (worker, step, error))
    return FALSE;
  if (!meet (worker, "before step", step, &moment_ns, error))
    return FALSE;
  if (ps_worker_keeps_time (worker))
    recorder->begin_ns[step] = moment_ns;
  return step == 0 || (setting->progress == NULL && !saves) || end_step (worker, step, saves, error);
}

/* Devices of other processes adopt the same choices; in one process all devices share them. */
static gboolean
agree (PsWorker *worker, GError **error)
{
  const PsRun *run = worker->run;
  guint n_processes = ps_processes_n_ranks (run->setting->processes);

  return n_processes == 1
         || ps_choices_agree (run->crew, ps_worker_member (worker), n_processes * run->n_here, worker->device, error);
}

static gboolean
prepare (PsWorker *worker, GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  PsTransport *transport = worker->run->transport;
  GBytes *choices = worker->run->setting->choices;

  if (!class->attach (worker->device, error)
      || (choices != NULL && class->adopt_choices != NULL && !class->adopt_choices (worker->device, choices, error)))
    return FALSE;
  if (transport->class->join != NULL && !transport->class->join (transport, worker->at, worker->device, error))
    return FALSE;
  for (guint i = 0; i < worker->script->n_stages; i++)
    {
      const PsCheckpoint *start = worker->run->setting->start;
      guint stage = worker->script->stages[i];
      const PsStageShape *shape = &worker->run->shapes[stage];

      if (!class->add_stage (worker->device, stage, shape, error)
          || (start != NULL && !ps_checkpoint_give (start, worker->device, stage, shape, error)))
        return FALSE;
    }
  return agree (worker, error);
}

/* Runs the actions of a round that belong to a step of the run. Round -1 has those before the first step: the forwards
 * that run ahead. */
static gboolean
walk_round (PsWorker *worker, gint64 round, GError **error)
{
  PsRecorder *recorder = worker->run->recorder;

  for (guint i = 0; i < worker->script->n_actions; i++)
    {
      const PsAction *action = &worker->script->actions[i];
      gint64 step = round + action->ahead;

      if (step < 0 || step >= (gint64)g_atomic_int_get (&recorder->n_steps))
        continue;
      if (!ps_worker_act (worker, action, (guint)step, error))
        return FALSE;
      if (i == worker->script->end && !ps_worker_note_end (worker, (guint)step, error))
        return FALSE;
    }
  return TRUE;
}

/* All devices meet before the first round and after the last one only. A device stops some steps early where
 * PsRunSetting.progress has said so, see ps_worker_report: no device has begun these. */
static gboolean
run_on (PsWorker *worker, GError **error)
{
  PsRecorder *recorder = worker->run->recorder;
  PsTransport *transport = worker->run->transport;
  gint64 moment_ns;

  if (!meet (worker, "before step", 0, &moment_ns, error))
    return FALSE;
  if (ps_worker_keeps_time (worker))
    recorder->begin_ns[0] = moment_ns;
  if (worker->run->plans != NULL && !ps_bypass_run (worker, error))
    return FALSE;
  for (gint64 round = -1; worker->run->plans == NULL && round < (gint64)g_atomic_int_get (&recorder->n_steps); round++)
    if (!walk_round (worker, round, error))
      return FALSE;
  if (!transport->class->flush (transport, worker->at, error)
      || !meet (worker, "before step", (guint)g_atomic_int_get (&recorder->n_steps), &moment_ns, error))
    return FALSE;
  for (guint step = 0; worker->device->class->computes && step < recorder->n_steps; step++)
    if (!ps_show_losses (worker, step, error))
      return FALSE;
  return TRUE;
}

static gboolean
work (PsWorker *worker, GError **error)
{
  const PsRecorder *recorder = worker->run->recorder;

  if (!prepare (worker, error))
    return FALSE;
  if (worker->run->endless)
    return run_on (worker, error);
  for (guint step = 0; step < recorder->n_steps; step++)
    if (!begin_step (worker, step, error) || !walk (worker, step, error) || !ps_worker_sum (worker, error)
        || !end_work (worker, step, error) || !ps_bypass_meet (worker, error)
        || !ps_worker_update (worker, step, error))
      return FALSE;
  return begin_step (worker, recorder->n_steps, error);
}

gpointer
ps_worker_main (gpointer data)
{
  PsWorker *worker = data;
  GError *error = NULL;

  if (!work (worker, &error))
    ps_crew_fail (worker->run->crew, error);
  ps_worker_catch_up (worker, NULL);
  if (worker->run->transport->class->part != NULL)
    worker->run->transport->class->part (worker->run->transport, worker->at);
  for (guint i = 0; i < worker->script->n_slots; i++)
    if (worker->slots[i] != NULL)
      worker->device->class->tensor_free (worker->slots[i]);
  return NULL;
}

gboolean
ps_worker_open (PsWorker *worker, PsRun *run, guint at, guint n_cores, GError **error)
{
  const PsSchedule *schedule = run->program->schedule;
  const PsRunSetting *setting = run->setting;
  /* The host may run more processes of this run; all have equal numbers of devices. */
  guint n_local = ps_processes_n_local (setting->processes) * run->n_here;
  guint local = ps_processes_local_rank (setting->processes) * run->n_here + at - run->first;
  guint index = at % schedule->placement->n_devices, pipeline = run->pipeline + at / schedule->placement->n_devices;

  worker->run = run;
  worker->at = at;
  worker->index = index;
  worker->script = &run->scripts[index];
  worker->slots = g_new0 (PsTensor *, worker->script->n_slots);
  worker->n_updates = g_new0 (guint64, schedule->placement->n_stages);
  worker->step = G_MAXUINT;
  worker->squares = g_new (double, schedule->placement->n_stages);
  worker->recomputed = ps_schedule_recomputed (schedule);
  worker->scale = 1;
  worker->setting
      = (PsDeviceSetting){ .model = setting->model,
                           .costs = setting->costs,
                           .n_stages = schedule->placement->n_stages,
                           .n_microbatches = schedule->n_microbatches,
                           .n_summed = ps_schedule_update_every (schedule),
                           .n_slices = schedule->n_slices,
                           .n_versions = schedule->weight_versions != NULL ? schedule->weight_versions[index] : 1,
                           .endless = run->endless,
                           .tentative = setting->bypass && !schedule->asynchronous,
                           .core = n_local <= n_cores ? (int)local : -1,
                           .seed = setting->seed,
                           .training = setting->training,
                           .index = local,
                           .n_local = n_local,
                           .shares = setting->shares,
                           .parts = setting->parts,
                           .exclusive = setting->transport->exclusive,
                           .replica = pipeline / run->n_tensor,
                           .n_replicas = run->n_replicas,
                           .tensor = pipeline % run->n_tensor,
                           .length = schedule->length,
                           .recomputed = worker->recomputed,
                           .tokens = setting->tokens,
                           .ahead = setting->device->start != NULL ? setting->ahead : 0,
                           .timeout_ns = setting->timeout_ns,
                           .n_tokens = setting->n_tokens,
                           .n_tensor = run->n_tensor,
                           .add_up = add_up,
                           .add_up_data = worker,
                           .pairs = run->program->pair != NULL,
                           .sharded = setting->zero };
  worker->device = setting->device->open (&worker->setting, error);
  if (worker->device == NULL || !setting->device->computes || (run->n_replicas == 1 && run->twin == NULL)
      || worker->device->class->gradient_memory != NULL)
    return worker->device != NULL;
  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "%s doesn't train in several copies", setting->device->name);
}

void
ps_worker_close (PsWorker *worker)
{
  if (worker->device != NULL)
    worker->device->class->close (worker->device);
  g_free (worker->slots);
  g_free (worker->n_updates);
  g_free (worker->squares);
  g_free (worker->recomputed);
}
