/* mpi-process.h - MPI in this process. A thread of its own starts MPI when the program first needs it, looks at MPI now
 * and then, and ends MPI when the program exits. All other threads call MPI themselves, so it must offer
 * MPI_THREAD_MULTIPLE.
 *
 * MPI can't wake a sleeper, so a thread that waits tests its requests again and again. For PS_MPI_SPIN_NS, about the
 * time that waking a sleeper takes, it does not sleep if each device of the host has a core of its own. Then it naps
 * between two tests. Times count from the begin of the wait or from the latest transfer of the process that began or
 * ended. A nap lasts 1 / PS_MPI_NAP_SHARE of that time, at most PS_MPI_NAP_NS; or 1 / PS_MPI_LONG_NAP_SHARE of it where
 * that is more, at most PS_MPI_LONGEST_NAP_NS. So a message is noticed late by that share at most, and a longer wait
 * takes less of a core. The thread of MPI naps by the same rule, but up to PS_MPI_IDLE_NAP_NS. It drives transfers
 * whose devices compute. */
#pragma once

#include "run/crew.h"

#include <pipesim/transport.h>

#include <gmodule.h>
#include <mpi.h>

#define PS_MPI_SPIN_NS G_GINT64_CONSTANT (50000)
#define PS_MPI_NAP_NS G_GINT64_CONSTANT (50000)
#define PS_MPI_IDLE_NAP_NS G_GINT64_CONSTANT (200000)
#define PS_MPI_LONGEST_NAP_NS G_GINT64_CONSTANT (2000000)
#define PS_MPI_NAP_SHARE 8
#define PS_MPI_LONG_NAP_SHARE 256

/* Tags. */
enum {
  PS_MPI_PROCESS_TAG, /* messages of PsProcesses */
  PS_MPI_NOTE_TAG,    /* about failures */
  PS_MPI_FIRST_TAG,   /* of messages between devices, from here on */
};

/* Starts MPI unless it runs, and returns when all processes have come. Fails if they do not come, or where MPI can't be
 * called by several threads. */
gboolean ps_mpi_start (int *greatest_tag, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A transport that is open. */
typedef struct {
  void (*look) (gpointer data); /* called again and again by MPI's thread, and by threads that wait */
  gpointer data;
  gint stopped;    /* atomic: TRUE ends all waits */
  guint n_devices; /* of this process, which may wait */
} PsMpiUser;

/* Begins and ends the calls by MPI's thread. */
void ps_mpi_add_user (PsMpiUser *user);
void ps_mpi_remove_user (PsMpiUser *user);

/* FALSE with "CALL: REASON" unless the call of MPI went well. Where there are other processes it returns late then: an
 * error of MPI most often follows from the end of another process, whose launcher names that process and ends the
 * others. */
gboolean ps_mpi_check (const char *call, int result, GError **error);

/* Begin to send or to receive bytes. */
gboolean ps_mpi_send (gconstpointer bytes, gsize n_bytes, int rank, int tag, MPI_Request *request, GError **error);
gboolean ps_mpi_receive (gpointer bytes, gsize n_bytes, int rank, int tag, MPI_Request *request, GError **error);

/* Tests n requests. *done: all of them are; then they are MPI_REQUEST_NULL. */
gboolean ps_mpi_test (MPI_Request *requests, guint n, gboolean *done, GError **error);

/* Waits until n requests are done. FALSE without an error: it is until_ns (0: never), or the user (NULL: none) has
 * been stopped. */
gboolean ps_mpi_wait (MPI_Request *requests, guint n, gint64 until_ns, const PsMpiUser *user, GError **error);

/* Gives up n requests, the first n_receives of which receive. Messages to this process that nobody has taken are
 * dropped, if it is the only one. FALSE: MPI did not give all back in time, so their memory
 * must never be freed. */
gboolean ps_mpi_give_up (MPI_Request *requests, guint n_receives, guint n);

/* What the module exports: for ps_processes_join, and for the table of transports. */
G_MODULE_EXPORT gboolean ps_mpi_processes_join (PsProcesses **processes, PsFailureReport report, gpointer data,
                                                GError **error);
G_MODULE_EXPORT const PsTransportClass *ps_mpi_transport_class (void);
