/* observed-spread.c - how the times that runs show spread, as if the runs were one calibration. */
#include <pipesim/observe.h>

#include <math.h>

typedef struct
{
  PsCostSpread *spread;
  GPtrArray *rows; /* of GPtrArray of one PsMeasurement */
} Collector;

static gint64
deviation (const gint64 *samples, guint n, gint64 median_ns)
{
  g_autofree gint64 *distances = g_new (gint64, n);

  for (guint i = 0; i < n; i++)
    distances[i] = ABS (samples[i] - median_ns);
  return ps_median (distances, n);
}

static PsMeasurement *
measure (const GArray *samples)
{
  PsMeasurement *m = g_new0 (PsMeasurement, 1);
  g_autofree gint64 *sorted = g_memdup2 (samples->data, samples->len * sizeof *sorted);

  m->samples_ns = g_memdup2 (samples->data, samples->len * sizeof *m->samples_ns);
  m->n_samples = m->time.n = samples->len;
  m->time.median_ns = ps_median (sorted, samples->len);
  m->time.mad_ns = deviation (m->samples_ns, samples->len, m->time.median_ns);
  return m;
}

/* The samples over their median. Notes them as another row, that of the cost; no samples: the cost has none. */
static GArray *
add_row (Collector *collector, guint cost, const GArray *samples)
{
  GPtrArray *row;

  collector->spread->row[cost] = PS_NO_ROW;
  if (samples->len == 0)
    return NULL;
  PsMeasurement *m = measure (samples);
  GArray *relative = g_array_sized_new (FALSE, FALSE, sizeof (double), samples->len);
  for (guint i = 0; i < samples->len; i++)
    {
      double sample = (double)m->samples_ns[i] / (double)MAX (m->time.median_ns, 1);

      g_array_append_val (relative, sample);
      collector->spread->largest = MAX (collector->spread->largest, sample);
    }
  row = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_measurement_free);
  g_ptr_array_add (row, m);
  collector->spread->row[cost] = collector->rows->len;
  g_ptr_array_add (collector->rows, row);
  return relative;
}

static void
add_ops (Collector *collector, const PsObserved *observed)
{
  guint n = observed->n_stages;

  for (guint i = 0; i < PS_N_OP_KINDS * n; i++)
    {
      gboolean like_forward = i / n == PS_OP_R && observed->op[i]->len == 0;

      collector->spread->op[i] = add_row (collector, i, observed->op[like_forward ? PS_OP_F * n + i % n : i]);
    }
}

/* All boundaries together, each relative to its own median: so a slow link is no spread. */
static void
add_transfers (Collector *collector, const PsObserved *observed)
{
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (gint64));

  for (guint i = 1; i <= 2 * observed->n_stages; i++)
    {
      const GArray *samples = observed->transfer[i];
      g_autofree gint64 *sorted = g_memdup2 (samples->data, samples->len * sizeof *sorted);
      gint64 median_ns = samples->len > 0 ? MAX (ps_median (sorted, samples->len), 1) : 0;

      for (guint k = 0; k < samples->len; k++)
        {
          double relative = (double)g_array_index (samples, gint64, k) / (double)median_ns;
          gint64 ns = llround (1e6 * MIN (relative, 1e6));

          g_array_append_val (all, ns);
        }
    }
  collector->spread->transfer = add_row (collector, PS_N_OP_KINDS * observed->n_stages, all);
}

PsCostSpread *
ps_observed_spread (const PsObserved *observed)
{
  guint n = observed->n_stages;
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  g_autoptr (GPtrArray) sentinels = g_ptr_array_new_with_free_func ((GDestroyNotify)g_ptr_array_unref);
  PsCostSpread *spread = g_new0 (PsCostSpread, 1);
  Collector collector = { spread, rows };

  spread->n_stages = n;
  spread->largest = 1;
  spread->op = g_new0 (GArray *, (gsize)PS_N_OP_KINDS * n);
  spread->row = g_new (guint, (gsize)PS_N_OP_KINDS * n + 1);
  add_ops (&collector, observed);
  add_transfers (&collector, observed);
  spread->n_rows = rows->len;
  spread->deviation = g_new0 (double, rows->len);
  g_ptr_array_add (sentinels, g_ptr_array_new ());
  ps_cost_spread_set_runs (spread, rows, sentinels);
  return spread;
}
