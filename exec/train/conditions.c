/* conditions.c - a thread that reads the state of the hardware every 20 ms. */
#include "train/conditions.h"

#include "clock.h"

#include <errno.h>
#include <pthread.h>

#define PERIOD_NS 20000000

typedef struct {
  gint64 taken_ns;
  PsCondition condition;
} Reading;

struct _PsConditions {
  PsDevice **devices; /* [n] whose condition is read */
  guint n;
  GThread *thread;
  pthread_mutex_t mutex;
  pthread_cond_t stopped;
  gboolean stop;    /* under mutex */
  GArray *readings; /* of Reading, under mutex: every round adds one of each device */
};

static void read_all (PsConditions *conditions)
{
  for (guint i = 0; i < conditions->n; i++) {
    PsDevice *device = conditions->devices[i];
    Reading reading = { .taken_ns = ps_clock_now () };

    device->class->condition (device, &reading.condition);
    pthread_mutex_lock (&conditions->mutex);
    g_array_append_val (conditions->readings, reading);
    pthread_mutex_unlock (&conditions->mutex);
  }
}

static gpointer read_on (gpointer data)
{
  PsConditions *conditions = data;

  pthread_mutex_lock (&conditions->mutex);
  while (!conditions->stop) {
    const struct timespec until = ps_clock_timespec (ps_clock_now () + PERIOD_NS);

    if (pthread_cond_timedwait (&conditions->stopped, &conditions->mutex, &until) == ETIMEDOUT) {
      pthread_mutex_unlock (&conditions->mutex);
      read_all (conditions);
      pthread_mutex_lock (&conditions->mutex);
    }
  }
  pthread_mutex_unlock (&conditions->mutex);
  return NULL;
}

PsConditions *ps_conditions_new (PsDevice *const *devices, guint n)
{
  const PsDeviceClass *class = devices[0]->class;

  if (class->condition == NULL)
    return NULL;
  PsConditions *conditions = g_new0 (PsConditions, 1);
  conditions->n = class->sharing != NULL && class->sharing (devices[0]) >= n ? 1 : n;
  conditions->devices = g_memdup2 (devices, conditions->n * sizeof *devices);
  conditions->readings = g_array_new (FALSE, FALSE, sizeof (Reading));
  pthread_mutex_init (&conditions->mutex, NULL);
  ps_clock_condition_init (&conditions->stopped);
  read_all (conditions);
  conditions->thread = g_thread_try_new ("conditions", read_on, conditions,
                                         NULL); /* without a thread the first reading is the only one */
  return conditions;
}

void ps_conditions_free (PsConditions *conditions)
{
  if (conditions == NULL)
    return;
  pthread_mutex_lock (&conditions->mutex);
  conditions->stop = TRUE;
  pthread_cond_signal (&conditions->stopped);
  pthread_mutex_unlock (&conditions->mutex);
  if (conditions->thread != NULL)
    g_thread_join (conditions->thread);
  pthread_cond_destroy (&conditions->stopped);
  pthread_mutex_destroy (&conditions->mutex);
  g_array_unref (conditions->readings);
  g_free (conditions->devices);
  g_free (conditions);
}

/* Returns the median of the values that are known; 0: none is. */
static gint64 median_of (const Reading *readings, guint n, guint step, gsize offset)
{
  g_autofree gint64 *values = g_new (gint64, n);
  guint n_known = 0;

  for (guint i = 0; i < n; i += step) {
    gint64 value = *(const gint64 *)(gconstpointer)((const char *)&readings[i].condition + offset);

    if (value != 0)
      values[n_known++] = value;
  }
  return n_known > 0 ? ps_median (values, n_known) : 0;
}

void ps_conditions_median (PsConditions *conditions, guint i, gint64 begin_ns, gint64 end_ns, PsCondition *median)
{
  const Reading *readings;
  guint n, first;

  *median = (PsCondition){ 0 };
  if (conditions == NULL)
    return;
  pthread_mutex_lock (&conditions->mutex);
  readings = (const Reading *)(gpointer)conditions->readings->data;
  n = conditions->readings->len;
  first = MIN (i, conditions->n - 1);
  while (first + conditions->n < n && readings[first + conditions->n].taken_ns <= begin_ns)
    first += conditions->n;
  while (n > first + 1 && readings[n - 1].taken_ns > end_ns)
    n--;
  readings += first;
  n -= first;
  *median = (PsCondition){
    .clock_mhz = median_of (readings, n, conditions->n, offsetof (PsCondition, clock_mhz)),
    .memory_clock_mhz = median_of (readings, n, conditions->n, offsetof (PsCondition, memory_clock_mhz)),
    .temperature_c = median_of (readings, n, conditions->n, offsetof (PsCondition, temperature_c)),
    .power_mw = median_of (readings, n, conditions->n, offsetof (PsCondition, power_mw)),
  };
  for (guint k = 0; k < n; k += conditions->n)
    median->throttle |= readings[k].condition.throttle;
  pthread_mutex_unlock (&conditions->mutex);
}
