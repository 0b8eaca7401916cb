/* rendezvous-join.c - how the ranks of a run find each other: rank 0 listens and greets, the others come. One thread,
 * one deadline. */
#include "rendezvous-private.h"

#include "clock.h"
#include "socket.h"

#include <pipesim/base.h>

#include <poll.h>
#include <unistd.h>

#define GREETING_NS (5 * G_GINT64_CONSTANT (1000000000)) /* for a connection to say who it is */
#define MAX_UNGREETED 256                                /* connections that have not */
#define N_PINGS 16

/* A connection that has not said yet who it is. */
typedef struct
{
  int fd;
  gint64 deadline_ns;
  PsWireReader reader;
} Guest;

static void
guest_free (gpointer data)
{
  Guest *guest = data;

  if (guest->fd >= 0)
    close (guest->fd);
  ps_wire_reader_clear (&guest->reader);
  g_free (guest);
}

static gboolean
write_frames (int fd, const GByteArray *bytes, GError **error)
{
  return ps_socket_write (fd, bytes->data, bytes->len, ps_clock_now () + PS_FRAME_TIMEOUT_NS, error);
}

static gboolean
write_frame (int fd, PsFrameKind kind, gconstpointer payload, gsize length, GError **error)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();

  ps_frame_append (bytes, kind, payload, length);
  return write_frames (fd, bytes, error);
}

/* The next frame of a connection. Errors do not name the rank. */
static gboolean
read_frame (int fd, PsWireReader *reader, gint64 deadline_ns, PsFrame *frame, GError **error)
{
  GError *wrong = NULL;
  guint8 bytes[4096];

  while (!ps_wire_reader_next (reader, frame, &wrong))
    {
      gssize n = 0;

      if (wrong == NULL && ps_socket_await (fd, POLLIN, deadline_ns))
        n = ps_socket_read (fd, bytes, sizeof bytes);
      else if (wrong == NULL)
        g_set_error (&wrong, PS_ERROR, PS_ERROR_IO, "said nothing in time");
      if (n < 0)
        g_set_error (&wrong, PS_ERROR, PS_ERROR_IO, "has closed the connection");
      if (wrong != NULL)
        {
          g_propagate_error (error, wrong);
          return FALSE;
        }
      ps_wire_reader_feed (reader, bytes, (gsize)n);
    }
  return TRUE;
}

static gboolean
refuse (GError **error, guint rank, const char *text)
{
  g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "rank %u: %s", rank, text);
  return FALSE;
}

/* What is wrong with a greeting. The guest speaks our language, so it belongs here, and what is wrong is everybody's
 * business. */
static gboolean
check_hello (PsRendezvous *rendezvous, const PsHello *hello, GError **error)
{
  g_autofree char *text = NULL;

  if (rendezvous->failure != NULL)
    {
      *error = g_error_copy (rendezvous->failure);
      return FALSE;
    }
  if (hello->version != PS_WIRE_VERSION)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE,
                   "rendezvous at %s port %u: a rank speaks version %u of pipesim's language, rank 0 version %d",
                   rendezvous->setting.host, rendezvous->setting.port, hello->version, PS_WIRE_VERSION);
      return FALSE;
    }
  if (hello->n_ranks != rendezvous->setting.n_ranks)
    text = g_strdup_printf ("is one of %u ranks, rank 0 one of %u", hello->n_ranks, rendezvous->setting.n_ranks);
  else if (hello->rank == 0 || hello->rank > rendezvous->n_peers)
    text = g_strdup_printf ("can't join: others than 0 are 1 to %u", rendezvous->n_peers);
  else if (rendezvous->peers[hello->rank - 1].fd >= 0)
    text = g_strdup ("has joined twice");
  return text == NULL || refuse (error, hello->rank, text);
}

static void
admit (PsRendezvous *rendezvous, Guest *guest, const PsHello *hello)
{
  PsPeer *peer = &rendezvous->peers[hello->rank - 1];

  peer->fd = guest->fd;
  guest->fd = -1;
  ps_wire_reader_clear (&peer->reader);
  peer->reader = guest->reader;
  ps_wire_reader_init (&guest->reader);
  g_strlcpy (peer->host, hello->host, sizeof peer->host);
}

