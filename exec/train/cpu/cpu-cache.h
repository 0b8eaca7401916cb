/* cpu-cache.h - emptying a core's caches. */
#pragma once

#include <glib.h>

/* A buffer of twice the largest cache: writing it pushes everything else out. */
typedef struct {
  guint8 *buffer; /* NULL until first used */
  gsize bytes;
} PsCpuFlush;

/* Writes the whole buffer on the calling thread's core. FALSE: there is no memory for it. */
gboolean ps_cpu_flush (PsCpuFlush *flush);
void ps_cpu_flush_clear (PsCpuFlush *flush);
