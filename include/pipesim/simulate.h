/* simulate.h - from program and costs to times and memory. The relaxation engine: for a fixed order and transfers that
 * never queue, start = max (end of the previous op on the device, end of the producer + transfer), one pass, no queue,
 * no allocation; memory is a prefix sum in the same pass.
 *
 * Where weights are spread over replicas (PsCosts.zero is 3) ops also wait until theirs are gathered, and all devices
 * count from the start of their first gather (sim/simulate/gathers.h). The events engine knows no gathers.
 *
 * The host times of an op (ps_costs_add_host_time) are part of its duration in both engines: a step starts when the
 * host begins with it, and ends when the host is done with it. Busy time leaves them out.
 */
#ifndef PIPESIM_SIMULATE_H
#define PIPESIM_SIMULATE_H

#include <stdint.h>
#include <pipesim/costs.h>
#include <pipesim/program.h>

G_BEGIN_DECLS

typedef struct {
  gint64 busy_ns;      /* sum of op durations, without host times */
  gint64 host_ns;      /* sum of the host times of its ops */
  gint64 start_ns;     /* first op's start */
  gint64 end_ns;       /* last op's end */
  gint64 peak_bytes;   /* weights (all versions), everything live and buffers of messages (simulate.h), at the worst
                          moment */
  gint64 held_bytes;   /* at the end; the weights alone when every activation was given back */
  gint64 optimizer_ns; /* O of all its stages */
  gint64 step_bytes;   /* temporaries of O of all its stages, which it holds while nothing is live */
} PsDeviceResult;

/* Memory of a device while the program is walked, kept small and apart from the rest for speed. */
typedef struct {
  gint64 held_bytes;
  gint64 peak_bytes;
} PsMemoryLevel;

/* Result and scratch of one program; reused over many calls. */
typedef struct {
  guint n_steps;
  guint n_devices;
  gint64 *end_ns;            /* [n_steps + 1] end of step i at i + 1; entry 0 is 0 */
  gint64 *start_ns;          /* [n_steps] start of each step; NULL from the relaxation engine: end - ps_step_duration */
  gint64 *transfer_start_ns; /* [n_steps] the transfer of the step's input; NULL from the relaxation engine: it starts
                                at the producer's end and takes the costs' time */
  gint64 *transfer_end_ns;   /* [n_steps] the same */
  PsMemoryLevel *memory;     /* [n_devices] scratch */
  gboolean times_only;       /* set by a caller that reads no peaks: they then leave out the buffers of messages, which
                                take most of a run */
  PsDeviceResult *device;    /* [n_devices] */
  gint64 makespan_ns;        /* first op start to last op end over all devices */
  gint64 max_span_ns;        /* longest span of a device */
  gint64 optimizer_ns;       /* longest O of a device */
} PsSimulation;

/* Room for the runs of programs with as many steps and devices as this one. Free with ps_simulation_free. */
PsSimulation *ps_simulation_new (const PsProgram *program);
void ps_simulation_free (PsSimulation *simulation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSimulation, ps_simulation_free)

/* Costs must have the program's numbers of stages and lengths, have passed ps_costs_check and lack no host time. Never
 * fails; allocates only for the buffers of messages of a known size, and for gathers. */
void ps_simulate (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation);

/* The same with a time of its own for every op: duration_ns and transfer_ns (of the step's input from another device)
 * are [n_steps] and replace the times of the costs, host times too; memory and O stay. The first op of a pair must have
 * duration 0, the second that of the pair. Peaks leave the buffers of messages out: start and end of transfers are not
 * kept. */
void ps_simulate_steps (const PsProgram *program, const PsCosts *costs, const gint64 *duration_ns,
                        const gint64 *transfer_ns, PsSimulation *simulation);

