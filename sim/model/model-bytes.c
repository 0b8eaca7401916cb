/* model-bytes.c - the bytes that a model's stages keep, hand on and hold. */
#include "model-private.h"

/* The published counts are for 2-byte elements. */
static gint64
scale_to_precision (const PsModel *model, gint64 bytes)
{
  return bytes * ps_precision_bytes (model->precision) / 2;
}

/* Elements per token that a layer keeps, or that its W needs. */
typedef struct
{
  gint64 inputs;  /* of matrices; kept in the precision of the products */
  gint64 outputs; /* of matrices; W needs their gradients instead */
  gint64 others;  /* what F keeps in place of outputs */
} Elements;

static Elements
attention_elements (const PsModel *model)
{
  const PsLatent *latent = &model->latent;
  gint64 h = model->hidden, q = ps_model_query_width (model), c = ps_model_kv_width (model);
  gint64 v = ps_model_value_width (model);
  gint64 down = (gint64)latent->q_rank + latent->kv_rank + latent->rope_size;

  if (latent->kv_rank == 0)
    return (Elements){ h + v, q + 2 * c + h, q + 2 * c + (model->qk_norm ? q + c : 0) };
  return (Elements){ h + latent->q_rank + latent->kv_rank + v,
                     down + q + model->heads * (gint64)latent->nope_size + v + h, down + 2 * q + v };
}

/* A feed-forward that `rows` times the tokens go through. */
static Elements
mlp_elements (const PsModel *model, double rows, gint64 width)
{
  gint64 up = (gint64)(rows * (double)((model->mlp == PS_MLP_SWIGLU ? 2 : 1) * width));

  return (Elements){ (gint64)(rows * (double)width), up, up };
}

/* The mixture: its input, the scores of the experts in fp32 before and after their softmax, the tokens as they are
 * handed to the experts, and what comes back before it is weighed. */
static Elements
feed_forward_elements (const PsModel *model, PsLayerKind kind)
{
  const PsExperts *experts = &model->experts;
  gint64 h = model->hidden, moved = (gint64)(ps_model_routed (model) * (double)h);
  Elements mlp;

  if (!(kind & PS_LAYER_EXPERTS))
    {
      mlp = mlp_elements (model, 1, model->feed_forward);
      return (Elements){ h + mlp.inputs, mlp.outputs + h, mlp.others };
    }
  mlp = mlp_elements (model, ps_model_routed (model) + experts->shared, experts->feed_forward);
  return (Elements){ h + moved + mlp.inputs, experts->count + mlp.outputs + moved + experts->shared * h,
                     mlp.others + moved + 4 * (gint64)experts->count };
}

/* Bytes of inputs of matrices, at 2 bytes for an element of all else. */
static gint64
input_bytes (const PsModel *model, gint64 elements)
{
  return model->precision == PS_PRECISION_FP4   ? elements / 2
         : model->precision == PS_PRECISION_FP8 ? elements
                                                : 2 * elements;
}

/* Per token at 2 bytes per element, softmax left out. Norms keep two inputs. GPT adds two dropout masks of one byte.
 * For f = 4h and k = a this is 34h. Where products have a precision of their own, attention keeps its result besides.
 */
static gint64
layer_activation_per_token (const PsModel *model, PsLayerKind kind)
{
  const Elements attention = attention_elements (model), mlp = feed_forward_elements (model, kind);
  gint64 h = model->hidden, again = model->precision >= PS_PRECISION_FP8 ? 2 * ps_model_value_width (model) : 0;

  return input_bytes (model, attention.inputs + mlp.inputs) + 2 * (attention.others + mlp.others) + again + 4 * h
         + (model->mlp == PS_MLP_GELU ? 2 * h : 0);
}

/* Scores, their softmax and its dropout mask: two elements and a byte each, all heads. */
static gint64
score_bytes (const PsModel *model)
{
  return 5 * ps_model_tokens (model) * model->sequence * model->heads;
}

