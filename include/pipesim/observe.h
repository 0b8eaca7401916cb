/* observe.h - the costs that timelines and logs show: every sample of every op, transfer and host time of one run or
 * several; one timeline compared with another; the iterations of a run compared with each other.
 *
 * - Ops and pairs: their spans. A stage that two devices hold has the samples of both. The slices of a microbatch count
 *   as one op: a sample is the time of one slice times their number.
 *
 * - Transfers: their spans, where the timeline has them. Else they follow from its waits: a device that began to wait
 *   before the message was sent has it when the wait ends. The transfer is the time between the two.
 *
 * - Memory: the curve before, during and after each op.
 *
 * - Host time of an op: the gap before it, less waits and posts. The gap begins where the op before it ends; without
 *   waits, where its input arrives if that is later. Gaps next to pairs and O are left out.
 *
 * - Host time of a message at its sender and at its receiver: the posts. It is the mean of both means: most posts are
 *   short, but some wait for another thread, and an iteration is a sum of many. Where no posts are known, the gaps with
 *   one message have it and the host time of an op; gaps with two say nothing, nor do those beyond twice the
 *   median. Without either it is the host time of an op.
 */
#ifndef PIPESIM_OBSERVE_H
#define PIPESIM_OBSERVE_H

#include <pipesim/option.h>
#include <pipesim/costdb.h>
#include <pipesim/timeline.h>

G_BEGIN_DECLS

typedef struct {
  guint n_stages;     /* 0: nothing was added yet */
  guint n_devices;    /* devices of the last run */
  guint n_iterations; /* iterations of all runs together */
  PsOrigin origin;    /* simulated if a run is, else measured */
  GArray **op;        /* [kind * n_stages + stage] of gint64, ns; empty: never seen, as all lists below */
  GArray **warm;      /* as op: of warm ops alone (ps_op_is_warm), and of the others */
  GArray **cold;
  GArray **pair;     /* [n_stages] by the stage of the pair's forward */
  GArray **transfer; /* [1 + 2 n_stages] see ps_transfer_forward and ps_transfer_backward; nothing at 0 */
  GArray **take; /* as op: bytes that the memory curve rises during an op, and that it falls from there to its end */
  GArray **give;
  GArray **state;  /* [n_stages] of gint64: a stage's part of the bytes that its device holds before the first op */
  GArray *host;    /* gaps that are the host time of an op */
  GArray *message; /* gaps that are the host time of an op and of a message */
  GArray *send;    /* for sends and receives */
  GArray *receive;
  GString *source;  /* one line: the paths and their iterations */
  guint *estimated; /* [n_stages] bit 1 << PsOpKind: the sample of that kind is none, but an estimate */
  char *model_name; /* model that estimates come from; NULL: there is none */
  gboolean apart;   /* ranks of a run were recorded apart (PsTimeline.apart): no message and no sum over ranks shows */
  char *links; /* what transfers and memory come from in place of runs, for descriptions; NULL: they are the runs' */
} PsObserved;

PsObserved *ps_observed_new (void);
void ps_observed_free (PsObserved *observed);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsObserved, ps_observed_free)

/* Adds all samples of the timelines (of PsTimeline) of one run. where names the run in messages. Errors: PS_ERROR_INPUT
 * for a run of another number of stages. */
gboolean ps_observed_add (PsObserved *observed, const char *where, GPtrArray *timelines, GError **error);

/* Adds the log of Megatron-LM's timers (megatron/core/timers.py, with --timing-log-level 2), which has no timeline. For
 * each log interval it tells the time that a rank spends in one iteration on "forward-compute", F, and
 * "backward-compute", BW: sums over microbatches and over the stages of a device. The arguments before say their
 * numbers, and the ranks of a stage. A sample is the mean over an interval's ranks of the stage, their microbatches and
 * the stages of a device; several stages make it an estimate. The one range of all ranks (--timing-log-option minmax or
 * max) is read for one device only: its greatest time.
 *
 * The first interval warms up, so it counts only where it is the only one; one that lacks a rank never does. Other
 * timers are left out. "forward-recv" and its like wait for other stages, so they are no times of transfers. Errors:
 * PS_ERROR_INPUT. */
gboolean ps_observed_add_log (PsObserved *observed, const char *where, GBytes *log, GError **error);

/* Adds the runs at the paths, n of them: whatever ps_timelines_load reads, or logs. A profiler slows a run down.
 * "PATH=T" says that an iteration of PATH takes T without it, from the first op to the last, updates included. The
 * median over such paths of T over the path's own median iteration multiplies all times of all timelines. Errors: also
 * those of ps_timelines_load, and PS_ERROR_INPUT for a factor that no profiler explains. */
gboolean ps_observed_load (PsObserved *observed, const char *const *paths, guint n, GError **error);

/* Fills in F, B, W and BW of the stages that lack some of them. BW is divided into B and W, or put together of them, by
 * the model's operations (model.h). Anything else stays unknown. The estimate becomes the one sample. Errors:
 * PS_ERROR_USAGE when the model has fewer units than the runs have stages. */
gboolean ps_observed_estimate (PsObserved *observed, const PsModel *model, GError **error);

/* Bit 1 << PsOpKind for each kind of which some stage's is an estimate. */
guint ps_observed_estimated (const PsObserved *observed);

