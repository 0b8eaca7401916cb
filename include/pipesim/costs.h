/* costs.h - the costs of every op and transfer: the only thing the simulator knows about model and machine. */
#ifndef PIPESIM_COSTS_H
#define PIPESIM_COSTS_H

#include <pipesim/base.h>
#include <pipesim/model.h>
#include <pipesim/cluster.h>
#include <pipesim/work.h>

G_BEGIN_DECLS

/* One op on one stage for one microbatch. Memory: the op takes `take` when it starts and gives `give` back when it
 * ends. So a device's memory curve is a prefix sum over its order, and the peak lies at the start of some op.
 *
 * F takes act and gives 0. B takes 0 and gives act - wact. W takes 0 and gives wact. BW takes 0 and gives act. Here act
 * is what a forward keeps, and wact the part that W still needs after B. A measured op may take more at its start,
 * which it needs while it runs and gives back at its end. In prefill there is no backward: F keeps the keys and values
 * of a chunk, and the F of a prompt's last chunk gives back those of all.
 */
typedef struct {
  gint64 duration_ns;
  gint64 take_bytes;
  gint64 give_bytes;
} PsOpCost;

/* The host's part of an op's duration: taking in its message and starting it, and sending its result. */
typedef struct {
  gint64 before_ns;
  gint64 after_ns;
} PsHostTime;

typedef struct {
  gint64 weight_bytes;  /* held throughout: weights, gradients and optimizer state */
  PsStateBytes state;   /* the parts of weight_bytes; all 0 where only the sum is known */
  PsStateBytes experts; /* the part of state of experts, which fewer replicas share; its buffers and context are 0 */
  gint64 version_bytes; /* each further version of the weights alone, where a schedule stashes them */
  gint64 reduce_ns;     /* all-reduce of the gradients over the data-parallel replicas of the stage */
  gint64 reduce2_ns;    /* the same where the stage has two weight copies: over both copies of all replicas */
  gint64 step_ns;       /* part of O that each replica does whatever it holds (PsCluster.step_ns), over its stages */
  gint64 tensor_ns;     /* part of F, and of B, in which the GPUs of a device talk to each other (work.h) */
  gint64 host_ns;       /* moving what F keeps to the host, or back; -1 = not known */
  guint unknown;        /* bit 1 << PsOpKind: its duration is only a guess; schedules that need it are refused */
  gint64 pair_ns;       /* duration of an overlapped pair whose F is on this stage; -1: sum of its parts */
  gint64 gather_ns;     /* all-gather of the weights over the replicas before their use, where PsCosts.zero is 3 */
  gint64 whole_bytes;   /* bytes of the weights while they are gathered, beyond the part that stays (PsCosts.zero 3) */
} PsStageCost;

/* Measured or modelled slices of a sequence. A later slice looks at the keys and values of those before it, so slices
 * differ. */
typedef struct {
  guint n;       /* slices of each sequence */
  guint *tokens; /* [n] of each slice; NULL: they are equally long */
  double *part;  /* [(kind * n + slice) * n_stages + stage], kinds below O: duration over that of the whole op */
  gint64
      *take_bytes; /* [as part] what the op takes, and gives back; both NULL: as many of those of the whole op as the */
  gint64 *give_bytes; /* slice has of its tokens */
  double *transfer;   /* [slice * 2 n_stages + i] time of a slice's message over that of a whole one, i as transfer_ns
                         without entry 0; 1 in a new one */
} PsSliceParts;

/* Slices of so many tokens, [n_slices] (copied); NULL: equally long ones. */
PsSliceParts *ps_slice_parts_new (guint n_slices, const guint *tokens, guint n_stages);
void ps_slice_parts_free (PsSliceParts *parts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSliceParts, ps_slice_parts_free)

/* Microbatches may have different lengths (costs.h). Arrays over ops and transfers then have an entry for each
 * length; stages have one. */
