/* costdb-store.c - writes profiles, measurements and runs. */
#include "costdb-private.h"
#include "profile-fields.h"

#include <string.h>

#define MEASUREMENT_KEY                                                                                                \
  "profile = ?1 AND subject = ?2 AND shape = ?3 AND kind = ?4 AND bytes = ?5 AND devices = ?6 AND sharing = ?7 "       \
  "AND share = ?8 AND cache = ?9"

/* clang-format off */
#define TEXT(member) { #member, offsetof (PsProfile, member) }
/* clang-format on */

const PsProfileField ps_profile_texts[PS_N_PROFILE_TEXTS]
    = { TEXT (name), TEXT (model_name), TEXT (model_digest), TEXT (model_text), TEXT (device),  TEXT (transport),
        TEXT (host), TEXT (processor),  TEXT (kernel),       TEXT (libraries),  TEXT (version), TEXT (created) };

void
ps_profile_free (PsProfile *profile)
{
  if (profile == NULL)
    return;
  for (guint i = 0; i < PS_N_PROFILE_TEXTS; i++)
    g_free (*(char **)ps_profile_field_at (profile, &ps_profile_texts[i]));
  g_free (profile->source);
  g_free (profile->shares);
  g_free (profile->choices);
  g_free (profile->places);
  g_free (profile);
}

void
ps_measurement_free (PsMeasurement *measurement)
{
  if (measurement == NULL)
    return;
  g_free (measurement->shape);
  g_free (measurement->stop);
  g_free (measurement->samples_ns);
  g_free (measurement->taken);
  g_free (measurement);
}

void
ps_sentinel_free (PsSentinel *sentinel)
{
  if (sentinel == NULL)
    return;
  g_free (sentinel->what);
  g_free (sentinel->taken);
  g_free (sentinel);
}

/* A profile is one machine and one model: measurements under other circumstances do not belong to it. */
static gboolean
check_same (PsCostDb *db, const PsProfile *profile, const char *what, const char *stored, const char *now,
            GError **error)
{
  if (g_str_equal (stored, now))
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT,
                    "%s: profile '%s' was measured with %s '%s', this is '%s'; choose another --profile name",
                    db->file->path, profile->name, what, stored, now);
}

/* Models differ by their digest; messages show their name. */
static char *
describe_model (const char *name, const char *digest)
{
  return g_strdup_printf ("%s (digest %.8s)", name, digest);
}

static gboolean
check_circumstances (PsCostDb *db, const PsProfile *profile, PsRows *rows, GError **error)
{
  g_autofree char *model_name = ps_rows_text (rows, 1);
  g_autofree char *model_digest = ps_rows_text (rows, 2);
  g_autofree char *stored_model = describe_model (model_name, model_digest);
  g_autofree char *model = describe_model (profile->model_name, profile->model_digest);

  if (!g_str_equal (model_digest, profile->model_digest))
    return check_same (db, profile, "model", stored_model, model, error);
  const char *const names[] = { "device", "transport", "shares", "host", "processor" };
  const char *const now[] = { profile->device, profile->transport, profile->shares, profile->host, profile->processor };
  for (int i = 0; i < (int)G_N_ELEMENTS (names); i++)
    {
      g_autofree char *stored = ps_rows_text (rows, 3 + i);
      gboolean is_shares = now[i] == profile->shares;

      if (!check_same (db, profile, names[i], is_shares ? ps_shares_describe (stored) : stored,
                       is_shares ? ps_shares_describe (now[i]) : now[i], error))
        return FALSE;
    }
  return TRUE;
}

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

/* The last calibration of a profile. */
typedef struct
{
  gint64 id;
  gint64 number;
  char *created;
} Last;

static void
last_clear (Last *last)
{
  g_free (last->created);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Last, last_clear)

/* Checks that it has the same circumstances. All 0 when there is none. */
static gboolean
find_last (PsCostDb *db, const PsProfile *profile, Last *last, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (db->file, error,
                                         "SELECT id, model_name, model_digest, device, transport, shares, host, "
                                         "processor, number, created FROM profile WHERE name = ?1 "
                                         "ORDER BY number DESC LIMIT 1",
                                         "s", profile->name);
  gboolean found;

  if (ps_profile_name_length (profile->name) < strlen (profile->name))
    return ps_refuse (error, PS_ERROR_USAGE,
                      "--profile: '%s' ends with the number of a calibration; a new one gets its own", profile->name);
  if (rows == NULL || !ps_rows_next (rows, &found, error))
    return FALSE;
  if (!found)
    return TRUE;
  *last = (Last){ ps_rows_integer (rows, 0), ps_rows_integer (rows, 8), ps_rows_text (rows, 9) };
  return check_circumstances (db, profile, rows, error);
}

static gboolean
insert_choices (PsCostDb *db, gint64 profile, const char *base64, GError **error)
{
  return ps_database_execute (db->file, error, "INSERT OR REPLACE INTO choices (profile, base64) VALUES (?1, ?2)", "is",
                              profile, base64);
}

