/* costs.c - the cost table: made by hand, its slices and its checks. */
#include <pipesim/costs.h>

#include <math.h>

PsCosts *
ps_costs_new (guint n_stages)
{
  PsCosts *costs = g_new0 (PsCosts, 1);

  costs->n_stages = n_stages;
  costs->n_lengths = 1;
  costs->dense_copies = 1;
  costs->expert_copies = 1;
  costs->stage = g_new0 (PsStageCost, n_stages);
  costs->op = g_new0 (PsOpCost, (gsize)PS_N_OP_KINDS * n_stages);
  costs->transfer_ns = g_new0 (gint64, 1 + 2 * (gsize)n_stages);
  costs->message_bytes = g_new0 (gint64, 1 + 2 * (gsize)n_stages);
  for (guint stage = 0; stage < n_stages; stage++)
    costs->stage[stage].pair_ns = costs->stage[stage].host_ns = -1;
  costs->source = g_strdup ("");
  return costs;
}

PsCosts *
ps_costs_copy (const PsCosts *costs)
{
  gsize n = costs->n_stages, all = n * costs->n_lengths;
  PsCosts *copy = g_new (PsCosts, 1);

  *copy = *costs;
  copy->stage = g_memdup2 (costs->stage, n * sizeof *costs->stage);
  copy->shapes = g_memdup2 (costs->shapes, n * sizeof *costs->shapes);
  copy->op = g_memdup2 (costs->op, PS_N_OP_KINDS * all * sizeof *costs->op);
  copy->host_time = g_memdup2 (costs->host_time, PS_N_OP_KINDS * all * sizeof *costs->host_time);
  copy->transfer_ns = g_memdup2 (costs->transfer_ns, (1 + 2 * all) * sizeof *costs->transfer_ns);
  copy->message_bytes = g_memdup2 (costs->message_bytes, (1 + 2 * all) * sizeof *costs->message_bytes);
  copy->pairs_ns = g_memdup2 (costs->pairs_ns, all * sizeof *costs->pairs_ns);
  copy->warm = g_memdup2 (costs->warm, PS_OP_O * n * sizeof *costs->warm);
  copy->slice_parts = costs->slice_parts != NULL ? g_ptr_array_ref (costs->slice_parts) : NULL;
  copy->source = g_strdup (costs->source);
  return copy;
}

void
ps_costs_free (PsCosts *costs)
{
  if (costs == NULL)
    return;
  g_free (costs->stage);
  g_free (costs->shapes);
  g_free (costs->op);
  g_free (costs->host_time);
  g_free (costs->transfer_ns);
  g_free (costs->message_bytes);
  g_free (costs->pairs_ns);
  g_free (costs->warm);
  g_clear_pointer (&costs->slice_parts, g_ptr_array_unref);
  g_free (costs->source);
  g_free (costs);
}

static gint64
divide (gint64 value, guint n)
{
  return value < 0 ? value : (value + n / 2) / n;
}

static gint64
net_bytes (const PsCosts *costs, PsOpKind kind, guint stage)
{
  const PsOpCost *op = ps_costs_op (costs, kind, stage);

  return op->take_bytes - op->give_bytes;
}

void
ps_costs_balance (PsCosts *rounded, const PsCosts *costs, guint stage)
{
  gint64 kept = net_bytes (costs, PS_OP_F, stage), left = net_bytes (rounded, PS_OP_F, stage);

  if (kept + net_bytes (costs, PS_OP_BW, stage) == 0)
    ps_costs_op (rounded, PS_OP_BW, stage)->give_bytes += left + net_bytes (rounded, PS_OP_BW, stage);
  left += net_bytes (rounded, PS_OP_B, stage) + net_bytes (rounded, PS_OP_W, stage);
  if (kept + net_bytes (costs, PS_OP_B, stage) + net_bytes (costs, PS_OP_W, stage) == 0)
    ps_costs_op (rounded, PS_OP_B, stage)->give_bytes += left;
}

void
ps_costs_set_memory (PsCosts *costs, guint stage, gint64 act_bytes, gint64 wact_bytes)
{
  ps_costs_op (costs, PS_OP_F, stage)->take_bytes = act_bytes;
  ps_costs_op (costs, PS_OP_R, stage)->take_bytes = act_bytes;
  ps_costs_op (costs, PS_OP_B, stage)->give_bytes = act_bytes - wact_bytes;
  ps_costs_op (costs, PS_OP_W, stage)->give_bytes = wact_bytes;
  ps_costs_op (costs, PS_OP_BW, stage)->give_bytes = act_bytes;
}

