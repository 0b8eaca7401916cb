/* predict-explain.c - an explanation as tables. */
#include "predict-path.h"

#define N_BEST 20 /* parts listed of those that would pay off */

static gboolean
explain_steady (PsExplainReport *report, const PsSetting *setting, const PsProgram *plan, GError **error)
{
  const PsPrediction *prediction = report->prediction;
  const PsEventsSetting *events = ps_prediction_events (prediction);

  report->explanation = ps_explain_steady (prediction->program, prediction->costs, events, setting->reduce, error);
  if (report->explanation == NULL)
    return FALSE;
  report->what_ifs
      = ps_what_if_steady (plan, prediction->costs, events, setting->reduce, report->saving, N_BEST, error);
  return report->what_ifs != NULL;
}

static gboolean
explain_meeting (PsExplainReport *report, const PsProgram *plan, GError **error)
{
  const PsPrediction *prediction = report->prediction;
  const PsEventsSetting *events = ps_prediction_events (prediction);
  gint64 iteration_ns = prediction->metrics.iteration_ns, rest_ns = iteration_ns - prediction->metrics.makespan_ns;

  if (!report->measured)
    report->explanation = ps_explain (prediction->program, prediction->costs, prediction->simulation, iteration_ns);
  report->what_ifs = ps_what_if (plan, prediction->costs, events, rest_ns, report->saving, N_BEST, error);
  return report->what_ifs != NULL;
}

static PsExplainReport *
report_new (const PsPrediction *prediction, double saving)
{
  PsExplainReport *report = g_new0 (PsExplainReport, 1);

  report->prediction = prediction;
  report->simulation = prediction->simulation;
  report->metrics = &prediction->metrics;
  report->saving = saving;
  return report;
}

PsExplainReport *
ps_explain_report_new (const PsSetting *setting, const PsPrediction *prediction, double saving, GError **error)
{
  const PsProgram *plan = ps_prediction_hint (prediction);
  g_autoptr (PsExplainReport) report = report_new (prediction, saving);

  report->steady = setting->sync == PS_SYNC_BYPASS || prediction->program->schedule->asynchronous;
  if (!(report->steady ? explain_steady (report, setting, plan, error) : explain_meeting (report, plan, error)))
    return NULL;
  return g_steal_pointer (&report);
}

PsExplainReport *
ps_explain_report_measured (const PsPrediction *prediction, const PsSimulation *measured, const PsMetrics *metrics,
                            const gint64 *host_ns, double saving, GError **error)
{
  const PsProgram *plan = ps_prediction_hint (prediction);
  g_autoptr (PsExplainReport) report = report_new (prediction, saving);

  report->measured = TRUE;
  report->simulation = measured;
  report->metrics = metrics;
  report->explanation = ps_explain_measured (prediction->program, measured, host_ns, metrics->iteration_ns);
  return explain_meeting (report, plan, error) ? g_steal_pointer (&report) : NULL;
}

void
ps_explain_report_free (PsExplainReport *report)
{
  if (report == NULL)
    return;
  ps_explanation_free (report->explanation);
  g_clear_pointer (&report->what_ifs, g_array_unref);
  g_free (report);
}

/* Idle time and slack */

static const PsColumn idle_columns[] = {
  { "device", "device", PS_COLUMN_INTEGER },     { "critical_ns", "on the path", PS_COLUMN_TIME },
  { "idle_ns", "idle", PS_COLUMN_TIME },         { "warm_up_ns", "warm-up", PS_COLUMN_TIME },
  { "forward_ns", "forward", PS_COLUMN_TIME },   { "backward_ns", "backward", PS_COLUMN_TIME },
  { "transfer_ns", "transfer", PS_COLUMN_TIME }, { "channel_ns", "channel", PS_COLUMN_TIME },
  { "drain_ns", "drain", PS_COLUMN_TIME },       { "sync_ns", "synchronisation", PS_COLUMN_TIME },
  { "host_ns", "host", PS_COLUMN_TIME },         { "unexplained_ns", "unexplained", PS_COLUMN_TIME },
};

#define N_STEADY_COLUMNS 3 /* of those: warm-up and drain are no more */

/* The last columns are there if hosts take time, and if times were measured. */
static guint
n_idle_columns (const PsExplainReport *report)
{
  if (report->steady)
    return N_STEADY_COLUMNS;
  return G_N_ELEMENTS (idle_columns) - !report->measured
         - (!report->measured && report->prediction->costs->host_time == NULL);
}

/* On the path, of one iteration's worth of it. */
static gint64
critical_time (const PsExplainReport *report, guint device)
{
  gint64 sum = 0;

  for (guint i = 0; i < report->explanation->path->len; i++)
    {
      const PsPathPart *part = &g_array_index (report->explanation->path, PsPathPart, i);

      if (part->kind == PS_PATH_OP && report->prediction->program->steps[part->step].device == device)
        sum += part->end_ns - part->start_ns;
    }
  return sum / MAX (report->explanation->n_iterations, 1);
}

