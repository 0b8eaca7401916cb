/* rendezvous.c - messages between the processes of a run. One thread reads all connections (rendezvous-serve.c);
 * everybody else writes for himself. */
#include "rendezvous-private.h"

#include "clock.h"

#include <pipesim/base.h>

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define VERDICT_NS (2 * PS_SECOND_NS) /* for rank 0 to say whose failure it was */
#define GOODBYE_NS (2 * PS_SECOND_NS)

gint64
ps_clock_estimate (const gint64 *sent_ns, const gint64 *there_ns, const gint64 *came_ns, guint n,
                   gint64 *uncertainty_ns)
{
  guint best = 0;
  gint64 trip_ns;

  for (guint i = 1; i < n; i++)
    if (came_ns[i] - sent_ns[i] < came_ns[best] - sent_ns[best])
      best = i;
  trip_ns = came_ns[best] - sent_ns[best];
  *uncertainty_ns = (trip_ns + 1) / 2;
  return sent_ns[best] + trip_ns / 2 - there_ns[best];
}

static PsPeer *
peer_of (PsRendezvous *rendezvous, guint rank)
{
  return &rendezvous->peers[rendezvous->setting.rank == 0 ? rank - 1 : 0];
}

/* So that the thread looks around. */
static void
wake_thread (PsRendezvous *rendezvous)
{
  guint64 one = 1;
  gssize n = write (rendezvous->wake, &one, sizeof one);

  (void)n; /* It fails only when the thread has been woken very often already. */
}

static void
init_locks (PsRendezvous *rendezvous)
{
  pthread_mutex_init (&rendezvous->lock, NULL);
  pthread_mutex_init (&rendezvous->watch_lock, NULL);
  ps_clock_condition_init (&rendezvous->changed);
}

static void
name_host (PsRendezvous *rendezvous)
{
  g_autofree char *identity = NULL;

  if (rendezvous->setting.own_host != NULL)
    identity = g_strdup (rendezvous->setting.own_host);
  else if (!g_file_get_contents ("/proc/sys/kernel/random/boot_id", &identity, NULL, NULL))
    identity = g_strdup (g_get_host_name ());
  g_strlcpy (rendezvous->host, g_strchomp (identity), sizeof rendezvous->host);
}

static PsRendezvous *
rendezvous_new (const PsRendezvousSetting *setting)
{
  PsRendezvous *rendezvous = g_new0 (PsRendezvous, 1);

  rendezvous->setting = *setting;
  rendezvous->n_peers = setting->n_ranks == 1 ? 0 : setting->rank == 0 ? setting->n_ranks - 1 : 1;
  rendezvous->peers = g_new0 (PsPeer, rendezvous->n_peers);
  rendezvous->hosts = g_new0 (guint, setting->n_ranks);
  rendezvous->offset_ns = g_new0 (gint64, setting->n_ranks);
  rendezvous->wake = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  init_locks (rendezvous);
  name_host (rendezvous);
  for (guint i = 0; i < rendezvous->n_peers; i++)
    {
      PsPeer *peer = &rendezvous->peers[i];

      peer->rank = setting->rank == 0 ? i + 1 : 0;
      peer->fd = -1;
      peer->partial = g_byte_array_new ();
      ps_wire_reader_init (&peer->reader);
      pthread_mutex_init (&peer->writing, NULL);
      g_queue_init (&peer->messages);
    }
  return rendezvous;
}

static void
rendezvous_free (PsRendezvous *rendezvous)
{
  for (guint i = 0; i < rendezvous->n_peers; i++)
    {
      PsPeer *peer = &rendezvous->peers[i];

      if (peer->fd >= 0)
        close (peer->fd);
      g_byte_array_unref (peer->partial);
      ps_wire_reader_clear (&peer->reader);
      pthread_mutex_destroy (&peer->writing);
      g_queue_clear_full (&peer->messages, (GDestroyNotify)g_bytes_unref);
    }
  if (rendezvous->wake >= 0)
    close (rendezvous->wake);
  g_clear_error (&rendezvous->failure);
  pthread_cond_destroy (&rendezvous->changed);
  pthread_mutex_destroy (&rendezvous->watch_lock);
  pthread_mutex_destroy (&rendezvous->lock);
  g_free (rendezvous->peers);
  g_free (rendezvous->hosts);
  g_free (rendezvous->offset_ns);
  g_free (rendezvous);
}

static gboolean
start_thread (PsRendezvous *rendezvous, GError **error)
{
  gint64 now_ns = ps_clock_now ();

  rendezvous->beat_ns = now_ns + PS_BEAT_NS;
  for (guint i = 0; i < rendezvous->n_peers; i++)
    rendezvous->peers[i].heard_ns = now_ns;
  rendezvous->thread = g_thread_try_new ("rendezvous", ps_rendezvous_serve, rendezvous, error);
  return rendezvous->thread != NULL;
}

