/* schedule.h - the device that holds each stage, the order of the ops of each device, and the published orders. */
#ifndef PIPESIM_SCHEDULE_H
#define PIPESIM_SCHEDULE_H

#include <pipesim/costs.h>

G_BEGIN_DECLS

typedef enum {
  PS_PLACEMENT_LOOP,          /* stage s on device s mod p */
  PS_PLACEMENT_V,             /* two chunks: down 0..p-1, then up p-1..0 */
  PS_PLACEMENT_WAVE,          /* any number of chunks, alternately down and up */
  PS_PLACEMENT_BIDIRECTIONAL, /* one chunk, two weight copies: copy 0 down, copy 1 up */
  PS_PLACEMENT_CUSTOM,        /* anything else, as a schedule file says */
} PsPlacementKind;

typedef struct {
  PsPlacementKind kind;
  guint n_devices;
  guint n_stages;  /* stages of one copy of the model */
  guint n_copies;  /* weight copies: 1, or 2 for bidirectional */
  guint16 *device; /* [copy * n_stages + stage] */
  guint16 *chunk;  /* [copy * n_stages + stage] 0.. in the order of (copy, stage) on that device */
} PsPlacement;

/* n_devices >= 1, n_chunks >= 1; V wants 2 chunks, bidirectional 1 per copy (programmer's duty). Free with
 * ps_placement_free. */
PsPlacement *ps_placement_new (PsPlacementKind kind, guint n_devices, guint n_chunks);

/* device has n_copies * n_stages entries below n_devices and is copied; kind is recognised when it is one of the known
 * ones. */
PsPlacement *ps_placement_new_custom (guint n_devices, guint n_stages, guint n_copies, const guint16 *device);

/* Free with ps_placement_free. */
PsPlacement *ps_placement_copy (const PsPlacement *placement);
void ps_placement_free (PsPlacement *placement);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsPlacement, ps_placement_free)

static inline guint ps_placement_device (const PsPlacement *placement, guint copy, guint stage)
{
  return placement->device[(gsize)copy * placement->n_stages + stage];
}

/* Whether a device holds a stage, in any copy. */
gboolean ps_placement_holds (const PsPlacement *placement, guint device, guint stage);

/* v: the largest number of stages of one copy of the model that one device holds. */
guint ps_placement_max_chunks (const PsPlacement *placement);

const char *ps_placement_name (PsPlacementKind kind); /* "loop", "V", "wave", "bidirectional", "custom" */

/* Reads the names of ps_placement_name except "custom". Errors as those of ps_parse_name. */
gboolean ps_placement_parse (const char *where, const char *text, PsPlacementKind *kind, GError **error);

/* For every device, the order of its ops. No times. */

/* One op, 8 bytes. */
typedef struct {
  guint8 kind;  /* PsOpKind */
  guint8 slice; /* sequence slice, 0 unless the schedule slices */
  guint16 stage;
  guint32 microbatch : 31;
  guint32 paired : 1; /* forms one overlapped op with the next op of the same device */
} PsOp;

/* Whether an op right after another one on its device finds in the caches what that one has touched: a backward or W
 * the data that was made for it, F the memory that was freed. */
static inline gboolean ps_op_is_warm (PsOp before, PsOp op)
{
  gboolean same = before.stage == op.stage && before.microbatch == op.microbatch && before.slice == op.slice;

  switch (op.kind) {
  case PS_OP_F:
    return before.kind == PS_OP_W || before.kind == PS_OP_BW;
  case PS_OP_B:
  case PS_OP_BW:
    return same && before.kind == PS_OP_F;
  case PS_OP_W:
    return same && before.kind == PS_OP_B;
  default:
    return FALSE;
  }
}

static inline gboolean ps_op_is_backward (PsOp op)
{
  return op.kind == PS_OP_B || op.kind == PS_OP_BW;
}

/* TRUE if op needs the result of another stage. *producer becomes the op that makes it: F, or B also where a BW does.
 */
