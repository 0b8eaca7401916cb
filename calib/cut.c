/* cut.c - a model cut into the stages of a pipeline. */
#include "cut.h"

PsCut *
ps_cut_new (const PsModel *model, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsCut) cut = g_new0 (PsCut, 1);
  cut->n_devices = n_devices;
  cut->n_chunks = n_chunks;
  cut->n_stages = n_devices * n_chunks;
  cut->shapes = g_new0 (PsStageShape, cut->n_stages);
  if (!ps_model_split (model, cut->n_stages, cut->shapes, error))
    return NULL;
  cut->keys = g_new0 (char *, cut->n_stages + 1);
  for (guint s = 0; s < cut->n_stages; s++)
    cut->keys[s] = ps_stage_shape_key (&cut->shapes[s]);
  return g_steal_pointer (&cut);
}

void
ps_cut_free (PsCut *cut)
{
  if (!cut)
    return;
  g_free (cut->shapes);
  g_strfreev (cut->keys);
  g_free (cut);
}

gboolean
ps_cut_check_shares (const PsCut *cut, const guint *shares, GError **error)
{
  for (guint s = 0; shares && s < cut->n_stages; s++)
    {
      guint owner = ps_cut_owner (cut, cut->keys[s]), device = s % cut->n_devices;
      if (shares[owner] == shares[device])
        continue;
      g_set_error (error, PS_ERROR, PS_ERROR_USAGE,
                   "--sm-shares: devices %u and %u hold stages of the same shape (%s) and unequal shares: a profile "
                   "keeps one time for each shape",
                   owner, device, cut->keys[s]);
      return FALSE;
    }
  return TRUE;
}

guint
ps_cut_owner (const PsCut *cut, const char *key)
{
  guint owner = cut->n_devices;
  for (guint s = 0; s < cut->n_stages; s++)
    if (g_str_equal (cut->keys[s], key))
      owner = MIN (owner, s % cut->n_devices);
  return owner;
}
