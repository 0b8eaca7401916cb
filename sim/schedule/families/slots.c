/* slots.c - orders made in slots of time. Devices run one op after the other in a slot or two each, and a policy
 * chooses what a device runs next: the waves of Hanayo, and the schedules on a V that repeat one block of ops (V-Half,
 * V-Min, 1F1B-V).
 *
 * The block of a V gives the slot in which each op of microbatch 0 starts; microbatch k comes 6 k slots later. Then ops
 * slide into free slots before them as far as the memory of the busiest device allows. */
#include "families-private.h"

/* A device while its order is made. */
typedef struct {
  PsOp *order; /* [n_ops] */
  guint n_ordered;
  guint busy; /* first slot after its last op */
  guint held; /* activations of its chunks */
} Device;

typedef struct {
  guint n_stages;
  guint n_microbatches;
  guint32 *done[2]; /* [F, backward][stage * m + microbatch] first slot in which the result is there; 0: not yet */
  Device *device;   /* [n_devices] */
  guint n_run;      /* ops that have run */
} Slots;

/* Lets a device run its next op, if a policy has one for it. */
typedef void (*RunDevice) (Slots *slots, gpointer policy, guint device, guint now);

/* Ops of n_kinds kinds for each stage and microbatch. */
static Slots *slots_new (const PsFamilySetting *setting, guint n_kinds)
{
  guint n = setting->n_chunks * setting->n_microbatches, p = setting->n_devices;
  Slots *slots = g_new0 (Slots, 1);

  slots->n_stages = setting->n_chunks * p;
  slots->n_microbatches = setting->n_microbatches;
  slots->done[0] = g_new0 (guint32, 2 * (gsize)n * p);
  slots->done[1] = slots->done[0] + (gsize)n * p;
  slots->device = g_new0 (Device, p);
  slots->device[0].order = g_new (PsOp, (gsize)n_kinds * n * p);
  for (guint device = 1; device < p; device++)
    slots->device[device].order = slots->device[device - 1].order + n_kinds * n;
  return slots;
}

static gboolean is_backward (PsOpKind kind)
{
  return kind == PS_OP_B || kind == PS_OP_BW;
}

/* TRUE: the input of an F, B or BW is there. */
static gboolean has_input (const Slots *slots, PsOpKind kind, guint stage, guint microbatch, guint now)
{
  gboolean backward = is_backward (kind), loss = backward && stage + 1 == slots->n_stages;

  if (!backward && stage == 0)
    return TRUE;
  guint from = loss ? stage : backward ? stage + 1 : stage - 1;
  guint32 done = slots->done[backward && !loss][(gsize)from * slots->n_microbatches + microbatch];
  return done != 0 && done <= now;
}

static void run_op (Slots *slots, guint device, PsOp op, guint now, guint n_slots)
{
  Device *on = &slots->device[device];

  on->order[on->n_ordered++] = op;
  on->busy = now + n_slots;
  slots->n_run++;
  if (op.kind != PS_OP_W)
    slots->done[is_backward ((PsOpKind)op.kind)][(gsize)op.stage * slots->n_microbatches + op.microbatch] = on->busy;
}

/* Runs the next n_ops ops, from slot 0 on. */
static void run_slots (Slots *slots, guint n_devices, guint n_ops, RunDevice run, gpointer policy)
{
  guint until = slots->n_run + n_ops;

  for (guint device = 0; device < n_devices; device++)
    slots->device[device].busy = 0;
  for (guint now = 0; slots->n_run < until; now++)
    for (guint device = 0; device < n_devices; device++)
      if (slots->device[device].busy <= now)
        run (slots, policy, device, now);
}

/* Frees the slots. */
static PsSchedule *slots_end (Slots *slots, const char *name, PsPlacementKind placement, const PsFamilySetting *setting)
{
  PsScheduleBuilder *builder = ps_family_builder (name, placement, setting);

  for (guint device = 0; device < setting->n_devices; device++) {
    ps_schedule_builder_add_ops (builder, slots->device[device].order, slots->device[device].n_ordered);
    ps_schedule_builder_next_device (builder);
  }
  g_free (slots->done[0]);
  g_free (slots->device[0].order);
  g_free (slots->device);
  g_free (slots);
  return ps_schedule_builder_end (builder);
}