typedef struct {
  guint n_stages;
  guint n_lengths;          /* different lengths of microbatches; 1: they are alike */
  PsStageCost *stage;       /* [n_stages] */
  PsStageShape *shapes;     /* [n_stages] the piece of the model that each stage is; NULL: costs of no model */
  char *pattern;            /* of a hybrid model, whose layers are one unit each (ps_model_hybrid_pattern); else NULL */
  PsOpCost *op;             /* [ps_op_index] for every PsOpKind; R costs what F does unless known better */
  gint64 *transfer_ns;      /* [1 + 2 n_stages n_lengths], see ps_transfer_*: entry 0 is the free hand-over inside a
                               device; then those of the first length, and so on */
  gint64 *message_bytes;    /* [as transfer_ns] bytes of each of these transfers; 0 = not known */
  gint64 *pairs_ns;         /* [length * n_stages + stage] pair_ns where both microbatches have that length; NULL: they
                               are alike */
  gint64 op_ns;             /* host time of each op; see ps_costs_add_host_time */
  gint64 post_ns;           /* host time of each message at its sender, and at its receiver */
  PsHostTime *host_time;    /* [as op] part of duration_ns; NULL: durations have none */
  PsHostTime pair_host;     /* the same of the backward in a pair that has a time of its own */
  guint dense_copies;       /* GPUs of a device that hold the same dense parameters; 1 unless they share a context */
  gboolean overlap_gather;  /* forwards hide the gather of the weights after O */
  guint zero;               /* the stage of ZeRO that spread state over the replicas (ps_costs_zero); 0: none */
  double expert_copies;     /* GPUs of a device that hold the same experts; less than 1 where replicas share them */
  GPtrArray *slice_parts;   /* PsSliceParts for each number of slices that is known; NULL: none is. Copies share it */
  double *warm;             /* [kind * n_stages + stage], kinds below O: part of the duration that a warm op takes
                               (ps_op_is_warm), in calibrations 1 for backwards whose gradient comes from another
                               stage; NULL: it was not measured apart, or durations are means of a schedule's ops */
  gboolean loop_only;       /* stage i costs what it does on device i mod p, whose part of an accelerator is like no
                               other's: true for placement loop only */
  PsOrigin time_origin;     /* origin of durations */
  PsOrigin transfer_origin; /* origin of transfer_ns */
  PsOrigin memory_origin;   /* origin of all sizes */
  char *source;             /* one line for people: "command line", "profile 'x' of costs.db", ... */
  double unrest;            /* measured costs: how far the machine's sentinel moved meanwhile
                               (ps_sentinel_shifts); 0: not at all, or not known */
} PsCosts;

/* All zero, and nothing known that may be unknown. Free with ps_costs_free. */
PsCosts *ps_costs_new (guint n_stages);
PsCosts *ps_costs_copy (const PsCosts *costs);
void ps_costs_free (PsCosts *costs);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCosts, ps_costs_free)

/* The cost of an op for microbatches of the first length. */
static inline PsOpCost *ps_costs_op (const PsCosts *costs, PsOpKind kind, guint stage)
{
  return &costs->op[ps_op_index (costs->n_stages, costs->n_lengths, kind, 0, stage)];
}

/* Copies what a stage costs, but not its shape and its transfers. Both costs may be the same. */
void ps_costs_copy_stage (PsCosts *costs, guint stage, const PsCosts *from, guint from_stage);

/* The index that an op has where microbatches are alike. */
static inline guint ps_costs_alike (const PsCosts *costs, guint op)
{
  return op / (costs->n_lengths * costs->n_stages) * costs->n_stages + op % costs->n_stages;
}

/* Time of the whole backward of a stage for microbatches of that length: B and W as two ops or BW as one, whichever is
 * shorter. */
static inline gint64 ps_costs_backward_ns (const PsCosts *costs, guint length, guint stage)
{
  const PsOpCost *op = &costs->op[ps_op_index (costs->n_stages, costs->n_lengths, 0, length, stage)];
  guint next = costs->n_lengths * costs->n_stages; /* from one kind to the next */

  return MIN (op[PS_OP_B * next].duration_ns + op[PS_OP_W * next].duration_ns, op[PS_OP_BW * next].duration_ns);
}