gint64
ps_model_layer_activation_bytes (const PsModel *model, PsLayerKind kind)
{
  gint64 bytes = ps_model_tokens (model) * layer_activation_per_token (model, kind);

  return scale_to_precision (model, bytes + (model->flash_attention ? 0 : score_bytes (model)));
}

/* W multiplies the input of every matrix by the gradient of its output. */
static gint64
layer_weight_activation_bytes (const PsModel *model, PsLayerKind kind)
{
  const Elements attention = attention_elements (model), mlp = feed_forward_elements (model, kind);
  gint64 elements = attention.inputs + mlp.inputs + attention.outputs + mlp.outputs;

  return scale_to_precision (model, ps_model_tokens (model) * input_bytes (model, elements));
}

/* The head's share per matrix of logits: inputs of its norm and of its matrix, and logits in fp32. */
static gint64
head_bytes (const PsModel *model, gint64 input_width)
{
  gint64 tokens = ps_model_tokens (model);

  return scale_to_precision (model, 2 * tokens * input_width) + 4 * tokens * model->vocabulary;
}

gint64
ps_model_stage_activation_bytes (const PsModel *model, const PsStageShape *shape)
{
  gint64 h = model->hidden;

  return ps_model_sum_layers (model, shape, ps_model_layer_activation_bytes)
         + (shape->head ? head_bytes (model, 2 * h) : 0) + shape->n_mtp * head_bytes (model, 2 * h + 4 * h);
}

gint64
ps_model_stage_weight_activation_bytes (const PsModel *model, const PsStageShape *shape)
{
  gint64 h = model->hidden;
  gint64 bytes = ps_model_sum_layers (model, shape, layer_weight_activation_bytes)
                 + (shape->head ? head_bytes (model, h) : 0) + shape->n_mtp * head_bytes (model, h + 3 * h);

  return MIN (bytes, ps_model_stage_activation_bytes (model, shape));
}

gint64
ps_model_stage_kept_bytes (const PsModel *model, const PsStageShape *shape, PsRecompute recompute)
{
  const PsStageShape layers = { .first_layer = shape->first_layer, .n_layers = shape->n_layers };
  gint64 all = ps_model_stage_activation_bytes (model, shape);

  if (recompute == PS_RECOMPUTE_FULL)
    return all - ps_model_stage_activation_bytes (model, &layers) + shape->n_layers * ps_model_boundary_bytes (model);
  if (recompute == PS_RECOMPUTE_NONE || model->flash_attention)
    return all;
  return all - shape->n_layers * scale_to_precision (model, score_bytes (model));
}

gint64
ps_model_boundary_bytes (const PsModel *model)
{
  return ps_model_tokens (model) * model->hidden * ps_precision_bytes (model->precision);
}

/* Bytes per parameter. */
static guint
gradient_bytes (const PsModel *model)
{
  gboolean kept_wide = model->framework == PS_FRAMEWORK_MEGATRON
                       || (model->framework == PS_FRAMEWORK_DEEPSPEED && model->precision > PS_PRECISION_FP16);

  return model->precision == PS_PRECISION_FP32 || model->fp32_gradients || kept_wide ? 4 : 2;
}

static guint
optimizer_bytes (const PsModel *model)
{
  if (model->framework == PS_FRAMEWORK_DEEPSPEED && model->precision == PS_PRECISION_FP16)
    return 16;
  return model->precision == PS_PRECISION_FP32 ? 8 : 12;
}

PsStateBytes
ps_model_state (const PsModel *model, gint64 n)
{
  return (PsStateBytes){ .weight_bytes = ps_precision_bytes (model->precision) * n,
                         .gradient_bytes = gradient_bytes (model) * n,
                         .optimizer_bytes = optimizer_bytes (model) * n };
}

PsStateBytes
ps_model_stage_state (const PsModel *model, const PsStageShape *shape)
{
  return ps_model_state (model, ps_model_stage_parameters (model, shape));
}

gint64
ps_model_stage_state_bytes (const PsModel *model, const PsStageShape *shape)
{
  PsStateBytes state = ps_model_stage_state (model, shape);

  return state.weight_bytes + state.gradient_bytes + state.optimizer_bytes;
}
