/* Tests of clusters, their links, and shares of accelerators. */
#include "folder-rig.h"
#include "error-rig.h"

#include <pipesim/cluster.h>
#include <pipesim/model.h>

#include <string.h>

static void test_shipped (void)
{
  const char *const names[] = { "a100-40gb",   "a100-80gb",   "h100-80gb",    "h800-80gb",    "h200-141gb",
                                "h20-96gb",    "h20-141gb",   "l40s-48gb",    "b200-180gb",   "b300-270gb",
                                "gb200-186gb", "gb300-279gb", "mi300x-192gb", "mi355x-288gb", "cpu-cores" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    g_autoptr (PsCluster) cluster = fine (ps_cluster_load (names[i], &error));

    g_assert_cmpstr (cluster->name, ==, names[i]);
    g_assert_cmpfloat (cluster->link_bandwidth, >, 0);
  }
  g_autoptr (PsCluster) a100 = ps_cluster_load ("a100-80gb", NULL);
  g_assert_cmpuint (a100->nodes, ==, 1);
  g_assert_cmpuint (a100->devices_per_node, ==, 8);
  g_assert_cmpint (a100->memory_bytes, ==, G_GINT64_CONSTANT (84986665370));
  g_assert_cmpfloat (a100->peak_flops, ==, 312e12);
  g_assert_cmpint (a100->link_latency_ns, ==, 3200);
  g_assert_cmpfloat (a100->memory_bandwidth, ==, 2039e9);
  g_assert_cmpfloat (a100->host_bandwidth, ==, 32e9);
  g_autoptr (PsCluster) cores = ps_cluster_load ("cpu-cores", NULL);
  g_assert_cmpfloat (cores->memory_bandwidth, ==, 0);
  g_autoptr (PsCluster) b200 = ps_cluster_load ("b200-180gb", NULL), b300 = ps_cluster_load ("b300-270gb", NULL);
  g_assert_cmpint (b300->launch_ns, ==, b200->launch_ns);
  g_assert_cmpfloat (b300->network_bandwidth, ==, 100e9);
}

/* h100-80gb: 8 devices per node; 5 us + bytes / 450 GB/s inside, 10 us + bytes / 50 GB/s between nodes. */
static void test_transfer (void)
{
  g_autoptr (PsCluster) cluster = ps_cluster_load ("h100-80gb", NULL);

  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 3, 3, 1000000), ==, 0);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 7, 0), ==, 5000);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 7, 4500000), ==, 15000);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 7, 0, 4500000), ==, 15000);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 7, 8, 4500000), ==, 100000);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 9, 8, 4500000), ==, 15000);
  /* 1 byte at 450 GB/s rounds to nothing; 1 PiB stays exact: 2^50 / 50e9 s = 22517998136852.48 ns */
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 1, 1), ==, 5000);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 8, PS_MAX_SIZE_BYTES), ==, G_GINT64_CONSTANT (22517998146852));
}

#define GOOD                                                                                                           \
  "[cluster]\nnodes=1\ndevices_per_node=2\npeak_flops=1e12\nefficiency=0.5\nlink_latency=1us\nlink_bandwidth=1GB/s\n"

/* Reads a description from a file of its own. */
static PsCluster *load_text (const char *text, GError **error)
{
  g_autofree char *path = path_of ("c.ini");

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  PsCluster *cluster = ps_cluster_load (path, error);
  g_unlink (path);
  return cluster;
}

/* 8 replicas of 2 GPUs on two nodes, 12.5 MB in each of 14 steps. Alone the four GPUs of a ring in a node send it in
 * 62.5 us; where the node's two rings share 25 GB/s it takes 1 ms. Rings with one GPU per node, or all of them, share
 * nothing. */
