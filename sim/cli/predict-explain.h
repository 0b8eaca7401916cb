/* predict-explain.h - pipesim predict --explain: critical path, idle time by cause, slack, and what would pay off. */
#pragma once

#include <pipesim/answer.h>
#include <pipesim/option.h>
#include <pipesim/setting.h>

/* One prediction explained; the prediction must outlive it. Free with ps_explain_report_free. */
typedef struct _PsExplainReport PsExplainReport;

/* saving: how much less time each part takes in the list of what would pay off. Errors: PS_ERROR_SCHEDULE where devices
 * never meet and durations are not known beforehand. */
PsExplainReport *ps_explain_report_new (const PsSetting *setting, const PsPrediction *prediction, double saving,
                                        GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same of a run: path and idle time are those of its measured times (ps_timeline_simulation), figures and host
 * times. Parts that would pay off are those of the prediction of its schedule. All must outlive it. */
PsExplainReport *ps_explain_report_measured (const PsPrediction *prediction, const PsSimulation *measured,
                                             const PsMetrics *metrics, const gint64 *host_ns, double saving,
                                             GError **error) G_GNUC_WARN_UNUSED_RESULT;
void ps_explain_report_free (PsExplainReport *report);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsExplainReport, ps_explain_report_free)

/* The nested tables of --json: critical_path, idle, slack (NULL where it is not known), what_if. */
PsTable *ps_explain_report_path (const PsExplainReport *report);
guint ps_explain_report_iterations (const PsExplainReport *report); /* iterations that the path spans */
PsTable *ps_explain_report_idle (const PsExplainReport *report);
PsTable *ps_explain_report_slack (const PsExplainReport *report);
PsTable *ps_explain_report_what_if (const PsExplainReport *report);

/* PsExplanation.idle_ns. */
const gint64 *ps_explain_report_idle_times (const PsExplainReport *report);

/* Time on the path by op kind, with transfers and waits; or that of the ops of each stage, the longest first. */
PsTable *ps_explain_report_shares (const PsExplainReport *report, gboolean by_stage);

/* For people. Free with g_free. */
char *ps_explain_report_to_text (const PsExplainReport *report);
