/* source-database.c - costs as they were measured, by --db and --profile. */
#include "options.h"

#include <pipesim/setting.h>

/* Opens --db. *model: --model's; NULL where it is not given, so that the profile's own counts. */
static PsCostDb *open_with_model (const PsSetting *setting, PsModel **model, GError **error)
{
  *model = setting->model != NULL ? ps_setting_given_model (setting, error) : NULL;
  return *model != NULL || setting->model == NULL ? ps_costdb_open (setting->db, PS_COSTDB_READ, error) : NULL;
}

static PsCosts *load (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsModel) model = NULL;
  g_autoptr (PsCostDb) db = open_with_model (setting, &model, error);
  g_autoptr (PsCosts) costs = NULL;

  if (db != NULL && setting->n_tensor > 1 && setting->known_shapes == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "--tensor %u: the profile is of stages as they are, without a model",
                           setting->n_tensor);
  if (db != NULL)
    costs = ps_costdb_stage_costs (db, setting->profile, model, setting->known_shapes, n_devices, n_chunks,
                                   setting->op_by_op, MAX (setting->n_replicas, 1), error);
  /* Devices that compute keep the weights as they were before a step that is not final yet. */
  for (guint stage = 0; costs != NULL && setting->sync == PS_SYNC_BYPASS && stage < costs->n_stages; stage++)
    costs->stage[stage].weight_bytes += costs->stage[stage].version_bytes;
  return g_steal_pointer (&costs);
}

static PsCostSpread *spread (const PsSetting *setting, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsModel) model = NULL;
  g_autoptr (PsCostDb) db = open_with_model (setting, &model, error);

  return db != NULL ? ps_costdb_spread (db, setting->profile, model, setting->known_shapes, n_devices, n_chunks, error)
                    : NULL;
}

static PsModel *model (const PsSetting *setting, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (setting->db, PS_COSTDB_READ, error);

  return db != NULL ? ps_costdb_model (db, setting->profile, error) : NULL;
}

/* The digest is of the profiles, not of the file: SQLite changes the file whenever it is opened. */
static gboolean digest (const char *path, char **digest, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_READ, error);
  g_autoptr (GPtrArray) profiles = db != NULL ? ps_costdb_profiles (db, error) : NULL;
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);

  if (profiles == NULL)
    return FALSE;
  for (guint i = 0; i < profiles->len; i++) {
    const PsProfile *profile = profiles->pdata[i];
    g_autoptr (PsProfileContents) contents = ps_profile_contents_load (db, profile->name, FALSE, error);

    if (contents == NULL)
      return FALSE;
    g_autofree char *text = ps_profile_contents_to_text (contents);
    g_checksum_update (checksum, (const guchar *)text, -1);
  }
  *digest = g_strdup (g_checksum_get_string (checksum));
  return TRUE;
}

const PsCostSource ps_source_database = {
  .option = "db",
  .offset = offsetof (PsSetting, db),
  .usage = "--db FILE",
  .fields = "db",
  .needs
  = { { "profile", offsetof (PsSetting, profile), "db", offsetof (PsSetting, db), "the database that holds it" } },
  .has_model = TRUE,
  .load = load,
  .model = model,
  .digest = digest,
  .spread = spread,
};
