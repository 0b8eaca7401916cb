/* test-search-setting.c - searches under channels, blocking, slow-down and bypass: never worse than a published
 * schedule under the same setting, never better than their bound, and never worse for more moves. */
#include "cases.h"
#include "setting-search-rig.h"
#include "search/order.h"

#define N_SETTINGS 40

static const char *const options[] = {
  "--comm direction",
  "--comm pair",
  "--comm rank",
  "--comm rank --comm-order deferred",
  "--comm rank --comm-order planned",
  "--comm pair --blocking",
  "--blocking",
  "--overlap-slowdown 1.5",
  "--sync bypass",
  "--sync bypass --comm rank",
  "--sync bypass --comm direction",
  "--comm rank --eager 1MiB",
  "--ready-order 4",
};

/* Costs in whole microseconds, in half of all with a limit for some activations and messages of a known size. */
static char *draw_line (GRand *random)
{
  guint p = (guint)g_rand_int_range (random, 2, 6), m = (guint)g_rand_int_range (random, 1, 9);
  gboolean limited = g_rand_boolean (random);
  GString *line = g_string_new (NULL);

  g_string_append_printf (line, "-p %u -m %u %s --costs f=%dus,b=%dus,w=%dus,c=%dus,o=%dus,act=16KiB,wact=4KiB", p, m,
                          options[g_rand_int_range (random, 0, G_N_ELEMENTS (options))],
                          g_rand_int_range (random, 1, 30), g_rand_int_range (random, 1, 30),
                          g_rand_int_range (random, 1, 30), g_rand_int_range (random, 0, 30),
                          g_rand_int_range (random, 0, 9));
  if (limited)
    g_string_append_printf (line, ",msg=2KiB --memory-limit %dKiB", 16 * g_rand_int_range (random, 2, 12));
  return g_string_free (line, FALSE);
}

static gboolean is_placed_so (const PsSchedule *schedule, const PsPlacement *placement)
{
  const PsPlacement *other = schedule->placement;

  return other->n_stages == placement->n_stages && other->n_copies == placement->n_copies
         && memcmp (other->device, placement->device,
                    placement->n_copies * placement->n_stages * sizeof *placement->device)
                == 0;
}

/* Returns how many families were held against the result. */
static guint check_families (const PsSetting *setting, const PsPlacement *placement, const PsSearchResult *result)
{
  guint n, n_checked = 0;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++) {
    g_autoptr (PsPrediction) prediction = ps_predict (setting, families[i]->name, NULL);
    const PsSchedule *schedule = prediction != NULL ? prediction->program->schedule : NULL;

    if (prediction == NULL || !prediction->feasible || schedule->asynchronous || schedule->n_slices > 1
        || !is_placed_so (schedule, placement))
      continue;
    g_assert_cmpint (result->price_ns, <=, ps_search_time (setting, prediction));
    g_assert_cmpint (result->lower_bound_ns, <=, ps_search_time (setting, prediction));
    n_checked++;
  }
  return n_checked;
}

/* The result is what predict says of its schedule, just as the command prints it. */
static void check_result (const PsSearchPricing *pricing, const PsSearchResult *result)
{
  PsCommOrder comm_order;
  g_autoptr (PsPrediction) prediction = ps_search_predict (pricing, result->schedule, &comm_order, NULL);

  if (prediction != NULL && prediction->feasible)
    g_assert_cmpint (ps_search_time (pricing->setting, prediction), ==, result->price_ns);
  else
    g_assert_cmpint (result->price_ns, ==, G_MAXINT64);
  g_assert_cmpint (result->lower_bound_ns, <=, result->price_ns);
  g_assert_cmpint (result->proved_optimal, ==, result->price_ns == result->lower_bound_ns);
}

