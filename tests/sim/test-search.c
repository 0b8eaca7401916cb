/* test-search.c - orders, moves, bounds, branch and bound, and what a search returns. */
#include "search-rig.h"

#include "search/methods.h"

#include <string.h>

static gint64 no_price (G_GNUC_UNUSED const PsSchedule *schedule, G_GNUC_UNUSED gpointer data)
{
  return 1;
}

/* A problem in arrays. Two devices of a V have stages 0 and 3, and 1 and 2; F takes 5 to 8, B 9 and W 4. The message
 * to stage s takes 10 s, that back to it 60 + 10 s. */
static void test_problem (void)
{
  static const guint stages[] = { 0, 3, 1, 2 };
  static const gint64 lag_f[] = { 0, 10, 0, 30 }, lag_b[] = { 60, 0, 80, 0 }, pair[] = { 17, -1, 0, -1 };
  const gint64 cost[4] = { 0, 9, 4, 0 };
  g_auto (Case) c = { 0 };

  case_init (&c, PS_PLACEMENT_V, 2, 2, 4, cost, 10, 4, 1000);
  for (guint s = 0; s < 4; s++) {
    ps_costs_op (c.costs, PS_OP_F, s)->duration_ns = 5 + s;
    c.costs->stage[s].weight_bytes = 1 << s;
    c.costs->transfer_ns[1 + s] = 10 * (s + 1);
    c.costs->transfer_ns[5 + s] = 60 + 10 * (s - 1);
    c.costs->message_bytes[1 + s] = 7 - s;
    c.costs->message_bytes[5 + s] = 3 * s;
  }
  /* shorter as BW; a pair on device 0 saves if it is shorter than its F and 13 */
  ps_costs_op (c.costs, PS_OP_BW, 3)->duration_ns = 12;
  c.costs->stage[0].pair_ns = 17;
  c.costs->stage[3].pair_ns = 21;
  c.costs->stage[2].pair_ns = 0;
  c.setting.objective = PS_OBJECTIVE_SPAN;
  g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
  g_assert_cmpuint (problem->m, ==, 4);
  g_assert_cmpuint (problem->n_ops, ==, 4 * 3 * 4);
  g_assert_cmpmem (problem->stages, sizeof stages, stages, sizeof stages);
  g_assert_cmpuint (problem->first_stage[1], ==, 2);
  g_assert_cmpuint (problem->first[1], ==, 24);
  g_assert_cmpuint (problem->first[2], ==, 48);
  g_assert_true (problem->joins && !problem->reserves);
  for (guint s = 0; s < 4; s++) {
    g_assert_cmpint (problem->lag[s * N_KINDS + PS_OP_F], ==, lag_f[s]);
    g_assert_cmpint (problem->lag[s * N_KINDS + PS_OP_B], ==, lag_b[s]);
    g_assert_cmpint (problem->lag[s * N_KINDS + PS_OP_W], ==, 0);
    g_assert_cmpint (problem->duration[s * N_KINDS + PS_OP_F], ==, 5 + s);
    g_assert_cmpint (problem->pair[s], ==, pair[s]);
    g_assert_cmpint (problem->fuses[s], ==, s == 3);
  }
  /* weights of 1 + 8 and 2 + 4; device 1 has its first F after 5 and 10 */
  g_assert_cmpint (problem->held[0], ==, 9);
  g_assert_cmpint (problem->held[1], ==, 6);
  g_assert_cmpint (problem->begin[0], ==, 0);
  g_assert_cmpint (problem->begin[1], ==, 15);
  g_assert_cmpint (problem->offset[1], ==, -15);
  /* all activations of four microbatches, and one more: 9 + 80 + 10 fit, so that a limit is none */
  g_assert_false (ps_problem_may_run_out (problem, 0));
  g_assert_cmpint (problem->limit[0], ==, G_MAXINT64);
  g_assert_cmpint (problem->asked[0], ==, 1000);
  c.setting.objective = PS_OBJECTIVE_MAKESPAN;
  g_autoptr (PsProblem) makespan = ps_problem_new (&c.setting);
  g_assert_cmpint (makespan->offset[1], ==, 0);
  static const struct {
    gboolean has_price;
    gint64 given, limit[2]; /* the same for both devices; 0: none */
  } rows[] = {
    { FALSE, 99, { 0, 0 } },
    { FALSE, 98, { 98, 0 } },
    { FALSE, 95, { 95, 95 } },
    /* Messages of 5 and 3 bytes come to device 0, of 7 and 9 to device 1; four times all of them fit into 131 and 160.
     */
    { TRUE, 160, { 0, 0 } },
    { TRUE, 159, { 0, 159 - 16 } },
    { TRUE, 131, { 0, 131 - 16 } },
    { TRUE, 130, { 130 - 8, 130 - 16 } },
    /* at least a microbatch in both stages, 29 and 26, but not more than is given */
    { TRUE, 36, { 29, 26 } },
    { TRUE, 29, { 29, 26 } },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    c.setting.price = rows[i].has_price ? no_price : NULL;
    c.limit[0] = c.limit[1] = rows[i].given;
    g_autoptr (PsProblem) limited = ps_problem_new (&c.setting);
    for (guint d = 0; d < 2; d++)
      g_assert_cmpint (limited->limit[d], ==, rows[i].limit[d] > 0 ? rows[i].limit[d] : G_MAXINT64);
    g_assert_cmpint (limited->reserves, ==, rows[i].has_price && rows[i].given < 160);
  }
  /* where memory is short, a BW that takes less than its B is worth it */
  ps_costs_op (c.costs, PS_OP_B, 1)->take_bytes += 3;
  ps_costs_op (c.costs, PS_OP_B, 1)->give_bytes += 3;
  g_autoptr (PsProblem) with_memory = ps_problem_new (&c.setting);
  g_assert_cmpint (with_memory->fuses[1], ==, TRUE);
  g_assert_cmpint (with_memory->fuses[2], ==, FALSE);
}

