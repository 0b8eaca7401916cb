/* predict-spread.c - samples of the iteration time as tables: quantiles, who wins, and what moves it most. */
#include "predict-spread.h"

#include <math.h>

#define N_WIDEST 20 /* bars of the tornado */

/* One schedule. */
typedef struct
{
  char *schedule;
  gboolean asynchronous;
  gint64 *iteration_ns; /* [n_samples] */
  PsDistribution distribution;
  GArray *tornado; /* PsTornadoBar; NULL: not asked for */
} Row;

struct _PsSpreadReport
{
  const PsSpreadOptions *options;
  const PsSetting *setting;
  GPtrArray *rows; /* Row */
};

static void
row_free (gpointer data)
{
  Row *row = data;

  g_free (row->schedule);
  g_free (row->iteration_ns);
  g_clear_pointer (&row->tornado, g_array_unref);
  g_free (row);
}

PsSpreadReport *
ps_spread_report_new (const PsSpreadOptions *options, const PsSetting *setting)
{
  PsSpreadReport *report = g_new0 (PsSpreadReport, 1);

  report->options = options;
  report->setting = setting;
  report->rows = g_ptr_array_new_with_free_func (row_free);
  return report;
}

void
ps_spread_report_free (PsSpreadReport *report)
{
  if (report == NULL)
    return;
  g_ptr_array_unref (report->rows);
  g_free (report);
}

/* Sampling */

static gboolean
sample (const PsSpreadReport *report, const PsPrediction *prediction, const PsUncertainty *uncertainty, Row *row,
        GError **error)
{
  const PsProgram *program = ps_prediction_hint (prediction);
  PsSampling sampling = report->options->sampling;

  sampling.events = ps_prediction_events (prediction);
  sampling.sync = report->setting->sync;
  sampling.reduce = report->setting->reduce;
  row->iteration_ns = ps_uncertainty_sample (program, prediction->costs, uncertainty, &sampling, error);
  if (row->iteration_ns == NULL)
    return FALSE;
  ps_distribution_init (&row->distribution, row->iteration_ns, sampling.n_samples,
                        ps_sampling_is_steady (&sampling, program));
  if (!report->options->tornado)
    return TRUE;
  row->tornado = ps_uncertainty_tornado (program, prediction->costs, uncertainty, &sampling, N_WIDEST, error);
  return row->tornado != NULL;
}

gboolean
ps_spread_report_add (PsSpreadReport *report, const PsPrediction *prediction, GError **error)
{
  const PsSchedule *schedule = prediction->program->schedule;
  PsUncertainty uncertainty = report->options->variation.uncertainty;
  g_autoptr (PsCostSpread) spread = NULL;

  if (!ps_uncertainty_check (&uncertainty, schedule->placement->n_devices, error))
    return FALSE;
  if (report->options->variation.is_measured)
    {
      spread = ps_setting_spread (report->setting, prediction->costs->shapes, schedule->placement->n_devices,
                                  schedule->placement->n_stages / schedule->placement->n_devices, error);
      if (spread == NULL)
        return FALSE;
      uncertainty.measured = spread;
    }
  Row *row = g_new0 (Row, 1);
  row->schedule = g_strdup (schedule->name);
  row->asynchronous = schedule->asynchronous;
  g_ptr_array_add (report->rows, row);
  return sample (report, prediction, &uncertainty, row, error);
}

/* Tables */

static const PsColumn sample_columns[] = {
  { "samples", NULL, PS_COLUMN_INTEGER },   { "seed", NULL, PS_COLUMN_INTEGER },
  { "mean_ns", "mean", PS_COLUMN_TIME },    { "mean_low_ns", NULL, PS_COLUMN_TIME },
  { "mean_high_ns", NULL, PS_COLUMN_TIME }, { "deviation_ns", "deviation", PS_COLUMN_TIME },
  { "p50_ns", "p50", PS_COLUMN_TIME },      { "p50_low_ns", NULL, PS_COLUMN_TIME },
  { "p50_high_ns", NULL, PS_COLUMN_TIME },  { "p90_ns", "p90", PS_COLUMN_TIME },
  { "p90_low_ns", NULL, PS_COLUMN_TIME },   { "p90_high_ns", NULL, PS_COLUMN_TIME },
  { "p99_ns", "p99", PS_COLUMN_TIME },      { "p99_low_ns", NULL, PS_COLUMN_TIME },
  { "p99_high_ns", NULL, PS_COLUMN_TIME },
};

static const PsColumn win_columns[] = {
  { "over", NULL, PS_COLUMN_TEXT },
  { "probability", NULL, PS_COLUMN_RATIO },
};

