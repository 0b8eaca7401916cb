/* cluster.c - clusters: their descriptions, the time of a transfer, the state of their hardware and its division into
 * shares. */
#include <pipesim/cluster.h>

#include "base/names.h"
#include "ini.h"

#include <pipesim/model.h>

#include <math.h>
#include <string.h>

PS_DEFINE_NAMES (PsCudaGraphs, ps_cuda_graphs, "none", "attn", "full_iteration")
PS_DEFINE_NAMES (PsCpComm, ps_cp_comm, "all_gather", "p2p", "a2a")
PS_DEFINE_NAMES (PsDispatcher, ps_dispatcher, "alltoall", "deepep", "hybridep")

#define MAX_FLOPS 1e18 /* operations per second */

#define AT(member) G_STRUCT_OFFSET (PsCluster, member)
#define KEY(key, presence, type, offset, low, high, fallback, typical, with, about)                                    \
  {                                                                                                                    \
    key, presence, type, offset, high, low, fallback, NULL, typical, with, about                                       \
  }
#define REQUIRED(key, type, member, low, high, ...)                                                                    \
  KEY (key, PS_INI_REQUIRED, type, AT (member), low, high, 0, __VA_ARGS__)
#define BETWEEN(key, type, member, low, high, fallback, ...)                                                           \
  KEY (key, PS_INI_OPTIONAL, type, AT (member), low, high, fallback, __VA_ARGS__)
#define OPTIONAL(key, type, member, ...) BETWEEN (key, type, member, 0, 0, 0, __VA_ARGS__)
#define PART(key, member, fallback, ...) BETWEEN (key, PS_INI_REAL, member, 0.001, 1, fallback, __VA_ARGS__)
#define OTHER(key, ...) KEY (key, PS_INI_OPTIONAL, PS_INI_OTHER, 0, 0, 0, 0, __VA_ARGS__)

