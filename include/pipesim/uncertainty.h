/* uncertainty.h - the spread of the iteration time when costs vary: Monte Carlo over jitter of every op and transfer,
 * slow devices and slow links. Printed figures say that they are simulated, and from how many samples.
 *
 * Where devices never meet (iterations.h: bypass, asynchronous schedules) iterations overlap. The time of one is that
 * from the end of the iteration before to its own end. The ends follow a recurrence of random max-plus matrices, and
 * iteration times settle into a distribution of their own. Its mean, the Lyapunov exponent (Baccelli et al.,
 * Synchronization and Linearity, 1992, section 7.3), is at least the period that iterations.h finds for the mean times.
 * The reason is convexity: every end is a maximum of sums, so its mean cannot be less than itself at the means (Jensen;
 * section 8.2). The difference is the schedule's loss to jitter.
 *
 * Draws come from a counter-based generator (Philox4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011, section 3). Each is a function of the seed, the sample and its purpose alone. So a seed gives the same
 * samples on any number of threads, and two schedules have the same luck in the same sample (common random numbers):
 * the F of a stage for a microbatch jitters alike in both. Comparing them needs far fewer samples.
 */
#ifndef PIPESIM_UNCERTAINTY_H
#define PIPESIM_UNCERTAINTY_H

#include <pipesim/costdb.h>
#include <pipesim/events.h>
#include <pipesim/explain.h>

G_BEGIN_DECLS

#define PS_MAX_SAMPLES 10000000
#define PS_MAX_JITTER 1.0      /* relative standard deviation */
#define PS_MAX_SLOWNESS 1000.0 /* factor of a slow device or link */

/* A device, or both directions between two, that is `factor` times as slow in a sample, with that probability. */
typedef struct
{
  gboolean link;
  guint a; /* the device, or one end of the link */
  guint b; /* the other end */
  double factor;
  double probability;
} PsSlowness;

/* Reads "DEVICE:FACTOR[:PROBABILITY]" or, for a link, "A-B:FACTOR[:PROBABILITY]"; the probability is 1 unless given.
 * FACTOR is from 0.001 to PS_MAX_SLOWNESS; a large one stands for a failed link whose traffic goes a longer way.
 * Errors: PS_ERROR_USAGE. */
gboolean ps_slowness_parse (const char *where, const char *text, gboolean link, PsSlowness *slowness, GError **error);

/* The variation of costs. Zero and NULL: nothing varies. */
typedef struct
{
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
typedef struct
{
  guint n_samples;
  guint64 seed;
  guint n_jobs;                  /* threads; changes nothing but the time that it takes */
  const PsEventsSetting *events; /* the engine for transfers that queue; NULL: pure latency */
  PsSync sync;                   /* of no concern to asynchronous schedules */
  PsReduce reduce;
} PsSampling;

/* TRUE: the devices never meet, so that iterations are sampled in steady state. */
gboolean ps_sampling_is_steady (const PsSampling *sampling, const PsProgram *program);

/* How the iterations of steady sampling make runs. */
#define PS_STEADY_RUNS PS_SCENARIO_LANES
#define PS_STEADY_ITERATIONS 32

/* The iteration time of every sample, [n_samples]; free with g_free. All-reduces and O are included: O is as slow as
 * its device, and does not jitter. A pair jitters as one op. Devices in slowness must exist in the program
 * (ps_uncertainty_check). Errors: PS_ERROR_USAGE where the largest factors could overflow, and those of the events
 * engine.
 *
 * In steady state iterations follow one another in runs, independent of each other. A run begins in the steady state of
 * mean times (or where 256 iterations have led). Its next 16 iterations, at times of their own, are dropped;
 * PS_STEADY_ITERATIONS are samples. Where iterations at mean times differ in turn, samples leave this difference out,
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
typedef struct
{
  gint64 value_ns;
  gint64 low_ns;
  gint64 high_ns;
} PsQuantile;

/* sorted_ns ascending, n >= 1, q in (0, 1): the smallest value that at least q n samples do not exceed. */
PsQuantile ps_quantile (const gint64 *sorted_ns, guint n, double q);

/* Samples at a glance. */
typedef struct
{
  guint n;
  double mean_ns;
  double mean_low_ns; /* 95 % confidence interval of the mean, by Student's t; the sample itself for n = 1 */
  double mean_high_ns;
  double deviation_ns; /* standard deviation, of n - 1; 0 for n = 1 */
  PsQuantile p10;
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

/* One cause of spread by itself: jitter of one part alone, or one slowness alone. */
typedef struct
{
  PsPart part;
  gint slowness; /* index; -1: jitter of the part */
  gint64 p10_ns;
  gint64 p90_ns;
  double mean_ns;
  double deviation_ns;
} PsTornadoBar;

/* The n_widest bars, largest standard deviation first (quantiles do not see what is rare), ties in the order of
 * ps_parts, then of slowness. Each is a run of its own with the same draws. Free with g_array_unref. */
GArray *ps_uncertainty_tornado (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
                                const PsSampling *sampling, guint n_widest, GError **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS

#endif