static inline gboolean ps_op_input (PsOp op, guint n_stages, PsOp *producer)
{
  *producer = op;
  producer->paired = 0;
  if (op.kind == PS_OP_F && op.stage > 0)
    producer->stage = (guint16)(op.stage - 1);
  else if (ps_op_is_backward (op) && op.stage + 1U < n_stages) {
    producer->kind = PS_OP_B;
    producer->stage = (guint16)(op.stage + 1);
  } else
    return FALSE;
  return TRUE;
}

/* TRUE if another stage needs op's result. *stage becomes that stage. */
static inline gboolean ps_op_output (PsOp op, guint n_stages, guint *stage)
{
  if (op.kind == PS_OP_F && op.stage + 1U < n_stages)
    *stage = op.stage + 1U;
  else if (ps_op_is_backward (op) && op.stage > 0)
    *stage = op.stage - 1U;
  else
    return FALSE;
  return TRUE;
}

/* Types of PsPost. Higher numbers belong to the format of the file that has them; lowering passes over them. */
typedef enum {
  PS_POST_SEND,
  PS_POST_RECEIVE,
  PS_POST_OTHER,
} PsPostType;

/* A send or receive of a schedule that was lowered elsewhere. */
typedef struct {
  guint32 place; /* index into ops: it stands right before this op */
  guint16 device;
  guint8 type; /* PsPostType */
  PsOp op;     /* its result moves: F, or B also where a BW makes it */
} PsPost;

typedef struct {
  char *name;             /* family name, or the name in a file */
  char *origin;           /* one line: where it comes from; NULL: not known */
  char *family;           /* the family that generated it; NULL: none, or not known */
  guint n_chunks;         /* v that the family was asked for; 0: not known */
  guint group_size;       /* N that the family was asked for; 0: its default, or not known */
  guint defer_head;       /* that the family was asked for; 0: none, or not known */
  PsPlacement *placement; /* owned */
  guint n_microbatches;
  guint n_slices;        /* 1 unless sequences are sliced */
  guint8 *slices;        /* [n_microbatches] slices of each, at most n_slices; forward-only schedules alone have them;
                            NULL: n_slices of all */
  gboolean recomputes;   /* some op is an R, as the builder has seen */
  gboolean forward_only; /* every op is an F, as the builder has seen: the prefill of prompts, see below */
  guint8 *copy;          /* [n_microbatches] weight copy that a microbatch uses; NULL: all use copy 0 */
  guint n_lengths;       /* different lengths of microbatches (costs.h), and of their slices; 0: they are alike */
  guint16 *length;       /* [ps_schedule_cell] below n_lengths; NULL: they are alike. Stages differ only by their R: see
                            ps_setting_recomputed. Files do not hold it */
  gboolean asynchronous; /* weights change between a microbatch's F and B (PipeDream): no flush between steps */
  guint *weight_versions; /* [n_devices] versions of the weights that are kept; NULL: 1 everywhere */
  guint update_every;     /* microbatches whose gradients make one optimizer step of a stage; 0: all of an iteration */
  guint *first;           /* [n_devices + 1]: device d owns ops[first[d]] .. ops[first[d + 1] - 1] */
  PsOp *ops;
  GArray *posts; /* PsPost, by device and place: the schedule's own sends and receives, all of them; never changed.
                    NULL: lowering chooses */
} PsSchedule;

/* A deep copy. Free with ps_schedule_free. */
PsSchedule *ps_schedule_copy (const PsSchedule *schedule);
void ps_schedule_free (PsSchedule *schedule);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSchedule, ps_schedule_free)

/* Forward-only schedules. A microbatch is a prompt, and its slices are the chunks of tokens in which a pipeline of
 * forwards takes it in (prefill). Slices are the right thing for chunks, because slices go forward in order, later ones
 * read the keys and values of earlier ones, and devices that compute run them so. Prompts of different lengths have
 * different numbers of them. Nothing comes back: there are no gradients, no reduction and no optimizer step. What F of
 * a slice keeps stays until F of the last slice of its microbatch has ended on the stage. */

/* The slices of a microbatch. */
static inline guint ps_schedule_slices (const PsSchedule *schedule, guint microbatch)
{
  return schedule->slices != NULL ? schedule->slices[microbatch] : schedule->n_slices;
}

