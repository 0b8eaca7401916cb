/* rendezvous-serve.c - the thread that reads all connections of a rank: it keeps what comes until somebody asks for it,
 * says every second that this process is alive, and spreads bad news at once. */
#include "rendezvous-private.h"

#include "clock.h"
#include "socket.h"

#include <pipesim/base.h>

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#define NOTICE_NS PS_SECOND_NS /* for bad news to be written to one rank */
#define READ_SIZE (256 * 1024)

/* FALSE when it is not free in time. */
static gboolean
lock_in_time (pthread_mutex_t *mutex, gint64 deadline_ns)
{
  while (pthread_mutex_trylock (mutex) != 0)
    {
      if (ps_clock_now () >= deadline_ns)
        return FALSE;
      g_usleep (500);
    }
  return TRUE;
}

gboolean
ps_peer_write (PsPeer *peer, const GByteArray *bytes, gint64 deadline_ns, GError **error)
{
  gboolean written;

  if (!lock_in_time (&peer->writing, deadline_ns))
    {
      g_set_error (error, PS_ERROR, PS_ERROR_IO, "can't be written to: %s", g_strerror (ETIMEDOUT));
      return FALSE;
    }
  written = ps_socket_write (peer->fd, bytes->data, bytes->len, deadline_ns, error);
  pthread_mutex_unlock (&peer->writing);
  return written;
}

void
ps_peer_tell (PsPeer *peer, PsFrameKind kind)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();

  ps_frame_append (bytes, kind, NULL, 0);
  ps_peer_write (peer, bytes, ps_clock_now () + NOTICE_NS, NULL);
}

void
ps_rendezvous_spread (PsRendezvous *rendezvous, const GError *notice)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();

  ps_notice_append (bytes, PS_FRAME_ABORT, notice);
  for (guint i = 0; i < rendezvous->n_peers; i++)
    ps_peer_write (&rendezvous->peers[i], bytes, ps_clock_now () + NOTICE_NS, NULL);
}

void
ps_rendezvous_call_watcher (PsRendezvous *rendezvous)
{
  pthread_mutex_lock (&rendezvous->watch_lock);
  if (rendezvous->failed != NULL)
    rendezvous->failed (rendezvous->failed_data);
  rendezvous->failed = NULL;
  pthread_mutex_unlock (&rendezvous->watch_lock);
}

void
ps_rendezvous_fail (PsRendezvous *rendezvous, GError *notice)
{
  g_autoptr (GError) copy = g_error_copy (notice);
  gboolean first;

  pthread_mutex_lock (&rendezvous->lock);
  first = rendezvous->failure == NULL;
  if (first)
    rendezvous->failure = g_steal_pointer (&notice);
  pthread_cond_broadcast (&rendezvous->changed);
  pthread_mutex_unlock (&rendezvous->lock);
  g_clear_error (&notice);
  if (!first)
    return;
  if (rendezvous->setting.rank == 0)
    ps_rendezvous_spread (rendezvous, copy);
  ps_rendezvous_call_watcher (rendezvous);
}

static void
lose_peer (PsRendezvous *rendezvous, PsPeer *peer, const char *text)
{
  peer->gone = TRUE;
  ps_rendezvous_fail (rendezvous, g_error_new (PS_ERROR, PS_ERROR_IO, "rank %u: %s", peer->rank, text));
}

static void
take_part (PsRendezvous *rendezvous, PsPeer *peer, const PsFrame *frame)
{
  if (peer->partial->len + (gsize)frame->length > PS_RENDEZVOUS_MAX_MESSAGE)
    {
      lose_peer (rendezvous, peer, "sent a message that is too long");
      return;
    }
  g_byte_array_append (peer->partial, frame->payload, frame->length);
  if (frame->kind == PS_FRAME_PART)
    return;
  pthread_mutex_lock (&rendezvous->lock);
  g_queue_push_tail (&peer->messages, g_byte_array_free_to_bytes (peer->partial));
  pthread_cond_broadcast (&rendezvous->changed);
  pthread_mutex_unlock (&rendezvous->lock);
  peer->partial = g_byte_array_new ();
}

static void
take_goodbye (PsRendezvous *rendezvous, PsPeer *peer)
{
  /* The answer: from here on it may close. */
  if (rendezvous->setting.rank == 0)
    ps_peer_tell (peer, PS_FRAME_BYE);
  pthread_mutex_lock (&rendezvous->lock);
  peer->left = TRUE;
  pthread_cond_broadcast (&rendezvous->changed);
  pthread_mutex_unlock (&rendezvous->lock);
}

