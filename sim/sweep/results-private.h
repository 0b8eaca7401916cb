/* results-private.h - the database of results, for the files that answer questions. Private to libpipesim. */
#pragma once

#include "database/database.h"

#include <pipesim/results.h>

struct _PsResults
{
  PsDatabase *file;
  PsRows *predicted; /* insert a row; NULL: not made yet */
  PsRows *skipped;
};
