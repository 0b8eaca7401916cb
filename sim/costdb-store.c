/* costdb-store.c - writes profiles, measurements and runs. */
#include "costdb-private.h"

void
ps_profile_free (PsProfile *profile)
{
  if (!profile)
    return;
  g_free (profile->name);
  g_free (profile->model_name);
  g_free (profile->model_digest);
  g_free (profile->model_text);
  g_free (profile->device);
  g_free (profile->transport);
  g_free (profile->host);
  g_free (profile->processor);
  g_free (profile->kernel);
  g_free (profile->libraries);
  g_free (profile->version);
  g_free (profile->created);
  g_free (profile);
}

void
ps_measurement_free (PsMeasurement *measurement)
{
  if (!measurement)
    return;
  g_free (measurement->shape);
  g_free (measurement->stop);
  g_free (measurement->samples_ns);
  g_free (measurement->taken);
  g_free (measurement);
}

/* A profile is one machine and one model: what was measured under other circumstances does not belong to it. */
static gboolean
check_same (PsCostDb *db, const PsProfile *profile, const char *what, const char *stored, const char *now,
            GError **error)
{
  if (g_str_equal (stored, now))
    return TRUE;
  g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
               "%s: profile '%s' was measured with %s '%s', this is '%s'; choose another --profile name",
               db->file->path, profile->name, what, stored, now);
  return FALSE;
}

/* Models are told apart by their digest; people know them by name. */
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
  const char *const names[] = { "device", "transport", "host", "processor" };
  const char *const now[] = { profile->device, profile->transport, profile->host, profile->processor };
  for (int i = 0; i < (int)G_N_ELEMENTS (names); i++)
    {
      g_autofree char *stored = ps_rows_text (rows, 3 + i);
      if (!check_same (db, profile, names[i], stored, now[i], error))
        return FALSE;
    }
  return TRUE;
}

/* Whether the profile, if there is one, is of the same circumstances; *id stays 0 when there is none. */
static gboolean
find_profile (PsCostDb *db, const PsProfile *profile, gint64 *id, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (
      db->file, error,
      "SELECT id, model_name, model_digest, device, transport, host, processor FROM profile WHERE name = ?1", "s",
      profile->name);
  gboolean found;
  *id = 0;
  if (!rows || !ps_rows_next (rows, &found, error))
    return FALSE;
  if (!found)
    return TRUE;
  *id = ps_rows_integer (rows, 0);
  return check_circumstances (db, profile, rows, error);
}

static gboolean
insert_profile (PsCostDb *db, const PsProfile *p, gint64 *id, GError **error)
{
  if (!ps_database_execute (db->file, error,
                            "INSERT INTO profile (name, model_name, model_digest, model_text, device, transport, host, "
                            "processor, kernel, libraries, version, created) "
                            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                            "ssssssssssss", p->name, p->model_name, p->model_digest, p->model_text, p->device,
                            p->transport, p->host, p->processor, p->kernel, p->libraries, p->version, p->created))
    return FALSE;
  *id = ps_database_last_row (db->file);
  return TRUE;
}

gboolean
ps_costdb_begin_profile (PsCostDb *db, const PsProfile *profile, gint64 *id, GError **error)
{
  if (!ps_database_begin (db->file, error))
    return FALSE;
  gboolean ok = find_profile (db, profile, id, error);
  if (ok && *id == 0)
    ok = insert_profile (db, profile, id, error);
  return ps_database_end (db->file, ok, error);
}

static const char *
subject_name (const PsMeasurement *measurement)
{
  return measurement->transfer ? "transfer" : "op";
}

/* Transfers have no kind. */
static const char *
kind_name (const PsMeasurement *measurement)
{
  return measurement->transfer ? "" : ps_op_kind_name (measurement->kind);
}

static gboolean
insert_measurement (PsCostDb *db, gint64 profile, const PsMeasurement *m, GError **error)
{
  const PsStatistics *time = &m->time;
  return ps_database_execute (
      db->file, error,
      "INSERT INTO measurement (profile, subject, shape, kind, bytes, devices, n, median_ns, q1_ns, q3_ns, mad_ns, "
      "min_ns, take_bytes, give_bytes, state_bytes, stop, taken) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
      "isssiiiiiiiiiiiss", profile, subject_name (m), m->shape, kind_name (m), m->bytes, (gint64)m->devices,
      (gint64)time->n, time->median_ns, time->q1_ns, time->q3_ns, time->mad_ns, time->min_ns, m->take_bytes,
      m->give_bytes, m->state_bytes, m->stop, m->taken);
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

gboolean
ps_costdb_store (PsCostDb *db, gint64 profile, const PsMeasurement *measurement, GError **error)
{
  gboolean ok = ps_database_begin (db->file, error);
  if (!ok)
    return FALSE;
  ok = insert_measurement (db, profile, measurement, error)
       && insert_samples (db, ps_database_last_row (db->file), measurement, error);
  return ps_database_end (db->file, ok, error);
}

gboolean
ps_costdb_has (PsCostDb *db, gint64 profile, const PsMeasurement *key, gboolean *found, GError **error)
{
  g_autoptr (PsRows) rows = ps_rows_new (db->file, error,
                                         "SELECT 1 FROM measurement WHERE profile = ?1 AND subject = ?2 AND shape = ?3 "
                                         "AND kind = ?4 AND bytes = ?5 AND devices = ?6",
                                         "isssii", profile, subject_name (key), key->shape, kind_name (key), key->bytes,
                                         (gint64)key->devices);
  return rows && ps_rows_next (rows, found, error);
}

gboolean
ps_costdb_store_run (PsCostDb *db, const PsRunRecord *run, GError **error)
{
  return ps_database_execute (
      db->file, error,
      "INSERT INTO run (profile, schedule, device, transport, devices, chunks, microbatches, steps, "
      "predicted_iteration_ns, measured_iteration_ns, predicted_peak_bytes, measured_peak_bytes, \"check\", started) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
      "ssssiiiiiiiiss", run->profile, run->schedule, run->device, run->transport, (gint64)run->n_devices,
      (gint64)run->n_chunks, (gint64)run->n_microbatches, (gint64)run->n_steps, run->predicted_iteration_ns,
      run->measured_iteration_ns, run->predicted_peak_bytes, run->measured_peak_bytes, run->check, run->started);
}
