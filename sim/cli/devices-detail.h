/* devices-detail.h - what the JSON of predictions and searches says of each device. */
#ifndef PS_CLI_DEVICES_DETAIL_H
#define PS_CLI_DEVICES_DETAIL_H

#include <pipesim/report.h>

G_BEGIN_DECLS

/* A row per device: busy_ns, span_ns, peak_memory_bytes, peak_activations. For a column "devices_detail". */
PsTable *ps_devices_detail (const PsMetrics *metrics);

G_END_DECLS

#endif
