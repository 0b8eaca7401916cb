/* inject.h - all microbatches take the same way through the devices; each enters as soon as its way is free. */
#pragma once

#include "problem.h"

typedef struct
{
  const gint64 *way; /* [2 * n_stages] ns from a microbatch's entry to its F of each stage, then to its B */
  gint64 pace;       /* ns between microbatches, on average at least */
  guint burst;       /* microbatches that may enter ahead of the pace */
  gint64 enough;     /* ns: a plan that ends later is given up */
} PsInjection;

/* For one copy of the weights. Lists the F and B of each device by their planned starts: list is [n_ops], filled from
 * problem->first on. A W counts as run right after its B, but takes no time of its device. FALSE: the plan ends after
 * `enough`. */
gboolean ps_inject (const PsProblem *problem, const PsInjection *injection, guint32 *list);
