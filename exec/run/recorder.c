/* recorder.c - room for the records of a run and for its result, the timeline that the records make, digests of
 * gradients, and how results of a rank come to rank 0. */
#include "run.h"

#include <math.h>
#include <string.h>

#define LANES 4 /* independent products at the same time */

static gsize step_bytes (const PsScript *script)
{
  return ((gsize)script->n_ops + script->n_updates) * sizeof (PsOpRecord)
         + ((gsize)script->n_posts + script->n_waits) * sizeof (PsTimes) + sizeof (gint64);
}

gsize ps_recorder_step_bytes (const PsScript *scripts, guint n_devices)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < n_devices; i++)
    n_bytes += step_bytes (&scripts[i]);
  return n_bytes;
}

PsRecorder *ps_recorder_new (const PsScript *scripts, guint n_devices, guint n_pipelines, guint n_steps)
{
  PsRecorder *recorder = g_new0 (PsRecorder, 1);

  recorder->n_devices = n_devices;
  recorder->n_pipelines = n_pipelines;
  recorder->n_steps = n_steps;
  recorder->device = g_new0 (PsDeviceRecord, n_devices * n_pipelines);
  recorder->begin_ns = g_new0 (gint64, n_steps + 1);
  recorder->pause_ns = g_new0 (gint64, n_steps);
  for (guint i = 0; i < n_devices * n_pipelines; i++) {
    PsDeviceRecord *device = &recorder->device[i];
    const PsScript *script = &scripts[i % n_devices];

    device->n_ops = script->n_ops + script->n_updates;
    device->n_posts = script->n_posts;
    device->n_transfers = script->n_waits;
    device->n_bytes = n_steps * step_bytes (script);
    device->ops = g_malloc0 (device->n_bytes);
    device->posts = (PsTimes *)(device->ops + (gsize)n_steps * device->n_ops);
    device->transfers = device->posts + (gsize)n_steps * device->n_posts;
    device->held_bytes = (gint64 *)(device->transfers + (gsize)n_steps * device->n_transfers);
    device->own_ns = g_new0 (gint64, device->n_ops);
  }
  return recorder;
}

void ps_recorder_free (PsRecorder *recorder)
{
  if (recorder == NULL)
    return;
  for (guint i = 0; i < recorder->n_devices * recorder->n_pipelines; i++) {
    g_free (recorder->device[i].ops);
    g_free (recorder->device[i].own_ns);
  }
  g_free (recorder->device);
  g_free (recorder->begin_ns);
  g_free (recorder->pause_ns);
  g_free (recorder);
}

gint64 ps_recorder_iteration (const PsRecorder *recorder, guint step)
{
  g_return_val_if_fail (step < recorder->n_steps, 0);

  return recorder->begin_ns[step + 1] - recorder->begin_ns[step] - recorder->pause_ns[step];
}

guint ps_recorder_median_step (const PsRecorder *recorder)
{
  guint n = recorder->n_steps - 1;
  g_autofree gint64 *iterations = g_new (gint64, recorder->n_steps);
  guint step = 1;

  if (n == 0)
    return 0;
  for (guint i = 0; i < n; i++)
    iterations[i] = ps_recorder_iteration (recorder, i + 1);
  gint64 median = ps_median (iterations, n);
  while (ps_recorder_iteration (recorder, step) != median)
    step++;
  return step;
}

static void append_memory (GArray *points, guint device, gint64 time_ns, gint64 bytes)
{
  PsMemoryPoint point = { .time_ns = time_ns, .bytes = bytes, .device = (guint16)device };
  const PsMemoryPoint *last = points->len > 0 ? &g_array_index (points, PsMemoryPoint, points->len - 1) : NULL;

  if (last == NULL || last->device != device || last->bytes != bytes)
    g_array_append_val (points, point);
}

/* When each message of a step left. Only the sender knows for every transport when a message was handed over; that may
 * be before its op has ended. */
