/* worker.c - the thread of one device: it computes, sends and waits by its script; barriers separate the steps. */
#include "gather.h"
#include "sum.h"
#include "tie.h"

#include "processes/choices.h"
#include "clock.h"

static gboolean
meet (PsWorker *worker, gint64 *moment_ns, GError **error)
{
  return ps_crew_meet (worker->run->crew, worker->index - worker->run->first, moment_ns, error);
}

/* TRUE for the one device that records the steps' times. */
static gboolean
keeps_time (const PsWorker *worker)
{
  return worker->index == 0 && worker->run->replica == 0;
}

static gboolean
run_op (PsWorker *worker, PsOp op, PsTensor *input, PsTensor **output, PsOpRecord *record, GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  PsMemoryUse use;
  gboolean done;

  class->reset_peak (worker->device);
  record->start_ns = ps_clock_now ();
  done = class->run (worker->device, op, input, output, error);
  record->end_ns = ps_clock_now ();
  class->memory (worker->device, &use);
  record->held_bytes = ps_memory_use_held (&use);
  record->peak_bytes = use.peak_bytes;
  return done;
}

static PsTensor *
take_slot (PsWorker *worker, guint slot)
{
  PsTensor *tensor;

  if (slot == PS_NO_SLOT)
    return NULL;
  tensor = g_steal_pointer (&worker->slots[slot]);
  g_assert (tensor != NULL);
  return tensor;
}

static gboolean
compute (PsWorker *worker, const PsAction *action, PsOpRecord *record, GError **error)
{
  PsTensor *output = NULL;

  if (!run_op (worker, action->instruction.op, take_slot (worker, action->take), &output, record, error))
    return FALSE;
  g_assert ((output != NULL) == (action->put != PS_NO_SLOT));
  if (output != NULL)
    worker->slots[action->put] = output;
  return TRUE;
}

/* Posts a send or a receive, and records how long the call held the host. */
static gboolean
post (PsWorker *worker, const PsAction *action, PsPostRecord *record, GError **error)
{
  PsTransport *transport = worker->run->transport;
  const PsInstruction *instruction = &action->instruction;
  gboolean done;

  record->start_ns = ps_clock_now ();
  if (instruction->type == PS_INSTRUCTION_SEND)
    done = transport->class->send (transport, worker->index, instruction->peer, instruction->op,
                                   take_slot (worker, action->take), action->delay_ns, error);
  else
    done = transport->class->receive (transport, worker->index, instruction->peer, instruction->op, error);
  record->end_ns = ps_clock_now ();
  return done;
}

static gboolean
wait_for (PsWorker *worker, const PsAction *action, PsTransferTimes *times, GError **error)
{
  PsTransport *transport = worker->run->transport;
  PsTensor *tensor = transport->class->wait (transport, worker->index, action->instruction.peer, action->instruction.op,
                                             worker->device, times, error);

  worker->slots[action->put] = tensor;
  return tensor != NULL;
}

static gboolean
walk (PsWorker *worker, guint step, GError **error)
{
  PsTransport *transport = worker->run->transport;
  PsDeviceRecord *records = &worker->run->recorder->device[worker->index];
  PsOpRecord *op = &records->ops[(gsize)step * records->n_ops];
  PsTransferTimes *times = &records->transfers[(gsize)step * records->n_transfers];
  PsPostRecord *posts = &records->posts[(gsize)step * records->n_posts];
  gboolean done = TRUE;

  for (guint i = 0; i < worker->script->n_actions && done; i++)
    {
      const PsAction *action = &worker->script->actions[i];

      switch ((PsInstructionType)action->instruction.type)
        {
        case PS_INSTRUCTION_COMPUTE:
          done = compute (worker, action, op++, error);
          break;
        case PS_INSTRUCTION_SEND:
        case PS_INSTRUCTION_RECEIVE:
          done = post (worker, action, posts++, error);
          break;
        case PS_INSTRUCTION_WAIT:
          done = wait_for (worker, action, times++, error);
          break;
        }
    }
  return done && transport->class->flush (transport, worker->index, error);
}

guint
ps_run_loss_stage (const PsRun *run)
{
  guint stage = run->program->schedule->placement->n_stages - 1;

  while (stage > 0 && run->setting->device->computes && !run->shapes[stage].head)
    stage--;
  return stage;
}

