/* worker.c - the thread of one device: it computes, sends and waits by its script, adds up gradients with other devices
 * and steps the optimizer. Barriers separate the steps, unless the run is endless: then each device goes on with the
 * next round of its script at once.
 *
 * Optimizer steps without a barrier are validated later: post-validation (arXiv 2401.10241, section 4). When a device
 * has done all ops of a step it takes the norms of the gradients of the devices before it, adds its own and sends them
 * to the next device. It steps at once if these norms call for no clipping. The last device knows all norms and sends
 * them to every other one. Each device looks at them before its first backward of the next step: if the global norm
 * calls for clipping, or is no number, the device takes its step back, steps again as the global norm demands, and runs
 * the forwards since then once more. */
#include "run.h"

#include "clock.h"
#include "train/devices.h"

#include <math.h>

#define EPSILON 1e-6 /* PyTorch's clip_grad_norm_ adds it to the norm */

/* Odd, so that digests of the updates of a step count by their places. */
#define DIGEST_FACTOR G_GUINT64_CONSTANT (0x9e3779b97f4a7c15)

/* The member of the crew that the worker is. */
static guint member_of (const PsWorker *worker)
{
  return worker->at - worker->run->first;
}

/* The number that transports know a device of the worker's pipeline by. */
static guint peer_of (const PsWorker *worker, guint device)
{
  return worker->at - worker->index + device;
}

/* TRUE in the one pipeline whose gradients, state and times count; all others have the same, or are parts of it. */
static gboolean counts (const PsWorker *worker)
{
  return worker->setting.replica == 0 && worker->setting.tensor == 0;
}

/* TRUE for the one device that records the steps' times. */
static gboolean keeps_time (const PsWorker *worker)
{
  return worker->index == 0 && counts (worker);
}

/* Steps of the training before the first one of this run. */
static guint steps_before (const PsWorker *worker)
{
  const PsCheckpoint *start = worker->run->setting->start;

  return start != NULL ? ps_checkpoint_step (start) : 0;
}

/* Waits for the ops that the device has started (PsDeviceSetting.ahead); what follows may look at their results and
 * records. */
static gboolean await_ops (PsWorker *worker, GError **error)
{
  return worker->setting.ahead == 0 || worker->device->class->await (worker->device, error);
}

/* PsTransportClass.sum */
static gboolean sum (PsWorker *worker, PsCircleKind kind, PsSumHalves halves, float *values, gsize n, GError **error)
{
  PsTransport *transport = worker->run->transport;

  return transport->class->sum (transport, worker->at, kind, halves, values, n, error);
}

/* PsTransportClass.flush */
static gboolean flush (PsWorker *worker, GError **error)
{
  PsTransport *transport = worker->run->transport;

  return transport->class->flush (transport, worker->at, error);
}

/* Gradients added up over all devices with the same stages: both weight copies, all replicas. */

/* Adds up the gradients of one of the worker's stages. Every device's thread calls it before each O, for the stages of
 * a step in ascending order. Where the optimizer state is spread and nothing else needs them, a replica gets the sums
 * of its share only. */
static gboolean sum_gradients (PsWorker *worker, guint stage, GError **error)
{
  const PsRun *run = worker->run;
  const PsRunSetting *setting = run->setting;
  const PsDeviceClass *class = worker->device->class;
  gsize n;

  if (!class->computes || (run->twin == NULL && run->n_replicas == 1))
    return TRUE;
  if (!await_ops (worker, error))
    return FALSE;
  float *values = class->gradient_memory (worker->device, stage, &n);
  /* All sums are needed to show them, to find their norm, and to add those of a twin or of another stage. */
  if (!setting->zero || setting->gradients || setting->clip > 0 || setting->model->tied || run->twin != NULL)
    return sum (worker, PS_CIRCLE_WEIGHTS, PS_SUM_WHOLE, values, n, error);
  return sum (worker, PS_CIRCLE_REPLICAS, PS_SUM_SCATTER, values, n, error);
}

/* After an O: where the optimizer state is spread over replicas, brings the weights together that each has stepped. */
static gboolean gather_weights (PsWorker *worker, guint stage, GError **error)
{
  gsize n;

  if (!worker->setting.sharded || !worker->device->class->computes)
    return TRUE;
  if (!await_ops (worker, error))
    return FALSE;
  float *values = worker->device->class->weight_memory (worker->device, stage, &n);
  return sum (worker, PS_CIRCLE_REPLICAS, PS_SUM_GATHER, values, n, error);
}

/* Embedding and head may share a matrix: each of their stages holds it, first of all or last of all, and adds the
 * other's gradient to its own, so that both stay the same. Every device's thread calls it once a step, after
 * sum_gradients. A sum of two numbers is the same in either order. */