static const PsColumn tornado_columns[] = {
  { "part", "part", PS_COLUMN_TEXT },    { "deviation_ns", "deviation", PS_COLUMN_TIME },
  { "mean_ns", "mean", PS_COLUMN_TIME }, { "p10_ns", "p10", PS_COLUMN_TIME },
  { "p90_ns", "p90", PS_COLUMN_TIME },
};

static const Row *
find_row (const PsSpreadReport *report, const char *schedule)
{
  for (guint i = 0; i < report->rows->len; i++)
    if (g_str_equal (((const Row *)report->rows->pdata[i])->schedule, schedule))
      return report->rows->pdata[i];
  return NULL;
}

PsTable *
ps_spread_report_samples (const PsSpreadReport *report, const char *schedule)
{
  const Row *row = find_row (report, schedule);

  if (row == NULL)
    return NULL;
  PsTable *table = ps_table_new (sample_columns, G_N_ELEMENTS (sample_columns));
  ps_table_add_row (table);
  ps_table_set_integer (table, "samples", row->distribution.n);
  ps_table_set_integer (table, "seed", (gint64)report->options->sampling.seed);
  ps_table_set_integer (table, "mean_ns", llround (row->distribution.mean_ns));
  ps_table_set_integer (table, "mean_low_ns", llround (row->distribution.mean_low_ns));
  ps_table_set_integer (table, "mean_high_ns", llround (row->distribution.mean_high_ns));
  ps_table_set_integer (table, "deviation_ns", llround (row->distribution.deviation_ns));
  ps_table_set_integer (table, "p50_ns", row->distribution.p50.value_ns);
  ps_table_set_integer (table, "p50_low_ns", row->distribution.p50.low_ns);
  ps_table_set_integer (table, "p50_high_ns", row->distribution.p50.high_ns);
  ps_table_set_integer (table, "p90_ns", row->distribution.p90.value_ns);
  ps_table_set_integer (table, "p90_low_ns", row->distribution.p90.low_ns);
  ps_table_set_integer (table, "p90_high_ns", row->distribution.p90.high_ns);
  ps_table_set_integer (table, "p99_ns", row->distribution.p99.value_ns);
  ps_table_set_integer (table, "p99_low_ns", row->distribution.p99.low_ns);
  ps_table_set_integer (table, "p99_high_ns", row->distribution.p99.high_ns);
  return table;
}

PsTable *
ps_spread_report_wins (const PsSpreadReport *report, const char *schedule)
{
  const Row *row = find_row (report, schedule);

  if (row == NULL || report->rows->len < 2)
    return NULL;
  PsTable *table = ps_table_new (win_columns, G_N_ELEMENTS (win_columns));
  for (guint i = 0; i < report->rows->len; i++)
    {
      const Row *other = report->rows->pdata[i];

      if (other == row)
        continue;
      ps_table_add_row (table);
      ps_table_set_text (table, "over", other->schedule);
      ps_table_set_ratio (table, "probability",
                          ps_win_probability (row->iteration_ns, other->iteration_ns, row->distribution.n));
    }
  return table;
}

static char *
cause_name (const PsSpreadReport *report, const PsTornadoBar *bar)
{
  const PsSlowness *slowness = bar->slowness < 0 ? NULL : &report->options->variation.slowness[bar->slowness];

  if (slowness == NULL)
    {
      g_autofree char *part = ps_part_format (&bar->part);

      return g_strdup_printf ("jitter of %s", part);
    }
  if (slowness->link)
    return g_strdup_printf ("slow link %u-%u", slowness->a, slowness->b);
  return g_strdup_printf ("straggler %u", slowness->a);
}

PsTable *
ps_spread_report_tornado (const PsSpreadReport *report, const char *schedule)
{
  const Row *row = find_row (report, schedule);

  if (row == NULL || row->tornado == NULL)
    return NULL;
  PsTable *table = ps_table_new (tornado_columns, G_N_ELEMENTS (tornado_columns));
  for (guint i = 0; i < row->tornado->len; i++)
    {
      const PsTornadoBar *bar = &g_array_index (row->tornado, PsTornadoBar, i);
      g_autofree char *name = cause_name (report, bar);

      ps_table_add_row (table);
      ps_table_set_text (table, "part", name);
      ps_table_set_integer (table, "p10_ns", bar->p10_ns);
      ps_table_set_integer (table, "p90_ns", bar->p90_ns);
      ps_table_set_integer (table, "mean_ns", llround (bar->mean_ns));
      ps_table_set_integer (table, "deviation_ns", llround (bar->deviation_ns));
    }
  return table;
}

/* Text */

static const PsColumn text_columns[] = {
  { "schedule", "schedule", PS_COLUMN_TEXT }, { "mean_ns", "mean", PS_COLUMN_TIME },
  { "mean", "95 % of mean", PS_COLUMN_TEXT }, { "deviation_ns", "deviation", PS_COLUMN_TIME },
  { "p50_ns", "p50", PS_COLUMN_TIME },        { "p50", "95 % of p50", PS_COLUMN_TEXT },
  { "p90_ns", "p90", PS_COLUMN_TIME },        { "p90", "95 % of p90", PS_COLUMN_TEXT },
  { "p99_ns", "p99", PS_COLUMN_TIME },        { "p99", "95 % of p99", PS_COLUMN_TEXT },
};

