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

static gint64 norm_width (const PsModel *model)
{
  return model->mlp == PS_MLP_SWIGLU ? model->hidden : 2 * (gint64)model->hidden;
}

/* Parameters that every GPU holds in full. Per layer: two norms; in GPT the biases of the two matrices cut by rows; the
 * narrow matrices of latent attention; the router. */
static gint64 whole_of_layer (const PsModel *model, PsLayerKind kind)
{
  const PsLatent *latent = &model->latent;
  gint64 h = model->hidden;
  gint64 narrow = latent->kv_rank ? (gint64)latent->q_rank + latent->kv_rank + latent->rope_size : 0;

  return 2 * norm_width (model) + (model->mlp == PS_MLP_GELU ? (kind & PS_LAYER_EXPERTS ? h : 2 * h) : 0)
         + (model->qk_norm ? 2 * (gint64)ps_model_head_size (model) : 0) + narrow * h + latent->q_rank + latent->kv_rank
         + (kind & PS_LAYER_EXPERTS ? h * model->experts.count : 0)
         + model->other_biases * (kind & PS_LAYER_EXPERTS ? h + model->experts.count : 2 * h);
}

static gint64 whole_parameters (const PsModel *model, const PsStageShape *shape)
{
  gint64 h = model->hidden;
  gint64 positions = model->mlp == PS_MLP_SWIGLU ? 0 : (gint64)model->sequence * h;

  return ps_model_sum_layers (model, shape, whole_of_layer) + (shape->embedding ? positions : 0)
         + (shape->head ? norm_width (model) : 0) + shape->n_mtp * 3 * norm_width (model);
}

/* The experts that tokens are routed to. */
static gint64 experts_of_layer (const PsModel *model, PsLayerKind kind)
{
  return kind & PS_LAYER_EXPERTS ? model->experts.count * ps_model_expert_parameters (model) : 0;
}

gint64 ps_tensor_expert_parameters (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  guint shared = ps_model_expert_gpus (model);

  return ps_tensor_share (ps_model_sum_layers (model, shape, experts_of_layer), shared > 0 ? shared : n_tensor);
}

gint64 ps_tensor_parameters (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  gint64 whole = whole_parameters (model, shape);
  gint64 cut = ps_model_stage_parameters (model, shape) - whole - ps_model_sum_layers (model, shape, experts_of_layer);

  return ps_tensor_share (cut, n_tensor) + whole + ps_tensor_expert_parameters (model, shape, n_tensor);
}

PsStateBytes ps_tensor_state (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  PsStateBytes state = ps_model_state (model, ps_tensor_parameters (model, shape, n_tensor));

  state.expert_bytes = ps_model_state (model, ps_tensor_expert_parameters (model, shape, n_tensor)).optimizer_bytes;
  return state;
}

/* Adds to one GPU's share of `bytes` what the whole sequences of its layers take more: whole_per_token
 * bytes per token, of 2-byte elements, that would be cut. */
static gint64 share_sequences (const PsModel *model, gint64 bytes, gint64 n_layers, gint64 whole_per_token,
                               guint n_tensor)
{
  guint c = MAX (model->spread.context, 1);
  gint64 whole = n_layers * whole_per_token * ps_model_tokens (model) / c * ps_precision_bytes (model->precision) / 2;

  return ps_tensor_share (bytes, n_tensor * c)
         + (model->whole_sequences ? whole - ps_tensor_share (whole, n_tensor) : 0);
}

gint64 ps_tensor_kept_bytes (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint n_tensor)
{
  gint64 h = model->hidden, n = shape->n_layers + (recompute == PS_RECOMPUTE_FULL ? 0 : shape->n_mtp);
  gint64 per_token = recompute == PS_RECOMPUTE_FULL ? 2 * h : model->mlp == PS_MLP_GELU ? 10 * h : 8 * h;
  gint64 heads = recompute == PS_RECOMPUTE_FULL || n_tensor <= model->kv_heads ? 0 : n_tensor - model->kv_heads;
  gint64 repeated = 2 * n * heads * ps_model_head_size (model) * ps_model_tokens (model);

  return share_sequences (
      model, ps_model_stage_kept_bytes (model, shape, recompute) + repeated * ps_precision_bytes (model->precision), n,
      per_token, n_tensor);
}

