/* predict-spread.h - pipesim predict --samples, --jitter, --straggler, --slow-link: how far the iteration time spreads.
 */
#pragma once

#include <pipesim/option.h>
#include <pipesim/setting.h>
#include <pipesim/answer.h>

/* The options that say which costs vary. Clear with ps_variation_clear. */
typedef struct
{
  PsUncertainty uncertainty; /* without what was measured */
  gboolean has_jitter;
  char **stragglers, **slow_links;
  gboolean is_measured; /* --jitter measured */
  PsSlowness *slowness;
} PsVariation;

/* Their base is a PsVariation. */
extern const PsOption ps_variation_rows[];

/* Checks the options together and reads slowness. *varies: any was given. Errors: PS_ERROR_USAGE. */
gboolean ps_variation_finish (PsVariation *variation, const PsSetting *setting, gboolean *varies, GError **error);
void ps_variation_clear (PsVariation *variation);

/* ", jitter 0.05, straggler 1:1.5:0.1". Free with g_free. */
char *ps_variation_describe (const PsVariation *variation);

/* The options and what they mean. Clear with ps_spread_options_clear. */
typedef struct
{
  gint64 seed;
  gboolean has_seed;
  gboolean tornado;
  PsVariation variation;
  PsSampling sampling; /* n_samples 0: not asked for */
} PsSpreadOptions;

/* Their base is a PsSpreadOptions. */
extern const PsOption ps_spread_rows[];

/* Checks the options together and fills what follows from them. Errors: PS_ERROR_USAGE. */
gboolean ps_spread_options_finish (PsSpreadOptions *options, const PsSetting *setting, gboolean all, GError **error);
/* Frees what ps_spread_options_finish made. */
void ps_spread_options_clear (PsSpreadOptions *options);

/* The samples of all schedules. */
typedef struct _PsSpreadReport PsSpreadReport;

/* options and setting must outlive it. */
PsSpreadReport *ps_spread_report_new (const PsSpreadOptions *options, const PsSetting *setting);
void ps_spread_report_free (PsSpreadReport *report);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsSpreadReport, ps_spread_report_free)

/* Samples one prediction: iteration times of the steady state where devices never meet. */
gboolean ps_spread_report_add (PsSpreadReport *report, const PsPrediction *prediction, GError **error);

/* The nested tables of --json for a schedule that was added. wins is NULL for a single schedule, tornado unless asked
 * for. */
PsTable *ps_spread_report_samples (const PsSpreadReport *report, const char *schedule);
PsTable *ps_spread_report_wins (const PsSpreadReport *report, const char *schedule);
PsTable *ps_spread_report_tornado (const PsSpreadReport *report, const char *schedule);

/* For people. Free with g_free. */
char *ps_spread_report_to_text (PsSpreadReport *report);
