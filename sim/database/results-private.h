/* results-private.h - the database of results, for the files that answer questions. Private to libpipesim. */
#ifndef PIPESIM_RESULTS_PRIVATE_H
#define PIPESIM_RESULTS_PRIVATE_H

#include "database.h"

#include <pipesim/results.h>

G_BEGIN_DECLS

struct _PsResults
{
  PsDatabase *file;
};

G_END_DECLS

#endif
