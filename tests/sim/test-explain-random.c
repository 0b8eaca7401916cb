/* Tests of answer.h: what must hold for every schedule: the critical path is as long as the makespan, slack is exact,
 * idle parts sum, gains and change points are those of an evaluation that knows nothing of them. */
#include "explain-rig.h"
#include "random-costs.h"
#include "random-schedule.h"

#include <math.h>
#include <string.h>

/* Parts follow one another without a gap, each is an op or a transfer with its own times, and together they are the
 * makespan. */
static void check_path (const Case *test)
{
  const GArray *path = test->explanation->path;
  gint64 clock = 0, sum = 0;

  for (guint i = 0; i < path->len; i++) {
    const PsPathPart *part = &g_array_index (path, PsPathPart, i);
    const PsStep *step = &test->program->steps[part->step];

    g_assert_cmpint (part->start_ns, ==, clock);
    g_assert_cmpint (part->kind, !=, PS_PATH_WAIT);
    g_assert_cmpint (part->end_ns - part->start_ns, ==,
                     part->kind == PS_PATH_OP ? ps_step_duration (test->program, test->costs, part->step)
                                              : test->costs->transfer_ns[step->transfer]);
    if (part->kind == PS_PATH_OP) {
      g_assert_cmpint (part->end_ns, ==, test->simulation->end_ns[part->step + 1]);
      g_assert_cmpint (test->explanation->slack_ns[part->step], ==, 0);
    }
    clock = part->end_ns;
    sum += part->end_ns - part->start_ns;
  }
  g_assert_cmpint (sum, ==, test->simulation->makespan_ns);
}

static void check_slack (const Case *test)
{
  guint n = test->program->n_steps;
  g_autofree gint64 *durations = g_new (gint64, n), *transfers = g_new (gint64, n);
  g_autoptr (PsSimulation) delayed = ps_simulation_new (test->program);

  for (guint i = 0; i < n; i++) {
    durations[i] = ps_step_duration (test->program, test->costs, i);
    transfers[i] = test->costs->transfer_ns[test->program->steps[i].transfer];
  }
  for (guint i = 0; i < n; i++) {
    gint64 slack = test->explanation->slack_ns[i];

    if (test->program->pair != NULL && test->program->pair[i] == PS_PAIR_FIRST)
      continue;
    g_assert_cmpint (slack, >=, 0);
    durations[i] += slack;
    ps_simulate_steps (test->program, test->costs, durations, transfers, delayed);
    g_assert_cmpint (delayed->makespan_ns, ==, test->simulation->makespan_ns);
    durations[i] += 1;
    ps_simulate_steps (test->program, test->costs, durations, transfers, delayed);
    g_assert_cmpint (delayed->makespan_ns, ==, test->simulation->makespan_ns + 1);
    durations[i] -= slack + 1;
  }
}

static void check_idle_sums (const Case *test)
{
  const PsSimulation *simulation = test->simulation;

  for (guint device = 0; device < simulation->n_devices; device++) {
    const PsDeviceResult *result = &simulation->device[device];
    gint64 sum = 0;

    for (guint i = 0; i < PS_N_IDLE; i++) {
      g_assert_cmpint (test->explanation->idle_ns[device * PS_N_IDLE + i], >=, 0);
      sum += test->explanation->idle_ns[device * PS_N_IDLE + i];
    }
    g_assert_cmpint (sum, ==,
                     simulation->makespan_ns + simulation->optimizer_ns - result->busy_ns - result->optimizer_ns);
  }
}

/* The makespan with a share of a part saved, from scratch: every op by itself. */
static gint64 makespan_saving (const Case *test, const PsPart *part, double saving)
{
  const PsProgram *program = test->program;
  guint n = program->n_steps;
  g_autofree gint64 *durations = g_new (gint64, n), *transfers = g_new (gint64, n);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);

  for (guint i = 0; i < n; i++) {
    durations[i] = ps_step_duration (program, test->costs, i)
                   - llrint (saving * (double)ps_part_of_op (part, program, test->costs, i));
    transfers[i] = test->costs->transfer_ns[program->steps[i].transfer]
                   - llrint (saving * (double)ps_part_of_transfer (part, program, test->costs, i));
  }
  ps_simulate_steps (program, test->costs, durations, transfers, simulation);
  return simulation->makespan_ns;
}