void
ps_costs_copy_stage (PsCosts *costs, guint stage, const PsCosts *from, guint from_stage)
{
  costs->stage[stage] = from->stage[from_stage];
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    *ps_costs_op (costs, (PsOpKind)kind, stage) = *ps_costs_op (from, (PsOpKind)kind, from_stage);
}

PsSliceParts *
ps_slice_parts_new (guint n_slices, guint n_stages)
{
  PsSliceParts *parts = g_new0 (PsSliceParts, 1);

  parts->n = n_slices;
  parts->part = g_new (double, (gsize)PS_OP_O *n_slices *n_stages);
  parts->transfer = g_new (double, 2 * (gsize)n_stages);
  for (gsize i = 0; i < 2 * (gsize)n_stages; i++)
    parts->transfer[i] = 1;
  return parts;
}

void
ps_slice_parts_free (PsSliceParts *parts)
{
  if (parts == NULL)
    return;
  g_free (parts->part);
  g_free (parts->transfer);
  g_free (parts);
}

void
ps_costs_add_slices (PsCosts *costs, PsSliceParts *parts)
{
  if (costs->slice_parts == NULL)
    costs->slice_parts = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_slice_parts_free);
  g_ptr_array_add (costs->slice_parts, parts);
}

static const PsSliceParts *
find_parts (const PsCosts *costs, guint n_slices)
{
  for (guint i = 0; costs->slice_parts != NULL && i < costs->slice_parts->len; i++)
    if (((const PsSliceParts *)costs->slice_parts->pdata[i])->n == n_slices)
      return costs->slice_parts->pdata[i];
  return NULL;
}

gboolean
ps_costs_have_reduce (const PsCosts *costs, guint n_copies)
{
  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (ps_costs_reduce_ns (costs, stage, n_copies) > 0)
      return TRUE;
  return FALSE;
}

gboolean
ps_costs_has_slices (const PsCosts *costs, guint n_slices)
{
  return find_parts (costs, n_slices) != NULL;
}

/* F and both halves of the backward. */
static double
work_ns (const PsCosts *costs, guint stage)
{
  double sum = 0;

  for (guint kind = PS_OP_F; kind <= PS_OP_W; kind++)
    sum += (double)ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns;
  return sum;
}

/* Sets the times of slices first .. first + n - 1: their average. A pair saves the part that it saves of the whole. */
static void
set_slice_times (const PsCosts *costs, const PsSliceParts *parts, guint first, guint n, PsCosts *slice)
{
  for (gsize i = 0; i < (gsize)PS_OP_O * costs->n_stages; i++)
    {
      gsize kind = i / costs->n_stages, stage = i % costs->n_stages;
      double sum = 0;

      for (guint k = first; k < first + n; k++)
        sum += parts->part[(kind * parts->n + k) * costs->n_stages + stage];
      slice->op[i].duration_ns = llrint ((double)costs->op[i].duration_ns * sum / n);
    }
  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (costs->stage[stage].pair_ns > 0)
      slice->stage[stage].pair_ns
          = llrint ((double)costs->stage[stage].pair_ns * work_ns (slice, stage) / MAX (work_ns (costs, stage), 1));
  for (gsize i = 1; i <= 2 * (gsize)costs->n_stages; i++)
    slice->transfer_ns[i] = llrint ((double)costs->transfer_ns[i] * parts->transfer[i - 1]);
}

/* An equal part of everything. */
static PsCosts *
equal_slice (const PsCosts *costs, guint n_slices)
{
  PsCosts *slice = ps_costs_copy (costs);

  for (gsize i = 0; i < (gsize)PS_OP_O * costs->n_stages; i++)
    {
      slice->op[i].duration_ns = divide (costs->op[i].duration_ns, n_slices);
      slice->op[i].take_bytes = divide (costs->op[i].take_bytes, n_slices);
      slice->op[i].give_bytes = divide (costs->op[i].give_bytes, n_slices);
    }
  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
      PsStageCost *cost = &slice->stage[stage];

      cost->pair_ns = divide (cost->pair_ns, n_slices);
      cost->host_ns = divide (cost->host_ns, n_slices);
      cost->tensor_ns = divide (cost->tensor_ns, n_slices);
      ps_costs_balance (slice, costs, stage);
    }
  for (gsize i = 1; i <= 2 * (gsize)costs->n_stages; i++)
    slice->message_bytes[i] = divide (costs->message_bytes[i], n_slices);
  return slice;
}

