/* diagnose-run.c - puts a run beside its prediction and beside other schedules. */
#include "diagnose-run.h"

#include "plan/search-try.h"

#include <pipesim/observe.h>

#include <string.h>

#define ACTIVATION (1 << 20) /* bytes of a stage's activation where nothing says more */

static void
rival_free (gpointer data)
{
  PsRival *rival = data;

  g_free (rival->name);
  g_free (rival);
}

void
ps_diagnosis_free (PsDiagnosis *diagnosis)
{
  if (diagnosis == NULL)
    return;
  ps_explain_report_free (diagnosis->explain);
  ps_simulation_free (diagnosis->measured);
  ps_prediction_free (diagnosis->prediction);
  ps_costs_free (diagnosis->costs);
  ps_metrics_clear (&diagnosis->metrics);
  g_clear_pointer (&diagnosis->slow, g_array_unref);
  g_clear_pointer (&diagnosis->rivals, g_ptr_array_unref);
  g_clear_pointer (&diagnosis->iterations, g_ptr_array_unref);
  if (diagnosis->skipped != NULL)
    g_string_free (diagnosis->skipped, TRUE);
  g_free (diagnosis);
}

/* Costs */

/* Adds what other runs and the model say. */
static gboolean
complete (PsObserved *observed, const PsSetting *setting, GError **error)
{
  g_auto (GStrv) paths = setting->costs_from != NULL ? ps_costs_from_paths (setting->costs_from) : NULL;
  g_autoptr (PsModel) model = NULL;

  if (paths != NULL && !ps_observed_load (observed, (const char *const *)paths, g_strv_length (paths), error))
    return FALSE;
  if (setting->model == NULL)
    return TRUE;
  model = ps_setting_model (setting, error);
  return model != NULL && ps_observed_estimate (observed, model, error);
}

/* Whether the run says what its ops keep, or what its stages hold. */
static gboolean
says_memory (const PsCosts *costs)
{
  for (guint stage = 0; stage < costs->n_stages; stage++)
    if (costs->stage[stage].weight_bytes > 0 || ps_costs_op (costs, PS_OP_F, stage)->take_bytes > 0)
      return TRUE;
  return FALSE;
}

/* Takes guesses for costs that nothing says, and notes them. */
static gboolean
observe (PsDiagnosis *diagnosis, const PsDiagnoseOptions *options, GError **error)
{
  g_autoptr (PsObserved) observed = ps_observed_new ();
  PsCosts *costs;

  if (!ps_observed_add (observed, options->where, diagnosis->iterations, error)
      || !complete (observed, options->setting, error))
    return FALSE;
  costs = diagnosis->costs = ps_observed_costs (observed, observed->n_stages, 1, error);
  diagnosis->says_memory = costs != NULL && says_memory (costs);
  for (guint stage = 0; costs != NULL && stage < costs->n_stages; stage++)
    {
      diagnosis->guessed |= costs->stage[stage].unknown;
      costs->stage[stage].unknown = 0;
      if (!diagnosis->says_memory)
        ps_costs_set_memory (costs, stage, ACTIVATION, ACTIVATION);
    }
  return costs != NULL;
}

/* Adds a part of a stage's costs to those of another. */
static void
add_stage (PsCosts *cut, guint stage, const PsCosts *costs, guint old, guint parts)
{
  PsStageCost *to = &cut->stage[stage];
  const PsStageCost *from = &costs->stage[old];

  for (PsOpKind kind = 0; kind < PS_N_OP_KINDS; kind++)
    {
      ps_costs_op (cut, kind, stage)->duration_ns += ps_costs_op (costs, kind, old)->duration_ns / parts;
      ps_costs_op (cut, kind, stage)->take_bytes += ps_costs_op (costs, kind, old)->take_bytes / parts;
      ps_costs_op (cut, kind, stage)->give_bytes += ps_costs_op (costs, kind, old)->give_bytes / parts;
    }
  to->weight_bytes += from->weight_bytes / parts;
  if (from->pair_ns >= 0)
    to->pair_ns = MAX (to->pair_ns, 0) + from->pair_ns / parts;
}

/* The costs of the run's model cut into n_stages: its stages joined, or divided evenly. NULL with error where neither
 * is possible. */
