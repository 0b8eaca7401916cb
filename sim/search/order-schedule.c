/* order-schedule.c - an order from a schedule, and a schedule from an order. */
#include "order-private.h"

/* The first half of the microbatches uses copy 0, the second copy 1. Backwards take the slices in reverse. */
static PsOp
op_of (const PsOrder *order, guint op)
{
  const PsProblem *problem = order->problem;
  guint chain = chain_of (problem, op), stage = chain / N_KINDS, n = problem->n_copy_stages;
  guint place = microbatch_of (problem, op) + stage / n * problem->m, kind = chain % N_KINDS;

  return (PsOp){ .kind = (guint8)kind,
                 .slice = (guint8)((kind == PS_OP_F ? place : mirrored (problem, place)) % problem->n_slices),
                 .stage = (guint16)(stage % n),
                 .microbatch = place / problem->n_slices & G_MAXINT32 };
}

static void
add_node (const PsOrder *order, guint op, PsScheduleBuilder *builder)
{
  guint partner = partner_of (order, op, TRUE);
  PsOp first = op_of (order, op);

  if (partner != NO_OP)
    first.kind = PS_OP_BW;
  if (partner != NO_OP && partner != op)
    {
      PsOp forward = op_of (order, partner);

      forward.paired = TRUE;
      ps_schedule_builder_add_op (builder, forward);
    }
  ps_schedule_builder_add_op (builder, first);
}

PsSchedule *
ps_order_to_schedule (const PsOrder *order, const PsPlacement *placement)
{
  const PsProblem *problem = order->problem;
  guint m = problem->m * problem->n_copies / problem->n_slices;
  PsScheduleBuilder *builder = ps_schedule_builder_new ("search", ps_placement_copy (placement), m);
  PsSchedule *schedule;

  for (guint d = 0; d < problem->n_devices; d++)
    {
      for (guint i = problem->first[d]; i < order->stop[d]; i++)
        add_node (order, order->sequence[i], builder);
      ps_schedule_builder_next_device (builder);
    }
  schedule = ps_schedule_builder_end (builder);
  schedule->n_slices = problem->n_slices;
  if (problem->n_copies > 1)
    schedule->copy = g_new (guint8, m);
  for (guint i = 0; i < m && schedule->copy != NULL; i++)
    schedule->copy[i] = i >= m / 2;
  return schedule;
}

/* A schedule being read. */
typedef struct
{
  PsOrder *order;
  const PsSchedule *schedule;
  guint *next; /* [chains] */
} Reader;

/* Takes the next op of a kind and stage; NO_OP: there is none. Every order has each chain in order, so the n-th op of a
 * chain is that of microbatch n. */
static guint
next_op (Reader *reader, PsOp op, PsOpKind kind)
{
  const PsProblem *problem = reader->order->problem;
  guint copy = reader->schedule->copy != NULL ? reader->schedule->copy[op.microbatch] : 0;
  guint chain = (copy * problem->n_copy_stages + op.stage) * N_KINDS + kind;

  return reader->next[chain] < problem->m ? chain * problem->m + reader->next[chain]++ : NO_OP;
}

/* Adds a backward as B and W, as BW, or as a pair with F f (NO_OP: none). A BW that would complete another microbatch's
 * W, because older ones wait, is read as B and W. */
static gboolean
add_backward (Reader *reader, PsOp op, guint f)
{
  PsOrder *order = reader->order;
  guint none = order->problem->n_ops, b = next_op (reader, op, PS_OP_B), w = next_op (reader, op, PS_OP_W);
  gboolean joins = order->problem->joins && w == b + order->problem->m;
  gboolean pairs = joins && f != NO_OP && order->problem->pair[chain_of (order->problem, f) / N_KINDS] >= 0;

  if (b == NO_OP || w == NO_OP)
    return FALSE;
  if (f != NO_OP && !pairs)
    ps_order_add (order, f, none);
  if (pairs || (joins && order->problem->fuses[chain_of (order->problem, b) / N_KINDS]))
    {
      ps_order_add (order, b, pairs ? f : b);
      return TRUE;
    }
  ps_order_add (order, b, none);
  ps_order_add (order, w, none);
  return TRUE;
}

static gboolean
add_op (Reader *reader, PsOp op)
{
  guint single;

  if (op.kind == PS_OP_BW)
    return add_backward (reader, op, NO_OP);
  single = op.kind < N_KINDS ? next_op (reader, op, (PsOpKind)op.kind) : NO_OP;
  if (single != NO_OP)
    ps_order_add (reader->order, single, reader->order->problem->n_ops);
  return single != NO_OP;
}

/* Adds the two ops of a pair, in either order. A pair of F and B without W is read as two single ops. */
static gboolean
add_pair (Reader *reader, PsOp a, PsOp b)
{
  PsOp forward = a.kind == PS_OP_F ? a : b, backward = a.kind == PS_OP_F ? b : a;
  guint f;

  if (backward.kind != PS_OP_BW)
    return add_op (reader, a) && add_op (reader, b);
  f = next_op (reader, forward, PS_OP_F);
  return f != NO_OP && add_backward (reader, backward, f);
}

static gboolean
read_device (Reader *reader, guint device)
{
  const PsSchedule *schedule = reader->schedule;

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
    if (schedule->ops[i].paired)
      {
        if (!add_pair (reader, schedule->ops[i], schedule->ops[i + 1]))
          return FALSE;
        i++;
      }
    else if (!add_op (reader, schedule->ops[i]))
      return FALSE;
  return TRUE;
}

gboolean
ps_order_from_schedule (PsOrder *order, const PsSchedule *schedule)
{
  const PsProblem *problem = order->problem;
  g_autofree guint *next = g_new0 (guint, (gsize)problem->n_stages * N_KINDS);
  Reader reader = { order, schedule, next };

  if (schedule->n_microbatches * schedule->n_slices != problem->m * problem->n_copies
      || schedule->n_slices != problem->n_slices || (schedule->copy != NULL) != (problem->n_copies > 1)
      || schedule->placement->n_stages != problem->n_copy_stages)
    return FALSE;
  ps_order_clear (order);
  for (guint d = 0; d < problem->n_devices; d++)
    if (!read_device (&reader, d))
      return FALSE;
  return TRUE;
}
