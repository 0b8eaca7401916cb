/* source-given.c - costs as --costs gives them. */
#include <pipesim/setting.h>

static PsCosts *load (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  return ps_costs_parse (setting->costs, n_devices, n_chunks, error);
}

const PsCostSource ps_source_given = {
  .option = "costs",
  .offset = offsetof (PsSetting, costs),
  .usage = "--costs 'f=1ms,b=1ms,w=1ms'",
  .fields = "costs",
  .load = load,
};