/* Hanayo: the chunks of a device go down and up the devices in turn, F takes a slot and BW two. A backward that can run
 * goes first, else the forward of the deepest stage, then the earlier microbatch. Published for m = p; more
 * microbatches follow within the same memory. */

typedef struct {
  const PsFamilySetting *setting;
  guint end;      /* first microbatch after the wave */
  guint *next[2]; /* [F, backward][stage] next microbatch: they go in order within a stage */
} Wave;

static guint wave_stage (const Wave *wave, guint device, guint chunk)
{
  guint p = wave->setting->n_devices;

  return chunk * p + (chunk % 2 ? p - 1 - device : device);
}

/* TRUE: a device may hold the activation of one more forward. It holds at most p for each chunk, and leaves room for
 * the forwards that its oldest microbatch still needs. So it can always go on. */
static gboolean has_room (const Wave *wave, guint device, guint held, guint microbatch)
{
  guint v = wave->setting->n_chunks, oldest = microbatch, n_left = 0;

  for (guint chunk = 0; chunk < v; chunk++)
    oldest = MIN (oldest, wave->next[0][wave_stage (wave, device, chunk)]);
  for (guint chunk = 0; chunk < v && oldest < microbatch; chunk++)
    n_left += wave->next[0][wave_stage (wave, device, chunk)] == oldest;
  return held + 1 + n_left <= v * wave->setting->n_devices;
}

/* TRUE: the stage's next forward or backward can run now. At most 3 p / 2 microbatches are under way: more of them, of
 * several waves, would only delay each other. */
static gboolean is_ready (const Slots *slots, const Wave *wave, guint device, gboolean backward, guint stage, guint now)
{
  guint p = wave->setting->n_devices, microbatch = wave->next[backward][stage];

  if (microbatch == wave->end || (!backward && !has_room (wave, device, slots->device[device].held, microbatch)))
    return FALSE;
  if (!backward && stage == 0)
    return microbatch < wave->next[1][0] + p + p / 2;
  return has_input (slots, backward ? PS_OP_BW : PS_OP_F, stage, microbatch, now);
}

static void run_wave (Slots *slots, gpointer policy, guint device, guint now)
{
  Wave *wave = policy;
  guint v = wave->setting->n_chunks, stage = G_MAXUINT;
  gboolean backward;

  for (guint chunk = 0; chunk < v; chunk++) {
    guint candidate = wave_stage (wave, device, chunk);

    if (is_ready (slots, wave, device, TRUE, candidate, now)
        && (stage == G_MAXUINT || wave->next[1][candidate] < wave->next[1][stage]))
      stage = candidate;
  }
  backward = stage != G_MAXUINT;
  for (guint chunk = v; stage == G_MAXUINT && chunk-- > 0;)
    if (is_ready (slots, wave, device, FALSE, wave_stage (wave, device, chunk), now))
      stage = wave_stage (wave, device, chunk);
  if (stage == G_MAXUINT)
    return;
  run_op (slots, device,
          (PsOp){ .kind = backward ? PS_OP_BW : PS_OP_F,
                  .stage = (guint16)stage,
                  .microbatch = wave->next[backward][stage]++ & G_MAXINT32 },
          now, backward ? 2 : 1);
  slots->device[device].held += backward ? -1 : 1;
}

static gboolean check_hanayo (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  return ps_family_check_multiple (family->name, "chunks", setting->n_chunks, 2, error);
}

/* With two chunks the next wave fills the gaps of the one before, whatever ops take. With more chunks it could delay
 * that one, so waves of p follow each other. Fewer than p at the end go with the last of them. */
static PsSchedule *generate_hanayo (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  guint p = setting->n_devices, m = setting->n_microbatches, n_stages = p * setting->n_chunks;
  g_autofree guint *next = g_new0 (guint, 2 * n_stages);
  Wave wave = { .setting = setting, .next = { next, next + n_stages } };
  Slots *slots = slots_new (setting, 2);

  while (wave.end < m) {
    guint left = m - wave.end, n = setting->n_chunks == 2 || left < 2 * p ? left : p;

    wave.end += n;
    run_slots (slots, p, 2 * n * n_stages, run_wave, &wave);
  }
  return slots_end (slots, "hanayo", PS_PLACEMENT_WAVE, setting);
}

