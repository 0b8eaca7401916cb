/* uncertainty-statistics.c - quantiles of samples, probability of winning, and the tornado of causes. */
#include "steady.h"

#include <math.h>
#include <stdlib.h>

#define TAIL 0.025 /* on each side of a 95 % interval */

/* ln of the probability of k successes out of n. */
static double
log_binomial (guint n, guint k, double q)
{
  int sign;

  return lgamma_r (n + 1.0, &sign) - lgamma_r (k + 1.0, &sign) - lgamma_r (n - k + 1.0, &sign) + k * log (q)
         + (n - k) * log1p (-q);
}

/* The least k >= 0 such that k or fewer of n samples lie below the q quantile with a probability above `p`. Goes down
 * from the middle to where the rest is negligible, then adds up. */
static guint
binomial_quantile (guint n, double q, double probability)
{
  guint k = (guint)(n * q);
  double sum = 0;

  while (k > 0 && log_binomial (n, k, q) > -45)
    k--;
  for (; k < n; k++)
    {
      sum += exp (log_binomial (n, k, q));
      if (sum > probability)
        break;
    }
  return k;
}

/* A quantile with its interval. The quantile lies between the samples of rank low and high (from 1) with probability P
 * (low <= number below it < high). The ranks are computed for the effective number of samples, as parts of all. */
static PsQuantile
quantile (const gint64 *sorted_ns, guint n, double q, guint effective)
{
  guint rank = (guint)ceil (q * n - 1e-9);
  double scale = (double)n / effective;
  guint low = (guint)floor (binomial_quantile (effective, q, TAIL) * scale);
  guint high = (guint)ceil ((binomial_quantile (effective, q, 1 - TAIL) + 1) * scale);

  return (PsQuantile){ sorted_ns[MAX (rank, 1) - 1], sorted_ns[MAX (low, 1) - 1], sorted_ns[MIN (high, n) - 1] };
}

PsQuantile
ps_quantile (const gint64 *sorted_ns, guint n, double q)
{
  g_return_val_if_fail (n >= 1 && q > 0 && q < 1, (PsQuantile){ 0 });
  return quantile (sorted_ns, n, q, n);
}

/* Samples in groups that are independent of each other. */
typedef struct
{
  const gint64 *ns;
  const gint64 *sorted_ns;
  guint n;
  guint n_groups;
  gboolean steady;
} Samples;

static guint
group_of (const Samples *samples, guint i)
{
  return samples->steady ? i / PS_STEADY_BLOCK * PS_STEADY_RUNS + i % PS_STEADY_RUNS : i;
}

/* Variance of the mean of y, from the sums of the groups about that mean. */
static double
variance_of_mean (const Samples *samples, const double *y, double mean)
{
  g_autofree double *sums = g_new0 (double, samples->n_groups);
  double n = samples->n, n_groups = samples->n_groups, squares = 0;

  for (guint i = 0; i < samples->n; i++)
    sums[group_of (samples, i)] += y[i] - mean;
  for (guint i = 0; i < samples->n_groups; i++)
    squares += sums[i] * sums[i];
  return n_groups > 1 ? squares / (n * n) * n_groups / (n_groups - 1) : 0;
}

/* How many independent samples would say as much about the part of samples below the quantile. */
static guint
effective_number (const Samples *samples, double q)
{
  gint64 value = quantile (samples->sorted_ns, samples->n, q, samples->n).value_ns;
  g_autofree double *below = g_new (double, samples->n);
  double part = 0;

  if (!samples->steady)
    return samples->n;
  for (guint i = 0; i < samples->n; i++)
    {
      below[i] = samples->ns[i] <= value;
      part += below[i] / samples->n;
    }
  double variance = variance_of_mean (samples, below, part), independent = part * (1 - part) / samples->n;
  return variance > independent ? (guint)MAX (samples->n * (independent / variance), 1) : samples->n;
}

static PsQuantile
quantile_of (const Samples *samples, double q)
{
  return quantile (samples->sorted_ns, samples->n, q, effective_number (samples, q));
}

/* Student's t with the probability TAIL above it: the expansion about the normal quantile (Abramowitz and Stegun,
 * Handbook of Mathematical Functions, 26.7.5), 1 % low for 2 degrees of freedom, better beyond. */