/* All keys, in the order of a file. Optional ones are 0 where they are not known. */
static const PsIniField fields[] = {
  OTHER ("like", FALSE, NULL, "the cluster that keys are taken from which are not here"),
  REQUIRED ("nodes", PS_INI_COUNT, nodes, 1, PS_MAX_GPUS, FALSE, NULL, "number of nodes"),
  REQUIRED ("devices_per_node", PS_INI_COUNT, devices_per_node, 1, PS_MAX_GPUS, FALSE, NULL,
            "GPUs of a node; of an NVLink domain where this holds several machines"),
  OPTIONAL ("memory", PS_INI_SIZE, memory_bytes, FALSE, NULL, "of a GPU, as its driver reports it: 80GiB"),
  REQUIRED ("peak_flops", PS_INI_REAL, peak_flops, 1, MAX_FLOPS, FALSE, NULL,
            "of a GPU, operations per second in the format of training, dense: 989e12"),
  BETWEEN ("peak_flops_fp8", PS_INI_REAL, peak_flops_fp8, 1, MAX_FLOPS, 0, FALSE, "peak_flops", "the same in 8 bits"),
  BETWEEN ("peak_flops_fp4", PS_INI_REAL, peak_flops_fp4, 1, MAX_FLOPS, 0, FALSE, "peak_flops", "the same in 4 bits"),
  PART ("efficiency", efficiency, 0, TRUE, NULL, "part of the peak rate that large products reach, 0.001 to 1"),
  PART ("efficiency_fp8", efficiency_fp8, 0, TRUE, "efficiency", "the same in 8 bits with a scale for each tensor"),
  PART ("efficiency_mxfp8", efficiency_mxfp8, 0, TRUE, "efficiency", "the same in 8 bits with scales for blocks"),
  PART ("efficiency_fp4", efficiency_fp4, 0, TRUE, "efficiency", "the same in 4 bits"),
  BETWEEN ("scores_efficiency", PS_INI_REAL, scores_efficiency, 0.001, 2, 0, TRUE, NULL,
           "the same for the products of attention heads, whole squares of scores counted"),
  BETWEEN ("attention_efficiency", PS_INI_REAL, attention_efficiency, 0.001, 2, 0, TRUE, NULL,
           "the same for flash attention, whole squares of scores counted"),
  BETWEEN ("product_depth", PS_INI_REAL, product_depth, 0, 1e6, 0, TRUE, NULL,
           "k at which a product reaches half of its rate"),
  BETWEEN ("multiprocessors", PS_INI_COUNT, multiprocessors, 1, 4096, 0, TRUE, NULL, "of a GPU"),
  PART ("unaligned", unaligned, 1, TRUE, NULL, "part of its rate that a product with unaligned rows reaches"),
  PART ("unaligned_scores", unaligned_scores, 0, TRUE, NULL, "the same for the products of attention heads"),
  OPTIONAL ("memory_bandwidth", PS_INI_RATE, memory_bandwidth, FALSE, NULL, "of a GPU to its own memory: 3350GB/s"),
  PART ("memory_efficiency", memory_efficiency, 1, TRUE, NULL, "part of memory_bandwidth that kernels reach"),
  OPTIONAL ("launch_time", PS_INI_TIME, launch_ns, TRUE, NULL, "the host's time to launch a kernel: 10us"),
  OPTIONAL ("expert_launch_time", PS_INI_TIME, expert_launch_ns, TRUE, NULL,
            "the same for each launch of an expert's own; launch_time unless given"),
  OPTIONAL ("kernel_time", PS_INI_TIME, kernel_ns, TRUE, NULL, "a kernel's own time to start and end: 2us"),
  OPTIONAL ("collective_time", PS_INI_TIME, collective_ns, TRUE, NULL,
            "what an all-reduce takes before its steps: 30us"),
  OPTIONAL ("step_time", PS_INI_TIME, step_ns, TRUE, NULL, "the host's time per training step: 40ms"),
  BETWEEN ("optimizer_passes", PS_INI_REAL, optimizer_passes, 1, 100, 1, TRUE, NULL,
           "bytes that an optimizer step moves, over those that it has to"),
  BETWEEN ("tensor_overlap", PS_INI_REAL, tensor_overlap, 0, 0.999, 0, TRUE, NULL,
           "part of the all-reduces of tensor parallelism that products hide"),
  PART ("alltoall_efficiency", alltoall_efficiency, 1, TRUE, NULL,
        "part of links and network that all-to-alls of experts reach"),
  BETWEEN ("expert_exposed", PS_INI_REAL, expert_exposed, 0, 1, 0, TRUE, NULL,
           "part of the all-to-alls of experts that pairs of ops do not hide"),
  OTHER ("deepep", TRUE, NULL, "rates of that dispatcher over so many GPUs: 8:153GB/s 16:43GB/s"),
  OTHER ("hybridep", TRUE, NULL, "the same"),
  BETWEEN ("dispatch_multiprocessors", PS_INI_COUNT, dispatch_multiprocessors, 0, 4096, 0, TRUE, NULL,
           "of a GPU that deepep and hybridep take"),
  OTHER ("link", FALSE, NULL, "gpu: a port per GPU; node: a bus per node; peer: a link between any two"),
  REQUIRED ("link_latency", PS_INI_TIME, link_latency_ns, 0, 0, TRUE, NULL, "between GPUs of a node: 5us"),
  REQUIRED ("link_bandwidth", PS_INI_RATE, link_bandwidth, 0, 0, FALSE, NULL,
            "between GPUs of a node, one direction: 450GB/s"),
  OTHER ("link_table", FALSE, "link_bandwidth", "bandwidths that messages of a size reach"),
  OTHER ("nic", FALSE, NULL, "gpu: a network port per GPU; node: one for all of a node"),
  OPTIONAL ("network_latency", PS_INI_TIME, network_latency_ns, TRUE, NULL, "between nodes: 10us"),
  OPTIONAL ("network_bandwidth", PS_INI_RATE, network_bandwidth, FALSE, NULL,
            "between nodes, of a GPU, one direction: 50GB/s"),
  OTHER ("network_table", FALSE, "network_bandwidth", "bandwidths that messages of a size reach"),
  OPTIONAL ("split_ring_bandwidth", PS_INI_RATE, split_ring_bandwidth, FALSE, "network_bandwidth",
            "of a node, for all of its rings of gradients"),
  OPTIONAL ("host_bandwidth", PS_INI_RATE, host_bandwidth, TRUE, NULL,
            "from a GPU to its host's memory, one direction: 64GB/s"),
};

