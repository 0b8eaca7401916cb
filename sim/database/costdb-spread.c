/* costdb-spread.c - the samples of the rows that costs come from, and the same rows in all calibrations of a profile.
 */
#include "costdb-private.h"

#include <pipesim/fit.h>

#include <math.h>

/* The samples over their median; NULL where there are none or the median is no time. */
static GArray *
relative_samples (const PsMeasurement *m, double *largest)
{
  if (m->n_samples == 0 || m->time.median_ns <= 0)
    return NULL;
  GArray *samples = g_array_sized_new (FALSE, FALSE, sizeof (double), m->n_samples);
  for (guint i = 0; i < m->n_samples; i++)
    {
      double sample = (double)m->samples_ns[i] / (double)m->time.median_ns;

      g_array_append_val (samples, sample);
      *largest = MAX (*largest, sample);
    }
  return samples;
}

/* Notes the row of a cost, with its samples; rows holds all rows. m NULL: the cost has none. */
static gboolean
take_row (const PsCostRequest *request, PsCostSpread *spread, GPtrArray *rows, PsMeasurement *m, guint cost,
          GArray **samples, GError **error)
{
  spread->row[cost] = PS_NO_ROW;
  if (m == NULL)
    return TRUE;
  if (!g_ptr_array_find (rows, m, &spread->row[cost]))
    {
      spread->row[cost] = rows->len;
      g_ptr_array_add (rows, m);
      if (!ps_costdb_read_samples (request->db, m, error))
        return FALSE;
    }
  *samples = relative_samples (m, &spread->largest);
  return TRUE;
}

/* Adds one calibration's measurements of the rows, and its readings of the sentinel. kept owns the measurements. */
static gboolean
add_calibration (const PsCostRequest *request, const PsProfile *profile, GPtrArray *rows, GPtrArray *sentinels,
                 GPtrArray *kept, GError **error)
{
  GPtrArray *all = ps_costdb_measurements (request->db, profile->name, FALSE, error);
  GPtrArray *readings = NULL;

  if (all != NULL)
    {
      g_ptr_array_add (kept, all);
      readings = ps_costdb_sentinels (request->db, profile->name, error);
    }
  if (readings == NULL)
    return FALSE;
  g_ptr_array_add (sentinels, readings);
  for (guint row = 0; row < rows->len; row++)
    {
      GPtrArray *calibrations = rows->pdata[row];

      g_ptr_array_add (calibrations, (gpointer)ps_measurement_find (all, calibrations->pdata[0]));
    }
  return TRUE;
}

/* Lists each row in the calibrations up to the request's. */
static gboolean
add_calibrations (const PsCostRequest *request, GPtrArray *rows, GPtrArray *sentinels, GPtrArray *kept, GError **error)
{
  for (guint i = 0; i < request->profiles->len; i++)
    {
      const PsProfile *profile = request->profiles->pdata[i];

      if (ps_profile_is_same (profile, request->profile) && profile->number <= request->profile->number
          && !add_calibration (request, profile, rows, sentinels, kept, error))
        return FALSE;
    }
  return TRUE;
}

/* Says how runs differ, from the rows in all calibrations. */
static gboolean
add_runs (const PsCostRequest *request, PsCostSpread *spread, GPtrArray *measured, GError **error)
{
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) kept = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);

  for (guint row = 0; row < measured->len; row++)
    {
      g_ptr_array_add (rows, g_ptr_array_new ());
      g_ptr_array_add (rows->pdata[row], measured->pdata[row]);
    }
  if (!add_calibrations (request, rows, sentinels, kept, error))
    return FALSE;
  /* The measurement with its samples stood first, to be looked for. Its place is the last one. */
  for (guint row = 0; row < rows->len; row++)
    {
      GPtrArray *calibrations = rows->pdata[row];

      g_ptr_array_remove_index (calibrations, 0);
      calibrations->pdata[calibrations->len - 1] = measured->pdata[row];
    }
  spread->n_rows = rows->len;
  spread->deviation = g_new0 (double, rows->len);
  ps_cost_spread_set_runs (spread, rows, sentinels);
  return TRUE;
}

