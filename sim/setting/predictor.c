/* predictor.c - the steps from a setting to a prediction, and the results that several predictions share. */
#include "predict-comm.h"
#include "predictor-private.h"
#include "predictor-schedule.h"
#include "simulate/simulate-private.h"

#include <pipesim/bound.h>
#include <pipesim/model.h>

#include <string.h>

#define CACHE_BYTES ((gsize)8 << 20)

PsPredictor *
ps_predictor_new (const PsSetting *setting, const PsCosts *given)
{
  PsPredictor *predictor = g_new0 (PsPredictor, 1);

  predictor->setting = setting;
  predictor->given = given;
  predictor->sized = ps_cache_new (CACHE_BYTES, ps_sized_costs_free);
  return predictor;
}

void
ps_predictor_give_recomputed (PsPredictor *predictor, const PsCosts *recomputed)
{
  predictor->recomputed = recomputed;
}

void
ps_predictor_free (PsPredictor *predictor)
{
  if (predictor == NULL)
    return;
  ps_cache_free (predictor->sized);
  g_free (predictor);
}

void
ps_predictor_set_key (PsPredictor *predictor, PsKeyFunction key, gpointer data)
{
  predictor->key = key;
  predictor->data = data;
}

/* Programs */

PsSchedule *
ps_predictor_schedule (PsPredictor *predictor, const char *name_or_file, GError **error)
{
  const PsSetting *setting = predictor->setting;
  const PsFamily *family = ps_family_find (name_or_file);
  const PsCosts *costs = NULL;

  if (family != NULL && family->uses_costs && setting->n_devices > 0 && setting->n_microbatches > 0
      && ps_setting_source (setting) != NULL)
    {
      costs = ps_predictor_costs (predictor, setting->n_devices,
                                  setting->n_chunks > 0 ? setting->n_chunks : family->default_chunks, error);
      if (costs == NULL)
        return NULL;
    }
  return ps_schedule_find (setting, name_or_file, costs, error);
}

/* Most settings ask for no channels, and their programs for no streams. */
static PsProgram *
lower (const PsPredictor *predictor, PsSchedule *schedule, const char *where, GError **error)
{
  PsProgram *program = ps_program_lower_steps (schedule, predictor->setting->comm_order, error);

  if (program == NULL)
    g_prefix_error (error, "%s: ", where);
  return program;
}

PsProgram *
ps_predictor_program (PsPredictor *predictor, const char *name_or_file, GError **error)
{
  PsSchedule *schedule = ps_predictor_schedule (predictor, name_or_file, error);
  PsProgram *program = schedule != NULL ? lower (predictor, schedule, name_or_file, error) : NULL;

  if (program != NULL)
    ps_program_add_streams (program);
  return program;
}

/* Predictions */

void
ps_prediction_free (PsPrediction *prediction)
{
  if (prediction == NULL)
    return;
  ps_costs_free (prediction->costs);
  ps_simulation_free (prediction->simulation);
  ps_program_free (prediction->program);
  ps_metrics_clear (&prediction->metrics);
  g_free (prediction->order);
  ps_events_task_free (prediction->events);
  g_free (prediction);
}

PsTimeline *
ps_prediction_timeline (const PsPrediction *prediction)
{
  PsTimeline *timeline = ps_timeline_from_simulation (prediction->program, prediction->costs, prediction->simulation);

  timeline->iteration_ns = prediction->metrics.iteration_ns;
  timeline->interval = prediction->interval;
  return timeline;
}

static void
set_fits (PsPrediction *prediction, const gint64 *limit, gint64 reserve)
{
  gint64 excess = 0;

  for (guint d = 0; limit != NULL && d < prediction->metrics.n_devices; d++)
    excess = MAX (excess, prediction->metrics.device[d].peak_memory_bytes - limit[d]);
  prediction->feasible = excess == 0;
  prediction->fits = ps_fits (excess, reserve);
}

/* Sets the costs and their least (ps_predictor_schedule_costs), the memory limit, and the order of microbatches that
 * have different lengths. */
