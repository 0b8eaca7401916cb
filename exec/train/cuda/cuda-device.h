/* cuda-device.h - the class that the module pipesim-cuda exports. */
#pragma once

#include <pipesim/device.h>

#include <gmodule.h>

/* The class "cuda": a transformer stage on an NVIDIA GPU. */
G_MODULE_EXPORT const PsDeviceClass *ps_cuda_device_class (void);
