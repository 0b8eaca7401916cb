/* cuda-nvml.h - clocks, temperature, power, reasons to run slower and direct links, from the management library that
 * comes with the driver. */
#pragma once

#include <pipesim/cluster.h>

/* Reads what libnvidia-ml.so.1 says of the GPU with that PCI bus id ("0000:07:00.0"). Unknown values stay zero; without
 * the library all do. From any thread. */
void ps_cuda_nvml_read (const char *bus_id, PsCondition *condition);

/* Returns the driver's own version, "580.95.05". NULL: there is no library, or it does not say. Free with g_free. From
 * any thread. */
char *ps_cuda_nvml_driver (void);

/* Returns the direct links of that GPU, "0000:3b:00.0*4,switch*2" (pipesim/costdb.h); "": there are none, or it is not
 * known. Free with g_free. From any thread. */
char *ps_cuda_nvml_links (const char *bus_id);
