/* plan.c - putting ops into a plan and reading off its times, memory and order. */
#include "plan.h"

static PsCosts *
unit_costs (guint n_stages)
{
  PsCosts *costs = ps_costs_new (n_stages);
  for (guint stage = 0; stage < n_stages; stage++)
    {
      for (guint kind = 0; kind < PS_PLAN_KINDS; kind++)
        ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns = 1;
      ps_costs_op (costs, PS_OP_BW, stage)->duration_ns = 2; /* for the bound */
      ps_costs_set_memory (costs, stage, 1, 1);
    }
  return costs;
}

static guint
stage_of (guint p, guint device, PsPlanChunk chunk)
{
  return chunk == PS_NEAR ? device : 2 * p - 1 - device;
}

static guint
device_of (guint p, guint stage)
{
  return stage < p ? stage : 2 * p - 1 - stage;
}

/* The chunk that an F or B of a stage takes its input from. */
static PsPlanInput
find_input (const PsPlan *plan, const PsCosts *costs, PsOpKind kind, guint stage)
{
  guint p = plan->n_devices, last = plan->n_chunks * p - 1;
  gboolean loss = kind == PS_OP_B && stage == last;
  if (kind == PS_OP_F && stage == 0)
    return (PsPlanInput){ NULL, NULL, 0 };
  guint from = kind == PS_OP_F ? stage - 1 : loss ? stage : stage + 1;
  guint made = loss ? PS_OP_F : kind, chunk = from < p ? PS_NEAR : PS_FAR;
  guint transfer = kind == PS_OP_F ? ps_transfer_forward (costs, from) : ps_transfer_backward (costs, from);
  const PsPlanDevice *device = &plan->device[device_of (p, from)];
  gboolean local = device_of (p, from) == device_of (p, stage);
  return (PsPlanInput){ &device->done[made][chunk], device->end_ns[made][chunk],
                        local ? 0 : costs->transfer_ns[transfer] };
}

static gint64
default_limit (const PsPlanDevice *device, guint n_activations)
{
  if (n_activations == 0)
    return G_MAXINT64;
  return device->weight_bytes
         + n_activations * (device->cost[PS_OP_F][PS_NEAR].take_bytes + device->cost[PS_OP_F][PS_FAR].take_bytes);
}

static void
set_costs (PsPlan *plan, guint index, const PsCosts *costs)
{
  PsPlanDevice *device = &plan->device[index];
  for (guint chunk = 0; chunk < plan->n_chunks; chunk++)
    {
      guint stage = stage_of (plan->n_devices, index, chunk);
      device->stage[chunk] = (guint16)stage;
      for (guint kind = 0; kind < PS_PLAN_KINDS; kind++)
        {
          device->cost[kind][chunk] = *ps_costs_op (costs, (PsOpKind)kind, stage);
          device->work_ns += plan->n_microbatches * device->cost[kind][chunk].duration_ns;
          if (kind != PS_OP_F)
            device->burst_bytes = MAX (device->burst_bytes, device->cost[kind][chunk].take_bytes);
        }
      for (guint kind = 0; kind < 2; kind++)
        device->input[kind][chunk] = find_input (plan, costs, (PsOpKind)kind, stage);
      device->weight_bytes += ps_costs_held_bytes (costs, stage, 1);
    }
}

/* One block for all: plans come and go by the thousand. */
static void
allocate (PsPlan *plan)
{
  gsize n = (gsize)plan->n_chunks * plan->n_microbatches;
  gsize size = n * (2 * sizeof (gint64) + PS_PLAN_KINDS * sizeof (PsOp) + sizeof (guint8));
  plan->memory = g_malloc_n (plan->n_devices, size);
  gint64 *end_ns = plan->memory;
  PsOp *order = (PsOp *)(gpointer)(end_ns + 2 * n * plan->n_devices);
  guint8 *waiting = (guint8 *)(order + PS_PLAN_KINDS * n * plan->n_devices);
  for (guint i = 0; i < plan->n_devices; i++)
    {
      for (guint k = 0; k < 2 * plan->n_chunks; k++, end_ns += plan->n_microbatches)
        plan->device[i].end_ns[k % 2][k / 2] = end_ns;
      plan->device[i].order = order + PS_PLAN_KINDS * n * i;
      plan->device[i].waiting = waiting + n * i;
    }
}