/* Whether no later op of the stage reads what the op's microbatch has left there: F of the last slice where every op is
 * an F. */
static inline gboolean ps_schedule_ends_prompt (const PsSchedule *schedule, PsOp op)
{
  return schedule->forward_only && op.slice + 1U == ps_schedule_slices (schedule, op.microbatch);
}

static inline guint ps_schedule_n_ops (const PsSchedule *schedule)
{
  return schedule->first[schedule->placement->n_devices];
}

/* The weight copy that a microbatch uses. */
static inline guint ps_schedule_weight_copy (const PsSchedule *schedule, guint microbatch)
{
  return schedule->copy != NULL ? schedule->copy[microbatch] : 0;
}

/* The device that runs ops of this stage for this microbatch. */
static inline guint ps_schedule_device (const PsSchedule *schedule, guint stage, guint microbatch)
{
  return ps_placement_device (schedule->placement, ps_schedule_weight_copy (schedule, microbatch), stage);
}

/* The chunk of op's stage on the device that runs it. */
static inline guint16 ps_schedule_chunk (const PsSchedule *schedule, PsOp op)
{
  guint copy = ps_schedule_weight_copy (schedule, op.microbatch);

  return schedule->placement->chunk[(gsize)copy * schedule->placement->n_stages + op.stage];
}

/* Microbatches of an optimizer step. Step u of a stage with n versions takes the gradients at the weights after u - n +
 * 1 steps, the first ones at the weights of the start: W(u + 1) = W(u) - g (W(u - n + 1)). */
static inline guint ps_schedule_update_every (const PsSchedule *schedule)
{
  return schedule->update_every > 0 ? schedule->update_every : schedule->n_microbatches;
}

/* Age of the weights that a stage uses, in optimizer steps. */
static inline guint ps_schedule_delay (const PsSchedule *schedule, guint stage)
{
  guint device = ps_placement_device (schedule->placement, 0, stage);

  return schedule->weight_versions != NULL ? schedule->weight_versions[device] - 1 : 0;
}

static inline gsize ps_schedule_n_cells (const PsSchedule *schedule)
{
  return (gsize)schedule->placement->n_stages * schedule->n_microbatches * schedule->n_slices;
}

/* A number below ps_schedule_n_cells for op's stage, microbatch and slice. The next slice has the next number. */
static inline gsize ps_schedule_cell (const PsSchedule *schedule, PsOp op)
{
  return ((gsize)op.stage * schedule->n_microbatches + op.microbatch) * schedule->n_slices + op.slice;
}

/* A number below 2 * ps_schedule_n_cells for the result of an F, B or BW. B and BW make the same result. */
static inline gsize ps_schedule_result (const PsSchedule *schedule, PsOp op)
{
  return 2 * ps_schedule_cell (schedule, op) + (op.kind != PS_OP_F);
}

/* Whether each stage, microbatch and slice has an R, which makes again what its F does not keep: [ps_schedule_cell] 0
 * or 1. NULL: there is no R. Free with g_free. */
guint8 *ps_schedule_recomputed (const PsSchedule *schedule);

/* Collects the orders of devices 0 .. p - 1: new; for each of them add its ops, then next_device; end, which frees the
 * builder. Devices not reached have no ops. Free the schedule with ps_schedule_free. */
typedef struct _PsScheduleBuilder PsScheduleBuilder;
PsScheduleBuilder *ps_schedule_builder_new (const char *name, PsPlacement *placement /* taken */, guint n_microbatches);
/* Makes room for n more ops at once; optional. */
void ps_schedule_builder_reserve (PsScheduleBuilder *builder, guint n);
void ps_schedule_builder_add (PsScheduleBuilder *builder, PsOpKind kind, guint stage, guint microbatch);
void ps_schedule_builder_add_op (PsScheduleBuilder *builder, PsOp op);
void ps_schedule_builder_add_ops (PsScheduleBuilder *builder, const PsOp *ops, guint n);
/* Adds n ops, which the caller writes before its next call. */
PsOp *ps_schedule_builder_room (PsScheduleBuilder *builder, guint n);
/* The post stands after the ops that the device has so far. op.paired is 0. */
void ps_schedule_builder_add_post (PsScheduleBuilder *builder, guint type, PsOp op);
void ps_schedule_builder_next_device (PsScheduleBuilder *builder);
PsSchedule *ps_schedule_builder_end (PsScheduleBuilder *builder);

