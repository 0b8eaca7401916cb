/* cluster.c - reads cluster descriptions and models the time of a transfer. */
#include <pipesim/cluster.h>

#include "ini.h"

#include <math.h>
#include <string.h>

#define MAX_FLOPS 1e18 /* operations per second */

static const char *const known_keys[] = { "name",
                                          "nodes",
                                          "devices_per_node",
                                          "memory",
                                          "peak_flops",
                                          "efficiency",
                                          "memory_bandwidth",
                                          "link_latency",
                                          "link_bandwidth",
                                          "network_latency",
                                          "network_bandwidth",
                                          "host_bandwidth",
                                          "link_table",
                                          "network_table",
                                          "link",
                                          "nic",
                                          "peak_flops_fp8",
                                          "peak_flops_fp4",
                                          "multiprocessors",
                                          "scores_efficiency",
                                          "attention_efficiency",
                                          "memory_efficiency",
                                          "unaligned",
                                          "unaligned_scores",
                                          "launch_time",
                                          "kernel_time",
                                          "collective_time",
                                          "step_time",
                                          "optimizer_passes",
                                          "tensor_overlap",
                                          "product_depth",
                                          "split_ring_bandwidth",
                                          NULL };

static const char *const network_keys[] = { "nic", "network_table", "split_ring_bandwidth" };

PsCluster *
ps_cluster_copy (const PsCluster *cluster)
{
  PsCluster *copy = g_memdup2 (cluster, sizeof *cluster);

  copy->name = g_strdup (cluster->name);
  copy->link_points = g_memdup2 (cluster->link_points, cluster->n_link_points * sizeof *cluster->link_points);
  copy->network_points
      = g_memdup2 (cluster->network_points, cluster->n_network_points * sizeof *cluster->network_points);
  return copy;
}

void
ps_cluster_free (PsCluster *cluster)
{
  if (cluster == NULL)
    return;
  g_free (cluster->name);
  g_free (cluster->link_points);
  g_free (cluster->network_points);
  g_free (cluster);
}

/* "64KiB:4GB/s": bandwidth at a size. Each point must come later than the one before it, in size and in time. */
static gboolean
parse_point (PsIni *ini, const char *key, const char *text, double limit, const PsLinkPoint *before, PsLinkPoint *point)
{
  const char *colon = strchr (text, ':');
  g_autofree char *size = g_strndup (text, colon != NULL ? (gsize)(colon - text) : strlen (text));
  gint64 rate = 0;
  gboolean read = colon != NULL && ps_parse_size (key, size, &point->bytes, NULL) && point->bytes > 0
                  && ps_parse_rate (key, colon + 1, &rate, NULL);

  point->bandwidth = (double)rate;
  if (!read)
    ps_ini_fail (ini, key, "'%s' is no SIZE:BANDWIDTH, such as 64KiB:4GB/s", text);
  else if (point->bandwidth > limit)
    ps_ini_fail (ini, key, "'%s' is more than the full bandwidth, %g", text, limit);
  else if (before != NULL && point->bytes <= before->bytes)
    ps_ini_fail (ini, key, "'%s' is no larger than the message before it", text);
  else if (before != NULL && (double)point->bytes / point->bandwidth <= (double)before->bytes / before->bandwidth)
    ps_ini_fail (ini, key, "'%s' would take no longer than the smaller message before it", text);
  else
    return TRUE;
  return FALSE;
}

static void
read_points (PsIni *ini, const char *key, double limit, guint *n, PsLinkPoint **points)
{
  if (!ps_ini_has (ini, key))
    return;
  g_autofree char *text = ps_ini_text (ini, key);
  g_auto (GStrv) words = g_strsplit_set (text, " \t", -1);
  *points = g_new0 (PsLinkPoint, g_strv_length (words) + 1);
  for (guint i = 0; words[i] != NULL; i++)
    if (*words[i] && !parse_point (ini, key, words[i], limit, *n ? &(*points)[*n - 1] : NULL, &(*points)[*n]))
      return;
    else
      *n += *words[i] != '\0';
}

/* 0: not known. */
static double
read_optional_flops (PsIni *ini, const char *key)
{
  return ps_ini_has (ini, key) ? ps_ini_real (ini, key, 1, MAX_FLOPS) : 0;
}

/* 0: not known. */
static double
read_optional_rate (PsIni *ini, const char *key)
{
  return ps_ini_has (ini, key) ? ps_ini_rate (ini, key) : 0;
}

static double
read_optional_part (PsIni *ini, const char *key, double otherwise)
{
  return ps_ini_has (ini, key) ? ps_ini_real (ini, key, 0.001, 1) : otherwise;
}

