/* compare.c - matches the ops of a predicted and a measured timeline, sums up how far they are apart, and writes it as
 * text and JSON. */
#include "timeline-private.h"

#include <pipesim/observe.h>

#include <math.h>

void ps_comparison_free (PsComparison *comparison)
{
  if (comparison == NULL)
    return;
  ps_metrics_clear (&comparison->predicted);
  ps_metrics_clear (&comparison->measured);
  g_clear_pointer (&comparison->ops, g_array_unref);
  g_free (comparison->schedule[0]);
  g_free (comparison->schedule[1]);
  g_free (comparison);
}

double ps_relative_error (gint64 predicted, gint64 measured)
{
  return measured != 0 ? (double)(predicted - measured) / (double)measured : NAN;
}

/* Whether these are two timelines of one schedule */

/* Whether an index has each of the spans: as the only one of its op, or, of the other side's spans, at all. The
 * optimizer step is recorded by real runs only, so one side may lack it. */
static gboolean check_spans (const GArray *spans, const char *side, GHashTable *index, gboolean is_other,
                             GError **error)
{
  char name[48];

  for (guint i = 0; i < spans->len; i++) {
    const PsSpan *span = &g_array_index (spans, PsSpan, i), *found = ps_spans_find (index, span->op, span->device);

    if (is_other ? found == NULL && span->op.kind != PS_OP_O : found != span)
      return ps_refuse (error, PS_ERROR_INPUT,
                        is_other ? "device %u: only the %s timeline has %s" : "device %u: the %s timeline has %s twice",
                        span->device, side, ps_op_format (span->op, name));
  }
  return TRUE;
}

static gboolean check_same_schedule (const PsTimeline *predicted, GHashTable *predicted_ops, const PsTimeline *measured,
                                     GHashTable *measured_ops, GError **error)
{
  const struct {
    const char *what;
    guint predicted, measured;
  } counts[] = { { "devices", predicted->n_devices, measured->n_devices },
                 { "stages", predicted->n_stages, measured->n_stages },
                 { "microbatches", predicted->n_microbatches, measured->n_microbatches } };

  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    if (counts[i].predicted != counts[i].measured)
      return ps_refuse (error, PS_ERROR_INPUT, "timelines: predicted with %u %s, measured with %u", counts[i].predicted,
                        counts[i].what, counts[i].measured);
  return check_spans (predicted->ops, "predicted", measured_ops, TRUE, error)
         && check_spans (measured->ops, "measured", predicted_ops, TRUE, error);
}

/* Figures */

/* Compares spans that both sides have, each with the sums of its kind; of a single kind all count as one. differences:
 * takes a PsOpDifference of each; NULL: not wanted. */
static void compare_spans (const GArray *predicted, GHashTable *measured, struct PsKindError *kinds, guint n_kinds,
                           GArray *differences)
{
  GArray *errors[PS_N_OP_KINDS]; /* double: |relative error| of every span whose measured duration is not 0 */

  for (guint k = 0; k < n_kinds; k++)
    errors[k] = g_array_new (FALSE, FALSE, sizeof (double));
  for (guint i = 0; i < predicted->len; i++) {
    const PsSpan *span = &g_array_index (predicted, PsSpan, i), *other;
    guint k = n_kinds > 1 ? span->op.kind : 0;

    other = ps_spans_find (measured, span->op, span->device);
    if (other == NULL)
      continue;
    const PsOpDifference difference = { .op = span->op,
                                        .device = span->device,
                                        .predicted_ns = span->end_ns - span->start_ns,
                                        .measured_ns = other->end_ns - other->start_ns,
                                        .predicted_start_ns = span->start_ns,
                                        .measured_start_ns = other->start_ns };
    double error = fabs (ps_relative_error (difference.predicted_ns, difference.measured_ns));
    kinds[k].n++;
    kinds[k].predicted_ns += difference.predicted_ns;
    kinds[k].measured_ns += difference.measured_ns;
    if (!isnan (error))
      g_array_append_val (errors[k], error);
    if (differences != NULL)
      g_array_append_val (differences, difference);
  }
  for (guint k = 0; k < n_kinds; k++) {
    g_array_sort (errors[k], ps_compare_double);
    kinds[k].error = ps_relative_error (kinds[k].predicted_ns, kinds[k].measured_ns);
    kinds[k].median_abs_error = errors[k]->len > 0 ? g_array_index (errors[k], double, (errors[k]->len - 1) / 2) : NAN;
    g_array_unref (errors[k]);
  }
}