static void test_split_rings (void)
{
  const guint places[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };

  for (guint t = 1; t <= 8; t *= 2) {
    g_autoptr (PsCluster) cluster = ps_cluster_load ("h100-80gb", NULL);
    guint n = 16 / t;

    g_assert_true (ps_cluster_group (cluster, t, NULL));
    gint64 before = ps_cluster_ring_ns (cluster, n, places, n * 12500000);
    cluster->split_ring_bandwidth = 25e9;
    if (t == 2) {
      g_assert_cmpint (before, ==, 14 * 72500);
      g_assert_cmpint (ps_cluster_ring_ns (cluster, n, places, n * 12500000), ==, 14 * 1010000);
      ps_cluster_scale (cluster, 2, 1, 1);
      g_assert_cmpint (ps_cluster_ring_ns (cluster, n, places, n * 12500000), ==, 14 * 510000);
    }
    if (t == 1 || t == 8)
      g_assert_cmpint (ps_cluster_ring_ns (cluster, n, places, n * 12500000), ==, before);
  }
}

/* A link of 1 GB/s to each of three others: a message takes 1 ms per MB. An all-reduce of 4 MB over four sends 1 MB in
 * each of 6 steps, over three links at once: 333.333 us and the latency. Between two it has one link. */
static void test_peer_links (void)
{
  const guint places[] = { 0, 1, 2, 3 };
  g_autoptr (PsCluster) cluster = load_text ("[cluster]\nnodes=1\ndevices_per_node=4\npeak_flops=1e12\nefficiency=0.5\n"
                                             "link_latency=1us\nlink_bandwidth=1GB/s\nlink=peer\n",
                                             NULL);

  g_assert_true (cluster->link_peers);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 1, 1000000), ==, 1001000);
  g_assert_cmpint (ps_cluster_ring_ns (cluster, 4, places, 4000000), ==, 6 * 334333);
  g_assert_cmpint (ps_cluster_ring_ns (cluster, 2, places, 2000000), ==, 2 * 1001000);
}

/* Without a described network all devices are taken to share links. */
static void test_one_node (void)
{
  g_autoptr (PsCluster) cluster = ps_cluster_load ("a100-80gb", NULL);

  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 7, 8, 4500000), ==, 3200 + 20000);
}

#define RATES                                                                                                          \
  "write a number and B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s, Mbit/s, Gbit/s or Tbit/s, from 1B/s "   \
  "to 1000000TB/s"
#define NETWORK GOOD "network_latency=10us\nnetwork_bandwidth=0.5GB/s\n"

/* 1 GB/s, latency 1 us; 1000 B reach 0.2 GB/s: 5 us; 4000 B reach 0.5 GB/s: 8 us. 500 B: half of 5 us. 2000 B: a third
 * of the way from 5 to 8 us. After the last point every byte takes its nanosecond: 6000 B 8 + 2 us. */
static void test_table (void)
{
  g_autoptr (PsCluster) cluster = fine (load_text (NETWORK "link_table=1000B:0.2GB/s 4000B:0.5GB/s\n", &error));

  g_assert_cmpuint (cluster->n_link_points, ==, 2);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 1, 0), ==, 1000);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 1, 500), ==, 1000 + 2500);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 1, 1000), ==, 1000 + 5000);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 1, 2000), ==, 1000 + 6000);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 1, 4000), ==, 1000 + 8000);
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 1, 6000), ==, 1000 + 10000);
  /* The network has none of its own here. */
  g_assert_cmpint (ps_cluster_transfer_ns (cluster, 0, 2, 500), ==, 10000 + 1000);
}

static void test_shared (void)
{
  g_autoptr (PsCluster) plain = load_text (NETWORK, NULL), own = load_text (NETWORK "nic=gpu\nlink=gpu\n", NULL);
  g_autoptr (PsCluster) shared = load_text (NETWORK "nic=node\nlink=node\n", NULL);

  g_assert_false (plain->network_shared || plain->link_shared || own->network_shared || own->link_shared);
  g_assert_true (shared->network_shared && shared->link_shared);
  g_assert_false (ps_cluster_is_remote (plain, 0, 1));
  g_assert_true (ps_cluster_is_remote (plain, 1, 2));
}

