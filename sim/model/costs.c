/* costs.c - the cost table: its slices and checks; the effect of recomputation, offloading, ZeRO, data parallelism and
 * host times on it; costs from the command line, and costs by formulas of a model on a cluster. */
#include <pipesim/costs.h>

#include <math.h>
#include <string.h>

PsCosts *ps_costs_new (guint n_stages)
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

PsCosts *ps_costs_copy (const PsCosts *costs)
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
  copy->pattern = g_strdup (costs->pattern);
  return copy;
}

void ps_costs_free (PsCosts *costs)
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
  g_free (costs->pattern);
  g_free (costs);
}

/* part / n of a value, rounded; unknown values stay. */
static gint64 divide (gint64 value, guint part, guint n)
{
  gint64 units = value / n, rest = value % n;

  return value < 0 ? value : units * part + (rest * part + n / 2) / n;
}

static gint64 net_bytes (const PsCosts *costs, PsOpKind kind, guint stage)
{
  const PsOpCost *op = ps_costs_op (costs, kind, stage);

  return op->take_bytes - op->give_bytes;
}

void ps_costs_balance (PsCosts *rounded, const PsCosts *costs, guint stage)
{
  gint64 kept = net_bytes (costs, PS_OP_F, stage), left = net_bytes (rounded, PS_OP_F, stage);

  if (kept + net_bytes (costs, PS_OP_BW, stage) == 0)
    ps_costs_op (rounded, PS_OP_BW, stage)->give_bytes += left + net_bytes (rounded, PS_OP_BW, stage);
  left += net_bytes (rounded, PS_OP_B, stage) + net_bytes (rounded, PS_OP_W, stage);
  if (kept + net_bytes (costs, PS_OP_B, stage) + net_bytes (costs, PS_OP_W, stage) == 0)
    ps_costs_op (rounded, PS_OP_B, stage)->give_bytes += left;
}

void ps_costs_set_memory (PsCosts *costs, guint stage, gint64 act_bytes, gint64 wact_bytes)
{
  ps_costs_op (costs, PS_OP_F, stage)->take_bytes = act_bytes;
  ps_costs_op (costs, PS_OP_R, stage)->take_bytes = act_bytes;
  ps_costs_op (costs, PS_OP_B, stage)->give_bytes = act_bytes - wact_bytes;
  ps_costs_op (costs, PS_OP_W, stage)->give_bytes = wact_bytes;
  ps_costs_op (costs, PS_OP_BW, stage)->give_bytes = act_bytes;
}

void ps_costs_copy_stage (PsCosts *costs, guint stage, const PsCosts *from, guint from_stage)
{
  costs->stage[stage] = from->stage[from_stage];
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    *ps_costs_op (costs, (PsOpKind)kind, stage) = *ps_costs_op (from, (PsOpKind)kind, from_stage);
}

PsSliceParts *ps_slice_parts_new (guint n_slices, const guint *tokens, guint n_stages)
{
  PsSliceParts *parts = g_new0 (PsSliceParts, 1);

  parts->n = n_slices;
  parts->tokens = g_memdup2 (tokens, tokens != NULL ? n_slices * sizeof *tokens : 0);
  parts->part = g_new (double, (gsize)PS_OP_O *n_slices *n_stages);
  parts->transfer = g_new (double, 2 * (gsize)n_slices * n_stages);
  for (gsize i = 0; i < 2 * (gsize)n_slices * n_stages; i++)
    parts->transfer[i] = 1;
  return parts;
}

void ps_slice_parts_free (PsSliceParts *parts)
{
  if (parts == NULL)
    return;
  g_free (parts->tokens);
  g_free (parts->part);
  g_free (parts->take_bytes);
  g_free (parts->give_bytes);
  g_free (parts->transfer);
  g_free (parts);
}

void ps_costs_add_slices (PsCosts *costs, PsSliceParts *parts)
{
  if (costs->slice_parts == NULL)
    costs->slice_parts = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_slice_parts_free);
  g_ptr_array_insert (costs->slice_parts, 0, parts);
}

const PsSliceParts *ps_costs_slices (const PsCosts *costs, guint n_slices)
{
  for (guint i = 0; costs->slice_parts != NULL && i < costs->slice_parts->len; i++)
    if (((const PsSliceParts *)costs->slice_parts->pdata[i])->n == n_slices)
      return costs->slice_parts->pdata[i];
  return NULL;
}

gboolean ps_costs_have_reduce (const PsCosts *costs, guint n_copies)
{
  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (ps_costs_reduce_ns (costs, stage, n_copies) > 0)
      return TRUE;
  return FALSE;
}

/* F and both halves of the backward. */
static double work_ns (const PsCosts *costs, guint stage)
{
  double sum = 0;

  for (guint kind = PS_OP_F; kind <= PS_OP_W; kind++)
    sum += (double)ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns;
  return sum;
}

/* Sets the times of slices first .. first + n - 1: their average. A pair saves the part that it saves of the whole. */
static void set_slice_times (const PsCosts *costs, const PsSliceParts *parts, guint first, guint n, PsCosts *slice)
{
  guint n_transfers = 2 * costs->n_stages;

  for (gsize i = 0; i < (gsize)PS_OP_O * costs->n_stages; i++) {
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
  for (guint i = 0; i < n_transfers; i++) {
    double sum = 0;

    for (guint k = first; k < first + n; k++)
      sum += parts->transfer[k * n_transfers + i];
    slice->transfer_ns[i + 1] = llrint ((double)costs->transfer_ns[i + 1] * sum / n);
  }
}

static void set_slice_bytes (const PsCosts *costs, const PsSliceParts *parts, guint k, PsCosts *slice)
{
  for (gsize i = 0; i < (gsize)PS_OP_O * costs->n_stages; i++) {
    gsize at = (i / costs->n_stages * parts->n + k) * costs->n_stages + i % costs->n_stages;

    slice->op[i].take_bytes = parts->take_bytes[at];
    slice->op[i].give_bytes = parts->give_bytes[at];
  }
}

/* The part of everything that `tokens` of `whole` tokens have. */
static PsCosts *part_of (const PsCosts *costs, guint tokens, guint whole)
{
  PsCosts *slice = ps_costs_copy (costs);

  for (gsize i = 0; i < (gsize)PS_OP_O * costs->n_stages; i++) {
    slice->op[i].duration_ns = divide (costs->op[i].duration_ns, tokens, whole);
    slice->op[i].take_bytes = divide (costs->op[i].take_bytes, tokens, whole);
    slice->op[i].give_bytes = divide (costs->op[i].give_bytes, tokens, whole);
  }
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    PsStageCost *cost = &slice->stage[stage];

    cost->pair_ns = divide (cost->pair_ns, tokens, whole);
    cost->host_ns = divide (cost->host_ns, tokens, whole);
    cost->tensor_ns = divide (cost->tensor_ns, tokens, whole);
    ps_costs_balance (slice, costs, stage);
  }
  for (gsize i = 1; i <= 2 * (gsize)costs->n_stages; i++)
    slice->message_bytes[i] = divide (costs->message_bytes[i], tokens, whole);
  return slice;
}

PsCosts *ps_costs_slice (const PsCosts *costs, guint n_slices)
{
  const PsSliceParts *parts = ps_costs_slices (costs, n_slices);
  PsCosts *slice = part_of (costs, 1, n_slices);

  if (parts != NULL)
    set_slice_times (costs, parts, 0, n_slices, slice);
  return slice;
}