/* How much longer a pair with an F of a stage is than that F alone: it saves time if the backward in it takes longer
 * than that. G_MAXINT64: pairs take what their parts take. */
static inline gint64 ps_costs_pair_more_ns (const PsCosts *costs, guint stage)
{
  gint64 pair_ns = costs->stage[stage].pair_ns;

  return pair_ns >= 0 ? pair_ns - ps_costs_op (costs, PS_OP_F, stage)->duration_ns : G_MAXINT64;
}

/* Duration of an overlapped pair of two ops, by their indices into op. Where the microbatches have different lengths,
 * as much overlaps as for the one that overlaps less. A modelled pair_ns is of F, B and W: a pair of F and B takes W
 * less, which is an op of its own then. */
gint64 ps_costs_pair_ns (const PsCosts *costs, guint a, guint b);

/* The all-reduce of a stage's gradients, ns, where the placement has n_copies weight copies. */
static inline gint64 ps_costs_reduce_ns (const PsCosts *costs, guint stage, guint n_copies)
{
  return n_copies > 1 ? costs->stage[stage].reduce2_ns : costs->stage[stage].reduce_ns;
}

/* Whether that of some stage takes time. */
gboolean ps_costs_have_reduce (const PsCosts *costs, guint n_copies);

/* The bytes that a device holds for a stage throughout when it keeps that many versions of its weights (1 or more). */
static inline gint64 ps_costs_held_bytes (const PsCosts *costs, guint stage, guint versions)
{
  return costs->stage[stage].weight_bytes + (versions - 1) * costs->stage[stage].version_bytes;
}

/* The bytes that an F keeps, and the bytes that its B leaves for W. */
static inline gint64 ps_costs_act_bytes (const PsCosts *costs, guint stage)
{
  const PsOpCost *f = ps_costs_op (costs, PS_OP_F, stage);

  return f->take_bytes - f->give_bytes;
}

static inline gint64 ps_costs_wact_bytes (const PsCosts *costs, guint stage)
{
  const PsOpCost *b = ps_costs_op (costs, PS_OP_B, stage);

  return ps_costs_act_bytes (costs, stage) + b->take_bytes - b->give_bytes;
}

/* Indices into transfer_ns, for the first length: the activation that stage hands to stage + 1, the gradient that stage
 * hands to stage - 1. */
#define PS_TRANSFER_LOCAL 0
static inline guint ps_transfer_forward (G_GNUC_UNUSED const PsCosts *costs, guint stage)
{
  return 1 + stage;
}
static inline guint ps_transfer_backward (const PsCosts *costs, guint stage)
{
  return 1 + costs->n_stages + stage;
}

static inline gint64 ps_host_time_sum (PsHostTime time)
{
  return time.before_ns + time.after_ns;
}

/* The host time in the duration of an op, by its index into op. */
static inline PsHostTime ps_costs_host_time (const PsCosts *costs, guint op)
{
  return costs->host_time != NULL ? costs->host_time[op] : (PsHostTime){ 0 };
}

/* Whether there are host times that durations do not have yet. */
static inline gboolean ps_costs_lack_host_time (const PsCosts *costs)
{
  return costs->host_time == NULL && (costs->op_ns != 0 || costs->post_ns != 0);
}

/* Makes the host times op_ns and post_ns a part of all durations, which engines, bounds and searches take as they are.
 * Does nothing where they are part of them already, or 0.
 *
 * A device's host works on one thing at a time, and its op runs meanwhile. When the device is free and the op's input
 * has arrived, the host takes the message in (post_ns) and starts the op (op_ns). When the op has ended, the host sends
 * the result (post_ns); then the transfer begins. So post_ns is the overhead o of the LogP model (Culler et al., LogP:
 * towards a realistic model of parallel computation, 1993). Results that stay on their device are no messages; O has no
 * host time. In a pair both ops have their host times. A pair with a time of its own has the largest of any backward.
 *
 * device is that of the placement, [n_copies * n_stages]. Two stages exchange messages if they are on two devices in
 * any copy. */
