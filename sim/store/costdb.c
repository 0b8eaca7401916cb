/* costdb.c - the cost database: profiles, measurements, readings of the sentinel and runs, by the tables of their
 * fields. */
#include "costdb-private.h"
#include "base/names.h"
#include "base/text.h"

#include <string.h>

static const PsDatabaseKind kind = {
  .what = "cost database",
  .schema = "schema.sql",
  .application_id = 0x50534344, /* "PSCD" */
  .version = PS_COSTDB_VERSION,
};

void
ps_costdb_close (PsCostDb *db)
{
  if (db == NULL)
    return;
  ps_database_close (db->file);
  g_free (db);
}

PsCostDb *
ps_costdb_open (const char *path, PsCostDbMode mode, GError **error)
{
  PsDatabase *file = ps_database_open (path, &kind, mode == PS_COSTDB_WRITE, error);

  if (file == NULL)
    return NULL;
  PsCostDb *db = g_new0 (PsCostDb, 1);
  db->file = file;
  return db;
}

PS_DEFINE_NAMES (PsSubject, ps_subject, "op", "transfer", "self-send", "all-reduce", "pair", "host")
PS_DEFINE_NAMES (PsCacheState, ps_cache_state, "run", "cold", "warm")

/* Fields */

#define ALL PS_ALL_SUBJECTS
#define OF(subject) (1U << PS_SUBJECT_##subject)
#define MAX_COUNT 1000000

/* clang-format off */
#define FIELD(key_, structure, member, ...) { .key = key_, .offset = offsetof (structure, member), .type = __VA_ARGS__ }
#define PROFILE(member) FIELD (#member, PsProfile, member, PS_STORED_TEXT)
#define PROFILE_NAME(member) FIELD (#member, PsProfile, member, PS_STORED_TEXT, .low = 1)
#define PROFILE_MAY(member) FIELD (#member, PsProfile, member, PS_STORED_TEXT, .optional = ALL)
#define PROFILE_NUMBER FIELD ("number", PsProfile, number, PS_STORED_COUNT, .without = ALL)
#define MEASURED(member, ...) FIELD (#member, PsMeasurement, member, __VA_ARGS__)
#define TIME(member, ...) FIELD (#member, PsMeasurement, time.member, __VA_ARGS__)
#define CONDITION(member, ...) FIELD (#member, PsCondition, member, __VA_ARGS__, .optional = ALL, .absent = TRUE)
#define READING(member, ...) FIELD (#member, PsSentinel, member, __VA_ARGS__)
#define RUN(member) FIELD (#member, PsRunRecord, member, PS_STORED_TEXT)
#define RUN_COUNT(member) FIELD (#member, PsRunRecord, n_##member, PS_STORED_COUNT)
#define RUN_NUMBER(member) FIELD (#member, PsRunRecord, member, PS_STORED_NUMBER)
#define RUN_CLOCK FIELD ("clock_mhz", PsRunRecord, clock_mhz, PS_STORED_NUMBER, .absent = TRUE)
#define LAST { .key = NULL }
/* clang-format on */

const PsStoredField ps_profile_fields[] = { PROFILE_NAME (name),  PROFILE (model_name),  PROFILE (model_digest),
                                            PROFILE (model_text), PROFILE_NAME (device), PROFILE (transport),
                                            PROFILE (host),       PROFILE (processor),   PROFILE (kernel),
                                            PROFILE (libraries),  PROFILE (version),     PROFILE (created),
                                            PROFILE_MAY (shares), PROFILE_MAY (source),  PROFILE_MAY (choices),
                                            PROFILE_MAY (places), PROFILE_NUMBER,        LAST };

#define N_KEY_FIELDS 8