static void
set_estimate (PsTable *table, const char *value_key, const char *interval_key, const PsQuantile *estimate)
{
  g_autofree char *low = ps_format_time (estimate->low_ns), *high = ps_format_time (estimate->high_ns),
                  *interval = g_strdup_printf ("%s .. %s", low, high);

  ps_table_set_integer (table, value_key, estimate->value_ns);
  ps_table_set_text (table, interval_key, interval);
}

static PsTable *
quantile_table (const PsSpreadReport *report)
{
  PsTable *table = ps_table_new (text_columns, G_N_ELEMENTS (text_columns));

  for (guint i = 0; i < report->rows->len; i++)
    {
      const Row *row = report->rows->pdata[i];
      const PsDistribution *distribution = &row->distribution;
      const PsQuantile mean = { llround (distribution->mean_ns), llround (distribution->mean_low_ns),
                                llround (distribution->mean_high_ns) };

      ps_table_add_row (table);
      ps_table_set_text (table, "schedule", row->schedule);
      set_estimate (table, "mean_ns", "mean", &mean);
      ps_table_set_integer (table, "deviation_ns", llround (distribution->deviation_ns));
      set_estimate (table, "p50_ns", "p50", &distribution->p50);
      set_estimate (table, "p90_ns", "p90", &distribution->p90);
      set_estimate (table, "p99_ns", "p99", &distribution->p99);
    }
  return table;
}

/* Row by column: how often the row's schedule is faster. Columns are numbers, for 20 names would not fit on a line. */
static char *
win_matrix (const PsSpreadReport *report)
{
  guint n = report->rows->len;
  g_autofree PsColumn *columns = g_new0 (PsColumn, n + 1);
  g_auto (GStrv) titles = g_new0 (char *, n + 1);

  columns[0] = (PsColumn){ "schedule", "schedule", PS_COLUMN_TEXT };
  for (guint i = 0; i < n; i++)
    {
      titles[i] = g_strdup_printf ("%u", i + 1);
      columns[i + 1] = (PsColumn){ titles[i], titles[i], PS_COLUMN_RATIO };
    }
  g_autoptr (PsTable) table = ps_table_new (columns, n + 1);
  for (guint i = 0; i < n; i++)
    {
      const Row *row = report->rows->pdata[i];
      g_autofree char *name = g_strdup_printf ("%2u %s", i + 1, row->schedule);

      ps_table_add_row (table);
      ps_table_set_text (table, "schedule", name);
      for (guint k = 0; k < n; k++)
        if (k != i)
          ps_table_set_ratio (table, titles[k],
                              ps_win_probability (row->iteration_ns,
                                                  ((const Row *)report->rows->pdata[k])->iteration_ns,
                                                  row->distribution.n));
    }
  return ps_table_to_text (table);
}

static int
compare_rows (gconstpointer a, gconstpointer b)
{
  const Row *x = *(Row *const *)a, *y = *(Row *const *)b;
  gint64 p50_x = x->distribution.p50.value_ns, p50_y = y->distribution.p50.value_ns;

  return x->asynchronous != y->asynchronous ? x->asynchronous - y->asynchronous : PS_COMPARE (p50_x, p50_y);
}

char *
ps_spread_report_to_text (PsSpreadReport *report)
{
  const PsSampling *sampling = &report->options->sampling;
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree char *causes = ps_variation_describe (&report->options->variation), *quantiles = NULL;

  g_ptr_array_sort (report->rows, compare_rows);
  g_autoptr (PsTable) table = quantile_table (report);
  quantiles = ps_table_to_text (table);
  g_string_append_printf (text, "\niteration time, simulated from %u samples, seed %" G_GUINT64_FORMAT "%s\n%s",
                          sampling->n_samples, sampling->seed, causes, quantiles);
  if (report->rows->len > 1)
    {
      g_autofree char *wins = win_matrix (report);

      g_string_append_printf (text, "\npart of the samples in which the row's schedule is faster than the column's\n%s",
                              wins);
    }
  for (guint i = 0; i < report->rows->len; i++)
    {
      g_autoptr (PsTable) tornado = ps_spread_report_tornado (report, ((const Row *)report->rows->pdata[i])->schedule);
      g_autofree char *bars = tornado != NULL ? ps_table_to_text (tornado) : NULL;

      if (bars != NULL)
        g_string_append_printf (text, "\niteration time with one cause of spread alone, %u samples each\n%s",
                                sampling->n_samples, bars);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}
