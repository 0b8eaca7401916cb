/* draws.c - base times, slowed down in some samples, times a factor for each op and transfer. */
#include "draws.h"

#include <string.h>

#define LANES PS_SCENARIO_LANES
#define MAX_NORMAL 3.5 /* no value of normal_of is larger */
#define MEAN G_MAXUINT /* value of PsLuck.before: no sample, the mean of all */

static const GArray *
measured_of (const PsDraws *draws, guint32 cost)
{
  const PsCostSpread *spread = draws->uncertainty->measured;

  return spread != NULL && !draws->uncertainty->between_runs ? spread->op[cost] : NULL;
}

/* cost: index of an op, or that of the transfers after all of them. */
static void
find_row (const PsDraws *draws, PsDrawSource *source, guint32 cost)
{
  const PsCostSpread *spread = draws->uncertainty->between_runs ? draws->uncertainty->measured : NULL;

  source->row = spread != NULL ? spread->row[cost] : PS_NO_ROW;
  source->deviation = source->row != PS_NO_ROW ? spread->deviation[source->row] : 0;
}

static void
find_source (const PsDraws *draws, PsDrawSource *source, gint64 base_ns, const GArray *measured, gboolean takes_part)
{
  source->base_ns = base_ns;
  source->measured = measured;
  source->jitters = takes_part && base_ns > 0 && (measured != NULL || draws->jitter != NULL);
  source->apart = base_ns > 0 && !(source->jitters && measured == NULL);
}

/* The same op meets the same luck in every schedule; a BW draws as its B. */
static PsDrawStart
step_start (const PsDraws *draws, guint step)
{
  const PsProgram *program = draws->recurrence->program;
  PsOp op = program->schedule->ops[program->op_of[step]];
  guint32 kind = op.kind == PS_OP_BW ? PS_OP_B : op.kind;

  return ps_draw_start (draws->seed, (PsPurpose){ op.microbatch, op.stage | (guint32)op.slice << 16 | kind << 24, 0 });
}

static void
append_draw (PsDraws *draws, guint step, guint32 class, const PsDrawSource *source, guint32 stream)
{
  PsDrawStart start = draws->start[step];

  draws->apart |= source->apart;
  start.stream = stream;
  if (source->base_ns > 0)
    draws->draw[draws->first_draw[step + 1]++] = (PsDraw){ start, class, step };
  else
    draws->zero[draws->first_zero[step + 1]++] = (PsZero){ stream, step };
}

static void
list_draws (PsDraws *draws)
{
  const PsRecurrence *recurrence = draws->recurrence;

  draws->start = g_new (PsDrawStart, recurrence->n_steps);
  draws->first_draw = g_new0 (guint32, recurrence->n_steps + 1);
  draws->draw = g_new (PsDraw, 2 * (gsize)recurrence->n_steps + 1);
  draws->first_zero = g_new0 (guint32, recurrence->n_steps + 1);
  draws->zero = g_new (PsZero, 2 * (gsize)recurrence->n_steps + 1);
  for (guint i = 0; i < recurrence->n_steps; i++)
    {
      const PsScenarioStep *step = &recurrence->steps[i];

      draws->start[i] = step_start (draws, i);
      draws->first_draw[i + 1] = draws->first_draw[i];
      draws->first_zero[i + 1] = draws->first_zero[i];
      append_draw (draws, i, step->op, &draws->op[step->op], PS_STREAM_OP);
      append_draw (draws, i, step->transfer, &draws->transfer[step->transfer], PS_STREAM_TRANSFER);
    }
}

void
ps_draws_init (PsDraws *draws, const PsRecurrence *recurrence, const PsCosts *costs, const PsUncertainty *uncertainty,
               guint64 seed, PsCauses causes)
{
  const PsPart *part = causes.part;
  gboolean all = part == NULL && causes.slowness < 0;
  const GArray *transfer
      = uncertainty->measured != NULL && !uncertainty->between_runs ? uncertainty->measured->transfer : NULL;

  *draws = (PsDraws){ .recurrence = recurrence,
                      .costs = costs,
                      .uncertainty = uncertainty,
                      .seed = seed,
                      .causes = causes,
                      .kernel = ps_kernel_best (),
                      .bits = 64,
                      .run_samples = 1 };
  if (uncertainty->jitter > 0)
    draws->jitter = ps_jitter_new (uncertainty->jitter);
  draws->op = g_new0 (PsDrawSource, recurrence->n_op_classes);
  draws->transfer = g_new0 (PsDrawSource, recurrence->n_transfer_classes);
  for (guint i = 1; i < recurrence->n_op_classes; i++)
    find_source (draws, &draws->op[i], ps_op_class_duration (&recurrence->op[i], costs),
                 measured_of (draws, ps_costs_alike (costs, recurrence->op[i].cost)),
                 all || (part != NULL && ps_part_of_op (part, &recurrence->op[i], costs) > 0));
  for (guint i = 1; i < recurrence->n_op_classes; i++)
    find_row (draws, &draws->op[i], ps_costs_alike (costs, recurrence->op[i].cost));
  for (guint i = 1; i < recurrence->n_transfer_classes; i++)
    find_source (draws, &draws->transfer[i], ps_transfer_class_duration (&recurrence->transfer[i], costs), transfer,
                 all || (part != NULL && ps_part_of_transfer (part, &recurrence->transfer[i], costs) > 0));
  for (guint i = 1; i < recurrence->n_transfer_classes; i++)
    find_row (draws, &draws->transfer[i], PS_N_OP_KINDS * costs->n_stages);
  for (guint i = 0; i < recurrence->n_steps; i++)
    draws->op[recurrence->steps[i].op].host_ns = ps_host_time_sum (ps_step_host_time (recurrence->program, costs, i));
  list_draws (draws);
}