/* Hears a guest out. *done: it is no guest any more, be it that it has joined or is a stranger. */
static gboolean
hear_guest (PsRendezvous *rendezvous, Guest *guest, gboolean *done, GError **error)
{
  PsFrame frame;
  PsHello hello;
  GError *wrong = NULL;
  guint8 bytes[1024];
  gssize n = ps_socket_read (guest->fd, bytes, sizeof bytes);

  if (n > 0)
    ps_wire_reader_feed (&guest->reader, bytes, (gsize)n);
  *done = TRUE;
  if (!ps_wire_reader_next (&guest->reader, &frame, &wrong))
    *done = n < 0 || wrong != NULL;
  else if (ps_hello_read (&frame, &hello, &wrong))
    {
      if (check_hello (rendezvous, &hello, error))
        admit (rendezvous, guest, &hello);
      else
        {
          g_autoptr (GByteArray) answer = g_byte_array_new ();

          ps_notice_append (answer, PS_FRAME_REFUSE, *error);
          write_frames (guest->fd, answer, NULL);
          return FALSE;
        }
    }
  g_clear_error (&wrong);
  return TRUE;
}

static guint
count_missing (const PsRendezvous *rendezvous)
{
  guint n = 0;

  for (guint i = 0; i < rendezvous->n_peers; i++)
    n += rendezvous->peers[i].fd < 0;
  return n;
}

/* Waits for news from the listener (last) or the guests, and hears them. */
static gboolean
hear_guests (PsRendezvous *rendezvous, int listener, GPtrArray *guests, gint64 deadline_ns, GError **error)
{
  g_autofree struct pollfd *items = g_new0 (struct pollfd, guests->len + 1);
  guint n = guests->len;

  for (guint i = 0; i < n; i++)
    {
      const Guest *guest = g_ptr_array_index (guests, i);

      items[i] = (struct pollfd){ .fd = guest->fd, .events = POLLIN };
      deadline_ns = MIN (deadline_ns, guest->deadline_ns);
    }
  items[n] = (struct pollfd){ .fd = n < MAX_UNGREETED ? listener : -1, .events = POLLIN };
  poll (items, n + 1, ps_socket_timeout (deadline_ns));
  for (guint i = n; i-- > 0;)
    {
      Guest *guest = g_ptr_array_index (guests, i);
      gboolean done = guest->deadline_ns <= ps_clock_now ();

      if (items[i].revents != 0 && !hear_guest (rendezvous, guest, &done, error))
        {
          g_ptr_array_remove_index_fast (guests, i);
          return FALSE;
        }
      if (done)
        g_ptr_array_remove_index_fast (guests, i);
    }
  return TRUE;
}

static void
accept_guest (int listener, GPtrArray *guests)
{
  int fd = ps_socket_accept (listener);
  Guest *guest;

  if (fd < 0)
    return;
  guest = g_new0 (Guest, 1);
  *guest = (Guest){ .fd = fd, .deadline_ns = ps_clock_now () + GREETING_NS };
  ps_wire_reader_init (&guest->reader);
  g_ptr_array_add (guests, guest);
}

static gboolean
fail_missing (const PsRendezvous *rendezvous, GError **error)
{
  GString *ranks = g_string_new (NULL);

  for (guint i = 0; i < rendezvous->n_peers; i++)
    if (rendezvous->peers[i].fd < 0)
      g_string_append_printf (ranks, "%s%u", ranks->len > 0 ? ", " : "", i + 1);
  g_set_error (error, PS_ERROR, PS_ERROR_IO,
               "rendezvous at %s port %u: of ranks 1 to %u these did not come in %g s: %s", rendezvous->setting.host,
               rendezvous->setting.port, rendezvous->n_peers, (double)rendezvous->setting.join_ns / 1e9, ranks->str);
  g_string_free (ranks, TRUE);
  return FALSE;
}

/* Those who have come would wait in vain. */
static void
dismiss_ranks (PsRendezvous *rendezvous, const GError *notice)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();

  ps_notice_append (bytes, PS_FRAME_REFUSE, notice);
  for (guint i = 0; i < rendezvous->n_peers; i++)
    if (rendezvous->peers[i].fd >= 0)
      write_frames (rendezvous->peers[i].fd, bytes, NULL);
}

