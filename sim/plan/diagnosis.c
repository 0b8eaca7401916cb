/* diagnosis.c - where the time of a run goes: what takes longer than its peers, the run against its prediction, and
 * other schedules under the same costs; as text and JSON. */
#include "diagnosis.h"
#include "setting-search.h"

#include <math.h>
#include <string.h>

/* Slow parts */

#define DEVIATIONS (3 * 1.4826)
#define SLOW_STAGE 1.05
#define SLOW_OTHER 1.1
#define SLOW_OP 1.5
#define SLOW_OP_PART 0.01 /* of the iteration */

/* The work of all iterations. A cell is a stage of one weight copy. */
typedef struct {
  const PsSchedule *schedule;
  guint n_iterations;
  guint n_cells;
  guint n_microbatches;
  gint64 *time_ns;    /* [((iteration * PS_N_PASSES + pass) * n_cells + cell) * n_microbatches + microbatch]; 0: none */
  gint64 *typical_ns; /* [pass * n_cells + cell] median over iterations and microbatches; 0: none */
  gint64 *scratch;    /* room for the values of one median */
  gint64 iteration_ns;
} Work;

static void work_clear (Work *work)
{
  g_free (work->time_ns);
  g_free (work->typical_ns);
  g_free (work->scratch);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Work, work_clear)

static gint64 *time_of (const Work *work, guint iteration, guint pass, guint cell, guint microbatch)
{
  gsize row = ((gsize)iteration * PS_N_PASSES + pass) * work->n_cells + cell;

  return &work->time_ns[row * work->n_microbatches + microbatch];
}

static void add_iteration (Work *work, guint iteration, const GArray *ops)
{
  guint n_stages = work->schedule->placement->n_stages;

  for (guint i = 0; i < ops->len; i++) {
    const PsSpan *span = &g_array_index (ops, PsSpan, i);
    PsOp op = span->op;
    gboolean paired = op.paired == 1 && i + 1 < ops->len;
    guint pass = paired ? PS_PASS_PAIR : op.kind == PS_OP_F ? PS_PASS_FORWARD : PS_PASS_BACKWARD;

    if (op.kind == PS_OP_O || op.kind == PS_OP_R || op.microbatch >= work->n_microbatches || op.stage >= n_stages)
      continue;
    if (paired && op.kind != PS_OP_F)
      op = span[1].op;
    guint cell = ps_schedule_weight_copy (work->schedule, op.microbatch) * n_stages + op.stage;
    *time_of (work, iteration, pass, cell, op.microbatch) += span->end_ns - span->start_ns;
    i += paired;
  }
}

static void work_init (Work *work, const PsSchedule *schedule, const GPtrArray *iterations)
{
  guint n_cells = schedule->placement->n_copies * schedule->placement->n_stages, m = schedule->n_microbatches;

  *work = (Work){ .schedule = schedule, .n_iterations = iterations->len, .n_cells = n_cells, .n_microbatches = m };
  work->iteration_ns = ps_iteration_spread (iterations).median_ns;
  work->time_ns = g_new0 (gint64, (gsize)iterations->len * PS_N_PASSES * n_cells * m);
  work->typical_ns = g_new0 (gint64, (gsize)PS_N_PASSES * n_cells);
  work->scratch = g_new (gint64, (gsize)iterations->len * n_cells * PS_N_PASSES * m);
  for (guint k = 0; k < iterations->len; k++)
    add_iteration (work, k, ((const PsTimeline *)iterations->pdata[k])->ops);
  for (guint i = 0; i < PS_N_PASSES * n_cells; i++) {
    gsize n = 0;

    for (guint k = 0; k < iterations->len; k++)
      for (guint microbatch = 0; microbatch < m; microbatch++)
        if (*time_of (work, k, i / n_cells, i % n_cells, microbatch) > 0)
          work->scratch[n++] = *time_of (work, k, i / n_cells, i % n_cells, microbatch);
    work->typical_ns[i] = n > 0 ? ps_median (work->scratch, n) : 0;
  }
}

/* The median of n values, and the least value that is slow among them. */
typedef struct {
  gint64 median_ns;
  double slow_ns;
} Peers;

static Peers peers_of (const gint64 *values, guint n, double factor)
{
  g_autofree gint64 *sorted = g_memdup2 (values, n * sizeof *values);
  Peers peers = { .median_ns = ps_median (sorted, n) };

  for (guint i = 0; i < n; i++)
    sorted[i] = ABS (values[i] - peers.median_ns);
  double deviation = (double)ps_median (sorted, n);
  peers.slow_ns = MAX ((double)peers.median_ns * factor, (double)peers.median_ns + DEVIATIONS * deviation);
  return peers;
}

static void add_slow (GArray *found, PsSlow slow)
{
  slow.ratio = slow.ratio > 0 ? slow.ratio : (double)slow.own_ns / (double)MAX (slow.peers_ns, 1);
  g_array_append_val (found, slow);
}

/* TRUE if the device holds several cells, and all of them are slow. */
static gboolean is_slow_device (const Work *work, const gint64 *typical_ns, double slow_ns, guint device)
{
  guint n = 0, n_slow = 0;

  for (guint cell = 0; cell < work->n_cells; cell++)
    if (work->schedule->placement->device[cell] == device && typical_ns[cell] > 0) {
      n++;
      n_slow += (double)typical_ns[cell] > slow_ns;
    }
  return n > 1 && n_slow == n;
}

