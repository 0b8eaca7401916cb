/* cluster.c - reads cluster descriptions and models the time of a transfer. */
#include <pipesim/cluster.h>

#include "ini.h"

#include <math.h>

#define MAX_RATE 1e18 /* operations or bytes per second */

static const char *const known_keys[]
    = { "name",           "nodes",           "devices_per_node",  "memory", "peak_flops", "efficiency", "link_latency",
        "link_bandwidth", "network_latency", "network_bandwidth", NULL };

void
ps_cluster_free (PsCluster *cluster)
{
  if (!cluster)
    return;
  g_free (cluster->name);
  g_free (cluster);
}

static void
read_keys (PsIni *ini, PsCluster *cluster)
{
  cluster->name = ps_ini_has (ini, "name") ? ps_ini_text (ini, "name") : g_strdup (ps_ini_name (ini));
  cluster->nodes = (guint)ps_ini_integer (ini, "nodes", 1, PS_MAX_DEVICES);
  cluster->devices_per_node = (guint)ps_ini_integer (ini, "devices_per_node", 1, PS_MAX_DEVICES);
  cluster->memory_bytes = ps_ini_has (ini, "memory") ? ps_ini_size (ini, "memory") : 0;
  cluster->peak_flops = ps_ini_real (ini, "peak_flops", 1, MAX_RATE);
  cluster->efficiency = ps_ini_real (ini, "efficiency", 0.001, 1);
  cluster->link_latency_ns = ps_ini_time (ini, "link_latency");
  cluster->link_bandwidth = ps_ini_real (ini, "link_bandwidth", 1, MAX_RATE);
  if (cluster->nodes == 1 && !ps_ini_has (ini, "network_latency") && !ps_ini_has (ini, "network_bandwidth"))
    return; /* there is no network to describe */
  cluster->network_latency_ns = ps_ini_time (ini, "network_latency");
  cluster->network_bandwidth = ps_ini_real (ini, "network_bandwidth", 1, MAX_RATE);
}

PsCluster *
ps_cluster_load (const char *path, GError **error)
{
  g_autoptr (PsIni) ini = ps_ini_load (path, "clusters", "cluster", known_keys, error);
  if (!ini)
    return NULL;
  g_autoptr (PsCluster) cluster = g_new0 (PsCluster, 1);
  read_keys (ini, cluster);
  if (!ps_ini_finish (ini, error))
    return NULL;
  if (cluster->nodes * cluster->devices_per_node > PS_MAX_DEVICES)
    ps_ini_fail (ini, "nodes", "%u nodes of %u devices make more than %d devices", cluster->nodes,
                 cluster->devices_per_node, PS_MAX_DEVICES);
  return ps_ini_finish (ini, error) ? g_steal_pointer (&cluster) : NULL;
}

gint64
ps_cluster_transfer_ns (const PsCluster *cluster, guint a, guint b, gint64 bytes)
{
  if (a == b)
    return 0;
  /* Where no network is described every device is taken to sit in the one node. */
  gboolean network = a / cluster->devices_per_node != b / cluster->devices_per_node && cluster->network_bandwidth > 0;
  double bandwidth = network ? cluster->network_bandwidth : cluster->link_bandwidth;
  double ns = (double)bytes * 1e9 / bandwidth;
  gint64 latency = network ? cluster->network_latency_ns : cluster->link_latency_ns;
  return latency + (ns < (double)PS_MAX_TIME_NS ? llrint (ns) : PS_MAX_TIME_NS);
}
