/* search-options.h - the command line of pipesim search. */
#pragma once

#include "predict-spread.h"
#include "search-rows.h"

#include <pipesim/plan.h>

typedef struct
{
  PsSetting *setting;
  char *output;
  PsLaunchChoice launch;
  gboolean json;
  PsColumnChoice columns;
  gint64 time_limit_ns;
  gboolean has_time_limit;
  gint64 seed;
  gint64 moves;          /* 0: not given */
  guint jobs;            /* 0: not given */
  guint microbatch_size; /* 0: not given */
  gboolean any_size;     /* --microbatch-size auto */
  gboolean joint;
  gboolean any_chunks; /* no -v */
  guint objective;     /* SearchObjective */
  guint n_samples;     /* 0: not given */
  PsVariation variation;
  SearchSamples samples;
} SearchOptions;

/* Reads and checks the command line, help included. Errors: PS_ERROR_USAGE. */
gboolean search_options_parse (SearchOptions *options, int argc, char **argv, GError **error);
void search_options_clear (SearchOptions *options);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SearchOptions, search_options_clear)

/* Fills [SEARCH_N_COLUMNS]. One microbatch size, one slice, and one part that is
 * recomputed go without saying. */
void search_options_columns (const SearchOptions *options, PsColumn *columns);
