/* database-sql.c - statements, rows and transactions of a database. */
#include "database.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <sys/stat.h>

struct _PsRows
{
  PsDatabase *db;
  sqlite3_stmt *statement;
  guint64 ticks;
};

/* A tick is so many steps of SQLite's machine. */
#define TICK 1000000
#define TICKS 100
#define STEPS_PER_BYTE 200

/* Of the file and of one that is attached to it for ps_results_merge. */
static guint64
size_of (const PsDatabase *db)
{
  const char *paths[] = { db->path, sqlite3_db_filename (db->handle, "other") };
  struct stat status;
  guint64 size = 0;

  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    if (paths[i] != NULL && stat (paths[i], &status) == 0)
      size += (guint64)status.st_size;
  return size;
}

static int
count_tick (gpointer data)
{
  PsDatabase *db = data;

  return db->ticks != NULL && ++*db->ticks > TICKS && *db->ticks > TICKS + size_of (db) * STEPS_PER_BYTE / TICK;
}

void
ps_database_limit (PsDatabase *db)
{
  sqlite3_progress_handler (db->handle, TICK, count_tick, db);
}

gboolean
ps_database_set_error (PsDatabase *db, int code, GError **error)
{
  switch (code & 0xff)
    {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      g_set_error (error, PS_ERROR, PS_ERROR_IO, "%s: in use by another program", db->path);
      break;
    case SQLITE_NOTADB:
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: not an SQLite database", db->path);
      break;
    case SQLITE_CORRUPT:
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: damaged or cut short: %s", db->path,
                   sqlite3_errmsg (db->handle));
      break;
    case SQLITE_CONSTRAINT:
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: %s", db->path, sqlite3_errmsg (db->handle));
      break;
    case SQLITE_INTERRUPT:
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: its views take more steps than a file of its size can need",
                   db->path);
      break;
    default:
      g_set_error (error, PS_ERROR, PS_ERROR_IO, "%s: %s", db->path, sqlite3_errmsg (db->handle));
    }
  return FALSE;
}

gboolean
ps_database_script (PsDatabase *db, const char *sql, GError **error)
{
  guint64 ticks = 0;

  db->ticks = &ticks;
  int code = sqlite3_exec (db->handle, sql, NULL, NULL, NULL);
  db->ticks = NULL;
  return code == SQLITE_OK || ps_database_set_error (db, code, error);
}

static PsRows *
rows_new (PsDatabase *db, GError **error, const char *sql, const char *types, va_list arguments)
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
  ps_database_set_error (db, code, error);
  return NULL;
}

PsRows *
ps_rows_new (PsDatabase *db, GError **error, const char *sql, const char *types, ...)
{
  va_list arguments;

  va_start (arguments, types);
  PsRows *rows = rows_new (db, error, sql, types, arguments);
  va_end (arguments);
  return rows;
}

void
ps_rows_free (PsRows *rows)
{
  if (rows == NULL)
    return;
  sqlite3_finalize (rows->statement);
  g_free (rows);
}

gboolean
ps_rows_next (PsRows *rows, gboolean *found, GError **error)
{
  rows->db->ticks = &rows->ticks;
  int code = sqlite3_step (rows->statement);
  rows->db->ticks = NULL;

  *found = code == SQLITE_ROW;
  return *found || code == SQLITE_DONE || ps_database_set_error (rows->db, code, error);
}

GPtrArray *
ps_rows_collect (PsRows *rows, PsRowReader read, gpointer data, GDestroyNotify free_item, GError **error)
{
  g_autoptr (GPtrArray) items = g_ptr_array_new_with_free_func (free_item);
  gboolean found = rows != NULL;
  gpointer item;

  while (found)
    {
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

gint64
ps_rows_integer (PsRows *rows, int column)
{
  return sqlite3_column_int64 (rows->statement, column);
}

double
ps_rows_real (PsRows *rows, int column)
{
  return sqlite3_column_double (rows->statement, column);
}

gboolean
ps_rows_is_null (PsRows *rows, int column)
{
  return sqlite3_column_type (rows->statement, column) == SQLITE_NULL;
}

void
ps_rows_repeat (PsRows *rows)
{
  sqlite3_reset (rows->statement);
  rows->ticks = 0;
}

void
ps_rows_set_null (PsRows *rows, int parameter)
{
  sqlite3_bind_null (rows->statement, parameter + 1);
}

void
ps_rows_set_integer (PsRows *rows, int parameter, gint64 value)
{
  sqlite3_bind_int64 (rows->statement, parameter + 1, value);
}

void
ps_rows_set_real (PsRows *rows, int parameter, double value)
{
  sqlite3_bind_double (rows->statement, parameter + 1, value);
}

void
ps_rows_set_text (PsRows *rows, int parameter, const char *value)
{
  sqlite3_bind_text (rows->statement, parameter + 1, value, -1, SQLITE_STATIC);
}

char *
ps_rows_text (PsRows *rows, int column)
{
  const char *text = (const char *)sqlite3_column_text (rows->statement, column);

  return g_strdup (text != NULL ? text : "");
}

gboolean
ps_database_execute (PsDatabase *db, GError **error, const char *sql, const char *types, ...)
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

gboolean
ps_database_integer (PsDatabase *db, const char *sql, gint64 *value, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (db, error, sql, "");
  gboolean found;

  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  *value = found ? ps_rows_integer (rows, 0) : 0;
  return TRUE;
}

gint64
ps_database_last_row (PsDatabase *db)
{
  return sqlite3_last_insert_rowid (db->handle);
}

gboolean
ps_database_begin (PsDatabase *db, GError **error)
{
  return ps_database_script (db, "BEGIN IMMEDIATE", error);
}

gboolean
ps_database_end (PsDatabase *db, gboolean ok, GError **error)
{
  if (ok && ps_database_script (db, "COMMIT", error))
    return TRUE;
  /* SQLite may have rolled back by itself (full disk); a second rollback then only says so. */
  sqlite3_exec (db->handle, "ROLLBACK", NULL, NULL, NULL);
  return FALSE;
}
