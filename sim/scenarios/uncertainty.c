/* uncertainty.c - samples of the makespan: durations drawn tile by tile for a block of samples, threads in turn. */
#include "jitter.h"
#include "uncertainty-private.h"

#define LANES PS_SCENARIO_LANES
#define BATCH (16 * LANES) /* samples that a thread takes at a time */

/* What one class of ops, or of transfers, draws from. */
typedef struct
{
  gint64 base_ns;
  const GArray *measured; /* of double; NULL: none */
  gboolean jitters;
} Source;

/* Shared by all threads and only read, but for the results, of which each thread writes its own. */
typedef struct
{
  const PsScenarioPlan *plan;
  const PsCosts *costs;
  const PsUncertainty *uncertainty;
  const PsSampling *sampling;
  PsCauses causes;
  PsJitter *jitter; /* NULL: none */
  Source *op;       /* [n_op_classes] */
  Source *transfer; /* [n_transfer_classes] */
  gint64 *makespan_ns;
} Run;

static void
run_clear (Run *run)
{
  ps_jitter_free (run->jitter);
  g_free (run->op);
  g_free (run->transfer);
  g_free (run->makespan_ns);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Run, run_clear)

/* One thread. */
typedef struct
{
  const Run *run;
  guint index;
  guint first;            /* sample of the batch's first lane */
  PsScenarios *scenarios; /* NULL where the events engine runs */
  PsEvents *events;
  PsSimulation *simulation;
  double *op_ns;       /* [n_op_classes][LANES] base time and slowness in this block */
  double *transfer_ns; /* [n_transfer_classes][LANES] */
  gint64 *durations;   /* [n_steps][LANES], then [n_steps] of one lane; events only */
  gint64 *transfers;
  GError *error;
} Job;

static const GArray *
measured_of (const Run *run, guint32 cost)
{
  const PsCostSpread *spread = run->uncertainty->measured;

  return spread ? spread->op[cost] : NULL;
}

static void
find_source (const Run *run, Source *source, gint64 base_ns, const GArray *measured, gboolean takes_part)
{
  source->base_ns = base_ns;
  source->measured = measured;
  source->jitters = takes_part && base_ns > 0 && (measured || run->jitter);
}

static void
find_sources (Run *run)
{
  const PsScenarioPlan *plan = run->plan;
  const PsPart *part = run->causes.part;
  gboolean all = part == NULL && run->causes.slowness < 0;
  const GArray *transfer = run->uncertainty->measured ? run->uncertainty->measured->transfer : NULL;

  run->op = g_new0 (Source, plan->n_op_classes);
  run->transfer = g_new0 (Source, plan->n_transfer_classes);
  for (guint i = 1; i < plan->n_op_classes; i++)
    find_source (run, &run->op[i], ps_op_class_duration (&plan->op[i], run->costs), measured_of (run, plan->op[i].cost),
                 all || (part && ps_part_of_op (part, &plan->op[i], run->costs) > 0));
  for (guint i = 1; i < plan->n_transfer_classes; i++)
    find_source (run, &run->transfer[i], ps_transfer_class_duration (&plan->transfer[i], run->costs), transfer,
                 all || (part && ps_part_of_transfer (part, &plan->transfer[i], run->costs) > 0));
}

/* Slowness */

static gboolean
slows (const PsSlowness *slowness, guint from, guint to)
{
  if (!slowness->link)
    return from == slowness->a && to == slowness->a;
  return (from == slowness->a && to == slowness->b) || (from == slowness->b && to == slowness->a);
}

/* Multiplies what a slow device or link does by its factor in those of the block's samples in which it is slow. */
static void
apply_slowness (Job *job, guint index, guint first)
{
  const Run *run = job->run;
  const PsScenarioPlan *plan = run->plan;
  const PsSlowness *slowness = &run->uncertainty->slowness[index];
  guint32 words[LANES];
  double factors[LANES];

  ps_draw (run->sampling->seed, first, (PsPurpose){ index, 0, PS_STREAM_SLOWNESS }, words);
  for (guint lane = 0; lane < LANES; lane++)
    factors[lane] = words[lane] < slowness->probability * 4294967296.0 ? slowness->factor : 1;
  for (gsize i = 1; i < plan->n_op_classes; i++)
    for (guint lane = 0; lane < LANES && slows (slowness, plan->op[i].device, plan->op[i].device); lane++)
      job->op_ns[i * LANES + lane] *= factors[lane];
  for (gsize i = 1; i < plan->n_transfer_classes; i++)
    for (guint lane = 0; lane < LANES && slows (slowness, plan->transfer[i].from, plan->transfer[i].to); lane++)
      job->transfer_ns[i * LANES + lane] *= factors[lane];
}

