/* launch.h - which process of a run am I? Read from what torchrun, the mpirun of Open MPI and of MPICH, and Slurm's
 * srun put into the environment of each process that they start. */
#ifndef PIPESIM_EXEC_LAUNCH_H
#define PIPESIM_EXEC_LAUNCH_H

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  const char *launcher; /* "torchrun", "Open MPI", "MPICH", "Slurm"; NULL: started by hand as the only process */
  guint rank;           /* 0 .. n_ranks - 1 */
  guint n_ranks;        /* 1: the only process */
  char *host;           /* name or address of the host of rank 0; NULL: the only process */
  guint16 port;         /* TCP port where rank 0 waits for the others; 0: the only process */
} PsLaunch;

void ps_launch_clear (PsLaunch *launch);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsLaunch, ps_launch_clear)

/* Reads the environment ("NAME=VALUE" strings, NULL-terminated, as from g_get_environ). The first of these launchers
 * that has left its variables counts.
 *
 * torchrun: RANK, WORLD_SIZE and LOCAL_WORLD_SIZE. The last may be missing: started by hand, all on one host.
 *
 * Open MPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE and OMPI_COMM_WORLD_LOCAL_SIZE.
 *
 * MPICH and its kin: PMI_RANK, PMI_SIZE and MPI_LOCALNRANKS, where MPI_LOCALRANKID shows that its own mpirun has
 * started the process.
 *
 * Slurm: SLURM_PROCID and SLURM_STEP_NUM_TASKS (else SLURM_NTASKS), inside a step that srun has started, which
 * SLURM_STEP_ID shows: the batch script itself has SLURM_PROCID too.
 *
 * Rank 0 is at MASTER_ADDR. Without it, at the loopback address where all ranks share a host by the launcher's word;
 * under Slurm at the first node of SLURM_STEP_NODELIST, else of SLURM_JOB_NODELIST, else at SLURM_LAUNCH_NODE_IPADDR.
 *
 * The port is MASTER_PORT. Without it 29500, torchrun's default; under Slurm 15000 + SLURM_JOB_ID mod 10000, under Open
 * MPI likewise of PMIX_NAMESPACE, the job's number (a hash of it where it is a name), so that jobs that share a node do
 * not meet. Where torchrun's own agent listens there (TORCHELASTIC_USE_AGENT_STORE is True) it is the next one.
 *
 * Nothing set, or one process: rank 0 of 1. Nonsense and contradictions give PS_ERROR_USAGE naming the variable and its
 * value. Which rank of its host a process is, the rendezvous finds out by itself. Clear with ps_launch_clear. */
gboolean ps_launch_read (char **environment, PsLaunch *launch, GError **error);

/* The first host that a Slurm node list names: "rack[2-3]node[007,9]x,other" gives "rack2node007x". NULL when the list
 * is malformed. Free with g_free. */
char *ps_launch_first_host (const char *list);

G_END_DECLS

#endif
