/* search-rig.h - search problems with random costs, and what has to hold of every result. */
#pragma once

#include <pipesim/program.h>
#include <pipesim/search.h>
#include <pipesim/simulate.h>

#include "cases.h"
#include "lower.h"
#include "search/methods.h"

/* A search problem with costs of its own. */
typedef struct {
  PsPlacement *placement;
  PsCosts *costs;
  gint64 *limit; /* [n_devices]; NULL: none */
  PsSearchSetting setting;
} Case;

static inline void case_clear (Case *c)
{
  ps_placement_free (c->placement);
  ps_costs_free (c->costs);
  g_free (c->limit);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Case, case_clear)

static inline void case_init (Case *c, PsPlacementKind placement, guint p, guint v, guint m, const gint64 cost[4],
                              gint64 act, gint64 wact, gint64 limit)
{
  c->placement = ps_placement_new (placement, p, v);
  c->costs = ps_costs_new (p * v);
  for (guint s = 0; s < p * v; s++) {
    for (guint kind = 0; kind < N_KINDS; kind++)
      ps_costs_op (c->costs, (PsOpKind)kind, s)->duration_ns = cost[kind];
    ps_costs_op (c->costs, PS_OP_BW, s)->duration_ns = cost[1] + cost[2];
    ps_costs_set_memory (c->costs, s, act, wact);
  }
  for (guint i = 1; i <= 2 * p * v; i++)
    c->costs->transfer_ns[i] = cost[3];
  c->limit = limit > 0 ? g_new (gint64, p) : NULL;
  for (guint d = 0; d < p && limit > 0; d++)
    c->limit[d] = limit;
  c->setting = (PsSearchSetting){ .placement = c->placement,
                                  .n_microbatches = m,
                                  .costs = c->costs,
                                  .memory_limit = c->limit,
                                  .seed = 1,
                                  .move_limit = 200000,
                                  .n_threads = 1 };
}

/* Uneven costs, any placement, a limit from the least feasible on, or none. */
static inline void case_draw (Case *c, GRand *random, guint max_p, guint max_m)
{
  static const PsPlacementKind kinds[] = { PS_PLACEMENT_LOOP, PS_PLACEMENT_LOOP, PS_PLACEMENT_V, PS_PLACEMENT_WAVE };
  static const guint chunks[] = { 1, 2, 2, 4 };
  guint which = (guint)g_rand_int_range (random, 0, G_N_ELEMENTS (kinds));
  guint p = (guint)g_rand_int_range (random, 1, (gint32)max_p + 1), v = chunks[which];
  guint m = (guint)g_rand_int_range (random, 1, (gint32)max_m + 1);
  const gint64 zero[4] = { 0 };
  gboolean recomputes = g_rand_int_range (random, 0, 3) == 0;

  case_init (c, kinds[which], p, v, m, zero, 0, 0, g_rand_int_range (random, 0, 3));
  for (guint s = 0; s < p * v; s++) {
    gint64 act = g_rand_int_range (random, 0, 9);
    gint64 kept = recomputes ? g_rand_int_range (random, 0, (gint32)act + 1) : act;

    for (guint kind = 0; kind < N_KINDS; kind++)
      ps_costs_op (c->costs, (PsOpKind)kind, s)->duration_ns = g_rand_int_range (random, kind == PS_OP_W ? 0 : 1, 20);
    ps_costs_op (c->costs, PS_OP_BW, s)->duration_ns
        = ps_costs_op (c->costs, PS_OP_B, s)->duration_ns + ps_costs_op (c->costs, PS_OP_W, s)->duration_ns;
    ps_costs_set_memory (c->costs, s, act, g_rand_int_range (random, 0, (gint32)act + 1));
    ps_costs_op (c->costs, PS_OP_F, s)->give_bytes += act - kept;
    ps_costs_op (c->costs, PS_OP_B, s)->take_bytes += act - kept;
    ps_costs_op (c->costs, PS_OP_BW, s)->take_bytes += act - kept;
    c->costs->stage[s].weight_bytes = g_rand_int_range (random, 0, 5);
  }
  for (guint i = 1; i <= 2 * p * v; i++)
    c->costs->transfer_ns[i] = g_rand_int_range (random, 0, 8);
  for (guint d = 0; d < p && c->limit != NULL; d++)
    c->limit[d] = ps_search_least_memory (c->placement, c->costs, 1, d) + g_rand_int_range (random, 0, 40);
  c->setting.objective = g_rand_boolean (random) ? PS_OBJECTIVE_SPAN : PS_OBJECTIVE_MAKESPAN;
}

/* Two or three slices of each microbatch; the costs are those of a slice from now on. */
static inline void case_slice (Case *c, GRand *random)
{
  c->setting.n_slices = (guint)g_rand_int_range (random, 2, 4);
  for (guint d = 0; d < c->placement->n_devices && c->limit != NULL; d++)
    c->limit[d]
        = ps_search_least_memory (c->placement, c->costs, c->setting.n_slices, d) + g_rand_int_range (random, 0, 40);
}

