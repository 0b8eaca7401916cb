/* costdb-private.h - how the files sim/costdb-*.c speak SQL, so that only two of them know SQLite. Private to
 * libpipesim. */
#ifndef PIPESIM_COSTDB_PRIVATE_H
#define PIPESIM_COSTDB_PRIVATE_H

#include <pipesim/costdb.h>

G_BEGIN_DECLS

struct sqlite3;

struct _PsCostDb
{
  char *path; /* as the user wrote it; messages begin with it */
  struct sqlite3 *handle;
};

/* Sets PS_ERROR_IO or PS_ERROR_INPUT from an SQLite result code other than SQLITE_OK. Returns FALSE. */
gboolean ps_costdb_set_error (PsCostDb *db, int code, GError **error);

/* Runs statements that need no parameters and whose rows do not matter. */
gboolean ps_costdb_script (PsCostDb *db, const char *sql, GError **error);

/* Runs one statement. types has one letter per parameter that follows: 's' const char *, 'i' gint64. */
gboolean ps_costdb_execute (PsCostDb *db, GError **error, const char *sql, const char *types, ...);

/* Id of the row that the last INSERT made. */
gint64 ps_costdb_last_row (PsCostDb *db);

/* A transaction: begin, then end with whether all went well so far. end commits or rolls back; it returns FALSE when ok
 * is FALSE (the error is set already) or when committing fails. */
gboolean ps_costdb_begin (PsCostDb *db, GError **error);
gboolean ps_costdb_end (PsCostDb *db, gboolean ok, GError **error);

/* The rows of a query. Parameters as for ps_costdb_execute. Free with ps_rows_free. */
typedef struct _PsRows PsRows;
PsRows *ps_rows_new (PsCostDb *db, GError **error, const char *sql, const char *types, ...) G_GNUC_WARN_UNUSED_RESULT;
void ps_rows_free (PsRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsRows, ps_rows_free)

/* Goes to the first or next row. *found is FALSE behind the last one. */
gboolean ps_rows_next (PsRows *rows, gboolean *found, GError **error) G_GNUC_WARN_UNUSED_RESULT;
gint64 ps_rows_integer (PsRows *rows, int column);
char *ps_rows_text (PsRows *rows, int column); /* free with g_free */

/* The only integer of the only row. */
gboolean ps_costdb_integer (PsCostDb *db, const char *sql, gint64 *value, GError **error);

G_END_DECLS

#endif