static guint check_placement (PsSetting *setting, PsPlacementKind kind, guint n_chunks)
{
  g_autoptr (PsPlacement) placement = ps_placement_new (kind, setting->n_devices, n_chunks);
  g_autoptr (PsCosts) given = ps_setting_costs (setting, setting->n_devices, n_chunks, NULL);
  PsSearchPricing pricing = { .setting = setting, .given = given };
  g_autoptr (PsSearchResult) result = search (&pricing, placement, MOVES);
  g_autoptr (PsSearchResult) longer = search (&pricing, placement, 2 * MOVES);

  if (result == NULL)
    return 0;
  check_result (&pricing, result);
  g_assert_cmpint (longer->price_ns, <=, result->price_ns);
  setting->n_chunks = n_chunks;
  return check_families (setting, placement, result);
}

static void test_never_worse (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (13);
  guint n_checked = 0, n = n_cases (N_SETTINGS);

  for (guint i = 0; i < n; i++) {
    g_autofree char *line = draw_line (random);
    g_autoptr (PsSetting) setting = parse_good (line);

    g_test_message ("%s", line);
    n_checked += check_placement (setting, PS_PLACEMENT_LOOP, 1);
    n_checked += check_placement (setting, PS_PLACEMENT_LOOP, 2);
    n_checked += check_placement (setting, PS_PLACEMENT_V, 2);
    if (setting->n_devices % 2 == 0 && setting->n_microbatches % 2 == 0)
      n_checked += check_placement (setting, PS_PLACEMENT_BIDIRECTIONAL, 1);
  }
  g_assert_cmpuint (n_checked, >, 8 * n);
}

/* All four slices of a microbatch, 16 KiB, are held when its last F ends. A price counts buffers, but the room for them
 * does not push the limit of the search below that. */
static void test_slices (void)
{
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 2, 1);
  g_autoptr (PsCosts) slice = ps_costs_parse ("f=2us,b=2us,w=2us,c=1us,act=4KiB,msg=2KiB", 2, 1, NULL);
  const gint64 limit[] = { 16 << 10, 16 << 10 };
  const PsSearchSetting tight = { .placement = placement,
                                  .n_microbatches = 3,
                                  .n_slices = 4,
                                  .costs = slice,
                                  .memory_limit = limit,
                                  .price = ps_search_price };
  g_autoptr (PsProblem) problem = ps_problem_new (&tight);

  for (guint d = 0; d < 2; d++)
    g_assert_cmpint (problem->limit[d], ==, limit[d]);
}

/* A search that is stopped before it begins has the published schedules all the same. */
static void test_stopped (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 4 -m 8 --costs f=2ms,b=2ms,w=1ms,c=2ms --blocking");
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 4, 1);
  g_autoptr (PsCosts) given = ps_setting_costs (setting, 4, 1, NULL);
  PsSearchPricing pricing = { .setting = setting, .given = given };
  const gint stop = 1;
  PsSearchSetting stopped = { .placement = placement,
                              .n_microbatches = 8,
                              .costs = given,
                              .price = ps_search_price,
                              .price_data = &pricing,
                              .time_limit_ns = G_MAXINT64,
                              .stop = &stop,
                              .n_threads = 2 };
  g_autoptr (PsSearchResult) result = ps_search (&stopped, NULL);

  g_assert_cmpuint (check_families (setting, placement, result), >, 5);
  g_assert_cmpint (result->price_ns, ==, 120000000);
  g_assert_cmpstr (result->found_by, ==, "zb-h1");
}

/* Where transfers hold up their devices, the best family takes 5.29 ms, and latency alone shows no better order. Many
 * moves change the price alone, so each order has to be priced. */
static void test_by_price (void)
{
  g_autoptr (PsSetting) setting
      = parse_good ("-p 4 -m 12 --costs f=100us,b=102us,w=88us,c=20us,act=2B,wact=1B --memory-limit 8B --blocking");
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 4, 1);
  g_autoptr (PsCosts) given = ps_setting_costs (setting, 4, 1, NULL);
  PsSearchPricing pricing = { .setting = setting, .given = given };
  g_autoptr (PsSearchResult) result = search (&pricing, placement, 1000000);

  check_result (&pricing, result);
  g_assert_cmpint (result->price_ns, <, 5000000);
  g_assert_cmpint (result->lower_bound_ns, >, 4600000);
}

