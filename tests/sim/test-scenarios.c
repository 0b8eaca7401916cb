/* Tests of scenarios.h: equal to ps_simulate bit for bit, for every kernel, width and number of scenarios. */
#include "lower.h"
#include "random-costs.h"
#include "random-schedule.h"

#include <pipesim/simulate.h>

static void
check_scenario (const PsScenarios *scenarios, guint i, const PsSimulation *expected)
{
  g_assert_cmpint (scenarios->makespan_ns[i], ==, expected->makespan_ns);
  g_assert_cmpint (scenarios->max_span_ns[i], ==, expected->max_span_ns);
  for (guint device = 0; device < expected->n_devices; device++)
    {
      g_assert_cmpint (scenarios->start_ns[device * scenarios->n + i], ==, expected->device[device].start_ns);
      g_assert_cmpint (scenarios->end_ns[device * scenarios->n + i], ==, expected->device[device].end_ns);
    }
}

/* n scenarios drawn at random, by every kernel that this processor has. */
static void
check_random (GRand *rand, const PsProgram *program, guint n, gint64 unit, gint32 limit, guint bits)
{
  g_autoptr (PsRecurrence) recurrence = ps_recurrence_new (program);
  g_autoptr (PsScenarios) scenarios = ps_scenarios_new (recurrence, n);
  g_autoptr (GPtrArray) costs = g_ptr_array_new_with_free_func ((GDestroyNotify)ps_costs_free);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);

  for (guint i = 0; i < n; i++)
    {
      g_ptr_array_add (costs, random_times (rand, program->schedule->placement->n_stages, unit, limit));
      ps_scenarios_set_costs (scenarios, i, costs->pdata[i]);
    }
  for (guint kernel = 0; kernel < PS_N_KERNELS; kernel++)
    {
      if (!ps_kernel_is_available (kernel))
        continue;
      scenarios->kernel = kernel;
      ps_scenarios_run (scenarios);
      if (bits)
        g_assert_cmpuint (scenarios->bits, ==, bits);
      for (guint i = 0; i < n; i++)
        {
          ps_simulate (program, costs->pdata[i], simulation);
          check_scenario (scenarios, i, simulation);
        }
    }
}

static void
test_random (void)
{
  static const guint counts[] = { 1, 2, 15, 16, 17, 31, 32, 33, 70 };
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);

  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (PsProgram) program = lower (random_schedule (rand, i % 2 == 1));
      guint n = counts[i % G_N_ELEMENTS (counts)];

      check_random (rand, program, n, 1, 100, n <= PS_SCENARIO_LANES ? 64 : 32);
    }
}

/* Every schedule that there is: pairs, two weight copies, slices. */
static void
test_families (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (6);
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++)
    {
      g_autoptr (PsProgram) program = lower_family (families[i]->name, 4, 8, 0);

      check_random (rand, program, 37, 1, 1000000, 32);
    }
}

/* gpipe on one device runs m (F + BW): with m = 1, F = 0 and BW = 2^32 - 1 all sums fit into 32 bits; with one more
 * they do not, unless every time is a multiple of something; 2^33 = 2 (2^32) is not below the limit in units of 2, 2^33
 * - 2 is. The scenario that decides is the one put together from the largest costs of all: F of one, BW of another. */
static void
test_widths (void)
{
  static const struct
  {
    gint64 f, bw;
    guint bits;
    gint64 unit;
  } rows[] = {
    { 0, G_MAXUINT32, 32, 1 },
    { 1, G_MAXUINT32, 64, 1 },
    { 2, 2 * (gint64)G_MAXUINT32, 64, 1 },
    { 0, 2 * (gint64)G_MAXUINT32, 32, 2 * (gint64)G_MAXUINT32 },
    { 4, 2 * (gint64)G_MAXUINT32 - 4, 32, 2 },
    { 3000, 9000000000, 32, 3000 },
    { 3001, 9000000000, 64, 1 },
  };
  g_autoptr (PsProgram) program = lower_family ("gpipe", 1, 1, 0);
  g_autoptr (PsRecurrence) recurrence = ps_recurrence_new (program);
  g_autoptr (PsScenarios) scenarios = ps_scenarios_new (recurrence, PS_SCENARIO_LANES + 1);

  g_assert_cmpuint (recurrence->n_op_classes, ==, 3);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      scenarios->op_ns[scenarios->n * 1 + 0] = rows[i].f;
      scenarios->op_ns[scenarios->n * 2 + PS_SCENARIO_LANES] = rows[i].bw;
      ps_scenarios_run (scenarios);
      g_assert_cmpuint (scenarios->bits, ==, rows[i].bits);
      g_assert_cmpint (scenarios->unit_ns, ==, rows[i].unit);
      g_assert_cmpint (scenarios->makespan_ns[0], ==, rows[i].f);
      g_assert_cmpint (scenarios->makespan_ns[PS_SCENARIO_LANES], ==, rows[i].bw);
    }
}

/* Long times with a common divisor stay in 32 bits and exact: 3000 times what fits. Without one they need 64. */
static void
test_units (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  g_autoptr (PsProgram) program = lower_family ("zb-v", 4, 8, 0);

  check_random (rand, program, 50, 3000, 10000000, 32);
  check_random (rand, program, 50, 1000000007, 100, 32);
  /* 1 / 49 is rounded down, so that quotients come out a little below whole numbers. */
  check_random (rand, program, 50, 49, 20000000, 32);
  check_random (rand, program, 50, 1, G_MAXINT32, 64);
  check_random (rand, program, 50, 1000003, 1000000000, 0);
}

