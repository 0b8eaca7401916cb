/* check.c - runs schedules for real, measures their ops again right before and after, and makes figures of all runs. */
#include "check.h"

#include "clock.h"
#include "fill.h"

#include <pipesim/philox.h>
#include <pipesim/simulate.h>
#include <pipesim/costdb.h>
#include <pipesim/setting.h>

#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static void run_free (gpointer data)
{
  g_free (((PsCheckRun *)data)->schedule);
  g_free (((PsCheckRun *)data)->started);
}

void ps_calib_check_init (PsCalibCheck *check)
{
  check->runs = g_array_new (FALSE, FALSE, sizeof (PsCheckRun));
  g_array_set_clear_func (check->runs, run_free);
  check->sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_sentinel_free);
  check->skipped = g_string_new (NULL);
}

void ps_calib_check_clear (PsCalibCheck *check)
{
  g_strfreev (check->schedules);
  g_array_unref (check->runs);
  g_ptr_array_unref (check->sentinels);
  g_string_free (check->skipped, TRUE);
  g_clear_pointer (&check->last_fresh, ps_timeline_free);
  g_clear_pointer (&check->last_measured, ps_timeline_free);
  g_clear_pointer (&check->db, ps_costdb_close);
  g_clear_pointer (&check->copy_db, ps_costdb_close);
  if (check->copy != NULL)
    g_unlink (check->copy);
  g_clear_pointer (&check->copy, g_free);
  g_clear_pointer (&check->stored, ps_profile_contents_free);
  g_clear_pointer (&check->cases, g_ptr_array_unref);
  g_clear_pointer (&check->before, g_ptr_array_unref);
  g_clear_pointer (&check->fresh, g_ptr_array_unref);
}

/* Cases */

static void skip (PsCalibCheck *check, const char *name, const GError *reason)
{
  gboolean named = g_str_has_prefix (reason->message, name);

  g_string_append_printf (check->skipped, "%s%s%s%s", check->skipped->len > 0 ? "; " : "", named ? "" : name,
                          named ? "" : ": ", reason->message);
}

static PsPrediction *predict (const PsCalibCheck *check, const char *name, GError **error)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (check->setting, NULL);
  g_autoptr (PsPrediction) prediction = ps_predictor_predict (predictor, name, error);

  if (prediction == NULL || !ps_predictor_add_interval (predictor, prediction, MAX (check->run.n_steps, 2) - 1, error))
    return NULL;
  ps_program_add_streams (prediction->program);
  return g_steal_pointer (&prediction);
}

static gboolean find_cases (PsCalibCheck *check, GError **error)
{
  g_autoptr (GError) first = NULL;

  check->cases = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_prediction_free);
  for (guint i = 0; i < check->n_microbatches; i++)
    for (char **name = check->schedules; *name != NULL; name++) {
      g_autoptr (GError) reason = NULL;

      check->setting->n_microbatches = check->microbatches[i];
      PsPrediction *prediction = predict (check, *name, &reason);
      if (prediction != NULL)
        g_ptr_array_add (check->cases, prediction);
      else
        skip (check, *name, reason);
      if (first == NULL)
        first = g_steal_pointer (&reason);
    }
  if (check->cases->len == 0)
    g_propagate_error (error, g_steal_pointer (&first));
  return check->cases->len > 0;
}

/* Fresh measurements */

static gboolean is_wanted (const PsMeasurement *key, gpointer data)
{
  return ps_fill_is_used (&((PsCalibCheck *)data)->calibration, key);
}

static gboolean keep_fresh (const PsMeasurement *measurement, gpointer data, GError **error)
{
  if (measurement->n_samples > 0)
    g_ptr_array_add (((PsCalibCheck *)data)->fresh, ps_measurement_join (NULL, measurement));
  return TRUE;
}

