/* results.h - predictions of many settings on disk: SQLite, schema and views in data/results.sql, `PRAGMA user_version`
 * = PS_RESULTS_VERSION, WAL. A database is of one sweep; its rows are the settings of the sweep, each once: a
 * prediction, or why there is none. Rows are stored in transactions, so a killed program leaves whole rows only.
 *
 * Functions that can fail return FALSE or NULL and set PS_ERROR_IO where the database or its disk fails, and
 * PS_ERROR_INPUT for what it holds; messages begin with its path. A PsResults is for one thread at a time. */
#ifndef PIPESIM_RESULTS_H
#define PIPESIM_RESULTS_H

#include <pipesim/costs.h>
#include <pipesim/report.h>

G_BEGIN_DECLS

#define PS_RESULTS_VERSION 3

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
  PS_RESULT_SCHEDULE,
  PS_RESULT_DEVICES,
  PS_RESULT_MICROBATCHES,
  PS_RESULT_CHUNKS,
  PS_RESULT_SLICES,
  PS_RESULT_GROUP_SIZE,
  PS_RESULT_MICROBATCH_SIZE,
  PS_RESULT_GLOBAL_BATCH,
  PS_RESULT_MODEL,
  PS_RESULT_PRECISION,
  PS_RESULT_CLUSTER,
  PS_RESULT_LINK_BANDWIDTH,
  PS_RESULT_LINK_LATENCY_NS,
  PS_RESULT_DB,
  PS_RESULT_PROFILE,
  PS_RESULT_COSTS,
  PS_RESULT_COST, /* the keys of costs, each by itself, in the order of PsCostKey */
  PS_RESULT_COST_LAST = PS_RESULT_COST + PS_N_COST_KEYS - 1,
  PS_RESULT_BANDWIDTH_FACTOR,
  PS_RESULT_LATENCY_FACTOR,
  PS_RESULT_RECOMPUTE,
  PS_RESULT_OFFLOAD,
  PS_RESULT_REPLICAS,
  PS_RESULT_TENSOR,
  PS_RESULT_ZERO,
  PS_RESULT_REDUCE,
  PS_RESULT_SYNC,
  PS_RESULT_PLACEMENT,
  PS_RESULT_COMM,
  PS_RESULT_COMM_ORDER,
  PS_RESULT_EAGER_BYTES,
  PS_RESULT_BLOCKING,
  PS_RESULT_SHARE_LINKS,
  PS_RESULT_SPEED,
  PS_RESULT_OVERLAP_SLOWDOWN,
  PS_RESULT_READY_ORDER,
  PS_RESULT_MEMORY_LIMIT_BYTES,
  PS_RESULT_MAKESPAN_NS,
  PS_RESULT_MAX_SPAN_NS,
  PS_RESULT_ITERATION_NS,
  PS_RESULT_BUBBLE_RATIO,
  PS_RESULT_BUBBLE_RATIO_SPAN,
  PS_RESULT_LOWER_BOUND_NS,
  PS_RESULT_PEAK_MEMORY_BYTES,
  PS_RESULT_FEASIBLE,
  PS_RESULT_ASYNCHRONOUS,
  PS_RESULT_PERIOD_ITERATIONS,
  PS_RESULT_DEVICES_DETAIL,
  PS_RESULT_ORIGIN,
  PS_RESULT_COSTS_ORIGIN,
  PS_RESULT_TRANSFERS_ORIGIN,
  PS_RESULT_MEMORY_ORIGIN,
  PS_N_STORED,
  PS_RESULT_SEQUENCE_NS = PS_N_STORED, /* from here on of the view only */
  PS_RESULT_SEQUENCES_PER_SECOND,
  PS_RESULT_ABOVE_BOUND,
  PS_N_RESULTS
} PsResultField;

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

/* All columns by PsResultField, and the one of that name. */
const PsResultColumn *ps_result_columns (guint *n);
int ps_result_column_find (const char *name); /* a PsResultField, or -1 */

#define PS_DIGEST_LENGTH 32 /* hexadecimal digits */

/* One setting. */
typedef struct
{
  guint64 point;
  char digest[PS_DIGEST_LENGTH + 1];
  char *reason;    /* why there is no prediction; NULL: there is one, and values are set */
  PsValue *values; /* [PS_N_STORED] */
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
