/* run-result.c - makes and frees the result of a run, and computes digests of gradients. */
#include "run-result.h"

#include <math.h>
#include <string.h>

#define LANES 4 /* independent products at the same time */

static PsRunGradients *
gradients_new (guint n_steps, guint n_stages)
{
  PsRunGradients *gradients = g_new0 (PsRunGradients, 1);

  gradients->n_steps = n_steps;
  gradients->n_stages = n_stages;
  gradients->digest = g_new0 (guint64, (gsize)n_steps * n_stages);
  gradients->last = g_new0 (float *, n_stages);
  gradients->n = g_new0 (gsize, n_stages);
  gradients->parts = g_new0 (guint, n_stages);
  return gradients;
}

static void
gradients_free (PsRunGradients *gradients)
{
  if (gradients == NULL)
    return;
  for (guint i = 0; i < gradients->n_stages; i++)
    g_free (gradients->last[i]);
  g_free (gradients->digest);
  g_free (gradients->last);
  g_free (gradients->n);
  g_free (gradients->parts);
  g_free (gradients);
}

/* For a fixed `word` this is a bijection of `sum`, and the other way round. The multiplier is SplitMix64's (Steele,
 * Lea, Flood 2014). */
static inline guint64
mix (guint64 sum, guint64 word)
{
  sum = (sum ^ word) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  return sum ^ sum >> 32;
}

guint64
ps_gradients_digest (const float *values, gsize n)
{
  guint64 sums[LANES] = { 1, 2, 3, 4 }, words[LANES];
  const gsize block = LANES * 2; /* floats in all words */
  guint64 digest = n;

  for (gsize i = 0; i < n; i += block)
    {
      memset (words, 0, sizeof words);
      memcpy (words, values + i, MIN (block, n - i) * sizeof *values);
      for (guint lane = 0; lane < LANES; lane++)
        sums[lane] = mix (sums[lane], words[lane]);
    }
  for (guint lane = 0; lane < LANES; lane++)
    digest = mix (digest, sums[lane]);
  return digest;
}

PsRunResult *
ps_run_result_new (const PsProgram *program, const PsRunSetting *setting, guint n_replicas)
{
  PsRunResult *result = g_new0 (PsRunResult, 1);
  gsize n_losses = (gsize)setting->n_steps * n_replicas * program->schedule->n_microbatches;

  result->n_steps = setting->n_steps;
  result->n_stages = program->schedule->placement->n_stages;
  result->n_microbatches = n_replicas * program->schedule->n_microbatches;
  result->iteration_ns = g_new0 (gint64, setting->n_steps);
  result->losses = g_new (double, n_losses);
  for (gsize i = 0; i < n_losses; i++)
    result->losses[i] = NAN;
  if (setting->gradients && setting->device->computes)
    result->gradients = gradients_new (setting->n_steps, result->n_stages);
  return result;
}

void
ps_run_result_free (PsRunResult *result)
{
  if (result == NULL)
    return;
  g_clear_pointer (&result->timeline, ps_timeline_free);
  gradients_free (result->gradients);
  g_free (result->iteration_ns);
  g_free (result->losses);
  g_free (result);
}

double
ps_run_result_mean_loss (const PsRunResult *result, guint step)
{
  double sum = 0;

  g_return_val_if_fail (step < result->n_steps, NAN);

  for (guint i = 0; i < result->n_microbatches; i++)
    sum += result->losses[(gsize)step * result->n_microbatches + i];
  return sum / result->n_microbatches;
}
