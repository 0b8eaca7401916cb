/* weight-window.h - which stages of a device have their weights gathered while it works through its order, as PyTorch's
 * lowering decides it (torch.distributed.pipelining, _add_unshard_reshard). Private to libpipesim. */
#pragma once

#include <pipesim/schedule.h>

/* At most so many stages of a device have their weights gathered at a time. */
#define PS_WEIGHT_WINDOW 3

/* The stages that a device works on next, the next one first. A pair that fills the window brings both its stages, so
 * there may be one more. */
typedef struct {
  guint n;
  guint16 stage[PS_WEIGHT_WINDOW + 1];
  guint32 used[PS_WEIGHT_WINDOW + 1]; /* place of its next op */
} PsWeightWindow;

/* Goes one cell (an op, or the two of a pair) back in the order, to the one at that place with these stages. */
void ps_weight_window_front (PsWeightWindow *window, const guint16 *stages, guint n, guint place);

/* The same from `next` in the order of the device whose first op is `first`. Returns the cell's place. */
guint ps_weight_window_back (PsWeightWindow *window, const PsSchedule *schedule, guint first, guint next);

/* How many of the stages, from the front, have their weights gathered. */
guint ps_weight_window_size (const PsWeightWindow *window);

gboolean ps_weight_window_holds (const guint16 *stages, guint n, guint stage);

/* Actions that a device spends on weights before each op, or before the first op of a pair: one for each stage that
 * is gathered or dropped, and one after the last backward of a stage, for reducing its gradients. Entry i is that of
 * ops[i] of the schedule. Free with g_free. */
guint8 *ps_weight_actions (const PsSchedule *schedule);
