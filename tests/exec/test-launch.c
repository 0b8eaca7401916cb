/* Tests of launch: what each launcher's variables say, and what is wrong with nonsense. */
#include "processes/launch.h"

#include <pipesim/base.h>

#include <string.h>

typedef struct
{
  const char *environment; /* variables, blanks between */
  const char *launcher;
  guint rank, n_ranks;
  const char *host;
  guint16 port;
} Case;

static const Case cases[] = {
  { "HOME=/root", NULL, 0, 1, NULL, 0 },
  { "MASTER_ADDR=10.0.0.1 MASTER_PORT=1234 LOCAL_RANK=3", NULL, 0, 1, NULL, 0 },
  { "RANK=0 WORLD_SIZE=1", "torchrun", 0, 1, NULL, 0 },
  /* By hand on one host. */
  { "RANK=2 WORLD_SIZE=4", "torchrun", 2, 4, "127.0.0.1", 29500 },
  { "RANK=2 WORLD_SIZE=4 MASTER_ADDR=localhost MASTER_PORT=1234", "torchrun", 2, 4, "localhost", 1234 },
  { "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 MASTER_ADDR=fe80::1 MASTER_PORT=65535", "torchrun", 5, 8, "fe80::1", 65535 },
  { "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", "torchrun", 1, 2, "127.0.0.1", 29500 },
  /* torchrun's agent listens at MASTER_PORT itself. */
  { "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=a MASTER_PORT=29400 TORCHELASTIC_USE_AGENT_STORE=True", "torchrun", 1,
    2, "a", 29401 },
  { "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=a MASTER_PORT=29400 TORCHELASTIC_USE_AGENT_STORE=False", "torchrun",
    1, 2, "a", 29400 },
  { "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=4",
    "Open MPI", 3, 4, "127.0.0.1", 29500 },
  { "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
    "MASTER_ADDR=node1",
    "Open MPI", 3, 4, "node1", 29500 },
  { "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=45940737", "Open MPI", 1,
    2, "127.0.0.1", 15000 + 737 },
  /* djb2, the hash of GLib's documentation: h = 5381, then h = 33 h + c; of "a1" 33 (33 x 5381 + 97) + 49 = 5863159. */
  { "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=a1", "Open MPI", 1, 2,
    "127.0.0.1", 15000 + 3159 },
  { "PMI_RANK=1 PMI_SIZE=4 PMI_FD=7 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4", "MPICH", 1, 4, "127.0.0.1", 29500 },
  { "PMI_RANK=3 PMI_SIZE=4 PMI_FD=7 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 MASTER_ADDR=node1 SLURM_PROCID=0 "
    "SLURM_STEP_ID=0 "
    "SLURM_STEP_NUM_TASKS=2",
    "MPICH", 3, 4, "node1", 29500 },
  /* srun's own PMI. */
  { "PMI_RANK=3 PMI_SIZE=4 PMI_FD=7 SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NODELIST=a",
    "Slurm", 3, 4, "a", 29500 },
  /* torchrun inside Slurm is torchrun; so is mpirun. */
  { "RANK=1 WORLD_SIZE=2 SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0", "torchrun", 1, 2,
    "127.0.0.1", 29500 },
  { "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
    "SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1",
    "Open MPI", 1, 2, "127.0.0.1", 29500 },
  { "SLURM_STEP_ID=0 SLURM_PROCID=9 SLURM_STEP_NUM_TASKS=16 SLURM_NTASKS=32 SLURM_LOCALID=1 "
    "SLURM_STEP_NODELIST=gpu[03-04] SLURM_LAUNCH_NODE_IPADDR=10.1.1.1 SLURM_JOB_ID=123456",
    "Slurm", 9, 16, "gpu03", 15000 + 3456 },
  { "SLURM_STEP_ID=0 SLURM_PROCID=9 SLURM_NTASKS=16 SLURM_LOCALID=1 SLURM_LAUNCH_NODE_IPADDR=10.1.1.1", "Slurm", 9, 16,
    "10.1.1.1", 29500 },
  { "SLURM_STEP_ID=0 SLURM_PROCID=9 SLURM_NTASKS=16 SLURM_LOCALID=1 SLURM_JOB_NODELIST=a,b MASTER_ADDR=c MASTER_PORT=5 "
    "SLURM_JOB_ID=77",
    "Slurm", 9, 16, "c", 5 },
  /* The batch script itself is no task of a step. */
  { "SLURM_PROCID=0 SLURM_NTASKS=16 SLURM_LOCALID=0 SLURM_JOB_NODELIST=a", NULL, 0, 1, NULL, 0 },
  { "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=8", "Slurm", 0, 1, NULL, 0 },
};

