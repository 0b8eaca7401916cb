/* Tests of zb-auto against the published results of the heuristic, the fixed orders beside it, and its limits. */
#include "schedule/families/automatic.c"

#include "reference.h"

#include <stdio.h>

static gboolean
check_auto (const ReferenceRow *row, gpointer data)
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

static void
test_auto (void)
{
  guint n = reference_rows ("peer_schedulers.csv", check_auto, NULL);

  g_assert_true (n == 0 || n == 450);
}

/* A row of zero_bubble_costs.csv. */
typedef struct
{
  guint p;
  guint m;
  guint size; /* of a microbatch */
  gint64 f;
  gint64 b;
  gint64 w;
  gint64 c;
} PublishedCosts;

static gboolean
read_published_costs (const ReferenceRow *row, gpointer data)
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

static const PublishedCosts *
find_published_costs (const GArray *table, const ReferenceRow *row)
{
  for (guint i = 0; i < table->len; i++)
    {
      const PublishedCosts *costs = &g_array_index (table, PublishedCosts, i);

      if (costs->p == reference_count (row, "devices") && costs->m == reference_count (row, "microbatches")
          && costs->size == reference_count (row, "microbatch_size"))
        return costs;
    }
  g_error ("no costs");
}

/* The published schedules: ours, which length counts, and the memory limit in activations per device. */
typedef struct
{
  const char *theirs;
  const char *ours;
  gboolean span;
  double limit;
} Published;

/* Of the 28.3B model: 34 h + 5 a s for an activation, of which W needs 32 h, with h = 6144, a = 48, s = 1024. */
#define PUBLISHED_ACT 454656
#define PUBLISHED_WACT 196608

static double
published_ratio (const Published *published, const PublishedCosts *known)
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

static gboolean
find_published (const char *schedule, Published *published)
{
  static const Published table[] = {
    { "1F1B", "1f1b", FALSE, 0 },    { "ZB-H1", "zb-h1", FALSE, 0 },  { "ZB-H2", "zb-h2", TRUE, 0 },
    { "ZB-1p", "zb-auto", TRUE, 1 }, { "ZB-2p", "zb-auto", TRUE, 2 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    if (g_str_equal (table[i].theirs, schedule))
      {
        *published = table[i];
        return TRUE;
      }
  *published = (Published){ schedule, "zb-auto", TRUE, 0 };
  return sscanf (schedule, "ZB auto mem_limit=%lfpMB", &published->limit) == 1;
}

static gboolean
check_published (const ReferenceRow *row, gpointer data)
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

static void
test_published (void)
{
  g_autoptr (GArray) costs = g_array_new (FALSE, FALSE, sizeof (PublishedCosts));

  reference_rows ("zero_bubble_costs.csv", read_published_costs, costs);
  guint n = reference_rows ("zero_bubble_published.csv", check_published, costs);
  g_assert_true (n == 0 || n == 90);
}

static gint64
random_time (GRand *rand)
{
  return g_rand_int_range (rand, 0, 3) ? g_rand_int_range (rand, 1, 30) : g_rand_int_range (rand, 0, 2);
}

/* Every stage with costs and a limit of its own; room for one microbatch and up to 2p - 1 more. */
static PsCosts *
random_costs (GRand *rand, guint p, gint64 *limit)
{
  PsCosts *costs = ps_costs_new (p);

  for (guint stage = 0; stage < p; stage++)
    {
      gint64 b = random_time (rand), w = random_time (rand), act = g_rand_int_range (rand, 1, 100);

      ps_costs_op (costs, PS_OP_F, stage)->duration_ns = random_time (rand);
      ps_costs_op (costs, PS_OP_B, stage)->duration_ns = b;
      ps_costs_op (costs, PS_OP_W, stage)->duration_ns = w;
      ps_costs_op (costs, PS_OP_BW, stage)->duration_ns = b + w;
      ps_costs_set_memory (costs, stage, act, g_rand_int_range (rand, 0, (gint32)act + 1));
      costs->transfer_ns[ps_transfer_forward (costs, stage)] = random_time (rand);
      costs->transfer_ns[ps_transfer_backward (costs, stage)] = random_time (rand);
      costs->stage[stage].weight_bytes = g_rand_int_range (rand, 0, 1000);
      limit[stage]
          = costs->stage[stage].weight_bytes + act + g_rand_int_range (rand, 0, (gint32)((2 * p - 1) * act + 1));
    }
  return costs;
}

static gboolean
fits (const PsSimulation *simulation, const gint64 *limit)
{
  for (guint device = 0; device < simulation->n_devices; device++)
    if (simulation->device[device].peak_bytes > limit[device])
      return FALSE;
  return TRUE;
}

/* Within the limits, and no fixed order that keeps to them is better both in makespan and in span. */
static void
check_random_auto (GRand *rand)
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
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    {
      g_autoptr (PsProgram) program_i = NULL;
      g_autoptr (PsSimulation) other = reference_simulate (reference_generate (others[i], &setting), costs, &program_i);

      if (fits (other, limit))
        g_assert_true (simulation->makespan_ns <= other->makespan_ns || simulation->max_span_ns <= other->max_span_ns);
    }
}

static void
test_auto_random (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (20240110);

  for (guint i = 0; i < 2000; i++)
    check_random_auto (rand);
}

/* Giving up early tells the truth about the whole. */
static void
check_gives_up (GRand *rand, const PsFamilySetting *setting, guint off, const Draft *whole)
{
  g_autoptr (Draft) draft = draft_new (setting, 0);
  gint64 limit = draft_span (whole) + g_rand_int_range (rand, -20, 2);

  if (!put_loop_heuristic (draft, off, limit))
    g_assert_cmpint (draft_span (whole), >, limit);
  else
    g_assert_cmpint (draft_span (draft), ==, draft_span (whole));
}

/* zb-auto ends tries early; none of the eight would have been better. */
static void
check_switches (GRand *rand)
{
  guint p = (guint)g_rand_int_range (rand, 1, 9), m = (guint)g_rand_int_range (rand, 1, 25);
  g_autofree gint64 *limit = g_new (gint64, p);
  g_autoptr (PsCosts) costs = random_costs (rand, p, limit);
  PsFamilySetting setting
      = { .n_devices = p, .n_microbatches = m, .n_chunks = 1, .costs = costs, .memory_limit = limit };
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) best = reference_simulate (reference_generate ("zb-auto", &setting), costs, &program);

  for (guint off = 0; off < 1U << LOOP_SWITCHES; off++)
    {
      g_autoptr (Draft) draft = draft_new (&setting, 0);

      g_assert_true (put_loop_heuristic (draft, off, G_MAXINT64));
      check_gives_up (rand, &setting, off, draft);
      if (draft_fits (draft) && draft_span (draft) <= best->max_span_ns)
        g_assert_cmpint (best->makespan_ns, <=, draft_makespan (draft));
      if (draft_fits (draft))
        g_assert_cmpint (best->max_span_ns, <=, draft_span (draft));
    }
}

