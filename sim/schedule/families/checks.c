/* checks.c - constraints that several families share, and the builder that all of them fill. */
#include "families-private.h"

gboolean
ps_family_check_one_chunk (const char *name, const PsFamilySetting *setting, GError **error)
{
  if (setting->n_chunks == 1)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: has one chunk per device, not %u", name, setting->n_chunks);
}

gboolean
ps_family_check_two_chunks (const char *name, const PsFamilySetting *setting, GError **error)
{
  if (setting->n_chunks == 2)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: has two chunks per device, not %u", name, setting->n_chunks);
}

gboolean
ps_family_check_multiple (const char *name, const char *things, guint n, guint unit, GError **error)
{
  guint below = n / unit * unit;

  if (below == n)
    return TRUE;
  if (below == 0)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: %u %s; give a multiple of %u, the least is %u", name, n, things, unit,
                      unit);
  return ps_refuse (error, PS_ERROR_USAGE, "%s: %u %s; give a multiple of %u, %u or %u", name, n, things, unit, below,
                    below + unit);
}

gboolean
ps_family_check_microbatches (const char *name, const PsFamilySetting *setting, guint least, const char *why,
                              GError **error)
{
  if (setting->n_microbatches >= least)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: %u microbatches on %u devices; give at least %u, %s", name,
                    setting->n_microbatches, setting->n_devices, least, why);
}

PsScheduleBuilder *
ps_family_builder (const char *name, PsPlacementKind placement, const PsFamilySetting *setting)
{
  PsScheduleBuilder *builder = ps_schedule_builder_new (
      name, ps_placement_new (placement, setting->n_devices, setting->n_chunks), setting->n_microbatches);

  ps_schedule_builder_reserve (builder, PS_FAMILY_OPS * setting->n_devices * setting->n_chunks * setting->n_microbatches
                                            * setting->n_slices);
  return builder;
}
