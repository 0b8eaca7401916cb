/* Tests of zb-v-auto: the results of the same heuristic elsewhere and as published, limits, and that nothing it could
 * have chosen is better. */
#include "schedule/families/automatic.c"

#include "cases.h"
#include "family-case.h"

/* The automatic schedule for these costs with the same limit on every device. */
static void
simulate_auto (Case *test, guint p, guint m, Units units, gint64 limit_bytes)
{
  g_autofree gint64 *limit = g_new (gint64, p);
  g_autoptr (PsCosts) costs = unit_costs (2 * p, units);

  for (guint i = 0; i < p; i++)
    limit[i] = limit_bytes;
  PsFamilySetting setting
      = { .n_devices = p, .n_microbatches = m, .n_chunks = 2, .costs = costs, .memory_limit = limit };
  PsSchedule *schedule = fine (ps_family_generate (ps_family_find ("zb-v-auto"), &setting, &error));
  simulate (test, schedule, g_steal_pointer (&costs));
  g_assert_cmpint (peak_bytes (test), <=, limit_bytes);
}

static void
check_no_worse (const PeerRow *row, const char *family)
{
  g_auto (Case) test = { 0 };

  simulate_auto (&test, row->p, row->m, row->units, row->limit);
  g_assert_cmpint (test.simulation->makespan_ns, <=, row->makespan);
  g_assert_cmpint (test.simulation->max_span_ns, <=, row->span);
}

static void
test_peers (void)
{
  guint n = each_peer_row ("zbv_auto", "zb-v-auto", check_no_worse);

  if (n == 0)
    return;
  g_assert_cmpuint (n, ==, 225);
  g_assert_cmpuint (each_peer_row ("colossalai_v_schedule", "zb-v-auto", check_no_worse), ==, 58);
}

/* Table 8 of the zero-bubble paper and its curves over the memory limit: 28.3B on 32 devices, F, B, W and transfers in
 * microseconds from Table 9's settings, half of a device's share per chunk; M_B = 34 h + 5 a s, M_W = 32 h with h =
 * 6144, a = 48, s = 1024. Rates are 1 - work / longest span. */
static void
test_published (void)
{
  static const struct
  {
    guint m;
    Units units;
    double rate[7]; /* limit 1 p M_B, 1.125 p M_B, ... */
  } rows[] = {
    { 96,
      { 9458, 9748, 7288, 879, 0, 454656, 196608 },
      { .059288, .038274, .017743, .011597, .003174, .003174, .003174 } },
    { 128,
      { 9469, 9744, 7306, 892, 0, 454656, 196608 },
      { .045106, .028599, .014462, .009395, .002422, .002422, .002422 } },
    { 256,
      { 9447, 9644, 7193, 887, 0, 454656, 196608 },
      { .023586, .014515, .005909, .004034, .001029, .001029, .001029 } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint k = 0; k < 7; k++)
      {
        const Units *units = &rows[i].units;
        g_auto (Case) test = { 0 };

        simulate_auto (&test, 32, rows[i].m, *units, (8 + k) * 32 / 8 * 2 * units->act);
        double work = 2.0 * rows[i].m * (double)(units->f + units->b + units->w);
        double rate = 1 - work / (double)test.simulation->max_span_ns;
        g_assert_cmpfloat (rate, <=, rows[i].rate[k] + 1e-6);
      }
}

/* Random costs per stage, memory limits per device: what comes out keeps to them, or the message says what the least
 * would be, and that is enough. */
static PsCosts *
random_costs (GRand *rand, guint n_stages)
{
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint stage = 0; stage < n_stages; stage++)
    {
      for (guint kind = 0; kind <= PS_OP_W; kind++)
        ps_costs_op (costs, (PsOpKind)kind, stage)->duration_ns = g_rand_int_range (rand, 0, 100);
      gint act = g_rand_int_range (rand, 0, 20);
      ps_costs_set_memory (costs, stage, act, g_rand_int_range (rand, 0, act + 1));
      costs->stage[stage].weight_bytes = g_rand_int_range (rand, 0, 10);
      costs->transfer_ns[ps_transfer_forward (costs, stage)] = g_rand_int_range (rand, 0, 30);
      costs->transfer_ns[ps_transfer_backward (costs, stage)] = g_rand_int_range (rand, 0, 30);
    }
  return costs;
}

