/* Tests of energy.h: a worked example, a judge that tries all durations of small cases, and what must hold for every
 * schedule: the iteration stays, and the energy lies between that of the lowest clock and the full one. */
#include "lower.h"
#include "random-costs.h"

#include <pipesim/energy.h>

#include <math.h>

static const PsPower power = { .watts = { 650, 600, 500, 550, 650, 300 }, .idle = 90, .least_clock = 0.5 };

/* Times are nanoseconds, so energies are nanojoules. */
static double
nanojoules (double joules)
{
  return joules * 1e9;
}

static PsEnergy *
find_energy (const PsProgram *program, const PsCosts *costs, PsSimulation *simulation)
{
  ps_simulate (program, costs, simulation);
  return ps_energy_new (program, costs, NULL, simulation, &power, simulation->makespan_ns);
}

/* gpipe p = 2, m = 1: the device of stage 0 waits for 10 + 20 ns between its ops, which are 10 and 20 ns long; the path
 * is F0 F1 BW1 BW0, and nothing can be slower. With one F of stage 0 twice as long as that of stage 1, and m = 2, stage
 * 1 has waits: F0.1 0-20, F0.0 20-40; F1.0 20-30, F1.1 40-50; F1.0 can take all of 20-40. */
static void
test_example (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=20ns:10ns,bw=20ns:20ns,c=0", 2, 1, &error);
  g_autoptr (PsProgram) program = lower_family ("gpipe", 2, 2, 0);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  g_autoptr (PsEnergy) energy = find_energy (program, costs, simulation);

  g_assert_no_error (error);
  g_assert_cmpint (simulation->makespan_ns, ==, 110);
  g_assert_cmpfloat_with_epsilon (nanojoules (energy->full_joules), 2 * 90 * 110 + 560 * 60 + 460 * 80, 1e-6);
  g_assert_cmpfloat_with_epsilon (nanojoules (energy->full_joules - energy->least_joules), 560 * 10 * 0.75, 1e-6);
}

typedef struct
{
  const PsProgram *program;
  const PsCosts *costs;
  PsSimulation *simulation;
  gint64 *duration_ns;
  gint64 *transfer_ns;
  const gint64 *latest_ns; /* [n_steps] */
  double least;
} Judge;

static gboolean
is_in_time (const Judge *judge)
{
  ps_simulate_steps (judge->program, judge->costs, judge->duration_ns, judge->transfer_ns, judge->simulation);
  for (guint i = 0; i < judge->program->n_steps; i++)
    if (judge->simulation->end_ns[i + 1] > judge->latest_ns[i])
      return FALSE;
  return TRUE;
}

/* Tries all durations of the steps from `step` on. */
static void
try_steps (Judge *judge, guint step, double nanojoules)
{
  if (nanojoules >= judge->least || !is_in_time (judge))
    return;
  if (step == judge->program->n_steps)
    {
      judge->least = nanojoules;
      return;
    }
  const PsStep *s = &judge->program->steps[step];
  gint64 full_ns = judge->costs->op[s->cost].duration_ns;
  double watts = power.watts[judge->program->schedule->ops[judge->program->op_of[step]].kind] - power.idle;

  for (gint64 ns = full_ns; ns <= 2 * full_ns; ns++)
    {
      double part = ns > 0 ? (double)full_ns / (double)ns : 1;

      judge->duration_ns[step] = ns;
      try_steps (judge, step + 1, nanojoules + watts * (double)full_ns * part * part);
    }
  judge->duration_ns[step] = full_ns;
}

static gboolean
is_last_backward (const PsProgram *program, guint step)
{
  const PsSchedule *schedule = program->schedule;
  guint at = program->op_of[step];
  PsOp op = schedule->ops[at];

  if (op.kind != PS_OP_W && op.kind != PS_OP_BW)
    return FALSE;
  for (guint i = at + 1; i < program->n_steps; i++)
    if (schedule->ops[i].stage == op.stage && schedule->ops[i].kind == op.kind)
      return FALSE;
  return TRUE;
}

