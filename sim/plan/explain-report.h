/* explain-report.h - an explanation of a prediction or of a run as tables and text: critical path, idle time by cause,
 * slack, and what would pay off. */
#pragma once

#include <pipesim/answer.h>
#include <pipesim/setting.h>

typedef struct {
  const PsPrediction *prediction;
  const PsSimulation *simulation; /* explained, as are the figures: the prediction's, or measured */
  const PsMetrics *metrics;
  gboolean measured;
  gboolean steady; /* devices never meet */
  PsExplanation *explanation;
  GArray *what_ifs; /* PsWhatIf */
  double saving;
} PsExplainReport;

/* saving: how much less time each part takes in the list of what would pay off. The prediction must outlive the report.
 * Errors: PS_ERROR_SCHEDULE where devices never meet and durations are not known beforehand. Free with
 * ps_explain_report_free. */
PsExplainReport *ps_explain_report_new (const PsSetting *setting, const PsPrediction *prediction, double saving,
                                        GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same of a run: path and idle time are those of its measured times (ps_timeline_simulation), figures and host
 * times. Parts that would pay off are those of the prediction of its schedule. All must outlive the report. */
PsExplainReport *ps_explain_report_measured (const PsPrediction *prediction, const PsSimulation *measured,
                                             const PsMetrics *metrics, const gint64 *host_ns, double saving,
                                             GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_explain_report_free (PsExplainReport *report);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsExplainReport, ps_explain_report_free)

/* The nested tables of --json: critical_path, idle, slack (NULL where it is not known), what_if. */
PsTable *ps_explain_report_path (const PsExplainReport *report);
PsTable *ps_explain_report_idle (const PsExplainReport *report);
PsTable *ps_explain_report_slack (const PsExplainReport *report);
PsTable *ps_explain_report_what_if (const PsExplainReport *report);

/* Time on the path by op kind, with transfers and waits; or that of the ops of each stage, the longest first. */
PsTable *ps_explain_report_shares (const PsExplainReport *report, gboolean by_stage);

/* For people. Free with g_free. */
char *ps_explain_report_to_text (const PsExplainReport *report);