/* Iteration time less ops and O. */
static gint64
idle_time (const PsExplainReport *report, guint device)
{
  return report->metrics->iteration_ns - report->metrics->device[device].busy_ns
         - report->simulation->device[device].optimizer_ns;
}

PsTable *
ps_explain_report_idle (const PsExplainReport *report)
{
  guint n_columns = n_idle_columns (report), n_causes = n_columns - N_STEADY_COLUMNS;
  PsTable *table = ps_table_new (idle_columns, n_columns);

  for (guint device = 0; device < report->explanation->n_devices; device++)
    {
      ps_table_add_row (table);
      ps_table_set_integer (table, "device", device);
      ps_table_set_integer (table, "critical_ns", critical_time (report, device));
      ps_table_set_integer (table, "idle_ns", idle_time (report, device));
      for (guint i = 0; i < n_causes; i++)
        {
          g_autofree char *key = g_strconcat (ps_idle_name ((PsIdle)i), "_ns", NULL);

          ps_table_set_integer (table, key, report->explanation->idle_ns[(gsize)device * PS_N_IDLE + i]);
        }
    }
  return table;
}

const gint64 *
ps_explain_report_idle_times (const PsExplainReport *report)
{
  return report->explanation->idle_ns;
}

static const PsColumn slack_columns[] = {
  { "device", NULL, PS_COLUMN_INTEGER },
  { "op", NULL, PS_COLUMN_TEXT },
  { "slack_ns", NULL, PS_COLUMN_TIME },
};

PsTable *
ps_explain_report_slack (const PsExplainReport *report)
{
  const PsProgram *program = report->prediction->program;
  const guint *first = program->schedule->first;

  if (report->explanation->slack_ns == NULL)
    return NULL;
  PsTable *table = ps_table_new (slack_columns, G_N_ELEMENTS (slack_columns));
  for (guint device = 0; device < report->explanation->n_devices; device++)
    for (guint i = first[device]; i < first[device + 1]; i++)
      {
        guint step = program->step_of[i];
        const PsPathPart part = { .kind = PS_PATH_OP, .step = step };
        g_autofree char *name = ps_explain_part_name (report, &part);

        if (program->pair != NULL && program->pair[step] == PS_PAIR_FIRST)
          continue;
        ps_table_add_row (table);
        ps_table_set_integer (table, "device", device);
        ps_table_set_text (table, "op", name);
        ps_table_set_integer (table, "slack_ns", report->explanation->slack_ns[step]);
      }
  return table;
}

/* Gains of faster parts */

static const PsColumn what_if_columns[] = {
  { "part", "faster", PS_COLUMN_TEXT },
  { "iteration_ns", "iteration", PS_COLUMN_TIME },
  { "gain", "gain", PS_COLUMN_RATIO },
  { "change_point", "path changes at", PS_COLUMN_RATIO },
  { "least_ns", "iteration without it", PS_COLUMN_TIME },
};

PsTable *
ps_explain_report_what_if (const PsExplainReport *report)
{
  PsTable *table = ps_table_new (what_if_columns, G_N_ELEMENTS (what_if_columns));

  for (guint i = 0; i < report->what_ifs->len; i++)
    {
      const PsWhatIf *what_if = &g_array_index (report->what_ifs, PsWhatIf, i);
      g_autofree char *part = ps_part_format (&what_if->part);

      ps_table_add_row (table);
      ps_table_set_text (table, "part", part);
      ps_table_set_integer (table, "iteration_ns", what_if->iteration_ns);
      ps_table_set_ratio (table, "gain", what_if->gain);
      if (what_if->change_point < 1) /* false for NAN */
        ps_table_set_ratio (table, "change_point", what_if->change_point);
      ps_table_set_integer (table, "least_ns", what_if->least_ns);
    }
  return table;
}

char *
ps_explain_report_to_text (const PsExplainReport *report)
{
  g_autoptr (PsTable) idle = ps_explain_report_idle (report), what_if = ps_explain_report_what_if (report);
  g_autofree char *path = ps_explain_path_to_text (report), *parts = ps_table_to_text (idle),
                  *best = ps_table_to_text (what_if), *summary = ps_explain_path_summary (report),
                  *makespan = ps_format_time (report->explanation->makespan_ns);
  guint n = report->explanation->n_iterations;
  g_autofree char *sentence = report->steady ? g_strdup_printf ("critical circle, simulated: %u iteration%s in %s = %s",
                                                                n, n == 1 ? "" : "s", makespan, summary)
                                             : g_strdup_printf ("critical path, simulated: %s = %s", makespan, summary);
  g_autofree char *head = ps_fit_sentence (sentence, 0);
  GString *text = g_string_new ("\n");

  g_string_append_printf (text, "%s%s", head, path);
  g_string_append_printf (text, "\nidle time of each device%s\n%s",
                          report->steady ? " in an iteration" : ", by what it waits for", parts);
  g_string_append_printf (text, "\nwhat pays off: the iteration if one part takes %g %% less time\n%s",
                          report->saving * 100, best);
  return g_string_free (text, FALSE);
}
