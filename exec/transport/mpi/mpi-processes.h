/* mpi-processes.h - the function that the module pipesim-mpi exports for ps_processes_join. */
#ifndef PIPESIM_MPI_PROCESSES_H
#define PIPESIM_MPI_PROCESSES_H

#include "processes/processes.h"

#include <gmodule.h>

G_MODULE_EXPORT gboolean ps_mpi_processes_join (PsProcesses **processes, PsFailureReport report, gpointer data,
                                                GError **error);

#endif
