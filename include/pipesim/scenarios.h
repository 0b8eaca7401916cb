/* scenarios.h - one program under many costs at once: what-if questions, Monte Carlo, sweeps of one figure. The
 * recurrence of simulate.h with a scenario in every lane of a vector register, equal to ps_simulate bit for bit. Times
 * only, memory does not depend on them; transfers never queue. */
#ifndef PIPESIM_SCENARIOS_H
#define PIPESIM_SCENARIOS_H

#include <pipesim/simulate.h>

G_BEGIN_DECLS

#define PS_NO_PARTNER G_MAXUINT32

/* Ops that always take the same time: those of one kind and stage on one device (a stage with two weight copies lives
 * on two). An overlapped pair is one op of a class of its own. */
typedef struct
{
  guint32 cost;    /* index into PsCosts.op; for a pair the index of its first op */
  guint32 partner; /* index of its second op; PS_NO_PARTNER: no pair */
  guint16 device;
} PsOpClass;

/* Transfers that always take the same time: those of one message between two devices. */
typedef struct
{
  guint16 transfer; /* index into PsCosts.transfer_ns */
  guint16 from;
  guint16 to;
} PsTransferClass;

/* A step as the scenario engine sees it. */
typedef struct
{
  guint32 previous; /* slot of the end time of the op before it on its device; slot 0 holds 0 for ever */
  guint32 input;    /* slot of the end time of its input; 0 = none */
  guint32 output;   /* slot for its own end time */
  guint32 op;       /* class of its duration */
  guint32 transfer; /* class of its input's transfer */
} PsScenarioStep;

/* A program made ready for many scenarios. It is only read afterwards, so that threads may share it. End times live in
 * slots. A slot is used again as soon as no step waits for it, so the slots of a few hundred thousand ops fit into the
 * first-level cache. Class 0 of ops takes no time (the first op of a pair), class 0 of transfers is no transfer. */
typedef struct
{
  const PsProgram *program;
  guint n_steps;
  guint n_slots;
  guint n_op_classes;
  guint n_transfer_classes;
  PsScenarioStep *steps;     /* [n_steps] */
  PsOpClass *op;             /* [n_op_classes] entry 0 unused */
  PsTransferClass *transfer; /* [n_transfer_classes] entry 0 unused */
  guint32 *first_slot;       /* [n_devices] slot that keeps the end of a device's first op; 0: device without ops */
  guint32 *first_class;      /* [n_devices] class of that op */
  guint32 *first_step;       /* [n_devices] its id */
  guint32 *last_slot;        /* [n_devices] slot that keeps the end of its last op */
} PsRecurrence;

/* The program must outlive the recurrence. */
PsRecurrence *ps_recurrence_new (const PsProgram *program);
void ps_recurrence_free (PsRecurrence *recurrence);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsRecurrence, ps_recurrence_free)

/* Duration of a class's ops, and of its transfers, under these costs. */
gint64 ps_op_class_duration (const PsOpClass *op, const PsCosts *costs);
gint64 ps_transfer_class_duration (const PsTransferClass *transfer, const PsCosts *costs);

/* Machine code for the inner loop. */
typedef enum
{
  PS_KERNEL_PORTABLE,
  PS_KERNEL_AVX2,
  PS_KERNEL_AVX512,
  PS_N_KERNELS
} PsKernel;

const char *ps_kernel_name (PsKernel kernel);      /* "portable", "avx2", "avx512" */
gboolean ps_kernel_is_available (PsKernel kernel); /* on this processor, in this build */
PsKernel ps_kernel_best (void);

/* Costs and results of n scenarios, and the scratch to compute them. One thread uses one at a time. */
typedef struct
{
  const PsRecurrence *recurrence;
  guint n;
  PsKernel kernel;     /* the best there is; may be set to another available one */
  gint64 *op_ns;       /* [n_op_classes * n] [class * n + scenario], class 0 all 0 */
  gint64 *transfer_ns; /* [n_transfer_classes * n] [class * n + scenario], class 0 all 0 */
  /* results */
  gint64 *makespan_ns; /* [n] */
  gint64 *max_span_ns; /* [n] longest span of a device */
  gint64 *start_ns;    /* [n_devices * n] [device * n + scenario] first op's start */
  gint64 *end_ns;      /* [n_devices * n] last op's end */
  guint bits;          /* integers of the last run: 64, or 32 (twice as many lanes) where every sum fits */
  gint64 unit_ns;      /* meaning of 1: 1 ns, or the largest common divisor of all times */
  gpointer scratch;    /* a block of scenarios: slots and packed costs */
  gpointer allocation;
} PsScenarios;

/* All costs 0. n >= 1. The recurrence must outlive it. */
PsScenarios *ps_scenarios_new (const PsRecurrence *recurrence, guint n);
void ps_scenarios_free (PsScenarios *scenarios);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsScenarios, ps_scenarios_free)

/* Gives one scenario these costs, which have passed ps_costs_check. */
void ps_scenarios_set_costs (PsScenarios *scenarios, guint scenario, const PsCosts *costs);

/* Evaluates all scenarios from op_ns and transfer_ns (none negative, and no longer sum than ps_costs_check allows).
 * Never fails, never allocates.
 *
 * 32-bit integers are taken where they are exact. End times only grow when costs do, so the scenario with the largest
 * cost of every class bounds all others. When its latest end, in units of the common divisor, is below 2^32, so is
 * every sum.
 */
void ps_scenarios_run (PsScenarios *scenarios);

/* Scenarios of one tile of steps. */
#define PS_SCENARIO_LANES 16

/* Writes the durations of steps first_step .. first_step + n_steps - 1 in scenarios first .. first + PS_SCENARIO_LANES
 * - 1, [step * PS_SCENARIO_LANES + lane], and the transfers of the steps' inputs in the same order, both in ns and of
 * type guint32 or gint64. Both are 0 where the step's class is 0. Lanes of scenarios that do not exist (from n on) are
 * written too; they are no results.
 */
typedef void (*PsScenarioFill) (gpointer data, guint first_step, guint n_steps, guint first, gpointer durations,
                                gpointer transfers);

/* Evaluates all scenarios with a time of its own for every op, as ps_simulate_steps does. fill makes the times tile by
 * tile, so that memory never holds all of them. op_ns and transfer_ns are not used. bits: 64 for times of gint64, or 32
 * for times of guint32 if no op of any scenario ends at 2^32 ns or later. */
void ps_scenarios_run_steps (PsScenarios *scenarios, guint bits, PsScenarioFill fill, gpointer data);

G_END_DECLS

#endif
