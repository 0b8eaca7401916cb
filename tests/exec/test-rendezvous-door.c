/* Tests of rendezvous, at the door: strangers, wrong ranks, ranks that do not come and such that say nothing more. */
#include "rendezvous-rig.h"
#include "processes/socket.h"
#include "processes/wire.h"

#include <pipesim/base.h>

#include <poll.h>
#include <string.h>
#include <unistd.h>

/* A rank that greets like one of ours and then says nothing more. */
static void
stay_silent (Rank *rank)
{
  gint64 moment_ns;

  g_assert_false (ps_rendezvous_meet (rank->rendezvous, PATIENCE_NS, &moment_ns, &rank->error));
}

static int
connect_as (guint16 port, const PsHello *hello)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  int fd = ps_socket_connect ("127.0.0.1", port, ps_clock_now () + PATIENCE_NS, NULL);

  g_assert_cmpint (fd, >=, 0);
  ps_hello_append (bytes, hello);
  g_assert_true (ps_socket_write (fd, bytes->data, bytes->len, ps_clock_now () + PATIENCE_NS, NULL));
  return fd;
}

static void
test_silence (void)
{
  const PsHello hello = { .version = PS_WIRE_VERSION, .rank = 1, .n_ranks = 2, .host = "mute" };
  Rank rank = { .setting = setting_of (0, 2, free_port ()), .act = stay_silent };
  GThread *thread;
  int fd;

  rank.setting.own_host = "mute";
  rank.setting.silence_ns = SECOND_NS / 10;
  thread = g_thread_new ("rank", rank_main, &rank);
  fd = connect_as (rank.setting.port, &hello);
  g_thread_join (thread);
  close (fd);
  g_assert_cmpstr (rank.error->message, ==, "rank 1: was silent for 0.1 s");
  rank_clear (&rank);
}

/* Waits until the other end closes; reads what it says before. */
static void
assert_closed (int fd)
{
  guint8 bytes[256];

  do
    g_assert_true (ps_socket_await (fd, POLLIN, ps_clock_now () + PATIENCE_NS));
  while (ps_socket_read (fd, bytes, sizeof bytes) >= 0);
  close (fd);
}

/* Somebody else's connections are dropped, and disturb nobody. */
static void
test_strangers (void)
{
  static const char *const words[] = { "GET / HTTP/1.1\r\n\r\n", "PSIM\2\0\0\0\0\0\0\0", "", "PSI" };
  guint16 port = free_port ();
  Rank ranks[2]
      = { { .setting = setting_of (0, 2, port), .act = talk }, { .setting = setting_of (1, 2, port), .act = talk } };
  GThread *threads[2];
  int mute;

  threads[0] = g_thread_new ("rank", rank_main, &ranks[0]);
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    {
      int fd = ps_socket_connect ("127.0.0.1", port, ps_clock_now () + PATIENCE_NS, NULL);

      g_assert_true (
          ps_socket_write (fd, words[i], i == 1 ? 12 : strlen (words[i]), ps_clock_now () + PATIENCE_NS, NULL));
      if (i < 2)
        assert_closed (fd);
      else
        close (fd);
    }
  mute = ps_socket_connect ("127.0.0.1", port, ps_clock_now () + PATIENCE_NS, NULL);
  threads[1] = g_thread_new ("rank", rank_main, &ranks[1]);
  for (guint i = 0; i < 2; i++)
    {
      g_thread_join (threads[i]);
      g_assert_no_error (ranks[i].error);
    }
  close (mute);
}

static void
must_not_start (Rank *rank)
{
  g_assert_not_reached ();
}

/* One of ours that can't belong here ends the run for all: rank 0 and rank 1, who has come, too. */
static void
check_misfit (PsHello misfit, const char *message)
{
  guint16 port = free_port ();
  Rank ranks[2] = { { .setting = setting_of (0, 3, port), .act = must_not_start },
                    { .setting = setting_of (1, 3, port), .act = must_not_start } };
  const PsHello twin = { .version = PS_WIRE_VERSION, .rank = 1, .n_ranks = 3, .host = "x" };
  gboolean has_twin = misfit.rank == 1 && misfit.version == PS_WIRE_VERSION && misfit.n_ranks == 3;
  GThread *threads[2] = { NULL };
  int fd[2] = { -1, -1 };

  threads[0] = g_thread_new ("rank", rank_main, &ranks[0]);
  if (has_twin)
    fd[0] = connect_as (port, &twin);
  else
    threads[1] = g_thread_new ("rank", rank_main, &ranks[1]);
  fd[1] = connect_as (port, &misfit);
  g_thread_join (threads[0]);
  g_assert_error (ranks[0].error, PS_ERROR, PS_ERROR_UNAVAILABLE);
  g_assert_true (g_str_has_suffix (ranks[0].error->message, message));
  for (guint i = 0; i < 2; i++)
    if (fd[i] >= 0)
      assert_closed (fd[i]);
  if (threads[1] != NULL)
    {
      g_thread_join (threads[1]);
      g_assert_nonnull (ranks[1].error);
    }
  rank_clear (&ranks[0]);
  rank_clear (&ranks[1]);
}