const PsStoredField ps_measurement_fields[]
    = { MEASURED (subject, PS_STORED_SUBJECT),
        MEASURED (shape, PS_STORED_TEXT, .low = 1, .without = OF (ALL_REDUCE), .optional = OF (TRANSFER)),
        MEASURED (kind, PS_STORED_KIND, .without = ~OF (OP)),
        MEASURED (bytes, PS_STORED_NUMBER, .high = PS_MAX_SIZE_BYTES, .without = OF (OP) | OF (PAIR) | OF (HOST)),
        MEASURED (devices, PS_STORED_COUNT, .low = 1, .high = PS_MAX_DEVICES),
        MEASURED (sharing, PS_STORED_SHARING, .low = 1, .high = PS_MAX_DEVICES),
        MEASURED (share, PS_STORED_COUNT, .low = 1, .high = PS_MAX_SHARE, .without = ~OF (OP), .optional = ALL),
        MEASURED (cache, PS_STORED_CACHE, .without = ~OF (OP)),
        TIME (n, PS_STORED_COUNT, .low = 1, .high = MAX_COUNT),
        TIME (median_ns, PS_STORED_NUMBER, .optional = ALL),
        TIME (q1_ns, PS_STORED_NUMBER, .optional = ALL),
        TIME (q3_ns, PS_STORED_NUMBER, .optional = ALL),
        TIME (mad_ns, PS_STORED_NUMBER, .optional = ALL),
        TIME (min_ns, PS_STORED_NUMBER, .optional = ALL),
        MEASURED (launch_ns, PS_STORED_NUMBER, .optional = ALL, .absent = TRUE),
        MEASURED (take_bytes, PS_STORED_NUMBER, .optional = ALL),
        MEASURED (give_bytes, PS_STORED_NUMBER, .optional = ALL),
        MEASURED (state_bytes, PS_STORED_NUMBER, .optional = ALL),
        MEASURED (stop, PS_STORED_STOP),
        MEASURED (taken, PS_STORED_TEXT),
        LAST };

const PsStoredField ps_condition_fields[] = { CONDITION (clock_mhz, PS_STORED_NUMBER, .low = 1),
                                              CONDITION (memory_clock_mhz, PS_STORED_NUMBER, .low = 1),
                                              CONDITION (temperature_c, PS_STORED_NUMBER, .low = 1),
                                              CONDITION (power_mw, PS_STORED_NUMBER, .low = 1),
                                              CONDITION (throttle, PS_STORED_THROTTLE),
                                              LAST };

const PsStoredMoment ps_moments[PS_N_MOMENTS] = { { "before", offsetof (PsMeasurement, before) },
                                                  { "during", offsetof (PsMeasurement, during) },
                                                  { "after", offsetof (PsMeasurement, after) } };

const PsStoredField ps_sentinel_fields[]
    = { READING (what, PS_STORED_TEXT, .low = 1), READING (median_ns, PS_STORED_NUMBER, .high = PS_MAX_TIME_NS),
        READING (n, PS_STORED_COUNT, .low = 1, .high = MAX_COUNT), READING (taken, PS_STORED_TEXT), LAST };

static const PsStoredField run_fields[] = { RUN (profile),
                                            RUN (schedule),
                                            RUN (device),
                                            RUN (transport),
                                            RUN_COUNT (devices),
                                            RUN_COUNT (chunks),
                                            RUN_COUNT (microbatches),
                                            RUN_COUNT (steps),
                                            RUN_NUMBER (predicted_iteration_ns),
                                            RUN_NUMBER (measured_iteration_ns),
                                            RUN_NUMBER (predicted_peak_bytes),
                                            RUN_NUMBER (measured_peak_bytes),
                                            RUN_CLOCK,
                                            RUN (check),
                                            RUN (started),
                                            LAST };

guint
ps_stored_bits (const PsStoredField *fields, gconstpointer record)
{
  return fields == ps_measurement_fields ? 1U << ((const PsMeasurement *)record)->subject : ALL;
}

char *
ps_stored_text (gconstpointer record, const PsStoredField *field)
{
  gconstpointer at = (const char *)record + field->offset;
  const PsMeasurement *measurement = record;

  switch (field->type)
    {
    case PS_STORED_NUMBER:
      return g_strdup_printf ("%" G_GINT64_FORMAT, *(const gint64 *)at);
    case PS_STORED_COUNT:
      return g_strdup_printf ("%u", *(const guint *)at);
    case PS_STORED_SHARING:
      return g_strdup_printf ("%u", MAX (measurement->sharing, 1));
    case PS_STORED_SUBJECT:
      return g_strdup (ps_subject_name (measurement->subject));
    case PS_STORED_KIND:
      return g_strdup (measurement->subject == PS_SUBJECT_OP ? ps_op_kind_name (measurement->kind) : "");
    case PS_STORED_CACHE:
      return g_strdup (ps_cache_state_name (measurement->cache));
    case PS_STORED_THROTTLE:
      return ps_throttle_to_text (*(const guint *)at);
    default:
      return g_strdup (*(char *const *)at);
    }
}

