/* crew.c - the members of a process meet at a barrier; member 0 then meets the other processes for all of them. */
#include "crew.h"

#include "clock.h"

#include <pipesim/base.h>

#include <pthread.h>
#include <string.h>

struct _PsCrew {
  guint n_here;
  PsProcesses *processes;
  gint64 timeout_ns;
  gint64 moment_ns;     /* of all processes; written by member 0 between two barriers */
  gconstpointer *given; /* [n_here] the bytes that each member gives in an exchange */
  guint8 *all;          /* of the exchange; member 0's */

  pthread_mutex_t lock; /* of the barrier, and of failure */
  pthread_cond_t open;
  guint n_waiting;
  guint round;
  gint64 last_ns;  /* when the round was complete; the next one ends only after all have read it */
  GError *failure; /* the first */

  pthread_mutex_t watch_lock; /* held while failed is called */
  void (*failed) (gpointer data);
  gpointer failed_data;
};

PsCrew *ps_crew_new (guint n_here, PsProcesses *processes, gint64 timeout_ns)
{
  PsCrew *crew = g_new0 (PsCrew, 1);

  g_assert (n_here > 0);

  crew->n_here = n_here;
  crew->processes = processes;
  crew->timeout_ns = timeout_ns;
  crew->given = g_new0 (gconstpointer, n_here);
  pthread_mutex_init (&crew->lock, NULL);
  pthread_cond_init (&crew->open, NULL);
  pthread_mutex_init (&crew->watch_lock, NULL);
  return crew;
}

void ps_crew_free (PsCrew *crew)
{
  if (crew == NULL)
    return;
  g_clear_error (&crew->failure);
  pthread_mutex_destroy (&crew->watch_lock);
  pthread_cond_destroy (&crew->open);
  pthread_mutex_destroy (&crew->lock);
  g_free (crew->given);
  g_free (crew->all);
  g_free (crew);
}

gboolean ps_crew_check (PsCrew *crew, GError **error)
{
  pthread_mutex_lock (&crew->lock);
  gboolean fine = crew->failure == NULL;
  if (!fine && error != NULL)
    *error = g_error_copy (crew->failure);
  pthread_mutex_unlock (&crew->lock);
  return fine;
}

static void call_watcher (PsCrew *crew)
{
  pthread_mutex_lock (&crew->watch_lock);
  if (crew->failed != NULL)
    crew->failed (crew->failed_data);
  pthread_mutex_unlock (&crew->watch_lock);
}

void ps_crew_fail (PsCrew *crew, GError *error)
{
  if (crew->processes != NULL)
    crew->processes->fail (crew->processes, error);
  pthread_mutex_lock (&crew->lock);
  if (crew->failure == NULL)
    crew->failure = g_steal_pointer (&error);
  pthread_cond_broadcast (&crew->open);
  pthread_mutex_unlock (&crew->lock);
  g_clear_error (&error);
  call_watcher (crew);
}

void ps_crew_watch (PsCrew *crew, void (*failed) (gpointer data), gpointer data)
{
  pthread_mutex_lock (&crew->watch_lock);
  crew->failed = failed;
  crew->failed_data = data;
  pthread_mutex_unlock (&crew->watch_lock);
  if (failed != NULL && !ps_crew_check (crew, NULL))
    call_watcher (crew);
}

/* The barrier of this process, which a failure opens. */
static gboolean meet_here (PsCrew *crew, gint64 *moment_ns, GError **error)
{
  guint round;

  pthread_mutex_lock (&crew->lock);
  round = crew->round;
  if (++crew->n_waiting == crew->n_here) {
    crew->n_waiting = 0;
    crew->round++;
    crew->last_ns = ps_clock_now ();
    pthread_cond_broadcast (&crew->open);
  }
  while (crew->round == round && crew->failure == NULL)
    pthread_cond_wait (&crew->open, &crew->lock);
  *moment_ns = crew->last_ns;
  pthread_mutex_unlock (&crew->lock);
  return ps_crew_check (crew, error);
}

gboolean ps_crew_meet (PsCrew *crew, guint member, gint64 *moment_ns, GError **error)
{
  if (!meet_here (crew, moment_ns, error))
    return FALSE;
  if (crew->processes == NULL)
    return TRUE;
  if (member == 0)
    crew->moment_ns = ps_processes_meet (crew->processes, crew->timeout_ns);
  if (!meet_here (crew, moment_ns, error))
    return FALSE;
  *moment_ns = crew->moment_ns;
  return TRUE;
}

/* Exchanges the bytes of all members here, in a row, and then of all processes. */
static void exchange_for_all (PsCrew *crew, gsize n_bytes)
{
  gsize n = crew->n_here * n_bytes;
  guint8 *here = g_malloc (MAX (n, 1));

  for (guint i = 0; i < crew->n_here && n_bytes > 0; i++)
    memcpy (here + i * n_bytes, crew->given[i], n_bytes);
  g_free (crew->all);
  crew->all = here;
  if (crew->processes == NULL)
    return;
  crew->all = g_malloc (MAX (n * ps_processes_n_ranks (crew->processes), 1));
  ps_processes_exchange (crew->processes, here, n, crew->all, crew->timeout_ns);
  g_free (here);
}

gboolean ps_crew_exchange (PsCrew *crew, guint member, gconstpointer mine, gsize n_bytes, gpointer all, GError **error)
{
  gint64 moment_ns;

  crew->given[member] = mine;
  if (!meet_here (crew, &moment_ns, error))
    return FALSE;
  if (member == 0)
    exchange_for_all (crew, n_bytes);
  if (!meet_here (crew, &moment_ns, error))
    return FALSE;
  if (n_bytes > 0)
    memcpy (all, crew->all, ps_processes_n_ranks (crew->processes) * crew->n_here * n_bytes);
  /* Only then may the next exchange begin. */
  return meet_here (crew, &moment_ns, error);
}

/* The last member's first, because a later adoption counts. */
static gboolean adopt_all (PsDevice *device, const guint8 *all, const guint64 *sizes, guint n_members, gsize longest,
                           GError **error)
{
  for (guint i = n_members; i-- > 0;) {
    g_autoptr (GBytes) choices = g_bytes_new (all + i * longest, sizes[i]);

    if (!device->class->adopt_choices (device, choices, error))
      return FALSE;
  }
  return TRUE;
}

gboolean ps_choices_agree (PsCrew *crew, guint member, guint n_members, PsDevice *device, GError **error)
{
  g_autofree guint64 *sizes = g_new (guint64, n_members);
  g_autofree guint8 *mine = NULL, *all = NULL;
  g_autoptr (GBytes) choices = NULL;
  gsize n_bytes, longest = 0;

  if (device->class->choices == NULL)
    return TRUE;
  choices = device->class->choices (device);
  gconstpointer bytes = g_bytes_get_data (choices, &n_bytes);
  guint64 own_size = n_bytes;
  if (!ps_crew_exchange (crew, member, &own_size, sizeof own_size, sizes, error))
    return FALSE;
  for (guint i = 0; i < n_members; i++)
    longest = MAX (longest, sizes[i]);
  mine = g_malloc0 (MAX (longest, 1));
  all = g_malloc (MAX (longest * n_members, 1));
  if (n_bytes > 0)
    memcpy (mine, bytes, n_bytes);
  return ps_crew_exchange (crew, member, mine, longest, all, error)
         && adopt_all (device, all, sizes, n_members, longest, error);
}
