/* compare.c - matches the ops of a predicted and a measured timeline and sums up how far they are apart. */
#include "span-index.h"
#include "timeline-private.h"

#include <pipesim/observe.h>

#include <math.h>

void
ps_comparison_free (PsComparison *comparison)
{
  if (comparison == NULL)
    return;
  ps_metrics_clear (&comparison->predicted);
  ps_metrics_clear (&comparison->measured);
  g_clear_pointer (&comparison->ops, g_array_unref);
  g_free (comparison->schedule[0]);
  g_free (comparison->schedule[1]);
  g_free (comparison);
}

double
ps_relative_error (gint64 predicted, gint64 measured)
{
  return measured != 0 ? (double)(predicted - measured) / (double)measured : NAN;
}

/* Whether these are two timelines of one schedule */

/* Names of the two sides in messages. */
static const char *
side_name (const PsComparison *comparison, guint side)
{
  static const char *const names[][2] = { { "predicted", "measured" }, { "first", "second" } };

  return names[comparison->alike][side];
}

static gboolean
check_roles (const PsTimeline *predicted, const PsTimeline *measured, GError **error)
{
  if (predicted->origin == measured->origin || measured->origin == PS_ORIGIN_MEASURED)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT,
                    "timelines: the first is measured and the second is simulated; the simulated one comes first");
}

static gboolean
check_count (const char *what, guint predicted, guint measured, GError **error)
{
  if (predicted == measured)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "timelines: predicted with %u %s, measured with %u", predicted, what,
                    measured);
}

/* The optimizer step is recorded by real runs only, so one side may lack it. */
static gboolean
check_covered (GArray *spans, const char *side, const PsSpanIndex *other, GError **error)
{
  char name[48];

  for (guint i = 0; i < spans->len; i++)
    {
      const PsSpan *span = &g_array_index (spans, PsSpan, i);

      if (span->op.kind == PS_OP_O || ps_span_index_find (other, span->op, span->device) != NULL)
        continue;
      return ps_refuse (error, PS_ERROR_INPUT, "device %u: only the %s timeline has %s", span->device, side,
                        ps_op_format (span->op, name));
    }
  return TRUE;
}

static gboolean
check_once (GArray *spans, const char *side, const PsSpanIndex *index, GError **error)
{
  char name[48];

  for (guint i = 0; i < spans->len; i++)
    {
      const PsSpan *span = &g_array_index (spans, PsSpan, i);

      if (ps_span_index_find (index, span->op, span->device) == span)
        continue;
      return ps_refuse (error, PS_ERROR_INPUT, "device %u: the %s timeline has %s twice", span->device, side,
                        ps_op_format (span->op, name));
    }
  return TRUE;
}

static gboolean
check_same_schedule (const PsTimeline *predicted, const PsSpanIndex *predicted_ops, const PsTimeline *measured,
                     const PsSpanIndex *measured_ops, GError **error)
{
  return check_count ("devices", predicted->n_devices, measured->n_devices, error)
         && check_count ("stages", predicted->n_stages, measured->n_stages, error)
         && check_count ("microbatches", predicted->n_microbatches, measured->n_microbatches, error)
         && check_covered (predicted->ops, "predicted", measured_ops, error)
         && check_covered (measured->ops, "measured", predicted_ops, error);
}

/* Figures */

/* Sums of one op kind while spans are matched. */
typedef struct
{
  struct PsKindError *sum;
  GArray *errors; /* double: |relative error| of every op whose measured duration is not 0 */
} KindSums;

static void
kind_sums_add (KindSums *sums, const PsSpan *predicted, const PsSpan *measured)
{
  gint64 predicted_ns = predicted->end_ns - predicted->start_ns;
  gint64 measured_ns = measured->end_ns - measured->start_ns;
  double error = fabs (ps_relative_error (predicted_ns, measured_ns));

  sums->sum->n++;
  sums->sum->predicted_ns += predicted_ns;
  sums->sum->measured_ns += measured_ns;
  if (!isnan (error))
    g_array_append_val (sums->errors, error);
}

static void
kind_sums_finish (KindSums *sums)
{
  struct PsKindError *sum = sums->sum;

  ps_array_put_in_order (sums->errors, ps_compare_double);
  sum->error = ps_relative_error (sum->predicted_ns, sum->measured_ns);
  sum->median_abs_error
      = sums->errors->len > 0 ? g_array_index (sums->errors, double, (sums->errors->len - 1) / 2) : NAN;
  g_array_unref (sums->errors);
}

static KindSums
kind_sums_new (struct PsKindError *sum)
{
  return (KindSums){ sum, g_array_new (FALSE, FALSE, sizeof (double)) };
}

static void
add_difference (PsComparison *comparison, const PsSpan *predicted, const PsSpan *measured)
{
  PsOpDifference difference = { .op = predicted->op,
                                .device = predicted->device,
                                .predicted_ns = predicted->end_ns - predicted->start_ns,
                                .measured_ns = measured->end_ns - measured->start_ns,
                                .predicted_start_ns = predicted->start_ns,
                                .measured_start_ns = measured->start_ns };

  g_array_append_val (comparison->ops, difference);
}

