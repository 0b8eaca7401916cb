/* predict-rows.c - the rows of pipesim predict. */
#include "predict-rows.h"

#include "devices-detail.h"
#include "predict-explain.h"
#include "predict-memory.h"

#include <pipesim/costdb.h>
#include <pipesim/program.h>
#include <pipesim/setting.h>

#include <string.h>

struct _PsPredictRows
{
  const PsPredictShown *shown;
  const PsSetting *setting;
  PsColumn *columns;
  PsTable *table;
  GPtrArray *predictions; /* PsPrediction: those whose rows wait */
  PsMemoryRows *memory;   /* NULL: not asked for, as the next two */
  PsExplainReport *explain;
  PsSpreadReport *spread;
  GString *skipped;
  GString *asynchronous;  /* names of those schedules */
  gint64 first_ns;        /* iteration of the synchronous schedule that will stand first */
  const char *first_fits; /* its ps_fits; NULL: none yet */
  char *gain;             /* the schedule's layout against the even one; NULL: it is even, or was given */
  char *about;            /* what the costs are, those with the largest unrest; NULL: no prediction yet */
  double unrest;          /* the largest of all rows */
  GString *restless;      /* names of schedules whose costs were measured while the machine was not quiet */
  guint n_quiet;          /* the other rows */
  GArray *contenders;     /* Contender: the synchronous schedules */
};

typedef struct
{
  char *name;
  gint64 iteration_ns;
  PsInterval interval;
  const char *fits; /* ps_fits */
} Contender;

static void
contender_clear (gpointer contender)
{
  g_free (((Contender *)contender)->name);
}

void
ps_predict_rows_free (PsPredictRows *rows)
{
  if (rows == NULL)
    return;
  ps_table_free (rows->table);
  ps_memory_rows_free (rows->memory);
  ps_explain_report_free (rows->explain);
  ps_spread_report_free (rows->spread);
  g_ptr_array_unref (rows->predictions);
  g_string_free (rows->skipped, TRUE);
  g_string_free (rows->asynchronous, TRUE);
  g_string_free (rows->restless, TRUE);
  g_array_unref (rows->contenders);
  g_free (rows->columns);
  g_free (rows->about);
  g_free (rows->gain);
  g_free (rows);
}

static const PsColumn columns[] = {
  { "schedule", "schedule", PS_COLUMN_TEXT },
  { "devices", "p", PS_COLUMN_INTEGER },
  { "microbatches", "m", PS_COLUMN_INTEGER },
  { "chunks", "v", PS_COLUMN_INTEGER },
  { "makespan_ns", "makespan", PS_COLUMN_TIME },
  { "max_span_ns", NULL, PS_COLUMN_TIME },
  { "iteration_ns", "iteration", PS_COLUMN_TIME },
  { "iteration_p10_ns", NULL, PS_COLUMN_TIME },
  { "iteration_p50_ns", "p50", PS_COLUMN_TIME },
  { "iteration_p90_ns", NULL, PS_COLUMN_TIME },
  { "interval", "p10-p90", PS_COLUMN_TEXT },
  { "bubble_ratio", "bubble of iteration", PS_COLUMN_RATIO },
  { "bubble_ratio_span", "bubble of span", PS_COLUMN_RATIO },
  { "lower_bound_ns", "lower bound", PS_COLUMN_TIME },
  { "peak_memory_bytes", "peak memory", PS_COLUMN_SIZE },
  { "feasible", NULL, PS_COLUMN_BOOLEAN },
  { "fits", "fits", PS_COLUMN_TEXT },
  { "layout", "layout", PS_COLUMN_TEXT },
  { "microbatch_order", "microbatch order", PS_COLUMN_TEXT },
  { "asynchronous", NULL, PS_COLUMN_BOOLEAN }, /* "async" where a schedule is */
  { "devices_detail", NULL, PS_COLUMN_TABLE },
  { "period_iterations", NULL, PS_COLUMN_INTEGER },
  { "memory", NULL, PS_COLUMN_TABLE },
  { "critical_path", NULL, PS_COLUMN_TABLE },
  { "critical_iterations", NULL, PS_COLUMN_INTEGER },
  { "idle", NULL, PS_COLUMN_TABLE },
  { "slack", NULL, PS_COLUMN_TABLE },
  { "what_if", NULL, PS_COLUMN_TABLE },
  { "spread", NULL, PS_COLUMN_TABLE },
  { "wins", NULL, PS_COLUMN_TABLE },
  { "tornado", NULL, PS_COLUMN_TABLE },
};

