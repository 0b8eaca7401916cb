/* search-recompute.c - R ops for the microbatches whose activations do not fit. */
#include "search-recompute.h"

#include <string.h>

/* Predictions for each forward that may be recomputed, at most. */
#define TRIALS_PER_CELL 8

typedef struct
{
  SearchPricing pricing;
  const PsSchedule *order; /* without R */
  guint8 *again;           /* [ps_schedule_cell] 1: has an R */
  PsCosts *recomputed;     /* of microbatches with an R */
  PsCosts *costs[2];       /* of slices without and with an R */
  gint64 *memory_limit;    /* [n_devices]; NULL: none */
  gint64 figure_ns;        /* of the schedule with these; G_MAXINT64: it does not fit */
  gint64 until_us;         /* monotonic; 0: no limit */
  const gint *stop;        /* as in SearchLimits */
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
  return choosing->n_left > 0 && (choosing->until_us == 0 || g_get_monotonic_time () < choosing->until_us)
         && (choosing->stop == NULL || g_atomic_int_get (choosing->stop) == 0);
}

static const PsOpCost *
cost_of (const Choosing *choosing, PsOp op, PsOpKind kind)
{
  return ps_costs_op (choosing->costs[choosing->again[ps_schedule_cell (choosing->order, op)]], kind, op.stage);
}

/* Whether a device keeps to its limit, but for the buffers of messages. */
static gboolean
fits (const Choosing *choosing, guint device)
{
  const PsSchedule *order = choosing->order;
  gint64 bytes = 0, room = choosing->memory_limit != NULL ? choosing->memory_limit[device] : G_MAXINT64;
  guint n;

  for (guint stage = 0; stage < order->placement->n_stages; stage++)
    if (ps_placement_holds (order->placement, device, stage))
      bytes += ps_costs_held_bytes (choosing->costs[0], stage, 1);
  for (guint i = order->first[device]; i < order->first[device + 1] && bytes <= room; i += n)
    {
      n = order->ops[i].paired ? 2 : 1;
      for (guint k = i; k < i + n; k++)
        {
          PsOp op = order->ops[k];

          if (ps_op_is_backward (op) && choosing->again[ps_schedule_cell (order, op)])
            bytes += cost_of (choosing, op, PS_OP_R)->take_bytes - cost_of (choosing, op, PS_OP_R)->give_bytes;
          bytes += cost_of (choosing, op, op.kind)->take_bytes;
        }
      if (bytes > room)
        return FALSE;
      for (guint k = i; k < i + n; k++)
        bytes -= cost_of (choosing, order->ops[k], order->ops[k].kind)->give_bytes;
    }
  return bytes <= room;
}

/* Takes out the R ops that memory does not need. Of the forwards of a device those whose backwards come first keep
 * their activations: they hold them for the shortest part of what is left, so that most can. measured: each is
 * predicted; otherwise buffers of messages do not count. */
static void
take_out (Choosing *choosing, gboolean measured)
{
  const PsSchedule *order = choosing->order;

  for (guint d = 0; d < order->placement->n_devices; d++)
    for (guint i = order->first[d]; i < order->first[d + 1] && has_time (choosing); i++)
      {
        PsOp op = order->ops[i];
        guint8 *again = &choosing->again[ps_schedule_cell (order, op)];
        gint64 figure_ns = choosing->figure_ns;

        if (!ps_op_is_backward (op) || !*again)
          continue;
        *again = 0;
        if (!fits (choosing, d))
          {
            *again = 1;
            continue;
          }
        if (measured)
          figure_ns = price (choosing);
        if (figure_ns <= choosing->figure_ns)
          choosing->figure_ns = figure_ns;
        else
          *again = 1;
      }
}

/* The same, with predictions of single R ops only where memory without buffers says too little. */
static void
take_all_out (Choosing *choosing, gsize n_cells)
{
  g_autofree guint8 *before = g_memdup2 (choosing->again, n_cells);
  gint64 figure_ns;

  take_out (choosing, FALSE);
  figure_ns = price (choosing);
  if (figure_ns <= choosing->figure_ns)
    {
      choosing->figure_ns = figure_ns;
      return;
    }
  memcpy (choosing->again, before, n_cells);
  take_out (choosing, TRUE);
}

/* Lets another microbatch of a stage recompute in place of one that does, if that is better. */
static void
swap (Choosing *choosing, guint8 *a, guint8 *b)
{
  gint64 figure_ns;

  if (!has_time (choosing))
    return;
  *a = !*a;
  *b = !*b;
  figure_ns = price (choosing);
  if (figure_ns < choosing->figure_ns)
    {
      choosing->figure_ns = figure_ns;
      return;
    }
  *a = !*a;
  *b = !*b;
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
  found->result->lower_bound_ns = G_MAXINT64;
  found->result->proved_optimal = FALSE;
  return TRUE;
}

static gboolean
load (Choosing *choosing, const PsCosts *given)
{
  const PsSetting *setting = choosing->pricing.setting;
  const PsSchedule *order = choosing->order;
  guint n_devices = order->placement->n_devices;
  g_autoptr (PsCosts) full = ps_setting_full_costs (setting, given, n_devices, NULL);

  if (full != NULL)
    choosing->pricing.recomputed = choosing->recomputed = ps_setting_recomputed (setting, order, given, full, NULL);
  if (choosing->recomputed == NULL
      || !ps_setting_memory_limit (setting, n_devices, &choosing->memory_limit, NULL, NULL))
    return FALSE;
  choosing->costs[0] = ps_costs_slice (given, order->n_slices);
  choosing->costs[1] = ps_costs_slice (choosing->recomputed, order->n_slices);
  return TRUE;
}

static void
choosing_clear (Choosing *choosing)
{
  g_free (choosing->again);
  g_free (choosing->memory_limit);
  ps_costs_free (choosing->recomputed);
  ps_costs_free (choosing->costs[0]);
  ps_costs_free (choosing->costs[1]);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Choosing, choosing_clear)

gboolean
search_recompute (const PsSetting *setting, const SearchLimits *limits, const PsCosts *given, const guint8 *some,
                  SearchFound *found)
{
  const PsSchedule *order = found->result->schedule;
  gsize n_cells = ps_schedule_n_cells (order), n = n_cells / order->placement->n_stages;
  g_auto (Choosing) choosing = { .pricing = { .setting = setting, .given = given, .samples = limits->samples },
                                 .order = order,
                                 .again = g_new0 (guint8, n_cells),
                                 .stop = limits->stop,
                                 .n_left = TRIALS_PER_CELL * n_cells };

  for (gsize cell = 0; cell < n_cells; cell++)
    choosing.again[cell] = some[cell / n] > 0;
  choosing.until_us = limits->time_limit_ns > 0 ? g_get_monotonic_time () + limits->time_limit_ns / 1000 : 0;
  if (!load (&choosing, given))
    return FALSE;
  choosing.figure_ns = price (&choosing);
  if (choosing.figure_ns == G_MAXINT64)
    return FALSE;
  take_all_out (&choosing, n_cells);
  swap_all (&choosing);
  return take_result (&choosing, found);
}
