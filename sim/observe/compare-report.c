/* compare-report.c - a comparison as text and as JSON. */
#include <pipesim/observe.h>

#include <math.h>

/* All columns of a comparison, with the titles for a prediction and a run. */
typedef struct
{
  PsColumn figures[4];
  PsColumn kinds[6];
  PsColumn worst[8];
  PsColumn all[23]; /* the last N_ALIKE only of timelines that are alike */
} Columns;

#define N_ALIKE 2

static const Columns templates = {
  /* Each row has a unit of its own, so the cells are texts. */
  .figures = {
    { "figure", "figure", PS_COLUMN_TEXT },
    { "predicted", "predicted (simulated)", PS_COLUMN_TEXT },
    { "measured", "measured", PS_COLUMN_TEXT },
    { "error", "error", PS_COLUMN_TEXT },
  },
  .kinds = {
    { "kind", "op kind", PS_COLUMN_TEXT },
    { "n", "ops", PS_COLUMN_INTEGER },
    { "predicted_ns", "predicted sum", PS_COLUMN_TIME },
    { "measured_ns", "measured sum", PS_COLUMN_TIME },
    { "error", "error of sums", PS_COLUMN_PERCENT },
    { "median_abs_error", "median |error|", PS_COLUMN_PERCENT },
  },
  .worst = {
    { "op", "op", PS_COLUMN_TEXT },
    { "device", "device", PS_COLUMN_INTEGER },
    { "predicted_ns", "predicted", PS_COLUMN_TIME },
    { "measured_ns", "measured", PS_COLUMN_TIME },
    { "difference_ns", "difference", PS_COLUMN_TIME },
    { "error", "error", PS_COLUMN_PERCENT },
    { "predicted_start_ns", "predicted start", PS_COLUMN_TIME },
    { "measured_start_ns", "measured start", PS_COLUMN_TIME },
  },
  .all = {
    { "predicted_iteration_ns", NULL, PS_COLUMN_TIME },
    { "measured_iteration_ns", NULL, PS_COLUMN_TIME },
    { "iteration_error", NULL, PS_COLUMN_PERCENT },
    { "predicted_makespan_ns", NULL, PS_COLUMN_TIME },
    { "measured_makespan_ns", NULL, PS_COLUMN_TIME },
    { "predicted_max_span_ns", NULL, PS_COLUMN_TIME },
    { "measured_max_span_ns", NULL, PS_COLUMN_TIME },
    { "predicted_bubble_ratio", NULL, PS_COLUMN_RATIO },
    { "measured_bubble_ratio", NULL, PS_COLUMN_RATIO },
    { "bubble_difference", NULL, PS_COLUMN_RATIO },
    { "predicted_bubble_ratio_span", NULL, PS_COLUMN_RATIO },
    { "measured_bubble_ratio_span", NULL, PS_COLUMN_RATIO },
    { "predicted_peak_memory_bytes", NULL, PS_COLUMN_SIZE },
    { "measured_peak_memory_bytes", NULL, PS_COLUMN_SIZE },
    { "peak_memory_error", NULL, PS_COLUMN_PERCENT },
    { "kinds", NULL, PS_COLUMN_TABLE },
    { "worst_ops", NULL, PS_COLUMN_TABLE },
    { "predicted_iteration_p10_ns", NULL, PS_COLUMN_TIME },
    { "predicted_iteration_p90_ns", NULL, PS_COLUMN_TIME },
    { "inside_interval", NULL, PS_COLUMN_BOOLEAN },
    { "usual_iteration_ns", NULL, PS_COLUMN_TIME },
    { "first_only_ops", NULL, PS_COLUMN_INTEGER },
    { "second_only_ops", NULL, PS_COLUMN_INTEGER },
  },
};

static const char *
replace (const char *text, const char *const *words)
{
  g_autoptr (GString) string = g_string_new (text);

  for (; *words != NULL; words += 2)
    g_string_replace (string, words[0], words[1], 0);
  return g_intern_string (string->str);
}

