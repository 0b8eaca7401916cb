/* uncertainty-statistics.c - quantiles of samples, who wins, and which cause of spread moves the result most. */
#include "uncertainty-private.h"

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

/* The least k >= 0 for which k or fewer of n samples lie below the q quantile with more than that probability. Goes
 * down from the middle to where nothing is left, then adds up. */
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

/* The quantile lies between the samples of rank low and high (from 1) with probability P (low <= number below it <
 * high).
 */
PsQuantile
ps_quantile (const gint64 *sorted_ns, guint n, double q)
{
  guint rank = (guint)ceil (q * n - 1e-9);
  guint low = binomial_quantile (n, q, TAIL), high = binomial_quantile (n, q, 1 - TAIL) + 1;

  g_return_val_if_fail (n >= 1 && q > 0 && q < 1, (PsQuantile){ 0 });
  return (PsQuantile){ sorted_ns[MAX (rank, 1) - 1], sorted_ns[MAX (low, 1) - 1], sorted_ns[MIN (high, n) - 1] };
}

void
ps_distribution_init (PsDistribution *distribution, const gint64 *ns, guint n)
{
  g_autofree gint64 *sorted = g_memdup2 (ns, n * sizeof *ns);
  double sum = 0, squares = 0;

  qsort (sorted, n, sizeof *sorted, ps_compare_int64);
  *distribution = (PsDistribution){ .n = n,
                                    .p10 = ps_quantile (sorted, n, 0.1),
                                    .p50 = ps_quantile (sorted, n, 0.5),
                                    .p90 = ps_quantile (sorted, n, 0.9),
                                    .p99 = ps_quantile (sorted, n, 0.99) };
  for (guint i = 0; i < n; i++)
    sum += (double)ns[i];
  distribution->mean_ns = sum / n;
  for (guint i = 0; i < n; i++)
    squares += ((double)ns[i] - distribution->mean_ns) * ((double)ns[i] - distribution->mean_ns);
  distribution->deviation_ns = n > 1 ? sqrt (squares / (n - 1)) : 0;
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
  if (causes.part)
    bar.part = *causes.part;
  ps_distribution_init (&distribution, samples, sampling->n_samples);
  bar.p10_ns = distribution.p10.value_ns;
  bar.p90_ns = distribution.p90.value_ns;
  bar.mean_ns = distribution.mean_ns;
  bar.deviation_ns = distribution.deviation_ns;
  g_array_append_val (bars, bar);
  return TRUE;
}

static int
compare_bars (gconstpointer a, gconstpointer b)
{
  const PsTornadoBar *x = a, *y = b;

  return (x->deviation_ns < y->deviation_ns) - (x->deviation_ns > y->deviation_ns);
}

GArray *
ps_uncertainty_tornado (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
                        const PsSampling *sampling, guint n_widest, GError **error)
{
  g_autoptr (PsScenarioPlan) plan = ps_scenario_plan_new (program);
  g_autoptr (GArray) parts = ps_parts (plan, costs);
  g_autoptr (GArray) bars = g_array_new (FALSE, FALSE, sizeof (PsTornadoBar));
  gboolean jitters = uncertainty->jitter > 0 || uncertainty->measured;

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
