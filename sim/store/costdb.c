/* costdb.c - the cost database among the databases. */
#include "costdb-private.h"
#include "base/names.h"

static const PsDatabaseKind kind = {
  .what = "cost database",
  .schema = "schema.sql",
  .application_id = 0x50534442, /* "PSDB" */
  .version = PS_COSTDB_VERSION,
};

void
ps_costdb_close (PsCostDb *db)
{
  if (db == NULL)
    return;
  ps_database_close (db->file);
  g_free (db);
}

char *
ps_costdb_library (void)
{
  return ps_database_library ();
}

PsCostDb *
ps_costdb_open (const char *path, PsCostDbMode mode, GError **error)
{
  PsDatabase *file = ps_database_open (path, &kind, mode == PS_COSTDB_WRITE, error);

  if (file == NULL)
    return NULL;
  PsCostDb *db = g_new0 (PsCostDb, 1);
  db->file = file;
  return db;
}

PS_DEFINE_NAMES (PsSubject, ps_subject, "op", "transfer", "self-send", "all-reduce", "pair", "host")
PS_DEFINE_NAMES (PsCacheState, ps_cache_state, "run", "cold", "warm")

static gboolean
is_same (const PsMeasurement *a, const PsMeasurement *b)
{
  return a->subject == b->subject && a->kind == b->kind && g_str_equal (a->shape, b->shape) && a->bytes == b->bytes
         && a->devices == b->devices && MAX (a->sharing, 1) == MAX (b->sharing, 1) && a->share == b->share
         && a->cache == b->cache;
}

const PsMeasurement *
ps_measurement_find (GPtrArray *measurements, const PsMeasurement *key)
{
  for (guint i = 0; i < measurements->len; i++)
    if (is_same (measurements->pdata[i], key))
      return measurements->pdata[i];
  return NULL;
}
