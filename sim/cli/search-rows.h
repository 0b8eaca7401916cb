/* search-rows.h - a row for each choice of a search. */
#ifndef PS_SEARCH_ROWS_H
#define PS_SEARCH_ROWS_H

#include "search-try.h"

#include <pipesim/report.h>

#define SEARCH_N_COLUMNS 26

/* Fills [SEARCH_N_COLUMNS]; columns that say nothing under the setting have no title. */
void search_columns (const PsSetting *setting, SearchObjective objective, PsColumn *columns);

/* recompute: of all stages, or of each. */
void search_add_row (PsTable *table, SearchObjective objective, const SearchChoice *choice, const char *recompute,
                     const SearchFound *found);

#endif