void ps_costs_add_host_time (PsCosts *costs, const guint16 *device, guint n_copies);

/* Takes host times out of the durations again. */
void ps_costs_remove_host_time (PsCosts *costs);

/* The costs of one of n_slices equal slices of a microbatch. Divided are op durations, pairs, activations, messages and
 * what moves to the host, each rounded to the nearest; but a backward gives back exactly what its forward keeps.
 * Weights, all-reduce, O and host times stay. A transfer keeps its time, which is per message. Where the slices are
 * known (slice_parts), their average times take the place of equal parts. */
PsCosts *ps_costs_slice (const PsCosts *costs, guint n_slices);

/* Gives the costs slices that are known, in place of others of that number; takes the parts. */
void ps_costs_add_slices (PsCosts *costs, PsSliceParts *parts);

/* The slices, which differ. The costs own them. NULL: they are not known, and are equal. */
const PsSliceParts *ps_costs_slices (const PsCosts *costs, guint n_slices);

/* The costs of one slice: as ps_costs_slice, but with the times and bytes of that slice where the slices are known. */
PsCosts *ps_costs_nth_slice (const PsCosts *costs, guint n_slices, guint slice);

/* As ps_costs_slice, but with the shortest time, and the fewest bytes kept, of any slice for each op where they are
 * known: a bound of these holds. */
PsCosts *ps_costs_least_slice (const PsCosts *costs, guint n_slices);

/* Where backwards of a stage give back exactly what forwards keep, they do so in these costs with rounded bytes too.
 * Else the bytes of a long run would keep growing. */
void ps_costs_balance (PsCosts *rounded, const PsCosts *costs, guint stage);

/* Gives the unknown ops of a stage what ps_costs_parse would: BW is B + W, B and W are parts of BW, equal ones where
 * both are unknown. So sums over the stage make sense. */
void ps_costs_guess (PsCosts *costs, guint stage);

/* Gives boundaries whose transfer_ns are -1, because no message was seen there, the median of the others; 0 where all
 * are. transfer_origin becomes PS_ORIGIN_INTERPOLATED then, or PS_ORIGIN_MODELLED where all are. */
void ps_costs_guess_transfers (PsCosts *costs);

/* "measured costs, interpolated transfers: profile 'x' of costs.db": where the costs come from, and transfers if they
 * are less sure. Free with g_free. */
char *ps_costs_describe (const PsCosts *costs);

/* Fills the memory of F, B, W, BW and R from act and wact as described at PsOpCost. */
void ps_costs_set_memory (PsCosts *costs, guint stage, gint64 act_bytes, gint64 wact_bytes);

/* Gives the boundaries between stages their messages, in both directions: what the stage before hands on to a GPU of
 * n_tensor (ps_model_stage_output_bytes), or where `shapes` is NULL a hidden state. R does not receive again: it takes
 * the bytes of F less the message (stage 0 receives none). */
void ps_costs_set_messages (PsCosts *costs, const PsModel *model, guint n_tensor);

/* Recomputes part of each forward before its backward, in n_parts equal parts of the stage, one after the other.
 * - F keeps drop_bytes less. While it runs it needs the dropped bytes of one part.
 * - B and BW take duration_ns longer. While they run they need the dropped bytes of one part. The W inputs of a B pile
 *   up as it goes through the parts: it also needs the W inputs of all parts but the last.
 */
void ps_costs_drop (PsCosts *costs, guint stage, guint n_parts, gint64 drop_bytes, gint64 duration_ns);

/* Recomputation on a stage.
 *
 * With a model it follows the model's formulas for the costs' shapes, which are known; layers are the parts. A shape
 * that says it recomputes is left as it is: its costs were measured so. A recomputation takes its share of F, by
 * work.h on the cluster or, without one (NULL), by floating-point operations alone. Measured times become
 * modelled. What the GPUs of a device say to each other is repeated as ps_tensor_again_ns says.
 *
 * Without a model (NULL), full recomputation is as R says: its duration, and the bytes that it takes. Fails with
 * PS_ERROR_USAGE where nothing says what modules take, and where the model has no such module.
 */
