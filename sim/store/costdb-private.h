/* costdb-private.h - code shared by sim/store/costdb-*.c. Private to libpipesim. */
#pragma once

#include "database.h"
#include <pipesim/costdb.h>

struct _PsCostDb
{
  PsDatabase *file;
};

/* The length of a profile's name without the number of a calibration. */
gsize ps_profile_name_length (const char *name);
