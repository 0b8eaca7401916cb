/* verify.c - runs the same training on one device and compares losses and gradients bit for bit; and compares a run
 * with its prediction. */
#include "runtime.h"

#include "clock.h"
#include "run/transports.h"

#include <pipesim/costdb.h>

#include <math.h>
#include <string.h>

const char *ps_check_name (PsCheck check)
{
  static const char *const names[] = { "not run", "bit-equal", "equal-within", "differs" };

  g_return_val_if_fail (check < G_N_ELEMENTS (names), NULL);

  return names[check];
}

void ps_verdict_clear (PsVerdict *verdict)
{
  g_clear_pointer (&verdict->first_difference, g_free);
}

/* A device of the reference while its order is made. */
typedef struct {
  const PsSchedule *schedule;
  guint n_microbatches; /* of all replicas */
  guint copy;           /* of the weights, that this device has */
  PsScheduleBuilder *builder;
  GPtrArray *weights; /* [n_stages] of GArray of PsOp: each stage's W in the order in which the schedule adds them up */
  guint *next;        /* [n_stages] the first of them that has not run */
  guint8 *ready;      /* [n_stages * n_microbatches * n_slices] its B has run */
} Draft;

static guint8 *ready_at (const Draft *draft, PsOp op)
{
  const gsize cell = (gsize)op.stage * draft->n_microbatches + op.microbatch;

  return &draft->ready[cell * draft->schedule->n_slices + op.slice];
}

/* Update after update, and in each of them replica after replica. */
static GArray *list_weights (const Draft *draft, guint stage)
{
  const PsSchedule *schedule = draft->schedule;
  const guint m = schedule->n_microbatches, every = ps_schedule_update_every (schedule);
  const guint device = ps_placement_device (schedule->placement, draft->copy, stage);
  GArray *weights = g_array_new (FALSE, FALSE, sizeof (PsOp));

  for (guint first = 0; first < m; first += every)
    for (guint base = 0; base < draft->n_microbatches; base += m)
      for (guint i = schedule->first[device]; i < schedule->first[device + 1]; i++) {
        PsOp op = schedule->ops[i];

        if ((op.kind != PS_OP_W && op.kind != PS_OP_BW) || op.stage != stage || op.microbatch < first
            || op.microbatch >= first + every || ps_schedule_weight_copy (schedule, op.microbatch) != draft->copy)
          continue;
        op.kind = PS_OP_W;
        op.paired = FALSE;
        op.microbatch = (op.microbatch + base) & G_MAXINT32;
        g_array_append_val (weights, op);
      }
  return weights;
}

/* The next W of the stage if its B has run; NULL: it has not, or there is none. */
static const PsOp *ready_weight (const Draft *draft, guint stage)
{
  const GArray *weights = draft->weights->pdata[stage];
  const PsOp *next = &g_array_index (weights, PsOp, draft->next[stage]);

  return draft->next[stage] < weights->len && *ready_at (draft, *next) ? next : NULL;
}

/* Adds a B and the W that it lets run. A sum of gradients depends on its order: each W waits for every W before it in
 * the schedule. */
static void add_backward (const Draft *draft, PsOp op)
{
  const PsOp *next;

  *ready_at (draft, op) = TRUE;
  if (ready_weight (draft, op.stage) != NULL) {
    op.kind = PS_OP_BW;
    draft->next[op.stage]++;
  }
  ps_schedule_builder_add_op (draft->builder, op);
  while ((next = ready_weight (draft, op.stage)) != NULL) {
    ps_schedule_builder_add_op (draft->builder, *next);
    draft->next[op.stage]++;
  }
}