/* Titles the columns of full tables after the two timelines. */
static void
name_columns (const PsComparison *comparison, Columns *columns)
{
  static const char *const words[] = { "predicted", "first", "measured", "second", "error", "deviation", NULL };
  PsColumn *all = (PsColumn *)(gpointer)columns;
  gboolean simulated = comparison->origin == PS_ORIGIN_SIMULATED;

  if (!comparison->alike)
    return;
  for (guint i = 0; i < sizeof *columns / sizeof *all; i++)
    {
      all[i].key = replace (all[i].key, words);
      all[i].title = all[i].title != NULL ? replace (all[i].title, words) : NULL;
    }
  columns->figures[1].title = simulated ? "first (simulated)" : "first (measured)";
  columns->figures[2].title = simulated ? "second (simulated)" : "second (measured)";
}

/* Overall figures in text: one row per figure. */

static void
add_figure (PsTable *table, const char *figure, char *predicted, char *measured, char *error)
{
  ps_table_add_row (table);
  ps_table_set_text (table, "figure", figure);
  ps_table_set_text (table, "predicted", predicted);
  ps_table_set_text (table, "measured", measured);
  ps_table_set_text (table, "error", error);
  g_free (predicted);
  g_free (measured);
  g_free (error);
}

static char *
format_error (double error)
{
  return isnan (error) ? g_strdup ("-") : g_strdup_printf ("%+.2f %%", error * 100);
}

static void
add_time (PsTable *table, const char *figure, gint64 predicted, gint64 measured)
{
  add_figure (table, figure, ps_format_time (predicted), ps_format_time (measured),
              format_error (ps_relative_error (predicted, measured)));
}

static void
add_ratio (PsTable *table, const char *figure, double predicted, double measured)
{
  add_figure (table, figure, g_strdup_printf ("%.4f", predicted), g_strdup_printf ("%.4f", measured),
              g_strdup_printf ("%+.4f", predicted - measured));
}

static char *
format_known_size (gint64 bytes)
{
  return bytes > 0 ? ps_format_size (bytes) : g_strdup ("not known");
}

static PsTable *
figures_table (const PsComparison *comparison, const Columns *columns)
{
  const PsMetrics *predicted = &comparison->predicted, *measured = &comparison->measured;
  PsTable *table = ps_table_new (columns->figures, G_N_ELEMENTS (columns->figures));

  add_time (table, "iteration time", predicted->iteration_ns, measured->iteration_ns);
  add_time (table, "makespan", predicted->makespan_ns, measured->makespan_ns);
  add_time (table, "longest span of a device", predicted->max_span_ns, measured->max_span_ns);
  add_ratio (table, "bubble ratio of iteration", predicted->bubble_ratio, measured->bubble_ratio);
  add_ratio (table, "bubble ratio of span", predicted->bubble_ratio_span, measured->bubble_ratio_span);
  add_figure (table, comparison->alike ? "peak memory" : "peak memory without buffers",
              format_known_size (predicted->peak_memory_bytes), format_known_size (measured->peak_memory_bytes),
              format_error (comparison->peak_memory_error));
  return table;
}

/* Error per op kind and the worst ops: the same tables in text and JSON. */

static void
add_kind (PsTable *table, const char *name, const struct PsKindError *kind)
{
  if (kind->n == 0)
    return;
  ps_table_add_row (table);
  ps_table_set_text (table, "kind", name);
  ps_table_set_integer (table, "n", kind->n);
  ps_table_set_integer (table, "predicted_ns", kind->predicted_ns);
  ps_table_set_integer (table, "measured_ns", kind->measured_ns);
  ps_table_set_ratio (table, "error", kind->error);
  ps_table_set_ratio (table, "median_abs_error", kind->median_abs_error);
}

