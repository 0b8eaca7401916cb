/* draft.c - putting ops into a draft and reading off its times, memory and order. */
#include "draft.h"

static PsCosts *
unit_costs (guint n_stages)
{
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint stage = 0; stage < n_stages; stage++)
    {
      for (guint kind = 0; kind < PS_DRAFT_KINDS; kind++)
        ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns = 1;
      ps_costs_op (costs, PS_OP_BW, stage)->duration_ns = 2; /* for the bound */
      ps_costs_set_memory (costs, stage, 1, 1);
    }
  return costs;
}

static guint
stage_of (guint p, guint device, PsDraftChunk chunk)
{
  return chunk == PS_NEAR ? device : 2 * p - 1 - device;
}

static guint
device_of (guint p, guint stage)
{
  return stage < p ? stage : 2 * p - 1 - stage;
}

/* The F or B that takes the result of an F or B of a stage. The last B's result goes to nobody's array. */
static PsDraftOutput
find_output (const PsDraft *draft, PsOpKind kind, guint stage)
{
  guint p = draft->n_devices, last = draft->n_chunks * p - 1;
  gboolean loss = kind == PS_OP_F && stage == last;

  if (kind == PS_OP_B && stage == 0)
    return (PsDraftOutput){ draft->arrival_ns, 0 };
  guint to = loss ? stage : kind == PS_OP_F ? stage + 1 : stage - 1;
  guint transfer
      = kind == PS_OP_F ? ps_transfer_forward (draft->costs, stage) : ps_transfer_backward (draft->costs, stage);
  gboolean local = device_of (p, to) == device_of (p, stage);
  return (PsDraftOutput){ draft->device[device_of (p, to)].arrival_ns[loss ? PS_OP_B : kind][to < p ? PS_NEAR : PS_FAR],
                          local ? 0 : draft->costs->transfer_ns[transfer] };
}

static gint64
default_limit (const PsDraftDevice *device, guint n_activations)
{
  if (n_activations == 0)
    return G_MAXINT64;
  return device->weight_bytes
         + n_activations * (device->cost[PS_OP_F][PS_NEAR].take_bytes + device->cost[PS_OP_F][PS_FAR].take_bytes);
}

static void
set_costs (PsDraft *draft, guint index)
{
  PsDraftDevice *device = &draft->device[index];

  for (guint chunk = 0; chunk < draft->n_chunks; chunk++)
    {
      guint stage = stage_of (draft->n_devices, index, chunk);

      device->stage[chunk] = (guint16)stage;
      for (guint kind = 0; kind < PS_DRAFT_KINDS; kind++)
        {
          device->cost[kind][chunk] = *ps_costs_op (draft->costs, (PsOpKind)kind, stage);
          device->work_ns += draft->n_microbatches * device->cost[kind][chunk].duration_ns;
          if (kind != PS_OP_F)
            device->burst_bytes = MAX (device->burst_bytes, device->cost[kind][chunk].take_bytes);
        }
      for (guint kind = 0; kind < 2; kind++)
        device->output[kind][chunk] = find_output (draft, (PsOpKind)kind, stage);
      device->weight_bytes += ps_costs_held_bytes (draft->costs, stage, 1);
    }
}

/* All arrays of arrivals: one of no chunk first. */
static gsize
n_arrivals (const PsDraft *draft)
{
  return (2 * (gsize)draft->n_chunks * draft->n_devices + 1) * (draft->n_microbatches + 1);
}

/* One block for all: drafts come and go by the thousand. */
static void
allocate (PsDraft *draft)
{
  gsize n = (gsize)draft->n_chunks * draft->n_microbatches, width = draft->n_microbatches + 1;

  draft->arrival_ns = g_malloc (n_arrivals (draft) * sizeof (gint64) + draft->n_devices * (PS_DRAFT_KINDS + 1) * n);
  gint64 *arrival_ns = draft->arrival_ns + width;
  guint8 *order = (guint8 *)(draft->arrival_ns + n_arrivals (draft));
  guint8 *waiting = order + PS_DRAFT_KINDS * n * draft->n_devices;
  for (guint i = 0; i < draft->n_devices; i++)
    {
      for (guint k = 0; k < 2 * draft->n_chunks; k++, arrival_ns += width)
        draft->device[i].arrival_ns[k % 2][k / 2] = arrival_ns;
      draft->device[i].order = order + PS_DRAFT_KINDS * n * i;
      draft->device[i].waiting = waiting + n * i;
    }
}

