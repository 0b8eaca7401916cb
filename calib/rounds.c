/* rounds.c - decides what a round measures, and stores it. */
#include "rounds.h"

#include "commands.h"
#include "measure.h"

#include <string.h>

void ps_calib_rounds_init (PsCalibRounds *rounds, const char *profile_name)
{
  *rounds = (PsCalibRounds){ .profile_name = profile_name,
                             .disturbed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL),
                             .wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL) };
}

void ps_calib_rounds_clear (PsCalibRounds *rounds)
{
  g_clear_pointer (&rounds->disturbed, g_hash_table_unref);
  g_clear_pointer (&rounds->wanted, g_hash_table_unref);
  g_clear_pointer (&rounds->known, g_ptr_array_unref);
}

/* Returns a key of the measurement with its exact size; descriptions round sizes. */
static char *key_of (const PsMeasurement *m)
{
  g_autofree char *name = ps_calib_describe (m);

  return g_strdup_printf ("%s %" G_GINT64_FORMAT, name, m->bytes);
}

static gboolean find_disturbed (PsCalibRounds *rounds, guint *n_stored, double *shift, GError **error)
{
  GPtrArray *measurements = ps_costdb_measurements (rounds->db, rounds->profile_name, FALSE, error);
  g_autoptr (GPtrArray) sentinels
      = measurements != NULL ? ps_costdb_sentinels (rounds->db, rounds->profile_name, error) : NULL;

  g_clear_pointer (&rounds->known, g_ptr_array_unref);
  rounds->known = measurements;
  if (sentinels == NULL)
    return FALSE;
  g_autofree double *shifts = g_new (double, measurements->len);
  *shift = ps_sentinel_shifts (sentinels, measurements, shifts);
  *n_stored = measurements->len;
  g_hash_table_remove_all (rounds->disturbed);
  for (guint i = 0; i < measurements->len; i++)
    if (shifts[i] > PS_SENTINEL_TOLERANCE)
      g_hash_table_add (rounds->disturbed, key_of (measurements->pdata[i]));
  return TRUE;
}

/* Notes a key that is missing or must be measured again; measures nothing yet. */
static gboolean note_wanted (const PsMeasurement *key, gpointer data, gboolean *wanted, GError **error)
{
  PsCalibRounds *rounds = data;
  char *name = key_of (key);
  gboolean found, again = rounds->n_again > 0 && g_hash_table_contains (rounds->disturbed, name);
  gboolean ok = ps_costdb_has (rounds->db, rounds->profile, key, &found, error);

  *wanted = FALSE;
  if (!ok || (found && !again))
    g_free (name);
  else if (g_hash_table_add (rounds->wanted, name))
    rounds->n_repeated += again;
  return ok;
}

static gboolean plan (PsCalibRounds *rounds, const PsCalibration *calibration, guint round, double *shift,
                      GError **error)
{
  PsCalibration dry = *calibration;
  guint n_stored;

  dry.wanted = note_wanted;
  dry.data = rounds;
  rounds->n_done = rounds->n_repeated = rounds->n_unmeasured = 0;
  g_hash_table_remove_all (rounds->wanted);
  if (!find_disturbed (rounds, &n_stored, shift, error))
    return FALSE;
  dry.known = rounds->known;
  if (!ps_calibrate (&dry, error))
    return FALSE;
  rounds->n_wanted = g_hash_table_size (rounds->wanted);
  if (round == 0)
    rounds->n_there = n_stored;
  return TRUE;
}

static gboolean is_wanted (const PsMeasurement *key, gpointer data, gboolean *wanted, GError **error)
{
  PsCalibRounds *rounds = data;
  g_autofree char *name = key_of (key);

  *wanted = g_hash_table_contains (rounds->wanted, name);
  return TRUE;
}

/* Fails if another process has stored this measurement in the meantime: two calibrations at a time disturb each
 * other. */
static gboolean check_alone (const PsCalibRounds *rounds, const PsMeasurement *measurement, const char *name,
                             GError **error)
{
  gboolean found;

  if (!ps_costdb_has (rounds->db, rounds->profile, measurement, &found, error))
    return FALSE;
  if (found)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
                 "profile '%s': another calib run has stored %s meanwhile; two at a time disturb each other",
                 rounds->profile_name, name);
  return !found;
}