static int compare_differences (gconstpointer a, gconstpointer b)
{
  const PsOpDifference *x = a, *y = b;
  gint64 dx = ABS (x->predicted_ns - x->measured_ns), dy = ABS (y->predicted_ns - y->measured_ns);

  return PS_COMPARE (dy, dx);
}

/* Executors measure no buffers of messages: the predicted peaks leave them out. */
static void leave_out_buffers (const PsTimeline *predicted, PsMetrics *metrics)
{
  metrics->peak_memory_bytes = 0;
  for (guint d = 0; d < metrics->n_devices; d++)
    metrics->device[d].peak_memory_bytes = 0;
  for (guint i = 0; i < predicted->memory->len; i++) {
    const PsMemoryPoint *point = &g_array_index (predicted->memory, PsMemoryPoint, i);
    gint64 bytes = point->bytes - point->buffer_bytes, *peak = &metrics->device[point->device].peak_memory_bytes;

    *peak = MAX (*peak, bytes);
    metrics->peak_memory_bytes = MAX (metrics->peak_memory_bytes, bytes);
  }
}

static void compare_figures (PsComparison *comparison, const PsTimeline *first, const PsTimeline *second)
{
  PsMetrics *predicted = &comparison->predicted, *measured = &comparison->measured;

  ps_metrics_from_timeline (first, predicted);
  ps_metrics_from_timeline (second, measured);
  if (!comparison->alike) {
    leave_out_buffers (first, predicted);
    comparison->interval = first->interval;
    comparison->usual_ns = second->usual_ns;
  }
  comparison->iteration_error = ps_relative_error (predicted->iteration_ns, measured->iteration_ns);
  comparison->bubble_difference = predicted->bubble_ratio - measured->bubble_ratio;
  comparison->peak_memory_error = predicted->peak_memory_bytes > 0
                                      ? ps_relative_error (predicted->peak_memory_bytes, measured->peak_memory_bytes)
                                      : NAN;
}

PsComparison *ps_compare (const PsTimeline *predicted, const PsTimeline *measured, GError **error)
{
  g_autoptr (PsComparison) comparison = g_new0 (PsComparison, 1);
  g_autoptr (GHashTable) predicted_ops = ps_spans_index (predicted->ops), measured_ops = ps_spans_index (measured->ops);
  g_autoptr (GHashTable) transfers = ps_spans_index (measured->transfers);

  comparison->alike = predicted->origin == measured->origin;
  comparison->origin = predicted->origin;
  comparison->schedule[0] = g_strdup (predicted->schedule);
  comparison->schedule[1] = g_strdup (measured->schedule);
  comparison->ops = g_array_new (FALSE, FALSE, sizeof (PsOpDifference));
  if (!comparison->alike && measured->origin != PS_ORIGIN_MEASURED)
    return ps_refuse_null (error, PS_ERROR_INPUT,
                           "timelines: the first is measured and the second is simulated; the simulated one comes "
                           "first");
  if (!check_spans (predicted->ops, comparison->alike ? "first" : "predicted", predicted_ops, FALSE, error)
      || !check_spans (measured->ops, comparison->alike ? "second" : "measured", measured_ops, FALSE, error)
      || (!comparison->alike && !check_same_schedule (predicted, predicted_ops, measured, measured_ops, error)))
    return NULL;
  if (ps_timeline_n_slices (predicted) != ps_timeline_n_slices (measured)
      || predicted->n_stages != measured->n_stages) {
    comparison->apart = TRUE;
    g_hash_table_remove_all (measured_ops);
    g_hash_table_remove_all (transfers);
  }
  compare_figures (comparison, predicted, measured);
  compare_spans (predicted->ops, measured_ops, comparison->kind, PS_N_OP_KINDS, comparison->ops);
  compare_spans (predicted->transfers, transfers, &comparison->transfer, 1, NULL);
  comparison->n_only[0] = predicted->ops->len - comparison->ops->len;
  comparison->n_only[1] = measured->ops->len - comparison->ops->len;
  g_array_sort (comparison->ops, compare_differences);
  return g_steal_pointer (&comparison);
}

/* Tables, with the keys and headings for a prediction and a run */

typedef struct {
  PsOpDifference difference;
  const char *name;
  gint64 difference_ns;
  double error;
} OpRow;

