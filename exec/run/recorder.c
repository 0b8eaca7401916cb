/* recorder.c - room for the records of a run and for its result, the timeline that the records make, and digests of
 * gradients. */
#include "run.h"

#include <math.h>
#include <string.h>

#define LANES 4 /* independent products at the same time */

gsize ps_recorder_step_bytes (const PsScript *scripts, guint n_devices)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < n_devices; i++)
    n_bytes += ((gsize)scripts[i].n_ops + scripts[i].n_updates) * sizeof (PsOpRecord)
               + scripts[i].n_posts * sizeof (PsPostRecord) + scripts[i].n_waits * sizeof (PsTransferTimes)
               + sizeof (gint64);
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
    device->ops = g_new0 (PsOpRecord, (gsize)n_steps * device->n_ops);
    device->posts = g_new0 (PsPostRecord, (gsize)n_steps * device->n_posts);
    device->transfers = g_new0 (PsTransferTimes, (gsize)n_steps * device->n_transfers);
    device->own_ns = g_new0 (gint64, device->n_ops);
    device->held_bytes = g_new0 (gint64, n_steps);
  }
  return recorder;
}

void ps_recorder_free (PsRecorder *recorder)
{
  if (recorder == NULL)
    return;
  for (guint i = 0; i < recorder->n_devices * recorder->n_pipelines; i++) {
    g_free (recorder->device[i].ops);
    g_free (recorder->device[i].posts);
    g_free (recorder->device[i].transfers);
    g_free (recorder->device[i].own_ns);
    g_free (recorder->device[i].held_bytes);
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

/* The time that a step's timeline counts from. */
static gint64 origin_of (const PsRecorder *recorder, guint step)
{
  gint64 origin_ns = recorder->begin_ns[step];

  for (guint i = 0; i < recorder->n_devices; i++) {
    const PsDeviceRecord *records = &recorder->device[i];

    for (guint k = 0; k < records->n_ops; k++)
      origin_ns = MIN (origin_ns, records->ops[(gsize)step * records->n_ops + k].times.start_ns);
  }
  return origin_ns;
}

static void append_memory (GArray *points, guint device, gint64 time_ns, gint64 bytes)
{
  PsMemoryPoint point = { .time_ns = time_ns, .bytes = bytes, .device = (guint16)device };
  const PsMemoryPoint *last = points->len > 0 ? &g_array_index (points, PsMemoryPoint, points->len - 1) : NULL;

  if (last == NULL || last->device != device || last->bytes != bytes)
    g_array_append_val (points, point);
}

static void append_op (PsTimeline *timeline, const PsProgram *program, const PsAction *action, const PsOpRecord *record,
                       guint device, gint64 begin_ns)
{
  PsOp op = action->instruction.op;
  /* Both ops of a pair share the time from the first one's start to the second one's end. */
  gint64 end_ns = op.paired ? record[1].times.end_ns : record->times.end_ns;
  PsSpan span = { .start_ns = record->times.start_ns - begin_ns,
                  .end_ns = end_ns - begin_ns,
                  .op = op,
                  .device = (guint16)device,
                  .peer = (guint16)device,
                  .chunk = ps_schedule_chunk (program->schedule, op) };
  const PsSpan *last = timeline->ops->len > 0 ? &g_array_index (timeline->ops, PsSpan, timeline->ops->len - 1) : NULL;

  if (last != NULL && last->device == device && last->op.paired)
    span.start_ns = last->start_ns;
  g_array_append_val (timeline->ops, span);
}

/* When each message of a step left. Only the sender knows for every transport when a message was handed over; that may
 * be before its op has ended. */
static gint64 *index_sends (const PsRecorder *recorder, const PsProgram *program, const PsScript *scripts, guint step)
{
  gint64 *sent_ns = g_new0 (gint64, program->n_messages + 1);

  for (guint device = 0; device < recorder->n_devices; device++) {
    const PsDeviceRecord *records = &recorder->device[device];
    const PsPostRecord *post = &records->posts[(gsize)step * records->n_posts];
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

static void append_transfer (PsTimeline *timeline, const PsProgram *program, const PsInstruction *wait,
                             const PsTransferTimes *times, gint64 sent_ns, guint device, gint64 begin_ns)
{
  /* Both ends' clocks, and a GPU's, agree but for some microseconds. */
  PsSpan span = { .start_ns = sent_ns - begin_ns,
                  .end_ns = MAX (times->end_ns, sent_ns) - begin_ns,
                  .op = wait->op,
                  .device = wait->peer,
                  .peer = (guint16)device,
                  .chunk = ps_schedule_chunk (program->schedule, wait->op) };

  g_array_append_val (timeline->transfers, span);
}

/* A post of an endless run may begin before the iteration, which has the rest of it. */
static void append_post (PsTimeline *timeline, const PsInstruction *instruction, const PsPostRecord *record,
                         guint device, gint64 begin_ns)
{
  PsSpan span = { .start_ns = MAX (record->start_ns - begin_ns, 0),
                  .end_ns = MAX (record->end_ns - begin_ns, 0),
                  .op = instruction->op,
                  .device = (guint16)device,
                  .peer = (guint16)device,
                  .post = instruction->type };

  g_array_append_val (timeline->posts, span);
}

static void append_device (PsTimeline *timeline, const PsRecorder *recorder, const PsProgram *program,
                           const PsScript *script, const gint64 *sent_ns, guint device, guint step, gint64 begin_ns)
{
  const PsDeviceRecord *records = &recorder->device[device];
  const PsOpRecord *op = &records->ops[(gsize)step * records->n_ops];
  const PsTransferTimes *transfer = &records->transfers[(gsize)step * records->n_transfers];
  const PsPostRecord *post = &records->posts[(gsize)step * records->n_posts];

  for (guint i = 0; i < script->n_actions; i++) {
    const PsInstruction *instruction = &script->actions[i].instruction;

    if (instruction->type == PS_INSTRUCTION_COMPUTE && instruction->op.kind == PS_OP_O)
      op++;
    else if (instruction->type == PS_INSTRUCTION_COMPUTE)
      append_op (timeline, program, &script->actions[i], op++, device, begin_ns);
    else if (instruction->type == PS_INSTRUCTION_WAIT)
      append_transfer (timeline, program, instruction, transfer++, sent_ns[instruction->message - 1], device, begin_ns);
    else
      append_post (timeline, instruction, post++, device, begin_ns);
  }
}

/* Between ops the curve is the memory held. During an op its peak counts from the op's start. */
static void append_curve (PsTimeline *timeline, const PsRecorder *recorder, const PsScript *script, guint device,
                          guint step, gint64 begin_ns)
{
  const PsDeviceRecord *records = &recorder->device[device];
  const PsOpRecord *op = &records->ops[(gsize)step * records->n_ops];

  append_memory (timeline->memory, device, 0, records->held_bytes[step]);
  for (guint i = 0; i < records->n_ops; i++) {
    gint64 shift_ns = begin_ns + (i >= script->n_ops ? recorder->pause_ns[step] : 0);

    append_memory (timeline->memory, device, op[i].times.start_ns - shift_ns, op[i].peak_bytes);
    append_memory (timeline->memory, device, op[i].times.end_ns - shift_ns, op[i].held_bytes);
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
  gint64 begin_ns = origin_of (recorder, step);

  for (guint i = 0; i < placement->n_devices; i++) {
    append_device (timeline, recorder, program, &scripts[i], sent_ns, i, step, begin_ns);
    append_curve (timeline, recorder, &scripts[i], i, step, begin_ns);
  }
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

static PsRunGradients *gradients_new (guint n_steps, guint n_stages)
{
  PsRunGradients *gradients = g_new0 (PsRunGradients, 1);

  gradients->n_steps = n_steps;
  gradients->n_stages = n_stages;
  gradients->digest = g_new0 (guint64, (gsize)n_steps * n_stages);
  gradients->last = g_new0 (float *, n_stages);
  gradients->n = g_new0 (gsize, n_stages);
  gradients->parts = g_new0 (guint, n_stages);
  return gradients;
}

static void gradients_free (PsRunGradients *gradients)
{
  if (gradients == NULL)
    return;
  for (guint i = 0; i < gradients->n_stages; i++)
    g_free (gradients->last[i]);
  g_free (gradients->digest);
  g_free (gradients->last);
  g_free (gradients->n);
  g_free (gradients->parts);
  g_free (gradients);
}

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
  gsize n_losses = (gsize)setting->n_steps * n_replicas * program->schedule->n_microbatches;

  result->n_steps = setting->n_steps;
  result->n_stages = program->schedule->placement->n_stages;
  result->n_microbatches = n_replicas * program->schedule->n_microbatches;
  result->iteration_ns = g_new0 (gint64, setting->n_steps);
  result->losses = g_new (double, n_losses);
  for (gsize i = 0; i < n_losses; i++)
    result->losses[i] = NAN;
  if (setting->gradients && setting->device->computes)
    result->gradients = gradients_new (setting->n_steps, result->n_stages);
  return result;
}

void ps_run_result_free (PsRunResult *result)
{
  if (result == NULL)
    return;
  g_clear_pointer (&result->timeline, ps_timeline_free);
  gradients_free (result->gradients);
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