PsCosts *ps_costs_nth_slice (const PsCosts *costs, guint n_slices, guint slice)
{
  const PsSliceParts *parts = ps_costs_slices (costs, n_slices);
  guint whole = 0;

  if (parts == NULL)
    return part_of (costs, 1, n_slices);
  for (guint k = 0; k < n_slices; k++)
    whole += parts->tokens != NULL ? parts->tokens[k] : 1;
  PsCosts *nth = part_of (costs, parts->tokens != NULL ? parts->tokens[slice] : 1, whole);
  set_slice_times (costs, parts, slice, 1, nth);
  if (parts->take_bytes != NULL)
    set_slice_bytes (costs, parts, slice, nth);
  return nth;
}

PsCosts *ps_costs_least_slice (const PsCosts *costs, guint n_slices)
{
  const PsSliceParts *parts = ps_costs_slices (costs, n_slices);
  PsCosts *least = ps_costs_nth_slice (costs, n_slices, 0);

  for (guint k = 1; parts != NULL && k < n_slices; k++) {
    g_autoptr (PsCosts) slice = ps_costs_nth_slice (costs, n_slices, k);

    for (guint i = 0; i < PS_OP_O * costs->n_stages; i++)
      least->op[i].duration_ns = MIN (least->op[i].duration_ns, slice->op[i].duration_ns);
    for (guint stage = 0; stage < costs->n_stages; stage++) {
      gint64 act = MIN (ps_costs_act_bytes (least, stage), ps_costs_act_bytes (slice, stage));
      gint64 wact = MIN (ps_costs_wact_bytes (least, stage), ps_costs_wact_bytes (slice, stage));

      if (parts->take_bytes != NULL)
        ps_costs_set_memory (least, stage, act, CLAMP (wact, 0, act));
    }
  }
  return least;
}

void ps_costs_set_messages (PsCosts *costs, const PsModel *model, guint n_tensor)
{
  gint64 bytes = ps_tensor_boundary_bytes (model, n_tensor);
  guint n_states = 0; /* of modules of multi-token prediction whose losses are still to come */

  for (guint stage = 0; stage + 1 < costs->n_stages; stage++) {
    /* A stage without units hands on what it gets. */
    if (costs->shapes != NULL && ps_stage_shape_units (&costs->shapes[stage]) > 0) {
      PsStageShape shape = costs->shapes[stage];

      n_states += shape.n_mtp;
      n_states -= MIN (n_states, shape.head);
      shape.n_mtp = n_states;
      bytes = ps_tensor_output_bytes (model, &shape, n_tensor);
    }
    costs->message_bytes[ps_transfer_forward (costs, stage)] = bytes;
    costs->message_bytes[ps_transfer_backward (costs, stage + 1)] = bytes;
    ps_costs_op (costs, PS_OP_R, stage + 1)->take_bytes
        = MAX (ps_costs_op (costs, PS_OP_F, stage + 1)->take_bytes - bytes, 0);
  }
}

/* The sum of n_microbatches of every entry must stay below 2^62: then no start, end or memory level overflows. */
static gboolean add_times (gint64 *sum, gint64 value, guint n_microbatches)
{
  gint64 product;

  return value >= 0 && !__builtin_mul_overflow (value, (gint64)n_microbatches, &product)
         && !__builtin_add_overflow (*sum, product, sum) && *sum < ((gint64)1 << 62);
}

static gboolean add_stage (const PsCosts *costs, guint stage, guint n_microbatches, gint64 *time, gint64 *bytes)
{
  const PsStageCost *cost = &costs->stage[stage];

  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++) {
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

gboolean ps_costs_check (const PsCosts *costs, guint n_microbatches, GError **error)
{
  gint64 time = 0, bytes = 0;

  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (!add_stage (costs, stage, n_microbatches, &time, &bytes))
      return ps_refuse (error, PS_ERROR_USAGE,
                        "%s: costs of stage %u are negative, or too large for exact sums over %u microbatches",
                        costs->source, stage, n_microbatches);
  return TRUE;
}

/* The effect of options on costs. */

void ps_costs_keep_forward (PsCosts *costs)
{
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    PsStageCost *cost = &costs->stage[stage];
    const PsStateBytes *state = &cost->state;
    gint64 weights = cost->weight_bytes - state->gradient_bytes - state->optimizer_bytes - state->buffer_bytes;

    *cost = (PsStageCost){ .weight_bytes = weights,
                           .state = { .weight_bytes = state->weight_bytes, .context_bytes = state->context_bytes },
                           .tensor_ns = cost->tensor_ns,
                           .host_ns = -1,
                           .pair_ns = -1 };
    for (guint kind = PS_OP_F + 1; kind < PS_N_OP_KINDS; kind++)
      *ps_costs_op (costs, (PsOpKind)kind, stage) = (PsOpCost){ 0 };
    costs->transfer_ns[ps_transfer_backward (costs, stage)] = 0;
    costs->message_bytes[ps_transfer_backward (costs, stage)] = 0;
  }
}

static gint64 scale (gint64 value, double factor)
{
  return (gint64)llround ((double)value * factor);
}

void ps_costs_guess (PsCosts *costs, guint stage)
{
  gint64 *b = &ps_costs_op (costs, PS_OP_B, stage)->duration_ns;
  gint64 *w = &ps_costs_op (costs, PS_OP_W, stage)->duration_ns;
  gint64 *whole = &ps_costs_op (costs, PS_OP_BW, stage)->duration_ns;
  guint unknown = costs->stage[stage].unknown;

  if (unknown & 1U << PS_OP_BW)
    *whole = *b + *w;
  if (unknown & 1U << PS_OP_B)
    *b = unknown & 1U << PS_OP_W ? *whole / 2 : MAX (*whole - *w, 0);
  if (unknown & 1U << PS_OP_W)
    *w = MAX (*whole - *b, 0);
}

void ps_costs_guess_transfers (PsCosts *costs)
{
  guint n = 2 * costs->n_stages, n_known = 0;
  g_autofree gint64 *known = g_new (gint64, n);

  for (guint i = 1; i <= n; i++)
    if (costs->transfer_ns[i] >= 0)
      known[n_known++] = costs->transfer_ns[i];
  gint64 usual_ns = n_known > 0 ? ps_median (known, n_known) : 0;
  for (guint i = 1; i <= n; i++) {
    if (costs->transfer_ns[i] >= 0)
      continue;
    costs->transfer_ns[i] = usual_ns;
    if (i != ps_transfer_forward (costs, costs->n_stages - 1) && i != ps_transfer_backward (costs, 0))
      costs->transfer_origin = MAX (costs->transfer_origin, n_known > 0 ? PS_ORIGIN_INTERPOLATED : PS_ORIGIN_MODELLED);
  }
}

char *ps_costs_describe (const PsCosts *costs)
{
  gboolean differ = costs->transfer_origin > costs->time_origin;

  return g_strdup_printf ("%s costs%s%s%s: %s", ps_origin_name (costs->time_origin), differ ? ", " : "",
                          differ ? ps_origin_name (costs->transfer_origin) : "", differ ? " transfers" : "",
                          costs->source != NULL ? costs->source : "");
}

