/* naive-events.h - the definition of simulate.h for fixed durations, evaluated without any order of evaluation: times
 * are raised until nothing changes. Shares no code with the engine. */
#pragma once

#include <pipesim/simulate.h>

typedef struct {
  const PsProgram *program;
  const PsCosts *costs;
  const PsEventsSetting *setting;
  guint n;           /* instructions */
  guint *device;     /* [n] */
  gint *other;       /* [n] the other end of a send or receive; the receive of a wait */
  gint *before;      /* [n] the instruction before it on the same end of a channel; -1: none */
  gint *producer;    /* [n] of a send: the last instruction of the op, or pair, that makes its data */
  gint64 *cost_ns;   /* [n] of an op, of a pair's second op for both; of a transfer */
  gboolean *eager;   /* [n] */
  gint64 *start_ns;  /* [n] of a send: of the transfer */
  gint64 *end_ns;    /* [n] of an op; when a send or receive gives its end of the channel free; 0 of a wait */
  gboolean deadlock; /* times rise without end */
} Naive;

static inline void naive_clear (Naive *naive)
{
  g_free (naive->device);
  g_free (naive->other);
  g_free (naive->before);
  g_free (naive->producer);
  g_free (naive->cost_ns);
  g_free (naive->eager);
  g_free (naive->start_ns);
  g_free (naive->end_ns);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Naive, naive_clear)

static inline gboolean naive_same (PsOp a, PsOp b)
{
  return a.kind == b.kind && a.stage == b.stage && a.microbatch == b.microbatch && a.slice == b.slice;
}

static inline gint naive_find (const Naive *naive, guint type, PsOp op)
{
  for (guint i = 0; i < naive->n; i++)
    if (naive->program->instructions[i].type == type && naive_same (naive->program->instructions[i].op, op))
      return (gint)i;
  return -1;
}

static inline gboolean naive_same_end (PsChannel channel, const PsInstruction *a, const PsInstruction *b)
{
  if (a->type == PS_INSTRUCTION_COMPUTE || a->type == PS_INSTRUCTION_WAIT || channel == PS_CHANNEL_LATENCY)
    return FALSE;
  return channel == PS_CHANNEL_RANK || (a->peer == b->peer && (channel == PS_CHANNEL_PAIR || a->type == b->type));
}

static inline void naive_transfer (Naive *naive, guint i)
{
  const PsInstruction *all = naive->program->instructions;
  PsOp op = all[i].op;
  gsize n_stages = naive->costs->n_stages, index = 1 + op.stage + (op.kind == PS_OP_F ? 0 : n_stages);
  gint64 bytes = naive->costs->message_bytes[index];

  naive->other[i]
      = naive_find (naive, all[i].type == PS_INSTRUCTION_RECEIVE ? PS_INSTRUCTION_SEND : PS_INSTRUCTION_RECEIVE, op);
  naive->cost_ns[i] = naive->costs->transfer_ns[index];
  naive->eager[i] = bytes > 0 && bytes <= naive->setting->eager_bytes;
  for (guint k = naive->program->first[naive->device[i]]; k < i; k++)
    if (naive_same_end (naive->setting->comm, &all[k], &all[i]))
      naive->before[i] = (gint)k;
  naive->producer[i] = naive_find (naive, PS_INSTRUCTION_COMPUTE, op);
  if (naive->producer[i] < 0 && op.kind == PS_OP_B) {
    op.kind = PS_OP_BW;
    naive->producer[i] = naive_find (naive, PS_INSTRUCTION_COMPUTE, op);
  }
  naive->producer[i] += all[naive->producer[i]].op.paired;
}

static inline gint64 naive_op_cost (const Naive *naive, guint i)
{
  const PsInstruction *all = naive->program->instructions;
  PsOp op = all[i].op;
  gboolean second = i > 0 && all[i - 1].type == PS_INSTRUCTION_COMPUTE && all[i - 1].op.paired;
  gint64 cost = ps_costs_op (naive->costs, (PsOpKind)op.kind, op.stage)->duration_ns;

  if (op.paired)
    return 0;
  if (second) {
    PsOp first = all[i - 1].op, forward = first.kind == PS_OP_F ? first : op;

    cost += ps_costs_op (naive->costs, (PsOpKind)first.kind, first.stage)->duration_ns;
    if (naive->costs->stage[forward.stage].pair_ns >= 0)
      cost = naive->costs->stage[forward.stage].pair_ns;
  }
  return cost;
}