static gint64 *index_sends (const PsRecorder *recorder, const PsProgram *program, const PsScript *scripts, guint step)
{
  gint64 *sent_ns = g_new0 (gint64, program->n_messages + 1);

  for (guint device = 0; device < recorder->n_devices; device++) {
    const PsDeviceRecord *records = &recorder->device[device];
    const PsTimes *post = &records->posts[(gsize)step * records->n_posts];
    const PsOpRecord *op = &records->ops[(gsize)step * records->n_ops];
    g_autofree gint64 *made_ns = g_new0 (gint64, scripts[device].n_slots);

    for (guint i = 0; i < scripts[device].n_actions; i++) {
      const PsAction *action = &scripts[device].actions[i];
      const PsInstruction *instruction = &action->instruction;

      if (instruction->type == PS_INSTRUCTION_COMPUTE && action->put != PS_NO_SLOT)
        made_ns[action->put] = op[instruction->op.paired].times.end_ns;
      else if (instruction->type == PS_INSTRUCTION_SEND)
        sent_ns[instruction->message - 1] = MAX (post->start_ns, made_ns[action->take]);
      op += instruction->type == PS_INSTRUCTION_COMPUTE;
      post += ps_instruction_is_post (instruction);
    }
  }
  return sent_ns;
}

/* Both ops of a pair share the time from the first one's start to the second one's end. Between ops the memory curve is
 * what is held. During an op its peak counts from the op's start. */
static void append_device (PsTimeline *timeline, const PsRecorder *recorder, const PsSchedule *schedule,
                           const PsScript *script, const gint64 *sent_ns, guint device, guint step, gint64 begin_ns)
{
  const PsDeviceRecord *records = &recorder->device[device];
  const PsOpRecord *op = &records->ops[(gsize)step * records->n_ops];
  const PsTimes *transfer = &records->transfers[(gsize)step * records->n_transfers];
  const PsTimes *post = &records->posts[(gsize)step * records->n_posts];
  gint64 start_ns = 0; /* of the first op of a pair that is open */

  append_memory (timeline->memory, device, 0, records->held_bytes[step]);
  for (guint i = 0; i < records->n_ops; i++) {
    const gint64 shift_ns = begin_ns + (i >= script->n_ops ? recorder->pause_ns[step] : 0);

    append_memory (timeline->memory, device, op[i].times.start_ns - shift_ns, op[i].peak_bytes);
    append_memory (timeline->memory, device, op[i].times.end_ns - shift_ns, op[i].held_bytes);
  }
  for (guint i = 0; i < script->n_actions; i++) {
    const PsInstruction *instruction = &script->actions[i].instruction;
    PsSpan span = { .op = instruction->op, .device = (guint16)device, .peer = (guint16)device };

    if (instruction->type == PS_INSTRUCTION_COMPUTE) {
      span.start_ns = (start_ns > 0 ? start_ns : op->times.start_ns) - begin_ns;
      span.end_ns = op[instruction->op.paired].times.end_ns - begin_ns;
      span.chunk = ps_schedule_chunk (schedule, instruction->op);
      start_ns = instruction->op.paired ? op->times.start_ns : 0;
      op++;
      if (instruction->op.kind != PS_OP_O)
        g_array_append_val (timeline->ops, span);
    } else if (instruction->type == PS_INSTRUCTION_WAIT) {
      /* Both ends' clocks, and a GPU's, agree but for some microseconds. Where the receiver copies the message it comes
       * to that later than it was sent. */
      span.start_ns = MAX (sent_ns[instruction->message - 1], transfer->start_ns) - begin_ns;
      span.end_ns = MAX (transfer->end_ns - begin_ns, span.start_ns);
      span.device = instruction->peer;
      span.chunk = ps_schedule_chunk (schedule, instruction->op);
      transfer++;
      g_array_append_val (timeline->transfers, span);
    } else {
      /* A post of an endless run may begin before the iteration, which has the rest of it. */
      span.start_ns = MAX (post->start_ns - begin_ns, 0);
      span.end_ns = MAX (post->end_ns - begin_ns, 0);
      span.post = instruction->type;
      post++;
      g_array_append_val (timeline->posts, span);
    }
  }
}

PsTimeline *ps_recorder_timeline (const PsRecorder *recorder, const PsProgram *program, const PsScript *scripts,
                                  guint step)
{
  const PsSchedule *schedule = program->schedule;
  const PsPlacement *placement = schedule->placement;
  PsTimeline *timeline = ps_timeline_new (PS_ORIGIN_MEASURED, schedule->name, placement->n_devices, placement->n_stages,
                                          schedule->n_microbatches);
  g_autofree gint64 *sent_ns = index_sends (recorder, program, scripts, step);
  gint64 begin_ns = recorder->begin_ns[step];

  for (guint i = 0; i < placement->n_devices; i++)
    for (guint k = 0; k < recorder->device[i].n_ops; k++)
      begin_ns = MIN (begin_ns, recorder->device[i].ops[(gsize)step * recorder->device[i].n_ops + k].times.start_ns);
  for (guint i = 0; i < placement->n_devices; i++)
    append_device (timeline, recorder, schedule, &scripts[i], sent_ns, i, step, begin_ns);
  timeline->iteration_ns = ps_recorder_iteration (recorder, step);
  ps_timeline_sort (timeline);
  return timeline;
}

