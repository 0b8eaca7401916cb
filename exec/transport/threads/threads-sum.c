/* threads-sum.c - devices of one process show each other their numbers. Each adds up one share of them, in place, and
 * then copies the other shares. */
#include "threads-sum.h"

#include "clock.h"
#include "device/devices.h"

#include <errno.h>
#include <string.h>

#define N_KINDS (PS_CIRCLE_TENSOR + 1)

/* Where the devices of a circle meet: at the first of them. */
typedef struct
{
  pthread_mutex_t lock;
  pthread_cond_t open;
  guint n_waiting;
  guint n_reading; /* devices that have passed and read what others show, until they come again */
  guint round;
} Gate;

struct _PsThreadsPlace
{
  PsDevice *device;
  Gate gates[N_KINDS];
  float *shown; /* the numbers of this device, for all to read between two meetings */
  float *copy;  /* of n_copied numbers that are not in the host's memory; others may read it until the run ends */
  gsize n_copied;
};

void
ps_threads_sum_init (PsThreadsSum *sum, const PsTransportSetting *setting)
{
  sum->setting = *setting;
  sum->n = setting->n_devices * MAX (setting->n_replicas, 1) * MAX (setting->n_tensor, 1);
  sum->place = g_new0 (PsThreadsPlace, sum->n);
  for (guint i = 0; i < sum->n * N_KINDS; i++)
    {
      Gate *gate = &sum->place[i / N_KINDS].gates[i % N_KINDS];

      pthread_mutex_init (&gate->lock, NULL);
      ps_clock_condition_init (&gate->open);
    }
}

void
ps_threads_sum_clear (PsThreadsSum *sum)
{
  for (guint i = 0; i < sum->n * N_KINDS; i++)
    {
      Gate *gate = &sum->place[i / N_KINDS].gates[i % N_KINDS];

      pthread_mutex_destroy (&gate->lock);
      pthread_cond_destroy (&gate->open);
    }
  for (guint i = 0; i < sum->n; i++)
    g_free (sum->place[i].copy);
  g_free (sum->place);
}

void
ps_threads_sum_abort (PsThreadsSum *sum)
{
  g_atomic_int_set (&sum->aborted, TRUE);
  for (guint i = 0; i < sum->n * N_KINDS; i++)
    {
      Gate *gate = &sum->place[i / N_KINDS].gates[i % N_KINDS];

      pthread_mutex_lock (&gate->lock);
      pthread_cond_broadcast (&gate->open);
      pthread_mutex_unlock (&gate->lock);
    }
}

/* Sleeps until all n devices have come; reads: they read after this, and come again. FALSE: the run is aborted, or
 * until_ns (0: never) has come; nobody reads any more, so that the numbers may go. */
static gboolean
pass_gate (PsThreadsSum *sum, Gate *gate, guint n, gboolean reads, gint64 until_ns)
{
  const struct timespec until = ps_clock_timespec (until_ns);
  gboolean open;
  guint round;
  int code = 0;

  pthread_mutex_lock (&gate->lock);
  round = gate->round;
  if (gate->n_reading > 0 && --gate->n_reading == 0)
    pthread_cond_broadcast (&gate->open);
  if (++gate->n_waiting == n)
    {
      gate->n_waiting = 0;
      gate->n_reading = reads ? n : 0;
      gate->round++;
      pthread_cond_broadcast (&gate->open);
    }
  while (gate->round == round && !g_atomic_int_get (&sum->aborted) && code != ETIMEDOUT)
    code = until_ns > 0 ? pthread_cond_timedwait (&gate->open, &gate->lock, &until)
                        : pthread_cond_wait (&gate->open, &gate->lock);
  open = gate->round != round;
  gate->n_waiting -= !open;
  while (!open && gate->n_reading > 0)
    pthread_cond_wait (&gate->open, &gate->lock);
  pthread_mutex_unlock (&gate->lock);
  return open;
}

static gboolean
meet (PsThreadsSum *sum, const PsCircle *circle, PsCircleKind kind, gboolean reads, GError **error)
{
  const gint64 timeout_ns = sum->setting.timeout_ns;
  const guint n_devices = sum->setting.n_devices;

  if (pass_gate (sum, &sum->place[circle->first].gates[kind], circle->n, reads,
                 timeout_ns > 0 ? ps_clock_now () + timeout_ns : 0))
    return TRUE;
  if (g_atomic_int_get (&sum->aborted))
    return ps_refuse (error, PS_ERROR_IO, "run aborted");
  return ps_refuse (error, PS_ERROR_IO, "device %u: waited %g s for the other %u that it adds up with",
                    ps_circle_device (circle, circle->own) % n_devices, (double)timeout_ns / 1e9, circle->n - 1);
}

/* The numbers that the device at a place of the circle shows. */
static float *
shown_at (const PsThreadsSum *sum, const PsCircle *circle, guint place)
{
  return sum->place[ps_circle_device (circle, place % circle->n)].shown;
}

