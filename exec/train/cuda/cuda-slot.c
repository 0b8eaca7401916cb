/* cuda-slot.c - blocks of a microbatch in flight. */
#include "cuda-slot.h"

#include <string.h>

#define WHAT "activations"

static void give (PsCudaShared *shared, void **block)
{
  ps_memory_pool_give (shared->memory, *block);
  *block = NULL;
}

/* Takes a block; bytes 0: takes none. */
static gboolean take (PsCudaShared *shared, void **block, gsize bytes, PsUseKind kind, GError **error)
{
  *block = bytes > 0 ? ps_cuda_shared_take (shared, bytes, kind, WHAT, error) : NULL;
  return bytes == 0 || *block != NULL;
}

static gboolean take_layer_parts (PsCudaShared *shared, PsCudaLayerState *state, PsCudaPart first, PsCudaPart last,
                                  GError **error)
{
  for (guint part = first; part <= last; part++)
    if (!take (shared, &state->part[part], ps_cuda_layer_part_bytes (&shared->sizes, part), PS_USE_ACTIVATION, error))
      return FALSE;
  return TRUE;
}

static gboolean take_head_parts (PsCudaShared *shared, PsCudaHeadState *state, PsCudaHeadPart first,
                                 PsCudaHeadPart last, GError **error)
{
  for (guint part = first; part <= last; part++)
    if (!take (shared, &state->part[part], ps_cuda_head_part_bytes (&shared->sizes, part), PS_USE_ACTIVATION, error))
      return FALSE;
  return TRUE;
}

/* Returns the place that keeps the residual stream's block before a layer; *kind is its kind of memory there. */
static void **stream_place (PsCudaSlot *slot, const PsStageShape *shape, guint layer, PsUseKind *kind)
{
  *kind = PS_USE_ACTIVATION;
  if (layer < shape->n_layers)
    return &slot->layers[layer].part[PS_CUDA_X];
  if (shape->head)
    return &slot->head.part[PS_CUDA_HEAD_X];
  *kind = PS_USE_BUFFER;
  return &slot->output;
}

/* Takes the blocks of the residual stream: the input if there is one, and new blocks. */
static gboolean take_stream (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, void *input,
                             GError **error)
{
  const gsize bytes = ps_cuda_sizes_boundary_bytes (&shared->sizes);
  gboolean ok = TRUE;

  for (guint layer = 0; ok && layer <= shape->n_layers; layer++) {
    PsUseKind kind;
    void **place = stream_place (slot, shape, layer, &kind);

    if (layer > 0 || input == NULL)
      ok = take (shared, place, bytes, kind, error);
    else {
      *place = input;
      ps_memory_pool_retag (shared->memory, input, kind);
    }
  }
  return ok;
}

gsize ps_cuda_plan_bytes (const PsStageShape *shape, const PsCudaSizes *sizes)
{
  return sizeof (PsCudaPlan) + (shape->n_layers + 1) * sizeof (PsCudaStep)
         + shape->n_layers * (gsize)(sizes->slices - 1) * sizeof (PsCudaEarlier);
}

PsCudaEarlier *ps_cuda_plan_earlier (PsCudaPlan *plan, const PsStageShape *shape, const PsCudaSizes *sizes, guint layer)
{
  PsCudaEarlier *first = (PsCudaEarlier *)(gpointer)(plan->steps + shape->n_layers + 1);

  return first + layer * (guint)(sizes->slices - 1);
}

static void plan_earlier (PsCudaSlot *slot, const PsCudaShared *shared, const PsStageShape *shape, guint layer,
                          PsCudaPlan *plan)
{
  PsCudaEarlier *earlier = ps_cuda_plan_earlier (plan, shape, &shared->sizes, layer);

  for (guint i = 0; i < slot->slice; i++) {
    void *const *part = (slot - slot->slice + i)->layers[layer].part;

    earlier[i].qkv = part[PS_CUDA_QKV];
    earlier[i].inherited = part[PS_CUDA_INHERITED];
  }
}

static void plan_forward (PsCudaSlot *slot, const PsCudaShared *shared, const PsStageShape *shape, PsCudaPlan *plan)
{
  PsUseKind kind;

  memset (plan, 0, ps_cuda_plan_bytes (shape, &shared->sizes));
  plan->head = slot->head;
  for (guint i = 0; i <= shape->n_layers; i++)
    plan->steps[i] = (PsCudaStep){ .state = slot->layers[i], .stream = *stream_place (slot, shape, i, &kind) };
  for (guint i = 0; i < shape->n_layers; i++)
    plan_earlier (slot, shared, shape, i, plan);
}