static PsMeasuredEvent op_event (const PsDeviceRecord *records, guint i, gint64 held_bytes)
{
  const PsOpRecord *op = &records->ops[i];

  return (PsMeasuredEvent){ .times = op->times,
                            .own_ns = records->own_ns[i],
                            .take_bytes = op->peak_bytes - held_bytes,
                            .give_bytes = op->peak_bytes - op->held_bytes };
}

static void append_events (const PsRun *run, guint at, GArray *events)
{
  const PsDeviceRecord *records = &run->recorder->device[at];
  const PsScript *script = &run->scripts[at % run->recorder->n_devices];
  gint64 held_bytes = records->held_bytes[0];

  for (guint i = 0; i < script->n_actions + script->n_updates; i++) {
    PsMeasuredEvent event = { 0 };
    PsInstruction instruction = { .op.kind = PS_OP_O };
    guint index = script->n_ops + i - script->n_actions;

    if (i < script->n_actions) {
      instruction = script->actions[i].instruction;
      index = script->actions[i].index;
    }
    if (instruction.type == PS_INSTRUCTION_WAIT)
      event.times = records->transfers[index];
    else if (instruction.type == PS_INSTRUCTION_COMPUTE)
      event = op_event (records, index, held_bytes);
    else
      event.times.start_ns = records->posts[index].start_ns;
    if (instruction.type == PS_INSTRUCTION_COMPUTE)
      held_bytes = records->ops[index].held_bytes;
    event.instruction = instruction;
    event.device = at;
    g_array_append_val (events, event);
  }
}

void ps_run_events (const PsRun *run, GArray *events)
{
  g_array_set_size (events, 0);
  for (guint at = run->first; at < run->first + run->n_here; at++)
    append_events (run, at, events);
}

/* The result */

/* For a fixed `word` this is a bijection of `sum`, and the other way round. The multiplier is SplitMix64's (Steele,
 * Lea, Flood 2014). */
static inline guint64 mix (guint64 sum, guint64 word)
{
  sum = (sum ^ word) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  return sum ^ sum >> 32;
}

guint64 ps_gradients_digest (const float *values, gsize n)
{
  guint64 sums[LANES] = { 1, 2, 3, 4 }, words[LANES];
  const gsize block = LANES * 2; /* floats in all words */
  guint64 digest = n;

  for (gsize i = 0; i < n; i += block) {
    memset (words, 0, sizeof words);
    memcpy (words, values + i, MIN (block, n - i) * sizeof *values);
    for (guint lane = 0; lane < LANES; lane++)
      sums[lane] = mix (sums[lane], words[lane]);
  }
  for (guint lane = 0; lane < LANES; lane++)
    digest = mix (digest, sums[lane]);
  return digest;
}

PsRunResult *ps_run_result_new (const PsProgram *program, const PsRunSetting *setting, guint n_replicas)
{
  PsRunResult *result = g_new0 (PsRunResult, 1);
  const guint n_stages = program->schedule->placement->n_stages;
  gsize n_losses = (gsize)setting->n_steps * n_replicas * program->schedule->n_microbatches;

  result->n_steps = setting->n_steps;
  result->n_stages = n_stages;
  result->n_microbatches = n_replicas * program->schedule->n_microbatches;
  result->iteration_ns = g_new0 (gint64, setting->n_steps);
  result->losses = g_new (double, n_losses);
  for (gsize i = 0; i < n_losses; i++)
    result->losses[i] = NAN;
  if (!setting->gradients || !setting->device->computes)
    return result;
  result->gradients = g_new (PsRunGradients, 1);
  *result->gradients = (PsRunGradients){ .n_steps = setting->n_steps,
                                         .n_stages = n_stages,
                                         .digest = g_new0 (guint64, (gsize)setting->n_steps * n_stages),
                                         .last = g_new0 (float *, n_stages),
                                         .n = g_new0 (gsize, n_stages),
                                         .parts = g_new0 (guint, n_stages) };
  return result;
}

