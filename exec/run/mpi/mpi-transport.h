/* mpi-transport.h - what the module pipesim-mpi exports. */
#pragma once

#include "run/crew.h"

#include <pipesim/transport.h>

#include <gmodule.h>
#include <mpi.h>

/* For ps_processes_join, and for the table of transports. */
G_MODULE_EXPORT gboolean ps_mpi_processes_join (PsProcesses **processes, PsFailureReport report, gpointer data,
                                                GError **error);
G_MODULE_EXPORT const PsTransportClass *ps_mpi_transport_class (void);