/* Random moves, some taken back: what was changed step by step equals what is computed afresh. The estimate of a move
 * to the next place is never above the objective, and mostly is the objective; it says no more where that is not
 * enough. */
static void test_moves (void)
{
  g_autoptr (GRand) draw = g_rand_new_with_seed (11);
  guint n_kept = 0, n_reverted = 0, n_near = 0, n_exact = 0;

  for (guint i = 0; i < 60; i++) {
    g_auto (Case) c = { 0 };

    case_draw (&c, draw, 4, 6);
    if (i % 4 == 0)
      case_slice (&c, draw);
    g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
    PsRandom random = { i };
    g_autoptr (PsOrder) order = draw_order (problem, &random);
    g_autoptr (PsOrder) afresh = ps_order_new (problem);

    for (guint k = 0; k < 200; k++) {
      guint from = ps_random_below (&random, problem->n_ops), device = 0;

      while (from >= problem->first[device + 1])
        device++;
      guint n = problem->first[device + 1] - problem->first[device];
      PsMove move = { from, problem->first[device] + ps_random_below (&random, n) };

      if (move.to == move.from || !ps_order_allows (order, move))
        continue;
      gint64 excess = ps_order_excess_change (order, move), least = ps_order_estimate (order, move, G_MAXINT64);
      g_assert_cmpint (ps_order_estimate (order, move, least), ==, least);
      g_assert_cmpint (ps_order_estimate (order, move, least - 1), >=, least);
      ps_order_assign (afresh, order);
      if (!ps_order_apply (order, move)) {
        assert_same (order, afresh);
        continue;
      }
      if (move.from + 1 == move.to || move.to + 1 == move.from) {
        g_assert_cmpint (least, <=, order->objective);
        n_exact += least == order->objective;
        n_near++;
      }
      if (ps_random_below (&random, 2)) {
        ps_order_revert (order, move);
        assert_same (order, afresh);
        n_reverted++;
        continue;
      }
      ps_order_keep (order, move, excess);
      memcpy (afresh->sequence, order->sequence, problem->n_ops * sizeof *order->sequence);
      g_assert_true (ps_order_evaluate (afresh));
      assert_same (order, afresh);
      n_kept++;
    }
  }
  g_assert_cmpuint (n_kept, >, 500);
  g_assert_cmpuint (n_reverted, >, 500);
  g_test_message ("%u of %u estimates are exact", n_exact, n_near);
  g_assert_cmpuint (n_exact, >=, n_near * 79 / 100);
}

