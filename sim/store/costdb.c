/* costdb.c - the cost database: profiles, measurements, readings of the sentinel and runs, by the tables of their
 * fields; and a whole profile as text, by the same tables. */
#include "database.h"
#include "base/json.h"
#include "base/names.h"
#include "base/text.h"

#include <pipesim/costdb.h>

#include <string.h>

static const PsDatabaseKind kind = {
  .what = "cost database",
  .schema = "schema.sql",
  .application_id = 0x50534344, /* "PSCD" */
  .version = PS_COSTDB_VERSION,
};

void ps_costdb_close (PsCostDb *db)
{
  ps_database_close (db);
}

PsCostDb *ps_costdb_open (const char *path, PsCostDbMode mode, GError **error)
{
  return ps_database_open (path, &kind, mode == PS_COSTDB_WRITE, error);
}

PS_DEFINE_NAMES (PsSubject, ps_subject, "op", "transfer", "self-send", "all-reduce", "pair", "host")
PS_DEFINE_NAMES (PsCacheState, ps_cache_state, "run", "cold", "warm")

/* Fields */

/* The type of a member, and how tables and texts say it. */
typedef enum {
  STORED_TEXT,     /* char * */
  STORED_STOP,     /* the same, a word of PsMeasurement.stop */
  STORED_NUMBER,   /* gint64 */
  STORED_COUNT,    /* guint */
  STORED_SHARING,  /* guint, at least 1 */
  STORED_SUBJECT,  /* PsSubject */
  STORED_KIND,     /* PsOpKind of a measurement; "" where it is of no op */
  STORED_CACHE,    /* PsCacheState */
  STORED_THROTTLE, /* guint; NULL where it is not known */
} FieldType;

#define ALL (~0U) /* subjects */

/* A member of a record. Lists end with a row without key. */
typedef struct {
  const char *key; /* the column, and the key in texts */
  FieldType type;
  gsize offset;
  gint64 low;     /* least number; at 1, a text must not be empty */
  gint64 high;    /* 0: that of times and sizes */
  guint without;  /* a bit for each subject whose texts do not have it; records other than measurements have all bits */
  guint optional; /* a bit for each subject whose texts leave it out where it is 0, empty or not known */
  gboolean absent; /* a column is NULL where it is 0 */
} Field;

/* The conditions of a measurement. */
typedef struct {
  const char *moment;
  gsize offset; /* in PsMeasurement */
} Moment;

#define N_MOMENTS 3
#define OF(subject) (1U << PS_SUBJECT_##subject)
#define MAX_COUNT 1000000

/* clang-format off */
#define FIELD(key_, structure, member, ...) { .key = key_, .offset = offsetof (structure, member), .type = __VA_ARGS__ }
#define PROFILE(member) FIELD (#member, PsProfile, member, STORED_TEXT)
#define PROFILE_NAME(member) FIELD (#member, PsProfile, member, STORED_TEXT, .low = 1)
#define PROFILE_MAY(member) FIELD (#member, PsProfile, member, STORED_TEXT, .optional = ALL)
#define PROFILE_NUMBER FIELD ("number", PsProfile, number, STORED_COUNT, .without = ALL)
#define MEASURED(member, ...) FIELD (#member, PsMeasurement, member, __VA_ARGS__)
#define TIME(member, ...) FIELD (#member, PsMeasurement, time.member, __VA_ARGS__)
#define CONDITION(member, ...) FIELD (#member, PsCondition, member, __VA_ARGS__, .optional = ALL, .absent = TRUE)
#define READING(member, ...) FIELD (#member, PsSentinel, member, __VA_ARGS__)
#define RUN(member) FIELD (#member, PsRunRecord, member, STORED_TEXT)
#define RUN_COUNT(member) FIELD (#member, PsRunRecord, n_##member, STORED_COUNT)
#define RUN_NUMBER(member) FIELD (#member, PsRunRecord, member, STORED_NUMBER)
#define RUN_CLOCK FIELD ("clock_mhz", PsRunRecord, clock_mhz, STORED_NUMBER, .absent = TRUE)
#define LAST { .key = NULL }
/* clang-format on */

static const Field profile_fields[] = { PROFILE_NAME (name),  PROFILE (model_name),  PROFILE (model_digest),
                                        PROFILE (model_text), PROFILE_NAME (device), PROFILE (transport),
                                        PROFILE (host),       PROFILE (processor),   PROFILE (kernel),
                                        PROFILE (libraries),  PROFILE (version),     PROFILE (created),
                                        PROFILE_MAY (shares), PROFILE_MAY (source),  PROFILE_MAY (choices),
                                        PROFILE_MAY (places), PROFILE_NUMBER,        LAST };

#define N_KEY_FIELDS 8

