/* uncertainty.c - samples of the iteration time. Durations are drawn tile by tile for a block of samples; threads take
 * blocks in turn. */
#include "steady.h"

#include "simulate/rounds.h"

#include <string.h>

#define LANES PS_SCENARIO_LANES
#define BATCH (16 * LANES) /* most samples that a thread takes at a time, unless it takes PS_STEADY_BLOCK */

/* Shared by all threads, which only read it. Each thread writes its own results. */
typedef struct
{
  const PsRecurrence *recurrence;
  const PsCosts *costs;
  const PsSampling *sampling;
  PsDraws draws;
  gboolean is_steady;
  PsSteadyRecurrence *round; /* NULL: the makespan alone decides when a sample is over */
  PsSteady steady;
  gint64 *optimizer_ns; /* [n_devices] O at the costs */
  guint batch;
  gint64 *samples_ns;
} Run;

static void
run_clear (Run *run)
{
  ps_draws_clear (&run->draws);
  ps_steady_clear (&run->steady);
  ps_steady_recurrence_free (run->round);
  g_free (run->optimizer_ns);
  g_free (run->samples_ns);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Run, run_clear)

/* One thread. */
typedef struct
{
  const Run *run;
  guint index;
  guint first; /* sample of the batch's first lane */
  PsLuck luck;
  PsScenarios *scenarios; /* NULL if the events engine or rounds run */
  PsEvents *events;       /* NULL if it is not used */
  PsSimulation *simulation;
  gint64 *durations; /* [n_steps][LANES], then [n_steps] of one lane; this and the next two for events only */
  gint64 *transfers;
  gint64 *ready_ns;           /* [n_devices], or [LANES][n_devices] if devices never meet */
  gint64 optimizer_ns[BATCH]; /* of the device whose O takes longest; events do without */
  GError *error;
} Job;

static guint
n_devices (const Run *run)
{
  return run->recurrence->program->schedule->placement->n_devices;
}

/* Of the lanes that luck is at: those from `first` on. */
static void
find_optimizer (Job *job, guint first)
{
  for (guint lane = 0; lane < LANES; lane++)
    {
      gint64 *longest = &job->optimizer_ns[first + lane];

      *longest = 0;
      for (guint d = 0; d < n_devices (job->run); d++)
        *longest = MAX (*longest, ps_luck_optimizer (&job->luck, d, lane, job->run->optimizer_ns[d]));
    }
}

static void
fill (gpointer data, guint first_step, guint n_steps, guint first, gpointer durations, gpointer transfers)
{
  Job *job = data;

  if (first_step == 0)
    {
      ps_luck_begin (&job->luck, job->first + first, 0);
      find_optimizer (job, first);
    }
  ps_luck_steps (&job->luck, first_step, n_steps, durations, transfers);
}

/* Threads */

static void
keep (const Job *job, guint lane, gint64 ns)
{
  guint sample = job->first + lane;

  if (sample < job->run->sampling->n_samples)
    job->run->samples_ns[sample] = ns;
}

/* The events engine takes one sample at a time. */
static gboolean
run_lane (Job *job, guint lane)
{
  gsize n = job->run->recurrence->n_steps;

  for (gsize i = 0; i < n; i++)
    {
      job->durations[n * LANES + i] = job->durations[i * LANES + lane];
      job->transfers[n * LANES + i] = job->transfers[i * LANES + lane];
    }
  if (!ps_events_run (job->events, job->run->costs, job->simulation, &job->error))
    return FALSE;
  job->simulation->optimizer_ns = 0;
  for (guint d = 0; d < n_devices (job->run); d++)
    {
      gint64 *optimizer_ns = &job->simulation->device[d].optimizer_ns;

      *optimizer_ns = ps_luck_optimizer (&job->luck, d, lane, job->run->optimizer_ns[d]);
      job->simulation->optimizer_ns = MAX (job->simulation->optimizer_ns, *optimizer_ns);
    }
  return TRUE;
}

static gboolean
run_events (Job *job, guint first)
{
  const Run *run = job->run;
  const PsRecurrence *recurrence = run->recurrence;
  PsIteration iteration;

  fill (job, 0, recurrence->n_steps, first, job->durations, job->transfers);
  for (guint lane = 0; lane < LANES; lane++)
    {
      if (!run_lane (job, lane)
          || !ps_iteration_events (recurrence->program, run->costs, job->simulation, run->sampling->events,
                                   PS_SYNC_GLOBAL, run->sampling->reduce, &iteration, &job->error))
        return FALSE;
      keep (job, first + lane, iteration.period_ns);
    }
  return TRUE;
}

/* One iteration of a block's runs, each from the ready times that the one before left. iteration_ns: from when the last
 * device was ready for it until the last one is ready for the next. */
