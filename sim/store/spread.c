/* spread.c - how quiet a machine was while it was measured, by readings of the sentinel, and how far the times of one
 * run are from those of another: what samples, the sentinel and repeated calibrations say about it. docs/intervals.md
 * derives the formulas. All variances are of logarithms. */
#include <pipesim/costdb.h>

#include <math.h>

/* Readings of the sentinel */

/* The sound readings of the same op as the first right before and after each measurement, two each; NULL: none. Moments
 * sort as texts do. */
static GPtrArray *readings_near (GPtrArray *sentinels, GPtrArray *measurements)
{
  GPtrArray *near = g_ptr_array_sized_new (2 * measurements->len);
  const PsSentinel *first = sentinels->len > 0 ? sentinels->pdata[0] : NULL;

  g_ptr_array_set_size (near, (gint)(2 * measurements->len));
  for (guint m = 0; m < measurements->len; m++)
    for (guint i = 0; i < sentinels->len; i++) {
      PsSentinel *reading = sentinels->pdata[i];
      int order = g_strcmp0 (reading->taken, ((const PsMeasurement *)measurements->pdata[m])->taken);

      if (reading->n < PS_MEDIAN_MIN_SAMPLES || reading->median_ns <= 0 || !g_str_equal (reading->what, first->what))
        continue;
      if (order <= 0)
        near->pdata[2 * m] = reading;
      if (order >= 0 && near->pdata[2 * m + 1] == NULL)
        near->pdata[2 * m + 1] = reading;
    }
  return near;
}

/* The first n-th of the readings ends with it. 0: there are none. */
static gint64 find_level (GPtrArray *near, guint n)
{
  g_autoptr (GArray) times = g_array_new (FALSE, FALSE, sizeof (gint64));

  for (guint i = 0; i < near->len; i++)
    if (near->pdata[i] != NULL)
      g_array_append_val (times, ((const PsSentinel *)near->pdata[i])->median_ns);
  g_array_sort (times, ps_compare_int64);
  return times->len > 0 ? g_array_index (times, gint64, (times->len + n - 1) / n - 1) : 0;
}

double ps_sentinel_shifts (GPtrArray *sentinels, GPtrArray *measurements, double *shifts)
{
  g_autoptr (GPtrArray) near = readings_near (sentinels, measurements);
  gint64 level = find_level (near, 4); /* the lower quartile: other work only slows an op down */
  double largest = 0;

  for (guint i = 0; i < measurements->len; i++) {
    double shift = 0;

    for (guint k = 2 * i; k < 2 * i + 2; k++)
      if (near->pdata[k] != NULL)
        shift = MAX (shift, fabs ((double)((const PsSentinel *)near->pdata[k])->median_ns / (double)level - 1));
    if (shifts != NULL)
      shifts[i] = shift;
    largest = MAX (largest, shift);
  }
  return level > 0 ? largest : NAN;
}

/* Relative standard deviation of a reading, and the number of different ones; 0: of fewer than two nothing is known. */
static double reading_error (GPtrArray *near, gint64 level, guint *n)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (NULL, NULL);
  double squares = 0;

  for (guint i = 0; i < near->len; i++)
    if (near->pdata[i] != NULL && g_hash_table_add (seen, near->pdata[i]))
      squares += pow (log ((double)((const PsSentinel *)near->pdata[i])->median_ns / (double)level), 2);
  *n = g_hash_table_size (seen);
  return *n > 1 ? sqrt (squares / (*n - 1)) : 0;
}

void ps_sentinel_slowdown (GPtrArray *sentinels, GPtrArray *measurements, GPtrArray *moments, PsSlowdown *slowdown)
{
  g_autoptr (GPtrArray) near = readings_near (sentinels, measurements), now = readings_near (sentinels, moments);
  gint64 level = find_level (near, 2);
  guint n_level;
  double error = reading_error (near, MAX (level, 1), &n_level);

  for (guint i = 0; i < moments->len; i++) {
    double sum = 0;
    guint n = 0;

    for (guint k = 2 * i; k < 2 * i + 2; k++)
      if (now->pdata[k] != NULL) {
        sum += (double)((const PsSentinel *)now->pdata[k])->median_ns;
        n++;
      }
    slowdown[i] = n > 0 && level > 0 ? (PsSlowdown){ sum / n / (double)level, error * sqrt (1.0 / n + 1.0 / n_level) }
                                     : (PsSlowdown){ NAN, NAN };
  }
}

char *ps_unrest_to_text (double unrest, const char *rows)
{
  if (unrest <= PS_SENTINEL_TOLERANCE)
    return g_strdup ("");
  return g_strdup_printf ("this machine was not quiet: +-%.0f %%; %s%srows closer to each other than that may stand in "
                          "another order",
                          100 * unrest, rows, *rows ? " measured then; " : "");
}

/* Runs */

