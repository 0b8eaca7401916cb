/* v-block.h - schedules on a V that repeat one block of ops. The block gives the slot in which each op of microbatch 0
 * starts; microbatch k comes 6 k slots later. Then ops slide into free slots before them as far as the memory of the
 * busiest device allows. */
#pragma once

#include "families-private.h"

#define PS_V_PERIOD 6

/* Ops of a device, named by the way of a microbatch. Forwards go down the near chunks and up the far ones, backwards
 * down the far and up the near ones. */
typedef enum
{
  PS_V_F_DOWN,
  PS_V_F_UP,
  PS_V_B_DOWN,
  PS_V_B_UP,
  PS_V_W_FAR,  /* of B_DOWN */
  PS_V_W_NEAR, /* of B_UP */
  PS_V_N_TYPES
} PsVType;

#define PS_V_NOWHERE G_MAXUINT32

typedef struct
{
  guint n_devices;
  guint n_microbatches;
  guint n_slots;  /* per device */
  guint b_length; /* slots that a backward takes; all others take one */
  gboolean split; /* backwards leave W for later; W gives activations back, not B */
  guint32 *slot;  /* [device][type][microbatch] where it starts, or PS_V_NOWHERE */
  guint32 *op;    /* [device][slot] 1 + type + 8 * microbatch of the op that starts there, 0: none */
} PsVBlock;

/* All F and B at the slots of the block; offset has four entries per device. b_length 2 stands for B and W in one
 * op. */
PsVBlock *ps_v_block_new (const PsFamilySetting *setting, const guint (*offset)[4], guint b_length);
void ps_v_block_free (PsVBlock *block);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsVBlock, ps_v_block_free)

static inline guint32 *
ps_v_block_slot (const PsVBlock *block, guint device, PsVType type, guint microbatch)
{
  return &block->slot[((gsize)device * PS_V_N_TYPES + type) * block->n_microbatches + microbatch];
}

static inline guint32 *
ps_v_block_at (const PsVBlock *block, guint device, guint slot)
{
  return &block->op[(gsize)device * block->n_slots + slot];
}

/* The op that starts in a slot of a device; FALSE: none. */
static inline gboolean
ps_v_block_op (const PsVBlock *block, guint device, guint slot, PsVType *type, guint *microbatch)
{
  guint32 op = *ps_v_block_at (block, device, slot);

  *type = (PsVType)((op - 1) & 7);
  *microbatch = (op - 1) >> 3;
  return op != 0;
}

static inline void
ps_v_block_put (PsVBlock *block, guint device, PsVType type, guint microbatch, guint slot)
{
  *ps_v_block_at (block, device, slot) = 1 + type + 8 * microbatch;
  *ps_v_block_slot (block, device, type, microbatch) = slot;
}

static inline void
ps_v_block_take (PsVBlock *block, guint device, PsVType type, guint microbatch)
{
  guint32 *slot = ps_v_block_slot (block, device, type, microbatch);

  *ps_v_block_at (block, device, *slot) = 0;
  *slot = PS_V_NOWHERE;
}

/* Turns *device and *type into those of the op that makes the input; FALSE: no input. */
static inline gboolean
ps_v_block_input (const PsVBlock *block, guint *device, PsVType *type)
{
  gboolean down = *type == PS_V_F_DOWN || *type == PS_V_B_DOWN;

  if (*type >= PS_V_W_FAR)
    *type -= 2;
  else if (*device != (down ? 0 : block->n_devices - 1))
    *device += down ? -1 : 1;
  else if (*type == PS_V_F_DOWN)
    return FALSE;
  else
    *type -= 1;
  return TRUE;
}

/* The op as schedules write it. */
static inline PsOp
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

/* Slides the ops that start before slot `end`, in the order of slots, to the first free slot after their input is
 * there. The ops up to the F_DOWN of device 0 in slot `after` stay, and no op slides before one that stays; after -1:
 * all may slide. No device may come to hold more activations than the busiest one held before. */
void ps_v_block_slide (PsVBlock *block, gint64 after, guint end);

/* Most activations that a device holds. */
guint ps_v_block_peak (const PsVBlock *block);

/* V-Half, V-Min and blocks like them: split backwards; see v-split.c. Eager, the warm-up reaches one period further and
 * ops run before the slots of the block where they can. */
PsSchedule *ps_v_split_generate (const char *name, const PsFamilySetting *setting, const guint (*offset)[4],
                                 gboolean eager);

/* V-Min either way: the published order is better for some costs. */
PsSchedule *ps_v_min_generate (const PsFamilySetting *setting, gboolean eager);
gboolean ps_v_min_is_eager (guint n_devices); /* as the family v-min makes it */
