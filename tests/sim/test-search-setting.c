/* test-search-setting.c - searches under channels, blocking, slow-down and bypass: never worse than a published
 * schedule under the same setting, never better than their bound, and never worse for more moves. */
#include <pipesim/search.h>

#include "cases.h"
#include "cli/joint-bound.h"
#include "cli/search-price.h"
#include "search/order.h"
#include "setting-rig.h"

#include <string.h>

#define N_SETTINGS 40
#define MOVES 2000

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
static char *
draw_line (GRand *random)
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

/* NULL: a limit that nothing keeps to. */
static PsSearchResult *
search (SearchPricing *pricing, const PsPlacement *placement, guint64 moves)
{
  const PsSetting *setting = pricing->setting;
  g_autofree gint64 *limit = NULL;
  PsSearchChannels channels;

  g_assert_true (ps_setting_memory_limit (setting, placement->n_devices, &limit, NULL));
  PsSearchSetting search = { .placement = placement,
                             .n_microbatches = setting->n_microbatches,
                             .costs = pricing->given,
                             .memory_limit = limit,
                             .objective = setting->sync == PS_SYNC_BYPASS ? PS_OBJECTIVE_SPAN : PS_OBJECTIVE_MAKESPAN,
                             .price = search_price,
                             .generate = search_generate,
                             .price_data = pricing,
                             .channels = search_price_channels (pricing, &channels),
                             .price_is_free = pricing->samples != NULL,
                             .price_bound_ns = search_price_bound (pricing, placement, pricing->given),
                             .transfer_factor = ps_setting_transfers_wait (setting) ? 2 : 1,
                             .seed = 1,
                             .move_limit = moves,
                             .n_threads = 1 };

  return ps_search (&search, NULL);
}

static gboolean
is_placed_so (const PsSchedule *schedule, const PsPlacement *placement)
{
  const PsPlacement *other = schedule->placement;

  return other->n_stages == placement->n_stages && other->n_copies == placement->n_copies
         && memcmp (other->device, placement->device,
                    placement->n_copies * placement->n_stages * sizeof *placement->device)
                == 0;
}

/* Returns how many families were held against the result. */
static guint
check_families (const PsSetting *setting, const PsPlacement *placement, const PsSearchResult *result)
{
  guint n, n_checked = 0;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    {
      g_autoptr (PsPrediction) prediction = ps_predict (setting, families[i]->name, NULL);
      const PsSchedule *schedule = prediction != NULL ? prediction->program->schedule : NULL;

      if (prediction == NULL || !prediction->feasible || schedule->asynchronous || schedule->n_slices > 1
          || !is_placed_so (schedule, placement))
        continue;
      g_assert_cmpint (result->price_ns, <=, search_time (setting, prediction));
      g_assert_cmpint (result->lower_bound_ns, <=, search_time (setting, prediction));
      n_checked++;
    }
  return n_checked;
}

/* The result is what predict says of its schedule, just as the command prints it. */
static void
check_result (const SearchPricing *pricing, const PsSearchResult *result)
{
  PsCommOrder comm_order;
  g_autoptr (PsPrediction) prediction = search_predict (pricing, result->schedule, &comm_order, NULL);

  if (prediction != NULL && prediction->feasible)
    g_assert_cmpint (search_time (pricing->setting, prediction), ==, result->price_ns);
  else
    g_assert_cmpint (result->price_ns, ==, G_MAXINT64);
  g_assert_cmpint (result->lower_bound_ns, <=, result->price_ns);
  g_assert_cmpint (result->proved_optimal, ==, result->price_ns == result->lower_bound_ns);
}