static const char *const usual[] = { "schedule",          "devices",  "microbatches", "chunks",
                                     "iteration_ns",      "interval", "bubble_ratio", "lower_bound_ns",
                                     "peak_memory_bytes", "fits",     "layout",       "microbatch_order",
                                     "asynchronous",      NULL };

/* TRUE: iterations have intervals, because their costs are measured. */
static gboolean
has_intervals (const PsPredictRows *rows)
{
  const PsCostSource *source = ps_setting_source (rows->setting);

  return source != NULL && source->spread != NULL;
}

/* Columns that appear only where their option is used. */
static gboolean
is_wanted (const PsPredictRows *rows, const char *key)
{
  if (g_str_has_prefix (key, "iteration_p"))
    return has_intervals (rows);
  if (g_str_equal (key, "interval"))
    return has_intervals (rows) && !rows->shown->json;
  if (g_str_equal (key, "period_iterations"))
    return rows->setting->sync == PS_SYNC_BYPASS;
  if (g_str_equal (key, "layout"))
    return rows->setting->cluster != NULL || rows->setting->layout != NULL;
  if (g_str_equal (key, "microbatch_order"))
    return rows->setting->lengths != NULL;
  if (g_str_equal (key, "memory"))
    return rows->shown->memory;
  if (g_str_has_prefix (key, "critical_") || g_str_equal (key, "idle") || g_str_equal (key, "slack")
      || g_str_equal (key, "what_if"))
    return rows->shown->explain;
  if (g_str_equal (key, "spread"))
    return rows->shown->spread.sampling.n_samples > 0;
  if (g_str_equal (key, "wins"))
    return rows->shown->spread.sampling.n_samples > 0 && rows->shown->several;
  if (g_str_equal (key, "tornado"))
    return rows->shown->spread.tornado;
  return TRUE;
}

PsPredictRows *
ps_predict_rows_new (const PsPredictShown *shown, const PsSetting *setting, GError **error)
{
  g_autoptr (PsPredictRows) rows = g_new0 (PsPredictRows, 1);
  guint n = 0;

  rows->shown = shown;
  rows->setting = setting;
  rows->columns = g_new (PsColumn, G_N_ELEMENTS (columns));
  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    if (is_wanted (rows, columns[i].key))
      rows->columns[n++] = columns[i];
  rows->table = ps_table_new (rows->columns, n);
  ps_table_choose (rows->table, &shown->columns, usual);
  rows->predictions = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_prediction_free);
  rows->memory = shown->memory ? ps_memory_rows_new () : NULL;
  if (shown->spread.sampling.n_samples > 0)
    rows->spread = ps_spread_report_new (&shown->spread, setting);
  rows->skipped = g_string_new (NULL);
  rows->asynchronous = g_string_new (NULL);
  rows->restless = g_string_new (NULL);
  rows->contenders = g_array_new (FALSE, FALSE, sizeof (Contender));
  g_array_set_clear_func (rows->contenders, contender_clear);
  return ps_column_choice_check (&shown->columns, rows->columns, n, shown->json, error) ? g_steal_pointer (&rows)
                                                                                        : NULL;
}

static void
set_table (PsTable *table, const char *key, PsTable *nested)
{
  if (nested != NULL)
    ps_table_set_table (table, key, nested);
}

static void
add_explanation (PsTable *table, const PsExplainReport *report)
{
  set_table (table, "critical_path", ps_explain_report_path (report));
  ps_table_set_integer (table, "critical_iterations", ps_explain_report_iterations (report));
  set_table (table, "idle", ps_explain_report_idle (report));
  set_table (table, "slack", ps_explain_report_slack (report));
  set_table (table, "what_if", ps_explain_report_what_if (report));
}