static gint64
read_optional_time (PsIni *ini, const char *key)
{
  return ps_ini_has (ini, key) ? ps_ini_time (ini, key) : 0;
}

static void
read_kernels (PsIni *ini, PsCluster *cluster)
{
  cluster->peak_flops_fp8 = read_optional_flops (ini, "peak_flops_fp8");
  cluster->peak_flops_fp4 = read_optional_flops (ini, "peak_flops_fp4");
  cluster->multiprocessors
      = ps_ini_has (ini, "multiprocessors") ? (guint)ps_ini_integer (ini, "multiprocessors", 1, 4096) : 0;
  cluster->scores_efficiency = read_optional_part (ini, "scores_efficiency", cluster->efficiency);
  cluster->attention_efficiency = read_optional_part (ini, "attention_efficiency", cluster->efficiency);
  cluster->memory_efficiency = read_optional_part (ini, "memory_efficiency", 1);
  cluster->unaligned = read_optional_part (ini, "unaligned", 1);
  cluster->unaligned_scores = read_optional_part (ini, "unaligned_scores", cluster->unaligned);
  cluster->product_depth = ps_ini_has (ini, "product_depth") ? ps_ini_real (ini, "product_depth", 0, 1e6) : 0;
  cluster->launch_ns = read_optional_time (ini, "launch_time");
  cluster->kernel_ns = read_optional_time (ini, "kernel_time");
  cluster->collective_ns = read_optional_time (ini, "collective_time");
  cluster->step_ns = read_optional_time (ini, "step_time");
  cluster->tensor_overlap = ps_ini_has (ini, "tensor_overlap") ? ps_ini_real (ini, "tensor_overlap", 0, 0.999) : 0;
  cluster->optimizer_passes = ps_ini_has (ini, "optimizer_passes") ? ps_ini_real (ini, "optimizer_passes", 1, 100) : 1;
}

/* Who has a link or a port. */
enum
{
  OWNER_GPU,
  OWNER_NODE,
  OWNER_PEER,
};

static guint
read_owner (PsIni *ini, const char *key, const char *third)
{
  const char *const owners[] = { "gpu", "node", third, NULL };

  return ps_ini_has (ini, key) ? (guint)ps_ini_choice (ini, key, owners) : OWNER_GPU;
}

static void
read_keys (PsIni *ini, PsCluster *cluster)
{
  cluster->name = ps_ini_has (ini, "name") ? ps_ini_text (ini, "name") : g_strdup (ps_ini_name (ini));
  cluster->nodes = (guint)ps_ini_integer (ini, "nodes", 1, PS_MAX_GPUS);
  cluster->devices_per_node = (guint)ps_ini_integer (ini, "devices_per_node", 1, PS_MAX_GPUS);
  cluster->memory_bytes = ps_ini_has (ini, "memory") ? ps_ini_size (ini, "memory") : 0;
  cluster->peak_flops = ps_ini_real (ini, "peak_flops", 1, MAX_FLOPS);
  cluster->efficiency = ps_ini_real (ini, "efficiency", 0.001, 1);
  cluster->memory_bandwidth = read_optional_rate (ini, "memory_bandwidth");
  read_kernels (ini, cluster);
  cluster->host_bandwidth = read_optional_rate (ini, "host_bandwidth");
  cluster->link_latency_ns = ps_ini_time (ini, "link_latency");
  cluster->link_bandwidth = ps_ini_rate (ini, "link_bandwidth");
  cluster->link_shared = read_owner (ini, "link", "peer") == OWNER_NODE;
  cluster->link_peers = read_owner (ini, "link", "peer") == OWNER_PEER;
  read_points (ini, "link_table", cluster->link_bandwidth, &cluster->n_link_points, &cluster->link_points);
  if (cluster->link_peers && cluster->n_link_points > 0)
    ps_ini_fail (ini, "link_table", "says the times of one link; with link = peer a collective has several");
  if (cluster->nodes == 1 && !ps_ini_has (ini, "network_latency") && !ps_ini_has (ini, "network_bandwidth"))
    {
      /* There is no network to describe. */
      for (guint i = 0; i < G_N_ELEMENTS (network_keys); i++)
        if (ps_ini_has (ini, network_keys[i]))
          ps_ini_fail (ini, network_keys[i], "there is no network; network_latency and network_bandwidth describe one");
      return;
    }
  cluster->network_latency_ns = ps_ini_time (ini, "network_latency");
  cluster->network_bandwidth = ps_ini_rate (ini, "network_bandwidth");
  cluster->network_shared = read_owner (ini, "nic", NULL) == OWNER_NODE;
  read_points (ini, "network_table", cluster->network_bandwidth, &cluster->n_network_points, &cluster->network_points);
  cluster->split_ring_bandwidth = read_optional_rate (ini, "split_ring_bandwidth");
}

