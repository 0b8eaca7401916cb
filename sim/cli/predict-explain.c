/* predict-explain.c - an explanation as tables. */
#include "predict-explain.h"

#define N_BEST 20      /* parts listed of those that would pay off */
#define N_PATH_ROWS 40 /* of the critical path, as printed; --json has all */

struct _PsExplainReport
{
  const PsPrediction *prediction;
  const PsSimulation *simulation; /* explained, as are the figures: the prediction's, or measured */
  const PsMetrics *metrics;
  gboolean measured;
  gboolean steady; /* devices never meet */
  PsExplanation *explanation;
  GArray *what_ifs; /* PsWhatIf */
  double saving;
};

static gboolean
explain_steady (PsExplainReport *report, const PsSetting *setting, const PsRecurrence *plan, GError **error)
{
  const PsPrediction *prediction = report->prediction;
  const PsEventsSetting *events = ps_prediction_events (prediction);

  report->explanation = ps_explain_steady (prediction->program, prediction->costs, prediction->simulation, events,
                                           setting->reduce, error);
  if (report->explanation == NULL)
    return FALSE;
  report->what_ifs
      = ps_what_if_steady (plan, prediction->costs, events, setting->reduce, report->saving, N_BEST, error);
  return report->what_ifs != NULL;
}