static void
add_spread (const PsPredictRows *rows, PsTable *table, const char *schedule)
{
  set_table (table, "spread", ps_spread_report_samples (rows->spread, schedule));
  if (rows->shown->several)
    set_table (table, "wins", ps_spread_report_wins (rows->spread, schedule));
  if (rows->shown->spread.tornado)
    set_table (table, "tornado", ps_spread_report_tornado (rows->spread, schedule));
}

static void
add_interval (const PsPredictRows *rows, PsTable *table, const PsInterval *interval)
{
  g_autofree char *text = ps_interval_to_text (interval);

  ps_table_set_integer (table, "iteration_p10_ns", interval->p10_ns);
  ps_table_set_integer (table, "iteration_p50_ns", interval->p50_ns);
  ps_table_set_integer (table, "iteration_p90_ns", interval->p90_ns);
  if (!rows->shown->json)
    ps_table_set_text (table, "interval", text);
}

static void
note_gain (PsPredictRows *rows, const PsPrediction *prediction)
{
  gint64 iteration_ns = prediction->metrics.iteration_ns;
  g_autofree char *layout = ps_prediction_layout (prediction);

  int better = rows->first_fits != NULL ? strcmp (prediction->fits, rows->first_fits) : 1;

  if (prediction->program->schedule->asynchronous || better < 0 || (better == 0 && rows->first_ns <= iteration_ns))
    return;
  rows->first_ns = iteration_ns;
  rows->first_fits = prediction->fits;
  g_clear_pointer (&rows->gain, g_free);
  if (prediction->even_ns > iteration_ns)
    rows->gain = g_strdup_printf ("%s: layout %s: %.1f %% faster than even\n", prediction->program->schedule->name,
                                  layout, 100 * ((double)prediction->even_ns / (double)iteration_ns - 1));
  else if (prediction->even_ns > 0)
    rows->gain
        = g_strdup_printf ("%s: layout %s: fits, and even does not\n", prediction->program->schedule->name, layout);
}

/* The microbatches of --lengths as they enter the pipeline: "2,0,1". */
static char *
write_order (const PsPrediction *prediction)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < prediction->program->schedule->n_microbatches; i++)
    g_string_append_printf (text, "%s%u", i > 0 ? "," : "", prediction->order[i]);
  return g_string_free (text, FALSE);
}

static void
note_asynchronous (PsPredictRows *rows, const char *name)
{
  PsColumn *column = rows->columns;

  while (!g_str_equal (column->key, "asynchronous"))
    column++;
  column->title = "async";
  g_string_append_printf (rows->asynchronous, "%s%s", rows->asynchronous->len ? ", " : "", name);
}

static void
add_prediction (PsPredictRows *rows, const PsPrediction *prediction)
{
  g_autofree char *layout = is_wanted (rows, "layout") ? ps_prediction_layout (prediction) : NULL;
  g_autofree char *order = prediction->order != NULL ? write_order (prediction) : NULL;
  PsTable *table = rows->table;
  const PsSchedule *schedule = prediction->program->schedule;
  const PsMetrics *metrics = &prediction->metrics;

  ps_table_add_row (table);
  ps_table_set_text (table, "schedule", schedule->name);
  ps_table_set_integer (table, "devices", schedule->placement->n_devices);
  ps_table_set_integer (table, "microbatches", schedule->n_microbatches);
  ps_table_set_integer (table, "chunks", ps_placement_max_chunks (schedule->placement));
  ps_table_set_integer (table, "makespan_ns", metrics->makespan_ns);
  ps_table_set_integer (table, "max_span_ns", metrics->max_span_ns);
  ps_table_set_integer (table, "iteration_ns", metrics->iteration_ns);
  if (has_intervals (rows))
    add_interval (rows, table, &prediction->interval);
  ps_table_set_ratio (table, "bubble_ratio", metrics->bubble_ratio);
  ps_table_set_ratio (table, "bubble_ratio_span", metrics->bubble_ratio_span);
  ps_table_set_integer (table, "lower_bound_ns", prediction->lower_bound_ns);
  ps_table_set_integer (table, "peak_memory_bytes", metrics->peak_memory_bytes);
  ps_table_set_boolean (table, "feasible", prediction->feasible);
  ps_table_set_text (table, "fits", prediction->fits);
  if (layout != NULL)
    ps_table_set_text (table, "layout", layout);
  if (order != NULL)
    ps_table_set_text (table, "microbatch_order", order);
  note_gain (rows, prediction);
  ps_table_set_boolean (table, "asynchronous", schedule->asynchronous);
  if (schedule->asynchronous)
    note_asynchronous (rows, schedule->name);
  ps_table_set_table (table, "devices_detail", ps_devices_detail (metrics));
  if (rows->setting->sync == PS_SYNC_BYPASS && prediction->iteration.n_iterations > 0)
    ps_table_set_integer (table, "period_iterations", prediction->iteration.n_iterations);
  if (rows->shown->memory)
    ps_table_set_table (table, "memory", ps_memory_rows_add (rows->memory, prediction));
  if (rows->explain != NULL)
    add_explanation (table, rows->explain);
  if (rows->spread != NULL)
    add_spread (rows, table, schedule->name);
}