/* What one microbatch at a time needs. */
static gint64
least_bytes (const PsCosts *costs, guint p, guint device)
{
  guint far = 2 * p - 1 - device;

  return costs->stage[device].weight_bytes + costs->stage[far].weight_bytes
         + ps_costs_op (costs, PS_OP_F, device)->take_bytes + ps_costs_op (costs, PS_OP_F, far)->take_bytes;
}

static void
check_limits (GRand *rand)
{
  guint p = (guint)g_rand_int_range (rand, 1, 7), m = (guint)g_rand_int_range (rand, 1, 13);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCosts) costs = random_costs (rand, 2 * p);
  g_autofree gint64 *limit = g_new (gint64, p);
  gboolean possible = TRUE;

  for (guint device = 0; device < p; device++)
    {
      limit[device] = least_bytes (costs, p, device) + g_rand_int_range (rand, -1, 100);
      possible = possible && limit[device] >= least_bytes (costs, p, device);
    }
  PsFamilySetting setting
      = { .n_devices = p, .n_microbatches = m, .n_chunks = 2, .costs = costs, .memory_limit = limit };
  PsSchedule *schedule = ps_family_generate (ps_family_find ("zb-v-auto"), &setting, &error);
  g_assert_true ((schedule != NULL) == possible);
  if (!possible)
    {
      g_assert_error (error, PS_ERROR, PS_ERROR_SCHEDULE);
      return;
    }
  g_auto (Case) test = { 0 };
  simulate (&test, schedule, g_steal_pointer (&costs));
  for (guint device = 0; device < p; device++)
    g_assert_cmpint (test.simulation->device[device].peak_bytes, <=, limit[device]);
}

static void
test_limits (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);

  for (guint i = 0; i < n_cases (1000); i++)
    check_limits (rand);
  gint64 limit[2] = { 100, 3 };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCosts) costs = unit_costs (4, (Units){ .f = 1, .b = 1, .w = 1, .act = 2, .wact = 2 });
  PsFamilySetting setting
      = { .n_devices = 2, .n_microbatches = 4, .n_chunks = 2, .costs = costs, .memory_limit = limit };
  g_assert_null (ps_family_generate (ps_family_find ("zb-v-auto"), &setting, &error));
  g_assert_cmpstr (error->message, ==, "zb-v-auto: device 1 needs at least 4 B for one microbatch, its limit is 3 B");
}

/* Costs that are the same on every stage, as the heuristic expects them. */
static Units
random_units (GRand *rand)
{
  gint64 act = g_rand_int_range (rand, 1, 10);

  return (Units){ .f = g_rand_int_range (rand, 1, 30),
                  .b = g_rand_int_range (rand, 1, 30),
                  .w = g_rand_int_range (rand, 1, 30),
                  .c = g_rand_int_range (rand, 0, 10),
                  .act = act,
                  .wact = g_rand_int_range (rand, 0, (gint32)act + 1) };
}

/* Every setting of the switches, each try repeated as long as it gets better; *span becomes the least that fits. */
static void
try_all_switches (const PsFamilySetting *setting, gint64 *span)
{
  g_autoptr (Draft) draft = draft_new (setting, setting->n_devices);
  g_autofree gint64 *idle_ns = g_new (gint64, setting->n_devices);

  for (guint off = 0; off < 1U << V_SWITCHES; off++)
    {
      VLimits limits = { .give_up_ns = G_MAXINT64, .length_ns = G_MAXINT64 };
      gint64 before = G_MAXINT64;

      while (put_v_heuristic (draft, off, &limits) && draft->idle_ns < before)
        {
          if (draft_fits (draft))
            *span = MIN (*span, draft_span (draft));
          before = limits.worst_ns = draft->idle_ns;
          for (guint k = 0; k < setting->n_devices; k++)
            idle_ns[k] = draft->device[k].idle_ns;
          limits.idle_ns = idle_ns;
        }
    }
}

