/* search-recompute.c - R ops for the microbatches whose activations do not fit. */
#include "search-recompute.h"

/* Predictions for each forward that may be recomputed, at most. */
#define TRIALS_PER_CELL 8

typedef struct
{
  SearchPricing pricing;
  const PsSchedule *order; /* without R */
  guint8 *again;           /* [ps_schedule_cell] 1: has an R */
  gint64 figure_ns;        /* of the schedule with these; G_MAXINT64: it does not fit */
  gint64 until_us;         /* monotonic; 0: no limit */
  gsize n_left;            /* predictions */
} Choosing;

static PsSchedule *
add_ops (const Choosing *choosing)
{
  const PsSchedule *order = choosing->order;
  PsScheduleBuilder *builder
      = ps_schedule_builder_new (order->name, ps_placement_copy (order->placement), order->n_microbatches);
  PsSchedule *schedule;
  guint n;

  for (guint d = 0; d < order->placement->n_devices; d++)
    {
      for (guint i = order->first[d]; i < order->first[d + 1]; i += n)
        {
          n = order->ops[i].paired ? 2 : 1;
          for (guint k = i; k < i + n; k++)
            {
              PsOp op = order->ops[k];

              if (!ps_op_is_backward (op) || !choosing->again[ps_schedule_cell (order, op)])
                continue;
              op.kind = PS_OP_R;
              op.paired = 0;
              ps_schedule_builder_add_op (builder, op);
            }
          ps_schedule_builder_add_ops (builder, &order->ops[i], n);
        }
      ps_schedule_builder_next_device (builder);
    }
  schedule = ps_schedule_builder_end (builder);
  schedule->n_slices = order->n_slices;
  schedule->copy = g_memdup2 (order->copy, order->copy != NULL ? order->n_microbatches : 0);
  return schedule;
}

static gint64
price (Choosing *choosing)
{
  g_autoptr (PsSchedule) schedule = add_ops (choosing);
  PsCommOrder comm_order;
  g_autoptr (PsPrediction) prediction = search_predict (&choosing->pricing, schedule, &comm_order, NULL);

  choosing->n_left--;
  return prediction != NULL && prediction->feasible ? search_figure (&choosing->pricing, prediction) : G_MAXINT64;
}

static gboolean
has_time (const Choosing *choosing)
{
  return choosing->n_left > 0 && (choosing->until_us == 0 || g_get_monotonic_time () < choosing->until_us);
}

/* Takes out the R ops that memory does not need. Of the forwards of a device those whose backwards come first keep
 * their activations: they hold them for the shortest part of what is left, so that most can. */
static void
take_out (Choosing *choosing)
{
  const PsSchedule *order = choosing->order;

  for (guint i = 0; i < ps_schedule_n_ops (order) && has_time (choosing); i++)
    {
      PsOp op = order->ops[i];
      guint8 *again = &choosing->again[ps_schedule_cell (order, op)];
      gint64 figure_ns;

      if (!ps_op_is_backward (op) || !*again)
        continue;
      *again = 0;
      figure_ns = price (choosing);
      if (figure_ns <= choosing->figure_ns)
        choosing->figure_ns = figure_ns;
      else
        *again = 1;
    }
}

/* Lets another microbatch of a stage recompute in place of one that does. TRUE: that is better. */
static gboolean
swap (Choosing *choosing, guint8 *a, guint8 *b)
{
  gint64 figure_ns;

  if (!has_time (choosing))
    return FALSE;
  *a = !*a;
  *b = !*b;
  figure_ns = price (choosing);
  if (figure_ns < choosing->figure_ns)
    {
      choosing->figure_ns = figure_ns;
      return TRUE;
    }
  *a = !*a;
  *b = !*b;
  return FALSE;
}

static void
swap_all (Choosing *choosing)
{
  const PsSchedule *order = choosing->order;
  gsize n = (gsize)order->n_microbatches * order->n_slices, n_stages = order->placement->n_stages;

  for (guint8 *stage = choosing->again; stage < choosing->again + n * n_stages; stage += n)
    for (gsize a = 0; a < n; a++)
      for (gsize b = a + 1; b < n; b++)
        if (stage[a] != stage[b])
          swap (choosing, &stage[a], &stage[b]);
}

static gboolean
take_result (const Choosing *choosing, SearchFound *found)
{
  g_autoptr (PsSchedule) schedule = add_ops (choosing);
  PsPrediction *prediction = search_predict (&choosing->pricing, schedule, &found->comm_order, NULL);

  if (prediction == NULL)
    return FALSE;
  ps_schedule_free (found->result->schedule);
  found->result->schedule = g_steal_pointer (&schedule);
  ps_prediction_free (found->prediction);
  found->prediction = prediction;
  found->figure_ns = choosing->figure_ns;
  found->result->makespan_ns = prediction->metrics.makespan_ns;
  found->result->max_span_ns = prediction->metrics.max_span_ns;
  found->result->price_ns = search_time (choosing->pricing.setting, prediction);
  found->result->lower_bound_ns = 0;
  found->result->proved_optimal = FALSE;
  return TRUE;
}

gboolean
search_recompute (const PsSetting *setting, const SearchLimits *limits, const PsCosts *given, const guint8 *some,
                  SearchFound *found)
{
  const PsSchedule *order = found->result->schedule;
  gsize n_cells = ps_schedule_n_cells (order), n = n_cells / order->placement->n_stages;
  g_autofree guint8 *again = g_new0 (guint8, n_cells);
  Choosing choosing = { .pricing = { .setting = setting, .given = given, .samples = limits->samples },
                        .order = order,
                        .again = again,
                        .n_left = TRIALS_PER_CELL * n_cells };

  for (gsize cell = 0; cell < n_cells; cell++)
    again[cell] = some[cell / n] > 0;
  choosing.until_us = limits->time_limit_ns > 0 ? g_get_monotonic_time () + limits->time_limit_ns / 1000 : 0;
  choosing.figure_ns = price (&choosing);
  if (choosing.figure_ns == G_MAXINT64)
    return FALSE;
  take_out (&choosing);
  swap_all (&choosing);
  return take_result (&choosing, found);
}