/* Gains grow in proportion up to the change point and no further: on both sides of it the makespan is, or is not, on
 * the line through its values at 0 and at a small saving. Times are large, so that rounding them to whole nanoseconds
 * (at most n_steps of them) is small against what is told apart. */
static void check_what_if (const Case *test)
{
  g_autoptr (GArray) what_ifs = ps_what_if (test->program, test->costs, NULL, 0, 0.25, G_MAXUINT, NULL);
  double base = (double)test->simulation->makespan_ns, rounding = 2.0 * test->program->n_steps;
  gint64 before = 0;

  for (guint i = 0; i < what_ifs->len; i++) {
    const PsWhatIf *what_if = &g_array_index (what_ifs, PsWhatIf, i);
    double s = what_if->change_point;

    g_assert_cmpint (what_if->iteration_ns, >=, before);
    before = what_if->iteration_ns;
    g_assert_cmpint (what_if->iteration_ns, ==, makespan_saving (test, &what_if->part, 0.25));
    g_assert_cmpint (what_if->least_ns, ==, makespan_saving (test, &what_if->part, 1));
    g_assert_cmpfloat (s, >, 0);
    g_assert_cmpfloat (s, <=, 1);
    double slope = (base - (double)makespan_saving (test, &what_if->part, s)) / s;
    double halfway = (double)makespan_saving (test, &what_if->part, s / 2);
    g_assert_cmpfloat_with_epsilon (halfway, base - slope * s / 2, rounding);
    /* Beyond it less is saved: the slopes of two paths differ by at least the unit, so at the end by (1 - s) of it.
     */
    if (s < 0.999)
      g_assert_cmpfloat ((double)what_if->least_ns, >, base - slope + (1 - s) * 0.5e6);
  }
}

static void check_all (const Case *test)
{
  check_path (test);
  check_slack (test);
  check_idle_sums (test);
  for (guint device = 0; device < test->simulation->n_devices; device++)
    g_assert_cmpint (test->explanation->idle_ns[device * PS_N_IDLE + PS_IDLE_CHANNEL], ==, 0);
  check_what_if (test);
}

static void test_random (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);

  for (guint i = 0; i < 200; i++) {
    g_auto (Case) test = { 0 };
    PsSchedule *schedule = random_schedule (rand, i % 2 == 1);
    PsCosts *costs = random_times (rand, schedule->placement->n_stages, 1000000, 20);

    random_host_times (rand, costs, 1000000, schedule->placement->device, schedule->placement->n_copies);
    explain (&test, lower (schedule), costs);
    check_all (&test);
  }
}

static void test_families (void)
{
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++) {
    g_auto (Case) test = { 0 };

    explain_family (&test, families[i]->name, 4, 8, "f=3ms,b=4ms,w=2ms,c=1ms,o=5ms");
    check_all (&test);
  }
}

/* What-if by the events engine without channels is what the relaxation engine says, change points too. */
static void check_same_what_ifs (const Case *test)
{
  PsEventsSetting latency = { .comm = PS_CHANNEL_LATENCY };
  g_autoptr (GArray) expected = ps_what_if (test->program, test->costs, NULL, 5, 0.25, G_MAXUINT, NULL);
  g_autoptr (GArray) found = fine (ps_what_if (test->program, test->costs, &latency, 5, 0.25, G_MAXUINT, &error));

  g_assert_cmpuint (found->len, ==, expected->len);
  for (guint i = 0; i < found->len; i++) {
    const PsWhatIf *a = &g_array_index (expected, PsWhatIf, i), *b = &g_array_index (found, PsWhatIf, i);

    g_assert_cmpmem (&a->part, sizeof a->part, &b->part, sizeof b->part);
    g_assert_cmpint (a->iteration_ns, ==, b->iteration_ns);
    g_assert_cmpint (a->least_ns, ==, b->least_ns);
    g_assert_cmpfloat (a->gain, ==, b->gain);
    g_assert_cmpfloat_with_epsilon (a->change_point, b->change_point, 1e-6);
  }
}

static void test_events_what_if (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (12);

  for (guint i = 0; i < 120; i++) {
    g_auto (Case) test = { 0 };
    PsSchedule *schedule = random_schedule (rand, i % 2 == 1);
    PsCosts *costs = random_times (rand, schedule->placement->n_stages, i < 60 ? 1000000 : 10, 20);

    random_host_times (rand, costs, i < 60 ? 1000000 : 10, schedule->placement->device, schedule->placement->n_copies);
    /* Nearly equal paths, so that others become critical very soon. */
    for (guint k = 0; i >= 60 && k < PS_N_OP_KINDS * costs->n_stages; k++)
      costs->op[k].duration_ns += 1000000;
    explain (&test, lower (schedule), costs);
    check_same_what_ifs (&test);
  }
}

