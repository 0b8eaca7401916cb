/* cluster.h - the machines that train a model, read from data/clusters/<name>.ini; the state of one while it is
 * measured, the cost of its messages, and how devices share it. */
#ifndef PIPESIM_CLUSTER_H
#define PIPESIM_CLUSTER_H

#include <pipesim/base.h>

G_BEGIN_DECLS

/* Bandwidth that messages of one size reach. */
typedef struct {
  gint64 bytes;
  double bandwidth; /* bytes per second, latency not counted */
} PsLinkPoint;

/* The part of a run's kernels that CUDA graphs hold, which the host launches all at once. */
typedef enum {
  PS_CUDA_GRAPHS_NONE,
  PS_CUDA_GRAPHS_ATTN, /* all but the experts: scope attn with moe_router and moe_preprocess */
  PS_CUDA_GRAPHS_FULL, /* the whole iteration: scope full_iteration */
} PsCudaGraphs;

const char *ps_cuda_graphs_name (PsCudaGraphs graphs); /* "none", "attn", "full_iteration" */
gboolean ps_cuda_graphs_parse (const char *where, const char *text, PsCudaGraphs *graphs, GError **error);

/* How GPUs of a context exchange what attention needs (Megatron-LM's --cp-comm-type). */
typedef enum {
  PS_CP_COMM_ALL_GATHER, /* keys and values of all, before attention */
  PS_CP_COMM_P2P,        /* keys and values of one after the other, in a ring, beside attention (arXiv 2310.01889) */
  PS_CP_COMM_A2A,        /* heads for tokens before attention and back after it (DeepSpeed Ulysses, arXiv 2309.14509) */
  PS_N_CP_COMMS
} PsCpComm;

const char *ps_cp_comm_name (PsCpComm comm); /* "all_gather", "p2p", "a2a" */
gboolean ps_cp_comm_parse (const char *where, const char *text, PsCpComm *comm, GError **error);

/* The library that brings tokens to experts and back (Megatron-LM's --moe-token-dispatcher-type, and
 * --moe-flex-dispatcher-backend). */
typedef enum {
  PS_DISPATCHER_ALLTOALL, /* NCCL: every copy of a token goes by itself */
  PS_DISPATCHER_DEEPEP,   /* a token goes once to each GPU with some of its experts, as in the next */
  PS_DISPATCHER_HYBRIDEP,
} PsDispatcher;
#define PS_N_DISPATCHERS (PS_DISPATCHER_HYBRIDEP + 1)

const char *ps_dispatcher_name (PsDispatcher dispatcher); /* "alltoall", "deepep", "hybridep" */
gboolean ps_dispatcher_parse (const char *where, const char *text, PsDispatcher *dispatcher, GError **error);

/* The rate of dispatch and combine over n_gpus. It counts all bytes of a GPU's tokens, also of those that stay on it.
 */
typedef struct {
  guint n_gpus;
  double bandwidth; /* bytes per second */
} PsDispatchRate;
#define PS_MAX_DISPATCH_RATES 8

