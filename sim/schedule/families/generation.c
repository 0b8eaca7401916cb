/* generation.c - the checks that families share, the walks of families in loop placement, and the generation of a
 * schedule. */
#include "families-private.h"

gboolean ps_family_check_multiple (const char *name, const char *things, guint n, guint unit, GError **error)
{
  guint below = n / unit * unit;

  if (below == n)
    return TRUE;
  if (below == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: %u %s; give a multiple of %u", name, n, things, unit);
  return ps_refuse (error, PS_ERROR_USAGE, "%s: %u %s; give a multiple of %u, such as %u or %u", name, n, things, unit,
                    below, below + unit);
}

gboolean ps_family_check_microbatches (const char *name, const PsFamilySetting *setting, guint least, const char *why,
                                       GError **error)
{
  if (setting->n_microbatches >= least)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: %u microbatches on %u devices; give at least %u, %s", name,
                    setting->n_microbatches, setting->n_devices, least, why);
}

PsScheduleBuilder *ps_family_builder (const char *name, PsPlacementKind placement, const PsFamilySetting *setting)
{
  PsScheduleBuilder *builder = ps_schedule_builder_new (
      name, ps_placement_new (placement, setting->n_devices, setting->n_chunks), setting->n_microbatches);

  ps_schedule_builder_reserve (builder, PS_FAMILY_OPS * setting->n_devices * setting->n_chunks * setting->n_microbatches
                                            * setting->n_slices);
  return builder;
}

/* Walks. */

/* Groups of microbatches that go through a chunk in a row. A device that comes back to a chunk finds its input ready
 * only where a group is as long as the pipeline. So Megatron-LM asks that N >= p and that m mod N is 0 or at least p.
 * Other families wait for smaller groups. With fewer microbatches than the least there is one group. */

static gboolean is_group_size (const PsFamilySetting *setting, guint least, guint group)
{
  guint m = setting->n_microbatches;

  return group >= 1 && group >= MIN (least, m) && group <= m && (m % group == 0 || m % group >= least);
}

/* The smallest one allowed keeps the least memory; it is `least` itself where that divides m. */
guint ps_family_group_size (const PsFamilySetting *setting, guint least)
{
  guint group = setting->group_size ? setting->group_size : MIN (least, setting->n_microbatches);

  while (!is_group_size (setting, least, group))
    group++;
  return group;
}

static guint least_group (const PsFamily *family, const PsFamilySetting *setting)
{
  return family->half_groups ? (setting->n_devices + 1) / 2 : setting->n_devices;
}

/* Checks the size that is asked for. The message names the nearest size allowed; m itself always is. */
static gboolean check_groups (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  const char *what = family->half_groups ? "half of p" : "p";
  guint least = least_group (family, setting), asked = MIN (setting->group_size, setting->n_microbatches), near = 0;

  if (setting->group_size == 0 || is_group_size (setting, least, setting->group_size))
    return TRUE;
  for (guint distance = 0; near == 0; distance++)
    near = is_group_size (setting, least, asked - MIN (asked, distance)) ? asked - distance
           : is_group_size (setting, least, asked + distance)            ? asked + distance
                                                                         : 0;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "%s: groups of %u are not allowed; give %u, N from %s to m with m mod N = 0 or >= %s", family->name,
                    setting->group_size, near, what, what);
}

/* Ops of the first device in order, without their kinds: groups of microbatches, in a group chunks, in a chunk
 * microbatches, and of a microbatch its slices. Forwards begin with the first chunk and the first slice, backwards with
 * the last ones. */
static void list_units (const PsFamilySetting *setting, guint group, PsOp *forward, PsOp *backward)
{
  guint p = setting->n_devices, v = setting->n_chunks, m = setting->n_microbatches, n = 0;

  for (guint start = 0, end; start < m; start = end) {
    end = group > 0 && group < m - start ? start + group : m;
    for (guint chunk = 0; chunk < v; chunk++)
      for (guint microbatch = start; microbatch < end; microbatch++)
        for (guint slice = 0; slice < setting->n_slices; slice++, n++) {
          forward[n]
              = (PsOp){ .slice = (guint8)slice, .stage = (guint16)(chunk * p), .microbatch = microbatch & G_MAXINT32 };
          backward[n] = (PsOp){ .slice = (guint8)(setting->n_slices - 1 - slice),
                                .stage = (guint16)((v - 1 - chunk) * p),
                                .microbatch = microbatch & G_MAXINT32 };
        }
  }
}

static inline PsOp of_device (PsOp unit, PsOpKind kind, guint device)
{
  unit.kind = (guint8)kind;
  unit.stage = (guint16)(unit.stage + device);
  return unit;
}