const PsFamily ps_family_hanayo = {
  .name = "hanayo",
  .description = "v / 2 waves down and up the devices; published for m = p, others follow within that memory",
  .constraints = "v even",
  .memory = "min (m, p)",
  .source = "Hanayo, arXiv 2308.15762",
  .default_chunks = 2,
  .any_chunks = TRUE,
  .check = check_hanayo,
  .generate = generate_hanayo,
};

/* A V: the near chunk of device d is stage d, its far chunk stage 2 p - 1 - d. */

#define PERIOD 6

/* Ops of a device, named by the path of a microbatch. Forwards go down the near chunks and up the far ones, backwards
 * down the far and up the near ones. */
typedef enum {
  F_DOWN,
  F_UP,
  B_DOWN,
  B_UP,
  W_FAR,  /* of B_DOWN */
  W_NEAR, /* of B_UP */
  N_TYPES
} Type;

#define NOWHERE G_MAXUINT32

typedef struct {
  guint n_devices;
  guint n_microbatches;
  guint n_slots;  /* per device */
  guint b_length; /* slots that a backward takes; all others take one */
  gboolean split; /* backwards leave W for later; W gives activations back, not B */
  guint32 *slot;  /* [device][type][microbatch] where it starts, or NOWHERE */
  guint32 *op;    /* [device][slot] 1 + type + 8 * microbatch of the op that starts there, 0: none */
} Block;

static guint32 *block_slot (const Block *block, guint device, Type type, guint microbatch)
{
  return &block->slot[((gsize)device * N_TYPES + type) * block->n_microbatches + microbatch];
}

static guint32 *block_at (const Block *block, guint device, guint slot)
{
  return &block->op[(gsize)device * block->n_slots + slot];
}

/* The op that starts in a slot of a device; FALSE: none. */
static gboolean block_op (const Block *block, guint device, guint slot, Type *type, guint *microbatch)
{
  guint32 op = *block_at (block, device, slot);

  *type = (Type)((op - 1) & 7);
  *microbatch = (op - 1) >> 3;
  return op != 0;
}

static void block_put (Block *block, guint device, Type type, guint microbatch, guint slot)
{
  *block_at (block, device, slot) = 1 + type + 8 * microbatch;
  *block_slot (block, device, type, microbatch) = slot;
}

static void block_take (Block *block, guint device, Type type, guint microbatch)
{
  guint32 *slot = block_slot (block, device, type, microbatch);

  *block_at (block, device, *slot) = 0;
  *slot = NOWHERE;
}

/* Turns *device and *type into those of the op that makes the input; FALSE: no input. */
static gboolean block_input (const Block *block, guint *device, Type *type)
{
  gboolean down = *type == F_DOWN || *type == B_DOWN;

  if (*type >= W_FAR)
    *type -= 2;
  else if (*device != (down ? 0 : block->n_devices - 1))
    *device += down ? -1 : 1;
  else if (*type == F_DOWN)
    return FALSE;
  else
    *type -= 1;
  return TRUE;
}

/* The op as schedules write it. */
static PsOp block_name (const Block *block, guint device, Type type, guint microbatch)
{
  static const guint8 kinds[] = { PS_OP_F, PS_OP_F, PS_OP_B, PS_OP_B, PS_OP_W, PS_OP_W };
  gboolean near = type == F_DOWN || type == B_UP || type == W_NEAR;

  return (PsOp){
    .kind = (guint8)(kinds[type] == PS_OP_B && !block->split ? PS_OP_BW : kinds[type]),
    .stage = (guint16)(near ? device : 2 * block->n_devices - 1 - device),
    .microbatch = microbatch & G_MAXINT32,
  };
}

static guint length (const Block *block, Type type)
{
  return type == B_DOWN || type == B_UP ? block->b_length : 1;
}

static guint last_slot (const PsFamilySetting *setting, const guint (*offset)[4])
{
  guint last = 0;

  for (guint device = 0; device < setting->n_devices; device++)
    for (guint type = 0; type < 4; type++)
      last = MAX (last, offset[device][type]);
  return last + PERIOD * (setting->n_microbatches - 1);
}

