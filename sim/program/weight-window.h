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

/* How many of the stages, from the front, have their weights gathered. */
guint ps_weight_window_size (const PsWeightWindow *window);

/* The windows of a device's cells (an op, or the two of a pair), by the place of their first ops after that of the
 * device's; the last one, after all ops, is empty. Free with g_free. */
PsWeightWindow *ps_weight_windows (const PsSchedule *schedule, guint device);

/* The stages whose weights a device has gathered, in the order in which they were. */
typedef struct {
  guint n;
  guint16 stage[2 * (PS_WEIGHT_WINDOW + 1)];
} PsGathered;

/* Takes a stage that is gathered or dropped. */
typedef void (*PsWeightAction) (gpointer data, guint stage, gboolean gathers);

/* Goes on to a cell's window: drops the stages outside it, then gathers those that are new in it. */
void ps_gathered_change (PsGathered *gathered, const PsWeightWindow *window, PsWeightAction act, gpointer data);

/* Actions that a device spends on weights before each op, or before the first op of a pair: one for each stage that
 * is gathered or dropped, and n_reduce after the last backward of a stage, for reducing its gradients. Entry i is that
 * of ops[i] of the schedule. Free with g_free. */
guint8 *ps_weight_actions (const PsSchedule *schedule, guint n_reduce);
