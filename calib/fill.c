/* fill.c - decides what a pass measures, stores it, and finds what makes predictions uncertain. */
#include "fill.h"

#include "commands.h"

#include "clock.h"

#include <pipesim/setting.h>

#include <math.h>
#include <string.h>

void ps_fill_init (PsFill *fill, const char *profile_name)
{
  fill->profile_name = profile_name;
  fill->disturbed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  fill->wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
}

void ps_fill_clear (PsFill *fill)
{
  g_clear_pointer (&fill->disturbed, g_hash_table_unref);
  g_clear_pointer (&fill->wanted, g_hash_table_unref);
  g_clear_pointer (&fill->known, g_ptr_array_unref);
}

/* Returns a key of the measurement with its exact size; descriptions round sizes. */
static char *key_of (const PsMeasurement *m)
{
  g_autofree char *name = ps_calib_describe (m);

  return g_strdup_printf ("%s %" G_GINT64_FORMAT, name, m->bytes);
}

static gboolean find_disturbed (PsFill *fill, double *shift, GError **error)
{
  GPtrArray *measurements = ps_costdb_measurements (fill->db, fill->profile_name, FALSE, error);
  g_autoptr (GPtrArray) sentinels
      = measurements != NULL ? ps_costdb_sentinels (fill->db, fill->profile_name, error) : NULL;

  g_clear_pointer (&fill->known, g_ptr_array_unref);
  fill->known = measurements;
  if (sentinels == NULL)
    return FALSE;
  g_autofree double *shifts = g_new (double, measurements->len);
  *shift = ps_sentinel_shifts (sentinels, measurements, shifts);
  g_hash_table_remove_all (fill->disturbed);
  for (guint i = 0; i < measurements->len; i++)
    if (shifts[i] > PS_SENTINEL_TOLERANCE)
      g_hash_table_add (fill->disturbed, key_of (measurements->pdata[i]));
  return TRUE;
}

/* Notes a key that is missing or must be measured again; measures nothing yet. */
static gboolean note_wanted (const PsMeasurement *key, gpointer data)
{
  PsFill *fill = data;
  char *name = key_of (key);
  gboolean again = fill->n_again > 0 && g_hash_table_contains (fill->disturbed, name);

  if (again || ps_measurement_find (fill->known, key) == NULL)
    fill->n_repeated += g_hash_table_add (fill->wanted, name) && again;
  else
    g_free (name);
  return FALSE;
}

static gboolean plan_pass (PsFill *fill, const PsCalibration *calibration, guint pass, double *shift, GError **error)
{
  PsCalibration dry = *calibration;

  dry.wanted = note_wanted;
  dry.data = fill;
  fill->n_done = fill->n_repeated = fill->n_unmeasured = 0;
  g_hash_table_remove_all (fill->wanted);
  if (!find_disturbed (fill, shift, error))
    return FALSE;
  dry.known = fill->known;
  if (!ps_calibrate (&dry, error))
    return FALSE;
  fill->n_wanted = g_hash_table_size (fill->wanted);
  if (pass == 0)
    fill->n_there = fill->known->len;
  ps_progress_begin (0);
  return TRUE;
}

static gboolean is_wanted (const PsMeasurement *key, gpointer data)
{
  g_autofree char *name = key_of (key);

  return g_hash_table_contains (((PsFill *)data)->wanted, name);
}

/* Fails if another process has stored this measurement in the meantime: two calibrations at a time disturb each
 * other. */
static gboolean check_alone (const PsFill *fill, const PsMeasurement *measurement, const char *name, GError **error)
{
  gboolean found;

  if (!ps_costdb_has (fill->db, fill->profile, measurement, &found, error))
    return FALSE;
  if (found)
    g_set_error (error, PS_ERROR, PS_ERROR_INPUT,
                 "profile '%s': another calib run has stored %s meanwhile; two at a time disturb each other",
                 fill->profile_name, name);
  return !found;
}