static guint
check_placement (PsSetting *setting, PsPlacementKind kind, guint n_chunks)
{
  g_autoptr (PsPlacement) placement = ps_placement_new (kind, setting->n_devices, n_chunks);
  g_autoptr (PsCosts) given = ps_setting_costs (setting, setting->n_devices, n_chunks, NULL);
  SearchPricing pricing = { .setting = setting, .given = given };
  g_autoptr (PsSearchResult) result = search (&pricing, placement, MOVES);
  g_autoptr (PsSearchResult) longer = search (&pricing, placement, 2 * MOVES);

  if (result == NULL)
    return 0;
  check_result (&pricing, result);
  g_assert_cmpint (longer->price_ns, <=, result->price_ns);
  setting->n_chunks = n_chunks;
  return check_families (setting, placement, result);
}

static void
test_never_worse (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (13);
  guint n_checked = 0;

  for (guint i = 0; i < N_SETTINGS; i++)
    {
      g_autofree char *line = draw_line (random);
      g_autoptr (PsSetting) setting = parse_good (line);

      g_test_message ("%s", line);
      n_checked += check_placement (setting, PS_PLACEMENT_LOOP, 1);
      n_checked += check_placement (setting, PS_PLACEMENT_LOOP, 2);
      n_checked += check_placement (setting, PS_PLACEMENT_V, 2);
      if (setting->n_devices % 2 == 0 && setting->n_microbatches % 2 == 0)
        n_checked += check_placement (setting, PS_PLACEMENT_BIDIRECTIONAL, 1);
    }
  g_assert_cmpuint (n_checked, >, 8 * N_SETTINGS);
}

/* All four slices of a microbatch, 16 KiB, are held when its last F ends. A price counts buffers, but the room for them
 * does not push the limit of the search below that. */
static void
test_slices (void)
{
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 2, 1);
  g_autoptr (PsCosts) slice = ps_costs_parse ("f=2us,b=2us,w=2us,c=1us,act=4KiB,msg=2KiB", 2, 1, NULL);
  const gint64 limit[] = { 16 << 10, 16 << 10 };
  const PsSearchSetting tight = { .placement = placement,
                                  .n_microbatches = 3,
                                  .n_slices = 4,
                                  .costs = slice,
                                  .memory_limit = limit,
                                  .price = search_price };
  g_autoptr (PsProblem) problem = ps_problem_new (&tight);

  for (guint d = 0; d < 2; d++)
    g_assert_cmpint (problem->limit[d], ==, limit[d]);
}

/* A search that is stopped before it begins has the published schedules all the same. */
static void
test_stopped (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 4 -m 8 --costs f=2ms,b=2ms,w=1ms,c=2ms --blocking");
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 4, 1);
  g_autoptr (PsCosts) given = ps_setting_costs (setting, 4, 1, NULL);
  SearchPricing pricing = { .setting = setting, .given = given };
  const gint stop = 1;
  PsSearchSetting stopped = { .placement = placement,
                              .n_microbatches = 8,
                              .costs = given,
                              .price = search_price,
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
static void
test_by_price (void)
{
  g_autoptr (PsSetting) setting
      = parse_good ("-p 4 -m 12 --costs f=100us,b=102us,w=88us,c=20us,act=2B,wact=1B --memory-limit 8B --blocking");
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 4, 1);
  g_autoptr (PsCosts) given = ps_setting_costs (setting, 4, 1, NULL);
  SearchPricing pricing = { .setting = setting, .given = given };
  g_autoptr (PsSearchResult) result = search (&pricing, placement, 1000000);

  check_result (&pricing, result);
  g_assert_cmpint (result->price_ns, <, 5000000);
  g_assert_cmpint (result->lower_bound_ns, >, 4600000);
}

/* All orders of a problem, op by op, and the lowest price. */
typedef struct
{
  SearchPricing *pricing;
  const PsPlacement *placement;
  PsOrder *order;
  guint32 *sequence; /* [n_ops] device after device */
  gint64 least;
} Listing;

