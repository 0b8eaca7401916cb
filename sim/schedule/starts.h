/* starts.h - of the devices of a list scheduler, the one whose next op can start first. Private to libpipesim. */
#pragma once

#include <glib.h>

/* The start of the op that each device would run next, as the leaves of a tree of pairs. So the first is found without
 * asking all. */
typedef struct {
  guint n_leaves; /* a power of two */
  gint64 *ns;     /* [2 n_leaves] of a node, the least below it; leaf k is node n_leaves + k; node 1 is the root.
                     G_MAXINT64: none */
} PsStarts;

/* No device has an op yet. Free ns with g_free. */
static inline void ps_starts_init (PsStarts *starts, guint n_devices)
{
  starts->n_leaves = 1U << g_bit_storage (n_devices - 1);
  starts->ns = g_new (gint64, 2 * (gsize)starts->n_leaves);
  for (guint i = 0; i < 2 * starts->n_leaves; i++)
    starts->ns[i] = G_MAXINT64;
}

static inline void ps_starts_set (PsStarts *starts, guint device, gint64 ns)
{
  guint node = starts->n_leaves + device;

  starts->ns[node] = ns;
  for (node /= 2; node >= 1; node /= 2) {
    gint64 least = MIN (starts->ns[2 * node], starts->ns[2 * node + 1]);

    if (starts->ns[node] == least)
      break;
    starts->ns[node] = least;
  }
}

/* Of several devices with the same start, the lowest; G_MAXUINT: no device has an op. */
static inline guint ps_starts_first (const PsStarts *starts)
{
  guint node = 1;

  while (node < starts->n_leaves)
    node = 2 * node + (starts->ns[2 * node] > starts->ns[node]);
  return starts->ns[node] < G_MAXINT64 ? node - starts->n_leaves : G_MAXUINT;
}