static PsCosts *
cut_costs (const PsCosts *costs, guint n_stages, GError **error)
{
  guint from = costs->n_stages, parts = MAX (n_stages / from, 1), joined = MAX (from / n_stages, 1);
  g_autoptr (PsCosts) cut = ps_costs_new (n_stages);

  if (n_stages * joined != from * parts)
    return ps_refuse_null (error, PS_ERROR_USAGE, "%u stages cannot be made of the %u of the run", n_stages, from);
  cut->time_origin = costs->time_origin;
  cut->op_ns = costs->op_ns;
  cut->post_ns = costs->post_ns;
  g_free (cut->source);
  cut->source = g_strdup (costs->source);
  for (guint stage = 0; stage < n_stages; stage++)
    {
      guint first = stage * joined / parts, end = (stage + 1) * joined / parts;

      for (guint i = 0; i < joined; i++)
        add_stage (cut, stage, costs, first + i, parts);
      if (from == 1)
        continue;
      cut->transfer_ns[ps_transfer_forward (cut, stage)]
          = costs->transfer_ns[ps_transfer_forward (costs, CLAMP (end, 1, from - 1) - 1)];
      cut->transfer_ns[ps_transfer_backward (cut, stage)]
          = costs->transfer_ns[ps_transfer_backward (costs, CLAMP (first, 1, from - 1))];
    }
  return g_steal_pointer (&cut);
}

/* The run itself */

static gint64
rest_of (const PsMetrics *metrics)
{
  return MAX (metrics->iteration_ns - metrics->makespan_ns, 0);
}

static PsPrediction *
predict_with (const PsCosts *costs, const PsSetting *setting, PsSchedule *schedule, GError **error)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, costs);

  return ps_predictor_predict_schedule (predictor, schedule, error);
}

static gboolean
predict_run (PsDiagnosis *diagnosis, const PsSetting *setting, PsSchedule *schedule, GError **error)
{
  diagnosis->prediction = predict_with (diagnosis->costs, setting, schedule, error);
  if (diagnosis->prediction == NULL)
    return FALSE;
  diagnosis->measured
      = ps_timeline_simulation (diagnosis->prediction->program, diagnosis->prediction->costs, diagnosis->run, error);
  return diagnosis->measured != NULL;
}

static gboolean
replay_run (PsDiagnosis *diagnosis, const PsSetting *setting, GError **error)
{
  const PsProgram *program = diagnosis->prediction->program;
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  g_autoptr (PsCosts) costs = ps_costs_even (diagnosis->costs);
  g_autoptr (PsPrediction) even = predict_with (costs, setting, ps_schedule_copy (program->schedule), error);

  if (even == NULL)
    return FALSE;
  diagnosis->even_ns = even->metrics.makespan_ns + rest_of (&diagnosis->prediction->metrics);
  if (!ps_timeline_replay (program, diagnosis->prediction->costs, diagnosis->run, simulation, error))
    return FALSE;
  diagnosis->replay_ns = simulation->makespan_ns + rest_of (&diagnosis->metrics);
  return TRUE;
}

static gboolean
explain_run (PsDiagnosis *diagnosis, double saving, GError **error)
{
  g_autofree gint64 *host_ns
      = ps_timeline_host_times (diagnosis->prediction->program, diagnosis->run, diagnosis->measured);

  diagnosis->explain = ps_explain_report_measured (diagnosis->prediction, diagnosis->measured, &diagnosis->metrics,
                                                   host_ns, saving, error);
  return diagnosis->explain != NULL;
}

static void
limit_memory (const PsDiagnosis *diagnosis, PsSetting *setting)
{
  setting->memory_limit = g_new (gint64, 1);
  setting->memory_limit[0] = diagnosis->prediction->metrics.peak_memory_bytes;
  setting->n_memory_limits = 1;
}

/* Other schedules */

static gboolean
needs_guess (const PsDiagnosis *diagnosis, const PsSchedule *schedule)
{
  for (guint i = 0; diagnosis->guessed != 0 && i < ps_schedule_n_ops (schedule); i++)
    if (diagnosis->guessed & 1U << schedule->ops[i].kind)
      return TRUE;
  return FALSE;
}

static gboolean
is_run (const PsDiagnosis *diagnosis, const PsSchedule *schedule)
{
  const PsSchedule *own = diagnosis->prediction->program->schedule;
  const PsPlacement *a = own->placement, *b = schedule->placement;
  guint n_cells = a->n_copies * a->n_stages;

  return a->n_devices == b->n_devices && n_cells == b->n_copies * b->n_stages
         && memcmp (a->device, b->device, n_cells * sizeof *a->device) == 0
         && memcmp (own->first, schedule->first, (a->n_devices + 1) * sizeof *own->first) == 0
         && memcmp (own->ops, schedule->ops, ps_schedule_n_ops (own) * sizeof *own->ops) == 0;
}

