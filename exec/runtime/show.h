/* show.h - what a device has computed goes into the result of the run. */
#pragma once

#include "worker.h"

/* In an endless run after every compute: notes the loss that the op has made, if it made one. */
void ps_show_loss (PsWorker *worker, guint step, PsOp op);

/* Every device's thread calls it for each step, while no op runs: member 0 of each process takes the losses of all
 * devices into the result. */
gboolean ps_show_losses (PsWorker *worker, guint step, GError **error);

/* Before each O of a stage: the gradients that it will use. A step's digest holds those of all its O. */
gboolean ps_show_gradients (PsWorker *worker, guint step, guint stage, GError **error);