static gboolean keep_sentinel (const PsSentinel *sentinel, gpointer data, GError **error)
{
  PsCalibCheck *check = data;
  PsSentinel *copy = g_memdup2 (sentinel, sizeof *sentinel);

  copy->what = g_strdup (sentinel->what);
  copy->taken = g_strdup (sentinel->taken);
  g_ptr_array_add (check->sentinels, copy);
  return ps_costdb_store_sentinel (check->db, check->profile, sentinel, error);
}

/* Measures the ops of the current cases. */
static gboolean measure (PsCalibCheck *check, GError **error)
{
  PsCalibration calibration = check->calibration;

  calibration.chunks = &check->n_chunks;
  calibration.n_chunks = 1;
  calibration.caches = 1U << PS_CACHE_RUN;
  calibration.wanted = is_wanted;
  calibration.sink = keep_fresh;
  calibration.sentinel = keep_sentinel;
  calibration.data = check;
  g_clear_pointer (&check->before, g_ptr_array_unref);
  check->before = check->fresh;
  check->fresh = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  check->n_fresh_chunks = check->n_chunks;
  return ps_calibrate (&calibration, error);
}

/* Gives the copy of the profile the samples right before and after a run. */
static gboolean refresh (const PsCalibCheck *check, GError **error)
{
  for (guint i = 0; i < check->fresh->len; i++) {
    const PsMeasurement *after = check->fresh->pdata[i], *first = ps_measurement_find (check->before, after);
    g_autoptr (PsMeasurement) both = first != NULL ? ps_measurement_join (first, after) : NULL;

    if (both != NULL && !ps_costdb_replace (check->copy_db, check->copy_profile, both, error))
      return FALSE;
  }
  return TRUE;
}

/* The timeline with fresh costs, and the interval of the profile's. NULL: failed. */
static PsTimeline *predict_fresh (const PsCalibCheck *check, const PsPrediction *prediction, gint64 *fresh_ns,
                                  GError **error)
{
  PsSetting setting = *check->setting;
  g_autoptr (PsPredictor) predictor = ps_predictor_new (&setting, NULL);

  setting.db = check->copy;
  g_autoptr (PsPrediction) fresh
      = refresh (check, error)
            ? ps_predictor_predict_schedule (predictor, ps_schedule_copy (prediction->program->schedule), error)
            : NULL;
  if (fresh == NULL || !ps_predictor_add_interval (predictor, fresh, MAX (check->run.n_steps, 2) - 1, error))
    return NULL;
  *fresh_ns = fresh->interval.p50_ns;
  fresh->interval = prediction->interval;
  return ps_compared_run_prediction (fresh);
}

/* Processor seconds since the system started, from /proc/stat. */
typedef struct {
  double all;  /* of all processors, idle ones too; 0: the system does not tell */
  double busy; /* of all programs, and of other guests of the host */
  double own;  /* of this program */
} ProcessorTimes;

static double seconds_of (struct timeval time)
{
  return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void read_processors (ProcessorTimes *times)
{
  FILE *file = fopen ("/proc/stat", "re");
  double user, nice, system, idle, waiting, interrupts, soft, stolen, tick = (double)sysconf (_SC_CLK_TCK);
  struct rusage usage;

  *times = (ProcessorTimes){ 0 };
  if (getrusage (RUSAGE_SELF, &usage) == 0)
    times->own = seconds_of (usage.ru_utime) + seconds_of (usage.ru_stime);
  if (file != NULL
      && fscanf (file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &waiting, &interrupts,
                 &soft, &stolen)
             == 8) {
    times->busy = (user + nice + system + interrupts + soft + stolen) / tick;
    times->all = times->busy + (idle + waiting) / tick;
  }
  if (file != NULL)
    fclose (file);
}

/* The part of all processors that other programs and other guests had between two readings; NaN: the system does not
 * tell. */
static double others_part (const ProcessorTimes *before, const ProcessorTimes *after)
{
  double all = after->all - before->all, others = after->busy - before->busy - (after->own - before->own);

  return before->all > 0 && all > 0 ? MAX (others, 0) / all : NAN;
}

/* Runs */

/* The value that the part q of all does not exceed; sorts the values. */
static double quantile (GArray *values, double q)
{
  g_array_sort (values, ps_compare_double);
  return values->len > 0 ? g_array_index (values, double, (guint)MAX (ceil (q * values->len) - 1, 0)) : NAN;
}

static double median_op_error (const PsComparison *comparison)
{
  g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 0; i < comparison->ops->len; i++) {
    const PsOpDifference *op = &g_array_index (comparison->ops, PsOpDifference, i);
    double error = fabs (ps_relative_error (op->predicted_ns, op->measured_ns));

    if (!isnan (error))
      g_array_append_val (errors, error);
  }
  return quantile (errors, 0.5);
}