gboolean
ps_stored_parse (const char *where, gpointer record, const PsStoredField *field, char *text, GError **error)
{
  static const char *const stops[] = { "converged", "sample cap", "time cap", "imported", "estimated" };
  g_autofree char *owned = text, *place = g_strdup_printf ("%s: %s", where, field->key);
  gpointer at = (char *)record + field->offset;
  gboolean known = TRUE;
  guint stop;

  if (field->type == PS_STORED_NUMBER)
    *(gint64 *)at = text != NULL ? g_ascii_strtoll (text, NULL, 10) : 0;
  else if (ps_stored_is_number (field))
    *(guint *)at = (guint)g_ascii_strtoull (text, NULL, 10);
  else if (field->type == PS_STORED_SUBJECT)
    known = ps_subject_parse (place, text, at, error);
  else if (field->type == PS_STORED_KIND && *text != '\0')
    known = ps_op_kind_parse (place, text, at, error);
  else if (field->type == PS_STORED_CACHE)
    known = ps_cache_state_parse (place, text, at, error);
  else if (field->type == PS_STORED_STOP)
    known = ps_parse_name (place, text, stops, G_N_ELEMENTS (stops), &stop, error);
  else if (field->type == PS_STORED_THROTTLE && !ps_throttle_parse (text, at))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: '%s' is no list of reasons to run slower", place, text);
  if (field->type == PS_STORED_TEXT || field->type == PS_STORED_STOP)
    *(char **)at = g_steal_pointer (&owned);
  return known || ps_text_blame_input (error);
}

static void
record_free (const PsStoredField *fields, gpointer record)
{
  for (const PsStoredField *field = fields; field->key != NULL && record != NULL; field++)
    if (field->type == PS_STORED_TEXT || field->type == PS_STORED_STOP)
      g_free (*(char **)(gpointer)((char *)record + field->offset));
  g_free (record);
}

void
ps_profile_free (PsProfile *profile)
{
  record_free (ps_profile_fields, profile);
}

void
ps_measurement_free (PsMeasurement *measurement)
{
  if (measurement != NULL)
    g_free (measurement->samples_ns);
  record_free (ps_measurement_fields, measurement);
}

void
ps_sentinel_free (PsSentinel *sentinel)
{
  record_free (ps_sentinel_fields, sentinel);
}

void
ps_run_record_free (PsRunRecord *run)
{
  record_free (run_fields, run);
}

static gboolean
is_same (const PsMeasurement *a, const PsMeasurement *b)
{
  return a->subject == b->subject && a->kind == b->kind && g_str_equal (a->shape, b->shape) && a->bytes == b->bytes
         && a->devices == b->devices && MAX (a->sharing, 1) == MAX (b->sharing, 1) && a->share == b->share
         && a->cache == b->cache;
}

const PsMeasurement *
ps_measurement_find (GPtrArray *measurements, const PsMeasurement *key)
{
  for (guint i = 0; i < measurements->len; i++)
    if (is_same (measurements->pdata[i], key))
      return measurements->pdata[i];
  return NULL;
}

gboolean
ps_choices_parse (const char *where, const char *text, GBytes **choices, GError **error)
{
  gsize n;

  *choices = NULL;
  if (*text == '\0')
    return TRUE;
  g_autofree guchar *bytes = g_base64_decode (text, &n);
  g_autofree char *again = g_base64_encode (bytes, n);
  if (!g_str_equal (again, text))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: choices: are no base64", where);
  *choices = g_bytes_new_take (g_steal_pointer (&bytes), n);
  return TRUE;
}

/* Records and rows */

typedef struct
{
  const char *name;
  const PsStoredField *fields;
  gsize size; /* of a record */
  GDestroyNotify free;
} Table;

static const Table profile_table
    = { "profile", ps_profile_fields, sizeof (PsProfile), (GDestroyNotify)ps_profile_free };
static const Table measurement_table
    = { "measurement", ps_measurement_fields, sizeof (PsMeasurement), (GDestroyNotify)ps_measurement_free };
static const Table sentinel_table
    = { "sentinel", ps_sentinel_fields, sizeof (PsSentinel), (GDestroyNotify)ps_sentinel_free };
static const Table run_table = { "run", run_fields, sizeof (PsRunRecord), (GDestroyNotify)ps_run_record_free };