static void
check_judge (GRand *rand, const char *family, guint p, guint m)
{
  g_autoptr (PsCosts) costs = random_times (rand, p, 1, 4);
  g_autoptr (PsProgram) program = lower_family (family, p, m, 0);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  guint n = program->n_steps;
  g_autofree gint64 *duration_ns = g_new (gint64, n), *transfer_ns = g_new (gint64, n), *latest_ns = g_new (gint64, n);
  Judge judge = { program, costs, simulation, duration_ns, transfer_ns, latest_ns, INFINITY };

  for (guint s = 0; s < p; s++)
    costs->stage[s].reduce_ns = g_rand_int_range (rand, 0, 2);
  g_autoptr (PsEnergy) energy = find_energy (program, costs, simulation);
  for (guint i = 0; i < n; i++)
    {
      PsOp op = program->schedule->ops[program->op_of[i]];
      gboolean held = costs->stage[op.stage].reduce_ns > 0 && is_last_backward (program, i);

      duration_ns[i] = costs->op[program->steps[i].cost].duration_ns;
      transfer_ns[i] = costs->transfer_ns[program->steps[i].transfer];
      latest_ns[i] = held ? simulation->end_ns[i + 1] : 0;
      for (guint k = 0; k < n && !held; k++)
        latest_ns[i] = MAX (latest_ns[i], simulation->end_ns[k + 1]);
    }
  double rest = power.idle * p * (double)simulation->makespan_ns;
  for (guint d = 0; d < p; d++)
    rest += (power.watts[PS_OP_O] - power.idle) * (double)simulation->device[d].optimizer_ns;
  try_steps (&judge, 0, 0);
  g_assert_cmpfloat_with_epsilon (nanojoules (energy->least_joules), judge.least + rest, 1e-5);
}

static void
test_judge (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);

  for (guint i = 0; i < 40; i++)
    {
      check_judge (rand, "1f1b", 2, 2);
      check_judge (rand, "zb-h1", 3, 1);
      check_judge (rand, "gpipe", 3, 1);
    }
}

/* The clocks keep the iteration, with pairs, host times and queueing transfers too. */
static void
check_family (GRand *rand, const char *name, guint p, guint m, guint v, PsChannel comm)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsProgram) program = lower_family (name, p, m, v);
  const PsPlacement *placement = program->schedule->placement;
  g_autoptr (PsCosts) costs = random_times (rand, placement->n_stages, 1000, 20);
  PsEventsSetting events = { .comm = comm };

  random_host_times (rand, costs, 100, placement->device, placement->n_copies);
  g_autoptr (PsSimulation) simulation = simulated_with (program, costs, &events);
  gint64 makespan_ns = simulation->makespan_ns;
  g_autoptr (PsEnergy) energy = ps_energy_new (program, costs, &events, simulation, &power, makespan_ns);
  g_autofree gint64 *transfer_ns = g_new (gint64, program->n_steps);

  for (guint i = 0; i < program->n_steps; i++)
    {
      g_assert_cmpfloat (energy->clock[i], >=, power.least_clock);
      g_assert_cmpfloat (energy->clock[i], <=, 1);
      g_assert_cmpint (energy->duration_ns[i], >=, ps_step_duration (program, costs, i));
      transfer_ns[i] = costs->transfer_ns[program->steps[i].transfer];
    }
  g_assert_cmpfloat (energy->least_joules, <, energy->full_joules);
  g_assert_cmpfloat (energy->least_joules, >, energy->full_joules / 4);
  events.duration_ns = energy->duration_ns;
  events.transfer_ns = transfer_ns;
  g_assert_true (ps_events_simulate (program, costs, &events, simulation, &error));
  g_assert_cmpint (simulation->makespan_ns, ==, makespan_ns);
}

static void
test_families (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (2);

  check_family (rand, "1f1b", 4, 8, 0, PS_CHANNEL_LATENCY);
  check_family (rand, "dualpipe", 4, 8, 0, PS_CHANNEL_LATENCY);
  check_family (rand, "zb-v", 4, 8, 0, PS_CHANNEL_LATENCY);
  check_family (rand, "interleaved", 4, 8, 2, PS_CHANNEL_RANK);
  check_family (rand, "zb-h1", 4, 8, 0, PS_CHANNEL_RANK);
}

static void
test_refused (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=1ms,w=1ms", 2, 1, &error);
  g_autoptr (PsProgram) program = lower_family ("pipedream", 2, 4, 0);
  const char *const wrong[] = { "", "busy", "busy=1W", "idle=90", "f=80,idle=90", "heat=3", "busy=90,clock=0" };
  PsPower parsed;
  g_autoptr (PsSimulation) simulation = simulated (program, costs);

  g_assert_null (ps_energy_new (program, costs, NULL, simulation, &power, simulation->makespan_ns));
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      refused (ps_power_parse ("--power", wrong[i], &parsed, &error), PS_ERROR_USAGE, "--power: *");
    }
  g_assert_true (ps_power_parse ("--power", "f=650,b=600,idle=90,clock=0.75", &parsed, &error));
  g_assert_cmpfloat (parsed.watts[PS_OP_F], ==, 650);
  g_assert_cmpfloat (parsed.watts[PS_OP_W], ==, 650);
  g_assert_cmpfloat (parsed.least_clock, ==, 0.75);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/energy/example", test_example);
  g_test_add_func ("/energy/judge", test_judge);
  g_test_add_func ("/energy/families", test_families);
  g_test_add_func ("/energy/refused", test_refused);
  return g_test_run ();
}
