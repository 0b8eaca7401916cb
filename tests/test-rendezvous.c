/* Tests of rendezvous: ranks as threads and as processes, ranks that die, strangers and wrong ranks at the door. */
#include "rendezvous.h"

#include "clock.h"
#include "port.h"
#include "socket.h"
#include "wire.h"

#include <pipesim/base.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define PATIENCE_NS (60 * SECOND_NS) /* more than any wait that is to end */

/* A rank in a thread. */
typedef struct Rank Rank;
struct Rank
{
  PsRendezvousSetting setting;
  void (*act) (Rank *rank); /* what it does once all are there */
  GError *error;            /* of joining, or as act leaves it */
  PsRendezvous *rendezvous;
  gint n_failed; /* atomic: calls of the watcher */
};

static gpointer
rank_main (gpointer data)
{
  Rank *rank = data;

  rank->rendezvous = ps_rendezvous_join (&rank->setting, &rank->error);
  if (rank->rendezvous != NULL)
    rank->act (rank);
  ps_rendezvous_leave (rank->rendezvous);
  return NULL;
}

static PsRendezvousSetting
setting_of (guint rank, guint n_ranks, guint16 port)
{
  return (PsRendezvousSetting){ .rank = rank,
                                .n_ranks = n_ranks,
                                .host = "127.0.0.1",
                                .port = port,
                                .join_ns = PATIENCE_NS,
                                .silence_ns = PATIENCE_NS };
}

static void
rank_clear (Rank *rank)
{
  g_clear_error (&rank->error);
}

/* Runs n ranks to their end; prepare may change a rank's setting. */
static void
run_ranks (Rank *ranks, guint n, void (*act) (Rank *rank), void (*prepare) (Rank *rank))
{
  guint16 port = free_port ();
  g_autofree GThread **threads = g_new0 (GThread *, n);

  for (guint i = 0; i < n; i++)
    {
      ranks[i] = (Rank){ .setting = setting_of (i, n, port), .act = act };
      if (prepare != NULL)
        prepare (&ranks[i]);
    }
  /* Rank 0 last: the others wait for it to come. */
  for (guint i = n; i-- > 0;)
    threads[i] = g_thread_new ("rank", rank_main, &ranks[i]);
  for (guint i = 0; i < n; i++)
    g_thread_join (threads[i]);
}

static void
talk (Rank *rank)
{
  PsRendezvous *rendezvous = rank->rendezvous;
  guint n = rank->setting.n_ranks, number = 100 + rank->setting.rank;
  guint all[5] = { 0 };
  gint64 before_ns, moment_ns;

  g_assert_cmpuint (ps_rendezvous_rank (rendezvous), ==, rank->setting.rank);
  g_assert_cmpuint (ps_rendezvous_n_ranks (rendezvous), ==, n);
  for (guint round = 0; round < 20; round++)
    {
      g_assert_true (ps_rendezvous_exchange (rendezvous, &number, sizeof number, all, PATIENCE_NS, &rank->error));
      for (guint i = 0; i < n; i++)
        g_assert_cmpuint (all[i], ==, 100 + i + round);
      number++;
      before_ns = ps_clock_now ();
      g_assert_true (ps_rendezvous_meet (rendezvous, PATIENCE_NS, &moment_ns, &rank->error));
      g_assert_cmpint (moment_ns, >=, before_ns);
    }
}

static void
test_talk (void)
{
  Rank ranks[5];

  for (guint n = 1; n <= 5; n++)
    {
      run_ranks (ranks, n, talk, NULL);
      for (guint i = 0; i < n; i++)
        g_assert_no_error (ranks[i].error);
    }
}

static gint meeting; /* atomic: ranks that have come */

/* Nobody is let go before all have come: rank r comes r * 20 ms late. */
static void
come_late (Rank *rank)
{
  gint64 moment_ns;

  g_usleep (20000 * rank->setting.rank);
  g_atomic_int_inc (&meeting);
  g_assert_true (ps_rendezvous_meet (rank->rendezvous, PATIENCE_NS, &moment_ns, NULL));
  g_assert_cmpint (g_atomic_int_get (&meeting), ==, (gint)rank->setting.n_ranks);
}

