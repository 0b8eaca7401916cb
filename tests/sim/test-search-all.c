/* test-search-all.c - searches and bounds against every schedule that there is, each timed by the simulator. */
#include "search-rig.h"

/* The orders of one device. */
typedef struct {
  const Case *c;
  guint device;
  GPtrArray *orders; /* of GArray of PsOp */
  GArray *now;
  guint *next;   /* [3 * stages of all copies] microbatches of the copy that have had their F, their B, their W */
  guint8 *whole; /* [stages * 8] whether that microbatch's backward was a BW */
  guint n_left;  /* F, B and W that are missing, BW two of them */
} Enumeration;

static guint m_of (const Case *c)
{
  return c->setting.n_microbatches / c->placement->n_copies;
}

static PsOp make_op (const Case *c, PsOpKind kind, guint i, guint microbatch)
{
  guint n = c->placement->n_stages;

  return (PsOp){ .kind = (guint8)kind,
                 .stage = (guint16)(i % n),
                 .microbatch = (microbatch + i / n * m_of (c)) & G_MAXINT32 };
}

static void enumerate (Enumeration *e);

/* With these ops next; F, B and W of entry i are next[3 * i + kind]. */
static void go_on_with (Enumeration *e, const PsOp *ops, guint n_ops, guint n_done)
{
  g_array_append_vals (e->now, ops, n_ops);
  e->n_left -= n_done;
  enumerate (e);
  e->n_left += n_done;
  g_array_set_size (e->now, e->now->len - n_ops);
}

static void enumerate_backward (Enumeration *e, guint i, const PsOp *forward)
{
  guint *next = e->next + 3 * i, microbatch = next[1];
  PsOp ops[2] = { { 0 }, make_op (e->c, PS_OP_BW, i, microbatch) };

  next[1]++;
  e->whole[8 * i + microbatch] = TRUE;
  if (forward != NULL) {
    ops[0] = *forward;
    ops[0].paired = TRUE;
    go_on_with (e, ops, 2, 3);
  } else
    go_on_with (e, ops + 1, 1, 2);
  e->whole[8 * i + microbatch] = FALSE;
  if (forward == NULL) {
    ops[1].kind = PS_OP_B;
    go_on_with (e, ops + 1, 1, 1);
  }
  next[1]--;
}

static void enumerate_weights (Enumeration *e, guint i)
{
  guint *next = e->next + 3 * i, was = next[2];

  while (next[2] < next[1] && e->whole[8 * i + next[2]])
    next[2]++;
  if (next[2] < next[1]) {
    PsOp op = make_op (e->c, PS_OP_W, i, next[2]);

    next[2]++;
    go_on_with (e, &op, 1, 1);
  }
  next[2] = was;
}

static void enumerate_forward (Enumeration *e, guint i)
{
  const PsPlacement *placement = e->c->placement;
  guint *next = e->next + 3 * i;
  PsOp op = make_op (e->c, PS_OP_F, i, next[0]);

  if (next[0] == m_of (e->c))
    return;
  next[0]++;
  go_on_with (e, &op, 1, 1);
  for (guint k = 0; k < placement->n_copies * placement->n_stages; k++)
    if (placement->device[k] == e->device && e->next[3 * k + 1] < e->next[3 * k] - (k == i))
      enumerate_backward (e, k, &op);
  next[0]--;
}

/* Every order of every op of the device, in every way to join them. */
static void enumerate (Enumeration *e)
{
  const PsPlacement *placement = e->c->placement;

  if (e->n_left == 0)
    g_ptr_array_add (e->orders, g_array_copy (e->now));
  for (guint i = 0; i < placement->n_copies * placement->n_stages && e->n_left > 0; i++) {
    if (placement->device[i] != e->device)
      continue;
    enumerate_forward (e, i);
    if (e->next[3 * i + 1] < e->next[3 * i])
      enumerate_backward (e, i, NULL);
    enumerate_weights (e, i);
  }
}