static void
add_share (const PsThreadsSum *sum, const PsCircle *circle, gsize n)
{
  const gsize first = ps_share_begin (n, circle->own, circle->n);
  const gsize length = ps_share_begin (n, circle->own + 1, circle->n) - first;
  g_autofree float *total = g_memdup2 (shown_at (sum, circle, circle->own + 1) + first, length * sizeof (float));

  for (guint k = 2; k <= circle->n; k++)
    {
      const float *next = shown_at (sum, circle, circle->own + k) + first;

      for (gsize i = 0; i < length; i++)
        total[i] += next[i];
    }
  if (length > 0)
    memcpy (shown_at (sum, circle, circle->own) + first, total, length * sizeof *total);
}

static void
copy_shares (const PsThreadsSum *sum, const PsCircle *circle, gsize n)
{
  for (guint k = 1; k < circle->n; k++)
    {
      const guint other = (circle->own + k) % circle->n;
      const gsize first = ps_share_begin (n, other, circle->n);

      memcpy (shown_at (sum, circle, circle->own) + first, shown_at (sum, circle, other) + first,
              (ps_share_begin (n, other + 1, circle->n) - first) * sizeof (float));
    }
}

/* Each half lies between two meetings: nobody reads a share before it is there, or writes one that others still read.
 */
static gboolean
add_up (PsThreadsSum *sum, guint own, const PsCircle *circle, PsCircleKind kind, PsSumHalves halves, float *values,
        gsize n, GError **error)
{
  sum->place[own].shown = values;
  if (!meet (sum, circle, kind, TRUE, error))
    return FALSE;
  if (halves & PS_SUM_SCATTER)
    {
      add_share (sum, circle, n);
      if (!meet (sum, circle, kind, (halves & PS_SUM_GATHER) != 0, error))
        return FALSE;
    }
  if (!(halves & PS_SUM_GATHER))
    return TRUE;
  copy_shares (sum, circle, n);
  return meet (sum, circle, kind, FALSE, error);
}

/* Numbers in other memory than the host's are added up in a copy. */
static gboolean
add_up_copy (PsThreadsSum *sum, guint own, const PsCircle *circle, PsCircleKind kind, PsSumHalves halves, float *values,
             gsize n, GError **error)
{
  PsThreadsPlace *place = &sum->place[own];

  if (place->n_copied < n)
    place->copy = g_renew (float, place->copy, n);
  place->n_copied = MAX (place->n_copied, n);
  return ps_device_read (place->device, place->copy, values, n * sizeof *values, error)
         && add_up (sum, own, circle, kind, halves, place->copy, n, error)
         && ps_device_write (place->device, values, place->copy, n * sizeof *values, error);
}

/* Adds up in the devices' queues, where this one has shown its numbers. */
static gboolean
add_up_queued (PsThreadsSum *sum, guint own, const PsCircle *circle, float *values, gsize n, GError **error)
{
  const PsDeviceClass *class = sum->place[own].device->class;
  g_autofree PsDevice **devices = g_new (PsDevice *, circle->n);
  g_autofree float **shown = g_new (float *, circle->n);
  const PsDeviceSum all = { .devices = devices, .values = shown, .n_devices = circle->n, .own = circle->own, .n = n };

  sum->place[own].shown = values;
  if (!meet (sum, circle, PS_CIRCLE_TENSOR, FALSE, error))
    return FALSE;
  for (guint i = 0; i < circle->n; i++)
    {
      devices[i] = sum->place[ps_circle_device (circle, i)].device;
      shown[i] = shown_at (sum, circle, i);
    }
  return class->sum (&all, PS_SUM_ADD, error) && meet (sum, circle, PS_CIRCLE_TENSOR, FALSE, error)
         && class->sum (&all, PS_SUM_TAKE, error);
}

gboolean
ps_threads_sum (PsTransport *transport, guint at, PsCircleKind kind, PsSumHalves halves, float *values, gsize n,
                GError **error)
{
  PsThreadsSum *sum = (PsThreadsSum *)transport;
  const PsCircle circle = ps_circle_of (&sum->setting, at, kind);
  const guint own = ps_circle_device (&circle, circle.own);
  const PsDeviceSum alone = { .devices = &sum->place[own].device, .values = &values, .n_devices = 1, .n = n };
  const PsDeviceClass *class;
  GError *failure = NULL;

  if (circle.n == 1)
    return TRUE;
  class = sum->place[own].device->class;
  if (kind == PS_CIRCLE_TENSOR && class->sum != NULL && class->sum (&alone, PS_SUM_SHOW, &failure))
    return add_up_queued (sum, own, &circle, values, n, error);
  if (failure != NULL)
    {
      g_propagate_error (error, failure);
      return FALSE;
    }
  return class->read != NULL ? add_up_copy (sum, own, &circle, kind, halves, values, n, error)
                             : add_up (sum, own, &circle, kind, halves, values, n, error);
}

gboolean
ps_threads_join (PsTransport *transport, guint at, PsDevice *device, GError **error)
{
  ((PsThreadsSum *)transport)->place[at].device = device;
  return TRUE;
}
