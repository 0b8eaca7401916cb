/* cores.c - the cores that a process may use. */
#include <pipesim/device.h>

#include <hwloc.h>

static guint
count_cores (void)
{
  hwloc_topology_t topology;
  int n = 0;

  if (hwloc_topology_init (&topology) != 0)
    return 0;
  if (hwloc_topology_load (topology) == 0)
    n = hwloc_get_nbobjs_by_type (topology, HWLOC_OBJ_CORE);
  hwloc_topology_destroy (topology);
  return (guint)MAX (n, 0);
}

/* Counted once: hwloc reads some hundred files, and a calibration asks for each device that it opens. */
guint
ps_count_cores (void)
{
  static gsize counted; /* cores and 1 */

  if (g_once_init_enter (&counted))
    g_once_init_leave (&counted, (gsize)count_cores () + 1);
  return (guint)(counted - 1);
}
