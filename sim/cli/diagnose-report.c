/* diagnose-report.c - tables of a diagnosis, and all of it as text and JSON. */
#include "diagnose-report.h"

#include <string.h>

#define N_DEVICES 16
#define N_SHARES 6
#define N_SLOW 6
#define N_WHAT_IF 6
#define N_RIVALS 12

/* Devices */

#define N_BUSY PS_DIAGNOSIS_N_BUSY
#define N_PARTS PS_DIAGNOSIS_N_PARTS
#define N_FIXED 5

static const char *
part_key (guint part)
{
  static const char *const busy[N_BUSY] = { "f", "b", "w", "bw", "r", "o", "pair" };

  return part < N_BUSY ? busy[part] : ps_idle_name ((PsIdle)(part - N_BUSY));
}

const char *
ps_diagnosis_part_title (guint part)
{
  if (part < PS_N_OP_KINDS)
    return ps_op_kind_name ((PsOpKind)part);
  return part == PS_N_OP_KINDS ? "pairs" : part == N_BUSY ? "warm-up" : part_key (part);
}

gint64 *
ps_diagnosis_parts (const PsDiagnosis *diagnosis)
{
  guint n_devices = diagnosis->run->n_devices;
  const gint64 *idle_ns = ps_explain_report_idle_times (diagnosis->explain);
  gint64 *parts_ns = g_new0 (gint64, (gsize)n_devices * N_PARTS);

  for (guint i = 0; i < diagnosis->run->ops->len; i++)
    {
      const PsSpan *span = &g_array_index (diagnosis->run->ops, PsSpan, i);
      guint part = span->op.paired ? PS_N_OP_KINDS : span->op.kind;

      parts_ns[span->device * N_PARTS + part] += span->end_ns - span->start_ns;
      i += span->op.paired; /* both of a pair have the pair's time */
    }
  for (guint d = 0; d < n_devices; d++)
    memcpy (&parts_ns[d * N_PARTS + N_BUSY], &idle_ns[d * PS_N_IDLE], PS_N_IDLE * sizeof *idle_ns);
  return parts_ns;
}

/* Parts that no device has are for JSON alone. */
static PsColumn *
device_columns (const gint64 *parts_ns, guint n_devices)
{
  static const PsColumn fixed[N_FIXED] = {
    { "device", "device", PS_COLUMN_INTEGER },
    { "busy_ns", NULL, PS_COLUMN_TIME },
    { "idle_ns", NULL, PS_COLUMN_TIME },
    { "bubble_ratio", "bubble", PS_COLUMN_RATIO },
    { "bubble_ratio_span", "of span", PS_COLUMN_RATIO },
  };
  PsColumn *columns = g_new0 (PsColumn, N_FIXED + 2 * N_PARTS);

  memcpy (columns, fixed, sizeof fixed);
  for (guint part = 0; part < N_PARTS; part++)
    {
      g_autofree char *time = g_strconcat (part_key (part), "_ns", NULL);
      gboolean any = FALSE;

      for (guint d = 0; d < n_devices; d++)
        any |= parts_ns[d * N_PARTS + part] != 0;
      columns[N_FIXED + part]
          = (PsColumn){ part_key (part), any ? ps_diagnosis_part_title (part) : NULL, PS_COLUMN_RATIO };
      columns[N_FIXED + N_PARTS + part] = (PsColumn){ g_intern_string (time), NULL, PS_COLUMN_TIME };
    }
  return columns;
}

/* Parts of the iteration of each device: busy by op kind, idle by cause; and in ns for JSON. columns: the array that
 * the table uses, to be freed after it with g_free. */
