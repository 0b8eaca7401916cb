/* cpu-rig.h - a cpu device that holds all stages of a small model, for tests. */
#pragma once

#include "device-rig.h"

static const PsDeviceClass *const class = &ps_cpu_device;

static inline void rig_init (Rig *rig, PsModel model, guint n_stages, guint n_microbatches)
{
  rig_open (rig, class, model, n_stages, n_microbatches);
}