/* No fixed order that fits is better in one of span and makespan and no worse in the other. */
static void
check_not_dominated (const Case *test, const char *family, Units units, const gint64 *limit)
{
  const PsSchedule *schedule = test->program->schedule;
  g_auto (Case) fixed = { 0 };

  simulate_family (&fixed, family, schedule->placement->n_devices, schedule->n_microbatches, 2, units);
  for (guint device = 0; device < schedule->placement->n_devices; device++)
    if (fixed.simulation->device[device].peak_bytes > limit[device])
      return;
  gint64 span = fixed.simulation->max_span_ns - test->simulation->max_span_ns;
  gint64 makespan = fixed.simulation->makespan_ns - test->simulation->makespan_ns;
  g_assert_false (span <= 0 && makespan <= 0 && (span < 0 || makespan < 0));
}

static void
test_best (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);

  for (guint i = 0; i < n_cases (400); i++)
    {
      guint p = (guint)g_rand_int_range (rand, 2, 9), m = (guint)g_rand_int_range (rand, 1, 25);
      gint64 limit[8], span = G_MAXINT64;
      Units units = random_units (rand);
      gint64 activations = g_rand_int_range (rand, (gint32)p, (gint32)(3 * p));

      for (guint device = 0; device < p; device++)
        limit[device] = units.act * MAX (activations, 2);
      g_autoptr (PsCosts) costs = unit_costs (2 * p, units);
      PsFamilySetting setting
          = { .n_devices = p, .n_microbatches = m, .n_chunks = 2, .costs = costs, .memory_limit = limit };
      try_all_switches (&setting, &span);
      PsSchedule *schedule = fine (ps_family_generate (ps_family_find ("zb-v-auto"), &setting, &error));
      g_auto (Case) test = { 0 };
      simulate (&test, schedule, g_steal_pointer (&costs));
      g_assert_cmpint (test.simulation->max_span_ns, <=, span);
      check_not_dominated (&test, "zb-v", units, limit);
      if (activations < 2 * p)
        {
          check_not_dominated (&test, "v-half", units, limit);
          check_not_dominated (&test, "v-min", units, limit);
        }
    }
}

/* The length that counts most of what a family makes of a limit that is the same on every device; G_MAXINT64: none. */
static gint64
length_within (const char *family, PsFamilySetting setting, gint64 limit_bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsProgram) program = NULL;
  g_autofree gint64 *limit = g_new (gint64, setting.n_devices);

  for (guint i = 0; i < setting.n_devices; i++)
    limit[i] = limit_bytes;
  setting.memory_limit = limit_bytes == G_MAXINT64 ? NULL : limit;
  PsSchedule *schedule = ps_family_generate (ps_family_find (family), &setting, &error);
  if (schedule == NULL)
    return G_MAXINT64;
  g_autoptr (PsSimulation) simulation = reference_simulate (schedule, setting.costs, &program);
  return setting.by_makespan ? simulation->makespan_ns : simulation->max_span_ns;
}

static void
check_more_memory (const char *family, PsFamilySetting setting, GRand *rand)
{
  gint64 limit = 20, before = G_MAXINT64;

  for (guint i = 0; i < 6; i++)
    {
      gint64 length = length_within (family, setting, i < 5 ? limit : G_MAXINT64);

      g_assert_cmpint (length, <=, before);
      before = length;
      limit += g_rand_int_range (rand, 1, 12 * (gint32)setting.n_devices);
    }
}

/* More memory, or no limit, never makes what counts longer. */
static void
test_more_memory (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (31);

  for (guint i = 0; i < n_cases (120); i++)
    {
      guint v = 1 + i % 2, p = (guint)g_rand_int_range (rand, 2, 6), m = (guint)g_rand_int_range (rand, 1, 13);
      g_autoptr (PsCosts) costs = i % 4 < 2 ? random_costs (rand, v * p) : unit_costs (v * p, random_units (rand));
      PsFamilySetting setting
          = { .n_devices = p, .n_microbatches = m, .n_chunks = v, .costs = costs, .by_makespan = i % 8 < 4 };

      for (guint k = 0; k < 2 * v * p && i % 3 == 0; k++)
        costs->transfer_ns[1 + k] *= 20;
      check_more_memory (v == 1 ? "zb-auto" : "zb-v-auto", setting, rand);
    }
}

