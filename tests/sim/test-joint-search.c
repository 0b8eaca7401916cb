/* test-joint-search.c - the joint search: bounds over all modes of stages, against searches of each and against all
 * schedules of small problems; which microbatches have an R; and schedules that go on elsewhere. */
#include "plan/joint-search.c"

#include "cases.h"
#include "setting-search-rig.h"

static const char *const families[] = { "gpipe", "1f1b", "zb-h1" };

/* Another mode of all stages: F keeps less, and B takes longer. */
static PsCosts *draw_mode_costs (const PsCosts *costs, GRand *random)
{
  PsCosts *other = ps_costs_copy (costs);

  for (guint s = 0; s < costs->n_stages; s++) {
    gint64 longer = 1000 * g_rand_int_range (random, 0, 20), dropped = 1024 * g_rand_int_range (random, 0, 13);

    for (PsOpKind kind = PS_OP_B; kind <= PS_OP_BW; kind += PS_OP_BW - PS_OP_B) {
      ps_costs_op (other, kind, s)->duration_ns += longer;
      ps_costs_op (other, kind, s)->take_bytes += dropped;
    }
    ps_costs_op (other, PS_OP_F, s)->give_bytes += dropped;
  }
  return other;
}

/* The best of all mixes of modes, each searched by itself. */
static gint64 best_mix (PsSearchPricing *pricing, const PsPlacement *placement, const Modes *modes)
{
  g_autoptr (PsCosts) mixed = ps_costs_copy (modes->costs[0]);
  gint64 best = G_MAXINT64;

  pricing->given = mixed;
  for (guint mix = 0; mix < 1U << mixed->n_stages; mix++) {
    for (guint s = 0; s < mixed->n_stages; s++)
      ps_costs_copy_stage (mixed, s, modes->costs[mix >> s & 1], s);
    g_autoptr (PsSearchResult) result = search (pricing, placement, MOVES);
    if (result != NULL)
      best = MIN (best, result->price_ns);
  }
  return best;
}

/* The bound over all mixes of modes is never above the best of them, and sometimes meets it. */
static void test_modes (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (16);
  guint n_met = 0, n_found = 0, n = n_cases (40);

  for (guint i = 0; i < n; i++) {
    g_autofree char *line = g_strdup_printf (
        "-p 2 -m 4 --costs f=%dus,b=%dus,w=%dus,c=%dus,act=16KiB,wact=4KiB --memory-limit %dKiB",
        g_rand_int_range (random, 1, 30), g_rand_int_range (random, 1, 30), g_rand_int_range (random, 1, 30),
        g_rand_int_range (random, 0, 30), g_rand_int_range (random, 20, 60));
    g_autoptr (PsSetting) setting = parse_good (line);
    g_autoptr (PsPlacement) placement = ps_placement_new (i % 3 ? PS_PLACEMENT_LOOP : PS_PLACEMENT_BIDIRECTIONAL, 2, 1);
    g_autoptr (PsCosts) given = ps_setting_costs (setting, 2, 1, NULL), other = draw_mode_costs (given, random);
    const Modes modes = { .n = 2, .costs = { given, other } };
    PsSearchPricing pricing = { .setting = setting };
    g_autofree gint64 *limit = NULL;
    gint64 best = best_mix (&pricing, placement, &modes), bound;

    g_assert_true (ps_setting_memory_limit (setting, 2, &limit, NULL, NULL));
    setting->n_slices = 1;
    bound = bound_modes (setting, placement, limit, &modes, best < G_MAXINT64 ? 2 * best : best);
    g_test_message ("%s: best %" G_GINT64_FORMAT ", bound %" G_GINT64_FORMAT, line, best, bound);
    g_assert_cmpint (bound, <=, best);
    n_found += best != G_MAXINT64;
    n_met += bound == best;
  }
  g_test_message ("%u found, %u met", n_found, n_met);
  g_assert_cmpuint (n_found, >, n * 3 / 4);
  g_assert_true (n < 40 || n_met > n / 5); /* 11 of the first 40, none of the first 10 */
}