gint64 ps_tensor_weight_bytes (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  gint64 bytes = share_sequences (model, ps_model_stage_weight_activation_bytes (model, shape), shape->n_layers,
                                  4 * (gint64)model->hidden, n_tensor);

  return MIN (bytes, ps_tensor_kept_bytes (model, shape, PS_RECOMPUTE_NONE, n_tensor));
}

gint64 ps_tensor_layer_ns (const PsModel *model, const PsCluster *cluster)
{
  guint t = cluster->tensor;
  const PsLink link = ps_cluster_inner_link (cluster, t);
  gint64 part = ps_tensor_boundary_bytes (model, t), step_ns = ps_link_transfer_ns (&link, part);
  double widths = (double)(ps_model_query_width (model) + 2 * ps_model_kv_width (model)) / model->hidden;
  gint64 gather_ns = 0;

  if (t > model->kv_heads)
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
  guint count[PS_N_LAYER_KINDS];
  gint64 n_layers = shape->n_layers + shape->n_mtp, layer_ns = ps_tensor_layer_ns (model, cluster), n_mixed;

  ps_model_count_kinds (model, shape, count);
  n_mixed = (gint64)count[PS_LAYER_EXPERTS] + count[PS_LAYER_EXPERTS | PS_LAYER_WINDOW];
  /* Whole experts take the tokens that a GPU has: the all-reduce after them is not there. */
  return n_layers * (layer_ns + (kind == PS_OP_F ? 1 : 2) * context_ns (model, cluster))
         + n_mixed
               * (2 * ps_tensor_exchange_ns (model, cluster) - (ps_model_expert_gpus (model) == 1) * (layer_ns / 2));
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

/* One matrix of each shape of a layer: those of one expert in place of all. */
static gint64 dummy_elements (const PsModel *model, PsLayerKind kind)
{
  PsModel one = *model;

  one.experts.count = 1;
  return ps_model_layer_parameters (kind & PS_LAYER_EXPERTS ? &one : model, kind);
}

/* Bytes per token of the gradients that run through a layer. */
static gint64 running_per_token (const PsModel *model, PsLayerKind kind)
{
  gint64 h = model->hidden;

  if (kind & PS_LAYER_EXPERTS)
    return 2 * h + (gint64)(ps_model_routed (model) * (double)(4 * h + 4 * (gint64)model->experts.feed_forward));
  return 4 * h + 4 * (gint64)model->feed_forward;
}

/* The largest and the sum of a figure over the kinds of layers that a stage has. */
static void look_at_kinds (const PsModel *model, const PsStageShape *shape, PsLayerFigure figure, gint64 *largest,
                           gint64 *sum)
{
  guint count[PS_N_LAYER_KINDS];

  *largest = *sum = 0;
  ps_model_count_kinds (model, shape, count);
  for (guint kind = 0; kind < PS_N_LAYER_KINDS; kind++)
    if (count[kind] > 0) {
      gint64 value = figure (model, (PsLayerKind)kind);

      *largest = MAX (*largest, value);
      *sum += value;
    }
}

/* Layers that differ by their attention alone have matrices of the same shapes. */
static gint64 dummy_bytes (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  PsModel all = *model;
  gint64 largest, sum;

  all.window = all.full_every = 0;
  look_at_kinds (&all, shape, dummy_elements, &largest, &sum);
  return ps_tensor_share (ps_precision_bytes (model->precision) * sum, n_tensor);
}

static PsHabits megatron (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  guint c = MAX (model->spread.context, 1), n_heads = (shape->head ? 1 : 0) + shape->n_mtp;
  gint64 tokens = ps_model_tokens (model) / c, h = model->hidden, V = model->vocabulary, largest, sum;
  gint64 gathered = n_tensor > 1 ? 4 * h * tokens : 0, logits = ps_tensor_share (tokens * V, n_tensor);

  look_at_kinds (model, shape, running_per_token, &largest, &sum);
  PsHabits habits = { .backward_bytes = ps_tensor_share (tokens * largest, n_tensor) + gathered,
                      .buffer_bytes = dummy_bytes (model, shape, n_tensor) + WORKSPACE_BYTES };
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