static PsTable *
devices_table (const PsDiagnosis *diagnosis, PsColumn **columns)
{
  const PsMetrics *metrics = &diagnosis->metrics;
  g_autofree gint64 *parts_ns = ps_diagnosis_parts (diagnosis);
  double iteration = (double)MAX (metrics->iteration_ns, 1), span = (double)MAX (metrics->max_span_ns, 1);

  *columns = device_columns (parts_ns, metrics->n_devices);
  PsTable *table = ps_table_new (*columns, N_FIXED + 2 * N_PARTS);
  for (guint d = 0; d < metrics->n_devices; d++)
    {
      gint64 busy_ns = metrics->device[d].busy_ns;

      ps_table_add_row (table);
      ps_table_set_integer (table, "device", d);
      ps_table_set_integer (table, "busy_ns", busy_ns);
      ps_table_set_integer (table, "idle_ns", metrics->iteration_ns - busy_ns);
      ps_table_set_ratio (table, "bubble_ratio", 1 - (double)busy_ns / iteration);
      ps_table_set_ratio (table, "bubble_ratio_span", 1 - (double)busy_ns / span);
      for (guint part = 0; part < N_PARTS; part++)
        {
          gint64 time_ns = parts_ns[d * N_PARTS + part];

          ps_table_set_ratio (table, (*columns)[N_FIXED + part].key, (double)time_ns / iteration);
          ps_table_set_integer (table, (*columns)[N_FIXED + N_PARTS + part].key, time_ns);
        }
    }
  return table;
}

/* Slow parts */

static const PsColumn slow_columns[] = {
  { "kind", NULL, PS_COLUMN_TEXT },
  { "device", NULL, PS_COLUMN_INTEGER },
  { "stage", NULL, PS_COLUMN_INTEGER },
  { "microbatch", NULL, PS_COLUMN_INTEGER },
  { "iteration", NULL, PS_COLUMN_INTEGER },
  { "part", "slower than peers", PS_COLUMN_TEXT },
  { "pass", "pass", PS_COLUMN_TEXT },
  { "own_ns", "takes", PS_COLUMN_TIME },
  { "peers_ns", "peers", PS_COLUMN_TIME },
  { "ratio", "ratio", PS_COLUMN_RATIO },
  { "excess_ns", "more in all", PS_COLUMN_TIME },
};

/* The parts of a PsSlow that say something, by its kind. */
static const struct
{
  gboolean device, stage, microbatch, iteration;
} slow_names[] = {
  [PS_SLOW_DEVICE] = { .device = TRUE },         [PS_SLOW_STAGE] = { .device = TRUE, .stage = TRUE },
  [PS_SLOW_MICROBATCH] = { .microbatch = TRUE }, [PS_SLOW_ITERATION] = { .iteration = TRUE },
  [PS_SLOW_OP] = { TRUE, TRUE, TRUE, TRUE },
};

static char *
describe_slow (const PsSlow *slow)
{
  switch (slow->kind)
    {
    case PS_SLOW_DEVICE:
      return g_strdup_printf ("device %u, all its stages", slow->device);
    case PS_SLOW_STAGE:
      return g_strdup_printf ("stage %u on device %u", slow->stage, slow->device);
    case PS_SLOW_MICROBATCH:
      return g_strdup_printf ("microbatch %u", slow->microbatch);
    case PS_SLOW_ITERATION:
      return g_strdup_printf ("iteration %u", slow->iteration + 1);
    default:
      return g_strdup_printf ("stage %u, microbatch %u in iteration %u", slow->stage, slow->microbatch,
                              slow->iteration + 1);
    }
}

