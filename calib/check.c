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
}

/* A check under way: the predictions that it runs, and the latest measurements of their ops. */
typedef struct {
  PsCalibCheck *check;
  PsCostDb *db;
  gint64 profile;    /* its row */
  GPtrArray *stored; /* PsMeasurement of the profile */
  char *copy;        /* path of a database whose profile takes fresh measurements in place of its own */
  PsCostDb *copy_db;
  gint64 copy_profile;
  GPtrArray *cases; /* PsPrediction */
  guint n_chunks;   /* of the cases under way */
  gint64 begin_ns;
  GPtrArray *fresh;     /* PsMeasurement of the latest measurements */
  guint n_fresh_chunks; /* of them */
} Work;

static void work_clear (Work *work)
{
  g_clear_pointer (&work->db, ps_costdb_close);
  g_clear_pointer (&work->copy_db, ps_costdb_close);
  if (work->copy != NULL)
    g_unlink (work->copy);
  g_clear_pointer (&work->copy, g_free);
  g_clear_pointer (&work->stored, g_ptr_array_unref);
  g_clear_pointer (&work->cases, g_ptr_array_unref);
  g_clear_pointer (&work->fresh, g_ptr_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Work, work_clear)

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

static gboolean find_cases (Work *work, GError **error)
{
  PsCalibCheck *check = work->check;
  g_autoptr (GError) first = NULL;

  work->cases = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_prediction_free);
  for (guint i = 0; i < check->n_microbatches; i++)
    for (char **name = check->schedules; *name != NULL; name++) {
      g_autoptr (GError) reason = NULL;

      check->setting->n_microbatches = check->microbatches[i];
      PsPrediction *prediction = predict (check, *name, &reason);
      if (prediction != NULL)
        g_ptr_array_add (work->cases, prediction);
      else
        skip (check, *name, reason);
      if (first == NULL)
        first = g_steal_pointer (&reason);
    }
  if (work->cases->len == 0)
    g_propagate_error (error, g_steal_pointer (&first));
  return work->cases->len > 0;
}

/* Fresh measurements */

static gboolean is_wanted (const PsMeasurement *key, gpointer data, gboolean *wanted, GError **error)
{
  *wanted = ps_fill_is_used (&((Work *)data)->check->calibration, key);
  return TRUE;
}

static gboolean keep_fresh (const PsMeasurement *measurement, gpointer data, GError **error)
{
  if (measurement->n_samples > 0)
    g_ptr_array_add (((Work *)data)->fresh, ps_measurement_join (NULL, measurement));
  return TRUE;
}

static gboolean keep_sentinel (const PsSentinel *sentinel, gpointer data, GError **error)
{
  Work *work = data;
  PsSentinel *copy = g_memdup2 (sentinel, sizeof *sentinel);

  copy->what = g_strdup (sentinel->what);
  copy->taken = g_strdup (sentinel->taken);
  g_ptr_array_add (work->check->sentinels, copy);
  return ps_costdb_store_sentinel (work->db, work->profile, sentinel, error);
}

/* Measures the ops of the current cases, and hands over what there was before. */
static GPtrArray *measure (Work *work, GError **error)
{
  PsCalibration calibration = work->check->calibration;
  GPtrArray *before = work->fresh;

  calibration.chunks = &work->n_chunks;
  calibration.n_chunks = 1;
  calibration.caches = 1U << PS_CACHE_RUN;
  calibration.wanted = is_wanted;
  calibration.sink = keep_fresh;
  calibration.sentinel = keep_sentinel;
  calibration.data = work;
  work->fresh = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  work->n_fresh_chunks = work->n_chunks;
  if (ps_calibrate (&calibration, error))
    return before;
  g_ptr_array_unref (before);
  return NULL;
}

/* Gives the copy of the profile the samples right before and after a run. */
static gboolean refresh (const Work *work, GPtrArray *before, GError **error)
{
  for (guint i = 0; i < work->fresh->len; i++) {
    const PsMeasurement *after = work->fresh->pdata[i], *first = ps_measurement_find (before, after);
    g_autoptr (PsMeasurement) both = first != NULL ? ps_measurement_join (first, after) : NULL;

    if (both != NULL && !ps_costdb_replace (work->copy_db, work->copy_profile, both, error))
      return FALSE;
  }
  return TRUE;
}

