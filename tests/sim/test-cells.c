/* test-cells.c - repeated blocks: the cells that they repeat, how microbatches enter them, and what a search finds. */
#include "search-rig.h"

#include "search/blocks.c"

/* Half the memory of 1F1B, and one microbatch less than V-Half holds: a repeated block of its own comes within 3 % of
 * the bound. Without it, twice the moves leave 12270. */
static void test_block (void)
{
  const gint64 cost[4] = { 100, 102, 88, 5 };
  g_auto (Case) c = { 0 };

  case_init (&c, PS_PLACEMENT_V, 8, 2, 16, cost, 2, 1, 16);
  c.setting.move_limit = 2000000;
  g_autoptr (PsSearchResult) result = ps_search (&c.setting, NULL);

  check_result (&c, result);
  g_assert_cmpint (result->makespan_ns, <=, 12250);
  g_assert_cmpint (result->lower_bound_ns, >=, 11904);
}

/* Where list scheduling alone stays far above the bound, cells come near it soon. */
static void test_cells (void)
{
  static const struct {
    PsPlacementKind placement;
    guint p, m;
    gint64 cost[4];
    gint64 limit; /* bytes; a microbatch has 2 */
    guint64 n_moves;
    gint64 permille; /* of the bound */
  } rows[] = {
    /* 5/8 of the memory of 1F1B; list scheduling alone stays at 113 % */
    { PS_PLACEMENT_BIDIRECTIONAL, 16, 64, { 100, 100, 100, 10 }, 20, 150000, 1037 },
    /* 5/8 of it; twenty times the moves without cells stay above */
    { PS_PLACEMENT_LOOP, 32, 128, { 100, 102, 88, 5 }, 40, 60000, 1020 },
    /* half of it; four times the moves without cells stay above 121 % */
    { PS_PLACEMENT_BIDIRECTIONAL, 32, 128, { 100, 102, 88, 5 }, 32, 250000, 1045 },
    /* half of it, where slots leave 115 %; without plans that say where W run it stays above */
    { PS_PLACEMENT_V, 32, 128, { 50, 51, 44, 5 }, 64, 300000, 1032 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_auto (Case) c = { 0 };

    case_init (&c, rows[i].placement, rows[i].p, rows[i].placement == PS_PLACEMENT_V ? 2 : 1, rows[i].m, rows[i].cost,
               2, 1, rows[i].limit);
    c.setting.move_limit = rows[i].n_moves;
    g_autoptr (PsSearchResult) result = fine (ps_search (&c.setting, &error));

    check_result (&c, result);
    g_test_message ("%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT ", %s", result->makespan_ns, result->lower_bound_ns,
                    result->found_by);
    g_assert_cmpint (result->makespan_ns * 1000, <=, result->lower_bound_ns * rows[i].permille);
  }
}

static gboolean free_of_charge (guint64 n_moves, gpointer data)
{
  return TRUE;
}

static gboolean stop (guint64 n_moves, gpointer data)
{
  return FALSE;
}

/* The order of a plan, with each W right after its B. */
static PsOrder *order_of_plan (const PsProblem *problem, const guint32 *list)
{
  PsOrder *order = ps_order_new (problem);

  ps_order_clear (order);
  for (guint d = 0; d < problem->n_devices; d++)
    for (guint i = 0; i < (problem->first[d + 1] - problem->first[d]) / N_KINDS * 2; i++) {
      guint op = list[problem->first[d] + i];

      ps_order_add (order, op, problem->n_ops);
      if (chain_of (problem, op) % N_KINDS == PS_OP_B)
        ps_order_add (order, op + problem->m, problem->n_ops);
    }
  return order;
}

/* Where a plan says where W run, an F runs before its turn only if its device has run no B yet, or has few F left.
 * Returns how many F run before their turn. */
static guint check_early (const PsProblem *problem, const PsOrder *order, const PsPlan *plan)
{
  g_autofree gboolean *has_run = g_new0 (gboolean, problem->n_ops);
  guint n_early = 0;

  for (guint d = 0; d < problem->n_devices; d++) {
    guint turn = problem->first[d], n_left = problem->m;
    gboolean has_b = FALSE;

    for (guint i = problem->first[d]; i < order->stop[d]; i++) {
      guint op = order->sequence[i], chain = chain_of (problem, op);

      if (chain % N_KINDS == PS_OP_W)
        continue;
      while (has_run[plan->list[turn]])
        turn++;
      if (chain % N_KINDS == PS_OP_F && op != plan->list[turn]) {
        g_assert_true (plan->n_w == NULL || !has_b || n_left <= plan->n_last);
        n_early++;
      }
      has_run[op] = TRUE;
      has_b |= chain % N_KINDS == PS_OP_B;
      n_left -= chain == problem->stages[problem->first_stage[d]] * N_KINDS;
    }
  }
  return n_early;
}

/* Every op of a path starts after the one before it, but for rounding by a unit on each side. */
static void check_paths (const PsProblem *problem, const PsCell *cell, gint64 slack)
{
  guint n = problem->n_copy_stages;

  for (guint i = 0; i < cell->n_waves * problem->n_copies; i++) {
    const gint64 *start = cell->start + (gsize)(i / problem->n_copies) * 2 * problem->n_stages;
    gint64 now = 0;

    for (guint k = 0; k < 2 * n; k++) {
      guint stage = i % problem->n_copies * n + (k < n ? k : 2 * n - 1 - k), chain = stage * N_KINDS + (k >= n);
      gint64 at = start[(k >= n) * problem->n_stages + stage];

      g_assert_cmpint (at, >=, now + problem->lag[chain] - slack);
      g_assert_cmpint (at, <=, now + problem->lag[chain] + cell->period);
      now = at + problem->duration[chain];
    }
  }
}

/* Whatever the cell, its paths are paths, and a plan by it is an order within the memory limit: also as list scheduling
 * makes it, with W in the gaps. A plan gives up where no microbatch fits the memory, and where it is told to stop. */
static void test_inject (void)
{
  PsRandom random = { 11 };
  guint n_planned = 0, n_early = 0;

  for (guint i = 0; i < n_cases (200); i++) {
    const PsPlacementKind kinds[]
        = { PS_PLACEMENT_LOOP, PS_PLACEMENT_LOOP, PS_PLACEMENT_V, PS_PLACEMENT_BIDIRECTIONAL };
    guint kind = ps_random_below (&random, 4), p = 2 * (1 + ps_random_below (&random, 3));
    guint v = kind == 0 ? 1 + ps_random_below (&random, 4) : kind == 3 ? 1 : 2, n_w = ps_random_below (&random, 3);
    const gint64 cost[4] = { 100 + ps_random_below (&random, 900), 100 + ps_random_below (&random, 900),
                             100 + ps_random_below (&random, 900), ps_random_below (&random, 400) };
    g_auto (Case) c = { 0 };

    case_init (&c, kinds[kind], p, v, 2 + 2 * ps_random_below (&random, 12), cost, 2, 1,
               2 * v + 2 + ps_random_below (&random, 2 * p * v));
    g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
    g_autofree gint64 *start = g_new (gint64, 4 * (gsize)problem->n_stages);
    g_autofree guint32 *list = g_new0 (guint32, problem->n_ops);
    g_autofree guint8 *n_w_after = g_new0 (guint8, problem->n_ops);
    PsCell cell = { .start = start };

    g_assert_true (has_cells (problem));
    if (!plan_cell (&cell, problem, n_w, 1.1 + ps_random_unit (&random), 24 + ps_random_below (&random, 12),
                    free_of_charge, NULL))
      continue;
    n_planned++;
    check_paths (problem, &cell, cell.period / 8);
    Entries entries = { &cell, ps_random_below (&random, 3000), ps_random_below (&random, 3), free_of_charge, NULL };
    PsPlan plan = { list, ps_random_below (&random, 2) ? n_w_after : NULL, ps_random_below (&random, problem->m) };
    const PsPolicy policy = { .bias[PS_OP_W] = { .base = 1 }, .plan = &plan };
    g_assert_true (plan_microbatches (problem, &entries, &plan));
    g_autoptr (PsOrder) order = order_of_plan (problem, list);
    g_assert_true (ps_order_evaluate (order));
    g_assert_cmpint (order->excess, ==, 0);
    g_assert_true (ps_list_schedule (order, &policy));
    g_assert_true (ps_order_evaluate (order));
    g_assert_cmpint (order->excess, ==, 0);
    n_early += check_early (problem, order, &plan);
    entries.spend = stop;
    g_assert_false (plan_microbatches (problem, &entries, &plan));
    entries.spend = free_of_charge;
    for (guint d = 0; d < p; d++)
      problem->limit[d] = 1;
    g_assert_false (plan_microbatches (problem, &entries, &plan));
  }
  g_test_message ("%u planned, %u F before their turn", n_planned, n_early);
  g_assert_cmpuint (n_planned, >, n_cases (200) / 2);
  g_assert_cmpuint (n_early, >, 24 * n_planned);
}

/* Injection a second time: all changes of a device's memory are added up anew for each question. */
typedef struct {
  gint64 time;
  gint64 bytes;
} MemoryStep;

typedef struct {
  gint64 start;
  guint op;
} Placed;

typedef struct {
  const PsProblem *problem;
  const PsCell *cell;
  GArray *steps[4];  /* [n_devices] of MemoryStep, as microbatches entered */
  GArray *placed[4]; /* [n_devices] of Placed */
} Slow;

static void slow_init (Slow *slow, const PsProblem *problem, const PsCell *cell)
{
  *slow = (Slow){ .problem = problem, .cell = cell };
  for (guint d = 0; d < problem->n_devices; d++) {
    slow->steps[d] = g_array_new (FALSE, FALSE, sizeof (MemoryStep));
    slow->placed[d] = g_array_new (FALSE, FALSE, sizeof (Placed));
  }
}

static void slow_clear (Slow *slow)
{
  for (guint d = 0; d < slow->problem->n_devices; d++) {
    g_array_unref (slow->steps[d]);
    g_array_unref (slow->placed[d]);
  }
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Slow, slow_clear)

/* Whether a device has the bytes at a moment and after every later change. Of changes at one moment the one that
 * entered first comes first. */
static gboolean slow_has_room (const Slow *slow, guint device, gint64 at, gint64 bytes)
{
  const MemoryStep *step = (const MemoryStep *)(gpointer)slow->steps[device]->data;
  guint n = slow->steps[device]->len;

  for (guint i = 0; i <= n; i++) {
    gint64 level = slow->problem->held[device], moment = i < n ? step[i].time : at;

    for (guint k = 0; k < n; k++)
      if (step[k].time < moment || (step[k].time == moment && (i == n || k <= i)))
        level += step[k].bytes;
    if ((i == n || moment > at) && level + bytes > slow->problem->limit[device])
      return FALSE;
  }
  return TRUE;
}

/* The F of all stages of the copy on one device, up to the stage at hand, take their bytes and keep them. */
static gboolean slow_fits (const Slow *slow, const gint64 *start, guint copy, gint64 shift)
{
  const PsProblem *problem = slow->problem;
  guint n = problem->n_copy_stages;

  for (guint s = copy * n; s < (copy + 1) * n; s++) {
    gint64 bytes = problem->take[s * N_KINDS];

    for (guint below = copy * n; below < s; below++)
      if (problem->device[below] == problem->device[s])
        bytes += problem->take[below * N_KINDS] - problem->give[below * N_KINDS];
    if (!slow_has_room (slow, problem->device[s], start[s] + shift, bytes))
      return FALSE;
  }
  return TRUE;
}

static void slow_enter (Slow *slow, const gint64 *start, guint copy, gint64 shift, guint microbatch)
{
  const PsProblem *problem = slow->problem;

  for (guint s = copy * problem->n_copy_stages; s < (copy + 1) * problem->n_copy_stages; s++) {
    guint d = problem->device[s];
    gint64 end = 0;

    for (guint kind = 0; kind < N_KINDS; kind++) {
      guint chain = s * N_KINDS + kind;
      gint64 begin = kind == PS_OP_W ? end : start[kind * problem->n_stages + s] + shift;
      const Placed placed = { begin, chain * problem->m + microbatch };

      end = begin + problem->duration[chain];
      const MemoryStep both[2] = { { begin, problem->take[chain] }, { end, -problem->give[chain] } };
      g_array_append_vals (slow->steps[d], both, 2);
      if (kind != PS_OP_W)
        g_array_append_val (slow->placed[d], placed);
    }
  }
}

/* In each period every path of the cell takes a microbatch, those that begin first first, unless it is ahead of the
 * pace or some device lacks the bytes. */
static void slow_inject (Slow *slow, gint64 pace, guint burst)
{
  const PsProblem *problem = slow->problem;
  guint n_paths = slow->cell->n_waves * problem->n_copies, next[2] = { 0 }, n_left = problem->m * problem->n_copies;

  for (guint period = 0; n_left > 0; period++) {
    gint64 shift = period * slow->cell->period, before = -1;

    g_assert_cmpuint (period, <, 1000);
    for (guint k = 0; k < n_paths; k++) {
      guint path = 0;
      gint64 entry = G_MAXINT64;

      for (guint i = 0; i < n_paths; i++) {
        gint64 begin = slow->cell->start[(gsize)(i / problem->n_copies) * 2 * problem->n_stages
                                         + i % problem->n_copies * problem->n_copy_stages];

        if (begin > before && begin < entry) {
          entry = begin;
          path = i;
        }
      }
      guint copy = path % problem->n_copies;
      const gint64 *start = slow->cell->start + (gsize)(path / problem->n_copies) * 2 * problem->n_stages;
      before = entry;
      if (next[copy] == problem->m || (next[copy] > burst && entry + shift < ((gint64)next[copy] - burst) * pace)
          || !slow_fits (slow, start, copy, shift))
        continue;
      slow_enter (slow, start, copy, shift, next[copy]++);
      n_left--;
    }
  }
}

/* F and B stand by their starts, and the W that have room between two of them may lack a quarter of their time. */
static void slow_check (Slow *slow, const PsPlan *plan)
{
  const PsProblem *problem = slow->problem;

  for (guint d = 0; d < problem->n_devices; d++) {
    Placed *placed = (Placed *)(gpointer)slow->placed[d]->data;
    guint n = slow->placed[d]->len;

    for (guint i = 1; i < n; i++)
      for (guint k = i; k > 0 && placed[k - 1].start > placed[k].start; k--) {
        Placed was = placed[k];

        placed[k] = placed[k - 1];
        placed[k - 1] = was;
      }
    for (guint i = 0; i < n; i++) {
      guint at = problem->first[d] + i, chain = chain_of (problem, placed[i].op), n_w = 0;

      g_assert_cmpuint (plan->list[at], ==, placed[i].op);
      if (i + 1 == n) {
        g_assert_cmpuint (plan->n_w[at], ==, G_MAXUINT8);
        continue;
      }
      gint64 w = problem->duration[chain - chain % N_KINDS + PS_OP_W];
      gint64 gap = placed[i + 1].start - placed[i].start - problem->duration[chain];
      while (n_w < G_MAXUINT8 && (n_w + 1) * w - w / 4 <= gap)
        n_w++;
      g_assert_cmpuint (plan->n_w[at], ==, n_w);
    }
  }
}

/* Ways that begin in the period, at moments of their own, with any waits. */
static void draw_paths (const PsProblem *problem, PsCell *cell, PsRandom *random)
{
  guint n = problem->n_copy_stages;

  cell->n_waves = 1 + ps_random_below (random, 2);
  cell->period = 400 + ps_random_below (random, 2000);
  for (guint i = 0; i < cell->n_waves * problem->n_copies; i++) {
    gint64 *start = cell->start + (gsize)(i / problem->n_copies) * 2 * problem->n_stages, now = 100 * i;

    now += ps_random_below (random, 100);
    for (guint k = 0; k < 2 * n; k++) {
      guint stage = i % problem->n_copies * n + (k < n ? k : 2 * n - 1 - k);

      start[(k >= n) * problem->n_stages + stage] = now;
      now += problem->duration[stage * N_KINDS + (k >= n)] + ps_random_below (random, 300);
    }
  }
}

/* A plan holds the microbatches that a slow second account of time and memory lets in, at their places, also where F
 * give back bytes and B and W take some. */
static void test_entries (void)
{
  PsRandom random = { 13 };

  for (guint i = 0; i < 400; i++) {
    const PsPlacementKind kinds[] = { PS_PLACEMENT_LOOP, PS_PLACEMENT_V, PS_PLACEMENT_BIDIRECTIONAL };
    guint kind = ps_random_below (&random, 3), v = kind == 1 ? 2 : 1;
    const gint64 cost[4] = { 100 + ps_random_below (&random, 90), 100 + ps_random_below (&random, 90),
                             40 + ps_random_below (&random, 90), 0 };
    g_auto (Case) c = { 0 };

    case_init (&c, kinds[kind], kind == 0 ? 3 : 2, v, 4 + 2 * ps_random_below (&random, 4), cost, 2, 1, 1);
    g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
    g_autofree gint64 *start = g_new0 (gint64, 4 * (gsize)problem->n_stages);
    g_autofree guint32 *list = g_new0 (guint32, problem->n_ops);
    g_autofree guint8 *n_w = g_new0 (guint8, problem->n_ops);
    PsCell cell = { .start = start };
    const Entries entries
        = { &cell, ps_random_below (&random, 1500), ps_random_below (&random, 3), free_of_charge, NULL };
    PsPlan plan = { list, n_w, 0 };
    g_auto (Slow) slow = { 0 };

    for (guint s = 0; s < problem->n_stages; s++) {
      gint64 *take = problem->take + s * N_KINDS, *give = problem->give + s * N_KINDS;

      take[0] = 3 + ps_random_below (&random, 4);
      give[0] = ps_random_below (&random, 3);
      take[1] = ps_random_below (&random, 3);
      give[1] = take[0] - give[0] + take[1] - 1;
      take[2] = ps_random_below (&random, 2);
      give[2] = take[2] + 1;
    }
    for (guint d = 0; d < problem->n_devices; d++) {
      problem->held[d] = ps_random_below (&random, 3);
      problem->limit[d]
          = i % 5 == 0 ? G_MAXINT64 : problem->held[d] + (kind == 1 ? 12 : 6) + ps_random_below (&random, 9);
    }
    draw_paths (problem, &cell, &random);
    slow_init (&slow, problem, &cell);
    slow_inject (&slow, entries.pace, entries.burst);
    g_assert_true (plan_microbatches (problem, &entries, &plan));
    slow_check (&slow, &plan);
  }
}

/* A cell has the time for its F and B, and for n_w of every two W, on the busiest device; `factor` makes it longer.
 * Chunks in even number make one wave. */
static void test_period (void)
{
  static const struct {
    PsPlacementKind kind;
    guint v, n_waves;
  } rows[] = { { PS_PLACEMENT_LOOP, 1, 2 }, { PS_PLACEMENT_LOOP, 2, 1 }, { PS_PLACEMENT_LOOP, 3, 2 },
               { PS_PLACEMENT_LOOP, 4, 1 }, { PS_PLACEMENT_V, 2, 1 },    { PS_PLACEMENT_BIDIRECTIONAL, 1, 1 } };
  const gint64 cost[4] = { 500, 700, 300, 20 };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint n_w = 0; n_w <= 2; n_w++) {
      guint n_here = rows[i].kind == PS_PLACEMENT_BIDIRECTIONAL ? 2 : rows[i].v;
      g_auto (Case) c = { 0 };

      case_init (&c, rows[i].kind, 2, rows[i].v, 4, cost, 2, 1, 0);
      for (guint s = 1; s < 2 * rows[i].v; s += 2)
        for (guint kind = 0; kind < N_KINDS && rows[i].kind == PS_PLACEMENT_LOOP; kind++)
          ps_costs_op (c.costs, (PsOpKind)kind, s)->duration_ns += 100; /* the second device is the busiest */
      g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
      g_autofree gint64 *start = g_new0 (gint64, 4 * (gsize)problem->n_stages);
      PsCell cell = { .start = start };
      gint64 f_b = rows[i].kind == PS_PLACEMENT_LOOP ? 600 + 800 : 500 + 700;
      gint64 w = rows[i].kind == PS_PLACEMENT_LOOP ? 400 : 300;

      g_assert_true (plan_cell (&cell, problem, n_w, 1.5, 36, free_of_charge, NULL));
      g_assert_cmpuint (cell.n_waves, ==, rows[i].n_waves);
      g_assert_cmpint (cell.period, ==, rows[i].n_waves * n_here * (2 * f_b + n_w * w) * 3 / 4);
      check_paths (problem, &cell, cell.period / 8);
    }
}