static void
add_rival (PsDiagnosis *diagnosis, const PsPrediction *prediction, char *name)
{
  const PsSchedule *schedule = prediction->program->schedule;
  PsRival *rival = g_new0 (PsRival, 1);

  rival->name = name;
  rival->n_chunks = ps_placement_max_chunks (schedule->placement);
  rival->n_copies = schedule->placement->n_copies;
  rival->asynchronous = schedule->asynchronous;
  rival->is_run = !schedule->asynchronous && is_run (diagnosis, schedule);
  rival->guessed = needs_guess (diagnosis, schedule);
  rival->fits = prediction->feasible;
  rival->iteration_ns = prediction->metrics.iteration_ns;
  rival->bubble_ratio = prediction->metrics.bubble_ratio;
  rival->memory_ratio
      = (double)prediction->metrics.peak_memory_bytes / (double)diagnosis->prediction->metrics.peak_memory_bytes;
  g_ptr_array_add (diagnosis->rivals, rival);
}

static gboolean
try_family (PsDiagnosis *diagnosis, const PsSetting *given, const PsFamily *family, guint n_chunks, GError **error)
{
  PsSetting setting = *given;
  g_autoptr (PsCosts) costs = cut_costs (diagnosis->costs, setting.n_devices * n_chunks, error);

  if (costs == NULL)
    return FALSE;
  setting.n_chunks = n_chunks;
  g_autoptr (PsPredictor) predictor = ps_predictor_new (&setting, costs);
  g_autoptr (PsPrediction) prediction = ps_predictor_predict (predictor, family->name, error);
  if (prediction != NULL)
    add_rival (diagnosis, prediction, g_strdup (family->name));
  return prediction != NULL;
}

/* Every family with its own number of chunks and, where that is another one, with that of the run. */
static void
try_families (PsDiagnosis *diagnosis, const PsSetting *setting)
{
  guint n, v = setting->n_chunks > 0 ? setting->n_chunks : diagnosis->costs->n_stages / setting->n_devices;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    {
      g_autoptr (GError) reason = NULL;
      gboolean done = try_family (diagnosis, setting, families[i], families[i]->default_chunks, &reason);

      if (v > 1 && v != families[i]->default_chunks)
        done |= try_family (diagnosis, setting, families[i], v, NULL);
      if (!done)
        g_string_append_printf (diagnosis->skipped, "%s%s", diagnosis->skipped->len > 0 ? "; " : "", reason->message);
    }
}

/* Searches one placement after the other, as pipesim search does, and keeps the best. Copies of weights that no trace
 * shows the size of are left out. */
static gboolean
try_search (PsDiagnosis *diagnosis, const PsDiagnoseOptions *options, GError **error)
{
  PsSetting setting = *options->setting;
  g_autoptr (GArray) choices = search_choices (&setting, 0, FALSE, 2, 1, error);
  g_auto (SearchFound) best = { 0 };
  SearchLimits limits = { .seed = 1, .n_threads = g_get_num_processors () };

  if (choices == NULL)
    return FALSE;
  limits.time_limit_ns = MAX (options->time_limit_ns / choices->len, 1);
  for (guint i = 0; i < choices->len; i++)
    {
      const SearchChoice *choice = &g_array_index (choices, SearchChoice, i);
      g_autoptr (PsCosts) costs = cut_costs (diagnosis->costs, setting.n_devices * choice->n_chunks, NULL);
      g_auto (SearchFound) found = { 0 };

      if (choice->placement == PS_PLACEMENT_BIDIRECTIONAL || costs == NULL
          || !search_try (&setting, choice, &limits, costs, &found, NULL))
        continue;
      if (best.prediction == NULL || found.prediction->metrics.iteration_ns < best.prediction->metrics.iteration_ns)
        {
          SearchFound swap = best;

          best = found;
          found = swap;
        }
    }
  if (best.prediction != NULL)
    add_rival (diagnosis, best.prediction,
               g_strdup_printf ("search, %s", ps_placement_name (best.prediction->program->schedule->placement->kind)));
  return TRUE;
}

/* Rows that train as the run does come first, then rows that need more memory, more copies of the weights, and older
 * weights. */