void ps_costs_drop (PsCosts *costs, guint stage, guint n_parts, gint64 drop_bytes, gint64 duration_ns)
{
  PsOpCost *f = ps_costs_op (costs, PS_OP_F, stage), *b = ps_costs_op (costs, PS_OP_B, stage);
  PsOpCost *whole = ps_costs_op (costs, PS_OP_BW, stage);
  gint64 before = ps_costs_act_bytes (costs, stage), kept = before - drop_bytes;
  gint64 part = (drop_bytes + n_parts - 1) / n_parts;
  gint64 weight_inputs = ps_costs_wact_bytes (costs, stage);
  gint64 piled = MAX (weight_inputs - kept, 0) / n_parts * (n_parts - 1);
  PsStageCost *cost = &costs->stage[stage];

  f->take_bytes -= drop_bytes - part;
  f->give_bytes += part;
  b->take_bytes += part + piled;
  b->give_bytes += part + piled - drop_bytes;
  whole->take_bytes += part;
  whole->give_bytes += part - drop_bytes;
  b->duration_ns += duration_ns;
  whole->duration_ns += duration_ns;
  if (cost->pair_ns >= 0)
    cost->pair_ns += duration_ns;
  if (cost->host_ns > 0 && before > 0)
    cost->host_ns = scale (cost->host_ns, (double)kept / (double)before);
}

/* The part of F that is computed again. */
static double repeated_part (const PsModel *model, const PsCluster *cluster, const PsStageShape *shape, gint64 talk_ns,
                             PsRecompute recompute)
{
  guint t = cluster != NULL ? cluster->tensor : 1;
  PsWork all, again;

  ps_work_stage (model, shape, PS_OP_F, t, &all);
  ps_work_recompute (model, shape, recompute, t, &again);
  if (cluster != NULL)
    return (double)ps_work_ns (&again, cluster, ps_tensor_again_ns (model, shape, recompute, cluster))
           / (double)MAX (ps_work_ns (&all, cluster, talk_ns), 1);
  return (double)ps_work_flops (&again) / (double)ps_work_flops (&all);
}

static void drop_layers (PsCosts *costs, guint stage, const PsModel *model, const PsStageShape *shape, guint n_tensor,
                         double part, PsRecompute recompute)
{
  double all = (double)ps_tensor_kept_bytes (model, shape, PS_RECOMPUTE_NONE, n_tensor);
  double dropped = all - (double)ps_tensor_kept_bytes (model, shape, recompute, n_tensor);
  double own = all + (double)ps_framework_habits (model, shape, n_tensor).kept_bytes;
  const PsStageShape layers = ps_recompute_shape (shape, recompute);
  guint n_inputs, n_parts = layers.n_layers + layers.n_mtp;

  if (recompute & PS_RECOMPUTE_UNIFORM) {
    ps_recompute_layers (recompute, shape->n_layers, &n_inputs);
    n_parts = n_inputs;
  }
  ps_costs_drop (costs, stage, n_parts, scale (ps_costs_act_bytes (costs, stage), dropped / own),
                 scale (ps_costs_op (costs, PS_OP_F, stage)->duration_ns, part));
}

static void recompute_model (PsCosts *costs, guint stage, const PsModel *model, const PsCluster *cluster,
                             PsRecompute recompute)
{
  const PsStageShape *shape = &costs->shapes[stage];

  if (shape->n_layers == 0 || shape->recompute != PS_RECOMPUTE_NONE)
    return;
  costs->time_origin = costs->memory_origin = PS_ORIGIN_MODELLED;
  drop_layers (costs, stage, model, shape, cluster != NULL ? cluster->tensor : 1,
               repeated_part (model, cluster, shape, costs->stage[stage].tensor_ns, recompute), recompute);
}

gboolean ps_costs_recompute (PsCosts *costs, guint stage, const PsModel *model, const PsCluster *cluster,
                             PsRecompute recompute, GError **error)
{
  const PsOpCost *again = ps_costs_op (costs, PS_OP_R, stage);

  if (recompute == PS_RECOMPUTE_NONE)
    return TRUE;
  if (model != NULL) {
    PsRecompute has;
    guint offload;

    ps_model_modules (model, &has, &offload);
    if (recompute & PS_RECOMPUTE_MODULES & ~has)
      return ps_refuse (error, PS_ERROR_USAGE, "--recompute %s: model '%s' has no %s; it has %s",
                        ps_recompute_name (recompute), model->name,
                        ps_recompute_name (recompute & PS_RECOMPUTE_MODULES & ~has), ps_recompute_name (has));
    recompute_model (costs, stage, model, cluster, recompute);
    return TRUE;
  }
  if (recompute != PS_RECOMPUTE_FULL)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--recompute %s: %s does not say which part of a forward that is; give r, its time, and "
                      "keep, the bytes of all else, with --recompute full",
                      ps_recompute_name (recompute), costs->source);
  ps_costs_drop (costs, stage, 1, MIN (again->take_bytes, ps_costs_act_bytes (costs, stage)), again->duration_ns);
  return TRUE;
}

PsCosts *ps_costs_split_recompute (const PsCosts *costs, const PsCosts *full)
{
  PsCosts *split = ps_costs_copy (costs);

  for (guint stage = 0; stage < costs->n_stages; stage++) {
    gint64 longer_ns
        = ps_costs_op (full, PS_OP_B, stage)->duration_ns - ps_costs_op (costs, PS_OP_B, stage)->duration_ns;
    gint64 again = ps_costs_act_bytes (costs, stage) - ps_costs_act_bytes (full, stage);

    *ps_costs_op (split, PS_OP_F, stage) = *ps_costs_op (full, PS_OP_F, stage);
    *ps_costs_op (split, PS_OP_R, stage) = (PsOpCost){ MAX (longer_ns, 0), MAX (again, 0), MAX (-again, 0) };
  }
  split->time_origin = full->time_origin;
  split->memory_origin = full->memory_origin;
  return split;
}

static void offload_stage (PsCosts *costs, guint stage, double ratio)
{
  static const PsOpKind backwards[] = { PS_OP_B, PS_OP_BW };
  PsOpCost *f = ps_costs_op (costs, PS_OP_F, stage);
  gint64 bytes = scale (ps_costs_act_bytes (costs, stage), ratio), copy_ns = scale (costs->stage[stage].host_ns, ratio);

  f->give_bytes += bytes;
  f->duration_ns = MAX (f->duration_ns, copy_ns);
  for (guint i = 0; i < G_N_ELEMENTS (backwards); i++) {
    PsOpCost *backward = ps_costs_op (costs, backwards[i], stage);

    backward->take_bytes += bytes;
    backward->duration_ns = MAX (backward->duration_ns, copy_ns);
  }
  if (costs->stage[stage].pair_ns >= 0)
    costs->stage[stage].pair_ns = MAX (costs->stage[stage].pair_ns, copy_ns);
}

gboolean ps_costs_offload (PsCosts *costs, guint stage, double ratio, GError **error)
{
  if (ratio <= 0 || (costs->shapes != NULL && costs->shapes[stage].offload > 0))
    return TRUE;
  if (costs->stage[stage].host_ns < 0)
    return ps_refuse (
        error, PS_ERROR_USAGE,
        "--offload: %s does not say how fast the host is; give host=TIME in --costs, host_bandwidth in the "
        "cluster's description, or a profile of calib run --offload %g",
        costs->source, ratio);
  offload_stage (costs, stage, ratio);
  return TRUE;
}

