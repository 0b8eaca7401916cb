/* tensor.c - a GPU's part of a stage, the all-reduces that put the parts together, and what frameworks hold in memory.
 */
#include "base/names.h"
#include "model-private.h"

#include <pipesim/work.h>

#include <math.h>

gboolean ps_tensor_check (const PsModel *model, guint n_tensor, gboolean repeats, GError **error)
{
  const struct {
    const char *name;
    guint value;

  } cut[] = { { "heads", model->heads },
              { "kv_heads", repeats && n_tensor % model->kv_heads == 0 ? n_tensor : model->kv_heads },
              { "feed_forward", model->feed_forward },
              { "sequence", model->sequence } };

  for (guint i = 0; i < G_N_ELEMENTS (cut); i++)
    if (cut[i].value % n_tensor != 0)
      return ps_refuse (error, PS_ERROR_USAGE, "--tensor %u: does not divide %s %u of model '%s'", n_tensor,
                        cut[i].name, cut[i].value, model->name);
  return TRUE;
}

/* Parameters that every GPU holds in full: norms, positions, matrices that are not cut, and the biases of these and of
 * matrices cut by rows. */
static gint64 sum_whole (G_GNUC_UNUSED const PsModel *model, const PsUnitParts *parts, G_GNUC_UNUSED guint flags)
{
  gint64 sum = parts->whole_vectors;

  for (guint i = 0; i < parts->n_matrices; i++) {
    const PsMatrix *matrix = &parts->matrix[i];

    sum += matrix->count
           * (matrix->cut == PS_CUT_NONE                   ? ps_matrix_parameters (matrix)
              : matrix->cut == PS_CUT_ROWS && matrix->bias ? matrix->columns
                                                           : 0);
  }
  return sum;
}

/* The experts that tokens are routed to. */
static gint64 sum_experts (G_GNUC_UNUSED const PsModel *model, const PsUnitParts *parts, G_GNUC_UNUSED guint flags)
{
  gint64 sum = 0;

  for (guint i = 0; i < parts->n_matrices; i++)
    if (parts->matrix[i].cut == PS_CUT_EXPERTS)
      sum += parts->matrix[i].count * ps_matrix_parameters (&parts->matrix[i]);
  return sum;
}

/* One GPU's share of the parameters of experts. */
static gint64 share_experts (const PsModel *model, gint64 parameters, guint n_tensor)
{
  guint shared = ps_model_expert_gpus (model);

  return ps_tensor_share (parameters, shared > 0 ? shared : n_tensor);
}

gint64 ps_tensor_expert_parameters (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  return share_experts (model, ps_model_sum_units (model, shape, sum_experts, 0), n_tensor);
}

gint64 ps_tensor_parameters (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  gint64 whole = ps_model_sum_units (model, shape, sum_whole, 0);
  gint64 experts = ps_model_sum_units (model, shape, sum_experts, 0);
  gint64 cut = ps_model_stage_parameters (model, shape) - whole - experts;

  return ps_tensor_share (cut, n_tensor) + whole + share_experts (model, experts, n_tensor);
}

PsStateBytes ps_tensor_state (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  PsStateBytes state = ps_model_state (model, ps_tensor_parameters (model, shape, n_tensor));

  state.expert_bytes = ps_model_state (model, ps_tensor_expert_parameters (model, shape, n_tensor)).optimizer_bytes;
  return state;
}

/* One GPU's share of `bytes`, of which `wide` are whole with whole_sequences. */
static gint64 share_sequences (const PsModel *model, gint64 bytes, gint64 wide, guint n_tensor)
{
  guint c = MAX (model->spread.context, 1);

  return ps_tensor_share (bytes, n_tensor * c)
         + (model->whole_sequences ? wide / c - ps_tensor_share (wide / c, n_tensor) : 0);
}

/* Units with heads of keys and values. */
static guint count_headed (const PsModel *model, const guint count[PS_N_UNIT_KINDS])
{
  return count[PS_UNIT_ATTENTION] + (model->latent.kv_rank == 0 ? count[PS_UNIT_WINDOW] : 0);
}

gint64 ps_tensor_kept_bytes (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint n_tensor)
{
  gboolean full = recompute == PS_RECOMPUTE_FULL;
  const PsStageShape layers = { .first_layer = shape->first_layer, .n_layers = shape->n_layers };
  PsStageShape both = layers;
  gint64 bytes = ps_model_stage_kept_bytes (model, shape, recompute), wide;

  both.n_mtp = shape->n_mtp;
  wide = full ? shape->n_layers * ps_model_boundary_bytes (model)
              : ps_model_sum_units (model, &both, ps_unit_kept_bytes, PS_KEPT_WIDE);
  if (!full && n_tensor > model->kv_heads) {
    guint count[PS_N_UNIT_KINDS];

    ps_model_count_units (model, &both, count);
    bytes += 2 * (gint64)count_headed (model, count) * (n_tensor - model->kv_heads) * ps_model_head_size (model)
             * ps_model_tokens (model) * ps_precision_bytes (model->precision);
  }
  return share_sequences (model, bytes, wide, n_tensor);
}

