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
  for (guint device = 0; device < p; device++)
    for (guint type = 0; type < 4; type++)
      for (guint i = 0; i < m; i++)
        ps_v_block_put (block, device, (PsVType)type, i, offset[device][type] + PS_V_PERIOD * i);
  return block;
}

void
ps_v_block_free (PsVBlock *block)
{
  if (block == NULL)
    return;
  g_free (block->slot);
  g_free (block->op);
  g_free (block);
}

/* What ops do to the activations of their device, by PsVBlock.split and 1 + PsVType. */
static const gint8 changes[2][1 + PS_V_N_TYPES] = { { 0, 1, 1, -1, -1, 0, 0 }, { 0, 1, 1, 0, 0, -1, -1 } };

/* Adds to *held what the ops that start in these slots of the device change; *peak becomes the most that it holds. */
static void
count_held (const PsVBlock *block, guint device, guint begin, guint end, gint *held, gint *peak)
{
  const guint32 *op = ps_v_block_at (block, device, 0);
  const gint8 *change = changes[block->split != 0];
  gint now = *held, most = *peak;

  for (guint slot = begin; slot < end; slot++)
    {
      now += change[op[slot] & 7];
      most = MAX (most, now);
    }
  *held = now;
  *peak = most;
}

guint
ps_v_block_peak (const PsVBlock *block)
{
  gint peak = 0;

  for (guint device = 0; device < block->n_devices; device++)
    {
      gint held = 0;

      count_held (block, device, 0, block->n_slots, &held, &peak);
    }
  return (guint)peak;
}

/* First slot in which the input of the op is there. */
static guint
ready (const PsVBlock *block, guint device, PsVType type, guint microbatch)
{
  if (!ps_v_block_input (block, &device, &type))
    return 0;
  return *ps_v_block_slot (block, device, type, microbatch) + length (block, type);
}

/* A device while its ops slide, in the order of their slots. Ops that have slid lie before slot `top`; all is free from
 * there to the next op. */
typedef struct
{
  guint begin;   /* ops that start before this slot stay */
  guint barrier; /* first slot after the ops that stay */
  guint top;
  gint held;     /* after the ops that have come */
  gint *level;   /* [n_slots] activations held after the ops that start up to a slot; known from barrier to top */
  guint32 *free; /* [n_slots + 1] a slot is free where it names itself; else on the way to the next free one; known from
                    barrier to top, which is free */
} Row;

typedef struct
{
  PsVBlock *block;
  gint limit;
  Row *row; /* [n_devices] */
} Slide;

/* First slot from which on the row has room for one more activation. */
static guint
first_room (const Row *row, gint limit, guint to)
{
  if (row->held >= limit)
    return G_MAXUINT;
  for (guint slot = row->top; slot > to; slot--)
    if (row->level[slot - 1] >= limit)
      return slot;
  return to;
}

static guint
next_free (Row *row, guint slot)
{
  while (row->free[slot] != slot)
    slot = row->free[slot] = row->free[row->free[slot]];
  return slot;
}

/* First slot from `to` on with `length` free slots. */
static guint
first_gap (Row *row, guint to, guint length)
{
  while (to < row->top)
    {
      to = next_free (row, to);
      if (to + length > row->top || row->free[to + length - 1] == to + length - 1)
        return to;
      to += length;
    }
  return to;
}

static void
occupy (Row *row, guint slot, guint length, gint by)
{
  for (; row->top < slot + length; row->top++)
    {
      row->level[row->top] = row->held;
      row->free[row->top + 1] = row->top + 1;
    }
  for (guint i = slot; i < row->top; i++)
    row->level[i] += by;
  for (guint i = slot; i < slot + length; i++)
    row->free[i] = i + 1;
  row->held += by;
}

static void
slide_op (Slide *slide, guint device, PsVType type, guint microbatch, guint from)
{
  PsVBlock *block = slide->block;
  Row *row = &slide->row[device];
  gint by = changes[block->split != 0][1 + type];
  guint to = MAX (ready (block, device, type, microbatch), row->barrier);

  if (by > 0)
    to = first_room (row, slide->limit, to);
  if (to < from)
    to = first_gap (row, to, length (block, type));
  if (to < from)
    {
      ps_v_block_take (block, device, type, microbatch);
      ps_v_block_put (block, device, type, microbatch, to);
    }
  occupy (row, MIN (to, from), length (block, type), by);
}

static void
begin_row (Slide *slide, guint device, gint64 after)
{
  const PsVBlock *block = slide->block;
  Row *row = &slide->row[device];
  gint held = 0;

  row->begin = after < 0 ? 0 : (guint)after + (device == 0);
  count_held (block, device, 0, row->begin, &held, &slide->limit);
  row->held = held;
  count_held (block, device, row->begin, block->n_slots, &held, &slide->limit);
  for (guint slot = row->begin; slot > 0 && row->barrier == 0; slot--)
    if (*ps_v_block_at (block, device, slot - 1) != 0)
      row->barrier = slot - 1 + block->b_length;
  row->top = row->barrier;
  row->free[row->top] = row->top;
}

void
ps_v_block_slide (PsVBlock *block, gint64 after, guint end)
{
  gsize n_slots = block->n_slots + (gsize)1;
  g_autofree gint *level = g_new0 (gint, block->n_devices * n_slots);
  g_autofree guint32 *free = g_new (guint32, block->n_devices * n_slots);
  g_autofree Row *row = g_new0 (Row, block->n_devices);
  Slide slide = { .block = block, .row = row };
  PsVType type;
  guint microbatch;

  for (guint device = 0; device < block->n_devices; device++)
    {
      row[device].level = &level[device * n_slots];
      row[device].free = &free[device * n_slots];
      begin_row (&slide, device, after);
    }
  for (guint slot = after < 0 ? 0 : (guint)after; slot < MIN (end, block->n_slots); slot++)
    for (guint device = 0; device < block->n_devices; device++)
      if (slot >= row[device].begin && ps_v_block_op (block, device, slot, &type, &microbatch))
        slide_op (&slide, device, type, microbatch, slot);
}
