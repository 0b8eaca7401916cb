/* worker-parts.c - the parts of a device's steps: ops, sends, receives and waits, sums and O, and what they record. */
#include "show.h"
#include "sum.h"
#include "tie.h"

#include "clock.h"

guint
ps_worker_steps_before (const PsWorker *worker)
{
  const PsCheckpoint *start = worker->run->setting->start;

  return start != NULL ? ps_checkpoint_step (start) : 0;
}

static gboolean
start (PsWorker *worker, PsOp op, PsTensor *input, PsTensor **output, PsTimes *times, GError **error)
{
  const PsDeviceClass *class = worker->device->class;

  return worker->setting.ahead > 0 ? class->start (worker->device, op, input, output, times, error)
                                   : class->run (worker->device, op, input, output, error);
}

/* O with another factor than 1, or without any effect, does not go through the device's run. */
static gboolean
run_on_device (PsWorker *worker, PsOp op, PsTensor *input, PsTensor **output, PsTimes *times, GError **error)
{
  const PsDeviceClass *class = worker->device->class;

  if (op.kind != PS_OP_O)
    return start (worker, op, input, output, times, error);
  if (worker->scale < 0)
    return TRUE;
  if (worker->scale == 1 ? !start (worker, op, input, output, times, error)
                         : !class->settle (worker->device, op.stage, worker->scale, error))
    return FALSE;
  return ps_sum_weights (worker, op.stage, error);
}

static gboolean
run_op (PsWorker *worker, PsOp op, PsTensor *input, PsTensor **output, PsOpRecord *record, GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  PsMemoryUse use;

  class->reset_peak (worker->device);
  record->times.start_ns = ps_clock_now ();
  gboolean done = run_on_device (worker, op, input, output, &record->times, error);
  record->times.end_ns = ps_clock_now ();
  class->memory (worker->device, &use);
  record->held_bytes = ps_memory_use_held (&use);
  record->peak_bytes = use.peak_bytes;
  return done;
}

static PsTensor *
take_slot (PsWorker *worker, guint slot)
{
  if (slot == PS_NO_SLOT)
    return NULL;
  PsTensor *tensor = g_steal_pointer (&worker->slots[slot]);
  g_assert (tensor != NULL);
  return tensor;
}

/* Chooses the version of the weights that a microbatch sees: the rule of ps_schedule_update_every. In an endless run
 * the number of the update follows from that of the microbatch; else no other update is under way. */
static gboolean
choose_version (PsWorker *worker, PsOp op, guint step, GError **error)
{
  const PsRun *run = worker->run;
  const PsSchedule *schedule = run->program->schedule;
  const PsDeviceClass *class = worker->device->class;
  guint64 number = worker->n_updates[op.stage], microbatch = (guint64)step * schedule->n_microbatches + op.microbatch;

  if (schedule->weight_versions == NULL || class->use_version == NULL)
    return TRUE;
  if (run->endless)
    number = microbatch / ps_schedule_update_every (schedule);
  guint delay = run->setting->delays != NULL ? run->setting->delays[op.stage] : ps_schedule_delay (schedule, op.stage);
  return class->use_version (worker->device, op.stage, number - MIN (number, delay), error);
}

/* All gradients of the update are there. */
static gboolean
update (PsWorker *worker, PsOp op, PsOpRecord *record, GError **error)
{
  PsTensor *output = NULL;

  worker->n_updates[op.stage]++;
  return run_op (worker, op, NULL, &output, record, error);
}

gboolean
ps_worker_turn_to (PsWorker *worker, guint step, GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  PsDeviceRecord *records = &worker->run->recorder->device[worker->at];
  PsMemoryUse use;

  if (worker->step == step)
    return TRUE;
  worker->step = step;
  class->memory (worker->device, &use);
  if (records->held_bytes[step] == 0)
    records->held_bytes[step] = ps_memory_use_held (&use);
  return class->begin == NULL || class->begin (worker->device, ps_worker_steps_before (worker) + step, error);
}

