/* search-price.c - schedules of a search under the setting that was asked for. */
#include "search-price.h"

#include <pipesim/bound.h>

#include <math.h>

static const char *const objectives[] = { "time", "mean", "p90" };

const char *
search_objective_name (SearchObjective objective)
{
  return objectives[objective];
}

gboolean
search_objective_parse (const char *where, const char *text, SearchObjective *objective, GError **error)
{
  return ps_parse_name (where, text, objectives, G_N_ELEMENTS (objectives), objective, error);
}

/* Devices go on one by one where the synchronisation is bypassed: the period holds the span and the O of each of them.
 */
gint64
search_time (const PsSetting *setting, const PsPrediction *prediction)
{
  const PsSimulation *simulation = prediction->simulation;
  gint64 optimizer_ns = simulation->optimizer_ns;

  for (guint d = 0; setting->sync == PS_SYNC_BYPASS && d < simulation->n_devices; d++)
    optimizer_ns = MIN (optimizer_ns, simulation->device[d].optimizer_ns);
  return prediction->metrics.iteration_ns - optimizer_ns;
}

static gboolean
may_plan (const SearchPricing *pricing)
{
  const PsSetting *setting = pricing->setting;

  return !setting->reorder && ps_setting_transfers_wait (setting)
         && (pricing->plan_until_us == 0 || g_get_monotonic_time () < pricing->plan_until_us);
}

static gboolean
is_better (const PsPrediction *a, const PsPrediction *b)
{
  return a->feasible != b->feasible ? a->feasible : a->metrics.iteration_ns < b->metrics.iteration_ns;
}

PsPrediction *
search_predict (const SearchPricing *pricing, const PsSchedule *schedule, PsCommOrder *comm_order, GError **error)
{
  PsSetting setting = *pricing->setting;
  g_autoptr (PsPredictor) predictor = ps_predictor_new (&setting, pricing->given);
  g_autoptr (GError) reason = NULL;
  g_autoptr (PsPrediction) prediction = NULL, planned = NULL;

  ps_predictor_give_recomputed (predictor, pricing->recomputed);
  prediction = ps_predictor_predict_schedule (predictor, ps_schedule_copy (schedule), &reason);
  *comm_order = setting.comm_order;
  setting.comm_order = PS_COMM_PLANNED;
  if (may_plan (pricing))
    planned = ps_predictor_predict_schedule (predictor, ps_schedule_copy (schedule), NULL);
  if (planned != NULL && (prediction == NULL || is_better (planned, prediction)))
    {
      *comm_order = PS_COMM_PLANNED;
      return g_steal_pointer (&planned);
    }
  if (prediction == NULL)
    g_propagate_error (error, g_steal_pointer (&reason));
  return g_steal_pointer (&prediction);
}

static gboolean
is_sampled (const SearchSamples *samples)
{
  return samples != NULL && samples->objective != SEARCH_TIME;
}

gint64
search_figure (const SearchPricing *pricing, const PsPrediction *prediction)
{
  const SearchSamples *samples = pricing->samples;
  const PsProgram *program = ps_prediction_hint (prediction);
  const PsSampling sampling = { .n_samples = samples != NULL ? samples->n_samples : 0,
                                .seed = samples != NULL ? samples->seed : 0,
                                .n_jobs = 1,
                                .events = ps_prediction_events (prediction),
                                .sync = pricing->setting->sync,
                                .reduce = pricing->setting->reduce };
  g_autofree gint64 *ns = NULL;
  PsDistribution distribution;

  if (!is_sampled (samples))
    return prediction->metrics.iteration_ns;
  ns = ps_uncertainty_sample (program, prediction->costs, &samples->uncertainty, &sampling, NULL);
  if (ns == NULL)
    return G_MAXINT64;
  ps_distribution_init (&distribution, ns, sampling.n_samples, ps_sampling_is_steady (&sampling, program));
  return samples->objective == SEARCH_MEAN ? llround (distribution.mean_ns) : distribution.p90.value_ns;
}

gboolean
search_has_lengths (const SearchPricing *pricing)
{
  return pricing->setting->lengths != NULL || ps_costs_has_slices (pricing->given, pricing->setting->n_slices);
}

gint64
search_price_bound (const SearchPricing *pricing, const PsPlacement *placement, const PsCosts *costs)
{
  const PsSetting *setting = pricing->setting;
  const PsEventsSetting events = ps_setting_events (setting);
  guint n_slices = MAX (setting->n_slices, 1);
  g_autoptr (PsCosts) slice = ps_costs_slice (costs, n_slices);

  if (setting->sync == PS_SYNC_BYPASS || setting->share_links || search_has_lengths (pricing))
    return 0;
  return ps_lower_bound_channels (placement, setting->n_microbatches * n_slices, slice, &events);
}

gint64
search_price (const PsSchedule *schedule, gpointer data)
{
  const SearchPricing *pricing = data;
  PsCommOrder comm_order;
  g_autoptr (PsPrediction) prediction = search_predict (pricing, schedule, &comm_order, NULL);
  gint64 figure_ns = prediction != NULL && prediction->feasible ? search_figure (pricing, prediction) : G_MAXINT64;

  if (figure_ns == G_MAXINT64)
    return G_MAXINT64;
  return figure_ns - (prediction->metrics.iteration_ns - search_time (pricing->setting, prediction));
}

PsSchedule *
search_generate (const PsFamily *family, gpointer data, GError **error)
{
  const SearchPricing *pricing = data;
  g_autoptr (PsPredictor) predictor = ps_predictor_new (pricing->setting, pricing->given);

  return ps_predictor_schedule (predictor, family->name, error);
}
