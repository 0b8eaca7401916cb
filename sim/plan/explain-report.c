/* explain-report.c - an explanation as tables and text. */
#include "explain-report.h"

#define N_BEST 20      /* parts listed of those that would pay off */
#define N_PATH_ROWS 40 /* as printed; --json has all */

static gboolean find_what_ifs (PsExplainReport *report, const PsSetting *setting, GError **error)
{
  const PsPrediction *prediction = report->prediction;
  const PsEventsSetting *events = prediction->events;
  gint64 rest_ns = prediction->metrics.iteration_ns - prediction->metrics.makespan_ns;
  const PsProgram *program = ps_prediction_hint (prediction);

  report->what_ifs
      = report->steady
            ? ps_what_if_steady (program, prediction->costs, events, setting->reduce, report->saving, N_BEST, error)
            : ps_what_if (program, prediction->costs, events, rest_ns, report->saving, N_BEST, error);
  return report->what_ifs != NULL;
}

PsExplainReport *ps_explain_report_new (const PsSetting *setting, const PsPrediction *prediction, double saving,
                                        GError **error)
{
  g_autoptr (PsExplainReport) report = g_new0 (PsExplainReport, 1);

  *report = (PsExplainReport){ .prediction = prediction,
                               .simulation = prediction->simulation,
                               .metrics = &prediction->metrics,
                               .steady = setting->sync == PS_SYNC_BYPASS || prediction->program->schedule->asynchronous,
                               .saving = saving };
  report->explanation = report->steady ? ps_explain_steady (prediction->program, prediction->costs, prediction->events,
                                                            setting->reduce, error)
                                       : ps_explain (prediction->program, prediction->costs, prediction->simulation,
                                                     prediction->metrics.iteration_ns);
  return report->explanation != NULL && find_what_ifs (report, setting, error) ? g_steal_pointer (&report) : NULL;
}

PsExplainReport *ps_explain_report_measured (const PsPrediction *prediction, const PsSimulation *measured,
                                             const PsMetrics *metrics, const gint64 *host_ns, double saving,
                                             GError **error)
{
  g_autoptr (PsExplainReport) report = g_new0 (PsExplainReport, 1);

  *report = (PsExplainReport){
    .prediction = prediction, .simulation = measured, .metrics = metrics, .measured = TRUE, .saving = saving
  };
  report->explanation = ps_explain_measured (prediction->program, measured, host_ns, metrics->iteration_ns);
  return find_what_ifs (report, NULL, error) ? g_steal_pointer (&report) : NULL;
}

void ps_explain_report_free (PsExplainReport *report)
{
  if (report == NULL)
    return;
  ps_explanation_free (report->explanation);
  g_clear_pointer (&report->what_ifs, g_array_unref);
  g_free (report);
}

/* Critical path */

static PsOp op_of (const PsExplainReport *report, guint step)
{
  const PsProgram *program = report->prediction->program;

  return program->schedule->ops[program->op_of[step]];
}

static gboolean is_pair (const PsExplainReport *report, guint step)
{
  const PsProgram *program = report->prediction->program;

  return program->pair != NULL && program->pair[step] == PS_PAIR_SECOND;
}

/* "F0.1", "F4.0+BW1.3", of a transfer the op whose result travels, of an all-reduce "stage 3". Free with g_free. */
static char *part_name (const PsExplainReport *report, const PsPathPart *part)
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

static guint sender_of (const PsExplainReport *report, guint step)
{
  const PsStep *steps = report->prediction->program->steps;

  return steps[steps[step].input - 1].device;
}

