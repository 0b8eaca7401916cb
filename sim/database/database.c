/* database.c - opens databases: creates new ones, refuses foreign ones. */
#include "database.h"

#include "data-files.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#define RETRY_US 2000
#define BUSY_TIMEOUT_MS 10000

void
ps_database_close (PsDatabase *db)
{
  if (db == NULL)
    return;
  sqlite3_close (db->handle);
  g_free (db->path);
  g_free (db->name);
  g_free (db);
}

char *
ps_database_library (void)
{
  return g_strdup_printf ("SQLite %s", sqlite3_libversion ());
}

static gboolean
check_file (const char *path, const PsDatabaseKind *kind, gboolean writes, GError **error)
{
  struct stat status;

  if (*path == '\0')
    return ps_refuse (error, PS_ERROR_USAGE, "'': names no file; give the path of a %s", kind->what);
  if (stat (path, &status) != 0)
    {
      if (writes && errno == ENOENT)
        return TRUE;
      return ps_refuse (error, PS_ERROR_IO, "%s: %s", path, g_strerror (errno));
    }
  if (!S_ISREG (status.st_mode))
    return ps_refuse (error, PS_ERROR_IO, "%s: %s", path,
                      S_ISDIR (status.st_mode) ? "is a directory" : "is not a plain file");
  if (status.st_size == 0 && !writes)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: is empty, not a %s", path, kind->what);
  return TRUE;
}

/* SQLite tries once more for reading, so the system's last error may be another one. */
static const char *
open_failure (PsDatabase *db, int code)
{
  g_autofree char *folder = g_path_get_dirname (db->path);

  if (faccessat (AT_FDCWD, folder, W_OK, AT_EACCESS) != 0)
    return g_strerror (errno);
  int cause = db->handle != NULL ? sqlite3_system_errno (db->handle) : ENOMEM;
  return cause ? g_strerror (cause) : sqlite3_errstr (code);
}

/* Opens db->name; also frees the handle that an earlier attempt left open. Attached databases may be URIs, too. */
static gboolean
open_handle (PsDatabase *db, int flags, GError **error)
{
  sqlite3_close (g_steal_pointer (&db->handle));
  int code = sqlite3_open_v2 (db->name, &db->handle,
                              flags | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);
  if (code != SQLITE_OK)
    return ps_refuse (error, PS_ERROR_IO, "%s: cannot be opened: %s", db->path, open_failure (db, code));
  sqlite3_busy_timeout (db->handle, BUSY_TIMEOUT_MS);
  ps_database_limit (db);
  return TRUE;
}

/* The kind of an existing file, before anything is written to it. */
typedef struct
{
  gint64 application;
  gint64 version;
  gint64 tables;
} Identity;

/* One statement reads all, because another process may create the tables meanwhile. */
static gboolean
read_identity (PsDatabase *db, Identity *identity, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (db, error,
                                         "SELECT application_id, user_version, (SELECT count (*) FROM sqlite_schema) "
                                         "FROM pragma_application_id, pragma_user_version",
                                         "");
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  g_assert (found);
  *identity = (Identity){ .application = ps_rows_integer (rows, 0),
                          .version = ps_rows_integer (rows, 1),
                          .tables = ps_rows_integer (rows, 2) };
  return TRUE;
}

static gboolean
identity_is_fresh (const Identity *identity)
{
  return identity->application == 0 && identity->version == 0 && identity->tables == 0;
}

/* Whether the program uses the file as it is. */
static gboolean
is_current (const PsDatabaseKind *kind, const Identity *identity)
{
  return identity->version == kind->version
         || (kind->oldest > 0 && identity->version >= kind->oldest && identity->version < kind->version);
}

static gboolean
check_identity (PsDatabase *db, const Identity *identity, GError **error)
{
  if (identity->application != db->kind->application_id)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: an SQLite database, but not a pipesim %s", db->path, db->kind->what);
  if (!is_current (db->kind, identity) && !ps_database_can_migrate (db->kind, identity->version))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: %s of version %" G_GINT64_FORMAT "; this pipesim knows version %d",
                      db->path, db->kind->what, identity->version, db->kind->version);
  return TRUE;
}

/* Finds files that were cut short, which would otherwise show only when the missing page is wanted. */
static gboolean
check_integrity (PsDatabase *db, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (db, error, "PRAGMA quick_check (1)", "");
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  g_autofree char *verdict = found ? ps_rows_text (rows, 0) : g_strdup ("no answer");
  if (g_str_equal (verdict, "ok"))
    return TRUE;
  g_strdelimit (verdict, "\n", ' ');
  return ps_refuse (error, PS_ERROR_INPUT, "%s: damaged: %s", db->path, verdict);
}

