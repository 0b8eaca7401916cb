/* crew.c - the members of a process meet at a barrier; member 0 then meets the other processes for all of them. */
#include "crew.h"

#include "barrier.h"

#include <pipesim/base.h>

#include <pthread.h>
#include <string.h>

struct _PsCrew
{
  guint n_here;
  PsRendezvous *others;
  gint64 timeout_ns;
  PsBarrier *barrier;
  gint64 moment_ns;     /* written by member 0 between two barriers */
  gconstpointer *given; /* [n_here] what each member has brought to the exchange */
  guint8 *all;          /* of the exchange; member 0's */
  pthread_mutex_t lock;
  GError *failure;            /* the first of this process */
  pthread_mutex_t watch_lock; /* held while failed is called */
  void (*failed) (gpointer data);
  gpointer failed_data;
};

/* Wakes everybody here; the run has failed, here or elsewhere. */
static void
wake_all (gpointer data)
{
  PsCrew *crew = data;

  ps_barrier_abort (crew->barrier);
  pthread_mutex_lock (&crew->watch_lock);
  if (crew->failed != NULL)
    crew->failed (crew->failed_data);
  pthread_mutex_unlock (&crew->watch_lock);
}

PsCrew *
ps_crew_new (guint n_here, PsRendezvous *others, gint64 timeout_ns)
{
  PsCrew *crew = g_new0 (PsCrew, 1);

  crew->n_here = n_here;
  crew->others = others;
  crew->timeout_ns = timeout_ns;
  crew->barrier = ps_barrier_new (n_here);
  crew->given = g_new0 (gconstpointer, n_here);
  pthread_mutex_init (&crew->lock, NULL);
  pthread_mutex_init (&crew->watch_lock, NULL);
  if (others != NULL)
    ps_rendezvous_watch (others, wake_all, crew);
  return crew;
}

void
ps_crew_free (PsCrew *crew)
{
  if (crew == NULL)
    return;
  if (crew->others != NULL)
    ps_rendezvous_watch (crew->others, NULL, NULL);
  g_clear_error (&crew->failure);
  ps_barrier_free (crew->barrier);
  pthread_mutex_destroy (&crew->watch_lock);
  pthread_mutex_destroy (&crew->lock);
  g_free (crew->given);
  g_free (crew->all);
  g_free (crew);
}

gboolean
ps_crew_check (PsCrew *crew, GError **error)
{
  gboolean fine;

  if (crew->others != NULL && !ps_rendezvous_check (crew->others, error))
    return FALSE;
  pthread_mutex_lock (&crew->lock);
  fine = crew->failure == NULL;
  if (!fine && error != NULL)
    *error = g_error_copy (crew->failure);
  pthread_mutex_unlock (&crew->lock);
  return fine;
}

void
ps_crew_fail (PsCrew *crew, GError *error)
{
  g_autoptr (GError) copy = g_error_copy (error);

  pthread_mutex_lock (&crew->lock);
  if (crew->failure == NULL)
    crew->failure = g_steal_pointer (&error);
  pthread_mutex_unlock (&crew->lock);
  g_clear_error (&error);
  /* The others first: what this rank has found is the cause of what they will find. */
  if (crew->others != NULL)
    ps_rendezvous_abort (crew->others, copy);
  wake_all (crew);
}

void
ps_crew_watch (PsCrew *crew, void (*failed) (gpointer data), gpointer data)
{
  pthread_mutex_lock (&crew->watch_lock);
  crew->failed = failed;
  crew->failed_data = data;
  pthread_mutex_unlock (&crew->watch_lock);
  if (failed != NULL && !ps_crew_check (crew, NULL))
    wake_all (crew);
}

/* At the barrier of this process. */
static gboolean
meet_here (PsCrew *crew, gint64 *moment_ns, GError **error)
{
  if (ps_barrier_wait (crew->barrier, moment_ns))
    return TRUE;
  /* Whoever called the barrier off had noted why before. */
  if (ps_crew_check (crew, error))
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "run aborted");
  return FALSE;
}

gboolean
ps_crew_meet (PsCrew *crew, guint member, gint64 *moment_ns, GError **error)
{
  GError *failure = NULL;

  if (!meet_here (crew, moment_ns, error))
    return FALSE;
  if (crew->others == NULL)
    return TRUE;
  if (member == 0 && !ps_rendezvous_meet (crew->others, crew->timeout_ns, &crew->moment_ns, &failure))
    ps_crew_fail (crew, failure);
  if (!meet_here (crew, moment_ns, error))
    return FALSE;
  *moment_ns = crew->moment_ns;
  return TRUE;
}

/* The parts of all members here, in a row. */
static guint8 *
collect (const PsCrew *crew, gsize n_bytes)
{
  guint8 *here = g_malloc (MAX (1, crew->n_here * n_bytes));

  for (guint i = 0; i < crew->n_here && n_bytes > 0; i++)
    memcpy (here + i * n_bytes, crew->given[i], n_bytes);
  return here;
}

static void
exchange_for_all (PsCrew *crew, gsize n_bytes)
{
  g_autofree guint8 *here = collect (crew, n_bytes);
  gsize n = crew->n_here * n_bytes;
  GError *failure = NULL;

  g_clear_pointer (&crew->all, g_free);
  if (crew->others == NULL)
    {
      crew->all = g_steal_pointer (&here);
      return;
    }
  crew->all = g_malloc (MAX (1, n * ps_rendezvous_n_ranks (crew->others)));
  if (!ps_rendezvous_exchange (crew->others, here, n, crew->all, crew->timeout_ns, &failure))
    ps_crew_fail (crew, failure);
}

gboolean
ps_crew_exchange (PsCrew *crew, guint member, gconstpointer mine, gsize n_bytes, gpointer all, GError **error)
{
  gsize n_processes = crew->others != NULL ? ps_rendezvous_n_ranks (crew->others) : 1;
  gint64 moment_ns;

  crew->given[member] = mine;
  if (!meet_here (crew, &moment_ns, error))
    return FALSE;
  if (member == 0)
    exchange_for_all (crew, n_bytes);
  if (!meet_here (crew, &moment_ns, error))
    return FALSE;
  memcpy (all, crew->all, n_processes * crew->n_here * n_bytes);
  /* Only then may the next exchange begin. */
  return meet_here (crew, &moment_ns, error);
}
