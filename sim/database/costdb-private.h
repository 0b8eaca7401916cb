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

/* The profile of that name among all (ps_costdb_profiles); NULL: the only one. PS_ERROR_INPUT says which there are. */
const PsProfile *ps_costdb_choose_profile (PsCostDb *db, GPtrArray *profiles, const char *name, GError **error);

/* The model stored with a profile. */
PsModel *ps_costdb_stored_model (PsCostDb *db, const PsProfile *profile, GError **error);

/* Refuses another model than the profile's: measured times say nothing about it. */
gboolean ps_costdb_check_model (PsCostDb *db, const PsProfile *profile, const PsModel *model, GError **error);

/* The length of a profile's name without the number of a calibration. */
gsize ps_profile_name_length (const char *name);

G_END_DECLS

#endif