static void tell (const PsCalibCheck *check, const PsCheckRun *run, guint n_done, guint n_all)
{
  g_autofree char *predicted = ps_format_time (run->predicted_ns), *measured = ps_format_time (run->measured_ns);

  if (!check->terminal)
    g_printerr ("%u of %u: %s, m = %u: predicted %s, measured %s\n", n_done, n_all, run->schedule, run->n_microbatches,
                predicted, measured);
  else if (ps_progress_due ())
    ps_progress_show (n_done, n_all, "runs", "%s, m = %u: predicted %s, measured %s", run->schedule,
                      run->n_microbatches, predicted, measured);
}

static void add_run (PsCalibCheck *check, const PsPrediction *prediction, PsComparedRun *compared, PsTimeline *fresh,
                     gint64 fresh_ns, double others, guint round)
{
  const PsSchedule *schedule = prediction->program->schedule;
  const PsComparison *comparison = compared->comparison;
  PsCheckRun run = {
    .schedule = g_strdup (schedule->name),
    .started = g_strdup (compared->started),
    .n_microbatches = schedule->n_microbatches,
    .n_chunks = check->n_chunks,
    .round = round,
    .predicted_ns = prediction->metrics.iteration_ns,
    .interval = prediction->interval,
    .measured_ns = compared->result->median_iteration_ns,
    .fresh_ns = fresh_ns,
    .replay_error = ps_relative_error (compared->replayed_makespan_ns, comparison->measured.makespan_ns),
    .op_error = median_op_error (comparison),
    .memory_error = comparison->peak_memory_error,
    .others = others,
  };

  g_clear_pointer (&check->last_fresh, ps_timeline_free);
  g_clear_pointer (&check->last_measured, ps_timeline_free);
  check->last_fresh = fresh;
  check->last_measured = g_steal_pointer (&compared->result->timeline);
  g_array_append_val (check->runs, run);
  tell (check, &run, check->runs->len, check->cases->len * check->n_rounds);
}

#define TIMEOUT_NS (60 * G_GINT64_CONSTANT (1000000000))
#define TIMEOUT_ITERATIONS 4

/* The device may not run such a schedule; then there is no run. */
static gboolean run_case (PsCalibCheck *check, const PsPrediction *prediction, guint round, GError **error)
{
  PsRunSetting setting = check->run;
  g_auto (PsComparedRun) compared = { 0 };
  g_autoptr (GError) reason = NULL;
  ProcessorTimes times[2];
  gint64 fresh_ns;

  setting.timeout_ns = MAX (TIMEOUT_NS, TIMEOUT_ITERATIONS * prediction->metrics.iteration_ns);
  read_processors (&times[0]);
  if (!ps_compared_run_make (&compared, prediction->program, prediction, &setting, &reason)) {
    if (!g_error_matches (reason, PS_ERROR, PS_ERROR_UNAVAILABLE)) {
      g_propagate_error (error, g_steal_pointer (&reason));
      return FALSE;
    }
    if (round == 1)
      skip (check, prediction->program->schedule->name, reason);
    return TRUE;
  }
  read_processors (&times[1]);
  g_autoptr (PsTimeline) fresh = measure (check, error) ? predict_fresh (check, prediction, &fresh_ns, error) : NULL;
  if (fresh == NULL
      || !ps_compared_run_store (&compared, prediction->program, &setting, PS_CHECK_NOT_RUN, check->setting->db,
                                 check->setting->profile, error))
    return FALSE;
  add_run (check, prediction, &compared, g_steal_pointer (&fresh), fresh_ns, others_part (&times[0], &times[1]), round);
  return TRUE;
}

