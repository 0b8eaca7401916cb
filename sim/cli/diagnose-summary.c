/* diagnose-summary.c - a diagnosis in a few lines: iteration, predictions, and the schedule that would be faster. */
#include "diagnose-report.h"

#include <math.h>

#define FAR_OFF 0.1 /* of a prediction from the run */

double
ps_diagnosis_change (gint64 time_ns, gint64 from_ns)
{
  return (double)time_ns / (double)MAX (from_ns, 1) - 1;
}

static void
append_time (GString *text, const char *format, gint64 time_ns)
{
  g_autofree char *time = ps_format_time (time_ns);

  g_string_append_printf (text, format, time);
}

static void
append_change (GString *text, const char *format, gint64 time_ns, gint64 from_ns)
{
  append_time (text, format, time_ns);
  g_string_append_printf (text, " (%+.1f %%)", 100 * ps_diagnosis_change (time_ns, from_ns));
}

static void
append_iterations (GString *text, const PsDiagnosis *diagnosis)
{
  const PsMetrics *metrics = &diagnosis->metrics;

  append_time (text, "iteration %s", metrics->iteration_ns);
  if (diagnosis->spread.n > 1)
    {
      g_string_append_printf (text, ", the median of %u", diagnosis->spread.n);
      append_time (text, " (p10 %s, ", diagnosis->spread.p10_ns);
      append_time (text, "p90 %s)", diagnosis->spread.p90_ns);
    }
  g_string_append_printf (text, "; %.4g microbatches/s\n",
                          1e9 * diagnosis->run->n_microbatches / (double)MAX (metrics->iteration_ns, 1));
  g_string_append_printf (text, "bubble of iteration %.4f, of span %.4f\n", metrics->bubble_ratio,
                          metrics->bubble_ratio_span);
}

/* The gain is that over the run's own prediction: both lack whatever predictions lack. */
static void
append_answer (GString *text, const PsDiagnosis *diagnosis)
{
  const PsRival *best = ps_diagnosis_best (diagnosis);
  gint64 own_ns = diagnosis->prediction->metrics.iteration_ns, run_ns = diagnosis->metrics.iteration_ns;

  if (best == NULL || best->iteration_ns >= own_ns)
    g_string_append (text, "under the same costs and memory no schedule is predicted to be faster\n");
  else
    {
      append_time (text, "under the same costs and memory the fastest is predicted to take %s: ", best->iteration_ns);
      g_string_append_printf (text,
                              "%s with %u chunk%s%s, %.1f %% less than the run as predicted, %+.1f %% against the run "
                              "as %s\n",
                              best->name, best->n_chunks, best->n_chunks == 1 ? "" : "s",
                              best->guessed ? " (guess)" : "", -100 * ps_diagnosis_change (best->iteration_ns, own_ns),
                              100 * ps_diagnosis_change (best->iteration_ns, run_ns),
                              ps_origin_name (diagnosis->run->origin));
    }
  if (fabs (ps_diagnosis_change (own_ns, run_ns)) > FAR_OFF)
    g_string_append (text, "the run itself is predicted badly: trust the order of schedules, not their times\n");
}

char *
ps_diagnosis_summary (const PsDiagnosis *diagnosis)
{
  const PsTimeline *run = diagnosis->run;
  const PsRival *own = ps_diagnosis_own (diagnosis);
  gint64 measured_ns = diagnosis->metrics.iteration_ns;
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "%s: %s\n", ps_origin_name (run->origin), run->source);
  g_string_append_printf (text, "schedule %s%s%s: %u devices, %u stages, %u microbatches\n", run->schedule,
                          own != NULL ? ", the order of " : "", own != NULL ? own->name : "", run->n_devices,
                          run->n_stages, run->n_microbatches);
  append_iterations (text, diagnosis);
  append_change (text, "its ops and transfers without gaps between them: %s", diagnosis->replay_ns, measured_ns);
  append_change (text, "; predicted from medians: %s", diagnosis->prediction->metrics.iteration_ns, measured_ns);
  append_change (text, "\nequal stages are predicted to take %s", diagnosis->even_ns,
                 diagnosis->prediction->metrics.iteration_ns);
  g_string_append_c (text, '\n');
  append_answer (text, diagnosis);
  return g_string_free (text, FALSE);
}
