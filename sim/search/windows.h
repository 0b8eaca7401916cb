/* windows.h - the moments between which each op can run if the objective is to be at most a target. A target without
 * such windows proves a bound. docs/bounds.md has the argument. */
#pragma once

#include "order.h"

/* A bound from the longest paths to and from every op, and the work between: each device runs its ops one after the
 * other, preempted at will (J. R. Jackson's rule; J. Carlier, EJOR 11, 1982). 0 where ops may be joined, because they
 * take less time then. It takes O(n log n) for n ops, times the number of
 * devices where spans count. */
gint64 ps_one_machine_bound (const PsProblem *problem);

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

typedef enum {
  PS_DESCENDED_FOUND,   /* `order` meets the target */
  PS_DESCENDED_REFUTED, /* no order does */
  PS_DESCENDED_STOPPED, /* undecided */
} PsDescended;

/* A search for an order with an objective of at most `target`. */
typedef struct {
  PsOrder *order; /* takes the order */
  gint64 target;
  guint max_fails;                   /* dead ends until it stops */
  PsRandom *random;                  /* decides between ops whose windows overlap */
  gboolean (*go_on) (gpointer data); /* called before each device's pass; FALSE: stop */
  gpointer data;
} PsDescent;

/* Fixes the next op of the device that can end one first, and narrows all windows, depth first. Only for makespans, and
 * if every device has states. */
PsDescended ps_windows_descend (PsWindows *windows, const PsDescent *descent);

gboolean ps_windows_can_descend (const PsWindows *windows);