/* The timeline with fresh costs, and the interval of the profile's. NULL: failed. */
static PsTimeline *predict_fresh (const Work *work, GPtrArray *before, const PsPrediction *prediction, gint64 *fresh_ns,
                                  GError **error)
{
  PsSetting setting = *work->check->setting;
  g_autoptr (PsPredictor) predictor = ps_predictor_new (&setting, NULL);

  setting.db = work->copy;
  g_autoptr (PsPrediction) fresh
      = refresh (work, before, error)
            ? ps_predictor_predict_schedule (predictor, ps_schedule_copy (prediction->program->schedule), error)
            : NULL;
  if (fresh == NULL || !ps_predictor_add_interval (predictor, fresh, MAX (work->check->run.n_steps, 2) - 1, error))
    return NULL;
  *fresh_ns = fresh->interval.p50_ns;
  fresh->interval = prediction->interval;
  return ps_compared_run_prediction (fresh);
}

/* The load of other programs */
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

static double median_op_error (const PsComparison *comparison)
{
  g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 0; i < comparison->ops->len; i++) {
    const PsOpDifference *op = &g_array_index (comparison->ops, PsOpDifference, i);
    double error = fabs (ps_relative_error (op->predicted_ns, op->measured_ns));

    if (!isnan (error))
      g_array_append_val (errors, error);
  }
  g_array_sort (errors, ps_compare_double);
  return errors->len > 0 ? g_array_index (errors, double, (errors->len - 1) / 2) : NAN;
}

static void tell (const PsCalibCheck *check, const PsCheckRun *run, guint n_done, guint n_all)
{
  g_autofree char *predicted = ps_format_time (run->predicted_ns), *measured = ps_format_time (run->measured_ns);

  g_printerr ("%s%u of %u: %s, m = %u: predicted %s, measured %s%s", check->terminal ? PS_CLEAR_LINE : "", n_done,
              n_all, run->schedule, run->n_microbatches, predicted, measured, check->terminal ? "" : "\n");
}

