/* setting-search.c - searches under a setting: the price of a schedule, the choices of placement, chunks, recomputation
 * and microbatch size, and the search of one of them. */
#include "search/problem.h"
#include "setting-search.h"

#include <pipesim/bound.h>

#include <math.h>
#include <string.h>

/* Prices. */

static const char *const objectives[] = { "time", "mean", "p90" };

const char *ps_search_objective_name (PsSearchObjective objective)
{
  return objectives[objective];
}

gboolean ps_search_objective_parse (const char *where, const char *text, PsSearchObjective *objective, GError **error)
{
  return ps_parse_name (where, text, objectives, G_N_ELEMENTS (objectives), objective, error);
}

/* Devices go on one by one where the synchronisation is bypassed: the period holds the span and the O of each of them.
 */
gint64 ps_search_time (const PsSetting *setting, const PsPrediction *prediction)
{
  const PsSimulation *simulation = prediction->simulation;
  gint64 optimizer_ns = simulation->optimizer_ns;

  for (guint d = 0; setting->sync == PS_SYNC_BYPASS && d < simulation->n_devices; d++)
    optimizer_ns = MIN (optimizer_ns, simulation->device[d].optimizer_ns);
  return prediction->metrics.iteration_ns - optimizer_ns;
}

static gboolean may_plan (const PsSearchPricing *pricing)
{
  const PsSetting *setting = pricing->setting;

  return !setting->reorder && ps_setting_transfers_wait (setting)
         && (pricing->plan_until_us == 0 || g_get_monotonic_time () < pricing->plan_until_us);
}

PsPrediction *ps_search_predict (const PsSearchPricing *pricing, const PsSchedule *schedule, PsCommOrder *comm_order,
                                 GError **error)
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
  if (planned != NULL
      && (prediction == NULL
          || (planned->feasible != prediction->feasible
                  ? planned->feasible
                  : planned->metrics.iteration_ns < prediction->metrics.iteration_ns))) {
    *comm_order = PS_COMM_PLANNED;
    return g_steal_pointer (&planned);
  }
  if (prediction == NULL)
    g_propagate_error (error, g_steal_pointer (&reason));
  return g_steal_pointer (&prediction);
}

/* The objective's figure of an iteration; G_MAXINT64 where the samples' times are too long to add up. */
static gint64 figure_of (const PsSearchPricing *pricing, const PsPrediction *prediction)
{
  const PsSearchSamples *samples = pricing->samples;
  const PsProgram *program = ps_prediction_hint (prediction);
  const PsSampling sampling = { .n_samples = samples != NULL ? samples->n_samples : 0,
                                .seed = samples != NULL ? samples->seed : 0,
                                .n_jobs = 1,
                                .events = prediction->events,
                                .sync = pricing->setting->sync,
                                .reduce = pricing->setting->reduce };
  g_autofree gint64 *ns = NULL;
  PsDistribution distribution;

  if (samples == NULL || samples->objective == PS_SEARCH_TIME)
    return prediction->metrics.iteration_ns;
  ns = ps_uncertainty_sample (program, prediction->costs, &samples->uncertainty, &sampling, NULL);
  if (ns == NULL)
    return G_MAXINT64;
  ps_distribution_init (&distribution, ns, sampling.n_samples, ps_sampling_is_steady (&sampling, program));
  return samples->objective == PS_SEARCH_MEAN ? llround (distribution.mean_ns) : distribution.p90.value_ns;
}

gboolean ps_search_has_lengths (const PsSearchPricing *pricing)
{
  return pricing->setting->serve != PS_SERVE_NONE || pricing->setting->lengths != NULL
         || ps_costs_slices (pricing->given, pricing->setting->n_slices) != NULL;
}

gint64 ps_search_price_bound (const PsSearchPricing *pricing, const PsPlacement *placement, const PsCosts *costs)
{
  const PsSetting *setting = pricing->setting;
  const PsEventsSetting events = ps_setting_events (setting);
  guint n_slices = MAX (setting->n_slices, 1), n_models;
  g_autoptr (PsCosts) slice = ps_costs_slice (costs, n_slices);

  if (setting->sync == PS_SYNC_BYPASS || setting->share_links || ps_search_has_lengths (pricing))
    return 0;
  return ps_lower_bound_channels (placement, setting->n_microbatches * n_slices, slice, &events,
                                  &ps_channel_table (&n_models)[events.comm]);
}

