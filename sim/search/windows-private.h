/* windows-private.h - parts shared by the files of windows.h. */
#pragma once

#include "states.h"
#include "windows.h"

/* The window of an op as it was. */
typedef struct
{
  guint32 op;
  gint64 start;
  gint64 end;
} PsWindowBefore;

struct PsWindows
{
  const PsProblem *problem;
  PsStates **states;  /* [n_devices] NULL: none */
  gint64 *head;       /* [n_ops] earliest starts for any target; NULL: only longest paths, because they take too long */
  guint heads_of;     /* the device whose span they are for; n_devices: makespan */
  gint64 *start;      /* [n_ops] earliest start */
  gint64 *end;        /* [n_ops] latest end */
  GArray *trail;      /* of PsWindowBefore, since the first mark; NULL: no marks */
  guint32 *noted;     /* [n_ops] the last mark after which the trail took the op */
  guint32 mark;       /* the last one; 0: none */
  gint64 *lane_start; /* of one device, by lane */
  gint64 *lane_end;
  guint32 *fixed;   /* [n_ops] the ops that devices do first, in order, placed as in an order's sequence */
  guint32 *n_fixed; /* [n_devices] */
  guint8 *touched;  /* [n_devices] whether a window changed since the device was narrowed */
  gboolean is_new;  /* opened, and not yet narrowed */
  gint64 target;
  gint64 open;   /* least target that n_cases are known not to refute */
  guint n_cases; /* most cases that a target was split into */
  guint span_of; /* the device whose first op starts at 0 and whose last one ends at the target; n_devices: all */
  guint refuter; /* the device whose span refuted the last target */
  gboolean (*go_on) (gpointer data);
  gpointer data;
  gboolean stopped;
};

/* Sets the earliest starts of a problem without joins: [n_ops]. Each follows from longest paths, the work before it on
 * its device, and the memory that earlier microbatches must have given back. The first F of stage `base` is at 0 or
 * later; stages below it may have run before. */
void ps_windows_heads (const PsProblem *problem, guint base, gint64 *start);

/* Opens all windows and fixes no op. A span counts from the device's own first op; no forward of a lower stage follows
 * from that. */
void ps_windows_open (PsWindows *windows, guint span_of, gint64 target);

/* Whether heads by work and memory do not take too long. */
gboolean ps_windows_has_heads (const PsProblem *problem);

/* Whether the ops of a device end by the target. */
static inline gboolean
ps_windows_counts (const PsWindows *windows, guint device)
{
  return windows->span_of == windows->problem->n_devices || windows->span_of == device;
}

/* Spreads the latest ends over chains and producers. */
void ps_windows_follow_back (PsWindows *windows);

/* Spreads all windows over chains and producers. FALSE: some op has no room in its window. */
gboolean ps_windows_follow (PsWindows *windows);

/* Narrows until nothing changes. FALSE: the windows prove that no order meets the target. */
gboolean ps_windows_narrow (PsWindows *windows);

/* Narrows the window of one op. */
void ps_windows_limit (PsWindows *windows, guint op, gint64 start, gint64 end);

/* Marks the windows, once they are narrowed; returns a place of the trail, to bring them back to. */
guint ps_windows_mark (PsWindows *windows);
void ps_windows_undo (PsWindows *windows, guint place);

/* Descends from the windows as they are. */
PsDescended ps_windows_explore (PsWindows *windows, const PsDescent *descent);

/* A bound from the memory that the ops of a device hold over time, for windows that are open to target 0, where no
 * order is below `least`. 0: none. */
gint64 ps_windows_area_bound (const PsWindows *windows, guint device, gint64 least);
