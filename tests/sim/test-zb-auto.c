/* Tests of the automatic families against published results and other schedulers, their limits, and that nothing they
 * could have chosen is better. */
#include "schedule/families/automatic.c"

#include "reference.h"
#include "cases.h"
#include "family-case.h"

#include <stdio.h>

static gboolean check_auto (const ReferenceRow *row, gpointer data)
{
  if (!g_str_has_prefix (reference_text (row, "scheduler"), "zb_auto"))
    return FALSE;
  guint p = reference_count (row, "devices");
  g_autofree gint64 *limit = g_new (gint64, p);
  for (guint device = 0; device < p; device++)
    limit[device] = reference_integer (row, "mem_limit");
  g_autoptr (PsCosts) costs = reference_peer_costs (row, p);
  PsFamilySetting setting = { .n_devices = p,
                              .n_microbatches = reference_count (row, "microbatches"),
                              .n_chunks = 1,
                              .costs = costs,
                              .memory_limit = limit };
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation = reference_simulate (reference_generate ("zb-auto", &setting), costs, &program);
  g_assert_cmpint (simulation->makespan_ns, <=, reference_integer (row, "makespan"));
  g_assert_cmpint (simulation->max_span_ns, <=, reference_integer (row, "max_span"));
  g_assert_cmpint (reference_peak (simulation), <=, limit[0]);
  return TRUE;
}

static void test_auto (void)
{
  guint n = reference_rows ("peer_schedulers.csv", check_auto, NULL);

  g_assert_true (n == 0 || n == 450);
}

/* A row of zero_bubble_costs.csv. */
typedef struct {
  guint p;
  guint m;
  guint size; /* of a microbatch */
  gint64 f;
  gint64 b;
  gint64 w;
  gint64 c;
} PublishedCosts;

static gboolean read_published_costs (const ReferenceRow *row, gpointer data)
{
  PublishedCosts costs = {
    .p = reference_count (row, "devices"),
    .m = reference_count (row, "microbatches"),
    .size = reference_count (row, "microbatch_size"),
    .f = llround (1e6 * reference_number (row, "f_ms")),
    .b = llround (1e6 * reference_number (row, "b_ms")),
    .w = llround (1e6 * reference_number (row, "w_ms")),
    .c = llround (1e6 * reference_number (row, "comm_ms")),
  };

  g_array_append_val (data, costs);
  return TRUE;
}

static const PublishedCosts *find_published_costs (const GArray *table, const ReferenceRow *row)
{
  for (guint i = 0; i < table->len; i++) {
    const PublishedCosts *costs = &g_array_index (table, PublishedCosts, i);

    if (costs->p == reference_count (row, "devices") && costs->m == reference_count (row, "microbatches")
        && costs->size == reference_count (row, "microbatch_size"))
      return costs;
  }
  g_error ("no costs");
}

/* The published schedules: ours, which length counts, and the memory limit in activations per device. */
typedef struct {
  const char *theirs;
  const char *ours;
  gboolean span;
  double limit;
} Published;

/* Of the 28.3B model: 34 h + 5 a s for an activation, of which W needs 32 h, with h = 6144, a = 48, s = 1024. */
#define PUBLISHED_ACT 454656
#define PUBLISHED_WACT 196608

static double published_ratio (const Published *published, const PublishedCosts *known)
{
  g_autoptr (PsCosts) costs
      = reference_costs (known->p, known->f, known->b, known->w, known->c, PUBLISHED_ACT, PUBLISHED_WACT);
  g_autofree gint64 *limit = g_new (gint64, known->p);

  for (guint device = 0; device < known->p; device++)
    limit[device] = llround (PUBLISHED_ACT * published->limit * known->p);
  PsFamilySetting setting = { .n_devices = known->p,
                              .n_microbatches = known->m,
                              .n_chunks = 1,
                              .costs = costs,
                              .memory_limit = published->limit > 0 ? limit : NULL };
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation
      = reference_simulate (reference_generate (published->ours, &setting), costs, &program);
  gint64 length = published->span ? simulation->max_span_ns : simulation->makespan_ns;
  return 1 - (double)(known->m * (known->f + known->b + known->w)) / (double)length;
}

