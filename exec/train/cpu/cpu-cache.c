/* cpu-cache.c - empties a core's caches by filling them with other data. */
#include "cpu-cache.h"

#include <hwloc.h>
#include <string.h>

/* The size where the system does not tell. */
#define LIKELY_BYTES ((gsize)64 << 20)

static gsize largest_cache (void)
{
  static const hwloc_obj_type_t types[] = { HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE };
  hwloc_topology_t topology;
  gsize bytes = 0;

  if (hwloc_topology_init (&topology) != 0)
    return LIKELY_BYTES;
  if (hwloc_topology_load (topology) == 0)
    for (guint i = 0; i < G_N_ELEMENTS (types); i++) {
      const hwloc_obj_t cache = hwloc_get_obj_by_type (topology, types[i], 0);

      if (cache != NULL)
        bytes = MAX (bytes, (gsize)cache->attr->cache.size);
    }
  hwloc_topology_destroy (topology);
  return bytes > 0 ? bytes : LIKELY_BYTES;
}

gboolean ps_cpu_flush (PsCpuFlush *flush)
{
  if (flush->buffer == NULL) {
    flush->bytes = 2 * largest_cache ();
    flush->buffer = g_try_malloc0 (flush->bytes);
  }
  if (flush->buffer == NULL)
    return FALSE;
  /* Writes other bytes each time: the compiler might see that equal bytes change nothing. */
  memset (flush->buffer, flush->buffer[0] + 1, flush->bytes);
  return TRUE;
}

void ps_cpu_flush_clear (PsCpuFlush *flush)
{
  g_clear_pointer (&flush->buffer, g_free);
}