static char *
describe_costs (const PsCosts *costs)
{
  g_autofree char *description = ps_costs_describe (costs);

  return g_strconcat ("simulated from ", description, NULL);
}

/* Costs of one profile may be of different weathers: the rows' head is that of the worst. */
static void
note_unrest (PsPredictRows *rows, const PsPrediction *prediction)
{
  const PsCosts *costs = prediction->costs;

  if (rows->about == NULL || costs->unrest > rows->unrest)
    {
      g_free (rows->about);
      rows->about = describe_costs (costs);
      rows->unrest = costs->unrest;
    }
  if (costs->unrest > PS_SENTINEL_TOLERANCE)
    g_string_append_printf (rows->restless, "%s%s", rows->restless->len ? ", " : "",
                            prediction->program->schedule->name);
  else
    rows->n_quiet++;
}

/* A sampled row waits until all schedules are sampled, for it says how often it wins over the others. An explained
 * prediction stays for the printed explanation. */
gboolean
ps_predict_rows_take (PsPredictRows *rows, PsPrediction *prediction, GError **error)
{
  const PsPredictShown *shown = rows->shown;
  Contender contender = { g_strdup (prediction->program->schedule->name), prediction->metrics.iteration_ns,
                          prediction->interval, prediction->fits };

  g_ptr_array_add (rows->predictions, prediction);
  note_unrest (rows, prediction);
  if (prediction->program->schedule->asynchronous)
    contender_clear (&contender);
  else
    g_array_append_val (rows->contenders, contender);
  if (rows->spread == NULL && !shown->explain)
    {
      add_prediction (rows, prediction);
      g_ptr_array_set_size (rows->predictions, 0);
      return TRUE;
    }
  if (shown->explain)
    rows->explain = ps_explain_report_new (rows->setting, prediction, shown->faster, error);
  return (!shown->explain || rows->explain != NULL)
         && (rows->spread == NULL || ps_spread_report_add (rows->spread, prediction, error));
}

/* Constraints name their family themselves, missing measurements do not: families in a row share a reason. */
void
ps_predict_rows_skip (PsPredictRows *rows, const char *name, const GError *reason)
{
  GString *skipped = rows->skipped;
  g_autofree char *after = g_strconcat (": ", reason->message, NULL);
  gboolean named = g_str_has_prefix (reason->message, name);

  if (!named && g_str_has_suffix (skipped->str, after))
    {
      gssize end = (gssize)(skipped->len - strlen (after));

      g_string_insert (skipped, end, name);
      g_string_insert (skipped, end, ", ");
    }
  else
    g_string_append_printf (skipped, "%s%s%s", skipped->len ? "; " : "", named ? "" : name,
                            named ? reason->message : after);
}

gboolean
ps_predict_rows_are_empty (const PsPredictRows *rows)
{
  return rows->about == NULL;
}

/* What fits comes first, then what is tight. Asynchronous schedules train differently and are no winners: they come
 * last.
 */
static void
finish_rows (PsPredictRows *rows)
{
  for (guint i = 0; i < rows->predictions->len; i++)
    add_prediction (rows, rows->predictions->pdata[i]);
  ps_table_sort (rows->table, "iteration_ns", FALSE);
  ps_table_sort (rows->table, "fits", TRUE); /* yes, tight, no */
  ps_table_sort (rows->table, "asynchronous", FALSE);
}

