/* test-search-pairs.c - searches whose forwards and backwards may run in pairs, whose backwards may be fused, or whose
 * stages have two weight copies. */
#include "search-rig.h"

#include "search/methods.h"

#include <string.h>

/* BW may need less memory while it runs than B. */
static void draw_memory (Case *c, GRand *random, guint stage)
{
  const PsOpCost *f = ps_costs_op (c->costs, PS_OP_F, stage), *b = ps_costs_op (c->costs, PS_OP_B, stage);
  PsOpCost *bw = ps_costs_op (c->costs, PS_OP_BW, stage);

  bw->take_bytes = g_rand_int_range (random, 0, (gint32)b->take_bytes + 1);
  bw->give_bytes = f->take_bytes - f->give_bytes + bw->take_bytes;
}

/* One in three has two weight copies. */
static void draw (Case *c, GRand *random, guint max_p, guint max_m)
{
  case_draw (c, random, max_p, max_m);
  if (g_rand_int_range (random, 0, 3) == 0 && c->placement->n_stages == c->placement->n_devices) {
    ps_placement_free (c->placement);
    c->placement = ps_placement_new (PS_PLACEMENT_BIDIRECTIONAL, c->costs->n_stages, 1);
    c->setting.placement = c->placement;
    c->setting.n_microbatches += c->setting.n_microbatches % 2;
  }
  draw_joins (c, random);
  for (guint s = 0; s < c->placement->n_stages; s++)
    draw_memory (c, random, s);
  for (guint d = 0; d < c->placement->n_devices && c->limit != NULL; d++)
    c->limit[d] = ps_search_least_memory (c->placement, c->costs, 1, d)
                  + (g_rand_boolean (random) ? g_rand_int_range (random, 0, 40) : 0);
}

static gboolean draw_order_join (const PsOrder *order, PsRandom *random, PsJoin *join)
{
  const PsProblem *problem = order->problem;
  guint b = order->node[ps_random_below (random, problem->n_ops)], n = problem->n_ops;
  guint what = ps_random_below (random, 4);

  if (chain_of (problem, b) % N_KINDS != PS_OP_B)
    return FALSE;
  *join = (PsJoin){ b, what == 0 ? n : b, what & 1 };
  if (what > 1) {
    guint first = problem->first[device_of (problem, b)], stop = order->stop[device_of (problem, b)];

    join->partner = order->sequence[first + ps_random_below (random, stop - first)];
    if (chain_of (problem, join->partner) % N_KINDS != PS_OP_F)
      return FALSE;
  }
  return ps_order_allows_join (order, *join);
}

static gboolean draw_order_move (const PsOrder *order, PsRandom *random, PsMove *move)
{
  const PsProblem *problem = order->problem;
  guint op = order->node[ps_random_below (random, problem->n_ops)], device = device_of (problem, op);

  move->from = order->nodes[op].position;
  move->to = problem->first[device] + ps_random_below (random, order->stop[device] - problem->first[device]);
  return move->from != move->to && ps_order_allows (order, *move);
}

static void check_afresh (const PsOrder *order, PsOrder *afresh)
{
  ps_order_copy (afresh, order);
  g_assert_true (ps_order_evaluate (afresh));
  assert_same (order, afresh);
}

/* Random joins, splits and moves: what was changed step by step equals what is computed afresh. */
static void test_moves (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (21);
  guint n_joins = 0, n_moves = 0, n_reverted = 0;

  for (guint i = 0; i < 120; i++) {
    g_auto (Case) c = { 0 };

    draw (&c, random, 4, 6);
    g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
    PsRandom own = { i };
    g_autoptr (PsOrder) order = draw_order (problem, &own), afresh = ps_order_new (problem),
                        before = ps_order_new (problem);

    for (guint k = 0; k < 200 && problem->joins; k++) {
      PsJoin join;
      PsMove move;

      ps_order_assign (before, order);
      if (draw_order_join (order, &own, &join)) {
        gboolean done = ps_order_join (order, join);

        if (!done)
          ps_order_assign (order, before);
        *(done ? &n_joins : &n_reverted) += 1;
      } else if (draw_order_move (order, &own, &move)) {
        gint64 excess = ps_order_excess_change (order, move);

        if (ps_order_apply (order, move)) {
          ps_order_keep (order, move, excess);
          n_moves++;
        }
      }
      check_afresh (order, afresh);
    }
  }
  g_assert_cmpuint (n_joins, >, 500);
  g_assert_cmpuint (n_moves, >, 500);
}

