/* inject.h - microbatches enter the periods of a cell, each as soon as memory allows. */
#pragma once

#include "cell.h"

typedef struct
{
  const PsCell *cell;
  gint64 pace; /* ns between microbatches of a copy, on average at least */
  guint burst; /* microbatches that may enter ahead of the pace */
} PsInjection;

/* Lists the F and B of each device by their planned starts: list is [n_ops], filled from problem->first on. A W counts
 * as run right after its B, but takes no time of its device. FALSE: a microbatch does not fit the memory. */
gboolean ps_inject (const PsProblem *problem, const PsInjection *injection, guint32 *list);