/* List scheduling places all ops, whatever the number of devices. */
static void test_list (void)
{
  g_autoptr (GRand) draw = g_rand_new_with_seed (23);

  for (guint i = 0; i < 60; i++) {
    g_auto (Case) c = { 0 };

    case_draw (&c, draw, 20, 8);
    g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
    PsRandom random = { i };
    g_autoptr (PsOrder) order = draw_order (problem, &random);

    g_assert_nonnull (order);
  }
}

/* All orders of one device's chains, in turn. */
static gboolean next_word (guint32 *word, guint n)
{
  guint i = n - 1, k = n - 1;

  while (i > 0 && word[i - 1] >= word[i])
    i--;
  if (i == 0)
    return FALSE;
  while (word[k] <= word[i - 1])
    k--;
  guint32 swap = word[i - 1];
  word[i - 1] = word[k];
  word[k] = swap;
  for (guint a = i, b = n - 1; a < b; a++, b--) {
    swap = word[a];
    word[a] = word[b];
    word[b] = swap;
  }
  return TRUE;
}

static void fill_device (PsOrder *order, guint device, const guint32 *word)
{
  const PsProblem *problem = order->problem;
  guint next[64] = { 0 };

  for (guint i = problem->first[device]; i < problem->first[device + 1]; i++) {
    guint chain = word[i - problem->first[device]];

    order->sequence[i] = chain * problem->m + next[chain]++;
  }
}

/* The least objective over all orders of two devices, by trying every one. */
static gint64 enumerate_two (const PsProblem *problem)
{
  g_autoptr (PsOrder) order = ps_order_new (problem);
  guint n = problem->first[1];
  gint64 least = G_MAXINT64;
  guint32 a[32], b[32];

  g_assert_cmpuint (n, <=, 32);
  for (guint i = 0; i < n; i++)
    a[i] = i / problem->m;
  do {
    for (guint i = 0; i < n; i++)
      b[i] = N_KINDS + i / problem->m;
    fill_device (order, 0, a);
    do {
      fill_device (order, 1, b);
      if (ps_order_evaluate (order) && order->excess == 0)
        least = MIN (least, order->objective);
    } while (next_word (b, n));
  } while (next_word (a, n));
  return least;
}

/* A search proves the optimum of every small problem, and bounds never exceed it. */
static void test_optimum (void)
{
  g_autoptr (GRand) draw = g_rand_new_with_seed (5);
  guint n_tight = 0;
  double gap = 0;

  for (guint i = 0; i < 60; i++) {
    g_auto (Case) c = { 0 };
    gint64 cost[4] = { g_rand_int_range (draw, 1, 9), g_rand_int_range (draw, 1, 9), g_rand_int_range (draw, 1, 9),
                       g_rand_int_range (draw, 0, 4) };

    case_init (&c, PS_PLACEMENT_LOOP, 2, 1, 2, cost, 4, g_rand_int_range (draw, 1, 5), g_rand_int_range (draw, 4, 12));
    c.setting.objective = g_rand_boolean (draw) ? PS_OBJECTIVE_SPAN : PS_OBJECTIVE_MAKESPAN;
    g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
    g_autoptr (GError) error = NULL;
    g_autoptr (PsSearchResult) result = ps_search (&c.setting, &error);
    gint64 least = enumerate_two (problem);
    gint64 bound = ps_lower_bound_within (c.placement, 2, c.costs, c.limit, c.setting.objective);

    g_assert_no_error (error);
    g_assert_cmpint (bound, <=, least);
    g_assert_cmpint (objective_of (&c, result), ==, least);
    g_assert_true (result->proved_optimal);
    n_tight += bound == least;
    gap += 1 - (double)bound / (double)least;
  }
  g_test_message ("%u tight, %.4f below on average", n_tight, gap / 60);
  g_assert_cmpuint (n_tight, >=, 23);
  g_assert_cmpfloat (gap, <=, 0.051 * 60);
}