static const Field measurement_fields[]
    = { MEASURED (subject, STORED_SUBJECT),
        MEASURED (shape, STORED_TEXT, .low = 1, .without = OF (ALL_REDUCE), .optional = OF (TRANSFER)),
        MEASURED (kind, STORED_KIND, .without = ~OF (OP)),
        MEASURED (bytes, STORED_NUMBER, .high = PS_MAX_SIZE_BYTES, .without = OF (OP) | OF (PAIR) | OF (HOST)),
        MEASURED (devices, STORED_COUNT, .low = 1, .high = PS_MAX_DEVICES),
        MEASURED (sharing, STORED_SHARING, .low = 1, .high = PS_MAX_DEVICES),
        MEASURED (share, STORED_COUNT, .low = 1, .high = PS_MAX_SHARE, .without = ~OF (OP), .optional = ALL),
        MEASURED (cache, STORED_CACHE, .without = ~OF (OP)),
        TIME (n, STORED_COUNT, .low = 1, .high = MAX_COUNT),
        TIME (median_ns, STORED_NUMBER, .optional = ALL),
        TIME (q1_ns, STORED_NUMBER, .optional = ALL),
        TIME (q3_ns, STORED_NUMBER, .optional = ALL),
        TIME (mad_ns, STORED_NUMBER, .optional = ALL),
        TIME (min_ns, STORED_NUMBER, .optional = ALL),
        MEASURED (launch_ns, STORED_NUMBER, .optional = ALL, .absent = TRUE),
        MEASURED (take_bytes, STORED_NUMBER, .optional = ALL),
        MEASURED (give_bytes, STORED_NUMBER, .optional = ALL),
        MEASURED (state_bytes, STORED_NUMBER, .optional = ALL),
        MEASURED (stop, STORED_STOP),
        MEASURED (taken, STORED_TEXT),
        LAST };

static const Field condition_fields[] = { CONDITION (clock_mhz, STORED_NUMBER, .low = 1),
                                          CONDITION (memory_clock_mhz, STORED_NUMBER, .low = 1),
                                          CONDITION (temperature_c, STORED_NUMBER, .low = 1),
                                          CONDITION (power_mw, STORED_NUMBER, .low = 1),
                                          CONDITION (throttle, STORED_THROTTLE),
                                          LAST };

static const Moment moments[N_MOMENTS] = { { "before", offsetof (PsMeasurement, before) },
                                           { "during", offsetof (PsMeasurement, during) },
                                           { "after", offsetof (PsMeasurement, after) } };

static const Field sentinel_fields[]
    = { READING (what, STORED_TEXT, .low = 1), READING (median_ns, STORED_NUMBER, .high = PS_MAX_TIME_NS),
        READING (n, STORED_COUNT, .low = 1, .high = MAX_COUNT), READING (taken, STORED_TEXT), LAST };

