/* partition-rig.h - layers to cut, drawn at random. */
#pragma once

#include "error-rig.h"

#include <pipesim/partition.h>

/* A setting and what it points into. */
typedef struct
{
  PsLayers *layers;
  PsLink links[64];
  double speeds[64];
  gint64 limits[64];
  PsPartitionSetting setting;
} Case;

static inline void
case_clear (Case *c)
{
  ps_layers_free (c->layers);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

static inline guint
draw (GRand *rand, guint n)
{
  return (guint)g_rand_int_range (rand, 0, (gint32)n);
}

static inline void
set_layer (PsLayer *layer, gint64 time, gint64 output, gint64 parameters, gint64 kept)
{
  *layer = (PsLayer){ .name = g_strdup ("layer"),
                      .time_ns = time,
                      .forward_ns = time / 3,
                      .backward_ns = time / 3,
                      .weight_ns = time - 2 * (time / 3),
                      .full_backward_ns = time - time / 3,
                      .optimizer_ns = time / 50,
                      .flops = 7 * time,
                      .output_bytes = output,
                      .kept_bytes = kept,
                      .weight_kept_bytes = kept / 2,
                      .parameter_bytes = parameters,
                      .state_bytes = 4 * parameters };
}

/* Random layers on p devices; every figure is drawn, limits and speeds are not yet in use. */
static inline void
case_init (Case *c, GRand *rand, guint n_layers, guint p, guint v)
{
  static const double speeds[] = { 1, 2, 0.5, 1.25, 0.7, 3 };

  *c = (Case){ .layers = ps_layers_new (n_layers) };
  c->layers->has_flops = TRUE;
  c->layers->source = g_strdup ("test");
  for (guint i = 0; i < n_layers; i++)
    {
      /* One draw a line: compilers differ in the order of arguments. */
      guint time = draw (rand, 1000);
      guint output = draw (rand, 500);
      guint parameters = draw (rand, 200);

      set_layer (&c->layers->layers[i], time, output, parameters, draw (rand, 100));
    }
  for (guint s = 0; s < p * v; s++)
    {
      c->links[s].latency_ns = draw (rand, 50);
      c->links[s].bandwidth = p > 1 ? 1e9 / (1.0 + draw (rand, 2)) : 0;
    }
  for (guint d = 0; d < p; d++)
    {
      c->speeds[d] = speeds[draw (rand, G_N_ELEMENTS (speeds))];
      c->limits[d] = 500 + draw (rand, 3000);
    }
  c->setting = (PsPartitionSetting){ .layers = c->layers, .n_devices = p, .n_chunks = v, .links = c->links };
}

static inline PsPartition *
cut_with (const char *name, const PsPartitionSetting *setting)
{
  return fine (ps_partition (ps_partitioner_find (name), setting, &error));
}
