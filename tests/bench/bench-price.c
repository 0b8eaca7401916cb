/* bench-price.c - searches where transfers queue, hold up devices or slow them down, against the best family and
 * against plain annealing under the same engine: single ops move, and each order is predicted. A price is the time of
 * annealing for each order. Usage: bench-price [SECONDS of a search [SECONDS of annealing [TEXT of rows]]]. */
#include <pipesim/search.h>

#include "plan/setting-search.h"
#include "search/order.h"
#include "search/problem.h"
#include "sim/setting-rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The temperatures, in mean durations of an op. */
#define HOT 0.3
#define COLD 0.01

typedef struct {
  PsPlacementKind placement;
  guint n_chunks;
  const char *line;
} Row;

#define COSTS(f, b, w, c) " --costs f=" f ",b=" b ",w=" w ",c=" c ",act=2B,wact=1B --memory-limit "

static const Row rows[] = {
  { PS_PLACEMENT_LOOP, 1, "-p 8 -m 24" COSTS ("100us", "102us", "88us", "40us") "20B --comm rank" },
  { PS_PLACEMENT_LOOP, 2, "-p 4 -m 16" COSTS ("200us", "204us", "176us", "30us") "16B --comm rank" },
  { PS_PLACEMENT_V, 2, "-p 4 -m 12" COSTS ("200us", "204us", "176us", "30us") "8B --comm rank" },
  { PS_PLACEMENT_BIDIRECTIONAL, 1, "-p 8 -m 16" COSTS ("100us", "102us", "88us", "10us") "18B --comm rank" },
  { PS_PLACEMENT_V, 2, "-p 8 -m 24" COSTS ("200us", "204us", "176us", "10us") "16B --comm rank" },
  { PS_PLACEMENT_LOOP, 1, "-p 8 -m 24" COSTS ("100us", "102us", "88us", "40us") "20B --comm pair" },
  { PS_PLACEMENT_LOOP, 2, "-p 4 -m 16" COSTS ("200us", "204us", "176us", "30us") "16B --comm pair --comm-order asap" },
  { PS_PLACEMENT_V, 2, "-p 4 -m 12" COSTS ("200us", "204us", "176us", "60us") "8B --comm direction" },
  { PS_PLACEMENT_LOOP, 1, "-p 4 -m 12" COSTS ("100us", "102us", "88us", "20us") "8B --blocking" },
  { PS_PLACEMENT_V, 2, "-p 4 -m 12" COSTS ("200us", "204us", "176us", "20us") "8B --blocking" },
  { PS_PLACEMENT_LOOP, 1, "-p 8 -m 16" COSTS ("100us", "102us", "88us", "40us") "16B --overlap-slowdown 1.3" },
  { PS_PLACEMENT_V, 2, "-p 4 -m 12" COSTS ("200us", "204us", "176us", "60us") "8B --comm rank --overlap-slowdown 1.2" },
};

/* Seconds of the processor. */
static double now (void)
{
  return (double)clock () / CLOCKS_PER_SEC;
}

typedef struct {
  double until;
  gint stop;
} Limit;

static void watch (const PsSearchProgress *progress, gpointer data)
{
  Limit *limit = data;

  if (now () >= limit->until)
    g_atomic_int_set (&limit->stop, 1);
}

/* The best family's price, and its order. */
static gint64 best_family (const PsSearchPricing *pricing, PsOrder *best, const char **name)
{
  g_autoptr (PsOrder) order = ps_order_new (best->problem);
  guint n;
  const PsFamily *const *families = ps_family_table (&n);
  gint64 least = G_MAXINT64;

  for (guint i = 0; i < n; i++) {
    g_autoptr (PsSchedule) schedule = ps_search_generate (families[i], (gpointer)pricing, NULL);

    if (schedule == NULL || schedule->asynchronous || schedule->n_slices > 1
        || !ps_order_from_schedule (order, schedule) || !ps_order_evaluate (order) || order->excess > 0)
      continue;
    gint64 price = ps_search_price (schedule, (gpointer)pricing);
    if (price >= least)
      continue;
    least = price;
    *name = families[i]->name;
    ps_order_assign (best, order);
  }
  return least;
}

static gint64 price_of (const PsOrder *order, const PsPlacement *placement, PsSearchPricing *pricing)
{
  g_autoptr (PsSchedule) schedule = ps_order_to_schedule (order, placement);

  return ps_search_price (schedule, pricing);
}