/* The error of interpolation belongs to each transfer of a size that was not measured. */
static void
add_interpolation (GPtrArray *transfers, PsCostSpread *spread)
{
  g_autofree gint64 *bytes = g_new (gint64, transfers->len), *ns = g_new (gint64, transfers->len);
  guint row = spread->row[PS_N_OP_KINDS * spread->n_stages];
  double error;

  for (guint i = 0; i < transfers->len; i++)
    {
      bytes[i] = ((const PsMeasurement *)transfers->pdata[i])->bytes;
      ns[i] = MAX (((const PsMeasurement *)transfers->pdata[i])->time.median_ns, 1);
    }
  error = ps_interpolation_error (bytes, ns, transfers->len);
  if (!isnan (error))
    spread->deviation[row] = hypot (spread->deviation[row], 1.4826 * error);
}

static PsCostSpread *
spread_from_request (const PsCostRequest *request, GError **error)
{
  guint n_stages = request->n_devices * request->n_chunks;
  g_auto (GStrv) keys = ps_cost_request_keys (request, NULL, error);

  if (keys == NULL)
    return NULL;
  g_autoptr (GPtrArray) rows = g_ptr_array_new ();
  g_autoptr (PsCostSpread) spread = g_new0 (PsCostSpread, 1);
  spread->n_stages = n_stages;
  spread->largest = 1;
  spread->op = g_new0 (GArray *, (gsize)PS_N_OP_KINDS * n_stages);
  spread->row = g_new (guint, (gsize)PS_N_OP_KINDS * n_stages + 1);
  for (guint i = 0; i < PS_N_OP_KINDS * n_stages; i++)
    {
      PsOpKind kind = (PsOpKind)(i / n_stages);
      guint stage = i % n_stages;
      guint share = ps_cost_request_share (request, stage);
      const PsMeasurement *m = kind == PS_OP_R ? ps_cost_request_recompute (request, keys[stage], share)
                                               : ps_cost_request_op (request, keys[stage], share, kind);

      if (!take_row (request, spread, rows, (PsMeasurement *)m, i, &spread->op[i], error))
        return NULL;
    }
  g_autoptr (GPtrArray) transfers = ps_cost_request_messages (request, PS_SUBJECT_TRANSFER);
  const PsMeasurement *below = NULL, *above = NULL;
  if (transfers->len > 0 && request->model != NULL)
    ps_cost_request_neighbours (transfers, ps_model_boundary_bytes (request->model), &below, &above);
  if (!take_row (request, spread, rows, (PsMeasurement *)above, PS_N_OP_KINDS * n_stages, &spread->transfer, error)
      || !add_runs (request, spread, rows, error))
    return NULL;
  if (above != NULL && above->bytes != ps_model_boundary_bytes (request->model))
    add_interpolation (transfers, spread);
  return g_steal_pointer (&spread);
}

PsCostSpread *
ps_costdb_spread (PsCostDb *db, const char *profile_name, const PsModel *model, const PsStageShape *shapes,
                  guint n_devices, guint n_chunks, GError **error)
{
  g_auto (PsCostRequest) request = { .db = db, .model = model, .n_devices = n_devices, .n_chunks = n_chunks };

  return ps_cost_request_open (&request, profile_name, shapes, error) ? spread_from_request (&request, error) : NULL;
}

void
ps_cost_spread_free (PsCostSpread *spread)
{
  if (spread == NULL)
    return;
  for (guint i = 0; i < PS_N_OP_KINDS * spread->n_stages; i++)
    g_clear_pointer (&spread->op[i], g_array_unref);
  g_free (spread->op);
  g_clear_pointer (&spread->transfer, g_array_unref);
  g_free (spread->row);
  g_free (spread->deviation);
  g_free (spread);
}