/* Only devices of one node can do without a network. */
static void test_size (void)
{
  g_autoptr (PsCluster) single = ps_cluster_load ("a100-80gb", NULL), several = ps_cluster_load ("h100-80gb", NULL);

  g_assert_true (ps_cluster_check_size (single, 8, NULL));
  g_assert_true (ps_cluster_check_size (several, 1000, NULL));
  g_assert_true (ps_cluster_group (single, 4, NULL));
  g_assert_true (ps_cluster_check_size (single, 2, NULL));
  refused (ps_cluster_check_size (single, 3, &error), PS_ERROR_USAGE,
           "cluster 'a100-80gb': has one node of 8 devices and no network, so not 12; network_latency and "
           "network_bandwidth are missing in its file");
}

static void assert_refused (const char *text, const char *message)
{
  g_autofree char *path = path_of ("c.ini");
  g_autofree char *expected = g_strdup_printf ("%s:%s", path, message);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  refused (ps_cluster_load (path, &error), PS_ERROR_INPUT, expected);
  g_unlink (path);
}

static void test_refused (void)
{
  const struct {
    const char *text;
    const char *message;
  } rows[] = {
    { "", " is empty" },
    { "[model]\n", "1: unknown group '[model]'; only [cluster] is known" },
    { "[cluster]\nnodes=0\n", " [cluster] nodes: '0' is not an integer from 1 to 524288" },
    { "[cluster]\nnodes=1\ndevices_per_node=8\npeak_flops=fast\n",
      " [cluster] peak_flops: 'fast' is not a number in 1..1e+18" },
    { "[cluster]\nnodes=1\ndevices_per_node=8\npeak_flops=nan\n",
      " [cluster] peak_flops: 'nan' is not a number in 1..1e+18" },
    { "[cluster]\nnodes=1\ndevices_per_node=8\npeak_flops=1e12\nefficiency=1.5\n",
      " [cluster] efficiency: '1.5' is not a number in 0.001..1" },
    { "[cluster]\nnodes=2\ndevices_per_node=2\npeak_flops=1e12\nefficiency=0.5\nlink_latency=1us\nlink_bandwidth=1GB/"
      "s\n",
      " [cluster] network_latency: missing" },
    { GOOD "network_latency=1us\n", " [cluster] network_bandwidth: missing" },
    { GOOD "memory_bandwidth=0\n", " [cluster] memory_bandwidth: '0' is no rate; " RATES },
    { GOOD "host_bandwidth=0\n", " [cluster] host_bandwidth: '0' is no rate; " RATES },
    { GOOD "host_bandwidth=64\n", " [cluster] host_bandwidth: '64' has no unit; 64GB/s would be right" },
    { NETWORK "nic=rack\n", " [cluster] nic: 'rack' is not one of gpu, node" },
    { GOOD "nic=node\n", " [cluster] nic: there is no network; network_latency and network_bandwidth describe one" },
    { GOOD "link_table=\n", " [cluster] link_table: has no value" },
    { GOOD "link=peer\nlink_table=4KiB:0.1GB/s\n",
      " [cluster] link_table: says the times of one link; with link = peer a collective has several" },
    { GOOD "link_table=4KiB\n", " [cluster] link_table: '4KiB' is no SIZE:BANDWIDTH, such as 64KiB:4GB/s" },
    { GOOD "link_table=4KiB:nan\n", " [cluster] link_table: '4KiB:nan' is no SIZE:BANDWIDTH, such as 64KiB:4GB/s" },
    { GOOD "link_table=0B:0.1GB/s\n", " [cluster] link_table: '0B:0.1GB/s' is no SIZE:BANDWIDTH, such as 64KiB:4GB/s" },
    { GOOD "link_table=4KiB:0.1GB/sx\n",
      " [cluster] link_table: '4KiB:0.1GB/sx' is no SIZE:BANDWIDTH, such as 64KiB:4GB/s" },
    { GOOD "link_table=4KiB:2GB/s\n", " [cluster] link_table: '4KiB:2GB/s' is more than the full bandwidth, 1e+09" },
    { GOOD "link_table=4KiB:0.1GB/s 4KiB:0.2GB/s\n",
      " [cluster] link_table: '4KiB:0.2GB/s' is no larger than the message before it" },
    { GOOD "link_table=4KiB:0.1GB/s 5KiB:0.5GB/s\n",
      " [cluster] link_table: '5KiB:0.5GB/s' would take no longer than the smaller message before it" },
    { GOOD "memory=-3\n", " [cluster] memory: '-3' is no size; write a number and B, kB, KiB, MB, MiB, GB, GiB, TB or "
                          "TiB, from 0 to 1024TiB" },
    { "[cluster]\nnodes=1000\ndevices_per_node=1000\npeak_flops=1e12\nefficiency=0.5\nlink_latency=1us\n"
      "link_bandwidth=1GB/s\nnetwork_latency=1us\nnetwork_bandwidth=1GB/s\n",
      " [cluster] nodes: 1000 nodes of 1000 devices make more than 524288 devices" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    assert_refused (rows[i].text, rows[i].message);
}

#define DATASHEET                                                                                                      \
  "[cluster]\nnodes=16\ndevices_per_node=8\nmemory=80GB\npeak_flops=989e12\nmemory_bandwidth=3350GB/s\n"               \
  "link_bandwidth=450GB/s\nnetwork_bandwidth=50GB/s\n"

/* What a file omits is of the nearest GPU that ships; what it states, 0 too, is its own. */
static void test_assumed (void)
{
  g_autoptr (PsCluster) like = ps_cluster_load ("h100-80gb", NULL);
  g_autoptr (PsCluster) cluster = fine (load_text (DATASHEET "launch_time=0\n", &error));

  g_assert_true (g_str_has_prefix (cluster->assumed, "efficiency 0.5"));
  g_assert_true (g_str_has_suffix (cluster->assumed, ", host_bandwidth 64GB/s, as h100-80gb"));
  g_assert_true (strstr (cluster->assumed, ", kernel_time 2us, ") != NULL);
  g_assert_null (strstr (cluster->assumed, "launch_time"));
  g_assert_null (strstr (cluster->assumed, "peak_flops"));
  g_assert_cmpint (cluster->launch_ns, ==, 0);
  g_assert_cmpint (cluster->kernel_ns, ==, like->kernel_ns);
  g_assert_cmpint (cluster->step_ns, ==, like->step_ns);
  g_assert_cmpfloat_with_epsilon (cluster->efficiency, 0.88 * like->efficiency, 0.001);
  g_assert_cmpfloat_with_epsilon (cluster->efficiency_fp8, 0.88 * like->efficiency_fp8, 0.001);
  g_assert_cmpfloat (cluster->peak_flops, ==, 989e12);
  g_assert_cmpfloat (cluster->peak_flops_fp8, ==, 0);
  g_assert_cmpuint (cluster->nodes, ==, 16);
}

/* By what is nearest: a 4090 is an A100 of 40 GB rather than one of 80. What ships and names no other assumes nothing,
 * and neither does a copy of it, a file without memory_bandwidth or a GPU that is like none. */
static void test_classes (void)
{
  const struct {
    const char *text, *like;
  } rows[] = {
    { "peak_flops=312e12\nmemory_bandwidth=1555GB/s\nmemory=40GB\n", "as a100-40gb" },
    { "peak_flops=165e12\nmemory_bandwidth=1008GB/s\nmemory=24GB\n", "as a100-40gb" },
    { "peak_flops=989e12\nmemory_bandwidth=4800GB/s\nmemory=141GB\n", "as h200-141gb" },
    { "peak_flops=2250e12\nmemory_bandwidth=8000GB/s\n", "as b200-180gb" },
    { "peak_flops=1e12\nmemory_bandwidth=8000GB/s\nefficiency=0.5\nlink_latency=1us\n", NULL },
    { "peak_flops=989e12\nefficiency=0.5\nlink_latency=1us\n", NULL },
  };
  g_auto (GStrv) names = ps_shipped_names ("clusters");

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autofree char *text
        = g_strconcat ("[cluster]\nnodes=1\ndevices_per_node=8\nlink_bandwidth=100GB/s\n", rows[i].text, NULL);
    g_autoptr (PsCluster) cluster = fine (load_text (text, &error));

    if (rows[i].like == NULL)
      g_assert_null (cluster->assumed);
    else
      g_assert_true (g_str_has_suffix (cluster->assumed, rows[i].like));
  }
  for (guint i = 0; names[i] != NULL; i++) {
    g_autofree char *text = ps_shipped_text ("clusters", names[i]);
    g_autoptr (PsCluster) shipped = ps_cluster_load (names[i], NULL), copy = fine (load_text (text, &error));

    g_assert_cmpstr (shipped->assumed, ==, copy->assumed);
    g_assert_true ((shipped->assumed != NULL) == (strstr (text, "\nlike = ") != NULL));
  }
}

/* A file to start from is the cluster that it was started from, but for what was changed. */
static void test_like (void)
{
  char *const changes[] = { (char *)"nodes=64", (char *)"network=25GB/s", (char *)"launch_time=0", NULL };
  char *const twice[] = { (char *)"nodes=64", (char *)"nodes=65", NULL };
  char *const unknown[] = { (char *)"nods=64", NULL };
  char *const bad[] = { (char *)"nodes=many", NULL };
  g_auto (GStrv) names = ps_shipped_names ("clusters");

  for (guint i = 0; names[i] != NULL; i++) {
    g_autofree char *text = fine (ps_cluster_like (names[i], NULL, &error));
    g_autoptr (PsCluster) cluster = fine (load_text (text, &error)), like = ps_cluster_load (names[i], NULL);

    g_assert_null (cluster->assumed);
    g_free (cluster->name);
    cluster->name = like->name;
    cluster->assumed = like->assumed;
    g_free (cluster->class_name);
    cluster->class_name = like->class_name;
    g_assert_cmpuint (cluster->n_link_points + cluster->n_network_points, ==, 0); /* no pointers to compare */
    g_assert_cmpmem (cluster, sizeof *cluster, like, sizeof *like);
    cluster->name = cluster->assumed = cluster->class_name = NULL;
  }
  g_autofree char *text = fine (ps_cluster_like ("h100-80gb", changes, &error));
  g_autoptr (PsCluster) cluster = fine (load_text (text, &error));
  g_assert_cmpuint (cluster->n_gpus, ==, 512);
  g_assert_cmpfloat (cluster->network_bandwidth, ==, 25e9);
  g_assert_cmpint (cluster->launch_ns, ==, 0);
  g_assert_cmpint (cluster->kernel_ns, ==, 2000);
  g_assert_true (strstr (text, "\n# between nodes, of a GPU, one direction: 50GB/s\nnetwork_bandwidth = 25GB/s\n")
                 != NULL);
  refused (ps_cluster_like ("h100-80gb", twice, &error), PS_ERROR_USAGE, "nodes=65: the key is given twice");
  refused (ps_cluster_like ("h100-80gb", unknown, &error), PS_ERROR_USAGE,
           "'nods=64': is no KEY=VALUE with a key of clusters; did you mean nodes? (there are nodes, *");
  refused (ps_cluster_like ("h100-80gb", bad, &error), PS_ERROR_INPUT,
           "--like: [cluster] nodes: 'many' is not an integer from 1 to 524288");
}

static void test_not_found (void)
{
  refused (ps_cluster_load ("tiny-gpt", &error), PS_ERROR_INPUT,
           "'tiny-gpt': neither a file nor one of the clusters shipped; there are a100-40gb, a100-80gb, b200-180gb, "
           "b300-270gb, "
           "cpu-cores, gb200-186gb, gb300-279gb, h100-80gb, h20-141gb, h20-96gb, h200-141gb, "
           "h800-80gb, l40s-48gb, mi300x-192gb, mi355x-288gb");
}

/* A copy is a copy: nothing of it is the original's. */
static void test_copy (void)
{
  g_autoptr (PsCluster) cluster = fine (load_text (GOOD "link_table=1KiB:0.1GB/s 64KiB:0.5GB/s\n", &error));
  g_autoptr (PsCluster) copy = ps_cluster_copy (cluster);

  ps_cluster_scale (copy, 2, 1, 3);
  g_assert_cmpstr (copy->name, ==, cluster->name);
  g_assert_cmpint (copy->link_latency_ns, ==, 3 * cluster->link_latency_ns);
  g_assert_cmpuint (cluster->n_link_points, ==, 2);
  for (guint i = 0; i < 2; i++)
    g_assert_cmpfloat (copy->link_points[i].bandwidth, ==, 2 * cluster->link_points[i].bandwidth);
}

/* Places that replicas take between the devices of a pipeline move these apart: 4 GPUs a node. */
static void test_spacing (void)
{
  g_autoptr (PsCluster) cluster = ps_cluster_load ("h100-80gb", NULL);

  cluster->devices_per_node = 4;
  for (guint spacing = 0; spacing <= 5; spacing++)
    for (guint a = 0; a < 9; a++)
      for (guint b = 0; b < 9; b++) {
        guint apart = MAX (spacing, 1);

        cluster->spacing = spacing;
        g_assert_cmpint (ps_cluster_is_remote (cluster, a, b), ==, a * apart / 4 != b * apart / 4);
      }
  cluster->network_bandwidth = 0;
  g_assert_false (ps_cluster_is_remote (cluster, 0, 8));
}

/* Tests of cluster.h: lists of shares in lowest terms, and what are none. */

/* In lowest terms: gcd (40, 30, 20, 10) = 10, gcd (7, 5) = 1, gcd (6, 10, 15) = 1. */
static void test_lowest_terms (void)
{
  static const struct {
    const char *text, *lowest;
  } cases[] = { { "40,30,20,10", "4,3,2,1" }, { "4,3,2,1", "4,3,2,1" }, { "7,5", "7,5" }, { "6,10,15", "6,10,15" },
                { "1000000,1", "1000000,1" }, { "5,5,5", "" },          { "9", "" } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_autoptr (GError) error = NULL;
    guint n;
    g_autofree guint *shares = ps_shares_parse ("x", cases[i].text, &n, &error);

    g_assert_no_error (error);
    g_autofree char *text = ps_shares_to_text (shares, n);
    g_assert_cmpstr (text, ==, cases[i].lowest);
  }
  const guint given[] = { 30, 10 };
  g_autofree char *text = ps_shares_to_text (given, 2), *none = ps_shares_to_text (NULL, 2);
  g_assert_cmpstr (text, ==, "3,1");
  g_assert_cmpstr (none, ==, "");
  g_assert_cmpstr (ps_shares_describe (text), ==, "3,1");
  g_assert_cmpstr (ps_shares_describe (none), ==, "equal");
}

static void test_values (void)
{
  guint n;
  g_autofree guint *shares = ps_shares_parse ("x", "9,3,6", &n, NULL);
  const guint expected[] = { 3, 1, 2 };

  g_assert_cmpmem (shares, n * sizeof *shares, expected, sizeof expected);
}

static void test_refused_shares (void)
{
  static const char *const texts[] = { "1,", "0,1", "1,-1", "1000001,1", "x", "1 2", "1,,2" };

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++) {
    guint n;

    refused (ps_shares_parse ("--sm-shares", texts[i], &n, &error), PS_ERROR_USAGE, "--sm-shares: '*");
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cluster/shipped", test_shipped);
  g_test_add_func ("/cluster/split-rings", test_split_rings);
  g_test_add_func ("/cluster/peer-links", test_peer_links);
  g_test_add_func ("/cluster/transfer", test_transfer);
  g_test_add_func ("/cluster/one-node", test_one_node);
  g_test_add_func ("/cluster/table", test_table);
  g_test_add_func ("/cluster/shared", test_shared);
  g_test_add_func ("/cluster/size", test_size);
  g_test_add_func ("/cluster/refused", test_refused);
  g_test_add_func ("/cluster/assumed", test_assumed);
  g_test_add_func ("/cluster/classes", test_classes);
  g_test_add_func ("/cluster/like", test_like);
  g_test_add_func ("/cluster/not-found", test_not_found);
  g_test_add_func ("/cluster/copy", test_copy);
  g_test_add_func ("/cluster/spacing", test_spacing);
  g_test_add_func ("/shares/lowest-terms", test_lowest_terms);
  g_test_add_func ("/shares/values", test_values);
  g_test_add_func ("/shares/refused", test_refused_shares);
  return run_in_folder ();
}
