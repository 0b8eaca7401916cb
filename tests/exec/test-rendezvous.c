/* Tests of rendezvous: ranks as threads and as processes that meet, talk, fail and die. */
#include "rendezvous-rig.h"
#include "processes/wire.h"

#include <pipesim/base.h>

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
  g_test_add_func ("/rendezvous/ipv6", test_ipv6);
  return g_test_run ();
}
