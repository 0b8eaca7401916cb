/* costs-model.c - costs by formulas, of a model on a cluster: times and sizes of stages. */
#include <pipesim/costs.h>
#include <pipesim/work.h>

#include <string.h>

/* Time to move the bytes that F keeps to the host; -1: not known. */
static gint64
host_ns (const PsCluster *cluster, gint64 bytes)
{
  const PsLink link = { .bandwidth = cluster->host_bandwidth };

  return cluster->host_bandwidth > 0 ? ps_link_transfer_ns (&link, bytes) : -1;
}

static gint64
reserved (gint64 bytes, double reserve)
{
  return (gint64)((double)bytes * reserve);
}

/* The bytes that an op needs only while it runs. */
static void
add_workspace (PsOpCost *op, gint64 bytes)
{
  op->take_bytes += bytes;
  op->give_bytes += bytes;
}

/* Fills the memory of a stage of that shape from the formulas of work.h and work.h: one GPU's of a device. */
static void
set_sizes (PsCosts *costs, const PsModel *model, const PsCluster *cluster, const PsStageShape *shape, guint stage)
{
  guint t = cluster->tensor;
  double reserve = ps_framework_passing_reserve (model->framework);
  PsHabits habits = ps_framework_habits (model, shape, t);
  PsStateBytes state = ps_tensor_state (model, shape, t);
  PsStageCost *cost = &costs->stage[stage];
  gint64 act = reserved (ps_tensor_kept_bytes (model, shape, PS_RECOMPUTE_NONE, t) + habits.kept_bytes, reserve);
  gint64 wact = reserved (ps_tensor_weight_bytes (model, shape, t), reserve);

  ps_costs_set_memory (costs, stage, act, MIN (wact, act));
  add_workspace (ps_costs_op (costs, PS_OP_F, stage), reserved (habits.forward_bytes, reserve));
  add_workspace (ps_costs_op (costs, PS_OP_B, stage), reserved (habits.backward_bytes, reserve));
  add_workspace (ps_costs_op (costs, PS_OP_BW, stage), reserved (habits.backward_bytes, reserve));
  cost->host_ns = host_ns (cluster, act);
  state.buffer_bytes = habits.buffer_bytes;
  cost->state = state;
  cost->weight_bytes = state.weight_bytes + state.gradient_bytes + state.optimizer_bytes + state.buffer_bytes;
  cost->version_bytes = state.weight_bytes;
}

/* F of a stage beside B and W of one like it. All that computes outside the experts is spread evenly over the layers
 * with experts. -1: no all-to-all is there to hide. */
static gint64
pair_ns (const PsCosts *costs, const PsModel *model, const PsCluster *cluster, const PsStageShape *shape, guint stage)
{
  gint64 exchange_ns = ps_tensor_exchange_ns (model, cluster), sum = 0;
  PsPairLayer layer = { .dispatch_ns = { exchange_ns, exchange_ns }, .combine_ns = { exchange_ns, exchange_ns } };
  guint count[PS_N_LAYER_KINDS], n;

  ps_model_count_kinds (model, shape, count);
  n = count[PS_LAYER_EXPERTS] + count[PS_LAYER_EXPERTS | PS_LAYER_WINDOW];
  if (n == 0 || exchange_ns == 0)
    return -1;
  for (guint kind = PS_OP_F; kind <= PS_OP_W; kind++)
    {
      PsWork experts;
      gint64 ns = ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns;
      gint64 computing_ns = MAX (ns - (kind == PS_OP_W ? 0 : 2 * n * exchange_ns), 0);

      ps_work_experts (model, shape, (PsOpKind)kind, cluster->tensor, &experts);
      layer.experts_ns[kind] = MIN (ps_work_ns (&experts, cluster, 0), computing_ns) / n;
      layer.attention_ns[kind] = computing_ns / n - layer.experts_ns[kind];
      sum += ns;
    }
  g_autofree PsPairLayer *layers = g_new (PsPairLayer, n);
  for (guint i = 0; i < n; i++)
    layers[i] = layer;
  return MIN (ps_overlap_pair_ns (layers, n), sum);
}

static void
model_times (PsCosts *costs, const PsModel *model, const PsCluster *cluster, const PsStageShape *shape, guint n_chunks,
             guint stage)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW };
  gint64 tensor_ns = ps_tensor_stage_ns (model, shape, cluster, PS_OP_F);
  gint64 backward_ns = ps_tensor_stage_ns (model, shape, cluster, PS_OP_B);

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      PsWork work;
      gint64 talk_ns = kinds[i] == PS_OP_F ? tensor_ns : kinds[i] == PS_OP_W ? 0 : backward_ns;

      ps_work_stage (model, shape, kinds[i], cluster->tensor, &work);
      ps_costs_op (costs, kinds[i], stage)->duration_ns = ps_work_ns (&work, cluster, talk_ns);
    }
  ps_costs_op (costs, PS_OP_R, stage)->duration_ns = ps_costs_op (costs, PS_OP_F, stage)->duration_ns;
  costs->stage[stage].step_ns = cluster->step_ns / n_chunks;
  ps_costs_op (costs, PS_OP_O, stage)->duration_ns
      = costs->stage[stage].step_ns
        + ps_work_optimizer_ns (model, cluster, ps_tensor_parameters (model, shape, cluster->tensor));
  costs->stage[stage].tensor_ns = tensor_ns;
  costs->stage[stage].pair_ns = pair_ns (costs, model, cluster, shape, stage);
}