/* Writes the order of a device. */
static void list_ops (const PsFamily *family, const PsFamilySetting *setting, guint group, guint device,
                      const PsOp *forward, const PsOp *backward, guint n_units, PsOp *op)
{
  const PsWalk *walk = family->walk;
  guint depth = group > 0 && setting->n_chunks == 1 ? 1 : walk->depth, delay = walk->delay * device;
  guint warmup = depth * (setting->n_devices - 1 - device) + (setting->n_chunks - 1) * group * setting->n_slices
                 + setting->n_slices - 1 + walk->more;
  guint n_forwards = walk->all ? n_units : MIN (n_units, warmup), n_weights = 0;

  for (guint k = 0; k < n_forwards; k++)
    *op++ = of_device (forward[k], PS_OP_F, device);
  for (guint k = 0; k < n_units; k++) {
    if (n_forwards < n_units) {
      *op = of_device (forward[n_forwards++], PS_OP_F, device);
      op++->paired = walk->pairs != 0;
    }
    *op++ = of_device (backward[k], walk->split ? PS_OP_B : PS_OP_BW, device);
    if (walk->split && k >= delay)
      *op++ = of_device (backward[n_weights++], PS_OP_W, device);
  }
  for (; walk->split && n_weights < n_units; n_weights++)
    *op++ = of_device (backward[n_weights], PS_OP_W, device);
}

PsSchedule *ps_family_walk (const PsFamily *family, const PsFamilySetting *setting)
{
  PsScheduleBuilder *builder = ps_family_builder (family->name, PS_PLACEMENT_LOOP, setting);
  guint n_units = setting->n_microbatches * setting->n_chunks * setting->n_slices;
  guint group = family->groups        ? ps_family_group_size (setting, least_group (family, setting))
                : family->walk->alone ? 1
                                      : 0;
  g_autofree PsOp *forward = g_new (PsOp, 2 * (gsize)n_units);

  list_units (setting, group, forward, forward + n_units);
  for (guint device = 0; device < setting->n_devices; device++) {
    list_ops (family, setting, group, device, forward, forward + n_units, n_units,
              ps_schedule_builder_room (builder, (family->walk->split ? 3 : 2) * n_units));
    ps_schedule_builder_next_device (builder);
  }
  PsSchedule *schedule = ps_schedule_builder_end (builder);
  schedule->n_slices = setting->n_slices;
  return schedule;
}

/* Generation. */

static gboolean check_limits (const char *name, const PsFamilySetting *setting, GError **error)
{
  guint64 stages = (guint64)setting->n_devices * setting->n_chunks, cells = stages * PS_FAMILY_OPS * setting->n_slices;

  if (setting->n_devices < 1 || setting->n_devices > PS_MAX_DEVICES)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: %u devices; give 1 to %u", name, setting->n_devices, PS_MAX_DEVICES);
  if (setting->n_chunks < 1 || stages > PS_MAX_STAGES)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: %u chunks on %u devices; give 1 to %u stages in all", name,
                      setting->n_chunks, setting->n_devices, PS_MAX_STAGES);
  if (setting->n_microbatches < 1 || cells * setting->n_microbatches > PS_MAX_OPS)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: %u microbatches on %u stages; give 1 to %u", name,
                      setting->n_microbatches, (guint)stages, (guint)(PS_MAX_OPS / cells));
  return TRUE;
}

/* The setting with the family's own number of slices where it gives none. */
static PsFamilySetting complete_slices (const PsFamily *family, const PsFamilySetting *setting)
{
  PsFamilySetting complete = *setting;

  if (complete.n_slices == 0)
    complete.n_slices = MAX (family->default_slices, 1) * (family->slices_by_p ? setting->n_devices : 1);
  return complete;
}

gboolean ps_family_check (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  const PsFamilySetting complete = complete_slices (family, setting);

  if (!family->any_chunks && setting->n_chunks != family->default_chunks)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: has %s per device, not %u", family->name,
                      family->default_chunks == 1 ? "one chunk" : "two chunks", setting->n_chunks);
  if (family->walk != NULL && family->walk->pairs && setting->n_chunks == 1)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: has two chunks per device or more, not 1", family->name);
  return check_groups (family, setting, error) && (family->check == NULL || family->check (family, &complete, error));
}

static gboolean check_options (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  if (setting->n_slices > 1 && family->default_slices == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: does not slice sequences; leave out --slices %u", family->name,
                      setting->n_slices);
  if (setting->n_slices > PS_MAX_SLICES)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: %u slices; give 1 to %u", family->name, setting->n_slices,
                      PS_MAX_SLICES);
  if (setting->group_size != 0 && !family->groups)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: has no groups of microbatches; leave out --group %u", family->name,
                      setting->group_size);
  if (setting->defer_head != 0 && !family->defers)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: has no W of the head to put off; leave out --defer-head %u",
                      family->name, setting->defer_head);
  return TRUE;
}

/* Puts off W of the last stage for its first n_microbatches into the drain, as Megatron-LM does with the head
 * (defer_embedding_wgrad_compute): each BW is split, and W follows the device's last op. The device of the last stage
 * is the first one without backwards, and W fills the time that it would wait. Takes the schedule. */
