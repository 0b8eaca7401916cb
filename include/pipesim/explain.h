/* explain.h - the reasons for an iteration time: the critical path, the slack of each op, the idle time of devices by
 * cause, and the parts that would pay off if they were faster.
 *
 * Everything is deduced from one simulation, by either engine. A cause is an equality of integer times. An op starts
 * when the op before it on its device ends, or the transfer that it waits for. A transfer starts when its producer
 * ends, or the op or transfer that held one of its two devices.
 */
#ifndef PIPESIM_EXPLAIN_H
#define PIPESIM_EXPLAIN_H

#include <pipesim/iterations.h>
#include <pipesim/scenarios.h>

G_BEGIN_DECLS

typedef enum
{
  PS_PATH_OP,
  PS_PATH_TRANSFER,
  PS_PATH_WAIT,      /* nothing ended just then; never simulated with transfers that do not queue */
  PS_PATH_REDUCE,    /* all-reduce of a stage's gradients; these two only without a meeting at the optimizer */
  PS_PATH_OPTIMIZER, /* O of a device */
} PsPathKind;

/* A piece of the critical path. The next one starts where it ends. */
typedef struct
{
  PsPathKind kind;
  guint step; /* the op. Transfer: the op that waits for it. Wait: the op before or after it. All-reduce: the last W or
                 BW of the stage. O: the last op of the device */
  gint64 start_ns;
  gint64 end_ns;
} PsPathPart;

/* Reasons for idle time. Gaps between two ops are split at the moments when the producer's op, and then the transfer of
 * its result, starts and ends. */
typedef enum
{
  PS_IDLE_WARM_UP,     /* before its first op */
  PS_IDLE_FORWARD,     /* for an F of another device to end */
  PS_IDLE_BACKWARD,    /* for a B or BW of another device to end */
  PS_IDLE_TRANSFER,    /* for a result under way */
  PS_IDLE_CHANNEL,     /* for a result that is made but cannot travel yet, or for its own communication */
  PS_IDLE_DRAIN,       /* after its last op, for the last op of another device */
  PS_IDLE_SYNC,        /* at the optimizer, for the all-reduce and the O of other devices */
  PS_IDLE_HOST,        /* for its own host (ps_costs_add_host_time); on the path it is a part of the op. Where times
                          were measured: ps_timeline_host_times */
  PS_IDLE_UNEXPLAINED, /* for nothing that the times show: its turn and its input were there; 0 in simulations */
  PS_N_IDLE
} PsIdle;

const char *ps_idle_name (PsIdle idle); /* "warm_up", "forward", "backward", "transfer", "channel", "drain", "sync",
                                        "host", "unexplained" */

typedef struct
{
  guint n_steps;
  guint n_devices;
  guint n_iterations; /* spanned by the path */
  gint64 makespan_ns;
  GArray *path;     /* PsPathPart by time, from the first op's start to the last one's end: lengths sum to the makespan.
                       Among several causes the op before on the same device counts, then the lowest id. Among several
                       last ops the one of the lowest device counts. Parts that take no time are left out. */
  gint64 *slack_ns; /* [n_steps] how much longer the op may take without any effect on the makespan; of a pair at its
                       second step. NULL where transfers queue, because a delay may change their order; NULL without a
                       meeting, too */
  gint64 *idle_ns;  /* [n_devices * PS_N_IDLE] parts of the iteration in which a device runs neither ops nor its O; they
                       sum to iteration time - busy time - its O. NULL without a meeting */
} PsExplanation;

/* simulation must be of this program under these costs. iteration_ns is the iteration time of global synchronisation
 * (iterations.h), at least makespan + longest O. */
PsExplanation *ps_explain (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                           gint64 iteration_ns);

/* The same of times that were measured (ps_timeline_simulation). An op's cause is the later of the op before it on its
 * device and the transfer that it waits for, a transfer's is its producer. The time from there is a PS_PATH_WAIT at the
 * op. Of the idle time there, PS_IDLE_HOST takes host_ns (ps_timeline_host_times) and PS_IDLE_UNEXPLAINED the rest.
 * slack_ns is NULL. */
PsExplanation *ps_explain_measured (const PsProgram *program, const PsSimulation *simulation, const gint64 *host_ns,
                                    gint64 iteration_ns);