/* Whether it stands before the other one: yes before tight before no, then the faster one. */
static gboolean
is_before (const Contender *a, const Contender *b)
{
  int fits = strcmp (b->fits, a->fits);

  return fits < 0 || (fits == 0 && a->iteration_ns < b->iteration_ns);
}

/* Names those that fit as the first one does, and whose p10-p90 overlaps its own; "" where it stands alone. Returns
 * their number. */
static guint
find_alike (const PsPredictRows *rows, GString *names)
{
  const Contender *all = (const Contender *)(gpointer)rows->contenders->data, *first = all;
  guint n = 0;

  for (guint i = 0; i < rows->contenders->len; i++)
    if (is_before (&all[i], first))
      first = &all[i];
  for (guint i = 0; i < rows->contenders->len && first->interval.p90_ns > 0; i++)
    if (g_str_equal (all[i].fits, first->fits) && all[i].interval.p10_ns <= first->interval.p90_ns
        && first->interval.p10_ns <= all[i].interval.p90_ns)
      g_string_append_printf (names, "%s%s", n++ > 0 ? ", " : "", all[i].name);
  if (n < 2)
    g_string_truncate (names, 0);
  return n;
}

/* The gain of the first row's layout, unrest of the machine (of several rows) and asynchronous rows. */
static char *
write_sentences (const PsPredictRows *rows)
{
  g_autofree char *unrest = ps_unrest_to_text (rows->unrest, rows->n_quiet > 0 ? rows->restless->str : "");
  g_autoptr (GString) alike = g_string_new (NULL);
  guint n_alike = find_alike (rows, alike);
  g_autoptr (GString) text = g_string_new (NULL);

  g_string_append_printf (text, "%s%s%s", rows->gain != NULL ? rows->gain : "", rows->shown->several ? unrest : "",
                          rows->shown->several && *unrest ? "\n" : "");
  if (alike->len > 0)
    g_string_append_printf (text, "these %u cannot be told apart, for their p10-p90 overlap that of the first: %s\n",
                            n_alike, alike->str);
  if (rows->asynchronous->len > 0)
    g_string_append_printf (text,
                            "%s: asynchronous; gradients are of older weights, the lower bound is that of the period",
                            rows->asynchronous->str);
  return ps_fit_sentence (text->str, 0);
}

gboolean
ps_predict_rows_print (PsPredictRows *rows, GError **error)
{
  g_autoptr (GString) alike = g_string_new (NULL);
  guint n_alike = find_alike (rows, alike);
  const char *extra[] = { "origin",           ps_origin_name (PS_ORIGIN_SIMULATED), "costs",    rows->about, "skipped",
                          rows->skipped->str, n_alike > 1 ? "alike" : NULL,         alike->str, NULL };
  g_autofree char *json = NULL, *text = NULL, *memory = NULL, *explain = NULL, *spread = NULL, *page = NULL;
  g_autofree char *about = NULL, *sentences = NULL;

  finish_rows (rows);
  if (rows->skipped->len && !rows->shown->json)
    g_printerr ("skipped: %s\n", rows->skipped->str);
  if (rows->shown->json)
    {
      json = ps_table_to_json (rows->table, "pipesim-predict/1", extra);
      return ps_print (json, error);
    }
  about = ps_fit_sentence (rows->about, 0);
  text = ps_table_to_text (rows->table);
  sentences = write_sentences (rows);
  memory = rows->memory != NULL ? ps_memory_rows_to_text (rows->memory) : NULL;
  explain = rows->explain != NULL ? ps_explain_report_to_text (rows->explain) : NULL;
  spread = rows->spread != NULL ? ps_spread_report_to_text (rows->spread) : NULL;
  page = g_strdup_printf ("%s%s%s%s%s%s%s", about, text, sentences,
                          memory != NULL ? "\nat the peak of each device\n" : "", memory != NULL ? memory : "",
                          explain != NULL ? explain : "", spread != NULL ? spread : "");
  return ps_print (page, error);
}
