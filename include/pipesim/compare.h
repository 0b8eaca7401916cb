/* compare.h - prediction against reality, op by op; or two predictions, or two runs. */
#ifndef PIPESIM_COMPARE_H
#define PIPESIM_COMPARE_H

#include <pipesim/report.h>

G_BEGIN_DECLS

/* Relative errors are (predicted - measured) / measured: positive = predicted too much. NaN where measured is 0. */
double ps_relative_error (gint64 predicted, gint64 measured);

typedef struct
{
  PsOp op;
  guint device;
  gint64 predicted_ns; /* duration */
  gint64 measured_ns;
  gint64 predicted_start_ns;
  gint64 measured_start_ns;
} PsOpDifference;

/* Where two timelines are alike (both simulated or both measured), the first takes the place of the predicted one and
 * the second that of the measured one. */
typedef struct
{
  gboolean alike;
  PsOrigin origin;     /* of both when alike */
  char *schedule[2];   /* names */
  guint n_only[2];     /* ops that only one of the two has; O alone unless alike */
  PsMetrics predicted; /* unless alike its peaks leave out buffers of messages, because measured peaks do */
  PsMetrics measured;
  double iteration_error;
  PsInterval interval;      /* of the predicted iteration time; all 0: not known */
  gint64 usual_ns;          /* PsTimeline.usual_ns of the measured one; 0 when alike */
  double bubble_difference; /* predicted - measured bubble ratio */
  double peak_memory_error; /* NaN when one side does not know */
  struct PsKindError
  {
    guint n;             /* ops of this kind */
    gint64 predicted_ns; /* sum of durations */
    gint64 measured_ns;
    double error;            /* of the sums */
    double median_abs_error; /* median over ops of |relative error| of durations */
  } kind[PS_N_OP_KINDS], transfer;
  GArray *ops; /* PsOpDifference of every op that both have, largest |duration difference| first */
} PsComparison;

/* Compares op by op. Errors are PS_ERROR_INPUT: an op comes twice; the first timeline is measured and the second
 * simulated; a simulated and a measured one differ in devices, stages, microbatches or ops. The message names the first
 * op that only one of them has. O and transfers are compared where both have them. Timelines that are alike may be of
 * different schedules: ops on the same device are compared where both have them. Free with ps_comparison_free. */
PsComparison *ps_compare (const PsTimeline *predicted, const PsTimeline *measured,
                          GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_comparison_free (PsComparison *comparison);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsComparison, ps_comparison_free)

/* The text of `pipesim compare`: overall figures, error per op kind, the n_worst ops. Every column says which side is
 * predicted and which measured. For timelines that are alike it says first and second, and the error is called a
 * deviation, in keys too. Its tables show the columns of the choice; NULL: all. Errors: those of ps_tables_choose. Free
 * with g_free. */
char *ps_comparison_to_text (const PsComparison *comparison, guint n_worst, const PsColumnChoice *choice,
                             GError **error);

/* The same figures as JSON, "pipesim-comparison/1". Free with g_free. */
char *ps_comparison_to_json (const PsComparison *comparison, guint n_worst);

G_END_DECLS

#endif
