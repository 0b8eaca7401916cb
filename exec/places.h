/* places.h - the places of devices in this machine's topology, as pipesim/costdb.h writes them. */
#pragma once

#include <hwloc.h>

#include <glib.h>

/* Core number n. Numbers beyond the last core are the second hardware threads of the first core, the second core and
 * so on. NULL: there is no core n. */
hwloc_obj_t ps_find_core (hwloc_topology_t topology, int n);

/* Of a thread that is bound to that core; -1: the system places it. Free with g_free. */
char *ps_place_of_core (int core);

/* Of the GPU with that PCI bus id, whose direct links to others are `links` ("0000:3b:00.0*4,0000:5e:00.0*2"); "":
 * there are none, or they are not known. Where hwloc does not see the GPU, it stands right below the host. */
char *ps_place_of_gpu (const char *bus_id, const char *links);
