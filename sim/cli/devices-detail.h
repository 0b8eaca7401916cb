/* devices-detail.h - what the JSON of predictions and searches says of each device. */
#pragma once

#include <pipesim/option.h>
#include <pipesim/timeline.h>

/* A row per device: busy_ns, span_ns, peak_memory_bytes, peak_activations. For a column "devices_detail". */
PsTable *ps_devices_detail (const PsMetrics *metrics);
