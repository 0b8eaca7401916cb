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

/* The lower quartile: other work only slows an op down. 0: no reading is beside a measurement. */
static gint64
find_level (GPtrArray *sentinels, GPtrArray *measurements)
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
  return times->len > 0 ? g_array_index (times, gint64, (times->len + 3) / 4 - 1) : 0;
}

double
ps_sentinel_shifts (GPtrArray *sentinels, GPtrArray *measurements, double *shifts)
{
  gint64 level = find_level (sentinels, measurements);
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