/* All F and B at the slots of the block; offset has four entries per device. b_length 2 stands for B and W in one op.
 */
static Block *block_new (const PsFamilySetting *setting, const guint (*offset)[4], guint b_length)
{
  guint p = setting->n_devices, m = setting->n_microbatches;
  Block *block = g_new0 (Block, 1);

  block->n_devices = p;
  block->n_microbatches = m;
  block->b_length = b_length;
  block->split = b_length == 1;
  /* Two Ws of each microbatch may be left over at the end. */
  block->n_slots = last_slot (setting, offset) + b_length + 2 * m;
  gsize n_slots = (gsize)p * N_TYPES * m;
  block->slot = g_new (guint32, n_slots);
  for (gsize i = 0; i < n_slots; i++)
    block->slot[i] = NOWHERE;
  block->op = g_new0 (guint32, (gsize)p * block->n_slots);
  for (guint device = 0; device < p; device++)
    for (guint type = 0; type < 4; type++)
      for (guint i = 0; i < m; i++)
        block_put (block, device, (Type)type, i, offset[device][type] + PERIOD * i);
  return block;
}

static void block_free (Block *block)
{
  if (block == NULL)
    return;
  g_free (block->slot);
  g_free (block->op);
  g_free (block);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Block, block_free)

/* What ops do to the activations of their device, by Block.split and 1 + Type. */
static const gint8 changes[2][1 + N_TYPES] = { { 0, 1, 1, -1, -1, 0, 0 }, { 0, 1, 1, 0, 0, -1, -1 } };

/* Adds to *held what the ops that start in these slots of the device change; *peak becomes the most that it holds. */
static void count_held (const Block *block, guint device, guint begin, guint end, gint *held, gint *peak)
{
  const guint32 *op = block_at (block, device, 0);
  const gint8 *change = changes[block->split != 0];
  gint now = *held, most = *peak;

  for (guint slot = begin; slot < end; slot++) {
    now += change[op[slot] & 7];
    most = MAX (most, now);
  }
  *held = now;
  *peak = most;
}

/* Most activations that a device holds. */
static guint block_peak (const Block *block)
{
  gint peak = 0;

  for (guint device = 0; device < block->n_devices; device++) {
    gint held = 0;

    count_held (block, device, 0, block->n_slots, &held, &peak);
  }
  return (guint)peak;
}

/* First slot in which the input of the op is there. */
static guint ready (const Block *block, guint device, Type type, guint microbatch)
{
  if (!block_input (block, &device, &type))
    return 0;
  return *block_slot (block, device, type, microbatch) + length (block, type);
}

/* A device while its ops slide, in the order of their slots. */
typedef struct {
  guint begin;   /* ops that start before this slot stay */
  guint barrier; /* first slot after the ops that stay */
  guint top;     /* first slot after the ops that have slid; all is free from there to the next op */
  gint held;     /* after the ops that have come */
} Row;

static gint change_at (const Block *block, guint device, guint slot)
{
  return changes[block->split != 0][*block_at (block, device, slot) & 7];
}

/* First slot, `to` or later, from which on the row has room for one more activation. */
static guint first_room (const Block *block, guint device, const Row *row, gint limit, guint to)
{
  gint held = row->held;

  for (guint slot = row->top; slot > to && held < limit; slot--) {
    held -= change_at (block, device, slot - 1);
    if (held >= limit)
      return slot - 1;
  }
  return row->held < limit ? to : G_MAXUINT;
}

static gboolean is_occupied (const Block *block, guint device, guint slot)
{
  Type type;
  guint microbatch;

  return *block_at (block, device, slot) != 0
         || (slot > 0 && block_op (block, device, slot - 1, &type, &microbatch) && length (block, type) == 2);
}

/* First slot from `to` on with `n` free slots; `end`: none before it. */
static guint first_gap (const Block *block, guint device, guint to, guint end, guint n)
{
  for (guint n_free = 0; to < end + n; to++) {
    n_free = is_occupied (block, device, to) ? 0 : n_free + 1;
    if (n_free == n)
      return to + 1 - n;
  }
  return end;
}