static gboolean
explain_meeting (PsExplainReport *report, const PsRecurrence *plan, GError **error)
{
  const PsPrediction *prediction = report->prediction;
  const PsEventsSetting *events = ps_prediction_events (prediction);
  gint64 iteration_ns = prediction->metrics.iteration_ns, rest_ns = iteration_ns - prediction->metrics.makespan_ns;

  if (!report->measured)
    report->explanation = ps_explain (prediction->program, prediction->costs, prediction->simulation, iteration_ns);
  report->what_ifs = events != NULL
                         ? ps_what_if_events (plan, prediction->costs, events, rest_ns, report->saving, N_BEST, error)
                         : ps_what_if (plan, prediction->costs, rest_ns, report->saving, N_BEST);
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
  g_autoptr (PsRecurrence) plan = ps_recurrence_new (ps_prediction_hint (prediction));
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
  g_autoptr (PsRecurrence) plan = ps_recurrence_new (ps_prediction_hint (prediction));
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

/* Critical path */

static PsOp
op_of (const PsExplainReport *report, guint step)
{
  const PsProgram *program = report->prediction->program;

  return program->schedule->ops[program->op_of[step]];
}

static gboolean
is_pair (const PsExplainReport *report, guint step)
{
  const PsProgram *program = report->prediction->program;

  return program->pair != NULL && program->pair[step] == PS_PAIR_SECOND;
}

/* "F0.1", "F4.0+BW1.3", of a transfer what travels, of an all-reduce "stage 3". Free with g_free. */
static char *
part_name (const PsExplainReport *report, const PsPathPart *part)
{
  char name[48], other[48];

  if (part->kind == PS_PATH_TRANSFER)
    return g_strdup (ps_op_format (ps_program_producer (report->prediction->program, part->step), name));
  if (part->kind == PS_PATH_REDUCE)
    return g_strdup_printf ("stage %u", op_of (report, part->step).stage);
  ps_op_format (op_of (report, part->step), name);
  if (!is_pair (report, part->step))
    return g_strdup (name);
  return g_strconcat (ps_op_format (op_of (report, part->step - 1), other), "+", name, NULL);
}

static guint
sender_of (const PsExplainReport *report, guint step)
{
  const PsProgram *program = report->prediction->program;

  return program->steps[program->steps[step].input - 1].device;
}

static const PsColumn path_columns[] = {
  { "kind", NULL, PS_COLUMN_TEXT }, { "device", NULL, PS_COLUMN_INTEGER }, { "peer", NULL, PS_COLUMN_INTEGER },
  { "op", NULL, PS_COLUMN_TEXT },   { "start_ns", NULL, PS_COLUMN_TIME },  { "end_ns", NULL, PS_COLUMN_TIME },
};

PsTable *
ps_explain_report_path (const PsExplainReport *report)
{
  static const char *const kinds[] = { "op", "transfer", "wait", "all_reduce", "optimizer" };
  PsTable *table = ps_table_new (path_columns, G_N_ELEMENTS (path_columns));

  for (guint i = 0; i < report->explanation->path->len; i++)
    {
      const PsPathPart *part = &g_array_index (report->explanation->path, PsPathPart, i);
      gboolean transfer = part->kind == PS_PATH_TRANSFER;
      guint device = report->prediction->program->steps[part->step].device;
      g_autofree char *name = part_name (report, part);

      ps_table_add_row (table);
      ps_table_set_text (table, "kind", kinds[part->kind]);
      ps_table_set_integer (table, "device", transfer ? sender_of (report, part->step) : device);
      if (transfer)
        ps_table_set_integer (table, "peer", device);
      if (part->kind != PS_PATH_WAIT && part->kind != PS_PATH_OPTIMIZER)
        ps_table_set_text (table, "op", name);
      ps_table_set_integer (table, "start_ns", part->start_ns);
      ps_table_set_integer (table, "end_ns", part->end_ns);
    }
  return table;
}

guint
ps_explain_report_iterations (const PsExplainReport *report)
{
  return report->explanation->n_iterations;
}

static const PsColumn run_columns[] = {
  { "start_ns", "start", PS_COLUMN_TIME }, { "end_ns", "end", PS_COLUMN_TIME }, { "time_ns", "time", PS_COLUMN_TIME },
  { "where", "where", PS_COLUMN_TEXT },    { "what", "what", PS_COLUMN_TEXT },
};

static char *
place_of (const PsExplainReport *report, const PsPathPart *part)
{
  guint device = report->prediction->program->steps[part->step].device;

  if (part->kind == PS_PATH_TRANSFER)
    return g_strdup_printf ("%u -> %u", sender_of (report, part->step), device);
  return g_strdup_printf ("device %u", device);
}

static char *
describe_run (const PsExplainReport *report, const PsPathPart *first, guint n)
{
  g_autofree char *begin = part_name (report, first), *end = part_name (report, first + n - 1);

  if (first->kind == PS_PATH_WAIT)
    return g_strdup ("waits");
  if (first->kind == PS_PATH_OPTIMIZER)
    return g_strdup ("optimizer step");
  if (first->kind == PS_PATH_REDUCE)
    return g_strdup_printf ("all-reduce of %s", begin);
  if (first->kind == PS_PATH_TRANSFER)
    return g_strdup_printf ("transfer of %s", begin);
  if (n == 1)
    return g_steal_pointer (&begin);
  return g_strdup_printf ("%s %s %s%s", begin, n == 2 ? "and" : "to", end, n == 2 ? "" : ", without a gap");
}

/* Ops of one device that follow each other on the path. */
static guint
run_length (const PsExplainReport *report, guint i)
{
  const PsStep *steps = report->prediction->program->steps;
  const GArray *path = report->explanation->path;
  const PsPathPart *first = &g_array_index (path, PsPathPart, i);
  guint n = 1;

  while (first->kind == PS_PATH_OP && i + n < path->len && first[n].kind == PS_PATH_OP
         && steps[first[n].step].device == steps[first->step].device)
    n++;
  return n;
}

static PsTable *
run_table (const PsExplainReport *report, guint *n_rows)
{
  const GArray *path = report->explanation->path;
  PsTable *table = ps_table_new (run_columns, G_N_ELEMENTS (run_columns));

  *n_rows = 0;
  for (guint i = 0, n; i < path->len; i += n, ++*n_rows)
    {
      const PsPathPart *first = &g_array_index (path, PsPathPart, i);
      g_autofree char *place = place_of (report, first), *what = NULL;

      n = run_length (report, i);
      if (*n_rows >= N_PATH_ROWS)
        continue;
      what = describe_run (report, first, n);
      ps_table_add_row (table);
      ps_table_set_integer (table, "start_ns", first->start_ns);
      ps_table_set_integer (table, "end_ns", first[n - 1].end_ns);
      ps_table_set_integer (table, "time_ns", first[n - 1].end_ns - first->start_ns);
      ps_table_set_text (table, "where", place);
      ps_table_set_text (table, "what", what);
    }
  return table;
}

/* The part of a step on the path that is its host's; measured ops have none. */
static gint64
host_time (const PsExplainReport *report, const PsPathPart *part)
{
  const PsPrediction *prediction = report->prediction;

  if (part->kind != PS_PATH_OP || report->measured)
    return 0;
  return ps_host_time_sum (ps_step_host_time (prediction->program, prediction->costs, part->step));
}

/* Parts of the path: op kinds, then pairs, the parts that are no ops, and host times of ops. */
#define N_PATH_KINDS (PS_N_OP_KINDS + 6)

static const char *
path_kind_name (guint kind)
{
  static const char *const others[] = { "pairs", "transfers", "waits", "all-reduces", "optimizer", "host" };

  return kind < PS_N_OP_KINDS ? ps_op_kind_name ((PsOpKind)kind) : others[kind - PS_N_OP_KINDS];
}

/* sum has N_PATH_KINDS entries, by_stage (NULL: not wanted) one for each stage; a pair counts for its F's. */
static void
sum_path (const PsExplainReport *report, gint64 *sum, gint64 *by_stage)
{
  for (guint i = 0; i < report->explanation->path->len; i++)
    {
      const PsPathPart *part = &g_array_index (report->explanation->path, PsPathPart, i);
      gboolean pair = part->kind == PS_PATH_OP && is_pair (report, part->step);
      PsOp op = op_of (report, part->step);
      guint kind = part->kind != PS_PATH_OP ? PS_N_OP_KINDS + (guint)part->kind : pair ? PS_N_OP_KINDS : op.kind;
      gint64 host_ns = host_time (report, part);

      if (pair && op.kind != PS_OP_F)
        op = op_of (report, part->step - 1);
      sum[kind] += part->end_ns - part->start_ns - host_ns;
      sum[N_PATH_KINDS - 1] += host_ns;
      if (part->kind == PS_PATH_OP && by_stage != NULL)
        by_stage[op.stage] += part->end_ns - part->start_ns;
    }
}

/* The time of each kind on the path: "F 8 ms, BW 16 ms, transfers 600 us". */
static char *
summarise_path (const PsExplainReport *report)
{
  g_autoptr (GString) text = g_string_new (NULL);
  gint64 sum[N_PATH_KINDS] = { 0 };

  sum_path (report, sum, NULL);
  for (guint kind = 0; kind < N_PATH_KINDS; kind++)
    {
      g_autofree char *time = ps_format_time (sum[kind]);

      if (sum[kind] > 0)
        g_string_append_printf (text, "%s%s %s", text->len ? ", " : "", path_kind_name (kind), time);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static const PsColumn share_columns[] = {
  { "part", "on the path", PS_COLUMN_TEXT },
  { "time_ns", "time", PS_COLUMN_TIME },
  { "share", "share", PS_COLUMN_RATIO },
};

static void
add_share (const PsExplainReport *report, PsTable *table, const char *part, gint64 time_ns)
{
  if (time_ns == 0)
    return;
  ps_table_add_row (table);
  ps_table_set_text (table, "part", part);
  ps_table_set_integer (table, "time_ns", time_ns);
  ps_table_set_ratio (table, "share", (double)time_ns / (double)report->explanation->makespan_ns);
}

PsTable *
ps_explain_report_shares (const PsExplainReport *report, gboolean by_stage)
{
  guint n_stages = report->prediction->program->schedule->placement->n_stages;
  PsTable *table = ps_table_new (share_columns, G_N_ELEMENTS (share_columns));
  g_autofree gint64 *stages = g_new0 (gint64, n_stages);
  gint64 sum[N_PATH_KINDS] = { 0 };

  sum_path (report, sum, stages);
  for (guint kind = 0; kind < N_PATH_KINDS && !by_stage; kind++)
    add_share (report, table, path_kind_name (kind), sum[kind]);
  for (guint stage = 0; stage < n_stages && by_stage; stage++)
    {
      g_autofree char *name = g_strdup_printf ("stage %u", stage);

      add_share (report, table, name, stages[stage]);
    }
  if (by_stage)
    ps_table_sort (table, "time_ns", TRUE);
  return table;
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
  PsTable *table;

  if (report->explanation->slack_ns == NULL)
    return NULL;
  table = ps_table_new (slack_columns, G_N_ELEMENTS (slack_columns));
  for (guint device = 0; device < report->explanation->n_devices; device++)
    for (guint i = first[device]; i < first[device + 1]; i++)
      {
        guint step = program->step_of[i];
        const PsPathPart part = { .kind = PS_PATH_OP, .step = step };
        g_autofree char *name = part_name (report, &part);

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
  guint n_rows;
  g_autoptr (PsTable) runs = run_table (report, &n_rows), idle = ps_explain_report_idle (report),
                      what_if = ps_explain_report_what_if (report);
  g_autofree char *path = ps_table_to_text (runs), *parts = ps_table_to_text (idle), *best = ps_table_to_text (what_if),
                  *summary = summarise_path (report), *makespan = ps_format_time (report->explanation->makespan_ns);
  g_autoptr (GString) text = g_string_new (NULL);

  if (report->steady)
    g_string_append_printf (text, "\ncritical circle, simulated: %u iteration%s in %s = %s\n%s",
                            report->explanation->n_iterations, report->explanation->n_iterations == 1 ? "" : "s",
                            makespan, summary, path);
  else
    g_string_append_printf (text, "\ncritical path, simulated: %s = %s\n%s", makespan, summary, path);
  if (n_rows > N_PATH_ROWS)
    g_string_append_printf (text, "and %u rows more; --json has them all\n", n_rows - N_PATH_ROWS);
  g_string_append_printf (text, "\nidle time of each device%s\n%s",
                          report->steady ? " in an iteration" : ", by what it waits for", parts);
  g_string_append_printf (text, "\nwhat pays off: the iteration if one part takes %g %% less time\n%s",
                          report->saving * 100, best);
  return g_string_free (g_steal_pointer (&text), FALSE);
}
