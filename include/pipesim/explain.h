/* explain.h - why an iteration takes as long as it does: the critical path, how late each op may be, the causes of idle
 * time, and the parts that would have to be faster.
 *
 * Everything is deduced from one simulation by either engine. A cause is an equality of integer times. An op starts
 * when the op before it on its device, or the transfer that it waits for, ends. A transfer starts when its producer
 * ends, or when a transfer or op that held one of its two devices ends. */
#ifndef PIPESIM_EXPLAIN_H
#define PIPESIM_EXPLAIN_H

#include <pipesim/iterations.h>
#include <pipesim/scenarios.h>

G_BEGIN_DECLS

typedef enum
{
  PS_PATH_OP,
  PS_PATH_TRANSFER,
  PS_PATH_WAIT,      /* nothing ended just then; never if transfers do not queue */
  PS_PATH_REDUCE,    /* all-reduce of a stage's gradients; this and the next only without a meeting at the optimizer */
  PS_PATH_OPTIMIZER, /* O of a device */
} PsPathKind;

/* A piece of the critical path. The next one starts where it ends. */
typedef struct
{
  PsPathKind kind;
  guint step; /* the op; for a transfer the op that waits for it; for a wait the op before or after it; for an
                 all-reduce the last W or BW of the stage; for an O the last op of the device */
  gint64 start_ns;
  gint64 end_ns;
} PsPathPart;

/* Causes of idle time. A gap between two ops is split at four moments: when the producer's op, and then the transfer of
 * its result, starts and ends. */
typedef enum
{
  PS_IDLE_WARM_UP,  /* before its first op */
  PS_IDLE_FORWARD,  /* for an F of another device to end */
  PS_IDLE_BACKWARD, /* for a B or BW of another device to end */
  PS_IDLE_TRANSFER, /* for a result under way */
  PS_IDLE_CHANNEL,  /* for a result that is made but cannot travel yet, or for the device's own communication */
  PS_IDLE_DRAIN,    /* after its last op, for the last op of another device */
  PS_IDLE_SYNC,     /* at the optimizer, for the all-reduce and the O of other devices */
  PS_N_IDLE
} PsIdle;

const char *ps_idle_name (PsIdle idle); /* "warm_up", "forward", "backward", "transfer", "channel", "drain", "sync" */

typedef struct
{
  guint n_steps;
  guint n_devices;
  guint n_iterations; /* iterations that the path spans */
  gint64 makespan_ns;
  GArray *path; /* PsPathPart by time, from the first op's start to the last op's end: lengths sum to the makespan. If
                   there are several causes, the op before on the same device counts, then the lowest id. If there are
                   several last ops, the one on the lowest device counts. Parts that take no time are left out. */
  gint64 *slack_ns; /* [n_steps] how much longer the op may take without any effect on the makespan; for a pair at its
                       second step. NULL without a meeting, and where transfers queue: there a delay may change the
                       order of the queues. */
  gint64 *idle_ns;  /* [n_devices * PS_N_IDLE] parts of the iteration in which a device runs neither ops nor its O. They
                       sum to iteration time - busy time - its O. NULL without a meeting */
} PsExplanation;

/* Explains a simulation of this program under these costs. iteration_ns is the iteration time of global synchronisation
 * (iterations.h), at least makespan + longest O. */
PsExplanation *ps_explain (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                           gint64 iteration_ns);

/* Explains an iteration where devices never meet (iterations.h: bypass, asynchronous schedules). A circle of ops,
 * transfers, all-reduces and O, each of which waits for the one before it, sets the pace there: the circle with the
 * longest time per iteration that it spans. The path is that circle (one of several, if equal), from its first part in
 * a new iteration on. makespan_ns is its time, n_iterations times the exact iteration time; start_ns and end_ns count
 * from its beginning. `events` (NULL: transfers of pure latency) is the setting that simulation was run with. Errors:
 * PS_ERROR_SCHEDULE if durations are not known in advance (links, overlap_slowdown, window). */
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

/* All parts that take any time under these costs, by kind, then a, then b. If all ops of a device are those of one
 * stage, and it has all of them, only the stage is listed. Free with g_array_unref. */
GArray *ps_parts (const PsScenarioPlan *plan, const PsCosts *costs);

/* The nanoseconds of a part in the duration of an op class or transfer class. An overlapped pair's time is divided
 * between its two ops in proportion to their times alone (to the nearest nanosecond, the first op's). */
gint64 ps_part_of_op (const PsPart *part, const PsOpClass *op, const PsCosts *costs);
gint64 ps_part_of_transfer (const PsPart *part, const PsTransferClass *transfer, const PsCosts *costs);

/* An iteration in which a part takes `saving` of its time less. */
typedef struct
{
  PsPart part;
  gint64 iteration_ns;
  double gain;         /* part of the iteration time that is saved */
  gint64 least_ns;     /* iteration time when the part takes no time at all */
  double change_point; /* largest saving, in (0, 1], up to which the same path stays critical, so that gains are
                          proportional; 1: always */
} PsWhatIf;

/* The n_best parts that save most, best first, ties in the order of ps_parts. Each is evaluated by itself, with
 * transfers that do not queue. saving in (0, 1]; durations are rounded to the nearest nanosecond. rest_ns is the part
 * of the iteration beyond the makespan.
 *
 * The change point is exact, not sampled. A path of length A, with time B on the part, takes A - B s when a share s of
 * the part is saved. The makespan is the maximum over all paths, a convex piecewise linear function. To find its first
 * corner, its line at 0 is intersected with the line of the longest path at ever smaller s (Newton's method on max-plus
 * polynomials; Gaubert et al. call it policy iteration). Free with g_array_unref. */
GArray *ps_what_if (const PsScenarioPlan *plan, const PsCosts *costs, gint64 rest_ns, double saving, guint n_best);

/* As ps_what_if, by the events engine, one run per part. The change point is found in the same way, with the path that
 * ps_explain finds at each s. Times are in small parts of a nanosecond instead of exact fractions. It is NAN where
 * times are no maximum of sums (events has links, speed, overlap_slowdown or a window). Errors: those of the engine. */
GArray *ps_what_if_events (const PsScenarioPlan *plan, const PsCosts *costs, const PsEventsSetting *events,
                           gint64 rest_ns, double saving, guint n_best, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* As ps_what_if where devices never meet: iteration times of the steady state, one ps_iteration_events per part (events
 * NULL: transfers of pure latency). change_point is NAN. */
GArray *ps_what_if_steady (const PsScenarioPlan *plan, const PsCosts *costs, const PsEventsSetting *events,
                           PsReduce reduce, double saving, guint n_best, GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
