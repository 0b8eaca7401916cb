/* mpi-engine.h - the one place of a process that talks to MPI. Its thread starts MPI when the program first needs it
 * and ends MPI when the program exits. In between one thread at a time calls MPI. Where each device of a host has a
 * core of its own, who posts a transfer starts it, and who waits for a message looks for it; the engine's thread looks
 * while nobody waits. Where devices share cores, or MPI offers less than MPI_THREAD_SERIALIZED, the engine's thread
 * makes all calls, many of them at a time.
 *
 * MPI can't wake a sleeper, so the thread that watches looks for arrivals again and again. A caller that waits spins
 * for PS_MPI_SPIN_NS at first, about the time that waking a sleeper takes. Then the thread naps between two looks. A
 * nap lasts 1 / PS_MPI_NAP_SHARE of the time for which nothing has happened, at most PS_MPI_NAP_NS while somebody waits
 * and PS_MPI_IDLE_NAP_NS otherwise; or 1 / PS_MPI_LONG_NAP_SHARE of that time where it is more, at most
 * PS_MPI_LONGEST_NAP_NS. So a message that is waited for comes late by that part of the wait, or by PS_MPI_NAP_NS, at
 * most, and a longer wait takes less of a core. While data move the thread does not sleep, it only gives way to other
 * threads. Where there are no other processes and no transport is open, nobody looks.
 *
 * One lock guards all that the functions here and the transports share; "locked" says that the caller holds it. */
#pragma once

#include <mpi.h>

#include <pipesim/schedule.h>

#include <pthread.h>

#define PS_MPI_SPIN_NS G_GINT64_CONSTANT (50000)
#define PS_MPI_NAP_NS G_GINT64_CONSTANT (50000)
#define PS_MPI_IDLE_NAP_NS G_GINT64_CONSTANT (200000)
#define PS_MPI_LONGEST_NAP_NS G_GINT64_CONSTANT (2000000)
#define PS_MPI_NAP_SHARE 8
#define PS_MPI_LONG_NAP_SHARE 256

/* Bytes of the longest message that goes in the letter that announces it. */
#define PS_MPI_INLINE_BYTES 4096

typedef enum
{
  PS_MPI_DATA,   /* a message: its bytes follow here, or under a tag of their own */
  PS_MPI_GRANT,  /* the receiver is ready for a message, under that tag */
  PS_MPI_TAKEN,  /* the receiver has taken a message */
  PS_MPI_FAILED, /* to rank 0: why the sender's process fails; `tag` is the code of a PsError */
  PS_MPI_ASKED,  /* rank `from` is about to end all processes and wants an answer */
  PS_MPI_ANSWER, /* of rank `from` */
} PsMpiKind;

/* Begins every letter. The processes of one run have one version of it. */
typedef struct
{
  guint32 kind;
  guint32 transport; /* transports are counted by each process, in the same order */
  guint32 from, to;  /* devices of the message that this is about, counted over all pipelines */
  PsOp op;
  gint32 tag;      /* that the bytes are sent under; 0: they are here */
  guint32 n_bytes; /* here */
  gint64 sent_ns;  /* by the clock of all: when the sender handed it over */
  gint64 due_ns;   /* and when it may be used */
  gint64 late_ns;  /* how much earlier it should have been sent */
} PsMpiHead;

typedef enum
{
  PS_MPI_IDLE,
  PS_MPI_QUEUED,
  PS_MPI_UNDER_WAY,
} PsMpiPhase;

/* Bytes to or from another process. Its memory must stay until it is idle again. */
typedef struct _PsMpiTransfer PsMpiTransfer;
struct _PsMpiTransfer
{
  gboolean incoming;
  int rank; /* the other end */
  int tag;
  void *data;
  gsize n_bytes;                          /* at most G_MAXINT */
  void (*done) (PsMpiTransfer *transfer); /* locked, idle again; it may free it */

  /* The engine's. */
  PsMpiPhase phase;
  gboolean moves;
  gboolean withdrawn;
};

/* A transport as the engine sees it. */
typedef struct
{
  gpointer data;
  void (*deliver) (gpointer data, const PsMpiHead *head, const void *bytes); /* locked: a letter has come */
  void (*wake) (gpointer data);                                              /* locked: everybody should look around */
  void (*fail) (gpointer data, GError *error); /* MPI has failed in the only process; takes the error */
  guint n_devices;                             /* that wait in this process */
  guint32 number;                              /* the engine's */
} PsMpiClient;

/* A wait for something that another process may bring. */
typedef struct
{
  pthread_cond_t *condition; /* broadcast when it may have come */
  gint64 begin_ns, until_ns;
  GList link;
} PsMpiWait;

/* Locked for the caller from here to ps_mpi_unlock, which starts what was posted. */
void ps_mpi_lock (void);
void ps_mpi_unlock (void);

/* Sleeps on a condition of CLOCK_MONOTONIC without the lock; FALSE when until_ns (0: never) has come. Locked. */
gboolean ps_mpi_sleep (pthread_cond_t *condition, gint64 until_ns);

/* Between begin and end the caller looks whether it has come, as long as `more`, which waits a little, returns TRUE:
 * until until_ns (0: never). Locked. */
void ps_mpi_wait_begin (PsMpiWait *wait, pthread_cond_t *condition, gint64 until_ns);
gboolean ps_mpi_wait_more (PsMpiWait *wait);
void ps_mpi_wait_end (PsMpiWait *wait);

/* Starts the thread unless it runs; MPI is ready some time later. Locked. FALSE when there can be no thread. */
gboolean ps_mpi_engine_start (GError **error);

/* TRUE once MPI runs. Locked. */
gboolean ps_mpi_engine_ready (void);

/* Adds a transport and starts the thread unless it runs; removes a transport. Not locked. */
gboolean ps_mpi_engine_join (PsMpiClient *client, GError **error);
void ps_mpi_engine_leave (PsMpiClient *client);

/* Locked. */
void ps_mpi_post (PsMpiTransfer *transfer);
void ps_mpi_post_letter (int rank, const PsMpiHead *head, const void *bytes);

/* A tag that no other transfer to this process uses. Locked. */
int ps_mpi_new_tag (void);

/* The transfer's other end has begun, or is about to: it will be done soon. Locked. */
void ps_mpi_moves (PsMpiTransfer *transfer);

/* Gives up n transfers, whose `done` is not called any more. Returns how many of them, moved to the front, MPI did not
 * give back in time: their memory must never be freed. Not locked. */
guint ps_mpi_withdraw (PsMpiTransfer **transfers, guint n);