typedef struct {
  char *name;    /* from [cluster] name, else the file's base name */
  char *assumed; /* keys that the file omits, with their values, and the cluster that they are of: "launch_time 10us, as
                    h100-80gb"; NULL: none was assumed */
  char *class_name; /* the shipped cluster that it is one of: itself, the one that it names, or the one that is nearest;
                       NULL: none */
  gboolean datasheet; /* keys of class_name were assumed, and the file does not name it */
  guint nodes;
  guint devices_per_node;
  guint n_gpus;              /* the GPUs of all nodes, however they are grouped into devices */
  gint64 memory_bytes;       /* per device; 0 = not known */
  double peak_flops;         /* per device and second, at the precision of training */
  double efficiency;         /* part of peak_flops that large matrix products reach, in (0, 1]; F, B and W as a whole
                                where memory_bandwidth is not known */
  double efficiency_fp8;     /* the same of products of 8 bits with a scale for each tensor, */
  double efficiency_mxfp8;   /* of 8 bits with scales for blocks, */
  double efficiency_fp4;     /* and of 4 bits */
  double memory_bandwidth;   /* to the memory of the device itself, bytes per second; 0 = not known, see work.h */
  gint64 link_latency_ns;    /* between devices of one node */
  double link_bandwidth;     /* bytes per second, one direction, as one transfer sees it */
  gint64 network_latency_ns; /* between nodes */
  double network_bandwidth;  /* bytes per second */
  guint n_link_points;       /* where messages are too small for the full bandwidth; 0: all have it */
  PsLinkPoint *link_points;  /* [n_link_points] ascending in bytes and in bytes / bandwidth, within link_bandwidth */
  guint n_network_points;
  PsLinkPoint *network_points; /* as link_points, between nodes */
  gboolean link_shared;    /* the devices of a node share one bus of link_bandwidth for both directions (link = node);
                              else each has a port of its own (link = gpu) */
  gboolean link_peers;     /* each device has a link of link_bandwidth to each other one of its node (link = peer);
                              FALSE: what it sends to all of them goes through its one port */
  gboolean network_shared; /* they share one network port of network_bandwidth per direction (nic = node, gpu) */
  double split_ring_bandwidth; /* for all rings of a node together where it holds several and several GPUs of
                                  each; 0: each GPU sends through its own port */
  double host_bandwidth;    /* from a device to the memory of its host, bytes per second and direction; 0 = not known */
  double peak_flops_fp8;    /* as peak_flops, of products of 8 bits; 0: as peak_flops */
  double peak_flops_fp4;    /* rate with 4 bits; 0: as peak_flops_fp8 */
  guint multiprocessors;    /* per device; 0 = not known */
  double product_depth;     /* k at which a product reaches half of its rate, see work.h */
  double scores_efficiency; /* as efficiency, for the products of attention heads */
  double attention_efficiency; /* as efficiency, for flash attention; above 1 where it skips the masked half fast */
  double memory_efficiency;    /* part of memory_bandwidth that kernels reach, in (0, 1] */
  double unaligned; /* part of its rate that a product reaches whose rows do not start at multiples of 16 bytes */
  double unaligned_scores;    /* the same for the products of attention heads */
  gint64 launch_ns;           /* the host's time for a kernel; with CUDA graphs none */
  gint64 expert_launch_ns;    /* the same for a launch that PsWorkKernel.launches counts; 0: launch_ns */
  gint64 kernel_ns;           /* a kernel's own time to start and end */
  gint64 collective_ns;       /* to start an all-reduce, an all-gather or an all-to-all, before its steps */
  gint64 step_ns;             /* time on the host at the end of each step */
  double tensor_overlap;      /* part of the all-reduces of layers that overlaps with products, in [0, 1) */
  double alltoall_efficiency; /* part of link and network bandwidth that an all-to-all reaches */
  PsDispatchRate dispatch[PS_N_DISPATCHERS][PS_MAX_DISPATCH_RATES]; /* ascending in n_gpus; all 0: not known */
  double expert_exposed;          /* part of the all-to-alls that no pair of ops hides, in [0, 1] */
  guint dispatch_multiprocessors; /* that deepep and hybridep take from other kernels while they run */
  double optimizer_passes;        /* bytes that an optimizer step moves, over those of ps_work_optimizer_ns */
  guint spacing;            /* devices from one device of a pipeline to the next: 1, or the replicas where these stand
                               between them; 0 as 1 */
  gboolean context_remote;  /* the GPUs of a context are on several nodes, see ps_cluster_join; FALSE when loaded */
  guint tensor;             /* GPUs that are one device by tensor parallelism, see ps_cluster_group; 1 when loaded */
  PsCudaGraphs cuda_graphs; /* of the run; none when loaded */
  PsDispatcher dispatcher;  /* of the run; alltoall when loaded */
  PsCpComm cp_comm;         /* of the run; all_gather when loaded */
} PsCluster;

/* Reads a cluster description from a path or, by bare name, from those shipped. Unknown and missing keys and absurd
 * values are errors "FILE: [cluster] key: ...". Errors: PS_ERROR_IO, PS_ERROR_INPUT. Free with ps_cluster_free.
 *
 * A file that omits what no datasheet states (efficiencies, latencies, times of the host) takes the values of its
 * class: of the shipped cluster whose peak_flops, memory_bandwidth and memory are nearest, within a factor of 8.
 * Without memory_bandwidth it is of no class, and what it omits counts as free. With `like = NAME` it takes all keys
 * from that one that it omits. */
PsCluster *ps_cluster_load (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A file to start from: all keys of the shipped cluster `name`, each after a comment, with changes, "KEY=VALUE"; NULL:
 * none. ps_cluster_load reads it. Errors: PS_ERROR_USAGE for unknown keys, PS_ERROR_INPUT for bad values. Free with
 * g_free. */
char *ps_cluster_like (const char *name, char *const *changes, GError **error) G_GNUC_WARN_UNUSED_RESULT;
PsCluster *ps_cluster_copy (const PsCluster *cluster);
void ps_cluster_free (PsCluster *cluster);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCluster, ps_cluster_free)