static void
list_orders (Listing *listing, guint at, guint *done)
{
  const PsProblem *problem = listing->order->problem;
  guint m = problem->m, device = at / (N_KINDS * m);

  if (at == problem->n_ops)
    {
      ps_order_fill (listing->order, listing->sequence);
      if (!ps_order_evaluate (listing->order))
        return;
      g_autoptr (PsSchedule) schedule = ps_order_to_schedule (listing->order, listing->placement);
      listing->least = MIN (listing->least, search_price (schedule, listing->pricing));
      return;
    }
  for (guint chain = device * N_KINDS; chain < (device + 1) * N_KINDS; chain++)
    if (done[chain] < m && (chain % N_KINDS == 0 || done[chain] < done[chain - 1]))
      {
        listing->sequence[at] = chain * m + done[chain]++;
        list_orders (listing, at + 1, done);
        done[chain]--;
      }
}

/* Against every order of two devices: no result is better than the best, and nearly all are as good. */
static void
test_optimum (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (17);
  guint n_met = 0, n = n_cases (18);

  for (guint i = 0; i < n; i++)
    {
      g_autofree char *line = g_strdup_printf (
          "-p 2 -m 3 %s --costs f=%dus,b=%dus,w=%dus,c=%dus,act=16KiB,wact=4KiB --memory-limit %dKiB", options[i % 9],
          g_rand_int_range (random, 1, 30), g_rand_int_range (random, 1, 30), g_rand_int_range (random, 1, 30),
          g_rand_int_range (random, 0, 30), g_rand_int_range (random, 20, 60));
      g_autoptr (PsSetting) setting = parse_good (line);
      g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 2, 1);
      g_autoptr (PsCosts) given = ps_setting_costs (setting, 2, 1, NULL);
      SearchPricing pricing = { .setting = setting, .given = given };
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

/* By mean or p90 of sampled costs: the result's price is that figure of its schedule, and no family has a lower one. */
static void
test_samples (void)
{
  const PsSlowness slow = { .a = 1, .factor = 2, .probability = 0.3 };
  g_autoptr (GRand) random = g_rand_new_with_seed (15);
  guint n_checked = 0, n_nominal = 0;

  for (guint i = 0; i < 12; i++)
    {
      g_autofree char *line = draw_line (random);
      g_autoptr (PsSetting) setting = parse_good (line);
      g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, setting->n_devices, 1);
      g_autoptr (PsCosts) given = ps_setting_costs (setting, setting->n_devices, 1, NULL);
      const SearchSamples samples = { .objective = i % 2 ? SEARCH_P90 : SEARCH_MEAN,
                                      .uncertainty = { .jitter = 0.1, .slowness = &slow, .n_slowness = 1 },
                                      .n_samples = 32,
                                      .seed = 1 };
      SearchPricing pricing = { .setting = setting, .given = given, .samples = &samples };
      g_autoptr (PsSearchResult) result = search (&pricing, placement, MOVES / 4);
      guint n;
      const PsFamily *const *families = ps_family_table (&n);

      g_test_message ("%s", line);
      if (result == NULL || result->price_ns == G_MAXINT64)
        continue;
      g_assert_false (result->proved_optimal);
      g_assert_cmpint (result->price_ns, ==, search_price (result->schedule, &pricing));
      for (guint k = 0; k < n; k++)
        {
          g_autoptr (PsSchedule) schedule = search_generate (families[k], &pricing, NULL);

          if (schedule == NULL || schedule->asynchronous || schedule->n_slices > 1
              || !is_placed_so (schedule, placement))
            continue;
          g_assert_cmpint (result->price_ns, <=, search_price (schedule, &pricing));
          n_checked++;
        }
      pricing.samples = NULL;
      n_nominal += result->price_ns != search_price (result->schedule, &pricing);
    }
  g_assert_cmpuint (n_checked, >, 30);
  g_assert_cmpuint (n_nominal, >, 5);
}

