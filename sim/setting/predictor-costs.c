/* predictor-costs.c - the costs that several predictions share. */
#include "predictor-private.h"

#include <math.h>
#include <string.h>

/* The costs of a number of devices and chunks under a setting, and what follows from them; each is NULL until it is
 * asked for. */
typedef struct
{
  PsCosts *costs; /* where it is NULL, reason may say why there are none */
  PsCosts *full;  /* the same with full recomputation, for R ops */
  PsCostSpread *spread;
  GError *reason;
} SizedCosts;

void
ps_sized_costs_free (gpointer data)
{
  SizedCosts *sized = data;

  ps_costs_free (sized->costs);
  ps_costs_free (sized->full);
  ps_cost_spread_free (sized->spread);
  g_clear_error (&sized->reason);
  g_free (sized);
}

gboolean
ps_predictor_is_layout_open (const PsPredictor *predictor)
{
  const PsCostSource *source = ps_setting_source (predictor->setting);

  return predictor->given == NULL && predictor->setting->layout == NULL && source != NULL && source->has_model;
}

/* The entry of a size under the current setting. */
static SizedCosts *
find_sized (PsPredictor *predictor, guint n_devices, guint n_chunks)
{
  GArray *key = ps_cache_key (predictor->sized);
  SizedCosts *sized;

  if (predictor->key != NULL)
    predictor->key (predictor->data, key);
  g_array_append_val (key, n_devices);
  g_array_append_val (key, n_chunks);
  g_array_append_val (key, predictor->even);
  sized = ps_cache_find (predictor->sized);
  if (sized != NULL)
    return sized;
  sized = g_new0 (SizedCosts, 1);
  gsize each = PS_N_OP_KINDS * sizeof *sized->costs->op + sizeof *sized->costs->stage + sizeof *sized->costs->shapes;
  ps_cache_add (predictor->sized, sized, sizeof *sized + n_devices * n_chunks * each);
  return sized;
}

const PsCosts *
ps_predictor_costs (PsPredictor *predictor, guint n_devices, guint n_chunks, GError **error)
{
  PsSetting setting = *predictor->setting;
  SizedCosts *sized;

  if (predictor->given != NULL && predictor->given->n_stages == n_devices * n_chunks)
    return predictor->given;
  sized = find_sized (predictor, n_devices, n_chunks);
  if (predictor->even)
    setting.layout = (char *)"even";
  if (sized->costs == NULL && sized->reason == NULL)
    sized->costs = ps_setting_costs (&setting, n_devices, n_chunks, &sized->reason);
  if (sized->costs == NULL)
    g_propagate_error (error, g_error_copy (sized->reason));
  return sized->costs;
}

/* A schedule file may place its stages unevenly; costs describe p * v stages. */
static gboolean
count_chunks (const PsSchedule *schedule, guint *n_chunks, GError **error)
{
  const PsPlacement *placement = schedule->placement;

  *n_chunks = placement->n_stages / placement->n_devices;
  if (placement->n_stages % placement->n_devices == 0)
    return TRUE;
  return ps_refuse (error, PS_ERROR_SCHEDULE,
                    "schedule '%s': %u stages do not divide over %u devices, so they have no costs; a multiple of %u "
                    "would be right",
                    schedule->name, placement->n_stages, placement->n_devices, placement->n_devices);
}

/* Measured costs count the weights as they were before a step that is not final yet: steps of asynchronous schedules
 * are final at once. */
static void
drop_kept_weights (const PsSetting *setting, const PsSchedule *schedule, PsCosts *costs)
{
  if (setting->db == NULL || setting->sync != PS_SYNC_BYPASS || !schedule->asynchronous)
    return;
  for (guint stage = 0; stage < costs->n_stages; stage++)
    costs->stage[stage].weight_bytes -= costs->stage[stage].version_bytes;
}

/* Where warm ops were measured apart, each kind of op takes what it takes on average, as many ops as are warm. */
static void
mix_warm (const PsSchedule *schedule, PsCosts *costs)
{
  guint n_stages = costs->n_stages;
  g_autofree guint *n = g_new0 (guint, PS_N_OP_KINDS * n_stages), *n_warm = g_new0 (guint, PS_N_OP_KINDS * n_stages);

  for (guint device = 0; device < schedule->placement->n_devices; device++)
    for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++)
      {
        PsOp op = schedule->ops[i], before = schedule->ops[i > 0 ? i - 1 : 0];
        guint cell = op.kind * n_stages + op.stage;

        n[cell]++;
        n_warm[cell] += i > schedule->first[device] && !before.paired && !op.paired && ps_op_is_warm (before, op);
      }
  for (guint i = 0; i < PS_OP_O * n_stages; i++)
    for (guint length = 0; length < costs->n_lengths && n_warm[i] > 0; length++)
      {
        PsOpCost *op = &costs->op[ps_op_index (n_stages, costs->n_lengths, i / n_stages, length, i % n_stages)];

        op->duration_ns = llrint ((double)op->duration_ns * (1 - (1 - costs->warm[i]) * n_warm[i] / n[i]));
      }
  g_clear_pointer (&costs->warm, g_free);
}

