/* database-migrate.c - brings databases of earlier versions to this one. */
#include "database.h"

#include "data-files.h"

#include <sqlite3.h>

gboolean
ps_database_can_migrate (const PsDatabaseKind *kind, gint64 version)
{
  return kind->migrations != NULL && version >= 1 && version < kind->version;
}

static gboolean
migrate_step (PsDatabase *db, gint64 version, GError **error)
{
  const char *script = ps_data_file_text (db->kind->migrations[version - 1]);
  g_autofree char *mark = g_strdup_printf ("PRAGMA user_version = %d", (int)version + 1);

  return ps_database_script (db, script, error) && ps_database_script (db, mark, error);
}

static gboolean
migrate_all (PsDatabase *db, GError **error)
{
  gint64 version;

  if (!ps_database_integer (db, "PRAGMA user_version", &version, error))
    return FALSE;
  for (; version < db->kind->version; version++)
    if (!migrate_step (db, version, error))
      return FALSE;
  return TRUE;
}

gboolean
ps_database_migrate (PsDatabase *db, GError **error)
{
  /* Tables are replaced by others of the same name; rows that refer to them must not be deleted with them. */
  if (!ps_database_script (db, "PRAGMA foreign_keys = OFF", error) || !ps_database_begin (db, error))
    return FALSE;
  return ps_database_end (db, migrate_all (db, error), error);
}

gboolean
ps_database_detach (PsDatabase *db, GError **error)
{
  sqlite3 *copy = NULL;
  int code = sqlite3_open_v2 (":memory:", &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE, NULL);
  sqlite3_backup *backup = code == SQLITE_OK ? sqlite3_backup_init (copy, "main", db->handle, "main") : NULL;

  if (backup != NULL)
    sqlite3_backup_step (backup, -1);
  code = backup != NULL ? sqlite3_backup_finish (backup) : sqlite3_errcode (copy);
  if (code == SQLITE_OK)
    {
      sqlite3_close (db->handle);
      db->handle = copy;
      ps_database_limit (db);
      return TRUE;
    }
  ps_database_set_error (db, code, error);
  sqlite3_close (copy);
  return FALSE;
}
