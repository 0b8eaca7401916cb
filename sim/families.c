/* families.c - the table of schedule families. */
#include "families/families-private.h"

static const PsFamily *const table[] = {
  &ps_family_naive,      &ps_family_gpipe,         &ps_family_1f1b,    &ps_family_eager_1f1b, &ps_family_interleaved,
  &ps_family_looped_bfs, &ps_family_zb_h1,         &ps_family_zb_h2,   &ps_family_zb_auto,    &ps_family_zb_v,
  &ps_family_zb_v_auto,  &ps_family_v_half,        &ps_family_v_min,   &ps_family_1f1b_v,     &ps_family_interleaved_zb,
  &ps_family_dualpipe,   &ps_family_dualpipe_v,    &ps_family_chimera, &ps_family_hanayo,     &ps_family_seq1f1b,
  &ps_family_pipedream,  &ps_family_pipedream_2bw,
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
  guint64 stages = (guint64)setting->n_devices * setting->n_chunks, cells = stages * 3 * setting->n_slices;
  if (setting->n_devices < 1 || setting->n_devices > PS_MAX_DEVICES)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %u devices; give 1 to %u", name, setting->n_devices,
                 PS_MAX_DEVICES);
  else if (setting->n_chunks < 1 || stages > PS_MAX_STAGES)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %u chunks on %u devices; give 1 to %u stages in all", name,
                 setting->n_chunks, setting->n_devices, PS_MAX_STAGES);
  else if (setting->n_microbatches < 1 || cells * setting->n_microbatches > PS_MAX_OPS)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %u microbatches on %u stages; give 1 to %u", name,
                 setting->n_microbatches, (guint)stages, (guint)(PS_MAX_OPS / cells));
  else
    return TRUE;
  return FALSE;
}

static gboolean
check_options (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  if (setting->n_slices > 1 && family->default_slices == 0)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: does not slice sequences, not into %u either", family->name,
                 setting->n_slices);
  else if (setting->n_slices > PS_MAX_SLICES)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: %u slices; give 1 to %u", family->name, setting->n_slices,
                 PS_MAX_SLICES);
  else if (setting->group_size != 0 && !family->groups)
    g_set_error (error, PS_ERROR, PS_ERROR_USAGE, "%s: has no groups of microbatches, not of %u either", family->name,
                 setting->group_size);
  else
    return TRUE;
  return FALSE;
}

PsSchedule *
ps_family_generate (const PsFamily *family, const PsFamilySetting *setting, GError **error)
{
  PsFamilySetting complete = *setting;
  if (complete.n_slices == 0)
    complete.n_slices = MAX (family->default_slices, 1);
  if (!check_limits (family->name, &complete, error) || !check_options (family, &complete, error)
      || !family->check (&complete, error))
    return NULL;
  return family->generate (&complete, error);
}

PsScheduleBuilder *
ps_family_builder (const char *name, PsPlacementKind placement, const PsFamilySetting *setting)
{
  return ps_schedule_builder_new (name, ps_placement_new (placement, setting->n_devices, setting->n_chunks),
                                  setting->n_microbatches);
}