/* No schedule is faster, whichever microbatches recompute. */
static gint64 mixed_bound (PsSetting *setting, PsPlacementKind kind, guint n_chunks)
{
  guint n = setting->n_devices;
  g_autoptr (PsPlacement) placement = ps_placement_new (kind, n, n_chunks);
  g_autofree gint64 *limit = NULL;
  Modes modes = { .n = 2, .recompute = { PS_RECOMPUTE_NONE, PS_RECOMPUTE_FULL } };
  gint64 bound;

  g_assert_true (ps_setting_memory_limit (setting, n, &limit, NULL, NULL));
  for (guint mode = 0; mode < 2; mode++) {
    setting->recompute = modes.recompute[mode];
    modes.costs[mode] = ps_setting_costs (setting, n, n_chunks, NULL);
  }
  setting->recompute = PS_RECOMPUTE_NONE;
  setting->n_slices = 1;
  bound = bound_modes (setting, placement, limit, &modes, G_MAXINT64);
  setting->n_slices = 0;
  modes_clear (&modes);
  return bound;
}

/* Ops of one microbatch on one stage that have run, as bits. */
enum {
  DID_F = 1,
  DID_R = 2,
  DID_B = 4,
  DID_W = 8,
  HAS_R = 16,
};

#define FEW 3

/* Every schedule of FEW microbatches on two devices, op by op in the order of their starts. */
typedef struct {
  const Draw *draw;
  gint64 limit;
  guint did[P][FEW];
  gint64 end[P][FEW][2]; /* of F and B */
  gint64 free[P];        /* end of the device's last op */
  gint64 held[P];
  gint64 left[P]; /* work, without R that are not yet decided */
  gint64 start;   /* of the last op */
  gint64 best;
} Every;

static void try_every (Every *every);

static void try_op (const Every *every, guint d, guint k, guint bit, guint also)
{
  const Draw *draw = every->draw;
  gint64 dropped = draw->act - draw->keep, ready = every->free[d], duration_ns, take = 0, give = 0;
  guint had = every->did[d][k];
  Every next = *every;

  switch (bit) {
  case DID_F:
    duration_ns = draw->f;
    take = draw->act;
    give = also & HAS_R ? dropped : 0;
    if (d > 0)
      ready = MAX (ready, every->end[0][k][0] + draw->c);
    break;
  case DID_R:
    duration_ns = draw->r;
    take = dropped;
    break;
  case DID_B:
    duration_ns = draw->b;
    give = draw->act - draw->wact;
    if (d + 1 < P)
      ready = MAX (ready, every->end[1][k][1] + draw->c);
    break;
  default:
    duration_ns = draw->w;
    give = draw->wact;
  }
  next.start = MAX (ready, every->start);
  next.free[d] = ready + duration_ns;
  next.held[d] += take;
  next.left[d] += (also & HAS_R ? draw->r : 0) - duration_ns;
  if (ready < every->start || next.held[d] > every->limit || next.free[d] + next.left[d] >= every->best)
    return;
  next.held[d] -= give;
  next.did[d][k] = had | bit | also;
  if (bit == DID_F || bit == DID_B)
    next.end[d][k][bit == DID_B] = next.free[d];
  try_every (&next);
  ((Every *)every)->best = next.best;
}

/* Microbatches are numbered by their F on the first device; of their W the first comes first. */
static void try_every (Every *every)
{
  gboolean done = TRUE;

  for (guint d = 0; d < P; d++) {
    gboolean had_w = FALSE;

    for (guint k = 0; k < FEW; k++) {
      guint did = every->did[d][k];

      done &= (did & DID_W) != 0;
      if (!(did & DID_F)) {
        if (d == 0 ? k > 0 && !(every->did[0][k - 1] & DID_F) : !(every->did[0][k] & DID_F))
          continue;
        try_op (every, d, k, DID_F, 0);
        try_op (every, d, k, DID_F, HAS_R);
      } else if ((did & HAS_R) && !(did & DID_R))
        try_op (every, d, k, DID_R, 0);
      else if (!(did & DID_B) && (d + 1 == P || (every->did[1][k] & DID_B)))
        try_op (every, d, k, DID_B, 0);
      else if ((did & DID_B) && !(did & DID_W) && !had_w) {
        had_w = TRUE;
        try_op (every, d, k, DID_W, 0);
      }
    }
  }
  if (done)
    every->best = MIN (every->best, MAX (every->free[0], every->free[1]));
}