/* Another way to run all stages: F keeps less, and B takes longer. */
static PsCosts *
draw_way (const PsCosts *costs, GRand *random)
{
  PsCosts *way = ps_costs_copy (costs);

  for (guint s = 0; s < costs->n_stages; s++)
    {
      gint64 longer = 1000 * g_rand_int_range (random, 0, 20), dropped = 1024 * g_rand_int_range (random, 0, 13);

      for (PsOpKind kind = PS_OP_B; kind <= PS_OP_BW; kind += PS_OP_BW - PS_OP_B)
        {
          ps_costs_op (way, kind, s)->duration_ns += longer;
          ps_costs_op (way, kind, s)->take_bytes += dropped;
        }
      ps_costs_op (way, PS_OP_F, s)->give_bytes += dropped;
    }
  return way;
}

/* The best of all mixes of ways, each searched by itself. */
static gint64
best_mix (SearchPricing *pricing, const PsPlacement *placement, const SearchWays *ways)
{
  g_autoptr (PsCosts) mixed = ps_costs_copy (ways->costs[0]);
  gint64 best = G_MAXINT64;

  pricing->given = mixed;
  for (guint mix = 0; mix < 1U << mixed->n_stages; mix++)
    {
      for (guint s = 0; s < mixed->n_stages; s++)
        search_take_stage (mixed, ways->costs[mix >> s & 1], s);
      g_autoptr (PsSearchResult) result = search (pricing, placement, MOVES);
      if (result != NULL)
        best = MIN (best, result->price_ns);
    }
  return best;
}

/* The bound over all mixes of ways is never above the best of them, and often meets it. */
static void
test_ways (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (16);
  guint n_met = 0, n_found = 0;

  for (guint i = 0; i < 40; i++)
    {
      const SearchChoice choice = { .placement = i % 3 ? PS_PLACEMENT_LOOP : PS_PLACEMENT_BIDIRECTIONAL,
                                    .n_chunks = 1,
                                    .n_microbatches = 4,
                                    .n_slices = 1 };
      g_autofree char *line = g_strdup_printf (
          "-p 2 -m 4 --costs f=%dus,b=%dus,w=%dus,c=%dus,act=16KiB,wact=4KiB --memory-limit %dKiB",
          g_rand_int_range (random, 1, 30), g_rand_int_range (random, 1, 30), g_rand_int_range (random, 1, 30),
          g_rand_int_range (random, 0, 30), g_rand_int_range (random, 20, 60));
      g_autoptr (PsSetting) setting = parse_good (line);
      g_autoptr (PsPlacement) placement = ps_placement_new (choice.placement, 2, 1);
      g_autoptr (PsCosts) given = ps_setting_costs (setting, 2, 1, NULL), other = draw_way (given, random);
      const SearchWays ways = { .n = 2, .costs = { given, other } };
      SearchPricing pricing = { .setting = setting };
      g_autofree gint64 *limit = NULL;
      gint64 best = best_mix (&pricing, placement, &ways), bound;

      g_assert_true (ps_setting_memory_limit (setting, 2, &limit, NULL));
      bound = search_bound_ways (&(SearchQuestion){ setting, &choice, placement, limit, FALSE }, &ways,
                                 best < G_MAXINT64 ? 2 * best : best);
      g_test_message ("%s: best %" G_GINT64_FORMAT ", bound %" G_GINT64_FORMAT, line, best, bound);
      g_assert_cmpint (bound, <=, best);
      n_found += best != G_MAXINT64;
      n_met += bound == best;
    }
  g_test_message ("%u found, %u met", n_found, n_met);
  g_assert_cmpuint (n_found, >, 30);
  g_assert_cmpuint (n_met, >, 15);
}

#define N_UNITS 4

/* A model of units; a stage's costs are sums over its units. With the second way, B runs longer and F keeps less. */
typedef struct
{
  gint64 time[N_UNITS][N_KINDS + 1]; /* F, B, W, and what the second way adds to B */
  SearchWays ways[N_UNITS + 1][N_UNITS + 1];
  const PsCosts *like;
} Units;