gboolean ps_costs_offload_modules (PsCosts *costs, guint stage, const PsModel *model, PsRecompute recompute,
                                   guint modules, GError **error)
{
  PsRecompute has_recompute;
  guint has;

  if (modules == 0)
    return TRUE;
  if (model == NULL || costs->shapes == NULL)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--offload-modules %s: %s does not say what modules keep; --offload RATIO would be right",
                      ps_offload_name (modules), costs->source);
  ps_model_modules (model, &has_recompute, &has);
  if (modules & ~has)
    return ps_refuse (error, PS_ERROR_USAGE, "--offload-modules %s: model '%s' has no %s; it has %s",
                      ps_offload_name (modules), model->name, ps_offload_name (modules & ~has), ps_offload_name (has));
  return ps_costs_offload (costs, stage, ps_model_moved_part (model, &costs->shapes[stage], recompute, modules), error);
}

/* The all-reduce becomes a reduce-scatter, and an all-gather of the weights: before they are used, or after the step
 * has updated them. */
static void gather_weights (PsStageCost *cost, PsOpCost *step, guint zero, gboolean overlap)
{
  const PsStateBytes *state = &cost->state;
  gint64 half_ns = cost->reduce_ns / 2, gather_ns = half_ns;

  if (state->gathered_bytes > 0 && state->gradient_bytes > 0)
    gather_ns = (gint64)MIN ((double)half_ns * (double)state->gathered_bytes / (double)state->gradient_bytes,
                             (double)PS_MAX_TIME_NS);
  cost->reduce_ns -= half_ns;
  cost->reduce2_ns -= cost->reduce2_ns / 2;
  if (zero == 3)
    cost->gather_ns = gather_ns;
  else if (!overlap)
    step->duration_ns += gather_ns;
}

/* Leaves one GPU's part of the bytes, and of those of the experts among them, which fewer GPUs hold. */
static void spread_bytes (const PsCosts *costs, guint n_replicas, gint64 *bytes, gint64 *experts)
{
  gint64 copies = (gint64)n_replicas * costs->dense_copies;
  gint64 expert_copies = MAX ((gint64)(n_replicas * costs->expert_copies), 1), dense = *bytes - *experts;

  *experts = (*experts + expert_copies - 1) / expert_copies;
  *bytes = (dense + copies - 1) / copies + *experts;
}

/* Leaves one GPU's part of what the optimizer keeps: of matrices that have one owner each, that of the busiest. Returns
 * the time of Newton-Schulz that all of them would take, and sets that of the owner. */
static gint64 spread_optimizer (PsCosts *costs, const PsModel *model, const PsCluster *cluster, guint stage,
                                guint n_replicas, gint64 *owner_ns)
{
  PsStateBytes *state = &costs->stage[stage].state, *experts = &costs->stage[stage].experts;
  PsMuonShare all = { 0 }, own = { 0 };

  if (model != NULL && model->state.optimizer == PS_OPTIMIZER_MUON) {
    all = ps_muon_share (model, &costs->shapes[stage], cluster, 1, 1);
    own = ps_muon_share (model, &costs->shapes[stage], cluster, (gint64)n_replicas * costs->dense_copies,
                         MAX ((gint64)(n_replicas * costs->expert_copies), 1));
  }
  state->optimizer_bytes -= all.optimizer_bytes;
  experts->optimizer_bytes -= all.expert_bytes;
  spread_bytes (costs, n_replicas, &state->optimizer_bytes, &experts->optimizer_bytes);
  spread_bytes (costs, n_replicas, &state->step_bytes, &experts->step_bytes);
  state->optimizer_bytes += own.optimizer_bytes;
  experts->optimizer_bytes += own.expert_bytes;
  *owner_ns = own.step_ns;
  return all.step_ns;
}

/* Parts of a stage's parameters that FSDP gathers as one: the embedding, each layer, the head. */
typedef struct {
  double first; /* of the first one */
  double most;  /* of two neighbours: one that works, and the next one */
} Units;

static Units find_units (const PsModel *model, const PsStageShape *shape)
{
  const double all = (double)ps_tensor_parameters (model, shape, 1);
  Units units = { 0 };
  double before = 0;

  for (guint i = 0; i < shape->n_layers + 2; i++) {
    const gboolean layer = i > 0 && i <= shape->n_layers;
    const PsStageShape unit = { .first_encoder = shape->first_encoder,
                                .n_encoder = i == 0 ? shape->n_encoder : 0,
                                .first_layer = shape->first_layer + (layer ? i - 1 : 0),
                                .n_layers = layer,
                                .embedding = shape->embedding && i == 0,
                                .n_mtp = i > shape->n_layers ? shape->n_mtp : 0,
                                .head = i > shape->n_layers ? shape->head : 0 };
    const double part = (double)ps_tensor_parameters (model, &unit, 1) / all;

    if (i == 0)
      units.first = part;
    units.most = MAX (units.most, before + part);
    before = part;
  }
  units.most = MIN (units.most, 1);
  return units;
}

/* Without a pipeline FSDP works by units. Each is gathered before its forward and again before its backward, while the
 * unit before it computes, and its gradients are scattered after each backward; so are those that DeepSpeed has in
 * bf16. */
static void gather_units (PsCosts *costs, const PsModel *model, guint n_tensor, guint n_replicas)
{
  PsStageCost *cost = &costs->stage[0];
  const Units units = find_units (model, &costs->shapes[0]);
  const gint64 gather_ns = cost->gather_ns, reduce_ns = cost->reduce_ns, before = cost->state.gradient_bytes;

  for (guint length = 0; length < costs->n_lengths; length++) {
    gint64 *ns[PS_N_OP_KINDS];

    for (guint kind = 0; kind < PS_OP_O; kind++)
      ns[kind] = &costs->op[ps_op_index (1, costs->n_lengths, (PsOpKind)kind, length, 0)].duration_ns;
    *ns[PS_OP_F] = MAX (*ns[PS_OP_F], gather_ns);
    *ns[PS_OP_BW] = MAX (*ns[PS_OP_BW], gather_ns + reduce_ns);
    *ns[PS_OP_W] = MAX (*ns[PS_OP_W], gather_ns + reduce_ns - *ns[PS_OP_B]);
  }
  cost->gather_ns = scale (gather_ns, units.first);
  cost->reduce_ns = scale (reduce_ns, units.first);
  cost->whole_bytes = scale (cost->whole_bytes, units.most);
  spread_bytes (costs, n_replicas, &cost->state.gradient_bytes, &cost->experts.gradient_bytes);
  cost->state.gradient_bytes += scale (before - cost->state.gradient_bytes, units.most);
  const gint64 narrow = ps_framework_habits (model, &costs->shapes[0], n_tensor).buffer_bytes;
  const gint64 passed = before - cost->state.gradient_bytes, dropped = narrow - scale (narrow, units.most);
  cost->state.buffer_bytes -= dropped;
  cost->weight_bytes -= passed + dropped;
}