/* An order of a family may have a price of its own: it has pairs only where they save time. */
static gint64 anneal (PsSearchPricing *pricing, const PsPlacement *placement, PsOrder *order, double seconds,
                      guint64 *n_prices)
{
  const PsProblem *problem = order->problem;
  g_autoptr (PsOrder) kept = ps_order_new (problem);
  PsRandom random = { 1 };
  gint64 best = price_of (order, placement, pricing);
  double begin = now (), unit = 0, current = (double)best, part = 0;

  for (guint i = 0; i < problem->n_stages * N_KINDS; i++)
    unit += (double)problem->duration[i] / (problem->n_stages * N_KINDS);
  ps_order_assign (kept, order);
  for (; part < 1; part = (now () - begin) / seconds) {
    if (!ps_order_move_one (order, G_MAXINT64, &random))
      continue;
    gint64 changed = price_of (order, placement, pricing);
    gboolean takes = (double)changed <= current + unit * HOT * pow (COLD / HOT, part) * ps_random_exponential (&random);

    *n_prices += 1;
    best = MIN (best, changed);
    if (takes)
      current = (double)changed;
    ps_order_assign (takes ? kept : order, takes ? order : kept);
  }
  return best;
}

static void bench_row (const Row *row, double search_seconds, double anneal_seconds)
{
  g_autoptr (PsSetting) setting = parse_good (row->line);
  g_autoptr (PsPlacement) placement = ps_placement_new (row->placement, setting->n_devices, row->n_chunks);
  g_autofree gint64 *limit = NULL;
  const char *name = "-";
  guint64 n_prices = 0;
  Limit watched = { .until = now () + search_seconds };

  setting->n_chunks = row->n_chunks;
  g_autoptr (PsCosts) given = ps_setting_costs (setting, setting->n_devices, row->n_chunks, NULL);
  PsSearchPricing pricing = { .setting = setting, .given = given };
  g_assert_true (ps_setting_memory_limit (setting, placement->n_devices, &limit, NULL, NULL));
  PsSearchSetting search = { .placement = placement,
                             .n_microbatches = setting->n_microbatches,
                             .n_slices = 1,
                             .costs = given,
                             .memory_limit = limit,
                             .price = ps_search_price,
                             .generate = ps_search_generate,
                             .price_data = &pricing,
                             .price_bound_ns = ps_search_price_bound (&pricing, placement, given),
                             .seed = 1,
                             .time_limit_ns = G_MAXINT64,
                             .stop = &watched.stop,
                             .n_threads = 1,
                             .progress = watch,
                             .progress_data = &watched };
  g_autoptr (PsSearchResult) result = ps_search (&search, NULL);
  g_autoptr (PsProblem) problem = ps_problem_new (&search);
  g_autoptr (PsOrder) order = ps_order_new (problem);
  gint64 family = best_family (&pricing, order, &name), annealed;

  if (family == G_MAXINT64)
    g_assert_true (ps_order_from_schedule (order, result->schedule) && ps_order_evaluate (order));
  annealed = anneal (&pricing, placement, order, anneal_seconds, &n_prices);
  annealed = MIN (annealed, family);
  printf ("%s, %s v=%u\n  best family %.3f ms (%s)  search %.3f ms (%s)  annealed %.3f ms (%" G_GUINT64_FORMAT
          " orders), %+.2f %%  bound %.3f ms, gap %.2f %%\n  price %.1f us\n",
          row->line + 2, ps_placement_name (row->placement), row->n_chunks,
          family == G_MAXINT64 ? NAN : (double)family / 1e6, name, (double)result->price_ns / 1e6, result->found_by,
          (double)annealed / 1e6, n_prices, 100 * ((double)result->price_ns / (double)annealed - 1),
          (double)result->lower_bound_ns / 1e6, 100 * ((double)result->price_ns / (double)result->lower_bound_ns - 1),
          anneal_seconds / (double)n_prices * 1e6);
  fflush (stdout);
}

int main (int argc, char **argv)
{
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (argc < 4 || strstr (rows[i].line, argv[3]) != NULL)
      bench_row (&rows[i], argc > 1 ? strtod (argv[1], NULL) : 2, argc > 2 ? strtod (argv[2], NULL) : 5);
  return 0;
}