/* Settings in which the heuristic alone did badly, and what it takes to be no worse than other schedulers there. */
static void
test_tight (void)
{
  static const struct
  {
    const char *family, *costs;
    guint p, m, v;
    gint64 limit, most_ns; /* MiB */
  } rows[] = {
    { "zb-v-auto", "f=5ms,b=1ms,w=9ms,c=1ms,act=12MiB,wact=4MiB", 4, 3, 2, 48, 65000000 },
    { "zb-auto", "f=9ms,b=4ms,w=5ms,c=3ms,act=12MiB,wact=4MiB", 3, 8, 1, 60, 168000000 },
    { "zb-v-auto", "f=5ms,b=1ms,w=4ms,c=3ms,act=12MiB,wact=4MiB", 3, 8, 2, 0, 94000000 },
    { "zb-auto", "f=100us,b=100us,w=100us,act=1MiB", 64, 256, 1, 48, 93000000 },
    { "zb-auto", "f=6ms,b=7ms,w=3ms,c=2ms,act=12MiB,wact=4MiB", 3, 9, 1, 27, 250000000 },
    { "zb-v-auto", "f=2ms,b=11ms,w=8ms,c=2ms,act=12MiB,wact=4MiB", 4, 17, 2, 36, 440000000 },
    { "zb-v-auto", "f=1ms,b=1ms,w=1ms,act=2MiB", 6, 24, 2, 6, 80500000 },
    { "zb-v-auto", "f=1ms,b=1ms,w=1ms,act=2MiB,wact=1MiB", 8, 8, 2, 16, 27500000 },
    { "zb-v-auto", "f=1ms,b=1ms,w=1ms,c=10ms,act=2MiB,wact=1MiB", 8, 32, 2, 0, 330000000 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsCosts) costs = ps_costs_parse (rows[i].costs, rows[i].p, rows[i].v, &error);
      PsFamilySetting setting = {
        .n_devices = rows[i].p, .n_microbatches = rows[i].m, .n_chunks = rows[i].v, .costs = costs, .by_makespan = TRUE
      };
      gint64 limit = rows[i].limit ? rows[i].limit * 1024 * 1024 : G_MAXINT64;

      g_assert_no_error (error);
      g_assert_cmpint (length_within (rows[i].family, setting, limit), <=, rows[i].most_ns);
    }
}

static void
check_same_draft (const Draft *a, const Draft *b)
{
  for (guint i = 0; i < a->n_devices; i++)
    g_assert_cmpmem (a->device[i].order, a->device[i].n_ordered, b->device[i].order, b->device[i].n_ordered);
}

/* A draft is not given up as too long at the length that it has in the end, and its replay is the same. */
static void
check_list (Draft *draft, Draft *again, const PsFamilySetting *setting, ListRule rule)
{
  if (!put_list (draft, rule, G_MAXINT64))
    return;
  gint64 length = draft_length (draft);
  g_autoptr (PsSchedule) schedule = draft_schedule (draft, "list", setting);
  g_assert_true (draft_replay (again, schedule, length));
  check_same_draft (draft, again);
  g_assert_true (put_list (again, rule, length));
  check_same_draft (draft, again);
}

static void
test_lists (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (41);
  guint n = n_cases (20000);

  for (guint i = 0; i < n; i++)
    {
      guint v = 1 + i % 2, p = (guint)g_rand_int_range (rand, 1, 5), m = (guint)g_rand_int_range (rand, 1, 9);
      g_autoptr (PsCosts) costs = i % 4 < 2 ? random_costs (rand, v * p) : unit_costs (v * p, random_units (rand));
      PsFamilySetting setting
          = { .n_devices = p, .n_microbatches = m, .n_chunks = v, .costs = costs, .by_makespan = i % 8 < 4 };
      g_autoptr (Draft) draft = draft_new (&setting, p), again = draft_new (&setting, p);

      for (guint k = 0; k < N_LISTS; k++)
        check_list (draft, again, &setting, lists[k]);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/zb-v-auto/peers", test_peers);
  g_test_add_func ("/zb-v-auto/published", test_published);
  g_test_add_func ("/zb-v-auto/limits", test_limits);
  g_test_add_func ("/zb-v-auto/best", test_best);
  g_test_add_func ("/zb-v-auto/more-memory", test_more_memory);
  g_test_add_func ("/zb-v-auto/tight", test_tight);
  g_test_add_func ("/zb-v-auto/lists", test_lists);
  return g_test_run ();
}
