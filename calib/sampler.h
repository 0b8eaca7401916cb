/* sampler.h - collects the samples of one quantity and decides when there are enough. */
#ifndef PIPESIM_CALIB_SAMPLER_H
#define PIPESIM_CALIB_SAMPLER_H

#include "statistics.h"

G_BEGIN_DECLS

/* Sampling stops when there are min_samples, the median is known `within` so much of itself and there is no drift
 * ("converged"), or at a cap. */
typedef struct
{
  double within; /* 0.01: 1 % */
  guint min_samples;
  guint max_samples;    /* "sample cap" */
  gint64 time_limit_ns; /* "time cap": since sampling began */
} PsSamplingRule;

typedef struct
{
  const PsSamplingRule *rule;
  GArray *samples;  /* gint64 */
  gboolean warm;    /* the first sample was seen and dropped */
  guint next_check; /* number of samples at which to look again */
  const char *stop; /* why sampling has stopped; NULL: it has not */
} PsSampler;

void ps_sampler_init (PsSampler *sampler, const PsSamplingRule *rule);
void ps_sampler_clear (PsSampler *sampler);

/* Adds a sample, taken elapsed_ns after sampling began; TRUE when that was the last one wanted. Samples that come after
 * are ignored. */
gboolean ps_sampler_add (PsSampler *sampler, gint64 ns, gint64 elapsed_ns);

/* Moves samples, statistics and reason into a measurement. sampler must have stopped. */
void ps_sampler_finish (PsSampler *sampler, PsMeasurement *measurement);

G_END_DECLS

#endif