/* A cell of two devices, and of times in units; a W takes one. */
typedef struct {
  PsPlacementKind kind;
  guint n; /* units of a turn */
  guint n_w;
  guint lag[N_TRACKS];
  guint length[2][N_TRACKS]; /* by device */
  guint weight[N_TRACKS];    /* of waits */
} Turn;

/* Positions of a device's ops, by track. */
typedef struct {
  guint at[N_TRACKS];
} Places;

/* Whether the ops run one after the other and leave room for W. */
static gboolean can_stand (const Turn *turn, guint device, const Places *places)
{
  gboolean used[16] = { 0 };
  guint n_left = turn->n;

  for (guint i = 0; i < N_TRACKS; i++)
    for (guint k = 0; k < turn->length[device][i]; k++, n_left--) {
      gboolean *unit = &used[(places->at[i] + k) % turn->n];

      if (*unit)
        return FALSE;
      *unit = TRUE;
    }
  return n_left >= turn->n_w;
}

static GArray *list_places (const Turn *turn, guint device)
{
  GArray *all = g_array_new (FALSE, FALSE, sizeof (Places));
  guint n = turn->n;

  for (guint i = 0; i < n * n * n * n; i++) {
    Places places = { { i / (n * n * n), i / (n * n) % n, i / n % n, i % n } };

    if (can_stand (turn, device, &places))
      g_array_append_val (all, places);
  }
  return all;
}