static gboolean add_tied_gradients (PsWorker *worker, GError **error)
{
  const PsRun *run = worker->run;
  PsDevice *device = worker->device;
  float *matrix[2] = { NULL, NULL }; /* of the embedding, of the head */
  gsize n_all;

  if (run->tied == NULL)
    return TRUE;
  const gsize n = (gsize)run->setting->model->vocabulary * run->setting->model->hidden, n_bytes = n * sizeof (float);
  if (ps_placement_holds (run->program->schedule->placement, worker->index, run->embedding_stage))
    matrix[0] = device->class->gradient_memory (device, run->embedding_stage, &n_all);
  if (ps_placement_holds (run->program->schedule->placement, worker->index, run->loss_stage))
    matrix[1] = device->class->gradient_memory (device, run->loss_stage, &n_all) + n_all - n;
  if (!await_ops (worker, error))
    return FALSE;
  if (matrix[0] == NULL || matrix[1] == NULL)
    return matrix[0] == matrix[1]
           || sum (worker, PS_CIRCLE_TIED, PS_SUM_WHOLE, matrix[0] != NULL ? matrix[0] : matrix[1], n, error);
  g_autofree float *own = g_malloc (n_bytes), *other = g_malloc (n_bytes);
  if (!ps_device_read (device, own, matrix[0], n_bytes, error)
      || !ps_device_read (device, other, matrix[1], n_bytes, error))
    return FALSE;
  for (gsize i = 0; i < n; i++)
    own[i] += other[i];
  return ps_device_write (device, matrix[0], own, n_bytes, error)
         && ps_device_write (device, matrix[1], own, n_bytes, error);
}

/* What a device has computed goes into the result of the run. */

static double *losses_of (const PsWorker *worker, guint step)
{
  const PsRunResult *result = worker->run->result;

  return &result->losses[(gsize)step * result->n_microbatches];
}

/* Notes the loss of a microbatch if this device has made it. */
static void note_loss (PsWorker *worker, guint step, guint microbatch)
{
  const PsSchedule *schedule = worker->run->program->schedule;
  const guint first = worker->setting.replica * schedule->n_microbatches;

  if (worker->setting.tensor == 0
      && ps_schedule_device (schedule, worker->run->loss_stage, microbatch) == worker->index)
    losses_of (worker, step)[first + microbatch] = worker->device->class->loss (worker->device, microbatch);
}

/* Every device's thread calls it for each step, while no op runs: the losses of all devices come into the result of
 * each process. What a device does not know is NaN. */
static gboolean keep_losses (PsWorker *worker, guint step, GError **error)
{
  const PsRun *run = worker->run;
  const guint n = run->result->n_microbatches;
  const guint n_all = run->program->schedule->placement->n_devices * run->n_pipelines;
  double *losses = losses_of (worker, step);

  for (guint i = 0; !run->endless && i < run->program->schedule->n_microbatches; i++)
    note_loss (worker, step, i);
  if (run->setting->processes == NULL)
    return TRUE;
  g_autofree double *all = g_new (double, (gsize)n *n_all);
  if (!ps_crew_exchange (run->crew, member_of (worker), losses, n * sizeof *all, all, error))
    return FALSE;
  for (gsize i = 0; member_of (worker) == 0 && i < (gsize)n * n_all; i++)
    if (!isnan (all[i]))
      losses[i % n] = all[i];
  return TRUE;
}

/* Before each O of a stage: the gradients that it will use come into the result. A step's digest holds those of all its
 * O. Devices that share layers add up their parts of the gradients. */
static gboolean keep_gradients (PsWorker *worker, guint step, guint stage, GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  PsRunGradients *gradients = worker->run->result->gradients;
  g_autofree float *whole = NULL;
  gsize n;

  if (gradients == NULL || worker->setting.replica > 0
      || !ps_gives_gradients (worker->run->program->schedule, worker->index, stage))
    return TRUE;
  const float *values = class->gradients (worker->device, stage, &n);
  if (worker->run->n_tensor > 1) {
    values = whole = g_memdup2 (values, n * sizeof *values);
    if (!sum (worker, PS_CIRCLE_TENSOR, PS_SUM_WHOLE, whole, n, error))
      return FALSE;
  }
  if (worker->setting.tensor > 0)
    return TRUE;
  guint64 *digest = &gradients->digest[(gsize)stage * gradients->n_steps + step];
  *digest = *digest * DIGEST_FACTOR + ps_gradients_digest (values, n);
  if (step + 1 < gradients->n_steps)
    return TRUE;
  gradients->parts[stage] = class->part != NULL ? class->part (worker->device) : 0;
  g_free (gradients->last[stage]);
  gradients->last[stage] = g_memdup2 (values, n * sizeof *values);
  gradients->n[stage] = n;
  return TRUE;
}

/* The parts of a step */

static gboolean start (PsWorker *worker, PsOp op, PsTensor *input, PsTensor **output, PsTimes *times, GError **error)
{
  const PsDeviceClass *class = worker->device->class;

  return worker->setting.ahead > 0 ? class->start (worker->device, op, input, output, times, error)
                                   : class->run (worker->device, op, input, output, error);
}

/* Empties the caches or keeps multiprocessors from the op, as a run that measures may ask: nothing comes between this
 * and the op. The first launch of a kernel may wait for all others, so none are kept while the run warms up. */
static gboolean prepare_hardware (PsWorker *worker, const PsMeasuring *measuring, GError **error)
{
  const PsDeviceClass *class = worker->device->class;

  return (!measuring->cold || class->flush_cache (worker->device, error))
         && (measuring->n_blocks == 0 || worker->n_measured == 0
             || class->occupy (worker->device, measuring->n_blocks, error));
}

