/* observed-costs.c - costs from samples, and what a model says about those that are missing. */
#include <pipesim/observe.h>

#include <math.h>

static gint64
median_of (const GArray *samples)
{
  g_autofree gint64 *values = g_memdup2 (samples->data, samples->len * sizeof *values);

  return ps_median (values, samples->len);
}

static gint64
mean_of (const GArray *samples)
{
  return ps_mean ((const gint64 *)(gconstpointer)samples->data, samples->len);
}

static GArray *
samples_of (const PsObserved *observed, PsOpKind kind, guint stage)
{
  return observed->op[(gsize)kind * observed->n_stages + stage];
}

static gint64
known_ns (const PsObserved *observed, PsOpKind kind, guint stage)
{
  const GArray *samples = samples_of (observed, kind, stage);

  return samples->len > 0 ? median_of (samples) : -1;
}

/* Estimates */

static void
estimate (PsObserved *observed, PsOpKind kind, guint stage, double ns)
{
  gint64 rounded = llrint (ns);

  g_array_append_val (samples_of (observed, kind, stage), rounded);
  observed->estimated[stage] |= 1U << kind;
}

static void
estimate_stage (PsObserved *observed, const PsModel *model, const PsStageShape *shape, guint stage)
{
  double b_flops = (double)ps_model_stage_flops (model, shape, PS_OP_B);
  double w_flops = (double)ps_model_stage_flops (model, shape, PS_OP_W);
  gint64 b = known_ns (observed, PS_OP_B, stage), w = known_ns (observed, PS_OP_W, stage);
  gint64 whole = known_ns (observed, PS_OP_BW, stage);

  if (whole < 0 && b >= 0 && w >= 0)
    estimate (observed, PS_OP_BW, stage, (double)(b + w));
  if (whole < 0)
    return;
  if (b < 0)
    estimate (observed, PS_OP_B, stage, (double)whole * b_flops / (b_flops + w_flops));
  if (w < 0)
    estimate (observed, PS_OP_W, stage, (double)whole * w_flops / (b_flops + w_flops));
}

gboolean
ps_observed_estimate (PsObserved *observed, const PsModel *model, GError **error)
{
  g_autofree PsStageShape *shapes = g_new0 (PsStageShape, observed->n_stages);

  if (!ps_model_split (model, observed->n_stages, shapes, error))
    return FALSE;
  for (guint stage = 0; stage < observed->n_stages; stage++)
    estimate_stage (observed, model, &shapes[stage], stage);
  g_free (observed->model_name);
  observed->model_name = g_strdup (model->name);
  return TRUE;
}

/* Costs */

static void
fill_stage (const PsObserved *observed, PsCosts *costs, guint stage)
{
  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    {
      gint64 ns = known_ns (observed, (PsOpKind)kind, stage);

      ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns = MAX (ns, 0);
      if (ns < 0 && kind <= PS_OP_BW)
        costs->stage[stage].unknown |= 1U << kind;
    }
  ps_costs_guess (costs, stage);
  if (samples_of (observed, PS_OP_R, stage)->len == 0)
    ps_costs_op (costs, PS_OP_R, stage)->duration_ns = ps_costs_op (costs, PS_OP_F, stage)->duration_ns;
  if (observed->pair[stage]->len > 0)
    costs->stage[stage].pair_ns = median_of (observed->pair[stage]);
}

static void
fill_transfers (const PsObserved *observed, PsCosts *costs)
{
  costs->transfer_origin = observed->origin;
  for (guint i = 1; i <= 2 * costs->n_stages; i++)
    costs->transfer_ns[i] = observed->transfer[i]->len > 0 ? median_of (observed->transfer[i]) : -1;
  ps_costs_guess_transfers (costs);
}

/* Gaps with one message less the host time of an op. In gaps beyond twice the median a device idled besides. */
static GArray *
message_parts (const PsObserved *observed)
{
  GArray *parts = g_array_new (FALSE, FALSE, sizeof (gint64));
  gint64 op_ns = observed->host->len > 0 ? median_of (observed->host) : 0;
  gint64 usual_ns = observed->message->len > 0 ? median_of (observed->message) : 0;

  for (guint i = 0; observed->host->len > 0 && i < observed->message->len; i++)
    {
      gint64 gap_ns = g_array_index (observed->message, gint64, i), ns = MAX (gap_ns - op_ns, 0);

      if (gap_ns <= 2 * usual_ns)
        g_array_append_val (parts, ns);
    }
  return parts;
}