PsCluster *
ps_cluster_load (const char *path, GError **error)
{
  g_autoptr (PsIni) ini = ps_ini_load (path, "clusters", "cluster", known_keys, error);

  if (ini == NULL)
    return NULL;
  g_autoptr (PsCluster) cluster = g_new0 (PsCluster, 1);
  cluster->tensor = 1;
  read_keys (ini, cluster);
  if (!ps_ini_finish (ini, error))
    return NULL;
  cluster->n_gpus = cluster->nodes * cluster->devices_per_node;
  if ((guint64)cluster->nodes * cluster->devices_per_node > PS_MAX_GPUS)
    ps_ini_fail (ini, "nodes", "%u nodes of %u devices make more than %d devices", cluster->nodes,
                 cluster->devices_per_node, PS_MAX_GPUS);
  return ps_ini_finish (ini, error) ? g_steal_pointer (&cluster) : NULL;
}

/* Without latency, in nanoseconds. */
static double
bytes_time (const PsLink *link, double bytes)
{
  double from_bytes = 0, from_ns = 0;

  for (guint i = 0; i < link->n_points; i++)
    {
      double to_bytes = (double)link->points[i].bytes, to_ns = to_bytes * 1e9 / link->points[i].bandwidth;

      if (bytes <= to_bytes)
        return from_ns + (to_ns - from_ns) * (bytes - from_bytes) / (to_bytes - from_bytes);
      from_bytes = to_bytes;
      from_ns = to_ns;
    }
  return link->bandwidth > 0 ? from_ns + (bytes - from_bytes) * 1e9 / link->bandwidth : 0;
}

gint64
ps_link_transfer_ns (const PsLink *link, gint64 bytes)
{
  double ns = bytes_time (link, (double)bytes);

  return link->latency_ns + (ns < (double)PS_MAX_TIME_NS ? llrint (ns) : PS_MAX_TIME_NS);
}

static gboolean
is_remote_place (const PsCluster *cluster, guint a, guint b)
{
  /* Where no network is described all sit in the one node, see ps_cluster_check_size. */
  return a / cluster->devices_per_node != b / cluster->devices_per_node && cluster->network_bandwidth > 0;
}

gboolean
ps_cluster_is_remote (const PsCluster *cluster, guint a, guint b)
{
  guint spacing = MAX (cluster->spacing, 1);

  return is_remote_place (cluster, a * spacing, b * spacing);
}

char *
ps_cluster_lacks (guint n_there, guint64 n_gpus)
{
  return n_gpus <= n_there ? g_strdup ("")
                           : g_strdup_printf (" (which has %u; more nodes like its own are assumed)", n_there);
}

PsLink
ps_cluster_inner_link (const PsCluster *cluster, guint n)
{
  return (PsLink){ cluster->link_latency_ns, cluster->link_bandwidth * (cluster->link_peers ? MAX (n, 2) - 1 : 1),
                   cluster->n_link_points, cluster->link_points };
}

PsLink
ps_cluster_network_link (const PsCluster *cluster)
{
  return (PsLink){ cluster->network_latency_ns, cluster->network_bandwidth, cluster->n_network_points,
                   cluster->network_points };
}

PsLink
ps_cluster_link (const PsCluster *cluster, guint a, guint b)
{
  if (a == b)
    return (PsLink){ 0 };
  return ps_cluster_is_remote (cluster, a, b) ? ps_cluster_network_link (cluster) : ps_cluster_inner_link (cluster, 2);
}

/* The places of a node that the ring uses, at least one. */
static guint
count_neighbours (const PsCluster *cluster, guint n, const guint *places)
{
  guint most = 1, run = 1;

  for (guint i = 1; i < n; i++)
    {
      run = is_remote_place (cluster, places[i - 1], places[i]) ? 1 : run + 1;
      most = MAX (most, run);
    }
  return most;
}

/* The time of a ring's step between two nodes. Each node holds the given number of the ring's GPUs. */
static gint64
outer_step_ns (const PsCluster *cluster, guint n_neighbours, gint64 bytes)
{
  PsLink outer = ps_cluster_network_link (cluster);
  guint n_rings = cluster->devices_per_node * cluster->tensor / n_neighbours;
  gint64 ns = ps_link_transfer_ns (&outer, bytes / n_neighbours);

  if (cluster->split_ring_bandwidth <= 0 || n_neighbours == 1 || n_rings <= 1)
    return ns;
  outer = (PsLink){ .latency_ns = outer.latency_ns, .bandwidth = cluster->split_ring_bandwidth / n_rings };
  return MAX (ns, ps_link_transfer_ns (&outer, bytes));
}

