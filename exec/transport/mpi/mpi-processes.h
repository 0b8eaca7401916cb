/* mpi-processes.h - the function that the module pipesim-mpi exports for ps_processes_join. */
#pragma once

#include "processes/processes.h"

#include <gmodule.h>

G_MODULE_EXPORT gboolean ps_mpi_processes_join (PsProcesses **processes, PsFailureReport report, gpointer data,
                                                GError **error);