gboolean
ps_costdb_store_choices (PsCostDb *db, gint64 profile, GBytes *choices, GError **error)
{
  gsize n;
  gconstpointer bytes = g_bytes_get_data (choices, &n);
  g_autofree char *base64 = g_base64_encode (bytes, n);

  return insert_choices (db, profile, base64, error);
}

/* Adds the places of further devices to the stored ones. Stored places are never replaced: the shapes of stored
 * transfers depend on them. */
static gboolean
insert_places (PsCostDb *db, gint64 profile, const char *places, GError **error)
{
  return *places == '\0'
         || ps_database_execute (
             db->file, error,
             "INSERT INTO places (profile, ways) VALUES (?1, ?2) ON CONFLICT (profile) DO UPDATE "
             "SET ways = excluded.ways WHERE substr (excluded.ways, 1, length (ways) + 1) = ways || ';'",
             "is", profile, places);
}

static gboolean
insert_profile (PsCostDb *db, const PsProfile *p, gint64 number, gint64 *id, GError **error)
{
  if (!ps_database_execute (
          db->file, error,
          "INSERT INTO profile (name, number, source, model_name, model_digest, model_text, device, transport, shares, "
          "host, processor, kernel, libraries, version, created) "
          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
          "sisssssssssssss", p->name, number, p->source, p->model_name, p->model_digest, p->model_text, p->device,
          p->transport, p->shares, p->host, p->processor, p->kernel, p->libraries, p->version, p->created))
    return FALSE;
  *id = ps_database_last_row (db->file);
  return (*p->choices == '\0' || insert_choices (db, *id, p->choices, error))
         && insert_places (db, *id, p->places, error);
}

