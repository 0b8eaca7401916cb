/* costs-options.c - the effect of recomputation, offloading, ZeRO, data parallelism and host times on costs. */
#include <pipesim/costs.h>
#include <pipesim/work.h>

#include <math.h>

static gint64
scale (gint64 value, double factor)
{
  return (gint64)llround ((double)value * factor);
}

void
ps_costs_guess (PsCosts *costs, guint stage)
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

void
ps_costs_guess_transfers (PsCosts *costs)
{
  guint n = 2 * costs->n_stages, n_known = 0;
  g_autofree gint64 *known = g_new (gint64, n);

  for (guint i = 1; i <= n; i++)
    if (costs->transfer_ns[i] >= 0)
      known[n_known++] = costs->transfer_ns[i];
  gint64 usual_ns = n_known > 0 ? ps_median (known, n_known) : 0;
  for (guint i = 1; i <= n; i++)
    {
      if (costs->transfer_ns[i] >= 0)
        continue;
      costs->transfer_ns[i] = usual_ns;
      if (i != ps_transfer_forward (costs, costs->n_stages - 1) && i != ps_transfer_backward (costs, 0))
        costs->transfer_origin
            = MAX (costs->transfer_origin, n_known > 0 ? PS_ORIGIN_INTERPOLATED : PS_ORIGIN_MODELLED);
    }
}

char *
ps_costs_describe (const PsCosts *costs)
{
  gboolean differ = costs->transfer_origin > costs->time_origin;

  return g_strdup_printf ("%s costs%s%s%s: %s", ps_origin_name (costs->time_origin), differ ? ", " : "",
                          differ ? ps_origin_name (costs->transfer_origin) : "", differ ? " transfers" : "",
                          costs->source != NULL ? costs->source : "");
}

void
ps_costs_drop (PsCosts *costs, guint stage, guint n_parts, gint64 drop_bytes, gint64 duration_ns)
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
static double
repeated_part (const PsModel *model, const PsCluster *cluster, const PsStageShape *shape, gint64 talk_ns,
               PsRecompute recompute)
{
  guint t = cluster != NULL ? cluster->tensor : 1;
  PsWork all, again;

  ps_work_stage (model, shape, PS_OP_F, t, &all);
  ps_work_recompute (model, shape, recompute, t, &again);
  if (cluster != NULL)
    return (double)ps_work_ns (&again, cluster, recompute == PS_RECOMPUTE_FULL ? talk_ns : 0)
           / (double)MAX (ps_work_ns (&all, cluster, talk_ns), 1);
  return (double)ps_work_flops (&again) / (double)ps_work_flops (&all);
}

static void
drop_layers (PsCosts *costs, guint stage, const PsModel *model, const PsStageShape *shape, guint n_tensor, double part,
             PsRecompute recompute)
{
  double all = (double)ps_tensor_kept_bytes (model, shape, PS_RECOMPUTE_NONE, n_tensor);
  double dropped = all - (double)ps_tensor_kept_bytes (model, shape, recompute, n_tensor);
  double own = all + (double)ps_framework_habits (model, shape, n_tensor).kept_bytes;

  ps_costs_drop (costs, stage, shape->n_layers, scale (ps_costs_act_bytes (costs, stage), dropped / own),
                 scale (ps_costs_op (costs, PS_OP_F, stage)->duration_ns, part));
}

static void
recompute_model (PsCosts *costs, guint stage, const PsModel *model, const PsCluster *cluster, PsRecompute recompute)
{
  const PsStageShape *shape = &costs->shapes[stage];

  if (shape->n_layers == 0 || shape->recompute != PS_RECOMPUTE_NONE)
    return;
  costs->time_origin = costs->memory_origin = PS_ORIGIN_MODELLED;
  drop_layers (costs, stage, model, shape, cluster != NULL ? cluster->tensor : 1,
               repeated_part (model, cluster, shape, costs->stage[stage].tensor_ns, recompute), recompute);
}

