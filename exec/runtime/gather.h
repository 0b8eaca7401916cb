/* gather.h - the other processes send their results to rank 0: the records, losses and gradients of their devices. */
#pragma once

#include "worker.h"

/* After the last step, on every rank: completes rank 0's recorder and result, with times by the clock of rank 0.
 * Nothing to do where there are no other processes. */
void ps_gather (PsRun *run);

/* On every rank at a time when its devices wait: completes the checkpoint of rank 0. */
void ps_gather_checkpoint (PsRun *run);

/* Whether all ranks are about to run the same program with the same setting; fails naming the first that is not. On
 * every rank, before the first step. */
gboolean ps_gather_agreement (PsRun *run, GError **error);