/* The price of the wait between an op of a track that is over after `length`, and the next one. */
static guint gap (const Turn *turn, guint track, guint from, guint to, guint length)
{
  return turn->weight[track] * ((to + 2 * turn->n - from - length % turn->n) % turn->n);
}

/* All waits: between both devices, and where microbatches turn around. */
static guint add_waits (const Turn *turn, const guint *x, const guint *y)
{
  const guint (*length)[N_TRACKS] = turn->length, *lag = turn->lag;
  guint straight = gap (turn, 0, y[0], y[2], length[1][0]) + gap (turn, 1, y[1], y[3], length[1][1]), sum = 0;
  guint crossed = gap (turn, 0, y[0], y[3], length[1][0]) + gap (turn, 1, y[1], y[2], length[1][1]);

  for (guint i = 0; i < N_FORTH; i++)
    sum += gap (turn, i, x[i], y[i], length[0][i] + lag[i]);
  for (guint i = N_FORTH; i < N_TRACKS; i++)
    sum += gap (turn, i, y[i], x[i], length[1][i] + lag[i]);
  if (turn->kind == PS_PLACEMENT_LOOP)
    return sum + MIN (straight, crossed);
  return sum + gap (turn, 2, x[2], x[1], length[0][2])
         + (turn->kind == PS_PLACEMENT_V ? straight : gap (turn, 0, y[0], y[3], length[1][0]));
}