gboolean ps_costs_recompute (PsCosts *costs, guint stage, const PsModel *model, const PsCluster *cluster,
                             PsRecompute recompute, GError **error);

/* The costs of microbatches whose R is an op of its own. full: the same costs, with full recomputation on some stages.
 * There F keeps what it does in full, R makes the rest again in the time that B of full takes longer, if it does, and
 * backwards are those of costs. */
PsCosts *ps_costs_split_recompute (const PsCosts *costs, const PsCosts *full);

/* Moves the part `ratio`, in [0, 1], of what F of a stage keeps to the host while F runs, and back while B or BW runs.
 * An op is never shorter than its copy. F gives the bytes back when it ends, B takes them when it starts. A shape that
 * says it offloads is left as it is: its costs were measured so. Fails with PS_ERROR_USAGE where host_ns is not known.
 */
gboolean ps_costs_offload (PsCosts *costs, guint stage, double ratio, GError **error);

/* The same for what these modules (PsOffloadFlags) keep under a recomputation that the costs have already. Fails with
 * PS_ERROR_USAGE without a model, and where it has no such module. */
gboolean ps_costs_offload_modules (PsCosts *costs, guint stage, const PsModel *model, PsRecompute recompute,
                                   guint modules, GError **error);

/* Leaves what forwards alone need, for prefill: F with what it takes and gives back, messages forward, and the weights
 * without gradients, optimizer state and the framework's buffers, where these are known. All other ops and messages
 * take no time and no bytes. */
void ps_costs_keep_forward (PsCosts *costs);

/* Spreads state evenly over all GPUs of n_replicas that hold the same parameters (ZeRO, arXiv 1910.02054, section 5).
 * The all-reduce is two halves, which move as many bytes as before (section 7.2.1): a reduce-scatter of the gradients
 * and an all-gather of the weights, whose bytes may be fewer. zero is the stage:
 *
 * - 1: the optimizer state, and O with it: each replica updates its part of the parameters. reduce_ns keeps the
 *   reduce-scatter, and O takes the all-gather; with PsCosts.overlap_gather forwards of the next step hide it.
 * - 2: the gradients too, once they are complete. In a pipeline the microbatches of a stage add to one whole gradient,
 *   which is scattered after its last backward (sim/simulate/gathers.h has the sources): time and peaks are those
 * of 1. Megatron-FSDP scatters after each backward instead, and holds less.
 * - 3: the weights too, as PyTorch's FSDP does in a pipeline. A device has the weights of at most three of its stages
 *   whole at a time, in buffers that hold its own part. It gathers the weights of its next stages on a channel of their
 *   own, gather_ns each. A modelled stage that is the whole model is gathered by its embedding, layers and head
 * instead, two at a time, for F and again for the backward, after which its gradients are scattered (torchtitan,
 *   models/llama3/infra/parallelize.py, apply_fsdp). Ops take as long as these transfers where that is more.
 *
 * model, cluster: those of modelled costs, for the owners of matrices under Muon (work.h); else NULL. Fails with
 * PS_ERROR_USAGE where the size of the state is not known. */
gboolean ps_costs_zero (PsCosts *costs, const PsModel *model, const PsCluster *cluster, guint n_replicas, guint zero,
                        GError **error);

/* Adds what driver, libraries and allocator hold on a GPU by the habits of the model's framework (work.h), spread
 * over the n_chunks stages of each device. Call it last. */
void ps_costs_add_context (PsCosts *costs, const PsModel *model, guint n_chunks);

/* The all-reduce of every stage's gradients over n_replicas of the pipeline of n_devices, as a ring (Patarasuk and
 * Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009). It takes 2 (D - 1) steps of bytes
 * / D each over the slowest link of the ring. Replica r of device d is device r p + d of the cluster; stage i sits on
 * device d = i mod p. reduce_ns has D = n_replicas. reduce2_ns has twice as many: its ring goes through d and p - 1 - d
 * of each replica in turn (Li and Hoefler, Chimera, arXiv 2107.06925, section 3.2). Both are 0 where the size of the
 * gradients is not known. */
