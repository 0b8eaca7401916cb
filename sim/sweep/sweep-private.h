/* sweep-private.h - fields, values and points of a sweep. Private to libpipesim. */
#ifndef PIPESIM_SWEEP_PRIVATE_H
#define PIPESIM_SWEEP_PRIVATE_H

#include <pipesim/predictor.h>
#include <pipesim/sweep.h>

G_BEGIN_DECLS

/* How the texts of a field are read, and what of them stands in the results. */
typedef enum
{
  PS_FIELD_COUNT,
  PS_FIELD_TIME,
  PS_FIELD_SIZE, /* one, or one for each device: the smallest counts */
  PS_FIELD_FACTOR,
  PS_FIELD_FACTORS, /* one, or one for each device */
  PS_FIELD_TEXT,
  PS_FIELD_FLAG, /* yes or no */
} PsFieldType;

typedef struct
{
  gsize offset; /* in PsSetting */
  gsize size;
} PsFieldPart;

typedef struct
{
  const char *name; /* of the option, less its dashes */
  PsFieldType type;
  const char *column;  /* of the results; NULL: the prediction says better */
  const char *none;    /* a word for the option not given; NULL: there is none */
  guint8 keys;         /* PsPredictorKey: the parts of a setting that the field is of */
  gboolean option;     /* read as an option of SETTING; FALSE: by sweep-values.c */
  PsFieldPart part[2]; /* where the setting keeps it; size 0: nowhere */
} PsField;

const PsField *ps_sweep_field_find (const char *name);
char *ps_sweep_field_names (void);

/* The key of costs that a field stands for; NULL: none. */
const char *ps_sweep_field_cost (const PsField *field);

typedef struct
{
  char *text;         /* as the spec has it, ranges written out */
  PsSetting *setting; /* this value and nothing else */
  PsValue value;      /* for the results */
  char *content;      /* digest of the file that it names; NULL: none */
} PsSweepValue;

void ps_sweep_value_free (PsSweepValue *value);

/* Writes out `a, 4..64 x2` as single texts. Errors: PS_ERROR_INPUT "where: ...". */
GPtrArray *ps_sweep_expand (const char *where, const PsField *field, const char *text,
                            GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Reads one such text. Errors: PS_ERROR_INPUT "where: ...". */
PsSweepValue *ps_sweep_value_new (const char *where, const PsField *field, const char *text,
                                  GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* One field of the spec. */
typedef struct
{
  const PsField *field;
  guint dimension;
  int column;        /* of the results; -1: none */
  GPtrArray *values; /* of PsSweepValue */
} PsSweepAxis;

/* Fields that go together: one field, or those of a zip. */
typedef struct
{
  char *zip; /* its name; NULL: a field of [sweep] */
  guint n;   /* values */
  guint64 stride;
  guint8 keys;
} PsSweepDimension;

struct _PsSweep
{
  char *where;
  GArray *axes;       /* of PsSweepAxis, in the order of the fields */
  GArray *dimensions; /* of PsSweepDimension, slowest first */
  guint64 n_points;
  PsSetting *defaults;
  PsValue *default_values; /* [PS_N_STORED] of the results */
  GHashTable *clusters;    /* name -> PsCluster, of all that the spec names */
  GHashTable *models;      /* name -> PsModel, likewise */
  GHashTable *measured;    /* "database\nprofile" -> PsModel stored there; no profile named: "database\n" */
  char *text;
  char *digest;
};

/* No fields yet. Free with ps_sweep_free. */
PsSweep *ps_sweep_new (const char *where);

/* When all fields are there: order, number, files, identity. Errors: PS_ERROR_INPUT, PS_ERROR_IO. */
gboolean ps_sweep_arrange (PsSweep *sweep, GError **error);

/* The field of that name; NULL: the spec has none. */
const PsSweepAxis *ps_sweep_axis (const PsSweep *sweep, const char *name);

/* What the columns of the results hold where nothing is swept. Free with g_free. */
PsValue *ps_sweep_default_values (void);

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
void ps_sweep_point_set (PsSweepPoint *point, const PsSweep *sweep, guint64 index);

/* Sequences per microbatch of a point's setting; 0: not known. */
guint ps_sweep_microbatch_size (const PsSetting *setting);

/* Fills the setting columns from the point, the figures from the prediction. */
void ps_sweep_fill (const PsSweep *sweep, const PsSweepPoint *point, const PsPrediction *prediction, PsResult *result);

G_END_DECLS

#endif
