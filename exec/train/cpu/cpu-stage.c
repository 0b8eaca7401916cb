/* cpu-stage.c - runs the ops of one stage: takes and gives back blocks around the arithmetic of its parts. */
#include <math.h>
#include <string.h>

#include "train/data.h"
#include "train/devices.h"
#include "cpu-cut.h"
#include "cpu-offload.h"
#include "cpu-update.h"

static guint count_slots (const PsCpuContext *context)
{
  return context->n_microbatches * (guint)context->sizes.slices;
}

/* These give the parts of an array of the stage's parameters. */
static PsCpuEmbedding embedding_of (const PsCpuStage *stage, float *parameters)
{
  return ps_cpu_embedding_view (&stage->context->sizes, parameters);
}

static PsCpuLayer layer_of (const PsCpuStage *stage, float *parameters, guint layer)
{
  const PsCpuSizes *sizes = &stage->context->sizes;
  const gsize before = stage->shape.embedding ? ps_cpu_embedding_parameters (sizes) : 0;

  return ps_cpu_layer_view (sizes, parameters + before + layer * ps_cpu_layer_parameters (sizes));
}

static PsCpuHead head_of (const PsCpuStage *stage, float *parameters)
{
  const PsCpuSizes *sizes = &stage->context->sizes;

  return ps_cpu_head_view (sizes, parameters + stage->n_parameters - ps_cpu_head_parameters (sizes));
}

static gsize count_parameters (const PsCpuSizes *sizes, const PsStageShape *shape)
{
  gsize n = shape->n_layers * ps_cpu_layer_parameters (sizes);

  if (shape->embedding)
    n += ps_cpu_embedding_parameters (sizes);
  if (shape->head)
    n += ps_cpu_head_parameters (sizes);
  return n;
}

/* Fills an array of the whole stage. */
static void init_whole (const PsCpuStage *stage, float *whole)
{
  const PsCpuSizes *sizes = &stage->context->whole_sizes;
  const guint64 seed = stage->context->seed;
  float *cursor = whole;

  if (stage->shape.embedding) {
    const PsCpuEmbedding embedding = ps_cpu_embedding_view (sizes, cursor);

    ps_cpu_embedding_init (&embedding, sizes, seed);
    cursor += ps_cpu_embedding_parameters (sizes);
  }
  for (guint i = 0; i < stage->shape.n_layers; i++, cursor += ps_cpu_layer_parameters (sizes)) {
    const PsCpuLayer layer = ps_cpu_layer_view (sizes, cursor);

    ps_cpu_layer_init (&layer, sizes, seed, stage->shape.first_layer + i);
  }
  if (stage->shape.head) {
    const PsCpuHead head = ps_cpu_head_view (sizes, cursor);

    ps_cpu_head_init (&head, sizes, seed);
  }
}

static void init_weights (PsCpuStage *stage)
{
  g_autofree float *whole = NULL;

  if (stage->context->sizes.parts == 1) {
    init_whole (stage, stage->weights);
    return;
  }
  whole = g_new (float, stage->n_whole);
  init_whole (stage, whole);
  ps_cpu_stage_cut (stage, stage->weights, whole);
}

static gboolean take_workspace (PsCpuStage *stage, GError **error)
{
  const PsCpuSizes *sizes = &stage->context->sizes;
  const gsize n = ps_cpu_workspace_lay_out (&stage->workspace, sizes, NULL);
  float *block = ps_cpu_memory_take (stage->context->memory, n, PS_USE_STATE);

  if (block == NULL)
    return ps_cpu_no_room (stage, "workspace", n, error);
  ps_cpu_workspace_lay_out (&stage->workspace, sizes, block);
  stage->workspace.setting = stage->context->setting;
  return TRUE;
}

