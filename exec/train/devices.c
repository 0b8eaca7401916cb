/* devices.c - the device classes of this build. A row without hooks stands for the class of the same name in a module.
 */
#include "train/devices.h"

#include "module.h"

static const PsDeviceClass cuda_row = {
  .name = "cuda",
  .description = "a real transformer stage on an NVIDIA GPU or a part of one, fp32 or bf16",
};
static const PsDeviceClass *const table[] = { &ps_cpu_device, &cuda_row, &ps_paced_device, &ps_null_device };

const PsDeviceClass *const *ps_device_table (guint *n)
{
  g_return_val_if_fail (n != NULL, NULL);

  *n = G_N_ELEMENTS (table);
  return table;
}

const PsDeviceClass *ps_device_find (const char *name, GError **error)
{
  g_return_val_if_fail (name != NULL, NULL);

  const PsDeviceClass *row = ps_table_find ("--device", "device", name, table, G_N_ELEMENTS (table), error);
  return row == NULL || row->open != NULL ? row : ps_module_class (name, "device", error);
}

guint *ps_device_shares_parse (const PsDeviceClass *class, const char *where, const char *text, guint n, GError **error)
{
  guint n_shares;

  if (!class->splits)
    return ps_refuse_null (error, PS_ERROR_USAGE, "%s: device %s does not split an accelerator", where, class->name);
  g_autofree guint *shares = ps_shares_parse (where, text, &n_shares, error);
  if (shares == NULL || n_shares == n)
    return g_steal_pointer (&shares);
  return ps_refuse_null (error, PS_ERROR_USAGE, "%s: '%s' has %u shares for %u devices", where, text, n_shares, n);
}
