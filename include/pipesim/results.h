/* results.h - predictions of many settings on disk: SQLite, schema and views in data/results.sql, `PRAGMA user_version`
 * = PS_RESULTS_VERSION, WAL. A database is of one sweep; its rows are the
 * settings of the sweep, each once: a prediction, or why there is none. Rows are stored in transactions, so a killed
 * program leaves whole rows only.
 *
 * Functions that can fail return FALSE or NULL and set PS_ERROR_IO where the database or its disk fails, and
 * PS_ERROR_INPUT for what it holds; messages begin with its path. A PsResults is for one thread at a time. */
#ifndef PIPESIM_RESULTS_H
#define PIPESIM_RESULTS_H

#include <pipesim/report.h>
#include <pipesim/setting.h>

G_BEGIN_DECLS

#define PS_RESULTS_VERSION 6

typedef struct _PsResults PsResults;

typedef enum
{
  PS_RESULTS_READ,  /* must exist */
  PS_RESULTS_WRITE, /* created when missing */
} PsResultsMode;

/* Refuses files that are no SQLite database, no results or of another version, with one line naming the path. The path
 * is that of a file, never a URI. Errors: PS_ERROR_IO, PS_ERROR_INPUT, PS_ERROR_USAGE for an empty path. */
PsResults *ps_results_open (const char *path, PsResultsMode mode, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_results_close (PsResults *results);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsResults, ps_results_close)

/* The figures of a prediction. Their columns come after those of the options of SETTING. */
typedef enum
{
  PS_FIGURE_MAKESPAN_NS,
  PS_FIGURE_MAX_SPAN_NS,
  PS_FIGURE_ITERATION_NS,
  PS_FIGURE_BUBBLE_RATIO,
  PS_FIGURE_BUBBLE_RATIO_SPAN,
  PS_FIGURE_LOWER_BOUND_NS,
  PS_FIGURE_PEAK_MEMORY_BYTES,
  PS_FIGURE_FEASIBLE,
  PS_FIGURE_ASYNCHRONOUS,
  PS_FIGURE_PERIOD_ITERATIONS,
  PS_FIGURE_DEVICES_DETAIL,
  PS_FIGURE_ORIGIN,
  PS_FIGURE_COSTS_ORIGIN,
  PS_FIGURE_TRANSFERS_ORIGIN,
  PS_FIGURE_MEMORY_ORIGIN,
  PS_FIGURE_UNREST, /* PsCosts.unrest */
  PS_N_STORED_FIGURES,
  PS_FIGURE_SEQUENCE_NS = PS_N_STORED_FIGURES, /* from here on of the view result only */
  PS_FIGURE_SEQUENCES_PER_SECOND,
  PS_FIGURE_ABOVE_BOUND,
  PS_N_FIGURES
} PsFigure;

typedef enum
{
  PS_ROLE_SETTING, /* what was asked for */
  PS_ROLE_FIGURE,  /* what came out */
  PS_ROLE_ORIGIN,  /* where that comes from */
  PS_ROLE_DERIVED, /* follows from the others; of the view only */
} PsResultRole;

typedef struct
{
  PsColumn column; /* name in the database, and how tables show it */
  PsResultRole role;
} PsResultColumn;

/* All columns of the view result after point and digest: those of ps_setting_options, then those of PsFigure. */
const PsResultColumn *ps_result_columns (guint *n);
int ps_result_column_find (const char *name); /* its index, or -1 */

#define PS_DIGEST_LENGTH 32 /* hexadecimal digits */

/* One setting. */
typedef struct
{
  guint64 point;
  char digest[PS_DIGEST_LENGTH + 1];
  char *reason;    /* why there is no prediction; NULL: there is one, and values are set */
  PsValue *values; /* [ps_setting_n_options + PS_N_STORED_FIGURES] */
  char *detail;    /* texts of two of the values, which are owned here; layout may be NULL */
  char *layout;
} PsResult;

void ps_result_free (PsResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsResult, ps_result_free)

/* The value of that column; there must be one. */
const PsValue *ps_result_value (const PsResult *result, const char *column);

/* Makes the database that of a sweep, or finds it so already. Errors: PS_ERROR_INPUT when it is of another sweep or was
 * made by another version of pipesim. */
gboolean ps_results_begin (PsResults *results, const char *digest, const char *spec, guint64 n_points, GError **error);

/* Adds the digests of all settings that it holds to a set of char *. */
gboolean ps_results_digests (PsResults *results, GHashTable *digests, GError **error);

/* How many settings of its sweep, which has begun, are predicted, skipped, and neither. */
gboolean ps_results_count (PsResults *results, guint64 *predicted, guint64 *skipped, guint64 *missing, GError **error);

/* Stores n settings in one transaction; what is there already stays. */
gboolean ps_results_store (PsResults *results, PsResult *const *rows, guint n, GError **error);

/* Adds what another database of the same sweep holds and this one does not; a new database becomes one of that sweep.
 */
gboolean ps_results_merge (PsResults *results, const char *path, GError **error);

/* Why settings were skipped, {reason, settings}, the most frequent first, at most that many. */
PsTable *ps_results_reasons (PsResults *results, guint most, GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
