/* rendezvous.h - the processes of a run find each other: a star of TCP connections around rank 0 that carries the few
 * messages of a run's begin, its steps and its end, and the news that one of them has failed. */
#ifndef PIPESIM_EXEC_RENDEZVOUS_H
#define PIPESIM_EXEC_RENDEZVOUS_H

#include <glib.h>

G_BEGIN_DECLS

#define PS_RENDEZVOUS_MAX_MESSAGE (1 << 30) /* bytes of one message */

typedef struct _PsRendezvous PsRendezvous;

typedef struct
{
  guint rank;
  guint n_ranks;    /* >= 1 */
  const char *host; /* of rank 0, which listens there; others connect */
  guint16 port;
  gint64 join_ns;    /* how long to wait for all ranks to come */
  gint64 silence_ns; /* a rank that has not been heard for so long counts as lost; each says something every second */
  const char *own_host; /* what ranks of one host have in common; NULL: the identity of the running system */
} PsRendezvousSetting;

/* Returns when all ranks are there. Rank 0 drops connections that do not speak pipesim's language, and fails with all
 * who have come when a rank has another version, sees another number of ranks or comes twice; a rank that is refused
 * says why. Errors: PS_ERROR_IO, PS_ERROR_UNAVAILABLE for what is refused; they begin with "rank N: " or "rendezvous at
 * ". */
PsRendezvous *ps_rendezvous_join (const PsRendezvousSetting *setting, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Says goodbye, and waits a little for the answer. All messages must have been received. NULL: nothing to do. */
void ps_rendezvous_leave (PsRendezvous *rendezvous);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsRendezvous, ps_rendezvous_leave)

guint ps_rendezvous_rank (const PsRendezvous *rendezvous);
guint ps_rendezvous_n_ranks (const PsRendezvous *rendezvous);

/* How many ranks run on this host, and which of them, in the order of their ranks, this one is. */
guint ps_rendezvous_n_local (const PsRendezvous *rendezvous);
guint ps_rendezvous_local_rank (const PsRendezvous *rendezvous);

/* What to add to a time by the monotonic clock of `rank` to have it by the clock of rank 0. Exactly 0 on the same host;
 * else measured when the ranks joined. *uncertainty_ns (NULL allowed; on rank 0 only, elsewhere 0): it is right within
 * that, half of the shortest round trip. */
gint64 ps_rendezvous_clock_offset (const PsRendezvous *rendezvous, guint rank, gint64 *uncertainty_ns);

/* One message between rank 0 and another rank, either way; messages between two ranks arrive in order. One thread at a
 * time. Receiving waits so long at most (0: for ever) and then fails naming the rank. Both fail once the run has
 * failed, with its error. */
gboolean ps_rendezvous_send (PsRendezvous *rendezvous, guint to, gconstpointer bytes, gsize n_bytes, GError **error);
GBytes *ps_rendezvous_receive (PsRendezvous *rendezvous, guint from, gint64 timeout_ns, GError **error);

/* Every rank gives n_bytes, and gets those of all in the order of ranks: all[n_ranks * n_bytes]. */
gboolean ps_rendezvous_exchange (PsRendezvous *rendezvous, gconstpointer mine, gsize n_bytes, gpointer all,
                                 gint64 timeout_ns, GError **error);

/* Returns when all ranks have called it. *moment_ns: when the last one had, as this process saw it. */
gboolean ps_rendezvous_meet (PsRendezvous *rendezvous, gint64 timeout_ns, gint64 *moment_ns, GError **error);

/* Ends the run on all ranks with this error, prefixed by "rank N: " with the own number, unless it has failed already:
 * the first failure that rank 0 hears of is everybody's. From any thread. */
void ps_rendezvous_abort (PsRendezvous *rendezvous, const GError *notice);

/* FALSE with the error that has ended the run, wherever it came from; TRUE while there is none. */
gboolean ps_rendezvous_check (PsRendezvous *rendezvous, GError **error);

/* failed is called once when the run fails, from a thread of the rendezvous (at once if it has failed already), until
 * it is replaced by NULL. It must not call back. */
void ps_rendezvous_watch (PsRendezvous *rendezvous, void (*failed) (gpointer data), gpointer data);

/* The offset between two clocks from n round trips: at sent_ns[i] by the own clock a question went out, to which the
 * other clock said there_ns[i], and at came_ns[i] the answer was back. The shortest round trip bounds the error best
 * (as in NTP's clock filter, RFC 5905 section 10): own = there + offset, within half of that trip. */
gint64 ps_clock_estimate (const gint64 *sent_ns, const gint64 *there_ns, const gint64 *came_ns, guint n,
                          gint64 *uncertainty_ns);

G_END_DECLS

#endif