/* The bound is not above the best of all orders with all choices of R, and often near it. */
static void test_bound (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (35);
  guint n_near = 0, n = 0;

  for (guint i = 0; i < n_cases (40); i++) {
    Draw drawn;
    gint64 limit = g_rand_int_range (random, 8, 40);
    g_autoptr (PsSetting) setting = draw (random, 1024 * limit, &drawn);
    Every every = { .draw = &drawn, .limit = limit, .best = G_MAXINT64 };
    gint64 bound;

    setting->n_microbatches = FEW;
    for (guint d = 0; d < P; d++)
      every.left[d] = FEW * (drawn.f + drawn.b + drawn.w);
    try_every (&every);
    if (every.best == G_MAXINT64)
      continue;
    bound = mixed_bound (setting, PS_PLACEMENT_LOOP, 1);
    g_test_message ("%u: best %" G_GINT64_FORMAT ", bound %" G_GINT64_FORMAT, i, 1000 * every.best, bound);
    g_assert_cmpint (bound, <=, 1000 * every.best);
    n_near += bound > 900 * every.best;
    n++;
  }
  g_test_message ("%u of %u near", n_near, n);
  g_assert_cmpuint (4 * n_near, >=, 3 * n);
}

/* The bound holds for several stages on a device, for two copies of the weights, and for spans: it is not above any of
 * many choices of R for an order of a family. Nor is the bound of such an order above its own period. */
static void test_bound_many (void)
{
  static const char *const names[] = { "interleaved", "zb-v", "chimera", "1f1b" };
  g_autoptr (GRand) random = g_rand_new_with_seed (36);
  guint n_fit = 0;

  for (guint i = 0; i < n_cases (48); i++) {
    const PsFamily *family = ps_family_find (names[i % G_N_ELEMENTS (names)]);
    g_autoptr (PsSchedule) order = schedule_with (family->name, 0);
    g_autofree char *line = g_strdup_printf (
        "-p 2 -m 4 --costs f=%dus,b=%dus,w=%dus,r=%dus,c=%dus,act=12KiB,wact=%dKiB,keep=%dKiB --memory-limit %dKiB%s",
        g_rand_int_range (random, 1, 20), g_rand_int_range (random, 1, 20), g_rand_int_range (random, 1, 20),
        g_rand_int_range (random, 1, 20), g_rand_int_range (random, 0, 5), g_rand_int_range (random, 0, 12),
        g_rand_int_range (random, 0, 12), g_rand_int_range (random, 12, 50), i % 8 < 4 ? "" : " --sync bypass");
    g_autoptr (PsSetting) setting = parse_good (line);
    gint64 bound = mixed_bound (setting, order->placement->kind, family->default_chunks), least = G_MAXINT64;

    for (guint k = 0; k < 300; k++) {
      guint mask = (guint)(g_rand_int (random) & g_rand_int (random) & 0xffff);
      g_autoptr (PsPrediction) prediction = predict (setting, family->name, mask);
      const PsMetrics *metrics = &prediction->metrics;

      g_assert_cmpint (prediction->lower_bound_ns, <=, prediction->iteration.period_ns);
      if (prediction->feasible)
        least = MIN (least, setting->sync == PS_SYNC_BYPASS ? metrics->max_span_ns : metrics->makespan_ns);
    }
    g_test_message ("%s: %s: least %" G_GINT64_FORMAT ", bound %" G_GINT64_FORMAT, family->name, line, least, bound);
    g_assert_cmpint (bound, <=, least);
    n_fit += least < G_MAXINT64;
  }
  g_assert_cmpuint (2 * n_fit, >, n_cases (48));
}

