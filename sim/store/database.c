/* database.c - opens databases: creates new ones, refuses foreign ones and those of other versions. Runs statements. */
#include "database.h"
#include "base/files.h"

#include <pipesim/costdb.h>

#include <sqlite3.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Statements, rows and transactions of a database. */

struct _PsRows {
  PsDatabase *db;
  sqlite3_stmt *statement;
  guint64 ticks;
};

/* A tick is so many steps of SQLite's machine. */
#define TICK 1000000
#define TICKS 100
#define STEPS_PER_BYTE 200

/* Bytes of the file, and of one that is attached to it for ps_results_merge. */
static guint64 size_of (const PsDatabase *db)
{
  const char *paths[] = { db->path, sqlite3_db_filename (db->handle, "other") };
  struct stat status;
  guint64 size = 0;

  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    if (paths[i] != NULL && stat (paths[i], &status) == 0)
      size += (guint64)status.st_size;
  return size;
}

static int count_tick (gpointer data)
{
  PsDatabase *db = data;

  return db->ticks != NULL && ++*db->ticks > TICKS && *db->ticks > TICKS + size_of (db) * STEPS_PER_BYTE / TICK;
}

/* Lets no statement go on without end: views and triggers of a file may be anyone's. Each has as many steps as a file
 * of that size can need, and a second's worth more; then it fails with PS_ERROR_INPUT. */
static void database_limit (PsDatabase *db)
{
  sqlite3_progress_handler (db->handle, TICK, count_tick, db);
}

/* Sets PS_ERROR_IO or PS_ERROR_INPUT from an SQLite result code other than SQLITE_OK. Returns FALSE. */
static gboolean database_set_error (PsDatabase *db, int code, GError **error)
{
  static const struct {
    int code;
    PsError kind;
    const char *message; /* NULL: SQLite's */
  } rows[] = { { SQLITE_BUSY, PS_ERROR_IO, "in use by another program" },
               { SQLITE_LOCKED, PS_ERROR_IO, "in use by another program" },
               { SQLITE_NOTADB, PS_ERROR_INPUT, "not an SQLite database" },
               { SQLITE_CORRUPT, PS_ERROR_INPUT, NULL },
               { SQLITE_CONSTRAINT, PS_ERROR_INPUT, NULL },
               { SQLITE_INTERRUPT, PS_ERROR_INPUT, "its views take more steps than a file of its size can need" },
               { SQLITE_OK, PS_ERROR_IO, NULL } };
  guint i = 0;

  while (rows[i].code != SQLITE_OK && rows[i].code != (code & 0xff))
    i++;
  return ps_refuse (error, rows[i].kind, "%s: %s%s", db->path,
                    rows[i].code == SQLITE_CORRUPT ? "damaged or cut short: " : "",
                    rows[i].message != NULL ? rows[i].message : sqlite3_errmsg (db->handle));
}

gboolean ps_database_script (PsDatabase *db, const char *sql, GError **error)
{
  guint64 ticks = 0;

  db->ticks = &ticks;
  int code = sqlite3_exec (db->handle, sql, NULL, NULL, NULL);
  db->ticks = NULL;
  return code == SQLITE_OK || database_set_error (db, code, error);
}

static PsRows *rows_new (PsDatabase *db, GError **error, const char *sql, const char *types, va_list arguments)
{
  g_autoptr (PsRows) rows = g_new0 (PsRows, 1);

  rows->db = db;
  int code = sqlite3_prepare_v2 (db->handle, sql, -1, &rows->statement, NULL);
  for (int i = 0; types[i] && code == SQLITE_OK; i++)
    if (types[i] == 's')
      code = sqlite3_bind_text (rows->statement, i + 1, va_arg (arguments, const char *), -1, SQLITE_TRANSIENT);
    else
      code = sqlite3_bind_int64 (rows->statement, i + 1, va_arg (arguments, gint64));
  if (code == SQLITE_OK)
    return g_steal_pointer (&rows);
  database_set_error (db, code, error);
  return NULL;
}

PsRows *ps_rows_new (PsDatabase *db, GError **error, const char *sql, const char *types, ...)
{
  va_list arguments;

  va_start (arguments, types);
  PsRows *rows = rows_new (db, error, sql, types, arguments);
  va_end (arguments);
  return rows;
}

void ps_rows_free (PsRows *rows)
{
  if (rows == NULL)
    return;
  sqlite3_finalize (rows->statement);
  g_free (rows);
}

gboolean ps_rows_next (PsRows *rows, gboolean *found, GError **error)
{
  rows->db->ticks = &rows->ticks;
  int code = sqlite3_step (rows->statement);
  rows->db->ticks = NULL;

  *found = code == SQLITE_ROW;
  return *found || code == SQLITE_DONE || database_set_error (rows->db, code, error);
}

GPtrArray *ps_rows_collect (PsRows *rows, PsRowReader read, gpointer data, GDestroyNotify free_item, GError **error)
{
  g_autoptr (GPtrArray) items = g_ptr_array_new_with_free_func (free_item);
  gboolean found = rows != NULL;
  gpointer item;

  while (found) {
    if (!ps_rows_next (rows, &found, error))
      return NULL;
    if (!found)
      break;
    item = read (rows, data, error);
    if (item == NULL)
      return NULL;
    g_ptr_array_add (items, item);
  }
  return rows != NULL ? g_steal_pointer (&items) : NULL;
}

