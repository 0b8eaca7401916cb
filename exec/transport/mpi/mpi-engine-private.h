/* mpi-engine-private.h - the engine's state, which its thread (mpi-loop.c), its callers (mpi-engine.c), the group of
 * processes (mpi-processes.c) and mpi-state.c share. */
#pragma once

#include "mpi-engine.h"

#include "clock.h"
#include "processes/processes.h"

#include <pipesim/base.h>

#define PS_MPI_LETTER_TAG 0
#define PS_MPI_GROUP_TAG 1  /* messages of PsProcesses */
#define PS_MPI_N_LETTERS 16 /* that may arrive before the thread has looked at the first */

typedef enum
{
  PS_MPI_OFF,
  PS_MPI_STARTING, /* in MPI_Init_thread, until the other processes have come */
  PS_MPI_READY,
  PS_MPI_BROKEN,  /* an MPI call has failed: no other is made */
  PS_MPI_FAILING, /* all processes end with `failure` */
  PS_MPI_ENDING,  /* the program exits */
  PS_MPI_ENDED,
} PsMpiState;

typedef struct
{
  PsMpiHead head;
  guint8 bytes[PS_MPI_INLINE_BYTES];
} PsMpiLetter;

/* There is one. */
typedef struct
{
  pthread_mutex_t lock;
  pthread_cond_t changed; /* for the thread */
  pthread_cond_t told;    /* for callers that wait for the thread */
  PsMpiState state;
  gboolean spoiled;
  gboolean failing;   /* the thread tells the clients */
  guint n_transports; /* ever */
  GPtrArray *clients;
  GQueue queue;             /* of PsMpiTransfer: to be started */
  gboolean shares_calls;    /* any thread may call MPI, one at a time */
  gboolean calls;           /* a thread calls MPI; it does not hold the lock */
  GError *broken;           /* of a call; no other call is made */
  GQueue waits;             /* of PsMpiWait: callers that wait for something to come, oldest first */
  const PsMpiWait *watcher; /* the one that looks at MPI; NULL: the engine's thread does */
  gint64 quiet_ns;          /* when something has happened last */
  guint n_devices;          /* of the latest transport in this process */
  guint n_moving;           /* transfers */
  guint n_withdrawn;        /* that are under way */
  int last_tag, greatest_tag;
  int rank, n_ranks, local_rank, n_local;
  guint n_cores;           /* of this host */
  gint64 *clock_offset_ns; /* PsProcesses */
  PsFailureReport report;  /* NULL: this process is the only one */
  gpointer report_data;
  GError *failure; /* to be reported by this process */

  /* Of the thread that calls MPI. */
  GPtrArray *under_way; /* of PsMpiTransfer */
  GArray *requests;     /* MPI_Request of each transfer under way */
  GArray *indices;      /* of the requests that are done */
  GArray *statuses;     /* not read; without any, compilers warn of MPICH's headers */
  gint64 round_ns;      /* begin of the latest round */
  gint64 resume_ns;     /* when the process had been stopped, or was asked, last; 0: never */
  guint8 *answered;     /* [n_ranks] */
  int n_answered;
  PsMpiLetter letters[PS_MPI_N_LETTERS];
  MPI_Request arrivals[PS_MPI_N_LETTERS];
  guint next_letter; /* letters arrive in the order of these places */
} PsMpiEngine;

extern PsMpiEngine ps_mpi_engine;

/* Notes the error (taken) for the thread to report before it ends all processes, unless there is one. Locked. */
void ps_mpi_note_failure (GError *error);

/* A rank that was asked whether it lives does. Locked. */
void ps_mpi_note_answer (guint rank);

/* FALSE with "CALL: REASON" unless the call of MPI went well. */
gboolean ps_mpi_check (const char *call, int result, GError **error);

/* Fills in local_rank, n_local and clock_offset_ns, together with all other processes. On the thread. */
gboolean ps_mpi_find_hosts (GError **error);

/* Looks at MPI, unlocked meanwhile; no other thread calls MPI then. TRUE: something has happened. Locked. */
gboolean ps_mpi_look (void);

/* The pause of the engine's thread between two looks. Locked. */
void ps_mpi_nap (void);

/* The parts of a look. Of the thread that calls MPI; not locked. */
void ps_mpi_note_round (void);
gboolean ps_mpi_expect_letter (guint place, GError **error);
gboolean ps_mpi_move_all (gboolean *busy, GError **error);

/* Body of the thread: from MPI_Init_thread to MPI_Finalize. */
gpointer ps_mpi_loop (gpointer unused);