/* Frees the multiprocessors, and notes the accelerator's own time of the op. */
static gboolean read_hardware (PsWorker *worker, const PsMeasuring *measuring, gint64 *own_ns, GError **error)
{
  const PsDeviceClass *class = worker->device->class;

  *own_ns = class->op_ns != NULL ? class->op_ns (worker->device) : 0;
  return measuring->n_blocks == 0 || worker->n_measured == 0 || class->occupy (worker->device, 0, error);
}

/* O with another factor than 1, or without any effect, does not go through the device's run. */
static gboolean run_on_device (PsWorker *worker, PsOp op, PsTensor *input, PsTensor **output, PsTimes *times,
                               GError **error)
{
  const PsDeviceClass *class = worker->device->class;

  if (op.kind != PS_OP_O)
    return start (worker, op, input, output, times, error);
  if (worker->scale < 0)
    return TRUE;
  if (worker->scale == 1 ? !start (worker, op, input, output, times, error)
                         : !class->settle (worker->device, op.stage, worker->scale, error))
    return FALSE;
  return gather_weights (worker, op.stage, error);
}

static gboolean run_op (PsWorker *worker, PsOp op, PsTensor *input, PsTensor **output, PsOpRecord *record,
                        GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  const PsMeasuring *measuring = worker->run->setting->measuring;
  const PsDeviceRecord *records = &worker->run->recorder->device[worker->at];
  PsMemoryUse use;

  class->reset_peak (worker->device);
  if (measuring != NULL && !prepare_hardware (worker, measuring, error)) {
    if (input != NULL)
      class->tensor_free (input);
    return FALSE;
  }
  record->times.start_ns = ps_clock_now ();
  gboolean done = run_on_device (worker, op, input, output, &record->times, error);
  record->times.end_ns = ps_clock_now ();
  if (measuring != NULL)
    done = read_hardware (worker, measuring, &records->own_ns[record - records->ops], done ? error : NULL) && done;
  class->memory (worker->device, &use);
  record->held_bytes = ps_memory_use_held (&use);
  record->peak_bytes = use.peak_bytes;
  return done;
}

/* Takes what an op or a send needs; NULL: it needs nothing. A run that measures makes it. */
static gboolean take_tensor (PsWorker *worker, const PsAction *action, PsTensor **tensor, GError **error)
{
  const PsInstruction *instruction = &action->instruction;

  *tensor = NULL;
  if (action->take != PS_NO_SLOT) {
    *tensor = g_steal_pointer (&worker->slots[action->take]);
    g_assert (*tensor != NULL);
  } else if (worker->run->setting->measuring != NULL
             && (instruction->type == PS_INSTRUCTION_SEND
                 || ps_device_op_reads (&worker->run->shapes[instruction->op.stage], instruction->op))) {
    *tensor = ps_lone_input (&worker->inputs, worker->device, worker->setting.model->precision,
                             (PsOpKind)instruction->op.kind, error);
    if (*tensor == NULL)
      g_prefix_error (error, "device %u: ", worker->index);
    return *tensor != NULL;
  }
  return TRUE;
}

/* Keeps a tensor for the instruction that takes it; where there is none, nobody needs it. */
static void put_tensor (PsWorker *worker, const PsAction *action, PsTensor *tensor)
{
  g_assert ((tensor != NULL) == (action->put != PS_NO_SLOT) || worker->run->setting->measuring != NULL);

  if (action->put != PS_NO_SLOT)
    worker->slots[action->put] = tensor;
  else if (tensor != NULL)
    worker->device->class->tensor_free (tensor);
}

/* Chooses the version of the weights that a microbatch sees: the rule of ps_schedule_update_every. In an endless run
 * the number of the update follows from that of the microbatch; else no other update is under way. */
static gboolean choose_version (PsWorker *worker, PsOp op, guint step, GError **error)
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
static gboolean update (PsWorker *worker, PsOp op, PsOpRecord *record, GError **error)
{
  PsTensor *output = NULL;

  worker->n_updates[op.stage]++;
  return run_op (worker, op, NULL, &output, record, error);
}

/* Ops of different steps may follow one another: makes the step's data the device's. */
static gboolean load_data (PsWorker *worker, guint step, GError **error)
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
  return class->begin == NULL || class->begin (worker->device, steps_before (worker) + step, error);
}

static gboolean compute (PsWorker *worker, const PsAction *action, guint step, PsOpRecord *record, GError **error)
{
  const PsOp op = action->instruction.op;
  PsTensor *input, *output = NULL;

  if (!load_data (worker, step, error))
    return FALSE;
  if (op.kind == PS_OP_O) {
    return sum_gradients (worker, op.stage, error) && keep_gradients (worker, step, op.stage, error)
           && update (worker, op, record, error);
  }
  if (!choose_version (worker, op, step, error) || !take_tensor (worker, action, &input, error)
      || !run_op (worker, op, input, &output, record, error))
    return FALSE;
  put_tensor (worker, action, output);
  if (worker->run->endless && op.kind == PS_OP_F && op.stage == worker->run->loss_stage)
    note_loss (worker, step, op.microbatch);
  return TRUE;
}