void
ps_draft_set_limits (PsDraft *draft, const PsFamilySetting *setting, guint n_activations)
{
  for (guint i = 0; i < draft->n_devices; i++)
    draft->device[i].limit_bytes
        = setting->memory_limit != NULL ? setting->memory_limit[i] : default_limit (&draft->device[i], n_activations);
}

/* The way of a microbatch to the first op of each device, and from each op to the end. */
static void
set_ways (PsDraft *draft)
{
  guint p = draft->n_devices;
  gint64 after = draft->by_makespan ? 0 : G_MININT64 / 2;

  for (guint i = 1; i < p && draft->by_makespan; i++)
    draft->device[i].head_ns = draft->device[i - 1].head_ns + draft->device[i - 1].cost[PS_OP_F][PS_NEAR].duration_ns
                               + draft->device[i - 1].output[PS_OP_F][PS_NEAR].transfer_ns;
  for (guint step = 0; step < 2 * draft->n_chunks * p; step++)
    {
      PsOpKind kind = step < draft->n_chunks * p ? PS_OP_B : PS_OP_F;
      guint stage = kind == PS_OP_B ? step : 2 * draft->n_chunks * p - 1 - step;
      PsDraftChunk chunk = stage < p ? PS_NEAR : PS_FAR;
      PsDraftDevice *device = &draft->device[device_of (p, stage)];

      after += device->output[kind][chunk].transfer_ns;
      if (kind == PS_OP_B && draft->by_makespan)
        after = MAX (after, device->cost[PS_OP_W][chunk].duration_ns);
      device->after_ns[kind][chunk] = after;
      after += device->cost[kind][chunk].duration_ns;
    }
}

PsDraft *
ps_draft_new (const PsFamilySetting *setting, guint n_activations)
{
  PsDraft *draft = g_new0 (PsDraft, 1);
  guint p = draft->n_devices = setting->n_devices, v = draft->n_chunks = setting->n_chunks;

  draft->n_microbatches = setting->n_microbatches;
  draft->by_makespan = setting->by_makespan;
  draft->slack_bytes = G_MAXINT64;
  draft->unit_costs = setting->costs != NULL ? NULL : unit_costs (v * p);
  draft->costs = setting->costs != NULL ? setting->costs : draft->unit_costs;
  draft->device = g_new0 (PsDraftDevice, p);
  allocate (draft);
  for (guint i = 0; i < p; i++)
    set_costs (draft, i);
  ps_draft_set_limits (draft, setting, n_activations);
  set_ways (draft);
  for (guint i = 0; i < p; i++)
    draft->work_ns = MAX (draft->work_ns, draft->device[i].head_ns + draft->device[i].work_ns);
  ps_draft_clear (draft);
  return draft;
}

void
ps_draft_free (PsDraft *draft)
{
  if (draft == NULL)
    return;
  g_clear_pointer (&draft->unit_costs, ps_costs_free);
  g_free (draft->arrival_ns);
  g_free (draft->device);
  g_free (draft);
}

void
ps_draft_clear (PsDraft *draft)
{
  draft->idle_ns = 0;
  draft->least_ns = draft->work_ns;
  for (gsize i = 0, n = n_arrivals (draft); i < n; i++)
    draft->arrival_ns[i] = PS_DRAFT_NEVER;
  memset (draft->device[0].arrival_ns[PS_OP_F][PS_NEAR], 0, draft->n_microbatches * sizeof (gint64));
  for (guint i = 0; i < draft->n_devices; i++)
    {
      PsDraftDevice *device = &draft->device[i];

      device->now_ns = device->start_ns = device->idle_ns = 0;
      device->held_bytes = device->peak_bytes = device->weight_bytes;
      device->n_ordered = 0;
      for (guint kind = 0; kind < PS_DRAFT_KINDS; kind++)
        device->done[kind][PS_NEAR] = device->done[kind][PS_FAR] = 0;
    }
}