static void give_layer (PsCudaShared *shared, PsCudaLayerState *state)
{
  for (guint part = 0; part < PS_CUDA_N_PARTS; part++)
    give (shared, &state->part[part]);
}

/* Layers that are computed again share one set of blocks, which goes back: the stream runs one layer after the other.
 */
static gboolean take_forward_parts (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, GError **error)
{
  const gboolean once = ps_cuda_recomputes (shape);
  gboolean ok = TRUE;

  for (guint i = 0; ok && i < shape->n_layers; i++)
    if (i == 0 || !once)
      ok = take_layer_parts (shared, &slot->layers[i], PS_CUDA_X + 1, PS_CUDA_G, error);
    else
      for (guint part = PS_CUDA_X + 1; part <= PS_CUDA_G; part++)
        slot->layers[i].part[part] = slot->layers[0].part[part];
  return ok;
}

/* Called when the forward is planned. */
static void drop_forward_parts (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape)
{
  for (guint i = 0; ps_cuda_recomputes (shape) && i < shape->n_layers; i++)
    for (guint part = PS_CUDA_X + 1; part <= PS_CUDA_G; part++)
      if (i == 0)
        give (shared, &slot->layers[i].part[part]);
      else
        slot->layers[i].part[part] = NULL;
}

gboolean ps_cuda_slot_forward (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, void *input,
                               PsCudaPlan *plan, GError **error)
{
  slot->layers = g_new0 (PsCudaLayerState, shape->n_layers + 1);
  gboolean ok = take_stream (slot, shared, shape, input, error);
  ok = ok && take_forward_parts (slot, shared, shape, error);
  if (ok && shape->head)
    ok = take_head_parts (shared, &slot->head, PS_CUDA_HEAD_X + 1, PS_CUDA_HEAD_LOGITS, error);
  if (ok)
    plan_forward (slot, shared, shape, plan);
  drop_forward_parts (slot, shared, shape);
  if (!ok)
    ps_cuda_slot_empty (slot, shared, shape);
  return ok;
}

/* Takes a tensor for the gradient of a layer's input; the head counts as layer n_layers. Layer 0's gradient is a buffer
 * on its way out, unless the embedding takes it. */
static void *take_gradient (PsCudaShared *shared, const PsStageShape *shape, guint layer, GError **error)
{
  const PsUseKind kind = layer == 0 && !shape->embedding ? PS_USE_BUFFER : PS_USE_ACTIVATION;

  return ps_cuda_shared_take (shared, ps_cuda_sizes_boundary_bytes (&shared->sizes), kind, WHAT, error);
}

static gboolean plan_head_backward (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, PsCudaPlan *plan,
                                    GError **error)
{
  if (!take_head_parts (shared, &slot->head, PS_CUDA_HEAD_DNORMED, PS_CUDA_HEAD_DNORMED, error))
    return FALSE;
  plan->head = slot->head;
  plan->steps[shape->n_layers].stream = take_gradient (shared, shape, shape->n_layers, error);
  return plan->steps[shape->n_layers].stream != NULL;
}

/* Gives back the blocks that only this backward reads, before the next layer takes its own. */
static void end_layer_backward (PsCudaShared *shared, PsCudaLayerState *state)
{
  void **part = state->part;

  if (part[PS_CUDA_DZ] != NULL)
    give (shared, &part[PS_CUDA_Z]);
  give (shared, &part[PS_CUDA_QKV]);
  give (shared, &part[PS_CUDA_LSE]);
  give (shared, &part[PS_CUDA_INHERITED]);
}

/* Takes the blocks of a forward that runs again, unless it has done so. Nothing reads its output, whose block goes back
 * at once. */
static gboolean take_again (PsCudaShared *shared, const PsStageShape *shape, PsCudaLayerState *state, void **output,
                            GError **error)
{
  *output = NULL;
  if (!ps_cuda_recomputes (shape) || state->part[PS_CUDA_QKV] != NULL)
    return TRUE;
  if (!take_layer_parts (shared, state, PS_CUDA_X + 1, PS_CUDA_G, error)
      || !take (shared, output, ps_cuda_sizes_boundary_bytes (&shared->sizes), PS_USE_ACTIVATION, error))
    return FALSE;
  ps_memory_pool_give (shared->memory, *output);
  return TRUE;
}

