/* events.h - the events engine, for runs in which transfers queue, share links or hold up devices, which the relaxation
 * engine does not know. Where both apply they agree exactly.
 *
 * Channels. Every send and receive is an instruction of the program; the instructions of a channel run in program
 * order. A transfer is a rendezvous: it starts when it is the next one on both its ends and its data exists, and holds
 * both ends until it is over. A device posts its instructions ahead of its computing, as programs post work on
 * GPU streams: a receive does not wait for the ops before it, only its channel's order counts. A send's data exists
 * when its producer has ended. An op starts when the one before it has ended and its input has arrived.
 * PS_CHANNEL_LATENCY has no ends: transfers neither queue nor wait for their receiver.
 *
 * Two ways of running give one result. If durations are known beforehand, every time is a maximum over earlier times:
 * the engine follows devices as far as they go, in any order, without a queue of events. If durations depend on other
 * ops and transfers of the same instant (links, overlap_slowdown, ready_order), the engine takes events in the order of
 * time. All events of one instant come before anything new begins. Messages that may begin then go by age; of one age
 * the one whose receive stands first goes first.
 *
 * Memory is that of the relaxation engine, buffers of messages included (memory.h).
 */
#ifndef PIPESIM_EVENTS_H
#define PIPESIM_EVENTS_H

#include <pipesim/simulate.h>

G_BEGIN_DECLS

/* Zero and NULL leave everything out: a run of pure latency. Pointers must stay valid as long as the engine. */
typedef struct
{
  PsChannel comm;
  /* Messages of a known size up to this are sent without waiting for the receiver. The transfer holds the sender's end
   * for its duration. The receive takes no time and is over when the message has arrived and its turn on the receiver's
   * end has come. */
  gint64 eager_bytes;
  /* Communication on the compute stream (Megatron without overlap): a device comes to its sends and receives in the
   * order of its instructions, does nothing else until each is over, and takes part in a transfer only then. */
  gboolean blocking;
  const double *speed; /* [n_devices] ops, O too, take duration / speed, rounded to the nearest; NULL: 1 everywhere.
                          Their host times stay */
  /* Ops of a device, and their host times, take this times as long while it sends or receives; 0 or 1: as long. At most
   * PS_MAX_SLOWDOWN. */
  double overlap_slowdown;
  /* A send or receive counts for overlap_slowdown from the moment when its device comes to it, not only while it moves:
   * NCCL's kernels hold multiprocessors while they wait for their peer. A device comes to an instruction when the op
   * before it has ended. Not with ready_order, whose messages have no instructions. */
  gboolean overlap_waiting;
  /* Transfers share the links of this cluster (cluster.h), max-min fairly: every transfer gets the rate it has alone
   * or, if a link is full, a share that cannot grow without a smaller one shrinking. The latency of the link passes
   * first and takes no bandwidth. Needs PsCosts.message_bytes. NULL: nothing is shared; nor are messages of 0 bytes. */
  const PsCluster *links;
  /* The order as a hint: a device starts the first op of the next `ready_order` of its list (a pair counts as one)
   * whose inputs are there, and messages are sent as they come to exist, in that order, by whichever channel is free.
   * An op overtakes others only if the memory of ops, without messages, then still fits into memory_limit ([n_devices];
   * NULL: no limit). ps_events_realise counts the messages. 0: the order is kept; 1: ops keep it, messages do not. */
  guint ready_order;
  const gint64 *memory_limit;
  const gint64 *ready_ns;    /* [n_devices] when a device may start its first op; NULL: 0 */
  const gint64 *duration_ns; /* [n_steps] as in ps_simulate_steps, before speed; NULL: as the costs say */
  const gint64 *transfer_ns; /* [n_steps] the same */
} PsEventsSetting;

#define PS_MAX_SLOWDOWN 8

/* O of all stages of a device, at its speed under setting (NULL: 1). */
gint64 ps_events_optimizer_ns (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                               guint device);

/* Whether the durations and the order of ops and transfers are known before a run: nothing that runs at the same time
 * changes them. */
static inline gboolean
ps_events_setting_is_fixed (const PsEventsSetting *setting)
{
  return setting->links == NULL && setting->overlap_slowdown <= 1 && setting->ready_order == 0;
}

/* Whether a message of that size is sent without waiting for its receiver. */
static inline gboolean
ps_events_setting_is_eager (const PsEventsSetting *setting, gint64 bytes)
{
  return bytes > 0 && bytes <= setting->eager_bytes;
}

/* The engine for one program, reused over many runs. */
typedef struct _PsEvents PsEvents;

/* The costs give the sizes of messages; the costs of later runs may differ in times only. The program, its
 * instructions too, must stay as it is. Errors: PS_ERROR_USAGE for settings that exclude each other and for times that
 * speed or overlap_slowdown makes too long to add up. Free with ps_events_free. */
PsEvents *ps_events_new (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                         GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_events_free (PsEvents *events);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsEvents, ps_events_free)

/* One run; fills simulation with its start and transfer times too. Busy time is the time that ops took, slowed down or
 * not. A transfer ends when its consumer may start. Errors: PS_ERROR_SCHEDULE with the circle of instructions where the
 * run deadlocks. */
gboolean ps_events_run (PsEvents *events, const PsCosts *costs, PsSimulation *simulation, GError **error);

/* New, run and free in one. */
gboolean ps_events_simulate (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                             PsSimulation *simulation, GError **error);

/* Rewrites the sends and receives of a program in place to the best order found for these costs and this setting, in
 * ready_order 0. The result cannot deadlock on any channel model. It is never slower than PS_COMM_ASAP. It is never
 * slower than PS_COMM_DEFERRED if messages are not eager and durations are fixed (no links, no overlap_slowdown); else
 * a deferred order that deadlocks on other channels may be faster. Tries the orders in which messages come to exist,
 * and list scheduling by the longest path after each message. Errors: as ps_events_new. */
gboolean ps_events_plan (PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting, GError **error);

/* The program of the order in which ops really ran with ready_order. *simulation, of that run, is replaced by one with
 * the same times under the new program's ids. */
PsProgram *ps_events_realise (const PsEvents *events, PsSimulation **simulation) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
