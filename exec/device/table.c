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

guint *
ps_device_shares_parse (const PsDeviceClass *class, const char *where, const char *text, guint n, GError **error)
{
  g_autofree guint *shares = NULL;
  guint n_shares;

  if (!class->splits)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: device %s does not split an accelerator", where, class->name);
      return NULL;
    }
  shares = ps_shares_parse (where, text, &n_shares, error);
  if (shares == NULL || n_shares == n)
    return g_steal_pointer (&shares);
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: '%s' has %u shares for %u devices", where, text, n_shares, n);
  return NULL;
}
