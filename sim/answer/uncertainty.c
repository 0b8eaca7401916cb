/* uncertainty.c - Monte Carlo over the costs: slowness, the times of ops and transfers in each sample, the iteration
 * time of each sample, and what samples say. */
#include "draws.h"
#include "simulate/rounds.h"

#include <pipesim/answer.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LANES PS_DRAW_LANES
#define SETTLE 256        /* iterations at mean times with which all runs begin */
#define WARM_UP 16        /* further iterations of every run, which are no samples */
#define EVENTS_WARM_UP 64 /* the same where runs begin at rest */

G_STATIC_ASSERT (PS_STEADY_RUNS == LANES);

/* Samples of a block: first the first iterations of its runs, then their second ones, and so on. */
#define BLOCK (PS_STEADY_ITERATIONS * PS_STEADY_RUNS)

/* Slow devices and links, read from the user's text. */

static gboolean parse_device (const char *where, const char *part, guint *device, GError **error)
{
  gint64 value;

  if (!ps_parse_integer (where, part, 0, PS_MAX_DEVICES - 1, &value, error))
    return FALSE;
  *device = (guint)value;
  return TRUE;
}

static gboolean parse_place (const char *where, const char *text, const char *place, PsSlowness *slowness,
                             GError **error)
{
  g_auto (GStrv) ends = g_strsplit (place, "-", -1);

  if (!slowness->link)
    return parse_device (where, place, &slowness->a, error);
  if (g_strv_length (ends) == 2)
    return parse_device (where, ends[0], &slowness->a, error) && parse_device (where, ends[1], &slowness->b, error);
  return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s': '%s' is no link; two devices, as in 0-1, would be right", where,
                    text, place);
}

gboolean ps_slowness_parse (const char *where, const char *text, gboolean link, PsSlowness *slowness, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (text, ":", -1);
  guint n = g_strv_length (parts);
  g_autofree char *factor = g_strdup_printf ("%s: '%s': factor", where, text);
  g_autofree char *probability = g_strdup_printf ("%s: '%s': probability", where, text);

  *slowness = (PsSlowness){ .link = link, .probability = 1 };
  if (n != 2 && n != 3)
    return ps_refuse (error, PS_ERROR_USAGE, "%s: '%s' is not %s:FACTOR[:PROBABILITY]", where, text,
                      link ? "A-B" : "DEVICE");
  return parse_place (where, text, parts[0], slowness, error)
         && ps_parse_number (factor, parts[1], 0.001, PS_MAX_SLOWNESS, &slowness->factor, error)
         && (n == 2 || ps_parse_number (probability, parts[2], 0, 1, &slowness->probability, error));
}

static gboolean check_device (const PsSlowness *slowness, guint device, guint n_devices, GError **error)
{
  if (device < n_devices)
    return TRUE;
  return ps_refuse (error, PS_ERROR_USAGE, "%s: there is no device %u; they are 0 to %u",
                    slowness->link ? "--slow-link" : "--straggler", device, n_devices - 1);
}

gboolean ps_uncertainty_check (const PsUncertainty *uncertainty, guint n_devices, GError **error)
{
  for (guint i = 0; i < uncertainty->n_slowness; i++) {
    const PsSlowness *slowness = &uncertainty->slowness[i];

    if (!check_device (slowness, slowness->a, n_devices, error)
        || (slowness->link && !check_device (slowness, slowness->b, n_devices, error)))
      return FALSE;
    if (slowness->link && slowness->a == slowness->b)
      return ps_refuse (error, PS_ERROR_USAGE, "--slow-link: %u-%u is no link; two devices would be right", slowness->a,
                        slowness->b);
  }
  return TRUE;
}

/* The times of ops and transfers in samples. */

enum { STREAM_OP, STREAM_TRANSFER, STREAM_SLOWNESS, N_STREAMS };

#define STREAM_RUN G_MAXUINT32 /* of a whole run: iterations before a sample have none of their own */

#define MEAN G_MAXUINT /* value of Times.before: no sample, the mean of all */
#define MAX_NORMAL 3.5 /* no value of normal_of is larger */

/* Where the times of one op, or of the transfer of a step's input, come from. */
typedef struct {
  gint64 base_ns;
  gint64 host_ns; /* part of it that no slow device changes */
  guint from, to; /* devices; the same for an op */
  gboolean jitters;
  const GArray *measured; /* of double: factors of which each sample takes one; NULL: the factor is log-normal */
  guint row;              /* of PsCostSpread, if samples are of different runs; PS_NO_ROW: none */
  PsPurpose purpose;
} Source;

