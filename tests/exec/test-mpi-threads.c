/* A test of MPI libraries that don't let several threads call them. The transport is linked into this program, which
 * answers in place of the library. */
#include "error-rig.h"
#include "mpi-transport.h"

int MPI_Init_thread (int *argc, char ***argv, int required, int *provided)
{
  int result = PMPI_Init_thread (argc, argv, required, provided);

  *provided = MPI_THREAD_SERIALIZED;
  return result;
}

/* Refused at every try. */
static void test_threads (void)
{
  const PsTransportSetting setting = { .n_devices = 1, .n_here = 1, .n_replicas = 1 };

  for (guint i = 0; i < 2; i++)
    refused (ps_mpi_transport_class ()->open (&setting, &error), PS_ERROR_UNAVAILABLE,
             "MPI: this library does not let several threads call it (MPI_THREAD_MULTIPLE); use one that does");
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/mpi-threads/threads", test_threads);
  return g_test_run ();
}