void
ps_draws_clear (PsDraws *draws)
{
  ps_jitter_free (draws->jitter);
  g_free (draws->op);
  g_free (draws->transfer);
  g_free (draws->start);
  g_free (draws->first_draw);
  g_free (draws->draw);
  g_free (draws->first_zero);
  g_free (draws->zero);
}

static double
largest_factor (const PsDraws *draws)
{
  const PsUncertainty *uncertainty = draws->uncertainty;
  const PsCostSpread *measured = uncertainty->measured;
  double largest = draws->jitter != NULL ? ps_jitter_largest (draws->jitter) : 1, deviation = 0;

  if (measured != NULL && !uncertainty->between_runs)
    largest = MAX (largest, measured->largest);
  for (guint i = 0; i < uncertainty->n_slowness; i++)
    largest *= MAX (uncertainty->slowness[i].factor, 1);
  for (guint i = 0; measured != NULL && uncertainty->between_runs && i < measured->n_rows; i++)
    deviation = MAX (deviation, measured->deviation[i]);
  return largest * exp (MAX_NORMAL * deviation);
}

double
ps_draws_longest (const PsDraws *draws, const PsEventsSetting *events)
{
  const PsRecurrence *recurrence = draws->recurrence;
  double sum = 0, slowdown = events != NULL ? MAX (events->overlap_slowdown, 1) : 1;

  for (guint i = 0; i < recurrence->n_steps; i++)
    {
      double speed = events != NULL && events->speed != NULL ? events->speed[recurrence->program->steps[i].device] : 1;

      sum += (double)draws->op[recurrence->steps[i].op].base_ns * slowdown / speed;
      sum += (double)draws->transfer[recurrence->steps[i].transfer].base_ns;
    }
  for (guint device = 0; device < recurrence->program->schedule->placement->n_devices; device++)
    sum += (double)ps_events_optimizer_ns (recurrence->program, draws->costs, events, device);
  return sum * largest_factor (draws);
}

#define INEXACT 1.001 /* factors are polynomials and products of floats, which err by far less */

/* End times only grow when times do. No time is rounded up by a whole ns. The first op starts at 0. */
guint
ps_draws_bits (const PsDraws *draws)
{
  const PsRecurrence *recurrence = draws->recurrence;
  g_autoptr (PsScenarios) longest = ps_scenarios_new (recurrence, 1);
  double factor = largest_factor (draws) * INEXACT;

  for (guint i = 1; i < recurrence->n_op_classes; i++)
    longest->op_ns[i] = (gint64)((double)draws->op[i].base_ns * factor) + 1;
  for (guint i = 1; i < recurrence->n_transfer_classes; i++)
    longest->transfer_ns[i] = (gint64)((double)draws->transfer[i].base_ns * factor) + 1;
  ps_scenarios_run (longest);
  return longest->makespan_ns[0] <= G_MAXUINT32 ? 32 : 64;
}

static guint
n_devices (const PsDraws *draws)
{
  return draws->recurrence->program->schedule->placement->n_devices;
}

void
ps_luck_init (PsLuck *luck, const PsDraws *draws)
{
  *luck = (PsLuck){ .draws = draws };
  luck->op_ns = g_new0 (double, (gsize)draws->recurrence->n_op_classes *LANES);
  luck->transfer_ns = g_new0 (double, (gsize)draws->recurrence->n_transfer_classes *LANES);
  luck->slowness = g_new0 (double, (gsize)n_devices (draws) * LANES);
}

void
ps_luck_clear (PsLuck *luck)
{
  g_free (luck->op_ns);
  g_free (luck->transfer_ns);
  g_free (luck->slowness);
}