gint64 ps_rows_integer (PsRows *rows, int column)
{
  return sqlite3_column_int64 (rows->statement, column);
}

double ps_rows_real (PsRows *rows, int column)
{
  return sqlite3_column_double (rows->statement, column);
}

gboolean ps_rows_is_null (PsRows *rows, int column)
{
  return sqlite3_column_type (rows->statement, column) == SQLITE_NULL;
}

void ps_rows_repeat (PsRows *rows)
{
  sqlite3_reset (rows->statement);
  rows->ticks = 0;
}

void ps_rows_set_null (PsRows *rows, int parameter)
{
  sqlite3_bind_null (rows->statement, parameter + 1);
}

void ps_rows_set_integer (PsRows *rows, int parameter, gint64 value)
{
  sqlite3_bind_int64 (rows->statement, parameter + 1, value);
}

void ps_rows_set_real (PsRows *rows, int parameter, double value)
{
  sqlite3_bind_double (rows->statement, parameter + 1, value);
}

void ps_rows_set_text (PsRows *rows, int parameter, const char *value)
{
  sqlite3_bind_text (rows->statement, parameter + 1, value, -1, SQLITE_TRANSIENT);
}

char *ps_rows_text (PsRows *rows, int column)
{
  const char *text = (const char *)sqlite3_column_text (rows->statement, column);

  return g_strdup (text != NULL ? text : "");
}

gboolean ps_database_execute (PsDatabase *db, GError **error, const char *sql, const char *types, ...)
{
  va_list arguments;

  va_start (arguments, types);
  g_autoptr (PsRows) rows = rows_new (db, error, sql, types, arguments);
  va_end (arguments);
  gboolean found = rows != NULL;
  while (found)
    if (!ps_rows_next (rows, &found, error))
      return FALSE;
  return rows != NULL;
}

gboolean ps_database_integer (PsDatabase *db, const char *sql, gint64 *value, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (db, error, sql, "");
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  *value = found ? ps_rows_integer (rows, 0) : 0;
  return TRUE;
}

gint64 ps_database_last_row (PsDatabase *db)
{
  return sqlite3_last_insert_rowid (db->handle);
}

gboolean ps_database_begin (PsDatabase *db, GError **error)
{
  return ps_database_script (db, "BEGIN IMMEDIATE", error);
}

gboolean ps_database_end (PsDatabase *db, gboolean ok, GError **error)
{
  if (ok && ps_database_script (db, "COMMIT", error))
    return TRUE;
  /* SQLite may have rolled back by itself (full disk); a second rollback then only says so. */
  sqlite3_exec (db->handle, "ROLLBACK", NULL, NULL, NULL);
  return FALSE;
}

/* Opening */

#define RETRY_US 2000
#define BUSY_TIMEOUT_MS 10000

static PsDatabase *database_new (const char *path)
{
  PsDatabase *db = g_new0 (PsDatabase, 1);

  db->path = g_strdup (path);
  db->name = g_strconcat (g_path_is_absolute (path) ? "" : "./", path, NULL);
  return db;
}

void ps_database_close (PsDatabase *db)
{
  if (db == NULL)
    return;
  sqlite3_close (db->handle);
  g_free (db->path);
  g_free (db->name);
  g_free (db);
}

char *ps_database_library (void)
{
  return g_strdup_printf ("SQLite %s", sqlite3_libversion ());
}