static void find_slow_stages (const Work *work, guint pass, GArray *found)
{
  const gint64 *typical_ns = &work->typical_ns[pass * work->n_cells];
  guint n = 0;

  for (guint cell = 0; cell < work->n_cells; cell++)
    if (typical_ns[cell] > 0)
      work->scratch[n++] = typical_ns[cell];
  if (n < 2)
    return;
  Peers peers = peers_of (work->scratch, n, SLOW_STAGE);
  for (guint cell = 0; cell < work->n_cells; cell++) {
    guint device = work->schedule->placement->device[cell], n_microbatches = 0;

    if ((double)typical_ns[cell] <= peers.slow_ns)
      continue;
    for (guint m = 0; m < work->n_microbatches; m++)
      n_microbatches += *time_of (work, 0, pass, cell, m) > 0;
    add_slow (found, (PsSlow){ .kind = is_slow_device (work, typical_ns, peers.slow_ns, device) ? PS_SLOW_DEVICE
                                                                                                : PS_SLOW_STAGE,
                               .pass = (PsPass)pass,
                               .device = device,
                               .stage = cell % work->schedule->placement->n_stages,
                               .own_ns = typical_ns[cell],
                               .peers_ns = peers.median_ns,
                               .excess_ns = (typical_ns[cell] - peers.median_ns) * n_microbatches });
  }
}

/* The rows of the stages of a slow device become one. */
static void join_devices (GArray *found)
{
  for (guint i = 0; i < found->len; i++)
    for (guint j = found->len; j-- > i + 1;) {
      PsSlow *a = &g_array_index (found, PsSlow, i), *b = &g_array_index (found, PsSlow, j);

      if (a->kind != PS_SLOW_DEVICE || b->kind != a->kind || b->pass != a->pass || b->device != a->device)
        continue;
      a->own_ns = MAX (a->own_ns, b->own_ns);
      a->ratio = MAX (a->ratio, b->ratio);
      a->excess_ns += b->excess_ns;
      g_array_remove_index (found, j);
    }
}

/* The time of a microbatch over the typical one, in millionths: the median over stages and iterations. */
static gint64 relative_time (const Work *work, guint pass, guint microbatch, gint64 *excess_ns)
{
  gsize n = 0;

  *excess_ns = 0;
  for (guint cell = 0; cell < work->n_cells; cell++)
    for (guint k = 0; k < work->n_iterations; k++) {
      gint64 own_ns = *time_of (work, k, pass, cell, microbatch);
      gint64 typical_ns = work->typical_ns[pass * work->n_cells + cell];

      if (own_ns == 0 || typical_ns == 0)
        continue;
      work->scratch[n++] = (gint64)(1e6 * (double)own_ns / (double)typical_ns);
      *excess_ns += own_ns - typical_ns;
    }
  *excess_ns /= MAX (work->n_iterations, 1);
  return n > 0 ? ps_median (work->scratch, n) : 0;
}

static void find_slow_microbatches (const Work *work, guint pass, GArray *found)
{
  guint n = work->n_microbatches;
  g_autofree gint64 *relative = g_new (gint64, n), *excess_ns = g_new (gint64, n);

  for (guint m = 0; m < n; m++)
    relative[m] = relative_time (work, pass, m, &excess_ns[m]);
  Peers peers = peers_of (relative, n, SLOW_OTHER);
  for (guint m = 0; m < n && peers.median_ns > 0; m++)
    if ((double)relative[m] > peers.slow_ns)
      add_slow (found, (PsSlow){ .kind = PS_SLOW_MICROBATCH,
                                 .pass = (PsPass)pass,
                                 .microbatch = m,
                                 .ratio = (double)relative[m] / (double)peers.median_ns,
                                 .excess_ns = excess_ns[m] });
}

static void find_slow_iterations (const GPtrArray *iterations, gboolean *slow, GArray *found)
{
  g_autofree gint64 *values = g_new (gint64, iterations->len);

  for (guint k = 0; k < iterations->len; k++)
    values[k] = ((const PsTimeline *)iterations->pdata[k])->iteration_ns;
  Peers peers = peers_of (values, iterations->len, SLOW_OTHER);
  for (guint k = 0; k < iterations->len; k++) {
    slow[k] = (double)values[k] > peers.slow_ns;
    if (slow[k])
      add_slow (found, (PsSlow){ .kind = PS_SLOW_ITERATION,
                                 .iteration = k,
                                 .own_ns = values[k],
                                 .peers_ns = peers.median_ns,
                                 .excess_ns = values[k] - peers.median_ns });
  }
}

static void find_slow_ops (const Work *work, guint pass, guint iteration, GArray *found)
{
  const PsPlacement *placement = work->schedule->placement;

  for (guint cell = 0; cell < work->n_cells; cell++)
    for (guint m = 0; m < work->n_microbatches; m++) {
      gint64 own_ns = *time_of (work, iteration, pass, cell, m);
      gint64 typical_ns = work->typical_ns[pass * work->n_cells + cell];

      if ((double)own_ns > SLOW_OP * (double)typical_ns
          && (double)(own_ns - typical_ns) > SLOW_OP_PART * (double)work->iteration_ns)
        add_slow (found, (PsSlow){ .kind = PS_SLOW_OP,
                                   .pass = (PsPass)pass,
                                   .device = placement->device[cell],
                                   .stage = cell % placement->n_stages,
                                   .microbatch = m,
                                   .iteration = iteration,
                                   .own_ns = own_ns,
                                   .peers_ns = typical_ns,
                                   .excess_ns = own_ns - typical_ns });
    }
}

PS_DEFINE_FALLING_ORDER (compare_excess, PsSlow, excess_ns)

GArray *ps_slow_parts (const PsSchedule *schedule, const GPtrArray *iterations)
{
  GArray *found = g_array_new (FALSE, FALSE, sizeof (PsSlow));
  g_autofree gboolean *slow = g_new (gboolean, iterations->len);
  g_auto (Work) work = { 0 };

  work_init (&work, schedule, iterations);
  find_slow_iterations (iterations, slow, found);
  for (guint pass = 0; pass < PS_N_PASSES; pass++) {
    find_slow_stages (&work, pass, found);
    find_slow_microbatches (&work, pass, found);
    for (guint k = 0; k < iterations->len; k++)
      if (!slow[k])
        find_slow_ops (&work, pass, k, found);
  }
  join_devices (found);
  g_array_sort (found, compare_excess);
  return found;
}

/* Costs */