/* What a query reads. */
typedef struct
{
  PsCostDb *db;
  const Table *table;
  gboolean with_samples;
} Reading;

/* Appends ", table.column" for each field. */
static void
append_columns (GString *sql, const PsStoredField *fields, const char *table)
{
  for (const PsStoredField *field = fields; field->key != NULL; field++)
    g_string_append_printf (sql, ", \"%s\".\"%s\"", table, field->key);
}

/* Sets the parameters from number `first` on to the first n fields, or all. SQLite makes numbers of texts where a
 * column holds numbers. */
static void
bind_record (PsRows *rows, int first, const PsStoredField *fields, int n, gconstpointer record)
{
  for (int i = 0; i < n && fields[i].key != NULL; i++)
    {
      g_autofree char *text = ps_stored_text (record, &fields[i]);

      if (text == NULL || (fields[i].absent && g_str_equal (text, "0")))
        ps_rows_set_null (rows, first + i);
      else
        ps_rows_set_text (rows, first + i, text);
    }
}

/* Appends a record to a table, with the value in the column before its own; either may be several with commas. */
static gboolean
insert (PsCostDb *db, const char *table, const PsStoredField *fields, const char *column, const char *value,
        gconstpointer record, GError **error)
{
  g_autoptr (GString) sql = g_string_new (NULL), values = g_string_new (value);
  gboolean found;

  g_string_printf (sql, "INSERT INTO %s (%s", table, column);
  for (const PsStoredField *field = fields; field->key != NULL; field++)
    {
      g_string_append_printf (sql, ", \"%s\"", field->key);
      g_string_append (values, ", ?");
    }
  g_string_append_printf (sql, ") VALUES (%s)", values->str);
  g_autoptr (PsRows) rows = ps_rows_new (db->file, error, sql->str, "");
  if (rows == NULL)
    return FALSE;
  bind_record (rows, 0, fields, G_MAXINT, record);
  return ps_rows_next (rows, &found, error);
}

/* Reads a record from *column and those after it; *column becomes the next one. */
static gboolean
read_record (PsCostDb *db, PsRows *rows, int *column, const PsStoredField *fields, gpointer record, GError **error)
{
  gboolean ok = TRUE;

  for (const PsStoredField *field = fields; field->key != NULL && ok; field++, (*column)++)
    ok = ps_stored_parse (db->file->path, record, field,
                          ps_rows_is_null (rows, *column) ? NULL : ps_rows_text (rows, *column), error);
  return ok;
}

gboolean
ps_costdb_read_samples (PsCostDb *db, PsMeasurement *measurement, GError **error)
{
  g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autoptr (PsRows) rows = ps_rows_new (
      db->file, error, "SELECT ns FROM sample WHERE measurement = ?1 ORDER BY position", "i", measurement->id);
  gboolean found = rows != NULL;

  while (found)
    {
      if (!ps_rows_next (rows, &found, error))
        return FALSE;
      gint64 ns = found ? ps_rows_integer (rows, 0) : 0;
      if (found)
        g_array_append_val (samples, ns);
    }
  measurement->n_samples = samples->len;
  measurement->samples_ns = (gint64 *)(gpointer)g_array_free (g_steal_pointer (&samples), FALSE);
  return rows != NULL;
}

/* Columns as read_all asks for them. */
static gpointer
read_row (PsRows *rows, gpointer data, GError **error)
{
  const Reading *reading = data;
  gpointer record = g_malloc0 (reading->table->size);
  int column = 1;
  gboolean ok = read_record (reading->db, rows, &column, reading->table->fields, record, error);

  if (reading->table == &profile_table)
    ((PsProfile *)record)->id = ps_rows_integer (rows, 0);
  if (reading->table == &measurement_table)
    {
      ((PsMeasurement *)record)->id = ps_rows_integer (rows, 0);
      for (guint i = 0; i < PS_N_MOMENTS && ok; i++)
        ok = read_record (reading->db, rows, &column, ps_condition_fields, (char *)record + ps_moments[i].offset,
                          error);
      ok = ok && (!reading->with_samples || ps_costdb_read_samples (reading->db, record, error));
    }
  if (ok)
    return record;
  reading->table->free (record);
  return NULL;
}

