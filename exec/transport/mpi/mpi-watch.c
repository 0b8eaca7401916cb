/* mpi-watch.c - the lock, and who looks at MPI and when: callers that wait, and the engine's thread where none does. */
#include "mpi-engine-private.h"

#include <errno.h>
#include <sched.h>

#define SHORTEST_NAP_NS G_GINT64_CONSTANT (10000) /* a shorter one costs more than it is long */
#define MOVING_NS G_GINT64_CONSTANT (100000000)   /* longest time awake for data that should move and do not */

static PsMpiEngine *const engine = &ps_mpi_engine;

/* Whether callers may call MPI themselves now. */
static gboolean
may_call (void)
{
  return engine->state == PS_MPI_READY && engine->broken == NULL && engine->shares_calls
         && (guint)engine->n_local * MAX (engine->n_devices, 1) <= engine->n_cores;
}

gboolean
ps_mpi_look (void)
{
  gboolean busy = FALSE, fine;
  GError *error = NULL;

  engine->calls = TRUE;
  pthread_mutex_unlock (&engine->lock);
  ps_mpi_note_round ();
  fine = ps_mpi_move_all (&busy, &error);
  pthread_mutex_lock (&engine->lock);
  engine->calls = FALSE;
  if (!fine)
    engine->broken = error;
  if (busy)
    engine->quiet_ns = engine->round_ns;
  if (!fine || engine->state != PS_MPI_READY)
    pthread_cond_signal (&engine->changed);
  return busy;
}

/* Starts what is posted, unless the thread that calls MPI will. TRUE: the lock was free meanwhile. */
static gboolean
push (void)
{
  gboolean pushed = FALSE;

  if (!g_queue_is_empty (&engine->queue) && !may_call ())
    pthread_cond_signal (&engine->changed);
  while (!g_queue_is_empty (&engine->queue) && !engine->calls && may_call ())
    {
      ps_mpi_look ();
      pushed = TRUE;
    }
  return pushed;
}

void
ps_mpi_lock (void)
{
  pthread_mutex_lock (&engine->lock);
}

void
ps_mpi_unlock (void)
{
  push ();
  pthread_mutex_unlock (&engine->lock);
}

gboolean
ps_mpi_sleep (pthread_cond_t *condition, gint64 until_ns)
{
  struct timespec until = ps_clock_timespec (until_ns);

  if (push ())
    return TRUE;
  if (until_ns == 0)
    return pthread_cond_wait (condition, &engine->lock) == 0;
  return pthread_cond_timedwait (condition, &engine->lock, &until) != ETIMEDOUT;
}

/* At first a nap is short because a message may come soon; later it is a small part of the quiet time. */
static gint64
nap_length (gint64 quiet_ns, gboolean waits)
{
  gint64 soon_ns = CLAMP (quiet_ns / PS_MPI_NAP_SHARE, SHORTEST_NAP_NS, waits ? PS_MPI_NAP_NS : PS_MPI_IDLE_NAP_NS);

  return CLAMP (quiet_ns / PS_MPI_LONG_NAP_SHARE, soon_ns, PS_MPI_LONGEST_NAP_NS);
}

/* Lets other threads take the lock and the core. */
static void
give_way (void)
{
  pthread_mutex_unlock (&engine->lock);
  sched_yield ();
  pthread_mutex_lock (&engine->lock);
}

/* Between two looks, the time spin_ns after begin_ns or the latest event excepted. waits: somebody waits for a message.
 * TRUE when the condition was signalled. */
static gboolean
pause_watch (pthread_cond_t *condition, gint64 begin_ns, gint64 spin_ns, gboolean waits)
{
  gint64 now_ns = ps_clock_now (), quiet_ns = now_ns - MAX (begin_ns, engine->quiet_ns);

  if (quiet_ns < spin_ns)
    return FALSE;
  if (engine->n_moving == 0 || quiet_ns > MOVING_NS)
    return ps_mpi_sleep (condition, now_ns + nap_length (quiet_ns, waits));
  give_way ();
  return FALSE;
}

void
ps_mpi_nap (void)
{
  gint64 now_ns = ps_clock_now ();

  if (engine->report == NULL && engine->clients->len == 0 && engine->under_way->len == 0)
    ps_mpi_sleep (&engine->changed, 0);
  else if (engine->watcher == NULL)
    pause_watch (&engine->changed, 0, 0, engine->waits.length > 0);
  else
    ps_mpi_sleep (&engine->changed, now_ns + MAX (nap_length (now_ns - engine->quiet_ns, FALSE), PS_MPI_IDLE_NAP_NS));
}

void
ps_mpi_wait_begin (PsMpiWait *wait, pthread_cond_t *condition, gint64 until_ns)
{
  *wait = (PsMpiWait){
    .condition = condition, .until_ns = until_ns, .begin_ns = ps_clock_now (), .link = { .data = wait }
  };
  g_queue_push_tail_link (&engine->waits, &wait->link);
  if (engine->waits.length == 1 && !may_call ())
    pthread_cond_signal (&engine->changed);
}

gboolean
ps_mpi_wait_more (PsMpiWait *wait)
{
  if (wait->until_ns > 0 && ps_clock_now () >= wait->until_ns)
    return FALSE;
  if (engine->watcher == NULL && may_call ())
    engine->watcher = wait;
  if (engine->watcher != wait || !may_call ())
    ps_mpi_sleep (wait->condition, wait->until_ns);
  else if (engine->calls)
    give_way ();
  else if (!pause_watch (wait->condition, wait->begin_ns, PS_MPI_SPIN_NS, TRUE) && !engine->calls && may_call ())
    ps_mpi_look ();
  return TRUE;
}

/* Where nobody watches now, another caller that waits does so from now on; if there is none, the engine's thread. A
 * caller that was woken to watch may end without having watched. */
void
ps_mpi_wait_end (PsMpiWait *wait)
{
  g_queue_unlink (&engine->waits, &wait->link);
  if (engine->watcher == wait)
    engine->watcher = NULL;
  if (engine->watcher != NULL || !may_call ())
    return;
  const PsMpiWait *next = g_queue_peek_head (&engine->waits);
  if (next != NULL)
    pthread_cond_broadcast (next->condition);
  else if (engine->n_moving > 0 || ps_clock_now () - wait->begin_ns > PS_MPI_IDLE_NAP_NS * PS_MPI_LONG_NAP_SHARE)
    pthread_cond_signal (&engine->changed);
}
