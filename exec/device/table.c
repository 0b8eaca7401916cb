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

/* Keeps all that is made of it within 64 bits. */
#define MAX_SHARE 1000000

guint *
ps_device_shares_parse (const PsDeviceClass *class, const char *where, const char *text, guint n, GError **error)
{
  g_auto (GStrv) items = g_strsplit (text, ",", -1);
  g_autofree guint *shares = g_new (guint, n);
  guint n_items = g_strv_length (items);

  if (!class->splits)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: device %s does not split an accelerator", where, class->name);
  else if (n_items != n)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: '%s' has %u shares for %u devices", where, text, n_items, n);
  if (!class->splits || n_items != n)
    return NULL;
  for (guint i = 0; i < n; i++)
    {
      gint64 share;

      if (!ps_parse_integer (where, items[i], 1, MAX_SHARE, &share, error))
        return NULL;
      shares[i] = (guint)share;
    }
  return g_steal_pointer (&shares);
}
