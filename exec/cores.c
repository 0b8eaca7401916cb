/* cores.c - the cores that a process may use. */
#include <pipesim/device.h>

#include <hwloc.h>

guint
ps_count_cores (void)
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