#define MAX_DEVIATION 1.0 /* larger ones say no more */
#define N_BATCHES 8
#define BATCH_SAMPLES 4 /* the fewest of a batch */

/* A variance, and the degrees of freedom that it is known with. */
typedef struct {
  double value;
  double freedom;
} Variance;

static const PsMeasurement *at (GPtrArray *rows, guint row, guint calibration)
{
  return g_ptr_array_index ((GPtrArray *)g_ptr_array_index (rows, row), calibration);
}

static guint n_batches (const PsMeasurement *m)
{
  return MIN (m->n_samples / BATCH_SAMPLES, N_BATCHES);
}

/* Variance of the medians of batches. A batch holds samples that follow one another, or every n-th sample. */
static double batch_variance (const PsMeasurement *m, gboolean interleaved)
{
  guint n = n_batches (m), size = n > 0 ? m->n_samples / n : 0;
  g_autofree gint64 *batch = g_new (gint64, MAX (size, 1));
  double sum = 0, squares = 0;

  for (guint b = 0; b < n; b++) {
    for (guint i = 0; i < size; i++)
      batch[i] = m->samples_ns[interleaved ? i * n + b : b * size + i];
    double level = log ((double)MAX (ps_median (batch, size), 1) / (double)MAX (m->time.median_ns, 1));
    sum += level;
    squares += level * level;
  }
  return n > 1 ? MAX (squares - sum * sum / n, 0) / (n - 1) : 0;
}

/* Variance of a measured median: of batches that drift can't tell apart, or by the deviation of few samples. */
static double median_variance (const PsMeasurement *m)
{
  double deviation = 1.4826 * (double)m->time.mad_ns / (double)MAX (m->time.median_ns, 1);
  guint n = n_batches (m);

  return n > 1 ? batch_variance (m, TRUE) / n : G_PI_2 * deviation * deviation / MAX (m->time.n, 1);
}

/* The step of the clock that timed all samples. */
static gint64 clock_step (GPtrArray *rows, guint calibration)
{
  gint64 step = 0;

  for (guint row = 0; row < rows->len; row++)
    for (guint i = 0; i < at (rows, row, calibration)->n_samples && step != 1; i++)
      step = ps_common_divisor (step, at (rows, row, calibration)->samples_ns[i]);
  return step;
}

/* Weights of rows: their times, as a part of all. Free with g_free. */
static double *weigh (GPtrArray *rows, guint calibration)
{
  double *weights = g_new0 (double, rows->len), sum = 0;

  for (guint row = 0; row < rows->len; row++)
    sum += weights[row] = (double)MAX (at (rows, row, calibration)->time.median_ns, 1);
  for (guint row = 0; row < rows->len; row++)
    weights[row] /= sum;
  return weights;
}

/* Drift over seconds: batches of samples that follow one another differ more than interleaved ones. */
static Variance drift_of_samples (GPtrArray *rows, guint calibration, const double *weights)
{
  Variance drift = { 0, N_BATCHES - 1 };

  for (guint row = 0; row < rows->len; row++) {
    const PsMeasurement *m = at (rows, row, calibration);

    drift.value += weights[row] * (batch_variance (m, FALSE) - batch_variance (m, TRUE));
  }
  drift.value = MAX (drift.value, 0);
  return drift;
}

/* Variance of one sample as the median sees it: n samples have a median of a variance n times less. */
static double sample_variance (GPtrArray *rows, guint calibration, const double *weights)
{
  double variance = 0;

  for (guint row = 0; row < rows->len; row++)
    variance += weights[row] * median_variance (at (rows, row, calibration)) * at (rows, row, calibration)->time.n;
  return variance;
}

/* Drift over minutes: readings of the sentinel differ from their mean in each calibration by more than their own
 * samples explain, which spread as those of the rows. */
static Variance drift_of_sentinel (GPtrArray *sentinels, double sample)
{
  double squares = 0, freedom = 0, noise = 0, readings_n = 0;

  for (guint c = 0; c < sentinels->len; c++) {
    GPtrArray *readings = sentinels->pdata[c];
    double sum = 0, sum2 = 0, n = 0;

    for (guint i = 0; i < readings->len; i++) {
      const PsSentinel *reading = readings->pdata[i], *first = readings->pdata[0];
      double level = log ((double)MAX (reading->median_ns, 1) / (double)MAX (first->median_ns, 1));

      if (reading->n < PS_MEDIAN_MIN_SAMPLES || !g_str_equal (reading->what, first->what))
        continue;
      sum += level;
      sum2 += level * level;
      noise += sample / reading->n;
      n++;
    }
    squares += n > 1 ? MAX (sum2 - sum * sum / n, 0) : 0;
    freedom += MAX (n - 1, 0);
    readings_n += n;
  }
  return (Variance){ freedom > 0 ? MAX (squares / freedom - noise / readings_n, 0) : 0, MAX (freedom, 1) };
}

