/* processes.c - finds the other processes of a run, and lets them meet by messages to and from rank 0. */
#include "processes.h"

#include "clock.h"
#include "module.h"

#include <pipesim/base.h>

#include <string.h>

typedef gboolean (*JoinFunction) (PsProcesses **processes, PsFailureReport report, gpointer data, GError **error);

/* PMIx (Open MPI, srun --mpi=pmix) and PMI (MPICH, srun --mpi=pmi2) number the processes that they start. */
static gboolean is_started_by_mpi (void)
{
  return g_getenv ("PMIX_RANK") != NULL || g_getenv ("PMI_RANK") != NULL;
}

/* Processes that MPI does not connect would all do the same, and write the same files. */
static gboolean check_alone (GError **error)
{
  static const char *const sizes[] = { "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE" };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++) {
    const char *size = g_getenv (sizes[i]);

    if (size == NULL || g_str_equal (size, "1"))
      continue;
    return ps_refuse (
        error, PS_ERROR_USAGE,
        "%s: %s processes that MPI does not connect; start them with srun --mpi=pmix, or with the mpirun of "
        "the MPI that pipesim was built with",
        sizes[i], size);
  }
  return TRUE;
}

gboolean ps_processes_join (PsProcesses **processes, PsFailureReport report, gpointer data, GError **error)
{
  *processes = NULL;
  if (is_started_by_mpi ()) {
    JoinFunction join = (JoinFunction)ps_module_function ("processes of MPI", "mpi", "ps_mpi_processes_join", error);

    if (join == NULL || !join (processes, report, data, error))
      return FALSE;
  }
  return *processes != NULL || check_alone (error);
}

void ps_processes_part (PsProcesses *processes, const GError *error)
{
  if (processes != NULL && error != NULL)
    processes->fail (processes, error);
  else if (processes != NULL)
    ps_processes_meet (processes, 0);
}

/* Returns when the last rank had come, as this one saw it. Rank 0 names the rank that is late, so the others wait
 * longer for rank 0. */
static gint64 trade (PsProcesses *processes, gconstpointer mine, gsize n_bytes, guint8 *all, gint64 timeout_ns)
{
  if (processes->rank > 0) {
    processes->send (processes, 0, mine, n_bytes);
    processes->receive (processes, 0, all, n_bytes * processes->n_ranks, 2 * timeout_ns);
    return ps_clock_now ();
  }
  memcpy (all, mine, n_bytes);
  for (guint i = 1; i < processes->n_ranks; i++)
    processes->receive (processes, i, all + i * n_bytes, n_bytes, timeout_ns);
  gint64 moment_ns = ps_clock_now ();
  for (guint i = 1; i < processes->n_ranks; i++)
    processes->send (processes, i, all, n_bytes * processes->n_ranks);
  return moment_ns;
}

void ps_processes_exchange (PsProcesses *processes, gconstpointer mine, gsize n_bytes, gpointer all, gint64 timeout_ns)
{
  trade (processes, mine, n_bytes, all, timeout_ns);
}

gint64 ps_processes_meet (PsProcesses *processes, gint64 timeout_ns)
{
  guint8 none = 0;

  return trade (processes, &none, 0, &none, timeout_ns);
}

guint ps_processes_rank (const PsProcesses *processes)
{
  return processes != NULL ? processes->rank : 0;
}

guint ps_processes_n_ranks (const PsProcesses *processes)
{
  return processes != NULL ? processes->n_ranks : 1;
}

guint ps_processes_local_rank (const PsProcesses *processes)
{
  return processes != NULL ? processes->local_rank : 0;
}

guint ps_processes_n_local (const PsProcesses *processes)
{
  return processes != NULL ? processes->n_local : 1;
}

gint64 ps_processes_clock_offset (const PsProcesses *processes, guint rank)
{
  return processes != NULL ? processes->clock_offset_ns[rank] : 0;
}
