/* host-rig.h - a device class of tests whose tensors lie in the host's memory. */
#pragma once

#include "error-rig.h"

#include <pipesim/device.h>

typedef struct {
  PsDevice base;
  gsize bytes; /* of its tensors */
  gint live;   /* tensors that have not been freed; atomic */
} HostDevice;

static inline PsTensor *host_tensor_new (PsDevice *device)
{
  gsize bytes = ((HostDevice *)device)->bytes;
  PsTensor *tensor = g_new0 (PsTensor, 1);

  g_atomic_int_inc (&((HostDevice *)device)->live);
  *tensor = (PsTensor){ .device = device, .bytes = bytes, .data = g_malloc0 (bytes) };
  return tensor;
}

static inline void host_tensor_free (PsTensor *tensor)
{
  g_atomic_int_add (&((HostDevice *)tensor->device)->live, -1);
  g_free (tensor->data);
  g_free (tensor);
}

static const PsDeviceClass host_class
    = { .name = "host", .tensor_new = host_tensor_new, .tensor_free = host_tensor_free };
