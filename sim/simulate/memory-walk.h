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
  gint64 end_ns;              /* of that op or pair */
  gint64 give_bytes;          /* the same; less from end_ns on */
  gint64 until_ns;            /* buffers change before next_op up to this moment */
} PsMemoryWalk;

static inline void
ps_memory_walk_load (PsMemoryWalk *walk, const PsOp *ops)
{
  const PsProgram *program = walk->program;
  const PsSimulation *simulation = walk->simulation;
  PsMemoryChange *next = &walk->next_op;

  *next = (PsMemoryChange){ PS_MEMORY_CHANGE_GIVE, 0, G_MAXINT64, 0, NULL };
  walk->until_ns = G_MAXINT64 - 1;
  if (ops == walk->end)
    return;
  guint n = ops->paired ? 2 : 1, last = program->step_of[ops - program->schedule->ops + n - 1];
  const PsOpCost *cost = &walk->costs->op[program->steps[last].cost];
  walk->end_ns = simulation->end_ns[last + 1];
  walk->until_ns = ps_simulation_start (program, walk->costs, simulation, last);
  walk->give_bytes = cost->give_bytes;
  *next = (PsMemoryChange){ PS_MEMORY_CHANGE_TAKE, n, walk->until_ns, cost->take_bytes, ops };
  if (n == 1)
    return;
  cost = &walk->costs->op[program->steps[last - 1].cost];
  next->bytes += cost->take_bytes;
  walk->give_bytes += cost->give_bytes;
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
  ps_memory_walk_load (walk, &schedule->ops[schedule->first[device]]);
}

/* FALSE at the end. At one instant ops give back first, then buffers, then buffers take, then ops. */
static inline gboolean
ps_memory_walk_next (PsMemoryWalk *walk, PsMemoryChange *change)
{
  gboolean gives = walk->give->time_ns <= walk->take->time_ns;
  const PsBufferChange *buffer = gives ? walk->give : walk->take;

  if (buffer->time_ns <= walk->until_ns)
    {
      *change = (PsMemoryChange){ PS_MEMORY_CHANGE_BUFFER, 0, buffer->time_ns, buffer->bytes, NULL };
      walk->give += gives;
      walk->take += !gives;
      return TRUE;
    }
  *change = walk->next_op;
  if (change->ops == NULL)
    return FALSE;
  if (change->kind == PS_MEMORY_CHANGE_GIVE)
    {
      ps_memory_walk_load (walk, change->ops + change->n_ops);
      return TRUE;
    }
  walk->next_op
      = (PsMemoryChange){ PS_MEMORY_CHANGE_GIVE, change->n_ops, walk->end_ns, -walk->give_bytes, change->ops };
  walk->until_ns = walk->end_ns - 1;
  return TRUE;
}

G_END_DECLS

#endif