PsCpuStage *ps_cpu_stage_new (PsCpuContext *context, guint number, const PsStageShape *shape, GError **error)
{
  g_autoptr (PsCpuStage) stage = g_new0 (PsCpuStage, 1);

  stage->context = context;
  stage->number = number;
  stage->shape = *shape;
  stage->n_parameters = count_parameters (&context->sizes, shape);
  stage->n_whole = count_parameters (&context->whole_sizes, shape);
  stage->slots = g_new0 (PsCpuSlot, count_slots (context));
  stage->losses = g_new (double, context->n_microbatches);
  for (guint i = 0; i < context->n_microbatches; i++)
    stage->losses[i] = NAN;
  if (!ps_device_check_slices (context->setting, number, shape, error) || !take_workspace (stage, error)
      || !ps_cpu_stage_take_parameters (stage, error))
    return NULL;
  init_weights (stage);
  return g_steal_pointer (&stage);
}

void ps_cpu_stage_free (PsCpuStage *stage)
{
  if (stage == NULL)
    return;
  for (guint i = 0; i < count_slots (stage->context); i++)
    g_free (stage->slots[i].layers);
  g_free (stage->slots);
  g_free (stage->losses);
  g_free (stage->versions);
  g_free (stage->joined);
  g_free (stage);
}

static void make_words (PsCpuStage *stage, guint microbatch)
{
  const PsCpuContext *context = stage->context;

  ps_data_read (stage->workspace.words, context->setting, context->step, microbatch);
}

/* Returns the residual stream of a forward: the input, or a new tensor for the embedding's output. */
static float *take_stream (PsCpuStage *stage, float *input, GError **error)
{
  const PsCpuSizes *sizes = &stage->context->sizes;
  const gsize n = stage->shape.head ? ps_cpu_sizes_boundary (sizes) : ps_cpu_sizes_message (sizes);
  const PsUseKind kind = stage->shape.head ? PS_USE_ACTIVATION : PS_USE_BUFFER;
  float *x = stage->shape.embedding ? ps_cpu_memory_take (stage->context->memory, n, kind) : input;

  if (x == NULL)
    ps_cpu_no_room (stage, "activations", n, error);
  return x;
}

static gboolean forward_layer (PsCpuStage *stage, PsOp op, guint i, float *x, GError **error)
{
  const PsCpuLayer layer = layer_of (stage, stage->weights, i);
  const PsCpuLayerState *states[PS_CPU_MAX_SLICES];

  ps_cpu_slot_states (stage, op, i, states);
  return ps_cpu_layer_forward (&layer, &stage->context->sizes, &stage->workspace, states, op.slice, x, error);
}

static gboolean forward_layers (PsCpuStage *stage, PsCpuSlot *slot, PsOp op, float *x, GError **error)
{
  const gsize bytes = ps_cpu_sizes_boundary (&stage->context->sizes) * sizeof (float);

  for (guint i = 0; i < stage->shape.n_layers; i++) {
    PsCpuLayerState *layer = &slot->layers[i];

    if (layer->input != NULL)
      memcpy (layer->input, x, bytes);
    if (!forward_layer (stage, op, i, x, error))
      return FALSE;
    ps_cpu_slot_drop_made (stage, slot->recompute, layer, i + 1 < stage->shape.n_layers ? layer + 1 : NULL);
  }
  return TRUE;
}

static gboolean run_forward (PsCpuStage *stage, PsCpuSlot *slot, PsOp op, float *x, GError **error)
{
  const PsCpuSizes *sizes = &stage->context->sizes;
  const PsCpuWorkspace *workspace = &stage->workspace;

  if (stage->shape.embedding || stage->shape.head)
    make_words (stage, op.microbatch);
  if (stage->shape.embedding) {
    const PsCpuEmbedding embedding = embedding_of (stage, stage->weights);

    ps_cpu_embedding_forward (&embedding, sizes, op.slice, workspace->words, x);
  }
  if (!forward_layers (stage, slot, op, x, error))
    return FALSE;
  if (stage->shape.head) {
    const PsCpuHead head = head_of (stage, stage->weights);
    const double before = op.slice > 0 ? stage->losses[op.microbatch] : 0;

    stage->losses[op.microbatch] = before + ps_cpu_head_forward (&head, sizes, op.slice, workspace, &slot->head, x);
  }
  return TRUE;
}