gboolean
ps_costs_recompute (PsCosts *costs, guint stage, const PsModel *model, const PsCluster *cluster, PsRecompute recompute,
                    GError **error)
{
  const PsOpCost *again = ps_costs_op (costs, PS_OP_R, stage);

  if (recompute == PS_RECOMPUTE_NONE)
    return TRUE;
  if (model != NULL)
    {
      recompute_model (costs, stage, model, cluster, recompute);
      return TRUE;
    }
  if (recompute == PS_RECOMPUTE_SELECTIVE)
    return ps_refuse (
        error, PS_ERROR_USAGE,
        "--recompute selective: %s does not say which part of a forward is attention; give r, its time, and "
        "keep, the bytes of all else, with --recompute full",
        costs->source);
  ps_costs_drop (costs, stage, 1, MIN (again->take_bytes, ps_costs_act_bytes (costs, stage)), again->duration_ns);
  return TRUE;
}

PsCosts *
ps_costs_split_recompute (const PsCosts *costs, const PsCosts *full)
{
  PsCosts *split = ps_costs_copy (costs);

  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
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

static void
offload_stage (PsCosts *costs, guint stage, double ratio)
{
  static const PsOpKind backwards[] = { PS_OP_B, PS_OP_BW };
  PsOpCost *f = ps_costs_op (costs, PS_OP_F, stage);
  gint64 bytes = scale (ps_costs_act_bytes (costs, stage), ratio), copy_ns = scale (costs->stage[stage].host_ns, ratio);

  f->give_bytes += bytes;
  f->duration_ns = MAX (f->duration_ns, copy_ns);
  for (guint i = 0; i < G_N_ELEMENTS (backwards); i++)
    {
      PsOpCost *backward = ps_costs_op (costs, backwards[i], stage);

      backward->take_bytes += bytes;
      backward->duration_ns = MAX (backward->duration_ns, copy_ns);
    }
  if (costs->stage[stage].pair_ns >= 0)
    costs->stage[stage].pair_ns = MAX (costs->stage[stage].pair_ns, copy_ns);
}

gboolean
ps_costs_offload (PsCosts *costs, guint stage, double ratio, GError **error)
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

/* The all-reduce becomes a reduce-scatter, and an all-gather of the weights: before they are used, or after the step
 * has updated them. */
static void
gather_weights (PsStageCost *cost, PsOpCost *step, guint zero)
{
  const PsStateBytes *state = &cost->state;
  gint64 half_ns = cost->reduce_ns / 2, gather_ns = half_ns;

  if (state->weight_bytes > 0 && state->gradient_bytes > 0)
    gather_ns = (gint64)MIN ((double)half_ns * (double)state->weight_bytes / (double)state->gradient_bytes,
                             (double)PS_MAX_TIME_NS);
  cost->reduce_ns -= half_ns;
  cost->reduce2_ns -= cost->reduce2_ns / 2;
  if (zero == 3)
    cost->gather_ns = gather_ns;
  else
    step->duration_ns += gather_ns;
}

/* One GPU's part of `bytes`. Fewer GPUs hold the expert_bytes among them. */
static gint64
spread_bytes (const PsCosts *costs, guint n_replicas, gint64 bytes, gint64 expert_bytes)
{
  gint64 copies = (gint64)n_replicas * costs->dense_copies;
  gint64 expert_copies = MAX ((gint64)(n_replicas * costs->expert_copies), 1);

  return (bytes - expert_bytes + copies - 1) / copies + (expert_bytes + expert_copies - 1) / expert_copies;
}

static void
zero_stage (PsCosts *costs, guint stage, guint n_replicas, guint zero)
{
  PsStageCost *cost = &costs->stage[stage];
  PsStateBytes *state = &cost->state;
  PsOpCost *step = ps_costs_op (costs, PS_OP_O, stage);
  gint64 before = state->optimizer_bytes;
  double experts = (double)state->expert_bytes / (double)MAX (before, 1);

  state->optimizer_bytes = spread_bytes (costs, n_replicas, before, state->expert_bytes);
  state->expert_bytes = spread_bytes (costs, n_replicas, state->expert_bytes, state->expert_bytes);
  cost->weight_bytes -= before - state->optimizer_bytes;
  step->duration_ns -= cost->step_ns;
  step->duration_ns
      = (gint64)ceil ((double)step->duration_ns * (double)state->optimizer_bytes / (double)MAX (before, 1))
        + cost->step_ns;
  gather_weights (cost, step, zero);
  if (zero < 3)
    return;
  before = state->weight_bytes;
  state->weight_bytes = spread_bytes (costs, n_replicas, before, scale (before, experts));
  cost->whole_bytes = before - state->weight_bytes;
  cost->weight_bytes -= cost->whole_bytes;
}

gboolean
ps_costs_zero (PsCosts *costs, guint n_replicas, guint zero, GError **error)
{
  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
      const PsStageCost *cost = &costs->stage[stage];

      if (cost->state.optimizer_bytes == 0 && cost->weight_bytes > 0)
        return ps_refuse (
            error, PS_ERROR_USAGE,
            "--zero %u: %s does not say how much of stage %u is optimizer state; give opt=SIZE in --costs", zero,
            costs->source, stage);
      zero_stage (costs, stage, n_replicas, zero);
    }
  costs->zero = zero;
  return TRUE;
}