static guint least_waits (const Turn *turn, const GArray *first, const GArray *last)
{
  guint least = G_MAXUINT;

  for (guint a = 0; a < first->len && g_array_index (first, Places, a).at[0] == 0; a++)
    for (guint b = 0; b < last->len; b++)
      least = MIN (least, add_waits (turn, g_array_index (first, Places, a).at, g_array_index (last, Places, b).at));
  return least;
}

/* Draws times of ops and transfers, and sets the problem's to them. On a V, waits on the way back count three times. */
static void draw_times (Turn *turn, PsProblem *problem, PsRandom *random)
{
  const Track *track = cell_tracks (problem);

  for (guint chain = 0; chain < problem->n_stages * N_KINDS; chain++) {
    problem->lag[chain] = ps_random_below (random, 6);
    problem->duration[chain] = 1 + (chain % N_KINDS != PS_OP_W ? ps_random_below (random, 2) : 0);
  }
  for (guint i = 0; i < N_TRACKS; i++) {
    guint lane = track[i].back ? 1 : 0;

    turn->weight[i] = turn->kind == PS_PLACEMENT_V && lane == 1 ? 3 : 1;
    turn->lag[i] = (guint)problem->lag[stage_at (problem, lane, i < N_FORTH) * N_KINDS + track[i].kind];
    for (guint d = 0; d < 2; d++)
      turn->length[d][i] = (guint)problem->duration[stage_at (problem, lane, d) * N_KINDS + track[i].kind];
  }
}