static gboolean
run_round (Job *job, guint first, guint before, gint64 *iteration_ns)
{
  const Run *run = job->run;
  const PsProgram *program = run->recurrence->program;
  guint p = program->schedule->placement->n_devices;

  ps_luck_begin (&job->luck, first, before);
  ps_luck_steps (&job->luck, 0, program->n_steps, job->durations, job->transfers);
  for (guint lane = 0; lane < LANES; lane++)
    {
      gint64 *ready = &job->ready_ns[(gsize)(lane + 1) * p], last = 0, next = 0;

      memcpy (job->ready_ns, ready, p * sizeof *ready);
      if (!run_lane (job, lane))
        return FALSE;
      for (guint device = 0; device < p; device++)
        last = MAX (last, ready[device]);
      iteration_ns[lane] = ps_rounds_advance (program, run->costs, job->simulation, run->sampling->reduce, ready);
      for (guint device = 0; device < p; device++)
        next = MAX (next, ready[device]);
      iteration_ns[lane] += next - last;
    }
  return TRUE;
}

#define WARM_UP 64 /* iterations that start from rest and are no samples */

static gboolean
run_steady_events (Job *job)
{
  guint p = job->run->recurrence->program->schedule->placement->n_devices;
  gint64 iteration_ns[LANES];

  memset (job->ready_ns, 0, (gsize)p * (LANES + 1) * sizeof *job->ready_ns);
  for (guint before = WARM_UP; before > 0; before--)
    if (!run_round (job, job->first, before, iteration_ns))
      return FALSE;
  for (guint i = 0; i < PS_STEADY_ITERATIONS; i++)
    {
      if (!run_round (job, job->first + i * LANES, 0, iteration_ns))
        return FALSE;
      for (guint lane = 0; lane < LANES; lane++)
        keep (job, i * LANES + lane, iteration_ns[lane]);
    }
  return TRUE;
}

static void
run_steady (Job *job)
{
  gint64 iteration_ns[PS_STEADY_BLOCK];

  ps_steady_run (&job->run->steady, &job->luck, job->first, iteration_ns);
  for (guint i = 0; i < PS_STEADY_BLOCK; i++)
    keep (job, i, iteration_ns[i]);
}

/* The last all-reduce may end on a device that was not the last to compute. */
static void
run_reduced (Job *job)
{
  gint64 reduced_ns[LANES];

  for (guint first = 0; first < job->run->batch; first += LANES)
    {
      ps_steady_run_single (&job->run->steady, &job->luck, job->first + first, reduced_ns);
      find_optimizer (job, first);
      for (guint lane = 0; lane < LANES; lane++)
        keep (job, first + lane, reduced_ns[lane] + job->optimizer_ns[first + lane]);
    }
}

static void
run_scenarios (Job *job)
{
  ps_scenarios_run_steps (job->scenarios, job->run->draws.bits, fill, job);
  for (guint lane = 0; lane < job->run->batch; lane++)
    keep (job, lane, job->scenarios->makespan_ns[lane] + job->optimizer_ns[lane]);
}

static gboolean
run_all_events (Job *job)
{
  for (guint first = 0; first < job->run->batch && job->first + first < job->run->sampling->n_samples; first += LANES)
    if (!run_events (job, first))
      return FALSE;
  return TRUE;
}

static gboolean
run_batch (Job *job)
{
  if (job->events != NULL)
    return job->run->is_steady ? run_steady_events (job) : run_all_events (job);
  if (job->run->is_steady)
    run_steady (job);
  else if (job->run->round != NULL)
    run_reduced (job);
  else
    run_scenarios (job);
  return TRUE;
}

static gpointer
run_job (gpointer data)
{
  Job *job = data;
  const PsSampling *sampling = job->run->sampling;
  gboolean done = TRUE;

  for (guint batch = job->index; done && (guint64)batch * job->run->batch < sampling->n_samples;
       batch += sampling->n_jobs)
    {
      job->first = batch * job->run->batch;
      done = run_batch (job);
    }
  return NULL;
}

static void
job_clear (gpointer data)
{
  Job *job = data;

  ps_scenarios_free (job->scenarios);
  ps_events_free (job->events);
  ps_simulation_free (job->simulation);
  ps_luck_clear (&job->luck);
  g_free (job->durations);
  g_free (job->transfers);
  g_free (job->ready_ns);
  g_clear_error (&job->error);
}

static gboolean
job_init (Job *job, const Run *run, guint index, GError **error)
{
  const PsRecurrence *recurrence = run->recurrence;
  gsize n_times = (gsize)recurrence->n_steps * (LANES + 1);

  *job = (Job){ .run = run, .index = index };
  ps_luck_init (&job->luck, &run->draws);
  if (run->round != NULL)
    return TRUE;
  if (run->sampling->events == NULL)
    {
      job->scenarios = ps_scenarios_new (recurrence, run->batch);
      return TRUE;
    }
  job->durations = g_new0 (gint64, n_times);
  job->transfers = g_new0 (gint64, n_times);
  job->ready_ns = g_new0 (gint64, (gsize)recurrence->program->schedule->placement->n_devices * (LANES + 1));
  job->simulation = ps_simulation_new (recurrence->program);
  job->simulation->times_only = TRUE;
  PsEventsSetting setting = *run->sampling->events;
  setting.duration_ns = &job->durations[(gsize)recurrence->n_steps * LANES];
  setting.transfer_ns = &job->transfers[(gsize)recurrence->n_steps * LANES];
  setting.ready_ns = job->ready_ns;
  job->events = ps_events_new (recurrence->program, run->costs, &setting, error);
  return job->events != NULL;
}