/* A relaxed stage is no slower than any of its modes, with a time for pairs or without. */
static void test_pairs (void)
{
  static const gint64 pairs[][3]
      = { { 7, -1, 7 }, { -1, 7, 7 }, { 17, -1, 10 }, { -1, 17, 10 }, { -1, -1, -1 }, { 7, 9, 7 } };

  for (guint i = 0; i < G_N_ELEMENTS (pairs); i++) {
    g_autoptr (PsCosts) a = ps_costs_new (1), b = ps_costs_new (1);

    ps_costs_op (a, PS_OP_F, 0)->duration_ns = ps_costs_op (b, PS_OP_F, 0)->duration_ns = 10;
    a->stage[0].pair_ns = pairs[i][0];
    b->stage[0].pair_ns = pairs[i][1];
    relax_stage (a, b, 0);
    g_assert_cmpint (a->stage[0].pair_ns, ==, pairs[i][2]);
  }
}

/* The least time of an order over all choices of R; G_MAXINT64: none fits. */
static gint64 best_of_order (const PsSetting *setting, const char *family)
{
  gint64 best = G_MAXINT64;

  for (guint mask = 0; mask < 1U << (P * M); mask++) {
    g_autoptr (PsPrediction) prediction = predict (setting, family, mask);

    if (prediction->feasible)
      best = MIN (best, prediction->metrics.makespan_ns);
  }
  return best;
}

/* The time of the order with the R ops that recompute_some chooses; G_MAXINT64: none fit. */
static gint64 chosen_of_order (const PsSetting *setting, const PsCosts *given, const char *family)
{
  static const guint8 some[] = { 1, 1 };
  const PsSearchLimits limits = { 0 };
  g_autoptr (PsSchedule) order = schedule_with (family, 0);
  PsSearchResult *result = g_new0 (PsSearchResult, 1);
  PsSearchFound found = { .result = result };
  gint64 time_ns = G_MAXINT64;

  result->schedule = g_steal_pointer (&order);
  if (recompute_some (setting, &limits, given, some, &found)) {
    g_assert_true (found.prediction->feasible);
    g_assert_cmpint (result->price_ns, ==, found.prediction->metrics.makespan_ns);
    time_ns = result->price_ns;
  }
  ps_prediction_free (found.prediction);
  ps_search_result_free (result);
  return time_ns;
}

/* Of every choice of R for an order, recompute_some finds one within 1 % of the best, and nearly always the best. The
 * bound over all mixes is never above any of them. Some mixes are better than any mode of whole stages. */
static void test_choice (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (33);
  guint n_fit = 0, n_best = 0;
  double sum = 0;

  for (guint i = 0; i < 30; i++) {
    Draw drawn;
    g_autoptr (PsSetting) setting = draw (random, 1024 * g_rand_int_range (random, 10, 60), &drawn);
    g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, P, 1);
    g_autoptr (PsCosts) given = ps_setting_costs (setting, P, 1, NULL);
    Modes modes = { .n = 2, .recompute = { PS_RECOMPUTE_NONE, PS_RECOMPUTE_FULL } };
    gint64 limit[] = { setting->memory_limit[0], setting->memory_limit[0] }, least = G_MAXINT64;

    for (guint k = 0; k < G_N_ELEMENTS (families); k++) {
      gint64 best = best_of_order (setting, families[k]), chosen = chosen_of_order (setting, given, families[k]);

      g_assert_cmpint (chosen, >=, best);
      least = MIN (least, best);
      n_fit += best < G_MAXINT64;
      n_best += best < G_MAXINT64 && chosen == best;
      g_assert_cmpint (chosen == G_MAXINT64, ==, best == G_MAXINT64);
      sum += best < G_MAXINT64 ? (double)chosen / (double)best - 1 : 0;
    }
    setting->recompute = PS_RECOMPUTE_FULL;
    modes.costs[0] = ps_costs_copy (given);
    modes.costs[1] = ps_setting_costs (setting, P, 1, NULL);
    setting->n_slices = 1;
    g_assert_cmpint (bound_modes (setting, placement, limit, &modes, G_MAXINT64), <=, least);
    modes_clear (&modes);
  }
  g_test_message ("%u fit, %u best, %.3f %% longer", n_fit, n_best, 100 * sum / n_fit);
  g_assert_cmpuint (n_fit, >, 40);
  g_assert_cmpfloat (sum / n_fit, <, 0.01);
  g_assert_cmpuint (10 * n_best, >=, 9 * n_fit);
}

