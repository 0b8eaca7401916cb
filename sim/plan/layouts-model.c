/* layouts-model.c - the model that a question is about, and the profiles that were measured with it. */
#include "layouts-private.h"

#include <pipesim/costdb.h>

#include <string.h>

gboolean
ps_layout_check_name (const char *option, const char *name, GError **error)
{
  if (name == NULL || strpbrk (name, ",;#\r\n") == NULL)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' has one of , ; # or a line end in it; %s would be right", option,
                    name,
                    g_file_test (name, G_FILE_TEST_EXISTS) ? "another name of the file" : "one name without them");
}

static gboolean
is_same_model (const PsModel *a, const PsModel *b)
{
  g_autoptr (PsModel) x = ps_model_copy (a), y = ps_model_copy (b);
  g_autofree char *x_digest = NULL, *y_digest = NULL;

  x->microbatch_size = y->microbatch_size = 1;
  x_digest = ps_model_digest (x);
  y_digest = ps_model_digest (y);
  return g_str_equal (x_digest, y_digest);
}

/* Adds the profile if it was measured with *model; without a model the first profile's becomes it. A profile of another
 * model is skipped if --model was given, and refused else. */
static gboolean
add_profile (PsCostDb *db, const char *name, const char *where, gboolean given, PsModel **model, GString *names,
             GError **error)
{
  g_autoptr (PsModel) own = ps_costdb_model (db, name, error);

  if (own == NULL || !ps_layout_check_name ("--profile", name, error))
    return FALSE;
  if (*model == NULL)
    *model = ps_model_copy (own);
  if (is_same_model (own, *model))
    g_string_append_printf (names, "%s%s", names->len ? ", " : "", name);
  else if (!given)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--profile: missing; %s holds profiles of several models, '%s' and '%s' among them", where,
                      (*model)->name, own->name);
  return TRUE;
}

/* TRUE: it is the last calibration of its profile, and its model is known. */
static gboolean
is_listed (GPtrArray *profiles, guint i)
{
  const PsProfile *profile = profiles->pdata[i];

  return *profile->model_text != '\0'
         && (i + 1 == profiles->len || !ps_profile_is_same (profile, profiles->pdata[i + 1]));
}

/* Lists all profiles of one model, which differ in the size of microbatches, or the one asked for. */
static gboolean
list_profiles (PsLayoutSpace *space, PsCostDb *db, PsModel **model, GError **error)
{
  const PsLayoutQuestion *question = space->question;
  g_autoptr (GString) names = g_string_new (NULL);
  gboolean given = *model != NULL;

  if (question->profile != NULL && !add_profile (db, question->profile, question->db, given, model, names, error))
    return FALSE;
  g_autoptr (GPtrArray) profiles = question->profile == NULL ? ps_costdb_profiles (db, error) : NULL;
  if (question->profile == NULL && profiles == NULL)
    return FALSE;
  for (guint i = 0; profiles != NULL && i < profiles->len; i++)
    if (is_listed (profiles, i)
        && !add_profile (db, ((PsProfile *)profiles->pdata[i])->name, question->db, given, model, names, error))
      return FALSE;
  space->profiles = g_string_free (g_steal_pointer (&names), FALSE);
  if (*space->profiles)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "--db: %s holds no profile of %s%s%s%s", question->db,
                    given ? "model '" : "any model", given ? (*model)->name : "", given ? "' with precision = " : "",
                    given ? ps_precision_name ((*model)->precision) : "");
}

PsModel *
ps_layout_space_load_model (PsLayoutSpace *space, GError **error)
{
  const PsLayoutQuestion *question = space->question;
  g_autoptr (PsModel) model = NULL;
  g_autoptr (PsCostDb) db = NULL;

  if (question->model != NULL)
    {
      model = ps_model_load (question->model, error);
      if (model == NULL || !ps_model_set_precision (model, "--precision", question->precision, error))
        return NULL;
    }
  if (question->db != NULL)
    {
      db = ps_costdb_open (question->db, PS_COSTDB_READ, error);
      if (db == NULL || !list_profiles (space, db, &model, error))
        return NULL;
    }
  return g_steal_pointer (&model);
}