/* The first stage whose work equals that of `stage`: `stage` itself when no earlier one has it. */
static guint
find_equal (const PsModel *model, const PsStageShape *shapes, guint stage)
{
  guint count[PS_N_LAYER_KINDS], other[PS_N_LAYER_KINDS], i;

  ps_model_count_kinds (model, &shapes[stage], count);
  for (i = 0; i < stage; i++)
    {
      ps_model_count_kinds (model, &shapes[i], other);
      if (memcmp (count, other, sizeof count) == 0 && shapes[i].embedding == shapes[stage].embedding
          && shapes[i].head == shapes[stage].head && shapes[i].n_mtp == shapes[stage].n_mtp)
        break;
    }
  return i;
}

static char *
describe_source (const PsModel *model, const PsCluster *cluster)
{
  if (cluster->tensor == 1)
    return g_strdup_printf ("model '%s' on cluster '%s'", model->name, cluster->name);
  return g_strdup_printf ("model '%s' on cluster '%s', %u GPUs to a device", model->name, cluster->name,
                          cluster->tensor);
}

PsCosts *
ps_costs_model_stages (const PsModel *model, const PsCluster *cluster, const PsStageShape *shapes, guint n_devices,
                       guint n_chunks, GError **error)
{
  guint n_stages = n_devices * n_chunks;

  if (!ps_tensor_check (model, cluster->tensor, TRUE, error))
    return NULL;
  PsCosts *costs = ps_costs_new (n_stages);
  costs->shapes = g_memdup2 (shapes, n_stages * sizeof *shapes);
  gint64 bytes = ps_tensor_boundary_bytes (model, cluster->tensor);
  for (guint stage = 0; stage < n_stages; stage++)
    {
      guint device = stage % n_devices, equal = find_equal (model, shapes, stage);

      costs->shapes[stage].recompute = PS_RECOMPUTE_NONE;
      costs->shapes[stage].offload = 0;
      if (equal < stage)
        ps_costs_copy_stage (costs, stage, costs, equal);
      else
        {
          model_times (costs, model, cluster, &shapes[stage], n_chunks, stage);
          set_sizes (costs, model, cluster, &shapes[stage], stage);
        }
      costs->transfer_ns[ps_transfer_forward (costs, stage)]
          = ps_cluster_transfer_ns (cluster, device, (stage + 1) % n_devices, bytes);
      costs->transfer_ns[ps_transfer_backward (costs, stage)]
          = ps_cluster_transfer_ns (cluster, device, (stage + n_devices - 1) % n_devices, bytes);
    }
  ps_costs_set_messages (costs, bytes);
  costs->dense_copies = MAX (model->spread.context, 1);
  guint shared = ps_model_expert_gpus (model);
  costs->expert_copies = costs->dense_copies * (shared > 0 ? (double)cluster->tensor / shared : 1);
  costs->time_origin = costs->transfer_origin = costs->memory_origin = PS_ORIGIN_MODELLED;
  g_free (costs->source);
  costs->source = describe_source (model, cluster);
  return costs;
}

PsCosts *
ps_costs_model (const PsModel *model, const PsCluster *cluster, guint n_devices, guint n_chunks, GError **error)
{
  guint n_stages = n_devices * n_chunks;
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, n_stages);

  return ps_model_split (model, n_stages, shapes, error)
             ? ps_costs_model_stages (model, cluster, shapes, n_devices, n_chunks, error)
             : NULL;
}

/* Gives a stage another part of what its device holds and does once: one of `after` in place of one of `before`. */
static void
share_device (PsCosts *costs, const PsModel *model, const PsCluster *cluster, guint stage, guint before, guint after)
{
  gint64 context = ps_framework_context_bytes (model->framework), bytes = context / after - context / before;
  gint64 ns = cluster->step_ns / after - cluster->step_ns / before;

  costs->stage[stage].state.context_bytes += bytes;
  costs->stage[stage].weight_bytes += bytes;
  costs->stage[stage].step_ns += ns;
  ps_costs_op (costs, PS_OP_O, stage)->duration_ns += ns;
}

void
ps_costs_place (PsCosts *costs, const PsModel *model, const PsCluster *cluster, const guint16 *device, guint n_devices)
{
  guint n = costs->n_stages;
  g_autofree guint *held = g_new0 (guint, n_devices);

  for (guint stage = 0; stage < n; stage++)
    held[device[stage]]++;
  for (guint stage = 0; stage < n; stage++)
    {
      guint forward = ps_transfer_forward (costs, stage), backward = ps_transfer_backward (costs, stage);

      share_device (costs, model, cluster, stage, n / n_devices, held[device[stage]]);
      if (stage + 1 < n)
        costs->transfer_ns[forward]
            = ps_cluster_transfer_ns (cluster, device[stage], device[stage + 1], costs->message_bytes[forward]);
      if (stage > 0)
        costs->transfer_ns[backward]
            = ps_cluster_transfer_ns (cluster, device[stage], device[stage - 1], costs->message_bytes[backward]);
    }
}

void
ps_costs_add_context (PsCosts *costs, const PsModel *model, guint n_chunks)
{
  double reserve = ps_framework_reserve (model->framework) - 1;

  for (guint stage = 0; stage < costs->n_stages; stage++)
    {
      PsStateBytes *state = &costs->stage[stage].state;
      gint64 bytes = ps_framework_context_bytes (model->framework) / n_chunks
                     + reserved (costs->stage[stage].weight_bytes, reserve);

      state->context_bytes += bytes;
      costs->stage[stage].weight_bytes += bytes;
    }
}
