/* statistics.h - what samples say: statistics without assuming a distribution, when there are enough, how far two
 * medians and two profiles differ, and how well some stage shapes tell another. */
#pragma once

#include <pipesim/costdb.h>

/* Computes median, quartiles, median absolute deviation and minimum by nearest rank. The median of n sorted
 * values is number ceil (n / 2), counted from 1. The quartiles are numbers ceil (n / 4) and ceil (3n / 4). n > 0. */
void ps_statistics_compute (const gint64 *samples, guint n, PsStatistics *statistics);

/* Gives the ranks (from 1) of two order statistics. The true median lies between them with at least 95 % probability,
 * whatever the distribution. low is the largest rank with P (Binomial (n, 1/2) < low) <= 2.5 %. high is n + 1 - low.
 * FALSE for n < 6: there is no such interval. */
gboolean ps_median_ranks (guint n, guint *low, guint *high);

/* TRUE if that interval lies within precision times the median on both sides of the median. */
gboolean ps_median_is_precise (const gint64 *samples, guint n, double precision);

/* Mann-Kendall test for a monotonic slope. Returns the number of pairs that rise minus the number that fall, over the
 * standard deviation without a slope. Beyond +-1.96 a slope is significant at 5 %. 0 for n < 3. Takes n^2 / 2 steps. */
double ps_slope_z (const gint64 *samples, guint n);

/* TRUE for a significant slope that matters: the medians of both halves differ by more than precision times the
 * median. */
gboolean ps_has_drift (const gint64 *samples, guint n, double precision);

/* Sampling stops when there are min_samples, the interval of the median is as narrow as `within` says, and there is no
 * drift ("converged"), or at a cap. */
typedef struct {
  double within; /* half the width of the interval, as a part of the median; 0.01: 1 % */
  guint min_samples;
  guint max_samples;    /* "sample cap" */
  gint64 time_limit_ns; /* "time cap": since the start of sampling */
} PsSamplingRule;

typedef struct {
  const PsSamplingRule *rule;
  GArray *samples;  /* gint64 */
  guint next_check; /* number of samples at the next look */
  const char
      *stop; /* the reason why sampling has stopped, one of the above or of ps_sampler_reject; NULL: it goes on */
} PsSampler;

void ps_sampler_init (PsSampler *sampler, const PsSamplingRule *rule);
void ps_sampler_clear (PsSampler *sampler);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsSampler, ps_sampler_clear)

/* Adds a sample, taken elapsed_ns after the start of sampling. TRUE: this was the last one wanted. Later samples are
 * ignored. */
gboolean ps_sampler_add (PsSampler *sampler, gint64 ns, gint64 elapsed_ns);

/* Notes a sample that does not count, for the state of the hardware. TRUE: there is no time for another one. Sampling
 * has stopped then, without any sample with "no accepted samples". */
gboolean ps_sampler_reject (PsSampler *sampler, gint64 elapsed_ns);

/* Completes a measurement with copies of n samples: statistics, the reason to stop, and the moment. */
void ps_measurement_complete (PsMeasurement *measurement, const char *stop, const gint64 *samples_ns, guint n);

/* The same with those of a sampler that has stopped. */
void ps_sampler_finish (const PsSampler *sampler, PsMeasurement *measurement);

/* Returns a copy of a measurement with the samples of `before` first, as one measurement; NULL: there are none before.
 * Free with ps_measurement_free. */
PsMeasurement *ps_measurement_join (const PsMeasurement *before, const PsMeasurement *m) G_GNUC_WARN_UNUSED_RESULT;

/* The measurements of one key in two profiles. */
typedef struct {
  const PsMeasurement *a; /* NULL: only in b */
  const PsMeasurement *b; /* NULL: only in a */
  double change;          /* change of the median, (b - a) / a; NaN: one is missing, or a's is 0 */
  double noise_ns;        /* largest distance of the medians by chance: the sum of both notches; NaN: too few samples */
  gboolean beyond_noise;  /* the medians are further apart; FALSE if noise_ns is not known */
  gboolean by_clock;      /* with beyond_noise: at b's clock a's median would be within noise of b's */
} PsProfileChange;

/* Compares a with b; either may be NULL. */
PsProfileChange ps_measurement_compare (const PsMeasurement *a, const PsMeasurement *b);

/* Returns an array of PsProfileChange: the keys of a in their order, then the keys of b alone. a and b keep their
 * measurements. */
GArray *ps_profile_diff (const PsProfileContents *a, const PsProfileContents *b);

/* Returns half the width of a median's notch: 1.57 (q3 - q1) / sqrt (n). NaN for n < 6, for which ps_median_ranks has
 * no interval. Two medians whose notches do not overlap differ at about the 95 % level (McGill, Tukey, Larsen:
 * Variations of Box Plots, The American Statistician 32, 1978). */
double ps_median_notch (const PsStatistics *time);

/* Leaves out the ops of each shape in turn, and puts their times together from the parts of the other shapes: so much
 * for a layer, so much for an embedding, a head and so on, by least squares. Only ops of one kind that were measured in
 * the same way say anything about each other, and only where they know all parts. Returns the median |error| over ops,
 * NaN where nothing can be said; *n: the number of ops. */
double ps_shape_error (GPtrArray *measurements, guint *n);

/* One line for people that says so; empty where nothing can be left out. Free with g_free. */
char *ps_shape_error_to_text (GPtrArray *measurements);
