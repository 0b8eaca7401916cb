/* v-split.c - V-Half and V-Min from their blocks. W fills free slots, then warm-up and drain slide together. At last W
 * is taken out again and fills the slots that are idle then. The steady part stays as in the block. */
#include "v-block.h"

/* Every W goes to the first free slot after its B, earlier Bs first. */
static void
fill_weights (PsVBlock *block, guint device)
{
  guint m = block->n_microbatches, n_waiting = 0, n_placed = 0;
  g_autofree guint32 *waiting = g_new (guint32, 2 * (gsize)m); /* type * m + microbatch */
  PsVType type;
  guint microbatch;

  for (guint slot = 0; slot < block->n_slots; slot++)
    if (!ps_v_block_op (block, device, slot, &type, &microbatch))
      {
        if (n_placed == n_waiting)
          continue;
        ps_v_block_put (block, device, (PsVType)(waiting[n_placed] / m), waiting[n_placed] % m, slot);
        n_placed++;
      }
    else if (type == PS_V_B_DOWN || type == PS_V_B_UP)
      waiting[n_waiting++] = (type + 2) * m + microbatch;
}

static void
take_weights (PsVBlock *block)
{
  for (guint device = 0; device < block->n_devices; device++)
    for (guint microbatch = 0; microbatch < block->n_microbatches; microbatch++)
      {
        ps_v_block_take (block, device, PS_V_W_FAR, microbatch);
        ps_v_block_take (block, device, PS_V_W_NEAR, microbatch);
      }
  block->split = FALSE; /* the ops that are left give activations back with B */
}

/* One device while idle slots are filled again. */
typedef struct
{
  PsOp *order;
  guint n_ordered;
  guint next;          /* slot of the block from which to look for the next op */
  guint held;          /* activations */
  guint n_backward[2]; /* [far, near] */
  guint n_weights[2];
} Device;

typedef struct
{
  const PsVBlock *block;
  guint limit;    /* activations */
  gboolean eager; /* ops of the block need not wait for their slots */
  Device *device;
  guint32 *done; /* [device][type][microbatch] first slot in which its result is there; 0: not yet */
  guint left;    /* ops */
} Refill;

static guint32 *
done_at (const Refill *refill, guint device, PsVType type, guint microbatch)
{
  return &refill->done[((gsize)device * 4 + type) * refill->block->n_microbatches + microbatch];
}

static gboolean
has_input (const Refill *refill, guint device, PsVType type, guint microbatch, guint now)
{
  if (!ps_v_block_input (refill->block, &device, &type))
    return TRUE;
  guint32 done = *done_at (refill, device, type, microbatch);
  return done != 0 && done <= now;
}

static void
append (Refill *refill, guint index, PsVType type, guint microbatch)
{
  Device *device = &refill->device[index];

  device->order[device->n_ordered++] = ps_v_block_name (refill->block, index, type, microbatch);
  refill->left--;
}

/* Runs the device's next op of the block when its slot has come or the refill is eager, its input is there and it has
 * room. A device that can do no W to make room goes on all the same. */
static gboolean
run_next (Refill *refill, guint index, guint now)
{
  Device *device = &refill->device[index];
  PsVType type = PS_V_F_DOWN;
  guint microbatch = 0;

  while (device->next < refill->block->n_slots
         && !ps_v_block_op (refill->block, index, device->next, &type, &microbatch))
    device->next++;
  if (device->next == refill->block->n_slots || (device->next > now && !refill->eager)
      || !has_input (refill, index, type, microbatch, now))
    return FALSE;
  gboolean pending = device->n_weights[0] < device->n_backward[0] || device->n_weights[1] < device->n_backward[1];
  if (type <= PS_V_F_UP && pending && device->held >= refill->limit)
    return FALSE;
  append (refill, index, type, microbatch);
  *done_at (refill, index, type, microbatch) = now + 1;
  device->next++;
  if (type <= PS_V_F_UP)
    device->held++;
  else
    device->n_backward[type - PS_V_B_DOWN]++;
  return TRUE;
}

/* Ws of the far chunk first. */
static void
run_weights (Refill *refill, guint index)
{
  Device *device = &refill->device[index];

  for (guint chunk = 0; chunk < 2; chunk++)
    if (device->n_weights[chunk] < device->n_backward[chunk])
      {
        append (refill, index, (PsVType)(PS_V_W_FAR + chunk), device->n_weights[chunk]++);
        device->held--;
        return;
      }
}

static PsSchedule *
refill (const PsVBlock *block, const char *name, const PsFamilySetting *setting, guint limit, gboolean eager)
{
  guint p = block->n_devices, n = 6 * block->n_microbatches;
  g_autofree Device *device = g_new0 (Device, p);
  g_autofree PsOp *orders = g_new0 (PsOp, (gsize)p * n);
  g_autofree guint32 *done = g_new0 (guint32, (gsize)p * 4 * block->n_microbatches);
  Refill refill = { .block = block, .limit = limit, .eager = eager, .device = device, .done = done, .left = p * n };

  for (guint i = 0; i < p; i++)
    device[i].order = &orders[(gsize)i * n];
  for (guint now = 0; refill.left > 0; now++)
    for (guint i = 0; i < p; i++)
      if (!run_next (&refill, i, now))
        run_weights (&refill, i);
  PsScheduleBuilder *builder = ps_family_builder (name, PS_PLACEMENT_V, setting);
  for (guint i = 0; i < p; i++)
    {
      ps_schedule_builder_add_ops (builder, device[i].order, n);
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}

PsSchedule *
ps_v_split_generate (const char *name, const PsFamilySetting *setting, const guint (*offset)[4], gboolean eager)
{
  guint p = setting->n_devices, last = PS_V_PERIOD * (setting->n_microbatches - 1);
  g_autoptr (PsVBlock) block = ps_v_block_new (setting, offset, 1);

  for (guint device = 0; device < p; device++)
    fill_weights (block, device);
  /* Until microbatch 0 has come back, or 1, and from where the last one has gone in. */
  ps_v_block_slide (block, -1, offset[0][PS_V_B_UP] + (eager ? PS_V_PERIOD : 0));
  ps_v_block_slide (block, last, G_MAXUINT);
  guint limit = ps_v_block_peak (block);
  take_weights (block);
  ps_v_block_slide (block, last, G_MAXUINT);
  block->split = TRUE;
  return refill (block, name, setting, limit, eager);
}