static GPtrArray *orders_of (const Case *c, guint device)
{
  guint n = c->placement->n_copies * c->placement->n_stages;
  g_autoptr (GArray) now = g_array_new (FALSE, FALSE, sizeof (PsOp));
  g_autofree guint *next = g_new0 (guint, 3 * (gsize)n);
  g_autofree guint8 *whole = g_new0 (guint8, 8 * (gsize)n);
  Enumeration e = { c, device, g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref), now, next, whole, 0 };

  for (guint i = 0; i < n; i++)
    e.n_left += c->placement->device[i] == device ? 3 * m_of (c) : 0;
  enumerate (&e);
  return e.orders;
}

/* The objective of two devices' orders by the simulator; G_MAXINT64 where they wait in a circle or do not fit. */
static gint64 value_of (const Case *c, const GArray *a, const GArray *b)
{
  guint m = c->setting.n_microbatches;
  PsScheduleBuilder *builder = ps_schedule_builder_new ("all", ps_placement_copy (c->placement), m);

  ps_schedule_builder_add_ops (builder, (const PsOp *)a->data, a->len);
  ps_schedule_builder_next_device (builder);
  ps_schedule_builder_add_ops (builder, (const PsOp *)b->data, b->len);
  ps_schedule_builder_next_device (builder);
  PsSchedule *schedule = ps_schedule_builder_end (builder);
  if (c->placement->n_copies > 1)
    schedule->copy = g_new (guint8, m);
  for (guint i = 0; i < m && schedule->copy != NULL; i++)
    schedule->copy[i] = i >= m / 2;
  g_autoptr (PsProgram) program = ps_program_lower (schedule, PS_COMM_ASAP, NULL);
  if (program == NULL)
    return G_MAXINT64;
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  ps_simulate (program, c->costs, simulation);
  for (guint d = 0; d < 2 && c->limit != NULL; d++)
    if (simulation->device[d].peak_bytes > c->limit[d])
      return G_MAXINT64;
  return c->setting.objective == PS_OBJECTIVE_SPAN ? simulation->max_span_ns : simulation->makespan_ns;
}

/* Two devices, two or three microbatches: of all schedules none is better than the bound, and the search finds the
 * best. */
static void test_all (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (24);
  guint n = n_cases (30), n_tight = 0;
  double gap = 0;

  for (guint i = 0; i < n; i++) {
    g_auto (Case) c = { 0 };
    gint64 cost[4] = { g_rand_int_range (random, 1, 9), g_rand_int_range (random, 1, 9),
                       g_rand_int_range (random, 1, 9), g_rand_int_range (random, 0, 4) };

    case_init (&c, i % 3 ? PS_PLACEMENT_LOOP : PS_PLACEMENT_BIDIRECTIONAL, 2, 1, i % 3 ? 3 : 2, cost, 4,
               g_rand_int_range (random, 1, 5), i % 2 ? g_rand_int_range (random, 8, 12) : 0);
    if (i % 5 > 0)
      draw_joins (&c, random);
    c.setting.objective = g_rand_boolean (random) ? PS_OBJECTIVE_SPAN : PS_OBJECTIVE_MAKESPAN;
    g_autoptr (GPtrArray) a = orders_of (&c, 0), b = orders_of (&c, 1);
    gint64 bound = ps_lower_bound_within (c.placement, c.setting.n_microbatches, c.costs, c.limit, c.setting.objective);
    gint64 least = G_MAXINT64;

    for (guint k = 0; k < a->len; k++)
      for (guint l = 0; l < b->len; l++)
        least = MIN (least, value_of (&c, a->pdata[k], b->pdata[l]));
    g_assert_cmpint (bound, <=, least);
    g_autoptr (PsSearchResult) result = fine (ps_search (&c.setting, &error));
    check_result (&c, result);
    g_assert_cmpint (objective_of (&c, result), ==, least);
    n_tight += bound == least;
    gap += 1 - (double)bound / (double)least;
  }
  g_test_message ("%u of %u tight, %.4f below on average", n_tight, n, gap / n);
  g_assert_cmpuint (n_tight, >=, n / 2);
  g_assert_cmpfloat (gap, <=, 0.07 * n + 0.05);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/search-all/two-devices", test_all);
  return g_test_run ();
}