/* Simulates a schedule as PS_COMM_ASAP lowers it. Fails as ps_program_lower does. */
PsSimulation *ps_simulate_schedule (const PsSchedule *schedule, const PsCosts *costs,
                                    GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The bytes of all peaks above their devices' limits [n_devices], and *most (NULL: not wanted) of any device; 0 where
 * memory_limit is NULL. */
gint64 ps_simulation_excess (const PsSimulation *simulation, const gint64 *memory_limit, gint64 *most);

/* Duration of a step under these costs. Of a pair, the first op has 0 and the second that of the whole pair. */
static inline gint64 ps_step_duration (const PsProgram *program, const PsCosts *costs, guint step)
{
  guint8 role = program->pair != NULL ? program->pair[step] : PS_PAIR_NONE;

  return role == PS_PAIR_NONE    ? costs->op[program->steps[step].cost].duration_ns
         : role == PS_PAIR_FIRST ? 0
                                 : ps_costs_pair_ns (costs, program->steps[step - 1].cost, program->steps[step].cost);
}

/* The part of that duration which is the host's. */
PsHostTime ps_step_host_time (const PsProgram *program, const PsCosts *costs, guint step);

/* The start of a step, and of the transfer of its input with its end, whichever engine has run. The first op of a pair
 * starts when its own input is there; the pair starts with the second. A step without input has no transfer. */
static inline gint64 ps_simulation_start (const PsProgram *program, const PsCosts *costs,
                                          const PsSimulation *simulation, guint step)
{
  return simulation->start_ns != NULL ? simulation->start_ns[step]
                                      : simulation->end_ns[step + 1] - ps_step_duration (program, costs, step);
}

static inline void ps_simulation_transfer (const PsProgram *program, const PsCosts *costs,
                                           const PsSimulation *simulation, guint step, gint64 *start_ns, gint64 *end_ns)
{
  gboolean known = simulation->transfer_start_ns != NULL;

  *start_ns = known ? simulation->transfer_start_ns[step] : simulation->end_ns[program->steps[step].input];
  *end_ns = known ? simulation->transfer_end_ns[step] : *start_ns + costs->transfer_ns[program->steps[step].transfer];
}

/* The events engine, for runs in which transfers queue, share links or hold up devices, which the relaxation
 * engine does not know. Where both apply they agree exactly.
 *
 * Channels. Every send and receive is an instruction of the program; the instructions of a channel run in program
 * order. A transfer is a rendezvous: it starts when it is the next one on both its ends and its data exists, and holds
 * both ends until it is over. A device posts its instructions ahead of its computing, as programs post work on
 * GPU streams: a receive does not wait for the ops before it, only its channel's order counts. A send's data exists
 * when its producer has ended. An op starts when the one before it has ended and its input has arrived.
 * PS_CHANNEL_LATENCY has no ends: transfers neither queue nor wait for their receiver.
 *
 * Two loops give one result. If durations are known beforehand, every time is a maximum over earlier times:
 * the engine follows devices as far as they go, in any order, without a queue of events. If durations depend on other
 * ops and transfers of the same instant (links, overlap_slowdown, ready_order), the engine takes events in the order of
 * time. All events of one instant come before anything new begins. Messages that may begin then go by age; of one age
 * the one whose receive stands first goes first.
 *
 * Memory is that of the relaxation engine, buffers of messages included (PsMemory).
 */

/* Zero and NULL leave everything out: a run of pure latency. Pointers must stay valid as long as the engine. */
typedef struct {
  PsChannel comm;
  /* Messages of a known size up to this are sent without waiting for the receiver. The transfer holds the sender's end
   * for its duration. The receive takes no time and is over when the message has arrived and is the next one on the
   * receiver's end. */
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
static inline gboolean ps_events_setting_is_fixed (const PsEventsSetting *setting)
{
  return setting->links == NULL && setting->overlap_slowdown <= 1 && setting->ready_order == 0;
}

/* Whether a message of that size is sent without waiting for its receiver. */
static inline gboolean ps_events_setting_is_eager (const PsEventsSetting *setting, gint64 bytes)
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

/* The bytes that each device holds by their use, over time and at its peak. */

typedef enum {
  PS_MEMORY_WEIGHTS,       /* the copy that kernels read; gathered ones too */
  PS_MEMORY_GRADIENTS,     /* accumulated over the microbatches; those too that wait to be scattered */
  PS_MEMORY_OPTIMIZER,     /* moments and master weights */
  PS_MEMORY_STATE,         /* these three together, if only their sum is known */
  PS_MEMORY_VERSIONS,      /* further versions of the weights */
  PS_MEMORY_ACTIVATIONS,   /* an F leaves them for its B or BW */
  PS_MEMORY_WEIGHT_INPUTS, /* a B leaves them for its W */
  PS_MEMORY_WORKSPACE,     /* ops need it only while they run; activations that are recomputed or come back from the
                              host count here too */
  PS_MEMORY_BUFFERS,       /* messages, see below */
  PS_MEMORY_FRAMEWORK,     /* memory of the framework itself, see work.h: dummy gradients, workspaces */
  PS_MEMORY_CONTEXT,       /* memory of driver, libraries and allocator, which the framework does not count */
  PS_N_MEMORY_PARTS
} PsMemoryPart;

/* Stable keys: "weights", "gradients", "optimizer", "state", "versions", "activations", "weight_inputs", "workspace",
 * "buffers", "framework", "context". */
const char *ps_memory_part_key (PsMemoryPart part);

/* One device from time_ns on, until the next moment. */
typedef struct {
  gint64 time_ns;
  gint64 bytes[PS_N_MEMORY_PARTS];
} PsMemoryMoment;

/* The bytes of one microbatch (or slice of it) on one stage. */
typedef struct {
  guint32 microbatch;
  guint16 stage;
  guint8 slice;
  guint8 part; /* PS_MEMORY_ACTIVATIONS or PS_MEMORY_WEIGHT_INPUTS */
  gint64 bytes;
} PsMemoryHolding;

typedef struct {
  gint64 peak_bytes;   /* the largest sum of all parts */
  PsMemoryMoment peak; /* when it is first reached */
  GArray *alive;       /* PsMemoryHolding at that moment, by stage, microbatch, slice */
  GArray *curve; /* PsMemoryMoment, by time, from 0 on; all changes of one instant make one moment, so a peak that lasts
                    no time is not on the curve */
} PsDeviceMemory;

typedef struct {
  guint n_devices;
  PsDeviceMemory *device; /* [n_devices] */
} PsMemory;

/* Walks the result of either engine; every peak_bytes equals that of the simulation. Messages count if
 * PsCosts.message_bytes gives their size. At the receiver they count from when its stream has come to the RECEIVE, or
 * the transfer has started; until an F takes the activation over, or the B or BW that reads the gradient ends. At the
 * sender they count from the producer's end until the transfer's. Free with ps_memory_free. */
PsMemory *ps_memory_new (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation);
void ps_memory_free (PsMemory *memory);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsMemory, ps_memory_free)

/* Bytes of all parts together. */
gint64 ps_memory_sum (const PsMemoryMoment *moment);

/* "stage 0: 0-3, 5; stage 4: 1, W 0": the microbatches of each stage that have activations, then the
 * microbatches with only W's inputs left. Free with g_free. */
char *ps_memory_describe_alive (const PsDeviceMemory *memory);

/* Many iterations back to back: the time per training step in steady state, gradient all-reduce and
 * optimizer included.
 *
 * Global synchronisation: all devices meet at the optimizer. An iteration takes the makespan, the part of the
 * all-reduce that goes on after it, and the longest O of a device.
 *
 * Bypass is the post-validation of the zero-bubble paper (arXiv 2401.10241, section 4). A device steps its optimizer as
 * soon as its own gradients are reduced and it has the state (norm, overflow) of the devices before it. The state is a
 * few bytes and travels in no time. The device then goes on with the next iteration at once. The
 * validation that follows costs nothing here: no step is ever rolled back.
 *
 * Asynchronous schedules (PipeDream, PipeDream-2BW) never meet and never drain. On every device the drain of one
 * iteration interleaves with the warm-up of the next, forwards and backwards alternate. No device is more than one
 * iteration ahead, so with m < p fewer microbatches are in flight than PipeDream would allow. A stage steps its
 * optimizer after every PsSchedule.update_every microbatches: PipeDream after each one, PipeDream-2BW after m. Each
 * step costs an O, and an all-reduce where there are replicas.
 *
 * Forward-only schedules have no optimizer. With a meeting an iteration is the makespan: the next prompts wait until
 * these are in. Without one each device goes on with the next prompts at once.
 *
 * Without a meeting the devices repeat one pattern, shifted against each other. Its period is the maximum cycle ratio
 * of the graph of all ops, waits and transfers of one iteration with arcs that lead into the next one (max-plus
 * algebra; Baccelli et al., Synchronization and Linearity, 1992, section 3.2.3), found exactly in integers.
 */

typedef enum {
  PS_SYNC_GLOBAL,
  PS_SYNC_BYPASS,
} PsSync;

/* Names and back; errors as those of ps_parse_name. */
const char *ps_sync_name (PsSync sync); /* "global", "bypass" */
gboolean ps_sync_parse (const char *where, const char *text, PsSync *sync, GError **error);

/* The all-reduce of a stage's gradients (PsCosts.reduce_ns) begins when the last W or BW of the stage has ended, on all
 * weight copies. Asynchronous schedules need one for each optimizer step. The all-reduces of a device follow one
 * another. */
typedef enum {
  PS_REDUCE_OVERLAPPED, /* while the device runs its other ops; in asynchronous schedules during the whole
                           next iteration, whose end the step then waits for */
  PS_REDUCE_EXPOSED,    /* after the device's last op */
} PsReduce;

/* Names and back; errors as those of ps_parse_name. */
const char *ps_reduce_name (PsReduce reduce); /* "overlapped", "exposed" */
gboolean ps_reduce_parse (const char *where, const char *text, PsReduce *reduce, GError **error);

typedef struct {
  gint64 period_ns;   /* time per iteration, rounded to the nearest nanosecond; single iterations may alternate */
  guint n_iterations; /* the least number of iterations that take whole nanoseconds in the long run, so that period_ns
                         is exact for 1; 0: no repetition was seen, period_ns is a mean */
} PsIteration;

/* With transfers of pure latency. simulation is that of the program under these costs; it may be NULL if devices do not
 * meet. Asynchronous schedules ignore sync, and reduce_ns of 0 makes reduce meaningless. */
PsIteration ps_iteration (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, PsSync sync,
                          PsReduce reduce);

/* With all else that simulate.h knows; simulation is the run under this setting.
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
 * first op. Its last ops run while the first ones of the next iteration do. setting: durations; NULL: those of the
 * costs.
 */
void ps_iteration_times (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *setting,
                         PsSimulation *simulation);

G_END_DECLS

#endif
