/* intervals.h - where the iteration time of a run will lie that takes place at another time than the measurements which
 * it was predicted from. docs/intervals.md derives it. Three things move it, independent of each other:
 *
 * - within the run every op and transfer takes one of its measured samples;
 * - each measured row is off by an error of its own, and differs from process to process (PsCostSpread.deviation);
 * - the whole machine drifts: one factor for all times of a run (PsCostSpread.common).
 */
#ifndef PIPESIM_INTERVALS_H
#define PIPESIM_INTERVALS_H

#include <pipesim/uncertainty.h>

G_BEGIN_DECLS

/* Steps of a run whose median is predicted, unless it is known. */
#define PS_INTERVAL_STEPS 5

/* The median iteration time of a run. All 0: not known, because costs were not measured. */
typedef struct
{
  gint64 low_ns; /* 95 of 100 runs lie between low and high */
  gint64 p10_ns; /* 80 of 100 between p10 and p90 */
  gint64 p50_ns; /* as many are shorter as longer; files do not keep it */
  gint64 p90_ns;
  gint64 high_ns;
} PsInterval;

/* iteration_ns: the prediction, at the median of all times. n_steps >= 1 is the length of the run. The members events,
 * sync and reduce of sampling count. The same arguments give the same interval. Errors: as those of
 * ps_uncertainty_sample. */
gboolean ps_interval_init (PsInterval *interval, const PsProgram *program, const PsCosts *costs,
                           const PsCostSpread *spread, const PsSampling *sampling, gint64 iteration_ns, guint n_steps,
                           GError **error);

/* The interval on a machine that is slower by the weather, whose error makes it wider. */
PsInterval ps_interval_in_weather (const PsInterval *interval, PsWeather weather);

/* TRUE: the time lies between p10 and p90. */
static inline gboolean
ps_interval_holds (const PsInterval *interval, gint64 iteration_ns)
{
  return interval->p10_ns <= iteration_ns && iteration_ns <= interval->p90_ns;
}

/* "25.1 ms .. 26.9 ms", p10 and p90. Free with g_free. */
char *ps_interval_to_text (const PsInterval *interval);

G_END_DECLS

#endif