/* A schedule goes on without its R, of two copies of the weights too. */
static void test_carry_over (void)
{
  static const char *const names[] = { "1f1b", "chimera" };
  g_autoptr (PsSetting) setting = parse_good ("-p 2 -m 4 --costs f=1ms,b=1ms,w=1ms,act=2KiB,keep=1KiB");

  for (guint i = 0; i < G_N_ELEMENTS (names); i++) {
    const PsSearchFound found = { .prediction = predict (setting, names[i], 0x5a) };
    const PsSchedule *schedule = found.prediction->program->schedule;
    g_autoptr (PsSchedule) carried = carry_over (&found, schedule->placement);

    g_assert_true (ps_schedule_validate (carried, NULL));
    g_assert_false (carried->recomputes);
    g_assert_cmpuint (ps_schedule_n_ops (carried), ==, ps_schedule_n_ops (schedule) - 4);
    for (guint microbatch = 0; microbatch < M; microbatch++)
      g_assert_cmpuint (ps_schedule_weight_copy (carried, microbatch), ==,
                        ps_schedule_weight_copy (schedule, microbatch));
    ps_prediction_free (found.prediction);
  }
}

/* A stage in one of two modes takes the least of each. Without recomputation F, B and W take 10, 20 and 30, BW 45, and
 * keep 1000 bytes, 300 of them for W; with all of it B takes 31, BW 58, and 400 are kept. */
static void test_relaxed (void)
{
  g_autoptr (PsCosts) none = ps_costs_new (1), full = ps_costs_new (1), relaxed = NULL;
  const gint64 times[2][PS_OP_R] = { { [PS_OP_F] = 10, [PS_OP_B] = 20, [PS_OP_W] = 30, [PS_OP_BW] = 45 },
                                     { [PS_OP_F] = 10, [PS_OP_B] = 31, [PS_OP_W] = 30, [PS_OP_BW] = 58 } };
  const Modes modes = { .n = 1, .costs = { full }, .recompute = { PS_RECOMPUTE_FULL } };

  for (guint kind = 0; kind < PS_OP_R; kind++) {
    ps_costs_op (none, (PsOpKind)kind, 0)->duration_ns = times[0][kind];
    ps_costs_op (full, (PsOpKind)kind, 0)->duration_ns = times[1][kind];
  }
  none->stage[0].weight_bytes = 77;
  full->stage[0].weight_bytes = 70;
  ps_costs_set_memory (none, 0, 1000, 300);
  ps_costs_set_memory (full, 0, 400, 300);
  relaxed = ps_costs_copy (none);
  relax_stage (relaxed, full, 0);
  g_assert_cmpint (ps_costs_op (relaxed, PS_OP_F, 0)->duration_ns, ==, 10);
  g_assert_cmpint (ps_costs_op (relaxed, PS_OP_B, 0)->duration_ns, ==, 20);
  g_assert_cmpint (ps_costs_op (relaxed, PS_OP_BW, 0)->duration_ns, ==, 45);
  g_assert_cmpint (ps_costs_act_bytes (relaxed, 0), ==, 400);
  g_assert_cmpint (ps_costs_wact_bytes (relaxed, 0), ==, 300);
  g_assert_cmpint (relaxed->stage[0].weight_bytes, ==, 70);
  g_assert_cmpint (relaxed->stage[0].pair_ns, ==, -1);
  g_assert_cmpuint (find_mode (&modes, PS_RECOMPUTE_FULL), ==, 0);
  g_assert_cmpuint (find_mode (&modes, PS_RECOMPUTE_NONE), ==, 1);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/joint-search/modes", test_modes);
  g_test_add_func ("/joint-search/all-orders", test_bound);
  g_test_add_func ("/joint-search/many", test_bound_many);
  g_test_add_func ("/joint-search/pairs", test_pairs);
  g_test_add_func ("/joint-search/choice", test_choice);
  g_test_add_func ("/joint-search/carry-over", test_carry_over);
  g_test_add_func ("/joint-search/relaxed", test_relaxed);
  return g_test_run ();
}
