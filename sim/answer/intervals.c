/* intervals.c - draws runs, in a few samples for each cause, and adds up the causes. */
#include <pipesim/answer.h>

#include <math.h>

#define N_STEPS (1U << 19)       /* simulated for each cause, more where a program has many */
#define N_EVENT_STEPS (1U << 16) /* the same where transfers queue, which takes longer */
#define MIN_SAMPLES (2 * PS_STEADY_RUNS)
#define MAX_SAMPLES (16 * PS_STEADY_RUNS)
#define N_POINTS 64 /* of a distribution: the middles of equal parts */
#define N_ANGLES 1024

/* A distribution of logarithms, by its points in ascending order. */
typedef struct {
  double at[N_POINTS];
} Points;

/* Takes sorted values apart into N_POINTS equal parts. */
static void points_init (Points *points, const double *sorted, guint n)
{
  for (guint i = 0; i < N_POINTS; i++)
    points->at[i] = sorted[(2 * i + 1) * n / (2 * N_POINTS)];
}

/* The distribution of a + b; all N_POINTS^2 sums, sorted, go to `sums`. */
static void add (const Points *a, const Points *b, double *sums)
{
  for (guint i = 0; i < N_POINTS; i++)
    for (guint k = 0; k < N_POINTS; k++)
      sums[i * N_POINTS + k] = a->at[i] + b->at[k];
  qsort (sums, N_POINTS * N_POINTS, sizeof *sums, ps_compare_double);
}

/* Student's t times `scale`. With t = sqrt (n) tan (x) the density of x is proportional to cos (x)^(n - 1). */
static void points_init_student (Points *points, double scale, double freedom)
{
  double density[N_ANGLES], sum = 0, below = 0;
  guint point = 0;

  for (guint i = 0; i < N_ANGLES; i++)
    sum += density[i] = pow (cos (((i + 0.5) / N_ANGLES - 0.5) * G_PI), freedom - 1);
  for (guint i = 0; i < N_ANGLES && point < N_POINTS; i++) {
    for (; point < N_POINTS && (point + 0.5) / N_POINTS * sum <= below + density[i]; point++) {
      double part = ((point + 0.5) / N_POINTS * sum - below) / density[i];

      points->at[point] = scale * sqrt (freedom) * tan (((i + part) / N_ANGLES - 0.5) * G_PI);
    }
    below += density[i];
  }
}

/* Samples the iteration under one cause: logarithms relative to the prediction, sorted. Free with g_free. */
static double *sample (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
                       const PsSampling *sampling, gint64 iteration_ns, GError **error)
{
  g_autofree gint64 *ns = ps_uncertainty_sample (program, costs, uncertainty, sampling, error);
  double *logs = ns != NULL ? g_new (double, sampling->n_samples) : NULL;

  for (guint i = 0; ns != NULL && i < sampling->n_samples; i++)
    logs[i] = log ((double)MAX (ns[i], 1) / (double)iteration_ns);
  if (logs != NULL)
    qsort (logs, sampling->n_samples, sizeof *logs, ps_compare_double);
  return logs;
}

/* The median of n_steps iterations spreads less than one of them, about the same middle. */
static void shrink (Points *points, guint n_steps)
{
  double middle = (points->at[N_POINTS / 2 - 1] + points->at[N_POINTS / 2]) / 2;
  double factor = n_steps > 2 ? sqrt (G_PI_2 / n_steps) : 1 / sqrt (n_steps);

  for (guint i = 0; i < N_POINTS; i++)
    points->at[i] = middle + (points->at[i] - middle) * factor;
}

static gint64 quantile (const double *sums, double q, gint64 iteration_ns)
{
  double ns = exp (sums[(guint)(q * N_POINTS * N_POINTS)]) * (double)iteration_ns;

  return llround (MIN (ns, (double)PS_MAX_TIME_NS));
}

gboolean ps_interval_init (PsInterval *interval, const PsProgram *program, const PsCosts *costs,
                           const PsCostSpread *spread, const PsSampling *wanted, gint64 iteration_ns, guint n_steps,
                           GError **error)
{
  PsUncertainty within = { .measured = spread }, between = { .measured = spread, .between_runs = TRUE };
  PsSampling sampling = *wanted;
  g_autofree double *steps = NULL, *runs = NULL, *sums = g_new (double, N_POINTS *N_POINTS);
  Points step_points, run_points;

  *interval = (PsInterval){ 0 };
  if (iteration_ns == 0)
    return TRUE;
  sampling.seed = 1;
  sampling.n_jobs = 1;
  sampling.n_samples = CLAMP ((sampling.events != NULL ? N_EVENT_STEPS : N_STEPS) / MAX (program->n_steps, 1),
                              MIN_SAMPLES, MAX_SAMPLES);
  if (ps_sampling_is_steady (&sampling, program))
    sampling.n_samples = PS_STEADY_RUNS * PS_STEADY_ITERATIONS;
  steps = sample (program, costs, &within, &sampling, iteration_ns, error);
  runs = steps != NULL ? sample (program, costs, &between, &sampling, iteration_ns, error) : NULL;
  if (runs == NULL)
    return FALSE;
  points_init (&step_points, steps, sampling.n_samples);
  shrink (&step_points, n_steps);
  points_init (&run_points, runs, sampling.n_samples);
  add (&step_points, &run_points, sums);
  interval->own_p10_ns = quantile (sums, 0.1, iteration_ns);
  interval->own_p90_ns = quantile (sums, 0.9, iteration_ns);
  points_init (&run_points, sums, N_POINTS * N_POINTS);
  points_init_student (&step_points, spread->common, spread->freedom);
  add (&run_points, &step_points, sums);
  interval->low_ns = quantile (sums, 0.025, iteration_ns);
  interval->p10_ns = quantile (sums, 0.1, iteration_ns);
  interval->p50_ns = quantile (sums, 0.5, iteration_ns);
  interval->p90_ns = quantile (sums, 0.9, iteration_ns);
  interval->high_ns = quantile (sums, 0.975, iteration_ns);
  return TRUE;
}

/* A bound that lies `deviations` of the slow-down's error from the middle by that error alone. Errors are independent,
 * so their squares add. */
static gint64 bound_at_speed (gint64 bound_ns, gint64 middle_ns, PsSlowdown slowdown, double deviations)
{
  double distance = log ((double)MAX (bound_ns, 1) / (double)MAX (middle_ns, 1));
  double wider = hypot (distance, deviations * slowdown.error);

  return llround ((double)middle_ns * slowdown.factor * exp (distance < 0 ? -wider : wider));
}

PsInterval ps_interval_at_speed (const PsInterval *interval, PsSlowdown slowdown)
{
  gint64 middle_ns = interval->p50_ns;

  return (PsInterval){ .low_ns = bound_at_speed (interval->low_ns, middle_ns, slowdown, 1.96),
                       .p10_ns = bound_at_speed (interval->p10_ns, middle_ns, slowdown, 1.2816),
                       .p50_ns = llround ((double)middle_ns * slowdown.factor),
                       .p90_ns = bound_at_speed (interval->p90_ns, middle_ns, slowdown, 1.2816),
                       .high_ns = bound_at_speed (interval->high_ns, middle_ns, slowdown, 1.96) };
}

char *ps_interval_to_text (const PsInterval *interval)
{
  g_autofree char *low = ps_format_time (interval->p10_ns), *high = ps_format_time (interval->p90_ns);

  return g_strdup_printf ("%s .. %s", low, high);
}
