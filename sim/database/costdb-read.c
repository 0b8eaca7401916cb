/* costdb-read.c - reads profiles and measurements back. */
#include "costdb-private.h"
#include "profile-fields.h"

/* The row that a name means: of the last calibration, or of the one whose number ends the name. */
#define CALIBRATION                                                                                                    \
  "(SELECT id FROM profile WHERE name = ?1 OR name || '#' || number = ?1 ORDER BY name = ?1 DESC, number DESC LIMIT "  \
  "1)"

/* Columns as in the query of ps_costdb_profiles. */
static gpointer
read_profile (PsRows *rows, gpointer data, GError **error)
{
  PsProfile *profile = g_new0 (PsProfile, 1);

  for (guint i = 0; i < PS_N_PROFILE_TEXTS; i++)
    *(char **)ps_profile_field_at (profile, &ps_profile_texts[i]) = ps_rows_text (rows, (int)i);
  profile->shares = ps_rows_text (rows, PS_N_PROFILE_TEXTS);
  profile->source = ps_rows_text (rows, PS_N_PROFILE_TEXTS + 1);
  profile->choices = ps_rows_text (rows, PS_N_PROFILE_TEXTS + 2);
  profile->places = ps_rows_text (rows, PS_N_PROFILE_TEXTS + 3);
  profile->number = (guint)ps_rows_integer (rows, PS_N_PROFILE_TEXTS + 4);
  return profile;
}

GPtrArray *
ps_costdb_profiles (PsCostDb *db, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (
      db->file, error,
      "SELECT CASE WHEN number = max (number) OVER (PARTITION BY name) THEN name ELSE name || '#' || number END, "
      "model_name, model_digest, model_text, device, transport, host, processor, kernel, libraries, version, created, "
      "shares, source, base64, ways, number FROM profile LEFT JOIN choices ON choices.profile = id "
      "LEFT JOIN places ON places.profile = id ORDER BY profile.name, number",
      "");

  return ps_rows_collect (rows, read_profile, NULL, (GDestroyNotify)ps_profile_free, error);
}

gboolean
ps_choices_parse (const char *where, const char *text, GBytes **choices, GError **error)
{
  *choices = NULL;
  if (*text == '\0')
    return TRUE;
  gsize n;
  g_autofree guchar *bytes = g_base64_decode (text, &n);
  g_autofree char *again = g_base64_encode (bytes, n);
  if (g_str_equal (again, text))
    {
      *choices = g_bytes_new_take (g_steal_pointer (&bytes), n);
      return TRUE;
    }
  return ps_refuse (error, PS_ERROR_INPUT, "%s: choices: are no base64", where);
}

/* Words that the schema does not allow come from damaged files only; they read as the first word of their sort. */
static void
read_key (PsRows *rows, PsMeasurement *m)
{
  g_autofree char *subject = ps_rows_text (rows, 1);
  g_autofree char *kind = ps_rows_text (rows, 3);
  g_autofree char *cache = ps_rows_text (rows, 8);

  ps_subject_parse ("subject", subject, &m->subject, NULL);
  ps_op_kind_parse ("kind", kind, &m->kind, NULL);
  ps_cache_state_parse ("cache", cache, &m->cache, NULL);
  m->id = ps_rows_integer (rows, 0);
  m->shape = ps_rows_text (rows, 2);
  m->bytes = ps_rows_integer (rows, 4);
  m->devices = (guint)ps_rows_integer (rows, 5);
  m->sharing = (guint)ps_rows_integer (rows, 6);
  m->share = (guint)ps_rows_integer (rows, 7);
}

/* Columns as in the query of ps_costdb_measurements. */
static PsMeasurement *
read_measurement (PsRows *rows)
{
  PsMeasurement *m = g_new0 (PsMeasurement, 1);

  read_key (rows, m);
  m->time.n = (guint)ps_rows_integer (rows, 9);
  m->time.median_ns = ps_rows_integer (rows, 10);
  m->time.q1_ns = ps_rows_integer (rows, 11);
  m->time.q3_ns = ps_rows_integer (rows, 12);
  m->time.mad_ns = ps_rows_integer (rows, 13);
  m->time.min_ns = ps_rows_integer (rows, 14);
  m->device_ns = ps_rows_integer (rows, 15);
  m->take_bytes = ps_rows_integer (rows, 16);
  m->give_bytes = ps_rows_integer (rows, 17);
  m->state_bytes = ps_rows_integer (rows, 18);
  m->stop = ps_rows_text (rows, 19);
  m->taken = ps_rows_text (rows, 20);
  return m;
}