static gboolean
run_jobs (const Run *run, GError **error)
{
  guint n = MIN (run->sampling->n_jobs, (run->sampling->n_samples + run->batch - 1) / run->batch);
  g_autoptr (GArray) jobs = g_array_sized_new (FALSE, TRUE, sizeof (Job), n);
  g_autofree GThread **threads = g_new0 (GThread *, n);
  gboolean done = TRUE;

  g_array_set_clear_func (jobs, job_clear);
  g_array_set_size (jobs, n);
  for (guint i = 0; i < n && done; i++)
    done = job_init (&g_array_index (jobs, Job, i), run, i, error);
  for (guint i = 1; i < n && done; i++)
    {
      threads[i] = g_thread_try_new ("sampling", run_job, &g_array_index (jobs, Job, i), error);
      done = threads[i] != NULL;
      if (!done)
        g_prefix_error (error, "--jobs: %u threads: ", n);
    }
  if (done)
    run_job (jobs->data);
  for (guint i = 1; i < n && threads[i] != NULL; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < n && done; i++)
    if (g_array_index (jobs, Job, i).error != NULL)
      {
        g_propagate_error (error, g_steal_pointer (&g_array_index (jobs, Job, i).error));
        done = FALSE;
      }
  return done;
}

/* Checks that integers can hold the sum of all ops and transfers, each at its longest. */
static gboolean
check_sums (const Run *run, GError **error)
{
  double longest = ps_draws_longest (&run->draws, run->sampling->events);

  if (longest < PS_MAX_SUM_NS)
    return TRUE;
  return ps_refuse (
      error, PS_ERROR_USAGE,
      "%s: all ops together take up to %.3g s with the slowness and jitter asked for; at most 4e9 s can be added "
      "up",
      run->recurrence->program->schedule->name, longest / 1e9);
}

gboolean
ps_sampling_is_steady (const PsSampling *sampling, const PsProgram *program)
{
  return program->schedule->asynchronous || sampling->sync == PS_SYNC_BYPASS;
}

static gboolean
run_init (Run *run, GError **error)
{
  const PsSampling *sampling = run->sampling;
  const PsProgram *program = run->recurrence->program;

  run->samples_ns = g_new0 (gint64, sampling->n_samples);
  run->is_steady = ps_sampling_is_steady (sampling, program);
  run->batch = run->is_steady ? PS_STEADY_BLOCK : MIN (BATCH, (sampling->n_samples + LANES - 1) / LANES * LANES);
  run->draws.run_samples = run->is_steady ? PS_STEADY_ITERATIONS : 1;
  run->optimizer_ns = g_new (gint64, n_devices (run));
  for (guint d = 0; d < n_devices (run); d++)
    run->optimizer_ns[d] = ps_events_optimizer_ns (program, run->costs, sampling->events, d);
  if (!run->is_steady
      && (sampling->events != NULL || !ps_costs_have_reduce (run->costs, program->schedule->placement->n_copies)))
    return check_sums (run, error);
  if (run->is_steady && !program->schedule->asynchronous && sampling->events != NULL
      && !ps_events_setting_is_fixed (sampling->events))
    return check_sums (run, error);
  run->round = ps_steady_recurrence_new (program, run->costs, sampling->events, sampling->reduce, error);
  return run->round != NULL
         && ps_steady_init (&run->steady, &run->draws, run->round, sampling->events, !run->is_steady, error);
}

gint64 *
ps_uncertainty_run (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
                    const PsSampling *sampling, PsCauses causes, GError **error)
{
  g_autoptr (PsRecurrence) recurrence = ps_recurrence_new (program);
  g_auto (Run) run = { .recurrence = recurrence, .costs = costs, .sampling = sampling };

  g_return_val_if_fail (sampling->n_samples >= 1 && sampling->n_jobs >= 1, NULL);
  ps_draws_init (&run.draws, recurrence, costs, uncertainty, sampling->seed, causes);
  if (!run_init (&run, error))
    return NULL;
  if (sampling->events == NULL && run.round == NULL)
    run.draws.bits = ps_draws_bits (&run.draws);
  if (!run_jobs (&run, error))
    return NULL;
  return g_steal_pointer (&run.samples_ns);
}

gint64 *
ps_uncertainty_sample (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
                       const PsSampling *sampling, GError **error)
{
  return ps_uncertainty_run (program, costs, uncertainty, sampling, PS_ALL_CAUSES, error);
}
