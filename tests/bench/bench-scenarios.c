/* bench-scenarios.c - op-scenarios per second of the scenario engine against a bare vector loop of the same recurrence
 * in the same process, for both widths and with a time of its own for every op; and one program of 25 million ops.
 * Prints medians over rounds that alternate, of processor time: all runs on one core. */
#include "bench-clock.h"
#include "lower.h"

#include <pipesim/answer.h>

#include <stdio.h>
#include <sys/resource.h>

#define N_ROUNDS 11
#define N_SCENARIOS 2048
#define LANES 16

/* The recurrence and nothing else, one vector of scenarios: costs packed, end times of all ops kept. */
typedef struct
{
  guint32 input;
  guint32 device;
  guint32 transfer;
  guint32 op;
} BareStep;

#ifdef __clang__
#define LANES_ARE_INDEPENDENT _Pragma ("clang loop vectorize(assume_safety) unroll(disable)")
#else
#define LANES_ARE_INDEPENDENT _Pragma ("GCC ivdep") _Pragma ("GCC unroll 1")
#endif

#define DEFINE_BARE_LOOP(name, type, attribute)                                                                        \
  attribute static void name (const BareStep *steps, guint n, gpointer ends, gpointer clocks, gconstpointer ops,       \
                              gconstpointer transfers)                                                                 \
  {                                                                                                                    \
    for (guint i = 0; i < n; i++)                                                                                      \
      {                                                                                                                \
        type *restrict end = (type *)ends + (gsize)(i + 1) * LANES;                                                    \
        type *restrict clock = (type *)clocks + (gsize)steps[i].device * LANES;                                        \
        const type *restrict input = (const type *)ends + (gsize)steps[i].input * LANES;                               \
        const type *restrict transfer = (const type *)transfers + (gsize)steps[i].transfer * LANES;                    \
        const type *restrict op = (const type *)ops + (gsize)steps[i].op * LANES;                                      \
        LANES_ARE_INDEPENDENT                                                                                          \
        for (guint k = 0; k < LANES; k++)                                                                              \
          clock[k] = end[k] = MAX (clock[k], input[k] + transfer[k]) + op[k];                                          \
      }                                                                                                                \
  }

typedef void (*BareLoop) (const BareStep *steps, guint n, gpointer ends, gpointer clocks, gconstpointer ops,
                          gconstpointer transfers);

DEFINE_BARE_LOOP (bare_32_portable, guint32, )
DEFINE_BARE_LOOP (bare_64_portable, gint64, )
#ifdef __x86_64__
DEFINE_BARE_LOOP (bare_32_avx2, guint32, __attribute__ ((target ("avx2"))))
DEFINE_BARE_LOOP (bare_64_avx2, gint64, __attribute__ ((target ("avx2"))))
DEFINE_BARE_LOOP (bare_32_avx512, guint32, __attribute__ ((target ("avx512f,avx512bw,avx512dq,avx512vl"))))
DEFINE_BARE_LOOP (bare_64_avx512, gint64, __attribute__ ((target ("avx512f,avx512bw,avx512dq,avx512vl"))))
static const BareLoop bare_loops[PS_N_KERNELS][2]
    = { { bare_32_portable, bare_64_portable }, { bare_32_avx2, bare_64_avx2 }, { bare_32_avx512, bare_64_avx512 } };
#else
static const BareLoop bare_loops[PS_N_KERNELS][2] = { { bare_32_portable, bare_64_portable } };
#endif

static BareStep *
bare_steps (const PsRecurrence *recurrence)
{
  BareStep *steps = g_new (BareStep, recurrence->n_steps);

  for (guint i = 0; i < recurrence->n_steps; i++)
    steps[i] = (BareStep){ recurrence->program->steps[i].input, recurrence->program->steps[i].device,
                           recurrence->steps[i].transfer, recurrence->steps[i].op };
  return steps;
}