gint64 ps_tensor_weight_bytes (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  const PsStageShape layers = { .first_layer = shape->first_layer, .n_layers = shape->n_layers };
  gint64 bytes = share_sequences (
      model, ps_model_stage_weight_activation_bytes (model, shape),
      ps_model_sum_units (model, &layers, ps_unit_kept_bytes, PS_KEPT_WIDE | PS_KEPT_WEIGHT), n_tensor);

  return MIN (bytes, ps_tensor_kept_bytes (model, shape, PS_RECOMPUTE_NONE, n_tensor));
}

/* The time of two passes of tokens, and of gathering `widths` times the width of the model for each token. */
static gint64 passes_ns (const PsModel *model, const PsCluster *cluster, double widths)
{
  guint t = cluster->tensor;
  const PsLink link = ps_cluster_inner_link (cluster, t);
  gint64 part = ps_tensor_boundary_bytes (model, t), step_ns = ps_link_transfer_ns (&link, part), gather_ns = 0;

  if (widths > 0)
    gather_ns = cluster->collective_ns + (t - 1) * ps_link_transfer_ns (&link, (gint64)((double)part * widths));
  return t == 1 ? 0
                : llrint ((1 - cluster->tensor_overlap)
                          * (double)(2 * (cluster->collective_ns + 2 * (t - 1) * step_ns) + gather_ns));
}

gint64 ps_tensor_boundary_bytes (const PsModel *model, guint n_tensor)
{
  return ps_tensor_share (ps_model_boundary_bytes (model), n_tensor * MAX (model->spread.context, 1));
}

/* All keys and values reach every GPU of a context before its attention (all-gather; Llama 3, arXiv 2407.21783, section
 * 3.3.2), those of earlier slices again. */
static gint64 context_ns (const PsModel *model, const PsCluster *cluster)
{
  guint c = MAX (model->spread.context, 1);
  const PsLink link = cluster->context_remote ? ps_cluster_network_link (cluster) : ps_cluster_inner_link (cluster, c);
  gint64 bytes = 2 * ps_model_kv_width (model) * ps_precision_bytes (model->precision) * model->microbatch_size
                 * ((gint64)model->before + model->sequence);

  return c == 1 ? 0 : (c - 1) * ps_link_transfer_ns (&link, ps_tensor_share (bytes, c * cluster->tensor));
}

/* One all-to-all of the tokens between the GPUs that share the experts. What stays in a node and what leaves it goes at
 * the same time. */
gint64 ps_tensor_exchange_ns (const PsModel *model, const PsCluster *cluster)
{
  guint n = MAX (model->spread.experts, 1), c = MAX (model->spread.context, 1);
  guint near = MIN (n, cluster->devices_per_node * cluster->tensor * (cluster->context_remote ? 1 : c));
  const PsLink inner = ps_cluster_inner_link (cluster, near), outer = ps_cluster_network_link (cluster);
  double bytes = (double)ps_tensor_boundary_bytes (model, cluster->tensor) * ps_model_routed (model) / n;

  if (n == 1)
    return 0;
  return MAX (ps_link_transfer_ns (&inner, (gint64)(bytes * (near - 1))),
              n > near ? ps_link_transfer_ns (&outer, (gint64)(bytes * (n - near))) : 0);
}

gint64 ps_tensor_stage_ns (const PsModel *model, const PsStageShape *shape, const PsCluster *cluster, PsOpKind kind)
{
  double widths = (double)(ps_model_query_width (model) + 2 * ps_model_kv_width (model)) / model->hidden;
  gint64 two_ns = passes_ns (model, cluster, 0), sum = 0;
  guint count[PS_N_UNIT_KINDS], n_units = 0, n_attention = 0;

  ps_model_count_units (model, shape, count);
  for (PsUnitKind unit = PS_UNIT_ATTENTION; unit <= PS_UNIT_EXPERTS; unit++) {
    n_units += count[unit];
    n_attention += unit <= PS_UNIT_SPARSE ? count[unit] : 0;
  }
  if (cluster->tensor > model->kv_heads)
    sum = count_headed (model, count) * (passes_ns (model, cluster, widths) - two_ns);
  /* Whole experts take the tokens that a GPU has: the all-reduce after them is not there. */
  return sum + n_units * two_ns / 2 + n_attention * (kind == PS_OP_F ? 1 : 2) * context_ns (model, cluster)
         + count[PS_UNIT_EXPERTS]
               * (2 * ps_tensor_exchange_ns (model, cluster) - (ps_model_expert_gpus (model) == 1) * (two_ns / 2));
}