gint64 ps_search_price (const PsSchedule *schedule, gpointer data)
{
  const PsSearchPricing *pricing = data;
  PsCommOrder comm_order;
  g_autoptr (PsPrediction) prediction = ps_search_predict (pricing, schedule, &comm_order, NULL);
  gint64 figure_ns = prediction != NULL && prediction->feasible ? figure_of (pricing, prediction) : G_MAXINT64;

  if (figure_ns == G_MAXINT64)
    return G_MAXINT64;
  return figure_ns - (prediction->metrics.iteration_ns - ps_search_time (pricing->setting, prediction));
}

PsSchedule *ps_search_generate (const PsFamily *family, gpointer data, GError **error)
{
  const PsSearchPricing *pricing = data;
  g_autoptr (PsPredictor) predictor = ps_predictor_new (pricing->setting, pricing->given);

  return ps_predictor_schedule (predictor, family->name, error);
}

/* Choices. */

char *ps_search_choice_describe (const PsSetting *choice)
{
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "%s v=%u", ps_placement_name (choice->placement), choice->n_chunks);
  if (choice->microbatch_size > 0)
    g_string_append_printf (text, " b=%u", choice->microbatch_size);
  if (choice->n_slices > 1)
    g_string_append_printf (text, " slices=%u", choice->n_slices);
  if (choice->recompute != PS_RECOMPUTE_NONE)
    g_string_append_printf (text, " recompute=%s", ps_recompute_name (choice->recompute));
  return g_string_free (text, FALSE);
}

/* Adds a choice of placement and chunks if the setting leaves it open. */
static void add_choice (GArray *choices, const PsSetting *setting, PsPlacementKind placement, guint n_chunks,
                        guint n_slices)
{
  PsSetting choice = *setting;

  choice.placement = placement;
  choice.n_chunks = n_chunks;
  choice.n_slices = n_slices;
  if ((setting->n_chunks == 0 || setting->n_chunks == n_chunks)
      && (!setting->has_placement || setting->placement == placement))
    g_array_append_val (choices, choice);
}

static GArray *placements (const PsSetting *setting, guint most_chunks, guint most_slices)
{
  GArray *choices = g_array_new (FALSE, FALSE, sizeof (PsSetting));
  guint q = MAX (setting->n_slices, 1);

  if (setting->has_placement && setting->n_chunks == 0 && most_chunks < 4)
    add_choice (choices, setting, PS_PLACEMENT_WAVE, 4, q);
  add_choice (choices, setting, PS_PLACEMENT_LOOP, 1, q);
  add_choice (choices, setting, PS_PLACEMENT_V, 2, q);
  add_choice (choices, setting, PS_PLACEMENT_LOOP, 2, q);
  add_choice (choices, setting, PS_PLACEMENT_BIDIRECTIONAL, 1, q);
  for (guint v = 3; v <= MAX (most_chunks, setting->n_chunks); v++) {
    add_choice (choices, setting, PS_PLACEMENT_LOOP, v, q);
    if (v % 2 == 0 || v == setting->n_chunks)
      add_choice (choices, setting, PS_PLACEMENT_WAVE, v, q);
  }
  for (guint slices = 2; slices <= most_slices; slices *= 2)
    add_choice (choices, setting, PS_PLACEMENT_LOOP, 1, slices);
  return choices;
}

/* Every choice with each of the sizes, if the batch divides by it. */
static gboolean spread_sizes (const PsSetting *setting, guint size, gboolean any_size, GArray *choices, GError **error)
{
  g_autoptr (PsModel) model = NULL;
  guint n = choices->len;
  gint64 batch;

  if (size == 0 && !any_size)
    return TRUE;
  model = ps_setting_model (setting, error);
  if (model == NULL)
    return FALSE;
  batch = (gint64)model->microbatch_size * setting->n_microbatches;
  for (gint64 b = any_size ? 1 : size; b <= (any_size ? MIN (batch, 64) : size); b *= 2)
    for (guint i = 0; i < n && batch % b == 0; i++) {
      PsSetting choice = g_array_index (choices, PsSetting, i);

      choice.microbatch_size = (guint)b;
      choice.n_microbatches = (guint)(batch / b);
      g_array_append_val (choices, choice);
    }
  if (choices->len == n)
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--microbatch-size %u: does not divide the batch of %" G_GINT64_FORMAT " sequences", size, batch);
  g_array_remove_range (choices, 0, n);
  return TRUE;
}