PsCluster *ps_cluster_copy (const PsCluster *cluster)
{
  PsCluster *copy = g_memdup2 (cluster, sizeof *cluster);

  copy->name = g_strdup (cluster->name);
  copy->assumed = g_strdup (cluster->assumed);
  copy->class_name = g_strdup (cluster->class_name);
  copy->link_points = g_memdup2 (cluster->link_points, cluster->n_link_points * sizeof *cluster->link_points);
  copy->network_points
      = g_memdup2 (cluster->network_points, cluster->n_network_points * sizeof *cluster->network_points);
  return copy;
}

void ps_cluster_free (PsCluster *cluster)
{
  if (cluster == NULL)
    return;
  g_free (cluster->name);
  g_free (cluster->assumed);
  g_free (cluster->class_name);
  g_free (cluster->link_points);
  g_free (cluster->network_points);
  g_free (cluster);
}

/* "64KiB:4GB/s": bandwidth at a size. Each point must come later than the one before it, in size and in time. */
static gboolean parse_point (PsIni *ini, const char *key, const char *text, double limit, const PsLinkPoint *before,
                             PsLinkPoint *point)
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

static void read_points (PsIni *ini, const char *key, double limit, guint *n, PsLinkPoint **points)
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

/* Reads a dispatcher's rates over 8 and 16 GPUs: "8:546GB/s 16:523GB/s". */
static void read_dispatch (PsIni *ini, const char *key, PsDispatchRate *rates)
{
  if (!ps_ini_has (ini, key))
    return;
  g_autofree char *text = ps_ini_text (ini, key);
  g_auto (GStrv) words = g_strsplit (text, " ", -1);
  for (guint i = 0; words[i] != NULL; i++) {
    g_auto (GStrv) parts = g_strsplit (words[i], ":", 2);
    gint64 n = 0, rate = 0;

    if (i == PS_MAX_DISPATCH_RATES || g_strv_length (parts) != 2
        || !ps_parse_integer (key, parts[0], 2, PS_MAX_GPUS, &n, NULL) || !ps_parse_rate (key, parts[1], &rate, NULL)
        || rate == 0 || (i > 0 && n <= rates[i - 1].n_gpus)) {
      ps_ini_fail (ini, key, "'%s' is no list of at most %d rates by ascending numbers of GPUs, such as 8:546GB/s",
                   text, PS_MAX_DISPATCH_RATES);
      return;
    }
    rates[i] = (PsDispatchRate){ (guint)n, (double)rate };
  }
}

/* Who has a link or a port. */
enum {
  OWNER_GPU,
  OWNER_NODE,
  OWNER_PEER,
};

static guint read_owner (PsIni *ini, const char *key, const char *third)
{
  const char *const owners[] = { "gpu", "node", third, NULL };

  return ps_ini_has (ini, key) ? (guint)ps_ini_choice (ini, key, owners) : OWNER_GPU;
}

static void read_links (PsIni *ini, PsCluster *cluster)
{
  guint owner = read_owner (ini, "link", "peer");

  cluster->link_shared = owner == OWNER_NODE;
  cluster->link_peers = owner == OWNER_PEER;
  read_points (ini, "link_table", cluster->link_bandwidth, &cluster->n_link_points, &cluster->link_points);
  if (cluster->link_peers && cluster->n_link_points > 0)
    ps_ini_fail (ini, "link_table", "says the times of one link; with link = peer a collective has several");
}