static void slide_op (Block *block, guint device, Row *row, gint limit, guint from)
{
  gint by = change_at (block, device, from);
  guint microbatch;
  Type type;

  block_op (block, device, from, &type, &microbatch);
  guint to = MAX (ready (block, device, type, microbatch), row->barrier);
  if (by > 0)
    to = first_room (block, device, row, limit, to);
  if (to < from) {
    block_take (block, device, type, microbatch);
    to = first_gap (block, device, to, from, length (block, type));
    block_put (block, device, type, microbatch, to);
  }
  row->top = MAX (row->top, MIN (to, from) + length (block, type));
  row->held += by;
}

/* Slides the ops that start before slot `end`, in the order of slots, to the first free slot after their input is
 * there. The ops up to the F_DOWN of device 0 in slot `after` stay, and no op slides before one that stays; after -1:
 * all may slide. No device may come to hold more activations than the busiest one held before. */
static void block_slide (Block *block, gint64 after, guint end)
{
  g_autofree Row *rows = g_new0 (Row, block->n_devices);
  gint limit = 0;

  for (guint device = 0; device < block->n_devices; device++) {
    Row *row = &rows[device];
    gint held = 0;

    row->begin = after < 0 ? 0 : (guint)after + (device == 0);
    count_held (block, device, 0, row->begin, &held, &limit);
    row->held = held;
    count_held (block, device, row->begin, block->n_slots, &held, &limit);
    for (guint slot = row->begin; slot > 0 && row->barrier == 0; slot--)
      if (*block_at (block, device, slot - 1) != 0)
        row->barrier = slot - 1 + block->b_length;
    row->top = row->barrier;
  }
  for (guint slot = after < 0 ? 0 : (guint)after; slot < MIN (end, block->n_slots); slot++)
    for (guint device = 0; device < block->n_devices; device++)
      if (slot >= rows[device].begin && *block_at (block, device, slot) != 0)
        slide_op (block, device, &rows[device], limit, slot);
}

/* 1F1B on a V: a block packed as early as its repeats allow, at two thirds of 1F1B's memory. */

/* Where in the period each device is busy already. */
typedef gboolean Busy[PERIOD];

static gboolean collides (const Busy busy, guint slot, guint length)
{
  return busy[slot % PERIOD] || busy[(slot + length - 1) % PERIOD];
}

/* The path of one microbatch, each op in the first slot that no repeat of another op of its device takes. */
static void pack (guint (*offset)[4], guint p)
{
  g_autofree Busy *busy = g_new0 (Busy, p);
  guint slot = 0;

  for (guint type = F_DOWN; type <= B_UP; type++)
    for (guint i = 0; i < p; i++) {
      guint device = type == F_DOWN || type == B_DOWN ? i : p - 1 - i;
      guint length = type >= B_DOWN ? 2 : 1;

      while (collides (busy[device], slot, length))
        slot++;
      busy[device][slot % PERIOD] = busy[device][(slot + length - 1) % PERIOD] = TRUE;
      offset[device][type] = slot;
      slot += length;
    }
}

static PsSchedule *generate_1f1b_v (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  guint p = setting->n_devices;
  g_autofree guint (*offset)[4] = g_malloc (p * sizeof *offset);

  pack (offset, p);
  g_autoptr (Block) block = block_new (setting, (const guint (*)[4])offset, 2);
  block_slide (block, -1, G_MAXUINT);
  PsScheduleBuilder *builder = ps_family_builder ("1f1b-v", PS_PLACEMENT_V, setting);
  Type type;
  guint microbatch;
  for (guint device = 0; device < p; device++) {
    for (guint slot = 0; slot < block->n_slots; slot++)
      if (block_op (block, device, slot, &type, &microbatch))
        ps_schedule_builder_add_op (builder, block_name (block, device, type, microbatch));
    ps_schedule_builder_next_device (builder);
  }
  return ps_schedule_builder_end (builder);
}