/* All orders of a problem, op by op, and the lowest price. */
typedef struct {
  PsSearchPricing *pricing;
  const PsPlacement *placement;
  PsOrder *order;
  guint32 *sequence; /* [n_ops] device after device */
  gint64 least;
} Listing;

static void list_orders (Listing *listing, guint at, guint *done)
{
  const PsProblem *problem = listing->order->problem;
  guint m = problem->m, device = at / (N_KINDS * m);

  if (at == problem->n_ops) {
    ps_order_fill (listing->order, listing->sequence);
    if (!ps_order_evaluate (listing->order))
      return;
    g_autoptr (PsSchedule) schedule = ps_order_to_schedule (listing->order, listing->placement);
    listing->least = MIN (listing->least, ps_search_price (schedule, listing->pricing));
    return;
  }
  for (guint chain = device * N_KINDS; chain < (device + 1) * N_KINDS; chain++)
    if (done[chain] < m && (chain % N_KINDS == 0 || done[chain] < done[chain - 1])) {
      listing->sequence[at] = chain * m + done[chain]++;
      list_orders (listing, at + 1, done);
      done[chain]--;
    }
}

/* Against every order of two devices: no result is better than the best, and nearly all are as good. */
static void test_optimum (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (17);
  guint n_met = 0, n = n_cases (18);

  for (guint i = 0; i < n; i++) {
    g_autofree char *line = g_strdup_printf (
        "-p 2 -m 3 %s --costs f=%dus,b=%dus,w=%dus,c=%dus,act=16KiB,wact=4KiB --memory-limit %dKiB", options[i % 9],
        g_rand_int_range (random, 1, 30), g_rand_int_range (random, 1, 30), g_rand_int_range (random, 1, 30),
        g_rand_int_range (random, 0, 30), g_rand_int_range (random, 20, 60));
    g_autoptr (PsSetting) setting = parse_good (line);
    g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 2, 1);
    g_autoptr (PsCosts) given = ps_setting_costs (setting, 2, 1, NULL);
    PsSearchPricing pricing = { .setting = setting, .given = given };
    g_autoptr (PsSearchResult) result = search (&pricing, placement, 100000);
    const PsSearchSetting all = { .placement = placement, .n_microbatches = 3, .n_slices = 1, .costs = given };
    g_autoptr (PsProblem) problem = ps_problem_new (&all);
    g_autoptr (PsOrder) order = ps_order_new (problem);
    g_autofree guint32 *sequence = g_new (guint32, problem->n_ops);
    Listing listing = { &pricing, placement, order, sequence, G_MAXINT64 };
    guint done[2 * N_KINDS] = { 0 };

    list_orders (&listing, 0, done);
    g_test_message ("%s: best %" G_GINT64_FORMAT ", found %" G_GINT64_FORMAT, line, listing.least, result->price_ns);
    check_result (&pricing, result);
    g_assert_cmpint (result->price_ns, >=, listing.least);
    g_assert_cmpint (result->lower_bound_ns, <=, listing.least);
    n_met += result->price_ns == listing.least;
  }
  g_test_message ("%u of %u met", n_met, n);
  g_assert_cmpuint (n_met, >, n * 9 / 10);
}

/* What a search by price finds with few moves, under all kinds of channels. If a change of the search finds less here,
 * it has to find more elsewhere. */