/* A cluster of one node may have no network to describe. */
static void read_network (PsIni *ini, PsCluster *cluster)
{
  static const char *const keys[] = { "network_latency", "network_bandwidth" };
  static const char *const further[] = { "nic", "network_table", "split_ring_bandwidth" };
  gboolean has_network = cluster->nodes > 1 || ps_ini_has (ini, keys[0]) || ps_ini_has (ini, keys[1]);

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (has_network && !ps_ini_has (ini, keys[i]))
      ps_ini_fail (ini, keys[i], "missing");
  for (guint i = 0; i < G_N_ELEMENTS (further); i++)
    if (!has_network && ps_ini_has (ini, further[i]))
      ps_ini_fail (ini, further[i], "there is no network; network_latency and network_bandwidth describe one");
  cluster->network_shared = read_owner (ini, "nic", NULL) == OWNER_NODE;
  read_points (ini, "network_table", cluster->network_bandwidth, &cluster->n_network_points, &cluster->network_points);
}

/* What a description omits. */

static PsIni *read_ini (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (!ps_ini_read (path, "clusters", &text, &length, error))
    return NULL;
  return ps_ini_parse (path, text, length, "cluster", fields, G_N_ELEMENTS (fields), error);
}

static PsIni *read_whole (const char *name);

/* Farther from a GPU in one of the rates than by this factor, another one is of no class that is known. */
#define CLASS_FACTOR 8

/* The part of its class's `efficiency` that is assumed of a machine. The class's is that of runs by those who tune
 * them; with this part no data set of docs/accuracy.md comes out more than 12 % too fast from datasheets alone. */
#define TYPICAL_PART 0.88

#define USUAL_NETWORK_LATENCY "10us"

/* The number of one of the keys that classes go by; 0: it is not there. */
static double number_of (PsIni *ini, const char *key)
{
  PsCluster read = { 0 };

  for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
    if (g_str_equal (fields[i].key, key) && ps_ini_has (ini, key))
      ps_ini_fields (ini, &fields[i], 1, &read);
  return read.peak_flops + read.memory_bandwidth + (double)read.memory_bytes + read.efficiency + read.efficiency_fp8
         + read.efficiency_mxfp8 + read.efficiency_fp4;
}

/* How far apart two GPUs are: the square of the logarithms of what their rates and sizes differ by. HUGE_VAL: they are
 * of no one class. */
static double class_distance (PsIni *a, PsIni *b)
{
  static const char *const compared[] = { "peak_flops", "memory_bandwidth", "memory" };
  double sum = 0;

  for (guint i = 0; i < G_N_ELEMENTS (compared); i++) {
    double x = number_of (a, compared[i]), y = number_of (b, compared[i]), part = log (x / y);

    if (x > 0 && y > 0)
      sum += fabs (part) > log (CLASS_FACTOR) ? HUGE_VAL : part * part;
    else if (!g_str_equal (compared[i], "memory"))
      return HUGE_VAL;
  }
  return sum;
}

/* The name of the shipped cluster that is most like the described one; NULL: none is. Free with g_free. */
static char *find_class (PsIni *ini)
{
  g_auto (GStrv) names = ps_shipped_names ("clusters");
  double nearest = HUGE_VAL;
  char *found = NULL;

  for (guint i = 0; names[i] != NULL; i++) {
    g_autoptr (PsIni) other = read_whole (names[i]);
    double distance = class_distance (ini, other);

    if (distance < nearest) {
      nearest = distance;
      g_free (found);
      found = g_strdup (names[i]);
    }
  }
  return found;
}

/* The shipped cluster that `like` names. Free with g_free. */
static char *named_class (PsIni *ini)
{
  g_auto (GStrv) names = ps_shipped_names ("clusters");

  return g_strdup (names[ps_ini_choice (ini, "like", (const char *const *)names)]);
}

/* Completes a description that omits keys by those of a cluster like it. Returns what was assumed; NULL: nothing. Free
 * with g_free. */