PsTable *ps_explain_report_path (const PsExplainReport *report)
{
  static const PsColumn columns[] = {
    { "kind", NULL, PS_COLUMN_TEXT }, { "device", NULL, PS_COLUMN_INTEGER }, { "peer", NULL, PS_COLUMN_INTEGER },
    { "op", NULL, PS_COLUMN_TEXT },   { "start_ns", NULL, PS_COLUMN_TIME },  { "end_ns", NULL, PS_COLUMN_TIME },
  };
  static const char *const kinds[] = { "op", "transfer", "wait", "all_reduce", "optimizer" };
  PsTable *table = ps_table_new (columns, G_N_ELEMENTS (columns));

  for (guint i = 0; i < report->explanation->path->len; i++) {
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

static char *describe_run (const PsExplainReport *report, const PsPathPart *first, guint n)
{
  g_autofree char *begin = part_name (report, first), *end = part_name (report, first + n - 1);

  switch (first->kind) {
  case PS_PATH_WAIT:
    return g_strdup ("waits");
  case PS_PATH_OPTIMIZER:
    return g_strdup ("optimizer step");
  case PS_PATH_REDUCE:
    return g_strdup_printf ("all-reduce of %s", begin);
  case PS_PATH_TRANSFER:
    return g_strdup_printf ("transfer of %s", begin);
  default:
    return n == 1   ? g_steal_pointer (&begin)
           : n == 2 ? g_strdup_printf ("%s and %s", begin, end)
                    : g_strdup_printf ("%s to %s, without a gap", begin, end);
  }
}

/* The path for people; ops of a device without a gap share a row. Free with g_free. */
static char *path_to_text (const PsExplainReport *report)
{
  static const PsColumn columns[] = {
    { "start_ns", "start", PS_COLUMN_TIME }, { "end_ns", "end", PS_COLUMN_TIME }, { "time_ns", "time", PS_COLUMN_TIME },
    { "where", "where", PS_COLUMN_TEXT },    { "what", "what", PS_COLUMN_TEXT },
  };
  const GArray *path = report->explanation->path;
  const PsStep *steps = report->prediction->program->steps;
  g_autoptr (PsTable) table = ps_table_new (columns, G_N_ELEMENTS (columns));
  guint n_rows = 0;

  for (guint i = 0, n; i < path->len; i += n, n_rows++) {
    const PsPathPart *first = &g_array_index (path, PsPathPart, i);
    guint device = steps[first->step].device;

    for (n = 1; first->kind == PS_PATH_OP && i + n < path->len && first[n].kind == PS_PATH_OP
                && steps[first[n].step].device == device;)
      n++;
    if (n_rows >= N_PATH_ROWS)
      continue;
    g_autofree char *what = describe_run (report, first, n);
    g_autofree char *where = first->kind == PS_PATH_TRANSFER
                                 ? g_strdup_printf ("%u -> %u", sender_of (report, first->step), device)
                                 : g_strdup_printf ("device %u", device);
    ps_table_add_row (table);
    ps_table_set_integer (table, "start_ns", first->start_ns);
    ps_table_set_integer (table, "end_ns", first[n - 1].end_ns);
    ps_table_set_integer (table, "time_ns", first[n - 1].end_ns - first->start_ns);
    ps_table_set_text (table, "where", where);
    ps_table_set_text (table, "what", what);
  }
  g_autofree char *text = ps_table_to_text (table);
  if (n_rows <= N_PATH_ROWS)
    return g_steal_pointer (&text);
  return g_strdup_printf ("%sand %u rows more; --json has them all\n", text, n_rows - N_PATH_ROWS);
}

/* Parts of the path: op kinds, then pairs, the parts that are no ops, and host times of ops. */
#define N_PATH_KINDS (PS_N_OP_KINDS + 6)

static const char *path_kind_name (guint kind)
{
  static const char *const others[] = { "pairs", "transfers", "waits", "all-reduces", "optimizer", "host" };

  return kind < PS_N_OP_KINDS ? ps_op_kind_name ((PsOpKind)kind) : others[kind - PS_N_OP_KINDS];
}

/* sum has N_PATH_KINDS entries, by_stage (NULL: not wanted) one for each stage; a pair counts for its F's. The host's
 * part of a step counts apart; measured ops have none. */
static void sum_path (const PsExplainReport *report, gint64 *sum, gint64 *by_stage)
{
  const PsPrediction *prediction = report->prediction;

  for (guint i = 0; i < report->explanation->path->len; i++) {
    const PsPathPart *part = &g_array_index (report->explanation->path, PsPathPart, i);
    gboolean is_op = part->kind == PS_PATH_OP, pair = is_op && is_pair (report, part->step);
    PsOp op = op_of (report, part->step);
    guint kind = !is_op ? PS_N_OP_KINDS + (guint)part->kind : pair ? PS_N_OP_KINDS : op.kind;
    gint64 host_ns = is_op && !report->measured
                         ? ps_host_time_sum (ps_step_host_time (prediction->program, prediction->costs, part->step))
                         : 0;

    if (pair && op.kind != PS_OP_F)
      op = op_of (report, part->step - 1);
    sum[kind] += part->end_ns - part->start_ns - host_ns;
    sum[N_PATH_KINDS - 1] += host_ns;
    if (is_op && by_stage != NULL)
      by_stage[op.stage] += part->end_ns - part->start_ns;
  }
}

/* The time of each kind on the path: "F 8 ms, BW 16 ms, transfers 600 us". Free with g_free. */
static char *path_summary (const PsExplainReport *report)
{
  GString *text = g_string_new (NULL);
  gint64 sum[N_PATH_KINDS] = { 0 };

  sum_path (report, sum, NULL);
  for (guint kind = 0; kind < N_PATH_KINDS; kind++) {
    g_autofree char *time = ps_format_time (sum[kind]);

    if (sum[kind] > 0)
      g_string_append_printf (text, "%s%s %s", text->len ? ", " : "", path_kind_name (kind), time);
  }
  return g_string_free (text, FALSE);
}

PsTable *ps_explain_report_shares (const PsExplainReport *report, gboolean by_stage)
{
  static const PsColumn columns[] = {
    { "part", "on the path", PS_COLUMN_TEXT },
    { "time_ns", "time", PS_COLUMN_TIME },
    { "share", "share", PS_COLUMN_RATIO },
  };
  guint n_stages = report->prediction->program->schedule->placement->n_stages;
  PsTable *table = ps_table_new (columns, G_N_ELEMENTS (columns));
  g_autofree gint64 *stages = g_new0 (gint64, n_stages);
  gint64 sum[N_PATH_KINDS] = { 0 };

  sum_path (report, sum, stages);
  for (guint i = 0; i < (by_stage ? n_stages : N_PATH_KINDS); i++) {
    g_autofree char *name = by_stage ? g_strdup_printf ("stage %u", i) : g_strdup (path_kind_name (i));
    gint64 time_ns = by_stage ? stages[i] : sum[i];

    if (time_ns == 0)
      continue;
    ps_table_add_row (table);
    ps_table_set_text (table, "part", name);
    ps_table_set_integer (table, "time_ns", time_ns);
    ps_table_set_ratio (table, "share", (double)time_ns / (double)report->explanation->makespan_ns);
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

/* Idle time is the iteration time less ops and O. The last columns are there if hosts take time, and if times were
 * measured. */
PsTable *ps_explain_report_idle (const PsExplainReport *report)
{
  const PsExplanation *explanation = report->explanation;
  const PsProgram *program = report->prediction->program;
  gboolean no_host = !report->measured && report->prediction->costs->host_time == NULL;
  guint n_columns = report->steady ? N_STEADY_COLUMNS : G_N_ELEMENTS (idle_columns) - !report->measured - no_host;
  PsTable *table = ps_table_new (idle_columns, n_columns);
  g_autofree gint64 *critical_ns = g_new0 (gint64, explanation->n_devices);

  for (guint i = 0; i < explanation->path->len; i++) {
    const PsPathPart *part = &g_array_index (explanation->path, PsPathPart, i);

    if (part->kind == PS_PATH_OP)
      critical_ns[program->steps[part->step].device] += part->end_ns - part->start_ns;
  }
  for (guint device = 0; device < explanation->n_devices; device++) {
    ps_table_add_row (table);
    ps_table_set_integer (table, "device", device);
    ps_table_set_integer (table, "critical_ns", critical_ns[device] / MAX (explanation->n_iterations, 1));
    ps_table_set_integer (table, "idle_ns",
                          report->metrics->iteration_ns - report->metrics->device[device].busy_ns
                              - report->simulation->device[device].optimizer_ns);
    for (guint i = 0; i < n_columns - N_STEADY_COLUMNS; i++) {
      g_autofree char *key = g_strconcat (ps_idle_name ((PsIdle)i), "_ns", NULL);

      ps_table_set_integer (table, key, explanation->idle_ns[(gsize)device * PS_N_IDLE + i]);
    }
  }
  return table;
}

PsTable *ps_explain_report_slack (const PsExplainReport *report)
{
  static const PsColumn columns[] = {
    { "device", NULL, PS_COLUMN_INTEGER },
    { "op", NULL, PS_COLUMN_TEXT },
    { "slack_ns", NULL, PS_COLUMN_TIME },
  };
  const PsProgram *program = report->prediction->program;
  const guint *first = program->schedule->first;

  if (report->explanation->slack_ns == NULL)
    return NULL;
  PsTable *table = ps_table_new (columns, G_N_ELEMENTS (columns));
  for (guint device = 0; device < report->explanation->n_devices; device++)
    for (guint i = first[device]; i < first[device + 1]; i++) {
      guint step = program->step_of[i];
      g_autofree char *name = part_name (report, &(PsPathPart){ .kind = PS_PATH_OP, .step = step });

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

static gpointer what_if_part (gconstpointer row)
{
  return ps_part_format (&((const PsWhatIf *)row)->part);
}

PsTable *ps_explain_report_what_if (const PsExplainReport *report)
{
  static const PsCellColumn columns[] = {
    PS_CELL_GET (what_if_part, "part", "faster", TEXT),
    PS_CELL (PsWhatIf, iteration_ns, "iteration_ns", "iteration", TIME),
    PS_CELL (PsWhatIf, gain, "gain", "gain", RATIO),
    PS_CELL_SET ("change_point", "path changes at", RATIO),
    PS_CELL (PsWhatIf, least_ns, "least_ns", "iteration without it", TIME),
  };
  PsTable *table = ps_table_of (columns, G_N_ELEMENTS (columns), NULL, 0, 0);

  for (guint i = 0; i < report->what_ifs->len; i++) {
    const PsWhatIf *what_if = &g_array_index (report->what_ifs, PsWhatIf, i);

    ps_table_add (table, what_if);
    if (what_if->change_point < 1) /* false for NAN */
      ps_table_set_ratio (table, "change_point", what_if->change_point);
  }
  return table;
}

/* The part of the iteration after its last op: "; then all-reduces 3 ms, optimizer 1 ms". Free with g_free. */
static char *after_path (const PsExplainReport *report)
{
  gint64 optimizer_ns = report->simulation->optimizer_ns,
         reduce_ns = report->metrics->iteration_ns - report->metrics->makespan_ns - optimizer_ns;
  g_autofree char *reduce = ps_format_time (reduce_ns), *optimizer = ps_format_time (optimizer_ns);

  return g_strconcat (reduce_ns > 0 ? "; then all-reduces " : "", reduce_ns > 0 ? reduce : "",
                      optimizer_ns == 0 ? ""
                      : reduce_ns > 0   ? ", optimizer "
                                        : "; then optimizer ",
                      optimizer_ns > 0 ? optimizer : "", NULL);
}

char *ps_explain_report_to_text (const PsExplainReport *report)
{
  g_autoptr (PsTable) idle = ps_explain_report_idle (report), what_if = ps_explain_report_what_if (report);
  g_autofree char *path = path_to_text (report), *parts = ps_table_to_text (idle), *best = ps_table_to_text (what_if),
                  *summary = path_summary (report), *makespan = ps_format_time (report->explanation->makespan_ns);
  guint n = report->explanation->n_iterations;
  g_autofree char *rest = after_path (report);
  g_autofree char *sentence = report->steady
                                  ? g_strdup_printf ("critical circle, simulated: %u iteration%s in %s = %s", n,
                                                     n == 1 ? "" : "s", makespan, summary)
                                  : g_strdup_printf ("critical path, simulated: %s = %s%s", makespan, summary, rest);
  g_autofree char *head = ps_fit_sentence (sentence, 0);

  return g_strdup_printf (
      "\n%s%s\nidle time of each device%s\n%s\nwhat pays off: the iteration if one part takes %g %% less time\n%s",
      head, path, report->steady ? " in an iteration" : ", by what it waits for", parts, report->saving * 100, best);
}
