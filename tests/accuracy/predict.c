/* predict.c - predicts the rows. */
#include "rows.h"

#include <math.h>

const char *row_cluster_name (const Row *row)
{
  return row->cluster != NULL ? row->cluster : row->set->cluster;
}

static PsCluster *row_cluster (const Row *row, const PsCluster *base)
{
  PsCluster *cluster = ps_cluster_copy (base);

  cluster->nodes = PS_MAX_DEVICES / cluster->devices_per_node;
  if (row->set->network > 0) {
    cluster->network_bandwidth = row->set->network;
    cluster->network_latency_ns = 7000;
  }
  if (row->set->split_ring > 0)
    cluster->split_ring_bandwidth = row->set->split_ring;
  if (row->set->kernel_ns > 0)
    cluster->kernel_ns = row->set->kernel_ns;
  if (row->set->collective_ns > 0)
    cluster->collective_ns = row->set->collective_ns;
  return cluster;
}

static void scale_ops (PsCosts *costs, double speed)
{
  for (guint i = 0; i < PS_OP_O * costs->n_stages; i++)
    costs->op[i].duration_ns = llrint ((double)costs->op[i].duration_ns * speed);
}

static gboolean keep_program (Row *row, GError **error)
{
  g_autoptr (PsPredictor) predictor = ps_predictor_new (row->setting, NULL);

  if (row->program == NULL)
    row->program = ps_predictor_program (predictor, row->schedule, error);
  return row->program != NULL;
}

static void simulate (Row *row, const PsCosts *costs)
{
  g_autoptr (PsSimulation) simulation = ps_simulation_new (row->program);
  PsMetrics metrics = { 0 };
  PsIteration iteration;

  if (ps_setting_needs_events (row->setting)) {
    const PsEventsSetting channels = { .comm = row->setting->comm, .overlap_slowdown = 1 };
    g_autoptr (GError) error = NULL;
    g_autoptr (PsEvents) events = ps_events_new (row->program, costs, &channels, &error);

    if (events == NULL || !ps_events_run (events, costs, simulation, &error)
        || !ps_iteration_events (row->program, costs, simulation, &channels, row->setting->sync, row->setting->reduce,
                                 &iteration, &error)) {
      row->reason = g_strdup (error->message);
      return;
    }
  } else {
    ps_simulate (row->program, costs, simulation);
    iteration = ps_iteration (row->program, costs, simulation, row->setting->sync, row->setting->reduce);
  }
  ps_metrics_from_simulation (row->program, simulation, &metrics);
  row->predicted_s = (double)iteration.period_ns / 1e9;
  row->predicted_bytes = 0;
  for (guint d = 0; d < metrics.n_devices; d++)
    row->predicted_bytes = MAX (row->predicted_bytes, (double)metrics.device[d].peak_memory_bytes);
  row->last_bytes = (double)metrics.device[metrics.n_devices - 1].peak_memory_bytes;
  ps_metrics_clear (&metrics);
}

double row_stated_bytes (const Row *row)
{
  gint64 context = row->counts_tensors ? ps_framework_context_bytes (row->model->framework) : 0;

  return (row->is_last ? row->last_bytes : row->predicted_bytes) - (double)context;
}

static gint64 ring_ns (const PsCluster *cluster, guint n, gint64 bytes)
{
  g_autofree guint *places = g_new (guint, n);

  for (guint i = 0; i < n; i++)
    places[i] = i;
  return ps_cluster_ring_ns (cluster, n, places, bytes);
}

void row_predict (Row *row, const PsCluster *base, double speed)
{
  g_autoptr (PsCluster) cluster = row_cluster (row, base);
  g_autoptr (GError) error = NULL;
  PsSetting *setting = row->setting;

  if (row->n_ring > 0) {
    row->predicted_s = (double)ring_ns (cluster, row->n_ring, row->ring_bytes) / 1e9;
    return;
  }
  if (row->pair != NULL) {
    row->predicted_s = (double)ps_overlap_pair_ns ((const PsPairLayer *)row->pair->data, row->pair->len) / 1e9;
    return;
  }
  g_free (setting->model);
  g_free (setting->cluster);
  setting->model = g_strdup ("row");
  setting->cluster = g_strdup (row_cluster_name (row));
  setting->known_model = row->model;
  setting->known_cluster = cluster;
  g_autoptr (PsCosts) costs = ps_setting_costs (setting, setting->n_devices, setting->n_chunks, &error);
  if (costs != NULL && keep_program (row, &error)) {
    scale_ops (costs, speed);
    simulate (row, costs);
  } else
    row->reason = g_strdup (error->message);
  setting->known_model = NULL;
  setting->known_cluster = NULL;
}