static const SearchWays *
load_units (guint first, guint last, gpointer data)
{
  Units *units = data;
  SearchWays *ways = &units->ways[first][last];

  for (; ways->n < 2; ways->n++)
    {
      PsCosts *costs = ways->costs[ways->n] = ps_costs_copy (units->like);
      gint64 act = 4096 * (last - first) / (1 + ways->n);

      for (guint s = 0; s < costs->n_stages; s++)
        {
          ps_costs_set_memory (costs, s, act, act / 4);
          for (guint kind = 0; kind < N_KINDS; kind++)
            {
              ps_costs_op (costs, (PsOpKind)kind, s)->duration_ns = 0;
              for (guint unit = first; unit < last; unit++)
                ps_costs_op (costs, (PsOpKind)kind, s)->duration_ns
                    += units->time[unit][kind] + (kind == PS_OP_B ? ways->n * units->time[unit][N_KINDS] : 0);
            }
          ps_costs_op (costs, PS_OP_BW, s)->duration_ns
              = ps_costs_op (costs, PS_OP_B, s)->duration_ns + ps_costs_op (costs, PS_OP_W, s)->duration_ns;
        }
    }
  return ways;
}

/* The best of all cuts in two and all mixes of ways. */
static gint64
best_cut (SearchPricing *pricing, const PsPlacement *placement, Units *units)
{
  gint64 best = G_MAXINT64;

  for (guint end = 1; end < N_UNITS; end++)
    {
      const SearchWays *low = load_units (0, end, units), *high = load_units (end, N_UNITS, units);
      SearchWays ways = { .n = 2 };

      for (guint way = 0; way < 2; way++)
        {
          ways.costs[way] = ps_costs_copy (low->costs[way]);
          search_take_stage (ways.costs[way], high->costs[way], 1);
        }
      best = MIN (best, best_mix (pricing, placement, &ways));
      ps_costs_free (ways.costs[0]);
      ps_costs_free (ways.costs[1]);
    }
  return best;
}

/* Times and bounds of the average slice hold for none of them. */
static void
test_measured_slices (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 2 -m 2 --slices 2 --comm pair --costs f=1ms,bw=2ms,c=1ms");
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 2, 1);
  g_autoptr (PsCosts) given = ps_setting_costs (setting, 2, 1, NULL);
  SearchPricing pricing = { .setting = setting, .given = given };

  g_assert_false (search_has_lengths (&pricing));
  g_assert_cmpint (search_price_bound (&pricing, placement, given), >, 0);
  given->slice_parts = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_slice_parts_free);
  g_ptr_array_add (given->slice_parts, ps_slice_parts_new (2, 2));
  g_assert_true (search_has_lengths (&pricing));
  g_assert_cmpint (search_price_bound (&pricing, placement, given), ==, 0);
}

/* The first of two measured slices takes a tenth of the first stage, and half of the long last one. So the last device
 * starts after 0.2 ms and is busy for 48 ms. Average slices would need 49 ms: 1 ms for the first F. */