static void
test_slow_rank (void)
{
  Rank ranks[4];

  g_atomic_int_set (&meeting, 0);
  run_ranks (ranks, 4, come_late, NULL);
}

#define BIG (5 * PS_WIRE_MAX_PAYLOAD + 17)

static void
send_big (Rank *rank)
{
  g_autofree guint8 *bytes = g_malloc (BIG);

  for (gsize i = 0; i < BIG; i++)
    bytes[i] = (guint8)(i * 7 + rank->setting.rank);
  if (rank->setting.rank > 0)
    {
      g_assert_true (ps_rendezvous_send (rank->rendezvous, 0, bytes, BIG, NULL));
      g_assert_true (ps_rendezvous_send (rank->rendezvous, 0, NULL, 0, NULL));
      return;
    }
  for (guint from = 1; from < rank->setting.n_ranks; from++)
    {
      g_autoptr (GBytes) message = ps_rendezvous_receive (rank->rendezvous, from, PATIENCE_NS, NULL);
      g_autoptr (GBytes) empty = ps_rendezvous_receive (rank->rendezvous, from, PATIENCE_NS, NULL);
      const guint8 *got = g_bytes_get_data (message, NULL);

      g_assert_cmpuint (g_bytes_get_size (message), ==, BIG);
      for (gsize i = 0; i < BIG; i += 1009)
        g_assert_cmpuint (got[i], ==, (guint8)(i * 7 + from));
      g_assert_cmpuint (g_bytes_get_size (empty), ==, 0);
    }
}

static void
test_big_messages (void)
{
  Rank ranks[3];

  run_ranks (ranks, 3, send_big, NULL);
}

/* Ranks 0 and 2 on one host, 1 and 3 on others. Their clocks are really one, so that every offset is 0 within its
 * uncertainty. */
static void
spread_hosts (Rank *rank)
{
  static const char *const hosts[] = { "a", "b", "a", "c" };

  rank->setting.own_host = hosts[rank->setting.rank];
}

static void
look_at_hosts (Rank *rank)
{
  static const guint n_local[] = { 2, 1, 2, 1 }, local[] = { 0, 0, 1, 0 };
  guint own = rank->setting.rank;
  gint64 offset_ns[4], all_ns[4][4], uncertainty_ns;

  g_assert_cmpuint (ps_rendezvous_n_local (rank->rendezvous), ==, n_local[own]);
  g_assert_cmpuint (ps_rendezvous_local_rank (rank->rendezvous), ==, local[own]);
  for (guint i = 0; i < 4; i++)
    {
      offset_ns[i] = ps_rendezvous_clock_offset (rank->rendezvous, i, &uncertainty_ns);
      if (own == 0)
        g_assert_cmpint (ABS (offset_ns[i]), <=, uncertainty_ns);
      g_assert_cmpint (uncertainty_ns > 0, ==, own == 0 && i % 2);
    }
  /* All have been told the same. */
  g_assert_true (
      ps_rendezvous_exchange (rank->rendezvous, offset_ns, sizeof offset_ns, all_ns, PATIENCE_NS, &rank->error));
  for (guint i = 0; i < 4; i++)
    g_assert_cmpmem (all_ns[i], sizeof offset_ns, offset_ns, sizeof offset_ns);
}

static void
test_hosts (void)
{
  Rank ranks[4];

  run_ranks (ranks, 4, look_at_hosts, spread_hosts);
}

/* The other clock is 1000 ns ahead. Trips of 400 (there after 300), 100 (after 50) and 200 ns: the shortest one counts,
 * sent at 5000, its middle 5050, the other clock then 6050. */