void ps_costs_set_reduce (PsCosts *costs, const PsCluster *cluster, guint n_devices, guint n_replicas);

/* The keys of ps_costs_parse: times, then sizes from PS_COST_ACT on. */
typedef enum {
  PS_COST_F,
  PS_COST_B,
  PS_COST_W,
  PS_COST_BW,
  PS_COST_C,
  PS_COST_O,
  PS_COST_PAIR,
  PS_COST_REDUCE,
  PS_COST_REDUCE2,
  PS_COST_R,
  PS_COST_HOST,
  PS_COST_OP,
  PS_COST_POST,
  PS_COST_ACT,
  PS_COST_WACT,
  PS_COST_KEEP,
  PS_COST_WEIGHTS,
  PS_COST_VERSION,
  PS_COST_GRAD,
  PS_COST_OPT,
  PS_COST_MSG,
  PS_N_COST_KEYS
} PsCostKey;

const char *ps_cost_key_name (PsCostKey key); /* "f", "act" */

/* Reads 'f=1ms,b=1ms,w=1ms,c=0,o=0,act=2MiB,wact=1MiB,weights=0,version=0,bw=2ms,pair=3ms' and these further keys:
 *   msg         bytes of a transfer
 *   reduce      all-reduce of the gradients over the replicas; ps_setting_costs drops that of one replica
 *   reduce2     the same where every stage has two weight copies: over both copies of all replicas
 *   grad, opt   the parts of weights that are gradients and optimizer state
 *   r, keep     time of recomputing a forward, and the bytes of act kept for it
 *   host        moving act to the host, or back
 *   op, post    host time of each op, and of each send or receive
 *
 * A single value is a device's whole share and is split evenly over its chunks. The first chunks take the remainder, so
 * that sums are exact. c and msg are per transfer and never divided. op and post are single values, never divided.
 *
 * A list of n_devices times n_chunks values 'f=1ms:2ms:...' is one value per stage, taken as it is. A list of c or msg
 * is one value per boundary, stages - 1 of them.
 *
 * f, b and w are required unless bw is given; bw alone stands for b + w and is split in halves. Defaults: bw is b + w,
 * wact is act, version is weights less grad and opt, r is f, reduce2 is reduce. keep is the message that comes in, act
 * at most. host is not known. post is op. Everything else is 0. Errors: PS_ERROR_USAGE naming key and value.
 */
PsCosts *ps_costs_parse (const char *text, guint n_devices, guint n_chunks, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Costs from the formulas of model.h and work.h on a cluster's rates, for stages of these shapes [n_devices *
 * n_chunks]; every origin is PS_ORIGIN_MODELLED. Where cluster->tensor GPUs are one device, times are the device's and
 * sizes those of one of its GPUs, by work.h. Stage i is assumed to sit on device i mod n_devices for the choice of
 * link. */