static void
begin_block (Job *job, guint first)
{
  const Run *run = job->run;

  for (gsize i = 0; i < (gsize)run->plan->n_op_classes * LANES; i++)
    job->op_ns[i] = (double)run->op[i / LANES].base_ns;
  for (gsize i = 0; i < (gsize)run->plan->n_transfer_classes * LANES; i++)
    job->transfer_ns[i] = (double)run->transfer[i / LANES].base_ns;
  for (guint i = 0; i < run->uncertainty->n_slowness; i++)
    if (run->causes.slowness == (gint)i || (run->causes.slowness < 0 && run->causes.part == NULL))
      apply_slowness (job, i, first);
}

/* Durations */

/* The same op meets the same luck in every schedule; a B that is part of a BW counts as that. */
static PsPurpose
purpose_of (const PsProgram *program, guint step, guint32 stream)
{
  PsOp op = program->schedule->ops[program->op_of[step]];
  guint32 kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind;

  return (PsPurpose){ op.microbatch, op.stage | (guint32)op.slice << 16 | kind << 24, stream };
}

static void
measured_factors (const GArray *measured, const guint32 *words, double *factors)
{
  for (guint i = 0; i < LANES; i++)
    factors[i] = g_array_index (measured, double, (guint)((guint64)words[i] * measured->len >> 32));
}

/* To the nearest nanosecond; no time is negative. */
static void
round_lanes (const double *base_ns, const double *factors, gint64 *ns)
{
  for (guint i = 0; i < LANES; i++)
    ns[i] = (gint64)(base_ns[i] * factors[i] + 0.5);
}

static void
draw_lanes (const Job *job, const Source *source, guint first, PsPurpose purpose, const double *base_ns, gint64 *ns)
{
  const Run *run = job->run;
  guint32 words[LANES];
  double factors[LANES];

  if (source->jitters)
    {
      ps_draw (run->sampling->seed, first, purpose, words);
      if (source->measured)
        measured_factors (source->measured, words, factors);
      else
        ps_jitter_factors (run->jitter, words, factors);
    }
  else
    for (guint i = 0; i < LANES; i++)
      factors[i] = 1;
  round_lanes (base_ns, factors, ns);
}

static void
fill (gpointer data, guint first_step, guint n_steps, guint first, gint64 *duration_ns, gint64 *transfer_ns)
{
  Job *job = data;
  const PsScenarioPlan *plan = job->run->plan;
  guint sample = job->first + first;

  if (first_step == 0)
    begin_block (job, sample);
  for (guint i = 0; i < n_steps; i++)
    {
      guint step = first_step + i;
      gsize op = plan->steps[step].op, transfer = plan->steps[step].transfer;

      draw_lanes (job, &job->run->op[op], sample, purpose_of (plan->program, step, PS_STREAM_OP),
                  &job->op_ns[op * LANES], &duration_ns[(gsize)i * LANES]);
      draw_lanes (job, &job->run->transfer[transfer], sample, purpose_of (plan->program, step, PS_STREAM_TRANSFER),
                  &job->transfer_ns[transfer * LANES], &transfer_ns[(gsize)i * LANES]);
    }
}

/* Threads */

static void
keep (const Job *job, guint lane, gint64 makespan_ns)
{
  guint sample = job->first + lane;

  if (sample < job->run->sampling->n_samples)
    job->run->makespan_ns[sample] = makespan_ns;
}

/* The events engine takes one sample at a time. */
static gboolean
run_events (Job *job, guint first)
{
  const PsScenarioPlan *plan = job->run->plan;
  gsize n = plan->n_steps;
  gint64 *durations = &job->durations[n * LANES], *transfers = &job->transfers[n * LANES];

  fill (job, 0, plan->n_steps, first, job->durations, job->transfers);
  for (guint lane = 0; lane < LANES; lane++)
    {
      for (gsize i = 0; i < n; i++)
        {
          durations[i] = job->durations[i * LANES + lane];
          transfers[i] = job->transfers[i * LANES + lane];
        }
      if (!ps_events_run (job->events, job->run->costs, job->simulation, &job->error))
        return FALSE;
      keep (job, first + lane, job->simulation->makespan_ns);
    }
  return TRUE;
}

static gboolean
run_batch (Job *job)
{
  if (job->scenarios)
    {
      ps_scenarios_run_steps (job->scenarios, fill, job);
      for (guint lane = 0; lane < BATCH; lane++)
        keep (job, lane, job->scenarios->makespan_ns[lane]);
      return TRUE;
    }
  for (guint first = 0; first < BATCH && job->first + first < job->run->sampling->n_samples; first += LANES)
    if (!run_events (job, first))
      return FALSE;
  return TRUE;
}

