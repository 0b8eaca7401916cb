/* cpu-offload.h - moves what forwards have kept to other memory of the host, and back before their backwards. Nothing
 * overlaps: a copy takes the time of its op. For the stage itself alone. */
#pragma once

#include "cpu-slot.h"

/* Moves the stage's part of what a forward has kept, in whole blocks, the first layers' first: their backwards come
 * last. */
gboolean ps_cpu_offload (PsCpuStage *stage, PsCpuSlot *slot, GError **error);

/* Moves the blocks of a layer back. */
gboolean ps_cpu_fetch (PsCpuStage *stage, PsCpuLayerState *layer, GError **error);
