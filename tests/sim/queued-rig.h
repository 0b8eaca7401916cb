/* queued-rig.h - iterations one after the other where devices do not meet at the optimizer, by an evaluator of its own:
 * between the devices' walks over their streams every message looks when its data exists and when its turn has come on
 * either end, until nothing moves any more. At most 4 devices, without slices and all-reduces. */
#pragma once

#include <pipesim/simulate.h>

#include <math.h>

#include <string.h>

typedef struct {
  const PsProgram *program;
  const PsCosts *costs;
  const PsEventsSetting *setting; /* a duration_ns and a transfer_ns count */
  gint64 *end;                    /* [n_steps] */
  gint64 (*turn)[2];              /* [n_steps] on the sender's and the receiver's end of a step's message */
  gint64 *sent;                   /* [n_steps] */
  gint64 *received;               /* [n_steps] */
  gint64 ready[4];
  double slowness[4]; /* of each device's O; times of ops are the setting's */
  gint64 busy[4][16]; /* ends of channels: [device][0], [device][peer] or [device][2 peer + type] */
} Queued;

static inline void queued_init (Queued *run, const PsProgram *program, const PsCosts *costs,
                                const PsEventsSetting *setting)
{
  *run = (Queued){ .program = program, .costs = costs, .setting = setting };
  for (guint device = 0; device < 4; device++)
    run->slowness[device] = 1;
  run->end = g_new0 (gint64, program->n_steps);
  run->turn = g_malloc0 (program->n_steps * sizeof *run->turn);
  run->sent = g_new0 (gint64, program->n_steps);
  run->received = g_new0 (gint64, program->n_steps);
}

static inline void queued_clear (Queued *run)
{
  g_free (run->end);
  g_free (run->turn);
  g_free (run->sent);
  g_free (run->received);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Queued, queued_clear)

static inline guint queued_end (const Queued *run, guint peer, gboolean receives)
{
  switch (run->setting->comm) {
  case PS_CHANNEL_RANK:
    return 0;
  case PS_CHANNEL_PAIR:
    return peer;
  default:
    return 2 * peer + receives;
  }
}

static inline guint queued_consumer (const Queued *run, PsOp producer)
{
  for (guint i = 0; i < run->program->n_steps; i++) {
    PsOp op = run->program->steps[i].input ? ps_program_producer (run->program, i) : (PsOp){ .kind = PS_OP_O };

    if (op.kind == producer.kind && op.stage == producer.stage && op.microbatch == producer.microbatch)
      return i;
  }
  g_assert_not_reached ();
}

static inline gint64 queued_duration (const Queued *run, guint step)
{
  return run->setting->duration_ns != NULL ? run->setting->duration_ns[step]
                                           : ps_step_duration (run->program, run->costs, step);
}

static inline gint64 queued_transfer (const Queued *run, guint step)
{
  return run->setting->transfer_ns != NULL ? run->setting->transfer_ns[step]
                                           : run->costs->transfer_ns[run->program->steps[step].transfer];
}

static inline gint64 queued_walk (Queued *run, guint device, gint64 *busy)
{
  const PsProgram *program = run->program;
  guint op = program->schedule->first[device];
  gint64 clock = run->ready[device];

  for (guint i = program->first[device]; i < program->first[device + 1]; i++) {
    const PsInstruction *instruction = &program->instructions[i];
    gboolean receives = instruction->type == PS_INSTRUCTION_RECEIVE;

    if (instruction->type == PS_INSTRUCTION_COMPUTE) {
      guint step = program->step_of[op++];

      clock = MAX (clock, run->received[step]) + queued_duration (run, step);
      run->end[step] = clock;
    }
    if (instruction->type != PS_INSTRUCTION_SEND && !receives)
      continue;
    guint step = queued_consumer (run, instruction->op), end = queued_end (run, instruction->peer, receives);
    gint64 over = receives ? run->received[step] : run->sent[step];
    run->turn[step][receives]
        = MAX (run->setting->comm == PS_CHANNEL_LATENCY ? 0 : busy[end], run->setting->blocking ? clock : 0);
    busy[end] = over;
    clock = run->setting->blocking ? MAX (clock, over) : clock;
  }
  return clock;
}

static inline gboolean queued_messages (Queued *run)
{
  const PsProgram *program = run->program;
  gboolean changed = FALSE;

  for (guint i = 0; i < program->n_steps; i++) {
    const PsStep *step = &program->steps[i];

    if (step->input == 0)
      continue;
    gboolean eager = run->costs->message_bytes[step->transfer] > 0
                     && run->costs->message_bytes[step->transfer] <= run->setting->eager_bytes;
    gint64 start = MAX (run->end[step->input - 1], run->turn[i][0]);
    gint64 sent = (eager ? start : MAX (start, run->turn[i][1])) + queued_transfer (run, i);
    gint64 received = eager ? MAX (sent, run->turn[i][1]) : sent;
    changed |= sent != run->sent[i] || received != run->received[i];
    run->sent[i] = sent;
    run->received[i] = received;
  }
  return changed;
}

/* One iteration more. */
static inline void queued_iterate (Queued *run)
{
  const PsPlacement *placement = run->program->schedule->placement;
  gint64 busy[4][16], clock[4], state = 0;

  memset (run->sent, 0, run->program->n_steps * sizeof *run->sent);
  memset (run->received, 0, run->program->n_steps * sizeof *run->received);
  do {
    memcpy (busy, run->busy, sizeof busy);
    for (guint device = 0; device < placement->n_devices; device++)
      clock[device] = queued_walk (run, device, busy[device]);
  } while (queued_messages (run));
  memcpy (run->busy, busy, sizeof busy);
  for (guint device = 0; device < placement->n_devices; device++) {
    state = MAX (state, clock[device]);
    gint64 optimizer_ns = 0;

    run->ready[device] = state;
    for (guint stage = 0; stage < placement->n_stages; stage++)
      if (placement->device[stage] == device)
        optimizer_ns += ps_costs_op (run->costs, PS_OP_O, stage)->duration_ns;
    run->ready[device] += llrint ((double)optimizer_ns * run->slowness[device]);
  }
}
