/* cluster.h - what it is trained on, read from data/clusters/<name>.ini. */
#ifndef PIPESIM_CLUSTER_H
#define PIPESIM_CLUSTER_H

#include <pipesim/base.h>

G_BEGIN_DECLS

typedef struct
{
  char *name;
  guint nodes;
  guint devices_per_node;
  gint64 memory_bytes;       /* per device; 0 = not known */
  double peak_flops;         /* per device and second, at the precision of training */
  double efficiency;         /* part of peak_flops that F, B and W reach, in (0, 1] */
  gint64 link_latency_ns;    /* between devices of one node */
  double link_bandwidth;     /* bytes per second, one direction, as one transfer sees it */
  gint64 network_latency_ns; /* between nodes */
  double network_bandwidth;  /* bytes per second */
} PsCluster;

/* Reads a cluster description from a path or, by bare name, from those shipped. Unknown and missing keys and absurd
 * values are errors "FILE: [cluster] key: ...". Errors: PS_ERROR_IO, PS_ERROR_INPUT. Free with ps_cluster_free. */
PsCluster *ps_cluster_load (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_cluster_free (PsCluster *cluster);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCluster, ps_cluster_free)

/* Modelled time of one transfer of `bytes` between pipeline devices a and b, devices numbered node by node:
 * latency + bytes / bandwidth of the link they share. 0 when a == b. */
gint64 ps_cluster_transfer_ns (const PsCluster *cluster, guint a, guint b, gint64 bytes);

G_END_DECLS

#endif
