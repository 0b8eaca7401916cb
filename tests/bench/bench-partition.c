/* bench-partition.c - how long the algorithms take to cut random chains. Prints medians. */
#include "bench-clock.h"

#include <pipesim/partition.h>

#include <stdio.h>

#define N_ROUNDS 5

static PsLayers *random_layers (guint n)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);
  PsLayers *layers = ps_layers_new (n);

  layers->has_flops = TRUE;
  layers->source = g_strdup ("random layers");
  for (guint i = 0; i < n; i++) {
    PsLayer *layer = &layers->layers[i];

    layer->forward_ns = layer->backward_ns = layer->weight_ns = g_rand_int_range (rand, 1, 1000000);
    layer->full_backward_ns = 2 * layer->forward_ns;
    layer->time_ns = 3 * layer->forward_ns;
    layer->flops = 1000 * layer->time_ns;
    layer->output_bytes = layer->kept_bytes = g_rand_int_range (rand, 1, 1 << 20);
    layer->parameter_bytes = g_rand_int_range (rand, 1, 1 << 20);
    layer->state_bytes = 4 * layer->parameter_bytes;
  }
  return layers;
}

static void bench (const char *name, guint n_layers, guint p, const char *family, guint m)
{
  g_autoptr (PsLayers) layers = random_layers (n_layers);
  g_autofree PsLink *links = g_new (PsLink, p);
  g_autofree gint64 *limit = g_new (gint64, p);
  g_autoptr (GError) error = NULL;
  PsPartitionSetting setting
      = { .layers = layers, .n_devices = p, .n_chunks = 1, .links = links, .n_microbatches = m, .memory_limit = limit };
  gint64 times[N_ROUNDS], bottleneck_ns = 0;

  setting.family = family != NULL ? ps_family_find (family) : NULL;
  for (guint d = 0; d < p; d++) {
    links[d] = (PsLink){ .latency_ns = 5000, .bandwidth = d % 8 == 7 ? 5e9 : 50e9 };
    limit[d] = (gint64)1 << 40;
  }
  for (guint round = 0; round < N_ROUNDS; round++) {
    gint64 start = clock_ns (CLOCK_MONOTONIC);
    g_autoptr (PsPartition) partition = ps_partition (ps_partitioner_find (name), &setting, &error);

    times[round] = clock_ns (CLOCK_MONOTONIC) - start;
    g_assert_no_error (error);
    bottleneck_ns = partition->bottleneck_ns;
  }
  printf ("partition %-14s %5u layers, p=%-3u %s%s: %8.1f ms, bottleneck %.3f ms\n", name, n_layers, p,
          family != NULL ? "schedule " : "", family != NULL ? family : "", (double)ps_median (times, N_ROUNDS) / 1e6,
          (double)bottleneck_ns / 1e6);
}

int main (void)
{
  bench ("parameters", 10000, 64, NULL, 0);
  bench ("bottleneck", 10000, 64, NULL, 0);
  bench ("memory-aware", 10000, 64, NULL, 0);
  bench ("pipedream", 100, 16, NULL, 0);
  bench ("pipedream", 500, 32, NULL, 0);
  bench ("schedule", 50, 8, "1f1b", 32);
  bench ("schedule", 200, 16, "1f1b", 64);
  bench ("schedule", 50, 8, "zb-auto", 32);
  return 0;
}