/* Two copies share the devices and the microbatches evenly. */
static void drop_odd (GArray *choices, guint n_devices)
{
  for (guint i = choices->len; i-- > 0;) {
    const PsSetting *choice = &g_array_index (choices, PsSetting, i);

    if (choice->placement == PS_PLACEMENT_BIDIRECTIONAL && (choice->n_microbatches % 2 || n_devices % 2))
      g_array_remove_index (choices, i);
  }
}

static gboolean check_any (const GArray *choices, GError **error)
{
  if (choices->len > 0)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE,
                    "--placement: the search knows loop with any -v, V with -v 2, wave with an even -v from 4 on, "
                    "and bidirectional with -v 1, an even -p and an even number of microbatches");
}

GArray *ps_search_choices (const PsSetting *setting, guint size, gboolean any_size, guint most_chunks,
                           guint most_slices, GError **error)
{
  g_autoptr (GArray) choices = placements (setting, most_chunks, setting->n_slices == 0 ? most_slices : 0);
  PsRecompute sets[PS_N_RECOMPUTE_SETS];
  guint n = choices->len, n_sets = setting->any_recompute ? ps_setting_recompute_sets (setting, sets) : 0;

  for (guint i = 0; i < n && n_sets > 0; i++)
    for (guint k = 1; k < n_sets; k++) {
      PsSetting choice = g_array_index (choices, PsSetting, i);

      choice.recompute = sets[k];
      g_array_append_val (choices, choice);
    }
  if (!check_any (choices, error) || !spread_sizes (setting, size, any_size, choices, error))
    return NULL;
  drop_odd (choices, setting->n_devices);
  return check_any (choices, error) ? g_steal_pointer (&choices) : NULL;
}

/* One choice. */

void ps_search_found_clear (PsSearchFound *found)
{
  g_clear_pointer (&found->result, ps_search_result_free);
  g_clear_pointer (&found->prediction, ps_prediction_free);
}

static void show_progress (const PsSearchProgress *progress, gpointer data)
{
  g_autofree char *best = ps_format_time (progress->best_ns), *bound = ps_format_time (progress->lower_bound_ns);

  if (ps_progress_due ())
    ps_progress_show (0, 0, NULL, "%s: best %s, bound %s, gap %.2f %%", (const char *)data, best, bound,
                      100 * ((double)progress->best_ns / (double)MAX (progress->lower_bound_ns, 1) - 1));
}

static PsSearchResult *search (PsSearchPricing *pricing, const PsSearchLimits *limits, GError **error)
{
  const PsSetting *setting = pricing->setting;
  g_autoptr (PsPlacement) placement
      = limits->placement != NULL ? ps_placement_copy (limits->placement)
                                  : ps_placement_new (setting->placement, setting->n_devices, setting->n_chunks);
  g_autoptr (PsCosts) alike
      = ps_setting_average (setting, pricing->given, setting->n_devices, setting->n_microbatches, error);
  g_autoptr (PsCosts) costs
      = alike != NULL ? ps_setting_fastest_costs (setting, placement, alike, setting->n_slices, error) : NULL;
  g_autofree char *name = ps_search_choice_describe (setting);
  g_autofree gint64 *limit = NULL;
  PsSearchSetting search = { .placement = placement,
                             .n_microbatches = setting->n_microbatches,
                             .n_slices = setting->n_slices,
                             .costs = costs,
                             .objective = ps_sync_objective (setting->sync),
                             .price = ps_search_price,
                             .generate = ps_search_generate,
                             .price_data = pricing,
                             .price_is_free = pricing->samples != NULL && pricing->samples->objective != PS_SEARCH_TIME,
                             .seed = (guint64)limits->seed,
                             .start = limits->start,
                             .time_limit_ns = limits->time_limit_ns,
                             .move_limit = (guint64)limits->moves,
                             .stop = limits->stop,
                             .n_threads = limits->n_threads,
                             .progress = show_progress,
                             .progress_data = name };

  if (costs == NULL || !ps_costs_check (costs, setting->n_microbatches, error)
      || !ps_setting_memory_limit (setting, setting->n_devices, &limit, NULL, error))
    return NULL;
  search.memory_limit = limit;
  search.price_is_free |= ps_search_has_lengths (pricing);
  search.price_bound_ns = ps_search_price_bound (pricing, placement, costs);
  PsSearchResult *result = ps_search (&search, error);
  if (result == NULL && limit != NULL && setting->n_memory_limits == 0)
    g_prefix_error (error, "the memory of cluster '%s' less its reserve is the limit: ", setting->cluster);
  return result;
}

