/* table.c - the device classes of this build. */
#include "device/devices.h"

static const PsDeviceClass *const table[] = { &ps_cpu_device, &ps_cuda_device, &ps_paced_device, &ps_null_device };

const PsDeviceClass *const *
ps_device_table (guint *n)
{
  g_return_val_if_fail (n != NULL, NULL);

  *n = G_N_ELEMENTS (table);
  return table;
}

const PsDeviceClass *
ps_device_find (const char *name, GError **error)
{
  g_return_val_if_fail (name != NULL, NULL);

  return ps_table_find ("--device", "device", name, table, G_N_ELEMENTS (table), error);
}