/* Larger random problems: nothing that local search finds beats the bound. */
static void test_bounds (void)
{
  g_autoptr (GRand) draw = g_rand_new_with_seed (6);

  for (guint i = 0; i < 150; i++) {
    g_auto (Case) c = { 0 };

    case_draw (&c, draw, 3, 3);
    g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
    PsRandom random = { i };
    g_autoptr (PsOrder) order = draw_order (problem, &random);
    gint64 bound = ps_lower_bound_within (c.placement, problem->m, c.costs, c.limit, c.setting.objective);
    PsAnnealing annealing = { .random = &random, .hot = 10, .cold = 1, .price = 1, .pull = 0.1, .n_moves = 20000 };

    ps_anneal (order, &annealing);
    g_assert_cmpint (order->excess, ==, 0);
    g_assert_cmpint (order->objective, >=, bound);
  }
}

/* Known values, one chunk and V; costs are per chunk, act 21024 and wact 512, limit 2 p activations.
 * p=4 m=4 (1,1,1,c=1): 8 forwards fit, the first gradient comes to device 3 at 14 + 7 = 20 after it began at 6, and 24
 * of its ops need 24: 20 + 24 - 8 = 36 is a bound, and met. */
static void test_known (void)
{
  static const struct {
    guint p, m;
    gint64 cost[4];
    gint64 makespan, bound;
  } known[] = {
    { 4, 4, { 1, 1, 1, 1 }, 36, 36 },
    { 8, 8, { 1, 1, 1, 1 }, 76, 76 },
    { 4, 8, { 6, 4, 4, 1 }, 245, 245 },
    { 4, 8, { 1, 1, 1, 1 }, 62, 60 },
    { 8, 8, { 1000, 1020, 880, 50 }, 54890, 54590 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (known); i++) {
    g_auto (Case) c = { 0 };

    case_init (&c, PS_PLACEMENT_V, known[i].p, 2, known[i].m, known[i].cost, 21024, 512, 21024 * 2 * known[i].p);
    c.setting.move_limit = i == 2 ? 30000000 : 2000000;
    g_autoptr (PsSearchResult) result = fine (ps_search (&c.setting, &error));

    check_result (&c, result);
    g_assert_cmpint (result->makespan_ns, <=, known[i].makespan);
    g_assert_cmpint (result->lower_bound_ns, >=, known[i].bound);
  }
}

/* Whatever the problem, the result holds. */
static void test_random (void)
{
  guint n = n_cases (300);
  g_autoptr (GRand) draw = g_rand_new_with_seed (7);

  for (guint i = 0; i < n; i++) {
    g_auto (Case) c = { 0 };

    case_draw (&c, draw, 5, i % 10 == 0 ? 40 : 8);
    c.setting.move_limit = i % 4 == 0 ? 1 : 4000;
    c.setting.n_threads = 1 + i % 2;
    g_autoptr (PsSearchResult) result = fine (ps_search (&c.setting, &error));

    check_result (&c, result);
  }
}

/* Slices of microbatches: the result is a schedule of slices, never worse than seq1f1b within the same limit. */
static void test_slices (void)
{
  g_autoptr (GRand) draw = g_rand_new_with_seed (21);
  guint n_held = 0;

  for (guint i = 0; i < 120; i++) {
    g_auto (Case) c = { 0 };

    case_draw (&c, draw, 4, 6);
    case_slice (&c, draw);
    g_autoptr (PsCosts) whole = whole_costs (c.costs, c.setting.n_slices);
    PsSearchSetting setting = c.setting;
    setting.costs = whole;
    setting.move_limit = i % 4 == 0 ? 1 : 8000;
    g_autoptr (PsSearchResult) result = fine (ps_search (&setting, &error));
    g_assert_cmpuint (result->schedule->n_slices, ==, setting.n_slices);
    g_assert_cmpuint (result->schedule->n_microbatches, ==, setting.n_microbatches);
    check_result (&c, result);
    PsFamilySetting family = { .n_devices = c.placement->n_devices,
                               .n_microbatches = setting.n_microbatches,
                               .n_chunks = c.placement->n_stages / c.placement->n_devices,
                               .n_slices = setting.n_slices };
    g_autoptr (PsSchedule) schedule = ps_family_generate (ps_family_find ("seq1f1b"), &family, NULL);
    if (schedule == NULL)
      continue;
    g_autoptr (PsProgram) program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, NULL);
    g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
    gboolean fits = TRUE;
    ps_simulate (program, c.costs, simulation);
    for (guint d = 0; d < simulation->n_devices && c.limit != NULL; d++)
      fits &= simulation->device[d].peak_bytes <= c.limit[d];
    if (!fits)
      continue;
    g_assert_cmpint (objective_of (&c, result), <=,
                     c.setting.objective == PS_OBJECTIVE_SPAN ? simulation->max_span_ns : simulation->makespan_ns);
    n_held++;
  }
  g_assert_cmpuint (n_held, >, 10);
}

