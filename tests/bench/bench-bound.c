/* bench-bound.c - how far bounds stay below the best schedule, over settings of all kinds: few and many devices, equal
 * and unequal stages, tight and loose memory; and over 24 medium ones. Usage: bench-bound [MOVES of each search [TEXT
 * that a setting's name has to hold [SEED of 41 other settings of the same kinds, instead]]]. */
#include "bench-case.h"

#include "search/windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOP PS_PLACEMENT_LOOP
#define V PS_PLACEMENT_V
#define BOTH PS_PLACEMENT_BIDIRECTIONAL
#define COSTS                                                                                                          \
  {                                                                                                                    \
    100, 102, 88, 5                                                                                                    \
  }

/* The largest of them decides how long a bound may take. */
#define MAX_STATES 1500000

typedef enum {
  EQUAL,
  HEAVY_LAST, /* the last stage takes half as long again */
  SLOW,       /* device 1 does */
  UNEQUAL,    /* stages differ by up to 30 % */
} Shape;

typedef struct {
  const char *name;
  Setting setting;
  Shape shape;
  PsObjective objective;
} Row;

static const Row mixed[] = {
  { .name = "p2 loop", .setting = { LOOP, 2, 1, 4, { 3, 3, 2, 1 }, 4 } },
  { .name = "p2 loop2 tight", .setting = { LOOP, 2, 2, 8, { 5, 5, 4, 1 }, 6 } },
  { .name = "p3 c=1op", .setting = { LOOP, 3, 1, 6, { 4, 4, 4, 4 }, 8 } },
  { .name = "p4 equal", .setting = { LOOP, 4, 1, 20, { 4, 4, 4, 1 }, 8 } },
  { .name = "p4 loop tight", .setting = { LOOP, 4, 1, 8, { 6, 4, 4, 1 }, 6 } },
  { .name = "p4 V 12", .setting = { V, 4, 2, 8, { 3, 2, 2, 1 }, 12 } },
  { .name = "p4 loop2 12", .setting = { LOOP, 4, 2, 8, { 3, 2, 2, 1 }, 12 } },
  { .name = "p4 bidir 6", .setting = { BOTH, 4, 1, 8, { 6, 4, 4, 1 }, 6 } },
  { .name = "p4 V c=.5", .setting = { V, 4, 2, 32, { 5, 5, 4, 2 }, 16 } },
  { .name = "p4 loop2 c=1", .setting = { LOOP, 4, 2, 16, { 10, 10, 9, 10 }, 16 } },
  { .name = "p4 heavy last", .setting = { LOOP, 4, 1, 12, { 10, 10, 9, 1 }, 10 }, .shape = HEAVY_LAST },
  { .name = "p4 slow dev 1", .setting = { LOOP, 4, 1, 12, { 10, 10, 9, 1 }, 10 }, .shape = SLOW },
  { .name = "p4 bidir none", .setting = { BOTH, 4, 1, 16, { 10, 10, 9, 1 }, 64 } },
  { .name = "p4 V heavy last", .setting = { V, 4, 2, 12, { 10, 10, 9, 1 }, 20 }, .shape = HEAVY_LAST },
  { .name = "p6 loop p", .setting = { LOOP, 6, 1, 12, COSTS, 12 } },
  { .name = "p6 V half", .setting = { V, 6, 2, 18, COSTS, 12 } },
  { .name = "p6 bidir tight", .setting = { BOTH, 6, 1, 12, { 10, 10, 9, 1 }, 7 } },
  { .name = "p8 loop p", .setting = { LOOP, 8, 1, 16, COSTS, 16 } },
  { .name = "p8 loop m24", .setting = { LOOP, 8, 1, 24, COSTS, 16 } },
  { .name = "p8 equal tight", .setting = { LOOP, 8, 1, 24, { 10, 10, 10, 1 }, 12 } },
  { .name = "p8 loop2 24 bench", .setting = { LOOP, 8, 2, 32, COSTS, 24 } },
  { .name = "p8 V 16", .setting = { V, 8, 2, 16, COSTS, 16 } },
  { .name = "p8 V 32", .setting = { V, 8, 2, 32, COSTS, 32 } },
  { .name = "p8 loop2 none", .setting = { LOOP, 8, 2, 16, COSTS, 1000 } },
  { .name = "p8 bidir 18", .setting = { BOTH, 8, 1, 16, COSTS, 18 } },
  { .name = "p8 bidir tight", .setting = { BOTH, 8, 1, 24, COSTS, 10 } },
  { .name = "p8 heavy last", .setting = { LOOP, 8, 1, 32, COSTS, 16 }, .shape = HEAVY_LAST },
  { .name = "p8 V slow dev", .setting = { V, 8, 2, 24, COSTS, 32 }, .shape = SLOW },
  { .name = "p8 random stages", .setting = { LOOP, 8, 1, 16, COSTS, 14 }, .shape = UNEQUAL },
  { .name = "p8 loop c=1 m64", .setting = { LOOP, 8, 1, 64, { 10, 10, 10, 10 }, 16 } },
  { .name = "p8 V c=.5 m64", .setting = { V, 8, 2, 64, { 10, 10, 10, 5 }, 32 } },
  { .name = "p12 loop p", .setting = { LOOP, 12, 1, 24, COSTS, 24 } },
  { .name = "p12 V half", .setting = { V, 12, 2, 36, COSTS, 24 } },
  { .name = "p16 loop p", .setting = { LOOP, 16, 1, 32, COSTS, 32 } },
  { .name = "p16 V half", .setting = { V, 16, 2, 32, COSTS, 32 } },
  { .name = "p16 loop2 48", .setting = { LOOP, 16, 2, 64, COSTS, 48 } },
  { .name = "p16 bidir 34", .setting = { BOTH, 16, 1, 32, COSTS, 34 } },
  { .name = "p16 loop tight", .setting = { LOOP, 16, 1, 64, COSTS, 20 } },
  { .name = "p16 heavy last c=.3", .setting = { LOOP, 16, 1, 64, { 10, 10, 9, 3 }, 32 }, .shape = HEAVY_LAST },
  { .name = "p8 span 16", .setting = { LOOP, 8, 1, 32, COSTS, 16 }, .objective = PS_OBJECTIVE_SPAN },
  { .name = "p4 V span", .setting = { V, 4, 2, 8, { 10, 10, 9, 5 }, 8 }, .objective = PS_OBJECTIVE_SPAN },
};