/* The records of a table. rest ends the query, with the parameter `name` (NULL: none). */
static GPtrArray *
read_all (PsCostDb *db, const Table *table, const char *rest, const char *name, gboolean with_samples, GError **error)
{
  Reading reading = { db, table, with_samples };
  g_autoptr (GString) sql = g_string_new (NULL), joins = g_string_new (NULL);

  g_string_printf (sql, "SELECT %s.id", table->name);
  append_columns (sql, table->fields, table->name);
  for (guint i = 0; i < PS_N_MOMENTS && table == &measurement_table; i++)
    {
      const char *moment = ps_moments[i].moment;

      append_columns (sql, ps_condition_fields, moment);
      g_string_append_printf (
          joins, " LEFT JOIN condition AS \"%s\" ON \"%s\".measurement = measurement.id AND \"%s\".moment = '%s'",
          moment, moment, moment, moment);
    }
  g_string_append_printf (sql, " FROM %s%s %s", table->name, joins->str, rest);
  g_autoptr (PsRows) rows = ps_rows_new (db->file, error, sql->str, name != NULL ? "s" : "", name);
  return ps_rows_collect (rows, read_row, &reading, table->free, error);
}

/* Profiles */

gsize
ps_profile_name_length (const char *name)
{
  gsize n = strlen (name);

  while (n > 0 && g_ascii_isdigit (name[n - 1]))
    n--;
  return n > 1 && name[n] != '\0' && name[n - 1] == '#' ? n - 1 : strlen (name);
}

gboolean
ps_profile_is_same (const PsProfile *a, const PsProfile *b)
{
  gsize n = ps_profile_name_length (a->name);

  return n == ps_profile_name_length (b->name) && strncmp (a->name, b->name, n) == 0;
}

GPtrArray *
ps_costdb_profiles (PsCostDb *db, GError **error)
{
  GPtrArray *profiles = read_all (db, &profile_table, "ORDER BY name, number", NULL, FALSE, error);

  /* The last calibration has the name alone. */
  for (guint i = 0; profiles != NULL && i + 1 < profiles->len; i++)
    {
      PsProfile *profile = profiles->pdata[i], *next = profiles->pdata[i + 1];
      g_autofree char *name = profile->name;

      profile->name
          = g_str_equal (name, next->name) ? g_strdup_printf ("%s#%u", name, profile->number) : g_steal_pointer (&name);
    }
  return profiles;
}