/* The path found waits as little as the best of all positions of two devices. */
static void test_path (void)
{
  const PsPlacementKind kinds[] = { PS_PLACEMENT_LOOP, PS_PLACEMENT_V, PS_PLACEMENT_BIDIRECTIONAL };
  const gint64 cost[4] = { 1, 1, 1, 1 };
  PsRandom random = { 12 };
  guint n_found = 0;

  for (guint i = 0; i < n_cases (60); i++) {
    Turn turn = { .kind = kinds[i % 3], .n = 6 + ps_random_below (&random, 4), .n_w = ps_random_below (&random, 3) };
    Places at[2] = { 0 };
    g_auto (Case) c = { 0 };

    case_init (&c, turn.kind, 2, turn.kind == PS_PLACEMENT_V ? 2 : 1, 2, cost, 2, 1, 0);
    g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
    draw_times (&turn, problem, &random);
    const CellPath path = { .problem = problem,
                            .track = cell_tracks (problem),
                            .n = turn.n,
                            .n_w = turn.n_w,
                            .unit_ns = 1,
                            .at = &at[0].at,
                            .spend = free_of_charge };
    g_autoptr (GArray) first = list_places (&turn, 0), last = list_places (&turn, 1);
    gboolean found = find_cell_path (&path);

    g_assert_cmpint (found, ==, first->len > 0 && last->len > 0);
    if (!found)
      continue;
    n_found++;
    g_assert_true (can_stand (&turn, 0, &at[0]) && can_stand (&turn, 1, &at[1]));
    g_assert_cmpuint (add_waits (&turn, at[0].at, at[1].at), ==, least_waits (&turn, first, last));
  }
  g_assert_cmpuint (n_found, >, n_cases (60) / 3);
}

