/* cpu-cache.h - emptying a core's caches. */
#ifndef PIPESIM_CPU_CACHE_H
#define PIPESIM_CPU_CACHE_H

#include <glib.h>

/* What pushes everything else out when it is written through: twice the largest cache. */
typedef struct
{
  guint8 *buffer; /* NULL until first used */
  gsize bytes;
} PsCpuFlush;

/* Writes the buffer through, on the calling thread's core. FALSE: no memory for it. */
gboolean ps_cpu_flush (PsCpuFlush *flush);
void ps_cpu_flush_clear (PsCpuFlush *flush);

#endif