/* A profile is one machine and one model: measurements under other circumstances do not belong to it. */
static gboolean
check_circumstances (PsCostDb *db, const PsProfile *profile, const PsProfile *last, GError **error)
{
  g_autofree char *then_model = g_strdup_printf ("%s (digest %.8s)", last->model_name, last->model_digest);
  g_autofree char *now_model = g_strdup_printf ("%s (digest %.8s)", profile->model_name, profile->model_digest);
  const char *then_shares = ps_shares_describe (last->shares), *now_shares = ps_shares_describe (profile->shares);
  gboolean same_model = g_str_equal (last->model_digest, profile->model_digest);
  const char *const rows[][3] = { { "model", then_model, same_model ? then_model : now_model },
                                  { "device", last->device, profile->device },
                                  { "transport", last->transport, profile->transport },
                                  { "shares", then_shares, now_shares },
                                  { "host", last->host, profile->host },
                                  { "processor", last->processor, profile->processor } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (!g_str_equal (rows[i][1], rows[i][2]))
      return ps_refuse (error, PS_ERROR_INPUT,
                        "%s: profile '%s' was measured with %s '%s', this is '%s'; choose another --profile name",
                        db->file->path, profile->name, rows[i][0], rows[i][1], rows[i][2]);
  return TRUE;
}

/* The last calibration of a profile's name, which must have the same circumstances; *last stays NULL where there is
 * none. */
static gboolean
find_last (PsCostDb *db, const PsProfile *profile, PsProfile **last, GError **error)
{
  g_autoptr (GPtrArray) stored = NULL;

  if (ps_profile_name_length (profile->name) < strlen (profile->name))
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--profile: '%s' ends with the number of a calibration; a new one gets its own", profile->name);
  stored = read_all (db, &profile_table, "WHERE name = ?1 ORDER BY number DESC LIMIT 1", profile->name, FALSE, error);
  if (stored == NULL || stored->len == 0)
    return stored != NULL;
  *last = g_ptr_array_steal_index (stored, 0);
  return check_circumstances (db, profile, *last, error);
}

gboolean
ps_costdb_store_choices (PsCostDb *db, gint64 profile, GBytes *choices, GError **error)
{
  gsize n;
  gconstpointer bytes = g_bytes_get_data (choices, &n);
  g_autofree char *base64 = g_base64_encode (bytes, n);

  return ps_database_execute (db->file, error, "UPDATE profile SET choices = ?2 WHERE id = ?1", "is", profile, base64);
}

/* Inserts the calibration after the last one. */
static gboolean
insert_profile (PsCostDb *db, const PsProfile *profile, const PsProfile *last, gint64 *id, GError **error)
{
  PsProfile numbered = *profile;

  numbered.number = last != NULL ? last->number + 1 : 1;
  if (!insert (db, "profile", ps_profile_fields, "id", "NULL", &numbered, error))
    return FALSE;
  *id = ps_database_last_row (db->file);
  return TRUE;
}

/* Not always: only where there is none. Otherwise adds the places of further devices to the stored ones, which are
 * never replaced: the shapes of stored transfers depend on them. */
static gboolean
insert_calibration (PsCostDb *db, const PsProfile *profile, gboolean always, gint64 *id, GError **error)
{
  g_autoptr (PsProfile) last = NULL;

  if (!find_last (db, profile, &last, error))
    return FALSE;
  if (last == NULL || always)
    return insert_profile (db, profile, last, id, error);
  *id = last->id;
  return ps_database_execute (db->file, error,
                              "UPDATE profile SET places = ?2 WHERE id = ?1 AND places <> ?2 AND (places = '' OR "
                              "substr (?2, 1, length (places) + 1) = places || ';')",
                              "is", *id, profile->places);
}

gboolean
ps_costdb_begin_profile (PsCostDb *db, const PsProfile *profile, gint64 *id, GError **error)
{
  return ps_database_begin (db->file, error)
         && ps_database_end (db->file, insert_calibration (db, profile, FALSE, id, error), error);
}

gboolean
ps_costdb_add_calibration (PsCostDb *db, const PsProfile *profile, gint64 *id, GError **error)
{
  return ps_database_begin (db->file, error)
         && ps_database_end (db->file, insert_calibration (db, profile, TRUE, id, error), error);
}

/* Measurements */

/* With its samples, all in one statement (SQLite takes the array apart), and what is known of the hardware. */
static gboolean
insert_measurement (PsCostDb *db, gint64 profile, const PsMeasurement *m, GError **error)
{
  g_autoptr (GString) array = g_string_new ("[");
  g_autofree char *owner = g_strdup_printf ("%" G_GINT64_FORMAT, profile);
  gint64 row;

  if (!insert (db, "measurement", ps_measurement_fields, "profile", owner, m, error))
    return FALSE;
  row = ps_database_last_row (db->file);
  for (guint i = 0; i < m->n_samples; i++)
    g_string_append_printf (array, "%s%" G_GINT64_FORMAT, i ? "," : "", m->samples_ns[i]);
  g_string_append_c (array, ']');
  if (!ps_database_execute (db->file, error,
                            "INSERT INTO sample (measurement, position, ns) SELECT ?1, key, value FROM json_each (?2)",
                            "is", row, array->str))
    return FALSE;
  for (guint i = 0; i < PS_N_MOMENTS; i++)
    {
      const PsCondition *c = (gconstpointer)((const char *)m + ps_moments[i].offset);
      g_autofree char *owners = g_strdup_printf ("%" G_GINT64_FORMAT ", '%s'", row, ps_moments[i].moment);

      if ((c->throttle || c->clock_mhz || c->memory_clock_mhz || c->temperature_c || c->power_mw)
          && !insert (db, "condition", ps_condition_fields, "measurement, moment", owners, c, error))
        return FALSE;
    }
  return TRUE;
}

/* A statement on the measurement with that key. */
static PsRows *
on_key (PsCostDb *db, const char *statement, gint64 profile, const PsMeasurement *key, GError **error)
{
  g_autoptr (GString) sql = g_string_new (statement);

  g_string_append (sql, " FROM measurement WHERE profile = ?");
  for (guint i = 0; i < N_KEY_FIELDS; i++)
    g_string_append_printf (sql, " AND %s = ?", ps_measurement_fields[i].key);
  PsRows *rows = ps_rows_new (db->file, error, sql->str, "i", profile);
  if (rows != NULL)
    bind_record (rows, 1, ps_measurement_fields, N_KEY_FIELDS, key);
  return rows;
}

gboolean
ps_costdb_has (PsCostDb *db, gint64 profile, const PsMeasurement *key, gboolean *found, GError **error)
{
  g_autoptr (PsRows) rows = on_key (db, "SELECT 1", profile, key, error);

  return rows != NULL && ps_rows_next (rows, found, error);
}

static gboolean
replace_measurement (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error)
{
  g_autoptr (PsRows) rows = on_key (db, "DELETE", profile, measurement, error);
  gboolean found;

  return rows != NULL && ps_rows_next (rows, &found, error) && insert_measurement (db, profile, measurement, error);
}

gboolean
ps_costdb_store (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error)
{
  return ps_database_begin (db->file, error)
         && ps_database_end (db->file, insert_measurement (db, profile, measurement, error), error);
}

gboolean
ps_costdb_replace (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error)
{
  return ps_database_begin (db->file, error)
         && ps_database_end (db->file, replace_measurement (db, profile, measurement, error), error);
}

/* The row that a name means: of the last calibration, or of the one whose number ends the name. */
#define CALIBRATION                                                                                                    \
  "(SELECT id FROM profile WHERE name = ?1 OR name || '#' || number = ?1 ORDER BY name = ?1 DESC, number DESC LIMIT "  \
  "1)"

GPtrArray *
ps_costdb_measurements (PsCostDb *db, const char *profile, gboolean with_samples, GError **error)
{
  return read_all (db, &measurement_table,
                   "WHERE profile = " CALIBRATION " "
                   "ORDER BY instr ('|op|pair|self-send|transfer|all-reduce|host|', '|' || subject || '|'), shape, "
                   "instr ('|F|B|W|BW|R|O|', '|' || kind || '|'), bytes, devices, sharing, share, "
                   "instr ('|run|cold|warm|', '|' || cache || '|')",
                   profile, with_samples, error);
}

/* The sentinel */

static gboolean
insert_sentinel (PsCostDb *db, gint64 profile, const PsSentinel *sentinel, GError **error)
{
  g_autofree char *owner = g_strdup_printf ("%" G_GINT64_FORMAT, profile);

  return insert (db, "sentinel", ps_sentinel_fields, "profile", owner, sentinel, error);
}

gboolean
ps_costdb_store_sentinel (PsCostDb *db, gint64 profile, const PsSentinel *sentinel, GError **error)
{
  return ps_database_begin (db->file, error)
         && ps_database_end (db->file, insert_sentinel (db, profile, sentinel, error), error);
}

GPtrArray *
ps_costdb_sentinels (PsCostDb *db, const char *profile, GError **error)
{
  return read_all (db, &sentinel_table, "WHERE profile = " CALIBRATION " ORDER BY id", profile, FALSE, error);
}

/* Whole profiles */

static gboolean
insert_contents (PsCostDb *db, const PsProfileContents *contents, GError **error)
{
  const PsProfile *profile = contents->profile;
  g_autoptr (PsProfile) last = NULL;
  gint64 id;

  if (!find_last (db, profile, &last, error))
    return FALSE;
  if (last != NULL && g_str_equal (last->created, profile->created))
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: there is a profile '%s' already that was begun at the same moment, %s", db->file->path,
                      profile->name, profile->created);
  if (!insert_profile (db, profile, last, &id, error))
    return FALSE;
  for (guint i = 0; i < contents->measurements->len; i++)
    if (!insert_measurement (db, id, contents->measurements->pdata[i], error))
      return FALSE;
  for (guint i = 0; i < contents->sentinels->len; i++)
    if (!insert_sentinel (db, id, contents->sentinels->pdata[i], error))
      return FALSE;
  return TRUE;
}

gboolean
ps_costdb_add_profile (PsCostDb *db, const PsProfileContents *contents, GError **error)
{
  return ps_database_begin (db->file, error)
         && ps_database_end (db->file, insert_contents (db, contents, error), error);
}

/* Runs */

gboolean
ps_costdb_store_run (PsCostDb *db, const PsRunRecord *run, GError **error)
{
  return insert (db, "run", run_fields, "id", "NULL", run, error);
}

GPtrArray *
ps_costdb_runs (PsCostDb *db, GError **error)
{
  return read_all (db, &run_table, "ORDER BY id", NULL, FALSE, error);
}
