/* fuzz-layers.c - the CSV of layers, and every algorithm on what was read. */
#include "fuzz.h"

#include <pipesim/partition.h>

#define MAX_LAYERS 64 /* above, algorithms that take n^2 steps would take all the time */

static void check_layers (const PsLayers *layers)
{
  gint64 time = 0;

  for (guint i = 0; i < layers->n_layers; i++) {
    const PsLayer *layer = &layers->layers[i];

    g_assert_cmpint (layer->forward_ns + layer->backward_ns + layer->weight_ns, ==, layer->time_ns);
    g_assert_cmpint (MIN (MIN (layer->forward_ns, layer->backward_ns), layer->weight_ns), >=, 0);
    g_assert_cmpint (layer->weight_kept_bytes, <=, layer->kept_bytes);
    time += layer->time_ns;
  }
  g_assert_cmpint (time, <=, PS_MAX_TIME_NS);
}

static void check_partition (const PsPartitionSetting *setting, const PsPartition *partition)
{
  guint next = 0, devices = 0;

  for (guint s = 0; s < partition->n_stages; s++) {
    g_assert_cmpuint (partition->stages[s].first, ==, next);
    g_assert_cmpuint (partition->stages[s].last, >=, next);
    next = partition->stages[s].last + 1;
    devices += partition->stages[s].replicas;
  }
  g_assert_cmpuint (next, ==, setting->layers->n_layers);
  g_assert_cmpuint (devices, ==, setting->n_devices);
  g_assert_cmpint (partition->bottleneck_ns, >=, 0);
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const PsLink links[] = { { .latency_ns = 3, .bandwidth = 1e9 }, { .bandwidth = 7 } };
  static const gint64 limit[] = { 1 << 20, 1 << 10, 1 << 20 };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsLayers) layers = ps_layers_parse ("fuzz", (const char *)data, size, &error);
  PsPartitionSetting setting = { .layers = layers,
                                 .n_devices = 3,
                                 .n_chunks = 1,
                                 .links = links,
                                 .memory_limit = limit,
                                 .n_microbatches = 4,
                                 .family = ps_family_find ("1f1b") };
  guint n;
  const PsPartitioner *partitioners = ps_partitioner_table (&n);

  fuzz_check_error (layers != NULL, &error);
  if (layers == NULL)
    return 0;
  check_layers (layers);
  for (guint i = 0; i < n && layers->n_layers <= MAX_LAYERS; i++) {
    g_autoptr (PsPartition) partition = ps_partition (&partitioners[i], &setting, &error);

    fuzz_check_error (partition != NULL, &error);
    if (partition != NULL)
      check_partition (&setting, partition);
  }
  return 0;
}