/* Posts a send or a receive, and records how long the call held the host. */
static gboolean post (PsWorker *worker, const PsAction *action, PsTimes *record, GError **error)
{
  PsTransport *transport = worker->run->transport;
  const PsInstruction *instruction = &action->instruction;
  guint peer = peer_of (worker, instruction->peer);
  PsTensor *tensor;
  gboolean done;

  if (instruction->type == PS_INSTRUCTION_SEND && !take_tensor (worker, action, &tensor, error))
    return FALSE;
  record->start_ns = ps_clock_now ();
  if (instruction->type == PS_INSTRUCTION_SEND)
    done = transport->class->send (transport, worker->at, peer, instruction->op, tensor, action->delay_ns, error);
  else
    done = transport->class->receive (transport, worker->at, peer, instruction->op, error);
  record->end_ns = ps_clock_now ();
  return done;
}

static gboolean wait_for (PsWorker *worker, const PsAction *action, PsTransferTimes *times, GError **error)
{
  PsTransport *transport = worker->run->transport;
  PsTensor *tensor = transport->class->wait (transport, worker->at, peer_of (worker, action->instruction.peer),
                                             action->instruction.op, worker->device, times, error);

  if (tensor != NULL)
    put_tensor (worker, action, tensor);
  return tensor != NULL;
}