static gboolean find_published (const char *schedule, Published *published)
{
  static const Published table[] = {
    { "1F1B", "1f1b", FALSE, 0 },    { "ZB-H1", "zb-h1", FALSE, 0 },  { "ZB-H2", "zb-h2", TRUE, 0 },
    { "ZB-1p", "zb-auto", TRUE, 1 }, { "ZB-2p", "zb-auto", TRUE, 2 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (g_str_equal (table[i].theirs, schedule)) {
      *published = table[i];
      return TRUE;
    }
  *published = (Published){ schedule, "zb-auto", TRUE, 0 };
  return sscanf (schedule, "ZB auto mem_limit=%lfpMB", &published->limit) == 1;
}

static gboolean check_published (const ReferenceRow *row, gpointer data)
{
  Published published;

  if (!g_str_equal (reference_text (row, "metric"), "bubble_rate")
      || !find_published (reference_text (row, "schedule"), &published))
    return FALSE;
  double ratio = published_ratio (&published, find_published_costs (data, row)),
         expected = reference_number (row, "value");
  g_test_message ("%s %s %s: %.4f, published %.4f", reference_text (row, "table"), reference_text (row, "microbatches"),
                  published.theirs, ratio, expected);
  g_assert_cmpfloat (ratio, <=, expected + 0.0005);
  if (published.limit == 0)
    g_assert_cmpfloat (ratio, >=, expected - 0.0005);
  return TRUE;
}

static void test_published (void)
{
  g_autoptr (GArray) costs = g_array_new (FALSE, FALSE, sizeof (PublishedCosts));

  reference_rows ("zero_bubble_costs.csv", read_published_costs, costs);
  guint n = reference_rows ("zero_bubble_published.csv", check_published, costs);
  g_assert_true (n == 0 || n == 90);
}

static gint64 random_time (GRand *rand)
{
  return g_rand_int_range (rand, 0, 3) ? g_rand_int_range (rand, 1, 30) : g_rand_int_range (rand, 0, 2);
}

/* Every stage with costs and a limit of its own; room for one microbatch and up to 2p - 1 more. */
static PsCosts *random_costs (GRand *rand, guint p, gint64 *limit)
{
  PsCosts *costs = ps_costs_new (p);

  for (guint stage = 0; stage < p; stage++) {
    gint64 b = random_time (rand), w = random_time (rand), act = g_rand_int_range (rand, 1, 100);

    ps_costs_op (costs, PS_OP_F, stage)->duration_ns = random_time (rand);
    ps_costs_op (costs, PS_OP_B, stage)->duration_ns = b;
    ps_costs_op (costs, PS_OP_W, stage)->duration_ns = w;
    ps_costs_op (costs, PS_OP_BW, stage)->duration_ns = b + w;
    ps_costs_set_memory (costs, stage, act, g_rand_int_range (rand, 0, (gint32)act + 1));
    costs->transfer_ns[ps_transfer_forward (costs, stage)] = random_time (rand);
    costs->transfer_ns[ps_transfer_backward (costs, stage)] = random_time (rand);
    costs->stage[stage].weight_bytes = g_rand_int_range (rand, 0, 1000);
    limit[stage] = costs->stage[stage].weight_bytes + act + g_rand_int_range (rand, 0, (gint32)((2 * p - 1) * act + 1));
  }
  return costs;
}

static gboolean fits (const PsSimulation *simulation, const gint64 *limit)
{
  for (guint device = 0; device < simulation->n_devices; device++)
    if (simulation->device[device].peak_bytes > limit[device])
      return FALSE;
  return TRUE;
}

/* Within the limits, and no fixed order that keeps to them is better both in makespan and in span. */
static void check_random_auto (GRand *rand)
{
  static const char *const others[] = { "1f1b", "zb-h1", "zb-h2" };
  guint p = (guint)g_rand_int_range (rand, 1, 9), m = (guint)g_rand_int_range (rand, 1, 25);
  g_autofree gint64 *limit = g_new (gint64, p);
  g_autoptr (PsCosts) costs = random_costs (rand, p, limit);
  PsFamilySetting setting
      = { .n_devices = p, .n_microbatches = m, .n_chunks = 1, .costs = costs, .memory_limit = limit };
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation = reference_simulate (reference_generate ("zb-auto", &setting), costs, &program);

  g_assert_true (fits (simulation, limit));
  assert_runs_on_all_channels (program);
  for (guint i = 0; i < G_N_ELEMENTS (others); i++) {
    g_autoptr (PsProgram) program_i = NULL;
    g_autoptr (PsSimulation) other = reference_simulate (reference_generate (others[i], &setting), costs, &program_i);

    if (fits (other, limit))
      g_assert_true (simulation->makespan_ns <= other->makespan_ns || simulation->max_span_ns <= other->max_span_ns);
  }
}

static void test_auto_random (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (20240110);

  for (guint i = 0; i < 2000; i++)
    check_random_auto (rand);
}

/* Giving up early tells the truth about the whole. */
static void check_gives_up (GRand *rand, const PsFamilySetting *setting, guint off, const Draft *whole)
{
  g_autoptr (Draft) draft = draft_new (setting, 0);
  gint64 limit = draft_span (whole) + g_rand_int_range (rand, -20, 2);

  if (!put_loop_heuristic (draft, off, limit))
    g_assert_cmpint (draft_span (whole), >, limit);
  else
    g_assert_cmpint (draft_span (draft), ==, draft_span (whole));
}

/* zb-auto ends tries early; none of the eight would have been better. */
static void check_switches (GRand *rand)
{
  guint p = (guint)g_rand_int_range (rand, 1, 9), m = (guint)g_rand_int_range (rand, 1, 25);
  g_autofree gint64 *limit = g_new (gint64, p);
  g_autoptr (PsCosts) costs = random_costs (rand, p, limit);
  PsFamilySetting setting
      = { .n_devices = p, .n_microbatches = m, .n_chunks = 1, .costs = costs, .memory_limit = limit };
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) best = reference_simulate (reference_generate ("zb-auto", &setting), costs, &program);

  for (guint off = 0; off < 1U << LOOP_SWITCHES; off++) {
    g_autoptr (Draft) draft = draft_new (&setting, 0);

    g_assert_true (put_loop_heuristic (draft, off, G_MAXINT64));
    check_gives_up (rand, &setting, off, draft);
    if (draft_fits (draft) && draft_span (draft) <= best->max_span_ns)
      g_assert_cmpint (best->makespan_ns, <=, draft_makespan (draft));
    if (draft_fits (draft))
      g_assert_cmpint (best->max_span_ns, <=, draft_span (draft));
  }
}

static void test_switches (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (20261121);

  for (guint i = 0; i < 500; i++)
    check_switches (rand);
}

static void test_auto_limit (void)
{
  g_autoptr (PsCosts) costs = reference_costs (3, 1, 1, 1, 0, 1024, 512);

  costs->stage[1].weight_bytes = 4096;
  const gint64 limit[] = { 1024, 5119, 1024 }, enough[] = { 1024, 5120, 1024 };
  PsFamilySetting setting
      = { .n_devices = 3, .n_microbatches = 4, .n_chunks = 1, .costs = costs, .memory_limit = limit };
  refused (ps_family_generate (ps_family_find ("zb-auto"), &setting, &error), PS_ERROR_SCHEDULE,
           "zb-auto: device 1 needs at least 5 KiB for one microbatch, its limit is 4.999 KiB");
  setting.memory_limit = enough;
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation = reference_simulate (reference_generate ("zb-auto", &setting), costs, &program);
  g_assert_cmpint (simulation->device[1].peak_bytes, ==, 5120);
}

/* Without costs every op takes one unit, and without a limit ZB-H2's memory is enough for no bubble in a device's span.
 */
static void test_auto_without_costs (void)
{
  PsFamilySetting setting = { .n_devices = 5, .n_microbatches = 12, .n_chunks = 1 };
  g_autoptr (PsCosts) costs = reference_costs (5, 1, 1, 1, 0, 1, 1);
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation = reference_simulate (reference_generate ("zb-auto", &setting), costs, &program);

  g_assert_cmpint (simulation->max_span_ns, ==, 36);
}

/* An F that takes bytes only while it runs changes no order where its B takes as many: an F always leaves room for its
 * B. */
static void test_bytes_of_a_while (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (20240111);

  for (guint i = 0; i < 200; i++) {
    guint p = (guint)g_rand_int_range (rand, 1, 7), m = (guint)g_rand_int_range (rand, 1, 15);
    g_autofree gint64 *limit = g_new (gint64, p);
    g_autoptr (PsCosts) plain = random_costs (rand, p, limit);
    g_autoptr (PsCosts) more = NULL;
    PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = 1, .memory_limit = limit };

    for (guint s = 0; s < p; s++)
      for (PsOpKind kind = PS_OP_B; kind <= PS_OP_BW; kind += PS_OP_BW - PS_OP_B) {
        ps_costs_op (plain, kind, s)->take_bytes += 5;
        ps_costs_op (plain, kind, s)->give_bytes += 5;
      }
    more = ps_costs_copy (plain);
    for (guint s = 0; s < p; s++) {
      gint64 bytes = g_rand_int_range (rand, 1, 6);

      ps_costs_op (more, PS_OP_F, s)->take_bytes += bytes;
      ps_costs_op (more, PS_OP_F, s)->give_bytes += bytes;
      limit[s] += 5;
    }
    for (guint off = 0; off < 8; off++) {
      setting.costs = plain;
      g_autoptr (Draft) a = draft_new (&setting, 0);
      g_assert_true (put_loop_heuristic (a, off, G_MAXINT64));
      setting.costs = more;
      g_autoptr (Draft) b = draft_new (&setting, 0);
      g_assert_true (put_loop_heuristic (b, off, G_MAXINT64));
      for (guint d = 0; d < p; d++)
        g_assert_cmpmem (a->device[d].order, a->device[d].n_ordered, b->device[d].order, b->device[d].n_ordered);
    }
  }
}