static PsTable *
slow_table (const PsDiagnosis *diagnosis)
{
  PsTable *table = ps_table_new (slow_columns, G_N_ELEMENTS (slow_columns));

  for (guint i = 0; i < diagnosis->slow->len; i++)
    {
      const PsSlow *slow = &g_array_index (diagnosis->slow, PsSlow, i);
      g_autofree char *part = describe_slow (slow);

      ps_table_add_row (table);
      ps_table_set_text (table, "kind", ps_slow_name (slow->kind));
      ps_table_set_text (table, "part", part);
      if (slow_names[slow->kind].device)
        ps_table_set_integer (table, "device", slow->device);
      if (slow_names[slow->kind].stage)
        ps_table_set_integer (table, "stage", slow->stage);
      if (slow_names[slow->kind].microbatch)
        ps_table_set_integer (table, "microbatch", slow->microbatch);
      if (slow_names[slow->kind].iteration)
        ps_table_set_integer (table, "iteration", slow->iteration + 1);
      if (slow->kind != PS_SLOW_ITERATION)
        ps_table_set_text (table, "pass", ps_pass_name (slow->pass));
      if (slow->own_ns > 0)
        {
          ps_table_set_integer (table, "own_ns", slow->own_ns);
          ps_table_set_integer (table, "peers_ns", slow->peers_ns);
        }
      ps_table_set_ratio (table, "ratio", slow->ratio);
      ps_table_set_integer (table, "excess_ns", slow->excess_ns);
    }
  return table;
}

/* Other schedules */

static const PsColumn rival_columns[] = {
  { "schedule", NULL, PS_COLUMN_TEXT },
  { "label", "schedule", PS_COLUMN_TEXT },
  { "chunks", "v", PS_COLUMN_INTEGER },
  { "iteration_ns", "iteration", PS_COLUMN_TIME },
  { "change_run", "against run", PS_COLUMN_PERCENT },
  { "change_predicted", "against prediction", PS_COLUMN_PERCENT },
  { "bubble_ratio", "bubble", PS_COLUMN_RATIO },
  { "memory_ratio", "memory", PS_COLUMN_RATIO },
  { "feasible", "fits", PS_COLUMN_BOOLEAN },
  { "is_run", NULL, PS_COLUMN_BOOLEAN },
  { "guessed", NULL, PS_COLUMN_BOOLEAN },
  { "asynchronous", NULL, PS_COLUMN_BOOLEAN },
  { "weight_copies", NULL, PS_COLUMN_INTEGER },
};

static void
add_rival (const PsDiagnosis *diagnosis, PsTable *table, const PsRival *rival)
{
  const PsMetrics *own = &diagnosis->prediction->metrics;
  g_autofree char *label = ps_rival_label (rival);

  ps_table_add_row (table);
  ps_table_set_text (table, "schedule", rival->name);
  ps_table_set_text (table, "label", label);
  ps_table_set_integer (table, "chunks", rival->n_chunks);
  ps_table_set_integer (table, "iteration_ns", rival->iteration_ns);
  ps_table_set_ratio (table, "change_run", ps_diagnosis_change (rival->iteration_ns, diagnosis->metrics.iteration_ns));
  ps_table_set_ratio (table, "change_predicted", ps_diagnosis_change (rival->iteration_ns, own->iteration_ns));
  ps_table_set_ratio (table, "bubble_ratio", rival->bubble_ratio);
  ps_table_set_ratio (table, "memory_ratio", rival->memory_ratio);
  ps_table_set_boolean (table, "feasible", rival->fits);
  ps_table_set_boolean (table, "is_run", rival->is_run);
  ps_table_set_boolean (table, "guessed", rival->guessed);
  ps_table_set_boolean (table, "asynchronous", rival->asynchronous);
  ps_table_set_integer (table, "weight_copies", rival->n_copies);
}

/* The first n rows, and the run's. */
static PsTable *
rivals_table (const PsDiagnosis *diagnosis, guint n)
{
  PsTable *table = ps_table_new (rival_columns, G_N_ELEMENTS (rival_columns));

  for (guint i = 0; i < diagnosis->rivals->len; i++)
    {
      const PsRival *rival = diagnosis->rivals->pdata[i];

      if (i < n || rival->is_run)
        add_rival (diagnosis, table, rival);
    }
  return table;
}

/* Texts */

static void
section_free (gpointer data)
{
  PsDiagnosisSection *section = data;

  g_free (section->title);
  ps_table_free (section->table);
  g_free (section->columns);
  g_free (section);
}

static PsDiagnosisSection *
add_section (GPtrArray *sections, char *title, PsTable *table, guint n_rows)
{
  PsDiagnosisSection *section = g_new0 (PsDiagnosisSection, 1);

  section->title = title;
  section->table = table;
  section->n_rows = n_rows;
  g_ptr_array_add (sections, section);
  return section;
}

