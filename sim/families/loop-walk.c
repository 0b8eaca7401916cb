/* loop-walk.c - the order that most schedules in loop placement share: some forwards, then one forward and one backward
 * in turn, then the backwards that are left. They differ in the number of forwards at the start and in the place of the
 * weight gradients. */
#include "families-private.h"

typedef struct
{
  PsScheduleBuilder *builder;
  const PsFamilySetting *setting;
  guint device;
  PsWalk walk;
} Walker;

/* The k-th forward (chunk 0 first, slices in order) or backward (last chunk first, slices in reverse) of a device. */
static PsOp
unit (const Walker *walker, PsOpKind kind, guint k)
{
  const PsFamilySetting *setting = walker->setting;
  guint v = setting->n_chunks, q = setting->n_slices, m = setting->n_microbatches;
  guint group = walker->walk.group ? walker->walk.group : m;
  guint place = k / q, slice = k % q;
  guint start = place / (group * v) * group; /* first microbatch of the group */
  guint size = MIN (group, m - start);
  guint within = place - start * v;
  guint chunk = kind == PS_OP_F ? within / size : v - 1 - within / size;

  return (PsOp){
    .kind = (guint8)kind,
    .slice = (guint8)(kind == PS_OP_F ? slice : q - 1 - slice),
    .stage = (guint16)(chunk * setting->n_devices + walker->device),
    .microbatch = (start + within % size) & G_MAXINT32,
  };
}

static void
add_unit (const Walker *walker, PsOpKind kind, guint k)
{
  ps_schedule_builder_add_op (walker->builder, unit (walker, kind, k));
}

static void
add_forward (const Walker *walker, guint k, gboolean paired)
{
  PsOp op = unit (walker, PS_OP_F, k);

  op.paired = paired != 0;
  ps_schedule_builder_add_op (walker->builder, op);
}

static void
add_device (const Walker *walker)
{
  const PsFamilySetting *setting = walker->setting;
  PsWalk walk = walker->walk;
  guint units = setting->n_microbatches * setting->n_chunks * setting->n_slices;
  guint warmup = MIN (units, walk.warmup), n_weights = 0;

  for (guint k = 0; k < warmup; k++)
    add_forward (walker, k, FALSE);
  for (guint k = 0; k < units; k++)
    {
      if (warmup + k < units)
        add_forward (walker, warmup + k, walk.pairs);
      add_unit (walker, walk.split ? PS_OP_B : PS_OP_BW, k);
      if (walk.split && k >= walk.delay)
        add_unit (walker, PS_OP_W, n_weights++);
    }
  while (walk.split && n_weights < units)
    add_unit (walker, PS_OP_W, n_weights++);
  ps_schedule_builder_next_device (walker->builder);
}

PsWalk
ps_family_1f1b_rule (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = setting->n_devices - 1 - device };
}

PsSchedule *
ps_family_walk (const char *name, const PsFamilySetting *setting, PsWalk (*rule) (const PsFamilySetting *, guint))
{
  Walker walker = { .builder = ps_family_builder (name, PS_PLACEMENT_LOOP, setting), .setting = setting };

  for (; walker.device < setting->n_devices; walker.device++)
    {
      walker.walk = rule (setting, walker.device);
      add_device (&walker);
    }
  PsSchedule *schedule = ps_schedule_builder_end (walker.builder);
  schedule->n_slices = setting->n_slices;
  return schedule;
}

PsSchedule *
ps_family_walk_asynchronous (const char *name, const PsFamilySetting *setting,
                             guint (*versions) (const PsFamilySetting *, guint))
{
  PsSchedule *schedule = ps_family_walk (name, setting, ps_family_1f1b_rule);

  schedule->asynchronous = TRUE;
  schedule->weight_versions = g_new (guint, setting->n_devices);
  for (guint device = 0; device < setting->n_devices; device++)
    schedule->weight_versions[device] = versions (setting, device);
  return schedule;
}
