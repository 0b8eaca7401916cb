/* cuda-slot.c - blocks of a microbatch in flight. */
#include "cuda-slot.h"

#define WHAT "activations"

static void
give (PsCudaShared *shared, void **block)
{
  ps_device_memory_give (shared->memory, *block);
  *block = NULL;
}

/* 0 bytes: nothing to take. */
static gboolean
take (PsCudaShared *shared, void **block, gsize bytes, PsMemoryKind kind, GError **error)
{
  *block = bytes > 0 ? ps_cuda_shared_take (shared, bytes, kind, WHAT, error) : NULL;
  return bytes == 0 || *block != NULL;
}

static gboolean
take_layer_parts (PsCudaShared *shared, PsCudaLayerState *state, PsCudaPart first, PsCudaPart last, GError **error)
{
  for (guint part = first; part <= last; part++)
    if (!take (shared, &state->part[part], ps_cuda_layer_part_bytes (&shared->sizes, part), PS_MEMORY_ACTIVATION,
               error))
      return FALSE;
  return TRUE;
}

static gboolean
take_head_parts (PsCudaShared *shared, PsCudaHeadState *state, PsCudaHeadPart first, PsCudaHeadPart last,
                 GError **error)
{
  for (guint part = first; part <= last; part++)
    if (!take (shared, &state->part[part], ps_cuda_head_part_bytes (&shared->sizes, part), PS_MEMORY_ACTIVATION, error))
      return FALSE;
  return TRUE;
}

/* Where the residual stream's block in front of a layer is kept, and what it counts as there. */
static void **
stream_place (PsCudaSlot *slot, const PsStageShape *shape, guint layer, PsMemoryKind *kind)
{
  *kind = PS_MEMORY_ACTIVATION;
  if (layer < shape->n_layers)
    return &slot->layers[layer].part[PS_CUDA_X];
  if (shape->head)
    return &slot->head.part[PS_CUDA_HEAD_X];
  *kind = PS_MEMORY_BUFFER;
  return &slot->output;
}

void *
ps_cuda_slot_stream (const PsCudaSlot *slot, const PsStageShape *shape, guint layer)
{
  PsMemoryKind kind;

  return *stream_place ((PsCudaSlot *)slot, shape, layer, &kind);
}

/* The input where there is one, else new blocks. */
static gboolean
take_stream (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, void *input, GError **error)
{
  const gsize bytes = ps_cuda_sizes_boundary_bytes (&shared->sizes);
  gboolean ok = TRUE;

  for (guint layer = 0; ok && layer <= shape->n_layers; layer++)
    {
      PsMemoryKind kind;
      void **place = stream_place (slot, shape, layer, &kind);

      if (layer > 0 || input == NULL)
        ok = take (shared, place, bytes, kind, error);
      else
        {
          *place = input;
          ps_device_memory_retag (shared->memory, input, kind);
        }
    }
  return ok;
}

gboolean
ps_cuda_slot_begin (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, void *input, GError **error)
{
  gboolean ok;

  slot->layers = g_new0 (PsCudaLayerState, shape->n_layers + 1);
  ok = take_stream (slot, shared, shape, input, error);
  for (guint i = 0; ok && i < shape->n_layers; i++)
    ok = take_layer_parts (shared, &slot->layers[i], PS_CUDA_X + 1, PS_CUDA_G, error);
  if (ok && shape->head)
    ok = take_head_parts (shared, &slot->head, PS_CUDA_HEAD_X + 1, PS_CUDA_HEAD_LOGITS, error);
  if (!ok)
    ps_cuda_slot_empty (slot, shared, shape);
  return ok;
}

gboolean
ps_cuda_slot_backward (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape, guint layer, void *doutput,
                       void **dx, GError **error)
{
  const PsMemoryKind kind = layer == 0 && !shape->embedding ? PS_MEMORY_BUFFER : PS_MEMORY_ACTIVATION;
  const gsize bytes = ps_cuda_sizes_boundary_bytes (&shared->sizes);
  gboolean ok;

  if (layer == shape->n_layers)
    ok = take_head_parts (shared, &slot->head, PS_CUDA_HEAD_DNORMED, PS_CUDA_HEAD_DNORMED, error);
  else
    {
      slot->layers[layer].part[PS_CUDA_DOUTPUT] = doutput;
      ok = take_layer_parts (shared, &slot->layers[layer], PS_CUDA_DZ, PS_CUDA_DNORMED1, error);
    }
  return ok && take (shared, dx, bytes, kind, error);
}

void
ps_cuda_slot_end_backward (PsCudaSlot *slot, PsCudaShared *shared, guint layer)
{
  void **part = slot->layers[layer].part;

  if (part[PS_CUDA_DZ] != NULL)
    give (shared, &part[PS_CUDA_Z]);
  give (shared, &part[PS_CUDA_QKV]);
  give (shared, &part[PS_CUDA_LSE]);
}

void
ps_cuda_slot_empty (PsCudaSlot *slot, PsCudaShared *shared, const PsStageShape *shape)
{
  for (guint i = 0; slot->layers != NULL && i < shape->n_layers; i++)
    for (guint part = 0; part < PS_CUDA_N_PARTS; part++)
      give (shared, &slot->layers[i].part[part]);
  for (guint part = 0; part < PS_CUDA_N_HEAD_PARTS; part++)
    give (shared, &slot->head.part[part]);
  give (shared, &slot->output);
  give (shared, &slot->dembedding);
  g_clear_pointer (&slot->layers, g_free);
  slot->progress = PS_CUDA_EMPTY;
}