gint64
ps_cluster_ring_ns (const PsCluster *cluster, guint n, const guint *places, gint64 bytes)
{
  guint n_neighbours = count_neighbours (cluster, n, places);
  PsLink inner = ps_cluster_inner_link (cluster, n_neighbours);
  gint64 share = (bytes + n - 1) / n, longest = 0;
  gint64 outer_ns = outer_step_ns (cluster, n_neighbours, share);

  for (guint i = 0; i < n; i++)
    longest = MAX (longest, is_remote_place (cluster, places[i], places[(i + 1) % n])
                                ? outer_ns
                                : ps_link_transfer_ns (&inner, share));
  return n > 1 && bytes > 0 ? cluster->collective_ns + 2 * (gint64)(n - 1) * longest : 0;
}

gint64
ps_cluster_transfer_ns (const PsCluster *cluster, guint a, guint b, gint64 bytes)
{
  PsLink link = ps_cluster_link (cluster, a, b);

  return ps_link_transfer_ns (&link, bytes);
}

gboolean
ps_cluster_check_size (const PsCluster *cluster, guint64 n_devices, GError **error)
{
  if (cluster->network_bandwidth > 0 || n_devices <= cluster->devices_per_node)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "cluster '%s': has one node of %u devices and no network, so not %" G_GUINT64_FORMAT
                    "; network_latency and network_bandwidth are missing in its file",
                    cluster->name, cluster->devices_per_node * cluster->tensor, n_devices * cluster->tensor);
}

static gint64
scale_latency (gint64 latency_ns, double factor)
{
  return llrint (MIN ((double)latency_ns * factor, (double)PS_MAX_TIME_NS));
}

static void
scale_links (PsCluster *cluster, double factor)
{
  cluster->link_bandwidth *= factor;
  for (guint i = 0; i < cluster->n_link_points; i++)
    cluster->link_points[i].bandwidth *= factor;
}

static void
scale_network (PsCluster *cluster, double factor)
{
  cluster->network_bandwidth *= factor;
  for (guint i = 0; i < cluster->n_network_points; i++)
    cluster->network_points[i].bandwidth *= factor;
}

void
ps_cluster_scale (PsCluster *cluster, double bandwidth_factor, double latency_factor)
{
  cluster->link_latency_ns = scale_latency (cluster->link_latency_ns, latency_factor);
  cluster->network_latency_ns = scale_latency (cluster->network_latency_ns, latency_factor);
  scale_links (cluster, bandwidth_factor);
  scale_network (cluster, bandwidth_factor);
  cluster->split_ring_bandwidth *= bandwidth_factor;
}

gboolean
ps_cluster_group (PsCluster *cluster, guint n_tensor, GError **error)
{
  if (cluster->devices_per_node % n_tensor != 0
      && (n_tensor % cluster->devices_per_node != 0 || cluster->network_bandwidth <= 0 || cluster->network_shared))
    return ps_refuse (
        error, PS_ERROR_USAGE,
        "--tensor %u: does not divide the %u GPUs of a node of cluster '%s'; the GPUs of a device share a node",
        n_tensor, cluster->devices_per_node, cluster->name);
  cluster->tensor *= n_tensor;
  if (n_tensor > cluster->devices_per_node)
    {
      cluster->link_latency_ns = cluster->network_latency_ns;
      cluster->link_bandwidth = MIN (cluster->link_bandwidth, cluster->network_bandwidth * cluster->devices_per_node);
    }
  cluster->devices_per_node = MAX (cluster->devices_per_node / n_tensor, 1);
  if (cluster->link_shared)
    scale_links (cluster, 1.0 / n_tensor);
  if (cluster->network_shared)
    scale_network (cluster, 1.0 / n_tensor);
  return TRUE;
}

gboolean
ps_cluster_join (PsCluster *cluster, guint n_context, GError **error)
{
  guint groups = cluster->devices_per_node; /* of a node */

  if (n_context <= 1)
    return TRUE;
  if (groups % n_context != 0 && n_context % groups != 0)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--context %u: a device is neither a part of the %u groups of GPUs of a node of cluster '%s' nor "
                      "whole nodes",
                      n_context, groups, cluster->name);
  cluster->context_remote = n_context > groups;
  cluster->nodes = n_context > groups ? MAX (cluster->nodes * groups / n_context, 1) : cluster->nodes;
  cluster->devices_per_node = MAX (groups / n_context, 1);
  if (cluster->link_shared)
    scale_links (cluster, 1.0 / MIN (groups, n_context));
  if (cluster->network_shared)
    scale_network (cluster, 1.0 / MIN (groups, n_context));
  return TRUE;
}