static gboolean act (PsWorker *worker, const PsAction *action, guint step, GError **error)
{
  PsDeviceRecord *records = &worker->run->recorder->device[worker->at];

  switch ((PsInstructionType)action->instruction.type) {
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

/* Adds up the gradients of the stages whose O the script leaves to the end. */
static gboolean sum_all (PsWorker *worker, GError **error)
{
  for (guint i = 0; i < worker->script->n_updates; i++)
    if (!sum_gradients (worker, worker->script->stages[i], error))
      return FALSE;
  return worker->script->n_updates == 0 || add_tied_gradients (worker, error);
}

/* Runs the O that the script leaves to the end. */
static gboolean update_all (PsWorker *worker, guint step, GError **error)
{
  PsDeviceRecord *records = &worker->run->recorder->device[worker->at];
  PsOpRecord *record = &records->ops[(gsize)step * records->n_ops + worker->script->n_ops];

  for (guint i = 0; i < worker->script->n_updates; i++)
    if (!update (worker, (PsOp){ .kind = PS_OP_O, .stage = (guint16)worker->script->stages[i] }, record + i, error))
      return FALSE;
  return TRUE;
}

/* Reports the last of `step` done steps to PsRunSetting.progress, which may end the run early. */
static void report (PsWorker *worker, guint step)
{
  const PsRunSetting *setting = worker->run->setting;
  PsRecorder *recorder = worker->run->recorder;
  const PsStepReport report = { .number = steps_before (worker) + step,
                                .iteration_ns = ps_recorder_iteration (recorder, step - 1),
                                .loss = ps_run_result_mean_loss (worker->run->result, step - 1) };

  if (!setting->progress (&report, setting->progress_data))
    g_atomic_int_set (&recorder->n_steps, MIN (recorder->n_steps, step + (worker->run->endless ? 3 : 1)));
}

/* In an endless run, when the device has done all of a step. */
static gboolean note_end (PsWorker *worker, guint step, GError **error)
{
  if (!keeps_time (worker))
    return TRUE;
  if (!await_ops (worker, error))
    return FALSE;
  worker->run->recorder->begin_ns[step + 1] = ps_clock_now ();
  if (worker->run->setting->progress != NULL)
    report (worker, step + 1);
  return TRUE;
}

/* where and step say what waits for the meeting: "before O of step", 0. */
static gboolean meet (PsWorker *worker, const char *where, guint step, gint64 *moment_ns, GError **error)
{
  PsProcesses *processes = worker->run->setting->processes;

  if (processes != NULL && member_of (worker) == 0) {
    processes->meeting = where;
    processes->step = steps_before (worker) + step + 1;
  }
  return await_ops (worker, error) && ps_crew_meet (worker->run->crew, member_of (worker), moment_ns, error);
}

/* Norms of gradients, and steps without a barrier */

float ps_run_clip (const double *squares, guint n_stages, double clip)
{
  double sum = 0, scale;

  for (guint i = 0; i < n_stages; i++)
    sum += squares[i] != PS_UNKNOWN_NORM ? squares[i] : 0;
  if (!isfinite (sum))
    return 0;
  scale = clip > 0 ? clip / (sqrt (sum) + EPSILON) : 1;
  return scale < 1 ? (float)scale : 1;
}

static guint count_stages (const PsWorker *worker)
{
  return worker->run->program->schedule->placement->n_stages;
}

/* Forgets all norms but those of the device's own stages. Devices that share layers add up those of their parts. */
static gboolean find_own_squares (PsWorker *worker, GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  const PsDeviceSetting *setting = &worker->setting;

  for (guint i = 0; i < count_stages (worker); i++)
    worker->squares[i] = PS_UNKNOWN_NORM;
  for (guint i = 0; class->computes && i < worker->script->n_stages; i++) {
    double *square = &worker->squares[worker->script->stages[i]];

    *square = class->norm_square (worker->device, worker->script->stages[i]);
    float sum = (float)*square;
    if (setting->n_tensor > 1 && !setting->add_up (setting->add_up_data, &sum, 1, error))
      return FALSE;
    *square = setting->n_tensor > 1 ? sum : *square;
  }
  return TRUE;
}

static void take_squares (PsWorker *worker, const double *squares)
{
  for (guint i = 0; i < count_stages (worker); i++)
    if (squares[i] != PS_UNKNOWN_NORM)
      worker->squares[i] = squares[i];
}

/* Between work and O where all devices meet: all devices find the factor of their gradients. */
static gboolean meet_norms (PsWorker *worker, GError **error)
{
  PsRun *run = worker->run;
  guint n_stages = count_stages (worker), n_devices = run->program->schedule->placement->n_devices;

  if (run->setting->clip == 0 || !worker->device->class->computes)
    return TRUE;
  g_autofree double *all = g_new (double, (gsize)n_stages *n_devices * run->n_pipelines);
  if (!find_own_squares (worker, error)
      || !ps_crew_exchange (run->crew, member_of (worker), worker->squares, n_stages * sizeof *all, all, error))
    return FALSE;
  for (guint i = 0; i < n_devices; i++)
    take_squares (worker, all + (gsize)i * n_stages);
  worker->scale = ps_run_clip (worker->squares, n_stages, run->setting->clip);
  return TRUE;
}

/* No message between stages has this name. */
static PsOp norms_name (guint device)
{
  return (PsOp){ .kind = PS_OP_R, .stage = (guint16)device };
}

/* Sends the norms that the device knows. The message is not in the program; where tensors have no contents, it has
 * none.
 */
static gboolean send_squares (PsWorker *worker, guint to, GError **error)
{
  PsTransport *transport = worker->run->transport;
  const PsDeviceClass *class = worker->device->class;
  const gsize n_bytes = count_stages (worker) * sizeof *worker->squares;
  PsTensor *tensor = class->tensor_new (worker->device);

  if (tensor == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "device %u: no memory to send norms of gradients", worker->index);
  if (tensor->data == NULL || ps_device_write (worker->device, tensor->data, worker->squares, n_bytes, error))
    return transport->class->send (transport, worker->at, peer_of (worker, to), norms_name (worker->index), tensor, 0,
                                   error);
  class->tensor_free (tensor);
  return FALSE;
}

/* Waits for a message that no record is for. posts: its receive is still to be posted. */
static PsTensor *take_message (PsWorker *worker, guint from, PsOp name, gboolean posts, GError **error)
{
  PsTransport *transport = worker->run->transport;
  const guint peer = peer_of (worker, from);

  if (posts && !transport->class->receive (transport, worker->at, peer, name, error))
    return NULL;
  return transport->class->wait (transport, worker->at, peer, name, worker->device, &worker->unrecorded, error);
}

static gboolean receive_squares (PsWorker *worker, guint from, GError **error)
{
  const gsize n_bytes = count_stages (worker) * sizeof *worker->squares;
  g_autofree double *squares = g_memdup2 (worker->squares, n_bytes);
  PsTensor *tensor = take_message (worker, from, norms_name (from), TRUE, error);

  if (tensor == NULL)
    return FALSE;
  const gboolean done = tensor->data == NULL || ps_device_read (worker->device, squares, tensor->data, n_bytes, error);
  worker->device->class->tensor_free (tensor);
  take_squares (worker, squares);
  return done;
}

static float find_scale (const PsWorker *worker)
{
  return worker->device->class->computes
             ? ps_run_clip (worker->squares, count_stages (worker), worker->run->setting->clip)
             : 1;
}

/* The norms of the devices before this one come in, those with its own go out. */
static gboolean hand_on (PsWorker *worker, GError **error)
{
  guint last = worker->run->program->schedule->placement->n_devices - 1;
  gboolean done = worker->index == 0 || receive_squares (worker, worker->index - 1, error);

  if (worker->index < last)
    return done && send_squares (worker, worker->index + 1, error);
  for (guint i = 0; done && i < last; i++)
    done = send_squares (worker, i, error);
  return done;
}

/* Ends a step: O runs early unless the norms known so far rule it out. */
static gboolean end_early (PsWorker *worker, guint step, GError **error)
{
  if (!sum_all (worker, error))
    return FALSE;
  for (guint i = 0; worker->device->class->computes && i < worker->script->n_stages; i++)
    if (!keep_gradients (worker, step, worker->script->stages[i], error))
      return FALSE;
  if (!find_own_squares (worker, error) || !hand_on (worker, error))
    return FALSE;
  worker->scale = find_scale (worker) == 1 ? 1 : -1;
  if (!update_all (worker, step, error))
    return FALSE;
  return note_end (worker, step, error);
}

/* Makes the O of a step final. *valid: the early O was right everywhere. */
static gboolean validate (PsWorker *worker, guint step, gboolean *valid, GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  guint last = worker->run->program->schedule->placement->n_devices - 1;

  if (worker->index < last && !receive_squares (worker, last, error))
    return FALSE;
  float scale = find_scale (worker);
  *valid = scale == 1;
  if (!class->computes)
    return TRUE;
  if (!load_data (worker, step, error))
    return FALSE;
  for (guint i = 0; i < worker->script->n_stages; i++)
    if (!class->settle (worker->device, worker->script->stages[i], scale, error))
      return FALSE;
  return TRUE;
}

/* Takes the step back, and drops the messages that were sent with wrong contents. */
static gboolean go_back (PsWorker *worker, const PsBypassPlan *plan, GError **error)
{
  const PsDeviceClass *class = worker->device->class;

  class->forget (worker->device);
  for (guint i = 0; i < worker->script->n_slots; i++)
    if (worker->slots[i] != NULL)
      class->tensor_free (g_steal_pointer (&worker->slots[i]));
  if (keeps_time (worker))
    worker->run->result->n_rollbacks++;
  for (guint i = 0; i < plan->stray->len; i++) {
    const PsInstruction *stray = &g_array_index (plan->stray, PsInstruction, i);
    PsTensor *tensor = take_message (worker, stray->peer, stray->op, stray->type == PS_INSTRUCTION_RECEIVE, error);

    if (tensor == NULL)
      return FALSE;
    class->tensor_free (tensor);
  }
  return TRUE;
}

static gboolean run_early (PsWorker *worker, guint step, GError **error)
{
  const PsBypassPlan *plan = &worker->run->plans[worker->index];
  gboolean valid = step == 0, again = FALSE;

  for (guint i = 0; i < worker->script->n_actions; i++) {
    const PsAction *action = &worker->script->actions[i];

    if (i == plan->validate && step > 0 && !again) {
      if (!validate (worker, step - 1, &valid, error))
        return FALSE;
      again = !valid;
      if (again && !go_back (worker, plan, error))
        return FALSE;
      if (again)
        i = 0;
      action = &worker->script->actions[i];
    }
    if (again && i < plan->validate && plan->posted[i])
      continue;
    if (!act (worker, action, step, error))
      return FALSE;
  }
  return end_early (worker, step, error);
}

/* Runs all steps. */
static gboolean run_bypass (PsWorker *worker, GError **error)
{
  PsRecorder *recorder = worker->run->recorder;
  gboolean valid;
  guint step;

  for (step = 0; step < (guint)g_atomic_int_get (&recorder->n_steps); step++)
    if (!run_early (worker, step, error))
      return FALSE;
  if (!validate (worker, step - 1, &valid, error))
    return FALSE;
  if (!valid && keeps_time (worker))
    worker->run->result->n_rollbacks++;
  return TRUE;
}

/* Steps with barriers */

/* All devices meet between work and O. Devices that compute then show their results and meet again. Showing is no part
 * of training, so that time does not count. */
static gboolean end_work (PsWorker *worker, guint step, GError **error)
{
  gint64 work_ns, read_ns;

  if (!meet (worker, "before O of step", step, &work_ns, error))
    return FALSE;
  if (!worker->device->class->computes)
    return TRUE;
  for (guint i = 0; i < worker->script->n_updates; i++)
    if (!keep_gradients (worker, step, worker->script->stages[i], error))
      return FALSE;
  if (!keep_losses (worker, step, error) || !meet (worker, "before O of step", step, &read_ns, error))
    return FALSE;
  if (keeps_time (worker))
    worker->run->recorder->pause_ns[step] = read_ns - work_ns;
  return TRUE;
}

/* PsDeviceSetting.add_up */
static gboolean add_up (gpointer data, float *values, gsize n, GError **error)
{
  return sum (data, PS_CIRCLE_TENSOR, PS_SUM_WHOLE, values, n, error);
}

/* Devices that share layers add up their parts: each has zeros where it has none. Of the moments each replica may have
 * a share. */
static gboolean gather (float *values, gsize n, PsStateArray array, gpointer data, GError **error)
{
  PsWorker *worker = data;
  const gboolean shared = worker->run->n_tensor > 1;

  if (shared && !add_up (worker, values, n, error))
    return FALSE;
  return !worker->setting.sharded || array == PS_STATE_WEIGHTS
         || sum (worker, PS_CIRCLE_REPLICAS, shared ? PS_SUM_WHOLE : PS_SUM_GATHER, values, n, error);
}

/* Replica 0 fills in the checkpoint, and where each replica has a share of the state, the others help. When all have,
 * one member of each process brings it to rank 0, which writes it. */
static gboolean save (PsWorker *worker, guint step, GError **error)
{
  PsRun *run = worker->run;
  const gboolean helps = worker->setting.sharded || worker->setting.replica == 0;
  gint64 moment_ns;

  for (guint i = 0; i < worker->script->n_stages && helps; i++) {
    guint stage = worker->script->stages[i];

    if (ps_gives_gradients (run->program->schedule, worker->index, stage)
        && !ps_checkpoint_take (run->saved, worker->device, stage, &run->shapes[stage], counts (worker), gather, worker,
                                error))
      return FALSE;
  }
  if (!meet (worker, "before step", step, &moment_ns, error))
    return FALSE;
  if (member_of (worker) == 0)
    ps_gather_checkpoint (run);
  return !keeps_time (worker)
         || ps_checkpoint_write (run->saved, run->setting->save, steps_before (worker) + step, error);
}

/* All devices meet before each step and after the last one. Reports and checkpoints, which are no part of training, lie
 * between two meetings, so that their time does not count. */
static gboolean begin_step (PsWorker *worker, guint step, GError **error)
{
  PsRecorder *recorder = worker->run->recorder;
  const PsRunSetting *setting = worker->run->setting;
  const guint every = setting->save_every;
  const gboolean saves
      = setting->save != NULL && (step == recorder->n_steps || (every > 0 && step > 0 && step % every == 0));
  gint64 moment_ns;

  if (step < recorder->n_steps && !load_data (worker, step, error))
    return FALSE;
  if (!meet (worker, "before step", step, &moment_ns, error))
    return FALSE;
  if (keeps_time (worker))
    recorder->begin_ns[step] = moment_ns;
  if (step == 0 || (setting->progress == NULL && !saves))
    return TRUE;
  if (saves && !save (worker, step, error))
    return FALSE;
  if (keeps_time (worker) && setting->progress != NULL)
    report (worker, step);
  if (!meet (worker, "before step", step, &moment_ns, error))
    return FALSE;
  if (keeps_time (worker)) {
    recorder->pause_ns[step - 1] += moment_ns - recorder->begin_ns[step];
    recorder->begin_ns[step] = moment_ns;
  }
  return TRUE;
}

/* Runs that measure */

/* Adds up a message's numbers with the other replicas: zeros, which stay zeros. */
static gboolean sum_message (PsWorker *worker, GError **error)
{
  PsOpRecord *record = &worker->run->recorder->device[worker->at].ops[worker->script->n_ops];
  PsDevice *device = worker->device;

  if (worker->script->n_updates > 0 && worker->addends == NULL) {
    worker->addends = device->class->tensor_new (device);
    if (worker->addends == NULL)
      return ps_refuse (error, PS_ERROR_UNAVAILABLE, "device %u: no memory to add up", worker->index);
    g_autofree void *zeros = g_malloc0 (worker->addends->bytes);
    if (!ps_device_write (device, worker->addends->data, zeros, worker->addends->bytes, error))
      return FALSE;
  }
  for (guint i = 0; i < worker->script->n_updates; i++) {
    record[i].times.start_ns = ps_clock_now ();
    if (!sum (worker, PS_CIRCLE_WEIGHTS, PS_SUM_WHOLE, worker->addends->data, worker->addends->bytes / sizeof (float),
              error))
      return FALSE;
    record[i].times.end_ns = ps_clock_now ();
  }
  return TRUE;
}

/* Member 0 shows a step to the one who measures. */
static gboolean show_step (const PsRun *run, guint step, GArray *events, gboolean *more, GError **error)
{
  const PsMeasuring *measuring = run->setting->measuring;
  const PsMeasuredStep ended = { .number = step,
                                 .events = events,
                                 .devices = run->devices,
                                 .conditions = run->conditions,
                                 .state_bytes = run->state_bytes };

  ps_run_events (run, events);
  return measuring->step (&ended, measuring->data, more, error);
}

/* Each step runs the stream once, and is recorded in the place of the one before. */
static gboolean run_measured (PsWorker *worker, GError **error)
{
  PsRun *run = worker->run;
  g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsMeasuredEvent));
  gboolean more = TRUE;
  gint64 moment_ns;

  if (!load_data (worker, 0, error) || !meet (worker, "before step", 0, &moment_ns, error))
    return FALSE;
  for (; more; worker->n_measured++) {
    for (guint i = 0; i < worker->script->n_actions; i++)
      if (!act (worker, &worker->script->actions[i], 0, error))
        return FALSE;
    if (!flush (worker, error) || !sum_message (worker, error)
        || !meet (worker, "after step", worker->n_measured, &moment_ns, error)
        || (member_of (worker) == 0 && !show_step (run, worker->n_measured, events, &run->measures_on, error))
        || !meet (worker, "before step", worker->n_measured, &moment_ns, error))
      return FALSE;
    more = run->measures_on;
  }
  return TRUE;
}