/* Ranks that come a little later than the one that has spoilt it are told so. */
static void
refuse_late_ranks (PsRendezvous *rendezvous, int listener, GPtrArray *guests, GError *failure)
{
  gint64 deadline_ns = ps_clock_now () + GREETING_NS;
  guint n_late = count_missing (rendezvous) - 1;

  rendezvous->failure = failure;
  while (n_late > 0 && ps_clock_now () < deadline_ns)
    {
      g_autoptr (GError) refused = NULL;

      if (!hear_guests (rendezvous, listener, guests, deadline_ns, &refused))
        n_late--;
      accept_guest (listener, guests);
    }
  rendezvous->failure = NULL;
}

/* Rank 0: takes connections until every rank has one. */
static gboolean
gather_ranks (PsRendezvous *rendezvous, int listener, gint64 deadline_ns, GError **error)
{
  g_autoptr (GPtrArray) guests = g_ptr_array_new_with_free_func (guest_free);

  while (count_missing (rendezvous) > 0)
    {
      if (ps_clock_now () >= deadline_ns)
        return fail_missing (rendezvous, error);
      if (!hear_guests (rendezvous, listener, guests, deadline_ns, error))
        {
          dismiss_ranks (rendezvous, *error);
          refuse_late_ranks (rendezvous, listener, guests, *error);
          return FALSE;
        }
      if (guests->len < MAX_UNGREETED)
        accept_guest (listener, guests);
    }
  return TRUE;
}

static gboolean
measure_clock (PsRendezvous *rendezvous, PsPeer *peer, gint64 deadline_ns, GError **error)
{
  gint64 sent_ns[N_PINGS], there_ns[N_PINGS], came_ns[N_PINGS];

  for (guint i = 0; i < N_PINGS; i++)
    {
      PsFrame frame;

      sent_ns[i] = ps_clock_now ();
      if (!write_frame (peer->fd, PS_FRAME_PING, NULL, 0, error)
          || !read_frame (peer->fd, &peer->reader, deadline_ns, &frame, error))
        return FALSE;
      came_ns[i] = ps_clock_now ();
      if (frame.kind != PS_FRAME_PONG || frame.length != 8)
        {
          g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "answered a question with something else");
          return FALSE;
        }
      there_ns[i] = (gint64)ps_wire_get (frame.payload, 8);
    }
  rendezvous->offset_ns[peer->rank] = ps_clock_estimate (sent_ns, there_ns, came_ns, N_PINGS, &peer->uncertainty_ns);
  return TRUE;
}

static void
find_hosts (PsRendezvous *rendezvous)
{
  for (guint i = 0; i < rendezvous->n_peers; i++)
    {
      const char *host = rendezvous->peers[i].host;
      guint first = 0;

      if (!g_str_equal (host, rendezvous->host))
        for (first = 1; !g_str_equal (host, rendezvous->peers[first - 1].host);)
          first++;
      rendezvous->hosts[i + 1] = first;
    }
}

/* Rank 0: all are there; measures their clocks and lets them go on. */
static gboolean
start_ranks (PsRendezvous *rendezvous, gint64 deadline_ns, GError **error)
{
  guint n_ranks = rendezvous->setting.n_ranks;
  gsize n_bytes = PS_START_SIZE * (gsize)n_ranks;
  g_autofree guint8 *payload = g_malloc0 (n_bytes);

  find_hosts (rendezvous);
  for (guint i = 0; i < rendezvous->n_peers; i++)
    if (rendezvous->hosts[i + 1] != 0 && !measure_clock (rendezvous, &rendezvous->peers[i], deadline_ns, error))
      {
        g_prefix_error (error, "rank %u: ", i + 1);
        return FALSE;
      }
  for (guint i = 0; i < n_ranks; i++)
    {
      ps_wire_put (payload + PS_START_SIZE * (gsize)i, 4, rendezvous->hosts[i]);
      ps_wire_put (payload + PS_START_SIZE * (gsize)i + 4, 8, (guint64)rendezvous->offset_ns[i]);
    }
  for (guint i = 0; i < rendezvous->n_peers; i++)
    if (!write_frame (rendezvous->peers[i].fd, PS_FRAME_START, payload, n_bytes, error))
      {
        g_prefix_error (error, "rank %u: ", i + 1);
        return FALSE;
      }
  return TRUE;
}

