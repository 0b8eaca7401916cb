/* test-search-guess.c - guesses of prices against the prices themselves, over random orders and all kinds of channels.
 */
#include "cases.h"
#include "plan/search-price.h"
#include "search-rig.h"
#include "search/guess.h"
#include "search/polish.h"
#include "setting-rig.h"

#define N_CASES 12
#define N_ORDERS 20
#define MOVES_PER_ORDER 10

/* How guesses compare with prices. In turns, prices leave some to weights, which guesses do not know. */
typedef struct
{
  const char *options;
  double least_equal; /* part of all orders whose guess is the price */
  double most_below;  /* part of all orders whose guess is below the price */
  double mean;        /* most that guesses are away from prices on average, as a part of them */
} Kind;

static const Kind kinds[] = {
  { "--comm rank", 0.85, 0, 0.02 },
  { "--comm pair", 0.85, 0, 0.001 },
  { "--comm direction", 1, 0, 0 },
  { "--comm rank --comm-order asap", 0.95, 0.05, 0.001 },
  { "--comm pair --comm-order asap", 1, 0, 0 },
  { "--comm direction --comm-order asap", 1, 0, 0 },
  { "--blocking", 0.5, 0, 0.04 },
  { "--blocking --comm-order asap", 0.7, 0.3, 0.01 },
  { "--overlap-slowdown 1.3", 1, 0, 0 },
  { "--comm rank --overlap-slowdown 1.2", 0.85, 0, 0.02 },
  { "--comm direction --overlap-slowdown 1.5", 1, 0, 0 },
};

static char *
draw_line (GRand *random, const char *options)
{
  return g_strdup_printf (
      "-p %d -m %d %s --costs f=%dus,b=%dus,w=%dus,c=%dus,act=2B,wact=1B%s", 2 * g_rand_int_range (random, 1, 4),
      2 * g_rand_int_range (random, 1, 6), options, g_rand_int_range (random, 1, 30), g_rand_int_range (random, 1, 30),
      g_rand_int_range (random, 0, 30), g_rand_int_range (random, 1, 20), g_rand_boolean (random) ? ",bw=40us" : "");
}

typedef struct
{
  guint n;
  guint n_equal;
  guint n_below;
  double sum; /* of distances from prices, as parts of them */
} Count;

/* The guess does not depend on those made before, nor on what is enough as far as it goes. */
static void
check_guess (const PsOrder *order, const PsSearchChannels *channels, PsGuess *guess, gint64 guessed, PsRandom *random)
{
  g_autoptr (PsGuess) afresh = ps_guess_new (order->problem, channels);
  gint64 enough = order->objective + ps_random_below (random, (guint)(guessed - order->objective) + 2);

  g_assert_cmpint (ps_guess_price (afresh, order, G_MAXINT64), ==, guessed);
  if (guessed <= enough)
    g_assert_cmpint (ps_guess_price (guess, order, enough), ==, guessed);
  else
    g_assert_cmpint (ps_guess_price (guess, order, enough), >, enough);
  g_assert_cmpint (guessed, >=, order->objective);
}

static void
count_orders (const SearchPricing *pricing, const PsPlacement *placement, PsRandom *random, Count *count)
{
  PsSearchChannels channels;
  const PsSearchSetting setting = { .placement = placement,
                                    .n_microbatches = pricing->setting->n_microbatches,
                                    .costs = pricing->given,
                                    .price = search_price,
                                    .channels = search_price_channels (pricing, placement, &channels) };
  g_autoptr (PsProblem) problem = ps_problem_new (&setting);
  g_autoptr (PsGuess) guess = ps_guess_new (problem, setting.channels);
  g_autoptr (PsOrder) order = draw_order (problem, random);

  for (guint i = 0; i < N_ORDERS; i++)
    {
      for (guint k = 0; k < MOVES_PER_ORDER; k++)
        ps_order_move_one (order, G_MAXINT64, random);
      g_autoptr (PsSchedule) schedule = ps_order_to_schedule (order, placement);
      gint64 price = search_price (schedule, (gpointer)pricing), guessed = ps_guess_price (guess, order, G_MAXINT64);

      check_guess (order, &channels, guess, guessed, random);
      count->n++;
      count->n_equal += guessed == price;
      count->n_below += guessed < price;
      count->sum += ABS ((double)guessed / (double)price - 1);
    }
}