/* Never worse than a family under the same limit. */
static void test_families (void)
{
  g_autoptr (GRand) draw = g_rand_new_with_seed (8);
  guint n_families;
  const PsFamily *const *families = ps_family_table (&n_families);

  for (guint i = 0; i < 40; i++) {
    g_auto (Case) c = { 0 };

    case_draw (&c, draw, 4, 8);
    c.setting.move_limit = 4000;
    g_autoptr (PsSearchResult) result = ps_search (&c.setting, NULL);
    PsFamilySetting setting = { .n_devices = c.placement->n_devices,
                                .n_microbatches = c.setting.n_microbatches,
                                .n_chunks = c.placement->n_stages / c.placement->n_devices,
                                .costs = c.costs,
                                .memory_limit = c.limit };

    for (guint f = 0; f < n_families; f++) {
      g_autoptr (PsSchedule) schedule = ps_family_generate (families[f], &setting, NULL);

      if (schedule == NULL || schedule->n_slices > 1 || schedule->placement->n_copies > 1 || schedule->asynchronous
          || schedule->placement->kind != c.placement->kind)
        continue;
      g_autoptr (PsProgram) program = ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, NULL);
      if (program == NULL || program->pair != NULL)
        continue;
      g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
      gboolean fits = TRUE;
      ps_simulate (program, c.costs, simulation);
      for (guint d = 0; d < simulation->n_devices && c.limit != NULL; d++)
        fits &= simulation->device[d].peak_bytes <= c.limit[d];
      if (fits)
        g_assert_cmpint (objective_of (&c, result), <=,
                         c.setting.objective == PS_OBJECTIVE_SPAN ? simulation->max_span_ns : simulation->makespan_ns);
    }
  }
}

/* More moves go on where fewer stopped, in long schedules too, which start from shorter ones. */
static void test_longer (void)
{
  g_autoptr (GRand) draw = g_rand_new_with_seed (9);

  for (guint i = 0; i < 20; i++) {
    g_auto (Case) c = { 0 };
    gint64 before = G_MAXINT64;

    case_draw (&c, draw, 4, i % 3 == 0 ? 40 : 8);
    c.setting.n_threads = 1 + i % 2;
    for (c.setting.move_limit = 2000; c.setting.move_limit <= 32000; c.setting.move_limit *= 2) {
      g_autoptr (PsSearchResult) result = ps_search (&c.setting, NULL);

      g_assert_cmpint (objective_of (&c, result), <=, before);
      before = objective_of (&c, result);
    }
  }
}

static void test_repeats (void)
{
  const gint64 cost[4] = { 100, 130, 70, 9 };

  for (guint threads = 1; threads <= 3; threads += 2) {
    g_auto (Case) c = { 0 };

    case_init (&c, PS_PLACEMENT_V, 4, 2, 6, cost, 4, 2, 20);
    c.setting.n_threads = threads;
    c.setting.move_limit = 30000;
    g_autoptr (PsSearchResult) a = ps_search (&c.setting, NULL);
    g_autoptr (PsSearchResult) b = ps_search (&c.setting, NULL);
    g_autofree char *text_a = ps_schedule_to_json (a->schedule), *text_b = ps_schedule_to_json (b->schedule);

    g_assert_cmpstr (text_a, ==, text_b);
  }
}

/* A limit below what one microbatch needs, F of both chunks of a device at once, is refused with that number. */
static void test_infeasible (void)
{
  const gint64 cost[4] = { 1, 1, 1, 0 };
  g_auto (Case) c = { 0 };
  g_autoptr (GError) error = NULL;

  case_init (&c, PS_PLACEMENT_V, 2, 2, 4, cost, 4, 2, 7);
  refused (ps_search (&c.setting, &error), PS_ERROR_SCHEDULE,
           "*infeasible: needs at least 8 B (8 bytes) on device 0, not 7 B*");
  c.limit[0] = c.limit[1] = 8;
  g_clear_error (&error);
  g_autoptr (PsSearchResult) result = fine (ps_search (&c.setting, &error));
  check_result (&c, result);
}