static gpointer
run_job (gpointer data)
{
  Job *job = data;
  const PsSampling *sampling = job->run->sampling;
  gboolean done = TRUE;

  for (guint batch = job->index; done && (guint64)batch * BATCH < sampling->n_samples; batch += sampling->n_jobs)
    {
      job->first = batch * BATCH;
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
  g_free (job->op_ns);
  g_free (job->transfer_ns);
  g_free (job->durations);
  g_free (job->transfers);
  g_clear_error (&job->error);
}

static gboolean
job_init (Job *job, const Run *run, guint index, GError **error)
{
  const PsScenarioPlan *plan = run->plan;
  gsize n_times = (gsize)plan->n_steps * (LANES + 1);

  *job = (Job){ .run = run, .index = index };
  job->op_ns = g_new0 (double, (gsize)plan->n_op_classes *LANES);
  job->transfer_ns = g_new0 (double, (gsize)plan->n_transfer_classes *LANES);
  if (run->sampling->events == NULL)
    {
      job->scenarios = ps_scenarios_new (plan, BATCH);
      return TRUE;
    }
  job->durations = g_new0 (gint64, n_times);
  job->transfers = g_new0 (gint64, n_times);
  job->simulation = ps_simulation_new (plan->program);
  PsEventsSetting setting = *run->sampling->events;
  setting.duration_ns = &job->durations[(gsize)plan->n_steps * LANES];
  setting.transfer_ns = &job->transfers[(gsize)plan->n_steps * LANES];
  job->events = ps_events_new (plan->program, run->costs, &setting, error);
  return job->events != NULL;
}

static gboolean
run_jobs (const Run *run, GError **error)
{
  guint n = MIN (run->sampling->n_jobs, (run->sampling->n_samples + BATCH - 1) / BATCH);
  g_autoptr (GArray) jobs = g_array_sized_new (FALSE, TRUE, sizeof (Job), n);
  g_autofree GThread **threads = g_new0 (GThread *, n);
  gboolean done = TRUE;

  g_array_set_clear_func (jobs, job_clear);
  g_array_set_size (jobs, n);
  for (guint i = 0; i < n && done; i++)
    done = job_init (&g_array_index (jobs, Job, i), run, i, error);
  for (guint i = 1; i < n && done; i++)
    threads[i] = g_thread_new ("sampling", run_job, &g_array_index (jobs, Job, i));
  if (done)
    run_job (jobs->data);
  for (guint i = 1; i < n && threads[i]; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < n && done; i++)
    if (g_array_index (jobs, Job, i).error)
      {
        g_propagate_error (error, g_steal_pointer (&g_array_index (jobs, Job, i).error));
        done = FALSE;
      }
  return done;
}

/* No sum of the times of all ops and transfers, each at its longest, may leave the integers. */
static gboolean
check_sums (const Run *run, GError **error)
{
  double sum = 0, largest = run->jitter ? ps_jitter_largest (run->jitter) : 1;

  for (guint i = 0; i < run->plan->n_steps; i++)
    sum += (double)run->op[run->plan->steps[i].op].base_ns
           + (double)run->transfer[run->plan->steps[i].transfer].base_ns;
  if (run->uncertainty->measured)
    largest = MAX (largest, run->uncertainty->measured->largest);
  for (guint i = 0; i < run->uncertainty->n_slowness; i++)
    largest *= MAX (run->uncertainty->slowness[i].factor, 1);
  if (sum * largest < 4e18)
    return TRUE;
  g_set_error (
      error, PS_ERROR, PS_ERROR_USAGE,
      "%s: all ops together take up to %.3g s with the slowness and jitter asked for; at most 4e9 s can be added "
      "up",
      run->plan->program->schedule->name, sum * largest / 1e9);
  return FALSE;
}

gint64 *
ps_uncertainty_run (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
                    const PsSampling *sampling, PsCauses causes, GError **error)
{
  g_autoptr (PsScenarioPlan) plan = ps_scenario_plan_new (program);
  g_auto (Run) run
      = { .plan = plan, .costs = costs, .uncertainty = uncertainty, .sampling = sampling, .causes = causes };

  g_return_val_if_fail (sampling->n_samples >= 1 && sampling->n_jobs >= 1, NULL);
  if (uncertainty->jitter > 0)
    run.jitter = ps_jitter_new (uncertainty->jitter);
  find_sources (&run);
  run.makespan_ns = g_new0 (gint64, sampling->n_samples);
  if (!check_sums (&run, error) || !run_jobs (&run, error))
    return NULL;
  return g_steal_pointer (&run.makespan_ns);
}

gint64 *
ps_uncertainty_sample (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
                       const PsSampling *sampling, GError **error)
{
  return ps_uncertainty_run (program, costs, uncertainty, sampling, PS_ALL_CAUSES, error);
}