static void test_quality (void)
{
  static const struct {
    PsPlacementKind placement;
    guint v;
    const char *options;
    gint64 price_ns, bound_ns;
  } rows[] = {
    { PS_PLACEMENT_LOOP, 1, "--blocking", 517000, 499000 },
    { PS_PLACEMENT_LOOP, 1, "--comm rank --overlap-slowdown 1.3", 341773, 332076 },
    { PS_PLACEMENT_BIDIRECTIONAL, 1, "--overlap-slowdown 1.4 --memory-limit 64KiB", 355800, 288000 },
    { PS_PLACEMENT_V, 2, "--overlap-slowdown 1.5", 372127, 297000 },
    { PS_PLACEMENT_BIDIRECTIONAL, 1, "--comm rank", 283000, 265000 },
    { PS_PLACEMENT_BIDIRECTIONAL, 1, "--blocking --comm-order planned", 503000, 482000 },
    { PS_PLACEMENT_LOOP, 1, "--comm pair --comm-order planned --memory-limit 80KiB", 362000, 325000 },
    { PS_PLACEMENT_LOOP, 1, "--comm direction --memory-limit 64KiB", 421000, 370824 },
  };

  const guint step = MAX (G_N_ELEMENTS (rows) / n_cases (G_N_ELEMENTS (rows)), 1);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i += step) {
    g_autofree char *line = g_strdup_printf (
        "-p 4 -m 8 --costs f=10us,b=12us,w=9us,c=7us,act=16KiB,wact=4KiB,msg=2KiB %s", rows[i].options);
    g_autoptr (PsSetting) setting = parse_good (line);
    g_autoptr (PsPlacement) placement = ps_placement_new (rows[i].placement, 4, rows[i].v);
    g_autoptr (PsCosts) given = ps_setting_costs (setting, 4, rows[i].v, NULL);
    PsSearchPricing pricing = { .setting = setting, .given = given };
    g_autoptr (PsSearchResult) result = search (&pricing, placement, 200000);

    check_result (&pricing, result);
    g_test_message ("row %u: %" G_GINT64_FORMAT ", bound %" G_GINT64_FORMAT ", %s", i, result->price_ns,
                    result->lower_bound_ns, result->found_by);
    g_assert_cmpint (result->price_ns, <=, rows[i].price_ns);
    g_assert_cmpint (result->lower_bound_ns, >=, rows[i].bound_ns);
  }
}

/* By mean or p90 of sampled costs: the result's price is that figure of its schedule, and no family has a lower one. */
static void test_samples (void)
{
  const PsSlowness slow = { .a = 1, .factor = 2, .probability = 0.3 };
  g_autoptr (GRand) random = g_rand_new_with_seed (15);
  guint n_checked = 0, n_nominal = 0;

  for (guint i = 0; i < 12; i++) {
    g_autofree char *line = draw_line (random);
    g_autoptr (PsSetting) setting = parse_good (line);
    g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, setting->n_devices, 1);
    g_autoptr (PsCosts) given = ps_setting_costs (setting, setting->n_devices, 1, NULL);
    const PsSearchSamples samples = { .objective = i % 2 ? PS_SEARCH_P90 : PS_SEARCH_MEAN,
                                      .uncertainty = { .jitter = 0.1, .slowness = &slow, .n_slowness = 1 },
                                      .n_samples = 32,
                                      .seed = 1 };
    PsSearchPricing pricing = { .setting = setting, .given = given, .samples = &samples };
    g_autoptr (PsSearchResult) result = search (&pricing, placement, MOVES / 4);
    guint n;
    const PsFamily *const *families = ps_family_table (&n);

    g_test_message ("%s", line);
    if (result == NULL || result->price_ns == G_MAXINT64)
      continue;
    g_assert_false (result->proved_optimal);
    g_assert_cmpint (result->price_ns, ==, ps_search_price (result->schedule, &pricing));
    for (guint k = 0; k < n; k++) {
      g_autoptr (PsSchedule) schedule = ps_search_generate (families[k], &pricing, NULL);

      if (schedule == NULL || schedule->asynchronous || schedule->n_slices > 1 || !is_placed_so (schedule, placement))
        continue;
      g_assert_cmpint (result->price_ns, <=, ps_search_price (schedule, &pricing));
      n_checked++;
    }
    pricing.samples = NULL;
    n_nominal += result->price_ns != ps_search_price (result->schedule, &pricing);
  }
  g_assert_cmpuint (n_checked, >, 30);
  g_assert_cmpuint (n_nominal, >, 5);
}

