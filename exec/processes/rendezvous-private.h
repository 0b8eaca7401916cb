/* rendezvous-private.h - what joining (rendezvous-join.c) leaves for the rest (rendezvous.c). */
#ifndef PIPESIM_EXEC_RENDEZVOUS_PRIVATE_H
#define PIPESIM_EXEC_RENDEZVOUS_PRIVATE_H

#include "rendezvous.h"
#include "wire.h"

#include <pthread.h>

G_BEGIN_DECLS

/* The other end of a connection: on rank 0 each other rank, elsewhere rank 0. */
typedef struct
{
  guint rank;
  int fd;                  /* -1: not there */
  PsWireReader reader;     /* of the serving thread, once it runs */
  GByteArray *partial;     /* of it: parts of the message that is coming */
  gint64 heard_ns;         /* of it: when something came last */
  gboolean gone;           /* of it: nothing will come any more */
  pthread_mutex_t writing; /* held while a frame is written */
  GQueue messages;         /* GBytes, under the lock of the rendezvous */
  gboolean left;           /* has said goodbye; under that lock */
  gint64 uncertainty_ns;
  char host[PS_WIRE_MAX_HOST + 1];
} PsPeer;

struct _PsRendezvous
{
  PsRendezvousSetting setting; /* its texts are gone after joining */
  char host[PS_WIRE_MAX_HOST + 1];
  guint n_peers;
  PsPeer *peers;     /* rank 0: [rank - 1]; else [0] is rank 0 */
  guint *hosts;      /* [n_ranks] lowest rank on the same host */
  gint64 *offset_ns; /* [n_ranks] see ps_rendezvous_clock_offset */
  GThread *thread;   /* reads all connections; NULL while joining */
  int wake;          /* eventfd that wakes it */
  gint64 beat_ns;    /* of it: when it says next that it is alive */

  pthread_mutex_t lock;
  pthread_cond_t changed;
  GError *failure;  /* what has ended the run */
  gboolean leaving; /* goodbye has been said */
  gboolean ended;   /* leaving, and so are all others */
  gboolean stopped; /* the thread is to return */

  pthread_mutex_t watch_lock; /* held while failed is called */
  void (*failed) (gpointer data);
  gpointer failed_data;
};

#define PS_START_SIZE 12 /* per rank, see PS_FRAME_START */
#define PS_SECOND_NS G_GINT64_CONSTANT (1000000000)
#define PS_BEAT_NS PS_SECOND_NS /* between two signs of life */

/* How long one frame may take to be written. */
#define PS_FRAME_TIMEOUT_NS (10 * PS_SECOND_NS)

/* Body of the thread. */
gpointer ps_rendezvous_serve (gpointer rendezvous);

/* Writes whole frames to a peer; other threads may do the same. ps_peer_tell: a frame that says nothing but its kind.
 */
gboolean ps_peer_write (PsPeer *peer, const GByteArray *bytes, gint64 deadline_ns, GError **error);
void ps_peer_tell (PsPeer *peer, PsFrameKind kind);

/* Tells all peers that the run has failed. */
void ps_rendezvous_spread (PsRendezvous *rendezvous, const GError *notice);

/* Ends the run on this rank with an error (taken), and on rank 0 on all others too, unless it has ended already. */
void ps_rendezvous_fail (PsRendezvous *rendezvous, GError *notice);

/* Calls the watcher unless it has been called. */
void ps_rendezvous_call_watcher (PsRendezvous *rendezvous);

/* Connects all peers, within setting.join_ns. */
gboolean ps_rendezvous_connect (PsRendezvous *rendezvous, GError **error);

G_END_DECLS

#endif