static gboolean
compute (PsWorker *worker, const PsAction *action, guint step, PsOpRecord *record, GError **error)
{
  const PsOp op = action->instruction.op;
  PsTensor *output = NULL;

  if (!ps_worker_turn_to (worker, step, error))
    return FALSE;
  if (op.kind == PS_OP_O)
    {
      return ps_sum_gradients (worker, op.stage, error) && ps_show_gradients (worker, step, op.stage, error)
             && update (worker, op, record, error);
    }
  if (!choose_version (worker, op, step, error)
      || !run_op (worker, op, take_slot (worker, action->take), &output, record, error))
    return FALSE;
  g_assert ((output != NULL) == (action->put != PS_NO_SLOT));
  if (output != NULL)
    worker->slots[action->put] = output;
  if (worker->run->endless)
    ps_show_loss (worker, step, op);
  return TRUE;
}

/* Posts a send or a receive, and records how long the call held the host. */
static gboolean
post (PsWorker *worker, const PsAction *action, PsPostRecord *record, GError **error)
{
  PsTransport *transport = worker->run->transport;
  const PsInstruction *instruction = &action->instruction;
  guint peer = ps_worker_peer (worker, instruction->peer);
  gboolean done;

  record->start_ns = ps_clock_now ();
  if (instruction->type == PS_INSTRUCTION_SEND)
    done = transport->class->send (transport, worker->at, peer, instruction->op, take_slot (worker, action->take),
                                   action->delay_ns, error);
  else
    done = transport->class->receive (transport, worker->at, peer, instruction->op, error);
  record->end_ns = ps_clock_now ();
  return done;
}

static gboolean
wait_for (PsWorker *worker, const PsAction *action, PsTransferTimes *times, GError **error)
{
  PsTransport *transport = worker->run->transport;
  PsTensor *tensor = transport->class->wait (transport, worker->at, ps_worker_peer (worker, action->instruction.peer),
                                             action->instruction.op, worker->device, times, error);

  worker->slots[action->put] = tensor;
  return tensor != NULL;
}

gboolean
ps_worker_act (PsWorker *worker, const PsAction *action, guint step, GError **error)
{
  PsDeviceRecord *records = &worker->run->recorder->device[worker->at];

  switch ((PsInstructionType)action->instruction.type)
    {
    case PS_INSTRUCTION_COMPUTE:
      return compute (worker, action, step, &records->ops[(gsize)step * records->n_ops + action->index], error);
    case PS_INSTRUCTION_SEND:
    case PS_INSTRUCTION_RECEIVE:
      return post (worker, action, &records->posts[(gsize)step * records->n_posts + action->index], error);
    case PS_INSTRUCTION_WAIT:
      return wait_for (worker, action, &records->transfers[(gsize)step * records->n_transfers + action->index], error);
    }
  g_assert_not_reached ();
}

gboolean
ps_worker_update (PsWorker *worker, guint step, GError **error)
{
  PsDeviceRecord *records = &worker->run->recorder->device[worker->at];
  PsOpRecord *record = &records->ops[(gsize)step * records->n_ops + worker->script->n_ops];

  for (guint i = 0; i < worker->script->n_updates; i++)
    if (!update (worker, (PsOp){ .kind = PS_OP_O, .stage = (guint16)worker->script->stages[i] }, record + i, error))
      return FALSE;
  return TRUE;
}

gboolean
ps_worker_sum (PsWorker *worker, GError **error)
{
  for (guint i = 0; i < worker->script->n_updates; i++)
    if (!ps_sum_gradients (worker, worker->script->stages[i], error))
      return FALSE;
  return worker->script->n_updates == 0 || ps_tie_add (worker, error);
}

void
ps_worker_report (PsWorker *worker, guint step)
{
  const PsRunSetting *setting = worker->run->setting;
  PsRecorder *recorder = worker->run->recorder;
  const PsStepReport report = { .number = ps_worker_steps_before (worker) + step,
                                .iteration_ns = ps_recorder_iteration (recorder, step - 1),
                                .loss = ps_run_result_mean_loss (worker->run->result, step - 1) };

  if (!setting->progress (&report, setting->progress_data))
    g_atomic_int_set (&recorder->n_steps, MIN (recorder->n_steps, step + (worker->run->endless ? 3 : 1)));
}

gboolean
ps_worker_note_end (PsWorker *worker, guint step, GError **error)
{
  if (!ps_worker_keeps_time (worker))
    return TRUE;
  if (!ps_worker_catch_up (worker, error))
    return FALSE;
  worker->run->recorder->begin_ns[step + 1] = ps_clock_now ();
  if (worker->run->setting->progress != NULL)
    ps_worker_report (worker, step + 1);
  return TRUE;
}
