/* sweep-private.h - fields, values and points of a sweep. Private to libpipesim. */
#pragma once

#include "setting/options.h"
#include <pipesim/sweep.h>

/* The field of a spec of that name; NULL: there is none. */
const PsOption *ps_sweep_field_find (const char *name);

typedef struct
{
  char *text;         /* as the spec has it, ranges written out */
  PsSetting *setting; /* only this value is set */
  gint64 own;         /* the value of a field that is PS_FIELD_OWN */
  PsValue value;      /* for the results */
  char *content;      /* digest of the file that it names; NULL: none */
} PsSweepValue;

void ps_sweep_value_free (PsSweepValue *value);

/* Writes out `a, 4..64 x2` as single texts. Errors: PS_ERROR_INPUT "where: ...". */
GPtrArray *ps_sweep_expand (const char *where, const PsOption *field, const char *text,
                            GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Reads one such text. Errors: PS_ERROR_INPUT "where: ...". */
PsSweepValue *ps_sweep_value_new (const char *where, const PsOption *field, const char *text,
                                  GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* One field of the spec. */
typedef struct
{
  const PsOption *field;
  guint dimension;
  GPtrArray *values; /* of PsSweepValue */
} PsSweepAxis;

/* Fields that go together: one field, or those of a zip. */
typedef struct
{
  char *zip; /* its name; NULL: a field of [sweep] */
  guint n;   /* values */
  guint64 stride;
  gboolean costs;
} PsSweepDimension;

/* Columns of the results that hold what the prediction found. */
typedef struct
{
  guint schedule, devices, microbatches, chunks, slices, microbatch_size, global_batch, precision, link_bandwidth,
      link_latency, placement, comm_order, layout;
} PsFoundColumns;

struct _PsSweep
{
  char *where;
  GArray *axes;       /* of PsSweepAxis, in the order of the fields */
  GArray *dimensions; /* of PsSweepDimension, slowest first */
  guint64 n_points;
  PsSetting *defaults;
  PsValue *default_values; /* of the results, where nothing is swept; as PsResult.values */
  PsFoundColumns found;
  GHashTable *clusters; /* name -> PsCluster, of all that the spec names */
  GHashTable *models;   /* name -> PsModel, of all that the spec names */
  GHashTable *measured; /* "database\nprofile" -> PsModel stored there; no profile named: "database\n" */
  char *text;
  char *digest;
};

/* The field of that name; NULL: the spec has none. */
const PsSweepAxis *ps_sweep_axis (const PsSweep *sweep, const char *name);

/* A setting of the sweep. */
typedef struct
{
  PsSetting setting; /* shares everything with the sweep; never cleared */
  const char *schedule;
  gint64 global_batch;         /* 0: not given */
  GString *costs;              /* of the setting, where keys of costs are swept by themselves */
  guint *digits;               /* [dimensions] */
  const PsSweepValue **values; /* [axes] */
} PsSweepPoint;

void ps_sweep_point_init (PsSweepPoint *point, const PsSweep *sweep);

void ps_sweep_point_clear (PsSweepPoint *point);

/* Returns whether costs may be others than those of the point before. */
gboolean ps_sweep_point_set (PsSweepPoint *point, const PsSweep *sweep, guint64 index);

/* Sequences per microbatch of a point's setting; 0: not known. */
guint ps_sweep_microbatch_size (const PsSetting *setting);

/* Fills the setting columns from the point, the figures from the prediction. */
void ps_sweep_fill (const PsSweep *sweep, const PsSweepPoint *point, const PsPrediction *prediction, PsResult *result);
