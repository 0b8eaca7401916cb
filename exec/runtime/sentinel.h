/* sentinel.h - one op that is timed again and again: F of one layer on a whole accelerator while nothing else is busy,
 * so that its time does not depend on how devices share it. If its time changes, the machine has changed. */
#pragma once

#include <pipesim/device.h>

/* Takes a sample, elapsed_ns after the first op began. FALSE: it was the last one. */
typedef gboolean (*PsSentinelSample) (gpointer data, gint64 ns, gint64 elapsed_ns);

/* Times the op in a thread of its own. setting: of the device, with PS_LAYER_STAGES stages. choices: the device adopts
 * them first; NULL: none. Errors begin with "sentinel: ". */
gboolean ps_sentinel_run (const PsDeviceClass *class, const PsDeviceSetting *setting, GBytes *choices,
                          PsSentinelSample sample, gpointer data, GError **error);

#define PS_SENTINEL_OP "F of layers=1" /* PsSentinel.what */