static guint chunks_of (const PsPrediction *prediction)
{
  const PsPlacement *placement = prediction->program->schedule->placement;

  return placement->n_stages / placement->n_devices;
}

static gboolean is_over (const PsCalibCheck *check)
{

  return check->runs->len > 0
         && ((check->budget_ns > 0 && ps_clock_now () - check->begin_ns >= check->budget_ns)
             || (check->stop != NULL && g_atomic_int_get (check->stop) != 0));
}

/* All cases of the current number of chunks, in the order of `order`. */
static gboolean run_chunks (PsCalibCheck *check, const guint *order, guint round, GError **error)
{
  for (guint i = 0; i < check->cases->len && !is_over (check); i++) {
    const PsPrediction *prediction = check->cases->pdata[order[i]];

    if (chunks_of (prediction) != check->n_chunks)
      continue;
    if ((check->n_fresh_chunks != check->n_chunks && !measure (check, error))
        || !run_case (check, prediction, round, error))
      return FALSE;
  }
  return TRUE;
}

static void shuffle (guint *order, guint n, guint64 *luck)
{
  for (guint i = n; i > 1; i--) {
    guint k = (guint)(ps_splitmix_next (luck) % i), kept = order[i - 1];

    order[i - 1] = order[k];
    order[k] = kept;
  }
}

static gboolean run_rounds (PsCalibCheck *check, GError **error)
{
  guint n = check->cases->len, most = 0;
  g_autofree guint *order = g_new0 (guint, n);
  guint64 luck = check->calibration.seed;

  for (guint i = 0; i < n; i++) {
    order[i] = i;
    most = MAX (most, chunks_of (check->cases->pdata[i]));
  }
  check->begin_ns = ps_clock_now ();
  ps_progress_begin (check->budget_ns);
  for (guint round = 1; round <= check->n_rounds; round++) {
    shuffle (order, n, &luck);
    for (check->n_chunks = 1; check->n_chunks <= most; check->n_chunks++)
      if (!run_chunks (check, order, round, error))
        return FALSE;
  }
  if (is_over (check))
    g_printerr ("ended after %u runs of %u rounds with %u each\n", check->runs->len, check->n_rounds, n);
  return TRUE;
}

/* Runs count as measurements: readings of the sentinel lie right before and after each. The database has them all. */
static gboolean find_shifts (PsCalibCheck *check, GError **error)
{
  g_autoptr (GPtrArray) all = ps_costdb_sentinels (check->db, check->stored->profile->name, error);
  g_autofree PsMeasurement *moments = g_new0 (PsMeasurement, check->runs->len);
  g_autofree double *shifts = g_new (double, check->runs->len);
  g_autofree PsSlowdown *slowdowns = g_new (PsSlowdown, check->runs->len);
  g_autoptr (GPtrArray) measurements = g_ptr_array_new ();

  if (all == NULL)
    return FALSE;
  for (guint i = 0; i < check->runs->len; i++) {
    moments[i].taken = g_array_index (check->runs, PsCheckRun, i).started;
    g_ptr_array_add (measurements, &moments[i]);
  }
  gboolean known = !isnan (ps_sentinel_shifts (check->sentinels, measurements, shifts));
  ps_sentinel_slowdown (all, check->stored->measurements, measurements, slowdowns);
  for (guint i = 0; i < check->runs->len; i++) {
    g_array_index (check->runs, PsCheckRun, i).shift = known ? shifts[i] : NAN;
    g_array_index (check->runs, PsCheckRun, i).slowdown = slowdowns[i];
  }
  return TRUE;
}