/* One line: paths, iterations and estimates. Free with g_free. */
char *ps_observed_describe (const PsObserved *observed);

/* Samples of the host time of a message, at its sender (PS_INSTRUCTION_SEND) or at its receiver
 * (PS_INSTRUCTION_RECEIVE). Free with g_array_unref. */
GArray *ps_observed_posts (const PsObserved *observed, guint type);

/* Costs of n_devices times n_chunks stages from the medians; of posts from the means.
 *
 * F, B, W and BW of a stage without samples are unknown (PsStageCost). R is F and O is 0 where they were not seen. A
 * boundary that no message crossed has the median of the others (ps_costs_guess_transfers). Times have the runs'
 * origin, or are modelled where some of measured runs were estimated. Sizes are known where a measured run has memory
 * curves, as those of exec do. Errors: PS_ERROR_INPUT for runs of another number of stages. */
PsCosts *ps_observed_costs (const PsObserved *observed, guint n_devices, guint n_chunks,
                            GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* TRUE: the runs show PS_MEDIAN_MIN_SAMPLES warm ops of a cell, kind * n_stages + stage, and as many others. */
gboolean ps_observed_tells_warm (const PsObserved *observed, guint cell);

/* Changes costs of ps_observed_costs where runs tell warm ops from others: durations become those of the others, and
 * PsCosts.warm says the part that a warm op takes. */
void ps_observed_tell_warm (const PsObserved *observed, PsCosts *costs);

/* How those costs spread: within a run and, as far as samples of the same runs tell, from one to another. R without
 * samples has those of F. Free with ps_cost_spread_free. */
PsCostSpread *ps_observed_spread (const PsObserved *observed) G_GNUC_WARN_UNUSED_RESULT;

/* Prediction against reality, op by op; or two predictions, or two runs. */

/* Relative errors are (predicted - measured) / measured: positive = predicted too much. NaN where measured is 0. */
double ps_relative_error (gint64 predicted, gint64 measured);

typedef struct {
  PsOp op;
  guint device;
  gint64 predicted_ns; /* duration */
  gint64 measured_ns;
  gint64 predicted_start_ns;
  gint64 measured_start_ns;
} PsOpDifference;

/* Where two timelines are alike (both simulated or both measured), the first takes the place of the predicted one and
 * the second that of the measured one. */
typedef struct {
  gboolean alike;
  gboolean apart;      /* numbers of stages or slices differ: an op of one is none of the other */
  PsOrigin origin;     /* origin of both when they are alike */
  char *schedule[2];   /* names */
  guint n_only[2];     /* ops that only one of the two has; O alone unless alike */
  PsMetrics predicted; /* unless alike its peaks leave out buffers of messages, because measured peaks do */
  PsMetrics measured;
  double iteration_error;
  PsInterval interval;      /* interval of the predicted iteration time; all 0: not known */
  gint64 usual_ns;          /* PsTimeline.usual_ns of the measured one; 0 when alike */
  double bubble_difference; /* predicted - measured bubble ratio */
  double peak_memory_error; /* NaN when one side does not know */
  struct PsKindError {
    guint n;             /* ops of this kind */
    gint64 predicted_ns; /* sum of durations */
    gint64 measured_ns;
    double error;            /* error of the sums */
    double median_abs_error; /* median over ops of |relative error| of durations */
  } kind[PS_N_OP_KINDS], transfer;
  GArray *ops; /* PsOpDifference of every op that both have, largest |duration difference| first */
} PsComparison;

/* Compares op by op. Errors are PS_ERROR_INPUT: an op comes twice; the first timeline is measured and the second
 * simulated; a simulated and a measured one differ in devices, stages, microbatches or ops. The message names the first
 * op that only one of them has. O and transfers are compared where both have them. Timelines that are alike may be of
 * different schedules: ops on the same device are compared where both have them and stages and slices are as many. Free
 * with ps_comparison_free. */
PsComparison *ps_compare (const PsTimeline *predicted, const PsTimeline *measured,
                          GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_comparison_free (PsComparison *comparison);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsComparison, ps_comparison_free)

/* The text of `pipesim compare`: overall figures, error per op kind, the n_worst ops. Every column says which side is
 * predicted and which measured. For timelines that are alike it says first and second, and the error is called a
 * deviation, in keys too. Its tables show the columns of the choice; NULL: all. Errors: those of ps_tables_choose. Free
 * with g_free. */
char *ps_comparison_to_text (const PsComparison *comparison, guint n_worst, const PsColumnChoice *choice,
                             GError **error);

/* The same figures as JSON, "pipesim-comparison/1". Free with g_free. */
char *ps_comparison_to_json (const PsComparison *comparison, guint n_worst);

/* The iterations of one run together: how far their times spread, and what takes longer than its peers.
 */

/* Times of training steps, by nearest rank. */
typedef struct {
  guint n;
  gint64 median_ns;
  gint64 p10_ns;
  gint64 p90_ns;
} PsIterationSpread;

/* iterations: of PsTimeline, at least one. */
PsIterationSpread ps_iteration_spread (const GPtrArray *iterations);

/* The iteration that takes the median time: the first of them. */
guint ps_median_iteration (const GPtrArray *iterations);

G_END_DECLS

#endif
