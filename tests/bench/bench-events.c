/* bench-events.c - ops per second of the events engine for each channel model and each thing that makes times depend on
 * what else goes on, against the relaxation engine in the same process. Prints medians over rounds that alternate, of
 * the thread's processor time: other programs may share its core. */
#include "bench-clock.h"

#include <pipesim/simulate.h>
#include <pipesim/schedule.h>

#include <stdio.h>

#define N_ROUNDS 15
#define N_REPEATS 10

static PsProgram *lower (const char *family, PsCommOrder order)
{
  g_autoptr (GError) error = NULL;
  PsFamilySetting setting = { .n_devices = 16, .n_microbatches = 128, .n_chunks = 2 };
  PsProgram *program = ps_program_lower (ps_family_generate (ps_family_find (family), &setting, &error), order, &error);

  g_assert_no_error (error);
  return program;
}

static void bench (const char *family, const char *name, const PsProgram *program, const PsCosts *costs,
                   const PsEventsSetting *setting)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  g_autoptr (PsEvents) events = ps_events_new (program, costs, setting, &error);
  gint64 times[N_ROUNDS], plain[N_ROUNDS];

  g_assert_no_error (error);
  for (guint round = 0; round < N_ROUNDS; round++) {
    gint64 start = clock_ns (CLOCK_THREAD_CPUTIME_ID);

    for (guint i = 0; i < N_REPEATS; i++)
      if (!ps_events_run (events, costs, simulation, &error))
        g_error ("%s", error->message);
    times[round] = clock_ns (CLOCK_THREAD_CPUTIME_ID) - start;
    gint64 makespan = simulation->makespan_ns;
    start = clock_ns (CLOCK_THREAD_CPUTIME_ID);
    for (guint i = 0; i < N_REPEATS; i++)
      ps_simulate (program, costs, simulation);
    plain[round] = clock_ns (CLOCK_THREAD_CPUTIME_ID) - start;
    g_assert_cmpint (setting->ready_order ? G_MAXINT64 : makespan, >=, simulation->makespan_ns);
  }
  double n = (double)program->n_steps * N_REPEATS * 1e3;
  printf ("events %-14s %-24s %6u ops: %6.1f M ops/s; relaxation engine %6.1f M ops/s\n", family, name,
          program->n_steps, n / (double)ps_median (times, N_ROUNDS), n / (double)ps_median (plain, N_ROUNDS));
}

/* Whatever makes times depend on what else goes on: events in the order of time. */
static void bench_by_time (const char *family, const PsProgram *program, const PsCosts *costs)
{
  const PsCluster cluster = { .nodes = 2,
                              .devices_per_node = 8,
                              .link_latency_ns = 5000,
                              .link_bandwidth = 1e12,
                              .network_latency_ns = 5000,
                              .network_bandwidth = 40e9,
                              .network_shared = TRUE };
  PsCluster crowded = cluster; /* a transfer fills its link: two at once share it on every device */

  crowded.link_bandwidth = 42e9;
  bench (family, "rank, slow-down 1.1", program, costs,
         &(PsEventsSetting){ .comm = PS_CHANNEL_RANK, .overlap_slowdown = 1.1 });
  bench (family, "pair, shared links", program, costs,
         &(PsEventsSetting){ .comm = PS_CHANNEL_PAIR, .links = &cluster });
  bench (family, "pair, crowded links", program, costs,
         &(PsEventsSetting){ .comm = PS_CHANNEL_PAIR, .links = &crowded });
  bench (family, "rank, ready order 8", program, costs,
         &(PsEventsSetting){ .comm = PS_CHANNEL_RANK, .ready_order = 8 });
}

static void bench_plan (const char *family, const PsCosts *costs)
{
  gint64 times[N_ROUNDS];
  const PsEventsSetting setting = { .comm = PS_CHANNEL_RANK };

  for (guint round = 0; round < N_ROUNDS; round++) {
    g_autoptr (PsProgram) program = lower (family, PS_COMM_ASAP);
    gint64 start = clock_ns (CLOCK_THREAD_CPUTIME_ID);

    g_assert_true (ps_events_plan (program, costs, &setting, NULL));
    times[round] = clock_ns (CLOCK_THREAD_CPUTIME_ID) - start;
  }
  printf ("plan   %-14s rank: %.2f ms\n", family, (double)ps_median (times, N_ROUNDS) / 1e6);
}

int main (void)
{
  static const char *const families[] = { "interleaved", "interleaved-zb", "zb-v", "dualpipe-v" };
  static const char text[] = "f=10ms,b=9ms,w=7ms,c=400us,msg=16MiB,act=1GiB,wact=512MiB,weights=10GiB";

  for (guint i = 0; i < G_N_ELEMENTS (families); i++) {
    g_autoptr (PsProgram) program = lower (families[i], PS_COMM_ASAP);
    g_autoptr (PsCosts) costs = ps_costs_parse (text, 16, 2, NULL);
    guint n_channels;

    ps_channel_table (&n_channels);
    for (guint channel = 0; channel < n_channels; channel++)
      bench (families[i], ps_channel_name ((PsChannel)channel), program, costs,
             &(PsEventsSetting){ .comm = (PsChannel)channel });
    bench (families[i], "rank, blocking", program, costs,
           &(PsEventsSetting){ .comm = PS_CHANNEL_RANK, .blocking = TRUE });
    bench (families[i], "rank, eager", program, costs,
           &(PsEventsSetting){ .comm = PS_CHANNEL_RANK, .eager_bytes = 16 << 20 });
    bench_by_time (families[i], program, costs);
    bench_plan (families[i], costs);
  }
  return 0;
}
