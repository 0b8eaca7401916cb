/* database-foreign.c - opens SQLite files of other programs, only to read them. */
#include "database.h"

#include <sqlite3.h>

PsDatabase *
ps_database_open_foreign (const char *path, GError **error)
{
  g_autoptr (PsDatabase) db = g_new0 (PsDatabase, 1);
  int code;

  db->path = g_strdup (path);
  db->name = g_strconcat (g_path_is_absolute (path) ? "" : "./", path, NULL);
  code = sqlite3_open_v2 (db->name, &db->handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
  if (code != SQLITE_OK)
    {
      ps_database_set_error (db, code, error);
      return NULL;
    }
  ps_database_limit (db);
  sqlite3_db_config (db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_db_config (db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  return g_steal_pointer (&db);
}
