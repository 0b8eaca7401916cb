/* costdb.c - the cost database among the databases. */
#include "costdb-private.h"

static const char *const migrations[PS_COSTDB_VERSION - 1]
    = { "/pipesim/data/schema-1-to-2.sql", "/pipesim/data/schema-2-to-3.sql" };

static const PsDatabaseKind kind = {
  .what = "cost database",
  .schema = "/pipesim/data/schema.sql",
  .application_id = 0x50534442, /* "PSDB" */
  .version = PS_COSTDB_VERSION,
  .migrations = migrations,
};

void
ps_costdb_close (PsCostDb *db)
{
  if (!db)
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
  if (!file)
    return NULL;
  PsCostDb *db = g_new0 (PsCostDb, 1);
  db->file = file;
  return db;
}

static const char *const subjects[PS_N_SUBJECTS] = { "op", "transfer", "self-send" };
static const char *const cache_states[PS_N_CACHE_STATES] = { "run", "cold", "warm" };

const char *
ps_subject_name (PsSubject subject)
{
  return subjects[subject];
}

gboolean
ps_subject_parse (const char *where, const char *text, PsSubject *subject, GError **error)
{
  return ps_parse_name (where, text, subjects, PS_N_SUBJECTS, subject, error);
}

const char *
ps_cache_state_name (PsCacheState state)
{
  return cache_states[state];
}

gboolean
ps_cache_state_parse (const char *where, const char *text, PsCacheState *state, GError **error)
{
  return ps_parse_name (where, text, cache_states, PS_N_CACHE_STATES, state, error);
}
