/* rotation-worker.c - runs the ops of a device's stages in rotation, and samples them. */
#include "rotation-worker.h"

#include "clock.h"

/* Each stage runs one O every OPTIMIZER_CYCLES cycles. */
#define OPTIMIZER_CYCLES 2

static void report (PsRotationWorker *worker, PsRotationItem content)
{
  PsRotationItem *item = g_memdup2 (&content, sizeof content);

  g_async_queue_push (worker->rotation->inbox, item);
}

void ps_rotation_fail (PsRotation *rotation, const GError *error)
{
  g_mutex_lock (&rotation->mutex);
  g_atomic_int_set (&rotation->failed, 1);
  g_cond_broadcast (&rotation->all_ready);
  g_mutex_unlock (&rotation->mutex);
  if (rotation->team != NULL)
    ps_team_fail (rotation->team, error);
}

gboolean ps_rotation_add_up (gpointer data, float *values, gsize n, GError **error)
{
  PsRotationWorker *worker = data;

  return ps_team_add_up (worker->rotation->team, worker->at, values, n, error);
}

static void report_choices (PsRotationWorker *worker)
{
  const PsDeviceClass *class = worker->device->class;

  if (class->choices != NULL && worker->rotation->calibration->decided != NULL)
    report (worker, (PsRotationItem){ .choices = class->choices (worker->device) });
}

/* Waits until every worker is busy: by then all have made their choices. */
static void wait_for_all (PsRotationWorker *worker)
{
  PsRotation *rotation = worker->rotation;

  g_mutex_lock (&rotation->mutex);
  if (++rotation->n_ready == rotation->n_workers) {
    report_choices (worker);
    g_cond_broadcast (&rotation->all_ready);
  }
  while (rotation->n_ready < rotation->n_workers && !g_atomic_int_get (&rotation->failed))
    g_cond_wait (&rotation->all_ready, &rotation->mutex);
  g_mutex_unlock (&rotation->mutex);
}

/* The time of the latest op: the accelerator's own where the class tells it. The rest is launching. */
static gint64 sample_ns (PsRotationWorker *worker, PsQuantity *quantity, gint64 host_ns)
{
  const PsDeviceClass *class = worker->device->class;
  gint64 own_ns = class->op_ns != NULL ? class->op_ns (worker->device) : 0, launch_ns = MAX (host_ns - own_ns, 1);

  if (own_ns > 0 && quantity->sampler.warm)
    g_array_append_val (quantity->launch_ns, launch_ns);
  return own_ns > 0 ? own_ns : host_ns;
}

static void finish_quantity (PsRotationWorker *worker, PsQuantity *quantity)
{
  PsMeasurement *m = quantity->measurement;

  ps_sampler_finish (&quantity->sampler, m);
  if (quantity->launch_ns->len > 0)
    m->launch_ns = ps_median ((gint64 *)(gpointer)quantity->launch_ns->data, quantity->launch_ns->len);
  m->taken = ps_moment_now ();
  m->before = worker->before;
  ps_condition_read (worker->device, &m->after);
  ps_conditions_median (worker->rotation->conditions, (guint)(worker - worker->rotation->workers), worker->begin_ns,
                        ps_clock_now (), &m->during);
  report (worker, (PsRotationItem){ .measurement = g_steal_pointer (&quantity->measurement) });
  g_atomic_int_add (&worker->rotation->n_open, -1);
}

#define TOO_SLOW (PS_THROTTLE_HEAT | PS_THROTTLE_HARDWARE) /* a power limit is how a device always runs */

/* Whether the hardware protected itself at that time. */
static gboolean is_throttled (const PsRotationWorker *worker, gint64 start_ns, gint64 end_ns)
{
  PsCondition condition;

  ps_conditions_median (worker->rotation->conditions, (guint)(worker - worker->rotation->workers), start_ns, end_ns,
                        &condition);
  return (condition.throttle & TOO_SLOW) != 0;
}

static void add_sample (PsRotationWorker *worker, PsRotationStage *stage, PsOp op, gint64 start_ns, gint64 end_ns,
                        const PsMemoryUse *before, const PsMemoryUse *after)
{
  const PsRotation *rotation = worker->rotation;
  gboolean warm = rotation->tells_warm && ps_op_is_warm (worker->last, op);
  PsQuantity *quantity = stage->quantity[(warm ? rotation->cut->n_slices : op.slice) * PS_N_OP_KINDS + op.kind];
  gint64 elapsed_ns = ps_clock_now () - worker->begin_ns;
  gboolean stopped;

  if (quantity == NULL || quantity->measurement == NULL || worker->begin_ns == 0)
    return;
  PsMeasurement *m = quantity->measurement;
  m->take_bytes = after->peak_bytes - ps_memory_use_held (before);
  m->give_bytes = after->peak_bytes - ps_memory_use_held (after);
  m->state_bytes = stage->state_bytes;
  if (is_throttled (worker, start_ns, end_ns))
    stopped = ps_sampler_reject (&quantity->sampler, elapsed_ns);
  else
    stopped = ps_sampler_add (&quantity->sampler, sample_ns (worker, quantity, end_ns - start_ns), elapsed_ns);
  if (stopped)
    finish_quantity (worker, quantity);
}

