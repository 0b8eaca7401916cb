/* sampler.c - collects the samples of one quantity and decides when there are enough. */
#include "sampler.h"

void ps_sampler_init (PsSampler *sampler, const PsSamplingRule *rule)
{
  *sampler = (PsSampler){ .rule = rule,
                          .samples = g_array_new (FALSE, FALSE, sizeof (gint64)),
                          .next_check = MAX (rule->min_samples, 1) };
}

void ps_sampler_clear (PsSampler *sampler)
{
  g_clear_pointer (&sampler->samples, g_array_unref);
}

static gboolean has_converged (PsSampler *sampler)
{
  const gint64 *samples = (const gint64 *)(gpointer)sampler->samples->data;
  guint n = sampler->samples->len;

  if (n < sampler->next_check)
    return FALSE;
  /* Each look takes time that grows with the samples, so the next look comes later. */
  sampler->next_check = n + MAX (n / 16, 1);
  return ps_median_is_precise (samples, n, sampler->rule->within) && !ps_has_drift (samples, n, sampler->rule->within);
}

gboolean ps_sampler_add (PsSampler *sampler, gint64 ns, gint64 elapsed_ns)
{
  if (sampler->stop != NULL)
    return FALSE;
  if (!sampler->warm) {
    sampler->warm = TRUE;
    return FALSE;
  }
  g_array_append_val (sampler->samples, ns);
  if (has_converged (sampler))
    sampler->stop = "converged";
  else if (sampler->samples->len >= sampler->rule->max_samples)
    sampler->stop = "sample cap";
  else if (elapsed_ns >= sampler->rule->time_limit_ns && sampler->samples->len >= sampler->rule->sound_samples)
    sampler->stop = "time cap";
  return sampler->stop != NULL;
}

gboolean ps_sampler_reject (PsSampler *sampler, gint64 elapsed_ns)
{
  if (sampler->stop != NULL || elapsed_ns < sampler->rule->time_limit_ns)
    return FALSE;
  sampler->stop = sampler->samples->len > 0 ? "time cap" : "no accepted samples";
  return TRUE;
}

void ps_sampler_finish (PsSampler *sampler, PsMeasurement *measurement)
{
  g_return_if_fail (sampler->stop != NULL);

  measurement->stop = g_strdup (sampler->stop);
  measurement->n_samples = sampler->samples->len;
  measurement->samples_ns = (gint64 *)(gpointer)g_array_free (g_steal_pointer (&sampler->samples), FALSE);
  if (measurement->n_samples > 0)
    ps_statistics_compute (measurement->samples_ns, measurement->n_samples, &measurement->time);
}