static void
compare_ops (PsComparison *comparison, const PsTimeline *predicted, const PsSpanIndex *measured)
{
  KindSums sums[PS_N_OP_KINDS];

  for (guint k = 0; k < PS_N_OP_KINDS; k++)
    sums[k] = kind_sums_new (&comparison->kind[k]);
  for (guint i = 0; i < predicted->ops->len; i++)
    {
      const PsSpan *span = &g_array_index (predicted->ops, PsSpan, i);
      const PsSpan *other = ps_span_index_find (measured, span->op, span->device);

      if (other == NULL)
        continue;
      kind_sums_add (&sums[span->op.kind], span, other);
      add_difference (comparison, span, other);
    }
  for (guint k = 0; k < PS_N_OP_KINDS; k++)
    kind_sums_finish (&sums[k]);
}

static void
compare_transfers (PsComparison *comparison, const PsTimeline *predicted, const PsTimeline *measured)
{
  g_auto (PsSpanIndex) index = { 0 };
  KindSums sums = kind_sums_new (&comparison->transfer);

  ps_span_index_init (&index, measured->transfers);
  for (guint i = 0; i < predicted->transfers->len; i++)
    {
      const PsSpan *span = &g_array_index (predicted->transfers, PsSpan, i);
      const PsSpan *other = ps_span_index_find (&index, span->op, span->device);

      if (other != NULL)
        kind_sums_add (&sums, span, other);
    }
  kind_sums_finish (&sums);
}

static int
compare_differences (gconstpointer a, gconstpointer b)
{
  const PsOpDifference *x = a, *y = b;
  gint64 dx = ABS (x->predicted_ns - x->measured_ns), dy = ABS (y->predicted_ns - y->measured_ns);

  return (dx < dy) - (dx > dy);
}

/* Executors measure no buffers of messages: the predicted peaks leave them out. */
static void
leave_out_buffers (const PsTimeline *predicted, PsMetrics *metrics)
{
  metrics->peak_memory_bytes = 0;
  for (guint d = 0; d < metrics->n_devices; d++)
    metrics->device[d].peak_memory_bytes = 0;
  for (guint i = 0; i < predicted->memory->len; i++)
    {
      const PsMemoryPoint *point = &g_array_index (predicted->memory, PsMemoryPoint, i);
      gint64 bytes = point->bytes - point->buffer_bytes, *peak = &metrics->device[point->device].peak_memory_bytes;

      *peak = MAX (*peak, bytes);
      metrics->peak_memory_bytes = MAX (metrics->peak_memory_bytes, bytes);
    }
}

static void
compare_figures (PsComparison *comparison, const PsTimeline *predicted, const PsTimeline *measured)
{
  ps_metrics_from_timeline (predicted, &comparison->predicted);
  if (!comparison->alike)
    leave_out_buffers (predicted, &comparison->predicted);
  ps_metrics_from_timeline (measured, &comparison->measured);
  comparison->iteration_error
      = ps_relative_error (comparison->predicted.iteration_ns, comparison->measured.iteration_ns);
  if (!comparison->alike)
    {
      comparison->interval = predicted->interval;
      comparison->usual_ns = measured->usual_ns;
    }
  comparison->bubble_difference = comparison->predicted.bubble_ratio - comparison->measured.bubble_ratio;
  comparison->peak_memory_error
      = comparison->predicted.peak_memory_bytes > 0
            ? ps_relative_error (comparison->predicted.peak_memory_bytes, comparison->measured.peak_memory_bytes)
            : NAN;
}

static PsComparison *
comparison_new (const PsTimeline *predicted, const PsTimeline *measured)
{
  PsComparison *comparison = g_new0 (PsComparison, 1);

  comparison->alike = predicted->origin == measured->origin;
  comparison->origin = predicted->origin;
  comparison->schedule[0] = g_strdup (predicted->schedule);
  comparison->schedule[1] = g_strdup (measured->schedule);
  comparison->ops = g_array_new (FALSE, FALSE, sizeof (PsOpDifference));
  return comparison;
}

PsComparison *
ps_compare (const PsTimeline *predicted, const PsTimeline *measured, GError **error)
{
  g_auto (PsSpanIndex) predicted_ops = { 0 }, measured_ops = { 0 };
  g_autoptr (PsComparison) comparison = comparison_new (predicted, measured);

  ps_span_index_init (&predicted_ops, predicted->ops);
  ps_span_index_init (&measured_ops, measured->ops);
  if (!check_roles (predicted, measured, error)
      || !check_once (predicted->ops, side_name (comparison, 0), &predicted_ops, error)
      || !check_once (measured->ops, side_name (comparison, 1), &measured_ops, error)
      || (!comparison->alike && !check_same_schedule (predicted, &predicted_ops, measured, &measured_ops, error)))
    return NULL;
  compare_figures (comparison, predicted, measured);
  compare_ops (comparison, predicted, &measured_ops);
  compare_transfers (comparison, predicted, measured);
  comparison->n_only[0] = predicted->ops->len - comparison->ops->len;
  comparison->n_only[1] = measured->ops->len - comparison->ops->len;
  ps_array_put_in_order (comparison->ops, compare_differences);
  return g_steal_pointer (&comparison);
}
