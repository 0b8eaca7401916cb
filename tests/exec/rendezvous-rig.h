/* rendezvous-rig.h - ranks as threads that meet on a port of this machine. */
#ifndef PS_TEST_RENDEZVOUS_RIG_H
#define PS_TEST_RENDEZVOUS_RIG_H

#include "processes/rendezvous.h"

#include "clock.h"
#include "port.h"

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

static inline gpointer
rank_main (gpointer data)
{
  Rank *rank = data;

  rank->rendezvous = ps_rendezvous_join (&rank->setting, &rank->error);
  if (rank->rendezvous != NULL)
    rank->act (rank);
  ps_rendezvous_leave (rank->rendezvous);
  return NULL;
}

static inline PsRendezvousSetting
setting_of (guint rank, guint n_ranks, guint16 port)
{
  return (PsRendezvousSetting){ .rank = rank,
                                .n_ranks = n_ranks,
                                .host = "127.0.0.1",
                                .port = port,
                                .join_ns = PATIENCE_NS,
                                .silence_ns = PATIENCE_NS };
}

static inline void
rank_clear (Rank *rank)
{
  g_clear_error (&rank->error);
}

/* Runs n ranks to their end; prepare may change a rank's setting. */
static inline void
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

static inline void
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

#endif
