/* sweep-private.h - fields, values and points of a sweep, for the files that predict them. Private to libpipesim. */
#pragma once

#include "setting/options.h"
#include <pipesim/sweep.h>

/* The field of a spec of that name; NULL: there is none. */
const PsOption *ps_sweep_field_find (const char *name);

typedef struct {
  char *text;         /* as the spec has it, ranges written out */
  PsSetting *setting; /* only this value is set */
  gint64 own;         /* the value of a field that is PS_FIELD_OWN */
  PsValue value;      /* for the results */
  char *content;      /* digest of the file that it names; NULL: none */
} PsSweepValue;

/* Reads one value. Errors: PS_ERROR_INPUT, PS_ERROR_IO "where: ...". Free with ps_sweep_value_free. */
PsSweepValue *ps_sweep_value_new (const char *where, const PsOption *field, const char *text,
                                  GError **error) G_GNUC_WARN_UNUSED_RESULT;

void ps_sweep_value_free (PsSweepValue *value);

/* One field of the spec. */
typedef struct {
  const PsOption *field;
  char *zip;         /* name of its group, whose fields go together; NULL: a field of [sweep] */
  GPtrArray *values; /* of PsSweepValue */
  guint64 stride;    /* settings from one value to the next */
} PsSweepAxis;

struct _PsSweep {
  char *where;
  GArray *axes; /* of PsSweepAxis, slowest first */
  guint64 n_points;
  PsSetting *defaults;
  PsValue *default_values; /* of the results, where nothing is swept; as PsResult.values */
  GHashTable *clusters;    /* name -> PsCluster, of all that the spec names */
  GHashTable *models;      /* name, or "database\nprofile" -> PsModel; no profile named: "database\n" */
  char *text;              /* the spec with all values written out; two specs with one text are one sweep */
  char *digest;            /* SHA-256 (hexadecimal) over that text and over the contents of the files named in it */
};

/* The field of that name; NULL: the spec has none. */
const PsSweepAxis *ps_sweep_axis (const PsSweep *sweep, const char *name);

/* A setting of the sweep. */
typedef struct {
  PsSetting setting; /* shares everything with the sweep; never cleared */
  const char *schedule;
  gint64 global_batch;         /* 0: not given */
  GString *costs;              /* of the setting, where keys of costs are swept by themselves */
  const PsSweepValue **values; /* [axes] */
} PsSweepPoint;

void ps_sweep_point_init (PsSweepPoint *point, const PsSweep *sweep);

void ps_sweep_point_clear (PsSweepPoint *point);

/* Returns whether costs may be others than those of the point before. */
gboolean ps_sweep_point_set (PsSweepPoint *point, const PsSweep *sweep, guint64 index);

/* Sequences per microbatch of a point's setting; 0: not known. */
guint ps_sweep_microbatch_size (const PsSetting *setting);

/* Threads that work until one of them fails. */
typedef struct {
  gint stop;    /* one has failed; atomic */
  GMutex mutex; /* of error, and of the caller's data */
  GError *error;
} PsThreads;

/* Ends the work with that error, which it takes; the first one counts. */
void ps_threads_fail (PsThreads *threads, GError *error);

/* Calls work (data) on n threads, this one among them, and waits for them. */
gboolean ps_threads_run (PsThreads *threads, guint n, GThreadFunc work, gpointer data, GError **error);