/* Checks completeness, placement and order. Every stage and microbatch has one F and, unless every op is an F, either
 * one BW or one B and one W. Each op is on the device that holds it. B comes after F, W after B; slices go forward in
 * order and backward in reverse. Every message names device, position and op, e.g. "device 1: op 7 (B3.1): comes before
 * its F". ps_program_lower finds deadlocks between devices. Errors: PS_ERROR_SCHEDULE. */
gboolean ps_schedule_validate (const PsSchedule *schedule, GError **error);

/* "F0.1": kind, microbatch, dot, stage; "F0.1/2" slice 2. Pairs are joined by '+' in files: "F4.0+BW1.3". buffer has 48
 * bytes; returns buffer. */
char *ps_op_format (PsOp op, char *buffer);

/* Reads an op as ps_op_format writes it; *end points after it. FALSE: text does not begin with an op. */
gboolean ps_op_parse (const char *text, const char **end, PsOp *op);

/* The native format: JSON {"format": "pipesim-schedule/1", "name", "origin"?, "family"?, "chunks"?, "group"?,
 * "defer_head"?, "devices", "stages", "microbatches", "slices"?, "placement": [[device per stage] per copy],
 * "copy_of_microbatch"?, "slices_of_microbatch"?, "asynchronous"?, "weight_versions"?, "update_every"?, "order":
 * [["F0.0", ...] per device]};
 * keys in any order, "?" optional, others refused. "origin" is one line for people: "generated by pipesim 0.1.0", "...
 * from given costs: command line" if the family looked at costs, or "read from FILE (torch-comms)". "family", "chunks",
 * "group" and "defer_head" are the setting, with devices, microbatches and slices, that makes the family generate it
 * again. Free the text with g_free. */
char *ps_schedule_to_json (const PsSchedule *schedule);

