/* costdb-profiles.c - finds a profile by its name, and the model that it was measured with. */
#include "costdb-private.h"

#include <string.h>

/* The last calibration has its number only when that is asked for. */
static gboolean
is_named (const PsProfile *profile, const char *name)
{
  g_autofree char *numbered = g_strdup_printf ("%s#%u", profile->name, profile->number);

  return g_str_equal (profile->name, name) || g_str_equal (numbered, name);
}

const PsProfile *
ps_costdb_choose_profile (PsCostDb *db, GPtrArray *profiles, const char *name, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  const PsProfile *first = profiles->len > 0 ? profiles->pdata[0] : NULL;
  const PsProfile *last = first != NULL ? profiles->pdata[profiles->len - 1] : NULL;

  if (name == NULL && first != NULL && ps_profile_is_same (first, last))
    return last;
  for (guint i = 0; i < profiles->len; i++)
    {
      const PsProfile *profile = profiles->pdata[i];

      if (name != NULL && is_named (profile, name))
        return profile;
      g_ptr_array_add (names, profile->name);
    }
  g_ptr_array_add (names, NULL);
  g_autofree char *known = g_strjoinv (", ", (char **)names->pdata);
  if (profiles->len == 0)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
                 "%s: holds no profile yet; measure one with: pipesim calib run --db %s --profile NAME --model FILE",
                 db->file->path, db->file->path);
  else if (name != NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: no profile '%s'; there are: %s", db->file->path, name, known);
  else
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: several profiles; choose one with --profile: %s", db->file->path,
                 known);
  return NULL;
}

PsModel *
ps_costdb_stored_model (PsCostDb *db, const PsProfile *profile, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s: profile '%s'", db->file->path, profile->name);

  return ps_model_parse (where, profile->model_text, strlen (profile->model_text), error);
}

gboolean
ps_costdb_check_model (PsCostDb *db, const PsProfile *profile, const PsModel *model, GError **error)
{
  g_autofree char *digest = ps_model_digest (model);

  if (g_str_equal (digest, profile->model_digest))
    return TRUE;
  if (*profile->model_text == '\0')
    return ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' is of stages, and says nothing about model '%s'",
                      db->file->path, profile->name, model->name);
  g_autoptr (PsModel) stored = ps_costdb_stored_model (db, profile, error);
  if (stored == NULL)
    return FALSE;
  if (stored->precision != model->precision)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' was measured with precision = %s, not %s",
                      db->file->path, profile->name, ps_precision_name (stored->precision),
                      ps_precision_name (model->precision));
  return ps_refuse (error, PS_ERROR_INPUT,
                    "%s: profile '%s' was measured with another model than '%s' (its '%s' differs in some figure)",
                    db->file->path, profile->name, model->name, profile->model_name);
}

PsModel *
ps_costdb_model (PsCostDb *db, const char *profile_name, GError **error)
{
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (db, error);
  const PsProfile *profile = profiles != NULL ? ps_costdb_choose_profile (db, profiles, profile_name, error) : NULL;

  if (profile != NULL && *profile->model_text == '\0')
    ps_refuse (error, PS_ERROR_INPUT, "%s: profile '%s' is of stages, without a model", db->file->path, profile->name);
  return profile != NULL && *profile->model_text != '\0' ? ps_costdb_stored_model (db, profile, error) : NULL;
}

PsProfile *
ps_costdb_profile (PsCostDb *db, const char *name, GError **error)
{
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (db, error);
  const PsProfile *profile = profiles != NULL ? ps_costdb_choose_profile (db, profiles, name, error) : NULL;
  guint place;

  return profile != NULL && g_ptr_array_find (profiles, profile, &place) ? g_ptr_array_steal_index (profiles, place)
                                                                         : NULL;
}