/* Multiplies bandwidths of links and network, small messages included, those of the network by network_factor as well,
 * and latencies of both. The memory's and the host's stay. */
void ps_cluster_scale (PsCluster *cluster, double bandwidth_factor, double network_factor, double latency_factor);

/* Makes every n_tensor GPUs of a node one device; from here on devices are counted in these groups. Memory, its
 * bandwidth and the peak rate stay those of one GPU. Messages stay too: the GPUs of a device send at the same time,
 * each through its own port. Where a node has one port or bus for all, each GPU gets 1 / n_tensor of its bandwidth.
 * Fails with PS_ERROR_USAGE unless n_tensor divides devices_per_node. */
gboolean ps_cluster_group (PsCluster *cluster, guint n_tensor, GError **error);

/* Makes every n_context of these groups one device (context parallelism): part of a node, or whole nodes. Fails with
 * PS_ERROR_USAGE where it is neither. */
gboolean ps_cluster_join (PsCluster *cluster, guint n_context, GError **error);

/* Fails with PS_ERROR_USAGE where n_devices do not share a node and no network is described. More nodes than the
 * cluster has are assumed to be like its own. */
gboolean ps_cluster_check_size (const PsCluster *cluster, guint64 n_devices, GError **error);

/* " (which has 32; more nodes like its own are assumed)" where GPUs are missing, or "". Free with g_free. */
char *ps_cluster_lacks (guint n_there, guint64 n_gpus);

/* The link between two neighbours: one direction, as one transfer sees it. */
typedef struct {
  gint64 latency_ns;
  double bandwidth; /* bytes per second; 0: bytes take no time */
  guint n_points;
  const PsLinkPoint *points; /* owned by the cluster */
} PsLink;

/* latency + bytes / bandwidth, rounded to the nearest nanosecond; the bytes take at most PS_MAX_TIME_NS. With points
 * the time is continuous and piecewise linear. It starts from the latency, goes in proportion from point to point, and
 * after the last point every byte has the full bandwidth. */
gint64 ps_link_transfer_ns (const PsLink *link, gint64 bytes);

/* The links from a GPU to the n - 1 others of its node that take part in a collective; 2: between two GPUs. With
 * link_peers it has n - 1 links. */
PsLink ps_cluster_inner_link (const PsCluster *cluster, guint n);

/* Between two nodes. */
PsLink ps_cluster_network_link (const PsCluster *cluster);

/* The link that devices a and b share, devices numbered node by node. It takes no time when a == b. */
PsLink ps_cluster_link (const PsCluster *cluster, guint a, guint b);

/* TRUE where a transfer between devices a and b goes over the network. */
gboolean ps_cluster_is_remote (const PsCluster *cluster, guint a, guint b);

/* An all-reduce of `bytes` over a ring of n GPUs at these places (replicas and devices in the order of their numbers),
 * ns: 2 (n - 1) steps of bytes / n each over the slowest link of the ring (Patarasuk and Yuan, Bandwidth optimal
 * all-reduce algorithms for clusters of workstations, 2009). Where a node holds several of the ring each of them sends
 * its part through its own network port, as NCCL's rings do. But where it holds several rings and split_ring_bandwidth
 * is known, these share it. */
gint64 ps_cluster_ring_ns (const PsCluster *cluster, guint n, const guint *places, gint64 bytes);

/* Modelled time of one transfer of `bytes` between pipeline devices a and b, numbered node by node: latency + bytes /
 * bandwidth of the link that they share. 0 when a == b. */
gint64 ps_cluster_transfer_ns (const PsCluster *cluster, guint a, guint b, gint64 bytes);

/* The state of hardware while it is measured: clocks, temperature, power, and the reasons that slow it
 * down. */

/* Why hardware runs slower than it could. */
typedef enum {
  PS_THROTTLE_KNOWN = 1 << 0, /* the state is known; without another bit nothing slows it down */
  PS_THROTTLE_POWER = 1 << 1, /* "power": the power limit */
  PS_THROTTLE_HEAT = 1 << 2,  /* "heat": too hot */
  PS_THROTTLE_HARDWARE
  = 1 << 3,                     /* "hardware": the board's own slow-down, for heat, power supply or an outside signal */
  PS_THROTTLE_SETTING = 1 << 4, /* "setting": clocks set by hand, or boost shared with other boards */
} PsThrottle;