static gboolean
host_ranks (PsRendezvous *rendezvous, gint64 deadline_ns, GError **error)
{
  const PsRendezvousSetting *setting = &rendezvous->setting;
  GError *failure = NULL;
  int listener = ps_socket_listen (setting->host, setting->port, &failure);

  if (listener < 0)
    g_prefix_error (&failure, "rendezvous at ");
  else if (!gather_ranks (rendezvous, listener, deadline_ns, &failure)
           || !start_ranks (rendezvous, deadline_ns, &failure))
    dismiss_ranks (rendezvous, failure);
  if (listener >= 0)
    close (listener);
  if (failure != NULL)
    g_propagate_error (error, failure);
  return failure == NULL;
}

static gboolean
take_start (PsRendezvous *rendezvous, const PsFrame *frame, GError **error)
{
  guint n_ranks = rendezvous->setting.n_ranks;

  if (frame->length != PS_START_SIZE * n_ranks)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "sent a start for another number of ranks");
      return FALSE;
    }
  for (guint i = 0; i < n_ranks; i++)
    {
      const guint8 *entry = frame->payload + PS_START_SIZE * (gsize)i;

      rendezvous->hosts[i] = (guint)ps_wire_get (entry, 4);
      rendezvous->offset_ns[i] = (gint64)ps_wire_get (entry + 4, 8);
    }
  return TRUE;
}

static gboolean
answer_ping (PsPeer *peer, GError **error)
{
  guint8 now[8];

  ps_wire_put (now, sizeof now, (guint64)ps_clock_now ());
  return write_frame (peer->fd, PS_FRAME_PONG, now, sizeof now, error);
}

/* Does what rank 0 says until it says start. */
static gboolean
await_start (PsRendezvous *rendezvous, gint64 deadline_ns, GError **error)
{
  PsPeer *peer = &rendezvous->peers[0];
  PsFrame frame;
  GError *notice;

  while (read_frame (peer->fd, &peer->reader, deadline_ns, &frame, error))
    switch (frame.kind)
      {
      case PS_FRAME_START:
        return take_start (rendezvous, &frame, error);
      case PS_FRAME_PING:
        if (!answer_ping (peer, error))
          return FALSE;
        break;
      case PS_FRAME_REFUSE:
        if ((notice = ps_notice_read (&frame, error)) != NULL)
          g_propagate_error (error, notice);
        return FALSE;
      default:
        g_set_error (error, PS_ERROR, PS_ERROR_INPUT, "sent a frame of kind %u before the start", frame.kind);
        return FALSE;
      }
  return FALSE;
}

static gboolean
visit_host (PsRendezvous *rendezvous, gint64 deadline_ns, GError **error)
{
  const PsRendezvousSetting *setting = &rendezvous->setting;
  PsPeer *peer = &rendezvous->peers[0];
  PsHello hello = { .version = PS_WIRE_VERSION, .rank = setting->rank, .n_ranks = setting->n_ranks };
  g_autoptr (GByteArray) bytes = g_byte_array_new ();

  peer->fd = ps_socket_connect (setting->host, setting->port, deadline_ns, error);
  if (peer->fd < 0)
    {
      g_prefix_error (error, "rendezvous at ");
      return FALSE;
    }
  g_strlcpy (hello.host, rendezvous->host, sizeof hello.host);
  ps_hello_append (bytes, &hello);
  /* Rank 0 knows better than this one which ranks are missing, so it may speak first. */
  if (write_frames (peer->fd, bytes, error) && await_start (rendezvous, deadline_ns + GREETING_NS, error))
    return TRUE;
  if (!g_str_has_prefix ((*error)->message, "rank ") && !g_str_has_prefix ((*error)->message, "rendezvous at "))
    g_prefix_error (error, "rendezvous at %s port %u: what listens there ", setting->host, setting->port);
  return FALSE;
}

gboolean
ps_rendezvous_connect (PsRendezvous *rendezvous, GError **error)
{
  gint64 deadline_ns = ps_clock_now () + rendezvous->setting.join_ns;

  return rendezvous->setting.rank == 0 ? host_ranks (rendezvous, deadline_ns, error)
                                       : visit_host (rendezvous, deadline_ns, error);
}