#define MEDIUM(text, kind, v, c, limit)                                                                                \
  {                                                                                                                    \
    .name = text " c=" #c " limit " #limit, .setting = { kind, 4, v, 8, { 5, 5, 4, c }, limit }                        \
  }
#define BOTH_C(kind, v, limit) MEDIUM (#kind #v, kind, v, 1, limit), MEDIUM (#kind #v, kind, v, 5, limit)

static const Row medium[] = {
  BOTH_C (LOOP, 1, 5),  BOTH_C (LOOP, 1, 6),  BOTH_C (LOOP, 1, 7), BOTH_C (LOOP, 2, 10),
  BOTH_C (LOOP, 2, 12), BOTH_C (LOOP, 2, 14), BOTH_C (V, 2, 8),    BOTH_C (V, 2, 11),
  BOTH_C (V, 2, 14),    BOTH_C (BOTH, 1, 5),  BOTH_C (BOTH, 1, 6), BOTH_C (BOTH, 1, 8),
};

#define DRAW(array) array[ps_random_below (random, G_N_ELEMENTS (array))]

/* A setting of the kinds of `mixed`. */
static Row draw_row (PsRandom *random, char name[64])
{
  static const struct {
    PsPlacementKind placement;
    guint v;
    const char *name;
  } kinds[] = { { LOOP, 1, "loop" }, { LOOP, 2, "loop2" }, { V, 2, "V" }, { BOTH, 1, "bidir" } };
  static const guint devices[] = { 2, 3, 4, 4, 6, 8, 8, 12, 16 }, eighths[] = { 4, 5, 6, 8, 8, 9, 64 };
  static const gint64 costs[][4]
      = { { 3, 2, 2, 1 }, { 5, 5, 4, 2 }, { 6, 4, 4, 1 }, { 10, 10, 9, 1 }, { 10, 10, 9, 5 }, { 10, 10, 10, 10 },
          COSTS,          COSTS,          COSTS };
  static const char *const shapes[] = { "", " heavy last", " slow", " unequal" };
  guint kind = ps_random_below (random, G_N_ELEMENTS (kinds)), p = DRAW (devices), eighth = DRAW (eighths);
  guint shape = ps_random_below (random, 2) ? 0 : ps_random_below (random, G_N_ELEMENTS (shapes));
  guint m = p * (1 + ps_random_below (random, p < 12 ? 4 : 3));
  Row row = { .name = name,
              .setting = { .placement = kinds[kind].placement, .p = p, .v = kinds[kind].v, .m = m },
              .shape = (Shape)shape,
              .objective = kind < 3 && ps_random_below (random, 10) == 0 ? PS_OBJECTIVE_SPAN : PS_OBJECTIVE_MAKESPAN };

  if (kind == 3 && p % 2 != 0)
    row.setting.p++;
  row.setting.m += row.setting.m % 2;
  memcpy (row.setting.cost, DRAW (costs), sizeof row.setting.cost);
  row.setting.limit = MAX (2 * row.setting.p * kinds[kind].v * eighth / 8, 4);
  g_snprintf (name, 64, "%s p%u m%u c=%d %u/8%s%s", kinds[kind].name, row.setting.p, row.setting.m,
              (int)(100 * row.setting.cost[3] / row.setting.cost[0]), eighth, shapes[shape],
              row.objective == PS_OBJECTIVE_SPAN ? " span" : "");
  return row;
}