PsPlan *
ps_plan_new (const PsFamilySetting *setting, guint n_activations)
{
  PsPlan *plan = g_new0 (PsPlan, 1);
  guint p = plan->n_devices = setting->n_devices, v = plan->n_chunks = setting->n_chunks;
  plan->n_microbatches = setting->n_microbatches;
  plan->by_makespan = setting->by_makespan;
  plan->slack_bytes = G_MAXINT64;
  plan->unit_costs = setting->costs ? NULL : unit_costs (v * p);
  plan->costs = setting->costs ? setting->costs : plan->unit_costs;
  plan->device = g_new0 (PsPlanDevice, p);
  allocate (plan);
  for (guint i = 0; i < p; i++)
    {
      PsPlanDevice *device = &plan->device[i];
      set_costs (plan, i, plan->costs);
      device->limit_bytes = setting->memory_limit ? setting->memory_limit[i] : default_limit (device, n_activations);
    }
  for (guint i = 1; i < p; i++)
    plan->device[i].head_ns = plan->device[i - 1].head_ns + plan->device[i - 1].cost[PS_OP_F][PS_NEAR].duration_ns
                              + plan->device[i].input[PS_OP_F][PS_NEAR].transfer_ns;
  ps_plan_clear (plan);
  return plan;
}

void
ps_plan_free (PsPlan *plan)
{
  if (!plan)
    return;
  g_clear_pointer (&plan->unit_costs, ps_costs_free);
  g_free (plan->memory);
  g_free (plan->device);
  g_free (plan);
}

void
ps_plan_clear (PsPlan *plan)
{
  plan->idle_ns = 0;
  for (guint i = 0; i < plan->n_devices; i++)
    {
      PsPlanDevice *device = &plan->device[i];
      device->now_ns = device->start_ns = device->idle_ns = 0;
      device->held_bytes = device->peak_bytes = device->weight_bytes;
      device->n_ordered = 0;
      for (guint kind = 0; kind < PS_PLAN_KINDS; kind++)
        device->done[kind][PS_NEAR] = device->done[kind][PS_FAR] = 0;
    }
}

void
ps_plan_put (PsPlan *plan, guint index, PsOpKind kind, PsPlanChunk chunk)
{
  gint64 arrival = 0;
  if (kind != PS_OP_W)
    ps_plan_input (plan, index, kind, chunk, &arrival);
  ps_plan_put_at (plan, index, kind, chunk, arrival);
}

/* Puts ops of a device until one has to wait for a neighbour. */
static gboolean
replay_device (PsPlan *plan, const PsSchedule *schedule, guint index, guint *next)
{
  guint before = plan->device[index].n_ordered;
  for (; *next < schedule->first[index + 1]; ++*next)
    {
      PsOp op = schedule->ops[*next];
      PsPlanChunk chunk = op.stage < plan->n_devices ? PS_NEAR : PS_FAR;
      PsOpKind kind = op.kind == PS_OP_BW ? PS_OP_B : (PsOpKind)op.kind;
      gint64 arrival = 0;
      if (kind != PS_OP_W && !ps_plan_input (plan, index, kind, chunk, &arrival))
        break;
      ps_plan_put_at (plan, index, kind, chunk, arrival);
      if (op.kind == PS_OP_BW)
        ps_plan_put_at (plan, index, PS_OP_W, chunk, 0);
    }
  return plan->device[index].n_ordered > before;
}

void
ps_plan_replay (PsPlan *plan, const PsSchedule *schedule)
{
  g_autofree guint *next = g_memdup2 (schedule->first, plan->n_devices * sizeof *next);
  ps_plan_clear (plan);
  for (gboolean moved = TRUE; moved;)
    {
      moved = FALSE;
      for (guint i = 0; i < plan->n_devices; i++)
        moved |= replay_device (plan, schedule, i, &next[i]);
      for (guint i = plan->n_devices; i-- > 0;)
        moved |= replay_device (plan, schedule, i, &next[i]);
    }
}

gint64
ps_plan_span (const PsPlan *plan)
{
  gint64 span = 0;
  for (guint i = 0; i < plan->n_devices; i++)
    span = MAX (span, plan->device[i].now_ns - plan->device[i].start_ns);
  return span;
}

gint64
ps_plan_makespan (const PsPlan *plan)
{
  gint64 end = 0;
  for (guint i = 0; i < plan->n_devices; i++)
    end = MAX (end, plan->device[i].now_ns);
  return end;
}

gint64
ps_plan_length (const PsPlan *plan)
{
  return plan->by_makespan ? ps_plan_makespan (plan) : ps_plan_span (plan);
}

gboolean
ps_plan_fits (const PsPlan *plan, guint *device)
{
  for (*device = 0; *device < plan->n_devices; ++*device)
    if (plan->device[*device].peak_bytes > plan->device[*device].limit_bytes)
      return FALSE;
  return TRUE;
}

PsSchedule *
ps_plan_schedule (const PsPlan *plan, const char *name, const PsFamilySetting *setting)
{
  PsPlacementKind placement = plan->n_chunks == 1 ? PS_PLACEMENT_LOOP : PS_PLACEMENT_V;
  PsScheduleBuilder *builder = ps_family_builder (name, placement, setting);
  for (guint i = 0; i < plan->n_devices; i++)
    {
      ps_schedule_builder_add_ops (builder, plan->device[i].order, plan->device[i].n_ordered);
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}
