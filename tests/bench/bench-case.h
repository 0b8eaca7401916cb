/* bench-case.h - search problems with equal stages, for benchmarks. */
#pragma once

#include <pipesim/search.h>

#include "error-rig.h"
#include "search/problem.h"

typedef struct {
  PsPlacementKind placement;
  guint p, v, m;
  gint64 cost[4]; /* f, b, w, c of a chunk */
  gint64 limit;   /* bytes; an activation has 2, of which W needs 1 */
} Setting;

/* A search over one of them, seed 1, one thread. */
typedef struct {
  PsPlacement *placement;
  PsCosts *costs;
  gint64 *limit;
  PsSearchSetting setting;
} Case;

static inline void case_init (Case *c, const Setting *setting)
{
  guint n = setting->p * setting->v;

  c->placement = ps_placement_new (setting->placement, setting->p, setting->v);
  c->costs = ps_costs_new (n);
  for (guint s = 0; s < n; s++) {
    for (guint kind = 0; kind < N_KINDS; kind++)
      ps_costs_op (c->costs, (PsOpKind)kind, s)->duration_ns = setting->cost[kind];
    ps_costs_op (c->costs, PS_OP_BW, s)->duration_ns = setting->cost[1] + setting->cost[2];
    ps_costs_set_memory (c->costs, s, 2, 1);
  }
  for (guint i = 1; i <= 2 * n; i++)
    c->costs->transfer_ns[i] = setting->cost[3];
  c->limit = g_new (gint64, setting->p);
  for (guint d = 0; d < setting->p; d++)
    c->limit[d] = setting->limit;
  c->setting = (PsSearchSetting){ .placement = c->placement,
                                  .n_microbatches = setting->m,
                                  .costs = c->costs,
                                  .memory_limit = c->limit,
                                  .seed = 1,
                                  .n_threads = 1 };
}

static inline void case_clear (Case *c)
{
  ps_placement_free (c->placement);
  ps_costs_free (c->costs);
  g_free (c->limit);
}