#define ACTIVATION (1 << 20) /* bytes of a stage's activation where nothing says more */

/* Takes guesses for costs that neither this run, other runs nor the model tell, and notes them. */
static gboolean observe (PsDiagnosis *diagnosis, const PsDiagnoseOptions *options, GError **error)
{
  const PsSetting *setting = options->setting;
  g_autoptr (PsObserved) observed = ps_observed_new ();
  g_auto (GStrv) paths = setting->costs_from != NULL ? ps_costs_from_paths (setting->costs_from) : NULL;
  g_autoptr (PsModel) model = NULL;

  if (!ps_observed_add (observed, options->where, diagnosis->iterations, error)
      || (paths != NULL && !ps_observed_load (observed, (const char *const *)paths, g_strv_length (paths), error)))
    return FALSE;
  if (setting->model != NULL) {
    model = ps_setting_model (setting, error);
    if (model == NULL || !ps_observed_estimate (observed, model, error))
      return FALSE;
  }
  PsCosts *costs = diagnosis->costs = ps_observed_costs (observed, observed->n_stages, 1, error);
  if (costs == NULL)
    return FALSE;
  for (guint stage = 0; stage < costs->n_stages; stage++)
    diagnosis->says_memory
        |= costs->stage[stage].weight_bytes > 0 || ps_costs_op (costs, PS_OP_F, stage)->take_bytes > 0;
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    diagnosis->guessed |= costs->stage[stage].unknown;
    costs->stage[stage].unknown = 0;
    if (!diagnosis->says_memory)
      ps_costs_set_memory (costs, stage, ACTIVATION, ACTIVATION);
  }
  return TRUE;
}

PsCosts *ps_costs_even (const PsCosts *costs)
{
  PsCosts *even = ps_costs_copy (costs);
  gint64 sum[PS_N_OP_KINDS] = { 0 }, pairs_ns = 0;
  gboolean has_pairs = TRUE;

  for (guint stage = 0; stage < costs->n_stages; stage++) {
    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      sum[kind] += ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns;
    pairs_ns += costs->stage[stage].pair_ns;
    has_pairs = has_pairs && costs->stage[stage].pair_ns >= 0;
  }
  for (guint stage = 0; stage < costs->n_stages; stage++) {
    for (guint kind = 0; kind < PS_N_OP_KINDS; kind++)
      ps_costs_op (even, (PsOpKind)kind, stage)->duration_ns = sum[kind] / costs->n_stages;
    even->stage[stage].pair_ns = has_pairs ? pairs_ns / costs->n_stages : -1;
  }
  return even;
}

/* Adds a part of a stage's costs to those of another. */
static void add_stage (PsCosts *cut, guint stage, const PsCosts *costs, guint old, guint parts)
{
  PsStageCost *to = &cut->stage[stage];
  const PsStageCost *from = &costs->stage[old];

  for (PsOpKind kind = 0; kind < PS_N_OP_KINDS; kind++) {
    PsOpCost *sum = ps_costs_op (cut, kind, stage);
    const PsOpCost *op = ps_costs_op (costs, kind, old);

    sum->duration_ns += op->duration_ns / parts;
    sum->take_bytes += op->take_bytes / parts;
    sum->give_bytes += op->give_bytes / parts;
  }
  to->weight_bytes += from->weight_bytes / parts;
  if (from->pair_ns >= 0)
    to->pair_ns = MAX (to->pair_ns, 0) + from->pair_ns / parts;
}

/* The costs of the run's model cut into n_stages: its stages joined, or divided evenly. NULL with error where neither
 * is possible. */
static PsCosts *cut_costs (const PsCosts *costs, guint n_stages, GError **error)
{
  guint from = costs->n_stages, parts = MAX (n_stages / from, 1), joined = MAX (from / n_stages, 1);

  if (n_stages * joined != from * parts)
    return ps_refuse_null (error, PS_ERROR_USAGE, "%u stages cannot be made of the %u of the run", n_stages, from);
  PsCosts *cut = ps_costs_new (n_stages);
  cut->time_origin = costs->time_origin;
  cut->op_ns = costs->op_ns;
  cut->post_ns = costs->post_ns;
  g_free (cut->source);
  cut->source = g_strdup (costs->source);
  for (guint stage = 0; stage < n_stages; stage++) {
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
  return cut;
}

/* The run itself */

/* Time of an iteration after its last op. */
static gint64 rest_of (const PsMetrics *metrics)
{
  return MAX (metrics->iteration_ns - metrics->makespan_ns, 0);
}

static PsPrediction *predict_with (const PsCosts *costs, const PsSetting *setting, PsSchedule *schedule, GError **error)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, costs);

  return ps_predictor_predict_schedule (predictor, schedule, error);
}

/* Predicts the run's own order, with its costs and with those of equal stages; explains it, and simulates it with its
 * own durations. */
static gboolean predict_run (PsDiagnosis *diagnosis, const PsDiagnoseOptions *options, PsSchedule *schedule,
                             GError **error)
{
  const PsSetting *setting = options->setting;
  PsPrediction *own = diagnosis->prediction = predict_with (diagnosis->costs, setting, schedule, error);

  if (own == NULL)
    return FALSE;
  diagnosis->measured = ps_timeline_simulation (own->program, own->costs, diagnosis->run, error);
  if (diagnosis->measured == NULL)
    return FALSE;
  g_autoptr (PsCosts) costs = ps_costs_even (diagnosis->costs);
  g_autoptr (PsPrediction) even = predict_with (costs, setting, ps_schedule_copy (own->program->schedule), error);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (own->program);
  if (even == NULL || !ps_timeline_replay (own->program, own->costs, diagnosis->run, simulation, error))
    return FALSE;
  diagnosis->even_ns = even->metrics.makespan_ns + rest_of (&own->metrics);
  diagnosis->replay_ns = simulation->makespan_ns + rest_of (&diagnosis->metrics);
  g_autofree gint64 *host_ns = ps_timeline_host_times (own->program, diagnosis->run, diagnosis->measured);
  diagnosis->explain
      = ps_explain_report_measured (own, diagnosis->measured, &diagnosis->metrics, host_ns, options->saving, error);
  return diagnosis->explain != NULL;
}

