/* memory-walk.h - the changes of a device's memory in the order of time: by its ops, by the buffers of its messages and
 * by gathered weights. Peaks, the parts of PsMemory and the memory curve of a timeline all follow from this walk.
 * Private to libpipesim. */
#pragma once

#include <pipesim/simulate.h>

typedef enum {
  PS_MEMORY_CHANGE_BUFFER,
  PS_MEMORY_CHANGE_TAKE, /* an op, or a pair, starts */
  PS_MEMORY_CHANGE_GIVE, /* it ends */
} PsMemoryChangeKind;

typedef struct {
  PsMemoryChangeKind kind;
  guint n_ops; /* 0 for buffers; 2 for a pair */
  gint64 time_ns;
  gint64 bytes; /* more from time_ns on, or less */
  const PsOp *ops;
  PsMemoryPart part; /* of a buffer: buffers, weights, or workspace of the optimizer step before the first op */
} PsMemoryChange;

/* Looks at a change; TRUE ends the walk. */
typedef gboolean (*PsMemoryVisit) (gpointer data, const PsMemoryChange *change);

/* When messages occupy memory at their two ends, and when gathered weights do, in a simulation of a program. All
 * three arguments must outlive it. Free with ps_memory_buffers_free. */
typedef struct _PsMemoryBuffers PsMemoryBuffers;

PsMemoryBuffers *ps_memory_buffers_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation);
void ps_memory_buffers_free (PsMemoryBuffers *buffers);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsMemoryBuffers, ps_memory_buffers_free)

/* Visits the changes of a device. At one instant ops give back first, then buffers, then buffers take, then ops. */
void ps_memory_walk (PsMemoryBuffers *buffers, guint device, PsMemoryVisit visit, gpointer data);
