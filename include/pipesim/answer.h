/* answer.h - the reasons for an iteration time, and how far it spreads.
 *
 * The reasons: the critical path, the slack of each op, the idle time of devices by cause, and the parts that would pay
 * off if they were faster.
 *
 * Everything is deduced from one simulation, by either engine. A cause is an equality of integer times. An op starts
 * when the op before it on its device ends, or the transfer that it waits for. A transfer starts when its producer
 * ends, or the op or transfer that held one of its two devices.
 */
#ifndef PIPESIM_ANSWER_H
#define PIPESIM_ANSWER_H

#include <pipesim/costdb.h>
#include <pipesim/simulate.h>

G_BEGIN_DECLS

typedef enum {
  PS_PATH_OP,
  PS_PATH_TRANSFER,
  PS_PATH_WAIT,      /* nothing ended just then; never simulated with transfers that do not queue */
  PS_PATH_REDUCE,    /* all-reduce of a stage's gradients; these two only without a meeting at the optimizer */
  PS_PATH_OPTIMIZER, /* O of a device */
} PsPathKind;

/* A piece of the critical path. The next one starts where it ends. */
typedef struct {
  PsPathKind kind;
  guint step; /* the op. Transfer: the op that waits for it. Wait: the op before or after it. All-reduce: the last W or
                 BW of the stage. O: the last op of the device */
  gint64 start_ns;
  gint64 end_ns;
} PsPathPart;

/* Reasons for idle time. Gaps between two ops are split at the moments when the producer's op, and then the transfer of
 * its result, starts and ends. */
typedef enum {
  PS_IDLE_WARM_UP,     /* before its first op */
  PS_IDLE_FORWARD,     /* for an F of another device to end */
  PS_IDLE_BACKWARD,    /* for a B or BW of another device to end */
  PS_IDLE_TRANSFER,    /* for a result that is being transferred */
  PS_IDLE_CHANNEL,     /* for a result that is made but cannot travel yet, or for its own communication */
  PS_IDLE_DRAIN,       /* after its last op, for the last op of another device */
  PS_IDLE_SYNC,        /* at the optimizer, for the all-reduce and the O of other devices */
  PS_IDLE_HOST,        /* for its own host (ps_costs_add_host_time); on the path it is a part of the op. Where times
                          were measured: ps_timeline_host_times */
  PS_IDLE_UNEXPLAINED, /* for nothing that the times show: the op was next and its input was there; 0 in simulations */
  PS_N_IDLE
} PsIdle;

const char *ps_idle_name (PsIdle idle); /* "warm_up", "forward", "backward", "transfer", "channel", "drain", "sync",
                                        "host", "unexplained" */

