/* memory-walk.h - the changes of a device's memory in the order of time: by its ops and the buffers of its messages.
 * Peaks, the parts of memory.h and the memory curve of a timeline all follow from this walk. Private to libpipesim. */
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

/* The next changes of a device's buffers. */
typedef struct
{
  const PsBufferChange *give;
  const PsBufferChange *take;
} PsBufferCursor;

/* Visits the changes of one list up to a moment. */
static inline G_ALWAYS_INLINE gboolean
ps_memory_walk_list (const PsBufferChange **next, gint64 until_ns, PsMemoryVisit visit, gpointer data)
{
  gboolean stop = FALSE;

  for (; !stop && (*next)->time_ns <= until_ns; (*next)++)
    stop = visit (data, &(PsMemoryChange){ .kind = PS_MEMORY_CHANGE_BUFFER,
                                           .time_ns = (*next)->time_ns,
                                           .bytes = (*next)->bytes,
                                           .part = (PsMemoryPart)(*next)->part });
  return stop;
}

/* Visits all changes of buffers up to a moment. At one instant, buffers are given back before others are taken. */
static inline G_ALWAYS_INLINE gboolean
ps_memory_walk_buffers (PsBufferCursor *cursor, gint64 until_ns, PsMemoryVisit visit, gpointer data)
{
  while (cursor->take->time_ns <= until_ns)
    if (ps_memory_walk_list (&cursor->give, cursor->take->time_ns, visit, data)
        || ps_memory_walk_list (&cursor->take, cursor->take->time_ns, visit, data))
      return TRUE;
  return ps_memory_walk_list (&cursor->give, until_ns, visit, data);
}

/* Visits the changes of a device. At one instant ops give back first, then buffers, then buffers take, then ops.
 * buffers were made for the same program, costs and simulation. */
static inline G_ALWAYS_INLINE void
ps_memory_walk (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                const PsMemoryBuffers *buffers, guint device, PsMemoryVisit visit, gpointer data)
{
  const PsSchedule *schedule = program->schedule;
  guint first = ps_memory_buffers_first (program, device);
  PsBufferCursor cursor = { &buffers->gives[first], &buffers->takes[first] };
  guint n;

  for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i += n)
    {
      n = schedule->ops[i].paired ? 2 : 1;
      guint last = program->step_of[i + n - 1];
      gint64 start_ns = ps_simulation_start (program, costs, simulation, last), end_ns = simulation->end_ns[last + 1];
      PsMemoryChange take = { .kind = PS_MEMORY_CHANGE_TAKE, n, start_ns, 0, &schedule->ops[i] };
      PsMemoryChange give = { .kind = PS_MEMORY_CHANGE_GIVE, n, end_ns, 0, &schedule->ops[i] };

      for (guint k = 0; k < n; k++)
        {
          const PsOpCost *cost = &costs->op[program->steps[last - k].cost];

          take.bytes += cost->take_bytes;
          give.bytes -= cost->give_bytes;
        }
      if (ps_memory_walk_buffers (&cursor, start_ns, visit, data) || visit (data, &take)
          || ps_memory_walk_buffers (&cursor, end_ns - 1, visit, data) || visit (data, &give))
        return;
    }
  ps_memory_walk_buffers (&cursor, G_MAXINT64 - 1, visit, data);
}
