/* memory-walk.h - the changes of a device's memory in the order of time: by its ops and the buffers of its messages.
 * Peaks, the parts of memory.h and the memory curve of a timeline all follow from this walk. Private to libpipesim. */
#ifndef PIPESIM_MEMORY_WALK_H
#define PIPESIM_MEMORY_WALK_H

#include "memory-buffers.h"

G_BEGIN_DECLS

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
} PsMemoryChange;

typedef struct
{
  const PsProgram *program;
  const PsCosts *costs;
  const PsSimulation *simulation;
  const PsBufferChange *give; /* next of the device */
  const PsBufferChange *take; /* the same */
  const PsOp *end;            /* of the device's order */
  PsMemoryChange next_op;     /* take or give of its next op or pair */
} PsMemoryWalk;

static inline void
ps_memory_walk_take (PsMemoryWalk *walk, const PsOp *ops)
{
  if (ops == walk->end)
    {
      walk->next_op = (PsMemoryChange){ PS_MEMORY_CHANGE_GIVE, 0, G_MAXINT64, 0, NULL };
      return;
    }
  const PsProgram *program = walk->program;
  guint n = ops->paired ? 2 : 1, last = program->step_of[ops - program->schedule->ops + n - 1];
  gint64 bytes = 0;
  for (guint i = 0; i < n; i++)
    bytes += ps_costs_op (walk->costs, (PsOpKind)ops[i].kind, ops[i].stage)->take_bytes;
  walk->next_op = (PsMemoryChange){ PS_MEMORY_CHANGE_TAKE, n,
                                    ps_simulation_start (program, walk->costs, walk->simulation, last), bytes, ops };
}

static inline void
ps_memory_walk_give (PsMemoryWalk *walk)
{
  const PsProgram *program = walk->program;
  const PsOp *ops = walk->next_op.ops;
  guint n = walk->next_op.n_ops, last = program->step_of[ops - program->schedule->ops + n - 1];
  gint64 bytes = 0;

  for (guint i = 0; i < n; i++)
    bytes -= ps_costs_op (walk->costs, (PsOpKind)ops[i].kind, ops[i].stage)->give_bytes;
  walk->next_op = (PsMemoryChange){ PS_MEMORY_CHANGE_GIVE, n, walk->simulation->end_ns[last + 1], bytes, ops };
}

/* buffers were made for the same program, costs and simulation. All must outlive the walk. */
static inline void
ps_memory_walk_init (PsMemoryWalk *walk, const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                     const PsMemoryBuffers *buffers, guint device)
{
  const PsSchedule *schedule = program->schedule;

  *walk = (PsMemoryWalk){ .program = program,
                          .costs = costs,
                          .simulation = simulation,
                          .give = &buffers->gives[ps_memory_buffers_first (program, device)],
                          .take = &buffers->takes[ps_memory_buffers_first (program, device)],
                          .end = &schedule->ops[schedule->first[device + 1]] };
  ps_memory_walk_take (walk, &schedule->ops[schedule->first[device]]);
}

/* FALSE at the end. At one instant ops give back first, then buffers, then buffers take, then ops. */
static inline gboolean
ps_memory_walk_next (PsMemoryWalk *walk, PsMemoryChange *change)
{
  gboolean gives = walk->give->time_ns <= walk->take->time_ns;
  const PsBufferChange *buffer = gives ? walk->give : walk->take;

  *change = walk->next_op;
  if (buffer->time_ns < change->time_ns
      || (buffer->time_ns == change->time_ns && change->kind == PS_MEMORY_CHANGE_TAKE))
    {
      *change = (PsMemoryChange){ PS_MEMORY_CHANGE_BUFFER, 0, buffer->time_ns, buffer->bytes, NULL };
      walk->give += gives;
      walk->take += !gives;
      return TRUE;
    }
  if (change->ops == NULL)
    return FALSE;
  if (change->kind == PS_MEMORY_CHANGE_TAKE)
    ps_memory_walk_give (walk);
  else
    ps_memory_walk_take (walk, change->ops + change->n_ops);
  return TRUE;
}

G_END_DECLS

#endif