/* The same where devices never meet (iterations.h: bypass, asynchronous schedules). A circle of ops, transfers,
 * all-reduces and O, each of which waits for the one before it, sets the pace: the one with the longest time per
 * iteration that it spans. The path is that circle (one of several), from its first part in a new iteration on.
 * makespan_ns is its time, n_iterations times the exact iteration time; start_ns and end_ns count from its beginning.
 * events (NULL: transfers of pure latency) is the setting that simulation was run with. Errors: PS_ERROR_SCHEDULE where
 * durations are not known beforehand (links, overlap_slowdown, ready_order). */
PsExplanation *ps_explain_steady (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                                  const PsEventsSetting *events, PsReduce reduce,
                                  GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_explanation_free (PsExplanation *explanation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsExplanation, ps_explanation_free)

/* Parts that could be made faster. */
typedef enum
{
  PS_PART_KIND,   /* all ops of one kind */
  PS_PART_STAGE,  /* all ops of one stage */
  PS_PART_DEVICE, /* all ops on one device */
  PS_PART_LINK,   /* all transfers between two devices, both directions */
} PsPartKind;

typedef struct
{
  PsPartKind kind;
  guint a; /* PsOpKind, stage, device, or the lower device of a link */
  guint b; /* the higher device of a link, else 0 */
} PsPart;

/* "F", "stage 3", "device 2", "link 0-1". Free with g_free. */
char *ps_part_format (const PsPart *part);

/* All parts that take any time under these costs, by kind, then a, then b. Where a device holds one stage, all of it,
 * the list has the stage alone. Free with g_array_unref. */
GArray *ps_parts (const PsRecurrence *recurrence, const PsCosts *costs);

/* The nanoseconds of a class's duration, host times included, that belong to a part. The time of an overlapped
 * pair belongs to its two ops in proportion to their times alone (the first op's rounded to the nearest nanosecond). */
gint64 ps_part_of_op (const PsPart *part, const PsOpClass *op, const PsCosts *costs);
gint64 ps_part_of_transfer (const PsPart *part, const PsTransferClass *transfer, const PsCosts *costs);

/* The iteration with a part taking `saving` of its time less. */
typedef struct
{
  PsPart part;
  gint64 iteration_ns;
  double gain;         /* part of the iteration time that is saved */
  gint64 least_ns;     /* iteration time when the part takes no time at all */
  double change_point; /* saving, in (0, 1], up to which the same path stays critical, so that gains grow in proportion;
                          1: it always does */
} PsWhatIf;

/* The n_best parts that save most, best first, ties in the order of ps_parts. Each is evaluated by itself with
 * transfers that do not queue. saving is in (0, 1]; durations are rounded to the nearest nanosecond. rest_ns is the
 * part of the iteration beyond the makespan. Free with g_array_unref.
 *
 * The change point is exact, not sampled. With the share s of a part saved, the makespan is the maximum over all paths
 * of A - B s: A is the path's length, B the part's time on it. That function is convex and piecewise linear. Its first
 * corner is found by intersecting its line at 0 with the line of the longest path at ever smaller s (Newton's method on
 * max-plus polynomials; Gaubert et al. call it policy iteration).
 */
GArray *ps_what_if (const PsRecurrence *recurrence, const PsCosts *costs, gint64 rest_ns, double saving, guint n_best);

/* The same by the events engine, one run per part. The change point is found in the same way, with the path that
 * ps_explain finds at each s, and times in small parts of a nanosecond instead of exact fractions. It is NAN where
 * times are no maximum of sums (events has links, speed, overlap_slowdown or ready_order). Errors: those of the
 * engine. */
GArray *ps_what_if_events (const PsRecurrence *recurrence, const PsCosts *costs, const PsEventsSetting *events,
                           gint64 rest_ns, double saving, guint n_best, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same where devices never meet: iteration times of the steady state, one ps_iteration_events per part (events
 * NULL: transfers of pure latency). change_point is NAN. */
GArray *ps_what_if_steady (const PsRecurrence *recurrence, const PsCosts *costs, const PsEventsSetting *events,
                           PsReduce reduce, double saving, guint n_best, GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