static void tell_stored (const PsCalibRounds *rounds, const PsMeasurement *measurement, const char *name,
                         gboolean again)
{
  g_autofree char *median = ps_format_time (measurement->time.median_ns);

  g_printerr ("%s%u of %u: %.90s: %s%s (n = %u, %s)%s", rounds->terminal ? PS_CLEAR_LINE : "", rounds->n_done,
              rounds->n_wanted, name, median, again ? " again" : "", measurement->time.n, measurement->stop,
              rounds->terminal ? "" : "\n");
}

/* Nothing is stored, so another round or run tries again. */
static void note_unmeasured (PsCalibRounds *rounds, const char *name, const char *reason)
{
  rounds->n_done++;
  rounds->n_unmeasured++;
  g_printerr ("%s%u of %u: %.90s: %s\n", rounds->terminal ? PS_CLEAR_LINE : "", rounds->n_done, rounds->n_wanted, name,
              reason);
}

static gboolean store (const PsMeasurement *measurement, gpointer data, GError **error)
{
  PsCalibRounds *rounds = data;
  g_autofree char *name = ps_calib_describe (measurement);
  g_autofree char *key = key_of (measurement);
  gboolean again = g_hash_table_contains (rounds->disturbed, key);

  if (measurement->n_samples == 0) {
    note_unmeasured (rounds, name, measurement->stop);
    return TRUE;
  }
  gboolean ok = again ? ps_costdb_replace (rounds->db, rounds->profile, measurement, error)
                      : check_alone (rounds, measurement, name, error)
                            && ps_costdb_store (rounds->db, rounds->profile, measurement, error);

  if (!ok)
    return FALSE;
  g_hash_table_remove (rounds->wanted, key);
  rounds->n_done++;
  rounds->n_measured++;
  tell_stored (rounds, measurement, name, again);
  return TRUE;
}

/* The key is one that predictions take. */
static gboolean is_added (const PsMeasurement *key, gpointer data, gboolean *wanted, GError **error)
{
  const PsCalibRounds *rounds = data;
  const PsCalibration *calibration = rounds->added;

  if (rounds->n_chunks > 0)
    *wanted = key->subject == PS_SUBJECT_OP && key->cache == PS_CACHE_RUN && key->devices == calibration->n_local
              && strstr (key->shape, ",blocks=") == NULL;
  else
    *wanted = key->subject == PS_SUBJECT_TRANSFER && *key->shape == '\0'
              && key->bytes == ps_model_boundary_bytes (calibration->model);
  return TRUE;
}

PsMeasurement *ps_calib_join (const PsMeasurement *before, const PsMeasurement *m)
{
  PsMeasurement *both = g_memdup2 (m, sizeof *m);

  both->shape = g_strdup (m->shape);
  both->stop = g_strdup (m->stop);
  both->taken = g_strdup (m->taken);
  both->before = before->before;
  both->n_samples = before->n_samples + m->n_samples;
  both->samples_ns = g_new (gint64, both->n_samples);
  memcpy (both->samples_ns, before->samples_ns, before->n_samples * sizeof *both->samples_ns);
  memcpy (both->samples_ns + before->n_samples, m->samples_ns, m->n_samples * sizeof *both->samples_ns);
  ps_statistics_compute (both->samples_ns, both->n_samples, &both->time);
  return both;
}

static gboolean add (const PsMeasurement *measurement, gpointer data, GError **error)
{
  const PsCalibRounds *rounds = data;
  g_autoptr (GPtrArray) all = ps_costdb_measurements (rounds->db, rounds->profile_name, TRUE, error);
  const PsMeasurement *before = all != NULL ? ps_measurement_find (all, measurement) : NULL;

  if (all == NULL || before == NULL || measurement->n_samples == 0)
    return all != NULL;
  g_autoptr (PsMeasurement) both = ps_calib_join (before, measurement);
  return ps_costdb_replace (rounds->db, rounds->profile, both, error);
}