static char *assume (PsIni *ini, gboolean named, const char *class_name)
{
  g_autoptr (PsIni) like = class_name != NULL ? read_whole (class_name) : NULL;
  gboolean network
      = ps_ini_has (ini, "network_bandwidth") || (like != NULL && named && ps_ini_has (like, "network_bandwidth"));
  gboolean taken[G_N_ELEMENTS (fields)] = { FALSE };
  g_autoptr (GString) text = g_string_new (NULL);

  if (like == NULL)
    return NULL;
  if (network && !ps_ini_has (like, "network_latency")) /* a class that ships without a network */
    ps_ini_set (like, "network_latency", USUAL_NETWORK_LATENCY);
  for (guint i = 0; !named && i < G_N_ELEMENTS (fields); i++)
    if (ps_ini_has (like, fields[i].key) && g_str_has_prefix (fields[i].key, "efficiency")) {
      g_autofree char *typical = g_strdup_printf ("%.3g", TYPICAL_PART * number_of (like, fields[i].key));

      ps_ini_set (like, fields[i].key, typical);
    }
  for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
    taken[i] = !ps_ini_has (ini, fields[i].key) && ps_ini_has (like, fields[i].key) && (named || fields[i].typical)
               && (network || !g_str_equal (fields[i].key, "network_latency"))
               && (fields[i].with == NULL || !ps_ini_has (ini, fields[i].with));
  for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
    if (taken[i]) {
      g_autofree char *value = ps_ini_text (like, fields[i].key);

      ps_ini_set (ini, fields[i].key, value);
      g_string_append_printf (text, "%s %s, ", fields[i].key, value);
    }
  if (text->len == 0)
    return NULL;
  g_string_append_printf (text, "as %s", class_name);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* The description of a cluster that ships, with the keys of the one that it names. */
static PsIni *read_whole (const char *name)
{
  PsIni *ini = read_ini (name, NULL);
  g_autofree char *like = ps_ini_has (ini, "like") ? ps_ini_text (ini, "like") : NULL;

  g_free (assume (ini, TRUE, like));
  return ini;
}

static PsCluster *read_cluster (PsIni *ini, GError **error)
{
  g_autoptr (PsCluster) cluster = g_new0 (PsCluster, 1);

  cluster->tensor = 1;
  cluster->name = ps_ini_name (ini);
  ps_ini_fields (ini, fields, G_N_ELEMENTS (fields), cluster);
  if (cluster->efficiency == 0)
    ps_ini_fail (ini, "efficiency",
                 "missing; it is assumed where memory_bandwidth says of which class a GPU is, or like");
  if (cluster->scores_efficiency == 0)
    cluster->scores_efficiency = cluster->efficiency;
  if (cluster->attention_efficiency == 0)
    cluster->attention_efficiency = cluster->efficiency;
  if (cluster->efficiency_fp8 == 0)
    cluster->efficiency_fp8 = cluster->efficiency;
  if (cluster->efficiency_mxfp8 == 0)
    cluster->efficiency_mxfp8 = cluster->efficiency_fp8;
  if (cluster->efficiency_fp4 == 0)
    cluster->efficiency_fp4 = cluster->efficiency_mxfp8;
  if (cluster->unaligned_scores == 0)
    cluster->unaligned_scores = cluster->unaligned;
  read_dispatch (ini, "deepep", cluster->dispatch[PS_DISPATCHER_DEEPEP]);
  read_dispatch (ini, "hybridep", cluster->dispatch[PS_DISPATCHER_HYBRIDEP]);
  read_links (ini, cluster);
  read_network (ini, cluster);
  if (!ps_ini_finish (ini, error))
    return NULL;
  cluster->n_gpus = cluster->nodes * cluster->devices_per_node;
  if ((guint64)cluster->nodes * cluster->devices_per_node > PS_MAX_GPUS)
    ps_ini_fail (ini, "nodes", "%u nodes of %u devices make more than %d devices", cluster->nodes,
                 cluster->devices_per_node, PS_MAX_GPUS);
  return ps_ini_finish (ini, error) ? g_steal_pointer (&cluster) : NULL;
}

/* shipped: its name, where it ships; NULL: it does not. A description that ships is its own class: what it omits has
 * the value that data/README.md states. */
static PsCluster *complete (PsIni *ini, const char *shipped, GError **error)
{
  gboolean named = ps_ini_has (ini, "like");
  g_autofree char *like = named ? named_class (ini) : shipped != NULL ? NULL : find_class (ini);
  g_autofree char *assumed = assume (ini, named, like);
  PsCluster *cluster = read_cluster (ini, error);

  if (cluster == NULL)
    return NULL;
  cluster->datasheet = !named && assumed != NULL;
  cluster->assumed = g_steal_pointer (&assumed);
  cluster->class_name = shipped != NULL ? g_strdup (shipped) : g_steal_pointer (&like);
  return cluster;
}

PsCluster *ps_cluster_load (const char *path, GError **error)
{
  g_autoptr (PsIni) ini = read_ini (path, error);
  g_autofree char *text = ps_shipped_text ("clusters", path);

  return ini != NULL ? complete (ini, text != NULL ? path : NULL, error) : NULL;
}

/* KEY=VALUE for a file; network is short for network_bandwidth. */
static gboolean change_key (PsIni *ini, const char *change, GError **error)
{
  const char *equals = strchr (change, '=');
  g_autofree char *given = g_strndup (change, strcspn (change, "="));
  const char *key = g_str_equal (given, "network") ? "network_bandwidth" : given;
  const char *names[G_N_ELEMENTS (fields)] = { NULL }; /* all but `like`, which is given */

  for (guint i = 1; i < G_N_ELEMENTS (fields); i++)
    names[i - 1] = fields[i].key;
  if (equals != NULL && ps_ini_has (ini, key))
    return ps_refuse (error, PS_ERROR_USAGE, "%s: the key is given twice", change);
  if (equals != NULL && g_strv_contains (names, key)) {
    ps_ini_set (ini, key, equals + 1);
    return TRUE;
  }
  g_autofree char *problem = g_strdup_printf ("'%s': is no KEY=VALUE with a key of clusters; there are", change);
  return ps_refuse_name (error, problem, given, names, G_N_ELEMENTS (fields) - 1);
}

char *ps_cluster_like (const char *name, char *const *changes, GError **error)
{
  g_autofree char *like = g_strdup_printf ("[cluster]\nlike = %s\n", name);
  g_autoptr (PsIni) ini = ps_ini_parse ("--like", like, strlen (like), "cluster", fields, G_N_ELEMENTS (fields), error);
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; changes != NULL && changes[i] != NULL; i++)
    if (!change_key (ini, changes[i], error))
      return NULL;
  g_autoptr (PsCluster) cluster = complete (ini, NULL, error);
  if (cluster == NULL)
    return NULL;
  g_string_append_printf (text, "# Started from %s: state what your machine has otherwise.\n[cluster]\n", name);
  for (guint i = 0; i < G_N_ELEMENTS (fields); i++)
    if (ps_ini_has (ini, fields[i].key)) {
      g_autofree char *value = ps_ini_text (ini, fields[i].key);

      g_string_append_printf (text, "# %s\n%s = %s\n", fields[i].about, fields[i].key, value);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* Without latency, in nanoseconds. */
static double bytes_time (const PsLink *link, double bytes)
{
  double from_bytes = 0, from_ns = 0;

  for (guint i = 0; i < link->n_points; i++) {
    double to_bytes = (double)link->points[i].bytes, to_ns = to_bytes * 1e9 / link->points[i].bandwidth;

    if (bytes <= to_bytes)
      return from_ns + (to_ns - from_ns) * (bytes - from_bytes) / (to_bytes - from_bytes);
    from_bytes = to_bytes;
    from_ns = to_ns;
  }
  return link->bandwidth > 0 ? from_ns + (bytes - from_bytes) * 1e9 / link->bandwidth : 0;
}

gint64 ps_link_transfer_ns (const PsLink *link, gint64 bytes)
{
  double ns = bytes_time (link, (double)bytes);

  return link->latency_ns + (ns < (double)PS_MAX_TIME_NS ? llrint (ns) : PS_MAX_TIME_NS);
}

static gboolean is_remote_place (const PsCluster *cluster, guint a, guint b)
{
  /* Where no network is described all sit in the one node, see ps_cluster_check_size. */
  return a / cluster->devices_per_node != b / cluster->devices_per_node && cluster->network_bandwidth > 0;
}

gboolean ps_cluster_is_remote (const PsCluster *cluster, guint a, guint b)
{
  guint spacing = MAX (cluster->spacing, 1);

  return is_remote_place (cluster, a * spacing, b * spacing);
}

char *ps_cluster_lacks (guint n_there, guint64 n_gpus)
{
  return n_gpus <= n_there ? g_strdup ("")
                           : g_strdup_printf (" (which has %u; more nodes like its own are assumed)", n_there);
}

PsLink ps_cluster_inner_link (const PsCluster *cluster, guint n)
{
  return (PsLink){ cluster->link_latency_ns, cluster->link_bandwidth * (cluster->link_peers ? MAX (n, 2) - 1 : 1),
                   cluster->n_link_points, cluster->link_points };
}

PsLink ps_cluster_network_link (const PsCluster *cluster)
{
  return (PsLink){ cluster->network_latency_ns, cluster->network_bandwidth, cluster->n_network_points,
                   cluster->network_points };
}

PsLink ps_cluster_link (const PsCluster *cluster, guint a, guint b)
{
  if (a == b)
    return (PsLink){ 0 };
  return ps_cluster_is_remote (cluster, a, b) ? ps_cluster_network_link (cluster) : ps_cluster_inner_link (cluster, 2);
}

/* The places of a node that the ring uses, at least one. */
static guint count_neighbours (const PsCluster *cluster, guint n, const guint *places)
{
  guint most = 1, run = 1;

  for (guint i = 1; i < n; i++) {
    run = is_remote_place (cluster, places[i - 1], places[i]) ? 1 : run + 1;
    most = MAX (most, run);
  }
  return most;
}

/* The time of a ring's step between two nodes. Each node holds the given number of the ring's GPUs. */
static gint64 outer_step_ns (const PsCluster *cluster, guint n_neighbours, gint64 bytes)
{
  PsLink outer = ps_cluster_network_link (cluster);
  guint n_rings = cluster->devices_per_node * cluster->tensor / n_neighbours;
  gint64 ns = ps_link_transfer_ns (&outer, bytes / n_neighbours);

  if (cluster->split_ring_bandwidth <= 0 || n_neighbours == 1 || n_rings <= 1)
    return ns;
  outer = (PsLink){ .latency_ns = outer.latency_ns, .bandwidth = cluster->split_ring_bandwidth / n_rings };
  return MAX (ns, ps_link_transfer_ns (&outer, bytes));
}

gint64 ps_cluster_ring_ns (const PsCluster *cluster, guint n, const guint *places, gint64 bytes)
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

gint64 ps_cluster_transfer_ns (const PsCluster *cluster, guint a, guint b, gint64 bytes)
{
  PsLink link = ps_cluster_link (cluster, a, b);

  return ps_link_transfer_ns (&link, bytes);
}

gboolean ps_cluster_check_size (const PsCluster *cluster, guint64 n_devices, GError **error)
{
  if (cluster->network_bandwidth > 0 || n_devices <= cluster->devices_per_node)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "cluster '%s': has one node of %u devices and no network, so not %" G_GUINT64_FORMAT
                    "; network_latency and network_bandwidth are missing in its file",
                    cluster->name, cluster->devices_per_node * cluster->tensor, n_devices * cluster->tensor);
}

static gint64 scale_latency (gint64 latency_ns, double factor)
{
  return llrint (MIN ((double)latency_ns * factor, (double)PS_MAX_TIME_NS));
}

static void scale_links (PsCluster *cluster, double factor)
{
  cluster->link_bandwidth *= factor;
  for (guint i = 0; i < cluster->n_link_points; i++)
    cluster->link_points[i].bandwidth *= factor;
}

static void scale_network (PsCluster *cluster, double factor)
{
  cluster->network_bandwidth *= factor;
  for (guint i = 0; i < cluster->n_network_points; i++)
    cluster->network_points[i].bandwidth *= factor;
}

void ps_cluster_scale (PsCluster *cluster, double bandwidth_factor, double network_factor, double latency_factor)
{
  cluster->link_latency_ns = scale_latency (cluster->link_latency_ns, latency_factor);
  cluster->network_latency_ns = scale_latency (cluster->network_latency_ns, latency_factor);
  scale_links (cluster, bandwidth_factor);
  scale_network (cluster, bandwidth_factor * network_factor);
  cluster->split_ring_bandwidth *= bandwidth_factor * network_factor;
}

gboolean ps_cluster_group (PsCluster *cluster, guint n_tensor, GError **error)
{
  if (cluster->devices_per_node % n_tensor != 0
      && (n_tensor % cluster->devices_per_node != 0 || cluster->network_bandwidth <= 0 || cluster->network_shared))
    return ps_refuse (
        error, PS_ERROR_USAGE,
        "--tensor %u: does not divide the %u GPUs of a node of cluster '%s'; the GPUs of a device share a node",
        n_tensor, cluster->devices_per_node, cluster->name);
  cluster->tensor *= n_tensor;
  if (n_tensor > cluster->devices_per_node) {
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

gboolean ps_cluster_join (PsCluster *cluster, guint n_context, GError **error)
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

/* The reasons that slow hardware down, in words. */

static const struct {
  PsThrottle bit;
  const char *name;

} reasons[] = { { PS_THROTTLE_POWER, "power" },
                { PS_THROTTLE_HEAT, "heat" },
                { PS_THROTTLE_HARDWARE, "hardware" },
                { PS_THROTTLE_SETTING, "setting" } };

char *ps_throttle_to_text (guint throttle)
{
  if (!(throttle & PS_THROTTLE_KNOWN))
    return NULL;
  GString *text = g_string_new (NULL);
  for (guint i = 0; i < G_N_ELEMENTS (reasons); i++)
    if (throttle & reasons[i].bit)
      g_string_append_printf (text, "%s%s", text->len > 0 ? " " : "", reasons[i].name);
  return g_string_free (text, FALSE);
}

static guint find_reason (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (reasons); i++)
    if (g_str_equal (name, reasons[i].name))
      return reasons[i].bit;
  return 0;
}

gboolean ps_throttle_parse (const char *text, guint *throttle)
{
  *throttle = text != NULL ? PS_THROTTLE_KNOWN : 0;
  if (text == NULL || *text == '\0')
    return TRUE;
  g_auto (GStrv) names = g_strsplit (text, " ", -1);
  for (guint i = 0; names[i] != NULL; i++) {
    guint bit = find_reason (names[i]);

    if (bit == 0 || *throttle & bit)
      return FALSE;
    *throttle |= bit;
  }
  return TRUE;
}

gboolean ps_condition_throttled (const PsCondition *before, const PsCondition *after, gboolean *known)
{
  guint either = before->throttle | after->throttle;

  *known = (before->throttle & after->throttle & PS_THROTTLE_KNOWN) != 0;
  return (either & ~(guint)PS_THROTTLE_KNOWN) != 0;
}

/* The proportion in which devices split accelerators. */

static guint common_divisor (const guint *shares, guint n)
{
  gint64 divisor = 0;

  for (guint i = 0; i < n; i++)
    divisor = ps_common_divisor (divisor, shares[i]);
  return (guint)MAX (divisor, 1);
}

guint *ps_shares_parse (const char *where, const char *text, guint *n, GError **error)
{
  g_auto (GStrv) items = g_strsplit (text, ",", -1);

  *n = g_strv_length (items);
  g_autofree guint *shares = g_new (guint, MAX (*n, 1));
  for (guint i = 0; i < *n; i++) {
    gint64 share;

    if (!ps_parse_integer (where, items[i], 1, PS_MAX_SHARE, &share, error))
      return NULL;
    shares[i] = (guint)share;
  }
  guint divisor = common_divisor (shares, *n);
  for (guint i = 0; i < *n; i++)
    shares[i] /= divisor;
  return g_steal_pointer (&shares);
}

static gboolean are_equal (const guint *shares, guint n)
{
  for (guint i = 1; i < n; i++)
    if (shares[i] != shares[0])
      return FALSE;
  return TRUE;
}

char *ps_shares_to_text (const guint *shares, guint n)
{
  GString *text = g_string_new (NULL);

  if (shares == NULL || are_equal (shares, n))
    return g_string_free (text, FALSE);
  guint divisor = common_divisor (shares, n);
  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%s%u", i ? "," : "", shares[i] / divisor);
  return g_string_free (text, FALSE);
}

const char *ps_shares_describe (const char *text)
{
  return *text ? text : "equal";
}