/* Iterations before a sample have streams of their own. */
static inline guint32
stream_of (const PsLuck *luck, guint32 stream)
{
  return stream + luck->before * PS_N_STREAMS;
}

/* Slowness */

static gboolean
slows (const PsSlowness *slowness, guint from, guint to)
{
  if (!slowness->link)
    return from == slowness->a && to == slowness->a;
  return (from == slowness->a && to == slowness->b) || (from == slowness->b && to == slowness->a);
}

static void
draw_slowness (const PsLuck *luck, guint index, double *factors)
{
  const PsSlowness *slowness = &luck->draws->uncertainty->slowness[index];
  guint32 words[LANES];

  if (luck->before != MEAN)
    ps_draw (luck->draws->seed, luck->first, (PsPurpose){ index, 0, stream_of (luck, PS_STREAM_SLOWNESS) }, words);
  for (guint lane = 0; lane < LANES; lane++)
    if (luck->before == MEAN)
      factors[lane] = 1 + slowness->probability * (slowness->factor - 1);
    else
      factors[lane] = words[lane] < slowness->probability * 4294967296.0 ? slowness->factor : 1;
}

/* Multiplies the times of a slow device or link by its factor, in the samples in which it is slow. */
static void
apply_slowness (PsLuck *luck, guint index)
{
  const PsRecurrence *recurrence = luck->draws->recurrence;
  const PsSlowness *slowness = &luck->draws->uncertainty->slowness[index];
  double factors[LANES];

  draw_slowness (luck, index, factors);
  for (guint lane = 0; lane < LANES && !slowness->link; lane++)
    luck->slowness[(gsize)slowness->a * LANES + lane] *= factors[lane];
  for (gsize i = 1; i < recurrence->n_op_classes; i++)
    for (guint lane = 0; lane < LANES && slows (slowness, recurrence->op[i].device, recurrence->op[i].device); lane++)
      luck->op_ns[i * LANES + lane]
          += (factors[lane] - 1) * (luck->op_ns[i * LANES + lane] - (double)luck->draws->op[i].host_ns);
  for (gsize i = 1; i < recurrence->n_transfer_classes; i++)
    for (guint lane = 0; lane < LANES && slows (slowness, recurrence->transfer[i].from, recurrence->transfer[i].to);
         lane++)
      luck->transfer_ns[i * LANES + lane] *= factors[lane];
}

/* Between runs */

/* Nearly normal, with mean 0 and variance 1: the sum of the word's four bytes. */
static double
normal_of (guint32 word)
{
  int sum = (int)((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24));

  return (sum - 510) / sqrt (4 * (256.0 * 256 - 1) / 12);
}

/* Multiplies the times of a class in each lane by its row's factor in the lane's run. */
static void
apply_row (const PsLuck *luck, const PsDrawSource *source, double *times_ns)
{
  guint lanes = LANES * luck->draws->run_samples;
  guint32 words[LANES];

  if (source->deviation == 0 || luck->before == MEAN)
    return;
  ps_draw (luck->draws->seed, luck->first / lanes * LANES, (PsPurpose){ source->row, 0, PS_STREAM_RUN }, words);
  for (guint lane = 0; lane < LANES; lane++)
    times_ns[lane] *= exp (source->deviation * normal_of (words[lane]));
}

void
ps_luck_begin (PsLuck *luck, guint first, guint before)
{
  const PsDraws *draws = luck->draws;
  const PsCauses *causes = &draws->causes;

  luck->first = first;
  luck->before = before;
  for (gsize i = 0; i < (gsize)draws->recurrence->n_op_classes * LANES; i++)
    luck->op_ns[i] = (double)draws->op[i / LANES].base_ns;
  for (gsize i = 0; i < (gsize)draws->recurrence->n_transfer_classes * LANES; i++)
    luck->transfer_ns[i] = (double)draws->transfer[i / LANES].base_ns;
  for (gsize i = 0; i < (gsize)n_devices (draws) * LANES; i++)
    luck->slowness[i] = 1;
  for (guint i = 0; i < draws->uncertainty->n_slowness; i++)
    if (causes->slowness == (gint)i || (causes->slowness < 0 && causes->part == NULL))
      apply_slowness (luck, i);
  for (gsize i = 1; i < draws->recurrence->n_op_classes; i++)
    apply_row (luck, &draws->op[i], &luck->op_ns[i * LANES]);
  for (gsize i = 1; i < draws->recurrence->n_transfer_classes; i++)
    apply_row (luck, &draws->transfer[i], &luck->transfer_ns[i * LANES]);
}

void
ps_luck_begin_mean (PsLuck *luck)
{
  ps_luck_begin (luck, 0, MEAN);
}

/* Ops and transfers */

static inline gsize
row_bytes (const PsDraws *draws)
{
  return LANES * draws->bits / 8;
}

