/* large.h - memory for arrays that are walked in many places at once. Private to libpipesim. */
#pragma once

#include <glib.h>
#include <sys/mman.h>

/* From this size on the C library maps every block for itself. */
#define PS_LARGE_BYTES ((gsize)32 << 20)

/* Asks for large pages below a large block of g_malloc, before it is first written, and returns it. A walk over a
 * thousand devices is in more small pages at a time than the processor keeps addresses of. */
static inline gpointer ps_large (gpointer block, gsize n_bytes)
{
#ifdef MADV_HUGEPAGE
  const gsize page = 4096;

  if (n_bytes > PS_LARGE_BYTES)
    madvise ((gpointer)((gsize)block & ~(page - 1)), n_bytes, MADV_HUGEPAGE);
#endif
  return block;
}
