/* search-try.c - searches for schedules of one placement and cut. */
#include "search-try.h"

#include <string.h>
#include <unistd.h>

/* How much slower transfers are in a part of the search where they wait for each other. */
#define TRANSFER_FACTOR 2

void
search_found_clear (SearchFound *found)
{
  g_clear_pointer (&found->result, ps_search_result_free);
  g_clear_pointer (&found->prediction, ps_prediction_free);
}

static void
show_progress (const PsSearchProgress *progress, gpointer data)
{
  g_autofree char *best = ps_format_time (progress->best_ns), *bound = ps_format_time (progress->lower_bound_ns);

  g_printerr (PS_CLEAR_LINE "%s: best %s, bound %s, gap %.2f %%, %.1f s ", (const char *)data, best, bound,
              100 * ((double)progress->best_ns / (double)MAX (progress->lower_bound_ns, 1) - 1),
              (double)progress->elapsed_ns / 1e9);
}

static PsSearchResult *
search (const SearchChoice *choice, SearchPricing *pricing, const SearchLimits *limits, GError **error)
{
  const PsSetting *setting = pricing->setting;
  g_autoptr (PsPlacement) placement = limits->placement != NULL
                                          ? ps_placement_copy (limits->placement)
                                          : ps_placement_new (choice->placement, setting->n_devices, choice->n_chunks);
  g_autoptr (PsCosts) alike
      = ps_setting_average (setting, pricing->given, setting->n_devices, choice->n_microbatches, error);
  g_autoptr (PsCosts) costs
      = alike != NULL ? ps_setting_fastest_costs (setting, placement, alike, choice->n_slices, error) : NULL;
  g_autofree char *name = search_choice_describe (choice);
  g_autofree gint64 *limit = NULL;
  PsSearchSetting search = { .placement = placement,
                             .n_microbatches = choice->n_microbatches,
                             .n_slices = choice->n_slices,
                             .costs = costs,
                             .objective = ps_sync_objective (setting->sync),
                             .price = search_price,
                             .generate = search_generate,
                             .price_data = pricing,
                             .price_is_free = pricing->samples != NULL && pricing->samples->objective != SEARCH_TIME,
                             .transfer_factor = ps_setting_transfers_wait (setting) ? TRANSFER_FACTOR : 1,
                             .seed = (guint64)limits->seed,
                             .start = limits->start,
                             .time_limit_ns = limits->time_limit_ns,
                             .move_limit = (guint64)limits->moves,
                             .stop = limits->stop,
                             .n_threads = limits->n_threads,
                             .progress = isatty (STDERR_FILENO) ? show_progress : NULL,
                             .progress_data = name };
  PsSearchResult *result;

  if (costs == NULL || !ps_costs_check (costs, choice->n_microbatches, error)
      || !ps_setting_memory_limit (setting, setting->n_devices, &limit, NULL, error))
    return NULL;
  search.memory_limit = limit;
  search.price_is_free |= search_has_lengths (pricing);
  search.price_bound_ns = search_price_bound (pricing, placement, costs);
  result = ps_search (&search, error);
  if (search.progress != NULL)
    g_printerr (PS_CLEAR_LINE);
  if (result == NULL && limit != NULL && setting->n_memory_limits == 0)
    g_prefix_error (error, "the memory of cluster '%s' less its reserve is the limit: ", setting->cluster);
  return result;
}

gboolean
search_try (PsSetting *setting, const SearchChoice *choice, const SearchLimits *limits, const PsCosts *given,
            SearchFound *found, GError **error)
{
  g_autoptr (PsCosts) read = NULL;
  g_autoptr (PsCostSpread) spread = NULL;
  SearchSamples samples = { 0 };
  PsSetting searched;
  SearchPricing pricing = { .setting = &searched, .given = given, .samples = limits->samples };

  search_choice_apply (choice, setting);
  searched = *setting;
  if (searched.microbatch_order == PS_ORDER_BEST) /* only of the schedule that is found: it takes long */
    searched.microbatch_order = PS_ORDER_GIVEN;
  if (given == NULL)
    {
      read = ps_setting_costs (setting, setting->n_devices, choice->n_chunks, error);
      pricing.given = read;
    }
  if (pricing.given == NULL || !ps_costs_check_known (pricing.given, NULL, error))
    return FALSE;
  if (limits->measured)
    {
      spread = ps_setting_spread (setting, pricing.given->shapes, setting->n_devices, choice->n_chunks, error);
      if (spread == NULL)
        return FALSE;
      samples = *limits->samples;
      samples.uncertainty.measured = spread;
      pricing.samples = &samples;
    }
  pricing.plan_until_us = limits->time_limit_ns > 0 ? g_get_monotonic_time () + limits->time_limit_ns / 1000 : 0;
  found->result = search (choice, &pricing, limits, error);
  if (found->result == NULL)
    return FALSE;
  pricing.plan_until_us = 0;
  pricing.setting = setting;
  found->prediction = search_predict (&pricing, found->result->schedule, &found->comm_order, error);
  if (found->prediction == NULL)
    return FALSE;
  if (!found->prediction->feasible)
    return ps_refuse (error, PS_ERROR_SCHEDULE,
                      "--memory-limit: no schedule was found that keeps to it with the buffers of its messages");
  found->figure_ns = search_figure (&pricing, found->prediction);
  found->result->price_ns = search_time (setting, found->prediction);
  if (search_has_lengths (&pricing))
    found->result->lower_bound_ns = found->prediction->lower_bound_ns;
  found->result->proved_optimal = found->result->price_ns <= found->result->lower_bound_ns;
  return TRUE;
}

typedef struct
{
  gint64 end_ns;
  guint step;
} Ended;

static int
compare_ended (gconstpointer a, gconstpointer b)
{
  const Ended *x = a, *y = b;

  return x->end_ns != y->end_ns ? PS_COMPARE (x->end_ns, y->end_ns) : PS_COMPARE (x->step, y->step);
}

PsSchedule *
search_carry_over (const SearchFound *found, const PsPlacement *placement)
{
  const PsProgram *program = found->prediction->program;
  const PsSchedule *schedule = program->schedule;
  g_autofree Ended *ended = g_new (Ended, program->n_steps);
  PsScheduleBuilder *builder;
  PsSchedule *carried;

  if (!schedule->recomputes
      && memcmp (schedule->placement->device, placement->device, placement->n_stages * sizeof *placement->device) == 0)
    return ps_schedule_copy (found->result->schedule);
  for (guint i = 0; i < program->n_steps; i++)
    ended[i] = (Ended){ found->prediction->simulation->end_ns[i + 1], i };
  qsort (ended, program->n_steps, sizeof *ended, compare_ended);
  builder = ps_schedule_builder_new (schedule->name, ps_placement_copy (placement), schedule->n_microbatches);
  for (guint d = 0; d < placement->n_devices; d++)
    {
      for (guint i = 0; i < program->n_steps; i++)
        {
          PsOp op = schedule->ops[program->op_of[ended[i].step]];

          op.paired = 0;
          if (ps_placement_device (placement, ps_schedule_weight_copy (schedule, op.microbatch), op.stage) == d
              && op.kind != PS_OP_R)
            ps_schedule_builder_add_op (builder, op);
        }
      ps_schedule_builder_next_device (builder);
    }
  carried = ps_schedule_builder_end (builder);
  carried->n_slices = schedule->n_slices;
  carried->copy = g_memdup2 (schedule->copy, schedule->n_microbatches * sizeof *schedule->copy);
  return carried;
}