static void
test_switches (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (20261121);

  for (guint i = 0; i < 500; i++)
    check_switches (rand);
}

static void
test_auto_limit (void)
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
static void
test_auto_without_costs (void)
{
  PsFamilySetting setting = { .n_devices = 5, .n_microbatches = 12, .n_chunks = 1 };
  g_autoptr (PsCosts) costs = reference_costs (5, 1, 1, 1, 0, 1, 1);
  g_autoptr (PsProgram) program = NULL;
  g_autoptr (PsSimulation) simulation = reference_simulate (reference_generate ("zb-auto", &setting), costs, &program);

  g_assert_cmpint (simulation->max_span_ns, ==, 36);
}

/* An F that takes bytes only while it runs changes no order where its B takes as many: an F always leaves room for its
 * B. */
static void
test_bytes_of_a_while (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (20240111);

  for (guint i = 0; i < 200; i++)
    {
      guint p = (guint)g_rand_int_range (rand, 1, 7), m = (guint)g_rand_int_range (rand, 1, 15);
      g_autofree gint64 *limit = g_new (gint64, p);
      g_autoptr (PsCosts) plain = random_costs (rand, p, limit);
      g_autoptr (PsCosts) more = NULL;
      PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = 1, .memory_limit = limit };

      for (guint s = 0; s < p; s++)
        for (PsOpKind kind = PS_OP_B; kind <= PS_OP_BW; kind += PS_OP_BW - PS_OP_B)
          {
            ps_costs_op (plain, kind, s)->take_bytes += 5;
            ps_costs_op (plain, kind, s)->give_bytes += 5;
          }
      more = ps_costs_copy (plain);
      for (guint s = 0; s < p; s++)
        {
          gint64 bytes = g_rand_int_range (rand, 1, 6);

          ps_costs_op (more, PS_OP_F, s)->take_bytes += bytes;
          ps_costs_op (more, PS_OP_F, s)->give_bytes += bytes;
          limit[s] += 5;
        }
      for (guint off = 0; off < 8; off++)
        {
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

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/zb-auto/peers", test_auto);
  g_test_add_func ("/zb-auto/published", test_published);
  g_test_add_func ("/zb-auto/random", test_auto_random);
  g_test_add_func ("/zb-auto/bytes-of-a-while", test_bytes_of_a_while);
  g_test_add_func ("/zb-auto/switches", test_switches);
  g_test_add_func ("/zb-auto/limit", test_auto_limit);
  g_test_add_func ("/zb-auto/without-costs", test_auto_without_costs);
  return g_test_run ();
}
