/* mpi-module.c - the row "mpi" of the table: loads the module that holds the real class. */
#include "transport/transports.h"

static gboolean
mpi_available (GError **error)
{
  return ps_transport_load ("mpi", error) != NULL;
}

static char *
mpi_libraries (void)
{
  const PsTransportClass *class = ps_transport_load ("mpi", NULL);

  return class != NULL ? class->libraries () : NULL;
}

static PsTransport *
mpi_open (const PsTransportSetting *setting, GError **error)
{
  const PsTransportClass *class = ps_transport_load ("mpi", error);

  return class != NULL ? class->open (setting, error) : NULL;
}

static gboolean
mpi_all_reduce (PsTransport *transport, guint at, float *values, gsize n, GError **error)
{
  return transport->class->all_reduce (transport, at, values, n, error);
}

const PsTransportClass ps_mpi_transport = {
  .name = "mpi",
  .description = "MPI between processes that mpirun or srun has started, and inside one",
  .spans_processes = TRUE,
  .available = mpi_available,
  .libraries = mpi_libraries,
  .open = mpi_open,
  .all_reduce = mpi_all_reduce,
};