/* Writes the losses that this device has made. */
static void
collect_losses (PsWorker *worker, double *losses)
{
  const PsSchedule *schedule = worker->run->program->schedule;
  guint last = ps_run_loss_stage (worker->run);

  for (guint i = 0; i < schedule->n_microbatches; i++)
    if (ps_schedule_device (schedule, last, i) == worker->index)
      losses[i] = worker->device->class->loss (worker->device, i);
}

/* Member 0 of each process takes the losses of all devices into the result. */
static gboolean
exchange_losses (PsWorker *worker, double *losses, GError **error)
{
  const PsRun *run = worker->run;
  const PsSchedule *schedule = run->program->schedule;
  guint n = schedule->n_microbatches, n_devices = schedule->placement->n_devices;
  g_autofree double *mine = g_new0 (double, n), *all = g_new (double, (gsize)n *n_devices * run->n_replicas);

  collect_losses (worker, mine);
  if (!ps_crew_exchange (run->crew, worker->index - run->first, mine, n * sizeof *mine, all, error))
    return FALSE;
  for (guint i = 0; worker->index == run->first && i < n * run->n_replicas; i++)
    {
      guint device = ps_schedule_device (schedule, ps_run_loss_stage (worker->run), i % n);

      losses[i] = all[((gsize)(i / n) * n_devices + device) * n + i % n];
    }
  return TRUE;
}

static gboolean
share_losses (PsWorker *worker, guint step, GError **error)
{
  PsRunResult *result = worker->run->result;
  double *losses = &result->losses[(gsize)step * result->n_microbatches];

  if (worker->run->setting->processes != NULL)
    return exchange_losses (worker, losses, error);
  collect_losses (worker, losses);
  return TRUE;
}

static void
collect_gradients (PsWorker *worker, guint step)
{
  PsRunGradients *gradients = worker->run->result->gradients;
  const PsDeviceClass *class = worker->device->class;

  for (guint i = 0; gradients != NULL && i < worker->script->n_stages; i++)
    {
      guint stage = worker->script->stages[i];
      gsize n;
      const float *values;

      if (!ps_shows_gradients (worker->run->program->schedule, worker->index, stage))
        continue;
      values = class->gradients (worker->device, stage, &n);
      gradients->digest[(gsize)step * gradients->n_stages + stage] = ps_gradients_digest (values, n);
      if (step + 1 < gradients->n_steps)
        continue;
      gradients->parts[stage] = class->part != NULL ? class->part (worker->device) : 0;
      gradients->last[stage] = g_memdup2 (values, n * sizeof *values);
      gradients->n[stage] = n;
    }
}

/* All devices meet between work and O. Devices that compute then show their results and meet again. Showing is no part
 * of training, so that time does not count. */
static gboolean
end_work (PsWorker *worker, guint step, GError **error)
{
  gint64 work_ns, read_ns;

  if (!meet (worker, &work_ns, error))
    return FALSE;
  if (!worker->device->class->computes)
    return TRUE;
  collect_gradients (worker, step);
  if (!share_losses (worker, step, error) || !meet (worker, &read_ns, error))
    return FALSE;
  if (keeps_time (worker))
    worker->run->recorder->pause_ns[step] = read_ns - work_ns;
  return TRUE;
}

static gboolean
update (PsWorker *worker, guint step, GError **error)
{
  PsDeviceRecord *records = &worker->run->recorder->device[worker->index];
  PsOpRecord *record = &records->ops[(gsize)step * records->n_ops + worker->script->n_ops];

  for (guint i = 0; i < worker->script->n_stages; i++)
    {
      PsOp op = { .kind = PS_OP_O, .stage = (guint16)worker->script->stages[i] };
      PsTensor *output = NULL;

      if (!run_op (worker, op, NULL, &output, record + i, error))
        return FALSE;
    }
  return TRUE;
}

/* Steps of the training before the first one of this run. */
static guint
steps_before (const PsWorker *worker)
{
  const PsCheckpoint *start = worker->run->setting->start;

  return start != NULL ? ps_checkpoint_step (start) : 0;
}

/* Replica 0 fills in the checkpoint. When all have, one member of each process brings it to rank 0, which writes it. */
static gboolean
save (PsWorker *worker, guint step, GError **error)
{
  PsRun *run = worker->run;
  gint64 moment_ns;

  for (guint i = 0; i < worker->script->n_stages && run->replica == 0; i++)
    {
      guint stage = worker->script->stages[i];

      if (ps_shows_gradients (run->program->schedule, worker->index, stage)
          && !ps_checkpoint_take (run->saved, worker->device, stage, &run->shapes[stage], error))
        return FALSE;
    }
  if (!meet (worker, &moment_ns, error))
    return FALSE;
  if (worker->index == run->first)
    ps_gather_checkpoint (run);
  return !keeps_time (worker)
         || ps_checkpoint_write (run->saved, run->setting->save, steps_before (worker) + step, error);
}