typedef struct {
  const char *name;
  struct PsKindError kind;
} KindRow;

static const PsCellColumn kind_columns[] = {
  PS_CELL (KindRow, name, "kind", "op kind", TEXT),
  PS_CELL (KindRow, kind.n, "n", "ops", INTEGER),
  PS_CELL (KindRow, kind.predicted_ns, "predicted_ns", "predicted sum", TIME),
  PS_CELL (KindRow, kind.measured_ns, "measured_ns", "measured sum", TIME),
  PS_CELL (KindRow, kind.error, "error", "error of sums", PERCENT),
  PS_CELL (KindRow, kind.median_abs_error, "median_abs_error", "median |error|", PERCENT),
};

static const PsCellColumn op_columns[] = {
  PS_CELL (OpRow, name, "op", "op", TEXT),
  PS_CELL (OpRow, difference.device, "device", "device", INTEGER),
  PS_CELL (OpRow, difference.predicted_ns, "predicted_ns", "predicted", TIME),
  PS_CELL (OpRow, difference.measured_ns, "measured_ns", "measured", TIME),
  PS_CELL (OpRow, difference_ns, "difference_ns", "difference", TIME),
  PS_CELL (OpRow, error, "error", "error", PERCENT),
  PS_CELL (OpRow, difference.predicted_start_ns, "predicted_start_ns", "predicted start", TIME),
  PS_CELL (OpRow, difference.measured_start_ns, "measured_start_ns", "measured start", TIME),
};

#define BOTH(member, key, type)                                                                                        \
  PS_CELL (PsComparison, predicted.member, "predicted_" key, NULL, type),                                              \
      PS_CELL (PsComparison, measured.member, "measured_" key, NULL, type)
#define N_ALIKE 2 /* the last columns are those of timelines that are alike */

static const PsCellColumn json_columns[] = {
  BOTH (iteration_ns, "iteration_ns", TIME),
  PS_CELL (PsComparison, iteration_error, "iteration_error", NULL, PERCENT),
  BOTH (makespan_ns, "makespan_ns", TIME),
  BOTH (max_span_ns, "max_span_ns", TIME),
  BOTH (bubble_ratio, "bubble_ratio", RATIO),
  PS_CELL (PsComparison, bubble_difference, "bubble_difference", NULL, RATIO),
  BOTH (bubble_ratio_span, "bubble_ratio_span", RATIO),
  PS_CELL_KNOWN (PsComparison, predicted.peak_memory_bytes, "predicted_peak_memory_bytes", NULL, SIZE),
  PS_CELL_KNOWN (PsComparison, measured.peak_memory_bytes, "measured_peak_memory_bytes", NULL, SIZE),
  PS_CELL (PsComparison, peak_memory_error, "peak_memory_error", NULL, PERCENT),
  PS_CELL_SET ("kinds", NULL, TABLE),
  PS_CELL_SET ("worst_ops", NULL, TABLE),
  PS_CELL_KNOWN (PsComparison, interval.p10_ns, "predicted_iteration_p10_ns", NULL, TIME),
  PS_CELL_KNOWN (PsComparison, interval.p90_ns, "predicted_iteration_p90_ns", NULL, TIME),
  PS_CELL_SET ("inside_interval", NULL, BOOLEAN),
  PS_CELL_KNOWN (PsComparison, usual_ns, "usual_iteration_ns", NULL, TIME),
  PS_CELL (PsComparison, n_only[0], "first_only_ops", NULL, INTEGER),
  PS_CELL (PsComparison, n_only[1], "second_only_ops", NULL, INTEGER),
};

static const char *replace (const char *text)
{
  g_autoptr (GString) string = g_string_new (text);

  g_string_replace (string, "predicted", "first", 0);
  g_string_replace (string, "measured", "second", 0);
  g_string_replace (string, "error", "deviation", 0);
  return g_intern_string (string->str);
}

/* A table with these columns, named after the two timelines. */
static PsTable *new_table (const PsComparison *comparison, const PsCellColumn *columns, guint n)
{
  g_autofree PsCellColumn *named = g_memdup2 (columns, n * sizeof *columns);

  for (guint i = 0; i < n && comparison->alike; i++) {
    named[i].column.key = replace (named[i].column.key);
    named[i].column.title = named[i].column.title != NULL ? replace (named[i].column.title) : NULL;
  }
  return ps_table_of (named, n, NULL, 0, 0);
}