/* SQLite turns some of several processes that do this at the same time away at once, busy timeout or not. */
static gboolean
write_ahead (PsDatabase *db, GError **error)
{
  gint64 until = g_get_monotonic_time () + BUSY_TIMEOUT_MS * G_TIME_SPAN_MILLISECOND;
  g_autoptr (GError) failure = NULL;

  while (!ps_database_script (db, "PRAGMA journal_mode = WAL", &failure))
    {
      if ((sqlite3_errcode (db->handle) & 0xff) != SQLITE_BUSY || g_get_monotonic_time () > until)
        {
          g_propagate_error (error, g_steal_pointer (&failure));
          return FALSE;
        }
      g_clear_error (&failure);
      g_usleep (RETRY_US);
    }
  return TRUE;
}

/* Another process may create the same file at the same time: the second one finds it done. */
static gboolean
create_schema (PsDatabase *db, GError **error)
{
  const char *text = ps_data_file_text (db->kind->schema);
  g_autofree char *pages = g_strdup_printf ("PRAGMA page_size = %d", db->kind->page_bytes);
  Identity identity;

  if (db->kind->page_bytes > 0 && !ps_database_script (db, pages, error))
    return FALSE;
  if (!write_ahead (db, error) || !ps_database_begin (db, error))
    return FALSE;
  gboolean ok = read_identity (db, &identity, error);
  if (ok && identity_is_fresh (&identity))
    {
      g_autofree char *marks = g_strdup_printf ("PRAGMA application_id = %d; PRAGMA user_version = %d",
                                                db->kind->application_id, db->kind->version);
      g_autofree char *whole = db->kind->complete != NULL ? db->kind->complete (text) : NULL;

      ok = ps_database_script (db, whole != NULL ? whole : text, error) && ps_database_script (db, marks, error);
    }
  return ps_database_end (db, ok, error);
}

static gboolean
open_for_writing (PsDatabase *db, GError **error)
{
  Identity identity;

  if (!open_handle (db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error))
    return FALSE;
  if (sqlite3_db_readonly (db->handle, "main") == 1)
    return ps_refuse (error, PS_ERROR_IO, "%s: cannot be written to", db->path);
  if (!read_identity (db, &identity, error))
    return FALSE;
  if (identity_is_fresh (&identity) && (!create_schema (db, error) || !read_identity (db, &identity, error)))
    return FALSE;
  if (!check_identity (db, &identity, error) || (!is_current (db->kind, &identity) && !ps_database_migrate (db, error)))
    return FALSE;
  /* Commits survive the death of the process without waiting for the disk each time. */
  return ps_database_script (db, "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL", error);
}

/* A database in write-ahead mode wants to create files beside it even to be read. Where it may not, and no unfinished
 * log lies there, the file alone holds everything and does not change. */
static gboolean
open_immutable (PsDatabase *db, Identity *identity, GError **error)
{
  g_autofree char *log = g_strconcat (db->path, "-wal", NULL);
  g_autofree char *absolute = g_canonicalize_filename (db->path, NULL);
  g_autofree char *uri = g_filename_to_uri (absolute, NULL, error);
  struct stat status;

  if (uri == NULL)
    return FALSE;
  if (stat (log, &status) == 0 && status.st_size > 0)
    return ps_refuse (error, PS_ERROR_IO, "%s: %s has to be merged, but the directory cannot be written to", db->path,
                      log);
  g_free (db->name);
  db->name = g_strconcat (uri, "?immutable=1", NULL);
  return open_handle (db, SQLITE_OPEN_READONLY, error) && read_identity (db, identity, error);
}

/* Reading changes no file, so a file of an earlier version is migrated in a copy. */
static gboolean
migrate_copy (PsDatabase *db, GError **error)
{
  return ps_database_detach (db, error) && ps_database_migrate (db, error);
}

/* Opened for writing where that is allowed, though nothing is written: the last reader then clears away the log. */
static gboolean
open_for_reading (PsDatabase *db, GError **error)
{
  Identity identity = { 0 };
  g_autoptr (GError) failure = NULL;

  if (!open_handle (db, SQLITE_OPEN_READWRITE, error))
    return FALSE;
  if (!read_identity (db, &identity, &failure))
    {
      int code = sqlite3_errcode (db->handle) & 0xff;

      if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY)
        {
          g_propagate_error (error, g_steal_pointer (&failure));
          return FALSE;
        }
      if (!open_immutable (db, &identity, error))
        return FALSE;
    }
  return check_identity (db, &identity, error) && (is_current (db->kind, &identity) || migrate_copy (db, error))
         && ps_database_script (db, "PRAGMA query_only = ON", error);
}

PsDatabase *
ps_database_open (const char *path, const PsDatabaseKind *kind, gboolean writes, GError **error)
{
  if (!check_file (path, kind, writes, error))
    return NULL;
  g_autoptr (PsDatabase) db = g_new0 (PsDatabase, 1);
  db->path = g_strdup (path);
  db->name = g_strconcat (g_path_is_absolute (path) ? "" : "./", path, NULL);
  db->kind = kind;
  gboolean ok = writes ? open_for_writing (db, error) : open_for_reading (db, error);
  return ok && check_integrity (db, error) ? g_steal_pointer (&db) : NULL;
}
