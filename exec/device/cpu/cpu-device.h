/* cpu-device.h - access to the weights of a cpu device. */
#ifndef PIPESIM_CPU_DEVICE_H
#define PIPESIM_CPU_DEVICE_H

#include <pipesim/device.h>

/* Returns the weights of a stage in the order of its gradients (see cpu-stage.h), for reading and changing; *n
 * elements. */
float *ps_cpu_device_weights (PsDevice *device, guint stage, gsize *n);

#endif