/* Not always: only where there is none. */
static gboolean
insert_calibration (PsCostDb *db, const PsProfile *profile, gboolean always, gint64 *id, GError **error)
{
  g_auto (Last) last = { 0 };

  if (!find_last (db, profile, &last, error))
    return FALSE;
  *id = last.id;
  if (last.id != 0 && !always)
    return insert_places (db, last.id, profile->places, error);
  return insert_profile (db, profile, last.number + 1, id, error);
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

/* Only ops have a kind. */
static const char *
kind_name (const PsMeasurement *measurement)
{
  return measurement->subject == PS_SUBJECT_OP ? ps_op_kind_name (measurement->kind) : "";
}

static gint64
sharing_of (const PsMeasurement *measurement)
{
  return MAX (measurement->sharing, 1);
}

static gboolean
insert_measurement (PsCostDb *db, gint64 profile, const PsMeasurement *m, GError **error)
{
  const PsStatistics *time = &m->time;

  return ps_database_execute (
      db->file, error,
      "INSERT INTO measurement (profile, subject, shape, kind, bytes, devices, sharing, share, cache, n, median_ns, "
      "q1_ns, q3_ns, mad_ns, min_ns, launch_ns, take_bytes, give_bytes, state_bytes, stop, taken) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, nullif (?16, 0), ?17, ?18, ?19, ?20, "
      "?21)",
      "isssiiiisiiiiiiiiiiss", profile, ps_subject_name (m->subject), m->shape, kind_name (m), m->bytes,
      (gint64)m->devices, sharing_of (m), (gint64)m->share, ps_cache_state_name (m->cache), (gint64)time->n,
      time->median_ns, time->q1_ns, time->q3_ns, time->mad_ns, time->min_ns, m->launch_ns, m->take_bytes, m->give_bytes,
      m->state_bytes, m->stop, m->taken);
}

/* Nothing when nothing is known. */
static gboolean
insert_condition (PsCostDb *db, gint64 row, const char *moment, const PsCondition *c, GError **error)
{
  g_autofree char *throttle = ps_throttle_to_text (c->throttle);

  if (throttle == NULL && !c->clock_mhz && !c->memory_clock_mhz && !c->temperature_c && !c->power_mw)
    return TRUE;
  return ps_database_execute (db->file, error,
                              "INSERT INTO condition (measurement, moment, clock_mhz, memory_clock_mhz, temperature_c, "
                              "power_mw, throttle) "
                              "VALUES (?1, ?2, nullif (?3, 0), nullif (?4, 0), nullif (?5, 0), nullif (?6, 0), ?7)",
                              "isiiiis", row, moment, c->clock_mhz, c->memory_clock_mhz, c->temperature_c, c->power_mw,
                              throttle);
}

/* All samples in one statement: SQLite takes the array apart. */
static gboolean
insert_samples (PsCostDb *db, gint64 row, const PsMeasurement *measurement, GError **error)
{
  g_autoptr (GString) array = g_string_new ("[");

  for (guint i = 0; i < measurement->n_samples; i++)
    g_string_append_printf (array, "%s%" G_GINT64_FORMAT, i ? "," : "", measurement->samples_ns[i]);
  g_string_append_c (array, ']');
  return ps_database_execute (
      db->file, error, "INSERT INTO sample (measurement, position, ns) SELECT ?1, key, value FROM json_each (?2)", "is",
      row, array->str);
}

static gboolean
insert_all (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error)
{
  if (!insert_measurement (db, profile, measurement, error))
    return FALSE;
  gint64 row = ps_database_last_row (db->file);
  return insert_samples (db, row, measurement, error)
         && insert_condition (db, row, "before", &measurement->before, error)
         && insert_condition (db, row, "during", &measurement->during, error)
         && insert_condition (db, row, "after", &measurement->after, error);
}

gboolean
ps_costdb_store (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error)
{
  return ps_database_begin (db->file, error)
         && ps_database_end (db->file, insert_all (db, profile, measurement, error), error);
}

static gboolean
delete_measurement (PsCostDb *db, gint64 profile, const PsMeasurement *key, GError **error)
{
  return ps_database_execute (db->file, error, "DELETE FROM measurement WHERE " MEASUREMENT_KEY, "isssiiiis", profile,
                              ps_subject_name (key->subject), key->shape, kind_name (key), key->bytes,
                              (gint64)key->devices, sharing_of (key), (gint64)key->share,
                              ps_cache_state_name (key->cache));
}

gboolean
ps_costdb_replace (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error)
{
  return ps_database_begin (db->file, error)
         && ps_database_end (db->file,
                             delete_measurement (db, profile, measurement, error)
                                 && insert_all (db, profile, measurement, error),
                             error);
}

gboolean
ps_costdb_has (PsCostDb *db, gint64 profile, const PsMeasurement *key, gboolean *found, GError **error)
{
  g_autoptr (PsRows) rows
      = ps_rows_new (db->file, error, "SELECT 1 FROM measurement WHERE " MEASUREMENT_KEY, "isssiiiis", profile,
                     ps_subject_name (key->subject), key->shape, kind_name (key), key->bytes, (gint64)key->devices,
                     sharing_of (key), (gint64)key->share, ps_cache_state_name (key->cache));

  return rows != NULL && ps_rows_next (rows, found, error);
}

static gboolean
insert_sentinel (PsCostDb *db, gint64 profile, const PsSentinel *sentinel, GError **error)
{
  return ps_database_execute (db->file, error,
                              "INSERT INTO sentinel (profile, position, what, median_ns, n, taken) "
                              "VALUES (?1, (SELECT count (*) FROM sentinel WHERE profile = ?1), ?2, ?3, ?4, ?5)",
                              "isiis", profile, sentinel->what, sentinel->median_ns, (gint64)sentinel->n,
                              sentinel->taken);
}

gboolean
ps_costdb_store_sentinel (PsCostDb *db, gint64 profile, const PsSentinel *sentinel, GError **error)
{
  return ps_database_begin (db->file, error)
         && ps_database_end (db->file, insert_sentinel (db, profile, sentinel, error), error);
}

/* Without transactions of their own. */
static gboolean
insert_contents (PsCostDb *db, gint64 profile, GPtrArray *measurements, GPtrArray *sentinels, GError **error)
{
  for (guint i = 0; i < measurements->len; i++)
    if (!insert_all (db, profile, measurements->pdata[i], error))
      return FALSE;
  for (guint i = 0; i < sentinels->len; i++)
    if (!insert_sentinel (db, profile, sentinels->pdata[i], error))
      return FALSE;
  return TRUE;
}

static gboolean
insert_contents_of_new (PsCostDb *db, const PsProfile *profile, GPtrArray *measurements, GPtrArray *sentinels,
                        GError **error)
{
  g_auto (Last) last = { 0 };
  gint64 id;

  if (!find_last (db, profile, &last, error))
    return FALSE;
  if (g_strcmp0 (last.created, profile->created) == 0)
    return ps_refuse (error, PS_ERROR_INPUT,
                      "%s: there is a profile '%s' already that was begun at the same moment, %s", db->file->path,
                      profile->name, profile->created);
  return insert_profile (db, profile, last.number + 1, &id, error)
         && insert_contents (db, id, measurements, sentinels, error);
}

gboolean
ps_costdb_add_profile (PsCostDb *db, const PsProfile *profile, GPtrArray *measurements, GPtrArray *sentinels,
                       GError **error)
{
  return ps_database_begin (db->file, error)
         && ps_database_end (db->file, insert_contents_of_new (db, profile, measurements, sentinels, error), error);
}

gboolean
ps_costdb_store_run (PsCostDb *db, const PsRunRecord *run, GError **error)
{
  return ps_database_execute (
      db->file, error,
      "INSERT INTO run (profile, schedule, device, transport, devices, chunks, microbatches, steps, "
      "predicted_iteration_ns, measured_iteration_ns, predicted_peak_bytes, measured_peak_bytes, clock_mhz, \"check\", "
      "started) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, nullif (?13, 0), ?14, ?15)",
      "ssssiiiiiiiiiss", run->profile, run->schedule, run->device, run->transport, (gint64)run->n_devices,
      (gint64)run->n_chunks, (gint64)run->n_microbatches, (gint64)run->n_steps, run->predicted_iteration_ns,
      run->measured_iteration_ns, run->predicted_peak_bytes, run->measured_peak_bytes, run->clock_mhz, run->check,
      run->started);
}
