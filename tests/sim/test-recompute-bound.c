/* Tests of bounds that hold whichever microbatches recompute, against all schedules of small problems. */
#include "cases.h"
#include "plan/joint-bound.h"
#include "recompute-rig.h"

/* No schedule is faster, whichever microbatches recompute. */
static gint64
mixed_bound (PsSetting *setting, const SearchChoice *choice)
{
  guint n = setting->n_devices;
  g_autoptr (PsPlacement) placement = ps_placement_new (choice->placement, n, choice->n_chunks);
  g_autofree gint64 *limit = NULL;
  SearchWays ways = { .n = 2, .recompute = { PS_RECOMPUTE_NONE, PS_RECOMPUTE_FULL } };
  gint64 bound;

  g_assert_true (ps_setting_memory_limit (setting, n, &limit, NULL, NULL));
  for (guint way = 0; way < 2; way++)
    {
      setting->recompute = ways.recompute[way];
      ways.costs[way] = ps_setting_costs (setting, n, choice->n_chunks, NULL);
    }
  setting->recompute = PS_RECOMPUTE_NONE;
  search_mix_ways (&ways, 1);
  g_assert_cmpuint (ways.n, ==, 1);
  bound = search_bound_ways (&(SearchQuestion){ setting, choice, placement, limit }, &ways, G_MAXINT64);
  ps_costs_free (ways.costs[0]);
  return bound;
}

/* Ops of one microbatch on one stage that have run, as bits. */
enum
{
  DID_F = 1,
  DID_R = 2,
  DID_B = 4,
  DID_W = 8,
  HAS_R = 16,
};

#define FEW 3

/* Every schedule of FEW microbatches on two devices, op by op in the order of their starts. */
typedef struct
{
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

static void
try_op (const Every *every, guint d, guint k, guint bit, guint also)
{
  const Draw *draw = every->draw;
  gint64 dropped = draw->act - draw->keep, ready = every->free[d], duration_ns, take = 0, give = 0;
  guint had = every->did[d][k];
  Every next = *every;

  switch (bit)
    {
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
static void
try_every (Every *every)
{
  gboolean done = TRUE;

  for (guint d = 0; d < P; d++)
    {
      gboolean had_w = FALSE;

      for (guint k = 0; k < FEW; k++)
        {
          guint did = every->did[d][k];

          done &= (did & DID_W) != 0;
          if (!(did & DID_F))
            {
              if (d == 0 ? k > 0 && !(every->did[0][k - 1] & DID_F) : !(every->did[0][k] & DID_F))
                continue;
              try_op (every, d, k, DID_F, 0);
              try_op (every, d, k, DID_F, HAS_R);
            }
          else if ((did & HAS_R) && !(did & DID_R))
            try_op (every, d, k, DID_R, 0);
          else if (!(did & DID_B) && (d + 1 == P || (every->did[1][k] & DID_B)))
            try_op (every, d, k, DID_B, 0);
          else if ((did & DID_B) && !(did & DID_W) && !had_w)
            {
              had_w = TRUE;
              try_op (every, d, k, DID_W, 0);
            }
        }
    }
  if (done)
    every->best = MIN (every->best, MAX (every->free[0], every->free[1]));
}

/* The bound is not above the best of all orders with all choices of R, and often near it. */
static void
test_bound (void)
{
  const SearchChoice choice = { .placement = PS_PLACEMENT_LOOP, .n_chunks = 1, .n_microbatches = FEW, .n_slices = 1 };
  g_autoptr (GRand) random = g_rand_new_with_seed (35);
  guint n_near = 0, n = 0;

  for (guint i = 0; i < n_cases (40); i++)
    {
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
      bound = mixed_bound (setting, &choice);
      g_test_message ("%u: best %" G_GINT64_FORMAT ", bound %" G_GINT64_FORMAT, i, 1000 * every.best, bound);
      g_assert_cmpint (bound, <=, 1000 * every.best);
      n_near += bound > 900 * every.best;
      n++;
    }
  g_test_message ("%u of %u near", n_near, n);
  g_assert_cmpuint (4 * n_near, >, 3 * n);
}

/* The bound holds for several stages on a device, for two copies of the weights, and for spans: it is not above any of
 * many choices of R for an order of a family. Nor is the bound of such an order above its own period. */
static void
test_bound_many (void)
{
  static const char *const names[] = { "interleaved", "zb-v", "chimera", "1f1b" };
  g_autoptr (GRand) random = g_rand_new_with_seed (36);
  guint n_fit = 0;

  for (guint i = 0; i < n_cases (48); i++)
    {
      const PsFamily *family = ps_family_find (names[i % G_N_ELEMENTS (names)]);
      g_autoptr (PsSchedule) order = schedule_with (family->name, 0);
      const SearchChoice choice = {
        .placement = order->placement->kind, .n_chunks = family->default_chunks, .n_microbatches = M, .n_slices = 1
      };
      g_autofree char *line = g_strdup_printf (
          "-p 2 -m 4 --costs f=%dus,b=%dus,w=%dus,r=%dus,c=%dus,act=12KiB,wact=%dKiB,keep=%dKiB --memory-limit %dKiB%s",
          g_rand_int_range (random, 1, 20), g_rand_int_range (random, 1, 20), g_rand_int_range (random, 1, 20),
          g_rand_int_range (random, 1, 20), g_rand_int_range (random, 0, 5), g_rand_int_range (random, 0, 12),
          g_rand_int_range (random, 0, 12), g_rand_int_range (random, 12, 50), i % 8 < 4 ? "" : " --sync bypass");
      g_autoptr (PsSetting) setting = parse_good (line);
      gint64 bound = mixed_bound (setting, &choice), least = G_MAXINT64;

      for (guint k = 0; k < 300; k++)
        {
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

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/recompute-bound/all-orders", test_bound);
  g_test_add_func ("/recompute-bound/many", test_bound_many);
  return g_test_run ();
}