GPtrArray *
ps_diagnosis_sections (const PsDiagnosis *diagnosis, guint n_rivals)
{
  GPtrArray *sections = g_ptr_array_new_with_free_func (section_free);
  PsDiagnosisSection *devices
      = add_section (sections, g_strdup ("where the iteration goes, in parts of it"), NULL, N_DEVICES);

  devices->table = devices_table (diagnosis, &devices->columns);
  add_section (sections, g_strdup_printf ("critical path of the %s iteration", ps_origin_name (diagnosis->run->origin)),
               ps_explain_report_shares (diagnosis->explain, FALSE), N_SHARES);
  add_section (sections, g_strdup ("ops of each stage on that path"),
               ps_explain_report_shares (diagnosis->explain, TRUE), N_SHARES);
  if (diagnosis->slow->len > 0)
    add_section (sections, g_strdup ("stragglers"), slow_table (diagnosis), N_SLOW);
  else
    add_section (sections, g_strdup ("no stage, microbatch, iteration or op takes much longer than its peers"), NULL,
                 0);
  add_section (sections, g_strdup ("what pays off: the predicted iteration if one part takes 10 % less time"),
               ps_explain_report_what_if (diagnosis->explain), N_WHAT_IF);
  add_section (sections,
               g_strdup_printf ("predicted under the same costs; memory%s relative to the run%s",
                                diagnosis->says_memory ? "" : " in activations,",
                                diagnosis->guessed != 0
                                    ? "\n(guess: from costs that the run does not show; --model FILE, or "
                                      "--costs-from another run, tells them)"
                                    : ""),
               rivals_table (diagnosis, n_rivals), G_MAXUINT);
  return sections;
}

static void
append_section (GString *text, const PsDiagnosisSection *section)
{
  guint n = section->table != NULL ? ps_table_n_rows (section->table) : 0, shown = MIN (section->n_rows, n);

  if (section->table != NULL)
    ps_table_truncate (section->table, shown);
  g_autofree char *rows = section->table != NULL ? ps_table_to_text (section->table) : g_strdup ("");
  g_autofree char *title = ps_fit_sentence (section->title, 0);
  if (section->table != NULL && *rows == '\0')
    return;
  g_string_append_printf (text, "\n%s%s", title, rows);
  if (n > shown)
    g_string_append_printf (text, "and %u more; --json has them all\n", n - shown);
}

char *
ps_diagnosis_to_text (const PsDiagnosis *diagnosis, const PsColumnChoice *choice, GError **error)
{
  g_autofree char *lines = ps_diagnosis_summary (diagnosis), *summary = ps_fit_sentence (lines, 0);
  g_autoptr (GPtrArray) sections = ps_diagnosis_sections (diagnosis, N_RIVALS), tables = g_ptr_array_new ();

  for (guint i = 0; i < sections->len; i++)
    if (((PsDiagnosisSection *)sections->pdata[i])->table != NULL)
      g_ptr_array_add (tables, ((PsDiagnosisSection *)sections->pdata[i])->table);
  if (!ps_tables_choose ((PsTable *const *)tables->pdata, tables->len, choice, error))
    return NULL;
  GString *text = g_string_new (summary);
  for (guint i = 0; i < sections->len; i++)
    append_section (text, sections->pdata[i]);
  return g_string_free (text, FALSE);
}

