/* cpu-slot.c - takes and gives back the blocks of microbatches in flight. */
#include "cpu-slot.h"

#include "train/devices.h"

#include <string.h>

gboolean ps_cpu_no_room (const PsCpuStage *stage, const char *what, gsize n, GError **error)
{
  g_autofree char *size = ps_format_size ((gint64)(n * sizeof (float)));

  return ps_refuse (error, PS_ERROR_UNAVAILABLE, "stage %u: no memory for %s of %s", stage->number, size, what);
}

void ps_cpu_give (PsCpuStage *stage, float **block)
{
  ps_memory_pool_give (stage->context->memory, *block);
  *block = NULL;
}

gboolean ps_cpu_take (PsCpuStage *stage, float **block, gsize n, GError **error)
{
  *block = ps_cpu_memory_take (stage->context->memory, n, PS_USE_ACTIVATION);
  return *block != NULL || ps_cpu_no_room (stage, "activations", n, error);
}

void ps_cpu_slot_give_layer (PsCpuStage *stage, PsCpuLayerState *layer)
{
  ps_cpu_give (stage, &layer->input);
  ps_cpu_give (stage, &layer->keep);
  ps_cpu_give (stage, &layer->late);
  ps_cpu_give (stage, &layer->scores);
  ps_cpu_give (stage, &layer->gradient);
  ps_cpu_give (stage, &layer->doutput);
  ps_cpu_give (stage, &layer->inherited);
  for (guint i = 0; i < G_N_ELEMENTS (layer->host); i++)
    ps_memory_pool_give (stage->context->host, g_steal_pointer (&layer->host[i]));
}

void ps_cpu_slot_empty (PsCpuStage *stage, PsCpuSlot *slot)
{
  for (guint i = 0; slot->layers != NULL && i < stage->shape.n_layers; i++)
    ps_cpu_slot_give_layer (stage, &slot->layers[i]);
  ps_cpu_give (stage, &slot->head.keep);
  ps_cpu_give (stage, &slot->head.late);
  ps_cpu_give (stage, &slot->head.gradient);
  ps_cpu_give (stage, &slot->dembedding);
  g_clear_pointer (&slot->layers, g_free);
  slot->progress = PS_CPU_EMPTY;
}

PsCpuSlot *ps_cpu_slot_find (PsCpuStage *stage, PsOp op, PsCpuProgress last, GError **error)
{
  static const char *const complaint[] = {
    [PS_CPU_EMPTY] = "its F has not run",
    [PS_CPU_FORWARD] = "its F has run, its B has not",
    [PS_CPU_BACKWARD] = "its B has run, its W has not",
  };
  const guint n = stage->context->n_microbatches, n_slices = (guint)stage->context->sizes.slices;
  const char *name = op.kind == PS_OP_R ? "R" : last == PS_CPU_EMPTY ? "F" : last == PS_CPU_FORWARD ? "B" : "W";
  PsCpuSlot *slot;

  if (op.microbatch >= n || op.slice >= n_slices)
    return ps_refuse_null (error, PS_ERROR_SCHEDULE, "stage %u: %s of microbatch %u, slice %u: there are only %u, %u",
                           stage->number, name, op.microbatch, op.slice, n, n_slices);
  slot = &stage->slots[op.microbatch * n_slices + op.slice];
  if (slot->progress == last)
    return slot;
  return ps_refuse_null (error, PS_ERROR_SCHEDULE, "stage %u: %s of microbatch %u: %s", stage->number, name,
                         op.microbatch, complaint[slot->progress]);
}

void ps_cpu_slot_states (PsCpuStage *stage, PsOp op, guint layer, const PsCpuLayerState **states)
{
  PsCpuSlot *first = &stage->slots[op.microbatch * (guint)stage->context->sizes.slices];

  for (guint i = 0; i <= op.slice; i++)
    states[i] = &first[i].layers[layer];
}

