/* doubt.c - derivatives of predicted iteration times by the measured rows that they come from. */
#include "doubt.h"

#include <pipesim/setting.h>

#include <math.h>

#define LONGER 1.02 /* more than rounding to ns can hide */

typedef struct {
  PsSetting *setting;
  const PsCosts *costs;
  const PsCostSpread *spread;
  GPtrArray *schedules;
} Probe;

static double iteration_ns (const Probe *probe, const PsCosts *costs, const PsSchedule *schedule)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (probe->setting, costs);
  g_autoptr (PsPrediction) prediction = ps_predictor_predict_schedule (predictor, ps_schedule_copy (schedule), NULL);

  return prediction != NULL ? (double)prediction->metrics.iteration_ns : NAN;
}

/* Keeps the schedules of all families that run on the costs. */
static void collect_schedules (Probe *probe)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (probe->setting, probe->costs);
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++) {
    g_autoptr (PsSchedule) schedule = ps_predictor_schedule (predictor, families[i]->name, NULL);

    if (schedule != NULL && !isnan (iteration_ns (probe, probe->costs, schedule)))
      g_ptr_array_add (probe->schedules, g_steal_pointer (&schedule));
  }
}

/* The costs with one row longer. The transfers' row is the last cost. */
static PsCosts *lengthen (const Probe *probe, guint row)
{
  PsCosts *costs = ps_costs_copy (probe->costs);
  guint n = PS_N_OP_KINDS * costs->n_stages;

  for (guint i = 0; i < n; i++)
    if (probe->spread->row[i] == row)
      costs->op[i].duration_ns = llround (LONGER * (double)costs->op[i].duration_ns);
  for (guint i = 1; probe->spread->row[n] == row && i <= 2 * costs->n_stages; i++)
    costs->transfer_ns[i] = llround (LONGER * (double)costs->transfer_ns[i]);
  return costs;
}

#define UNKNOWN 0.1 /* relative error of a median of too few samples to say how far they spread */

/* The samples of all costs that come from the row are the same. */
static double row_error (const PsCostSpread *spread, guint row)
{
  guint n = PS_N_OP_KINDS * spread->n_stages, cost = 0;

  while (spread->row[cost] != row)
    cost++;
  const GArray *samples = cost < n ? spread->op[cost] : spread->transfer;
  gboolean known = samples != NULL && samples->len >= PS_MEDIAN_MIN_SAMPLES;
  return known ? spread->deviation[row] : MAX (spread->deviation[row], UNKNOWN);
}

/* The mean square over all schedules of the row's part. */
static double row_variance (const Probe *probe, guint row)
{
  g_autoptr (PsCosts) longer = lengthen (probe, row);
  double sum = 0, error = row_error (probe->spread, row);

  for (guint i = 0; i < probe->schedules->len; i++) {
    const PsSchedule *schedule = probe->schedules->pdata[i];
    double slope
        = log (iteration_ns (probe, longer, schedule) / iteration_ns (probe, probe->costs, schedule)) / log (LONGER);

    sum += pow (slope * error, 2);
  }
  return sum / probe->schedules->len;
}

gboolean ps_doubt_find (PsDoubt *doubt, PsCostDb *db, const char *profile, const PsModel *model, const PsCut *cut,
                        GError **error)
{
  guint p = cut->n_devices, v = cut->n_chunks;
  g_autoptr (PsCosts) costs = ps_costdb_stage_costs (db, profile, model, cut->shapes, p, v, FALSE, 1, error);
  g_autoptr (PsCostSpread) spread
      = costs != NULL ? ps_costdb_spread (db, profile, model, cut->shapes, p, v, error) : NULL;
  g_autoptr (PsSetting) setting = ps_setting_new ();
  g_autoptr (GPtrArray) schedules = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_schedule_free);
  Probe probe = { setting, costs, spread, schedules };
  double ops = 0, transfers = 0;

  if (spread == NULL)
    return FALSE;
  setting->n_devices = p;
  setting->n_chunks = v;
  setting->n_microbatches = 2 * p;
  collect_schedules (&probe);
  for (guint row = 0; row < spread->n_rows && schedules->len > 0; row++) {
    double variance = row_variance (&probe, row);

    if (row == spread->row[PS_N_OP_KINDS * costs->n_stages])
      transfers = variance;
    else
      ops += variance;
  }
  *doubt = (PsDoubt){ sqrt (ops), sqrt (transfers) };
  return TRUE;
}