static void zero_stage (PsCosts *costs, const PsModel *model, const PsCluster *cluster, guint stage, guint n_replicas,
                        guint zero)
{
  PsStageCost *cost = &costs->stage[stage];
  PsStateBytes *state = &cost->state;
  PsOpCost *step = ps_costs_op (costs, PS_OP_O, stage);
  gint64 before = state->optimizer_bytes, owner_ns;

  step->duration_ns -= cost->step_ns + spread_optimizer (costs, model, cluster, stage, n_replicas, &owner_ns);
  cost->weight_bytes -= before - state->optimizer_bytes;
  step->duration_ns
      = (gint64)ceil ((double)step->duration_ns * (double)state->optimizer_bytes / (double)MAX (before, 1))
        + cost->step_ns + owner_ns;
  gather_weights (cost, step, zero, costs->overlap_gather);
  if (zero < 3)
    return;
  before = state->weight_bytes;
  spread_bytes (costs, n_replicas, &state->weight_bytes, &cost->experts.weight_bytes);
  cost->whole_bytes = before - state->weight_bytes;
  cost->weight_bytes -= cost->whole_bytes;
}

gboolean ps_costs_zero (PsCosts *costs, const PsModel *model, const PsCluster *cluster, guint n_replicas, guint zero,
                        GError **error)
{
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    const PsStageCost *cost = &costs->stage[stage];

    if (cost->state.optimizer_bytes == 0 && cost->weight_bytes > cost->state.buffer_bytes)
      return ps_refuse (error, PS_ERROR_USAGE,
                        "--zero %u: %s does not say how much of stage %u is optimizer state; give opt=SIZE in --costs",
                        zero, costs->source, stage);
    zero_stage (costs, model, cluster, stage, n_replicas, zero);
  }
  if (zero == 3 && costs->n_stages == 1 && model != NULL && costs->shapes != NULL)
    gather_units (costs, model, cluster->tensor, n_replicas);
  costs->zero = zero;
  return TRUE;
}

/* All-reduce over the n_replicas * n_copies holders of a stage; the second copy's device mirrors the first one's. */
static gint64 ring_ns (const PsCluster *cluster, guint device, guint n_devices, guint n_replicas, guint n_copies,
                       gint64 bytes)
{
  const guint at[2] = { device, n_devices - 1 - device };
  gboolean between = cluster->spacing > 1;
  g_autofree guint *places = g_new (guint, n_replicas * n_copies);

  for (guint i = 0; i < n_replicas * n_copies; i++)
    places[i] = at[i % n_copies] * (between ? cluster->spacing : 1) + i / n_copies * (between ? 1 : n_devices);
  return ps_cluster_ring_ns (cluster, n_replicas * n_copies, places, bytes);
}

/* Bytes of gradients that an all-reduce over n replicas would move as long as it really takes: fewer replicas hold the
 * same experts. */
static gint64 reduced_bytes (const PsCosts *costs, guint stage, guint n_replicas)
{
  gint64 all = costs->stage[stage].state.gradient_bytes, own = costs->stage[stage].experts.gradient_bytes;
  double copies = MAX (n_replicas * costs->expert_copies, 1), n = n_replicas;
  double experts = (double)own / (double)MAX (all, 1);

  if (own == 0 || n_replicas == 1)
    return all;
  return scale (all, 1 - experts + experts * (copies - 1) / copies * n / (n - 1));
}

void ps_costs_set_reduce (PsCosts *costs, const PsCluster *cluster, guint n_devices, guint n_replicas)
{
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    gint64 bytes = reduced_bytes (costs, stage, n_replicas);
    guint device = stage % n_devices;

    costs->stage[stage].reduce_ns = ring_ns (cluster, device, n_devices, n_replicas, 1, bytes);
    costs->stage[stage].reduce2_ns = ring_ns (cluster, device, n_devices, n_replicas, 2, bytes);
  }
}

/* The host time of a message between a stage and the next one; 0: they are on one device in all copies. */
static gint64 boundary_ns (const PsCosts *costs, const guint16 *device, guint n_copies, guint stage)
{
  for (guint i = stage; i < n_copies * costs->n_stages; i += costs->n_stages)
    if (device[i] != device[i + 1])
      return costs->post_ns;
  return 0;
}

static PsHostTime host_time_of (const PsCosts *costs, PsOpKind kind, gint64 below_ns, gint64 above_ns)
{
  if (kind == PS_OP_F)
    return (PsHostTime){ costs->op_ns + below_ns, above_ns };
  if (kind == PS_OP_B || kind == PS_OP_BW)
    return (PsHostTime){ costs->op_ns + above_ns, below_ns };
  return (PsHostTime){ costs->op_ns, 0 };
}

/* Adds host times to the durations, or with sign -1 takes them away. */
static void change_durations (PsCosts *costs, int sign)
{
  guint n = costs->n_lengths * costs->n_stages;

  for (guint i = 0; i < PS_OP_O * n; i++)
    costs->op[i].duration_ns += sign * ps_host_time_sum (costs->host_time[i]);
  for (guint i = 0; i < n; i++) {
    gint64 pair_ns = ps_host_time_sum (costs->host_time[i]) + ps_host_time_sum (costs->pair_host);

    if (i < costs->n_stages && costs->stage[i].pair_ns >= 0)
      costs->stage[i].pair_ns += sign * pair_ns;
    if (costs->pairs_ns != NULL && costs->pairs_ns[i] >= 0)
      costs->pairs_ns[i] += sign * pair_ns;
  }
}

void ps_costs_add_host_time (PsCosts *costs, const guint16 *device, guint n_copies)
{
  gint64 below_ns = 0;

  if (!ps_costs_lack_host_time (costs))
    return;
  costs->host_time = g_new0 (PsHostTime, (gsize)PS_N_OP_KINDS * costs->n_lengths * costs->n_stages);
  costs->pair_host = (PsHostTime){ 0 };
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    gint64 above_ns = stage + 1 < costs->n_stages ? boundary_ns (costs, device, n_copies, stage) : 0;
    PsHostTime backward = host_time_of (costs, PS_OP_BW, below_ns, above_ns);

    for (guint i = 0; i < PS_OP_O * costs->n_lengths; i++)
      costs->host_time[i * costs->n_stages + stage]
          = host_time_of (costs, (PsOpKind)(i / costs->n_lengths), below_ns, above_ns);
    costs->pair_host.before_ns = MAX (costs->pair_host.before_ns, backward.before_ns);
    costs->pair_host.after_ns = MAX (costs->pair_host.after_ns, backward.after_ns);
    below_ns = above_ns;
  }
  change_durations (costs, 1);
}

void ps_costs_remove_host_time (PsCosts *costs)
{
  if (costs->host_time == NULL)
    return;
  change_durations (costs, -1);
  g_clear_pointer (&costs->host_time, g_free);
}

/* Costs from the command line: KEY=VALUE,... */

static const char *const key_names[PS_N_COST_KEYS + 1]
    = { "f",  "b",    "w",   "bw",   "c",    "o",       "pair",    "reduce", "reduce2", "r",  "host",
        "op", "post", "act", "wact", "keep", "weights", "version", "grad",   "opt",     "msg" };

const char *ps_cost_key_name (PsCostKey key)
{
  g_return_val_if_fail ((guint)key < PS_N_COST_KEYS, NULL);
  return key_names[key];
}

/* One value per stage for each key that was given; NULL for the others. */
typedef struct {
  guint n_devices;
  guint n_chunks;
  guint n_stages;
  gint64 *values[PS_N_COST_KEYS];
} Spec;

static void spec_clear (Spec *spec)
{
  for (guint key = 0; key < PS_N_COST_KEYS; key++)
    g_free (spec->values[key]);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Spec, spec_clear)

