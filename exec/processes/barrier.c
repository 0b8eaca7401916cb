/* barrier.c - a meeting point of all device threads that can be called off. */
#include "barrier.h"

#include "clock.h"

#include <pthread.h>

struct _PsBarrier
{
  pthread_mutex_t lock;
  pthread_cond_t open;
  guint n_threads;
  guint n_waiting;
  guint round;
  gint64 moment_ns; /* of the latest round; nobody can finish the next one before all have read it */
  gboolean aborted;
};

PsBarrier *
ps_barrier_new (guint n_threads)
{
  PsBarrier *barrier = g_new0 (PsBarrier, 1);

  g_assert (n_threads > 0);

  pthread_mutex_init (&barrier->lock, NULL);
  pthread_cond_init (&barrier->open, NULL);
  barrier->n_threads = n_threads;
  return barrier;
}

void
ps_barrier_free (PsBarrier *barrier)
{
  if (barrier == NULL)
    return;
  pthread_cond_destroy (&barrier->open);
  pthread_mutex_destroy (&barrier->lock);
  g_free (barrier);
}

gboolean
ps_barrier_wait (PsBarrier *barrier, gint64 *moment_ns)
{
  gboolean met;
  guint round;

  pthread_mutex_lock (&barrier->lock);
  round = barrier->round;
  if (++barrier->n_waiting == barrier->n_threads)
    {
      barrier->n_waiting = 0;
      barrier->round++;
      barrier->moment_ns = ps_clock_now ();
      pthread_cond_broadcast (&barrier->open);
    }
  while (barrier->round == round && !barrier->aborted)
    pthread_cond_wait (&barrier->open, &barrier->lock);
  met = !barrier->aborted;
  *moment_ns = barrier->moment_ns;
  pthread_mutex_unlock (&barrier->lock);
  return met;
}

void
ps_barrier_abort (PsBarrier *barrier)
{
  pthread_mutex_lock (&barrier->lock);
  barrier->aborted = TRUE;
  pthread_cond_broadcast (&barrier->open);
  pthread_mutex_unlock (&barrier->lock);
}