/* Other schedules */

static gboolean needs_guess (const PsDiagnosis *diagnosis, const PsSchedule *schedule)
{
  for (guint i = 0; diagnosis->guessed != 0 && i < ps_schedule_n_ops (schedule); i++)
    if (diagnosis->guessed & 1U << schedule->ops[i].kind)
      return TRUE;
  return FALSE;
}

static gboolean is_run (const PsDiagnosis *diagnosis, const PsSchedule *schedule)
{
  const PsSchedule *own = diagnosis->prediction->program->schedule;
  const PsPlacement *a = own->placement, *b = schedule->placement;
  guint n_cells = a->n_copies * a->n_stages;

  return a->n_devices == b->n_devices && n_cells == b->n_copies * b->n_stages
         && memcmp (a->device, b->device, n_cells * sizeof *a->device) == 0
         && memcmp (own->first, schedule->first, (a->n_devices + 1) * sizeof *own->first) == 0
         && memcmp (own->ops, schedule->ops, ps_schedule_n_ops (own) * sizeof *own->ops) == 0;
}

/* How much longer a time is, as a part of the other: -0.1 is 10 % less. */
static double change (gint64 time_ns, gint64 from_ns)
{
  return (double)time_ns / (double)MAX (from_ns, 1) - 1;
}

static void rival_free (gpointer data)
{
  PsRival *rival = data;

  g_free (rival->name);
  g_free (rival);
}

static void add_rival (PsDiagnosis *diagnosis, const PsPrediction *prediction, char *name)
{
  const PsSchedule *schedule = prediction->program->schedule;
  const PsMetrics *own = &diagnosis->prediction->metrics, *metrics = &prediction->metrics;
  PsRival *rival = g_new (PsRival, 1);

  *rival = (PsRival){ .name = name,
                      .n_chunks = ps_placement_max_chunks (schedule->placement),
                      .n_copies = schedule->placement->n_copies,
                      .asynchronous = schedule->asynchronous,
                      .is_run = !schedule->asynchronous && is_run (diagnosis, schedule),
                      .guessed = needs_guess (diagnosis, schedule),
                      .fits = prediction->feasible,
                      .iteration_ns = metrics->iteration_ns,
                      .change_run = change (metrics->iteration_ns, diagnosis->metrics.iteration_ns),
                      .change_predicted = change (metrics->iteration_ns, own->iteration_ns),
                      .bubble_ratio = metrics->bubble_ratio,
                      .memory_ratio = (double)metrics->peak_memory_bytes / (double)own->peak_memory_bytes };
  g_ptr_array_add (diagnosis->rivals, rival);
}

