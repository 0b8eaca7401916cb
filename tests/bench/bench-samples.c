/* bench-samples.c - samples of varying costs, drawn and evaluated: ops per second on one core, where devices meet at
 * the optimizer and where they do not; and one program of 25 million ops. Prints medians of processor time. */
#include "bench-clock.h"
#include "lower.h"

#include <pipesim/answer.h>

#include <stdio.h>
#include <sys/resource.h>

#define N_ROUNDS 5
#define N_SAMPLES 512

static void bench_samples (const char *name, PsSync sync)
{
  g_autoptr (PsProgram) program = lower_family (name, 16, 128, 2);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=1ms,b=900us,w=700us,c=40us", 16, 2, NULL);
  PsUncertainty uncertainty = { .jitter = 0.05 };
  PsSampling sampling = { .n_samples = N_SAMPLES, .seed = 1, .n_jobs = 1, .sync = sync };
  gint64 times[N_ROUNDS];

  for (guint round = 0; round < N_ROUNDS; round++) {
    gint64 start = clock_ns (CLOCK_PROCESS_CPUTIME_ID);

    g_free (ps_uncertainty_sample (program, costs, &uncertainty, &sampling, NULL));
    times[round] = clock_ns (CLOCK_PROCESS_CPUTIME_ID) - start;
  }
  double time_ns = (double)ps_median (times, N_ROUNDS);
  printf (
      "samples %-16s sync %s, %u ops, jitter of every op and transfer: %.1f M op-samples/s, 10000 samples in %.2f s\n",
      name, ps_sync_name (sync), program->n_steps, (double)program->n_steps * N_SAMPLES / time_ns * 1e3,
      time_ns / 1e9 * 10000 / N_SAMPLES);
}

/* 25 million ops: the evaluation apart from what is done once. */
static void bench_large (const char *name)
{
  gint64 times[3], start = clock_ns (CLOCK_PROCESS_CPUTIME_ID);
  g_autoptr (PsProgram) program = lower_family (name, 1024, 4096, 2);
  gint64 lowered = clock_ns (CLOCK_PROCESS_CPUTIME_ID);
  g_autoptr (PsCosts) costs = ps_costs_parse ("f=10ms,b=9ms,w=7ms,c=400us,act=1GiB,wact=512MiB", 1024, 2, NULL);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  struct rusage usage;

  for (guint i = 0; i < G_N_ELEMENTS (times); i++) {
    gint64 begin = clock_ns (CLOCK_PROCESS_CPUTIME_ID);

    ps_simulate (program, costs, simulation);
    times[i] = clock_ns (CLOCK_PROCESS_CPUTIME_ID) - begin;
  }
  getrusage (RUSAGE_SELF, &usage);
  printf ("%s p=1024 m=4096 v=2 %u ops: generate and lower %.2f s, ps_simulate %.3f s, most memory %.2f GiB\n", name,
          program->n_steps, (double)(lowered - start) / 1e9, (double)ps_median (times, G_N_ELEMENTS (times)) / 1e9,
          (double)usage.ru_maxrss / (1 << 20));
}

int main (void)
{
  bench_samples ("interleaved-zb", PS_SYNC_GLOBAL);
  bench_samples ("interleaved", PS_SYNC_GLOBAL);
  bench_samples ("interleaved-zb", PS_SYNC_BYPASS);
  bench_large ("interleaved-zb");
  return 0;
}
