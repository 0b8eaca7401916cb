/* v-block.c - placing the ops of a repeated block and sliding them. */
#include "v-block.h"

static guint
length (const PsVBlock *block, PsVType type)
{
  return type == PS_V_B_DOWN || type == PS_V_B_UP ? block->b_length : 1;
}

static guint
last_slot (const PsFamilySetting *setting, const guint (*offset)[4])
{
  guint last = 0;
  for (guint device = 0; device < setting->n_devices; device++)
    for (guint type = 0; type < 4; type++)
      last = MAX (last, offset[device][type]);
  return last + PS_V_PERIOD * (setting->n_microbatches - 1);
}

PsVBlock *
ps_v_block_new (const PsFamilySetting *setting, const guint (*offset)[4], guint b_length)
{
  guint p = setting->n_devices, m = setting->n_microbatches;
  PsVBlock *block = g_new0 (PsVBlock, 1);
  block->n_devices = p;
  block->n_microbatches = m;
  block->b_length = b_length;
  block->split = b_length == 1;
  /* Two Ws of each microbatch may be left over at the end. */
  block->n_slots = last_slot (setting, offset) + b_length + 2 * m;
  gsize n_slots = (gsize)p * PS_V_N_TYPES * m;
  block->slot = g_new (guint32, n_slots);
  for (gsize i = 0; i < n_slots; i++)
    block->slot[i] = PS_V_NOWHERE;
  block->op = g_new0 (guint32, (gsize)p * block->n_slots);
  block->used = g_new0 (guint8, (gsize)p * block->n_slots);
  for (guint device = 0; device < p; device++)
    for (guint type = 0; type < 4; type++)
      for (guint i = 0; i < m; i++)
        ps_v_block_put (block, device, (PsVType)type, i, offset[device][type] + PS_V_PERIOD * i);
  return block;
}

void
ps_v_block_free (PsVBlock *block)
{
  if (!block)
    return;
  g_free (block->slot);
  g_free (block->op);
  g_free (block->used);
  g_free (block);
}

static void
mark (PsVBlock *block, guint device, PsVType type, guint slot, guint8 used)
{
  for (guint i = 0; i < length (block, type); i++)
    block->used[(gsize)device * block->n_slots + slot + i] = used;
}

void
ps_v_block_put (PsVBlock *block, guint device, PsVType type, guint microbatch, guint slot)
{
  mark (block, device, type, slot, TRUE);
  block->op[(gsize)device * block->n_slots + slot] = 1 + type + 8 * microbatch;
  *ps_v_block_slot (block, device, type, microbatch) = slot;
}

void
ps_v_block_take (PsVBlock *block, guint device, PsVType type, guint microbatch)
{
  guint32 *slot = ps_v_block_slot (block, device, type, microbatch);
  mark (block, device, type, *slot, FALSE);
  block->op[(gsize)device * block->n_slots + *slot] = 0;
  *slot = PS_V_NOWHERE;
}

/* Activations that an op of this type takes or gives back. */
static gint
change (const PsVBlock *block, PsVType type)
{
  if (type <= PS_V_F_UP)
    return 1;
  return (type <= PS_V_B_UP) != block->split ? -1 : 0;
}

/* Fills level with what the device holds after the ops that start up to each slot, and returns the most. */
static gint
fill_levels (const PsVBlock *block, guint device, gint *level)
{
  gint held = 0, peak = 0;
  PsVType type;
  guint microbatch;
  for (guint slot = 0; slot < block->n_slots; slot++)
    {
      if (ps_v_block_op (block, device, slot, &type, &microbatch))
        held += change (block, type);
      peak = MAX (peak, held);
      level[slot] = held;
    }
  return peak;
}

guint
ps_v_block_peak (const PsVBlock *block)
{
  g_autofree gint *level = g_new (gint, block->n_slots);
  gint peak = 0;
  for (guint device = 0; device < block->n_devices; device++)
    peak = MAX (peak, fill_levels (block, device, level));
  return (guint)peak;
}

