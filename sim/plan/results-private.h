/* results-private.h - the database of results, for the files that store rows and answer questions. Private to
 * libpipesim. */
#pragma once

#include "store/database.h"
#include <pipesim/sweep.h>

struct _PsResults
{
  PsDatabase *file;
  PsRows *many; /* insert ROWS_AT_ONCE rows, or a single one; NULL: not made yet */
  PsRows *single;
  PsRows *skipped;
};