gboolean ps_cpu_stage_forward (PsCpuStage *stage, PsOp op, float *input, float **output, GError **error)
{
  g_return_val_if_fail ((input == NULL) == stage->shape.embedding, FALSE);

  PsCpuSlot *slot = ps_cpu_slot_find (stage, op, PS_CPU_EMPTY, error);
  float *x = slot != NULL ? take_stream (stage, input, error) : NULL;
  gboolean done;

  *output = NULL;
  if (x == NULL || !ps_cpu_slot_take_forward (stage, slot, op, error)) {
    ps_memory_pool_give (stage->context->memory, x != NULL ? x : input);
    return FALSE;
  }
  done = run_forward (stage, slot, op, x, error) && ps_cpu_offload (stage, slot, error);
  slot->progress = PS_CPU_FORWARD;
  if (stage->shape.head || !done)
    ps_cpu_give (stage, &x);
  *output = x;
  return done;
}

static gboolean backward_head (PsCpuStage *stage, PsCpuSlot *slot, PsOp op, float **doutput, GError **error)
{
  const PsCpuSizes *sizes = &stage->context->sizes;
  const PsCpuHead head = head_of (stage, stage->weights);

  if (!ps_cpu_take (stage, &slot->head.gradient, ps_cpu_head_gradient_size (sizes), error)
      || !ps_cpu_slot_take_gradient (stage, stage->shape.n_layers, doutput, error))
    return FALSE;
  make_words (stage, op.microbatch);
  ps_cpu_head_backward (&head, sizes, op.slice, &stage->workspace, &slot->head, *doutput);
  ps_cpu_give (stage, &slot->head.late);
  return TRUE;
}

/* Makes what the layer's forward has made and does not keep. A layer that was restored is left as it is. */
static gboolean restore_layer (PsCpuStage *stage, PsCpuSlot *slot, PsOp op, guint i, GError **error)
{
  const PsCpuLayerState *states[PS_CPU_MAX_SLICES];
  PsCpuLayerState *layer = &slot->layers[i];
  gboolean dropped;

  if (!ps_cpu_fetch (stage, layer, error))
    return FALSE;
  dropped = layer->scores == NULL;
  if (!ps_cpu_slot_take_made (stage, layer, op.slice, error))
    return FALSE;
  ps_cpu_slot_states (stage, op, i, states);
  if (layer->input != NULL && !forward_layer (stage, op, i, layer->input, error))
    return FALSE;
  if (layer->input == NULL && dropped)
    ps_cpu_layer_attend (&stage->context->sizes, states, op.slice);
  ps_cpu_give (stage, &layer->input);
  return TRUE;
}

gboolean ps_cpu_stage_recompute (PsCpuStage *stage, PsOp op, GError **error)
{
  PsCpuSlot *slot = ps_cpu_slot_find (stage, op, PS_CPU_FORWARD, error);
  gboolean done = slot != NULL;

  for (guint i = 0; done && i < stage->shape.n_layers; i++)
    done = restore_layer (stage, slot, op, i, error);
  return done;
}

/* Replaces *gradient with the gradient of the layer's input. The layer keeps the old one for W. */
static gboolean backward_layer (PsCpuStage *stage, PsCpuSlot *slot, PsOp op, guint i, float **gradient, GError **error)
{
  const PsCpuSizes *sizes = &stage->context->sizes;
  const PsCpuLayer layer = layer_of (stage, stage->weights, i);
  const PsCpuLayerState *states[PS_CPU_MAX_SLICES];
  PsCpuLayerState *state = &slot->layers[i];

  state->doutput = g_steal_pointer (gradient);
  if (!restore_layer (stage, slot, op, i, error)
      || !ps_cpu_take (stage, &state->gradient, ps_cpu_layer_gradient_size (sizes), error)
      || !ps_cpu_slot_take_inherited (stage, op, i, error) || !ps_cpu_slot_take_gradient (stage, i, gradient, error))
    return FALSE;
  ps_cpu_slot_states (stage, op, i, states);
  if (!ps_cpu_layer_backward (&layer, sizes, &stage->workspace, states, op.slice, *gradient, error))
    return FALSE;
  ps_cpu_give (stage, &state->inherited);
  ps_cpu_give (stage, &state->late);
  ps_cpu_give (stage, &state->scores);
  return TRUE;
}

static void weigh_head (PsCpuStage *stage, PsCpuSlot *slot)
{
  const PsCpuHead head = head_of (stage, stage->weights), dhead = head_of (stage, stage->gradients);

  ps_cpu_head_weights (&head, &dhead, &stage->context->sizes, &stage->workspace, &slot->head);
}