static gboolean check_file (const char *path, const PsDatabaseKind *kind, gboolean writes, GError **error)
{
  struct stat status;

  if (*path == '\0')
    return ps_refuse (error, PS_ERROR_USAGE, "'': names no file; give the path of a %s", kind->what);
  if (stat (path, &status) != 0) {
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
static const char *open_failure (PsDatabase *db, int code)
{
  g_autofree char *folder = g_path_get_dirname (db->path);

  if (faccessat (AT_FDCWD, folder, W_OK, AT_EACCESS) != 0)
    return g_strerror (errno);
  int cause = db->handle != NULL ? sqlite3_system_errno (db->handle) : ENOMEM;
  return cause ? g_strerror (cause) : sqlite3_errstr (code);
}

/* Opens db->name; also frees the handle that an earlier attempt left open. Attached databases may be URIs, too. */
static gboolean open_handle (PsDatabase *db, int flags, GError **error)
{
  sqlite3_close (g_steal_pointer (&db->handle));
  int code = sqlite3_open_v2 (db->name, &db->handle,
                              flags | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);
  if (code != SQLITE_OK)
    return ps_refuse (error, PS_ERROR_IO, "%s: cannot be opened: %s", db->path, open_failure (db, code));
  sqlite3_busy_timeout (db->handle, BUSY_TIMEOUT_MS);
  database_limit (db);
  return TRUE;
}

PsDatabase *ps_database_open_foreign (const char *path, GError **error)
{
  g_autoptr (PsDatabase) db = database_new (path);

  if (!open_handle (db, SQLITE_OPEN_READONLY, error))
    return NULL;
  sqlite3_db_config (db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_db_config (db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  return g_steal_pointer (&db);
}

/* Refuses a file of another kind or version, before anything is written to it. *fresh: it holds nothing yet; NULL: such
 * a file is refused, too. One statement reads all, because another process may create the tables meanwhile. */
static gboolean check_identity (PsDatabase *db, gboolean *fresh, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (db, error,
                                         "SELECT application_id, user_version, (SELECT count (*) FROM sqlite_schema) "
                                         "FROM pragma_application_id, pragma_user_version",
                                         "");
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  gint64 application = ps_rows_integer (rows, 0), version = ps_rows_integer (rows, 1);
  gboolean empty = application == 0 && version == 0 && ps_rows_integer (rows, 2) == 0;
  if (fresh != NULL)
    *fresh = empty;
  if (fresh != NULL && empty)
    return TRUE;
  if (application != db->kind->application_id)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: an SQLite database, but not a pipesim %s", db->path, db->kind->what);
  return version == db->kind->version
         || ps_refuse (error, PS_ERROR_INPUT, "%s: %s of version %" G_GINT64_FORMAT "; this pipesim knows version %d",
                       db->path, db->kind->what, version, db->kind->version);
}

/* Finds files that were cut short, which would otherwise show only when the missing page is wanted. */
static gboolean check_integrity (PsDatabase *db, GError **error)
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
static gboolean write_ahead (PsDatabase *db, GError **error)
{
  gint64 until = g_get_monotonic_time () + BUSY_TIMEOUT_MS * G_TIME_SPAN_MILLISECOND;
  g_autoptr (GError) failure = NULL;

  while (!ps_database_script (db, "PRAGMA journal_mode = WAL", &failure)) {
    if ((sqlite3_errcode (db->handle) & 0xff) != SQLITE_BUSY || g_get_monotonic_time () > until) {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
    g_clear_error (&failure);
    g_usleep (RETRY_US);
  }
  return TRUE;
}

/* Another process may create the same file at the same time: the second one finds it done. */
static gboolean create_schema (PsDatabase *db, GError **error)
{
  const char *text = ps_data_file_text (ps_data_files, db->kind->schema);
  g_autofree char *whole = db->kind->complete != NULL ? db->kind->complete (text) : g_strdup (text);
  g_autofree char *pages = g_strdup_printf ("PRAGMA page_size = %d", db->kind->page_bytes);
  g_autofree char *marks = g_strdup_printf ("PRAGMA application_id = %d; PRAGMA user_version = %d",
                                            db->kind->application_id, db->kind->version);
  gboolean fresh;

  if ((db->kind->page_bytes > 0 && !ps_database_script (db, pages, error)) || !write_ahead (db, error)
      || !ps_database_begin (db, error))
    return FALSE;
  gboolean ok = check_identity (db, &fresh, error)
                && (!fresh || (ps_database_script (db, whole, error) && ps_database_script (db, marks, error)));
  return ps_database_end (db, ok, error);
}

static gboolean open_for_writing (PsDatabase *db, GError **error)
{
  gboolean fresh;

  if (!open_handle (db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error))
    return FALSE;
  if (sqlite3_db_readonly (db->handle, "main") == 1)
    return ps_refuse (error, PS_ERROR_IO, "%s: cannot be written to", db->path);
  if (!check_identity (db, &fresh, error) || (fresh && !create_schema (db, error)))
    return FALSE;
  /* Commits survive the death of the process without waiting for the disk each time. */
  return ps_database_script (db, "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL", error);
}

/* A database in write-ahead mode wants to create files in its directory even to be read. Where it may not, and no
 * unfinished log lies there, the file alone holds everything and does not change. */
static gboolean open_immutable (PsDatabase *db, GError **error)
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
  return open_handle (db, SQLITE_OPEN_READONLY, error) && check_identity (db, NULL, error);
}

/* Opened for writing where that is allowed, though nothing is written: the last reader then clears away the log. */
static gboolean open_for_reading (PsDatabase *db, GError **error)
{
  g_autoptr (GError) failure = NULL;

  if (!open_handle (db, SQLITE_OPEN_READWRITE, error))
    return FALSE;
  if (!check_identity (db, NULL, &failure)) {
    int code = sqlite3_errcode (db->handle) & 0xff;

    if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY)
      return open_immutable (db, error) && ps_database_script (db, "PRAGMA query_only = ON", error);
    g_propagate_error (error, g_steal_pointer (&failure));
    return FALSE;
  }
  return ps_database_script (db, "PRAGMA query_only = ON", error);
}

PsDatabase *ps_database_open (const char *path, const PsDatabaseKind *kind, gboolean writes, GError **error)
{
  if (!check_file (path, kind, writes, error))
    return NULL;
  g_autoptr (PsDatabase) db = database_new (path);
  db->kind = kind;
  gboolean ok = writes ? open_for_writing (db, error) : open_for_reading (db, error);
  return ok && check_integrity (db, error) ? g_steal_pointer (&db) : NULL;
}