/* Tests of zb-v-auto: the results of the same heuristic elsewhere and as published, limits, and that nothing it could
 * have chosen is better. */

/* The automatic schedule for these costs with the same limit on every device. */
static void simulate_auto (Case *test, guint p, guint m, Units units, gint64 limit_bytes)
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

static void check_no_worse (const PeerRow *row, const char *family)
{
  g_auto (Case) test = { 0 };

  simulate_auto (&test, row->p, row->m, row->units, row->limit);
  g_assert_cmpint (test.simulation->makespan_ns, <=, row->makespan);
  g_assert_cmpint (test.simulation->max_span_ns, <=, row->span);
}

static void test_peers (void)
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
static void test_published_v (void)
{
  static const struct {
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
    for (guint k = 0; k < 7; k++) {
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
static PsCosts *random_costs_v (GRand *rand, guint n_stages)
{
  PsCosts *costs = ps_costs_new (n_stages);

  for (guint stage = 0; stage < n_stages; stage++) {
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
static gint64 least_bytes (const PsCosts *costs, guint p, guint device)
{
  guint far = 2 * p - 1 - device;

  return costs->stage[device].weight_bytes + costs->stage[far].weight_bytes
         + ps_costs_op (costs, PS_OP_F, device)->take_bytes + ps_costs_op (costs, PS_OP_F, far)->take_bytes;
}

static void check_limits (GRand *rand)
{
  guint p = (guint)g_rand_int_range (rand, 1, 7), m = (guint)g_rand_int_range (rand, 1, 13);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCosts) costs = random_costs_v (rand, 2 * p);
  g_autofree gint64 *limit = g_new (gint64, p);
  gboolean possible = TRUE;

  for (guint device = 0; device < p; device++) {
    limit[device] = least_bytes (costs, p, device) + g_rand_int_range (rand, -1, 100);
    possible = possible && limit[device] >= least_bytes (costs, p, device);
  }
  PsFamilySetting setting
      = { .n_devices = p, .n_microbatches = m, .n_chunks = 2, .costs = costs, .memory_limit = limit };
  PsSchedule *schedule = ps_family_generate (ps_family_find ("zb-v-auto"), &setting, &error);
  g_assert_true ((schedule != NULL) == possible);
  if (!possible) {
    g_assert_error (error, PS_ERROR, PS_ERROR_SCHEDULE);
    return;
  }
  g_auto (Case) test = { 0 };
  simulate (&test, schedule, g_steal_pointer (&costs));
  for (guint device = 0; device < p; device++)
    g_assert_cmpint (test.simulation->device[device].peak_bytes, <=, limit[device]);
}

static void test_limits (void)
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
static Units random_units (GRand *rand)
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
static void try_all_switches (const PsFamilySetting *setting, gint64 *span)
{
  g_autoptr (Draft) draft = draft_new (setting, setting->n_devices);
  g_autofree gint64 *idle_ns = g_new (gint64, setting->n_devices);

  for (guint off = 0; off < 1U << V_SWITCHES; off++) {
    VLimits limits = { .give_up_ns = G_MAXINT64, .length_ns = G_MAXINT64 };
    gint64 before = G_MAXINT64;

    while (put_v_heuristic (draft, off, &limits) && draft->idle_ns < before) {
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
static void check_not_dominated (const Case *test, const char *family, Units units, const gint64 *limit)
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

static void test_best (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);

  for (guint i = 0; i < n_cases (400); i++) {
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
    if (activations < 2 * p) {
      check_not_dominated (&test, "v-half", units, limit);
      check_not_dominated (&test, "v-min", units, limit);
    }
  }
}

/* The length that counts most of what a family makes of a limit that is the same on every device; G_MAXINT64: none. */
static gint64 length_within (const char *family, PsFamilySetting setting, gint64 limit_bytes)
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

static void check_more_memory (const char *family, PsFamilySetting setting, GRand *rand)
{
  gint64 limit = 20, before = G_MAXINT64;

  for (guint i = 0; i < 6; i++) {
    gint64 length = length_within (family, setting, i < 5 ? limit : G_MAXINT64);

    g_assert_cmpint (length, <=, before);
    before = length;
    limit += g_rand_int_range (rand, 1, 12 * (gint32)setting.n_devices);
  }
}

/* More memory, or no limit, never makes what counts longer. */
static void test_more_memory (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (31);

  for (guint i = 0; i < n_cases (120); i++) {
    guint v = 1 + i % 2, p = (guint)g_rand_int_range (rand, 2, 6), m = (guint)g_rand_int_range (rand, 1, 13);
    g_autoptr (PsCosts) costs = i % 4 < 2 ? random_costs_v (rand, v * p) : unit_costs (v * p, random_units (rand));
    PsFamilySetting setting
        = { .n_devices = p, .n_microbatches = m, .n_chunks = v, .costs = costs, .by_makespan = i % 8 < 4 };

    for (guint k = 0; k < 2 * v * p && i % 3 == 0; k++)
      costs->transfer_ns[1 + k] *= 20;
    check_more_memory (v == 1 ? "zb-auto" : "zb-v-auto", setting, rand);
  }
}

/* Settings in which the heuristic alone did badly, and what it takes to be no worse than other schedulers there. */
static void test_tight (void)
{
  static const struct {
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

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
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

static void check_same_draft (const Draft *a, const Draft *b)
{
  for (guint i = 0; i < a->n_devices; i++)
    g_assert_cmpmem (a->device[i].order, a->device[i].n_ordered, b->device[i].order, b->device[i].n_ordered);
}

/* A draft is not given up as too long at the length that it has in the end, and its replay is the same. */
static void check_list (Draft *draft, Draft *again, const PsFamilySetting *setting, ListRule rule)
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

static void test_lists (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (41);
  guint n = n_cases (20000);

  for (guint i = 0; i < n; i++) {
    guint v = 1 + i % 2, p = (guint)g_rand_int_range (rand, 1, 5), m = (guint)g_rand_int_range (rand, 1, 9);
    g_autoptr (PsCosts) costs = i % 4 < 2 ? random_costs_v (rand, v * p) : unit_costs (v * p, random_units (rand));
    PsFamilySetting setting
        = { .n_devices = p, .n_microbatches = m, .n_chunks = v, .costs = costs, .by_makespan = i % 8 < 4 };
    g_autoptr (Draft) draft = draft_new (&setting, p), again = draft_new (&setting, p);

    for (guint k = 0; k < N_LISTS; k++)
      check_list (draft, again, &setting, lists[k]);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/zb-auto/peers", test_auto);
  g_test_add_func ("/zb-auto/published", test_published);
  g_test_add_func ("/zb-auto/random", test_auto_random);
  g_test_add_func ("/zb-auto/bytes-of-a-while", test_bytes_of_a_while);
  g_test_add_func ("/zb-auto/switches", test_switches);
  g_test_add_func ("/zb-auto/limit", test_auto_limit);
  g_test_add_func ("/zb-auto/without-costs", test_auto_without_costs);
  g_test_add_func ("/zb-v-auto/peers", test_peers);
  g_test_add_func ("/zb-v-auto/published", test_published_v);
  g_test_add_func ("/zb-v-auto/limits", test_limits);
  g_test_add_func ("/zb-v-auto/best", test_best);
  g_test_add_func ("/zb-v-auto/more-memory", test_more_memory);
  g_test_add_func ("/zb-v-auto/tight", test_tight);
  g_test_add_func ("/zb-v-auto/lists", test_lists);
  return g_test_run ();
}
