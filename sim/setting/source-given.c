/* source-given.c - costs as --costs gives them. */
#include <pipesim/setting.h>

static PsCosts *load (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  g_autofree char *forward = g_strconcat (setting->costs, ",b=0,w=0", NULL);

  /* Prefill has no backward, so that f alone will do. */
  if (setting->serve != PS_SERVE_NONE && !g_regex_match_simple ("(^|,)(b|w|bw)=", setting->costs, 0, 0))
    return ps_costs_parse (forward, n_devices, n_chunks, error);
  return ps_costs_parse (setting->costs, n_devices, n_chunks, error);
}

const PsCostSource ps_source_given = {
  .option = "costs",
  .offset = offsetof (PsSetting, costs),
  .usage = "--costs 'f=1ms,b=1ms,w=1ms'",
  .fields = "costs",
  .load = load,
};
