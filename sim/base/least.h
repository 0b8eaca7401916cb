/* least.h - the least of several times that change. Private to libpipesim. */
#pragma once

#include <glib.h>

/* Times as the leaves of a tree of pairs, so that the least is found without looking at all. */
typedef struct {
  guint n_leaves; /* a power of two */
  gint64 *ns;     /* [2 n_leaves] of a node, the least below it; time k is node n_leaves + k; node 1 is the root */
} PsLeast;

/* All times are G_MAXINT64: none. */
static inline void ps_least_init (PsLeast *least, guint n)
{
  least->n_leaves = 1U << g_bit_storage (n - 1);
  least->ns = g_new0 (gint64, 2 * (gsize)least->n_leaves);
  for (guint i = 0; i < 2 * least->n_leaves; i++)
    least->ns[i] = G_MAXINT64;
}

static inline void ps_least_clear (PsLeast *least)
{
  g_free (least->ns);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsLeast, ps_least_clear)

static inline void ps_least_set (PsLeast *least, guint k, gint64 ns)
{
  for (guint node = least->n_leaves + k; node > 0 && least->ns[node] != ns; node /= 2) {
    least->ns[node] = ns;
    ns = MIN (ns, least->ns[node ^ 1]);
  }
}

/* The lowest k of those with the least time; G_MAXUINT: there is none. */
static inline guint ps_least_find (const PsLeast *least)
{
  guint node = 1;

  while (node < least->n_leaves)
    node = 2 * node + (least->ns[2 * node] > least->ns[node]);
  return least->ns[node] < G_MAXINT64 ? node - least->n_leaves : G_MAXUINT;
}