static gboolean try_family (PsDiagnosis *diagnosis, const PsSetting *given, const PsFamily *family, guint n_chunks,
                            GError **error)
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
static void try_families (PsDiagnosis *diagnosis, const PsSetting *setting)
{
  guint n, v = setting->n_chunks > 0 ? setting->n_chunks : diagnosis->costs->n_stages / setting->n_devices;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++) {
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
static gboolean try_search (PsDiagnosis *diagnosis, const PsDiagnoseOptions *options, GError **error)
{
  g_autoptr (GArray) choices = ps_search_choices (options->setting, 0, FALSE, 2, 1, error);
  g_auto (PsSearchFound) best = { 0 };
  PsSearchLimits limits = { .seed = 1, .n_threads = g_get_num_processors () };

  if (choices == NULL)
    return FALSE;
  limits.time_limit_ns = MAX (options->time_limit_ns / choices->len, 1);
  for (guint i = 0; i < choices->len; i++) {
    const PsSetting *choice = &g_array_index (choices, PsSetting, i);
    g_autoptr (PsCosts) costs = cut_costs (diagnosis->costs, choice->n_devices * choice->n_chunks, NULL);
    g_auto (PsSearchFound) found = { 0 };

    if (choice->placement == PS_PLACEMENT_BIDIRECTIONAL || costs == NULL
        || !ps_search_try (choice, &limits, costs, &found, NULL))
      continue;
    if (best.prediction == NULL || found.prediction->metrics.iteration_ns < best.prediction->metrics.iteration_ns) {
      PsSearchFound swap = best;

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
static guint rank_of (const PsRival *rival)
{
  return rival->asynchronous ? 3 : rival->n_copies > 1 ? 2 : rival->fits ? 0 : 1;
}

static int compare_rivals (gconstpointer a, gconstpointer b)
{
  const PsRival *x = *(PsRival *const *)a, *y = *(PsRival *const *)b;

  return rank_of (x) != rank_of (y) ? PS_COMPARE (rank_of (x), rank_of (y))
                                    : PS_COMPARE (x->iteration_ns, y->iteration_ns);
}

/* The row of the run's own order; NULL: no published schedule has it. */
static const PsRival *own_rival (const PsDiagnosis *diagnosis)
{
  for (guint i = 0; i < diagnosis->rivals->len; i++)
    if (((const PsRival *)diagnosis->rivals->pdata[i])->is_run)
      return diagnosis->rivals->pdata[i];
  return NULL;
}

char *ps_rival_label (const PsRival *rival)
{
  return g_strconcat (rival->name, rival->is_run ? " (the run)" : "", rival->n_copies > 1 ? " (2 copies)" : "",
                      rival->asynchronous ? " (older weights)" : "", rival->guessed ? " (guess)" : "", NULL);
}

/* The diagnosis */

void ps_diagnosis_free (PsDiagnosis *diagnosis)
{
  if (diagnosis == NULL)
    return;
  ps_explain_report_free (diagnosis->explain);
  ps_simulation_free (diagnosis->measured);
  ps_prediction_free (diagnosis->prediction);
  ps_costs_free (diagnosis->costs);
  ps_metrics_clear (&diagnosis->metrics);
  g_clear_pointer (&diagnosis->slow, g_array_unref);
  g_ptr_array_unref (diagnosis->rivals);
  g_ptr_array_unref (diagnosis->iterations);
  g_string_free (diagnosis->skipped, TRUE);
  g_free (diagnosis);
}

static gboolean take_setting (PsSetting *setting, const PsTimeline *run, GError **error)
{
  if (setting->n_devices == 0)
    setting->n_devices = run->n_devices;
  if (setting->n_microbatches == 0)
    setting->n_microbatches = run->n_microbatches;
  if (setting->n_devices != run->n_devices || setting->n_microbatches != run->n_microbatches)
    return ps_refuse (error, PS_ERROR_USAGE, "-p %u -m %u: the run has %u devices and %u microbatches",
                      setting->n_devices, setting->n_microbatches, run->n_devices, run->n_microbatches);
  return setting->memory_limit == NULL
         || ps_refuse (error, PS_ERROR_USAGE, "--memory-limit: the limit is what the run itself needs");
}

PsDiagnosis *ps_diagnosis_new (GPtrArray *iterations, const PsDiagnoseOptions *options, GError **error)
{
  PsSetting *setting = options->setting;
  g_autoptr (PsDiagnosis) diagnosis = g_new0 (PsDiagnosis, 1);

  diagnosis->iterations = iterations;
  diagnosis->spread = ps_iteration_spread (iterations);
  diagnosis->run = iterations->pdata[ps_median_iteration (iterations)];
  diagnosis->rivals = g_ptr_array_new_with_free_func (rival_free);
  diagnosis->skipped = g_string_new (NULL);
  ps_metrics_from_timeline (diagnosis->run, &diagnosis->metrics);
  if (!take_setting (setting, diagnosis->run, error))
    return NULL;
  g_autoptr (PsSchedule) schedule = ps_timeline_schedule (diagnosis->run, error);
  if (schedule == NULL) {
    g_prefix_error (error, "%s: ", options->where);
    return NULL;
  }
  if (diagnosis->metrics.makespan_ns <= 0)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: its ops take no time", options->where);
  diagnosis->slow = ps_slow_parts (schedule, iterations);
  if (!observe (diagnosis, options, error) || !predict_run (diagnosis, options, g_steal_pointer (&schedule), error))
    return NULL;
  setting->memory_limit = g_memdup2 (&diagnosis->prediction->metrics.peak_memory_bytes, sizeof (gint64));
  setting->n_memory_limits = 1;
  try_families (diagnosis, setting);
  if (options->time_limit_ns > 0 && !try_search (diagnosis, options, error))
    return NULL;
  g_ptr_array_sort (diagnosis->rivals, compare_rivals);
  return g_steal_pointer (&diagnosis);
}

/* Where the iteration of each device goes */

static const char *part_key (guint part)
{
  static const char *const busy[PS_DIAGNOSIS_N_BUSY] = { "f", "b", "w", "bw", "r", "o", "pair" };

  return part < PS_DIAGNOSIS_N_BUSY ? busy[part] : ps_idle_name ((PsIdle)(part - PS_DIAGNOSIS_N_BUSY));
}

const char *ps_diagnosis_part_title (guint part)
{
  if (part < PS_N_OP_KINDS)
    return ps_op_kind_name ((PsOpKind)part);
  return part == PS_N_OP_KINDS ? "pairs" : part == PS_DIAGNOSIS_N_BUSY ? "warm-up" : part_key (part);
}

gint64 *ps_diagnosis_parts (const PsDiagnosis *diagnosis)
{
  guint n_devices = diagnosis->run->n_devices;
  const gint64 *idle_ns = diagnosis->explain->explanation->idle_ns;
  gint64 *parts_ns = g_new0 (gint64, (gsize)n_devices * PS_DIAGNOSIS_N_PARTS);

  for (guint i = 0; i < diagnosis->run->ops->len; i++) {
    const PsSpan *span = &g_array_index (diagnosis->run->ops, PsSpan, i);
    guint part = span->op.paired ? PS_N_OP_KINDS : span->op.kind;

    parts_ns[span->device * PS_DIAGNOSIS_N_PARTS + part] += span->end_ns - span->start_ns;
    i += span->op.paired; /* both of a pair have the pair's time */
  }
  for (guint d = 0; d < n_devices; d++)
    memcpy (&parts_ns[d * PS_DIAGNOSIS_N_PARTS + PS_DIAGNOSIS_N_BUSY], &idle_ns[d * PS_N_IDLE],
            PS_N_IDLE * sizeof *idle_ns);
  return parts_ns;
}

typedef struct {
  guint device;
  gint64 busy_ns, idle_ns;
  double bubble_ratio, bubble_ratio_span;
  double share[PS_DIAGNOSIS_N_PARTS]; /* of the iteration */
  gint64 time_ns[PS_DIAGNOSIS_N_PARTS];
} DeviceRow;

#define N_FIXED 5

/* Parts of the iteration of each device: busy by op kind, idle by cause; and in ns for JSON. Parts that no device has
 * are for JSON alone. */
static PsTable *devices_table (const PsDiagnosis *diagnosis)
{
  const PsMetrics *metrics = &diagnosis->metrics;
  PsCellColumn columns[N_FIXED + 2 * PS_DIAGNOSIS_N_PARTS] = {
    PS_CELL (DeviceRow, device, "device", "device", INTEGER),
    PS_CELL (DeviceRow, busy_ns, "busy_ns", NULL, TIME),
    PS_CELL (DeviceRow, idle_ns, "idle_ns", NULL, TIME),
    PS_CELL (DeviceRow, bubble_ratio, "bubble_ratio", "bubble", RATIO),
    PS_CELL (DeviceRow, bubble_ratio_span, "bubble_ratio_span", "of span", RATIO),
  };
  g_autofree gint64 *parts_ns = ps_diagnosis_parts (diagnosis);
  double iteration = (double)MAX (metrics->iteration_ns, 1), span = (double)MAX (metrics->max_span_ns, 1);

  for (guint part = 0; part < PS_DIAGNOSIS_N_PARTS; part++) {
    g_autofree char *time = g_strconcat (part_key (part), "_ns", NULL);
    PsCellColumn *share = &columns[N_FIXED + part], *ns = share + PS_DIAGNOSIS_N_PARTS;

    *share = (PsCellColumn)PS_CELL (DeviceRow, share[part], part_key (part), NULL, RATIO);
    *ns = (PsCellColumn)PS_CELL (DeviceRow, time_ns[part], g_intern_string (time), NULL, TIME);
    for (guint d = 0; d < metrics->n_devices; d++)
      if (parts_ns[d * PS_DIAGNOSIS_N_PARTS + part] != 0)
        share->column.title = ps_diagnosis_part_title (part);
  }
  PsTable *table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);
  for (guint d = 0; d < metrics->n_devices; d++) {
    gint64 busy_ns = metrics->device[d].busy_ns;
    DeviceRow row = { .device = d,
                      .busy_ns = busy_ns,
                      .idle_ns = metrics->iteration_ns - busy_ns,
                      .bubble_ratio = (iteration - (double)busy_ns) / iteration,
                      .bubble_ratio_span = (span - (double)busy_ns) / span };

    for (guint part = 0; part < PS_DIAGNOSIS_N_PARTS; part++) {
      row.time_ns[part] = parts_ns[d * PS_DIAGNOSIS_N_PARTS + part];
      row.share[part] = (double)row.time_ns[part] / iteration;
    }
    ps_table_add (table, &row);
  }
  return table;
}

/* Tables of slow parts and of other schedules */

static char *describe_slow (const PsSlow *slow)
{
  switch (slow->kind) {
  case PS_SLOW_DEVICE:
    return g_strdup_printf ("device %u, all its stages", slow->device);
  case PS_SLOW_STAGE:
    return g_strdup_printf ("stage %u on device %u", slow->stage, slow->device);
  case PS_SLOW_MICROBATCH:
    return g_strdup_printf ("microbatch %u", slow->microbatch);
  case PS_SLOW_ITERATION:
    return g_strdup_printf ("iteration %u", slow->iteration + 1);
  default:
    return g_strdup_printf ("stage %u, microbatch %u in iteration %u", slow->stage, slow->microbatch,
                            slow->iteration + 1);
  }
}

static PsTable *slow_table (const PsDiagnosis *diagnosis)
{
  static const PsColumn columns[] = {
    { "kind", NULL, PS_COLUMN_TEXT },
    { "device", NULL, PS_COLUMN_INTEGER },
    { "stage", NULL, PS_COLUMN_INTEGER },
    { "microbatch", NULL, PS_COLUMN_INTEGER },
    { "iteration", NULL, PS_COLUMN_INTEGER },
    { "part", "slower than peers", PS_COLUMN_TEXT },
    { "pass", "pass", PS_COLUMN_TEXT },
    { "own_ns", "takes", PS_COLUMN_TIME },
    { "peers_ns", "peers", PS_COLUMN_TIME },
    { "ratio", "ratio", PS_COLUMN_RATIO },
    { "excess_ns", "more in all", PS_COLUMN_TIME },
  };
  static const char *const kinds[] = { "device", "stage", "microbatch", "iteration", "op" };
  static const char *const passes[PS_N_PASSES] = { "forward", "backward", "pair" };
  PsTable *table = ps_table_new (columns, G_N_ELEMENTS (columns));

  for (guint i = 0; i < diagnosis->slow->len; i++) {
    const PsSlow *slow = &g_array_index (diagnosis->slow, PsSlow, i);
    g_autofree char *part = describe_slow (slow);
    gboolean op = slow->kind == PS_SLOW_OP;

    ps_table_add_row (table);
    ps_table_set_text (table, "kind", kinds[slow->kind]);
    ps_table_set_text (table, "part", part);
    if (op || slow->kind == PS_SLOW_DEVICE || slow->kind == PS_SLOW_STAGE)
      ps_table_set_integer (table, "device", slow->device);
    if (op || slow->kind == PS_SLOW_STAGE)
      ps_table_set_integer (table, "stage", slow->stage);
    if (op || slow->kind == PS_SLOW_MICROBATCH)
      ps_table_set_integer (table, "microbatch", slow->microbatch);
    if (op || slow->kind == PS_SLOW_ITERATION)
      ps_table_set_integer (table, "iteration", slow->iteration + 1);
    if (slow->kind != PS_SLOW_ITERATION)
      ps_table_set_text (table, "pass", passes[slow->pass]);
    if (slow->own_ns > 0) {
      ps_table_set_integer (table, "own_ns", slow->own_ns);
      ps_table_set_integer (table, "peers_ns", slow->peers_ns);
    }
    ps_table_set_ratio (table, "ratio", slow->ratio);
    ps_table_set_integer (table, "excess_ns", slow->excess_ns);
  }
  return table;
}

static gpointer rival_label (gconstpointer row)
{
  return ps_rival_label (row);
}

/* The first n rows, and the run's. */
static PsTable *rivals_table (const PsDiagnosis *diagnosis, guint n)
{
  static const PsCellColumn columns[] = {
    PS_CELL (PsRival, name, "schedule", NULL, TEXT),
    PS_CELL_GET (rival_label, "label", "schedule", TEXT),
    PS_CELL (PsRival, n_chunks, "chunks", "v", INTEGER),
    PS_CELL (PsRival, iteration_ns, "iteration_ns", "iteration", TIME),
    PS_CELL (PsRival, change_run, "change_run", "against run", PERCENT),
    PS_CELL (PsRival, change_predicted, "change_predicted", "against prediction", PERCENT),
    PS_CELL (PsRival, bubble_ratio, "bubble_ratio", "bubble", RATIO),
    PS_CELL (PsRival, memory_ratio, "memory_ratio", "memory", RATIO),
    PS_CELL (PsRival, fits, "feasible", "fits", BOOLEAN),
    PS_CELL (PsRival, is_run, "is_run", NULL, BOOLEAN),
    PS_CELL (PsRival, guessed, "guessed", NULL, BOOLEAN),
    PS_CELL (PsRival, asynchronous, "asynchronous", NULL, BOOLEAN),
    PS_CELL (PsRival, n_copies, "weight_copies", NULL, INTEGER),
  };
  PsTable *table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);

  for (guint i = 0; i < diagnosis->rivals->len; i++)
    if (i < n || ((const PsRival *)diagnosis->rivals->pdata[i])->is_run)
      ps_table_add (table, diagnosis->rivals->pdata[i]);
  return table;
}

/* The lines about the whole run */

#define FAR_OFF 0.1 /* of a prediction from the run */

static void append_change (GString *text, const char *what, gint64 time_ns, gint64 from_ns)
{
  g_autofree char *time = ps_format_time (time_ns);

  g_string_append_printf (text, "%s%s (%+.1f %%)", what, time, 100 * change (time_ns, from_ns));
}

static void append_iterations (GString *text, const PsDiagnosis *diagnosis)
{
  const PsMetrics *metrics = &diagnosis->metrics;
  const PsIterationSpread *spread = &diagnosis->spread;
  g_autofree char *time = ps_format_time (metrics->iteration_ns);
  g_autofree char *p10 = ps_format_time (spread->p10_ns), *p90 = ps_format_time (spread->p90_ns);

  g_string_append_printf (text, "iteration %s", time);
  if (spread->n > 1)
    g_string_append_printf (text, ", the median of %u (p10 %s, p90 %s)", spread->n, p10, p90);
  g_string_append_printf (text, "; %.4g microbatches/s\nbubble of iteration %.4f, of span %.4f\n",
                          1e9 * diagnosis->run->n_microbatches / (double)MAX (metrics->iteration_ns, 1),
                          metrics->bubble_ratio, metrics->bubble_ratio_span);
}

/* The fastest that trains as the run does, within its memory. The gain is that over the run's own prediction: both lack
 * whatever predictions lack. */
static void append_answer (GString *text, const PsDiagnosis *diagnosis)
{
  const PsRival *best = diagnosis->rivals->len > 0 ? diagnosis->rivals->pdata[0] : NULL;
  gint64 own_ns = diagnosis->prediction->metrics.iteration_ns, run_ns = diagnosis->metrics.iteration_ns;

  if (best == NULL || rank_of (best) > 0 || best->iteration_ns >= own_ns)
    g_string_append (text, "under the same costs and memory no schedule is predicted to be faster\n");
  else {
    g_autofree char *time = ps_format_time (best->iteration_ns);

    g_string_append_printf (text,
                            "under the same costs and memory the fastest is predicted to take %s: %s with %u "
                            "chunk%s%s, %.1f %% less than the run as predicted, %+.1f %% against the run as %s\n",
                            time, best->name, best->n_chunks, best->n_chunks == 1 ? "" : "s",
                            best->guessed ? " (guess)" : "", -100 * best->change_predicted, 100 * best->change_run,
                            ps_origin_name (diagnosis->run->origin));
  }
  if (fabs (change (own_ns, run_ns)) > FAR_OFF)
    g_string_append (text, "the run itself is predicted badly: trust the order of schedules, not their times\n");
}

char *ps_diagnosis_summary (const PsDiagnosis *diagnosis)
{
  const PsTimeline *run = diagnosis->run;
  const PsRival *own = own_rival (diagnosis);
  gint64 measured_ns = diagnosis->metrics.iteration_ns, predicted_ns = diagnosis->prediction->metrics.iteration_ns;
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "%s: %s\n", ps_origin_name (run->origin), run->source);
  g_string_append_printf (text, "schedule %s%s%s: %u devices, %u stages, %u microbatches\n", run->schedule,
                          own != NULL ? ", the order of " : "", own != NULL ? own->name : "", run->n_devices,
                          run->n_stages, run->n_microbatches);
  append_iterations (text, diagnosis);
  append_change (text, "its ops and transfers without gaps between them: ", diagnosis->replay_ns, measured_ns);
  append_change (text, "; predicted from medians: ", predicted_ns, measured_ns);
  append_change (text, "\nequal stages are predicted to take ", diagnosis->even_ns, predicted_ns);
  g_string_append_c (text, '\n');
  append_answer (text, diagnosis);
  return g_string_free (text, FALSE);
}

/* Text and JSON */

#define N_DEVICES 16
#define N_FIRST 6 /* rows of shorter tables */
#define N_RIVALS 12

static void section_free (gpointer data)
{
  PsDiagnosisSection *section = data;

  g_free (section->title);
  ps_table_free (section->table);
  g_free (section);
}

static void add_section (GPtrArray *sections, char *title, PsTable *table, guint n_rows)
{
  const PsDiagnosisSection section = { title, table, n_rows };

  g_ptr_array_add (sections, g_memdup2 (&section, sizeof section));
}

GPtrArray *ps_diagnosis_sections (const PsDiagnosis *diagnosis, guint n_rivals)
{
  GPtrArray *sections = g_ptr_array_new_with_free_func (section_free);
  gboolean slow = diagnosis->slow->len > 0;

  add_section (sections, g_strdup ("where the iteration goes, in parts of it"), devices_table (diagnosis), N_DEVICES);
  add_section (sections, g_strdup_printf ("critical path of the %s iteration", ps_origin_name (diagnosis->run->origin)),
               ps_explain_report_shares (diagnosis->explain, FALSE), N_FIRST);
  add_section (sections, g_strdup ("ops of each stage on that path"),
               ps_explain_report_shares (diagnosis->explain, TRUE), N_FIRST);
  add_section (
      sections,
      g_strdup (slow ? "stragglers" : "no stage, microbatch, iteration or op takes much longer than its peers"),
      slow ? slow_table (diagnosis) : NULL, N_FIRST);
  add_section (sections, g_strdup ("what pays off: the predicted iteration if one part takes 10 % less time"),
               ps_explain_report_what_if (diagnosis->explain), N_FIRST);
  add_section (sections,
               g_strdup_printf ("predicted under the same costs; memory%s relative to the run%s",
                                diagnosis->says_memory ? "" : " in activations,",
                                diagnosis->guessed != 0
                                    ? "\n(guess: from costs that the run does not show; --model FILE, or "
                                      "--costs-from another run, tells them)"
                                    : ""),
               rivals_table (diagnosis, n_rivals), G_MAXUINT);
  return sections;
}

static void append_section (GString *text, const PsDiagnosisSection *section)
{
  guint n = section->table != NULL ? ps_table_n_rows (section->table) : 0, shown = MIN (section->n_rows, n);

  if (section->table != NULL)
    ps_table_truncate (section->table, shown);
  g_autofree char *rows = section->table != NULL ? ps_table_to_text (section->table) : g_strdup ("");
  g_autofree char *title = ps_fit_sentence (section->title, 0);
  if (section->table != NULL && *rows == '\0')
    return;
  g_string_append_printf (text, "\n%s%s", title, rows);
  if (n > shown)
    g_string_append_printf (text, "and %u more; --json has them all\n", n - shown);
}

char *ps_diagnosis_to_text (const PsDiagnosis *diagnosis, const PsColumnChoice *choice, GError **error)
{
  g_autofree char *lines = ps_diagnosis_summary (diagnosis), *summary = ps_fit_sentence (lines, 0);
  g_autoptr (GPtrArray) sections = ps_diagnosis_sections (diagnosis, N_RIVALS), tables = g_ptr_array_new ();

  for (guint i = 0; i < sections->len; i++)
    if (((PsDiagnosisSection *)sections->pdata[i])->table != NULL)
      g_ptr_array_add (tables, ((PsDiagnosisSection *)sections->pdata[i])->table);
  if (!ps_tables_choose ((PsTable *const *)tables->pdata, tables->len, choice, error))
    return NULL;
  GString *text = g_string_new (summary);
  for (guint i = 0; i < sections->len; i++)
    append_section (text, sections->pdata[i]);
  return g_string_free (text, FALSE);
}

typedef struct {
  PsFigures figures;
  const char *order_of;
  PsIterationSpread spread;
  gint64 replay_ns, predicted_ns, even_ns;
} RunRow;

char *ps_diagnosis_to_json (const PsDiagnosis *diagnosis)
{
  static const PsCellColumn columns[] = {
    PS_FIGURE ("schedule"),
    PS_CELL (RunRow, order_of, "order_of", NULL, TEXT),
    PS_FIGURE ("devices"),
    PS_FIGURE ("stages"),
    PS_FIGURE ("microbatches"),
    PS_CELL (RunRow, spread.n, "iterations", NULL, INTEGER),
    PS_FIGURE ("iteration_ns"),
    PS_CELL (RunRow, spread.p10_ns, "iteration_p10_ns", NULL, TIME),
    PS_CELL (RunRow, spread.p90_ns, "iteration_p90_ns", NULL, TIME),
    PS_FIGURE ("makespan_ns"),
    PS_FIGURE ("max_span_ns"),
    PS_FIGURE ("bubble_ratio"),
    PS_FIGURE ("bubble_ratio_span"),
    PS_CELL (RunRow, replay_ns, "replay_ns", NULL, TIME),
    PS_CELL (RunRow, predicted_ns, "predicted_iteration_ns", NULL, TIME),
    PS_CELL (RunRow, even_ns, "equal_stages_ns", NULL, TIME),
    PS_CELL_SET ("devices_detail", NULL, TABLE),
    PS_CELL_SET ("critical_path", NULL, TABLE),
    PS_CELL_SET ("path_kinds", NULL, TABLE),
    PS_CELL_SET ("path_stages", NULL, TABLE),
    PS_CELL_SET ("stragglers", NULL, TABLE),
    PS_CELL_SET ("what_if", NULL, TABLE),
    PS_CELL_SET ("schedules", NULL, TABLE),
  };
  const PsTimeline *run = diagnosis->run;
  const PsRival *own = own_rival (diagnosis);
  const char *extra[]
      = { "origin", ps_origin_name (run->origin), "source", run->source, "skipped", diagnosis->skipped->str, NULL };
  const RunRow row = { .figures = { .schedule = run->schedule,
                                    .n_devices = run->n_devices,
                                    .n_stages = run->n_stages,
                                    .n_microbatches = run->n_microbatches,
                                    .metrics = diagnosis->metrics },
                       .order_of = own != NULL ? own->name : NULL,
                       .spread = diagnosis->spread,
                       .replay_ns = diagnosis->replay_ns,
                       .predicted_ns = diagnosis->prediction->metrics.iteration_ns,
                       .even_ns = diagnosis->even_ns };
  g_autoptr (PsTable) table = ps_table_of (columns, G_N_ELEMENTS (columns), &row, sizeof row, 1);

  ps_table_set_table (table, "devices_detail", devices_table (diagnosis));
  ps_table_set_table (table, "critical_path", ps_explain_report_path (diagnosis->explain));
  ps_table_set_table (table, "path_kinds", ps_explain_report_shares (diagnosis->explain, FALSE));
  ps_table_set_table (table, "path_stages", ps_explain_report_shares (diagnosis->explain, TRUE));
  ps_table_set_table (table, "stragglers", slow_table (diagnosis));
  ps_table_set_table (table, "what_if", ps_explain_report_what_if (diagnosis->explain));
  ps_table_set_table (table, "schedules", rivals_table (diagnosis, G_MAXUINT));
  return ps_table_to_json (table, "pipesim-diagnosis/1", extra);
}
