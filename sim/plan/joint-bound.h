/* joint-bound.h - bounds for stages that may each run in several ways. */
#pragma once

#include "search-choices.h"

/* Ways to run a stage: three kinds of recomputation, each with and without offload. */
#define SEARCH_MAX_WAYS 6

typedef struct
{
  guint n;
  PsCosts *costs[SEARCH_MAX_WAYS]; /* of all stages run so */
  PsRecompute recompute[SEARCH_MAX_WAYS];
  double offload[SEARCH_MAX_WAYS];
} SearchWays;

/* The schedules to bound, without their costs. */
typedef struct
{
  const PsSetting *setting;
  const SearchChoice *choice;
  PsPlacement *placement;
  gint64 *memory_limit; /* [n_devices]; NULL: none */
} SearchQuestion;

/* Gives a stage the costs that it has in other costs of the same stages. */
void search_take_stage (PsCosts *costs, const PsCosts *from, guint stage);

/* The way of all stages that recompute so and do not offload; ways->n: there is none. */
guint search_find_way (const SearchWays *ways, PsRecompute recompute);

/* Gives a stage the least time of each op, and the least memory after each op, over all its ways and those costs. */
void search_relax_stage (const SearchWays *ways, PsCosts *costs, guint stage);

/* Lets microbatches of a stage each recompute or not (PsCosts.may_recompute): costs have no recomputation, and full the
 * same ones with all of it. NULL: none recomputes. Both may yet be divided into n_slices. */
void search_mix_stage (PsCosts *costs, const PsCosts *full, guint stage, guint n_slices);

/* Makes one way of two, of full recomputation and of none, as search_mix_stage does with each stage. Does nothing where
 * one of them is missing. */
void search_mix_ways (SearchWays *ways, guint n_slices);

/* No schedule of these stages is faster. As ps_search_bound. */
gint64 search_bound (const SearchQuestion *question, const PsCosts *costs, gint64 enough);

/* No schedule of these stages is faster, whichever way each of them runs; no more than `enough`, the time of a schedule
 * found. */
gint64 search_bound_ways (const SearchQuestion *question, const SearchWays *ways, gint64 enough);