static PsTable *
kinds_table (const PsComparison *comparison, const Columns *columns)
{
  PsTable *table = ps_table_new (columns->kinds, G_N_ELEMENTS (columns->kinds));

  for (guint k = 0; k < PS_N_OP_KINDS; k++)
    add_kind (table, ps_op_kind_name (k), &comparison->kind[k]);
  add_kind (table, "transfer", &comparison->transfer);
  return table;
}

static PsTable *
worst_table (const PsComparison *comparison, const Columns *columns, guint n_worst)
{
  PsTable *table = ps_table_new (columns->worst, G_N_ELEMENTS (columns->worst));
  char name[48];

  for (guint i = 0; i < MIN (n_worst, comparison->ops->len); i++)
    {
      const PsOpDifference *op = &g_array_index (comparison->ops, PsOpDifference, i);

      ps_table_add_row (table);
      ps_table_set_text (table, "op", ps_op_format (op->op, name));
      ps_table_set_integer (table, "device", op->device);
      ps_table_set_integer (table, "predicted_ns", op->predicted_ns);
      ps_table_set_integer (table, "measured_ns", op->measured_ns);
      ps_table_set_integer (table, "difference_ns", op->predicted_ns - op->measured_ns);
      ps_table_set_ratio (table, "error", ps_relative_error (op->predicted_ns, op->measured_ns));
      ps_table_set_integer (table, "predicted_start_ns", op->predicted_start_ns);
      ps_table_set_integer (table, "measured_start_ns", op->measured_start_ns);
    }
  return table;
}

/* Says how to read the columns. */
static void
append_legend (GString *text, const PsComparison *comparison)
{
  if (!comparison->alike)
    {
      g_string_append (text, "error = (predicted - measured) / measured; of ratios: predicted - measured\n");
      return;
    }
  g_string_append_printf (text, "first: %s; second: %s\n", comparison->schedule[0], comparison->schedule[1]);
  g_string_append (text, "deviation = (first - second) / second; of ratios: first - second\n");
  if (comparison->n_only[0] + comparison->n_only[1] > 0)
    g_string_append_printf (text, "ops that only one has are not compared: %u of the first, %u of the second\n",
                            comparison->n_only[0], comparison->n_only[1]);
}

static void
append_interval (GString *text, const PsComparison *comparison)
{
  g_autofree char *interval = ps_interval_to_text (&comparison->interval);
  gint64 measured_ns = comparison->measured.iteration_ns;
  const char *place = measured_ns < comparison->interval.p10_ns   ? "below it"
                      : measured_ns > comparison->interval.p90_ns ? "above it"
                                                                  : "inside";

  if (comparison->interval.p90_ns > 0)
    g_string_append_printf (text, "80 of 100 runs were predicted to take %s (p10 .. p90): this one lies %s\n", interval,
                            place);
}

/* The run was measured in a weather that the profile does not know. */
static void
append_usual (GString *text, const PsComparison *comparison)
{
  g_autofree char *usual = ps_format_time (comparison->usual_ns);

  if (comparison->usual_ns > 0)
    g_string_append_printf (text,
                            "by the sentinel, on the machine as the profile found it the run would take %s: the "
                            "prediction is off by %+.2f %% then\n",
                            usual, 100 * ps_relative_error (comparison->predicted.iteration_ns, comparison->usual_ns));
}

