/* cell.h - a steady state: microbatches take the same ways period after period, and phases differ from device to
 * device. */
#pragma once

#include "problem.h"

typedef struct
{
  guint n_waves; /* microbatches of each copy in a period */
  gint64 period; /* ns */
  gint64 *start; /* [n_waves * 2 * n_stages] ns: the wave's F of each stage, then its B */
} PsCell;

/* Whether cells exist: every lane of n_devices stages goes from the first device to the last or back, and lanes go one
 * way, or as many go back as forth. */
gboolean ps_cell_suits (const PsProblem *problem);

guint ps_cell_n_waves (const PsProblem *problem);

/* A cell leaves room for n_w of every two W, which is 2 at most; others have to run where microbatches are left out.
 * The least stretch of its period at which no op has to wait: a way to the next device and back takes a part of it. 1
 * where no stretch does that: lanes go both ways. */
double ps_cell_no_wait (const PsProblem *problem, guint n_w);

/* Units by which the ops of a turn are too long or too short, as a part of the turn, if times are rounded as in
 * ps_cell_plan. It is that of the first device's first stage. */
double ps_cell_rounding (const PsProblem *problem, guint n_w, double stretch, guint n_units);

/* Fills the cell whose waits are shortest. The period is `stretch` times the work that it has room for at the busiest
 * device. Times are rounded to units; two lanes' share of the period has n_units of them. spend is told the moves that
 * the next device counts as; FALSE ends the plan. Returns FALSE where there is no cell, or the plan was ended. */
gboolean ps_cell_plan (PsCell *cell, const PsProblem *problem, guint n_w, double stretch, guint n_units,
                       gboolean (*spend) (guint64 n_moves, gpointer data), gpointer data);

/* Whether lanes go both ways, where cells exist. */
static inline gboolean
ps_cell_goes_both_ways (const PsProblem *problem)
{
  return problem->device[problem->n_stages - 1] == 0;
}