static gboolean note_sentinel (const PsSentinel *sentinel, gpointer data, GError **error)
{
  PsCalibRounds *rounds = data;

  return ps_costdb_store_sentinel (rounds->db, rounds->profile, sentinel, error);
}

static gboolean note_choices (GBytes *choices, gpointer data, GError **error)
{
  PsCalibRounds *rounds = data;

  return ps_costdb_store_choices (rounds->db, rounds->profile, choices, error);
}

static void tell_unrest (const PsCalibRounds *rounds, double shift, guint n, const char *consequence)
{
  if (n > 0)
    g_printerr (
        "%swarning: the machine was not quiet: the sentinel op moved by up to %.0f %% beside %u measurements%s\n",
        rounds->terminal ? PS_CLEAR_LINE : "", 100 * shift, n, consequence);
}

/* Two calibrations side by side show how much the machine differs from one to the next. */
static gboolean choose_calibration (PsCalibRounds *rounds, const PsCalibration *calibration, GError **error)
{
  double shift;

  if (!plan (rounds, calibration, 0, &shift, error))
    return FALSE;
  if (rounds->n_wanted > rounds->n_repeated)
    return TRUE;
  g_printerr ("profile '%s' has all of these measurements: they are taken anew, as another calibration\n",
              rounds->profile_name);
  return ps_costdb_add_calibration (rounds->db, rounds->here, &rounds->profile, error);
}

/* The calibration with the profile's choices. Free *choices with g_bytes_unref. */
static gboolean resume (PsCalibRounds *rounds, const PsCalibration *calibration, PsCalibration *real, GBytes **choices,
                        GError **error)
{
  g_autoptr (PsProfile) profile = ps_costdb_profile (rounds->db, rounds->profile_name, error);

  if (profile == NULL || !ps_choices_parse (rounds->profile_name, profile->choices, choices, error))
    return FALSE;
  *real = *calibration;
  real->choices = *choices;
  real->decided = note_choices;
  real->sentinel = note_sentinel;
  real->data = rounds;
  return TRUE;
}

gboolean ps_calib_rounds_add (PsCalibRounds *rounds, const PsCalibration *calibration, guint n_chunks, GError **error)
{
  PsCalibration real;
  g_autoptr (GBytes) choices = NULL;

  if (!resume (rounds, calibration, &real, &choices, error))
    return FALSE;
  rounds->added = calibration;
  rounds->n_chunks = n_chunks;
  real.wanted = is_added;
  real.sink = add;
  real.n_chunks = n_chunks > 0;
  real.chunks = &rounds->n_chunks;
  real.caches = 1U << PS_CACHE_RUN;
  return ps_calibrate (&real, error);
}

gboolean ps_calib_rounds_measure (PsCalibRounds *rounds, const PsCalibration *calibration, GError **error)
{
  PsCalibration real;
  g_autoptr (GBytes) choices = NULL;
  double shift = 0;
  guint n_stored;

  if (!choose_calibration (rounds, calibration, error) || !resume (rounds, calibration, &real, &choices, error))
    return FALSE;
  real.wanted = is_wanted;
  real.sink = store;
  /* A second round in any case: for links of a class that has split. */
  for (guint round = 0; round <= MAX (rounds->n_again, 1); round++) {
    if (!plan (rounds, calibration, round, &shift, error))
      return FALSE;
    if (rounds->n_wanted == 0)
      break;
    tell_unrest (rounds, shift, rounds->n_repeated, "; they are taken again");
    real.known = rounds->known;
    if (!ps_calibrate (&real, error))
      return FALSE;
  }
  if (!find_disturbed (rounds, &n_stored, &shift, error))
    return FALSE;
  if (rounds->n_unmeasured > 0)
    g_printerr (
        "warning: %u quantities have no accepted samples: the hardware slowed itself down all the time, for heat "
        "or power supply; another calib run measures them\n",
        rounds->n_unmeasured);
  tell_unrest (rounds, shift, g_hash_table_size (rounds->disturbed),
               ": do not trust them; another calib run measures anew");
  return TRUE;
}