/* Slices go forward in order and backward in reverse, if they do. */
static void add_microbatch (const Draft *draft, guint microbatch)
{
  const guint n_stages = draft->schedule->placement->n_stages, n = n_stages * draft->schedule->n_slices;

  for (guint i = 0; i < (draft->schedule->forward_only ? n : 2 * n); i++) {
    const guint at = i < n ? i : 2 * n - 1 - i;
    const PsOp op = { .kind = i < n ? PS_OP_F : PS_OP_B,
                      .slice = (guint8)(at / n_stages),
                      .stage = (guint16)(at % n_stages),
                      .microbatch = microbatch & G_MAXINT32 };

    if (i < n)
      ps_schedule_builder_add_op (draft->builder, op);
    else
      add_backward (draft, op);
  }
}

/* The microbatches of a weight copy, in the order of the last stage's W. */
static void add_copy (Draft *draft, guint copy)
{
  const guint n_stages = draft->schedule->placement->n_stages;

  draft->copy = copy;
  draft->weights = g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref);
  for (guint stage = 0; stage < n_stages; stage++)
    g_ptr_array_add (draft->weights, list_weights (draft, stage));
  draft->next = g_new0 (guint, n_stages);
  draft->ready = g_new0 (guint8, (gsize)n_stages * draft->n_microbatches * draft->schedule->n_slices);
  const GArray *order = draft->weights->pdata[n_stages - 1];
  for (guint i = 0; draft->schedule->forward_only && i < draft->n_microbatches; i++)
    if (ps_schedule_weight_copy (draft->schedule, i % draft->schedule->n_microbatches) == copy)
      add_microbatch (draft, i);
  for (guint i = 0; i < order->len; i++)
    if (!*ready_at (draft, g_array_index (order, PsOp, i)))
      add_microbatch (draft, g_array_index (order, PsOp, i).microbatch);
  ps_schedule_builder_next_device (draft->builder);
  g_ptr_array_unref (draft->weights);
  g_free (draft->next);
  g_free (draft->ready);
}

/* All stages of weight copy c are on device c. One device keeps as many versions of all weights as any stage needs. */
PsProgram *ps_verify_reference (const PsSchedule *schedule, guint n_microbatches)
{
  const guint n_stages = schedule->placement->n_stages, n_copies = schedule->placement->n_copies;
  g_autofree guint16 *device = g_new (guint16, (gsize)n_stages * n_copies);

  for (guint i = 0; i < n_stages * n_copies; i++)
    device[i] = (guint16)(i / n_stages);
  PsScheduleBuilder *builder = ps_schedule_builder_new (
      "one device", ps_placement_new_custom (n_copies, n_stages, n_copies, device), n_microbatches);
  Draft draft = { .schedule = schedule, .n_microbatches = n_microbatches, .builder = builder };
  for (guint copy = 0; copy < n_copies; copy++)
    add_copy (&draft, copy);
  PsSchedule *reference = ps_schedule_builder_end (builder);
  reference->copy = g_new0 (guint8, n_microbatches);
  for (guint i = 0; i < n_microbatches; i++)
    reference->copy[i] = (guint8)ps_schedule_weight_copy (schedule, i % schedule->n_microbatches);
  reference->n_slices = schedule->n_slices;
  reference->update_every = schedule->update_every * (n_microbatches / schedule->n_microbatches);
  if (schedule->weight_versions != NULL)
    reference->weight_versions = g_new0 (guint, n_copies);
  for (guint stage = 0; stage < n_stages && schedule->weight_versions != NULL; stage++)
    reference->weight_versions[0] = MAX (reference->weight_versions[0], ps_schedule_delay (schedule, stage) + 1);
  PsProgram *program = ps_program_lower (reference, PS_COMM_ASAP, NULL);
  g_assert (program != NULL);
  return program;
}

static void note_difference (PsVerdict *verdict, guint step, const char *what, guint index)
{
  if (verdict->first_difference == NULL)
    verdict->first_difference = g_strdup_printf ("step %u: %s %u", step + 1, what, index);
}

/* A NaN on one side counts as an infinite difference. */
static double larger (double largest, double difference)
{
  return isnan (difference) ? INFINITY : MAX (largest, difference);
}

