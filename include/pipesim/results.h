/* results.h - predictions of many settings on disk: SQLite, schema and views in data/results.sql, `PRAGMA user_version`
 * = PS_RESULTS_VERSION, WAL. A database is of one sweep; its rows are the settings of the sweep, each once: a
 * prediction, or why there is none. Rows are stored in transactions, so a killed program leaves whole rows only. */
#ifndef PIPESIM_RESULTS_H
#define PIPESIM_RESULTS_H

#include <pipesim/report.h>

G_BEGIN_DECLS

#define PS_RESULTS_VERSION 1

typedef struct _PsResults PsResults;

typedef enum
{
  PS_RESULTS_READ,  /* must exist */
  PS_RESULTS_WRITE, /* created when missing */
} PsResultsMode;

/* Refuses files that are no SQLite database, no results or of another version, with one line naming the path. Errors:
 * PS_ERROR_IO, PS_ERROR_INPUT. */
PsResults *ps_results_open (const char *path, PsResultsMode mode, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_results_close (PsResults *results);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsResults, ps_results_close)

/* What a column of the table prediction holds. */
typedef enum
{
  PS_VALUE_NONE, /* NULL */
  PS_VALUE_INTEGER,
  PS_VALUE_REAL,
  PS_VALUE_TEXT,
} PsValueType;

typedef struct
{
  PsValueType type;
  union
  {
    gint64 integer;
    double real;
    const char *text; /* not owned */
  };
} PsValue;

/* The columns of the table prediction behind point and digest, and of the view result, in their order. */
typedef enum
{
  PS_RESULT_SETTING, /* what was asked for */
  PS_RESULT_FIGURE,  /* what came out */
  PS_RESULT_ORIGIN,  /* where that comes from */
  PS_RESULT_DERIVED, /* of the view only */
} PsResultRole;

typedef struct
{
  PsColumn column; /* name in the database, and how tables show it */
  PsResultRole role;
} PsResultColumn;

const PsResultColumn *ps_result_columns (guint *n); /* the first ps_result_n_stored of them are in the table */
guint ps_result_n_stored (void);
int ps_result_column_find (const char *name); /* index, or -1 */

#define PS_DIGEST_LENGTH 32 /* hexadecimal digits */

/* One setting. */
typedef struct
{
  guint64 point;
  char digest[PS_DIGEST_LENGTH + 1];
  char *reason;    /* why there is no prediction; NULL: there is one, and values are set */
  PsValue *values; /* [ps_result_n_stored] */
  char *detail;    /* text of one of the values, which is owned here */
} PsResult;

void ps_result_free (PsResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsResult, ps_result_free)

/* Makes the database that of a sweep, or finds it so already. Errors: PS_ERROR_INPUT when it is of another sweep or was
 * made by another version of pipesim. */
gboolean ps_results_begin (PsResults *results, const char *digest, const char *spec, guint64 n_points, GError **error);

/* Adds the digests of all settings that it holds to a set of char *. */
gboolean ps_results_digests (PsResults *results, GHashTable *digests, GError **error);

/* How many settings it holds, predicted and skipped. */
gboolean ps_results_count (PsResults *results, guint64 *predicted, guint64 *skipped, GError **error);

/* Stores n settings in one transaction; what is there already stays. */
gboolean ps_results_store (PsResults *results, PsResult *const *rows, guint n, GError **error);

/* Adds what another database of the same sweep holds and this one does not; a new database becomes one of that sweep.
 */
gboolean ps_results_merge (PsResults *results, const char *path, GError **error);

/* Why settings were skipped, {reason, settings}, the most frequent first, at most that many. */
PsTable *ps_results_reasons (PsResults *results, guint most, GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