static void
test_launchers (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const Case *expected = &cases[i];
      g_auto (GStrv) environment = g_strsplit (expected->environment, " ", -1);
      g_auto (PsLaunch) launch = { 0 };
      g_autoptr (GError) error = NULL;

      g_test_message ("%s", expected->environment);
      g_assert_true (ps_launch_read (environment, &launch, &error));
      g_assert_no_error (error);
      g_assert_cmpstr (launch.launcher, ==, expected->launcher);
      g_assert_cmpuint (launch.rank, ==, expected->rank);
      g_assert_cmpuint (launch.n_ranks, ==, expected->n_ranks);
      g_assert_cmpstr (launch.host, ==, expected->host);
      g_assert_cmpuint (launch.port, ==, expected->port);
    }
}

static void
test_nonsense (void)
{
  static const struct
  {
    const char *environment;
    const char *begin; /* of the message */
  } wrong[] = {
    { "RANK=0", "WORLD_SIZE: missing" },
    { "WORLD_SIZE=2", "RANK: missing" },
    { "RANK=2 WORLD_SIZE=2", "RANK: 2, with WORLD_SIZE 2 it is at most 1" },
    { "RANK=-1 WORLD_SIZE=2", "RANK: " },
    { "RANK=x WORLD_SIZE=2", "RANK: " },
    { "RANK= WORLD_SIZE=2", "RANK: " },
    { "RANK=0 WORLD_SIZE=0", "WORLD_SIZE: " },
    { "RANK=0 WORLD_SIZE=99999", "WORLD_SIZE: " },
    { "RANK=0 WORLD_SIZE=2 MASTER_PORT=0", "MASTER_PORT: " },
    { "RANK=0 WORLD_SIZE=2 MASTER_PORT=65536", "MASTER_PORT: " },
    { "RANK=0 WORLD_SIZE=2 MASTER_PORT=65535 TORCHELASTIC_USE_AGENT_STORE=True", "MASTER_PORT: " },
    { "RANK=0 WORLD_SIZE=2 MASTER_ADDR=", "MASTER_ADDR: " },
    { "RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2", "MASTER_ADDR: missing" },
    { "RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=8", "LOCAL_WORLD_SIZE: " },
    { "RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=0 MASTER_ADDR=a", "LOCAL_WORLD_SIZE: " },
    { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE: missing" },
    { "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2",
      "MASTER_ADDR: missing" },
    { "SLURM_STEP_ID=0 SLURM_PROCID=1", "SLURM_NTASKS: missing" },
    { "SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0", "MASTER_ADDR: missing" },
    { "SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_STEP_NODELIST=a[", "MASTER_ADDR: missing" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_auto (GStrv) environment = g_strsplit (wrong[i].environment, " ", -1);
      PsLaunch launch;
      g_autoptr (GError) error = NULL;

      g_test_message ("%s", wrong[i].environment);
      g_assert_false (ps_launch_read (environment, &launch, &error));
      g_assert_error (error, PS_ERROR, PS_ERROR_USAGE);
      g_test_message ("%s", error->message);
      g_assert_true (g_str_has_prefix (error->message, wrong[i].begin));
      g_assert_null (strchr (error->message, '\n'));
      g_assert_null (launch.host);
    }
}

static void
test_node_lists (void)
{
  static const char *const lists[][2] = {
    { "node1", "node1" },
    { "node1,node2", "node1" },
    { "node[001-004,7]", "node001" },
    { "node[7]", "node7" },
    { "node[7,9],other", "node7" },
    { "rack[2-3]node[007,9]x,other", "rack2node007x" },
    { "", NULL },
    { ",a", NULL },
    { "a[1-2", NULL },
    { "a[", NULL },
    { "a[]", NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
    {
      g_autofree char *host = ps_launch_first_host (lists[i][0]);

      g_assert_cmpstr (host, ==, lists[i][1]);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/launch/launchers", test_launchers);
  g_test_add_func ("/launch/nonsense", test_nonsense);
  g_test_add_func ("/launch/node-lists", test_node_lists);
  return g_test_run ();
}
