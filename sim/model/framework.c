/* framework.c - what frameworks hold in memory. */
#include <pipesim/work.h>

#include "model-private.h"
#include "base/names.h"

#define CONTEXT_BYTES (5 * (gint64)1000 * 1000 * 1000)
#define WORKSPACE_BYTES (2 * (gint64)32 << 20)

PS_DEFINE_NAMES (PsFramework, ps_framework, "none", "megatron", "deepspeed")

double
ps_framework_reserve (PsFramework framework)
{
  return framework == PS_FRAMEWORK_DEEPSPEED ? 1.145 : 1;
}

double
ps_framework_passing_reserve (PsFramework framework)
{
  return framework == PS_FRAMEWORK_DEEPSPEED ? 1.345 : 1;
}

gint64
ps_framework_context_bytes (PsFramework framework)
{
  return framework == PS_FRAMEWORK_NONE ? 0 : CONTEXT_BYTES;
}

/* One matrix of each shape of a layer: those of one expert in place of all. */
static gint64
dummy_elements (const PsModel *model, PsLayerKind kind)
{
  PsModel one = *model;

  one.experts.count = 1;
  return ps_model_layer_parameters (kind & PS_LAYER_EXPERTS ? &one : model, kind);
}

/* Bytes per token of the gradients that run through a layer. */
static gint64
running_per_token (const PsModel *model, PsLayerKind kind)
{
  gint64 h = model->hidden;

  if (kind & PS_LAYER_EXPERTS)
    return 2 * h + (gint64)(ps_model_routed (model) * (double)(4 * h + 4 * (gint64)model->experts.feed_forward));
  return 4 * h + 4 * (gint64)model->feed_forward;
}

/* The largest and the sum of a figure over the kinds of layers that a stage has. */
static void
look_at_kinds (const PsModel *model, const PsStageShape *shape, PsLayerFigure figure, gint64 *largest, gint64 *sum)
{
  guint count[PS_N_LAYER_KINDS];

  *largest = *sum = 0;
  ps_model_count_kinds (model, shape, count);
  for (guint kind = 0; kind < PS_N_LAYER_KINDS; kind++)
    if (count[kind] > 0)
      {
        gint64 value = figure (model, (PsLayerKind)kind);

        *largest = MAX (*largest, value);
        *sum += value;
      }
}

/* Layers that differ by their attention alone have matrices of the same shapes. */
static gint64
dummy_bytes (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  PsModel all = *model;
  gint64 largest, sum;

  all.window = all.full_every = 0;
  look_at_kinds (&all, shape, dummy_elements, &largest, &sum);
  return ps_tensor_share (ps_precision_bytes (model->precision) * sum, n_tensor);
}

static PsHabits
megatron (const PsModel *model, const PsStageShape *shape, guint n_tensor)
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

/* B needs nothing besides the layer computed again: gradients take the place of what it has used. */
static PsHabits
deepspeed (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  gint64 narrow = model->precision > PS_PRECISION_FP16 ? ps_precision_bytes (model->precision) : 0;

  return (PsHabits){ .buffer_bytes = narrow * ps_tensor_parameters (model, shape, n_tensor) };
}

PsHabits
ps_framework_habits (const PsModel *model, const PsStageShape *shape, guint n_tensor)
{
  switch (model->framework)
    {
    case PS_FRAMEWORK_MEGATRON:
      return megatron (model, shape, n_tensor);
    case PS_FRAMEWORK_DEEPSPEED:
      return deepspeed (model, shape, n_tensor);
    default:
      return (PsHabits){ 0 };
    }
}
