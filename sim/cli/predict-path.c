/* predict-path.c - the critical path as a table, as text and as sums. */
#include "predict-path.h"

#define N_PATH_ROWS 40 /* as printed; --json has all */

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

char *
ps_explain_part_name (const PsExplainReport *report, const PsPathPart *part)
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
      g_autofree char *name = ps_explain_part_name (report, part);

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
  g_autofree char *begin = ps_explain_part_name (report, first), *end = ps_explain_part_name (report, first + n - 1);

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

char *
ps_explain_path_to_text (const PsExplainReport *report)
{
  guint n_rows;
  g_autoptr (PsTable) runs = run_table (report, &n_rows);
  g_autofree char *text = ps_table_to_text (runs);

  if (n_rows <= N_PATH_ROWS)
    return g_steal_pointer (&text);
  return g_strdup_printf ("%sand %u rows more; --json has them all\n", text, n_rows - N_PATH_ROWS);
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

char *
ps_explain_path_summary (const PsExplainReport *report)
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