/* 1F1B on 2 devices: F, B... two stages, each F and BW on one device; transfers 0 -> 1 and back. */
static void
test_classes (void)
{
  g_autoptr (PsProgram) program = lower_family ("1f1b", 2, 4, 0);
  g_autoptr (PsRecurrence) recurrence = ps_recurrence_new (program);

  g_assert_cmpuint (recurrence->n_op_classes, ==, 1 + 4);
  g_assert_cmpuint (recurrence->n_transfer_classes, ==, 1 + 2);
  g_assert_cmpuint (recurrence->transfer[1].from, ==, 0);
  g_assert_cmpuint (recurrence->transfer[1].to, ==, 1);
  g_assert_cmpuint (recurrence->transfer[1].transfer, ==, 1);
  g_assert_cmpuint (recurrence->transfer[2].from, ==, 1);
  g_assert_cmpuint (recurrence->transfer[2].transfer, ==, 1 + 2 + 1);
  for (guint i = 1; i < recurrence->n_op_classes; i++)
    g_assert_cmpuint (recurrence->op[i].device, ==, recurrence->op[i].cost % 2);
  /* Slots are taken again: far fewer than ops. */
  g_autoptr (PsProgram) large = lower_family ("1f1b", 8, 200, 0);
  g_autoptr (PsRecurrence) large_plan = ps_recurrence_new (large);
  g_assert_cmpuint (large_plan->n_slots, <, 100);
}

/* Durations that depend on the step and the scenario alone. */
typedef struct
{
  const PsRecurrence *recurrence;
  guint bits;
  guint n_calls;
} Fill;

static gint64
step_ns (guint step, guint scenario, guint salt)
{
  return (gint64)((step * 2654435761U ^ scenario * 40503U ^ salt) >> 8);
}

static void
set_time (const Fill *filling, gpointer times, guint index, gint64 ns)
{
  if (filling->bits == 32)
    ((guint32 *)times)[index] = (guint32)ns;
  else
    ((gint64 *)times)[index] = ns;
}

static void
fill (gpointer data, guint first_step, guint n_steps, guint first, gpointer durations, gpointer transfers)
{
  Fill *filling = data;

  filling->n_calls++;
  for (guint i = 0; i < n_steps; i++)
    for (guint lane = 0; lane < PS_SCENARIO_LANES; lane++)
      {
        const PsScenarioStep *step = &filling->recurrence->steps[first_step + i];

        set_time (filling, durations, i * PS_SCENARIO_LANES + lane,
                  step->op ? step_ns (first_step + i, first + lane, 1) : 0);
        set_time (filling, transfers, i * PS_SCENARIO_LANES + lane,
                  step->transfer ? step_ns (first_step + i, first + lane, 2) : 0);
      }
}

static void
check_steps (const PsProgram *program, guint n, guint bits)
{
  g_autoptr (PsRecurrence) recurrence = ps_recurrence_new (program);
  g_autoptr (PsScenarios) scenarios = ps_scenarios_new (recurrence, n);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  g_autoptr (PsCosts) costs = ps_costs_new (program->schedule->placement->n_stages);
  g_autofree gint64 *durations = g_new (gint64, program->n_steps), *transfers = g_new (gint64, program->n_steps);

  for (guint kernel = 0; kernel < PS_N_KERNELS; kernel++)
    {
      Fill filling = { recurrence, bits, 0 };

      if (!ps_kernel_is_available (kernel))
        continue;
      scenarios->kernel = kernel;
      ps_scenarios_run_steps (scenarios, bits, fill, &filling);
      g_assert_cmpuint (filling.n_calls, >=, (n + PS_SCENARIO_LANES - 1) / PS_SCENARIO_LANES);
      for (guint i = 0; i < n; i++)
        {
          for (guint step = 0; step < program->n_steps; step++)
            {
              durations[step] = recurrence->steps[step].op ? step_ns (step, i, 1) : 0;
              transfers[step] = recurrence->steps[step].transfer ? step_ns (step, i, 2) : 0;
            }
          ps_simulate_steps (program, costs, durations, transfers, simulation);
          check_scenario (scenarios, i, simulation);
        }
    }
}

static void
test_steps (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (8);
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < 60; i++)
    {
      g_autoptr (PsProgram) program = lower (random_schedule (rand, i % 2 == 1));

      check_steps (program, 1 + random_below (rand, 40), i % 4 < 2 ? 32 : 64);
    }
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (PsProgram) program = lower_family (families[i]->name, 4, 8, 0);

      check_steps (program, 20, 32);
      check_steps (program, 20, 64);
    }
}

static void
test_kernels (void)
{
  g_assert_true (ps_kernel_is_available (PS_KERNEL_PORTABLE));
  g_assert_true (ps_kernel_is_available (ps_kernel_best ()));
  g_assert_cmpstr (ps_kernel_name (PS_KERNEL_AVX512), ==, "avx512");
  for (guint kernel = 0; kernel < PS_N_KERNELS; kernel++)
    g_test_message ("%s: %s", ps_kernel_name (kernel), ps_kernel_is_available (kernel) ? "available" : "not here");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/scenarios/kernels", test_kernels);
  g_test_add_func ("/scenarios/classes", test_classes);
  g_test_add_func ("/scenarios/random", test_random);
  g_test_add_func ("/scenarios/families", test_families);
  g_test_add_func ("/scenarios/widths", test_widths);
  g_test_add_func ("/scenarios/units", test_units);
  g_test_add_func ("/scenarios/steps", test_steps);
  return g_test_run ();
}