static void
test_clock_estimate (void)
{
  const gint64 sent[] = { 1000, 5000, 9000 }, there[] = { 2300, 6050, 10020 }, came[] = { 1400, 5100, 9200 };
  gint64 uncertainty_ns;

  g_assert_cmpint (ps_clock_estimate (sent, there, came, 3, &uncertainty_ns), ==, -1000);
  g_assert_cmpint (uncertainty_ns, ==, 50);
}

static void
count_failure (gpointer data)
{
  g_atomic_int_inc ((gint *)data);
}

/* Rank 2 fails; everybody, also one that is waiting for something else, gets its words. */
static void
fail_on_rank_2 (Rank *rank)
{
  g_autoptr (GError) notice = g_error_new (PS_ERROR, PS_ERROR_UNAVAILABLE, "no more paper");
  gint64 moment_ns;

  ps_rendezvous_watch (rank->rendezvous, count_failure, &rank->n_failed);
  if (rank->setting.rank == 2)
    ps_rendezvous_abort (rank->rendezvous, notice);
  g_assert_false (ps_rendezvous_meet (rank->rendezvous, PATIENCE_NS, &moment_ns, &rank->error));
  while (g_atomic_int_get (&rank->n_failed) == 0)
    g_usleep (1000);
  g_assert_false (ps_rendezvous_check (rank->rendezvous, NULL));
  g_assert_false (ps_rendezvous_send (rank->rendezvous, rank->setting.rank == 0 ? 1 : 0, "x", 1, NULL));
}

static void
test_abort (void)
{
  Rank ranks[4];

  run_ranks (ranks, 4, fail_on_rank_2, NULL);
  for (guint i = 0; i < 4; i++)
    {
      g_assert_error (ranks[i].error, PS_ERROR, PS_ERROR_UNAVAILABLE);
      g_assert_cmpstr (ranks[i].error->message, ==, "rank 2: no more paper");
      g_assert_cmpint (g_atomic_int_get (&ranks[i].n_failed), ==, 1);
      rank_clear (&ranks[i]);
    }
}

/* All fail at once: whoever comes first, all say the same. */
static void
fail_everywhere (Rank *rank)
{
  g_autoptr (GError) notice = g_error_new (PS_ERROR, PS_ERROR_IO, "fell over");

  ps_rendezvous_abort (rank->rendezvous, notice);
  g_assert_false (ps_rendezvous_check (rank->rendezvous, &rank->error));
}

static void
test_abort_everywhere (void)
{
  Rank ranks[4];

  run_ranks (ranks, 4, fail_everywhere, NULL);
  for (guint i = 0; i < 4; i++)
    {
      g_assert_cmpstr (ranks[i].error->message, ==, ranks[0].error->message);
      g_assert_true (g_str_has_suffix (ranks[i].error->message, ": fell over"));
    }
  for (guint i = 0; i < 4; i++)
    rank_clear (&ranks[i]);
}

/* Rank 1 never comes to the meeting. */
static void
wait_in_vain (Rank *rank)
{
  g_autoptr (GError) error = NULL;
  gint64 moment_ns;

  if (rank->setting.rank == 1)
    while (ps_rendezvous_check (rank->rendezvous, &rank->error))
      g_usleep (1000);
  else if (!ps_rendezvous_meet (rank->rendezvous, rank->setting.rank == 0 ? 20000000 : PATIENCE_NS, &moment_ns, &error))
    {
      ps_rendezvous_abort (rank->rendezvous, error);
      g_assert_false (ps_rendezvous_check (rank->rendezvous, &rank->error));
    }
}

static void
test_deadline (void)
{
  Rank ranks[3];

  run_ranks (ranks, 3, wait_in_vain, NULL);
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpstr (ranks[i].error->message, ==, "rank 0: waited 0.02 s for rank 1");
      rank_clear (&ranks[i]);
    }
}

/* This program as a rank of three, in a process of its own: it dies by a signal after the first meeting. */
static int
die (guint rank, guint16 port)
{
  PsRendezvousSetting setting = setting_of (rank, 3, port);
  PsRendezvous *rendezvous = ps_rendezvous_join (&setting, NULL);
  gint64 moment_ns;

  if (rendezvous != NULL && ps_rendezvous_meet (rendezvous, PATIENCE_NS, &moment_ns, NULL))
    kill (getpid (), SIGKILL);
  return 1;
}

