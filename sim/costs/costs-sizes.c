/* costs-sizes.c - the memory of ops, the bytes of a modelled stage, and what frameworks add to them. */
#include <pipesim/costs.h>
#include <pipesim/framework.h>

void
ps_costs_set_memory (PsCosts *costs, guint stage, gint64 act_bytes, gint64 wact_bytes)
{
  ps_costs_op (costs, PS_OP_F, stage)->take_bytes = act_bytes;
  ps_costs_op (costs, PS_OP_R, stage)->take_bytes = act_bytes;
  ps_costs_op (costs, PS_OP_B, stage)->give_bytes = act_bytes - wact_bytes;
  ps_costs_op (costs, PS_OP_W, stage)->give_bytes = wact_bytes;
  ps_costs_op (costs, PS_OP_BW, stage)->give_bytes = act_bytes;
}

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

void
ps_costs_set_sizes (PsCosts *costs, const PsModel *model, const PsCluster *cluster, const PsStageShape *shape,
                    guint stage)
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