/* Five columns from `first` on. */
static gboolean
read_condition (PsCostDb *db, PsRows *rows, int first, PsCondition *condition, GError **error)
{
  g_autofree char *throttle = ps_rows_is_null (rows, first + 4) ? NULL : ps_rows_text (rows, first + 4);

  *condition = (PsCondition){ .clock_mhz = ps_rows_integer (rows, first),
                              .memory_clock_mhz = ps_rows_integer (rows, first + 1),
                              .temperature_c = ps_rows_integer (rows, first + 2),
                              .power_mw = ps_rows_integer (rows, first + 3) };
  if (ps_throttle_parse (throttle, &condition->throttle))
    return TRUE;
  return ps_refuse (error, PS_ERROR_INPUT, "%s: '%s' is no reason to run slower", db->file->path, throttle);
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

/* The data of read_whole. */
typedef struct
{
  PsCostDb *db;
  gboolean with_samples;
} Source;

static gpointer
read_whole (PsRows *rows, gpointer data, GError **error)
{
  const Source *source = data;
  g_autoptr (PsMeasurement) measurement = read_measurement (rows);

  if (!read_condition (source->db, rows, 21, &measurement->before, error)
      || !read_condition (source->db, rows, 26, &measurement->during, error)
      || !read_condition (source->db, rows, 31, &measurement->after, error)
      || (source->with_samples && !ps_costdb_read_samples (source->db, measurement, error)))
    return NULL;
  return g_steal_pointer (&measurement);
}

GPtrArray *
ps_costdb_measurements (PsCostDb *db, const char *profile, gboolean with_samples, GError **error)
{
  Source source = { db, with_samples };
  g_autoptr (PsRows) rows = ps_rows_new (
      db->file, error,
      "SELECT measurement.id, subject, shape, kind, bytes, devices, sharing, share, cache, n, median_ns, q1_ns, "
      "q3_ns, mad_ns, min_ns, device_ns, take_bytes, give_bytes, state_bytes, stop, taken, "
      "b.clock_mhz, b.memory_clock_mhz, b.temperature_c, b.power_mw, b.throttle, "
      "d.clock_mhz, d.memory_clock_mhz, d.temperature_c, d.power_mw, d.throttle, "
      "a.clock_mhz, a.memory_clock_mhz, a.temperature_c, a.power_mw, a.throttle "
      "FROM measurement JOIN profile ON profile.id = measurement.profile "
      "LEFT JOIN condition AS b ON b.measurement = measurement.id AND b.moment = 'before' "
      "LEFT JOIN condition AS d ON d.measurement = measurement.id AND d.moment = 'during' "
      "LEFT JOIN condition AS a ON a.measurement = measurement.id AND a.moment = 'after' "
      "WHERE profile.id = " CALIBRATION " "
      "ORDER BY instr ('|op|pair|self-send|transfer|all-reduce|host|', '|' || subject || '|'), shape, instr "
      "('|F|B|W|BW|R|O|', '|' || kind || '|'), bytes, devices, "
      "sharing, share, instr ('|run|cold|warm|', '|' || cache || '|')",
      "s", profile);

  return ps_rows_collect (rows, read_whole, &source, (GDestroyNotify)ps_measurement_free, error);
}

static gpointer
read_sentinel (PsRows *rows, gpointer data, GError **error)
{
  PsSentinel *sentinel = g_new0 (PsSentinel, 1);

  *sentinel = (PsSentinel){ .what = ps_rows_text (rows, 0),
                            .median_ns = ps_rows_integer (rows, 1),
                            .n = (guint)ps_rows_integer (rows, 2),
                            .taken = ps_rows_text (rows, 3) };
  return sentinel;
}

GPtrArray *
ps_costdb_sentinels (PsCostDb *db, const char *profile, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (
      db->file, error,
      "SELECT what, median_ns, n, taken FROM sentinel WHERE profile = " CALIBRATION " ORDER BY position", "s", profile);

  return ps_rows_collect (rows, read_sentinel, NULL, (GDestroyNotify)ps_sentinel_free, error);
}