static void
take_frame (PsRendezvous *rendezvous, PsPeer *peer, const PsFrame *frame)
{
  GError *notice;

  switch (frame->kind)
    {
    case PS_FRAME_PART:
    case PS_FRAME_LAST:
      take_part (rendezvous, peer, frame);
      break;
    case PS_FRAME_BEAT:
      break;
    case PS_FRAME_BYE:
      take_goodbye (rendezvous, peer);
      break;
    case PS_FRAME_ABORT:
      notice = ps_notice_read (frame, NULL);
      if (notice != NULL)
        ps_rendezvous_fail (rendezvous, notice);
      else
        lose_peer (rendezvous, peer, "has failed without saying how");
      break;
    default:
      lose_peer (rendezvous, peer, "sent a frame that does not belong into a run");
      break;
    }
}

/* Reads what has come; buffer has READ_SIZE bytes. */
static void
hear_peer (PsRendezvous *rendezvous, PsPeer *peer, guint8 *buffer)
{
  g_autoptr (GError) wrong = NULL;
  PsFrame frame;
  gssize n = ps_socket_read (peer->fd, buffer, READ_SIZE);

  if (n > 0)
    {
      peer->heard_ns = ps_clock_now ();
      ps_wire_reader_feed (&peer->reader, buffer, (gsize)n);
    }
  while (!peer->gone && ps_wire_reader_next (&peer->reader, &frame, &wrong))
    take_frame (rendezvous, peer, &frame);
  if (wrong != NULL)
    lose_peer (rendezvous, peer, wrong->message);
  else if (n < 0 && peer->left)
    peer->gone = TRUE;
  else if (n < 0)
    lose_peer (rendezvous, peer, "has ended without a word");
}

/* What is due by the clock. */
static void
look_after_peers (PsRendezvous *rendezvous)
{
  g_autoptr (GByteArray) beat = g_byte_array_new ();
  gint64 now_ns = ps_clock_now ();
  gboolean beats = now_ns >= rendezvous->beat_ns;

  ps_frame_append (beat, PS_FRAME_BEAT, NULL, 0);
  if (beats)
    rendezvous->beat_ns = now_ns + PS_BEAT_NS;
  for (guint i = 0; i < rendezvous->n_peers; i++)
    {
      PsPeer *peer = &rendezvous->peers[i];

      if (peer->gone || peer->left)
        continue;
      /* Where much is on its way, that shows life enough. */
      if (beats && ps_socket_await (peer->fd, POLLOUT, 0))
        ps_peer_write (peer, beat, now_ns, NULL);
      if (now_ns - peer->heard_ns > rendezvous->setting.silence_ns)
        {
          g_autofree char *text
              = g_strdup_printf ("was silent for %g s", (double)rendezvous->setting.silence_ns / PS_SECOND_NS);

          lose_peer (rendezvous, peer, text);
        }
    }
}

static gboolean
all_gone (const PsRendezvous *rendezvous)
{
  for (guint i = 0; i < rendezvous->n_peers; i++)
    if (!rendezvous->peers[i].gone && !rendezvous->peers[i].left)
      return FALSE;
  return TRUE;
}

/* Whether the thread goes on. */
static gboolean
note_ends (PsRendezvous *rendezvous)
{
  gboolean stopped;

  pthread_mutex_lock (&rendezvous->lock);
  rendezvous->ended = rendezvous->leaving && all_gone (rendezvous);
  if (rendezvous->ended)
    pthread_cond_broadcast (&rendezvous->changed);
  stopped = rendezvous->stopped;
  pthread_mutex_unlock (&rendezvous->lock);
  return !stopped;
}

gpointer
ps_rendezvous_serve (gpointer data)
{
  PsRendezvous *rendezvous = data;
  guint n = rendezvous->n_peers;
  g_autofree struct pollfd *items = g_new0 (struct pollfd, n + 1);
  g_autofree guint8 *buffer = g_malloc (READ_SIZE);
  guint64 count;

  items[n] = (struct pollfd){ .fd = rendezvous->wake, .events = POLLIN };
  /* What came along with the last frame of the joining is there already. */
  for (guint i = 0; i < n; i++)
    hear_peer (rendezvous, &rendezvous->peers[i], buffer);
  while (note_ends (rendezvous))
    {
      for (guint i = 0; i < n; i++)
        items[i] = (struct pollfd){ .fd = rendezvous->peers[i].gone ? -1 : rendezvous->peers[i].fd, .events = POLLIN };
      poll (items, n + 1, ps_socket_timeout (rendezvous->beat_ns));
      if (items[n].revents != 0 && read (rendezvous->wake, &count, sizeof count) < 0)
        continue;
      for (guint i = 0; i < n; i++)
        if (items[i].revents != 0)
          hear_peer (rendezvous, &rendezvous->peers[i], buffer);
      look_after_peers (rendezvous);
    }
  return NULL;
}