/* All-reduce over the n_replicas * n_copies holders of a stage; the second copy's device mirrors the first one's. */
static gint64
ring_ns (const PsCluster *cluster, guint device, guint n_devices, guint n_replicas, guint n_copies, gint64 bytes)
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
static gint64
reduced_bytes (const PsCosts *costs, guint stage, guint n_replicas)
{
  const PsStateBytes *state = &costs->stage[stage].state;
  double copies = MAX (n_replicas * costs->expert_copies, 1), n = n_replicas;
  double experts = (double)state->expert_bytes / (double)MAX (state->optimizer_bytes, 1);

  if (state->expert_bytes == 0 || n_replicas == 1)
    return state->gradient_bytes;
  return scale (state->gradient_bytes, 1 - experts + experts * (copies - 1) / copies * n / (n - 1));
}

void
ps_costs_set_reduce (PsCosts *costs, const PsCluster *cluster, guint n_devices, guint n_replicas)
{
  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
      gint64 bytes = reduced_bytes (costs, stage, n_replicas);
      guint device = stage % n_devices;

      costs->stage[stage].reduce_ns = ring_ns (cluster, device, n_devices, n_replicas, 1, bytes);
      costs->stage[stage].reduce2_ns = ring_ns (cluster, device, n_devices, n_replicas, 2, bytes);
    }
}

/* The host time of a message between a stage and the next one; 0: they are on one device in all copies. */
static gint64
boundary_ns (const PsCosts *costs, const guint16 *device, guint n_copies, guint stage)
{
  for (guint i = stage; i < n_copies * costs->n_stages; i += costs->n_stages)
    if (device[i] != device[i + 1])
      return costs->post_ns;
  return 0;
}

static PsHostTime
host_time_of (const PsCosts *costs, PsOpKind kind, gint64 below_ns, gint64 above_ns)
{
  if (kind == PS_OP_F)
    return (PsHostTime){ costs->op_ns + below_ns, above_ns };
  if (kind == PS_OP_B || kind == PS_OP_BW)
    return (PsHostTime){ costs->op_ns + above_ns, below_ns };
  return (PsHostTime){ costs->op_ns, 0 };
}

/* Adds host times to the durations, or with sign -1 takes them away. */
static void
change_durations (PsCosts *costs, int sign)
{
  guint n = costs->n_lengths * costs->n_stages;

  for (guint i = 0; i < PS_OP_O * n; i++)
    costs->op[i].duration_ns += sign * ps_host_time_sum (costs->host_time[i]);
  for (guint i = 0; i < n; i++)
    {
      gint64 pair_ns = ps_host_time_sum (costs->host_time[i]) + ps_host_time_sum (costs->pair_host);

      if (i < costs->n_stages && costs->stage[i].pair_ns >= 0)
        costs->stage[i].pair_ns += sign * pair_ns;
      if (costs->pairs_ns != NULL && costs->pairs_ns[i] >= 0)
        costs->pairs_ns[i] += sign * pair_ns;
    }
}

void
ps_costs_add_host_time (PsCosts *costs, const guint16 *device, guint n_copies)
{
  gint64 below_ns = 0;

  if (!ps_costs_lack_host_time (costs))
    return;
  costs->host_time = g_new0 (PsHostTime, (gsize)PS_N_OP_KINDS * costs->n_lengths * costs->n_stages);
  costs->pair_host = (PsHostTime){ 0 };
  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
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

void
ps_costs_remove_host_time (PsCosts *costs)
{
  if (costs->host_time == NULL)
    return;
  change_durations (costs, -1);
  g_clear_pointer (&costs->host_time, g_free);
}
