/* database.h - SQLite files of pipesim: checks their kinds, opens them, and runs SQL for all others, so that
 * sim/store/database*.c alone know SQLite. Private to libpipesim.
 *
 * Every kind has its own schema under data/, `PRAGMA application_id` and `PRAGMA user_version`. Files are in
 * write-ahead mode: a killed program loses the transaction under way and nothing else. */
#pragma once

#include <pipesim/base.h>

struct sqlite3;

typedef struct {
  const char *what;                       /* its name in messages: "cost database" */
  const char *schema;                     /* the file of data/ that creates its tables */
  char *(*complete) (const char *schema); /* makes the whole text of it; NULL: it is whole. Free with g_free. */
  int application_id;
  int version;    /* from 1 on */
  int page_bytes; /* of new files; 0: SQLite's choice */
} PsDatabaseKind;

typedef struct _PsDatabase {
  char *path; /* as the user wrote it; messages begin with it */
  char *name; /* the same for SQLite: never a database in memory; a URI where no file can be made in its directory */
  struct sqlite3 *handle;
  const PsDatabaseKind *kind;
  guint64 *ticks; /* of the statement that runs (ps_database_limit) */
} PsDatabase;

/* Opens a database. path always names a file, never a URI or a database in memory; "" is PS_ERROR_USAGE. Creates the
 * file when it is missing and writes is TRUE. Refuses files that are no SQLite database, of another kind or of another
 * version, with one line naming the path. kind stays the caller's. For one thread at a time. Errors: PS_ERROR_IO,
 * PS_ERROR_INPUT. */
PsDatabase *ps_database_open (const char *path, const PsDatabaseKind *kind, gboolean writes,
                              GError **error) G_GNUC_WARN_UNUSED_RESULT;

void ps_database_close (PsDatabase *db);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsDatabase, ps_database_close)

/* Opens a file of another program for reading, whatever its tables. Functions in its schema are not trusted. Errors:
 * PS_ERROR_IO, PS_ERROR_INPUT. */
PsDatabase *ps_database_open_foreign (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Runs statements that need no parameters and whose rows do not matter. */
gboolean ps_database_script (PsDatabase *db, const char *sql, GError **error);

/* Runs one statement. types has one letter per parameter that follows: 's' const char *, 'i' gint64. */
gboolean ps_database_execute (PsDatabase *db, GError **error, const char *sql, const char *types, ...);

/* Id of the row that the last INSERT made. */
gint64 ps_database_last_row (PsDatabase *db);

/* A transaction: begin, then end; ok says that all went well so far. end commits or rolls back. It returns FALSE when
 * ok is FALSE (the error is set already) or when committing fails. */
gboolean ps_database_begin (PsDatabase *db, GError **error);

gboolean ps_database_end (PsDatabase *db, gboolean ok, GError **error);

/* The rows of a query. Parameters as for ps_database_execute. Free with ps_rows_free. */
typedef struct _PsRows PsRows;

PsRows *ps_rows_new (PsDatabase *db, GError **error, const char *sql, const char *types, ...) G_GNUC_WARN_UNUSED_RESULT;

void ps_rows_free (PsRows *rows);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsRows, ps_rows_free)

/* Goes to the first or next row. *found is FALSE after the last one. */
gboolean ps_rows_next (PsRows *rows, gboolean *found, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The elements that `read` makes of the rows that are left; `free_item` frees them. NULL with an error when a row
 * cannot be had, read fails, or rows is NULL (its error is set already). */
typedef gpointer (*PsRowReader) (PsRows *rows, gpointer data, GError **error);

GPtrArray *ps_rows_collect (PsRows *rows, PsRowReader read, gpointer data, GDestroyNotify free_item, GError **error);

gint64 ps_rows_integer (PsRows *rows, int column);

double ps_rows_real (PsRows *rows, int column);

gboolean ps_rows_is_null (PsRows *rows, int column);

char *ps_rows_text (PsRows *rows, int column); /* free with g_free */

/* Repeats a statement: set its parameters (numbers from 0 on), then call ps_rows_next. A parameter that is not set
 * again keeps its value. */
void ps_rows_repeat (PsRows *rows);

void ps_rows_set_null (PsRows *rows, int parameter);

void ps_rows_set_integer (PsRows *rows, int parameter, gint64 value);

void ps_rows_set_real (PsRows *rows, int parameter, double value);

void ps_rows_set_text (PsRows *rows, int parameter, const char *value);

/* The only integer of the only row. */
gboolean ps_database_integer (PsDatabase *db, const char *sql, gint64 *value, GError **error);