/* Of a measurement without samples nothing is stored, so another pass or run tries again. */
static gboolean store (const PsMeasurement *m, gpointer data, GError **error)
{
  PsFill *fill = data;
  g_autofree char *name = ps_calib_describe (m), *key = key_of (m), *median = ps_format_time (m->time.median_ns);
  gboolean again = g_hash_table_contains (fill->disturbed, key);
  g_autofree char *result = g_strdup_printf ("%s%s (n = %u, %s)", median, again ? " again" : "", m->time.n, m->stop);

  fill->n_done++;
  fill->n_unmeasured += m->n_samples == 0;
  if (m->n_samples > 0
      && !(again ? ps_costdb_replace (fill->db, fill->profile, m, error)
                 : check_alone (fill, m, name, error) && ps_costdb_store (fill->db, fill->profile, m, error)))
    return FALSE;
  if (m->n_samples > 0) {
    g_hash_table_remove (fill->wanted, key);
    fill->n_measured++;
  }
  const char *outcome = m->n_samples > 0 ? result : m->stop;
  if (!fill->terminal)
    g_printerr ("%u of %u: %.90s: %s\n", fill->n_done, fill->n_wanted, name, outcome);
  else if (ps_progress_due ())
    ps_progress_show (fill->n_done, fill->n_wanted, "measurements", "%.90s: %s", name, outcome);
  return TRUE;
}

gboolean ps_fill_is_used (const PsCalibration *calibration, const PsMeasurement *key)
{
  if (key->subject == PS_SUBJECT_OP)
    return key->cache == PS_CACHE_RUN && key->devices == calibration->n_local
           && strstr (key->shape, ",blocks=") == NULL;
  return key->subject == PS_SUBJECT_TRANSFER && *key->shape == '\0'
         && key->bytes == ps_model_boundary_bytes (calibration->model);
}

static gboolean is_added (const PsMeasurement *key, gpointer data)
{
  const PsFill *fill = data;

  return (key->subject == PS_SUBJECT_OP) == (fill->n_chunks > 0) && ps_fill_is_used (fill->added, key);
}

static gboolean add (const PsMeasurement *measurement, gpointer data, GError **error)
{
  const PsFill *fill = data;
  g_autoptr (GPtrArray) all = ps_costdb_measurements (fill->db, fill->profile_name, TRUE, error);
  const PsMeasurement *before = all != NULL ? ps_measurement_find (all, measurement) : NULL;

  if (all == NULL || before == NULL || measurement->n_samples == 0)
    return all != NULL;
  g_autoptr (PsMeasurement) both = ps_measurement_join (before, measurement);
  return ps_costdb_replace (fill->db, fill->profile, both, error);
}

static gboolean note_sentinel (const PsSentinel *sentinel, gpointer data, GError **error)
{
  PsFill *fill = data;

  return ps_costdb_store_sentinel (fill->db, fill->profile, sentinel, error);
}

static gboolean note_choices (GBytes *choices, gpointer data, GError **error)
{
  PsFill *fill = data;

  return ps_costdb_store_choices (fill->db, fill->profile, choices, error);
}

static void tell_disturbed (double shift, guint n, const char *consequence)
{
  if (n > 0)
    g_printerr ("warning: the machine was not quiet: the sentinel op moved by up to %.0f %% during %u "
                "measurements%s\n",
                100 * shift, n, consequence);
}

/* Two calibrations show how much the machine differs from one to the next. */
static gboolean choose_calibration (PsFill *fill, const PsCalibration *calibration, GError **error)
{
  double shift;

  if (!plan_pass (fill, calibration, 0, &shift, error))
    return FALSE;
  if (fill->n_wanted > fill->n_repeated)
    return TRUE;
  g_printerr ("profile '%s' has all of these measurements: they are taken anew, as another calibration\n",
              fill->profile_name);
  return ps_costdb_add_calibration (fill->db, fill->here, &fill->profile, error);
}

/* The calibration with the profile's choices. Free *choices with g_bytes_unref. */
static gboolean resume (PsFill *fill, const PsCalibration *calibration, PsCalibration *real, GBytes **choices,
                        GError **error)
{
  g_autoptr (PsProfile) profile = ps_costdb_profile (fill->db, fill->profile_name, error);

  if (profile == NULL || !ps_choices_parse (fill->profile_name, profile->choices, choices, error))
    return FALSE;
  *real = *calibration;
  real->choices = *choices;
  real->decided = note_choices;
  real->sentinel = note_sentinel;
  real->data = fill;
  return TRUE;
}