static void
test_misfits (void)
{
  check_misfit ((PsHello){ .version = 77, .rank = 1, .n_ranks = 3, .host = "x" },
                ": a rank speaks version 77 of pipesim's language, rank 0 version 1");
  check_misfit ((PsHello){ .version = PS_WIRE_VERSION, .rank = 2, .n_ranks = 4, .host = "x" },
                "rank 2: is one of 4 ranks, rank 0 one of 3");
  check_misfit ((PsHello){ .version = PS_WIRE_VERSION, .rank = 3, .n_ranks = 3, .host = "x" },
                "rank 3: can't join: others than 0 are 1 to 2");
  check_misfit ((PsHello){ .version = PS_WIRE_VERSION, .rank = 0, .n_ranks = 3, .host = "x" },
                "rank 0: can't join: others than 0 are 1 to 2");
  check_misfit ((PsHello){ .version = PS_WIRE_VERSION, .rank = 1, .n_ranks = 3, .host = "x" },
                "rank 1: has joined twice");
}

/* A refused rank says what rank 0 said. */
static void
test_refused (void)
{
  guint16 port = free_port ();
  Rank ranks[2] = { { .setting = setting_of (0, 2, port), .act = must_not_start },
                    { .setting = setting_of (2, 3, port), .act = must_not_start } };
  GThread *threads[2];

  for (guint i = 0; i < 2; i++)
    threads[i] = g_thread_new ("rank", rank_main, &ranks[i]);
  for (guint i = 0; i < 2; i++)
    {
      g_thread_join (threads[i]);
      g_assert_error (ranks[i].error, PS_ERROR, PS_ERROR_UNAVAILABLE);
      g_assert_cmpstr (ranks[i].error->message, ==, "rank 2: is one of 3 ranks, rank 0 one of 2");
      rank_clear (&ranks[i]);
    }
}

static void
test_missing (void)
{
  Rank rank = { .setting = setting_of (0, 4, free_port ()), .act = must_not_start };
  g_autofree char *message = NULL;

  rank.setting.join_ns = SECOND_NS / 20;
  rank_main (&rank);
  message = g_strdup_printf ("rendezvous at 127.0.0.1 port %u: of ranks 1 to 3 these did not come in 0.05 s: 1, 2, 3",
                             rank.setting.port);
  g_assert_error (rank.error, PS_ERROR, PS_ERROR_IO);
  g_assert_cmpstr (rank.error->message, ==, message);
  rank_clear (&rank);
}

/* No rank 0 at all, and something else in its place. */
static void
test_no_host (void)
{
  Rank rank = { .setting = setting_of (1, 2, free_port ()), .act = must_not_start };
  g_autofree char *message = NULL;
  int listener, fd;
  GThread *thread;

  rank.setting.join_ns = SECOND_NS / 10;
  rank_main (&rank);
  message = g_strdup_printf ("rendezvous at 127.0.0.1 port %u: Connection refused", rank.setting.port);
  g_assert_cmpstr (rank.error->message, ==, message);
  rank_clear (&rank);

  rank.setting.join_ns = PATIENCE_NS;
  listener = ps_socket_listen ("127.0.0.1", rank.setting.port, NULL);
  g_assert_cmpint (listener, >=, 0);
  thread = g_thread_new ("rank", rank_main, &rank);
  g_assert_true (ps_socket_await (listener, POLLIN, ps_clock_now () + PATIENCE_NS));
  fd = ps_socket_accept (listener);
  g_assert_true (ps_socket_write (fd, "220 ready\r\n", 11, ps_clock_now () + PATIENCE_NS, NULL));
  g_thread_join (thread);
  g_assert_true (g_str_has_suffix (rank.error->message, ": what listens there does not speak pipesim's language"));
  rank_clear (&rank);
  close (fd);
  close (listener);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/rendezvous/door/silence", test_silence);
  g_test_add_func ("/rendezvous/door/strangers", test_strangers);
  g_test_add_func ("/rendezvous/door/misfits", test_misfits);
  g_test_add_func ("/rendezvous/door/refused", test_refused);
  g_test_add_func ("/rendezvous/door/missing", test_missing);
  g_test_add_func ("/rendezvous/door/no-host", test_no_host);
  return g_test_run ();
}
