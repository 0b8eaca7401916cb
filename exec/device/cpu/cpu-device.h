/* cpu-device.h - what only the cpu device can show. */
#ifndef PIPESIM_CPU_DEVICE_H
#define PIPESIM_CPU_DEVICE_H

#include <pipesim/device.h>

/* The weights of a stage in the order of its gradients (see cpu-stage.h), for reading and changing; *n elements. */
float *ps_cpu_device_weights (PsDevice *device, guint stage, gsize *n);

#endif