/* Constant once made, so that threads may share it. */
typedef struct {
  const PsProgram *program;
  const PsCosts *costs;
  const PsUncertainty *uncertainty;
  const PsSampling *sampling;
  gboolean is_steady;
  PsJitter *jitter;     /* NULL: none */
  Source *sources;      /* [2 * n_steps] ops, then transfers */
  gint64 *optimizer_ns; /* [n_devices] O at the costs */
  gint64 *row;          /* of rounds, after SETTLE iterations at mean times; NULL: other engines run */
  guint n_cycle;        /* iterations at mean times after which that state comes back; 0: it does not */
  gint64 *missing_ns;   /* [n_cycle] what each of them is shorter than their mean */
  gint64 *samples_ns;   /* the result; each thread writes its own samples */
} Run;

static void run_clear (Run *run)
{
  ps_jitter_free (run->jitter);
  g_free (run->sources);
  g_free (run->optimizer_ns);
  g_free (run->row);
  g_free (run->missing_ns);
  g_free (run->samples_ns);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Run, run_clear)

static guint n_devices (const Run *run)
{
  return run->program->schedule->placement->n_devices;
}

/* The same op has the same draws in every schedule. A BW draws as its B, a pair as its second op. */
static PsPurpose purpose_of (const PsProgram *program, guint step, guint32 stream)
{
  PsOp op = program->schedule->ops[program->op_of[step]];
  guint32 kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind;

  return (PsPurpose){ op.microbatch, op.stage | (guint32)op.slice << 16 | kind << 24, stream };
}

/* Completes the source of a step's op or transfer. cost: index into the arrays of PsCostSpread. */
static void set_source (const Run *run, Source *source, const GArray *measured, guint cost)
{
  const PsCostSpread *spread = run->uncertainty->measured;

  source->measured = measured;
  source->jitters = source->base_ns > 0 && (measured != NULL || run->jitter != NULL);
  source->row = run->uncertainty->between_runs && spread != NULL ? spread->row[cost] : PS_NO_ROW;
}

static void add_sources (Run *run, guint step)
{
  const PsProgram *program = run->program;
  const PsCosts *costs = run->costs;
  const PsStep *s = &program->steps[step];
  const PsCostSpread *spread = run->uncertainty->between_runs ? NULL : run->uncertainty->measured;
  guint first = program->pair != NULL && program->pair[step] == PS_PAIR_SECOND ? step - 1 : step,
        cost = ps_costs_alike (costs, program->steps[first].cost);
  Source *op = &run->sources[step], *transfer = &run->sources[program->n_steps + step];

  *op = (Source){ .base_ns = ps_step_duration (program, costs, step),
                  .host_ns = ps_host_time_sum (ps_step_host_time (program, costs, step)),
                  .from = s->device,
                  .to = s->device,
                  .purpose = purpose_of (program, step, STREAM_OP) };
  set_source (run, op, spread != NULL ? spread->op[cost] : NULL, cost);
  *transfer = (Source){ .row = PS_NO_ROW, .purpose = purpose_of (program, step, STREAM_TRANSFER) };
  if (s->input == 0)
    return;
  transfer->base_ns = costs->transfer_ns[s->transfer];
  transfer->from = program->steps[s->input - 1].device;
  transfer->to = s->device;
  set_source (run, transfer, spread != NULL ? spread->transfer : NULL, PS_N_OP_KINDS * costs->n_stages);
}

static double largest_factor (const Run *run)
{
  const PsUncertainty *uncertainty = run->uncertainty;
  const PsCostSpread *measured = uncertainty->measured;
  double largest = run->jitter != NULL ? ps_jitter_largest (run->jitter) : 1, deviation = 0;

  if (measured != NULL && !uncertainty->between_runs)
    largest = MAX (largest, measured->largest);
  for (guint i = 0; i < uncertainty->n_slowness; i++)
    largest *= MAX (uncertainty->slowness[i].factor, 1);
  for (guint i = 0; measured != NULL && uncertainty->between_runs && i < measured->n_rows; i++)
    deviation = MAX (deviation, measured->deviation[i]);
  return largest * exp (MAX_NORMAL * deviation);
}

