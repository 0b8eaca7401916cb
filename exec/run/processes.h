/* processes.h - the processes of a program that MPI has started several times: which of them this one is, messages
 * between them, and one end for all. The module pipesim-mpi implements it. */
#pragma once

#include <glib.h>

/* NULL stands for a program that runs alone. A wait longer than timeout_ns (0: for ever) ends all processes, as `fail`
 * does, and so does a failure of MPI itself: then no hook and no function here returns. */
typedef struct _PsProcesses PsProcesses;
struct _PsProcesses {
  guint rank, n_ranks;           /* place of this process among all; n_ranks >= 2 */
  guint local_rank, n_local;     /* its place on its host, in the order of ranks */
  const gint64 *clock_offset_ns; /* [n_ranks] a time by the rank's monotonic clock + this = the time by rank 0's;
                                    0 on the host of rank 0, else measured at the start */

  /* The next meeting, for the error of a wait: "before O of step", 3. By the thread that meets. NULL: it has no name.
   */
  const char *meeting;
  guint step;

  /* Messages between two ranks arrive in order; the receiver names the same number of bytes as the sender. One thread
   * at a time. */
  void (*send) (PsProcesses *processes, guint to, gconstpointer bytes, gsize n_bytes);
  void (*receive) (PsProcesses *processes, guint from, gpointer bytes, gsize n_bytes, gint64 timeout_ns);

  /* Ends all processes with the error, which one of them reports with the prefix "rank N: ". The first error that rank
   * 0 hears of counts. From any thread. */
  void (*fail) (PsProcesses *processes, const GError *error);
};

/* Tells the user about an error; returns the exit code. It may be called by a thread of the module's. */
typedef int (*PsFailureReport) (const GError *error, gpointer data);

/* Meets the other processes where a launcher of MPI (mpirun, srun --mpi) has started this one; else *processes is NULL,
 * and MPI is not touched. Errors: PS_ERROR_UNAVAILABLE where this build has no MPI, PS_ERROR_USAGE where a
 * launcher has started several processes that MPI does not connect. *processes lasts as long as the program. */
gboolean ps_processes_join (PsProcesses **processes, PsFailureReport report, gpointer data, GError **error);

/* At the end of the work: fails with the error, or waits until all processes have come here, because a launcher ends
 * them all when one has ended early. */
void ps_processes_part (PsProcesses *processes, const GError *error);

/* Every rank gives n_bytes and gets the bytes of all, rank by rank: all[n_ranks * n_bytes]. */
void ps_processes_exchange (PsProcesses *processes, gconstpointer mine, gsize n_bytes, gpointer all, gint64 timeout_ns);

/* Returns the time of this process at which the last rank has called it. */
gint64 ps_processes_meet (PsProcesses *processes, gint64 timeout_ns);

/* The members of the same names; alone: 0 of 1, and no offset. */
guint ps_processes_rank (const PsProcesses *processes);
guint ps_processes_n_ranks (const PsProcesses *processes);
guint ps_processes_local_rank (const PsProcesses *processes);
guint ps_processes_n_local (const PsProcesses *processes);
gint64 ps_processes_clock_offset (const PsProcesses *processes, guint rank);
