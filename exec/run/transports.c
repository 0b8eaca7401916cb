/* table.c - the transport classes of this build. A row without hooks stands for the class of the same name in a module.
 */
#include "run/transports.h"

#include "module.h"

static const PsTransportClass mpi_row = {
  .name = "mpi",
  .description = "MPI between processes that mpirun or srun has started, and inside one",
};
static const PsTransportClass nccl_row = {
  .name = "nccl",
  .description = "NCCL between NVIDIA GPUs, one device each, in one process or several",
  .occupies = TRUE,
};
static const PsTransportClass *const table[] = { &ps_threads_transport, &mpi_row, &nccl_row };

const PsTransportClass *const *ps_transport_table (guint *n)
{
  g_return_val_if_fail (n != NULL, NULL);

  *n = G_N_ELEMENTS (table);
  return table;
}

const PsTransportClass *ps_transport_find (const char *name, GError **error)
{
  g_return_val_if_fail (name != NULL, NULL);

  const PsTransportClass *row = ps_table_find ("--transport", "transport", name, table, G_N_ELEMENTS (table), error);
  return row == NULL || row->open != NULL ? row : ps_module_class (name, "transport", error);
}