void
ps_draft_put (PsDraft *draft, guint index, PsOpKind kind, PsDraftChunk chunk)
{
  gint64 arrival = 0;

  if (kind != PS_OP_W)
    ps_draft_input (draft, index, kind, chunk, &arrival);
  ps_draft_put_at (draft, index, kind, chunk, arrival);
}

/* Puts ops of a device until one has to wait for a neighbour, or the draft is longer than length_ns. */
static gboolean
replay_device (PsDraft *draft, const PsSchedule *schedule, guint index, guint *next, gint64 length_ns)
{
  guint before = draft->device[index].n_ordered;

  for (; *next < schedule->first[index + 1] && draft->least_ns <= length_ns; ++*next)
    {
      PsOp op = schedule->ops[*next];
      PsDraftChunk chunk = op.stage < draft->n_devices ? PS_NEAR : PS_FAR;
      PsOpKind kind = op.kind == PS_OP_BW ? PS_OP_B : (PsOpKind)op.kind;
      gint64 arrival = 0;

      if (kind != PS_OP_W && !ps_draft_input (draft, index, kind, chunk, &arrival))
        break;
      ps_draft_put_at (draft, index, kind, chunk, arrival);
      if (op.kind == PS_OP_BW)
        ps_draft_put_at (draft, index, PS_OP_W, chunk, 0);
    }
  return draft->device[index].n_ordered > before;
}

gboolean
ps_draft_replay (PsDraft *draft, const PsSchedule *schedule, gint64 length_ns)
{
  g_autofree guint *next = g_memdup2 (schedule->first, draft->n_devices * sizeof *next);
  guint n = draft->n_devices;

  ps_draft_clear (draft);
  for (gboolean moved = TRUE; moved;)
    {
      moved = FALSE;
      for (guint turn = 0; turn < 2 * n; turn++)
        {
          guint i = turn < n ? turn : 2 * n - 1 - turn;

          moved |= replay_device (draft, schedule, i, &next[i], length_ns);
          if (draft->least_ns > length_ns)
            return FALSE;
        }
    }
  return TRUE;
}

gint64
ps_draft_span (const PsDraft *draft)
{
  gint64 span = 0;

  for (guint i = 0; i < draft->n_devices; i++)
    span = MAX (span, draft->device[i].now_ns - draft->device[i].start_ns);
  return span;
}

gint64
ps_draft_makespan (const PsDraft *draft)
{
  gint64 end = 0;

  for (guint i = 0; i < draft->n_devices; i++)
    end = MAX (end, draft->device[i].now_ns);
  return end;
}

gint64
ps_draft_length (const PsDraft *draft)
{
  return draft->by_makespan ? ps_draft_makespan (draft) : ps_draft_span (draft);
}

gboolean
ps_draft_fits (const PsDraft *draft, guint *device)
{
  for (*device = 0; *device < draft->n_devices; ++*device)
    if (draft->device[*device].peak_bytes > draft->device[*device].limit_bytes)
      return FALSE;
  return TRUE;
}

/* Writes the device's order out, with microbatches in order. */
static void
list_ops (const PsDraftDevice *device, PsOp *ops)
{
  guint microbatch[PS_DRAFT_KINDS * 2] = { 0 };

  for (guint i = 0; i < device->n_ordered; i++)
    {
      guint op = device->order[i];

      ops[i] = (PsOp){ .kind = (guint8)(op / 2),
                       .stage = device->stage[op % 2],
                       .microbatch = microbatch[op]++ & G_MAXINT32 };
    }
}

PsSchedule *
ps_draft_schedule (const PsDraft *draft, const char *name, const PsFamilySetting *setting)
{
  PsPlacementKind placement = draft->n_chunks == 1 ? PS_PLACEMENT_LOOP : PS_PLACEMENT_V;
  PsScheduleBuilder *builder = ps_family_builder (name, placement, setting);

  for (guint i = 0; i < draft->n_devices; i++)
    {
      list_ops (&draft->device[i], ps_schedule_builder_room (builder, draft->device[i].n_ordered));
      ps_schedule_builder_next_device (builder);
    }
  return ps_schedule_builder_end (builder);
}