/* Times of N_SCENARIOS scenarios in blocks; the costs of one block serve all. */
static gint64
time_bare (const PsRecurrence *recurrence, const BareStep *steps, const PsScenarios *scenarios, gboolean wide)
{
  gsize size = wide ? sizeof (gint64) : sizeof (guint32);
  guint n_devices = recurrence->program->schedule->placement->n_devices;
  BareLoop loop = bare_loops[scenarios->kernel][wide];
  gpointer ends = g_aligned_alloc0 (recurrence->n_steps + 1, LANES * size, 64);
  gpointer clocks = g_aligned_alloc0 (n_devices, LANES * size, 64);
  gpointer ops = g_aligned_alloc0 (recurrence->n_op_classes, LANES * size, 64);
  gpointer transfers = g_aligned_alloc0 (recurrence->n_transfer_classes, LANES * size, 64);

  for (gsize i = 0; i < (gsize)recurrence->n_op_classes * LANES; i++)
    if (wide)
      ((gint64 *)ops)[i] = scenarios->op_ns[i / LANES * scenarios->n + i % LANES];
    else
      ((guint32 *)ops)[i] = (guint32)scenarios->op_ns[i / LANES * scenarios->n + i % LANES];
  gint64 start = clock_ns (CLOCK_PROCESS_CPUTIME_ID);
  for (guint i = 0; i < N_SCENARIOS; i += LANES)
    loop (steps, recurrence->n_steps, ends, clocks, ops, transfers);
  gint64 time = clock_ns (CLOCK_PROCESS_CPUTIME_ID) - start;
  g_aligned_free (ends);
  g_aligned_free (clocks);
  g_aligned_free (ops);
  g_aligned_free (transfers);
  return time;
}

/* Durations that cost next to nothing to make, so that the engine is what is timed. */
static void
fill_from_classes (gpointer data, guint first_step, guint n_steps, guint first, gpointer durations, gpointer transfers)
{
  const PsScenarios *scenarios = data;
  gint64 *duration_ns = durations, *transfer_ns = transfers;

  for (guint i = 0; i < n_steps; i++)
    {
      const PsScenarioStep *step = &scenarios->recurrence->steps[first_step + i];
      gint64 op = scenarios->op_ns[(gsize)step->op * scenarios->n],
             transfer = scenarios->transfer_ns[(gsize)step->transfer * scenarios->n];

      for (guint k = 0; k < PS_SCENARIO_LANES; k++)
        {
          duration_ns[i * PS_SCENARIO_LANES + k] = op;
          transfer_ns[i * PS_SCENARIO_LANES + k] = transfer;
        }
    }
}

typedef enum
{
  NARROW,
  WIDE,
  STEPS,
  N_FORMS
} Form;

/* 2^32 + 1 ns in one class need 64 bits. */
static void
set_costs (PsScenarios *scenarios, const PsCosts *costs, Form form)
{
  for (guint i = 0; i < scenarios->n; i++)
    ps_scenarios_set_costs (scenarios, i, costs);
  for (guint i = 0; i < scenarios->n; i++)
    scenarios->op_ns[scenarios->n + i] += i + (form == WIDE ? G_MAXUINT32 : 0);
}

static gint64
time_engine (PsScenarios *scenarios, Form form)
{
  gint64 start = clock_ns (CLOCK_PROCESS_CPUTIME_ID);

  if (form == STEPS)
    ps_scenarios_run_steps (scenarios, 64, fill_from_classes, scenarios);
  else
    ps_scenarios_run (scenarios);
  return clock_ns (CLOCK_PROCESS_CPUTIME_ID) - start;
}

