/* gather.h - collects the results of all processes: rank 0 gets the records, losses and gradients of all devices. */
#ifndef PIPESIM_EXEC_GATHER_H
#define PIPESIM_EXEC_GATHER_H

#include "worker.h"

G_BEGIN_DECLS

/* Fills rank 0's recorder and result with the records of the other ranks, in times by the clock of rank 0. Every rank
 * calls it after the last step. One process alone has nothing to do. */
gboolean ps_gather (PsRun *run, GError **error);

/* Checks that all ranks are about to run the same program with the same setting, and names the first one that is not.
 * Every rank calls it before the first step. */
gboolean ps_gather_agreement (PsRun *run, GError **error);

G_END_DECLS

#endif