/* Cells need lanes of all devices in order, that go one way or as many back as forth; which goes first is no matter. */
static void test_suits (void)
{
  static const struct {
    guint p, n;
    guint16 device[8];
    guint n_copies;
    gboolean cells, slots; /* slots: a V of two chunks */
  } rows[] = {
    { 2, 2, { 0, 1 }, 1, TRUE, FALSE },
    { 2, 4, { 0, 1, 0, 1 }, 1, TRUE, FALSE },
    { 2, 4, { 0, 1, 1, 0 }, 1, TRUE, TRUE },
    { 2, 4, { 1, 0, 0, 1 }, 1, TRUE, FALSE },
    { 2, 4, { 1, 0, 1, 0 }, 1, FALSE, FALSE },
    { 2, 4, { 0, 0, 1, 1 }, 1, FALSE, FALSE },
    { 2, 6, { 0, 1, 1, 0, 0, 1 }, 1, FALSE, FALSE },
    { 2, 8, { 0, 1, 1, 0, 0, 1, 1, 0 }, 1, TRUE, FALSE },
    { 2, 8, { 0, 1, 1, 0, 1, 0, 0, 1 }, 1, TRUE, FALSE },
    { 2, 3, { 0, 1, 1 }, 1, FALSE, FALSE },
    { 2, 2, { 0, 1, 1, 0 }, 2, TRUE, FALSE },
    { 2, 2, { 0, 1, 0, 1 }, 2, TRUE, FALSE },
    { 3, 6, { 0, 1, 2, 2, 1, 0 }, 1, TRUE, TRUE },
    { 3, 6, { 0, 1, 2, 1, 2, 0 }, 1, FALSE, FALSE },
    { 3, 6, { 0, 2, 1, 1, 2, 0 }, 1, FALSE, FALSE },
    { 1, 2, { 0, 0 }, 1, FALSE, TRUE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    const gint64 cost[4] = { 1, 1, 1, 0 };
    g_auto (Case) c = { 0 };

    case_init (&c, PS_PLACEMENT_LOOP, 1, rows[i].n, 2 * 344, cost, 2, 1, 0);
    ps_placement_free (c.placement);
    c.setting.placement = c.placement
        = ps_placement_new_custom (rows[i].p, rows[i].n, rows[i].n_copies, rows[i].device);
    g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
    g_test_message ("row %u", i);
    g_assert_cmpint (has_cells (problem), ==, rows[i].cells);
    g_assert_cmpuint (problem->n_ops, >=, 2048);
    g_assert_cmpint (ps_blocks_suit (problem, FALSE), ==, rows[i].cells);
    g_assert_cmpint (ps_blocks_suit (problem, TRUE), ==, rows[i].slots);
    problem->n_ops = 2047; /* local search does better */
    g_assert_false (ps_blocks_suit (problem, FALSE));
    problem->n_ops = 2048;
    g_assert_cmpint (ps_blocks_suit (problem, FALSE), ==, rows[i].cells);
    problem->n_slices = 2;
    g_assert_false (ps_blocks_suit (problem, FALSE) || ps_blocks_suit (problem, TRUE));
    problem->n_slices = 1;
    problem->joins = TRUE;
    g_assert_false (ps_blocks_suit (problem, FALSE) || ps_blocks_suit (problem, TRUE));
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cells/block", test_block);
  g_test_add_func ("/cells/search", test_cells);
  g_test_add_func ("/cells/inject", test_inject);
  g_test_add_func ("/cells/entries", test_entries);
  g_test_add_func ("/cells/period", test_period);
  g_test_add_func ("/cells/suits", test_suits);
  g_test_add_func ("/cells/path", test_path);
  return g_test_run ();
}
