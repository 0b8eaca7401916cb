/* costdb-private.h - code shared by sim/database/costdb-*.c. Private to libpipesim. */
#ifndef PIPESIM_COSTDB_PRIVATE_H
#define PIPESIM_COSTDB_PRIVATE_H

#include "database.h"

#include <pipesim/costdb.h>

G_BEGIN_DECLS

struct _PsCostDb
{
  PsDatabase *file;
};

G_END_DECLS

#endif
