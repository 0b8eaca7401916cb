/* test-joint-bound.c - bounds over all ways to run stages, all cuts of a model and all places of stages: never above
 * the best search of any of them. */
#include "cases.h"
#include "cli/joint-bound.h"
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

/* The bound over all mixes of ways is never above the best of them, and often meets it. */
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
      bound = search_bound_ways (&(SearchQuestion){ setting, &choice, placement, limit, FALSE }, &ways,
                                 best < G_MAXINT64 ? 2 * best : best);
      g_test_message ("%s: best %" G_GINT64_FORMAT ", bound %" G_GINT64_FORMAT, line, best, bound);
      g_assert_cmpint (bound, <=, best);
      n_found += best != G_MAXINT64;
      n_met += bound == best;
    }
  g_test_message ("%u found, %u met", n_found, n_met);
  g_assert_cmpuint (n_found, >, n * 3 / 4);
  g_assert_cmpuint (n_met, >, n * 3 / 8);
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
      g_assert_true (ps_setting_memory_limit (setting, 2, &limit, NULL, NULL));
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
  g_test_add_func ("/joint-bound/ways", test_ways);
  g_test_add_func ("/joint-bound/cuts", test_cuts);
  g_test_add_func ("/joint-bound/any-device", test_any_device);
  return g_test_run ();
}