static inline gpointer
row_at (const PsDraws *draws, gpointer times, gsize row)
{
  return (guint8 *)times + row * row_bytes (draws);
}

static void
measured_factors (const GArray *measured, const guint32 *words, double *factors)
{
  for (guint i = 0; i < LANES; i++)
    factors[i] = g_array_index (measured, double, (guint)((guint64)words[i] * measured->len >> 32));
}

void
ps_luck_flush (PsLuck *luck)
{
  const PsDraws *draws = luck->draws;

  ps_jitter_times (draws->jitter, draws->kernel, draws->seed, luck->first, draws->bits, luck->queue, luck->n_queued);
  luck->n_queued = 0;
}

/* Times that need no jitter from the table. */
static void
find_lanes (const PsLuck *luck, const PsDrawSource *source, PsDrawStart start, const double *base_ns, gpointer ns)
{
  guint32 words[LANES];
  double factors[LANES];

  for (guint i = 0; i < LANES; i++)
    factors[i] = 1;
  if (source->jitters && luck->before != MEAN)
    {
      ps_draw_from (luck->draws->seed, luck->first, start, words);
      measured_factors (source->measured, words, factors);
    }
  ps_jitter_round (base_ns, factors, luck->draws->bits, ns);
}

static void
draw_lanes (PsLuck *luck, const PsDrawSource *source, guint step, guint32 stream, const double *base_ns, gpointer ns)
{
  PsDrawStart start = luck->draws->start[step];

  start.stream = stream_of (luck, stream);
  if (source->base_ns == 0)
    memset (ns, 0, row_bytes (luck->draws));
  else if (source->apart || luck->before == MEAN)
    find_lanes (luck, source, start, base_ns, ns);
  else
    luck->queue[luck->n_queued++] = (PsJitterTime){ start, base_ns, ns };
  if (luck->n_queued == PS_LUCK_QUEUE)
    ps_luck_flush (luck);
}

void
ps_luck_op (PsLuck *luck, guint step, gpointer ns)
{
  gsize class = luck->draws->recurrence->steps[step].op;

  draw_lanes (luck, &luck->draws->op[class], step, PS_STREAM_OP, &luck->op_ns[class * LANES], ns);
}

void
ps_luck_transfer (PsLuck *luck, guint step, gpointer ns)
{
  gsize class = luck->draws->recurrence->steps[step].transfer;

  draw_lanes (luck, &luck->draws->transfer[class], step, PS_STREAM_TRANSFER, &luck->transfer_ns[class * LANES], ns);
}

/* All times of the steps jitter by the table or are 0. */
static void
queue_steps (PsLuck *luck, guint first, guint n, gpointer op_ns, gpointer transfer_ns)
{
  const double *const base_ns[] = { [PS_STREAM_OP] = luck->op_ns, [PS_STREAM_TRANSFER] = luck->transfer_ns };
  const gpointer ns[] = { [PS_STREAM_OP] = op_ns, [PS_STREAM_TRANSFER] = transfer_ns };
  const guint32 *first_draw = luck->draws->first_draw, *first_zero = luck->draws->first_zero;
  gsize bytes = row_bytes (luck->draws);
  guint32 before = luck->before * PS_N_STREAMS;

  for (guint i = first_zero[first]; i < first_zero[first + n]; i++)
    {
      const PsZero *zero = &luck->draws->zero[i];

      memset ((guint8 *)ns[zero->stream] + (zero->step - first) * bytes, 0, bytes);
    }
  for (guint i = first_draw[first], k; i < first_draw[first + n]; i += k)
    {
      guint n_queued = MIN (first_draw[first + n] - i, PS_LUCK_QUEUE);

      for (k = 0; k < n_queued; k++)
        {
          const PsDraw *draw = &luck->draws->draw[i + k];
          guint32 stream = draw->start.stream;

          luck->queue[k] = (PsJitterTime){ draw->start, &base_ns[stream][(gsize)draw->class * LANES],
                                           (guint8 *)ns[stream] + (draw->step - first) * bytes };
          luck->queue[k].start.stream = stream + before;
        }
      luck->n_queued = n_queued;
      ps_luck_flush (luck);
    }
}

void
ps_luck_steps (PsLuck *luck, guint first, guint n, gpointer op_ns, gpointer transfer_ns)
{
  if (!luck->draws->apart && luck->before != MEAN)
    queue_steps (luck, first, n, op_ns, transfer_ns);
  else
    for (gsize i = 0; i < n; i++)
      {
        ps_luck_op (luck, first + (guint)i, row_at (luck->draws, op_ns, i));
        ps_luck_transfer (luck, first + (guint)i, row_at (luck->draws, transfer_ns, i));
      }
  ps_luck_flush (luck);
}
