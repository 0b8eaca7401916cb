/* bench-simulate.c - ops per second of the relaxation engine, memory tracked, against a bare loop of the same
 * recurrence in the same process; and how long generating, validating and lowering takes. Prints medians over rounds
 * that alternate. */
#include "bench-clock.h"
#include "error-rig.h"

#include <pipesim/schedule.h>
#include <pipesim/simulate.h>

#include <stdio.h>

#define N_ROUNDS 31
#define N_REPEATS 20

/* The recurrence and nothing else: start = max (clock of the device, end of the input + transfer), durations in the
 * table. */
typedef struct {
  guint32 input;
  guint32 device;
  gint64 transfer_ns;
  gint64 duration_ns;
} BareStep;

static gint64 bare_loop (const BareStep *restrict steps, guint n, gint64 *restrict end_ns, gint64 *restrict clocks,
                         guint n_devices)
{
  gint64 latest = 0;

  for (guint device = 0; device < n_devices; device++)
    clocks[device] = 0;
  for (guint i = 0; i < n; i++) {
    gint64 arrival = end_ns[steps[i].input] + steps[i].transfer_ns;
    gint64 start = MAX (clocks[steps[i].device], arrival);

    clocks[steps[i].device] = end_ns[i + 1] = start + steps[i].duration_ns;
  }
  for (guint device = 0; device < n_devices; device++)
    latest = MAX (latest, clocks[device]);
  return latest;
}

static BareStep *bare_steps (const PsProgram *program, const PsCosts *costs)
{
  BareStep *steps = g_new (BareStep, program->n_steps);

  for (guint i = 0; i < program->n_steps; i++)
    steps[i] = (BareStep){ program->steps[i].input, program->steps[i].device,
                           costs->transfer_ns[program->steps[i].transfer], ps_step_duration (program, costs, i) };
  return steps;
}

static double rate (guint n_steps, gint64 *times)
{
  return (double)n_steps * N_REPEATS / (double)ps_median (times, N_ROUNDS) * 1e3;
}

static void bench_engine (const char *name, const PsProgram *program, const PsCosts *costs)
{
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  g_autofree BareStep *steps = bare_steps (program, costs);
  g_autofree gint64 *end_ns = g_new0 (gint64, (gsize)program->n_steps + 1);
  g_autofree gint64 *clocks = g_new0 (gint64, simulation->n_devices);
  gint64 engine[N_ROUNDS], bare[N_ROUNDS], latest = 0;

  for (guint round = 0; round < N_ROUNDS; round++) {
    gint64 start = clock_ns (CLOCK_MONOTONIC);

    for (guint i = 0; i < N_REPEATS; i++)
      ps_simulate (program, costs, simulation);
    gint64 middle = clock_ns (CLOCK_MONOTONIC);
    for (guint i = 0; i < N_REPEATS; i++)
      latest = bare_loop (steps, program->n_steps, end_ns, clocks, simulation->n_devices);
    bare[round] = clock_ns (CLOCK_MONOTONIC) - middle;
    engine[round] = middle - start;
  }
  g_assert_cmpint (latest, ==, simulation->makespan_ns);
  double engine_rate = rate (program->n_steps, engine), bare_rate = rate (program->n_steps, bare);
  printf ("relaxation %-12s p=%u m=%u S=%u %7u ops: %6.1f M ops/s, bare loop %6.1f M ops/s, ratio %.2f\n", name,
          simulation->n_devices, program->schedule->n_microbatches, program->schedule->placement->n_stages,
          program->n_steps, engine_rate, bare_rate, engine_rate / bare_rate);
}

static PsProgram *lower (const PsFamily *family, const PsFamilySetting *setting)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSchedule) schedule = fine (ps_family_generate (family, setting, &error));

  g_assert_true (ps_schedule_validate (schedule, &error));
  return fine (ps_program_lower (g_steal_pointer (&schedule), PS_COMM_ASAP, &error));
}

/* What generating, validating and lowering takes. */
typedef struct {
  guint n_ops;
  gint64 time_ns; /* median */
} Lowered;

static double ns_per_op (Lowered lowered)
{
  return (double)lowered.time_ns / lowered.n_ops;
}

static Lowered time_lowering (const PsFamily *family, guint n_devices, guint n_microbatches, guint n_rounds)
{
  PsFamilySetting setting
      = { .n_devices = n_devices, .n_microbatches = n_microbatches, .n_chunks = family->default_chunks };
  gint64 times[N_ROUNDS];
  Lowered lowered = { 0 };

  for (guint round = 0; round < n_rounds; round++) {
    gint64 start = clock_ns (CLOCK_MONOTONIC);
    g_autoptr (PsProgram) program = lower (family, &setting);

    times[round] = clock_ns (CLOCK_MONOTONIC) - start;
    lowered.n_ops = program->n_steps;
  }
  lowered.time_ns = ps_median (times, n_rounds);
  return lowered;
}

/* 4 times the devices and 8 times the microbatches: 32 times the ops. Work that grows with the ops alone has a ratio of
 * 1; what no longer fits into the nearer caches adds to it, work that grows faster than the ops adds a factor. */
static void bench_lowering (const PsFamily *family)
{
  Lowered small = time_lowering (family, 16, 128, N_ROUNDS), large = time_lowering (family, 64, 1024, 5);

  printf ("generate+validate+lower %-14s p=16 m=128 %6u ops %6.3f ms %5.1f ns/op, p=64 m=1024 %7u ops %7.3f ms %5.1f "
          "ns/op, ratio %.2f\n",
          family->name, small.n_ops, (double)small.time_ns / 1e6, ns_per_op (small), large.n_ops,
          (double)large.time_ns / 1e6, ns_per_op (large), ns_per_op (large) / ns_per_op (small));
}

int main (void)
{
  static const char text[] = "f=10ms,b=9ms,w=7ms,c=400us,act=1GiB,wact=512MiB,weights=10GiB";
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  for (guint i = 0; i < n; i++) {
    PsFamilySetting setting = { .n_devices = 16, .n_microbatches = 128, .n_chunks = families[i]->default_chunks };
    g_autoptr (PsProgram) program = lower (families[i], &setting);
    g_autoptr (PsCosts) costs = ps_costs_parse (text, setting.n_devices, setting.n_chunks, NULL);

    bench_engine (families[i]->name, program, costs);
  }
  for (guint i = 0; i < n; i++)
    bench_lowering (families[i]);
  return 0;
}
