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

#include <pipesim/costs.h>
#include <pipesim/program.h>

G_BEGIN_DECLS

typedef struct
{
  gint64 busy_ns;      /* sum of op durations, without host times */
  gint64 host_ns;      /* sum of the host times of its ops */
  gint64 start_ns;     /* first op's start */
  gint64 end_ns;       /* last op's end */
  gint64 peak_bytes;   /* weights (all versions), everything live and buffers of messages (memory.h), at the worst
                          moment */
  gint64 held_bytes;   /* at the end; the weights alone when every activation was given back */
  gint64 optimizer_ns; /* O of all its stages */
} PsDeviceResult;

/* Memory of a device while the program is walked, kept small and apart from the rest for speed. */
typedef struct
{
  gint64 held_bytes;
  gint64 peak_bytes;
} PsMemoryLevel;

/* Result and scratch of one program; reused over many calls. */
typedef struct
{
  guint n_steps;
  guint n_devices;
  gint64 *end_ns;            /* [n_steps + 1] end of step i at i + 1; entry 0 is 0 */
  gint64 *start_ns;          /* [n_steps] start of each step; NULL from the relaxation engine: end - ps_step_duration */
  gint64 *transfer_start_ns; /* [n_steps] the transfer of the step's input; NULL from the relaxation engine: it starts
                                at the producer's end and takes the costs' time */
  gint64 *transfer_end_ns;   /* [n_steps] the same */
  PsMemoryLevel *memory;     /* [n_devices] scratch */
  gpointer buffers;          /* scratch; NULL: no run so far knew the size of a message */
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
 * fails; allocates only in the first run in which messages have a known size, and for gathers. */
void ps_simulate (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation);

/* The same with a time of its own for every op: duration_ns and transfer_ns (of the step's input from another device)
 * are [n_steps] and replace the times of the costs, host times too; memory and O stay. The first op of a pair must have
 * duration 0, the second that of the pair. Peaks leave the buffers of messages out: start and end of transfers are not
 * kept. */
void ps_simulate_steps (const PsProgram *program, const PsCosts *costs, const gint64 *duration_ns,
                        const gint64 *transfer_ns, PsSimulation *simulation);

/* Duration of a step of a pair under these costs: 0 for the first op, the whole pair for the second. */
gint64 ps_paired_duration (const PsProgram *program, const PsCosts *costs, guint step);

/* Duration of any step. */
static inline gint64
ps_step_duration (const PsProgram *program, const PsCosts *costs, guint step)
{
  return program->pair != NULL && program->pair[step] != PS_PAIR_NONE
             ? ps_paired_duration (program, costs, step)
             : costs->op[program->steps[step].cost].duration_ns;
}

/* The part of that duration which is the host's. */
PsHostTime ps_step_host_time (const PsProgram *program, const PsCosts *costs, guint step);

/* The start of a step, and of the transfer of its input with its end, whichever engine has run. The first op of a pair
 * starts when its own input is there; the pair starts with the second. A step without input has no transfer. */
static inline gint64
ps_simulation_start (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, guint step)
{
  return simulation->start_ns != NULL ? simulation->start_ns[step]
                                      : simulation->end_ns[step + 1] - ps_step_duration (program, costs, step);
}

static inline void
ps_simulation_transfer (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation, guint step,
                        gint64 *start_ns, gint64 *end_ns)
{
  gboolean known = simulation->transfer_start_ns != NULL;

  *start_ns = known ? simulation->transfer_start_ns[step] : simulation->end_ns[program->steps[step].input];
  *end_ns = known ? simulation->transfer_end_ns[step] : *start_ns + costs->transfer_ns[program->steps[step].transfer];
}

G_END_DECLS

#endif