/* Checks that integers can hold the sum of all ops and transfers of a sample's run, each at its longest. */
static gboolean check_sums (const Run *run, GError **error)
{
  const PsEventsSetting *events = run->sampling->events;
  const PsSchedule *schedule = run->program->schedule;
  guint n_stages = schedule->placement->n_stages, n_copies = schedule->placement->n_copies,
        n_iterations = run->row != NULL ? 1 + WARM_UP + PS_STEADY_ITERATIONS : 1,
        n_updates = schedule->asynchronous ? schedule->n_microbatches / ps_schedule_update_every (schedule) : 1;
  double sum = 0, slowdown = events != NULL ? MAX (events->overlap_slowdown, 1) : 1;

  for (guint i = 0; i < run->program->n_steps; i++) {
    double speed = events != NULL && events->speed != NULL ? events->speed[run->sources[i].to] : 1;

    sum += (double)run->sources[i].base_ns * slowdown / speed;
    sum += (double)run->sources[run->program->n_steps + i].base_ns;
  }
  for (guint device = 0; device < n_devices (run); device++)
    sum += (double)run->optimizer_ns[device] * n_updates;
  sum *= largest_factor (run);
  for (guint stage = 0; stage < n_stages && run->row != NULL; stage++)
    sum += (double)ps_costs_reduce_ns (run->costs, stage, n_copies) * n_copies * n_updates;
  if (sum * n_iterations < PS_MAX_SUM_NS)
    return TRUE;
  g_autofree char *of = n_iterations > 1 ? g_strdup_printf (" of %u iterations", n_iterations) : g_strdup ("");
  return ps_refuse (
      error, PS_ERROR_USAGE,
      "%s: all ops%s together take up to %.3g s with the slowness and jitter asked for; at most 4e9 s can "
      "be added up",
      schedule->name, of, sum * n_iterations / 1e9);
}

/* The times of LANES samples. One thread uses one at a time. */
typedef struct {
  const Run *run;
  guint first;         /* sample of the first lane */
  guint before;        /* iterations before that sample; 0: the sample itself */
  double *slow;        /* [n_slowness][LANES] the factor of each slowness */
  double *rows;        /* [n_rows][LANES] the factor of each row of PsCostSpread; NULL: samples are of one run */
  double *slowness;    /* [LANES][n_devices] the factor of each device's O */
  gint64 *duration_ns; /* [LANES][n_steps] */
  gint64 *transfer_ns; /* [LANES][n_steps] of the steps' inputs */
} Times;

static void times_init (Times *times, const Run *run)
{
  const PsUncertainty *uncertainty = run->uncertainty;
  gsize n = (gsize)run->program->n_steps * LANES;

  *times = (Times){ .run = run,
                    .slow = g_new (double, (gsize)uncertainty->n_slowness *LANES),
                    .slowness = g_new (double, (gsize)n_devices (run) * LANES),
                    .duration_ns = g_new (gint64, n),
                    .transfer_ns = g_new (gint64, n) };
  if (uncertainty->between_runs && uncertainty->measured != NULL)
    times->rows = g_new (double, (gsize)uncertainty->measured->n_rows *LANES);
}

static void times_clear (Times *times)
{
  g_free (times->slow);
  g_free (times->rows);
  g_free (times->slowness);
  g_free (times->duration_ns);
  g_free (times->transfer_ns);
}

/* Iterations before a sample have streams of their own. */
static PsPurpose purpose_at (const Times *times, PsPurpose purpose)
{
  purpose.stream += times->before * N_STREAMS;
  return purpose;
}

static void draw_slowness (const Times *times, guint index)
{
  const PsSlowness *slowness = &times->run->uncertainty->slowness[index];
  double *factors = &times->slow[(gsize)index * LANES];
  guint32 words[LANES];

  if (times->before != MEAN)
    ps_draw (times->run->sampling->seed, times->first, purpose_at (times, (PsPurpose){ index, 0, STREAM_SLOWNESS }),
             words);
  for (guint lane = 0; lane < LANES; lane++)
    if (times->before == MEAN)
      factors[lane] = 1 + slowness->probability * (slowness->factor - 1);
    else
      factors[lane] = words[lane] < slowness->probability * 4294967296.0 ? slowness->factor : 1;
}

/* Nearly normal, with mean 0 and variance 1: the sum of the word's four bytes. */
static double normal_of (guint32 word)
{
  int sum = (int)((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24));

  return (sum - 510) / sqrt (4 * (256.0 * 256 - 1) / 12);
}