/* Makes the tensor that the neighbouring stage would send, if the op takes one. */
static gboolean make_input (PsRotationWorker *worker, const PsRotationStage *stage, PsOpKind kind, PsTensor **input,
                            GError **error)
{
  gboolean activation = kind == PS_OP_F && !stage->shape->embedding;
  gboolean gradient = (kind == PS_OP_B || kind == PS_OP_BW) && !stage->shape->head;

  *input = NULL;
  if (!activation && !gradient)
    return TRUE;
  *input = ps_lone_input (&worker->inputs, worker->device, worker->setting.model->precision, kind, error);
  if (*input == NULL)
    g_prefix_error (error, "stage %u: ", stage->stage);
  return *input != NULL;
}

/* Occupies or frees multiprocessors. It does so only while sampling: the first launch of a kernel may wait for all
 * others. */
static gboolean keep_from_op (PsRotationWorker *worker, gboolean begin, GError **error)
{
  const guint *kept = worker->rotation->calibration->kept;

  return kept == NULL || worker->begin_ns == 0
         || worker->device->class->occupy (worker->device, begin ? *kept : 0, error);
}

/* Empties the caches or holds multiprocessors. Nothing may come between this and the op. */
static gboolean prepare_hardware (PsRotationWorker *worker, PsTensor *input, GError **error)
{
  const PsDeviceClass *class = worker->device->class;

  if ((worker->rotation->cache != PS_CACHE_COLD || class->flush_cache (worker->device, error))
      && keep_from_op (worker, TRUE, error))
    return TRUE;
  if (input != NULL)
    class->tensor_free (input);
  return FALSE;
}

static gboolean run_op (PsRotationWorker *worker, PsRotationStage *stage, PsOpKind kind, guint microbatch, guint slice,
                        GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  PsOp op = {
    .kind = (guint8)kind, .slice = (guint8)slice, .stage = (guint16)stage->stage, .microbatch = microbatch & G_MAXINT32
  };
  PsTensor *input, *output = NULL;
  PsMemoryUse before, after;

  if (!make_input (worker, stage, kind, &input, error) || !prepare_hardware (worker, input, error))
    return FALSE;
  class->memory (worker->device, &before);
  class->reset_peak (worker->device);
  gint64 start = ps_clock_now ();
  gboolean ok = class->run (worker->device, op, input, &output, error);
  gint64 end = ps_clock_now ();
  ok = keep_from_op (worker, FALSE, ok ? error : NULL) && ok;
  class->memory (worker->device, &after);
  if (ok && output != NULL)
    class->tensor_free (output);
  if (ok)
    add_sample (worker, stage, op, start, end, &before, &after);
  worker->last = op;
  return ok;
}

/* Runs the op of all slices on the microbatch that has waited longest in one queue, and moves it to another queue.
 * Backwards take the last slice first. */
static gboolean advance (PsRotationWorker *worker, PsRotationStage *stage, PsOpKind kind, GQueue *from, GQueue *to,
                         GError **error)
{
  gpointer microbatch = g_queue_pop_head (from);
  guint n = worker->rotation->cut->n_slices;

  g_queue_push_tail (to, microbatch);
  for (guint i = 0; i < n; i++)
    if (!run_op (worker, stage, kind, GPOINTER_TO_UINT (microbatch), kind == PS_OP_F ? i : n - 1 - i, error))
      return FALSE;
  return TRUE;
}

static gboolean step (PsRotationWorker *worker, PsRotationStage *stage, PsOpKind kind, GError **error)
{
  switch (kind) {
  case PS_OP_F:
    return advance (worker, stage, kind, &stage->unused, &stage->forwarded, error);
  case PS_OP_B:
    return advance (worker, stage, kind, &stage->forwarded, &stage->backwarded, error);
  case PS_OP_W:
    return advance (worker, stage, kind, &stage->backwarded, &stage->unused, error);
  case PS_OP_BW:
    return advance (worker, stage, kind, &stage->forwarded, &stage->unused, error);
  default:
    return run_op (worker, stage, kind, 0, 0, error);
  }
}

static gboolean step_all (PsRotationWorker *worker, PsOpKind kind, GError **error)
{
  for (guint i = 0; i < worker->n_stages; i++)
    if (!step (worker, &worker->stages[i], kind, error))
      return FALSE;
  return TRUE;
}

