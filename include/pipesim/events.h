/* events.h - the events engine: what the relaxation engine cannot know because transfers queue, share links, or hold up
 * devices. Where both apply they agree exactly.
 *
 * Channels. Every send and receive is an instruction of the program; the instructions of a channel run in program
 * order. A transfer is a rendezvous: it starts when it is the next one on both its ends and its data exists, and holds
 * both ends until it is over. A device posts its instructions ahead of its computing, as work on GPU streams is: a
 * receive does not wait for the ops in front of it, only its channel's order counts; a send's data exists when its
 * producer has ended. An op starts when the one before it has ended and its input has arrived. PS_CHANNEL_LATENCY has
 * no ends: transfers neither queue nor wait for their receiver.
 *
 * Two ways of running, one result: where durations are known beforehand every time is a maximum over what came before,
 * and devices are followed as far as they go, in any order, without a queue of events. Where they depend on what else
 * goes on (links, overlap_slowdown, ready_order) events are taken in the order of time, all those of one instant before
 * anything new begins; what may begin then goes by its age, and by id where that is the same.
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
  /* Messages of a known size up to this are sent without waiting for the receiver: the transfer holds the sender's end
   * for its duration, and the receive is over when the message has arrived and its turn on the receiver's end has
   * come, in no time. */
  gint64 eager_bytes;
  /* Communication on the compute stream (Megatron without overlap): a device comes to its sends and receives in the
   * order of its instructions, does nothing else until each is over, and takes part in a transfer only then. */
  gboolean blocking;
  const double *speed; /* [n_devices] ops, O too, take duration / speed, rounded to the nearest; NULL: 1 everywhere */
  /* Ops of a device take this times as long while it sends or receives; 0 or 1: as long. At most PS_MAX_SLOWDOWN. */
  double overlap_slowdown;
  /* Transfers share the links of this cluster (cluster.h), max-min fairly: every transfer gets the rate it has alone
   * or, where a link is full, the share that leaves none behind that could get more. The latency of the link passes
   * first and takes no bandwidth. Needs PsCosts.message_bytes; NULL, or where they are 0: nothing is shared. */
  const PsCluster *links;
  /* The order as a hint: a device starts the first op of the next `ready_order` of its list (a pair counts as one)
   * whose inputs are there, and messages are sent as they come to exist, in that order, by whichever channel is free.
   * An op overtakes others only if what ops hold, messages apart, still fits into memory_limit (or [n_devices] NULL:
   * none) after it; ps_events_realise counts the messages. 0: the order is kept; 1: ops keep it, messages do not. */
  guint ready_order;
  const gint64 *memory_limit;
  const gint64 *ready_ns;    /* [n_devices] when a device may start its first op; NULL: 0 */
  const gint64 *duration_ns; /* [n_steps] as in ps_simulate_steps, before speed; NULL: those of the costs */
  const gint64 *transfer_ns; /* [n_steps] likewise */
} PsEventsSetting;

#define PS_MAX_SLOWDOWN 8

/* O of all stages of a device, at its speed under setting (NULL: 1). */
gint64 ps_events_optimizer_ns (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                               guint device);

/* Whether what ops and transfers take is known before a run: nothing that goes on beside them changes it, nor their
 * order. */
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

/* The costs give the sizes of messages; those of later runs may differ from them in times only. The program, its
 * instructions too, must stay as it is. Errors: PS_ERROR_USAGE for settings that exclude each other and for times that
 * speed or overlap_slowdown makes too long to add up, PS_ERROR_SCHEDULE for streams without counterparts. Free with
 * ps_events_free. */
PsEvents *ps_events_new (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                         GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_events_free (PsEvents *events);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsEvents, ps_events_free)

/* One run; fills simulation with its start and transfer times too. Busy time is what ops took, slowed down or not. A
 * transfer ends when its consumer may start. Errors: PS_ERROR_SCHEDULE with the circle of instructions where the run
 * deadlocks. */
gboolean ps_events_run (PsEvents *events, const PsCosts *costs, PsSimulation *simulation, GError **error);

/* New, run and free in one. */
gboolean ps_events_simulate (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                             PsSimulation *simulation, GError **error);

/* Rewrites the sends and receives of a program in place to the best order found for these costs and this setting, in
 * ready_order 0. The result cannot deadlock on any channel model and is never slower than PS_COMM_ASAP, nor than
 * PS_COMM_DEFERRED, but where an order that deadlocks on other channels may be better still: with eager messages, and
 * where durations are not fixed (links, overlap_slowdown). Tries the orders in which messages come to exist, and list
 * scheduling by the longest path behind each message. Errors: as ps_events_new. */
gboolean ps_events_plan (PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting, GError **error);

/* What a run with ready_order came to: the program of the order in which ops really ran, and *simulation, of that run,
 * replaced by one of the same times under its ids. */
PsProgram *ps_events_realise (const PsEvents *events, PsSimulation **simulation) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