static gboolean parse_value (PsCostKey key, const char *text, gint64 *value, GError **error)
{
  g_autofree char *where = g_strdup_printf ("--costs: %s", key_names[key]);

  return key >= PS_COST_ACT ? ps_parse_size (where, text, value, error) : ps_parse_time (where, text, value, error);
}

/* Costs of a boundary, not of a stage. */
static gboolean is_per_transfer (PsCostKey key)
{
  return key == PS_COST_C || key == PS_COST_MSG;
}

/* The same for every device, however many chunks it has. */
static gboolean is_per_device (PsCostKey key)
{
  return key == PS_COST_OP || key == PS_COST_POST;
}

/* A device's share, split over its chunks: the first chunks take the remainder, so that the sum is exact. */
static void spread (const Spec *spec, PsCostKey key, gint64 share, gint64 *values)
{
  for (guint stage = 0; stage < spec->n_stages; stage++) {
    gint64 chunk = stage / spec->n_devices;

    values[stage] = is_per_transfer (key) || is_per_device (key)
                        ? share
                        : share / spec->n_chunks + (chunk < share % spec->n_chunks);
  }
}

static gboolean parse_values (Spec *spec, PsCostKey key, const char *text, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (text, ":", -1);
  guint n_parts = g_strv_length (parts);
  guint wanted = is_per_transfer (key) ? spec->n_stages - 1 : spec->n_stages;

  if (n_parts != 1 && is_per_device (key))
    return ps_refuse (error, PS_ERROR_USAGE, "--costs: %s has %u values; give 1, for all devices", key_names[key],
                      n_parts);
  if (n_parts != 1 && n_parts != wanted)
    return ps_refuse (error, PS_ERROR_USAGE, "--costs: %s has %u values; give 1, or %u (one per %s)", key_names[key],
                      n_parts, wanted, is_per_transfer (key) ? "boundary" : "stage");
  g_autofree gint64 *values = g_new0 (gint64, spec->n_stages);
  for (guint i = 0; i < n_parts; i++)
    if (!parse_value (key, parts[i], &values[i], error))
      return FALSE;
  if (n_parts == 1 && wanted != 1)
    spread (spec, key, values[0], values);
  spec->values[key] = g_steal_pointer (&values);
  return TRUE;
}

static gboolean parse_entry (Spec *spec, const char *entry, GError **error)
{
  const char *equals = strchr (entry, '=');
  g_autofree char *name = g_strndup (entry, equals != NULL ? (gsize)(equals - entry) : strlen (entry));
  PsCostKey key = 0;

  while (key < PS_N_COST_KEYS && !g_str_equal (name, key_names[key]))
    key++;
  if (key == PS_N_COST_KEYS || equals == NULL) {
    g_autofree char *keys = g_strjoinv (", ", (char **)key_names);

    return ps_refuse (error, PS_ERROR_USAGE, "--costs: '%s' is not KEY=VALUE with a key of %s", entry, keys);
  }
  if (spec->values[key] != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--costs: %s is given twice", name);
  return parse_values (spec, key, equals + 1, error);
}

static gint64 spec_get (const Spec *spec, PsCostKey key, guint stage, gint64 fallback)
{
  return spec->values[key] != NULL ? spec->values[key][stage] : fallback;
}

static gboolean spec_is_complete (const Spec *spec, GError **error)
{
  gboolean split = spec->values[PS_COST_B] != NULL && spec->values[PS_COST_W] != NULL;

  if (spec->values[PS_COST_F] != NULL
      && (split
          || (spec->values[PS_COST_BW] != NULL && spec->values[PS_COST_B] == NULL && spec->values[PS_COST_W] == NULL)))
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "--costs: give f, and either b and w or bw alone, such as f=1ms,b=1ms,w=1ms");
}

static void fill_times (PsCosts *costs, const Spec *spec, guint stage)
{
  gint64 f = spec_get (spec, PS_COST_F, stage, 0);
  gint64 whole = spec_get (spec, PS_COST_BW, stage, 0);
  gint64 b = spec_get (spec, PS_COST_B, stage, whole / 2);
  gint64 w = spec_get (spec, PS_COST_W, stage, whole - whole / 2);
  PsStageCost *cost = &costs->stage[stage];

  ps_costs_op (costs, PS_OP_F, stage)->duration_ns = f;
  ps_costs_op (costs, PS_OP_R, stage)->duration_ns = spec_get (spec, PS_COST_R, stage, f);
  ps_costs_op (costs, PS_OP_B, stage)->duration_ns = b;
  ps_costs_op (costs, PS_OP_W, stage)->duration_ns = w;
  ps_costs_op (costs, PS_OP_BW, stage)->duration_ns = spec_get (spec, PS_COST_BW, stage, b + w);
  ps_costs_op (costs, PS_OP_O, stage)->duration_ns = spec_get (spec, PS_COST_O, stage, 0);
  cost->pair_ns = spec_get (spec, PS_COST_PAIR, stage, -1);
  cost->reduce_ns = spec_get (spec, PS_COST_REDUCE, stage, 0);
  cost->reduce2_ns = spec_get (spec, PS_COST_REDUCE2, stage, cost->reduce_ns);
  cost->host_ns = spec_get (spec, PS_COST_HOST, stage, -1);
}

static void fill_boundaries (PsCosts *costs, const Spec *spec, guint stage)
{
  costs->transfer_ns[ps_transfer_forward (costs, stage)] = spec_get (spec, PS_COST_C, stage, 0);
  costs->message_bytes[ps_transfer_forward (costs, stage)] = spec_get (spec, PS_COST_MSG, stage, 0);
  if (stage == 0)
    return;
  costs->transfer_ns[ps_transfer_backward (costs, stage)] = spec_get (spec, PS_COST_C, stage - 1, 0);
  costs->message_bytes[ps_transfer_backward (costs, stage)] = spec_get (spec, PS_COST_MSG, stage - 1, 0);
}

static void fill_state (PsCosts *costs, const Spec *spec, guint stage)
{
  gint64 weights = spec_get (spec, PS_COST_WEIGHTS, stage, 0);
  gint64 grad = spec_get (spec, PS_COST_GRAD, stage, 0);
  gint64 opt = spec_get (spec, PS_COST_OPT, stage, 0);
  PsStageCost *cost = &costs->stage[stage];

  cost->weight_bytes = weights;
  cost->version_bytes = spec_get (spec, PS_COST_VERSION, stage, weights - grad - opt);
  if (spec->values[PS_COST_GRAD] != NULL || spec->values[PS_COST_OPT] != NULL)
    cost->state = (PsStateBytes){ .weight_bytes = weights - grad - opt,
                                  .gradient_bytes = grad,
                                  .optimizer_bytes = opt,
                                  .gathered_bytes = weights - grad - opt };
}

/* The name of a part that is larger than its whole; *whole is the name of the whole. NULL: all fit. */
static const char *find_misfit (const Spec *spec, guint stage, const char **whole)
{
  gint64 act = spec_get (spec, PS_COST_ACT, stage, 0), weights = spec_get (spec, PS_COST_WEIGHTS, stage, 0);

  *whole = "act";
  if (spec_get (spec, PS_COST_WACT, stage, 0) > act)
    return "wact";
  if (spec_get (spec, PS_COST_KEEP, stage, 0) > act)
    return "keep";
  *whole = "weights";
  return spec_get (spec, PS_COST_GRAD, stage, 0) + spec_get (spec, PS_COST_OPT, stage, 0) > weights ? "grad + opt"
                                                                                                    : NULL;
}