static double gradient_difference (const PsRunGradients *a, const PsRunGradients *b)
{
  double largest = 0, difference = 0;

  for (guint stage = 0; stage < a->n_stages; stage++) {
    g_return_val_if_fail (a->n[stage] == b->n[stage], INFINITY);
    for (gsize i = 0; i < a->n[stage]; i++) {
      difference = larger (difference, fabs ((double)a->last[stage][i] - b->last[stage][i]));
      largest = MAX (largest, fabs ((double)b->last[stage][i]));
    }
  }
  return difference > 0 && isfinite (difference) ? difference / largest : difference;
}

void ps_verify_compare (const PsRunResult *a, const PsRunResult *b, PsVerdict *verdict)
{
  g_return_if_fail (a->n_steps == b->n_steps && a->n_microbatches == b->n_microbatches && a->n_stages == b->n_stages);
  g_return_if_fail (a->gradients != NULL && b->gradients != NULL);

  *verdict = (PsVerdict){ .check = PS_CHECK_BIT_EQUAL };
  for (guint step = 0; step < a->n_steps; step++) {
    const double *losses = &a->losses[(gsize)step * a->n_microbatches];
    const double *others = &b->losses[(gsize)step * a->n_microbatches];

    for (guint i = 0; i < a->n_microbatches; i++)
      if (memcmp (&losses[i], &others[i], sizeof *losses) != 0) {
        note_difference (verdict, step, "loss of microbatch", i);
        verdict->loss_difference = larger (verdict->loss_difference, fabs (losses[i] - others[i]) / fabs (others[i]));
      }
    for (guint i = 0; i < a->n_stages; i++)
      if (a->gradients->digest[(gsize)i * a->n_steps + step] != b->gradients->digest[(gsize)i * a->n_steps + step])
        note_difference (verdict, step, "gradients of stage", i);
  }
  if (verdict->first_difference == NULL)
    return;
  verdict->gradient_difference = gradient_difference (a->gradients, b->gradients);
  verdict->check = MAX (verdict->gradient_difference, verdict->loss_difference) <= PS_VERIFY_TOLERANCE
                       ? PS_CHECK_EQUAL_WITHIN
                       : PS_CHECK_DIFFERS;
}

gboolean ps_verify (const PsSchedule *schedule, const PsRunResult *result, const PsRunSetting *setting,
                    PsVerdict *verdict, GError **error)
{
  g_autoptr (PsProgram) program = ps_verify_reference (schedule, result->n_microbatches);
  PsRunSetting alone = *setting;
  g_autofree guint *delays = g_new (guint, schedule->placement->n_stages);

  for (guint i = 0; i < schedule->placement->n_stages; i++)
    delays[i] = ps_schedule_delay (schedule, i);
  *verdict = (PsVerdict){ .check = PS_CHECK_NOT_RUN };
  alone.transport = &ps_threads_transport;
  alone.processes = NULL;
  alone.n_replicas = 0;
  alone.n_tensor = 1;
  alone.zero = FALSE;
  alone.progress = NULL;
  alone.save = NULL;
  alone.parts = result->gradients->parts;
  alone.delays = delays;
  alone.bypass = FALSE;
  if (setting->bypass && setting->clip == 0)
    alone.clip = INFINITY;
  g_autoptr (PsRunResult) reference = ps_run (program, &alone, error);
  if (reference == NULL) {
    g_prefix_error (error, "reference run on one device: ");
    return FALSE;
  }
  ps_verify_compare (result, reference, verdict);
  /* Parts of sums are rounded before they are added up. */
  const gboolean exact = setting->model->precision == PS_PRECISION_FP32;
  if (setting->n_tensor > 1 && verdict->check == PS_CHECK_DIFFERS
      && verdict->loss_difference <= (exact ? PS_VERIFY_TOLERANCE : PS_VERIFY_ROUNDED_LOSS)
      && verdict->gradient_difference <= (exact ? PS_VERIFY_SPLIT_GRADIENT : PS_VERIFY_ROUNDED_GRADIENT))
    verdict->check = PS_CHECK_EQUAL_WITHIN;
  return TRUE;
}

