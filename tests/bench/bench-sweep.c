/* bench-sweep.c - predictions per second of a sweep at p=8 m=32: single schedules and settings, then a mixed sweep,
 * alone and into a database on 1, 2, 4, ... threads. Prints medians over rounds: of the thread's processor time alone,
 * because other programs may share its core, and of the clock with several threads; and the part of a sweep's processor
 * time that its predictions take alone. */
#include "bench-clock.h"
#include "error-rig.h"

#include <pipesim/sweep.h>

#include <glib/gstdio.h>
#include <stdio.h>

#define N_ROUNDS 5

static PsSweep *parse (const char *text)
{
  return fine (ps_sweep_parse ("bench", text, strlen (text), &error));
}

/* One thread, no database. */
static double rate_alone (const PsSweep *sweep)
{
  gint64 times[N_ROUNDS];

  for (guint round = 0; round < N_ROUNDS; round++) {
    g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (sweep);
    gint64 start = clock_ns (CLOCK_THREAD_CPUTIME_ID);

    for (guint64 point = 0; point < ps_sweep_n_points (sweep); point++) {
      g_autoptr (PsResult) result = fine (ps_sweep_worker_predict (worker, point, &error));

      g_assert_null (result->reason);
    }
    times[round] = clock_ns (CLOCK_THREAD_CPUTIME_ID) - start;
  }
  return (double)ps_sweep_n_points (sweep) / (double)ps_median (times, N_ROUNDS) * 1e9;
}

/* Everything into a new database. *per_second is by the clock; returns the processor time of one prediction. */
static double store_all (const PsSweep *sweep, guint n_jobs, double *per_second)
{
  g_autofree char *folder = g_dir_make_tmp ("bench-sweep-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "results.db", NULL);
  gint64 times[N_ROUNDS], busy[N_ROUNDS];
  double n = (double)ps_sweep_n_points (sweep);

  for (guint round = 0; round < N_ROUNDS; round++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (PsResults) results = ps_results_open (path, PS_RESULTS_WRITE, &error);
    PsSweepRun run = { .n_jobs = n_jobs, .shard = { 0, 1 } };
    PsSweepProgress progress;
    gint64 start = clock_ns (CLOCK_MONOTONIC), busy_start = clock_ns (CLOCK_PROCESS_CPUTIME_ID);

    g_assert_no_error (error);
    g_assert_true (ps_sweep_run (sweep, results, &run, &progress, &error));
    times[round] = clock_ns (CLOCK_MONOTONIC) - start;
    busy[round] = clock_ns (CLOCK_PROCESS_CPUTIME_ID) - busy_start;
    g_clear_pointer (&results, ps_results_close);
    g_unlink (path);
  }
  g_rmdir (folder);
  *per_second = n / (double)ps_median (times, N_ROUNDS) * 1e9;
  return (double)ps_median (busy, N_ROUNDS) / 1e9 / n;
}

#define SIZE "[sweep]\ndevices = 8\nmicrobatches = 32\n"
#define COSTS "costs = f=1ms,b=1ms,w=1ms,c=100us,act=2MiB,wact=1MiB\nbandwidth-factor = 0.01..5 step 0.01\n"

static void bench_schedule (const char *schedule)
{
  g_autofree char *text = g_strdup_printf (SIZE COSTS "schedule = %s\n", schedule);
  g_autoptr (PsSweep) sweep = parse (text);

  printf ("%-14s p=8 m=32: %8.0f predictions/s\n", schedule, rate_alone (sweep));
}

int main (void)
{
  static const struct {
    const char *what, *text;
  } kinds[] = {
    { "given costs", SIZE COSTS "schedule = gpipe, 1f1b, zb-h1, zb-h2, dualpipe, interleaved, zb-v, v-half\n" },
    { "modelled costs", SIZE "schedule = gpipe, 1f1b, zb-h1, zb-h2, dualpipe, interleaved, zb-v, v-half\n"
                             "model = gpt-1.5b\ncluster = h100-80gb\nbandwidth-factor = 0.01..5 step 0.01\n" },
    { "modelled, one each", SIZE "schedule = 1f1b\nmodel = gpt-1.5b\ncluster = h100-80gb\n"
                                 "bandwidth-factor = 0.01..5 step 0.01\n" },
    { "channels",
      SIZE COSTS "schedule = gpipe, 1f1b, zb-h1, zb-h2, dualpipe, interleaved, zb-v, v-half\ncomm = direction\n" },
    { "bypass",
      SIZE COSTS "schedule = gpipe, 1f1b, zb-h1, zb-h2, dualpipe, interleaved, zb-v, v-half\nsync = bypass\n" },
  };
  g_autoptr (PsSweep) mixed = parse (kinds[0].text);
  guint n;
  const PsFamily *const *families = ps_family_table (&n);

  ps_keep_memory ();
  for (guint i = 0; i < n; i++)
    bench_schedule (families[i]->name);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++) {
    g_autoptr (PsSweep) sweep = parse (kinds[i].text);

    printf ("%-19s p=8 m=32: %8.0f predictions/s\n", kinds[i].what, rate_alone (sweep));
  }
  for (guint jobs = 1; jobs <= g_get_num_processors (); jobs *= 2) {
    double alone = 1 / rate_alone (mixed), rate, busy = store_all (mixed, jobs, &rate);

    printf ("into a database, %u threads: %8.0f predictions/s, %.2f of the processor time is the predictions'\n", jobs,
            rate, alone / busy);
  }
  return 0;
}