/* Endless runs, and the whole */

/* Runs the actions of a round that belong to a step of the run. Round -1 has those before the first step: the forwards
 * that run ahead. */
static gboolean walk_round (PsWorker *worker, gint64 round, GError **error)
{
  PsRecorder *recorder = worker->run->recorder;

  for (guint i = 0; i < worker->script->n_actions; i++) {
    const PsAction *action = &worker->script->actions[i];
    gint64 step = round + action->ahead;

    if (step < 0 || step >= (gint64)g_atomic_int_get (&recorder->n_steps))
      continue;
    if (!act (worker, action, (guint)step, error))
      return FALSE;
    if (i == worker->script->end && !note_end (worker, (guint)step, error))
      return FALSE;
  }
  return TRUE;
}

/* All devices meet before the first round and after the last one only. A device stops some steps early where
 * PsRunSetting.progress has said so, see report: no device has begun these. */
static gboolean run_on (PsWorker *worker, GError **error)
{
  PsRecorder *recorder = worker->run->recorder;
  gint64 moment_ns;

  if (!meet (worker, "before step", 0, &moment_ns, error))
    return FALSE;
  if (keeps_time (worker))
    recorder->begin_ns[0] = moment_ns;
  if (worker->run->plans != NULL && !run_bypass (worker, error))
    return FALSE;
  for (gint64 round = -1; worker->run->plans == NULL && round < (gint64)g_atomic_int_get (&recorder->n_steps); round++)
    if (!walk_round (worker, round, error))
      return FALSE;
  if (!flush (worker, error)
      || !meet (worker, "before step", (guint)g_atomic_int_get (&recorder->n_steps), &moment_ns, error))
    return FALSE;
  for (guint step = 0; worker->device->class->computes && step < recorder->n_steps; step++)
    if (!keep_losses (worker, step, error))
      return FALSE;
  return TRUE;
}