/* Prompts (--serve): the order in which their chunks enter a pipeline of forwards. */

typedef struct {
  const PsSearchPricing *pricing;
  PsFamilySetting size; /* prompt: the order that is tried */
  const PsFamily *family;
  guint *tried;             /* [n_microbatches] the prompt of each chunk */
  guint *best;              /* [n_microbatches] the same of the best order */
  PsSchedule *found;        /* in that order; NULL: none yet */
  PsPrediction *prediction; /* of it */
} Order;

static void order_clear (Order *order)
{
  ps_schedule_free (order->found);
  ps_prediction_free (order->prediction);
  g_free (order->best);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Order, order_clear)

static gboolean is_sooner (const PsPrediction *a, const PsPrediction *b)
{
  if (b == NULL || a->feasible != b->feasible)
    return b == NULL || a->feasible;
  return a->metrics.iteration_ns != b->metrics.iteration_ns ? a->metrics.iteration_ns < b->metrics.iteration_ns
                                                            : a->mean_first_token_ns < b->mean_first_token_ns;
}

/* Predicts the order that is tried. TRUE: it is the best so far, and noted. */
static gboolean try_order (Order *order, const PsFamily *family, PsPlacementKind placement, GError **error)
{
  g_autoptr (PsSchedule) schedule = ps_family_generate (family, &order->size, NULL);
  g_autoptr (PsPrediction) prediction = NULL;
  PsCommOrder comm_order;

  if (schedule != NULL && schedule->placement->kind == placement)
    prediction = ps_search_predict (order->pricing, schedule, &comm_order, error);
  if (prediction == NULL || !is_sooner (prediction, order->prediction))
    return FALSE;
  order_clear (order);
  order->family = family;
  order->best = g_memdup2 (order->tried, order->size.n_microbatches * sizeof *order->best);
  order->found = g_steal_pointer (&schedule);
  order->prediction = g_steal_pointer (&prediction);
  return TRUE;
}

/* Changes the best order: brings all chunks of a prompt together to another place, or exchanges two chunks. */
static void change (const Order *order, PsRandom *random)
{
  guint n = order->size.n_microbatches, at = ps_random_below (random, n), other = ps_random_below (random, n), k = 0;

  memcpy (order->tried, order->best, n * sizeof *order->tried);
  if (ps_random_below (random, 2) == 0) {
    order->tried[other] = order->best[at];
    order->tried[at] = order->best[other];
    return;
  }
  for (guint i = 0; i <= n; i++) {
    for (guint j = 0; i == at && j < n; j++)
      if (order->best[j] == order->best[other])
        order->tried[k++] = order->best[other];
    if (i < n && order->best[i] != order->best[other])
      order->tried[k++] = order->best[i];
  }
}