gboolean ps_cuda_slot_recompute (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, PsCudaPlan *plan,
                                 GError **error)
{
  memset (plan, 0, ps_cuda_plan_bytes (shape, &shared->sizes));
  for (guint i = 0; i < shape->n_layers; i++) {
    if (!take_again (shared, shape, &slot->layers[i], &plan->steps[i].again, error))
      return FALSE;
    plan->steps[i].state = slot->layers[i];
  }
  return TRUE;
}

/* Makes room for the gradients that the slice leaves to the slices before it. */
static gboolean take_inherited (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, guint layer,
                                PsCudaPlan *plan, GError **error)
{
  const gsize bytes = ps_cuda_layer_part_bytes (&shared->sizes, PS_CUDA_INHERITED);
  PsCudaEarlier *earlier = ps_cuda_plan_earlier (plan, shape, &shared->sizes, layer);

  for (guint i = 0; i < slot->slice; i++) {
    void **block = &(slot - slot->slice + i)->layers[layer].part[PS_CUDA_INHERITED];

    earlier[i].begins = *block == NULL;
    if (*block == NULL && !take (shared, block, bytes, PS_USE_ACTIVATION, error))
      return FALSE;
  }
  plan_earlier (slot, shared, shape, layer, plan);
  return TRUE;
}

/* The gradient of the layer's output becomes the slot's DOUTPUT. */
static gboolean plan_layer_backward (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, guint layer,
                                     gboolean weights, PsCudaPlan *plan, GError **error)
{
  PsCudaLayerState *state = &slot->layers[layer];
  void *again;

  state->part[PS_CUDA_DOUTPUT] = plan->steps[layer + 1].stream;
  if (!take_again (shared, shape, state, &again, error))
    return FALSE;
  if (!take_layer_parts (shared, state, PS_CUDA_DZ, PS_CUDA_DNORMED1, error)
      || !take_inherited (slot, shared, shape, layer, plan, error))
    return FALSE;
  plan->steps[layer]
      = (PsCudaStep){ .state = *state, .stream = take_gradient (shared, shape, layer, error), .again = again };
  if (plan->steps[layer].stream == NULL)
    return FALSE;
  if (weights)
    give_layer (shared, state);
  else
    end_layer_backward (shared, state);
  return TRUE;
}

gboolean ps_cuda_slot_backward (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, gboolean weights,
                                void *input, void **output, PsCudaPlan *plan, GError **error)
{
  guint layer = shape->n_layers;
  gboolean ok = TRUE;

  if (input != NULL && (shape->n_layers > 0 || shape->embedding))
    ps_memory_pool_retag (shared->memory, input, PS_USE_ACTIVATION);
  memset (plan, 0, ps_cuda_plan_bytes (shape, &shared->sizes));
  plan->steps[layer].stream = input;
  if (shape->head)
    ok = plan_head_backward (slot, shared, shape, plan, error);
  while (ok && layer > 0)
    ok = plan_layer_backward (slot, shared, shape, --layer, weights, plan, error);
  *(shape->embedding ? &slot->dembedding : output) = plan->steps[0].stream;
  return ok;
}

void ps_cuda_slot_weights (const PsCudaSlot *slot, const PsCudaShared *shared, const PsStageShape *shape,
                           PsCudaPlan *plan)
{
  memset (plan, 0, ps_cuda_plan_bytes (shape, &shared->sizes));
  plan->head = slot->head;
  for (guint i = 0; i < shape->n_layers; i++)
    plan->steps[i].state = slot->layers[i];
  plan->steps[0].stream = slot->dembedding;
}

void ps_cuda_slot_empty (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape)
{
  for (guint i = 0; slot->layers != NULL && i < shape->n_layers; i++)
    give_layer (shared, &slot->layers[i]);
  for (guint part = 0; part < PS_CUDA_N_HEAD_PARTS; part++)
    give (shared, &slot->head.part[part]);
  give (shared, &slot->output);
  give (shared, &slot->dembedding);
  g_clear_pointer (&slot->layers, g_free);
  slot->progress = PS_CUDA_EMPTY;
}