/* The costs of the microbatches that the schedule's R ops recompute; whole are those of the others. */
static PsCosts *
make_recomputed (PsPredictor *predictor, const PsSchedule *schedule, const PsCosts *whole, GError **error)
{
  guint n_devices = schedule->placement->n_devices;
  SizedCosts *sized = find_sized (predictor, n_devices, whole->n_stages / n_devices);

  if (sized->full == NULL)
    sized->full = ps_setting_full_costs (predictor->setting, whole, n_devices, error);
  return sized->full != NULL ? ps_setting_recomputed (predictor->setting, schedule, whole, sized->full, error) : NULL;
}

/* Adds the costs of the microbatches that the schedule's R ops recompute, as a second length. */
static PsCosts *
add_recomputed (PsPredictor *predictor, const PsSchedule *schedule, const PsCosts *whole, PsCosts *kept, GError **error)
{
  g_autoptr (PsCosts) costs = kept, read = NULL, sliced = NULL;
  const PsCosts *again = whole == predictor->given ? predictor->recomputed : NULL;
  PsCosts *joined;

  if (predictor->setting->lengths != NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "schedule '%s': has R ops, which recompute some microbatches; no --lengths would be right",
                           schedule->name);
  if (ps_lengths_most (costs->n_stages) < 2)
    return ps_refuse_null (error, PS_ERROR_USAGE,
                           "schedule '%s': has R ops and %u stages; fewer stages, or no R, would be right",
                           schedule->name, costs->n_stages);
  if (again == NULL)
    again = read = make_recomputed (predictor, schedule, whole, error);
  if (again == NULL)
    return NULL;
  sliced = ps_costs_slice (again, schedule->n_slices);
  if (!ps_costs_check (sliced, schedule->n_microbatches * schedule->n_slices, error))
    return NULL;
  joined = ps_costs_join ((PsCosts *const[]){ costs, sliced }, 2);
  joined->time_origin = again->time_origin;
  joined->memory_origin = again->memory_origin;
  return joined;
}

PsCosts *
ps_predictor_schedule_costs (PsPredictor *predictor, const PsSchedule *schedule, const PsLengths *lengths,
                             PsCosts **fastest, GError **error)
{
  const PsCosts *whole = NULL;
  g_autoptr (PsCosts) costs = NULL, placed = NULL;
  guint n_chunks;

  if (count_chunks (schedule, &n_chunks, error))
    whole = ps_predictor_costs (predictor, schedule->placement->n_devices, n_chunks, error);
  if (whole == NULL)
    return NULL;
  if (!ps_costs_check_placement (whole, schedule->placement, error) || !ps_costs_check_known (whole, schedule, error))
    {
      g_prefix_error (error, "schedule '%s': ", schedule->name);
      return NULL;
    }
  /* Costs that the predictor keeps gain slices as schedules ask for them. */
  if (predictor->given == NULL
      && !ps_setting_add_slices (predictor->setting, (PsCosts *)whole, schedule->placement->n_devices,
                                 schedule->n_slices, error))
    return NULL;
  if (predictor->given == NULL && schedule->placement->kind == PS_PLACEMENT_CUSTOM)
    {
      whole = placed = ps_costs_copy (whole);
      if (!ps_setting_place (predictor->setting, schedule->placement, placed, error))
        return NULL;
    }
  if (lengths != NULL)
    costs = ps_lengths_costs (predictor->setting, lengths, whole, schedule->placement->n_devices, schedule->n_slices,
                              error);
  else
    costs = schedule->recomputes ? ps_costs_slice (whole, schedule->n_slices)
                                 : ps_slices_costs (whole, schedule->n_slices);
  if (costs != NULL && schedule->recomputes)
    costs = add_recomputed (predictor, schedule, whole, g_steal_pointer (&costs), error);
  if (costs == NULL || !ps_costs_check (costs, schedule->n_microbatches * schedule->n_slices, error))
    return NULL;
  if (costs->warm != NULL || predictor->setting->n_speeds > 0)
    *fastest = ps_setting_fastest_costs (predictor->setting, schedule->placement, costs, 1, NULL);
  if (costs->warm != NULL)
    mix_warm (schedule, costs);
  ps_costs_add_host_time (costs, schedule->placement->device, schedule->placement->n_copies);
  drop_kept_weights (predictor->setting, schedule, costs);
  return g_steal_pointer (&costs);
}

const PsCostSpread *
ps_predictor_spread (PsPredictor *predictor, const PsPrediction *prediction, GError **error)
{
  const PsPlacement *placement = prediction->program->schedule->placement;
  guint n_devices = placement->n_devices, n_chunks = placement->n_stages / n_devices;
  SizedCosts *sized = find_sized (predictor, n_devices, n_chunks);

  if (sized->spread == NULL)
    sized->spread = ps_setting_spread (predictor->setting, prediction->costs->shapes, n_devices, n_chunks, error);
  return sized->spread;
}