static gboolean fill_stage (PsCosts *costs, const Spec *spec, guint stage, GError **error)
{
  const char *whole, *part = find_misfit (spec, stage, &whole);
  gint64 act = spec_get (spec, PS_COST_ACT, stage, 0);

  if (part != NULL)
    return ps_refuse (error, PS_ERROR_USAGE, "--costs: %s is larger than %s on stage %u", part, whole, stage);
  fill_times (costs, spec, stage);
  fill_boundaries (costs, spec, stage);
  fill_state (costs, spec, stage);
  ps_costs_set_memory (costs, stage, act, spec_get (spec, PS_COST_WACT, stage, act));
  gint64 input = stage > 0 ? spec_get (spec, PS_COST_MSG, stage - 1, 0) : 0;
  ps_costs_op (costs, PS_OP_R, stage)->take_bytes -= spec_get (spec, PS_COST_KEEP, stage, MIN (input, act));
  return TRUE;
}

PsCosts *ps_costs_parse (const char *text, guint n_devices, guint n_chunks, GError **error)
{
  g_auto (Spec) spec = { .n_devices = n_devices, .n_chunks = n_chunks, .n_stages = n_devices * n_chunks };
  g_auto (GStrv) entries = g_strsplit (text, ",", -1);

  for (guint i = 0; entries[i] != NULL; i++)
    if (!parse_entry (&spec, entries[i], error))
      return NULL;
  if (!spec_is_complete (&spec, error))
    return NULL;
  g_autoptr (PsCosts) costs = ps_costs_new (spec.n_stages);
  g_free (costs->source);
  costs->source = g_strdup ("command line");
  costs->op_ns = spec_get (&spec, PS_COST_OP, 0, 0);
  costs->post_ns = spec_get (&spec, PS_COST_POST, 0, costs->op_ns);
  for (guint stage = 0; stage < spec.n_stages; stage++)
    if (!fill_stage (costs, &spec, stage, error))
      return NULL;
  return g_steal_pointer (&costs);
}

/* Costs by formulas, of a model on a cluster: times and sizes of stages. */

/* Time to move the bytes that F keeps to the host; -1: not known. */
static gint64 host_ns (const PsCluster *cluster, gint64 bytes)
{
  const PsLink link = { .bandwidth = cluster->host_bandwidth };

  return cluster->host_bandwidth > 0 ? ps_link_transfer_ns (&link, bytes) : -1;
}

static gint64 reserved (gint64 bytes, double reserve)
{
  return (gint64)((double)bytes * reserve);
}

/* The bytes that an op needs only while it runs. */
static void add_workspace (PsOpCost *op, gint64 bytes)
{
  op->take_bytes += bytes;
  op->give_bytes += bytes;
}

/* Fills the memory of a stage of that shape from the formulas of work.h and work.h: one GPU's of a device. */
static void set_sizes (PsCosts *costs, const PsModel *model, const PsCluster *cluster, const PsStageShape *shape,
                       guint n_chunks, guint stage)
{
  guint t = cluster->tensor;
  double reserve = ps_framework_passing_reserve (model->framework);
  PsHabits habits = ps_framework_habits (model, shape, t);
  PsStageCost *cost = &costs->stage[stage];
  PsStateBytes state = ps_tensor_state (model, shape, cluster, &cost->experts);
  gint64 act = reserved (ps_tensor_kept_bytes (model, shape, PS_RECOMPUTE_NONE, t) + habits.kept_bytes, reserve);
  gint64 wact = reserved (ps_tensor_weight_bytes (model, shape, t), reserve);

  ps_costs_set_memory (costs, stage, act, MIN (wact, act));
  add_workspace (ps_costs_op (costs, PS_OP_F, stage), reserved (habits.forward_bytes, reserve));
  add_workspace (ps_costs_op (costs, PS_OP_B, stage), reserved (habits.backward_bytes, reserve));
  add_workspace (ps_costs_op (costs, PS_OP_BW, stage), reserved (habits.backward_bytes, reserve));
  cost->host_ns = host_ns (cluster, act);
  state.buffer_bytes = habits.buffer_bytes + habits.shared_bytes / n_chunks;
  cost->state = state;
  cost->weight_bytes = state.weight_bytes + state.gradient_bytes + state.optimizer_bytes + state.buffer_bytes;
  cost->version_bytes = state.weight_bytes;
}

/* The part of the multiprocessors that a dispatcher takes from the kernels that run at the same time. NCCL's are left
 * out. */
static double dispatch_part (const PsCluster *cluster)
{
  return cluster->dispatcher == PS_DISPATCHER_ALLTOALL || cluster->multiprocessors == 0
             ? 0
             : (double)cluster->dispatch_multiprocessors / cluster->multiprocessors;
}

/* An overlapped pair: F of a stage, B and W of one like it. All that computes outside the experts is spread evenly over
 * the layers with experts. -1: no all-to-all is there to hide. */
static gint64 pair_ns (const PsCosts *costs, const PsModel *model, const PsCluster *cluster, const PsStageShape *shape,
                       guint stage)
{
  gint64 exchange_ns = ps_tensor_exchange_ns (model, cluster), sum = 0;
  PsPairLayer layer = { .dispatch_ns = { exchange_ns, exchange_ns }, .combine_ns = { exchange_ns, exchange_ns } };
  guint count[PS_N_UNIT_KINDS], n;

  ps_model_count_units (model, shape, count);
  n = count[PS_UNIT_EXPERTS];
  if (n == 0 || exchange_ns == 0)
    return -1;
  for (guint kind = PS_OP_F; kind <= PS_OP_W; kind++) {
    PsWork experts;
    gint64 ns = ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns;
    gint64 computing_ns = MAX (ns - (kind == PS_OP_W ? 0 : 2 * n * exchange_ns), 0);

    ps_work_experts (model, shape, (PsOpKind)kind, cluster->tensor, &experts);
    layer.experts_ns[kind] = MIN (ps_work_ns (&experts, cluster, 0), computing_ns) / n;
    layer.attention_ns[kind] = computing_ns / n - layer.experts_ns[kind];
    sum += ns;
  }
  g_autofree PsPairLayer *layers = g_new (PsPairLayer, n);
  layer.attention_ns[PS_OP_F] += scale (4 * exchange_ns, dispatch_part (cluster));
  for (guint i = 0; i < n; i++)
    layers[i] = layer;
  gint64 least_ns = sum - scale (4 * n * exchange_ns, 1 - cluster->expert_exposed);
  return CLAMP (ps_overlap_pair_ns (layers, n), least_ns, sum);
}