static gboolean
take_costs (PsPredictor *predictor, PsPrediction *prediction, PsCosts **fastest, gint64 **limit, gint64 *reserve,
            GError **error)
{
  const PsSetting *setting = predictor->setting;
  const PsSchedule *schedule = prediction->program->schedule;
  const PsPlacement *placement = schedule->placement;
  g_autoptr (PsLengths) lengths = NULL;

  if (setting->lengths != NULL)
    lengths = ps_lengths_find (setting, schedule->n_microbatches, placement->n_stages, error);
  if (setting->lengths == NULL || lengths != NULL)
    prediction->costs = ps_predictor_schedule_costs (predictor, schedule, lengths, fastest, error);
  if (prediction->costs == NULL || !ps_setting_memory_limit (setting, placement->n_devices, limit, reserve, error))
    return FALSE;
  if (lengths != NULL)
    prediction->order = ps_lengths_arrange (lengths, predictor->order, prediction->costs, *limit, prediction->program);
  else
    ps_program_set_slices (prediction->program, prediction->costs);
  return TRUE;
}

static gboolean
check_zero (const PsSchedule *schedule, const PsCosts *costs, GError **error)
{
  return costs->zero < 3 || !schedule->asynchronous
         || ps_refuse (error, PS_ERROR_USAGE, "%s: never drains, so that the gathers of --zero 3 have no place in it",
                       schedule->name);
}

/* Simulates the program of the prediction, and works out its figures. */
static gboolean
run (PsPredictor *predictor, PsPrediction *prediction, GError **error)
{
  const PsSetting *setting = predictor->setting;
  const PsSchedule *schedule = prediction->program->schedule;
  g_autofree gint64 *limit = NULL;
  gint64 reserve = 0;
  g_autoptr (PsCosts) fastest = NULL;
  const PsProgram *repeated;

  if (!take_costs (predictor, prediction, &fastest, &limit, &reserve, error)
      || !check_zero (schedule, prediction->costs, error))
    return FALSE;
  prediction->simulation = ps_simulation_new (prediction->program);
  prediction->simulation->times_only = predictor->times_only;
  if (!ps_comm_simulate (setting, limit, prediction, error))
    return FALSE;
  ps_metrics_from_simulation (prediction->program, prediction->simulation, &prediction->metrics);
  repeated = setting->sync == PS_SYNC_BYPASS ? ps_prediction_hint (prediction) : prediction->program;
  if (!ps_iteration_events (repeated, prediction->costs, prediction->simulation, ps_prediction_events (prediction),
                            setting->sync, setting->reduce, &prediction->iteration, error))
    return FALSE;
  ps_metrics_set_iteration (&prediction->metrics, prediction->iteration.period_ns);
  prediction->lower_bound_ns = ps_schedule_bound (schedule, fastest != NULL ? fastest : prediction->costs,
                                                  schedule->asynchronous || setting->sync == PS_SYNC_BYPASS);
  set_fits (prediction, limit, reserve);
  return TRUE;
}

/* Whether b is at least as good as a: one that fits the memory limit, then the faster one. */
static gboolean
is_as_good (const PsPrediction *b, const PsPrediction *a)
{
  return a->feasible != b->feasible ? b->feasible : b->metrics.iteration_ns <= a->metrics.iteration_ns;
}

/* Predicts the schedule; NULL: that of the name. The best order of microbatches is the best of four: the one that is
 * best by the relaxation engine, and the three others. All are priced as the setting asks; some may deadlock. */
static PsPrediction *
predict_order (PsPredictor *predictor, const char *name_or_file, const PsSchedule *schedule, GError **error)
{
  const PsSetting *setting = predictor->setting;
  gboolean any = setting->lengths != NULL && setting->microbatch_order == PS_ORDER_BEST;
  g_autoptr (GError) reason = NULL;
  PsPrediction *best = NULL;

  for (PsMicrobatchOrder order = any ? PS_ORDER_GIVEN : setting->microbatch_order; order <= setting->microbatch_order;
       order++)
    {
      g_autoptr (PsPrediction) prediction = g_new0 (PsPrediction, 1);
      PsSchedule *own
          = schedule != NULL ? ps_schedule_copy (schedule) : ps_predictor_schedule (predictor, name_or_file, &reason);

      predictor->order = order;
      prediction->program = own != NULL ? lower (predictor, own, name_or_file, &reason) : NULL;
      if (prediction->program == NULL || !run (predictor, prediction, &reason))
        g_clear_error (order < setting->microbatch_order ? &reason : NULL);
      else if (best == NULL || is_as_good (prediction, best))
        {
          ps_prediction_free (best);
          best = g_steal_pointer (&prediction);
        }
    }
  if (best == NULL)
    g_propagate_error (error, g_steal_pointer (&reason));
  return best;
}

static PsPrediction *
predict_layout (PsPredictor *predictor, const char *name_or_file, gboolean even, GError **error)
{
  PsPrediction *prediction;

  predictor->even = even;
  prediction = predict_order (predictor, name_or_file, NULL, error);
  predictor->even = FALSE;
  return prediction;
}