gboolean ps_fill_add (PsFill *fill, const PsCalibration *calibration, guint n_chunks, GError **error)
{
  PsCalibration real;
  g_autoptr (GBytes) choices = NULL;

  if (!resume (fill, calibration, &real, &choices, error))
    return FALSE;
  fill->added = calibration;
  fill->n_chunks = n_chunks;
  real.wanted = is_added;
  real.sink = add;
  real.n_chunks = n_chunks > 0;
  real.chunks = &fill->n_chunks;
  real.caches = 1U << PS_CACHE_RUN;
  return ps_calibrate (&real, error);
}

gboolean ps_fill_measure (PsFill *fill, const PsCalibration *calibration, GError **error)
{
  PsCalibration real;
  g_autoptr (GBytes) choices = NULL;
  double shift = 0;

  if (!choose_calibration (fill, calibration, error) || !resume (fill, calibration, &real, &choices, error))
    return FALSE;
  real.wanted = is_wanted;
  real.sink = store;
  /* A second pass in any case: for links of a class that has split. */
  for (guint pass = 0; pass <= MAX (fill->n_again, 1); pass++) {
    if (!plan_pass (fill, calibration, pass, &shift, error))
      return FALSE;
    if (fill->n_wanted == 0)
      break;
    tell_disturbed (shift, fill->n_repeated, "; they are taken again");
    real.known = fill->known;
    if (!ps_calibrate (&real, error))
      return FALSE;
  }
  if (!find_disturbed (fill, &shift, error))
    return FALSE;
  if (fill->n_unmeasured > 0)
    g_printerr (
        "warning: %u quantities have no accepted samples: the hardware slowed itself down all the time, for heat "
        "or power supply; another calib run measures them\n",
        fill->n_unmeasured);
  tell_disturbed (shift, g_hash_table_size (fill->disturbed), ": do not trust them; another calib run measures anew");
  return TRUE;
}

/* How far errors of measured times move predictions */

#define UNKNOWN 0.1 /* relative error of a median of too few samples to say how far they spread */

/* The relative error of the median that a cost comes from. samples NULL: it was not measured. */
static double median_error (const PsCostSpread *spread, guint cost, const GArray *samples)
{
  double deviation = spread->deviation[spread->row[cost]];

  return samples != NULL && samples->len >= PS_MEDIAN_MIN_SAMPLES ? deviation : MAX (deviation, UNKNOWN);
}

gboolean ps_sampling_error_find (PsSamplingError *sampling, PsCostDb *db, const char *profile, const PsModel *model,
                                 const PsCut *cut, GError **error)
{
  static const double weights[PS_N_OP_KINDS]
      = { [PS_OP_F] = 1, [PS_OP_B] = 0.5, [PS_OP_W] = 0.5, [PS_OP_BW] = 0.5, [PS_OP_O] = 1 };
  guint p = cut->n_devices, v = cut->n_chunks, n = PS_N_OP_KINDS * cut->n_stages;
  g_autoptr (PsCosts) costs = ps_costdb_stage_costs (db, profile, model, cut->shapes, p, v, FALSE, 1, error);
  g_autoptr (PsCostSpread) spread
      = costs != NULL ? ps_costdb_spread (db, profile, model, cut->shapes, p, v, error) : NULL;

  if (spread == NULL)
    return FALSE;
  /* 1F1B of 2 p microbatches: 3 p - 1 times all ops of one device, one O and the way there and back. */
  g_autofree double *errors_ns = g_new0 (double, spread->n_rows);
  double transfers_ns = 2.0 * (p - 1) * (double)costs->transfer_ns[1], all_ns = transfers_ns, ops = 0;
  for (guint cost = 0; cost < n; cost++) {
    PsOpKind kind = (PsOpKind)(cost / cut->n_stages);
    double ns = weights[kind] * (kind == PS_OP_O ? 1 : 3 * p - 1) * (double)costs->op[cost].duration_ns / p;

    all_ns += ns;
    errors_ns[spread->row[cost]] += ns * median_error (spread, cost, spread->op[cost]);
  }
  for (guint row = 0; row < spread->n_rows; row++)
    ops += errors_ns[row] * errors_ns[row];
  *sampling
      = (PsSamplingError){ sqrt (ops) / all_ns, transfers_ns * median_error (spread, n, spread->transfer) / all_ns };
  return TRUE;
}