static gboolean never (guint64 n_moves, gpointer data)
{
  return FALSE;
}

/* ZB-H2 of 12 microbatches repeats itself in the middle: made longer it is as good as ZB-H2 of 60. None is made where
 * it is stopped. */
static void test_lengthen (void)
{
  const gint64 cost[4] = { 1, 1, 1, 0 };
  g_auto (Case) few = { 0 }, many = { 0 };

  case_init (&few, PS_PLACEMENT_LOOP, 3, 1, 12, cost, 2, 1, 0);
  case_init (&many, PS_PLACEMENT_LOOP, 3, 1, 60, cost, 2, 1, 0);
  g_autoptr (PsProblem) small = ps_problem_new (&few.setting), large = ps_problem_new (&many.setting);
  g_autoptr (PsOrder) from = ps_order_new (small), to = ps_order_new (large);
  PsFamilySetting setting = { .n_devices = 3, .n_microbatches = 12, .n_chunks = 1 };
  g_autoptr (PsSchedule) schedule = ps_family_generate (ps_family_find ("zb-h2"), &setting, NULL);

  g_assert_true (ps_order_from_schedule (from, schedule));
  g_assert_true (ps_order_evaluate (from));
  g_assert_true (ps_order_lengthen (to, from, always, NULL));
  g_assert_cmpint (to->objective, ==, from->objective + (60 - 12) * 3);
  g_assert_false (ps_order_lengthen (to, from, never, NULL));
}

/* A problem, and what a search makes of it. */
typedef struct {
  PsPlacementKind placement;
  guint p, v, m;
  gint64 cost[4];
  gint64 limit; /* bytes; a microbatch has 2 on each stage, and its W 1; 0: none */
  PsObjective objective;
  guint n_slices; /* 0: 1 */
  gint64 pair;    /* 0: none */
  gint64 fused;   /* of a BW; 0: as its B and W */
  gint64 best;
  guint64 n_moves;
  gint64 bound; /* equal to best: the optimum is proved */
} Quality;

/* How soon a search with one seed proves the optimum, or what it finds until then: every placement, little memory,
 * slices, pairs, short BW. If a change of the search needs more moves, it has to be better elsewhere. */