static void
bench_form (const char *name, PsScenarios *scenarios, const PsCosts *costs, Form form)
{
  static const char *const forms[] = { "cost vectors, 32 bits", "cost vectors, 64 bits", "a time per op, 64 bits" };
  const PsRecurrence *recurrence = scenarios->recurrence;
  g_autofree BareStep *steps = bare_steps (recurrence);
  gint64 engine[N_ROUNDS], bare[N_ROUNDS];
  double work = (double)recurrence->n_steps * N_SCENARIOS;

  set_costs (scenarios, costs, form);
  for (guint round = 0; round < N_ROUNDS; round++)
    {
      engine[round] = time_engine (scenarios, form);
      bare[round] = time_bare (recurrence, steps, scenarios, form != NARROW);
    }
  double engine_rate = work / (double)ps_median (engine, N_ROUNDS),
         bare_rate = work / (double)ps_median (bare, N_ROUNDS);
  g_assert_cmpuint (scenarios->bits, ==, form == NARROW ? 32 : 64);
  printf (
      "scenarios %-14s p=%u m=%u S=%u %u ops, %u slots, %s, %s: %.2f G op-scenarios/s, bare loop %.2f, ratio %.2f\n",
      name, recurrence->program->schedule->placement->n_devices, recurrence->program->schedule->n_microbatches,
      recurrence->program->schedule->placement->n_stages, recurrence->n_steps, recurrence->n_slots,
      ps_kernel_name (scenarios->kernel), forms[form], engine_rate, bare_rate, engine_rate / bare_rate);
}

/* Drawing and evaluating, one thread. */
static void
bench_samples (const char *name, const PsProgram *program, const PsCosts *costs)
{
  PsUncertainty uncertainty = { .jitter = 0.05 };
  PsSampling sampling = { .n_samples = N_SCENARIOS, .seed = 1, .n_jobs = 1 };
  gint64 times[N_ROUNDS];

  for (guint round = 0; round < N_ROUNDS; round++)
    {
      gint64 start = clock_ns (CLOCK_PROCESS_CPUTIME_ID);

      g_free (ps_uncertainty_sample (program, costs, &uncertainty, &sampling, NULL));
      times[round] = clock_ns (CLOCK_PROCESS_CPUTIME_ID) - start;
    }
  printf ("samples %-16s %u ops, jitter of every op and transfer: %.1f M op-samples/s, 10000 samples in %.2f s\n", name,
          program->n_steps, (double)program->n_steps * N_SCENARIOS / (double)ps_median (times, N_ROUNDS) * 1e3,
          (double)ps_median (times, N_ROUNDS) / 1e9 * 10000 / N_SCENARIOS);
}

static void
bench_family (const char *name, guint v)
{
  g_autoptr (PsProgram) program = lower_family (name, 16, 128, v);
  g_autoptr (PsRecurrence) recurrence = ps_recurrence_new (program);
  g_autoptr (PsScenarios) scenarios = ps_scenarios_new (recurrence, N_SCENARIOS);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=900us,w=700us,c=40us", 16, v, NULL);

  for (guint kernel = 0; kernel < PS_N_KERNELS; kernel++)
    for (guint form = 0; form < N_FORMS; form++)
      if (ps_kernel_is_available (kernel))
        {
          scenarios->kernel = kernel;
          bench_form (name, scenarios, costs, form);
        }
  bench_samples (name, program, costs);
}

/* 25 million ops: the evaluation apart from what is done once. */
static void
bench_large (const char *name)
{
  gint64 times[3], start = clock_ns (CLOCK_PROCESS_CPUTIME_ID);
  g_autoptr (PsProgram) program = lower_family (name, 1024, 4096, 2);
  gint64 lowered = clock_ns (CLOCK_PROCESS_CPUTIME_ID);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=10ms,b=9ms,w=7ms,c=400us,act=1GiB,wact=512MiB", 1024, 2, NULL);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  struct rusage usage;

  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    {
      gint64 begin = clock_ns (CLOCK_PROCESS_CPUTIME_ID);

      ps_simulate (program, costs, simulation);
      times[i] = clock_ns (CLOCK_PROCESS_CPUTIME_ID) - begin;
    }
  getrusage (RUSAGE_SELF, &usage);
  printf ("%s p=1024 m=4096 v=2 %u ops: generate and lower %.2f s, ps_simulate %.3f s, most memory %.2f GiB\n", name,
          program->n_steps, (double)(lowered - start) / 1e9, (double)ps_median (times, G_N_ELEMENTS (times)) / 1e9,
          (double)usage.ru_maxrss / (1 << 20));
}

int
main (void)
{
  bench_family ("interleaved-zb", 2);
  bench_family ("interleaved", 2);
  bench_large ("interleaved-zb");
  return 0;
}