void ps_run_result_free (PsRunResult *result)
{
  if (result == NULL)
    return;
  for (guint i = 0; result->gradients != NULL && i < result->n_stages; i++)
    g_free (result->gradients->last[i]);
  if (result->gradients != NULL) {
    g_free (result->gradients->digest);
    g_free (result->gradients->last);
    g_free (result->gradients->n);
    g_free (result->gradients->parts);
  }
  g_free (result->gradients);
  g_clear_pointer (&result->timeline, ps_timeline_free);
  g_free (result->iteration_ns);
  g_free (result->losses);
  g_free (result);
}

double ps_run_result_mean_loss (const PsRunResult *result, guint step)
{
  double sum = 0;

  g_return_val_if_fail (step < result->n_steps, NAN);

  for (guint i = 0; i < result->n_microbatches; i++)
    sum += result->losses[(gsize)step * result->n_microbatches + i];
  return sum / result->n_microbatches;
}

/* Between processes: one function names the parts in their order, for the sender and for the receiver. */

/* Between a rank and rank 0 (peer is the other end): the rank sends the bytes, rank 0 fills them in. */
static void carry (const PsRun *run, guint peer, gpointer data, gsize n_bytes)
{
  PsProcesses *processes = run->setting->processes;

  if (peer == 0)
    processes->send (processes, 0, data, n_bytes);
  else
    processes->receive (processes, peer, data, n_bytes, run->setting->timeout_ns);
}

/* The records, and the gradients that the device gives. Rank 0 shifts times to its own clock. */
static void carry_results (const PsRun *run, guint peer, guint device)
{
  const gint64 offset_ns = ps_processes_clock_offset (run->setting->processes, peer);
  PsRunGradients *gradients = run->result->gradients;
  PsDeviceRecord *records = &run->recorder->device[device];
  const PsScript *script = &run->scripts[device];

  carry (run, peer, records->ops, records->n_bytes);
  carry (run, peer, &records->clock_mhz, sizeof records->clock_mhz);
  for (PsOpRecord *op = records->ops; peer > 0 && (gpointer)op < (gpointer)records->posts; op++) {
    op->times.start_ns += offset_ns;
    op->times.end_ns += offset_ns;
  }
  for (PsTimes *times = records->posts; peer > 0 && (gpointer)times < (gpointer)records->held_bytes; times++) {
    times->start_ns += offset_ns;
    times->end_ns += offset_ns;
  }
  for (guint i = 0; gradients != NULL && i < script->n_stages; i++) {
    const guint stage = script->stages[i];

    if (!ps_gives_gradients (run->program->schedule, device, stage))
      continue;
    carry (run, peer, &gradients->digest[(gsize)stage * gradients->n_steps], gradients->n_steps * sizeof (guint64));
    carry (run, peer, &gradients->parts[stage], sizeof gradients->parts[stage]);
    carry (run, peer, &gradients->n[stage], sizeof gradients->n[stage]);
    if (gradients->last[stage] == NULL)
      gradients->last[stage] = g_new (float, gradients->n[stage]);
    carry (run, peer, gradients->last[stage], gradients->n[stage] * sizeof (float));
  }
}

static void carry_state (const PsRun *run, guint peer, guint device)
{
  const PsScript *script = &run->scripts[device];

  for (guint i = 0; i < script->n_stages * PS_N_STATE_ARRAYS; i++) {
    guint stage = script->stages[i / PS_N_STATE_ARRAYS];
    gsize n_bytes;
    gpointer part = ps_checkpoint_part (run->saved, &run->shapes[stage], i % PS_N_STATE_ARRAYS, &n_bytes);

    if (ps_gives_gradients (run->program->schedule, device, stage) && n_bytes > 0)
      carry (run, peer, part, n_bytes);
  }
}

/* Rank 0 carries for each device of pipeline 0 that is in another process, and so does that process. */
static void carry_all (const PsRun *run, void (*carry_device) (const PsRun *run, guint peer, guint device))
{
  const guint n_devices = run->program->schedule->placement->n_devices;

  if (ps_processes_rank (run->setting->processes) == 0)
    for (guint device = run->n_here; device < n_devices; device++)
      carry_device (run, device / run->n_here, device);
  else if (run->pipeline == 0)
    for (guint device = run->first; device < run->first + run->n_here; device++)
      carry_device (run, 0, device);
}

/* Rank 0 has the losses of the other replicas, and all else is the same there. */
void ps_gather (PsRun *run)
{
  carry_all (run, carry_results);
}

void ps_gather_checkpoint (PsRun *run)
{
  carry_all (run, carry_state);
}
