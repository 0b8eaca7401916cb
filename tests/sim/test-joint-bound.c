/* test-joint-bound.c - bounds over all ways to run stages: never above the best search of any of them. */
#include "cases.h"
#include "plan/joint-bound.h"
#include "search-setting-rig.h"
#include "search/order.h"

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

/* The bound over all mixes of ways is never above the best of them, and sometimes meets it. */
static void
test_ways (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (16);
  guint n_met = 0, n_found = 0, n = n_cases (40);

  for (guint i = 0; i < n; i++)
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

      g_assert_true (ps_setting_memory_limit (setting, 2, &limit, NULL, NULL));
      bound = search_bound_ways (&(SearchQuestion){ setting, &choice, placement, limit }, &ways,
                                 best < G_MAXINT64 ? 2 * best : best);
      g_test_message ("%s: best %" G_GINT64_FORMAT ", bound %" G_GINT64_FORMAT, line, best, bound);
      g_assert_cmpint (bound, <=, best);
      n_found += best != G_MAXINT64;
      n_met += bound == best;
    }
  g_test_message ("%u found, %u met", n_found, n_met);
  g_assert_cmpuint (n_found, >, n * 3 / 4);
  g_assert_true (n < 40 || n_met > n / 5); /* 11 of the first 40, none of the first 10 */
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/joint-bound/ways", test_ways);
  return g_test_run ();
}