static void
test_least_slice (void)
{
  g_autoptr (PsSetting) setting = parse_good ("-p 2 -m 2 --slices 2 --costs f=2ms:8ms,b=2ms:8ms,w=2ms:8ms");
  g_autoptr (PsPlacement) placement = ps_placement_new (PS_PLACEMENT_LOOP, 2, 1);
  g_autoptr (PsCosts) given = ps_setting_costs (setting, 2, 1, NULL);
  PsSliceParts *parts = ps_slice_parts_new (2, 2);
  SearchPricing pricing = { .setting = setting, .given = given };
  PsSearchSetting search = { .placement = placement,
                             .n_microbatches = 2,
                             .n_slices = 2,
                             .costs = given,
                             .price = search_price,
                             .price_data = &pricing,
                             .price_is_free = TRUE,
                             .seed = 1,
                             .n_threads = 1,
                             .move_limit = MOVES };

  for (guint i = 0; i < PS_OP_O * 2 * 2; i++)
    parts->part[i] = i % 2 == 1 ? 0.5 : i / 2 % 2 == 0 ? 0.1 : 0.9;
  parts->transfer = 1;
  given->slice_parts = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_slice_parts_free);
  g_ptr_array_add (given->slice_parts, parts);
  g_autoptr (PsSearchResult) result = ps_search (&search, NULL);
  g_assert_nonnull (result);
  g_assert_cmpint (result->price_ns, ==, 48200000);
  g_assert_cmpint (ps_search_bound (&search, G_MAXINT64, NULL), ==, 48200000);
}

static void
units_clear (Units *units)
{
  for (guint i = 0; i <= N_UNITS; i++)
    for (guint j = 0; j <= N_UNITS; j++)
      for (guint way = 0; way < units->ways[i][j].n; way++)
        ps_costs_free (units->ways[i][j].costs[way]);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Units, units_clear)

/* The bound over all cuts is never above the best of them, and often near it. */
static void
test_cuts (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (19);
  guint n_near = 0;

  for (guint i = 0; i < 12; i++)
    {
      const SearchChoice choice = { .placement = i % 3 ? PS_PLACEMENT_LOOP : PS_PLACEMENT_BIDIRECTIONAL,
                                    .n_chunks = 1,
                                    .n_microbatches = 4,
                                    .n_slices = 1 };
      g_autofree char *line = g_strdup_printf ("-p 2 -m 4 --costs f=0,b=0,w=0,c=%dus --memory-limit %dKiB%s",
                                               g_rand_int_range (random, 0, 30), g_rand_int_range (random, 20, 60),
                                               i % 4 ? "" : " --sync bypass");
      g_autoptr (PsSetting) setting = parse_good (line);
      g_autoptr (PsPlacement) placement = ps_placement_new (choice.placement, 2, 1);
      g_autoptr (PsCosts) given = ps_setting_costs (setting, 2, 1, NULL);
      g_auto (Units) units = { .like = given };
      SearchPricing pricing = { .setting = setting };
      g_autofree gint64 *limit = NULL;
      gint64 best, bound;

      for (guint k = 0; k < N_UNITS * (N_KINDS + 1); k++)
        units.time[k / (N_KINDS + 1)][k % (N_KINDS + 1)] = 1000 * g_rand_int_range (random, 1, 20);
      best = best_cut (&pricing, placement, &units);
      g_assert_true (ps_setting_memory_limit (setting, 2, &limit, NULL));
      bound = search_bound_cuts (&(SearchQuestion){ setting, &choice, placement, limit, FALSE },
                                 &(SearchCuts){ N_UNITS, load_units, &units }, best < G_MAXINT64 ? 2 * best : best);
      g_test_message ("%s: best %" G_GINT64_FORMAT ", bound %" G_GINT64_FORMAT, line, best, bound);
      g_assert_cmpint (bound, <=, best);
      n_near += bound > best - best / 8;
    }
  g_test_message ("%u near", n_near);
  g_assert_cmpuint (n_near, >, 5);
}

static const SearchWays *
load_given (G_GNUC_UNUSED guint first, G_GNUC_UNUSED guint last, gpointer ways)
{
  return ways;
}

/* Four stages with times of their own, in some cases with pairs, or on devices of two speeds. */
static char *
draw_stages (GRand *random, guint i)
{
  GString *line = g_string_new ("-p 2 -m 3 -v 2 --costs c=5us");
  static const char *const keys[] = { "f", "b", "w", "pair" };

  for (guint key = 0; key < (i % 2 ? 4 : 3); key++)
    for (guint s = 0; s < 4; s++)
      g_string_append_printf (line, s == 0 ? ",%s=%dus" : "%.0s:%dus", keys[key],
                              g_rand_int_range (random, key == 3 ? 20 : 1, 30));
  g_string_append_printf (line, "%s%s", i % 3 ? "" : " --speed 0.5:1", i % 4 ? "" : " --sync bypass");
  return g_string_free (line, FALSE);
}