PsRendezvous *
ps_rendezvous_join (const PsRendezvousSetting *setting, GError **error)
{
  PsRendezvous *rendezvous;

  g_return_val_if_fail (setting->rank < setting->n_ranks, NULL);

  rendezvous = rendezvous_new (setting);
  if ((rendezvous->n_peers > 0 && !ps_rendezvous_connect (rendezvous, error)) || !start_thread (rendezvous, error))
    {
      rendezvous_free (rendezvous);
      return NULL;
    }
  rendezvous->setting.host = rendezvous->setting.own_host = NULL;
  return rendezvous;
}

/* Sleeps on the lock until something has changed; FALSE when the deadline (0: none) has come. */
static gboolean
sleep_until (PsRendezvous *rendezvous, gint64 deadline_ns)
{
  struct timespec until = ps_clock_timespec (deadline_ns);

  if (deadline_ns == 0)
    return pthread_cond_wait (&rendezvous->changed, &rendezvous->lock) == 0;
  return pthread_cond_timedwait (&rendezvous->changed, &rendezvous->lock, &until) != ETIMEDOUT;
}

void
ps_rendezvous_leave (PsRendezvous *rendezvous)
{
  gint64 deadline_ns = ps_clock_now () + GOODBYE_NS;

  if (rendezvous == NULL)
    return;
  ps_rendezvous_watch (rendezvous, NULL, NULL);
  if (rendezvous->setting.rank > 0)
    ps_peer_tell (&rendezvous->peers[0], PS_FRAME_BYE);
  pthread_mutex_lock (&rendezvous->lock);
  rendezvous->leaving = TRUE;
  wake_thread (rendezvous);
  while (!rendezvous->ended && sleep_until (rendezvous, deadline_ns))
    ;
  rendezvous->stopped = TRUE;
  wake_thread (rendezvous);
  pthread_mutex_unlock (&rendezvous->lock);
  g_thread_join (rendezvous->thread);
  rendezvous_free (rendezvous);
}

guint
ps_rendezvous_rank (const PsRendezvous *rendezvous)
{
  return rendezvous->setting.rank;
}

guint
ps_rendezvous_n_ranks (const PsRendezvous *rendezvous)
{
  return rendezvous->setting.n_ranks;
}

/* Ranks below `end` on the own host. */
static guint
count_local (const PsRendezvous *rendezvous, guint end)
{
  guint n = 0;

  for (guint i = 0; i < end; i++)
    n += rendezvous->hosts[i] == rendezvous->hosts[rendezvous->setting.rank];
  return n;
}

guint
ps_rendezvous_n_local (const PsRendezvous *rendezvous)
{
  return count_local (rendezvous, rendezvous->setting.n_ranks);
}

guint
ps_rendezvous_local_rank (const PsRendezvous *rendezvous)
{
  return count_local (rendezvous, rendezvous->setting.rank);
}

gint64
ps_rendezvous_clock_offset (const PsRendezvous *rendezvous, guint rank, gint64 *uncertainty_ns)
{
  g_return_val_if_fail (rank < rendezvous->setting.n_ranks, 0);

  if (uncertainty_ns != NULL)
    *uncertainty_ns = rendezvous->setting.rank == 0 && rank > 0 ? rendezvous->peers[rank - 1].uncertainty_ns : 0;
  return rendezvous->offset_ns[rank];
}

gboolean
ps_rendezvous_check (PsRendezvous *rendezvous, GError **error)
{
  gboolean fine;

  pthread_mutex_lock (&rendezvous->lock);
  fine = rendezvous->failure == NULL;
  if (!fine && error != NULL)
    *error = g_error_copy (rendezvous->failure);
  pthread_mutex_unlock (&rendezvous->lock);
  return fine;
}

void
ps_rendezvous_abort (PsRendezvous *rendezvous, const GError *notice)
{
  GError *own = g_error_copy (notice);
  gint64 deadline_ns = ps_clock_now () + VERDICT_NS;

  if (own->domain != PS_ERROR)
    {
      own->domain = PS_ERROR;
      own->code = PS_ERROR_IO;
    }
  g_prefix_error (&own, "rank %u: ", rendezvous->setting.rank);
  if (rendezvous->setting.rank > 0 && ps_rendezvous_check (rendezvous, NULL))
    {
      ps_rendezvous_spread (rendezvous, own);
      pthread_mutex_lock (&rendezvous->lock);
      while (rendezvous->failure == NULL && sleep_until (rendezvous, deadline_ns))
        ;
      pthread_mutex_unlock (&rendezvous->lock);
    }
  ps_rendezvous_fail (rendezvous, own);
}

void
ps_rendezvous_watch (PsRendezvous *rendezvous, void (*failed) (gpointer data), gpointer data)
{
  pthread_mutex_lock (&rendezvous->watch_lock);
  rendezvous->failed = failed;
  rendezvous->failed_data = data;
  pthread_mutex_unlock (&rendezvous->watch_lock);
  if (failed != NULL && !ps_rendezvous_check (rendezvous, NULL))
    ps_rendezvous_call_watcher (rendezvous);
}