static void model_times (PsCosts *costs, const PsModel *model, const PsCluster *cluster, const PsStageShape *shape,
                         guint n_chunks, guint stage)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW };
  gint64 tensor_ns = ps_tensor_stage_ns (model, shape, cluster, PS_OP_F);
  gint64 backward_ns = ps_tensor_stage_ns (model, shape, cluster, PS_OP_B);

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    PsWork work;
    gint64 talk_ns = kinds[i] == PS_OP_F ? tensor_ns : kinds[i] == PS_OP_W ? 0 : backward_ns;

    ps_work_stage (model, shape, kinds[i], cluster->tensor, &work);
    ps_costs_op (costs, kinds[i], stage)->duration_ns = ps_work_ns (&work, cluster, talk_ns);
  }
  ps_costs_op (costs, PS_OP_R, stage)->duration_ns = ps_costs_op (costs, PS_OP_F, stage)->duration_ns;
  costs->stage[stage].step_ns = cluster->step_ns / n_chunks;
  ps_costs_op (costs, PS_OP_O, stage)->duration_ns = costs->stage[stage].step_ns
                                                     + ps_work_optimizer_ns (model, cluster, &costs->stage[stage].state)
                                                     + ps_muon_share (model, shape, cluster, 1, 1).step_ns;
  costs->stage[stage].tensor_ns = tensor_ns;
  costs->stage[stage].pair_ns = pair_ns (costs, model, cluster, shape, stage);
}

/* The first stage with as many units of each kind: `stage` itself when no earlier one has them. */
static guint find_equal (guint (*count)[PS_N_UNIT_KINDS], guint stage)
{
  guint i = 0;

  while (memcmp (count[i], count[stage], sizeof count[i]) != 0)
    i++;
  return i;
}

static char *describe_source (const PsModel *model, const PsCluster *cluster)
{
  const guint n_gpus = cluster->tensor * MAX (model->spread.context, 1);
  g_autofree char *gpus = n_gpus > 1 ? g_strdup_printf (", %u GPUs to a device", n_gpus) : g_strdup ("");
  g_autofree char *assumes = ps_framework_assumes (model);

  return g_strdup_printf ("model '%s' on cluster '%s'%s%s%s", model->name, cluster->name, gpus,
                          *assumes ? "; assumed: " : "", assumes);
}

PsCosts *ps_costs_model_stages (const PsModel *model, const PsCluster *cluster, const PsStageShape *shapes,
                                guint n_devices, guint n_chunks, GError **error)
{
  guint n_stages = n_devices * n_chunks;
  g_autofree guint (*count)[PS_N_UNIT_KINDS] = g_malloc_n (n_stages, sizeof *count);

  if (!ps_tensor_check (model, cluster->tensor, TRUE, error))
    return NULL;
  PsCosts *costs = ps_costs_new (n_stages);
  costs->shapes = g_memdup2 (shapes, n_stages * sizeof *shapes);
  costs->pattern = ps_model_hybrid_pattern (model);
  for (guint stage = 0; stage < n_stages; stage++) {
    ps_model_count_units (model, &shapes[stage], count[stage]);
    guint equal = find_equal (count, stage);

    costs->shapes[stage].recompute = PS_RECOMPUTE_NONE;
    costs->shapes[stage].offload = 0;
    if (equal < stage)
      ps_costs_copy_stage (costs, stage, costs, equal);
    else {
      set_sizes (costs, model, cluster, &shapes[stage], n_chunks, stage);
      model_times (costs, model, cluster, &shapes[stage], n_chunks, stage);
    }
  }
  ps_costs_set_messages (costs, model, cluster->tensor);
  for (guint stage = 0; stage < n_stages; stage++) {
    guint device = stage % n_devices, forward = ps_transfer_forward (costs, stage);
    guint backward = ps_transfer_backward (costs, stage);

    costs->transfer_ns[forward]
        = ps_cluster_transfer_ns (cluster, device, (stage + 1) % n_devices, costs->message_bytes[forward]);
    costs->transfer_ns[backward]
        = ps_cluster_transfer_ns (cluster, device, (stage + n_devices - 1) % n_devices, costs->message_bytes[backward]);
  }
  costs->dense_copies = MAX (model->spread.context, 1);
  guint shared = ps_model_expert_gpus (model);
  costs->expert_copies = costs->dense_copies * (shared > 0 ? (double)cluster->tensor / shared : 1);
  costs->time_origin = costs->transfer_origin = costs->memory_origin = PS_ORIGIN_MODELLED;
  g_free (costs->source);
  costs->source = describe_source (model, cluster);
  return costs;
}

/* Gives a stage another part of what its device holds and does once: one of `after` in place of one of `before`. */
static void share_device (PsCosts *costs, const PsModel *model, const PsCluster *cluster, guint stage, guint before,
                          guint after)
{
  gint64 context = ps_framework_context_bytes (model->framework), bytes = context / after - context / before;
  gint64 shared = ps_framework_habits (model, &costs->shapes[stage], cluster->tensor).shared_bytes;
  gint64 buffers = shared / after - shared / before;
  gint64 ns = costs->stage[stage].step_ns > 0 ? cluster->step_ns / after - cluster->step_ns / before : 0;

  costs->stage[stage].state.context_bytes += bytes;
  costs->stage[stage].state.buffer_bytes += buffers;
  costs->stage[stage].weight_bytes += bytes + buffers;
  costs->stage[stage].step_ns += ns;
  ps_costs_op (costs, PS_OP_O, stage)->duration_ns += ns;
}

/* Multi-token prediction of a stage reads the embedding that its device holds already. */
static void share_embedding (PsCosts *costs, const PsModel *model, const PsCluster *cluster, guint stage)
{
  PsStateBytes *state = &costs->stage[stage].state;
  const PsStateBytes twice
      = ps_model_state (model, ps_tensor_share ((gint64)model->vocabulary * model->hidden, cluster->tensor));

  state->weight_bytes -= twice.weight_bytes;
  state->gradient_bytes -= twice.gradient_bytes;
  costs->stage[stage].weight_bytes -= twice.weight_bytes + twice.gradient_bytes;
}

void ps_costs_place (PsCosts *costs, const PsModel *model, const PsCluster *cluster, const guint16 *device,
                     guint n_devices, guint n_copies)
{
  guint n = costs->n_stages;
  g_autofree guint *held = g_new0 (guint, n_devices);

  for (guint i = 0; i < n * n_copies; i++)
    held[device[i]]++;
  for (guint stage = 0; stage < n; stage++) {
    guint forward = ps_transfer_forward (costs, stage), backward = ps_transfer_backward (costs, stage);

    share_device (costs, model, cluster, stage, n / n_devices, held[device[stage]]);
    if (n_copies > 1 && costs->shapes[stage].n_mtp > 0 && !costs->shapes[stage].embedding && !model->tied
        && device[n] == device[stage])
      share_embedding (costs, model, cluster, stage);
    if (stage + 1 < n)
      costs->transfer_ns[forward]
          = ps_cluster_transfer_ns (cluster, device[stage], device[stage + 1], costs->message_bytes[forward]);
    if (stage > 0)
      costs->transfer_ns[backward]
          = ps_cluster_transfer_ns (cluster, device[stage], device[stage - 1], costs->message_bytes[backward]);
  }
}

void ps_costs_add_context (PsCosts *costs, const PsModel *model, guint n_chunks)
{
  double reserve = ps_framework_reserve (model->framework) - 1;

  for (guint stage = 0; stage < costs->n_stages; stage++) {
    PsStateBytes *state = &costs->stage[stage].state;
    gint64 context = ps_framework_context_bytes (model->framework) / n_chunks;
    gint64 allocator = reserved (costs->stage[stage].weight_bytes, reserve);

    state->context_bytes += context;
    state->buffer_bytes += allocator;
    costs->stage[stage].weight_bytes += context + allocator;
  }
}