/* Makes the case that of transfers that queue. FALSE where the schedule cannot run on such channels. */
static gboolean explain_events (Case *test, const PsEventsSetting *setting)
{
  g_autoptr (GError) error = NULL;

  if (!ps_events_simulate (test->program, test->costs, setting, test->simulation, &error))
    return FALSE;
  g_clear_pointer (&test->explanation, ps_explanation_free);
  test->explanation = ps_explain (test->program, test->costs, test->simulation,
                                  test->simulation->makespan_ns + test->simulation->optimizer_ns);
  return TRUE;
}

/* Lengths, waits included, are the makespan; how much of it waits. */
static gint64 check_events_path (const Case *test)
{
  const GArray *path = test->explanation->path;
  gint64 clock = 0, waits = 0;

  for (guint i = 0; i < path->len; i++) {
    const PsPathPart *part = &g_array_index (path, PsPathPart, i);

    g_assert_cmpint (part->start_ns, ==, clock);
    g_assert_cmpint (part->end_ns, >, part->start_ns);
    clock = part->end_ns;
    waits += part->kind == PS_PATH_WAIT ? part->end_ns - part->start_ns : 0;
  }
  g_assert_cmpint (clock, ==, test->simulation->makespan_ns);
  return waits;
}

static void test_events (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (13);
  const double speeds[] = { 1, 0.5, 2, 0.75 };
  guint n_run = 0;

  for (guint i = 0; i < 400; i++) {
    g_auto (Case) test = { 0 };
    PsSchedule *schedule = random_schedule (rand, i % 2 == 1);
    PsCosts *costs = random_times (rand, schedule->placement->n_stages, 1000, 20);
    PsEventsSetting setting = { .comm = (PsChannel)(i % 4) };

    random_host_times (rand, costs, 1000, schedule->placement->device, schedule->placement->n_copies);
    explain (&test, lower (schedule), costs);
    setting.speed = i % 8 < 4 ? NULL : speeds;
    setting.blocking = i % 3 == 1 && setting.comm != PS_CHANNEL_LATENCY;
    if (!explain_events (&test, &setting))
      continue;
    n_run++;
    g_assert_cmpint (check_events_path (&test), ==, 0);
    check_idle_sums (&test);
  }
  g_assert_cmpuint (n_run, >, 350);
}

/* Gains in proportion up to the change point with channels on: of gains at half of it and at all of it one is half the
 * other. */
static void test_channels_what_if (void)
{
  g_autoptr (GError) error = NULL;
  g_auto (Case) test = { 0 };
  PsEventsSetting rank = { .comm = PS_CHANNEL_RANK };

  explain_family (&test, "interleaved", 4, 8, "f=20ms,b=20ms,w=20ms,c=3ms");
  g_autoptr (GArray) what_ifs = fine (ps_what_if (test.program, test.costs, &rank, 0, 0.1, 5, &error));
  g_assert_cmpuint (what_ifs->len, ==, 5);
  for (guint i = 0; i < what_ifs->len; i++) {
    const PsWhatIf *what_if = &g_array_index (what_ifs, PsWhatIf, i);
    double s = what_if->change_point, gain[2] = { 0, 0 };

    g_assert_cmpfloat (s, >, 0);
    for (guint k = 0; k < 2; k++) {
      g_autoptr (GArray) at = ps_what_if (test.program, test.costs, &rank, 0, s / (k + 1), G_MAXUINT, &error);

      for (guint j = 0; j < at->len; j++)
        if (memcmp (&g_array_index (at, PsWhatIf, j).part, &what_if->part, sizeof what_if->part) == 0)
          gain[k] = g_array_index (at, PsWhatIf, j).gain;
    }
    g_assert_cmpfloat_with_epsilon (gain[0], 2 * gain[1], 1e-6);
    g_assert_cmpfloat (gain[0], >, 0);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/explain/random", test_random);
  g_test_add_func ("/explain/families", test_families);
  g_test_add_func ("/explain/events", test_events);
  g_test_add_func ("/explain/events-what-if", test_events_what_if);
  g_test_add_func ("/explain/channels-what-if", test_channels_what_if);
  return g_test_run ();
}