PsCosts *ps_costs_model_stages (const PsModel *model, const PsCluster *cluster, const PsStageShape *shapes,
                                guint n_devices, guint n_chunks, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Puts the stages of modelled costs on other devices, [n_copies * n_stages]: transfers take the links between those of
 * the first copy, and the stages of each device, of all copies, share what it holds (bytes of the context) and does
 * (PsCluster.step_ns) once. Where there are two copies, multi-token prediction shares weights and gradients of the
 * embedding with the stage of the other copy on its device (DeepSeek-V3, arXiv 2412.19437, section 3.2.3); its part of
 * the optimizer state, and the all-reduces, stay. */
void ps_costs_place (PsCosts *costs, const PsModel *model, const PsCluster *cluster, const guint16 *device,
                     guint n_devices, guint n_copies);

/* Fails with PS_ERROR_USAGE where an entry is negative or where n_microbatches of everything could overflow an exact
 * sum. */
gboolean ps_costs_check (const PsCosts *costs, guint n_microbatches, GError **error);

/* Microbatches of different lengths: their file, and costs that hold an entry for each length. */

/* Most microbatches of a file, and the range of a factor in it. */
#define PS_MAX_LENGTHS 65535
#define PS_MIN_LENGTH_FACTOR 0.0001
#define PS_MAX_LENGTH_FACTOR 10000

/* What multiplies the costs of a microbatch on a stage, and on the boundary after it. */
typedef struct {
  double f;   /* F and R */
  double b;   /* B; a BW grows as the sum of its B and W does, and a pair as the sum of its F and BW */
  double w;   /* W */
  double c;   /* time of a transfer */
  double act; /* all bytes that ops take and give, and the time to move them to the host */
  double msg; /* bytes of a transfer */
} PsLengthFactors;

typedef struct {
  guint tokens;            /* tokens of each sequence; 0: the model's */
  guint before;            /* further ones before them, to which they attend (PsModel.before): a chunk of a prompt */
  gboolean last;           /* the chunk ends its prompt */
  int images;              /* images of each sequence; negative: the model's */
  PsLengthFactors factors; /* where neither is known, else 1 */
} PsLength;

typedef struct {
  guint n;          /* microbatches */
  guint16 *of;      /* [n] index into length */
  guint n_lengths;  /* different ones */
  PsLength *length; /* [n_lengths] in the order of their first microbatch */
} PsLengths;

/* Which microbatch of the file is the first to enter the pipeline, the second, and so on. */
typedef enum {
  PS_ORDER_GIVEN,      /* as in the file */
  PS_ORDER_ASCENDING,  /* by the work of F, B and W, the shortest first */
  PS_ORDER_DESCENDING, /* the longest first */
  PS_ORDER_BEST,       /* the one that takes the least time; see sim/setting/predictor.c */
} PsMicrobatchOrder;

/* Names and back; errors as those of ps_parse_name. */
const char *ps_microbatch_order_name (PsMicrobatchOrder order); /* "given", "ascending", "descending", "best" */
gboolean ps_microbatch_order_parse (const char *where, const char *text, PsMicrobatchOrder *order, GError **error);

/* Whether tokens or images say the length, from which a model's formulas make factors. */
static inline gboolean ps_length_is_modelled (const PsLength *length)
{
  return length->tokens > 0 || length->images >= 0;
}

/* Reads a CSV with one line for each microbatch. Its first line names the columns: "tokens", "images" or both, or some
 * of factor, f, b, w, c, act and msg. A column of factors that is left out is as `factor`, or 1. Empty lines and those
 * that begin with '#' do not count. Errors: PS_ERROR_IO, PS_ERROR_INPUT "FILE:LINE: ...". */
PsLengths *ps_lengths_read (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;
PsLengths *ps_lengths_parse (const char *where, const char *text, gsize length,
                             GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_lengths_free (PsLengths *lengths);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsLengths, ps_lengths_free)

/* The factors that lead from the costs of a stage to other costs of it; 1 where the first are 0. */
PsLengthFactors ps_length_factors (const PsCosts *from, const PsCosts *to, guint stage);

/* Costs of microbatches that are alike, times the factors [n_stages]. Weights, all-reduce, O and host times stay. */
PsCosts *ps_costs_scale (const PsCosts *costs, const PsLengthFactors *factors);

/* One table of the costs of n lengths, each of microbatches that are alike, without host times. */
PsCosts *ps_costs_join (PsCosts *const *costs, guint n);

/* The times of one length, of microbatches that are alike. They have no bytes. */
PsCosts *ps_costs_of_length (const PsCosts *costs, guint length);

/* The average times of the microbatches, and for each stage the bytes of the length that keeps most: costs of
 * microbatches that are alike. costs have lengths->n_lengths. */
PsCosts *ps_costs_average (const PsCosts *costs, const PsLengths *lengths);

/* The least of every time over all lengths, and of pairs over all that two of them make: costs of microbatches that are
 * alike, for bounds. They have no bytes. */
PsCosts *ps_costs_least (const PsCosts *costs);

G_END_DECLS

#endif