static void test_quality (void)
{
  static const Quality rows[] = {
    { PS_PLACEMENT_LOOP, 4, 1, 8, { 10, 12, 8, 1 }, 6, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 342, 62600, 342 },
    { PS_PLACEMENT_LOOP, 3, 2, 6, { 10, 12, 8, 1 }, 10, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 409, 65000, 409 },
    { PS_PLACEMENT_V, 3, 2, 6, { 10, 12, 8, 1 }, 8, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 436, 83800, 436 },
    { PS_PLACEMENT_WAVE, 2, 4, 4, { 10, 12, 8, 1 }, 12, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 521, 65700, 521 },
    { PS_PLACEMENT_BIDIRECTIONAL, 4, 1, 8, { 10, 12, 8, 1 }, 8, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 257, 68200, 257 },
    { PS_PLACEMENT_V, 3, 2, 6, { 10, 12, 8, 1 }, 8, PS_OBJECTIVE_SPAN, 0, 0, 0, 436, 138600, 436 },
    { PS_PLACEMENT_WAVE, 2, 4, 4, { 10, 12, 8, 1 }, 12, PS_OBJECTIVE_SPAN, 0, 0, 0, 522, 129600, 518 },
    { PS_PLACEMENT_LOOP, 4, 1, 4, { 10, 12, 8, 1 }, 16, PS_OBJECTIVE_MAKESPAN, 2, 0, 0, 138, 2600, 138 },
    { PS_PLACEMENT_LOOP, 3, 1, 4, { 10, 12, 8, 1 }, 14, PS_OBJECTIVE_SPAN, 3, 0, 0, 120, 16800, 120 },
    { PS_PLACEMENT_V, 3, 2, 4, { 10, 12, 8, 1 }, 24, PS_OBJECTIVE_MAKESPAN, 2, 0, 0, 252, 6600, 252 },
    { PS_PLACEMENT_V, 3, 2, 30, { 10, 12, 8, 1 }, 12, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 1830, 77300, 1830 },
    { PS_PLACEMENT_LOOP, 4, 1, 8, { 100, 102, 88, 5 }, 6, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 3146, 62100, 3146 },
    { PS_PLACEMENT_V, 3, 2, 6, { 100, 102, 88, 5 }, 8, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 4084, 38700, 4084 },
    { PS_PLACEMENT_V, 4, 2, 8, { 100, 102, 88, 5 }, 12, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 5300, 53800, 5300 },
    { PS_PLACEMENT_V, 4, 2, 8, { 100, 102, 88, 5 }, 16, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 4991, 15300, 4991 },
    { PS_PLACEMENT_BIDIRECTIONAL, 4, 1, 8, { 100, 102, 88, 5 }, 8, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 2447, 57000, 2447 },
    { PS_PLACEMENT_LOOP, 4, 1, 8, { 100, 102, 88, 5 }, 6, PS_OBJECTIVE_SPAN, 0, 0, 0, 3146, 61700, 3146 },
    { PS_PLACEMENT_LOOP, 3, 1, 4, { 100, 102, 88, 5 }, 14, PS_OBJECTIVE_SPAN, 3, 0, 0, 1152, 10600, 1152 },
    { PS_PLACEMENT_V, 3, 2, 4, { 100, 102, 88, 5 }, 24, PS_OBJECTIVE_MAKESPAN, 2, 0, 0, 2430, 5500, 2430 },
    { PS_PLACEMENT_LOOP, 4, 1, 8, { 6, 4, 4, 1 }, 6, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 166, 62200, 166 },
    { PS_PLACEMENT_LOOP, 3, 2, 6, { 6, 4, 4, 1 }, 10, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 197, 62800, 197 },
    { PS_PLACEMENT_BIDIRECTIONAL, 2, 1, 6, { 6, 4, 4, 1 }, 5, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 85, 16900, 85 },
    { PS_PLACEMENT_LOOP, 4, 1, 8, { 6, 4, 4, 1 }, 6, PS_OBJECTIVE_SPAN, 0, 0, 0, 166, 209400, 166 },
    { PS_PLACEMENT_LOOP, 3, 1, 4, { 6, 4, 4, 1 }, 14, PS_OBJECTIVE_SPAN, 3, 0, 0, 49, 26000, 49 },
    { PS_PLACEMENT_V, 3, 2, 4, { 6, 4, 4, 1 }, 24, PS_OBJECTIVE_MAKESPAN, 2, 0, 0, 120, 12600, 120 },
    { PS_PLACEMENT_V, 4, 2, 8, { 10, 12, 8, 1 }, 12, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 574, 40000, 568 },
    { PS_PLACEMENT_V, 4, 2, 8, { 10, 12, 8, 1 }, 12, PS_OBJECTIVE_SPAN, 0, 0, 0, 576, 40000, 538 },
    { PS_PLACEMENT_BIDIRECTIONAL, 4, 1, 8, { 10, 12, 8, 1 }, 8, PS_OBJECTIVE_SPAN, 0, 0, 0, 255, 80000, 240 },
    { PS_PLACEMENT_V, 4, 2, 8, { 10, 12, 8, 1 }, 0, PS_OBJECTIVE_MAKESPAN, 0, 22, 0, 484, 40000, 459 },
    { PS_PLACEMENT_LOOP, 4, 1, 8, { 10, 12, 8, 1 }, 10, PS_OBJECTIVE_MAKESPAN, 0, 22, 0, 278, 40000, 248 },
    { PS_PLACEMENT_LOOP, 4, 1, 8, { 10, 12, 8, 1 }, 8, PS_OBJECTIVE_MAKESPAN, 0, 0, 16, 281, 60000, 274 },
    { PS_PLACEMENT_V, 4, 2, 8, { 100, 102, 88, 5 }, 16, PS_OBJECTIVE_SPAN, 0, 0, 0, 4766, 40000, 4684 },
    { PS_PLACEMENT_V, 4, 2, 8, { 100, 102, 88, 5 }, 0, PS_OBJECTIVE_MAKESPAN, 0, 217, 0, 4586, 40000, 4407 },
    { PS_PLACEMENT_LOOP, 4, 1, 8, { 100, 102, 88, 5 }, 8, PS_OBJECTIVE_MAKESPAN, 0, 0, 152, 2649, 40000, 2436 },
    { PS_PLACEMENT_V, 3, 2, 6, { 6, 4, 4, 1 }, 8, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 210, 40000, 208 },
    { PS_PLACEMENT_V, 4, 2, 8, { 6, 4, 4, 1 }, 12, PS_OBJECTIVE_MAKESPAN, 0, 0, 0, 276, 40000, 272 },
    { PS_PLACEMENT_V, 4, 2, 8, { 6, 4, 4, 1 }, 0, PS_OBJECTIVE_MAKESPAN, 0, 10, 0, 232, 40000, 213 },
    { PS_PLACEMENT_LOOP, 4, 1, 8, { 6, 4, 4, 1 }, 8, PS_OBJECTIVE_MAKESPAN, 0, 0, 6, 134, 40000, 124 },
    { PS_PLACEMENT_LOOP, 4, 1, 14, { 10, 12, 8, 1 }, 12, PS_OBJECTIVE_MAKESPAN, 2, 0, 0, 438, 32200, 438 },
    { PS_PLACEMENT_LOOP, 3, 1, 4, { 10, 12, 8, 1 }, 0, PS_OBJECTIVE_MAKESPAN, 2, 0, 15, 126, 20000, 116 },
    { PS_PLACEMENT_V, 2, 2, 4, { 10, 12, 8, 1 }, 16, PS_OBJECTIVE_SPAN, 3, 22, 0, 252, 20000, 183 },
    { PS_PLACEMENT_BIDIRECTIONAL, 4, 1, 6, { 10, 12, 8, 1 }, 0, PS_OBJECTIVE_SPAN, 2, 0, 0, 192, 20000, 180 },
    { PS_PLACEMENT_LOOP, 2, 1, 30, { 10, 12, 8, 1 }, 12, PS_OBJECTIVE_MAKESPAN, 3, 0, 0, 904, 19200, 904 },
  };

  const guint step = MAX (G_N_ELEMENTS (rows) / n_cases (G_N_ELEMENTS (rows)), 1);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i += step) {
    const Quality *row = &rows[i];
    g_auto (Case) c = { 0 };

    case_init (&c, row->placement, row->p, row->v, row->m, row->cost, 2, 1, row->limit);
    for (guint s = 0; s < c.placement->n_stages; s++) {
      if (row->pair > 0)
        c.costs->stage[s].pair_ns = row->pair;
      if (row->fused > 0)
        ps_costs_op (c.costs, PS_OP_BW, s)->duration_ns = row->fused;
    }
    c.setting.objective = row->objective;
    c.setting.n_slices = row->n_slices;
    c.setting.move_limit = row->n_moves;
    g_autoptr (PsSearchResult) result = fine (ps_search (&c.setting, &error));
    g_test_message ("row %u: %" G_GINT64_FORMAT ", bound %" G_GINT64_FORMAT ", %" G_GUINT64_FORMAT " moves, %s", i,
                    objective_of (&c, result), result->lower_bound_ns, result->n_moves, result->found_by);
    g_assert_cmpint (objective_of (&c, result), <=, row->best);
    g_assert_cmpint (result->lower_bound_ns, >=, row->bound);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/search/problem", test_problem);
  g_test_add_func ("/search/moves", test_moves);
  g_test_add_func ("/search/list", test_list);
  g_test_add_func ("/search/optimum", test_optimum);
  g_test_add_func ("/search/bounds", test_bounds);
  g_test_add_func ("/search/known", test_known);
  g_test_add_func ("/search/random", test_random);
  g_test_add_func ("/search/slices", test_slices);
  g_test_add_func ("/search/families", test_families);
  g_test_add_func ("/search/longer", test_longer);
  g_test_add_func ("/search/repeats", test_repeats);
  g_test_add_func ("/search/infeasible", test_infeasible);
  g_test_add_func ("/search/lengthen", test_lengthen);
  g_test_add_func ("/search/quality", test_quality);
  return g_test_run ();
}
