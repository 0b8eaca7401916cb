/* families.c - the table of schedule families. */
#include "families/families-private.h"

static const PsFamily *const table[] = {
  &ps_family_naive, &ps_family_gpipe, &ps_family_1f1b, &ps_family_interleaved, &ps_family_zb_h1,
};

const PsFamily *const *
ps_family_table (guint *n)
{
  *n = G_N_ELEMENTS (table);
  return table;
}

const PsFamily *
ps_family_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (g_str_equal (table[i]->name, name))
      return table[i];
  return NULL;
}

/* Every microbatch has at most three ops on each stage. */
static gboolean
check_limits (const char *name, const PsFamilySetting *setting, GError **error)
{
  guint64 stages = (guint64) setting->n_devices * setting->n_chunks;
  if (setting->n_devices < 1 || setting->n_devices > PS_MAX_DEVICES)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %u devices; give 1 to %u", name, setting->n_devices, PS_MAX_DEVICES);
  else if (setting->n_chunks < 1 || stages > PS_MAX_STAGES)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %u chunks on %u devices; give 1 to %u stages in all", name,
                 setting->n_chunks, setting->n_devices, PS_MAX_STAGES);
  else if (setting->n_microbatches < 1 || stages * setting->n_microbatches * 3 > PS_MAX_OPS)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %u microbatches on %u stages; give 1 to %u", name, setting->n_microbatches,
                 (guint) stages, (guint) (PS_MAX_OPS / (stages * 3)));
  else
    return TRUE;
  return FALSE;
}

PsSchedule *
ps_family_generate (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  if (!check_limits (family->name, setting, error) || !family->check (setting, error))
    return NULL;
  return family->generate (setting);
}

gboolean
ps_family_check_one_chunk (const char *name, const PsFamilySetting *setting, GError **error)
{
  if (setting->n_chunks == 1)
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: has one chunk per device, not %u", name, setting->n_chunks);
  return FALSE;
}

PsScheduleBuilder *
ps_family_builder (const char *name, PsPlacementKind placement, const PsFamilySetting *setting)
{
  return ps_schedule_builder_new (name, ps_placement_new (placement, setting->n_devices, setting->n_chunks),
                                  setting->n_microbatches);
}