static void add_run (Work *work, const PsPrediction *prediction, PsComparedRun *compared, PsTimeline *fresh,
                     gint64 fresh_ns, double others, guint round)
{
  PsCalibCheck *check = work->check;
  const PsSchedule *schedule = prediction->program->schedule;
  const PsComparison *comparison = compared->comparison;
  PsCheckRun run = {
    .schedule = g_strdup (schedule->name),
    .started = g_strdup (compared->started),
    .n_microbatches = schedule->n_microbatches,
    .n_chunks = work->n_chunks,
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
  tell (check, &run, check->runs->len, work->cases->len * check->n_rounds);
}

#define TIMEOUT_NS (60 * G_GINT64_CONSTANT (1000000000))
#define TIMEOUT_ITERATIONS 4

/* The device may not run such a schedule; then *ran is FALSE. */
static gboolean try_to_run (PsComparedRun *compared, PsCalibCheck *check, const PsPrediction *prediction,
                            const PsRunSetting *setting, guint round, gboolean *ran, GError **error)
{
  g_autoptr (GError) reason = NULL;

  *ran = ps_compared_run_make (compared, prediction->program, prediction, setting, &reason);
  if (*ran)
    return TRUE;
  if (!g_error_matches (reason, PS_ERROR, PS_ERROR_UNAVAILABLE)) {
    g_propagate_error (error, g_steal_pointer (&reason));
    return FALSE;
  }
  if (round == 1)
    skip (check, prediction->program->schedule->name, reason);
  return TRUE;
}

static gboolean run_case (Work *work, const PsPrediction *prediction, guint round, GError **error)
{
  PsCalibCheck *check = work->check;
  PsRunSetting setting = check->run;
  g_auto (PsComparedRun) compared = { 0 };
  ProcessorTimes times[2];
  gboolean ran;
  gint64 fresh_ns;

  setting.timeout_ns = MAX (TIMEOUT_NS, TIMEOUT_ITERATIONS * prediction->metrics.iteration_ns);
  read_processors (&times[0]);
  if (!try_to_run (&compared, check, prediction, &setting, round, &ran, error))
    return FALSE;
  if (!ran)
    return TRUE;
  read_processors (&times[1]);
  g_autoptr (GPtrArray) before = measure (work, error);
  g_autoptr (PsTimeline) fresh = before != NULL ? predict_fresh (work, before, prediction, &fresh_ns, error) : NULL;
  if (fresh == NULL
      || !ps_compared_run_store (&compared, prediction->program, &setting, PS_CHECK_NOT_RUN, check->setting->db,
                                 check->setting->profile, error))
    return FALSE;
  add_run (work, prediction, &compared, g_steal_pointer (&fresh), fresh_ns, others_part (&times[0], &times[1]), round);
  return TRUE;
}

static guint chunks_of (const PsPrediction *prediction)
{
  const PsPlacement *placement = prediction->program->schedule->placement;

  return placement->n_stages / placement->n_devices;
}

static gboolean is_over (const Work *work)
{
  const PsCalibCheck *check = work->check;

  return check->runs->len > 0
         && ((check->budget_ns > 0 && ps_clock_now () - work->begin_ns >= check->budget_ns)
             || (check->stop != NULL && g_atomic_int_get (check->stop) != 0));
}

/* All cases of the current number of chunks, in the order of `order`. */
static gboolean run_chunks (Work *work, const guint *order, guint round, GError **error)
{
  for (guint i = 0; i < work->cases->len && !is_over (work); i++) {
    const PsPrediction *prediction = work->cases->pdata[order[i]];

    if (chunks_of (prediction) != work->n_chunks)
      continue;
    if (work->n_fresh_chunks != work->n_chunks) {
      GPtrArray *others = measure (work, error);

      if (others == NULL)
        return FALSE;
      g_ptr_array_unref (others);
    }
    if (!run_case (work, prediction, round, error))
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

static gboolean run_rounds (Work *work, GError **error)
{
  PsCalibCheck *check = work->check;
  guint n = work->cases->len, most = 0;
  g_autofree guint *order = g_new0 (guint, n);
  guint64 luck = check->calibration.seed;

  for (guint i = 0; i < n; i++) {
    order[i] = i;
    most = MAX (most, chunks_of (work->cases->pdata[i]));
  }
  work->begin_ns = ps_clock_now ();
  work->fresh = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  for (guint round = 1; round <= check->n_rounds; round++) {
    shuffle (order, n, &luck);
    for (work->n_chunks = 1; work->n_chunks <= most; work->n_chunks++)
      if (!run_chunks (work, order, round, error))
        return FALSE;
  }
  if (is_over (work))
    g_printerr ("%sended after %u runs of %u rounds with %u each\n", check->terminal ? PS_CLEAR_LINE : "",
                check->runs->len, check->n_rounds, n);
  return TRUE;
}

/* Runs count as measurements: readings of the sentinel lie right before and after each. The database has them all. */
static gboolean find_shifts (Work *work, const char *profile, GError **error)
{
  PsCalibCheck *check = work->check;
  g_autoptr (GPtrArray) all = ps_costdb_sentinels (work->db, profile, error);
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
  ps_sentinel_slowdown (all, work->stored, measurements, slowdowns);
  for (guint i = 0; i < check->runs->len; i++) {
    g_array_index (check->runs, PsCheckRun, i).shift = known ? shifts[i] : NAN;
    g_array_index (check->runs, PsCheckRun, i).slowdown = slowdowns[i];
  }
  return TRUE;
}

static gboolean copy_profile (Work *work, GError **error)
{
  g_autoptr (PsProfileContents) contents
      = ps_profile_contents_load (work->db, work->check->setting->profile, FALSE, error);
  int file = contents != NULL ? g_file_open_tmp ("pipesim-check-XXXXXX", &work->copy, error) : -1;

  if (file < 0)
    return FALSE;
  close (file);
  work->copy_db = ps_costdb_open (work->copy, PS_COSTDB_WRITE, error);
  return work->copy_db != NULL && ps_costdb_add_profile (work->copy_db, contents, error)
         && ps_costdb_begin_profile (work->copy_db, contents->profile, &work->copy_profile, error);
}

gboolean ps_calib_check_run (PsCalibCheck *check, GError **error)
{
  g_auto (Work) work = { .check = check };
  g_autoptr (PsProfile) profile = NULL;

  work.db = ps_costdb_open (check->setting->db, PS_COSTDB_WRITE, error);
  profile = work.db != NULL ? ps_costdb_profile (work.db, check->setting->profile, error) : NULL;
  if (profile == NULL || !ps_costdb_begin_profile (work.db, profile, &work.profile, error))
    return FALSE;
  work.stored = ps_costdb_measurements (work.db, profile->name, FALSE, error);
  return work.stored != NULL && copy_profile (&work, error) && find_cases (&work, error) && run_rounds (&work, error)
         && find_shifts (&work, profile->name, error);
}

/* Figures over all runs */

/* The runs that count. */
typedef struct {
  const PsCheckRun **runs;
  guint n;
} Chosen;

static double iteration_error (const PsCheckRun *run)
{
  return fabs (ps_relative_error (run->predicted_ns, run->measured_ns));
}

static double fresh_error (const PsCheckRun *run)
{
  return fabs (ps_relative_error (run->fresh_ns, run->measured_ns));
}

/* NaN: the slowdown is not known. */
static double slowdown_error (const PsCheckRun *run)
{
  return fabs ((double)run->predicted_ns * run->slowdown.factor / (double)run->measured_ns - 1);
}

/* 1: the run is inside the interval slowed so, 0: it is not; NaN: the slowdown is not known. */
static double is_inside_slowed (const PsCheckRun *run)
{
  PsInterval interval;

  if (isnan (run->slowdown.factor))
    return NAN;
  interval = ps_interval_at_speed (&run->interval, run->slowdown);
  return ps_interval_holds (&interval, run->measured_ns);
}

static double replay_error (const PsCheckRun *run)
{
  return fabs (run->replay_error);
}

static double op_error (const PsCheckRun *run)
{
  return run->op_error;
}

static double memory_error (const PsCheckRun *run)
{
  return fabs (run->memory_error);
}

/* The value that the part q of all does not exceed; sorts the values. */
static double quantile (GArray *values, double q)
{
  g_array_sort (values, ps_compare_double);
  return values->len > 0 ? g_array_index (values, double, (guint)MAX (ceil (q * values->len) - 1, 0)) : NAN;
}

static double quantile_of (const Chosen *chosen, double (*figure) (const PsCheckRun *run), double q)
{
  g_autoptr (GArray) values = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 0; i < chosen->n; i++) {
    double value = figure (chosen->runs[i]);

    if (!isnan (value))
      g_array_append_val (values, value);
  }
  return quantile (values, q);
}

/* Mean of all values that are known; NaN: none is. */
static double mean_of (const Chosen *chosen, double (*figure) (const PsCheckRun *run))
{
  double sum = 0;
  guint n = 0;

  for (guint i = 0; i < chosen->n; i++) {
    double value = figure (chosen->runs[i]);

    sum += isnan (value) ? 0 : value;
    n += !isnan (value);
  }
  return n > 0 ? sum / n : NAN;
}

static gboolean same_round (const PsCheckRun *a, const PsCheckRun *b)
{
  return a->round == b->round && a->n_microbatches == b->n_microbatches;
}

static int order (gint64 a, gint64 b)
{
  return (a > b) - (a < b);
}

/* Kendall's tau-b among the runs of its round: agreements less disagreements, ties left out. NaN: none. */
static double rank_correlation (const Chosen *chosen, const PsCheckRun *run)
{
  double agreement = 0, predicted = 0, measured = 0;

  for (guint i = 0; i < chosen->n; i++)
    for (guint k = 0; k < i; k++) {
      const PsCheckRun *a = chosen->runs[i], *b = chosen->runs[k];
      int x = order (a->predicted_ns, b->predicted_ns), y = order (a->measured_ns, b->measured_ns);

      if (!same_round (a, run) || !same_round (b, run))
        continue;
      agreement += x * y;
      predicted += x * x;
      measured += y * y;
    }
  return agreement / sqrt (predicted * measured);
}

/* How much longer the run takes that was predicted to be the fastest, among those of its round. NaN: it is alone. */
static double regret (const Chosen *chosen, const PsCheckRun *run)
{
  const PsCheckRun *predicted = run, *measured = run;
  guint n = 0;

  for (guint i = 0; i < chosen->n; i++)
    if (same_round (chosen->runs[i], run)) {
      n++;
      if (chosen->runs[i]->predicted_ns < predicted->predicted_ns)
        predicted = chosen->runs[i];
      if (chosen->runs[i]->measured_ns < measured->measured_ns)
        measured = chosen->runs[i];
    }
  return n > 1 ? ps_relative_error (predicted->measured_ns, measured->measured_ns) : NAN;
}

static void rank (PsCheckSummary *summary, const Chosen *chosen)
{
  g_autoptr (GArray) regrets = g_array_new (FALSE, FALSE, sizeof (double));
  double sum = 0;
  guint n = 0;

  for (guint i = 0; i < chosen->n; i++) {
    gboolean seen = FALSE;

    for (guint k = 0; k < i && !seen; k++)
      seen = same_round (chosen->runs[i], chosen->runs[k]);
    double tau = seen ? NAN : rank_correlation (chosen, chosen->runs[i]);
    double lost = seen ? NAN : regret (chosen, chosen->runs[i]);
    if (!isnan (lost))
      g_array_append_val (regrets, lost);
    if (!isnan (tau)) {
      sum += tau;
      n++;
    }
  }
  summary->rank = n > 0 ? sum / n : NAN;
  summary->regret = quantile (regrets, 0.5);
}

static gboolean is_quiet (const PsCheckRun *run)
{
  return run->shift <= PS_SENTINEL_TOLERANCE && !(run->others > PS_QUIET_OTHERS);
}

void ps_check_summary_init (PsCheckSummary *summary, const GArray *runs, gboolean quiet)
{
  g_autofree const PsCheckRun **pointers = g_new (const PsCheckRun *, MAX (runs->len, 1));
  Chosen chosen = { pointers, 0 };
  double inside = 0, inside_wide = 0, fresh_ns = 0, measured_ns = 0;

  for (guint i = 0; i < runs->len; i++) {
    const PsCheckRun *run = &g_array_index (runs, PsCheckRun, i);

    if (quiet && !is_quiet (run))
      continue;
    pointers[chosen.n++] = run;
    inside += ps_interval_holds (&run->interval, run->measured_ns);
    fresh_ns += (double)run->fresh_ns;
    measured_ns += (double)run->measured_ns;
    inside_wide += run->interval.low_ns <= run->measured_ns && run->measured_ns <= run->interval.high_ns;
  }
  *summary = (PsCheckSummary){
    .n_runs = chosen.n,
    .error = quantile_of (&chosen, iteration_error, 0.5),
    .error_p95 = quantile_of (&chosen, iteration_error, 0.95),
    .fresh_error = quantile_of (&chosen, fresh_error, 0.5),
    .fresh_total = chosen.n > 0 ? fresh_ns / measured_ns - 1 : NAN,
    .slowdown_error = quantile_of (&chosen, slowdown_error, 0.5),
    .replay_error = quantile_of (&chosen, replay_error, 0.5),
    .op_error = quantile_of (&chosen, op_error, 0.5),
    .memory_error = quantile_of (&chosen, memory_error, 0.5),
    .coverage = chosen.n > 0 ? inside / chosen.n : NAN,
    .coverage_wide = chosen.n > 0 ? inside_wide / chosen.n : NAN,
    .coverage_slowdown = mean_of (&chosen, is_inside_slowed),
  };
  rank (summary, &chosen);
}