/* Whatever can be made of a problem is a valid schedule that the simulator finds as long as the order says, and no
 * better than the bound: list schedules, local search, and both made longer for more microbatches. */
static void test_bounds (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (22);
  guint n_joined = 0;

  for (guint i = 0; i < 200; i++) {
    g_auto (Case) c = { 0 };

    draw (&c, random, 4, 6);
    g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
    PsRandom own = { i };
    g_autoptr (PsOrder) order = draw_order (problem, &own);
    PsAnnealing annealing = { .random = &own, .hot = 10, .cold = 1, .price = 1, .pull = 0.1, .n_moves = 10000 };
    gint64 bound = ps_lower_bound_within (c.placement, c.setting.n_microbatches, c.costs, c.limit, c.setting.objective);

    ps_anneal (order, &annealing);
    g_assert_cmpint (order->excess, ==, 0);
    g_autoptr (PsSchedule) schedule = ps_order_to_schedule (order, c.placement);
    g_autoptr (PsOrder) again = ps_order_new (problem);
    g_assert_true (ps_schedule_validate (schedule, NULL));
    g_assert_true (ps_order_from_schedule (again, schedule) && ps_order_evaluate (again));
    g_assert_cmpint (again->objective, <=, order->objective);
    g_autoptr (PsProgram) program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, NULL);
    g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
    ps_simulate (program, c.costs, simulation);
    n_joined += program->pair != NULL;
    for (guint d = 0; d < simulation->n_devices && c.limit != NULL; d++)
      g_assert_cmpint (simulation->device[d].peak_bytes, <=, c.limit[d]);
    if (c.setting.objective == PS_OBJECTIVE_MAKESPAN)
      g_assert_cmpint (simulation->makespan_ns, ==, order->objective);
    else
      g_assert_cmpint (simulation->max_span_ns, <=, order->objective);
    g_assert_cmpint (bound, <=, c.setting.objective == PS_OBJECTIVE_SPAN ? simulation->max_span_ns : order->objective);
  }
  g_assert_cmpuint (n_joined, >, 40);
}

/* The schedules of every family that fits, of any placement that a search knows. */
static void check_family (const Case *c, const PsFamily *family, const PsSearchResult *result, guint *n_compared)
{
  PsFamilySetting setting = { .n_devices = c->placement->n_devices,
                              .n_microbatches = c->setting.n_microbatches,
                              .n_chunks = c->placement->n_stages / c->placement->n_devices,
                              .costs = c->costs,
                              .memory_limit = c->limit };
  g_autoptr (PsSchedule) schedule = ps_family_generate (family, &setting, NULL);

  if (schedule == NULL || schedule->n_slices > 1 || schedule->asynchronous
      || schedule->placement->kind != c->placement->kind)
    return;
  g_autoptr (PsProgram) program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, NULL);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  ps_simulate (program, c->costs, simulation);
  for (guint d = 0; d < simulation->n_devices && c->limit != NULL; d++)
    if (simulation->device[d].peak_bytes > c->limit[d])
      return;
  *n_compared += program->pair != NULL;
  g_assert_cmpint (objective_of (c, result), <=,
                   c->setting.objective == PS_OBJECTIVE_SPAN ? simulation->max_span_ns : simulation->makespan_ns);
}

