/* places.c - asks hwloc for the cores of the host, and for the way from the host down to a core or a GPU. */
#include "places.h"

#include <pipesim/device.h>

#include <string.h>
#include <sys/utsname.h>

hwloc_obj_t ps_find_core (hwloc_topology_t topology, int n)
{
  const int n_cores = hwloc_get_nbobjs_by_type (topology, HWLOC_OBJ_CORE);

  if (n_cores <= 0)
    return hwloc_get_obj_by_type (topology, HWLOC_OBJ_PU, (unsigned)n);

  const hwloc_obj_t core = hwloc_get_obj_by_type (topology, HWLOC_OBJ_CORE, (unsigned)(n % n_cores));
  return hwloc_get_obj_inside_cpuset_by_type (topology, core->cpuset, HWLOC_OBJ_PU, (unsigned)(n / n_cores));
}

/* Appends the levels from the machine, which is left out, to the object: "/Package:0/L3:1/Core:4". */
static void append_way (GString *way, hwloc_obj_t object)
{
  char kind[64];

  if (object == NULL || object->type == HWLOC_OBJ_MACHINE)
    return;
  append_way (way, object->parent);
  hwloc_obj_type_snprintf (kind, sizeof kind, object, 0);
  if (object->type != HWLOC_OBJ_PCI_DEVICE)
    g_string_append_printf (way, "/%s:%u", kind, object->logical_index);
}

/* The host's name, with nothing in it that stands between levels, devices or links, and the way to a GPU, or to a core
 * where bus_id is NULL (-1: none). What drivers say of devices is not asked for: hwloc would start each of their
 * libraries. */
static GString *find_way (int core, const char *bus_id)
{
  const enum hwloc_type_filter_e pci = bus_id != NULL ? HWLOC_TYPE_FILTER_KEEP_ALL : HWLOC_TYPE_FILTER_KEEP_NONE;
  struct utsname system = { 0 };
  hwloc_topology_t topology;

  uname (&system);
  g_autofree char *host = g_strdelimit (g_utf8_make_valid (system.nodename, -1), "/;+", '_');
  GString *way = g_string_new (host);
  if ((core < 0 && bus_id == NULL) || hwloc_topology_init (&topology) != 0)
    return way;
  hwloc_topology_set_type_filter (topology, HWLOC_OBJ_BRIDGE, pci);
  hwloc_topology_set_type_filter (topology, HWLOC_OBJ_PCI_DEVICE, pci);
  if (hwloc_topology_load (topology) == 0)
    append_way (way,
                bus_id != NULL ? hwloc_get_pcidev_by_busidstring (topology, bus_id) : ps_find_core (topology, core));
  hwloc_topology_destroy (topology);
  return way;
}

char *ps_place_of_core (int core)
{
  return g_string_free (find_way (core, NULL), FALSE);
}

char *ps_place_of_gpu (const char *bus_id, const char *links)
{
  g_autofree char *id = g_ascii_strdown (bus_id, -1);
  GString *way = find_way (-1, id);

  g_string_append_printf (way, "/GPU:%s%s%s", id, *links ? "+" : "", links);
  return g_string_free (way, FALSE);
}

/* Counted once: hwloc reads some hundred files, and a calibration asks for each device that it opens. */
guint ps_count_cores (void)
{
  static gsize counted; /* cores and 1 */

  if (g_once_init_enter (&counted)) {
    hwloc_topology_t topology;
    int n = 0;

    if (hwloc_topology_init (&topology) == 0) {
      if (hwloc_topology_load (topology) == 0)
        n = hwloc_get_nbobjs_by_type (topology, HWLOC_OBJ_CORE);
      hwloc_topology_destroy (topology);
    }
    g_once_init_leave (&counted, (gsize)MAX (n, 0) + 1);
  }
  return (guint)(counted - 1);
}
