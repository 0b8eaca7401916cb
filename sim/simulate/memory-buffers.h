/* memory-buffers.h - when messages occupy memory at their two ends. Private to libpipesim. */
#ifndef PIPESIM_MEMORY_BUFFERS_H
#define PIPESIM_MEMORY_BUFFERS_H

#include <pipesim/memory.h>

G_BEGIN_DECLS

typedef struct
{
  gint64 time_ns;
  gint64 bytes; /* more from time_ns on, or less */
} PsBufferChange;

typedef struct
{
  guint *first;            /* [n_devices + 1] into changes */
  PsBufferChange *changes; /* by device, then time; at one time what is given back comes first */
} PsMemoryBuffers;

/* FALSE where no message has a known size: then no device has changes. */
gboolean ps_memory_buffers_init (PsMemoryBuffers *buffers, const PsProgram *program, const PsCosts *costs,
                                 const PsSimulation *simulation);
void ps_memory_buffers_clear (PsMemoryBuffers *buffers);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsMemoryBuffers, ps_memory_buffers_clear)

G_END_DECLS

#endif