gboolean ps_tensor_check_spread (const PsModel *model, guint n_tensor, guint n_replicas, GError **error)
{
  guint c = MAX (model->spread.context, 1), e = MAX (model->spread.experts, 1);

  if (model->sequence % (c * n_tensor) != 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--context %u: %u GPUs do not divide sequence %u of model '%s'", c,
                      c * n_tensor, model->sequence, model->name);
  if (e > 1 && model->experts.count == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--experts %u: model '%s' has no experts", e, model->name);
  if (e > 1 && model->experts.count % e != 0)
    return ps_refuse (error, PS_ERROR_USAGE, "--experts %u: does not divide experts %u of model '%s'", e,
                      model->experts.count, model->name);
  if ((guint64)n_tensor * c * n_replicas % e != 0)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--experts %u: does not divide the %" G_GUINT64_FORMAT " GPUs of a device and its replicas", e,
                      (guint64)n_tensor * c * n_replicas);
  return TRUE;
}

/* What frameworks hold in memory. */

#define CONTEXT_BYTES (5 * (gint64)1000 * 1000 * 1000)
#define WORKSPACE_BYTES (2 * (gint64)32 << 20)

PS_DEFINE_NAMES (PsFramework, ps_framework, "none", "megatron", "deepspeed")

double ps_framework_reserve (PsFramework framework)
{
  return framework == PS_FRAMEWORK_DEEPSPEED ? 1.145 : 1;
}

double ps_framework_passing_reserve (PsFramework framework)
{
  return framework == PS_FRAMEWORK_DEEPSPEED ? 1.345 : 1;
}

gint64 ps_framework_context_bytes (PsFramework framework)
{
  return framework == PS_FRAMEWORK_NONE ? 0 : CONTEXT_BYTES;
}

/* A gradient that nobody reads for each shape of matrix in the layers, and for the vectors. Attention with a window and
 * without one has the same shapes. */
static gint64 dummy_bytes (const PsModel *model, const guint count[PS_N_UNIT_KINDS], guint n_tensor)
{
  gint64 sum = 0;

  for (PsUnitKind kind = PS_UNIT_ATTENTION; kind <= PS_UNIT_EXPERTS; kind++) {
    if (count[kind] == 0 || (kind == PS_UNIT_WINDOW && count[PS_UNIT_ATTENTION] > 0))
      continue;
    const PsUnitParts *parts = ps_unit_describe (model, kind);
    sum += parts->whole_vectors + parts->cut_vectors;
    for (guint i = 0; i < parts->n_matrices; i++)
      sum += ps_matrix_parameters (&parts->matrix[i]);
  }
  return ps_tensor_share (ps_precision_bytes (model->precision) * sum, n_tensor);
}

/* Bytes for each token of the gradients that run through the unit with the most. */
static gint64 largest_running (const PsModel *model, const guint count[PS_N_UNIT_KINDS])
{
  gint64 largest = 0;

  for (PsUnitKind kind = PS_UNIT_ATTENTION; kind <= PS_UNIT_EXPERTS; kind++)
    if (count[kind] > 0)
      largest = MAX (largest, ps_unit_describe (model, kind)->running);
  return largest;
}

static PsHabits megatron (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  guint c = MAX (model->spread.context, 1), n_heads = (shape->head ? 1 : 0) + shape->n_mtp;
  gint64 tokens = ps_model_tokens (model) / c, h = model->hidden, V = model->vocabulary;
  gint64 gathered = n_tensor > 1 ? 4 * h * tokens : 0, logits = ps_tensor_share (tokens * V, n_tensor);

  guint count[PS_N_UNIT_KINDS];

  ps_model_count_units (model, shape, count);
  PsHabits habits = { .backward_bytes = ps_tensor_share (tokens * largest_running (model, count), n_tensor) + gathered,
                      .buffer_bytes = dummy_bytes (model, count, n_tensor) + WORKSPACE_BYTES };
  if (n_heads == 0)
    return habits;
  habits.kept_bytes = -2 * logits * n_heads;
  habits.forward_bytes = 4 * logits;
  habits.backward_bytes = MAX (habits.backward_bytes, ps_tensor_share (2 * V * h, n_tensor) + gathered);
  return habits;
}

/* B needs only the layer computed again: gradients take the place of what it has used. */
static PsHabits deepspeed (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  gint64 narrow = model->precision > PS_PRECISION_FP16 ? ps_precision_bytes (model->precision) : 0;

  return (PsHabits){ .buffer_bytes = narrow * ps_tensor_parameters (model, shape, n_tensor) };
}

PsHabits ps_framework_habits (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  switch (model->framework) {
  case PS_FRAMEWORK_MEGATRON:
    return megatron (model, shape, n_tensor);
  case PS_FRAMEWORK_DEEPSPEED:
    return deepspeed (model, shape, n_tensor);
  default:
    return (PsHabits){ 0 };
  }
}