gboolean
ps_v_block_input (const PsVBlock *block, guint *device, PsVType *type)
{
  gboolean first = *device == 0, last = *device + 1 == block->n_devices;
  switch (*type)
    {
    case PS_V_F_DOWN:
      if (first)
        return FALSE;
      --*device;
      break;
    case PS_V_B_DOWN:
      *type = first ? PS_V_F_UP : PS_V_B_DOWN;
      *device -= !first;
      break;
    case PS_V_F_UP:
    case PS_V_B_UP:
      *type -= last;
      *device += !last;
      break;
    default:
      *type -= 2;
    }
  return TRUE;
}

/* First slot in which what the op needs is there. */
static guint
ready (const PsVBlock *block, guint device, PsVType type, guint microbatch)
{
  if (!ps_v_block_input (block, &device, &type))
    return 0;
  return *ps_v_block_slot (block, device, type, microbatch) + length (block, type);
}

typedef struct
{
  PsVBlock *block;
  gint limit;
  gint *level;    /* [device][slot] */
  guint *begin;   /* [device] ops that start before this slot stay */
  guint *barrier; /* [device] first slot behind what stays */
} Slide;

static gboolean
is_free (const Slide *slide, guint device, PsVType type, guint slot)
{
  const guint8 *used = &slide->block->used[(gsize)device * slide->block->n_slots + slot];
  return !used[0] && !used[length (slide->block, type) - 1];
}

static void
slide_op (Slide *slide, guint device, PsVType type, guint microbatch, guint from)
{
  PsVBlock *block = slide->block;
  gint *level = &slide->level[(gsize)device * block->n_slots];
  guint to = MAX (ready (block, device, type, microbatch), slide->barrier[device]);
  gint by = change (block, type);
  for (guint slot = from; by > 0 && slot-- > to;)
    if (level[slot] >= slide->limit)
      to = slot + 1;
  if (to >= from)
    return;
  ps_v_block_take (block, device, type, microbatch);
  while (to < from && !is_free (slide, device, type, to))
    to++;
  ps_v_block_put (block, device, type, microbatch, to);
  for (guint slot = to; slot < from; slot++)
    level[slot] += by;
}

static void
begin_slide (Slide *slide, gint64 after)
{
  PsVBlock *block = slide->block;
  for (guint device = 0; device < block->n_devices; device++)
    {
      slide->limit = MAX (slide->limit, fill_levels (block, device, &slide->level[(gsize)device * block->n_slots]));
      slide->begin[device] = after < 0 ? 0 : (guint)after + (device == 0);
      for (guint slot = slide->begin[device]; slot > 0 && slide->barrier[device] == 0; slot--)
        if (block->op[(gsize)device * block->n_slots + slot - 1] != 0)
          slide->barrier[device] = slot - 1 + block->b_length;
    }
}

void
ps_v_block_slide (PsVBlock *block, gint64 after, guint end)
{
  g_autofree gint *level = g_new (gint, (gsize)block->n_devices * block->n_slots);
  g_autofree guint *begin = g_new0 (guint, block->n_devices), *barrier = g_new0 (guint, block->n_devices);
  Slide slide = { .block = block, .level = level, .begin = begin, .barrier = barrier };
  PsVType type;
  guint microbatch;
  begin_slide (&slide, after);
  for (guint slot = after < 0 ? 0 : (guint)after; slot < MIN (end, block->n_slots); slot++)
    for (guint device = 0; device < block->n_devices; device++)
      if (slot >= begin[device] && ps_v_block_op (block, device, slot, &type, &microbatch))
        slide_op (&slide, device, type, microbatch, slot);
}

PsOp
ps_v_block_name (const PsVBlock *block, guint device, PsVType type, guint microbatch)
{
  static const guint8 kinds[] = { PS_OP_F, PS_OP_F, PS_OP_B, PS_OP_B, PS_OP_W, PS_OP_W };
  gboolean near = type == PS_V_F_DOWN || type == PS_V_B_UP || type == PS_V_W_NEAR;
  return (PsOp){
    .kind = (guint8)(kinds[type] == PS_OP_B && !block->split ? PS_OP_BW : kinds[type]),
    .stage = (guint16)(near ? device : 2 * block->n_devices - 1 - device),
    .microbatch = microbatch & G_MAXINT32,
  };
}