gboolean ps_cpu_slot_take_made (PsCpuStage *stage, PsCpuLayerState *layer, guint slice, GError **error)
{
  const PsCpuSizes *sizes = &stage->context->sizes;

  return (layer->keep != NULL || ps_cpu_take (stage, &layer->keep, ps_cpu_layer_keep_size (sizes), error))
         && (layer->late != NULL || ps_cpu_take (stage, &layer->late, ps_cpu_layer_late_size (sizes), error))
         && (layer->scores != NULL
             || ps_cpu_take (stage, &layer->scores, ps_cpu_layer_scores_size (sizes, slice), error));
}

void ps_cpu_slot_drop_made (PsCpuStage *stage, PsRecompute recompute, PsCpuLayerState *layer, PsCpuLayerState *next)
{
  float **const from[] = { &layer->scores, &layer->keep, &layer->late };
  PsCpuLayerState *taker = next != NULL ? next : layer;
  float **const to[] = { &taker->scores, &taker->keep, &taker->late };
  const guint n = recompute == PS_RECOMPUTE_NONE ? 0 : recompute == PS_RECOMPUTE_SELECTIVE ? 1 : 3;

  for (guint i = 0; i < n; i++)
    if (next != NULL)
      *to[i] = g_steal_pointer (from[i]);
    else
      ps_cpu_give (stage, from[i]);
}

/* Takes the blocks that a layer's forward keeps; the first layer's has all that it makes. */
static gboolean take_kept (PsCpuStage *stage, PsRecompute recompute, PsCpuLayerState *layer, gboolean first,
                           guint slice, GError **error)
{
  const PsCpuSizes *sizes = &stage->context->sizes;

  if (recompute == PS_RECOMPUTE_FULL && !ps_cpu_take (stage, &layer->input, ps_cpu_sizes_boundary (sizes), error))
    return FALSE;
  if (first || recompute == PS_RECOMPUTE_NONE)
    return ps_cpu_slot_take_made (stage, layer, slice, error);
  return recompute == PS_RECOMPUTE_FULL
         || (ps_cpu_take (stage, &layer->keep, ps_cpu_layer_keep_size (sizes), error)
             && ps_cpu_take (stage, &layer->late, ps_cpu_layer_late_size (sizes), error));
}

gboolean ps_cpu_slot_take_forward (PsCpuStage *stage, PsCpuSlot *slot, PsOp op, GError **error)
{
  const PsCpuSizes *sizes = &stage->context->sizes;
  gboolean ok = TRUE;

  slot->recompute = ps_device_recompute (stage->context->setting, &stage->shape, op);
  slot->layers = g_new0 (PsCpuLayerState, stage->shape.n_layers);
  for (guint i = 0; ok && i < stage->shape.n_layers; i++)
    ok = take_kept (stage, slot->recompute, &slot->layers[i], i == 0, op.slice, error);
  if (ok && stage->shape.head)
    ok = ps_cpu_take (stage, &slot->head.keep, ps_cpu_head_keep_size (sizes), error)
         && ps_cpu_take (stage, &slot->head.late, ps_cpu_head_late_size (sizes), error);
  if (!ok)
    ps_cpu_slot_empty (stage, slot);
  return ok;
}

gboolean ps_cpu_slot_take_gradient (PsCpuStage *stage, guint layer, float **block, GError **error)
{
  const PsCpuSizes *sizes = &stage->context->sizes;
  const gboolean leaves = layer == 0 && !stage->shape.embedding;
  const gsize n = leaves ? ps_cpu_sizes_message (sizes) : ps_cpu_sizes_boundary (sizes);

  *block = ps_cpu_memory_take (stage->context->memory, n, leaves ? PS_USE_BUFFER : PS_USE_ACTIVATION);
  return *block != NULL || ps_cpu_no_room (stage, "gradients", n, error);
}

gboolean ps_cpu_slot_take_inherited (PsCpuStage *stage, PsOp op, guint layer, GError **error)
{
  const gsize n = ps_cpu_layer_inherited_size (&stage->context->sizes);
  PsCpuSlot *first = &stage->slots[op.microbatch * (guint)stage->context->sizes.slices];

  for (guint i = 0; i < op.slice; i++) {
    float **block = &first[i].layers[layer].inherited;

    if (*block != NULL)
      continue;
    if (!ps_cpu_take (stage, block, n, error))
      return FALSE;
    memset (*block, 0, n * sizeof (float));
  }
  return TRUE;
}