/* The times of all calibrations: what they have in common, and the rest of each row. */
typedef struct {
  guint n;       /* calibrations that have all rows */
  double *level; /* [n] weighed mean of the rows' deviations from their own means */
  double *rest;  /* [n_rows] sum of squares of what is left of a row's deviations */
} Levels;

static void levels_clear (Levels *levels)
{
  g_free (levels->level);
  g_free (levels->rest);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Levels, levels_clear)

static gboolean is_whole (GPtrArray *rows, guint calibration)
{
  for (guint row = 0; row < rows->len; row++)
    if (at (rows, row, calibration) == NULL)
      return FALSE;
  return TRUE;
}

static void find_levels (Levels *levels, GPtrArray *rows, guint n_calibrations, const double *weights)
{
  g_autofree double *logs = g_new0 (double, (gsize)rows->len *n_calibrations);

  levels->level = g_new0 (double, n_calibrations);
  levels->rest = g_new0 (double, rows->len);
  for (guint c = 0; c < n_calibrations; c++)
    if (is_whole (rows, c)) {
      for (guint row = 0; row < rows->len; row++)
        logs[levels->n * rows->len + row] = log ((double)MAX (at (rows, row, c)->time.median_ns, 1));
      levels->n++;
    }
  for (guint row = 0; row < rows->len; row++) {
    double mean = 0;

    for (guint c = 0; c < levels->n; c++)
      mean += logs[c * rows->len + row] / levels->n;
    for (guint c = 0; c < levels->n; c++) {
      logs[c * rows->len + row] -= mean;
      levels->level[c] += weights[row] * logs[c * rows->len + row];
    }
  }
  for (guint row = 0; row < rows->len; row++)
    for (guint c = 0; c < levels->n; c++)
      levels->rest[row] += pow (logs[c * rows->len + row] - levels->level[c], 2);
}

#define OWN_PRIOR 4 /* degrees of freedom that the mean of all rows adds to those of each row */

/* How much rows differ between calibrations apart from what they have in common, all together. */
static double mean_rest (const Levels *levels, const double *weights, guint n_rows)
{
  double mean = 0, own = 1;

  for (guint row = 0; row < n_rows; row++) {
    mean += weights[row] * levels->rest[row];
    own -= weights[row] * weights[row];
  }
  return own > 0.01 ? mean / ((levels->n - 1) * own) : 0;
}

/* Another run and the last calibration each differ from the machine's long-term time; the median's own error is that of
 * the calibration alone. */
static void set_deviations (PsCostSpread *spread, GPtrArray *rows, guint last, const Levels *levels,
                            const double *weights)
{
  double step = (double)clock_step (rows, last);
  double mean = levels->n > 1 ? mean_rest (levels, weights, rows->len) : 0;

  for (guint row = 0; row < rows->len; row++) {
    const PsMeasurement *m = at (rows, row, last);
    double error = median_variance (m), relative_step = step / (double)MAX (m->time.median_ns, 1), between = 0;

    if (levels->n > 1)
      between = (OWN_PRIOR * mean + levels->rest[row]) / (OWN_PRIOR + levels->n - 1);
    spread->deviation[row]
        = MIN (sqrt (2 * MAX (between - error, 0) + error + relative_step * relative_step / 12), MAX_DEVIATION);
  }
}

/* Another run drifts as calibrations do inside, and lies as far from the last one as any two of them do. Levels that
 * happen to be closer to each other than the drift inside can explain are no evidence for a stable machine. */
static Variance common_variance (Variance within, const Levels *levels)
{
  double squares = 0, between;
  guint freedom = MAX (levels->n, 2) - 1;

  for (guint c = 0; c < levels->n; c++)
    squares += levels->level[c] * levels->level[c];
  between = MAX (2 * squares / freedom, within.value / freedom);
  if (levels->n < 2)
    return (Variance){ within.value + between, within.freedom };
  /* Satterthwaite's degrees of freedom of a sum of variances. */
  double sum = within.value + between;
  double spread = within.value * within.value / within.freedom + between * between / freedom;
  return (Variance){ sum, spread > 0 ? sum * sum / spread : freedom };
}

void ps_cost_spread_set_runs (PsCostSpread *spread, GPtrArray *rows, GPtrArray *sentinels)
{
  guint last = sentinels->len - 1;
  g_auto (Levels) levels = { 0 };
  g_autofree double *weights = weigh (rows, last);
  Variance drift = drift_of_samples (rows, last, weights),
           slower = drift_of_sentinel (sentinels, sample_variance (rows, last, weights));

  find_levels (&levels, rows, sentinels->len, weights);
  drift = common_variance (slower.value > drift.value ? slower : drift, &levels);
  spread->common = MIN (sqrt (drift.value), MAX_DEVIATION);
  spread->freedom = MAX (drift.freedom, 1);
  set_deviations (spread, rows, last, &levels, weights);
}
