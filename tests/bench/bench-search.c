/* bench-search.c - how many moves a second local search tries, against evaluating whole orders, with pairs and
 * without, and how the best schedule of four settings improves with time. Usage: bench-search [moves]: without times.
 */
#include "bench-case.h"
#include "bench-clock.h"
#include "search/methods.h"

#include <stdio.h>
#include <string.h>

#define N_RUNS 7

/* Of the processor, because all is done by one thread. */
static gint64 now_ns (void)
{
  return clock_ns (CLOCK_PROCESS_CPUTIME_ID);
}

/* pair: of an F and a BW; 0: sum of its parts. */
static void bench_moves (gint64 pair)
{
  const Setting setting = { PS_PLACEMENT_V, 8, 2, 32, { 1000, 1020, 880, 50 }, 32 };
  gint64 incremental[N_RUNS], full[N_RUNS];
  PsPolicy policy = { .bias[PS_OP_W] = { 1, 0, 0 },
                      .bias[PS_OP_F] = { 0.2, 0, 0 },
                      .ahead = { 2, 0, 0 },
                      .pair = { -1, 0, 0 },
                      .pairs = pair > 0 };
  Case c;

  case_init (&c, &setting);
  for (guint s = 0; s < setting.p * setting.v && pair > 0; s++)
    c.costs->stage[s].pair_ns = pair;
  PsProblem *problem = ps_problem_new (&c.setting);
  PsOrder *order = ps_order_new (problem);
  for (guint i = 0; i < N_RUNS; i++) {
    PsRandom random = { i };
    PsAnnealing annealing
        = { .random = &random, .hot = 200, .cold = 20, .price = 100, .pull = 0.1, .n_moves = 1 << 20 };

    g_assert_true (ps_list_schedule (order, &policy) && ps_order_evaluate (order));
    gint64 start = now_ns ();
    guint64 n = ps_anneal (order, &annealing);
    incremental[i] = (gint64)((double)n / (double)(now_ns () - start) * 1e9);
    start = now_ns ();
    for (guint k = 0; k < 200; k++)
      g_assert_true (ps_order_evaluate (order));
    full[i] = (gint64)(200 / (double)(now_ns () - start) * 1e9);
  }
  gint64 fast = ps_median (incremental, N_RUNS), slow = ps_median (full, N_RUNS);
  printf (
      "p=8 m=32 v=2 (%u ops%s): %.2f M moves/s tried by local search, %.1f k whole orders/s evaluated, ratio %.0f\n",
      problem->n_ops, pair > 0 ? ", pairs" : "", (double)fast / 1e6, (double)slow / 1e3, (double)fast / (double)slow);
  ps_order_free (order);
  ps_problem_free (problem);
  case_clear (&c);
}

static void print_progress (const PsSearchProgress *progress, gpointer data)
{
  gint64 *last = data;

  if (progress->best_ns == *last)
    return;
  *last = progress->best_ns;
  printf ("    %5.2f s  %8" G_GINT64_FORMAT "  gap %.2f %%\n", (double)progress->elapsed_ns / 1e9, progress->best_ns,
          100 * ((double)progress->best_ns / (double)progress->lower_bound_ns - 1));
}

static void bench_time (void)
{
  static const Setting settings[] = {
    { PS_PLACEMENT_V, 4, 2, 8, { 6, 4, 4, 1 }, 16 },
    { PS_PLACEMENT_V, 8, 2, 8, { 1000, 1020, 880, 50 }, 32 },
    { PS_PLACEMENT_LOOP, 8, 1, 24, { 1000, 1020, 880, 50 }, 16 },
    { PS_PLACEMENT_LOOP, 8, 2, 32, { 1000, 1020, 880, 50 }, 24 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (settings); i++) {
    gint64 last = 0;
    Case c;

    case_init (&c, &settings[i]);
    c.setting.time_limit_ns = G_GINT64_CONSTANT (4000000000);
    c.setting.progress = print_progress;
    c.setting.progress_data = &last;
    printf ("  best so far against time: %s p=%u v=%u m=%u, limit %" G_GINT64_FORMAT "\n",
            ps_placement_name (settings[i].placement), settings[i].p, settings[i].v, settings[i].m, settings[i].limit);
    g_autoptr (PsSearchResult) result = ps_search (&c.setting, NULL);
    printf ("    end      %8" G_GINT64_FORMAT "  bound %" G_GINT64_FORMAT "%s, by %s\n", result->makespan_ns,
            result->lower_bound_ns, result->proved_optimal ? ", optimal" : "", result->found_by);
    case_clear (&c);
  }
}

int main (int argc, char **argv)
{
  bench_moves (0);
  bench_moves (2200);
  if (argc < 2 || strcmp (argv[1], "moves") != 0)
    bench_time ();
  return 0;
}
