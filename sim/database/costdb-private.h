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

/* The length of a profile's name without the number of a calibration. */
gsize ps_profile_name_length (const char *name);

G_END_DECLS

#endif
