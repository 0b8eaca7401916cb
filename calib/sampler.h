/* sampler.h - collects the samples of one quantity and decides when there are enough. */
#pragma once

#include "statistics.h"

/* Sampling stops when there are min_samples, the interval of the median is as narrow as `within` says, and there is no
 * drift ("converged"), or at a cap. */
typedef struct {
  double within; /* half the width of the interval, as a part of the median; 0.01: 1 % */
  guint min_samples;
  guint max_samples;    /* "sample cap" */
  gint64 time_limit_ns; /* "time cap": since the start of sampling */
  guint sound_samples;  /* there is no time cap before that number */
} PsSamplingRule;

typedef struct {
  const PsSamplingRule *rule;
  GArray *samples;  /* gint64 */
  gboolean warm;    /* the first sample has come and was dropped */
  guint next_check; /* number of samples at the next look */
  const char
      *stop; /* the reason why sampling has stopped, one of the above or of ps_sampler_reject; NULL: it goes on */
} PsSampler;

void ps_sampler_init (PsSampler *sampler, const PsSamplingRule *rule);
void ps_sampler_clear (PsSampler *sampler);

/* Adds a sample, taken elapsed_ns after the start of sampling. TRUE: this was the last one wanted. Later samples are
 * ignored. */
gboolean ps_sampler_add (PsSampler *sampler, gint64 ns, gint64 elapsed_ns);

/* Notes a sample that does not count, for the state of the hardware. TRUE: there is no time for another one. Sampling
 * has stopped then, without any sample with "no accepted samples". */
gboolean ps_sampler_reject (PsSampler *sampler, gint64 elapsed_ns);

/* Moves samples, statistics and reason into a measurement. The sampler must have stopped. */
void ps_sampler_finish (PsSampler *sampler, PsMeasurement *measurement);