static const PsColumn columns[] = {
  { "schedule", NULL, PS_COLUMN_TEXT },
  { "order_of", NULL, PS_COLUMN_TEXT },
  { "devices", NULL, PS_COLUMN_INTEGER },
  { "stages", NULL, PS_COLUMN_INTEGER },
  { "microbatches", NULL, PS_COLUMN_INTEGER },
  { "iterations", NULL, PS_COLUMN_INTEGER },
  { "iteration_ns", NULL, PS_COLUMN_TIME },
  { "iteration_p10_ns", NULL, PS_COLUMN_TIME },
  { "iteration_p90_ns", NULL, PS_COLUMN_TIME },
  { "makespan_ns", NULL, PS_COLUMN_TIME },
  { "max_span_ns", NULL, PS_COLUMN_TIME },
  { "bubble_ratio", NULL, PS_COLUMN_RATIO },
  { "bubble_ratio_span", NULL, PS_COLUMN_RATIO },
  { "replay_ns", NULL, PS_COLUMN_TIME },
  { "predicted_iteration_ns", NULL, PS_COLUMN_TIME },
  { "equal_stages_ns", NULL, PS_COLUMN_TIME },
  { "devices_detail", NULL, PS_COLUMN_TABLE },
  { "critical_path", NULL, PS_COLUMN_TABLE },
  { "path_kinds", NULL, PS_COLUMN_TABLE },
  { "path_stages", NULL, PS_COLUMN_TABLE },
  { "stragglers", NULL, PS_COLUMN_TABLE },
  { "what_if", NULL, PS_COLUMN_TABLE },
  { "schedules", NULL, PS_COLUMN_TABLE },
};

static void
set_figures (PsTable *table, const PsDiagnosis *diagnosis)
{
  const struct
  {
    const char *key;
    gint64 value;
  } integers[] = {
    { "devices", diagnosis->run->n_devices },
    { "stages", diagnosis->run->n_stages },
    { "microbatches", diagnosis->run->n_microbatches },
    { "iterations", diagnosis->spread.n },
    { "iteration_ns", diagnosis->metrics.iteration_ns },
    { "iteration_p10_ns", diagnosis->spread.p10_ns },
    { "iteration_p90_ns", diagnosis->spread.p90_ns },
    { "makespan_ns", diagnosis->metrics.makespan_ns },
    { "max_span_ns", diagnosis->metrics.max_span_ns },
    { "replay_ns", diagnosis->replay_ns },
    { "predicted_iteration_ns", diagnosis->prediction->metrics.iteration_ns },
    { "equal_stages_ns", diagnosis->even_ns },
  };

  for (guint i = 0; i < G_N_ELEMENTS (integers); i++)
    ps_table_set_integer (table, integers[i].key, integers[i].value);
  ps_table_set_ratio (table, "bubble_ratio", diagnosis->metrics.bubble_ratio);
  ps_table_set_ratio (table, "bubble_ratio_span", diagnosis->metrics.bubble_ratio_span);
}

char *
ps_diagnosis_to_json (const PsDiagnosis *diagnosis)
{
  const PsRival *own = ps_diagnosis_own (diagnosis);
  const char *extra[] = { "origin",  ps_origin_name (diagnosis->run->origin),
                          "source",  diagnosis->run->source,
                          "skipped", diagnosis->skipped->str,
                          NULL };
  g_autofree PsColumn *devices = NULL;
  g_autoptr (PsTable) table = ps_table_new (columns, G_N_ELEMENTS (columns));

  ps_table_add_row (table);
  ps_table_set_text (table, "schedule", diagnosis->run->schedule);
  if (own != NULL)
    ps_table_set_text (table, "order_of", own->name);
  set_figures (table, diagnosis);
  ps_table_set_table (table, "devices_detail", devices_table (diagnosis, &devices));
  ps_table_set_table (table, "critical_path", ps_explain_report_path (diagnosis->explain));
  ps_table_set_table (table, "path_kinds", ps_explain_report_shares (diagnosis->explain, FALSE));
  ps_table_set_table (table, "path_stages", ps_explain_report_shares (diagnosis->explain, TRUE));
  ps_table_set_table (table, "stragglers", slow_table (diagnosis));
  ps_table_set_table (table, "what_if", ps_explain_report_what_if (diagnosis->explain));
  ps_table_set_table (table, "schedules", rivals_table (diagnosis, G_MAXUINT));
  return ps_table_to_json (table, "pipesim-diagnosis/1", extra);
}
