/* gather.h - what the processes of a run bring home: rank 0 gets the records, losses and gradients of all devices. */
#ifndef PIPESIM_EXEC_GATHER_H
#define PIPESIM_EXEC_GATHER_H

#include "worker.h"

G_BEGIN_DECLS

/* After the last step, on every rank: fills rank 0's recorder and result with what happened elsewhere, its times by the
 * clock of rank 0. Nothing to do where there are no other processes. */
gboolean ps_gather (PsRun *run, GError **error);

/* Whether all ranks are about to run the same program with the same setting; fails naming the first that is not. On
 * every rank, before the first step. */
gboolean ps_gather_agreement (PsRun *run, GError **error);

G_END_DECLS

#endif