static gboolean
is_even (const PsPrediction *prediction)
{
  const PsCosts *costs = prediction->costs;

  return costs->shapes == NULL || ps_stage_shapes_are_even (costs->shapes, costs->n_stages);
}

char *
ps_prediction_layout (const PsPrediction *prediction)
{
  const PsCosts *costs = prediction->costs;

  if (costs->shapes == NULL)
    return NULL;
  return is_even (prediction) ? g_strdup ("even") : ps_layout_string_write (costs->shapes, costs->n_stages);
}

/* Takes both over, and keeps the better one; even may be NULL. */
static PsPrediction *
choose_layout (PsPrediction *best, PsPrediction *even)
{
  g_autoptr (PsPrediction) a = best, b = even;

  if (b == NULL)
    return g_steal_pointer (&a);
  if (is_as_good (b, a))
    return g_steal_pointer (&b);
  a->even_ns = b->metrics.iteration_ns;
  return g_steal_pointer (&a);
}

/* Adds the memory of messages to a prediction of times. */
static gboolean
add_memory (const PsPredictor *predictor, PsPrediction *prediction, GError **error)
{
  g_autofree gint64 *limit = NULL;
  gint64 reserve;

  if (!ps_setting_memory_limit (predictor->setting, prediction->metrics.n_devices, &limit, &reserve, error))
    return FALSE;
  prediction->simulation->times_only = FALSE;
  ps_simulation_count_buffers (prediction->program, prediction->costs, prediction->simulation);
  for (guint d = 0; d < prediction->metrics.n_devices; d++)
    prediction->metrics.device[d].peak_memory_bytes = prediction->simulation->device[d].peak_bytes;
  ps_metrics_set_iteration (&prediction->metrics, prediction->metrics.iteration_ns);
  set_fits (prediction, limit, reserve);
  return TRUE;
}

/* The even layout. Its memory does not matter where it is slower than another that fits. */
static PsPrediction *
predict_even (PsPredictor *predictor, const char *name_or_file, const PsPrediction *best)
{
  g_autoptr (PsPrediction) even = NULL;

  predictor->times_only = best != NULL && best->feasible;
  even = predict_layout (predictor, name_or_file, TRUE, NULL);
  predictor->times_only = FALSE;
  if (even == NULL || best == NULL || !best->feasible || even->metrics.iteration_ns > best->metrics.iteration_ns)
    return g_steal_pointer (&even);
  return add_memory (predictor, even, NULL) ? g_steal_pointer (&even) : NULL;
}

PsPrediction *
ps_predictor_predict (PsPredictor *predictor, const char *name_or_file, GError **error)
{
  g_autoptr (GError) reason = NULL;
  PsPrediction *best = predict_layout (predictor, name_or_file, FALSE, &reason);

  if (ps_predictor_is_layout_open (predictor) && (best == NULL || !is_even (best)))
    {
      PsPrediction *even = predict_even (predictor, name_or_file, best);

      best = best != NULL ? choose_layout (best, even) : even;
    }
  if (best == NULL)
    g_propagate_error (error, g_steal_pointer (&reason));
  return best;
}

PsPrediction *
ps_predictor_predict_schedule (PsPredictor *predictor, PsSchedule *schedule, GError **error)
{
  PsPrediction *prediction = predict_order (predictor, schedule->name, schedule, error);

  ps_schedule_free (schedule);
  return prediction;
}

/* Intervals */

gboolean
ps_predictor_add_interval (PsPredictor *predictor, PsPrediction *prediction, guint n_steps, GError **error)
{
  const PsSetting *setting = predictor->setting;
  const PsCostSource *source = ps_setting_source (setting);
  const PsProgram *program = ps_prediction_hint (prediction);
  const PsSampling sampling
      = { .events = ps_prediction_events (prediction), .sync = setting->sync, .reduce = setting->reduce };
  const PsCostSpread *spread;

  if (source == NULL || source->spread == NULL || prediction->costs->zero == 3)
    return TRUE;
  spread = ps_predictor_spread (predictor, prediction, error);
  return spread != NULL
         && ps_interval_init (&prediction->interval, program, prediction->costs, spread, &sampling,
                              prediction->metrics.iteration_ns, n_steps, error);
}

PsPrediction *
ps_predict (const PsSetting *setting, const char *name_or_file, GError **error)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, NULL);

  return ps_predictor_predict (predictor, name_or_file, error);
}
