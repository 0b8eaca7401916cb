/* crew.h - the threads of a run, one per device, in one process or in several: they meet, exchange bytes and end
 * together. And the processes of a program that MPI has started several times: which of them this one is, messages
 * between them, and one end for all. The module pipesim-mpi implements these. */
#pragma once

#include <pipesim/device.h>

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

/* Every rank gives n_bytes and gets the bytes of all, rank by rank: all[n_ranks * n_bytes]. Returns the time of this
 * process at which the last rank has called it. */
gint64 ps_processes_exchange (PsProcesses *processes, gconstpointer mine, gsize n_bytes, gpointer all,
                              gint64 timeout_ns);

/* The members of the same names; alone: 0 of 1, and no offset. */
static inline guint ps_processes_rank (const PsProcesses *processes)
{
  return processes != NULL ? processes->rank : 0;
}

static inline guint ps_processes_n_ranks (const PsProcesses *processes)
{
  return processes != NULL ? processes->n_ranks : 1;
}

static inline guint ps_processes_local_rank (const PsProcesses *processes)
{
  return processes != NULL ? processes->local_rank : 0;
}

static inline guint ps_processes_n_local (const PsProcesses *processes)
{
  return processes != NULL ? processes->n_local : 1;
}

static inline gint64 ps_processes_clock_offset (const PsProcesses *processes, guint rank)
{
  return processes != NULL ? processes->clock_offset_ns[rank] : 0;
}

typedef struct _PsCrew PsCrew;

/* A crew with n_here members in this process, and as many in every other one. A wait for other processes lasts
 * timeout_ns at most (0: for ever). processes outlives the crew. */
PsCrew *ps_crew_new (guint n_here, PsProcesses *processes, gint64 timeout_ns);
void ps_crew_free (PsCrew *crew);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsCrew, ps_crew_free)

/* Sleeps until all members of all processes have come; *moment_ns is when the last one did, as this process saw it, the
 * same for all its members. member: 0 .. n_here - 1. FALSE with the crew's error once it has failed. */
gboolean ps_crew_meet (PsCrew *crew, guint member, gint64 *moment_ns, GError **error);

/* Every member gives n_bytes and gets the bytes of all, process by process: all[members of all processes * n_bytes]. */
gboolean ps_crew_exchange (PsCrew *crew, guint member, gconstpointer mine, gsize n_bytes, gpointer all, GError **error);

/* Notes the error (taken) unless there is one, and wakes all members so that they end. Where there are other processes,
 * it ends all of them instead and does not return. From any thread. */
void ps_crew_fail (PsCrew *crew, GError *error);

/* failed is called when the crew fails, and at once if it has; it may be called more than once, from any thread. NULL:
 * nothing is called any more. */
void ps_crew_on_failure (PsCrew *crew, void (*failed) (gpointer data), gpointer data);

/* FALSE with the error that the crew has failed with; TRUE if it has not. */
gboolean ps_crew_check (PsCrew *crew, GError **error);

/* Makes the devices of all processes use the same algorithms, which each device has chosen by timing. Then all of them,
 * and the reference run of one device, give the same bits. Every member of all processes, n_members together, calls it
 * with its device after that has chosen. Afterwards each device knows the choices of all, and where they differ the
 * first member's count. Nothing to do for classes without choices. */
gboolean ps_choices_agree (PsCrew *crew, guint member, guint n_members, PsDevice *device, GError **error);