/* The factor of a row in each lane's run, of which one lane takes all iterations of a block. */
static void draw_row (const Times *times, guint row)
{
  double deviation = times->run->uncertainty->measured->deviation[row];
  guint lanes = LANES * (times->run->is_steady ? PS_STEADY_ITERATIONS : 1);
  guint32 words[LANES];

  ps_draw (times->run->sampling->seed, times->first / lanes * LANES, (PsPurpose){ row, 0, STREAM_RUN }, words);
  for (guint lane = 0; lane < LANES; lane++)
    times->rows[(gsize)row * LANES + lane] = times->before != MEAN ? exp (deviation * normal_of (words[lane])) : 1;
}

gboolean ps_slowness_slows (const PsSlowness *slowness, guint from, guint to)
{
  if (!slowness->link)
    return from == slowness->a && to == slowness->a;
  return (from == slowness->a && to == slowness->b) || (from == slowness->b && to == slowness->a);
}

/* Writes the times of a source into ns [LANES * n_steps], n_steps apart. */
static void draw_source (const Times *times, const Source *source, gint64 *ns)
{
  const PsUncertainty *uncertainty = times->run->uncertainty;
  gsize n_steps = times->run->program->n_steps;
  gboolean jitters = source->jitters && times->before != MEAN;
  double lanes_ns[LANES];
  guint32 words[LANES];

  for (guint lane = 0; lane < LANES; lane++)
    lanes_ns[lane] = (double)source->base_ns;
  for (guint i = 0; i < uncertainty->n_slowness; i++)
    for (guint lane = 0; lane < LANES && ps_slowness_slows (&uncertainty->slowness[i], source->from, source->to);
         lane++)
      lanes_ns[lane] += (times->slow[i * LANES + lane] - 1) * (lanes_ns[lane] - (double)source->host_ns);
  for (guint lane = 0; lane < LANES && source->row != PS_NO_ROW; lane++)
    lanes_ns[lane] *= times->rows[(gsize)source->row * LANES + lane];
  if (jitters)
    ps_draw (times->run->sampling->seed, times->first, purpose_at (times, source->purpose), words);
  for (guint lane = 0; lane < LANES && jitters; lane++)
    lanes_ns[lane] *= source->measured != NULL
                          ? g_array_index (source->measured, double, (guint64)words[lane] * source->measured->len >> 32)
                          : ps_jitter_factor (times->run->jitter, words[lane]);
  for (guint lane = 0; lane < LANES; lane++)
    ns[lane * n_steps] = (gint64)(lanes_ns[lane] + 0.5);
}

/* The times of the samples from `first` on, a multiple of LANES. before > 0: of the iterations that many places before
 * them, with draws of their own; MEAN: mean times in every lane, without jitter, and with slowness weighed by its
 * probability. */
static void draw_times (Times *times, guint first, guint before)
{
  const PsUncertainty *uncertainty = times->run->uncertainty;
  guint n_steps = times->run->program->n_steps;

  times->first = first;
  times->before = before;
  for (guint i = 0; i < uncertainty->n_slowness; i++)
    draw_slowness (times, i);
  for (guint row = 0; times->rows != NULL && row < uncertainty->measured->n_rows; row++)
    draw_row (times, row);
  for (guint lane = 0; lane < LANES; lane++)
    for (guint d = 0; d < n_devices (times->run); d++) {
      double *slowness = &times->slowness[lane * n_devices (times->run) + d];

      *slowness = 1;
      for (guint i = 0; i < uncertainty->n_slowness; i++)
        if (ps_slowness_slows (&uncertainty->slowness[i], d, d))
          *slowness *= times->slow[i * LANES + lane];
    }
  for (guint i = 0; i < n_steps; i++) {
    draw_source (times, &times->run->sources[i], &times->duration_ns[i]);
    draw_source (times, &times->run->sources[n_steps + i], &times->transfer_ns[i]);
  }
}

/* The iteration times of samples. Each thread takes every n-th block. */

typedef struct {
  const Run *run;
  guint index; /* of the thread */
  guint first; /* sample of the block */
  Times times;
  PsSimulation *simulation;
  PsEvents *events;    /* NULL: the relaxation engine or rounds run */
  gint64 *duration_ns; /* [n_steps] that events reads */
  gint64 *transfer_ns;
  gint64 *ready_ns; /* [n_devices] the same */
  PsRounds *rounds; /* NULL: an engine runs */
  gint64 *rows;     /* [LANES][n_devices or n_columns] how far each run has come where devices never meet */
  GError *error;
} Job;