static void shape_costs (PsCosts *costs, const Row *row)
{
  guint n = costs->n_stages;

  for (guint s = 0; s < n; s++)
    for (guint kind = 0; kind < N_KINDS; kind++) {
      gint64 *time = &ps_costs_op (costs, (PsOpKind)kind, s)->duration_ns;

      if ((row->shape == HEAVY_LAST && s + 1 == n) || (row->shape == SLOW && s % row->setting.p == 1))
        *time += *time / 2;
      if (row->shape == UNEQUAL)
        *time += *time * ((gint64)(s * 7 + kind * 3) % 13 - 6) / 20;
      if (kind == PS_OP_W)
        ps_costs_op (costs, PS_OP_BW, s)->duration_ns = *time + ps_costs_op (costs, PS_OP_B, s)->duration_ns;
    }
}

static gboolean always (gpointer data)
{
  return TRUE;
}

static double gap (gint64 best, gint64 bound)
{
  return 100 * ((double)best / (double)bound - 1);
}

/* The bound by windows for as long as it takes. */
static gint64 windows_bound (const PsProblem *problem, gint64 root, gint64 best)
{
  g_autoptr (PsWindows) windows = root < best ? ps_windows_new (problem, MAX_STATES) : NULL;

  return windows != NULL ? ps_windows_bound (windows, root, best, 0, NULL, always, NULL) : root;
}

/* Adds the gaps to the sums: of the sums of docs/bounds.md, with the root's bound, and the search's own. */
static void bench_row (const Row *row, guint64 moves, double *sum, double *worst)
{
  Case c;

  case_init (&c, &row->setting);
  shape_costs (c.costs, row);
  c.setting.objective = row->objective;
  c.setting.move_limit = moves;
  g_autoptr (PsSearchResult) result = fine (ps_search (&c.setting, &error));
  g_autoptr (PsProblem) problem = ps_problem_new (&c.setting);
  gint64 best = result->price_ns, begin = g_get_monotonic_time ();
  gint64 plain = ps_lower_bound_within (c.placement, c.setting.n_microbatches, c.costs, c.limit, row->objective);
  gint64 root = MAX (plain, ps_one_machine_bound (problem)), narrow = windows_bound (problem, root, best);
  const double gaps[] = { gap (best, plain), gap (best, root), gap (best, result->lower_bound_ns) };

  printf ("%-36s %6" G_GINT64_FORMAT "  gap by sums %5.2f  root %5.2f  windows %5.2f (%.2f s)  search %5.2f, by %s\n",
          row->name, best, gaps[0], gaps[1], gap (best, narrow), (double)(g_get_monotonic_time () - begin) / 1e6,
          gaps[2], result->found_by);
  for (guint i = 0; i < 3; i++)
    sum[i] += gaps[i];
  *worst = MAX (*worst, gaps[2]);
  case_clear (&c);
}

static void bench_rows (const char *title, const Row *rows, guint n, guint64 moves, const char *text)
{
  double sum[3] = { 0 }, worst = 0;

  printf ("%s\n", title);
  for (guint i = 0; i < n; i++)
    if (strstr (rows[i].name, text) != NULL)
      bench_row (&rows[i], moves, sum, &worst);
  printf ("  mean gap by sums %.2f %%, root %.2f %%, search %.2f %% (worst %.2f %%)\n", sum[0] / n, sum[1] / n,
          sum[2] / n, worst);
}

int main (int argc, char **argv)
{
  guint64 moves = argc > 1 ? strtoull (argv[1], NULL, 10) : 1000000;
  const char *text = argc > 2 ? argv[2] : "";

  if (argc > 3) {
    PsRandom random = { strtoull (argv[3], NULL, 10) };
    char names[G_N_ELEMENTS (mixed)][64];
    Row rows[G_N_ELEMENTS (mixed)];

    for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
      rows[i] = draw_row (&random, names[i]);
    bench_rows ("41 drawn settings", rows, G_N_ELEMENTS (rows), moves, text);
    return 0;
  }
  bench_rows ("24 medium settings, p=4 m=8 f,b,w=5,5,4", medium, G_N_ELEMENTS (medium), moves, text);
  bench_rows ("41 mixed settings", mixed, G_N_ELEMENTS (mixed), moves, text);
  return 0;
}
