/* loop-walk.c - the order that most schedules in loop placement share: some forwards, then one forward and one backward
 * in turn, then the backwards that are left. They differ in the number of forwards at the start and in the place of the
 * weight gradients. */
#include "families-private.h"

/* Ops of the first device in order, without their kinds: groups of microbatches, in a group chunks, in a chunk
 * microbatches, and of a microbatch its slices. Forwards begin with the first chunk and the first slice, backwards with
 * the last ones. */
static void
list_units (const PsFamilySetting *setting, guint group, PsOp *forward, PsOp *backward)
{
  guint p = setting->n_devices, v = setting->n_chunks, m = setting->n_microbatches, n = 0;

  for (guint start = 0, end; start < m; start = end)
    {
      end = group > 0 && group < m - start ? start + group : m;
      for (guint chunk = 0; chunk < v; chunk++)
        for (guint microbatch = start; microbatch < end; microbatch++)
          for (guint slice = 0; slice < setting->n_slices; slice++, n++)
            {
              forward[n] = (PsOp){ .slice = (guint8)slice,
                                   .stage = (guint16)(chunk * p),
                                   .microbatch = microbatch & G_MAXINT32 };
              backward[n] = (PsOp){ .slice = (guint8)(setting->n_slices - 1 - slice),
                                    .stage = (guint16)((v - 1 - chunk) * p),
                                    .microbatch = microbatch & G_MAXINT32 };
            }
    }
}

static inline PsOp
of_device (PsOp unit, PsOpKind kind, guint device)
{
  unit.kind = (guint8)kind;
  unit.stage = (guint16)(unit.stage + device);
  return unit;
}

/* Writes the order of a device. */
static void
list_ops (PsWalk walk, guint device, const PsOp *forward, const PsOp *backward, guint n_units, PsOp *op)
{
  guint n_forwards = MIN (n_units, walk.warmup), n_weights = 0;

  for (guint k = 0; k < n_forwards; k++)
    *op++ = of_device (forward[k], PS_OP_F, device);
  for (guint k = 0; k < n_units; k++)
    {
      if (n_forwards < n_units)
        {
          *op = of_device (forward[n_forwards++], PS_OP_F, device);
          op++->paired = walk.pairs != 0;
        }
      *op++ = of_device (backward[k], walk.split ? PS_OP_B : PS_OP_BW, device);
      if (walk.split && k >= walk.delay)
        *op++ = of_device (backward[n_weights++], PS_OP_W, device);
    }
  for (; walk.split && n_weights < n_units; n_weights++)
    *op++ = of_device (backward[n_weights], PS_OP_W, device);
}

PsWalk
ps_family_1f1b_rule (const PsFamilySetting *setting, guint device)
{
  return (PsWalk){ .warmup = setting->n_devices - 1 - device };
}

PsSchedule *
ps_family_walk (const char *name, const PsFamilySetting *setting, PsWalk (*rule) (const PsFamilySetting *, guint))
{
  PsScheduleBuilder *builder = ps_family_builder (name, PS_PLACEMENT_LOOP, setting);
  guint n_units = setting->n_microbatches * setting->n_chunks * setting->n_slices;
  g_autofree PsOp *forward = g_new (PsOp, 2 * (gsize)n_units);

  list_units (setting, rule (setting, 0).group, forward, forward + n_units);
  for (guint device = 0; device < setting->n_devices; device++)
    {
      PsWalk walk = rule (setting, device);

      list_ops (walk, device, forward, forward + n_units, n_units,
                ps_schedule_builder_room (builder, (walk.split ? 3 : 2) * n_units));
      ps_schedule_builder_next_device (builder);
    }
  PsSchedule *schedule = ps_schedule_builder_end (builder);
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