/* The reading of one moment; 0: not known. */
typedef struct {
  gint64 clock_mhz;        /* clock of the processor's cores or multiprocessors */
  gint64 memory_clock_mhz; /* clock of the device's memory */
  gint64 temperature_c;    /* degrees Celsius */
  gint64 power_mw;         /* drawn by the whole device */
  guint throttle;          /* PsThrottle bits; 0: not known */
} PsCondition;

/* "power heat" in the order of PsThrottle, "" for nothing, NULL for not known. Free with g_free. */
char *ps_throttle_to_text (guint throttle);

/* Reads that back (NULL: not known). FALSE: text holds another word, or one twice. */
gboolean ps_throttle_parse (const char *text, guint *throttle);

/* TRUE where either reading has a reason; *known says whether both could tell. */
gboolean ps_condition_throttled (const PsCondition *before, const PsCondition *after, gboolean *known);

/* The cost of a message as a function of its size: alpha + beta n, in pieces.
 *
 * Messages of different sizes are moved differently (copied at once, in chunks, through caches or past them), so one
 * beta holds for a range of sizes only. Hockney (The communication challenge for MPP, Parallel Computing 20, 1994) is
 * the fit of one piece. The function is continuous, starts at alpha >= 0 and never falls.
 */

#define PS_FIT_MAX_PIECES 3

/* From from_bytes on, up to the next piece, each further byte takes ns_per_byte. */
typedef struct {
  gint64 from_bytes; /* the first piece has 0 */
  double ns_per_byte;
} PsFitPiece;

typedef struct {
  double alpha_ns; /* time of an empty message */
  PsFitPiece piece[PS_FIT_MAX_PIECES];
  guint n_pieces;
  double r_squared; /* 1 - sum of e^2 / that of the best constant; e relative as below; 1 where a constant is exact */
  double largest_error; /* over the points: |e|, e = (fitted - measured) / measured */
} PsTransferFit;

/* Fits n points (bytes ascending without repetition and >= 0, ns > 0; n >= 2). Minimises the sum of squared relative
 * errors, so that small messages count as much as large ones, over alpha, betas >= 0 and pieces that begin at measured
 * sizes. Another piece is taken where it at least halves that sum and there are more points than 2 per piece. */
void ps_transfer_fit (const gint64 *bytes, const gint64 *ns, guint n, PsTransferFit *fit);

/* The fitted time of a message, in ns. bytes >= 0. */
double ps_transfer_fit_at (const PsTransferFit *fit, double bytes);

/* The fit, a line each: "alpha 8.01 us", per piece "to 64 KiB: 0.0279 ns/B (35.8 GB/s)" or "beyond: no slope", and "R²
 * 0.999, within 3.2 %". Free with g_free. */
char *ps_transfer_fit_to_text (const PsTransferFit *fit);

/* How well sizes are interpolated: each but the outermost two is left out once, and taken from the line through its
 * neighbours. Returns the median of |error| relative to the measured time; NaN for n < 3. Points as above. */
double ps_interpolation_error (const gint64 *bytes, const gint64 *ns, guint n);

/* Amounts of work of several kinds, or what one of each takes in ns. */
#define PS_FIT_AMOUNTS 3
typedef struct {
  double of[PS_FIT_AMOUNTS];
} PsFitAmounts;

/* Finds the time of one of each amount, >= 0, with the least sum of squared relative errors of n ops: ns[i] > 0 is the
 * sum of their amounts times these. 0 where no op has that amount. Returns the largest |error|, as above. */
double ps_fit_amounts (const PsFitAmounts *amounts, const gint64 *ns, guint n, PsFitAmounts *ns_of_one);

/* The proportion in which devices split accelerators: a list of whole numbers, one per device. Equal parts
 * have no list: text "" and NULL. */

/* Every figure that is made of a share stays within 64 bits. */
#define PS_MAX_SHARE 1000000

/* Reads "40,30,20,10" in lowest terms: 4, 3, 2, 1. *n becomes their number. where begins the message of PS_ERROR_USAGE,
 * which names the entry that is no share from 1 to PS_MAX_SHARE. Free with g_free. */
guint *ps_shares_parse (const char *where, const char *text, guint *n, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* "4,3,2,1" of 40, 30, 20, 10; "" of equal shares[n] and of NULL. Free with g_free. */
char *ps_shares_to_text (const guint *shares, guint n);

/* The text of ps_shares_to_text for people: itself, or "equal". */
const char *ps_shares_describe (const char *text);

G_END_DECLS

#endif
