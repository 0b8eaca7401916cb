/* diagnosis.h - the iterations of one run together: how far their times spread, and what takes longer than its peers.
 */
#ifndef PIPESIM_DIAGNOSIS_H
#define PIPESIM_DIAGNOSIS_H

#include <pipesim/timeline.h>

G_BEGIN_DECLS

/* Times of training steps, by nearest rank. */
typedef struct
{
  guint n;
  gint64 median_ns;
  gint64 p10_ns;
  gint64 p90_ns;
} PsIterationSpread;

/* iterations: of PsTimeline, at least one. */
PsIterationSpread ps_iteration_spread (const GPtrArray *iterations);

/* The iteration that takes the median time: the first of them. */
guint ps_median_iteration (const GPtrArray *iterations);

/* The work of a stage for a microbatch. However a framework divides a backward into B and W, stages compare by both. */
typedef enum
{
  PS_PASS_FORWARD,
  PS_PASS_BACKWARD,
  PS_PASS_PAIR, /* F and B of different microbatches in one op, counted with the F */
  PS_N_PASSES
} PsPass;

const char *ps_pass_name (PsPass pass); /* "forward", "backward", "pair" */

/* A part of the run that can take longer than its peers. */
typedef enum
{
  PS_SLOW_DEVICE,     /* all stages of a device with several: than the stages of others */
  PS_SLOW_STAGE,      /* than other stages */
  PS_SLOW_MICROBATCH, /* in all stages, than other microbatches */
  PS_SLOW_ITERATION,  /* than other iterations; pass does not count */
  PS_SLOW_OP,         /* the work of one stage for one microbatch in one iteration, than usually */
} PsSlowKind;

const char *ps_slow_name (PsSlowKind kind); /* "device", "stage", "microbatch", "iteration", "op" */

typedef struct
{
  PsSlowKind kind;
  PsPass pass;
  guint device;
  guint stage;
  guint microbatch;
  guint iteration;  /* index into the iterations */
  gint64 own_ns;    /* of one microbatch in one stage, or of the iteration; medians */
  gint64 peers_ns;  /* the same of its peers */
  double ratio;     /* own / peers; of a microbatch the median over stages */
  gint64 excess_ns; /* time above that of its peers in one iteration */
} PsSlow;

/* Everything that takes longer than its peers, the largest excess first. schedule is that of all iterations.
 *
 * The peers' time is the median of all, the part's own included (ps_median: of two the lower). A part is slow above it
 * by more than 5 % (iterations and microbatches: 10 %) and by more than 3 deviations, each 1.4826 times the median
 * absolute deviation. An op is slow above 1.5 times its own median by more than a hundredth of the iteration, in
 * iterations that are not slow. Free with g_array_unref. */
GArray *ps_slow_parts (const PsSchedule *schedule, const GPtrArray *iterations);

/* The costs with the durations of each kind, and of pairs, spread evenly over the stages. Free with ps_costs_free. */
PsCosts *ps_costs_even (const PsCosts *costs);

G_END_DECLS

#endif
