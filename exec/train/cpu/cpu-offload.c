/* cpu-offload.c - copies blocks between the device's memory and the host's. */
#include "cpu-offload.h"

#include <string.h>

/* A block of a layer that can move. */
typedef struct {
  float **block; /* in the device's memory */
  float **host;  /* or where it has moved to */
  gsize n;
} Movable;

#define N_MOVABLE 4

static void find_movable (const PsCpuStage *stage, PsCpuLayerState *layer, Movable movable[N_MOVABLE])
{
  const PsCpuSizes *sizes = &stage->context->sizes;
  float **const blocks[N_MOVABLE] = { &layer->input, &layer->keep, &layer->late, &layer->scores };
  const gsize n[N_MOVABLE] = { ps_cpu_sizes_boundary (sizes), ps_cpu_layer_keep_size (sizes),
                               ps_cpu_layer_late_size (sizes), ps_cpu_layer_scores_size (sizes, 0) };

  for (guint i = 0; i < N_MOVABLE; i++)
    movable[i] = (Movable){ .block = blocks[i], .host = &layer->host[i], .n = n[i] };
}

static gsize count_kept (const PsCpuStage *stage, const PsCpuSlot *slot)
{
  Movable movable[N_MOVABLE];
  gsize sum = 0;

  for (guint i = 0; i < stage->shape.n_layers; i++) {
    find_movable (stage, &slot->layers[i], movable);
    for (guint k = 0; k < N_MOVABLE; k++)
      sum += *movable[k].block != NULL ? movable[k].n : 0;
  }
  return sum;
}

/* Moves blocks of a layer as long as *room has floats for them. */
static gboolean move_layer (PsCpuStage *stage, PsCpuLayerState *layer, gsize *room, GError **error)
{
  Movable movable[N_MOVABLE];

  find_movable (stage, layer, movable);
  for (guint i = 0; i < N_MOVABLE; i++) {
    const Movable *one = &movable[i];

    if (*one->block == NULL || one->n > *room)
      continue;
    *one->host = ps_cpu_memory_take (stage->context->host, one->n, PS_USE_ACTIVATION);
    if (*one->host == NULL)
      return ps_cpu_no_room (stage, "activations that move to the host", one->n, error);
    memcpy (*one->host, *one->block, one->n * sizeof (float));
    ps_cpu_give (stage, one->block);
    *room -= one->n;
  }
  return TRUE;
}

gboolean ps_cpu_offload (PsCpuStage *stage, PsCpuSlot *slot, GError **error)
{
  const double ratio = stage->shape.offload;
  gsize room = ratio > 0 ? (gsize)(ratio * (double)count_kept (stage, slot)) : 0;
  gboolean done = TRUE;

  for (guint i = 0; room > 0 && done && i < stage->shape.n_layers; i++)
    done = move_layer (stage, &slot->layers[i], &room, error);
  return done;
}

gboolean ps_cpu_fetch (PsCpuStage *stage, PsCpuLayerState *layer, GError **error)
{
  Movable movable[N_MOVABLE];

  find_movable (stage, layer, movable);
  for (guint i = 0; i < N_MOVABLE; i++) {
    const Movable *one = &movable[i];

    if (*one->host == NULL)
      continue;
    if (!ps_cpu_take (stage, one->block, one->n, error))
      return FALSE;
    memcpy (*one->block, *one->host, one->n * sizeof (float));
    ps_memory_pool_give (stage->context->host, g_steal_pointer (one->host));
  }
  return TRUE;
}
