/* windows.h - the moments between which each op can run if the objective is to be at most a target. A target without
 * such windows proves a bound. docs/bounds.md has the argument. */
#pragma once

#include "problem.h"
#include "order.h"
#include "random.h"

/* Times before everything, and after everything: all times of an iteration add up to less than 2^62. */
#define NEVER (G_MAXINT64 / 2)

/* Ops that a device runs in a fixed order: those of one F or B chain, or the W of all chains with equal costs. */
typedef struct
{
  guint n;     /* ops */
  guint first; /* index of the first one's window */
  guint shift; /* of the number of ops done, in the key of a state */
  guint mask;  /* of this number */
  gint64 duration;
  gint64 take;
  gint64 give;
  guint n_chains;
  guint *chain; /* [n_chains] */
  guint needs;  /* bit set of lanes: each of them has to be ahead of this one, of W all together */
} PsLane;

typedef struct
{
  guint n_lanes;
  PsLane *lane;
  guint n_windows;
  guint n_states;
  guint64 *key;   /* [n_states] how many ops of each lane are done; states with fewer ops come first */
  guint32 *child; /* [n_states * n_lanes] state after one more op of the lane; 0: it cannot follow */
  guint32 from;   /* state that the device is known to reach; 0 at first */
  gint64 ready;   /* least time at which it is there */
  guint n_open;
  guint32 *open; /* [n_open] states that a path within the windows can have, in order */
  gint64 *early; /* [n_states] least time at which the device can be there */
  gint64 *late;  /* [n_states] latest time from which it can end all ops within their windows */
} PsStates;

void ps_states_free (PsStates *states);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsStates, ps_states_free)

/* A bound from the longest paths to and from every op, and the work between: each device runs its ops one after the
 * other, preempted at will (J. R. Jackson's rule; J. Carlier, EJOR 11, 1982). 0 where ops may be joined, because they
 * take less time then. Activations held over time are another bound. It takes O(n log n) for n ops, times the number of
 * devices where spans count. */
gint64 ps_windows_root_bound (const PsProblem *problem);

/* Windows of all ops, narrowed by the states of each device. */
typedef struct PsWindows PsWindows;

/* max_states: of all devices together. A device with too many goes without. NULL: no windows help. */
PsWindows *ps_windows_new (const PsProblem *problem, guint max_states);

void ps_windows_free (PsWindows *windows);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsWindows, ps_windows_free)

/* Steps between states that one pass over a device takes, on average. */
guint64 ps_windows_steps (const PsWindows *windows);

/* The least value from `lower` to `upper` that is not refuted as objective: no order is below it. Each target is split
 * into at most n_cases cases, which may lead to orders: `order` takes one that is better than itself (NULL: none is
 * wanted). go_on is called before each device's pass; FALSE ends the search for a better bound. */
gint64 ps_windows_bound (PsWindows *windows, gint64 lower, gint64 upper, guint n_cases, PsOrder *order,
                         gboolean (*go_on) (gpointer data), gpointer data);

typedef enum
{
  PS_DESCENDED_FOUND,   /* `order` meets the target */
  PS_DESCENDED_REFUTED, /* no order does */
  PS_DESCENDED_STOPPED, /* undecided */
} PsDescended;

/* A search for an order with an objective of at most `target`. */
typedef struct
{
  PsOrder *order; /* takes the order */
  gint64 target;
  const PsOrder *near; /* an evaluated order: ops end at most `reach` before or after they do there; NULL: anywhere */
  gint64 reach;
  guint max_fails;                   /* dead ends until it stops */
  PsRandom *random;                  /* decides between ops whose windows overlap */
  gboolean (*go_on) (gpointer data); /* called before each device's pass; FALSE: stop */
  gpointer data;
} PsDescent;

/* Fixes the next op of the device that can end one first, and narrows all windows, depth first. Only for makespans, and
 * if every device has states. */
PsDescended ps_windows_descend (PsWindows *windows, const PsDescent *descent);

gboolean ps_windows_can_descend (const PsWindows *windows);

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