GArray *
ps_observed_posts (const PsObserved *observed, guint type)
{
  if (observed->send->len == 0 || observed->receive->len == 0)
    return message_parts (observed);
  return g_array_ref (type == PS_INSTRUCTION_SEND ? observed->send : observed->receive);
}

static void
fill_host (const PsObserved *observed, PsCosts *costs)
{
  g_autoptr (GArray) send = ps_observed_posts (observed, PS_INSTRUCTION_SEND);
  g_autoptr (GArray) receive = ps_observed_posts (observed, PS_INSTRUCTION_RECEIVE);

  if (observed->host->len > 0)
    costs->op_ns = costs->post_ns = median_of (observed->host);
  if (send->len > 0 && receive->len > 0)
    costs->post_ns = (mean_of (send) + mean_of (receive)) / 2;
}

guint
ps_observed_estimated (const PsObserved *observed)
{
  guint kinds = 0;

  for (guint stage = 0; stage < observed->n_stages; stage++)
    kinds |= observed->estimated[stage];
  return kinds;
}

static gboolean
has_transfers (const PsObserved *observed)
{
  guint n = 0;

  for (guint i = 1; i <= 2 * observed->n_stages; i++)
    n += observed->transfer[i]->len;
  return n > 0;
}

char *
ps_observed_describe (const PsObserved *observed)
{
  GString *kinds = g_string_new (NULL);
  guint estimated = ps_observed_estimated (observed);

  for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
    if (estimated & 1U << kind)
      g_string_append_printf (kinds, "%s%s", kinds->len > 0 ? ", " : "", ps_op_kind_name ((PsOpKind)kind));
  if (kinds->len > 0)
    g_string_prepend (kinds, "; estimated, not measured: ");
  if (kinds->len > 0 && observed->model_name != NULL)
    g_string_append_printf (kinds, " by the operations of %s", observed->model_name);
  if (observed->n_stages > 1 && !has_transfers (observed))
    g_string_append (kinds, "; no transfer was seen, so they take no time");
  return g_string_free (g_string_prepend (kinds, observed->source->str), FALSE);
}

PsCosts *
ps_observed_costs (const PsObserved *observed, guint n_devices, guint n_chunks, GError **error)
{
  guint n_stages = n_devices * n_chunks;
  g_autoptr (PsCosts) costs = ps_costs_new (n_stages);

  if (n_stages != observed->n_stages)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: %u stages, so it has no costs for %u devices with %u each",
                           observed->source->str, observed->n_stages, n_devices, n_chunks);
  for (guint stage = 0; stage < n_stages; stage++)
    fill_stage (observed, costs, stage);
  ps_observed_fill_memory (observed, costs);
  fill_transfers (observed, costs);
  fill_host (observed, costs);
  costs->memory_origin = observed->origin;
  costs->time_origin = ps_observed_estimated (observed) ? MAX (PS_ORIGIN_MODELLED, observed->origin) : observed->origin;
  g_free (costs->source);
  costs->source = ps_observed_describe (observed);
  return g_steal_pointer (&costs);
}

gboolean
ps_observed_tells_warm (const PsObserved *observed, guint cell)
{
  return observed->warm[cell]->len >= PS_MEDIAN_MIN_SAMPLES && observed->cold[cell]->len >= PS_MEDIAN_MIN_SAMPLES;
}

void
ps_observed_tell_warm (const PsObserved *observed, PsCosts *costs)
{
  for (guint i = 0; i < PS_OP_O * costs->n_stages; i++)
    {
      gint64 cold_ns = ps_observed_tells_warm (observed, i) ? median_of (observed->cold[i]) : 0;

      if (cold_ns <= 0)
        continue;
      if (costs->warm == NULL)
        {
          costs->warm = g_new (double, (gsize)PS_OP_O * costs->n_stages);
          for (guint k = 0; k < PS_OP_O * costs->n_stages; k++)
            costs->warm[k] = 1;
        }
      costs->warm[i] = (double)median_of (observed->warm[i]) / (double)cold_ns;
      ps_costs_op (costs, (PsOpKind)(i / costs->n_stages), i % costs->n_stages)->duration_ns = cold_ns;
    }
}
