/* sentinels.c - finds the measurements that were taken while the machine was not quiet. */
#include <pipesim/costdb.h>

#include <math.h>

static gboolean
is_sound (const PsSentinel *reading, const PsSentinel *first)
{
  return reading->n >= PS_MEDIAN_MIN_SAMPLES && reading->median_ns > 0 && g_str_equal (reading->what, first->what);
}

/* The sound readings right before and after a moment; NULL: none. Moments sort as texts do. */
static void
find_beside (GPtrArray *sentinels, const char *moment, const PsSentinel *beside[2])
{
  beside[0] = beside[1] = NULL;
  for (guint i = 0; i < sentinels->len; i++)
    {
      const PsSentinel *reading = sentinels->pdata[i];
      int order = g_strcmp0 (reading->taken, moment);

      if (!is_sound (reading, sentinels->pdata[0]))
        continue;
      if (order <= 0)
        beside[0] = reading;
      if (order >= 0 && beside[1] == NULL)
        beside[1] = reading;
    }
}

/* The first n-th of the readings beside measurements ends with it. 0: no reading is beside a measurement. */
static gint64
find_level (GPtrArray *sentinels, GPtrArray *measurements, guint n)
{
  g_autoptr (GArray) times = g_array_new (FALSE, FALSE, sizeof (gint64));
  const PsSentinel *beside[2];

  for (guint i = 0; i < measurements->len; i++)
    {
      find_beside (sentinels, ((const PsMeasurement *)measurements->pdata[i])->taken, beside);
      for (guint k = 0; k < 2; k++)
        if (beside[k] != NULL)
          g_array_append_val (times, beside[k]->median_ns);
    }
  g_array_sort (times, ps_compare_int64);
  return times->len > 0 ? g_array_index (times, gint64, (times->len + n - 1) / n - 1) : 0;
}

double
ps_sentinel_shifts (GPtrArray *sentinels, GPtrArray *measurements, double *shifts)
{
  gint64 level = find_level (sentinels, measurements, 4); /* the lower quartile: other work only slows an op down */
  const PsSentinel *beside[2];
  double largest = 0;

  for (guint i = 0; i < measurements->len; i++)
    {
      double shift = 0;

      find_beside (sentinels, ((const PsMeasurement *)measurements->pdata[i])->taken, beside);
      for (guint k = 0; k < 2; k++)
        if (beside[k] != NULL)
          shift = MAX (shift, fabs ((double)beside[k]->median_ns / (double)level - 1));
      if (shifts != NULL)
        shifts[i] = shift;
      largest = MAX (largest, shift);
    }
  return level > 0 ? largest : NAN;
}

/* Relative standard deviation of a reading beside the measurements, and the number of these readings; 0: of fewer than
 * two nothing is known. */
static double
reading_error (GPtrArray *sentinels, GPtrArray *measurements, gint64 level, guint *n)
{
  g_autoptr (GPtrArray) readings = g_ptr_array_new ();
  const PsSentinel *beside[2];
  double squares = 0;

  for (guint i = 0; i < measurements->len; i++)
    {
      find_beside (sentinels, ((const PsMeasurement *)measurements->pdata[i])->taken, beside);
      for (guint k = 0; k < 2; k++)
        if (beside[k] != NULL && !g_ptr_array_find (readings, beside[k], NULL))
          g_ptr_array_add (readings, (gpointer)beside[k]);
    }
  for (guint i = 0; i < readings->len; i++)
    squares += pow (log ((double)((const PsSentinel *)readings->pdata[i])->median_ns / (double)level), 2);
  *n = readings->len;
  return *n > 1 ? sqrt (squares / (*n - 1)) : 0;
}

void
ps_sentinel_weather (GPtrArray *sentinels, GPtrArray *measurements, GPtrArray *moments, PsWeather *weather)
{
  gint64 level = find_level (sentinels, measurements, 2);
  guint n_level, n;
  double error = reading_error (sentinels, measurements, MAX (level, 1), &n_level), sum;
  const PsSentinel *beside[2];

  for (guint i = 0; i < moments->len; i++)
    {
      find_beside (sentinels, ((const PsMeasurement *)moments->pdata[i])->taken, beside);
      sum = 0;
      n = 0;
      for (guint k = 0; k < 2; k++)
        if (beside[k] != NULL)
          {
            sum += (double)beside[k]->median_ns;
            n++;
          }
      weather[i] = n > 0 && level > 0 ? (PsWeather){ sum / n / (double)level, error * sqrt (1.0 / n + 1.0 / n_level) }
                                      : (PsWeather){ NAN, NAN };
    }
}