/* As the families with pairs or two copies want it: a V or two copies, microbatches enough, stages alike. */
static void draw_suited (Case *c, GRand *random)
{
  gboolean two = g_rand_boolean (random);
  guint p = (guint)g_rand_int_range (random, 1, 3) * 2, v = two ? 1 : 2, m = p * (guint)g_rand_int_range (random, 1, 5);
  gint64 cost[4], pair;

  for (guint i = 0; i < 4; i++)
    cost[i] = g_rand_int_range (random, i < 3 ? 5 : 0, 15);
  pair = (cost[0] + cost[1] + cost[2]) * g_rand_int_range (random, 50, 100) / 100;
  case_init (c, two ? PS_PLACEMENT_BIDIRECTIONAL : PS_PLACEMENT_V, p, v, m, cost, 4, g_rand_int_range (random, 1, 5),
             g_rand_boolean (random) ? 4 * v * (p + g_rand_int_range (random, 0, 3)) : 0);
  for (guint s = 0; s < p * v; s++)
    c->costs->stage[s].pair_ns = pair;
  c->setting.objective = g_rand_boolean (random) ? PS_OBJECTIVE_SPAN : PS_OBJECTIVE_MAKESPAN;
}

/* Never worse than a family under the same limit, its pairs and fused backwards included, and always a result that
 * holds. */
static void test_families (void)
{
  guint n = n_cases (200), n_families, n_compared = 0;
  g_autoptr (GRand) random = g_rand_new_with_seed (23);
  const PsFamily *const *families = ps_family_table (&n_families);

  for (guint i = 0; i < n; i++) {
    g_auto (Case) c = { 0 };

    if (i % 2)
      draw_suited (&c, random);
    else
      draw (&c, random, 4, 16);
    c.setting.move_limit = i % 4 < 2 ? 1 : 4000;
    c.setting.n_threads = 1 + i % 8 / 4;
    g_autoptr (GError) error = NULL;
    g_autoptr (PsSearchResult) result = ps_search (&c.setting, &error);

    g_assert_no_error (error);
    check_result (&c, result);
    for (guint f = 0; f < n_families; f++)
      check_family (&c, families[f], result, &n_compared);
  }
  g_assert_cmpuint (n_compared, >, n / 8);
}

/* Pairs that save nothing change nothing, not even which of equal schedules is found. */
static void test_useless (void)
{
  const gint64 cost[4] = { 100, 130, 70, 9 };
  g_auto (Case) with = { 0 }, without = { 0 };

  case_init (&with, PS_PLACEMENT_V, 4, 2, 8, cost, 4, 2, 34);
  case_init (&without, PS_PLACEMENT_V, 4, 2, 8, cost, 4, 2, 34);
  for (guint s = 0; s < 8; s++)
    with.costs->stage[s].pair_ns = 300;
  with.setting.move_limit = without.setting.move_limit = 30000;
  g_autoptr (PsSearchResult) a = ps_search (&with.setting, NULL), b = ps_search (&without.setting, NULL);
  g_autofree char *text_a = ps_schedule_to_json (a->schedule), *text_b = ps_schedule_to_json (b->schedule);

  g_assert_cmpstr (text_a, ==, text_b);
  g_assert_cmpint (a->lower_bound_ns, ==, b->lower_bound_ns);
}

/* f = b = w = 500, c = 100, pairs of 1100 on a V of 4 devices, 16 microbatches: 32 F and 32 BW of 1000 on each device.
 * The first gradient comes to device 3 at 8 x 500 + 6 x 100 + 3 x 600 = 6400, after its first F came at 1800. Each F
 * or backward apart costs 400 more than in a pair. To fill those 4600, 9 F are apart, and 100 are idle:
 * 32 x 1100 + 9 x 400 + 100 = 38900, from 1800 on: 40700. DualPipe on a V takes 43500. */
