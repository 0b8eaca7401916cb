/* memory-buffers.h - when messages occupy memory at their two ends, and when gathered weights do (gathers.h). Private
 * to libpipesim. */
#pragma once

#include <pipesim/simulate.h>

typedef struct
{
  gint64 moment;                   /* twice the time, and 1 more for a take: at one instant gives come first */
  __extension__ gint64 bytes : 60; /* more from then on, or less */
  __extension__ guint64 part : 4;  /* PsMemoryPart: buffers or weights */
} PsBufferChange;

/* Bytes that messages take (or give back: negative) where a step starts or ends. Of a pair its second step counts. */
typedef struct
{
  gint64 at_start;
  gint64 at_end;
} PsStepBuffers;

/* A sender takes at its producer's end; a receiver takes at the end of the op after which it comes to the receive, and
 * gives back at its consumer. All else is in a list for each device, which ends with a change at G_MAXINT64. */
typedef struct
{
  PsStepBuffers *steps;    /* [n_steps]; the lists follow in the same block */
  PsBufferChange *changes; /* by device, then moment */
} PsMemoryBuffers;

/* Where the list of a device begins. */
static inline guint
ps_memory_buffers_first (const PsProgram *program, guint device)
{
  return program->first[device] + program->schedule->first[device] + 2 * device + 1;
}

/* steps: NULL, or the block of an earlier run of the same program, which is filled again. */
void ps_memory_buffers_init (PsMemoryBuffers *buffers, const PsProgram *program, const PsCosts *costs,
                             const PsSimulation *simulation);
void ps_memory_buffers_clear (PsMemoryBuffers *buffers);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsMemoryBuffers, ps_memory_buffers_clear)