static guint
rank_of (const PsRival *rival)
{
  return rival->asynchronous ? 3 : rival->n_copies > 1 ? 2 : rival->fits ? 0 : 1;
}

static int
compare_rivals (gconstpointer a, gconstpointer b)
{
  const PsRival *x = *(PsRival *const *)a, *y = *(PsRival *const *)b;

  return rank_of (x) != rank_of (y) ? PS_COMPARE (rank_of (x), rank_of (y))
                                    : PS_COMPARE (x->iteration_ns, y->iteration_ns);
}

const PsRival *
ps_diagnosis_own (const PsDiagnosis *diagnosis)
{
  for (guint i = 0; i < diagnosis->rivals->len; i++)
    if (((const PsRival *)diagnosis->rivals->pdata[i])->is_run)
      return diagnosis->rivals->pdata[i];
  return NULL;
}

const PsRival *
ps_diagnosis_best (const PsDiagnosis *diagnosis)
{
  const PsRival *first = diagnosis->rivals->len > 0 ? diagnosis->rivals->pdata[0] : NULL;

  return first != NULL && rank_of (first) == 0 ? first : NULL;
}

char *
ps_rival_label (const PsRival *rival)
{
  return g_strconcat (rival->name, rival->is_run ? " (the run)" : "", rival->n_copies > 1 ? " (2 copies)" : "",
                      rival->asynchronous ? " (older weights)" : "", rival->guessed ? " (guess)" : "", NULL);
}

static PsDiagnosis *
diagnosis_new (GPtrArray *iterations)
{
  PsDiagnosis *diagnosis = g_new0 (PsDiagnosis, 1);

  diagnosis->iterations = iterations;
  diagnosis->spread = ps_iteration_spread (iterations);
  diagnosis->run = iterations->pdata[ps_median_iteration (iterations)];
  diagnosis->rivals = g_ptr_array_new_with_free_func (rival_free);
  diagnosis->skipped = g_string_new (NULL);
  ps_metrics_from_timeline (diagnosis->run, &diagnosis->metrics);
  return diagnosis;
}

static gboolean
take_setting (PsSetting *setting, const PsTimeline *run, GError **error)
{
  if (setting->n_devices == 0)
    setting->n_devices = run->n_devices;
  if (setting->n_microbatches == 0)
    setting->n_microbatches = run->n_microbatches;
  if (setting->n_devices == run->n_devices && setting->n_microbatches == run->n_microbatches)
    return setting->memory_limit == NULL
           || ps_refuse (error, PS_ERROR_USAGE, "--memory-limit: the limit is what the run itself needs");
  return ps_refuse (error, PS_ERROR_USAGE, "-p %u -m %u: the run has %u devices and %u microbatches",
                    setting->n_devices, setting->n_microbatches, run->n_devices, run->n_microbatches);
}

static PsSchedule *
read_schedule (const PsDiagnosis *diagnosis, const char *where, GError **error)
{
  PsSchedule *schedule = ps_timeline_schedule (diagnosis->run, error);

  if (schedule == NULL)
    g_prefix_error (error, "%s: ", where);
  if (schedule == NULL || diagnosis->metrics.makespan_ns > 0)
    return schedule;
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "%s: its ops take no time", where);
  ps_schedule_free (schedule);
  return NULL;
}

PsDiagnosis *
ps_diagnosis_new (GPtrArray *iterations, const PsDiagnoseOptions *options, GError **error)
{
  g_autoptr (PsDiagnosis) diagnosis = diagnosis_new (iterations);

  if (!take_setting (options->setting, diagnosis->run, error))
    return NULL;
  g_autoptr (PsSchedule) schedule = read_schedule (diagnosis, options->where, error);
  if (schedule == NULL)
    return NULL;
  diagnosis->slow = ps_slow_parts (schedule, iterations);
  if (!observe (diagnosis, options, error)
      || !predict_run (diagnosis, options->setting, g_steal_pointer (&schedule), error)
      || !replay_run (diagnosis, options->setting, error))
    return NULL;
  if (!explain_run (diagnosis, options->saving, error))
    return NULL;
  limit_memory (diagnosis, options->setting);
  try_families (diagnosis, options->setting);
  if (options->time_limit_ns > 0 && !try_search (diagnosis, options, error))
    return NULL;
  g_ptr_array_sort (diagnosis->rivals, compare_rivals);
  return g_steal_pointer (&diagnosis);
}
