/* iterations.h - many iterations back to back: the time per training step in steady state, gradient all-reduce and
 * optimizer included.
 *
 * Global synchronisation: all devices meet at the optimizer. An iteration takes the makespan, the part of the
 * all-reduce that goes on after it, and the longest O of a device.
 *
 * Bypass is the post-validation of the zero-bubble paper (arXiv 2401.10241, section 4). A device steps its optimizer as
 * soon as its own gradients are reduced and it has the state (norm, overflow) of the devices before it. The state is a
 * few bytes and travels in no time. The device then goes on with the next iteration at once. The
 * validation on the way back costs nothing here: no step is ever rolled back.
 *
 * Asynchronous schedules (PipeDream, PipeDream-2BW) never meet and never drain. On every device the drain of one
 * iteration interleaves with the warm-up of the next, a backward in turn with a forward. No device is more than one
 * iteration ahead, so with m < p fewer microbatches are under way than PipeDream would allow. A stage steps its
 * optimizer after every PsSchedule.update_every microbatches: PipeDream after each one, PipeDream-2BW after m. Each
 * step costs an O, and an all-reduce where there are replicas.
 *
 * Without a meeting the devices repeat one pattern, shifted against each other. Its period is the maximum cycle ratio
 * of the graph of all ops, waits and transfers of one iteration with arcs that lead into the next one (max-plus
 * algebra; Baccelli et al., Synchronization and Linearity, 1992, section 3.2.3), found exactly in integers.
 */
#ifndef PIPESIM_ITERATIONS_H
#define PIPESIM_ITERATIONS_H

#include <pipesim/events.h>

G_BEGIN_DECLS

typedef enum
{
  PS_SYNC_GLOBAL,
  PS_SYNC_BYPASS,
} PsSync;

/* Names and back; errors as those of ps_parse_name. */
const char *ps_sync_name (PsSync sync); /* "global", "bypass" */
gboolean ps_sync_parse (const char *where, const char *text, PsSync *sync, GError **error);

/* The all-reduce of a stage's gradients (PsCosts.reduce_ns) begins when the last W or BW of the stage has ended, on all
 * weight copies. Asynchronous schedules need one for each optimizer step. The all-reduces of a device follow one
 * another. */
typedef enum
{
  PS_REDUCE_OVERLAPPED, /* beside the ops that the device still has to run; in asynchronous schedules beside the whole
                           next iteration, whose end the step then waits for */
  PS_REDUCE_EXPOSED,    /* after the device's last op */
} PsReduce;

/* Names and back; errors as those of ps_parse_name. */
const char *ps_reduce_name (PsReduce reduce); /* "overlapped", "exposed" */
gboolean ps_reduce_parse (const char *where, const char *text, PsReduce *reduce, GError **error);

typedef struct
{
  gint64 period_ns;   /* time per iteration, rounded to the nearest nanosecond; single iterations may differ in turn */
  guint n_iterations; /* the least number of iterations that take whole nanoseconds in the long run, so that period_ns
                         is exact for 1; 0: no repetition was seen, period_ns is a mean */
} PsIteration;

/* With transfers of pure latency. simulation is that of the program under these costs; it may be NULL if devices do not
 * meet. Asynchronous schedules ignore sync, and reduce_ns of 0 makes reduce meaningless. */
PsIteration ps_iteration (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, PsSync sync,
                          PsReduce reduce);

/* With all else that events.h knows; simulation is the run under this setting.
 *
 * If durations are known beforehand the period is exact, with channels, eager messages and blocking communication. The
 * instructions of a channel run in program order, the first of an iteration after the last of the one before. Else
 * (links, overlap_slowdown, ready_order) iterations run one after the other, with idle channels. Each starts from the
 * ready times that the one before has left, until a pattern of ready times comes back. Errors: PS_ERROR_SCHEDULE for
 * deadlocks, and for asynchronous schedules if durations are not known beforehand. */
gboolean ps_iteration_events (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                              const PsEventsSetting *setting, PsSync sync, PsReduce reduce, PsIteration *iteration,
                              GError **error);

/* The moments of one iteration in steady state, of an asynchronous schedule with transfers of pure latency. Fills in
 * the ends of the steps and the makespan of simulation, which has run the program; they count from the iteration's
 * first op. Its last ops run beside the first ones of the next iteration. setting: durations; NULL: those of the costs.
 */
void ps_iteration_times (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                         PsSimulation *simulation);

/* Refuses settings under which durations are not known beforehand. Errors: PS_ERROR_SCHEDULE "NAME: never drains: ...".
 */
gboolean ps_iteration_check_fixed (const PsProgram *program, const PsEventsSetting *setting, GError **error);

G_END_DECLS

#endif