/* Runs ops of a stage one right after the other on one more microbatch, so that their data is warm. */
static gboolean run_warm_ops (PsRotationWorker *worker, PsRotationStage *stage, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_F, PS_OP_BW };
  guint microbatch = GPOINTER_TO_UINT (g_queue_peek_tail (&stage->unused));

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (!run_op (worker, stage, kinds[i], microbatch, 0, error))
      return FALSE;
  return TRUE;
}

/* W works on the B of the cycle before, so that its data is as cold as that of a delayed W. The second F of a stage
 * follows an F, and so finds no memory that was just freed. */
static gboolean run_cycle (PsRotationWorker *worker, guint cycle, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (!step_all (worker, kinds[i], error))
      return FALSE;
  for (guint i = 0; i < worker->n_stages && worker->rotation->tells_warm; i++)
    if (!run_warm_ops (worker, &worker->stages[i], error))
      return FALSE;
  return cycle % OPTIMIZER_CYCLES != 0 || step_all (worker, PS_OP_O, error);
}

/* Runs every op right after the op that it needs. */
static gboolean run_warm_cycle (PsRotationWorker *worker, guint cycle, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_F, PS_OP_BW, PS_OP_O };
  guint n = G_N_ELEMENTS (kinds) - (cycle % OPTIMIZER_CYCLES != 0);

  for (guint s = 0; s < worker->n_stages; s++)
    for (guint i = 0; i < n; i++)
      if (!step (worker, &worker->stages[s], kinds[i], error))
        return FALSE;
  return TRUE;
}

static gboolean run_any_cycle (PsRotationWorker *worker, guint cycle, GError **error)
{
  return worker->rotation->cache == PS_CACHE_WARM ? run_warm_cycle (worker, cycle, error)
                                                  : run_cycle (worker, cycle, error);
}

/* Fills the pipeline with the microbatches in flight, and one B whose W is due. */
static gboolean warm_up (PsRotationWorker *worker, GError **error)
{
  if (worker->rotation->cache == PS_CACHE_WARM)
    return run_warm_cycle (worker, 0, error);
  for (guint i = 0; i <= worker->rotation->n_in_flight; i++)
    if (!step_all (worker, PS_OP_F, error))
      return FALSE;
  return step_all (worker, PS_OP_B, error) && run_cycle (worker, 0, error);
}

static gboolean prepare (PsRotationWorker *worker, GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  PsTeam *team = worker->rotation->team;

  if (!class->attach (worker->device, error)
      || (team != NULL && !ps_team_join (team, worker->at, worker->device, error)))
    return FALSE;
  for (guint i = 0; i < worker->n_stages; i++) {
    PsRotationStage *stage = &worker->stages[i];
    PsMemoryUse before, after;

    class->memory (worker->device, &before);
    if (!class->add_stage (worker->device, stage->stage, stage->shape, error))
      return FALSE;
    class->memory (worker->device, &after);
    stage->state_bytes = after.current[PS_USE_STATE] - before.current[PS_USE_STATE];
  }
  return TRUE;
}

/* Devices that share layers run equally many cycles, so they agree on each: one goes on as long as any of them wants.
 */
static gboolean ask_whether_on (PsRotationWorker *worker, gboolean *on, GError **error)
{
  PsRotation *rotation = worker->rotation;
  float wanted = g_atomic_int_get (&rotation->n_open) > 0 && !g_atomic_int_get (&rotation->failed);

  if (rotation->team != NULL && !ps_rotation_add_up (worker, &wanted, 1, error))
    return FALSE;
  *on = wanted > 0;
  return TRUE;
}

static gboolean work (PsRotationWorker *worker, GError **error)
{
  gboolean on;

  if (!prepare (worker, error) || !warm_up (worker, error))
    return FALSE;
  wait_for_all (worker);
  ps_condition_read (worker->device, &worker->before);
  worker->begin_ns = ps_clock_now ();
  for (guint cycle = 1; ask_whether_on (worker, &on, error); cycle++)
    if (!on || !run_any_cycle (worker, cycle, error))
      return !on;
  return FALSE;
}

gpointer ps_rotation_worker_main (gpointer data)
{
  PsRotationWorker *worker = data;
  PsTeam *team = worker->rotation->team;
  GError *error = NULL;

  if (!work (worker, &error)) {
    ps_rotation_fail (worker->rotation, error);
    if (team != NULL) {
      g_error_free (error);
      error = ps_team_failure (team);
    }
  }
  if (team != NULL)
    ps_team_part (team, worker->at);
  report (worker, (PsRotationItem){ .error = error });
  return NULL;
}
