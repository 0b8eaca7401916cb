/* source-database.c - costs as they were measured, by --db and --profile. */
#include <pipesim/setting.h>

/* Devices that compute keep the weights as they were before a step that is not final yet. */
static void
keep_weights (PsCosts *costs)
{
  for (guint stage = 0; stage < costs->n_stages; stage++)
    costs->stage[stage].weight_bytes += costs->stage[stage].version_bytes;
}

static PsCosts *
load (const PsSetting *setting, const PsModel *model, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (setting->db, PS_COSTDB_READ, error);

  if (db != NULL && setting->n_tensor > 1 && setting->known_shapes == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "--tensor %u: the profile is of stages as they are, without a model",
                           setting->n_tensor);
  g_autoptr (PsCosts) costs = db != NULL ? ps_costdb_stage_costs (db, setting->profile, model, setting->known_shapes,
                                                                  n_devices, n_chunks, setting->op_by_op, error)
                                         : NULL;

  if (costs == NULL || !ps_costdb_set_reduce (db, setting->profile, costs, MAX (setting->n_replicas, 1), error))
    return NULL;
  if (setting->sync == PS_SYNC_BYPASS)
    keep_weights (costs);
  return g_steal_pointer (&costs);
}

static PsCostSpread *
spread (const PsSetting *setting, const PsModel *model, guint n_devices, guint n_chunks, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (setting->db, PS_COSTDB_READ, error);

  return db != NULL ? ps_costdb_spread (db, setting->profile, model, setting->known_shapes, n_devices, n_chunks, error)
                    : NULL;
}

static PsModel *
model (const PsSetting *setting, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (setting->db, PS_COSTDB_READ, error);

  return db != NULL ? ps_costdb_model (db, setting->profile, error) : NULL;
}

static void
add_measurement (GChecksum *checksum, const PsMeasurement *row)
{
  const gint64 figures[]
      = { row->subject, row->kind,           row->bytes,     row->devices,    row->sharing,    row->share,
          row->cache,   row->time.median_ns, row->launch_ns, row->take_bytes, row->give_bytes, row->state_bytes };

  g_checksum_update (checksum, (const guchar *)row->shape, -1);
  g_checksum_update (checksum, (const guchar *)figures, sizeof figures);
}

static gboolean
add_profile (GChecksum *checksum, PsCostDb *db, const PsProfile *profile, GError **error)
{
  g_autoptr (GPtrArray) rows = ps_costdb_measurements (db, profile->name, FALSE, error);

  if (rows == NULL)
    return FALSE;
  g_checksum_update (checksum, (const guchar *)profile->name, -1);
  g_checksum_update (checksum, (const guchar *)profile->model_digest, -1);
  g_checksum_update (checksum, (const guchar *)profile->shares, -1);
  for (guint i = 0; i < rows->len; i++)
    add_measurement (checksum, rows->pdata[i]);
  return TRUE;
}

/* The digest is of the measurements, not of the file: SQLite changes the file whenever it is opened. */
static gboolean
digest (const char *path, char **digest, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_READ, error);
  g_autoptr (GPtrArray) profiles = db != NULL ? ps_costdb_profiles (db, error) : NULL;
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);

  if (profiles == NULL)
    return FALSE;
  for (guint i = 0; i < profiles->len; i++)
    if (!add_profile (checksum, db, profiles->pdata[i], error))
      return FALSE;
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
