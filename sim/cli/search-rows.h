/* search-rows.h - a row for each choice of a search. */
#pragma once

#include "plan/search-try.h"

#include <pipesim/option.h>

#define SEARCH_N_COLUMNS 27

/* Fills [SEARCH_N_COLUMNS]; columns that say nothing under the setting have no title. */
void search_columns (const PsSetting *setting, SearchObjective objective, PsColumn *columns);

/* The setting is that of the choice. */
void search_add_row (PsTable *table, SearchObjective objective, const PsSetting *setting, const SearchChoice *choice,
                     const SearchFound *found);