static void keep (const Job *job, guint sample, gint64 ns)
{
  if (sample < job->run->sampling->n_samples)
    job->run->samples_ns[sample] = ns;
}

/* Runs one iteration at the times of a lane. */
static gboolean run_lane (Job *job, guint lane)
{
  const Run *run = job->run;
  gsize n = run->program->n_steps;
  const gint64 *duration_ns = &job->times.duration_ns[lane * n], *transfer_ns = &job->times.transfer_ns[lane * n];

  if (job->events != NULL) {
    memcpy (job->duration_ns, duration_ns, n * sizeof *duration_ns);
    memcpy (job->transfer_ns, transfer_ns, n * sizeof *transfer_ns);
    if (!ps_events_run (job->events, run->costs, job->simulation, &job->error))
      return FALSE;
  } else
    ps_simulate_steps (run->program, run->costs, duration_ns, transfer_ns, job->simulation);
  job->simulation->optimizer_ns = 0;
  for (guint d = 0; d < n_devices (run); d++) {
    gint64 *optimizer_ns = &job->simulation->device[d].optimizer_ns;

    *optimizer_ns = llrint ((double)run->optimizer_ns[d] * job->times.slowness[lane * n_devices (run) + d]);
    job->simulation->optimizer_ns = MAX (job->simulation->optimizer_ns, *optimizer_ns);
  }
  return TRUE;
}

/* Iterations that end when all devices meet. */
static gboolean sample_meetings (Job *job)
{
  const Run *run = job->run;
  PsIteration iteration;

  draw_times (&job->times, job->first, 0);
  for (guint lane = 0; lane < LANES && job->first + lane < run->sampling->n_samples; lane++) {
    if (!run_lane (job, lane)
        || !ps_iteration_events (run->program, run->costs, job->simulation, run->sampling->events, PS_SYNC_GLOBAL,
                                 run->sampling->reduce, &iteration, &job->error))
      return FALSE;
    keep (job, job->first + lane, iteration.period_ns);
  }
  return TRUE;
}

/* One iteration of a lane's run, from the ready times that the one before left, where durations are not known
 * beforehand: from when the last device was ready for it until the last one is ready for the next. */
static gboolean run_events_round (Job *job, guint lane, gint64 *iteration_ns)
{
  const Run *run = job->run;
  guint p = n_devices (run);
  gint64 *ready = &job->rows[(gsize)lane * p], last = 0, next = 0;

  memcpy (job->ready_ns, ready, p * sizeof *ready);
  if (!run_lane (job, lane))
    return FALSE;
  for (guint device = 0; device < p; device++)
    last = MAX (last, ready[device]);
  *iteration_ns = ps_rounds_advance (run->program, run->costs, job->simulation, run->sampling->reduce, ready);
  for (guint device = 0; device < p; device++)
    next = MAX (next, ready[device]);
  *iteration_ns += next - last;
  return TRUE;
}

/* One iteration of all runs of the block. `before` as in draw_times. */
static gboolean run_round (Job *job, guint first, guint before, gint64 *iteration_ns)
{
  const Run *run = job->run;
  const Times *times = &job->times;
  gsize n = run->program->n_steps;

  draw_times (&job->times, first, before);
  for (guint lane = 0; lane < LANES; lane++)
    if (job->rounds == NULL) {
      if (!run_events_round (job, lane, &iteration_ns[lane]))
        return FALSE;
    } else {
      ps_rounds_set_times (job->rounds, &times->duration_ns[lane * n], &times->transfer_ns[lane * n],
                           &times->slowness[lane * n_devices (run)]);
      iteration_ns[lane] = ps_rounds_run (job->rounds, &job->rows[lane * ps_rounds_n_columns (job->rounds)]);
    }
  return TRUE;
}