/* A budget */

#define SMALL_ERROR 0.0005 /* of an iteration time; nothing else is known as well */
#define TRANSFER_PARTS 10  /* a size of transfers has a tenth of a rule's time */

gint64 ps_fill_first_limit (const PsCalibration *calibration, gint64 budget_ns)
{
  g_autoptr (GArray) sizes = ps_transfer_sizes (ps_model_boundary_bytes (calibration->model));
  guint n_alone = calibration->n_local > 1 ? calibration->n_devices : 0;
  guint n_runs
      = calibration->n_slices + calibration->n_chunks * (calibration->n_devices / calibration->n_local + n_alone);
  guint n_parts = n_runs * (TRANSFER_PARTS + 1) + (calibration->n_devices > 1 ? 2 * sizes->len : 0);

  return MAX (budget_ns / 2 * TRANSFER_PARTS / n_parts, 1);
}

/* One part of what predictions take: the ops of a number of chunks, or (0) the transfer. */
typedef struct {
  guint n_chunks;
  double error;    /* of predictions, from it */
  gint64 limit_ns; /* time for its ops until now */
} Part;

/* Finds the errors from all parts; the last one is the transfer. */
static gboolean find_errors (const PsFill *fill, const PsCalibration *calibration, Part *parts, GError **error)
{
  Part *transfer = &parts[calibration->n_chunks];

  transfer->error = 0;
  for (guint i = 0; i < calibration->n_chunks; i++) {
    g_autoptr (PsCut) cut = ps_cut_new (calibration, calibration->chunks[i], error);
    PsSamplingError sampling;

    if (cut == NULL
        || !ps_sampling_error_find (&sampling, fill->db, fill->profile_name, calibration->model, cut, error))
      return FALSE;
    parts[i].error = sampling.ops;
    transfer->error = MAX (transfer->error, sampling.transfers);
  }
  return TRUE;
}

static Part *largest (Part *parts, guint n)
{
  Part *most = parts;

  for (guint i = 1; i < n; i++)
    if (parts[i].error > most->error)
      most = &parts[i];
  return most;
}

static void tell_part (const PsFill *fill, const Part *part, gint64 limit_ns)
{
  g_autofree char *time = ps_format_time (part->n_chunks > 0 ? limit_ns : limit_ns / TRANSFER_PARTS);
  g_autofree char *what
      = part->n_chunks > 0 ? g_strdup_printf ("ops of v = %u", part->n_chunks) : g_strdup ("transfers");

  if (!fill->terminal)
    g_printerr ("error of iteration times by samples: %.2f %% from %s, the most; %s more for them\n", 100 * part->error,
                what, time);
}

gboolean ps_fill_spend (PsFill *fill, const PsCalibration *calibration, gint64 end_ns, GError **error)
{
  guint n = calibration->n_chunks + 1;
  g_autofree Part *parts = g_new0 (Part, n);

  for (guint i = 0; i < n; i++)
    parts[i] = (Part){ .n_chunks = i < calibration->n_chunks ? calibration->chunks[i] : 0,
                       .limit_ns = calibration->rule.time_limit_ns };
  for (;;) {
    PsCalibration more = *calibration;

    if (!find_errors (fill, calibration, parts, error))
      return FALSE;
    Part *part = largest (parts, n);
    more.rule.within = 0;
    more.rule.time_limit_ns = MIN (2 * part->limit_ns, end_ns - ps_clock_now ());
    if (part->error < SMALL_ERROR || more.rule.time_limit_ns < calibration->rule.time_limit_ns)
      return TRUE;
    tell_part (fill, part, more.rule.time_limit_ns);
    if (!ps_fill_add (fill, &more, part->n_chunks, error))
      return FALSE;
    part->limit_ns = more.rule.time_limit_ns;
  }
}