static const Field run_fields[] = { RUN (profile),
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

/* The bits of a record's subject. */
static guint subject_bits (const Field *fields, gconstpointer record)
{
  return fields == measurement_fields ? 1U << ((const PsMeasurement *)record)->subject : ALL;
}

static gboolean is_number_field (const Field *field)
{
  return field->type >= STORED_NUMBER && field->type <= STORED_SHARING;
}

/* A member as text, a number too; NULL: not known. Free with g_free. */
static char *member_text (gconstpointer record, const Field *field)
{
  gconstpointer at = (const char *)record + field->offset;
  const PsMeasurement *measurement = record;

  switch (field->type) {
  case STORED_NUMBER:
    return g_strdup_printf ("%" G_GINT64_FORMAT, *(const gint64 *)at);
  case STORED_COUNT:
    return g_strdup_printf ("%u", *(const guint *)at);
  case STORED_SHARING:
    return g_strdup_printf ("%u", MAX (measurement->sharing, 1));
  case STORED_SUBJECT:
    return g_strdup (ps_subject_name (measurement->subject));
  case STORED_KIND:
    return g_strdup (measurement->subject == PS_SUBJECT_OP ? ps_op_kind_name (measurement->kind) : "");
  case STORED_CACHE:
    return g_strdup (ps_cache_state_name (measurement->cache));
  case STORED_THROTTLE:
    return ps_throttle_to_text (*(const guint *)at);
  default:
    return g_strdup (*(char *const *)at);
  }
}

/* Sets a member from its text, which is taken. Errors where it is no word of the type: PS_ERROR_INPUT "where: key:
 * ...".
 */
static gboolean member_parse (const char *where, gpointer record, const Field *field, char *text, GError **error)
{
  static const char *const stops[] = { "converged", "sample cap", "time cap", "imported", "estimated" };
  g_autofree char *owned = text, *place = g_strdup_printf ("%s: %s", where, field->key);
  gpointer at = (char *)record + field->offset;
  gboolean known = TRUE;
  guint stop;

  if (field->type == STORED_NUMBER)
    *(gint64 *)at = g_ascii_strtoll (text, NULL, 10);
  else if (is_number_field (field))
    *(guint *)at = (guint)g_ascii_strtoull (text, NULL, 10);
  else if (field->type == STORED_SUBJECT)
    known = ps_subject_parse (place, text, at, error);
  else if (field->type == STORED_KIND && *text != '\0')
    known = ps_op_kind_parse (place, text, at, error);
  else if (field->type == STORED_CACHE)
    known = ps_cache_state_parse (place, text, at, error);
  else if (field->type == STORED_STOP)
    known = ps_parse_name (place, text, stops, G_N_ELEMENTS (stops), &stop, error);
  else if (field->type == STORED_THROTTLE && !ps_throttle_parse (text, at))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: '%s' is no list of reasons to run slower", place, text);
  if (field->type == STORED_TEXT || field->type == STORED_STOP)
    *(char **)at = g_steal_pointer (&owned);
  return known || ps_text_blame_input (error);
}

static void record_free (const Field *fields, gpointer record)
{
  for (const Field *field = fields; field->key != NULL && record != NULL; field++)
    if (field->type == STORED_TEXT || field->type == STORED_STOP)
      g_free (*(char **)(gpointer)((char *)record + field->offset));
  g_free (record);
}

void ps_profile_free (PsProfile *profile)
{
  record_free (profile_fields, profile);
}

void ps_measurement_free (PsMeasurement *measurement)
{
  if (measurement != NULL)
    g_free (measurement->samples_ns);
  record_free (measurement_fields, measurement);
}

void ps_sentinel_free (PsSentinel *sentinel)
{
  record_free (sentinel_fields, sentinel);
}

void ps_run_record_free (PsRunRecord *run)
{
  record_free (run_fields, run);
}

static gboolean is_same (const PsMeasurement *a, const PsMeasurement *b)
{
  return a->subject == b->subject && a->kind == b->kind && g_str_equal (a->shape, b->shape) && a->bytes == b->bytes
         && a->devices == b->devices && MAX (a->sharing, 1) == MAX (b->sharing, 1) && a->share == b->share
         && a->cache == b->cache;
}

const PsMeasurement *ps_measurement_find (GPtrArray *measurements, const PsMeasurement *key)
{
  for (guint i = 0; i < measurements->len; i++)
    if (is_same (measurements->pdata[i], key))
      return measurements->pdata[i];
  return NULL;
}

gboolean ps_choices_parse (const char *where, const char *text, GBytes **choices, GError **error)
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

typedef struct {
  const char *name;
  const Field *fields;
  gsize size; /* of a record */
  GDestroyNotify free;
} Table;

static const Table profile_table = { "profile", profile_fields, sizeof (PsProfile), (GDestroyNotify)ps_profile_free };
static const Table measurement_table
    = { "measurement", measurement_fields, sizeof (PsMeasurement), (GDestroyNotify)ps_measurement_free };
static const Table sentinel_table
    = { "sentinel", sentinel_fields, sizeof (PsSentinel), (GDestroyNotify)ps_sentinel_free };
static const Table run_table = { "run", run_fields, sizeof (PsRunRecord), (GDestroyNotify)ps_run_record_free };

/* What a query reads. */
typedef struct {
  PsCostDb *db;
  const Table *table;
  gboolean with_samples;
} Reading;

/* Appends ", table.column" for each field. */
static void append_columns (GString *sql, const Field *fields, const char *table)
{
  for (const Field *field = fields; field->key != NULL; field++)
    g_string_append_printf (sql, ", \"%s\".\"%s\"", table, field->key);
}

/* Sets the parameters from number `first` on to the first n fields, or all. SQLite makes numbers of texts where a
 * column holds numbers. */
static void bind_record (PsRows *rows, int first, const Field *fields, int n, gconstpointer record)
{
  for (int i = 0; i < n && fields[i].key != NULL; i++) {
    g_autofree char *text = member_text (record, &fields[i]);

    if (text == NULL || (fields[i].absent && g_str_equal (text, "0")))
      ps_rows_set_null (rows, first + i);
    else
      ps_rows_set_text (rows, first + i, text);
  }
}

/* Appends a record to a table, with the value in the column before its own; either may be several with commas. */
static gboolean insert (PsCostDb *db, const char *table, const Field *fields, const char *column, const char *value,
                        gconstpointer record, GError **error)
{
  g_autoptr (GString) sql = g_string_new (NULL), values = g_string_new (value);
  gboolean found;

  g_string_printf (sql, "INSERT INTO %s (%s", table, column);
  for (const Field *field = fields; field->key != NULL; field++) {
    g_string_append_printf (sql, ", \"%s\"", field->key);
    g_string_append (values, ", ?");
  }
  g_string_append_printf (sql, ") VALUES (%s)", values->str);
  g_autoptr (PsRows) rows = ps_rows_new (db, error, sql->str, "");
  if (rows == NULL)
    return FALSE;
  bind_record (rows, 0, fields, G_MAXINT, record);
  return ps_rows_next (rows, &found, error);
}

/* Reads a record from *column and those after it; *column becomes the next one. NULL reads as 0 or "", but for members
 * that may be unknown. */
static gboolean read_columns (PsCostDb *db, PsRows *rows, int *column, const Field *fields, gpointer record,
                              GError **error)
{
  gboolean ok = TRUE;

  for (const Field *field = fields; field->key != NULL && ok; field++, (*column)++) {
    gboolean unknown = field->type == STORED_THROTTLE && ps_rows_is_null (rows, *column);

    ok = member_parse (db->path, record, field, unknown ? NULL : ps_rows_text (rows, *column), error);
  }
  return ok;
}

gboolean ps_costdb_read_samples (PsCostDb *db, PsMeasurement *measurement, GError **error)
{
  g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autoptr (PsRows) rows
      = ps_rows_new (db, error, "SELECT ns FROM sample WHERE measurement = ?1 ORDER BY position", "i", measurement->id);
  gboolean found = rows != NULL;

  while (found) {
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
static gpointer read_row (PsRows *rows, gpointer data, GError **error)
{
  const Reading *reading = data;
  gpointer record = g_malloc0 (reading->table->size);
  int column = 1;
  gboolean ok = read_columns (reading->db, rows, &column, reading->table->fields, record, error);

  if (reading->table == &profile_table)
    ((PsProfile *)record)->id = ps_rows_integer (rows, 0);
  if (reading->table == &measurement_table) {
    ((PsMeasurement *)record)->id = ps_rows_integer (rows, 0);
    for (guint i = 0; i < N_MOMENTS && ok; i++)
      ok = read_columns (reading->db, rows, &column, condition_fields, (char *)record + moments[i].offset, error);
    ok = ok && (!reading->with_samples || ps_costdb_read_samples (reading->db, record, error));
  }
  if (ok)
    return record;
  reading->table->free (record);
  return NULL;
}

/* The records of a table. rest ends the query, with the parameter `name` (NULL: none). */
static GPtrArray *read_all (PsCostDb *db, const Table *table, const char *rest, const char *name, gboolean with_samples,
                            GError **error)
{
  Reading reading = { db, table, with_samples };
  g_autoptr (GString) sql = g_string_new (NULL), joins = g_string_new (NULL);

  g_string_printf (sql, "SELECT %s.id", table->name);
  append_columns (sql, table->fields, table->name);
  for (guint i = 0; i < N_MOMENTS && table == &measurement_table; i++) {
    const char *moment = moments[i].moment;

    append_columns (sql, condition_fields, moment);
    g_string_append_printf (
        joins, " LEFT JOIN condition AS \"%s\" ON \"%s\".measurement = measurement.id AND \"%s\".moment = '%s'", moment,
        moment, moment, moment);
  }
  g_string_append_printf (sql, " FROM %s%s %s", table->name, joins->str, rest);
  g_autoptr (PsRows) rows = ps_rows_new (db, error, sql->str, name != NULL ? "s" : "", name);
  return ps_rows_collect (rows, read_row, &reading, table->free, error);
}

/* Profiles */

/* The length of a profile's name without the number of a calibration. */
static gsize name_length (const char *name)
{
  gsize n = strlen (name);

  while (n > 0 && g_ascii_isdigit (name[n - 1]))
    n--;
  return n > 1 && name[n] != '\0' && name[n - 1] == '#' ? n - 1 : strlen (name);
}

gboolean ps_profile_is_same (const PsProfile *a, const PsProfile *b)
{
  gsize n = name_length (a->name);

  return n == name_length (b->name) && strncmp (a->name, b->name, n) == 0;
}

GPtrArray *ps_costdb_profiles (PsCostDb *db, GError **error)
{
  GPtrArray *profiles = read_all (db, &profile_table, "ORDER BY name, number", NULL, FALSE, error);

  /* The last calibration has the name alone. */
  for (guint i = 0; profiles != NULL && i + 1 < profiles->len; i++) {
    PsProfile *profile = profiles->pdata[i], *next = profiles->pdata[i + 1];
    g_autofree char *name = profile->name;

    profile->name
        = g_str_equal (name, next->name) ? g_strdup_printf ("%s#%u", name, profile->number) : g_steal_pointer (&name);
  }
  return profiles;
}

/* The profile of that name among all (ps_costdb_profiles); NULL: the only one. PS_ERROR_INPUT says which there are. */
static const PsProfile *choose_profile (PsCostDb *db, GPtrArray *profiles, const char *name, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  const PsProfile *first = profiles->len > 0 ? profiles->pdata[0] : NULL;
  const PsProfile *last = first != NULL ? profiles->pdata[profiles->len - 1] : NULL;

  if (name == NULL && first != NULL && ps_profile_is_same (first, last))
    return last;
  for (guint i = 0; i < profiles->len; i++) {
    const PsProfile *profile = profiles->pdata[i];
    g_autofree char *numbered = g_strdup_printf ("%s#%u", profile->name, profile->number);

    /* The last calibration has its number only when that is asked for. */
    if (name != NULL && (g_str_equal (profile->name, name) || g_str_equal (numbered, name)))
      return profile;
    g_ptr_array_add (names, profile->name);
  }
  g_ptr_array_add (names, NULL);
  g_autofree char *known = g_strjoinv (", ", (char **)names->pdata);
  if (profiles->len == 0)
    return ps_refuse_null (error, PS_ERROR_INPUT,
                           "%s: holds no profile yet; measure one with: pipesim calib run --db %s --profile NAME "
                           "--model FILE",
                           db->path, db->path);
  if (name != NULL)
    return ps_refuse_null (error, PS_ERROR_INPUT, "%s: no profile '%s'; there are: %s", db->path, name, known);
  return ps_refuse_null (error, PS_ERROR_INPUT, "%s: several profiles; choose one with --profile: %s", db->path, known);
}

PsProfile *ps_costdb_profile (PsCostDb *db, const char *name, GError **error)
{
  g_autoptr (GPtrArray) profiles = ps_costdb_profiles (db, error);
  const PsProfile *profile = profiles != NULL ? choose_profile (db, profiles, name, error) : NULL;
  guint place;

  return profile != NULL && g_ptr_array_find (profiles, profile, &place) ? g_ptr_array_steal_index (profiles, place)
                                                                         : NULL;
}

/* A profile is one machine and one model: measurements under other circumstances do not belong to it. */
static gboolean check_circumstances (PsCostDb *db, const PsProfile *profile, const PsProfile *last, GError **error)
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
                        db->path, profile->name, rows[i][0], rows[i][1], rows[i][2]);
  return TRUE;
}

/* The last calibration of a profile's name, which must have the same circumstances; *last stays NULL where there is
 * none. */
static gboolean find_last (PsCostDb *db, const PsProfile *profile, PsProfile **last, GError **error)
{
  g_autoptr (GPtrArray) stored = NULL;

  if (name_length (profile->name) < strlen (profile->name))
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--profile: '%s' ends with the number of a calibration; a new one gets its own", profile->name);
  stored = read_all (db, &profile_table, "WHERE name = ?1 ORDER BY number DESC LIMIT 1", profile->name, FALSE, error);
  if (stored == NULL || stored->len == 0)
    return stored != NULL;
  *last = g_ptr_array_steal_index (stored, 0);
  return check_circumstances (db, profile, *last, error);
}

gboolean ps_costdb_store_choices (PsCostDb *db, gint64 profile, GBytes *choices, GError **error)
{
  gsize n;
  gconstpointer bytes = g_bytes_get_data (choices, &n);
  g_autofree char *base64 = g_base64_encode (bytes, n);

  return ps_database_execute (db, error, "UPDATE profile SET choices = ?2 WHERE id = ?1", "is", profile, base64);
}

/* Inserts the calibration after the last one. */
static gboolean insert_profile (PsCostDb *db, const PsProfile *profile, const PsProfile *last, gint64 *id,
                                GError **error)
{
  PsProfile numbered = *profile;

  numbered.number = last != NULL ? last->number + 1 : 1;
  if (!insert (db, "profile", profile_fields, "id", "NULL", &numbered, error))
    return FALSE;
  *id = ps_database_last_row (db);
  return TRUE;
}

/* Not always: only where there is none. Otherwise adds the places of further devices to the stored ones, which are
 * never replaced: the shapes of stored transfers depend on them. */
static gboolean insert_calibration (PsCostDb *db, const PsProfile *profile, gboolean always, gint64 *id, GError **error)
{
  g_autoptr (PsProfile) last = NULL;

  if (!find_last (db, profile, &last, error))
    return FALSE;
  if (last == NULL || always)
    return insert_profile (db, profile, last, id, error);
  *id = last->id;
  return ps_database_execute (db, error,
                              "UPDATE profile SET places = ?2 WHERE id = ?1 AND places <> ?2 AND (places = '' OR "
                              "substr (?2, 1, length (places) + 1) = places || ';')",
                              "is", *id, profile->places);
}

gboolean ps_costdb_begin_profile (PsCostDb *db, const PsProfile *profile, gint64 *id, GError **error)
{
  return ps_database_begin (db, error)
         && ps_database_end (db, insert_calibration (db, profile, FALSE, id, error), error);
}

gboolean ps_costdb_add_calibration (PsCostDb *db, const PsProfile *profile, gint64 *id, GError **error)
{
  return ps_database_begin (db, error)
         && ps_database_end (db, insert_calibration (db, profile, TRUE, id, error), error);
}

/* Measurements */

/* With its samples, all in one statement (SQLite takes the array apart), and what is known of the hardware. */
static gboolean insert_measurement (PsCostDb *db, gint64 profile, const PsMeasurement *m, GError **error)
{
  g_autoptr (GString) array = g_string_new ("[");
  g_autofree char *owner = g_strdup_printf ("%" G_GINT64_FORMAT, profile);
  gint64 row;

  if (!insert (db, "measurement", measurement_fields, "profile", owner, m, error))
    return FALSE;
  row = ps_database_last_row (db);
  for (guint i = 0; i < m->n_samples; i++)
    g_string_append_printf (array, "%s%" G_GINT64_FORMAT, i ? "," : "", m->samples_ns[i]);
  g_string_append_c (array, ']');
  if (!ps_database_execute (db, error,
                            "INSERT INTO sample (measurement, position, ns) SELECT ?1, key, value FROM json_each (?2)",
                            "is", row, array->str))
    return FALSE;
  for (guint i = 0; i < N_MOMENTS; i++) {
    const PsCondition *c = (gconstpointer)((const char *)m + moments[i].offset);
    g_autofree char *owners = g_strdup_printf ("%" G_GINT64_FORMAT ", '%s'", row, moments[i].moment);

    if ((c->throttle || c->clock_mhz || c->memory_clock_mhz || c->temperature_c || c->power_mw)
        && !insert (db, "condition", condition_fields, "measurement, moment", owners, c, error))
      return FALSE;
  }
  return TRUE;
}

/* A statement on the measurement with that key. */
static PsRows *on_key (PsCostDb *db, const char *statement, gint64 profile, const PsMeasurement *key, GError **error)
{
  g_autoptr (GString) sql = g_string_new (statement);

  g_string_append (sql, " FROM measurement WHERE profile = ?");
  for (guint i = 0; i < N_KEY_FIELDS; i++)
    g_string_append_printf (sql, " AND %s = ?", measurement_fields[i].key);
  PsRows *rows = ps_rows_new (db, error, sql->str, "i", profile);
  if (rows != NULL)
    bind_record (rows, 1, measurement_fields, N_KEY_FIELDS, key);
  return rows;
}

gboolean ps_costdb_has (PsCostDb *db, gint64 profile, const PsMeasurement *key, gboolean *found, GError **error)
{
  g_autoptr (PsRows) rows = on_key (db, "SELECT 1", profile, key, error);

  return rows != NULL && ps_rows_next (rows, found, error);
}

static gboolean replace_measurement (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error)
{
  g_autoptr (PsRows) rows = on_key (db, "DELETE", profile, measurement, error);
  gboolean found;

  return rows != NULL && ps_rows_next (rows, &found, error) && insert_measurement (db, profile, measurement, error);
}

gboolean ps_costdb_store (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error)
{
  return ps_database_begin (db, error)
         && ps_database_end (db, insert_measurement (db, profile, measurement, error), error);
}

gboolean ps_costdb_replace (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error)
{
  return ps_database_begin (db, error)
         && ps_database_end (db, replace_measurement (db, profile, measurement, error), error);
}

/* The row that a name means: of the last calibration, or of the one whose number ends the name. */
#define CALIBRATION                                                                                                    \
  "(SELECT id FROM profile WHERE name = ?1 OR name || '#' || number = ?1 ORDER BY name = ?1 DESC, number DESC LIMIT "  \
  "1)"

GPtrArray *ps_costdb_measurements (PsCostDb *db, const char *profile, gboolean with_samples, GError **error)
{
  return read_all (db, &measurement_table,
                   "WHERE profile = " CALIBRATION " "
                   "ORDER BY instr ('|op|pair|self-send|transfer|all-reduce|host|', '|' || subject || '|'), shape, "
                   "instr ('|F|B|W|BW|R|O|', '|' || kind || '|'), bytes, devices, sharing, share, "
                   "instr ('|run|cold|warm|', '|' || cache || '|')",
                   profile, with_samples, error);
}

/* The sentinel */

static gboolean insert_sentinel (PsCostDb *db, gint64 profile, const PsSentinel *sentinel, GError **error)
{
  g_autofree char *owner = g_strdup_printf ("%" G_GINT64_FORMAT, profile);

  return insert (db, "sentinel", sentinel_fields, "profile", owner, sentinel, error);
}

gboolean ps_costdb_store_sentinel (PsCostDb *db, gint64 profile, const PsSentinel *sentinel, GError **error)
{
  return ps_database_begin (db, error) && ps_database_end (db, insert_sentinel (db, profile, sentinel, error), error);
}

GPtrArray *ps_costdb_sentinels (PsCostDb *db, const char *profile, GError **error)
{
  return read_all (db, &sentinel_table, "WHERE profile = " CALIBRATION " ORDER BY id", profile, FALSE, error);
}

/* Whole profiles */

static gboolean insert_contents (PsCostDb *db, const PsProfileContents *contents, GError **error)
{
  const PsProfile *profile = contents->profile;
  g_autoptr (PsProfile) last = NULL;
  gint64 id;

  if (!find_last (db, profile, &last, error))
    return FALSE;
  if (last != NULL && g_str_equal (last->created, profile->created))
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: there is a profile '%s' already that was begun at the same moment, %s", db->path,
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

gboolean ps_costdb_add_profile (PsCostDb *db, const PsProfileContents *contents, GError **error)
{
  return ps_database_begin (db, error) && ps_database_end (db, insert_contents (db, contents, error), error);
}

/* Runs */

gboolean ps_costdb_store_run (PsCostDb *db, const PsRunRecord *run, GError **error)
{
  return insert (db, "run", run_fields, "id", "NULL", run, error);
}

GPtrArray *ps_costdb_runs (PsCostDb *db, GError **error)
{
  return read_all (db, &run_table, "ORDER BY id", NULL, FALSE, error);
}

/* A profile as text */

#define FORMAT "pipesim-profile/1"

void ps_profile_contents_free (PsProfileContents *contents)
{
  if (contents == NULL)
    return;
  ps_profile_free (contents->profile);
  g_clear_pointer (&contents->measurements, g_ptr_array_unref);
  g_clear_pointer (&contents->sentinels, g_ptr_array_unref);
  g_free (contents);
}

PsProfileContents *ps_profile_contents_load (PsCostDb *db, const char *name, gboolean with_samples, GError **error)
{
  g_autoptr (PsProfileContents) contents = g_new0 (PsProfileContents, 1);

  contents->profile = ps_costdb_profile (db, name, error);
  if (contents->profile != NULL)
    contents->measurements = ps_costdb_measurements (db, contents->profile->name, with_samples, error);
  if (contents->measurements != NULL)
    contents->sentinels = ps_costdb_sentinels (db, contents->profile->name, error);
  return contents->sentinels != NULL ? g_steal_pointer (&contents) : NULL;
}

/* Writes a profile as text. */

/* Puts the separator before every member but the first. */
static void append_key (GString *text, const char *separator, const char *key)
{
  g_string_append_printf (text, "%s\"%s\": ", text->str[text->len - 1] != '{' ? separator : "", key);
}

static void append_record (GString *text, const char *separator, const Field *fields, gconstpointer record)
{
  guint bits = subject_bits (fields, record);

  for (const Field *field = fields; field->key != NULL; field++) {
    g_autofree char *value = member_text (record, field);
    gboolean is_number = is_number_field (field);
    gboolean empty = value == NULL || (field->type != STORED_THROTTLE && g_str_equal (value, is_number ? "0" : ""));

    if (field->without & bits || (field->optional & bits && empty))
      continue;
    append_key (text, separator, field->key);
    if (is_number)
      g_string_append (text, value);
    else
      ps_json_append_string (text, value);
  }
}

/* The conditions and samples of a measurement. */
static void append_rest (GString *text, const PsMeasurement *m)
{
  for (guint i = 0; i < N_MOMENTS; i++) {
    g_autoptr (GString) members = g_string_new ("{");

    append_record (members, ", ", condition_fields, (const char *)m + moments[i].offset);
    if (members->len == 1)
      continue;
    append_key (text, ", ", moments[i].moment);
    g_string_append_printf (text, "%s}", members->str);
  }
  if (m->n_samples == 0)
    return;
  append_key (text, ", ", "samples_ns");
  for (guint i = 0; i < m->n_samples; i++)
    g_string_append_printf (text, "%c%" G_GINT64_FORMAT, i ? ',' : '[', m->samples_ns[i]);
  g_string_append_c (text, ']');
}

static void append_array (GString *text, const char *key, const Field *fields, GPtrArray *records)
{
  append_key (text, ",\n", key);
  g_string_append_c (text, '[');
  for (guint i = 0; i < records->len; i++) {
    g_string_append (text, i ? ",\n{" : "\n{");
    append_record (text, ", ", fields, records->pdata[i]);
    if (fields == measurement_fields)
      append_rest (text, records->pdata[i]);
    g_string_append_c (text, '}');
  }
  g_string_append_c (text, ']');
}

char *ps_profile_contents_to_text (const PsProfileContents *contents)
{
  GString *text = g_string_new ("{\"format\": \"" FORMAT "\"");
  PsProfile profile = *contents->profile;
  g_autofree char *base = g_strndup (profile.name, name_length (profile.name));

  profile.name = base;
  append_record (text, ",\n", profile_fields, &profile);
  append_array (text, "sentinels", sentinel_fields, contents->sentinels);
  append_array (text, "measurements", measurement_fields, contents->measurements);
  g_string_append (text, "}\n");
  return g_string_free (text, FALSE);
}

/* Reads a profile's text, and refuses one that no calibration could have written. */

typedef struct {
  const char *where; /* the file */
  const char *begin;
  PsJsonReader reader;
  const char *counted; /* up to here lines have been counted */
  guint line;
  char *place;      /* where and the line: the beginning of messages */
  GHashTable *seen; /* keys of measurements */
} Text;

static void text_clear (Text *text)
{
  ps_json_reader_clear (&text->reader);
  g_free (text->place);
  g_clear_pointer (&text->seen, g_hash_table_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Text, text_clear)

static const char *const none[] = { NULL };

/* Begins an object with the members of a record, and others (NULL ends them). read_members finds those that are
 * missing. A line number begins the messages of objects without format; lines only go up. */
static gboolean begin_object (Text *text, PsJsonObject *object, const char *format, const Field *fields,
                              const char *const *required, const char *const *optional, GError **error)
{
  g_autoptr (GPtrArray) keys = g_ptr_array_new ();

  for (; text->counted < text->reader.at && format == NULL; text->counted++)
    text->line += *text->counted == '\n';
  g_free (text->place);
  text->place = format == NULL ? g_strdup_printf ("%s:%u", text->where, text->line) : g_strdup (text->where);
  text->reader.where = text->place;
  for (const Field *field = fields; field->key != NULL; field++)
    if (field->without != ALL)
      g_ptr_array_add (keys, (gpointer)field->key);
  for (; *optional != NULL; optional++)
    g_ptr_array_add (keys, (gpointer)*optional);
  g_ptr_array_add (keys, NULL);
  return ps_json_object_init (object, &text->reader, format, required, (const char *const *)keys->pdata, error);
}

static gboolean refuse (const PsJsonObject *object, const char *key, const char *problem, GError **error)
{
  return ps_refuse (error, PS_ERROR_INPUT, "%s: %s: %s", object->reader->where, key, problem);
}

static gboolean read_member (const PsJsonObject *object, const Field *field, gpointer record, GError **error)
{
  gint64 number, high = field->high > 0 ? field->high : MAX (PS_MAX_TIME_NS, PS_MAX_SIZE_BYTES);
  g_autofree char *text = NULL;

  if (!is_number_field (field) ? !ps_json_get_text (object, field->key, &text, error)
                               : !ps_json_get_integer (object, field->key, field->low, high, &number, error))
    return FALSE;
  if (text == NULL)
    text = g_strdup_printf ("%" G_GINT64_FORMAT, number);
  if (*text == '\0' && field->low > 0)
    return refuse (object, field->key, "'' is empty", error);
  return member_parse (object->reader->where, record, field, g_steal_pointer (&text), error);
}

/* The members of a measurement depend on its subject, which is the first field. */
static gboolean read_members (const PsJsonObject *object, const Field *fields, gpointer record, GError **error)
{
  for (const Field *field = fields; field->key != NULL; field++) {
    guint bits = subject_bits (fields, record);
    gboolean has = ps_json_object_has (object, field->key);

    if (has && field->without & bits)
      return refuse (object, field->key, "does not belong to this subject", error);
    if (!has && !((field->without | field->optional) & bits))
      return refuse (object, field->key, "is missing", error);
    if (has && !read_member (object, field, record, error))
      return FALSE;
    if (!has && field->type == STORED_TEXT && !member_parse ("", record, field, g_strdup (""), error))
      return FALSE;
  }
  return TRUE;
}

static gboolean read_conditions (Text *text, const PsJsonObject *object, PsMeasurement *m, GError **error)
{
  for (guint i = 0; i < N_MOMENTS; i++) {
    g_auto (PsJsonObject) members = { 0 };

    if (!ps_json_object_has (object, moments[i].moment))
      continue;
    ps_json_object_go (object, moments[i].moment);
    if (!begin_object (text, &members, NULL, condition_fields, none, none, error)
        || !read_members (&members, condition_fields, (char *)m + moments[i].offset, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean read_samples (const PsJsonObject *object, PsMeasurement *m, GError **error)
{
  if (!ps_json_object_has (object, "samples_ns"))
    return TRUE;
  if (!ps_json_get_array (object, "samples_ns", error))
    return FALSE;
  PsJsonReader *reader = object->reader;
  guint n = ps_json_count_elements (reader);
  if (n != m->time.n)
    return ps_refuse (error, PS_ERROR_INPUT, "%s: samples_ns: %u of them, where n is %u", reader->where, n, m->time.n);
  m->samples_ns = g_new (gint64, n);
  for (; ps_json_next_element (reader); m->n_samples++)
    if (!ps_json_element_integer (reader, "samples_ns", m->n_samples, 0, PS_MAX_TIME_NS, &m->samples_ns[m->n_samples],
                                  error))
      return FALSE;
  return TRUE;
}

static gboolean check_measurement (Text *text, const PsMeasurement *m, GError **error)
{
  const PsStatistics *time = &m->time;
  char *key = g_strdup_printf ("%d %d %" G_GINT64_FORMAT " %u %u %u %d %s", m->subject, m->kind, m->bytes, m->devices,
                               m->sharing, m->share, m->cache, m->shape);

  if (!g_hash_table_add (text->seen, key))
    return ps_refuse (error, PS_ERROR_INPUT, "%s: the measurement is there twice", text->reader.where);
  if (time->min_ns <= time->q1_ns && time->q1_ns <= time->median_ns && time->median_ns <= time->q3_ns)
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: median_ns: min, q1, median and q3 are out of order",
                    text->reader.where);
}

static gboolean read_array (Text *text, const PsJsonObject *object, const char *key, const Field *fields, gsize size,
                            GPtrArray *into, GError **error)
{
  static const char *const more[] = { "before", "during", "after", "samples_ns", NULL };
  gboolean measured = fields == measurement_fields, ok = TRUE;

  text->reader.where = text->where;
  if (!ps_json_get_array (object, key, error))
    return FALSE;
  text->counted = text->begin;
  text->line = 1;
  while (ok && ps_json_next_element (&text->reader)) {
    g_auto (PsJsonObject) item = { 0 };
    gpointer record = g_malloc0 (size);
    const char *end;

    g_ptr_array_add (into, record);
    if (!begin_object (text, &item, NULL, fields, none, measured ? more : none, error))
      return FALSE;
    end = text->reader.at;
    ok = read_members (&item, fields, record, error)
         && (!measured
             || (check_measurement (text, record, error) && read_conditions (text, &item, record, error)
                 && read_samples (&item, record, error)));
    text->reader.at = end;
  }
  return ok;
}

/* A model's text says more than its digest, which must follow from it. Without a model all three texts are empty. */
static gboolean check_model (const char *where, const PsProfile *profile, GError **error)
{
  if (*profile->model_name == '\0' && *profile->model_digest == '\0' && *profile->model_text == '\0')
    return TRUE;
  g_autofree char *place = g_strdup_printf ("%s: model_text", where);
  g_autoptr (PsModel) model = ps_model_parse (place, profile->model_text, strlen (profile->model_text), error);
  g_autofree char *digest = model != NULL ? ps_model_digest (model) : NULL;

  if (digest == NULL || g_str_equal (digest, profile->model_digest))
    return digest != NULL;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: model_digest: is not that of model_text, which is %s", where, digest);
}

/* Equal parts are left out. */
static gboolean check_shares (const char *where, const PsProfile *profile, GError **error)
{
  g_autofree char *place = g_strdup_printf ("%s: shares", where);
  guint n;

  if (*profile->shares == '\0')
    return TRUE;
  g_autofree guint *shares = ps_shares_parse (place, profile->shares, &n, error);
  g_autofree char *text = shares != NULL ? ps_shares_to_text (shares, n) : NULL;
  if (shares == NULL)
    return ps_text_blame_input (error);
  if (g_str_equal (text, profile->shares))
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: '%s' are %s", place, profile->shares,
                    *text ? "not in lowest terms" : "equal, which no shares at all say");
}

PsProfileContents *ps_profile_contents_parse (const char *where, const char *text, gsize length, GError **error)
{
  static const char *const arrays[] = { "sentinels", "measurements", NULL };
  g_auto (Text) state
      = { .where = where, .begin = text, .seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL) };
  g_auto (PsJsonObject) object = { 0 };
  g_autoptr (PsProfileContents) contents = g_new0 (PsProfileContents, 1);
  g_autoptr (GBytes) choices = NULL;
  PsProfile *profile = contents->profile = g_new0 (PsProfile, 1);

  contents->measurements = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  contents->sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_sentinel_free);
  if (!ps_json_reader_init (&state.reader, where, text, (gssize)length, error)
      || !begin_object (&state, &object, FORMAT, profile_fields, arrays, none, error)
      || !read_members (&object, profile_fields, profile, error) || !check_shares (where, profile, error)
      || !ps_choices_parse (where, profile->choices, &choices, error) || !check_model (where, profile, error)
      || !read_array (&state, &object, "sentinels", sentinel_fields, sizeof (PsSentinel), contents->sentinels, error)
      || !read_array (&state, &object, "measurements", measurement_fields, sizeof (PsMeasurement),
                      contents->measurements, error))
    return NULL;
  return g_steal_pointer (&contents);
}