PsCosts *
ps_costs_slice (const PsCosts *costs, guint n_slices)
{
  const PsSliceParts *parts = find_parts (costs, n_slices);
  PsCosts *slice = equal_slice (costs, n_slices);

  if (parts != NULL)
    set_slice_times (costs, parts, 0, n_slices, slice);
  return slice;
}

PsCosts *
ps_costs_nth_slice (const PsCosts *costs, guint n_slices, guint slice)
{
  const PsSliceParts *parts = find_parts (costs, n_slices);
  PsCosts *of_slice = equal_slice (costs, n_slices);

  if (parts != NULL)
    set_slice_times (costs, parts, slice, 1, of_slice);
  return of_slice;
}

PsCosts *
ps_costs_least_slice (const PsCosts *costs, guint n_slices)
{
  PsCosts *least = ps_costs_nth_slice (costs, n_slices, 0);

  for (guint k = 1; k < n_slices && ps_costs_has_slices (costs, n_slices); k++)
    {
      g_autoptr (PsCosts) slice = ps_costs_nth_slice (costs, n_slices, k);

      for (guint i = 0; i < PS_OP_O * costs->n_stages; i++)
        least->op[i].duration_ns = MIN (least->op[i].duration_ns, slice->op[i].duration_ns);
    }
  return least;
}

void
ps_costs_set_messages (PsCosts *costs, gint64 bytes)
{
  for (guint stage = 0; stage + 1 < costs->n_stages; stage++)
    {
      costs->message_bytes[ps_transfer_forward (costs, stage)] = bytes;
      costs->message_bytes[ps_transfer_backward (costs, stage + 1)] = bytes;
      ps_costs_op (costs, PS_OP_R, stage + 1)->take_bytes
          = MAX (ps_costs_op (costs, PS_OP_F, stage + 1)->take_bytes - bytes, 0);
    }
}

/* The sum of n_microbatches of every entry must stay below 2^62: then no start, end or memory level overflows. */
static gboolean
add_times (gint64 *sum, gint64 value, guint n_microbatches)
{
  gint64 product;

  return value >= 0 && !__builtin_mul_overflow (value, (gint64)n_microbatches, &product)
         && !__builtin_add_overflow (*sum, product, sum) && *sum < ((gint64)1 << 62);
}

static gboolean
add_stage (const PsCosts *costs, guint stage, guint n_microbatches, gint64 *time, gint64 *bytes)
{
  const PsStageCost *cost = &costs->stage[stage];

  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    {
      const PsOpCost *op = ps_costs_op (costs, (PsOpKind)kind, stage);

      if (!add_times (time, op->duration_ns, n_microbatches) || !add_times (time, costs->op_ns, n_microbatches)
          || !add_times (time, costs->post_ns, 2 * n_microbatches) || !add_times (bytes, op->take_bytes, n_microbatches)
          || !add_times (bytes, MAX (op->give_bytes, -op->give_bytes), n_microbatches))
        return FALSE;
    }
  return add_times (time, MAX (cost->pair_ns, 0), n_microbatches)
         && add_times (time, costs->transfer_ns[ps_transfer_forward (costs, stage)], n_microbatches)
         && add_times (time, costs->transfer_ns[ps_transfer_backward (costs, stage)], n_microbatches)
         && add_times (time, MAX (cost->reduce_ns, cost->reduce2_ns), n_microbatches)
         && add_times (time, MAX (cost->host_ns, 0), n_microbatches)
         && add_times (time, cost->gather_ns, n_microbatches) && add_times (bytes, cost->whole_bytes, n_microbatches)
         && add_times (bytes, costs->message_bytes[ps_transfer_forward (costs, stage)], n_microbatches)
         && add_times (bytes, costs->message_bytes[ps_transfer_backward (costs, stage)], n_microbatches)
         && add_times (bytes, cost->weight_bytes, n_microbatches)
         && add_times (bytes, cost->version_bytes, n_microbatches);
}

gboolean
ps_costs_check (const PsCosts *costs, guint n_microbatches, GError **error)
{
  gint64 time = 0, bytes = 0;

  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (!add_stage (costs, stage, n_microbatches, &time, &bytes))
      return ps_refuse (error, PS_ERROR_USAGE,
                        "%s: costs of stage %u are negative, or too large for exact sums over %u microbatches",
                        costs->source, stage, n_microbatches);
  return TRUE;
}
