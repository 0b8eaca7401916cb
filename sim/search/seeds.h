/* seeds.h - what a search starts from: the published schedules. */
#pragma once

#include "greedy.h"

#include <pipesim/search.h>

/* A schedule and its price. */
typedef struct
{
  PsSchedule *schedule; /* NULL: none */
  gint64 price_ns;      /* G_MAXINT64: it is not to be returned */
  const char *found_by;
} PsPriced;

/* Prices a schedule, takes it over, and keeps it if it is the first or better. Returns its price. */
gint64 ps_priced_take (PsPriced *best, const PsSearchSetting *setting, PsSchedule *schedule, const char *found_by);

/* A problem and where to start. */
typedef struct
{
  PsProblem *problem; /* NULL: none */
  PsOrder *order;     /* an evaluated solution */
  gint64 lower_bound_ns;
} PsStart;

/* Fills a problem's start with the best order: of the families with this placement that keep to the limit, and of a
 * plain rule. If `priced` is not NULL, it also takes the order and the families' schedules with a flush, as they were
 * generated. */
void ps_start_init (PsStart *start, const PsSearchSetting *setting, PsPriced *priced);
void ps_start_clear (PsStart *start);

/* The bound of a start; the setting's costs are those of a slice. */
gint64 ps_start_bound (const PsSearchSetting *setting, const PsProblem *problem);

/* Fills the order with one microbatch after the other, of each copy in turn, through all stages and back, fused where
 * that takes less memory. It fits if each device has ps_search_least_memory. */
void ps_order_one_by_one (PsOrder *order);
