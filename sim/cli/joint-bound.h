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
  PsPlacement *placement; /* where any device may hold any stage, there is a copy of all of them on each */
  gint64 *memory_limit;   /* [n_devices]; NULL: none */
  gboolean any_device;
} SearchQuestion;

/* All cuts of a model into stages of one unit or more. */
typedef struct
{
  guint n_units;
  /* The ways to run any stage with units first to last - 1, with the costs of a slice as a search takes them: [stage]
   * of each. NULL: there are no costs. The result lives as long as data. */
  const SearchWays *(*load) (guint first, guint last, gpointer data);
  gpointer data;
} SearchCuts;

/* Gives a stage the costs that it has in other costs of the same stages. */
void search_take_stage (PsCosts *costs, const PsCosts *from, guint stage);

/* Lets stages move to other devices where no placement was asked for, and where it may help: devices hold several
 * stages or are not alike. The question, which has its memory limit, is then of all placements. FALSE: the setting's
 * speeds are wrong. */
gboolean search_open_placement (SearchQuestion *question, const PsCosts *costs);

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
gint64 search_bound (const SearchQuestion *question, const PsCosts *costs, gint64 enough, guint64 *n_steps);

/* No schedule is faster, whichever way each stage runs; no more than `enough`, the time of a schedule found. */
gint64 search_bound_ways (const SearchQuestion *question, const SearchWays *ways, gint64 enough);

/* No schedule is faster, wherever the model is cut and whichever way each stage runs, and wherever it is if
 * any_device; no more than `enough`. 0: there are no costs. */
gint64 search_bound_cuts (const SearchQuestion *question, const SearchCuts *cuts, gint64 enough);
