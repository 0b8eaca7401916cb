/* costdb-private.h - the records of a cost database by their fields, for its tables and for a profile's text. Private
 * to sim/store. */
#pragma once

#include "database.h"
#include <pipesim/costdb.h>

struct _PsCostDb
{
  PsDatabase *file;
};

/* The type of a member, and how tables and texts say it. */
typedef enum
{
  PS_STORED_TEXT,     /* char * */
  PS_STORED_STOP,     /* the same, a word of PsMeasurement.stop */
  PS_STORED_NUMBER,   /* gint64 */
  PS_STORED_COUNT,    /* guint */
  PS_STORED_SHARING,  /* guint, at least 1 */
  PS_STORED_SUBJECT,  /* PsSubject */
  PS_STORED_KIND,     /* PsOpKind of a measurement; "" where it is of no op */
  PS_STORED_CACHE,    /* PsCacheState */
  PS_STORED_THROTTLE, /* guint; NULL where it is not known */
} PsStoredType;

#define PS_ALL_SUBJECTS (~0U)

/* A member of a record. Lists end with a row without key. */
typedef struct
{
  const char *key; /* the column, and the key in texts */
  PsStoredType type;
  gsize offset;
  gint64 low;     /* least number; at 1, a text must not be empty */
  gint64 high;    /* 0: that of times and sizes */
  guint without;  /* a bit for each subject whose texts do not have it; records other than measurements have all bits */
  guint optional; /* a bit for each subject whose texts leave it out where it is 0, empty or not known */
  gboolean absent; /* a column is NULL where it is 0 */
} PsStoredField;

extern const PsStoredField ps_profile_fields[];
extern const PsStoredField ps_measurement_fields[];
extern const PsStoredField ps_condition_fields[];
extern const PsStoredField ps_sentinel_fields[];

/* The conditions of a measurement. */
typedef struct
{
  const char *moment;
  gsize offset; /* in PsMeasurement */
} PsStoredMoment;

#define PS_N_MOMENTS 3
extern const PsStoredMoment ps_moments[PS_N_MOMENTS];

/* The bits of a record's subject. */
guint ps_stored_bits (const PsStoredField *fields, gconstpointer record);

static inline gboolean
ps_stored_is_number (const PsStoredField *field)
{
  return field->type >= PS_STORED_NUMBER && field->type <= PS_STORED_SHARING;
}

/* A member as text, a number too; NULL: not known. Free with g_free. */
char *ps_stored_text (gconstpointer record, const PsStoredField *field);

/* Sets a member from its text, which is taken. Errors where it is no word of the type: PS_ERROR_INPUT "where: key:
 * ...".
 */
gboolean ps_stored_parse (const char *where, gpointer record, const PsStoredField *field, char *text, GError **error);

/* The length of a profile's name without the number of a calibration. */
gsize ps_profile_name_length (const char *name);

/* Reads the samples of a measurement that ps_costdb_measurements gave without them. */
gboolean ps_costdb_read_samples (PsCostDb *db, PsMeasurement *measurement, GError **error);
