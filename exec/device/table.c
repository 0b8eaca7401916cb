/* table.c - the device classes of this build. */
#include "device/devices.h"

static const PsDeviceClass *const table[] = { &ps_cpu_device, &ps_paced_device, &ps_null_device };

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
  g_autoptr (GString) names = g_string_new (NULL);

  g_return_val_if_fail (name != NULL, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    {
      if (g_str_equal (table[i]->name, name))
        return table[i];
      g_string_append_printf (names, "%s%s", i > 0 ? ", " : "", table[i]->name);
    }
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "--device: unknown device '%s' (this build has %s)", name, names->str);
  return NULL;
}