static void test_known (void)
{
  const gint64 cost[4] = { 500, 500, 500, 100 };
  g_auto (Case) c = { 0 };

  case_init (&c, PS_PLACEMENT_V, 4, 2, 16, cost, 4, 2, 0);
  for (guint s = 0; s < 8; s++)
    c.costs->stage[s].pair_ns = 1100;
  g_autoptr (PsSearchResult) result = ps_search (&c.setting, NULL);
  g_assert_cmpint (result->lower_bound_ns, ==, 40700);
  g_assert_cmpint (result->makespan_ns, <, 43500);
  check_result (&c, result);
}

/* One microbatch after the other fits wherever anything does. */
static void test_one_by_one (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (25);

  for (guint i = 0; i < 300; i++) {
    g_auto (Case) c = { 0 };

    draw (&c, random, 5, 6);
    for (guint d = 0; d < c.placement->n_devices && c.limit != NULL; d++)
      c.limit[d] = ps_search_least_memory (c.placement, c.costs, 1, d);
    g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
    g_autoptr (PsOrder) order = ps_order_new (problem);

    ps_order_one_by_one (order);
    g_assert_true (ps_order_evaluate (order));
    g_assert_cmpint (order->excess, ==, 0);
  }
}

/* List scheduling of one copy without groups never gets stuck, however little memory there is. */
static void test_list_scheduling (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (26);
  guint n = n_cases (3000), n_built = 0;
  PsRandom own = { 26 };

  for (guint i = 0; i < n; i++) {
    g_auto (Case) c = { 0 };
    PsPolicy policy;

    draw (&c, random, 5, 6);
    g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
    g_autoptr (PsOrder) order = ps_order_new (problem);

    ps_policy_draw (&policy, problem, &own);
    policy.group = 0;
    if (problem->n_copies > 1)
      continue;
    g_assert_true (ps_list_schedule (order, &policy) && ps_order_evaluate (order));
    g_assert_cmpint (order->excess, ==, 0);
    n_built++;
  }
  g_assert_cmpuint (n_built, >, n / 2);
}

/* Full recomputation by hand: a forward keeps 1 of 8, and B needs 7 for all of its parts at once where BW needs 2. With
 * 3 bytes only fused backwards fit, however small the budget. */
static void test_least_memory (void)
{
  const gint64 cost[4] = { 2, 3, 1, 1 };

  for (guint moves = 1; moves <= 4000; moves += 3999) {
    g_auto (Case) c = { 0 };
    g_autoptr (GError) error = NULL;

    case_init (&c, PS_PLACEMENT_LOOP, 3, 1, 5, cost, 1, 1, 3);
    for (guint s = 0; s < 3; s++) {
      ps_costs_op (c.costs, PS_OP_B, s)->take_bytes = 7;
      ps_costs_op (c.costs, PS_OP_B, s)->give_bytes = 1;
      ps_costs_op (c.costs, PS_OP_W, s)->give_bytes = 7;
      ps_costs_op (c.costs, PS_OP_BW, s)->take_bytes = 2;
      ps_costs_op (c.costs, PS_OP_BW, s)->give_bytes = 3;
    }
    c.setting.move_limit = moves;
    g_assert_cmpint (ps_search_least_memory (c.placement, c.costs, 1, 0), ==, 3);
    g_autoptr (PsSearchResult) result = ps_search (&c.setting, &error);
    g_assert_no_error (error);
    check_result (&c, result);
  }
}

/* An F of 2 bytes and a BW of 1, both for themselves, fit into 2 bytes apart and not as a pair. */
static void test_pair_memory (void)
{
  const gint64 cost[4] = { 10, 10, 10, 0 };
  g_auto (Case) c = { 0 };

  case_init (&c, PS_PLACEMENT_LOOP, 1, 1, 4, cost, 0, 0, 2);
  ps_costs_op (c.costs, PS_OP_F, 0)->take_bytes = ps_costs_op (c.costs, PS_OP_F, 0)->give_bytes = 2;
  ps_costs_op (c.costs, PS_OP_BW, 0)->take_bytes = ps_costs_op (c.costs, PS_OP_BW, 0)->give_bytes = 1;
  c.costs->stage[0].pair_ns = 20;
  g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
  PsRandom own = { 1 };
  g_autoptr (PsOrder) order = draw_order (problem, &own);
  PsAnnealing annealing = { .random = &own, .hot = 10, .cold = 1, .price = -1, .n_moves = 10000 };

  g_assert_true (ps_problem_may_run_out (problem, 0));
  ps_anneal (order, &annealing);
  g_assert_cmpint (order->objective, ==, 4 * 30);
}