static char *format_error (double error)
{
  return isnan (error) ? g_strdup ("-") : g_strdup_printf ("%+.2f %%", error * 100);
}

static char *format_figure (PsColumnType type, gconstpointer value)
{
  if (type == PS_COLUMN_RATIO)
    return g_strdup_printf ("%.4f", *(const double *)value);
  gint64 number = *(const gint64 *)value;
  return type == PS_COLUMN_TIME ? ps_format_time (number)
         : number > 0           ? ps_format_size (number)
                                : g_strdup ("not known");
}

typedef struct {
  const char *title, *predicted, *measured, *error;
} FigureRow;

/* One row for each figure. Each has a unit of its own, so the cells are texts. */
static PsTable *figures_table (const PsComparison *comparison)
{
  static const PsCellColumn columns[] = {
    PS_CELL (FigureRow, title, "figure", "figure", TEXT),
    PS_CELL (FigureRow, predicted, "predicted", "predicted (simulated)", TEXT),
    PS_CELL (FigureRow, measured, "measured", "measured", TEXT),
    PS_CELL (FigureRow, error, "error", "error", TEXT),
  };
  static const struct {
    const char *key;
    gsize offset;
  } figures[] = {
    { "iteration_ns", offsetof (PsMetrics, iteration_ns) },
    { "makespan_ns", offsetof (PsMetrics, makespan_ns) },
    { "max_span_ns", offsetof (PsMetrics, max_span_ns) },
    { "bubble_ratio", offsetof (PsMetrics, bubble_ratio) },
    { "bubble_ratio_span", offsetof (PsMetrics, bubble_ratio_span) },
    { "peak_memory_bytes", offsetof (PsMetrics, peak_memory_bytes) },
  };
  PsTable *table = new_table (comparison, columns, G_N_ELEMENTS (columns));

  if (comparison->alike) {
    gboolean simulated = comparison->origin == PS_ORIGIN_SIMULATED;

    ps_table_set_title (table, "first", simulated ? "first (simulated)" : "first (measured)");
    ps_table_set_title (table, "second", simulated ? "second (simulated)" : "second (measured)");
  }
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++) {
    const PsColumn *figure = ps_figure (figures[i].key);
    gconstpointer x = (const char *)&comparison->predicted + figures[i].offset;
    gconstpointer y = (const char *)&comparison->measured + figures[i].offset;
    g_autofree char *predicted = format_figure (figure->type, x), *measured = format_figure (figure->type, y);
    g_autofree char *error = figure->type == PS_COLUMN_RATIO
                                 ? g_strdup_printf ("%+.4f", *(const double *)x - *(const double *)y)
                                 : format_error (figure->type == PS_COLUMN_SIZE
                                                     ? comparison->peak_memory_error
                                                     : ps_relative_error (*(const gint64 *)x, *(const gint64 *)y));
    g_autofree char *title = g_strconcat (
        figure->title, figure->type == PS_COLUMN_SIZE && !comparison->alike ? " without buffers" : "", NULL);

    ps_table_add (table, &(FigureRow){ title, predicted, measured, error });
  }
  return table;
}

/* Error per op kind and the worst ops: the same tables in text and JSON. */
static PsTable *kinds_table (const PsComparison *comparison)
{
  PsTable *table = new_table (comparison, kind_columns, G_N_ELEMENTS (kind_columns));

  for (guint k = 0; k <= PS_N_OP_KINDS; k++) {
    const KindRow row = { k < PS_N_OP_KINDS ? ps_op_kind_name (k) : "transfer",
                          k < PS_N_OP_KINDS ? comparison->kind[k] : comparison->transfer };

    if (row.kind.n > 0)
      ps_table_add (table, &row);
  }
  return table;
}

static PsTable *worst_table (const PsComparison *comparison, guint n_worst)
{
  PsTable *table = new_table (comparison, op_columns, G_N_ELEMENTS (op_columns));
  char name[48];

  for (guint i = 0; i < MIN (n_worst, comparison->ops->len); i++) {
    const PsOpDifference *op = &g_array_index (comparison->ops, PsOpDifference, i);

    ps_table_add (table, &(OpRow){ .difference = *op,
                                   .name = ps_op_format (op->op, name),
                                   .difference_ns = op->predicted_ns - op->measured_ns,
                                   .error = ps_relative_error (op->predicted_ns, op->measured_ns) });
  }
  return table;
}