/* Iterations of runs in which devices never meet. */
static gboolean sample_rounds (Job *job)
{
  const Run *run = job->run;
  gsize size = (job->rounds != NULL ? ps_rounds_n_columns (job->rounds) : n_devices (run)) * sizeof *job->rows;
  guint n_warm_up = job->rounds != NULL ? WARM_UP : EVENTS_WARM_UP;
  gint64 iteration_ns[LANES];

  for (guint lane = 0; lane < LANES; lane++)
    if (run->row != NULL)
      memcpy ((guint8 *)job->rows + lane * size, run->row, size);
    else
      memset ((guint8 *)job->rows + lane * size, 0, size);
  for (guint before = n_warm_up; before > 0; before--)
    if (!run_round (job, job->first, before, iteration_ns))
      return FALSE;
  for (guint i = 0; i < PS_STEADY_ITERATIONS; i++) {
    guint first = job->first + i * LANES;

    if (!run_round (job, first, 0, iteration_ns))
      return FALSE;
    for (guint lane = 0; lane < LANES; lane++)
      keep (job, first + lane,
            iteration_ns[lane] + (run->n_cycle > 0 ? run->missing_ns[(n_warm_up + i) % run->n_cycle] : 0));
  }
  return TRUE;
}

static gpointer run_job (gpointer data)
{
  Job *job = data;
  const PsSampling *sampling = job->run->sampling;
  guint size = job->run->is_steady ? BLOCK : LANES;
  gboolean done = TRUE;

  for (guint64 first = (guint64)job->index * size; done && first < sampling->n_samples;
       first += (guint64)sampling->n_jobs * size) {
    job->first = (guint)first;
    done = job->run->is_steady ? sample_rounds (job) : sample_meetings (job);
  }
  return NULL;
}

static void job_clear (gpointer data)
{
  Job *job = data;

  times_clear (&job->times);
  ps_events_free (job->events);
  ps_simulation_free (job->simulation);
  ps_rounds_free (job->rounds);
  g_free (job->duration_ns);
  g_free (job->transfer_ns);
  g_free (job->ready_ns);
  g_free (job->rows);
  g_clear_error (&job->error);
}

static PsRounds *make_rounds (const Run *run, GError **error)
{
  return ps_rounds_new (run->program, run->costs, run->sampling->events, run->sampling->reduce, error);
}

static gboolean job_init (Job *job, const Run *run, guint index, GError **error)
{
  guint n = run->program->n_steps;

  *job = (Job){ .run = run, .index = index };
  times_init (&job->times, run);
  if (run->row != NULL) {
    job->rounds = make_rounds (run, error);
    job->rows = g_new (gint64, (gsize)ps_rounds_n_columns (job->rounds) * LANES);
    return TRUE;
  }
  job->simulation = ps_simulation_new (run->program);
  job->simulation->times_only = TRUE;
  if (run->sampling->events == NULL)
    return TRUE;
  PsEventsSetting setting = *run->sampling->events;
  setting.duration_ns = job->duration_ns = g_new0 (gint64, n);
  setting.transfer_ns = job->transfer_ns = g_new0 (gint64, n);
  setting.ready_ns = job->ready_ns = g_new0 (gint64, n_devices (run));
  job->rows = g_new (gint64, (gsize)n_devices (run) * LANES);
  job->events = ps_events_new (run->program, run->costs, &setting, error);
  return job->events != NULL;
}