/* The bound over all devices that stages may be on is never above the best of them, and often near it. So it is where
 * pairs are shorter than their backwards, and where most of an op is host time, which is equal on slow devices. It is
 * met where no device ever waits between its first F and its last B. */
static void
test_any_device (void)
{
  static const guint16 everywhere[] = { 0, 0, 0, 0, 1, 1, 1, 1 };
  static const char *const known[]
      = { "-p 2 -m 12 -v 2 --costs f=4us,b=4us,w=0", "-p 2 -m 12 -v 2 --costs f=1us,b=15us,w=15us,pair=20us",
          "-p 2 -m 12 -v 2 --costs f=1us,b=1us,w=1us,op=50us --speed 0.1:1" };
  g_autoptr (GRand) random = g_rand_new_with_seed (21);
  guint n_near = 0;

  for (guint i = 0; i < 12 + G_N_ELEMENTS (known); i++)
    {
      g_autofree char *line = i < 12 ? draw_stages (random, i) : g_strdup (known[i - 12]);
      g_autoptr (PsSetting) setting = parse_good (line);
      g_autoptr (PsPlacement) all = ps_placement_new_custom (2, 4, 2, everywhere);
      g_autoptr (PsCosts) given = ps_setting_costs (setting, 2, 2, NULL);
      g_autoptr (PsCosts) fastest = ps_setting_fastest_costs (setting, all, given, 1, NULL);
      SearchWays ways = { .n = 1, .costs = { fastest } };
      SearchPricing pricing = { .setting = setting, .given = given };
      const SearchChoice choice = { .n_chunks = 2, .n_microbatches = setting->n_microbatches, .n_slices = 1 };
      gint64 best = i < 14 ? G_MAXINT64 : 5252000 /* of 1f1b-v */, bound;

      for (guint map = 1; map < 15 && i < 14; map++)
        {
          const guint16 device[] = { map & 1, map >> 1 & 1, map >> 2 & 1, map >> 3 & 1 };
          g_autoptr (PsPlacement) placement = ps_placement_new_custom (2, 4, 1, device);
          g_autoptr (PsSearchResult) result = search (&pricing, placement, MOVES);

          best = MIN (best, result->price_ns);
        }
      bound = search_bound_cuts (&(SearchQuestion){ setting, &choice, all, NULL, TRUE },
                                 &(SearchCuts){ 4, load_given, &ways }, 2 * best);
      g_test_message ("%s: best %" G_GINT64_FORMAT ", bound %" G_GINT64_FORMAT, line, best, bound);
      g_assert_cmpint (bound, <=, best);
      g_assert_true (i != 12 || bound == best);
      n_near += bound > best - best / 12;
    }
  g_test_message ("%u near", n_near);
  g_assert_cmpuint (n_near, >, 5);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/search-setting/never-worse", test_never_worse);
  g_test_add_func ("/search-setting/stopped", test_stopped);
  g_test_add_func ("/search-setting/slices", test_slices);
  g_test_add_func ("/search-setting/by-price", test_by_price);
  g_test_add_func ("/search-setting/optimum", test_optimum);
  g_test_add_func ("/search-setting/samples", test_samples);
  g_test_add_func ("/search-setting/ways", test_ways);
  g_test_add_func ("/search-setting/cuts", test_cuts);
  g_test_add_func ("/search-setting/any-device", test_any_device);
  g_test_add_func ("/search-setting/measured-slices", test_measured_slices);
  g_test_add_func ("/search-setting/least-slice", test_least_slice);
  return g_test_run ();
}
