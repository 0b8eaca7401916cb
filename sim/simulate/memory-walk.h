/* memory-walk.h - the changes of a device's memory in the order of time: by its ops and the buffers of its messages.
 * Peaks, the parts of simulate.h and the memory curve of a timeline all follow from this walk. Private to libpipesim. */
#pragma once

#include "memory-buffers.h"

typedef enum
{
  PS_MEMORY_CHANGE_BUFFER,
  PS_MEMORY_CHANGE_TAKE, /* an op, or a pair, starts */
  PS_MEMORY_CHANGE_GIVE, /* it ends */
} PsMemoryChangeKind;

typedef struct
{
  PsMemoryChangeKind kind;
  guint n_ops; /* 0 for buffers; 2 for a pair */
  gint64 time_ns;
  gint64 bytes; /* more from time_ns on, or less */
  const PsOp *ops;
  PsMemoryPart part; /* of a buffer */
} PsMemoryChange;

/* Looks at a change; TRUE ends the walk. */
typedef gboolean (*PsMemoryVisit) (gpointer data, const PsMemoryChange *change);

/* Visits the changes of a list up to a moment. */
static inline G_ALWAYS_INLINE gboolean
ps_memory_walk_list (const PsBufferChange **next, gint64 moment, PsMemoryVisit visit, gpointer data)
{
  gboolean stop = FALSE;

  for (; !stop && (*next)->moment <= moment; (*next)++)
    stop = visit (data, &(PsMemoryChange){ .kind = PS_MEMORY_CHANGE_BUFFER,
                                           .time_ns = (*next)->moment >> 1,
                                           .bytes = (*next)->bytes,
                                           .part = (PsMemoryPart)(*next)->part });
  return stop;
}

/* Visits all changes of buffers up to an instant, at which steps change them by `bytes`. The takes of its list come
 * last: no level on the way is above those before and after. */
static inline G_ALWAYS_INLINE gboolean
ps_memory_walk_buffers (const PsBufferChange **next, gint64 time_ns, gint64 bytes, PsMemoryVisit visit, gpointer data)
{
  const PsMemoryChange change
      = { .kind = PS_MEMORY_CHANGE_BUFFER, .time_ns = time_ns, .bytes = bytes, .part = PS_MEMORY_BUFFERS };

  return ps_memory_walk_list (next, 2 * time_ns, visit, data) || visit (data, &change)
         || ps_memory_walk_list (next, 2 * time_ns + 1, visit, data);
}

/* An op, or a pair. */
typedef struct
{
  guint n_ops;
  guint last; /* step */
  gint64 start_ns;
  gint64 end_ns;
} PsMemoryOp;

static inline G_ALWAYS_INLINE PsMemoryOp
ps_memory_walk_op (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, const PsOp *ops,
                   guint i)
{
  guint n = program->pair != NULL && ops[i].paired ? 2 : 1, last = program->step_of[i + n - 1];

  return (PsMemoryOp){ n, last, ps_simulation_start (program, costs, simulation, last), simulation->end_ns[last + 1] };
}

/* Ops of no duration come after all changes of buffers at their instant. So the changes of that instant at op i, and at
 * the ops right after it, move to the start of op i; a second time nothing moves. Returns the next op. */
static inline guint
ps_memory_walk_gather (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                       PsStepBuffers *steps, guint i, guint end)
{
  PsMemoryOp op = ps_memory_walk_op (program, costs, simulation, program->schedule->ops, i);
  gint64 time_ns = op.start_ns, *sum = &steps[op.last].at_start;

  while (op.end_ns == time_ns)
    {
      *sum += steps[op.last].at_end;
      steps[op.last].at_end = 0;
      i += op.n_ops;
      if (i == end)
        break;
      op = ps_memory_walk_op (program, costs, simulation, program->schedule->ops, i);
      if (op.start_ns > time_ns)
        break;
      *sum += steps[op.last].at_start;
      steps[op.last].at_start = 0;
    }
  return i;
}

/* Visits the changes of a device. At one instant ops give back first, then buffers, then buffers take, then ops.
 * buffers were made for the same program, costs and simulation. */
static inline G_ALWAYS_INLINE void
ps_memory_walk (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                const PsMemoryBuffers *buffers, guint device, PsMemoryVisit visit, gpointer data)
{
  /* Copies, so that no call lets the loop read pointers again. */
  const PsProgram own_program = *program;
  const PsCosts own_costs = *costs;
  const PsSimulation own_simulation = *simulation;
  const PsSchedule *schedule = program->schedule;
  const PsOp *ops = schedule->ops;
  const PsStepBuffers *steps = buffers->steps;
  const PsBufferChange *next = &buffers->changes[ps_memory_buffers_first (program, device)];
  guint end = schedule->first[device + 1], gathered = 0;
  gint64 now_ns = 0, bytes = 0; /* that the op before changes at its end */
  PsMemoryOp op;

  for (guint i = schedule->first[device]; i < end; i += op.n_ops)
    {
      op = ps_memory_walk_op (&own_program, &own_costs, &own_simulation, ops, i);
      PsMemoryChange take = { .kind = PS_MEMORY_CHANGE_TAKE, op.n_ops, op.start_ns, 0, &ops[i] };
      PsMemoryChange give = { .kind = PS_MEMORY_CHANGE_GIVE, op.n_ops, op.end_ns, 0, &ops[i] };

      for (guint k = 0; k < op.n_ops; k++)
        {
          const PsOpCost *cost = &own_costs.op[own_program.steps[op.last - k].cost];

          take.bytes += cost->take_bytes;
          give.bytes -= cost->give_bytes;
        }
      if (op.start_ns == op.end_ns && i >= gathered)
        gathered = ps_memory_walk_gather (program, costs, simulation, buffers->steps, i, end);
      if (op.start_ns > now_ns)
        {
          if (ps_memory_walk_buffers (&next, now_ns, bytes, visit, data))
            return;
          bytes = 0;
        }
      if (ps_memory_walk_buffers (&next, op.start_ns, bytes + steps[op.last].at_start, visit, data)
          || visit (data, &take) || ps_memory_walk_list (&next, 2 * op.end_ns - 1, visit, data) || visit (data, &give))
        return;
      bytes = steps[op.last].at_end;
      now_ns = op.end_ns;
    }
  if (!ps_memory_walk_buffers (&next, now_ns, bytes, visit, data))
    ps_memory_walk_list (&next, G_MAXINT64 - 1, visit, data);
}
