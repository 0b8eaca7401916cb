/* cpu-device.h - access to the weights of a cpu device. */
#pragma once

#include <pipesim/device.h>

/* Returns the weights of a stage in the order of its gradients (see cpu-stage.h), for reading and changing; *n
 * elements. */
float *ps_cpu_device_weights (PsDevice *device, guint stage, gsize *n);