static void
test_kind (gconstpointer data)
{
  const Kind *kind = data;
  g_autoptr (GRand) draw = g_rand_new_with_seed (7);
  PsRandom random = { 1 };
  Count count = { 0 };

  for (guint i = 0; i < N_CASES; i++)
    {
      static const PsPlacementKind placements[] = { PS_PLACEMENT_LOOP, PS_PLACEMENT_V, PS_PLACEMENT_BIDIRECTIONAL };
      g_autofree char *line = draw_line (draw, kind->options);
      g_autoptr (PsSetting) setting = parse_good (line);
      PsPlacementKind placed = placements[i % G_N_ELEMENTS (placements)];
      guint v = placed == PS_PLACEMENT_V ? 2 : 1;
      g_autoptr (PsPlacement) placement = ps_placement_new (placed, setting->n_devices, v);
      g_autoptr (PsCosts) given = ps_setting_costs (setting, setting->n_devices, v, NULL);
      SearchPricing pricing = { .setting = setting, .given = given };

      count_orders (&pricing, placement, &random, &count);
    }
  g_test_message ("%s: %u of %u equal, %u below, %.4f away", kind->options, count.n_equal, count.n, count.n_below,
                  count.sum / count.n);
  g_assert_cmpfloat (count.n_equal, >=, kind->least_equal * count.n);
  g_assert_cmpfloat (count.n_below, <=, kind->most_below * count.n);
  g_assert_cmpfloat (count.sum, <=, kind->mean * count.n);
}

/* Whether there are guesses of prices under a setting. */
typedef struct
{
  PsPlacementKind placement;
  const char *options;
  gboolean guesses;
} Row;

#define COSTS " --costs f=9us,b=9us,w=9us,c=9us,act=2B,wact=1B"

static const Row rows[] = {
  { PS_PLACEMENT_BIDIRECTIONAL, "--comm rank" COSTS, TRUE },
  { PS_PLACEMENT_BIDIRECTIONAL, "--comm rank --speed 2" COSTS, TRUE },
  { PS_PLACEMENT_BIDIRECTIONAL, "--comm rank --speed 1:2:1:1" COSTS, FALSE },
  { PS_PLACEMENT_LOOP, "--comm rank --speed 1:2:1:1" COSTS, TRUE },
  { PS_PLACEMENT_LOOP, "--comm rank" COSTS ",reduce=5us --replicas 2", FALSE },
  { PS_PLACEMENT_BIDIRECTIONAL, "--comm rank" COSTS ",reduce2=5us", FALSE },
  { PS_PLACEMENT_LOOP, "--comm rank --sync bypass" COSTS, FALSE },
  { PS_PLACEMENT_LOOP, "--comm rank --eager 1KiB" COSTS, FALSE },
  { PS_PLACEMENT_LOOP, "--comm rank --ready-order 2" COSTS, FALSE },
  { PS_PLACEMENT_LOOP, "--comm rank --comm-order deferred" COSTS, FALSE },
  { PS_PLACEMENT_LOOP, "--comm rank --comm-order asap --overlap-slowdown 1.2" COSTS, FALSE },
  { PS_PLACEMENT_LOOP, "--comm rank --overlap-slowdown 1.2 --overlap-waiting" COSTS, FALSE },
  { PS_PLACEMENT_LOOP, "--overlap-slowdown 1.2" COSTS, TRUE },
  { PS_PLACEMENT_LOOP, "--blocking" COSTS, TRUE },
  { PS_PLACEMENT_LOOP, "--speed 1:2:1:1" COSTS, FALSE },
};

static void
test_settings (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *line = g_strdup_printf ("-p 4 -m 4 %s", rows[i].options);
      g_autoptr (PsSetting) setting = parse_good (line);
      g_autoptr (PsPlacement) placement = ps_placement_new (rows[i].placement, 4, 1);
      g_autoptr (PsCosts) given = ps_setting_costs (setting, 4, 1, NULL);
      const SearchPricing pricing = { .setting = setting, .given = given };
      PsSearchChannels channels;
      const PsSearchSetting search = { .placement = placement, .n_microbatches = 4, .costs = given };
      g_autoptr (PsProblem) problem = ps_problem_new (&search);
      g_autoptr (PsGuess) guess = ps_guess_new (problem, search_price_channels (&pricing, placement, &channels));

      g_test_message ("%s", line);
      g_assert_true ((guess != NULL) == rows[i].guesses);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/search-guess/settings", test_settings);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autofree char *path = g_strdup_printf ("/search-guess/%s", kinds[i].options);

      g_test_add_data_func (g_strdelimit (path, " ", '-'), &kinds[i], test_kind);
    }
  return g_test_run ();
}