static gboolean run_jobs (const Run *run, GError **error)
{
  guint size = run->is_steady ? BLOCK : LANES;
  guint n = MIN (run->sampling->n_jobs, (run->sampling->n_samples + size - 1) / size);
  g_autoptr (GArray) jobs = g_array_sized_new (FALSE, TRUE, sizeof (Job), n);
  g_autofree GThread **threads = g_new0 (GThread *, n);
  gboolean done = TRUE;

  g_array_set_clear_func (jobs, job_clear);
  g_array_set_size (jobs, n);
  for (guint i = 0; i < n && done; i++)
    done = job_init (&g_array_index (jobs, Job, i), run, i, error);
  for (guint i = 1; i < n && done; i++) {
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
    if (g_array_index (jobs, Job, i).error != NULL) {
      g_propagate_error (error, g_steal_pointer (&g_array_index (jobs, Job, i).error));
      done = FALSE;
    }
  return done;
}

gboolean ps_sampling_is_steady (const PsSampling *sampling, const PsProgram *program)
{
  return program->schedule->asynchronous || sampling->sync == PS_SYNC_BYPASS;
}

/* Runs SETTLE iterations at mean times. */
static gboolean settle (Run *run, GError **error)
{
  g_autoptr (PsRounds) rounds = make_rounds (run, error);
  g_autofree gint64 *cycle = NULL;
  Times times;
  gint64 total = 0;

  if (rounds == NULL)
    return FALSE;
  run->row = g_new (gint64, ps_rounds_n_columns (rounds));
  if (!check_sums (run, error))
    return FALSE;
  times_init (&times, run);
  draw_times (&times, 0, MEAN);
  ps_rounds_set_times (rounds, times.duration_ns, times.transfer_ns, times.slowness);
  times_clear (&times);
  cycle = ps_rounds_settle (rounds, SETTLE, run->row, &run->n_cycle);
  run->missing_ns = g_new (gint64, run->n_cycle);
  for (guint i = 0; i < run->n_cycle; i++)
    total += cycle[i];
  for (guint i = 0; i < run->n_cycle; i++)
    run->missing_ns[i] = (2 * total + run->n_cycle) / (2 * (gint64)run->n_cycle) - cycle[i];
  return TRUE;
}

static gboolean run_init (Run *run, GError **error)
{
  const PsSampling *sampling = run->sampling;
  const PsProgram *program = run->program;

  run->samples_ns = g_new0 (gint64, sampling->n_samples);
  run->is_steady = ps_sampling_is_steady (sampling, program);
  if (run->uncertainty->jitter > 0)
    run->jitter = ps_jitter_new (run->uncertainty->jitter);
  run->sources = g_new (Source, 2 * (gsize)program->n_steps);
  for (guint i = 0; i < program->n_steps; i++)
    add_sources (run, i);
  run->optimizer_ns = g_new (gint64, n_devices (run));
  for (guint d = 0; d < n_devices (run); d++)
    run->optimizer_ns[d] = ps_events_optimizer_ns (program, run->costs, sampling->events, d);
  if (run->is_steady
      && (program->schedule->asynchronous || sampling->events == NULL || ps_events_setting_is_fixed (sampling->events)))
    return settle (run, error);
  return check_sums (run, error);
}

gint64 *ps_uncertainty_sample (const PsProgram *program, const PsCosts *costs, const PsUncertainty *uncertainty,
                               const PsSampling *sampling, GError **error)
{
  g_auto (Run) run = { .program = program, .costs = costs, .uncertainty = uncertainty, .sampling = sampling };

  g_return_val_if_fail (sampling->n_samples >= 1 && sampling->n_jobs >= 1, NULL);
  return run_init (&run, error) && run_jobs (&run, error) ? g_steal_pointer (&run.samples_ns) : NULL;
}

/* What samples say: quantiles, the mean, and the probability that one schedule is faster than another. */

#define TAIL 0.025 /* on each side of a 95 % interval */

/* ln of the probability of k successes out of n. */
static double log_binomial (guint n, guint k, double q)
{
  int sign;

  return lgamma_r (n + 1.0, &sign) - lgamma_r (k + 1.0, &sign) - lgamma_r (n - k + 1.0, &sign) + k * log (q)
         + (n - k) * log1p (-q);
}

/* Goes down from the middle to where the rest is negligible, then adds up. */
guint ps_binomial_quantile (guint n, double q, double probability)
{
  guint k = (guint)(n * q);
  double sum = 0;

  while (k > 0 && log_binomial (n, k, q) > -45)
    k--;
  for (; k < n; k++) {
    sum += exp (log_binomial (n, k, q));
    if (sum > probability)
      break;
  }
  return k;
}

/* A quantile with its interval. The quantile lies between the samples of rank low and high (from 1) with probability P
 * (low <= number below it < high). The ranks are computed for the effective number of samples, as parts of all. */
static PsQuantile quantile (const gint64 *sorted_ns, guint n, double q, guint effective)
{
  guint rank = (guint)ceil (q * n - 1e-9);
  double scale = (double)n / effective;
  guint low = (guint)floor (ps_binomial_quantile (effective, q, TAIL) * scale);
  guint high = (guint)ceil ((ps_binomial_quantile (effective, q, 1 - TAIL) + 1) * scale);

  return (PsQuantile){ sorted_ns[MAX (rank, 1) - 1], sorted_ns[MAX (low, 1) - 1], sorted_ns[MIN (high, n) - 1] };
}

PsQuantile ps_quantile (const gint64 *sorted_ns, guint n, double q)
{
  g_return_val_if_fail (n >= 1 && q > 0 && q < 1, (PsQuantile){ 0 });
  return quantile (sorted_ns, n, q, n);
}

/* Samples in groups that are independent of each other. */
typedef struct {
  const gint64 *ns;
  const gint64 *sorted_ns;
  guint n;
  guint n_groups;
  gboolean steady;
} Samples;

static guint group_of (const Samples *samples, guint i)
{
  return samples->steady ? i / BLOCK * PS_STEADY_RUNS + i % PS_STEADY_RUNS : i;
}

/* Variance of the mean of y, from the sums of the groups about that mean. */
static double variance_of_mean (const Samples *samples, const double *y, double mean)
{
  g_autofree double *sums = g_new0 (double, samples->n_groups);
  double n = samples->n, n_groups = samples->n_groups, squares = 0;

  for (guint i = 0; i < samples->n; i++)
    sums[group_of (samples, i)] += y[i] - mean;
  for (guint i = 0; i < samples->n_groups; i++)
    squares += sums[i] * sums[i];
  return n_groups > 1 ? squares / (n * n) * n_groups / (n_groups - 1) : 0;
}

/* How many independent samples would say as much about the part of samples below the quantile. */
static guint effective_number (const Samples *samples, double q)
{
  gint64 value = quantile (samples->sorted_ns, samples->n, q, samples->n).value_ns;
  g_autofree double *below = g_new (double, samples->n);
  double part = 0;

  if (!samples->steady)
    return samples->n;
  for (guint i = 0; i < samples->n; i++) {
    below[i] = samples->ns[i] <= value;
    part += below[i] / samples->n;
  }
  double variance = variance_of_mean (samples, below, part), independent = part * (1 - part) / samples->n;
  return variance > independent ? (guint)MAX (samples->n * (independent / variance), 1) : samples->n;
}

static PsQuantile quantile_of (const Samples *samples, double q)
{
  return quantile (samples->sorted_ns, samples->n, q, effective_number (samples, q));
}

/* Student's t with the probability TAIL above it: the expansion about the normal quantile (Abramowitz and Stegun,
 * Handbook of Mathematical Functions, 26.7.5), 1 % low for 2 degrees of freedom, better beyond. */
static double student_t (guint freedom)
{
  const double z = 1.959963984540054, z2 = z * z, n = freedom;
  const double g1 = z * (z2 + 1) / 4, g2 = z * ((5 * z2 + 16) * z2 + 3) / 96,
               g3 = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
               g4 = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;

  return z + g1 / n + g2 / (n * n) + g3 / (n * n * n) + g4 / (n * n * n * n);
}

static void find_mean (PsDistribution *distribution, const Samples *samples)
{
  guint n = samples->n;
  g_autofree double *ns = g_new (double, n);
  double sum = 0, squares = 0, half = 0;

  for (guint i = 0; i < n; i++)
    sum += ns[i] = (double)samples->ns[i];
  distribution->mean_ns = sum / n;
  for (guint i = 0; i < n; i++)
    squares += (ns[i] - distribution->mean_ns) * (ns[i] - distribution->mean_ns);
  distribution->deviation_ns = n > 1 ? sqrt (squares / (n - 1)) : 0;
  if (samples->n_groups > 1)
    half = student_t (samples->n_groups - 1) * sqrt (variance_of_mean (samples, ns, distribution->mean_ns));
  distribution->mean_low_ns = distribution->mean_ns - half;
  distribution->mean_high_ns = distribution->mean_ns + half;
}

void ps_distribution_init (PsDistribution *distribution, const gint64 *ns, guint n, gboolean steady)
{
  g_autofree gint64 *sorted = g_memdup2 (ns, n * sizeof *ns);
  Samples samples = { .ns = ns, .sorted_ns = sorted, .n = n, .steady = steady };

  samples.n_groups = steady ? n / BLOCK * PS_STEADY_RUNS + MIN (n % BLOCK, PS_STEADY_RUNS) : n;
  qsort (sorted, n, sizeof *sorted, ps_compare_int64);
  *distribution = (PsDistribution){
    .n = n, .p50 = quantile_of (&samples, 0.5), .p90 = quantile_of (&samples, 0.9), .p99 = quantile_of (&samples, 0.99)
  };
  find_mean (distribution, &samples);
}

double ps_win_probability (const gint64 *a_ns, const gint64 *b_ns, guint n)
{
  guint wins = 0;

  for (guint i = 0; i < n; i++)
    wins += a_ns[i] < b_ns[i];
  return (double)wins / n;
}