/* Costs of whole microbatches whose slices have these costs. */
static inline PsCosts *whole_costs (const PsCosts *slice, guint n_slices)
{
  PsCosts *costs = ps_costs_copy (slice);

  for (guint i = 0; i < PS_OP_O * costs->n_stages; i++) {
    costs->op[i].duration_ns *= n_slices;
    costs->op[i].take_bytes *= n_slices;
    costs->op[i].give_bytes *= n_slices;
  }
  return costs;
}

/* Pairs from much shorter than their parts to longer, for some stages or all; BW from shorter to longer than B and W,
 * or as long. */
static inline void draw_joins (Case *c, GRand *random)
{
  gboolean fuses = g_rand_int_range (random, 0, 3) == 0;

  for (guint s = 0; s < c->placement->n_stages; s++) {
    gint64 apart = ps_costs_op (c->costs, PS_OP_B, s)->duration_ns + ps_costs_op (c->costs, PS_OP_W, s)->duration_ns;
    gint64 all = ps_costs_op (c->costs, PS_OP_F, s)->duration_ns + apart;

    if (fuses)
      ps_costs_op (c->costs, PS_OP_BW, s)->duration_ns = g_rand_int_range (random, 0, (gint32)apart + 3);
    if (g_rand_int_range (random, 0, 5) > 0)
      c->costs->stage[s].pair_ns
          = g_rand_int_range (random, (gint32)(g_rand_boolean (random) ? all / 2 : 0), (gint32)all + 3);
  }
}

static inline gboolean always (guint64 n_moves, gpointer data)
{
  return TRUE;
}

static inline gint64 objective_of (const Case *c, const PsSearchResult *result)
{
  return c->setting.objective == PS_OBJECTIVE_SPAN ? result->max_span_ns : result->makespan_ns;
}

/* A result is a valid schedule within the limit, as long as the simulator says, and no better than the bound. */
static inline void check_result (const Case *c, const PsSearchResult *result)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation = NULL;

  g_assert_true (ps_schedule_validate (result->schedule, &error));
  g_assert_no_error (error);
  program = ps_program_lower (ps_schedule_copy (result->schedule), PS_COMM_ASAP, &error);
  g_assert_no_error (error);
  assert_runs_on_all_channels (program);
  simulation = ps_simulation_new (program);
  ps_simulate (program, c->costs, simulation);
  g_assert_cmpint (simulation->makespan_ns, ==, result->makespan_ns);
  g_assert_cmpint (simulation->max_span_ns, ==, result->max_span_ns);
  g_assert_cmpint (objective_of (c, result), >=, result->lower_bound_ns);
  for (guint d = 0; d < c->placement->n_devices && c->limit != NULL; d++)
    g_assert_cmpint (simulation->device[d].peak_bytes, <=, c->limit[d]);
}

/* An order by list scheduling under a random policy. Two copies may take the memory that each other needs; then one
 * microbatch after the other. */
static inline PsOrder *draw_order (const PsProblem *problem, PsRandom *random)
{
  PsOrder *order = ps_order_new (problem);
  PsPolicy policy;

  ps_policy_draw (&policy, problem, random);
  if (!ps_list_schedule (order, &policy)) {
    g_assert_true (policy.group > 0 || problem->n_copies > 1);
    policy.group = 0;
    if (!ps_list_schedule (order, &policy)) {
      g_assert_cmpuint (problem->n_copies, >, 1);
      ps_order_one_by_one (order);
    }
  }
  g_assert_true (ps_order_evaluate (order));
  g_assert_cmpint (order->excess, ==, 0);
  return order;
}

static inline void assert_same (const PsOrder *a, const PsOrder *b)
{
  gsize n = a->problem->n_ops;
  const guint *first = a->problem->first;

  g_assert_cmpmem (a->stop, a->problem->n_devices * sizeof *a->stop, b->stop, a->problem->n_devices * sizeof *b->stop);
  for (guint d = 0; d < a->problem->n_devices; d++) {
    gsize used = a->stop[d] - first[d];

    g_assert_cmpmem (a->sequence + first[d], used * sizeof *a->sequence, b->sequence + first[d],
                     used * sizeof *b->sequence);
    g_assert_cmpmem (a->level + first[d], used * sizeof *a->level, b->level + first[d], used * sizeof *b->level);
    for (guint i = first[d]; i < a->stop[d]; i++) {
      guint op = a->sequence[i];

      g_assert_cmpmem (&a->nodes[op], sizeof *a->nodes, &b->nodes[op], sizeof *b->nodes);
    }
  }
  g_assert_cmpmem (a->node, n * sizeof *a->node, b->node, n * sizeof *b->node);
  g_assert_cmpmem (a->partner, n * sizeof *a->partner, b->partner, n * sizeof *b->partner);
  g_assert_cmpint (a->objective, ==, b->objective);
  g_assert_cmpint (a->end_sum, ==, b->end_sum);
  g_assert_cmpint (a->excess, ==, b->excess);
}