static gboolean copy_profile (PsCalibCheck *check, GError **error)
{
  int file = g_file_open_tmp ("pipesim-check-XXXXXX", &check->copy, error);

  if (file < 0)
    return FALSE;
  close (file);
  check->copy_db = ps_costdb_open (check->copy, PS_COSTDB_WRITE, error);
  return check->copy_db != NULL && ps_costdb_add_profile (check->copy_db, check->stored, error)
         && ps_costdb_begin_profile (check->copy_db, check->stored->profile, &check->copy_profile, error);
}

gboolean ps_calib_check_run (PsCalibCheck *check, GError **error)
{
  check->db = ps_costdb_open (check->setting->db, PS_COSTDB_WRITE, error);
  if (check->db != NULL)
    check->stored = ps_profile_contents_load (check->db, check->setting->profile, FALSE, error);
  return check->stored != NULL && ps_costdb_begin_profile (check->db, check->stored->profile, &check->profile, error)
         && copy_profile (check, error) && find_cases (check, error) && run_rounds (check, error)
         && find_shifts (check, error);
}

/* Figures over all runs */

static gboolean same_round (const PsCheckRun *a, const PsCheckRun *b)
{
  return a->round == b->round && a->n_microbatches == b->n_microbatches;
}

static int order (gint64 a, gint64 b)
{
  return (a > b) - (a < b);
}

/* Of one run: NaN where it has none. Figures of a round count for its first run. */

static double iteration_error (const PsCheckRuns *all, const PsCheckRun *run)
{
  return fabs (ps_relative_error (run->predicted_ns, run->measured_ns));
}

static double fresh_error (const PsCheckRuns *all, const PsCheckRun *run)
{
  return fabs (ps_relative_error (run->fresh_ns, run->measured_ns));
}

static double slowdown_error (const PsCheckRuns *all, const PsCheckRun *run)
{
  return fabs ((double)run->predicted_ns * run->slowdown.factor / (double)run->measured_ns - 1);
}

static double replay_error (const PsCheckRuns *all, const PsCheckRun *run)
{
  return fabs (run->replay_error);
}

static double op_error (const PsCheckRuns *all, const PsCheckRun *run)
{
  return run->op_error;
}

static double memory_error (const PsCheckRuns *all, const PsCheckRun *run)
{
  return fabs (run->memory_error);
}

static double is_inside (const PsCheckRuns *all, const PsCheckRun *run)
{
  return ps_interval_holds (&run->interval, run->measured_ns);
}

static double is_inside_wide (const PsCheckRuns *all, const PsCheckRun *run)
{
  return run->interval.low_ns <= run->measured_ns && run->measured_ns <= run->interval.high_ns;
}

static double is_inside_slowed (const PsCheckRuns *all, const PsCheckRun *run)
{
  const PsInterval interval = ps_interval_at_speed (&run->interval, run->slowdown);

  return isnan (run->slowdown.factor) ? NAN : ps_interval_holds (&interval, run->measured_ns);
}

/* Of the sum of all runs, so it is the same for each. */
static double fresh_total (const PsCheckRuns *all, const PsCheckRun *run)
{
  double fresh_ns = 0, measured_ns = 0;

  for (guint i = 0; i < all->n; i++) {
    fresh_ns += (double)all->runs[i]->fresh_ns;
    measured_ns += (double)all->runs[i]->measured_ns;
  }
  return fresh_ns / measured_ns - 1;
}

static gboolean is_first_of_round (const PsCheckRuns *all, const PsCheckRun *run)
{
  guint i = 0;

  while (!same_round (all->runs[i], run))
    i++;
  return all->runs[i] == run;
}