/* Not yet validated. length -1: text ends with NUL. Errors: PS_ERROR_INPUT "where: order[2][5]: ...". */
PsSchedule *ps_schedule_parse_json (const char *where, const char *text, gssize length,
                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The table of published schedules and how to generate them. */

/* The question that a family answers. */
typedef struct {
  guint n_devices;      /* p >= 1 */
  guint n_microbatches; /* m >= 1 */
  guint n_chunks;       /* v >= 1 */
  guint n_slices;       /* q: sequence slices of a microbatch; 0: the family's default */
  const guint *prompt; /* [n_microbatches] F alone: the microbatch, below n_prompts, whose next slice takes the place of
                          each microbatch in the family's order of F; NULL: with backwards */
  guint n_prompts;
  guint group_size;     /* N: microbatches that go through a chunk in a row; 0: the family's default */
  guint defer_head;     /* first microbatches whose W on the last stage waits until its device has no other op left */
  const PsCosts *costs; /* costs of n_devices * n_chunks stages, for families that look at them; NULL: F, B and W take
                           one unit of time each, transfers none, and F keeps one unit of memory until W */
  const gint64 *memory_limit; /* [n_devices] bytes, weights included, for families that keep to a limit; NULL: none */
  gboolean by_makespan; /* families that look at costs make the makespan as short as they can, then the longest span of
                           a device; FALSE: the span first, as published for steps without a common synchronisation */
} PsFamilySetting;

/* An order in loop placement: on each device r some forwards, then alternately one forward and one backward, then the
 * backwards that are left. Units count over its chunks, microbatches and slices. */
typedef struct {
  guint depth; /* forwards before the first backward: depth (p - 1 - r) + (v - 1) N q + q - 1 + more. In groups and with
                  one chunk depth counts as 1 */
  guint more;
  gboolean all;   /* all forwards come before the first backward */
  gboolean split; /* B and W rather than BW */
  guint delay;    /* the W of a unit follows the B that comes delay r units later */
  gboolean pairs; /* a forward and the backward after it are one overlapped op; v >= 2 */
  gboolean alone; /* each microbatch is a group */
} PsWalk;

typedef struct PsFamily PsFamily;
struct PsFamily {
  const char *name;        /* as typed: "1f1b" */
  const char *torch;       /* PyTorch's class of it is Schedule with this: "1F1B"; NULL: it has none */
  const char *torch_one;   /* PyTorch's class whose order of one stage per device this is; NULL: none */
  const char *also;        /* its names in Megatron-LM, DeepSpeed and Colossal-AI, with blanks between; NULL: none */
  const char *description; /* one line */
  const char *constraints; /* one line, "none" if there are none */
  const char *memory;      /* activations at the peak of device r, in units of a device's whole share (A) */
  const char *source;      /* where it was published */
  guint default_chunks;    /* v when the user gives none */
  guint default_slices;    /* q when the user gives none; 0: the family does not slice, q must be 1 */
  gboolean slices_by_p;    /* q is then p times that */
  gboolean forward;        /* its order of F makes a forward-only schedule, too */
  gboolean groups;         /* takes a group size N; others refuse one */
  gboolean half_groups;    /* N may be as small as half of p; of others, p */
  gboolean defers;         /* takes defer_head; others refuse it */
  gboolean uses_costs;     /* looks at costs and memory_limit */
  gboolean any_chunks;     /* takes other numbers of chunks than default_chunks */
  /* Further constraints. Fails with PS_ERROR_USAGE saying which constraint and the nearest allowed value. NULL: none.
   */
  gboolean (*check) (const PsFamily *family, const PsFamilySetting *setting, GError **error);
  const PsWalk *walk; /* NULL: generate makes the schedule */
  /* NULL: walk says all. The setting has passed ps_family_check, and n_slices is not 0. Fails with PS_ERROR_SCHEDULE
   * only where costs or memory limits make it impossible; the message says which device would need how much. */
  PsSchedule *(*generate) (const PsFamilySetting *setting, GError **error);
};

/* All families in the order of the catalogue; *n entries. */
const PsFamily *const *ps_family_table (guint *n);

/* The family of that name, or that other programs call so: "1F1B", "ScheduleInterleaved1F1B". Case does not count.
 * NULL: there is none. */
const PsFamily *ps_family_find (const char *name);

/* The own name of the family that a name of ps_family_find means with n_chunks stages per device, 0: not known; any
 * other text is itself. PyTorch's Interleaved1F1B of one stage is eager-1f1b. */
const char *ps_family_own_name (const char *name, guint n_chunks);

/* The schedules of --schedule: as asked, families by their own names with n_chunks, or all families where that is NULL
 * or "all" alone. Free with g_strfreev. */
char **ps_family_names (char *const *asked, guint n_chunks);

/* Checks the number of chunks and the family's own constraints. Errors: PS_ERROR_USAGE. */
gboolean ps_family_check (const PsFamily *family, const PsFamilySetting *setting, GError **error);

/* Checks the setting (limits of base.h, then the family's own) and generates a schedule that ps_schedule_validate
 * accepts. */
PsSchedule *ps_family_generate (const PsFamily *family, const PsFamilySetting *setting,
                                GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The size of the groups in which a family with groups runs microbatches (loop.c): group_size, or where that is 0 the
 * smallest one allowed. `least` is the smallest that the family runs without waiting: p, half of it for gis. */
guint ps_family_group_size (const PsFamilySetting *setting, guint least);

/* A schedule on a V of two chunks that repeats a block of slots, as V-Half and V-Min do: an op takes one slot, and each
 * microbatch comes six slots after the one before. wait: [4 * n_devices], by direction (F down, F up, B down, B up) and
 * device, slots that an op waits there before it takes the next one that is free in all periods. Eager, ops may run
 * before their slots. The setting's numbers of devices and microbatches count. */
PsSchedule *ps_family_v_hops (const PsFamilySetting *setting, const guint8 *wait,
                              gboolean eager) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
