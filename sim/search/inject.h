/* inject.h - microbatches enter the periods of a cell, each as soon as memory allows. */
#pragma once

#include "cell.h"
#include "greedy.h"

typedef struct
{
  const PsCell *cell;
  gint64 pace;                                        /* ns between microbatches of a copy, on average at least */
  guint burst;                                        /* microbatches that may enter ahead of the pace */
  gboolean (*spend) (guint64 n_moves, gpointer data); /* as of ps_cell_plan; a period counts as no moves */
  gpointer data;
} PsInjection;

/* Fills a plan: F and B of each device by their planned starts, and the W that have room after each, unless plan->n_w
 * is NULL. To the memory a W counts as run right after its B. FALSE: a microbatch does not fit the memory, or spend
 * ended the plan. */
gboolean ps_inject (const PsProblem *problem, const PsInjection *injection, PsPlan *plan);
