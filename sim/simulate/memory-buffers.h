/* memory-buffers.h - when messages occupy memory at their two ends, and when gathered weights and gradients on their
 * way do (gathers.h). Private to libpipesim. */
#pragma once

#include <pipesim/memory.h>

typedef struct
{
  gint64 time_ns;
  __extension__ gint64 bytes : 60; /* more from time_ns on, or less */
  __extension__ guint64 part : 4;  /* PsMemoryPart: buffers, weights or gradients */
} PsBufferChange;

/* The lists of each device end with a change at G_MAXINT64. */
typedef struct
{
  PsBufferChange *gives; /* by device, then time; takes follow in the same block */
  PsBufferChange *takes; /* the same */
} PsMemoryBuffers;

/* Where a device's changes begin in both lists. */
static inline guint
ps_memory_buffers_first (const PsProgram *program, guint device)
{
  return program->first[device] + 2 * device + 1;
}

/* gives: NULL, or the block of an earlier list of the same program, which is filled again. */
void ps_memory_buffers_init (PsMemoryBuffers *buffers, const PsProgram *program, const PsCosts *costs,
                             const PsSimulation *simulation);
void ps_memory_buffers_clear (PsMemoryBuffers *buffers);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsMemoryBuffers, ps_memory_buffers_clear)