/* Times and bounds of the average slice hold for none of them. */
static void test_measured_slices (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 2 -m 2 --slices 2 --comm pair --costs f=1ms,bw=2ms,c=1ms");
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 2, 1);
  g_autoptr (PsCosts) given = ps_setting_costs (setting, 2, 1, NULL);
  PsSearchPricing pricing = { .setting = setting, .given = given };

  g_assert_false (ps_search_has_lengths (&pricing));
  g_assert_cmpint (ps_search_price_bound (&pricing, placement, given), >, 0);
  ps_costs_add_slices (given, ps_slice_parts_new (2, NULL, 2));
  g_assert_true (ps_search_has_lengths (&pricing));
  g_assert_cmpint (ps_search_price_bound (&pricing, placement, given), ==, 0);
}

/* The first of two measured slices takes a tenth of the first stage, and half of the long last one. So the last device
 * starts after 0.2 ms and is busy for 48 ms. Average slices would need 49 ms: 1 ms for the first F. */
static void test_least_slice (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 2 -m 2 --slices 2 --costs f=2ms:8ms,b=2ms:8ms,w=2ms:8ms");
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 2, 1);
  g_autoptr (PsCosts) given = ps_setting_costs (setting, 2, 1, NULL);
  PsSliceParts *parts = ps_slice_parts_new (2, NULL, 2);
  PsSearchPricing pricing = { .setting = setting, .given = given };
  PsSearchSetting search = { .placement = placement,
                             .n_microbatches = 2,
                             .n_slices = 2,
                             .costs = given,
                             .price = ps_search_price,
                             .price_data = &pricing,
                             .price_is_free = TRUE,
                             .seed = 1,
                             .n_threads = 1,
                             .move_limit = MOVES };

  for (guint i = 0; i < PS_OP_O * 2 * 2; i++)
    parts->part[i] = i % 2 == 1 ? 0.5 : i / 2 % 2 == 0 ? 0.1 : 0.9;
  ps_costs_add_slices (given, parts);
  g_autoptr (PsSearchResult) result = ps_search (&search, NULL);
  g_assert_nonnull (result);
  g_assert_cmpint (result->price_ns, ==, 48200000);
  g_assert_cmpint (ps_search_bound (&search), ==, 48200000);
}

/* Many orders are faster, but do not fit with the buffers of their messages. They hide none that fits. */
static void test_buffers (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 4 -m 8 --comm rank --memory-limit 8MiB "
                                              "--costs f=67us,b=83us,w=100us,c=60us,act=2MiB,wact=1MiB,msg=1500KiB");
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 4, 1);
  g_autoptr (PsCosts) given = ps_setting_costs (setting, 4, 1, NULL);
  PsSearchPricing pricing = { .setting = setting, .given = given };
  g_autoptr (PsSearchResult) result = search (&pricing, placement, 250000);

  g_assert_nonnull (result);
  g_assert_cmpint (result->price_ns, <, 4700000);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/search-setting/never-worse", test_never_worse);
  g_test_add_func ("/search-setting/stopped", test_stopped);
  g_test_add_func ("/search-setting/slices", test_slices);
  g_test_add_func ("/search-setting/by-price", test_by_price);
  g_test_add_func ("/search-setting/buffers", test_buffers);
  g_test_add_func ("/search-setting/optimum", test_optimum);
  g_test_add_func ("/search-setting/quality", test_quality);
  g_test_add_func ("/search-setting/samples", test_samples);
  g_test_add_func ("/search-setting/measured-slices", test_measured_slices);
  g_test_add_func ("/search-setting/least-slice", test_least_slice);
  return g_test_run ();
}