const PsFamily ps_family_1f1b_v = {
  .name = "1f1b-v",
  .description = "1F1B on a V, backwards in one op, at about two thirds of the memory of 1F1B",
  .constraints = "v = 2",
  .memory = "min (m, 2 p / 3 + 1), rounded down",
  .source = "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362",
  .default_chunks = 2,
  .generate = generate_1f1b_v,
};

/* V-Half and V-Min from their blocks. W fills free slots, then warm-up and drain slide together. At last W is taken out
 * again and fills the slots that are idle then. The steady part stays as in the block. */

/* Every W goes to the first free slot after its B, earlier Bs first. */
static void fill_weights (Block *block, guint device)
{
  guint m = block->n_microbatches, n_waiting = 0, n_placed = 0;
  g_autofree guint32 *waiting = g_new (guint32, 2 * (gsize)m); /* type * m + microbatch */
  Type type;
  guint microbatch;

  for (guint slot = 0; slot < block->n_slots; slot++)
    if (!block_op (block, device, slot, &type, &microbatch)) {
      if (n_placed == n_waiting)
        continue;
      block_put (block, device, (Type)(waiting[n_placed] / m), waiting[n_placed] % m, slot);
      n_placed++;
    } else if (type == B_DOWN || type == B_UP)
      waiting[n_waiting++] = (type + 2) * m + microbatch;
}

static void take_weights (Block *block)
{
  for (guint device = 0; device < block->n_devices; device++)
    for (guint microbatch = 0; microbatch < block->n_microbatches; microbatch++) {
      block_take (block, device, W_FAR, microbatch);
      block_take (block, device, W_NEAR, microbatch);
    }
  block->split = FALSE; /* the ops that are left give activations back with B */
}

/* The block while its idle slots are filled again. */
typedef struct {
  const Block *block;
  guint limit;           /* activations */
  gboolean eager;        /* ops of the block need not wait for their slots */
  guint *next;           /* [device] slot of the block from which to look for the next op */
  guint (*n_waiting)[2]; /* [device][far, near] Ws whose B has run */
  guint (*n_weights)[2]; /* [device][far, near] Ws that have run */
} Refill;

/* Runs the device's next op of the block when its slot has come or the refill is eager, its input is there and it has
 * room. A device that can do no W to make room goes on all the same. Else runs a W, of the far chunk first. */
static void run_refill (Slots *slots, gpointer policy, guint index, guint now)
{
  Refill *refill = policy;
  const Block *block = refill->block;
  guint *next = &refill->next[index], *waiting = refill->n_waiting[index], microbatch = 0, *held;
  Type type = F_DOWN;
  PsOp op = { 0 };

  held = &slots->device[index].held;
  while (*next < block->n_slots && !block_op (block, index, *next, &type, &microbatch))
    ++*next;
  if (*next < block->n_slots)
    op = block_name (block, index, type, microbatch);
  if (*next < block->n_slots && (*next <= now || refill->eager)
      && has_input (slots, (PsOpKind)op.kind, op.stage, microbatch, now)
      && !(op.kind == PS_OP_F && waiting[0] + waiting[1] > 0 && *held >= refill->limit)) {
    run_op (slots, index, op, now, 1);
    ++*next;
    if (op.kind == PS_OP_F)
      ++*held;
    else
      waiting[type - B_DOWN]++;
  } else if (waiting[0] + waiting[1] > 0) {
    guint near = waiting[0] == 0;

    waiting[near]--;
    --*held;
    run_op (slots, index, block_name (block, index, (Type)(W_FAR + near), refill->n_weights[index][near]++), now, 1);
  }
}

/* Eager, the warm-up reaches one period further and ops run before the slots of the block where they can. */
static PsSchedule *generate_split (const char *name, const PsFamilySetting *setting, const guint (*offset)[4],
                                   gboolean eager)
{
  guint p = setting->n_devices, last = PERIOD * (setting->n_microbatches - 1);
  g_autoptr (Block) block = block_new (setting, offset, 1);

  for (guint device = 0; device < p; device++)
    fill_weights (block, device);
  /* Until microbatch 0 has come back, or 1, and from where the last one has gone in. */
  block_slide (block, -1, offset[0][B_UP] + (eager ? PERIOD : 0));
  block_slide (block, last, G_MAXUINT);
  guint limit = block_peak (block);
  take_weights (block);
  block_slide (block, last, G_MAXUINT);
  block->split = TRUE;
  g_autofree guint *counts = g_new0 (guint, 5 * p);
  Refill refill = { .block = block,
                    .limit = limit,
                    .eager = eager,
                    .next = counts,
                    .n_waiting = (guint (*)[2]) (counts + p),
                    .n_weights = (guint (*)[2]) (counts + 3 * p) };
  Slots *slots = slots_new (setting, 3);
  run_slots (slots, p, 6 * p * setting->n_microbatches, run_refill, &refill);
  return slots_end (slots, name, PS_PLACEMENT_V, setting);
}