/* Kendall's tau-b among the runs of a round: agreements less disagreements, ties left out. */
static double rank_correlation (const PsCheckRuns *all, const PsCheckRun *run)
{
  double agreement = 0, predicted = 0, measured = 0;

  for (guint i = 0; i < all->n && is_first_of_round (all, run); i++)
    for (guint k = 0; k < i; k++) {
      const PsCheckRun *a = all->runs[i], *b = all->runs[k];
      int x = order (a->predicted_ns, b->predicted_ns), y = order (a->measured_ns, b->measured_ns);

      if (!same_round (a, run) || !same_round (b, run))
        continue;
      agreement += x * y;
      predicted += x * x;
      measured += y * y;
    }
  return agreement / sqrt (predicted * measured);
}

/* How much longer the run takes that was predicted to be the fastest, among those of a round of several. */
static double regret (const PsCheckRuns *all, const PsCheckRun *run)
{
  const PsCheckRun *predicted = run, *measured = run;
  guint n = 0;

  for (guint i = 0; i < all->n && is_first_of_round (all, run); i++)
    if (same_round (all->runs[i], run)) {
      n++;
      if (all->runs[i]->predicted_ns < predicted->predicted_ns)
        predicted = all->runs[i];
      if (all->runs[i]->measured_ns < measured->measured_ns)
        measured = all->runs[i];
    }
  return n > 1 ? ps_relative_error (predicted->measured_ns, measured->measured_ns) : NAN;
}

const PsCheckFigure ps_check_figures[PS_N_CHECK_FIGURES] = {
  { "error", "iteration time, median |error|", iteration_error, 0.5, FALSE },
  { "error_p95", "  95 of 100 runs have a smaller one", iteration_error, 0.95, FALSE },
  { "fresh_error", "  with the costs of the same minutes", fresh_error, 0.5, FALSE },
  { "fresh_total", "  and of the sum over all runs", fresh_total, 0, FALSE },
  { "slowdown_error", "  of the prediction times the slowdown", slowdown_error, 0.5, FALSE },
  { "replay_error", "  of the makespan, with the op times of the run", replay_error, 0.5, FALSE },
  { "op_error", "times of ops, median |error|", op_error, 0.5, FALSE },
  { "memory_error", "peak memory, median |error|", memory_error, 0.5, FALSE },
  { "coverage", "runs inside p10-p90 (80 % would be right)", is_inside, 0, FALSE },
  { "coverage_wide", "runs inside the 95 % interval", is_inside_wide, 0, FALSE },
  { "coverage_slowdown", "runs inside p10-p90 times the slowdown", is_inside_slowed, 0, FALSE },
  { "rank", "rank correlation of schedules (Kendall's tau)", rank_correlation, 0, TRUE },
  { "regret", "lost by taking the predicted best", regret, 0.5, FALSE },
};

static gboolean is_quiet (const PsCheckRun *run)
{
  return run->shift <= PS_SENTINEL_TOLERANCE && !(run->others > PS_QUIET_OTHERS);
}

void ps_check_summary_init (PsCheckSummary *summary, const GArray *runs, gboolean quiet)
{
  g_autofree const PsCheckRun **pointers = g_new (const PsCheckRun *, MAX (runs->len, 1));
  PsCheckRuns all = { pointers, 0 };

  for (guint i = 0; i < runs->len; i++) {
    const PsCheckRun *run = &g_array_index (runs, PsCheckRun, i);

    if (!quiet || is_quiet (run))
      pointers[all.n++] = run;
  }
  summary->n_runs = all.n;
  for (guint f = 0; f < PS_N_CHECK_FIGURES; f++) {
    const PsCheckFigure *figure = &ps_check_figures[f];
    g_autoptr (GArray) values = g_array_new (FALSE, FALSE, sizeof (double));
    double sum = 0;

    for (guint i = 0; i < all.n; i++) {
      double value = figure->of_run (&all, pointers[i]);

      sum += isnan (value) ? 0 : value;
      if (!isnan (value))
        g_array_append_val (values, value);
    }
    summary->figure[f] = figure->quantile > 0 ? quantile (values, figure->quantile) : sum / values->len;
  }
}