static GPid
start_dying (guint rank, guint16 port)
{
  g_autofree char *rank_text = g_strdup_printf ("%u", rank), *port_text = g_strdup_printf ("%u", port);
  char *arguments[] = { (char *)"/proc/self/exe", (char *)"--die", rank_text, port_text, NULL };
  g_autoptr (GError) error = NULL;
  GPid child;

  g_spawn_async (NULL, arguments, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &child, &error);
  g_assert_no_error (error);
  return child;
}

static void
meet_on (Rank *rank)
{
  gint64 moment_ns;

  /* The news may overtake the first meeting's end. */
  while (ps_rendezvous_meet (rank->rendezvous, PATIENCE_NS, &moment_ns, &rank->error))
    ;
}

static void
check_death (guint dying, const char *message)
{
  Rank ranks[3];
  GThread *threads[3] = { NULL };
  guint16 port = free_port ();
  GPid child = start_dying (dying, port);
  int status;

  for (guint i = 0; i < 3; i++)
    if (i != dying)
      {
        ranks[i] = (Rank){ .setting = setting_of (i, 3, port), .act = meet_on };
        threads[i] = g_thread_new ("rank", rank_main, &ranks[i]);
      }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFSIGNALED (status));
  for (guint i = 0; i < 3; i++)
    if (i != dying)
      {
        g_thread_join (threads[i]);
        g_assert_error (ranks[i].error, PS_ERROR, PS_ERROR_IO);
        g_assert_cmpstr (ranks[i].error->message, ==, message);
        rank_clear (&ranks[i]);
      }
}

static void
test_death (void)
{
  check_death (1, "rank 1: has ended without a word");
  check_death (0, "rank 0: has ended without a word");
}

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

static void
by_ipv6 (Rank *rank)
{
  rank->setting.host = "::1";
}

static void
test_ipv6 (void)
{
  struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
  int fd = socket (AF_INET6, SOCK_STREAM, 0);
  gboolean there = fd >= 0 && bind (fd, (struct sockaddr *)(void *)&address, sizeof address) == 0;
  Rank ranks[2];

  if (fd >= 0)
    close (fd);
  if (!there)
    {
      g_test_skip ("this machine has no IPv6");
      return;
    }
  run_ranks (ranks, 2, talk, by_ipv6);
  g_assert_no_error (ranks[0].error);
  g_assert_no_error (ranks[1].error);
}

int
main (int argc, char **argv)
{
  if (argc == 4 && g_str_equal (argv[1], "--die"))
    return die ((guint)g_ascii_strtoull (argv[2], NULL, 10), (guint16)g_ascii_strtoull (argv[3], NULL, 10));
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/rendezvous/talk", test_talk);
  g_test_add_func ("/rendezvous/slow-rank", test_slow_rank);
  g_test_add_func ("/rendezvous/big-messages", test_big_messages);
  g_test_add_func ("/rendezvous/hosts", test_hosts);
  g_test_add_func ("/rendezvous/clock-estimate", test_clock_estimate);
  g_test_add_func ("/rendezvous/abort", test_abort);
  g_test_add_func ("/rendezvous/abort-everywhere", test_abort_everywhere);
  g_test_add_func ("/rendezvous/deadline", test_deadline);
  g_test_add_func ("/rendezvous/death", test_death);
  g_test_add_func ("/rendezvous/silence", test_silence);
  g_test_add_func ("/rendezvous/strangers", test_strangers);
  g_test_add_func ("/rendezvous/misfits", test_misfits);
  g_test_add_func ("/rendezvous/refused", test_refused);
  g_test_add_func ("/rendezvous/missing", test_missing);
  g_test_add_func ("/rendezvous/no-host", test_no_host);
  g_test_add_func ("/rendezvous/ipv6", test_ipv6);
  return g_test_run ();
}