static gboolean prepare (PsWorker *worker, GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  PsTransport *transport = worker->run->transport;
  GBytes *choices = worker->run->setting->choices;
  const guint n_processes = ps_processes_n_ranks (worker->run->setting->processes);

  if (!class->attach (worker->device, error)
      || (choices != NULL && class->adopt_choices != NULL && !class->adopt_choices (worker->device, choices, error)))
    return FALSE;
  if (transport->class->join != NULL && !transport->class->join (transport, worker->at, worker->device, error))
    return FALSE;
  for (guint i = 0; i < worker->script->n_stages; i++) {
    const PsCheckpoint *start = worker->run->setting->start;
    guint stage = worker->script->stages[i];
    const PsStageShape *shape = &worker->run->shapes[stage];
    PsMemoryUse before, after;

    class->memory (worker->device, &before);
    if (!class->add_stage (worker->device, stage, shape, error)
        || (start != NULL && !ps_checkpoint_give (start, worker->device, stage, shape, error)))
      return FALSE;
    class->memory (worker->device, &after);
    worker->run->state_bytes[worker->at * worker->setting.n_stages + stage]
        = after.current[PS_USE_STATE] - before.current[PS_USE_STATE];
  }
  /* Devices of other processes adopt the same choices; in one process all devices share them. */
  return n_processes == 1
         || ps_choices_agree (worker->run->crew, member_of (worker), n_processes * worker->run->n_here, worker->device,
                              error);
}

