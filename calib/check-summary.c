/* check-summary.c - figures over the runs of a check. */
#include "check.h"

#include <math.h>

/* The runs that count. */
typedef struct {
  const PsCheckRun **runs;
  guint n;
} Chosen;

static double iteration_error (const PsCheckRun *run)
{
  return fabs (ps_relative_error (run->predicted_ns, run->measured_ns));
}

static double fresh_error (const PsCheckRun *run)
{
  return fabs (ps_relative_error (run->fresh_ns, run->measured_ns));
}

/* NaN: the weather is not known. */
static double weather_error (const PsCheckRun *run)
{
  return fabs ((double)run->predicted_ns * run->weather.factor / (double)run->measured_ns - 1);
}

/* 1: the run is inside the interval in its weather, 0: it is not; NaN: the weather is not known. */
static double is_inside_weather (const PsCheckRun *run)
{
  PsInterval interval;

  if (isnan (run->weather.factor))
    return NAN;
  interval = ps_interval_at_speed (&run->interval, run->weather);
  return ps_interval_holds (&interval, run->measured_ns);
}

static double replay_error (const PsCheckRun *run)
{
  return fabs (run->replay_error);
}

static double op_error (const PsCheckRun *run)
{
  return run->op_error;
}

static double memory_error (const PsCheckRun *run)
{
  return fabs (run->memory_error);
}

/* The value that the part q of all does not exceed; sorts the values. */
static double quantile (GArray *values, double q)
{
  g_array_sort (values, ps_compare_double);
  return values->len > 0 ? g_array_index (values, double, (guint)MAX (ceil (q * values->len) - 1, 0)) : NAN;
}

static double quantile_of (const Chosen *chosen, double (*figure) (const PsCheckRun *run), double q)
{
  g_autoptr (GArray) values = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 0; i < chosen->n; i++) {
    double value = figure (chosen->runs[i]);

    if (!isnan (value))
      g_array_append_val (values, value);
  }
  return quantile (values, q);
}

/* Mean of all values that are known; NaN: none is. */
static double mean_of (const Chosen *chosen, double (*figure) (const PsCheckRun *run))
{
  double sum = 0;
  guint n = 0;

  for (guint i = 0; i < chosen->n; i++) {
    double value = figure (chosen->runs[i]);

    sum += isnan (value) ? 0 : value;
    n += !isnan (value);
  }
  return n > 0 ? sum / n : NAN;
}

static gboolean is_beside (const PsCheckRun *a, const PsCheckRun *b)
{
  return a->round == b->round && a->n_microbatches == b->n_microbatches;
}

static int order (gint64 a, gint64 b)
{
  return (a > b) - (a < b);
}

/* Kendall's tau-b among the runs beside this one: agreements less disagreements, ties left out. NaN: none. */
static double rank_correlation (const Chosen *chosen, const PsCheckRun *run)
{
  double agreement = 0, predicted = 0, measured = 0;

  for (guint i = 0; i < chosen->n; i++)
    for (guint k = 0; k < i; k++) {
      const PsCheckRun *a = chosen->runs[i], *b = chosen->runs[k];
      int x = order (a->predicted_ns, b->predicted_ns), y = order (a->measured_ns, b->measured_ns);

      if (!is_beside (a, run) || !is_beside (b, run))
        continue;
      agreement += x * y;
      predicted += x * x;
      measured += y * y;
    }
  return agreement / sqrt (predicted * measured);
}

/* How much longer the run takes that was predicted to be the fastest, among those beside this one. NaN: it is alone. */
static double regret (const Chosen *chosen, const PsCheckRun *run)
{
  const PsCheckRun *predicted = run, *measured = run;
  guint n = 0;

  for (guint i = 0; i < chosen->n; i++)
    if (is_beside (chosen->runs[i], run)) {
      n++;
      if (chosen->runs[i]->predicted_ns < predicted->predicted_ns)
        predicted = chosen->runs[i];
      if (chosen->runs[i]->measured_ns < measured->measured_ns)
        measured = chosen->runs[i];
    }
  return n > 1 ? ps_relative_error (predicted->measured_ns, measured->measured_ns) : NAN;
}

static void rank (PsCheckSummary *summary, const Chosen *chosen)
{
  g_autoptr (GArray) regrets = g_array_new (FALSE, FALSE, sizeof (double));
  double sum = 0;
  guint n = 0;

  for (guint i = 0; i < chosen->n; i++) {
    gboolean seen = FALSE;

    for (guint k = 0; k < i && !seen; k++)
      seen = is_beside (chosen->runs[i], chosen->runs[k]);
    double tau = seen ? NAN : rank_correlation (chosen, chosen->runs[i]);
    double lost = seen ? NAN : regret (chosen, chosen->runs[i]);
    if (!isnan (lost))
      g_array_append_val (regrets, lost);
    if (!isnan (tau)) {
      sum += tau;
      n++;
    }
  }
  summary->rank = n > 0 ? sum / n : NAN;
  summary->regret = quantile (regrets, 0.5);
}

static gboolean is_quiet (const PsCheckRun *run)
{
  return run->shift <= PS_SENTINEL_TOLERANCE && !(run->others > PS_QUIET_OTHERS);
}

void ps_check_summary_init (PsCheckSummary *summary, const GArray *runs, gboolean quiet)
{
  g_autofree const PsCheckRun **pointers = g_new (const PsCheckRun *, MAX (runs->len, 1));
  Chosen chosen = { pointers, 0 };
  double inside = 0, inside_wide = 0, fresh_ns = 0, measured_ns = 0;

  for (guint i = 0; i < runs->len; i++) {
    const PsCheckRun *run = &g_array_index (runs, PsCheckRun, i);

    if (quiet && !is_quiet (run))
      continue;
    pointers[chosen.n++] = run;
    inside += ps_interval_holds (&run->interval, run->measured_ns);
    fresh_ns += (double)run->fresh_ns;
    measured_ns += (double)run->measured_ns;
    inside_wide += run->interval.low_ns <= run->measured_ns && run->measured_ns <= run->interval.high_ns;
  }
  *summary = (PsCheckSummary){
    .n_runs = chosen.n,
    .error = quantile_of (&chosen, iteration_error, 0.5),
    .error_p95 = quantile_of (&chosen, iteration_error, 0.95),
    .fresh_error = quantile_of (&chosen, fresh_error, 0.5),
    .fresh_total = chosen.n > 0 ? fresh_ns / measured_ns - 1 : NAN,
    .weather_error = quantile_of (&chosen, weather_error, 0.5),
    .replay_error = quantile_of (&chosen, replay_error, 0.5),
    .op_error = quantile_of (&chosen, op_error, 0.5),
    .memory_error = quantile_of (&chosen, memory_error, 0.5),
    .coverage = chosen.n > 0 ? inside / chosen.n : NAN,
    .coverage_wide = chosen.n > 0 ? inside_wide / chosen.n : NAN,
    .coverage_weather = mean_of (&chosen, is_inside_weather),
  };
  rank (summary, &chosen);
}