static void weigh_layer (PsCpuStage *stage, PsCpuSlot *slot, guint i)
{
  const PsCpuLayer layer = layer_of (stage, stage->weights, i), dlayer = layer_of (stage, stage->gradients, i);

  ps_cpu_layer_weights (&layer, &dlayer, &stage->context->sizes, &stage->workspace, &slot->layers[i]);
  ps_cpu_slot_give_layer (stage, &slot->layers[i]);
}

static gboolean run_backward (PsCpuStage *stage, PsCpuSlot *slot, PsOp op, float **gradient, GError **error)
{
  if (stage->shape.head && !backward_head (stage, slot, op, gradient, error))
    return FALSE;
  for (guint i = stage->shape.n_layers; i > 0; i--) {
    if (!backward_layer (stage, slot, op, i - 1, gradient, error))
      return FALSE;
    if (op.kind == PS_OP_BW)
      weigh_layer (stage, slot, i - 1);
  }
  return TRUE;
}

gboolean ps_cpu_stage_backward (PsCpuStage *stage, PsOp op, float *input, float **output, GError **error)
{
  g_return_val_if_fail ((input == NULL) == stage->shape.head, FALSE);

  PsCpuSlot *slot = ps_cpu_slot_find (stage, op, PS_CPU_FORWARD, error);
  float *gradient = input;

  *output = NULL;
  if (slot != NULL && input != NULL && (stage->shape.n_layers > 0 || stage->shape.embedding))
    ps_memory_pool_retag (stage->context->memory, input, PS_USE_ACTIVATION);
  if (slot == NULL || !run_backward (stage, slot, op, &gradient, error)) {
    ps_cpu_give (stage, &gradient);
    return FALSE;
  }
  slot->progress = PS_CPU_BACKWARD;
  *(stage->shape.embedding ? &slot->dembedding : output) = gradient;
  return TRUE;
}

gboolean ps_cpu_stage_weight_gradients (PsCpuStage *stage, PsOp op, GError **error)
{
  const PsCpuSizes *sizes = &stage->context->sizes;
  const PsCpuWorkspace *workspace = &stage->workspace;
  PsCpuSlot *slot = ps_cpu_slot_find (stage, op, PS_CPU_BACKWARD, error);

  if (slot == NULL)
    return FALSE;
  if (stage->shape.head)
    weigh_head (stage, slot);
  for (guint i = stage->shape.n_layers; i > 0 && op.kind == PS_OP_W; i--)
    weigh_layer (stage, slot, i - 1);
  if (stage->shape.embedding) {
    const PsCpuEmbedding dembedding = embedding_of (stage, stage->gradients);

    make_words (stage, op.microbatch);
    ps_cpu_embedding_weights (&dembedding, sizes, op.slice, workspace->words, slot->dembedding);
  }
  ps_cpu_slot_empty (stage, slot);
  return TRUE;
}

void ps_cpu_stage_forget (PsCpuStage *stage)
{
  for (guint i = 0; i < count_slots (stage->context); i++)
    ps_cpu_slot_empty (stage, &stage->slots[i]);
}

double ps_cpu_stage_loss (const PsCpuStage *stage, guint microbatch)
{
  g_return_val_if_fail (microbatch < stage->context->n_microbatches, NAN);

  return stage->losses[microbatch];
}

const PsStageShape *ps_cpu_stage_shape (const PsCpuStage *stage)
{
  return &stage->shape;
}

gsize ps_cpu_stage_parameters (const PsCpuStage *stage)
{
  return stage->n_parameters;
}

float *ps_cpu_stage_gradients (PsCpuStage *stage)
{
  return stage->gradients;
}

const float *ps_cpu_stage_joined_gradients (PsCpuStage *stage, gsize *n)
{
  *n = stage->n_whole;
  if (stage->context->sizes.parts == 1)
    return stage->gradients;
  if (stage->joined == NULL)
    stage->joined = g_new (float, stage->n_whole);
  ps_cpu_stage_join (stage, stage->gradients, stage->joined);
  return stage->joined;
}