static gboolean
send_part (PsRendezvous *rendezvous, PsPeer *peer, PsFrameKind kind, gconstpointer part, gsize length, GError **error)
{
  g_autoptr (GByteArray) bytes = NULL;
  GError *failure = NULL;

  if (!ps_rendezvous_check (rendezvous, error))
    return FALSE;
  bytes = g_byte_array_sized_new ((guint)length + 16);
  ps_frame_append (bytes, kind, part, length);
  if (ps_peer_write (peer, bytes, ps_clock_now () + PS_FRAME_TIMEOUT_NS, &failure))
    return TRUE;
  g_prefix_error (&failure, "rank %u: ", peer->rank);
  ps_rendezvous_fail (rendezvous, failure);
  return ps_rendezvous_check (rendezvous, error);
}

gboolean
ps_rendezvous_send (PsRendezvous *rendezvous, guint to, gconstpointer bytes, gsize n_bytes, GError **error)
{
  PsPeer *peer = peer_of (rendezvous, to);
  const guint8 *at = bytes;

  g_return_val_if_fail (n_bytes <= PS_RENDEZVOUS_MAX_MESSAGE, FALSE);

  for (; n_bytes > PS_WIRE_MAX_PAYLOAD; n_bytes -= PS_WIRE_MAX_PAYLOAD, at += PS_WIRE_MAX_PAYLOAD)
    if (!send_part (rendezvous, peer, PS_FRAME_PART, at, PS_WIRE_MAX_PAYLOAD, error))
      return FALSE;
  return send_part (rendezvous, peer, PS_FRAME_LAST, at, n_bytes, error);
}

GBytes *
ps_rendezvous_receive (PsRendezvous *rendezvous, guint from, gint64 timeout_ns, GError **error)
{
  PsPeer *peer = peer_of (rendezvous, from);
  gint64 deadline_ns = timeout_ns > 0 ? ps_clock_now () + timeout_ns : 0;
  gboolean in_time = TRUE;
  GBytes *message;
  gboolean failed;

  pthread_mutex_lock (&rendezvous->lock);
  while (rendezvous->failure == NULL && g_queue_is_empty (&peer->messages) && !peer->left && in_time)
    in_time = sleep_until (rendezvous, deadline_ns);
  failed = rendezvous->failure != NULL;
  message = failed ? NULL : g_queue_pop_head (&peer->messages);
  pthread_mutex_unlock (&rendezvous->lock);
  if (failed)
    ps_rendezvous_check (rendezvous, error);
  else if (message == NULL && !in_time)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "waited %g s for rank %u", (double)timeout_ns / PS_SECOND_NS, from);
  else if (message == NULL)
    g_set_error (error, PS_ERROR, PS_ERROR_IO, "rank %u has left", from);
  return message;
}

/* A message of exactly that length, copied to a place. */
static gboolean
receive_exactly (PsRendezvous *rendezvous, guint from, gpointer to, gsize n_bytes, gint64 timeout_ns, GError **error)
{
  g_autoptr (GBytes) message = ps_rendezvous_receive (rendezvous, from, timeout_ns, error);

  if (message == NULL)
    return FALSE;
  if (g_bytes_get_size (message) != n_bytes)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "rank %u sent %" G_GSIZE_FORMAT " B instead of %" G_GSIZE_FORMAT,
                   from, g_bytes_get_size (message), n_bytes);
      return FALSE;
    }
  if (n_bytes > 0)
    memcpy (to, g_bytes_get_data (message, NULL), n_bytes);
  return TRUE;
}

/* *moment_ns: when the last rank had called it. */
static gboolean
trade (PsRendezvous *rendezvous, gconstpointer mine, gsize n_bytes, gpointer all, gint64 timeout_ns, gint64 *moment_ns,
       GError **error)
{
  guint n_ranks = rendezvous->setting.n_ranks;
  gboolean done = TRUE;
  guint8 *at = all;

  if (rendezvous->setting.rank > 0)
    {
      done = ps_rendezvous_send (rendezvous, 0, mine, n_bytes, error)
             && receive_exactly (rendezvous, 0, all, n_bytes * n_ranks, timeout_ns, error);
      *moment_ns = ps_clock_now ();
      return done;
    }
  if (n_bytes > 0)
    memcpy (at, mine, n_bytes);
  for (guint i = 1; i < n_ranks && done; i++)
    done = receive_exactly (rendezvous, i, at != NULL ? at + i * n_bytes : NULL, n_bytes, timeout_ns, error);
  *moment_ns = ps_clock_now ();
  for (guint i = 1; i < n_ranks && done; i++)
    done = ps_rendezvous_send (rendezvous, i, all, n_bytes * n_ranks, error);
  return done;
}

gboolean
ps_rendezvous_exchange (PsRendezvous *rendezvous, gconstpointer mine, gsize n_bytes, gpointer all, gint64 timeout_ns,
                        GError **error)
{
  gint64 moment_ns;

  return trade (rendezvous, mine, n_bytes, all, timeout_ns, &moment_ns, error);
}

gboolean
ps_rendezvous_meet (PsRendezvous *rendezvous, gint64 timeout_ns, gint64 *moment_ns, GError **error)
{
  return trade (rendezvous, NULL, 0, NULL, timeout_ns, moment_ns, error);
}