typedef struct {
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
 * (simulate.h), at least makespan + longest O. */
PsExplanation *ps_explain (const PsProgram *program, const PsCosts *costs, const PsSimulation *simulation,
                           gint64 iteration_ns);

/* The same of times that were measured (ps_timeline_simulation). An op's cause is the later of the op before it on its
 * device and the transfer that it waits for, a transfer's is its producer, or the op that its receiver was busy with
 * until the transfer began. The time from there is a PS_PATH_WAIT at the op. PS_IDLE_HOST takes host_ns of the idle
 * time there (ps_timeline_host_times), PS_IDLE_UNEXPLAINED the rest. slack_ns is NULL. */
PsExplanation *ps_explain_measured (const PsProgram *program, const PsSimulation *simulation, const gint64 *host_ns,
                                    gint64 iteration_ns);

/* The same where devices never meet (simulate.h: bypass, asynchronous schedules). A circle of ops, transfers,
 * all-reduces and O, each of which waits for the one before it, sets the pace: the one with the longest time per
 * iteration that it spans. The path is that circle (one of several), from its first part in a new iteration on.
 * makespan_ns is its time, n_iterations times the exact iteration time; start_ns and end_ns count from its beginning.
 * events NULL: transfers of pure latency. Errors: PS_ERROR_SCHEDULE where durations are not known beforehand (links,
 * overlap_slowdown, ready_order). */
PsExplanation *ps_explain_steady (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *events,
                                  PsReduce reduce, GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_explanation_free (PsExplanation *explanation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsExplanation, ps_explanation_free)

/* Parts that could be made faster. */
typedef enum {
  PS_PART_KIND,   /* all ops of one kind */
  PS_PART_STAGE,  /* all ops of one stage */
  PS_PART_DEVICE, /* all ops on one device */
  PS_PART_LINK,   /* all transfers between two devices, both directions */
} PsPartKind;

typedef struct {
  PsPartKind kind;
  guint a; /* PsOpKind, stage, device, or the lower device of a link */
  guint b; /* the higher device of a link, else 0 */
} PsPart;

/* "F", "stage 3", "device 2", "link 0-1". Free with g_free. */
char *ps_part_format (const PsPart *part);

/* The nanoseconds of a step's op, host times included, and of the transfer of its input, that belong to a part. The
 * time of an overlapped pair, at its second step, belongs to its two ops in proportion to their times alone (the first
 * op's rounded to the nearest nanosecond). */
gint64 ps_part_of_op (const PsPart *part, const PsProgram *program, const PsCosts *costs, guint step);
gint64 ps_part_of_transfer (const PsPart *part, const PsProgram *program, const PsCosts *costs, guint step);

/* The iteration with a part taking `saving` of its time less. */
typedef struct {
  PsPart part;
  gint64 iteration_ns;
  double gain;         /* part of the iteration time that is saved */
  gint64 least_ns;     /* iteration time when the part takes no time at all */
  double change_point; /* saving, in (0, 1], up to which the same path stays critical, so that gains grow in proportion;
                          1: it always does */
} PsWhatIf;

/* The n_best parts that save most, best first, ties by kind, then a, then b. Where a device holds one stage, all of it,
 * the stage alone is a part. Each is evaluated by a run of its own: of the events engine or, where transfers do not
 * queue (events NULL), of the relaxation engine. saving is in (0, 1]; durations are rounded to the nearest nanosecond.
 * rest_ns is the part of the iteration beyond the makespan. Errors: those of the events engine. Free with
 * g_array_unref.
 *
 * With the share s of a part saved, the makespan is the maximum over all paths of A - B s: A is the path's length, B
 * the part's time on it. That function is convex and piecewise linear. Its first corner, the change point, is found by
 * intersecting its line at 0 with the line of the critical path at ever smaller s (Newton's method on max-plus
 * polynomials; Gaubert et al. call it policy iteration). It is NAN where times are no maximum of sums (events has
 * links, speed, overlap_slowdown or ready_order). */
GArray *ps_what_if (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *events, gint64 rest_ns,
                    double saving, guint n_best, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same where devices never meet: iteration times of the steady state, one ps_iteration_events per part.
 * change_point is NAN. */
GArray *ps_what_if_steady (const PsProgram *program, const PsCosts *costs, const PsEventsSetting *events,
                           PsReduce reduce, double saving, guint n_best, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The spread of the iteration time when costs vary: Monte Carlo over jitter of every op and transfer,
 * slow devices and slow links. Printed figures say that they are simulated, and from how many samples.
 *
 * Where devices never meet (simulate.h: bypass, asynchronous schedules) iterations overlap. The time of one is that
 * from the end of the iteration before to its own end. The ends follow a recurrence of random max-plus matrices, and
 * iteration times settle into a distribution of their own. Its mean, the Lyapunov exponent (Baccelli et al.,
 * Synchronization and Linearity, 1992, section 7.3), is at least the period that simulate.h finds for the mean times.
 * The reason is convexity: every end is a maximum of sums, so its mean cannot be less than itself at the means (Jensen;
 * section 8.2). The difference is the schedule's loss to jitter.
 *
 * Draws come from a counter-based generator (Philox4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011, section 3). Each is a function of the seed, the sample and its purpose alone. So a seed gives the same
 * samples on any number of threads, and two schedules have the same draws in the same sample (common random numbers):
 * the F of a stage for a microbatch jitters alike in both. Comparing them needs far fewer samples.
 */

#define PS_MAX_SAMPLES 10000000
#define PS_MAX_JITTER 1.0      /* relative standard deviation */
#define PS_MAX_SLOWNESS 1000.0 /* factor of a slow device or link */

/* A device, or both directions between two, that is `factor` times as slow in a sample, with that probability. */
typedef struct {
  gboolean link;
  guint a; /* the device, or one end of the link */
  guint b; /* the other end */
  double factor;
  double probability;
} PsSlowness;

/* Reads "DEVICE:FACTOR[:PROBABILITY]" or, for a link, "A-B:FACTOR[:PROBABILITY]"; the probability is 1 unless given.
 * FACTOR is from 0.001 to PS_MAX_SLOWNESS; a large one stands for a failed link whose traffic takes a longer path.
 * Errors: PS_ERROR_USAGE. */
gboolean ps_slowness_parse (const char *where, const char *text, gboolean link, PsSlowness *slowness, GError **error);

/* Whether it slows down what goes from a device to a device: a transfer, or ops where both are the same. */
gboolean ps_slowness_slows (const PsSlowness *slowness, guint from, guint to);

/* The variation of costs. Zero and NULL: nothing varies. */
typedef struct {
  /* Relative standard deviation of every op's and transfer's time. Factors are log-normal with mean 1: factor = exp
   * (sigma z - sigma^2 / 2), sigma^2 = ln (1 + jitter^2), z standard normal. */
  double jitter;
  /* In place of jitter: each op takes one of its measured times, drawn at random, relative to their median. */
  const PsCostSpread *measured;
  /* Instead of that each sample is of another run: all ops of a measured row are slower or faster by the same factor,
   * log-normal with the row's deviation. In steady state the iterations of a run have the same factors. */
  gboolean between_runs;
  const PsSlowness *slowness; /* [n_slowness] independent of each other */
  guint n_slowness;
} PsUncertainty;

/* A run of n_samples. */
typedef struct {
  guint n_samples;
  guint64 seed;
  guint n_jobs;                  /* threads; changes nothing but the time that it takes */
  const PsEventsSetting *events; /* the engine for transfers that queue; NULL: pure latency */
  PsSync sync;                   /* asynchronous schedules do not use it */
  PsReduce reduce;
} PsSampling;

/* TRUE: the devices never meet, so that iterations are sampled in steady state. */
gboolean ps_sampling_is_steady (const PsSampling *sampling, const PsProgram *program);

/* How the iterations of steady sampling make runs. */
#define PS_STEADY_RUNS 16
#define PS_STEADY_ITERATIONS 32

/* The iteration time of every sample, [n_samples]; free with g_free. All-reduces and O are included: O is as slow as
 * its device, and does not jitter. A pair jitters as one op. Devices in slowness must exist in the program
 * (ps_uncertainty_check). Errors: PS_ERROR_USAGE where the largest factors could overflow, and those of the events
 * engine.
 *
 * In steady state iterations follow one another in runs, independent of each other. A run begins in the steady state of
 * mean times (or where 256 iterations have led). Its next 16 iterations, at times of their own, are dropped;
 * PS_STEADY_ITERATIONS are samples. Where iterations at mean times alternate, samples leave this difference out,
 * so that each is the iteration time where nothing varies. PS_STEADY_RUNS runs go side by side: their first iterations
 * come first, then the second ones. Samples i and j are of one run where i and j are equal modulo PS_STEADY_RUNS and,
 * rounded down, when divided by PS_STEADY_RUNS PS_STEADY_ITERATIONS. An op that asynchronous schedules run ahead counts
 * where it runs.
 *
 * Where durations are not known beforehand (links, overlap_slowdown, ready_order) runs begin at rest, 64 iterations are
 * dropped, and channels are idle when an iteration begins; asynchronous schedules then give PS_ERROR_SCHEDULE.
 */
gint64 *ps_uncertainty_sample (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
                               const PsSampling *sampling, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Fails with PS_ERROR_USAGE where slowness names a device that a pipeline of n_devices has not got, or a link from a
 * device to itself. */
gboolean ps_uncertainty_check (const PsUncertainty *uncertainty, guint n_devices, GError **error);

/* An order statistic with its 95 % confidence interval. low_ns and high_ns are the sample values whose ranks hold the
 * true quantile with at least that probability, from the binomial distribution of the number of samples below it
 * (Conover, Practical Nonparametric Statistics, 3rd edition, section 3.2). With too few samples they are the extreme
 * ones. */
typedef struct {
  gint64 value_ns;
  gint64 low_ns;
  gint64 high_ns;
} PsQuantile;

/* The least k >= 0 such that k or fewer of n samples lie below the q quantile with more than that probability. */
guint ps_binomial_quantile (guint n, double q, double probability);

/* sorted_ns ascending, n >= 1, q in (0, 1): the smallest value that at least q n samples do not exceed. */
PsQuantile ps_quantile (const gint64 *sorted_ns, guint n, double q);

/* Samples at a glance. */
typedef struct {
  guint n;
  double mean_ns;
  double mean_low_ns; /* 95 % confidence interval of the mean, by Student's t; the sample itself for n = 1 */
  double mean_high_ns;
  double deviation_ns; /* standard deviation, of n - 1; 0 for n = 1 */
  PsQuantile p50;
  PsQuantile p90;
  PsQuantile p99;
} PsDistribution;

/* From n >= 1 samples in any order, or, where steady, in that of ps_uncertainty_sample. Iterations of one run depend on
 * each other, runs do not. So intervals follow from the differences between runs (Cochran, Sampling Techniques, 3rd
 * edition, chapter 9A: the ratio estimate for clusters of unequal sizes). Intervals of quantiles count as many samples
 * as would spread as far if they were independent, at most n. */
void ps_distribution_init (PsDistribution *distribution, const gint64 *ns, guint n, gboolean steady);

/* The part of n >= 1 samples in which a is shorter than b; both of one seed. */
double ps_win_probability (const gint64 *a_ns, const gint64 *b_ns, guint n);

/* Where the iteration time of a run will lie that takes place at another time than the measurements which
 * it was predicted from. docs/intervals.md derives it. Three things move it, independent of each other:
 *
 * - within the run every op and transfer takes one of its measured samples;
 * - each measured row is off by an error of its own, and differs from process to process (PsCostSpread.deviation);
 * - the whole machine drifts: one factor for all times of a run (PsCostSpread.common).
 */

/* Steps of a run whose median is predicted, unless it is known. */
#define PS_INTERVAL_STEPS 5

/* The median iteration time of a run. All 0: not known, because costs were not measured. */
typedef struct {
  gint64 low_ns; /* 95 of 100 runs lie between low and high */
  gint64 p10_ns; /* 80 of 100 between p10 and p90 */
  gint64 p50_ns; /* as many are shorter as longer; files do not keep it */
  gint64 p90_ns;
  gint64 high_ns;
  /* p10 and p90 without the drift of the machine. Predictions for one machine share its drift, so these two tell them
   * apart. Files do not keep them. */
  gint64 own_p10_ns;
  gint64 own_p90_ns;
} PsInterval;

/* iteration_ns: the prediction, at the median of all times. n_steps >= 1 is the length of the run. The members events,
 * sync and reduce of sampling count. The same arguments give the same interval. Errors: as those of
 * ps_uncertainty_sample. */
gboolean ps_interval_init (PsInterval *interval, const PsProgram *program, const PsCosts *costs,
                           const PsCostSpread *spread, const PsSampling *sampling, gint64 iteration_ns, guint n_steps,
                           GError **error);

/* The interval on a machine that is slower by the slow-down, whose error makes it wider. */
PsInterval ps_interval_at_speed (const PsInterval *interval, PsSlowdown slowdown);

/* TRUE: the time lies between p10 and p90. */
static inline gboolean ps_interval_holds (const PsInterval *interval, gint64 iteration_ns)
{
  return interval->p10_ns <= iteration_ns && iteration_ns <= interval->p90_ns;
}

/* "25.1 ms .. 26.9 ms", p10 and p90. Free with g_free. */
char *ps_interval_to_text (const PsInterval *interval);

/* How far modelled steps of one class were from published runs. A class is a machine (PsCluster.class_name), whether a
 * file or a datasheet describes it, the bits that layers multiply, and layers: dense, experts with a pipeline, experts
 * without, or Mamba-2. The errors are of data/errors.csv, which tests/accuracy makes. All schedules of a setting share
 * them: they say how right a step is, and nothing of which schedule is faster. */
typedef struct {
  char *name;   /* "h100-80gb, 16 bits, dense" */
  guint n_rows; /* runs that they rest on; 0: none are of the class, and p10 and p90 are the widest of such layers */
  double p10;   /* of predicted / measured - 1: 8 of 10 runs lie between p10 and p90 */
  double p90;
} PsClassErrors;

/* The layers of a class: "Mamba-2" if there are any, else "dense", "experts" or "experts with p = 1". n_devices: 0 for
 * several. Static. */
const char *ps_class_layers (const PsModel *model, guint n_devices);

/* Free with ps_class_errors_clear. */
void ps_class_errors_init (PsClassErrors *errors, const PsModel *model, guint n_devices, const PsCluster *cluster);
void ps_class_errors_clear (PsClassErrors *errors);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsClassErrors, ps_class_errors_clear)

/* "8 of 10 measured steps are 0.93 to 1.08 of a predicted one (h100-80gb, 16 bits, dense: 23 published
 * runs)". Free with g_free. */
char *ps_class_errors_to_text (const PsClassErrors *errors);

G_END_DECLS

#endif