/* Says how to read the columns. */
static char *write_legend (const PsComparison *comparison)
{
  if (!comparison->alike)
    return g_strdup ("error = (predicted - measured) / measured; of ratios: predicted - measured\n");
  GString *text = g_string_new (NULL);
  g_string_append_printf (text, "first: %s; second: %s\n", comparison->schedule[0], comparison->schedule[1]);
  g_string_append (text, "deviation = (first - second) / second; of ratios: first - second\n");
  if (comparison->n_only[0] + comparison->n_only[1] > 0)
    g_string_append_printf (text, "ops that only one has are not compared: %u of the first, %u of the second\n",
                            comparison->n_only[0], comparison->n_only[1]);
  if (comparison->apart)
    g_string_append (text, "numbers of stages or slices differ, so that no op of one is an op of the other\n");
  return g_string_free (text, FALSE);
}

/* Where the run lies in the predicted interval, and what it would have taken on the machine as its profile knows it. */
static char *write_remarks (const PsComparison *comparison)
{
  g_autofree char *interval = ps_interval_to_text (&comparison->interval);
  g_autofree char *usual = ps_format_time (comparison->usual_ns);
  gint64 measured_ns = comparison->measured.iteration_ns;
  const char *place = measured_ns < comparison->interval.p10_ns   ? "below it"
                      : measured_ns > comparison->interval.p90_ns ? "above it"
                                                                  : "inside";
  GString *text = g_string_new (NULL);

  if (comparison->interval.p90_ns > 0)
    g_string_append_printf (text, "80 of 100 runs were predicted to take %s (p10 .. p90): this one lies %s\n", interval,
                            place);
  if (comparison->usual_ns > 0)
    g_string_append_printf (text,
                            "by the sentinel, on the machine as the profile found it the run would take %s: the "
                            "prediction is off by %+.2f %% then\n",
                            usual, 100 * ps_relative_error (comparison->predicted.iteration_ns, comparison->usual_ns));
  return g_string_free (text, FALSE);
}

char *ps_comparison_to_text (const PsComparison *comparison, guint n_worst, const PsColumnChoice *choice,
                             GError **error)
{
  g_autoptr (PsTable) figures = figures_table (comparison), kinds = kinds_table (comparison);
  g_autoptr (PsTable) worst = worst_table (comparison, n_worst);
  PsTable *const tables[] = { figures, kinds, worst };

  if (choice != NULL && !ps_tables_choose (tables, G_N_ELEMENTS (tables), choice, error))
    return NULL;
  g_autofree char *figures_text = ps_table_to_text (figures), *kinds_text = ps_table_to_text (kinds),
                  *worst_text = ps_table_to_text (worst);
  g_autofree char *legend = write_legend (comparison), *remarks = write_remarks (comparison);
  g_autofree char *head = ps_fit_sentence (legend, 0), *foot = ps_fit_sentence (remarks, 0);
  GString *text = g_string_new (head);
  g_string_append_printf (text, "%s%s%s", *figures_text ? "\n" : "", figures_text, foot);
  if (ps_table_n_rows (kinds) > 0)
    g_string_append_printf (text, "%s%s", *kinds_text ? "\n" : "", kinds_text);
  if (ps_table_n_rows (worst) > 0 && *worst_text)
    g_string_append_printf (text, "\n%u worst of %u ops, by difference of duration\n%s", ps_table_n_rows (worst),
                            comparison->ops->len, worst_text);
  return g_string_free (text, FALSE);
}

char *ps_comparison_to_json (const PsComparison *comparison, guint n_worst)
{
  const char *const origins[] = { "origin", ps_origin_name (comparison->origin), NULL };
  gboolean alike = comparison->alike;
  g_autoptr (PsTable) table = new_table (comparison, json_columns, G_N_ELEMENTS (json_columns) - (alike ? 0 : N_ALIKE));

  ps_table_add (table, comparison);
  ps_table_set_table (table, "kinds", kinds_table (comparison));
  ps_table_set_table (table, "worst_ops", worst_table (comparison, n_worst));
  if (comparison->interval.p90_ns > 0)
    ps_table_set_boolean (table, "inside_interval",
                          ps_interval_holds (&comparison->interval, comparison->measured.iteration_ns));
  return ps_table_to_json (table, "pipesim-comparison/1", alike ? origins : NULL);
}