/* The least iteration time and, of equal ones, the least mean time to the first token. Results have no bound. */
static PsSearchResult *order_prompts (const PsSearchPricing *pricing, const PsSearchLimits *limits, GError **error)
{
  const PsSetting *setting = pricing->setting;
  gint64 until_us = g_get_monotonic_time () + limits->time_limit_ns / 1000, n_moves = 0;
  g_autoptr (PsPrefill) prefill = ps_prefill_new (setting, setting->n_microbatches, FALSE, error);
  guint n_families;
  const PsFamily *const *families = ps_family_table (&n_families);
  g_auto (Order) order = { .pricing = pricing };
  PsRandom random = { (guint64)limits->seed };
  g_autoptr (GError) reason = NULL;
  PsSearchResult *result = NULL;
  gboolean moved = FALSE;

  if (prefill == NULL)
    return NULL;
  order.tried = prefill->prompt;
  order.size = (PsFamilySetting){ .n_devices = setting->n_devices,
                                  .n_microbatches = prefill->n_chunks,
                                  .n_chunks = setting->n_chunks,
                                  .prompt = prefill->prompt,
                                  .n_prompts = prefill->n };
  for (guint f = 0; f < n_families; f++)
    if (families[f]->forward)
      try_order (&order, families[f], setting->placement, reason == NULL ? &reason : NULL);
  if (order.found == NULL && reason != NULL) {
    g_propagate_error (error, g_steal_pointer (&reason));
    return NULL;
  }
  if (order.found == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "no schedule of forwards alone has this placement");
  for (; prefill->n > 1 && g_atomic_int_get (limits->stop) == 0 && (limits->moves == 0 || n_moves < limits->moves)
         && (limits->time_limit_ns == 0 || g_get_monotonic_time () < until_us);
       n_moves++) {
    change (&order, &random);
    moved |= try_order (&order, order.family, setting->placement, NULL);
  }
  result = g_new0 (PsSearchResult, 1);
  result->schedule = g_steal_pointer (&order.found);
  result->n_moves = (guint64)n_moves;
  result->found_by = moved ? "local search" : order.family->name;
  g_free (result->schedule->name);
  result->schedule->name = g_strdup ("search");
  return result;
}

gboolean ps_search_take (const PsSearchPricing *pricing, PsSearchFound *found, GError **error)
{
  PsSearchResult *result = found->result;

  ps_prediction_free (found->prediction);
  found->prediction = ps_search_predict (pricing, result->schedule, &found->comm_order, error);
  if (found->prediction == NULL)
    return FALSE;
  if (!found->prediction->feasible)
    return ps_refuse (error, PS_ERROR_SCHEDULE,
                      "--memory-limit: no schedule was found that keeps to it with the buffers of its messages");
  found->figure_ns = figure_of (pricing, found->prediction);
  result->makespan_ns = found->prediction->metrics.makespan_ns;
  result->max_span_ns = found->prediction->metrics.max_span_ns;
  result->price_ns = ps_search_time (pricing->setting, found->prediction);
  return TRUE;
}

gboolean ps_search_try (const PsSetting *setting, const PsSearchLimits *limits, const PsCosts *given,
                        PsSearchFound *found, GError **error)
{
  g_autoptr (PsCostSpread) spread = NULL;
  PsSearchSamples samples = { 0 };
  PsSetting searched = *setting;
  PsSearchPricing pricing = { .setting = &searched, .given = given, .samples = limits->samples };

  if (searched.microbatch_order == PS_ORDER_BEST) /* only of the schedule that is found: it takes long */
    searched.microbatch_order = PS_ORDER_GIVEN;
  if (!ps_costs_check_known (given, NULL, error))
    return FALSE;
  if (limits->measured) {
    spread = ps_setting_spread (setting, given->shapes, setting->n_devices, setting->n_chunks, error);
    if (spread == NULL)
      return FALSE;
    samples = *limits->samples;
    samples.uncertainty.measured = spread;
    pricing.samples = &samples;
  }
  pricing.plan_until_us = limits->time_limit_ns > 0 ? g_get_monotonic_time () + limits->time_limit_ns / 1000 : 0;
  found->result
      = setting->serve != PS_SERVE_NONE ? order_prompts (&pricing, limits, error) : search (&pricing, limits, error);
  if (found->result == NULL)
    return FALSE;
  pricing.plan_until_us = 0;
  pricing.setting = setting;
  if (!ps_search_take (&pricing, found, error))
    return FALSE;
  if (ps_search_has_lengths (&pricing))
    found->result->lower_bound_ns = found->prediction->lower_bound_ns;
  found->result->proved_optimal = found->result->price_ns <= found->result->lower_bound_ns;
  return TRUE;
}