static inline void naive_init (Naive *naive)
{
  const PsProgram *program = naive->program;
  guint n_devices = program->schedule->placement->n_devices;

  naive->n = program->first[n_devices];
  naive->device = g_new0 (guint, naive->n);
  naive->other = g_new0 (gint, naive->n);
  naive->before = g_new0 (gint, naive->n);
  naive->producer = g_new0 (gint, naive->n);
  naive->cost_ns = g_new0 (gint64, naive->n);
  naive->eager = g_new0 (gboolean, naive->n);
  naive->start_ns = g_new0 (gint64, naive->n);
  naive->end_ns = g_new0 (gint64, naive->n);
  for (guint device = 0; device < n_devices; device++)
    for (guint i = program->first[device]; i < program->first[device + 1]; i++)
      naive->device[i] = device;
  for (guint i = 0; i < naive->n; i++) {
    naive->before[i] = -1;
    if (program->instructions[i].type == PS_INSTRUCTION_COMPUTE)
      naive->cost_ns[i] = naive_op_cost (naive, i);
    else
      naive_transfer (naive, i);
  }
}

static inline gboolean naive_raise (gint64 *time, gint64 to)
{
  gboolean raised = *time < to;

  *time = MAX (*time, to);
  return raised;
}

static inline gint64 naive_free (const Naive *naive, guint i)
{
  return naive->before[i] < 0 ? 0 : naive->end_ns[naive->before[i]];
}

/* Transfer of the send i; reach is when a blocking device comes to an instruction. */
static inline gboolean naive_send (Naive *naive, guint i, const gint64 *reach)
{
  guint r = (guint)naive->other[i];
  gboolean blocking = naive->setting->blocking, latency = naive->setting->comm == PS_CHANNEL_LATENCY;
  gint64 exists = blocking ? reach[i] : naive->end_ns[naive->producer[i]], start = MAX (exists, naive_free (naive, i));
  gint64 turn = MAX (naive_free (naive, r), blocking ? reach[r] : 0);

  if (!naive->eager[i] && (!latency || blocking))
    start = MAX (start, turn);
  gboolean changed = naive_raise (&naive->start_ns[i], start);
  changed |= naive_raise (&naive->end_ns[i], start + naive->cost_ns[i]);
  return naive_raise (&naive->end_ns[r], MAX (naive->end_ns[i], turn)) || changed;
}

static inline gboolean naive_round (Naive *naive, gint64 *reach)
{
  const PsProgram *program = naive->program;
  gboolean changed = FALSE;

  for (guint i = 0; i < naive->n; i++) {
    guint type = program->instructions[i].type;
    gint64 clock = i == program->first[naive->device[i]] ? 0 : reach[i];

    if (type == PS_INSTRUCTION_SEND)
      changed |= naive_send (naive, i, reach);
    if (type == PS_INSTRUCTION_WAIT)
      clock = MAX (clock, naive->end_ns[naive->other[i]]);
    if (type == PS_INSTRUCTION_COMPUTE) {
      changed |= naive_raise (&naive->start_ns[i], clock);
      clock += naive->cost_ns[i];
      changed |= naive_raise (&naive->end_ns[i], clock);
    } else if (naive->setting->blocking && type != PS_INSTRUCTION_WAIT)
      clock = MAX (clock, naive->end_ns[i]);
    if (i + 1 < program->first[naive->device[i] + 1])
      changed |= naive_raise (&reach[i + 1], clock);
  }
  return changed;
}

/* Without a circle a time is a sum over a path, and a path has no more instructions than there are: as many rounds do.
 */
static inline void naive_run (Naive *naive)
{
  guint rounds = 0;

  naive_init (naive);
  g_autofree gint64 *reach = g_new0 (gint64, naive->n + 1);
  while (naive_round (naive, reach))
    if (rounds++ > 2 * naive->n) {
      naive->deadlock = TRUE;
      return;
    }
}