/* `step` steps are done: the last of them is reported. */
static void
report_step (PsWorker *worker, guint step)
{
  const PsRunSetting *setting = worker->run->setting;
  PsRecorder *recorder = worker->run->recorder;
  const PsStepReport report = { .number = steps_before (worker) + step,
                                .iteration_ns = ps_recorder_iteration (recorder, step - 1),
                                .loss = ps_run_result_mean_loss (worker->run->result, step - 1) };

  if (!setting->progress (&report, setting->progress_data))
    recorder->n_steps = MIN (recorder->n_steps, step + 1);
}

/* Between two meetings, which training has not, so that time does not count. */
static gboolean
end_step (PsWorker *worker, guint step, gboolean saves, GError **error)
{
  PsRecorder *recorder = worker->run->recorder;
  gint64 moment_ns;

  if (saves && !save (worker, step, error))
    return FALSE;
  if (keeps_time (worker) && worker->run->setting->progress != NULL)
    report_step (worker, step);
  if (!meet (worker, &moment_ns, error))
    return FALSE;
  if (keeps_time (worker))
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
  const PsDeviceClass *class = worker->device->class;
  const PsRunSetting *setting = worker->run->setting;
  const guint every = setting->save_every;
  const gboolean saves
      = setting->save != NULL && (step == recorder->n_steps || (every > 0 && step > 0 && step % every == 0));
  PsMemoryUse use;
  gint64 moment_ns;

  if (step < recorder->n_steps)
    {
      if (class->begin != NULL && !class->begin (worker->device, steps_before (worker) + step, error))
        return FALSE;
      class->memory (worker->device, &use);
      recorder->device[worker->index].held_bytes[step] = ps_memory_use_held (&use);
    }
  if (!meet (worker, &moment_ns, error))
    return FALSE;
  if (keeps_time (worker))
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
         || ps_choices_agree (run->crew, worker->index - run->first, n_processes * run->n_here, worker->device, error);
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
  if (transport->class->join != NULL && !transport->class->join (transport, worker->index, worker->device, error))
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

static gboolean
work (PsWorker *worker, GError **error)
{
  const PsRecorder *recorder = worker->run->recorder;

  if (!prepare (worker, error))
    return FALSE;
  for (guint step = 0; step < recorder->n_steps; step++)
    if (!begin_step (worker, step, error) || !walk (worker, step, error) || !ps_sum_gradients (worker, error)
        || !ps_tie_add (worker, error) || !end_work (worker, step, error) || !update (worker, step, error))
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
  if (worker->run->transport->class->part != NULL)
    worker->run->transport->class->part (worker->run->transport, worker->index);
  for (guint i = 0; i < worker->script->n_slots; i++)
    if (worker->slots[i] != NULL)
      worker->device->class->tensor_free (worker->slots[i]);
  return NULL;
}

gboolean
ps_worker_open (PsWorker *worker, PsRun *run, guint index, guint n_cores, GError **error)
{
  const PsSchedule *schedule = run->program->schedule;
  const PsRunSetting *setting = run->setting;
  /* The host may run more processes of this run; all have equal numbers of devices. */
  guint n_local = ps_processes_n_local (setting->processes) * run->n_here;
  guint local = ps_processes_local_rank (setting->processes) * run->n_here + index - run->first;

  worker->run = run;
  worker->index = index;
  worker->script = &run->scripts[index];
  worker->slots = g_new0 (PsTensor *, worker->script->n_slots);
  worker->setting
      = (PsDeviceSetting){ .model = setting->model,
                           .costs = setting->costs,
                           .n_stages = schedule->placement->n_stages,
                           .n_microbatches = schedule->n_microbatches,
                           .n_slices = schedule->n_slices,
                           .n_versions = schedule->weight_versions != NULL ? schedule->weight_versions[index] : 1,
                           .core = n_local <= n_cores ? (int)local : -1,
                           .seed = setting->seed,
                           .training = setting->training,
                           .index = local,
                           .n_local = n_local,
                           .shares = setting->shares,
                           .parts = setting->parts,
                           .exclusive = setting->transport->exclusive,
                           .replica = run->replica,
                           .n_replicas = run->n_replicas };
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
}