static void test_odd (void)
{
  const gint64 cost[4] = { 1, 1, 1, 0 };
  g_auto (Case) c = { 0 };

  case_init (&c, PS_PLACEMENT_BIDIRECTIONAL, 2, 1, 5, cost, 4, 2, 0);
  refused (ps_search (&c.setting, &error), PS_ERROR_USAGE,
           "-m/--microbatches: '5' does not divide by two weight copies; 6 would");
}

/* Two copies that fit only one after the other: no microbatch begins before the one before it has given back its
 * activation, W last. */
static void test_in_turn (void)
{
  const gint64 cost[4] = { 5, 6, 4, 1 };
  g_auto (Case) c = { 0 };
  g_autoptr (GError) error = NULL;

  case_init (&c, PS_PLACEMENT_BIDIRECTIONAL, 2, 1, 4, cost, 2, 2, 2);
  g_autoptr (PsSearchResult) result = ps_search (&c.setting, &error);
  g_assert_no_error (error);
  check_result (&c, result);
  g_assert_true (result->proved_optimal);
  c.limit[0] = 1;
  refused (ps_search (&c.setting, &error), PS_ERROR_SCHEDULE,
           "--memory-limit: infeasible: needs at least 2 B (2 bytes) on device 0, not 1 B");
}

/* DualPipe on a V of 16 microbatches repeats pairs in the middle: made longer it is as good as one of 48 to a pair
 * each.
 */
static void test_lengthen (void)
{
  const gint64 cost[4] = { 10, 10, 10, 0 };
  g_auto (Case) few = { 0 }, many = { 0 };

  case_init (&few, PS_PLACEMENT_V, 3, 2, 16, cost, 2, 1, 0);
  case_init (&many, PS_PLACEMENT_V, 3, 2, 48, cost, 2, 1, 0);
  for (guint s = 0; s < 6; s++)
    few.costs->stage[s].pair_ns = many.costs->stage[s].pair_ns = 22;
  g_autoptr (PsProblem) small = ps_problem_new (&few.setting), large = ps_problem_new (&many.setting);
  g_autoptr (PsOrder) from = ps_order_new (small), to = ps_order_new (large);
  PsFamilySetting setting = { .n_devices = 3, .n_microbatches = 16, .n_chunks = 2 };
  g_autoptr (PsSchedule) schedule = ps_family_generate (ps_family_find ("dualpipe-v"), &setting, NULL);

  g_assert_true (ps_order_from_schedule (from, schedule));
  g_assert_true (ps_order_evaluate (from));
  g_assert_true (ps_order_lengthen (to, from, always, NULL));
  g_assert_cmpint (to->objective, ==, from->objective + (48 - 16) * 2 * 22);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/search-pairs/moves", test_moves);
  g_test_add_func ("/search-pairs/bounds", test_bounds);
  g_test_add_func ("/search-pairs/families", test_families);
  g_test_add_func ("/search-pairs/useless", test_useless);
  g_test_add_func ("/search-pairs/known", test_known);
  g_test_add_func ("/search-pairs/one-by-one", test_one_by_one);
  g_test_add_func ("/search-pairs/list-scheduling", test_list_scheduling);
  g_test_add_func ("/search-pairs/least-memory", test_least_memory);
  g_test_add_func ("/search-pairs/pair-memory", test_pair_memory);
  g_test_add_func ("/search-pairs/in-turn", test_in_turn);
  g_test_add_func ("/search-pairs/odd", test_odd);
  g_test_add_func ("/search-pairs/lengthen", test_lengthen);
  return g_test_run ();
}