/* An even p would make ops collide without the extra slots. */
static PsSchedule *generate_v_half (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  guint p = setting->n_devices, extra = p % 2 == 0 ? 3 : 0;
  g_autofree guint (*offset)[4] = g_malloc (p * sizeof *offset);

  for (guint device = 0; device < p; device++) {
    offset[device][F_DOWN] = 2 * device;
    offset[device][F_UP] = 3 * p - 2 - device;
    offset[device][B_DOWN] = 3 * p + extra + 2 * device - 1;
    offset[device][B_UP] = 6 * p + extra - device - 2;
  }
  return generate_split ("v-half", setting, (const guint (*)[4])offset, FALSE);
}

const PsFamily ps_family_v_half = {
  .name = "v-half",
  .description = "zero bubble on a V at about half the memory of 1F1B, for F = B = W",
  .constraints = "v = 2",
  .memory = "min (m, p / 2 + 1), rounded down",
  .source = "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362",
  .default_chunks = 2,
  .generate = generate_v_half,
};

/* A p that 3 divides would make ops collide without the extra slots. */
PsSchedule *ps_v_min_generate (const PsFamilySetting *setting, gboolean eager)
{
  guint p = setting->n_devices, extra = p % 3 == 0 ? 2 : 0;
  g_autofree guint (*offset)[4] = g_malloc (p * sizeof *offset);

  for (guint device = 0; device < p; device++) {
    offset[device][F_DOWN] = device;
    offset[device][F_UP] = 2 * p - 1 - device;
    offset[device][B_DOWN] = 2 * p + extra + device;
    offset[device][B_UP] = 4 * p + extra - 1 - device;
  }
  return generate_split ("v-min", setting, (const guint (*)[4])offset, eager);
}

/* Eager ops save one or two chunk ops at the same memory. The published order stays in two cases. With p mod 3 = 1
 * they gain nothing at F = B = W. Few devices hold almost as much as ZB-V. */
gboolean ps_v_min_is_eager (guint n_devices)
{
  return n_devices > 4 && n_devices % 3 != 1;
}

static PsSchedule *generate_v_min (const PsFamilySetting *setting, G_GNUC_UNUSED GError **error)
{
  return ps_v_min_generate (setting, ps_v_min_is_eager (setting->n_devices));
}

const PsFamily ps_family_v_min = {
  .name = "v-min",
  .description = "split backwards on a V at about a third of the memory of 1F1B, for F = B = W",
  .constraints = "v = 2",
  .memory = "min (m, (p + 4) / 3), rounded down",
  .source = "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362",
  .default_chunks = 2,
  .generate = generate_v_min,
};

/* Whether no op before `type` starts in the same slot of a later period. */
static gboolean is_free (const guint offset[4], guint type, guint slot)
{
  for (guint i = 0; i < type; i++)
    if (offset[i] % PERIOD == slot % PERIOD)
      return FALSE;
  return TRUE;
}

PsSchedule *ps_family_v_hops (const PsFamilySetting *setting, const guint8 *wait, gboolean eager)
{
  guint p = setting->n_devices, slot = 0;
  g_autofree guint (*offset)[4] = g_malloc (p * sizeof *offset);

  for (guint i = 0; i < 4 * p; i++) {
    guint type = i / p, device = type % 2 == 0 ? i % p : p - 1 - i % p;

    slot += wait[type * p + device];
    while (!is_free (offset[device], type, slot))
      slot++;
    offset[device][type] = slot++;
  }
  return generate_split ("search", setting, (const guint (*)[4])offset, eager);
}