static gboolean work (PsWorker *worker, GError **error)
{
  const PsRecorder *recorder = worker->run->recorder;

  if (!prepare (worker, error))
    return FALSE;
  if (worker->run->setting->measuring != NULL)
    return run_measured (worker, error);
  if (worker->run->endless)
    return run_on (worker, error);
  for (guint step = 0; step < recorder->n_steps; step++) {
    gboolean done = begin_step (worker, step, error);

    for (guint i = 0; i < worker->script->n_actions && done; i++)
      done = act (worker, &worker->script->actions[i], step, error);
    if (!done || !flush (worker, error) || !sum_all (worker, error) || !end_work (worker, step, error)
        || !meet_norms (worker, error) || !update_all (worker, step, error))
      return FALSE;
  }
  return begin_step (worker, recorder->n_steps, error);
}

gpointer ps_worker_main (gpointer data)
{
  PsWorker *worker = data;
  GError *error = NULL;

  if (!work (worker, &error))
    ps_crew_fail (worker->run->crew, error);
  await_ops (worker, NULL);
  if (worker->run->transport->class->part != NULL)
    worker->run->transport->class->part (worker->run->transport, worker->at);
  for (guint i = 0; i < worker->script->n_slots; i++)
    if (worker->slots[i] != NULL)
      worker->device->class->tensor_free (worker->slots[i]);
  ps_lone_inputs_clear (&worker->inputs);
  if (worker->addends != NULL)
    worker->device->class->tensor_free (worker->addends);
  return NULL;
}

gboolean ps_worker_open (PsWorker *worker, PsRun *run, guint at, guint n_cores, GError **error)
{
  const PsSchedule *schedule = run->program->schedule;
  const PsRunSetting *setting = run->setting;
  /* The host may run more processes of this run; all have equal numbers of devices. */
  guint n_local = ps_processes_n_local (setting->processes) * run->n_here;
  guint local = ps_processes_local_rank (setting->processes) * run->n_here + at - run->first;
  guint index = at % schedule->placement->n_devices, pipeline = run->pipeline + at / schedule->placement->n_devices;
  const PsMeasuring *measuring = setting->measuring;

  if (measuring != NULL) {
    n_local = measuring->n_local * run->n_pipelines;
    local = pipeline * measuring->n_local + (measuring->places != NULL ? measuring->places[index] : index);
  }

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
      = (PsDeviceSetting){ .model
                           = measuring != NULL && measuring->models != NULL ? measuring->models[index] : setting->model,
                           .costs = setting->costs,
                           .speed = setting->speed != NULL ? setting->speed[index] : 1,
                           .n_stages = schedule->placement->n_stages,
                           .n_microbatches = schedule->n_microbatches,
                           .n_summed = ps_schedule_update_every (schedule),
                           .n_slices = schedule->n_slices,
                           .forward_only = schedule->forward_only,
                           .slice_tokens = setting->slice_tokens,
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

void ps_worker_close (PsWorker *worker)
{
  if (worker->device != NULL)
    worker->device->class->close (worker->device);
  g_free (worker->slots);
  g_free (worker->n_updates);
  g_free (worker->squares);
  g_free (worker->recomputed);
}