static double
student_t (guint freedom)
{
  const double z = 1.959963984540054, z2 = z * z, n = freedom;
  const double g1 = z * (z2 + 1) / 4, g2 = z * ((5 * z2 + 16) * z2 + 3) / 96,
               g3 = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
               g4 = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;

  return z + g1 / n + g2 / (n * n) + g3 / (n * n * n) + g4 / (n * n * n * n);
}

static void
find_mean (PsDistribution *distribution, const Samples *samples)
{
  guint n = samples->n;
  g_autofree double *ns = g_new (double, n);
  double sum = 0, squares = 0, half = 0;

  for (guint i = 0; i < n; i++)
    sum += ns[i] = (double)samples->ns[i];
  distribution->mean_ns = sum / n;
  for (guint i = 0; i < n; i++)
    squares += (ns[i] - distribution->mean_ns) * (ns[i] - distribution->mean_ns);
  distribution->deviation_ns = n > 1 ? sqrt (squares / (n - 1)) : 0;
  if (samples->n_groups > 1)
    half = student_t (samples->n_groups - 1) * sqrt (variance_of_mean (samples, ns, distribution->mean_ns));
  distribution->mean_low_ns = distribution->mean_ns - half;
  distribution->mean_high_ns = distribution->mean_ns + half;
}

void
ps_distribution_init (PsDistribution *distribution, const gint64 *ns, guint n, gboolean steady)
{
  g_autofree gint64 *sorted = g_memdup2 (ns, n * sizeof *ns);
  Samples samples = { .ns = ns, .sorted_ns = sorted, .n = n, .steady = steady };

  samples.n_groups = steady ? n / PS_STEADY_BLOCK * PS_STEADY_RUNS + MIN (n % PS_STEADY_BLOCK, PS_STEADY_RUNS) : n;
  qsort (sorted, n, sizeof *sorted, ps_compare_int64);
  *distribution = (PsDistribution){ .n = n,
                                    .p10 = quantile_of (&samples, 0.1),
                                    .p50 = quantile_of (&samples, 0.5),
                                    .p90 = quantile_of (&samples, 0.9),
                                    .p99 = quantile_of (&samples, 0.99) };
  find_mean (distribution, &samples);
}

double
ps_win_probability (const gint64 *a_ns, const gint64 *b_ns, guint n)
{
  guint wins = 0;

  for (guint i = 0; i < n; i++)
    wins += a_ns[i] < b_ns[i];
  return (double)wins / n;
}

/* Tornado */

static gboolean
add_bar (GArray *bars, const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
         const PsSampling *sampling, PsCauses causes, GError **error)
{
  g_autofree gint64 *samples = ps_uncertainty_run (program, costs, uncertainty, sampling, causes, error);
  PsDistribution distribution;
  PsTornadoBar bar = { .slowness = causes.slowness };

  if (samples == NULL)
    return FALSE;
  if (causes.part != NULL)
    bar.part = *causes.part;
  ps_distribution_init (&distribution, samples, sampling->n_samples, ps_sampling_is_steady (sampling, program));
  bar.p10_ns = distribution.p10.value_ns;
  bar.p90_ns = distribution.p90.value_ns;
  bar.mean_ns = distribution.mean_ns;
  bar.deviation_ns = distribution.deviation_ns;
  g_array_append_val (bars, bar);
  return TRUE;
}

PS_DEFINE_FALLING_ORDER (compare_bars, PsTornadoBar, deviation_ns)

GArray *
ps_uncertainty_tornado (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
                        const PsSampling *sampling, guint n_widest, GError **error)
{
  g_autoptr (PsRecurrence) recurrence = ps_recurrence_new (program);
  g_autoptr (GArray) parts = ps_parts (recurrence, costs);
  g_autoptr (GArray) bars = g_array_new (FALSE, FALSE, sizeof (PsTornadoBar));
  gboolean jitters = uncertainty->jitter > 0 || uncertainty->measured != NULL;

  for (guint i = 0; i < parts->len && jitters; i++)
    {
      PsCauses causes = { &g_array_index (parts, PsPart, i), -1 };

      if (!add_bar (bars, program, costs, uncertainty, sampling, causes, error))
        return NULL;
    }
  for (guint i = 0; i < uncertainty->n_slowness; i++)
    if (!add_bar (bars, program, costs, uncertainty, sampling, (PsCauses){ NULL, (gint)i }, error))
      return NULL;
  g_array_sort (bars, compare_bars);
  g_array_set_size (bars, MIN (bars->len, n_widest));
  return g_steal_pointer (&bars);
}