/* Runs and their predictions */

void ps_compared_run_clear (PsComparedRun *compared)
{
  g_clear_pointer (&compared->started, g_free);
  g_clear_pointer (&compared->result, ps_run_result_free);
  g_clear_pointer (&compared->comparison, ps_comparison_free);
}

PsTimeline *ps_compared_run_prediction (const PsPrediction *prediction)
{
  const PsProgram *program = prediction->program;

  if (!program->schedule->asynchronous || prediction->events != NULL)
    return ps_prediction_timeline (prediction);
  g_autoptr (PsSimulation) steady = ps_simulation_new (program);
  ps_simulate (program, prediction->costs, steady);
  ps_iteration_times (program, prediction->costs, NULL, steady);
  PsTimeline *timeline = ps_timeline_from_simulation (program, prediction->costs, steady);
  timeline->iteration_ns = prediction->metrics.iteration_ns;
  timeline->interval = prediction->interval;
  return timeline;
}

gboolean ps_compared_run_make (PsComparedRun *compared, const PsProgram *program, const PsPrediction *prediction,
                               const PsRunSetting *setting, GError **error)
{
  compared->started = ps_moment_now ();
  compared->result = ps_run (program, setting, error);
  if (compared->result == NULL || compared->result->timeline == NULL || prediction == NULL)
    return compared->result != NULL;
  g_autoptr (PsTimeline) predicted = ps_compared_run_prediction (prediction);
  g_autoptr (PsSimulation) simulation = ps_simulation_new (program);
  compared->comparison = ps_compare (predicted, compared->result->timeline, error);
  if (compared->comparison == NULL
      || !ps_timeline_replay (program, prediction->costs, compared->result->timeline, simulation, error))
    return FALSE;
  compared->replayed_makespan_ns = simulation->makespan_ns;
  return TRUE;
}

gboolean ps_compared_run_store (const PsComparedRun *compared, const PsProgram *program, const PsRunSetting *setting,
                                PsCheck check, const char *path, const char *profile, GError **error)
{
  g_autoptr (PsCostDb) db = ps_costdb_open (path, PS_COSTDB_WRITE, error);
  const PsSchedule *schedule = program->schedule;
  const PsComparison *comparison = compared->comparison;
  g_autoptr (PsProfile) used = db != NULL ? ps_costdb_profile (db, profile, error) : NULL;

  if (used == NULL)
    return FALSE;
  /* The name has the number of the calibration, for a later calibration has the same name. */
  g_autofree char *number = g_strdup_printf ("#%u", used->number);
  g_autofree char *name = g_strdup_printf ("%s%s", used->name, g_str_has_suffix (used->name, number) ? "" : number);
  g_autofree char *device = setting->n_tensor > 1
                                ? g_strdup_printf ("%s --tensor %u", setting->device->name, setting->n_tensor)
                                : g_strdup (setting->device->name);
  PsRunRecord record = { .profile = name,
                         .schedule = schedule->name,
                         .device = device,
                         .transport = (char *)setting->transport->name,
                         .n_devices = schedule->placement->n_devices,
                         .n_chunks = ps_placement_max_chunks (schedule->placement),
                         .n_microbatches = schedule->n_microbatches,
                         .n_steps = compared->result->n_steps,
                         .predicted_iteration_ns = comparison->predicted.iteration_ns,
                         .measured_iteration_ns = comparison->measured.iteration_ns,
                         .predicted_peak_bytes = comparison->predicted.peak_memory_bytes,
                         .measured_peak_bytes = comparison->measured.peak_memory_bytes,
                         .clock_mhz = compared->result->clock_mhz,
                         .check = (char *)ps_check_name (check),
                         .started = compared->started };
  return ps_costdb_store_run (db, &record, error);
}
