/* loop-walk.c - the order that most schedules in loop placement share: some forwards, then one forward and one backward
 * in turn, then the backwards that are left. They differ in the number of forwards at the start and in the place of the
 * weight gradients. */
#include "families-private.h"

#include <string.h>

/* The next unit of one kind of op: groups of microbatches in order, in a group chunks, in a chunk microbatches, and of
 * a microbatch its slices. */
typedef struct
{
  guint start; /* first microbatch of the group */
  guint chunk;
  guint place; /* of the microbatch in the group */
  guint slice;
} Unit;

typedef struct
{
  PsScheduleBuilder *builder;
  const PsFamilySetting *setting;
  guint device;
  PsWalk walk;
  Unit next[PS_N_OP_KINDS];
} Walker;

static void
go_on (const Walker *walker, Unit *unit, guint size)
{
  const PsFamilySetting *setting = walker->setting;

  if (++unit->slice < setting->n_slices)
    return;
  unit->slice = 0;
  if (++unit->place < size)
    return;
  unit->place = 0;
  if (++unit->chunk < setting->n_chunks)
    return;
  unit->chunk = 0;
  unit->start += size;
}

/* Forwards begin with the first chunk and the first slice, backwards with the last ones. */
static void
add_unit (Walker *walker, PsOpKind kind, gboolean paired)
{
  const PsFamilySetting *setting = walker->setting;
  Unit *unit = &walker->next[kind];
  guint left = setting->n_microbatches - unit->start;
  guint chunk = kind == PS_OP_F ? unit->chunk : setting->n_chunks - 1 - unit->chunk;
  guint slice = kind == PS_OP_F ? unit->slice : setting->n_slices - 1 - unit->slice;

  ps_schedule_builder_add_op (walker->builder, (PsOp){
                                                   .kind = (guint8)kind,
                                                   .slice = (guint8)slice,
                                                   .stage = (guint16)(chunk * setting->n_devices + walker->device),
                                                   .microbatch = (unit->start + unit->place) & G_MAXINT32,
                                                   .paired = paired != 0,
                                               });
  go_on (walker, unit, walker->walk.group ? MIN (walker->walk.group, left) : left);
}

static void
add_device (Walker *walker)
{
  const PsFamilySetting *setting = walker->setting;
  PsWalk walk = walker->walk;
  guint units = setting->n_microbatches * setting->n_chunks * setting->n_slices;
  guint warmup = MIN (units, walk.warmup), n_weights = 0;

  memset (walker->next, 0, sizeof walker->next);
  for (guint k = 0; k < warmup; k++)
    add_unit (walker, PS_OP_F, FALSE);
  for (guint k = 0; k < units; k++)
    {
      if (warmup + k < units)
        add_unit (walker, PS_OP_F, walk.pairs);
      add_unit (walker, walk.split ? PS_OP_B : PS_OP_BW, FALSE);
      if (walk.split && k >= walk.delay)
        {
          add_unit (walker, PS_OP_W, FALSE);
          n_weights++;
        }
    }
  for (; walk.split && n_weights < units; n_weights++)
    add_unit (walker, PS_OP_W, FALSE);
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
