/* bench-growth.c - how the time of each kind of work grows with its size, beside the order that it should have. Prints
 * a table; writes FILE for growth.gp: a block per curve, its first row a title, then size, seconds, and seconds by the
 * order through the first point. */
#include "bench-clock.h"
#include "error-rig.h"

#include <pipesim/pipesim.h>

#include <math.h>
#include <stdio.h>

#define N_ROUNDS 5
#define MAX_SIZES 10
#define COSTS "f=10ms,b=9ms,w=7ms,c=400us,act=1GiB,wact=512MiB"

/* Generates, validates, lowers and simulates one schedule. */
static void predict (guint p, guint m, guint v)
{
  g_autoptr (GError) error = NULL;
  PsFamilySetting setting = { .n_devices = p, .n_microbatches = m, .n_chunks = v };
  g_autoptr (PsSchedule) schedule = ps_family_generate (ps_family_find ("interleaved-zb"), &setting, &error);
  gboolean valid = schedule != NULL && ps_schedule_validate (schedule, &error);
  g_autoptr (PsProgram) program
      = valid ? ps_program_lower_steps (g_steal_pointer (&schedule), PS_COMM_ASAP, &error) : NULL;
  g_autoptr (PsCosts) costs = ps_costs_parse (COSTS, p, v, NULL);

  g_assert_no_error (error);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  ps_simulate (program, costs, simulation);
}

static void grow_devices (guint n)
{
  predict (n, 1024, 2);
}

static void grow_microbatches (guint n)
{
  predict (16, n, 2);
}

static void grow_chunks (guint n)
{
  predict (16, 1024, n);
}

/* Cuts 16 layers for each stage. */
static void grow_stages (guint n)
{
  g_autoptr (PsLayers) layers = ps_layers_new (16 * n);
  g_autofree PsLink *links = g_new (PsLink, n);
  g_autoptr (GError) error = NULL;
  PsPartitionSetting setting = { .layers = layers, .n_devices = n, .n_chunks = 1, .links = links };

  layers->source = g_strdup ("layers of 1000 lengths");
  for (guint i = 0; i < layers->n_layers; i++) {
    PsLayer *layer = &layers->layers[i];

    layer->forward_ns = layer->backward_ns = layer->weight_ns = 1 + i * 7919 % 1000;
    layer->full_backward_ns = 2 * layer->forward_ns;
    layer->time_ns = 3 * layer->forward_ns;
    layer->output_bytes = 1 << 20;
  }
  for (guint d = 0; d < n; d++)
    links[d] = (PsLink){ .latency_ns = 50, .bandwidth = 50e12 };
  g_autoptr (PsPartition) partition = ps_partition (ps_partitioner_find ("bottleneck"), &setting, &error);
  g_assert_nonnull (partition);
}

/* Predicts so many bandwidths, without a database. */
static void grow_settings (guint n)
{
  g_autofree char *text = g_strdup_printf ("[sweep]\ndevices = 8\nmicrobatches = 32\ncosts = " COSTS "\n"
                                           "schedule = zb-h1\nbandwidth-factor = 1..%u step 1\n",
                                           n);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsSweep) sweep = ps_sweep_parse ("bench", text, strlen (text), &error);
  g_autoptr (PsSweepWorker) worker = ps_sweep_worker_new (sweep);

  for (guint64 point = 0; point < ps_sweep_n_points (sweep); point++) {
    g_autoptr (PsResult) result = fine (ps_sweep_worker_predict (worker, point, &error));

    g_assert_nonnull (result);
  }
}

static void grow_samples (guint n)
{
  g_autoptr (GError) error = NULL;
  PsFamilySetting family = { .n_devices = 8, .n_microbatches = 32, .n_chunks = 1 };
  PsSchedule *schedule = ps_family_generate (ps_family_find ("zb-h1"), &family, &error);
  g_autoptr (PsProgram) program = ps_program_lower_steps (schedule, PS_COMM_ASAP, &error);
  g_autoptr (PsCosts) costs = ps_costs_parse (COSTS, 8, 1, NULL);
  PsUncertainty uncertainty = { .jitter = 0.05 };
  PsSampling sampling = { .n_samples = n, .seed = 1, .n_jobs = 1 };

  g_assert_no_error (error);
  g_free (ps_uncertainty_sample (program, costs, &uncertainty, &sampling, NULL));
}

typedef struct {
  const char *name;
  const char *work;
  const char *order;
  void (*run) (guint n);
  guint from, to, factor;
  guint power; /* of n, that the time grows with */
} Curve;

static const Curve curves[] = {
  { "devices p", "predict, m=1024 v=2", "p", grow_devices, 4, 1024, 4, 1 },
  { "microbatches m", "predict, p=16 v=2", "m", grow_microbatches, 64, 65536, 4, 1 },
  { "chunks v", "predict, p=16 m=1024", "v", grow_chunks, 1, 64, 2, 1 },
  { "stages S", "partition of 16 S layers", "S^2", grow_stages, 8, 512, 2, 2 },
  { "settings n", "sweep, p=8 m=32", "n", grow_settings, 100, 100000, 10, 1 },
  { "samples n", "jitter, p=8 m=32", "n", grow_samples, 100, 100000, 10, 1 },
};

/* The least of several rounds, and of small sizes several runs a round: other work on the machine only adds. */
static double least_seconds (const Curve *curve, guint n)
{
  gint64 least = G_MAXINT64;

  for (guint round = 0; round < N_ROUNDS; round++) {
    gint64 start = clock_ns (CLOCK_PROCESS_CPUTIME_ID), elapsed;
    guint runs = 0;

    do {
      curve->run (n);
      runs++;
      elapsed = clock_ns (CLOCK_PROCESS_CPUTIME_ID) - start;
    } while (elapsed < 5000000);
    least = MIN (least, elapsed / runs);
  }
  return (double)least / 1e9;
}

static void measure (const Curve *curve, FILE *file)
{
  double first = 0, seconds = 0;

  fprintf (file, "\"%s\" \"%s: order %s\"\n", curve->name, curve->work, curve->order);
  for (guint64 n = curve->from; n <= curve->to; n *= curve->factor) {
    double order = pow ((double)n / curve->from, curve->power);

    seconds = least_seconds (curve, (guint)n);
    first = n == curve->from ? seconds : first;
    printf ("growth %-15s %-25s %6u: %10.6f s, %5.2f of order %s\n", curve->name, curve->work, (guint)n, seconds,
            seconds / first / order, curve->order);
    fprintf (file, "%u %.9f %.9f\n", (guint)n, seconds, first * order);
  }
  fprintf (file, "\n\n");
}

int main (int argc, char **argv)
{
  FILE *file = fopen (argc > 1 ? argv[1] : "/dev/null", "w");

  g_assert_nonnull (file);
  for (guint i = 0; i < G_N_ELEMENTS (curves); i++)
    measure (&curves[i], file);
  fclose (file);
  return 0;
}