char *
ps_comparison_to_text (const PsComparison *comparison, guint n_worst, const PsColumnChoice *choice, GError **error)
{
  Columns columns = templates;
  g_autoptr (PsTable) figures = figures_table (comparison, &columns);
  g_autoptr (PsTable) kinds = kinds_table (comparison, &columns);
  g_autoptr (PsTable) worst = worst_table (comparison, &columns, n_worst);
  PsTable *const tables[] = { figures, kinds, worst };
  g_autofree char *figures_text = NULL, *kinds_text = NULL, *worst_text = NULL, *head = NULL, *foot = NULL;
  g_autoptr (GString) legend = g_string_new (NULL), interval = g_string_new (NULL);

  name_columns (comparison, &columns);
  if (choice != NULL && !ps_tables_choose (tables, G_N_ELEMENTS (tables), choice, error))
    return NULL;
  GString *text = g_string_new (NULL);
  figures_text = ps_table_to_text (figures);
  kinds_text = ps_table_to_text (kinds);
  worst_text = ps_table_to_text (worst);
  append_legend (legend, comparison);
  append_interval (interval, comparison);
  append_usual (interval, comparison);
  head = ps_fit_sentence (legend->str, 0);
  foot = ps_fit_sentence (interval->str, 0);
  g_string_append_printf (text, "%s%s%s%s", head, *figures_text ? "\n" : "", figures_text, foot);
  g_string_append_printf (text, "%s%s", *kinds_text ? "\n" : "", kinds_text);
  if (ps_table_n_rows (worst) > 0 && *worst_text)
    g_string_append_printf (text, "\n%u worst of %u ops, by difference of duration\n%s", ps_table_n_rows (worst),
                            comparison->ops->len, worst_text);
  return g_string_free (text, FALSE);
}

static void
set_side (PsTable *table, const char *side, const PsMetrics *metrics)
{
  const struct
  {
    const char *key;
    gint64 value;

  } integers[] = {
    { "iteration_ns", metrics->iteration_ns },
    { "makespan_ns", metrics->makespan_ns },
    { "max_span_ns", metrics->max_span_ns },
    { "peak_memory_bytes", metrics->peak_memory_bytes },
  };
  g_autofree char *ratio = g_strconcat (side, "_bubble_ratio", NULL);
  g_autofree char *ratio_span = g_strconcat (side, "_bubble_ratio_span", NULL);

  /* An unknown peak stays null. */
  for (guint i = 0; i < G_N_ELEMENTS (integers) - (metrics->peak_memory_bytes == 0); i++)
    {
      g_autofree char *key = g_strconcat (side, "_", integers[i].key, NULL);

      ps_table_set_integer (table, key, integers[i].value);
    }
  ps_table_set_ratio (table, ratio, metrics->bubble_ratio);
  ps_table_set_ratio (table, ratio_span, metrics->bubble_ratio_span);
}

char *
ps_comparison_to_json (const PsComparison *comparison, guint n_worst)
{
  const char *const origins[] = { "origin", ps_origin_name (comparison->origin), NULL };
  Columns columns = templates;
  g_autoptr (PsTable) table
      = ps_table_new (columns.all, G_N_ELEMENTS (columns.all) - (comparison->alike ? 0 : N_ALIKE));

  ps_table_add_row (table);
  set_side (table, "predicted", &comparison->predicted);
  set_side (table, "measured", &comparison->measured);
  ps_table_set_ratio (table, "iteration_error", comparison->iteration_error);
  ps_table_set_ratio (table, "bubble_difference", comparison->bubble_difference);
  ps_table_set_ratio (table, "peak_memory_error", comparison->peak_memory_error);
  ps_table_set_table (table, "kinds", kinds_table (comparison, &columns));
  ps_table_set_table (table, "worst_ops", worst_table (comparison, &columns, n_worst));
  if (comparison->interval.p90_ns > 0)
    {
      ps_table_set_integer (table, "predicted_iteration_p10_ns", comparison->interval.p10_ns);
      ps_table_set_integer (table, "predicted_iteration_p90_ns", comparison->interval.p90_ns);
      ps_table_set_boolean (table, "inside_interval",
                            ps_interval_holds (&comparison->interval, comparison->measured.iteration_ns));
    }
  if (comparison->usual_ns > 0)
    ps_table_set_integer (table, "usual_iteration_ns", comparison->usual_ns);
  if (comparison->alike)
    {
      ps_table_set_integer (table, "first_only_ops", comparison->n_only[0]);
      ps_table_set_integer (table, "second_only_ops", comparison->n_only[1]);
    }
  name_columns (comparison, &columns);
  return ps_table_to_json (table, "pipesim-comparison/1", comparison->alike ? origins : NULL);
}