static PsSchedule *defer_head (PsSchedule *schedule, guint n_microbatches)
{
  const PsPlacement *placement = schedule->placement;
  PsScheduleBuilder *builder
      = ps_schedule_builder_new (schedule->name, ps_placement_copy (placement), schedule->n_microbatches);
  g_autofree PsOp *waiting = g_new (PsOp, schedule->n_microbatches);

  for (guint d = 0; d < placement->n_devices; d++) {
    guint n_waiting = 0;

    for (guint i = schedule->first[d]; i < schedule->first[d + 1]; i++) {
      PsOp op = schedule->ops[i];

      if (op.kind == PS_OP_BW && op.stage + 1U == placement->n_stages && n_waiting < n_microbatches) {
        op.kind = PS_OP_B;
        waiting[n_waiting] = op;
        waiting[n_waiting++].kind = PS_OP_W;
      }
      ps_schedule_builder_add_op (builder, op);
    }
    ps_schedule_builder_add_ops (builder, waiting, n_waiting);
    ps_schedule_builder_next_device (builder);
  }
  ps_schedule_free (schedule);
  return ps_schedule_builder_end (builder);
}

static void set_origin (PsSchedule *schedule, const PsFamily *family, const PsFamilySetting *setting)
{
  const PsCosts *costs = family->uses_costs ? setting->costs : NULL;
  g_autofree char *description = costs != NULL ? ps_costs_describe (costs) : NULL;

  schedule->origin = description != NULL ? g_strconcat ("generated by pipesim " PS_VERSION " from ", description, NULL)
                                         : g_strdup ("generated by pipesim " PS_VERSION);
  schedule->family = g_strdup (family->name);
  schedule->n_chunks = setting->n_chunks;
  schedule->group_size = setting->group_size;
  schedule->defer_head = setting->defer_head;
}

/* The costs with host times. Families that look at costs are a loop, or a V of two chunks. NULL: they are as they
 * should be. */
static PsCosts *add_host_time (const PsFamily *family, const PsFamilySetting *setting)
{
  g_autoptr (PsPlacement) placement = NULL;
  PsCosts *costs;

  if (!family->uses_costs || setting->costs == NULL || !ps_costs_lack_host_time (setting->costs))
    return NULL;
  placement = ps_placement_new (setting->n_chunks == 1 ? PS_PLACEMENT_LOOP : PS_PLACEMENT_V, setting->n_devices,
                                setting->n_chunks);
  costs = ps_costs_copy (setting->costs);
  ps_costs_add_host_time (costs, placement->device, placement->n_copies);
  return costs;
}

/* Keeps the forwards of a schedule, whose microbatches become slices of n_prompts ones. Takes the schedule. */
static PsSchedule *keep_forwards (PsSchedule *schedule, const guint *prompt, guint n_prompts)
{
  PsScheduleBuilder *builder
      = ps_schedule_builder_new (schedule->name, ps_placement_copy (schedule->placement), n_prompts);
  g_autofree PsOp *place = g_new0 (PsOp, schedule->n_microbatches);
  g_autofree guint8 *slices = g_new0 (guint8, n_prompts);
  guint most = 0, n = schedule->n_microbatches;

  for (guint i = 0; i < n; i++) {
    place[i] = (PsOp){ .slice = slices[prompt[i]]++, .microbatch = prompt[i] & G_MAXINT32 };
    most = MAX (most, slices[prompt[i]]);
  }
  for (guint d = 0; d < schedule->placement->n_devices; d++) {
    for (guint i = schedule->first[d]; i < schedule->first[d + 1]; i++) {
      PsOp op = place[schedule->ops[i].microbatch];

      op.stage = schedule->ops[i].stage;
      if (schedule->ops[i].kind == PS_OP_F)
        ps_schedule_builder_add_op (builder, op);
    }
    ps_schedule_builder_next_device (builder);
  }
  ps_schedule_free (schedule);
  schedule = ps_schedule_builder_end (builder);
  schedule->n_slices = most;
  if (n < most * n_prompts)
    schedule->slices = g_steal_pointer (&slices);
  return schedule;
}

PsSchedule *ps_family_generate (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  PsFamilySetting complete = complete_slices (family, setting);

  if (setting->prompt != NULL && !family->forward)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "%s: forwards wait for backwards, which prefill has not; gpipe, interleaved, looped-bfs "
                           "and zb-v do not",
                           family->name);
  if (!check_limits (family->name, &complete, error) || !check_options (family, &complete, error)
      || !ps_family_check (family, &complete, error))
    return NULL;
  g_autoptr (PsCosts) costs = add_host_time (family, &complete);
  if (costs != NULL)
    complete.costs = costs;
  PsSchedule *schedule
      = family->generate != NULL ? family->generate (&complete, error) : ps_family_walk (family, &complete);
  if (schedule != NULL && setting->prompt != NULL)
    schedule = keep_forwards (schedule, setting->prompt, setting->n_prompts);
  if (schedule != NULL && setting->defer_head != 0)
    schedule = defer_head (schedule, setting->defer_head);
  if (schedule != NULL)
    set_origin (schedule, family, setting);
  return schedule;
}
