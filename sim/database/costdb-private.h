/* costdb-private.h - code shared by sim/database/costdb-*.c. Private to libpipesim. */
#pragma once

#include "database.h"

#include <pipesim/costdb.h>

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

/* Reads the samples of a measurement that ps_costdb_measurements gave without them. */
gboolean ps_costdb_read_samples (PsCostDb *db, PsMeasurement *measurement, GError **error);

/* The length of a profile's name without the number of a calibration. */
gsize ps_profile_name_length (const char *name);

/* Everything one request for costs works with. Clear with ps_cost_request_clear. */
typedef struct
{
  PsCostDb *db;
  GPtrArray *profiles;
  const PsProfile *profile; /* one of them */
  PsModel *stored;          /* the model of the profile, if none was given */
  const PsModel *model;
  GPtrArray *measurements;
  guint *shares;        /* [n_devices] of the profile; NULL: equal parts */
  PsStageShape *shapes; /* [n_devices * n_chunks]; NULL without a model */
  guint n_devices;
  guint n_chunks;
} PsCostRequest;

/* Finds profile, model, shares, shapes (copied; NULL: those of ps_model_split) and measurements, which have no samples;
 * db, model, n_devices and n_chunks are set. The caller clears the request in any case. */
gboolean ps_cost_request_open (PsCostRequest *request, const char *profile_name, const PsStageShape *shapes,
                               GError **error);
void ps_cost_request_clear (PsCostRequest *request);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsCostRequest, ps_cost_request_clear)

/* The shapes of all stages, and what the model says about their sizes. costs NULL: the shapes alone. */
char **ps_cost_request_keys (const PsCostRequest *request, PsCosts *costs, GError **error);

/* Parameters that a device holds of a stage. Devices that share its layers have embedding and head whole. */
gint64 ps_cost_request_parameters (const PsCostRequest *request, const PsStageShape *shape);

/* The least number of slices, more than n, whose first one of that stage shape was measured; 0: there is none. */
guint ps_cost_request_slices (const PsCostRequest *request, const char *key, guint n);

/* A stage's share of an accelerator under placement loop; 0: equal ones. */
guint ps_cost_request_share (const PsCostRequest *request, guint stage);

/* The row that describes an op best, by the rule of ps_costdb_costs. NULL: there is none. F stands for R. */
const PsMeasurement *ps_cost_request_op (const PsCostRequest *request, const char *shape, guint share, PsOpKind kind);
const PsMeasurement *ps_cost_request_recompute (const PsCostRequest *request, const char *shape, guint share);

/* Any row of that subject and shape; NULL: there is none. */
const PsMeasurement *ps_cost_request_plain (const PsCostRequest *request, PsSubject subject, const char *shape);

gboolean ps_cost_request_is_imported (const PsCostRequest *request);

/* The transfers of the first link's class, or the all-reduces, that suit, by size; free with g_ptr_array_unref. */
GPtrArray *ps_cost_request_messages (const PsCostRequest *request, PsSubject subject);

/* The transfers between two devices: those of the link's class, but its own where these differ (ps_links_differ). Where
 * neither was measured they are those of the first link's class, and *origin becomes PS_ORIGIN_INTERPOLATED. */
GPtrArray *ps_cost_request_link (const PsCostRequest *request, guint a, guint b, PsOrigin *origin);

/* The two measured sizes on whose line `bytes` lies: the nearest below and above, or the two outermost on its side.
 * Both are the same where it is exactly that size, or where only one was measured. */
void ps_cost_request_neighbours (GPtrArray *transfers, gint64 bytes, const PsMeasurement **below,
                                 const PsMeasurement **above);
