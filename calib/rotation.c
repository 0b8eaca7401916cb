/* rotation.c - times all ops of the stages of some devices, in rotation and side by side. */
#include "rotation.h"

#include "clock.h"
#include "device/conditions.h"
#include "provenance.h"
#include "watch.h"

/* Microbatches in flight per stage: enough that an op's data is as cold as in a real run, few enough to bound
 * memory. */
#define MAX_IN_FLIGHT 4

/* Each stage runs one O every OPTIMIZER_CYCLES cycles. */
#define OPTIMIZER_CYCLES 2

/* One quantity that is sampled. */
typedef struct
{
  PsMeasurement *measurement; /* NULL after it was handed over */
  PsSampler sampler;
  GArray *device_ns; /* gint64: the accelerator's part of each sample; empty if the class has no separate time */
} Quantity;

/* A stage on a device, with the state of its microbatches. */
typedef struct
{
  guint stage;
  const PsStageShape *shape;
  gint64 state_bytes;
  GQueue unused;                     /* microbatch numbers, as pointers */
  GQueue forwarded;                  /* F done */
  GQueue backwarded;                 /* B done, W not */
  Quantity *quantity[PS_N_OP_KINDS]; /* the worker's; NULL: not sampled */
} ResidentStage;

typedef struct _Rotation Rotation;

typedef struct
{
  Rotation *rotation;
  PsDeviceSetting setting;
  PsDevice *device;
  PsCalibInputs inputs;
  ResidentStage *stages;
  guint n_stages;
  GPtrArray *quantities;
  gint64 begin_ns; /* start of sampling; 0: still warming up */
  PsCondition before;
  guint index;
  GThread *thread;
} Worker;

struct _Rotation
{
  const PsCalibration *calibration;
  const PsCut *cut;
  PsCacheState cache;
  Worker *workers;
  guint n_workers;
  guint n_in_flight;
  int n_open; /* quantities that are still sampled; atomic */
  int failed; /* atomic */
  GMutex mutex;
  GCond all_ready;
  guint n_ready;            /* under mutex */
  GAsyncQueue *inbox;       /* Item, from the workers to the thread that started them */
  PsConditions *conditions; /* of the workers' devices */
};

/* A worker's report: a finished measurement, its choices, or its end, with an error if it failed. */
typedef struct
{
  PsMeasurement *measurement;
  GError *error;
  GBytes *choices;
} Item;

static void
report (Worker *worker, Item content)
{
  Item *item = g_memdup2 (&content, sizeof content);

  g_async_queue_push (worker->rotation->inbox, item);
}

static void
rotation_fail (Rotation *rotation)
{
  g_mutex_lock (&rotation->mutex);
  g_atomic_int_set (&rotation->failed, 1);
  g_cond_broadcast (&rotation->all_ready);
  g_mutex_unlock (&rotation->mutex);
}

static void
report_choices (Worker *worker)
{
  const PsDeviceClass *class = worker->device->class;

  if (class->choices != NULL && worker->rotation->calibration->decided != NULL)
    report (worker, (Item){ .choices = class->choices (worker->device) });
}

/* Waits until every worker is busy: by then all have made their choices. */
static void
wait_for_all (Worker *worker)
{
  Rotation *rotation = worker->rotation;

  g_mutex_lock (&rotation->mutex);
  if (++rotation->n_ready == rotation->n_workers)
    {
      report_choices (worker);
      g_cond_broadcast (&rotation->all_ready);
    }
  while (rotation->n_ready < rotation->n_workers && !g_atomic_int_get (&rotation->failed))
    g_cond_wait (&rotation->all_ready, &rotation->mutex);
  g_mutex_unlock (&rotation->mutex);
}

static void
note_device_ns (Worker *worker, Quantity *quantity)
{
  const PsDeviceClass *class = worker->device->class;
  gint64 ns = class->op_ns != NULL ? class->op_ns (worker->device) : 0;

  if (ns > 0 && quantity->sampler.warm)
    g_array_append_val (quantity->device_ns, ns);
}

static void
finish_quantity (Worker *worker, Quantity *quantity)
{
  PsMeasurement *m = quantity->measurement;

  ps_sampler_finish (&quantity->sampler, m);
  if (quantity->device_ns->len > 0)
    m->device_ns = ps_median ((gint64 *)(gpointer)quantity->device_ns->data, quantity->device_ns->len);
  m->taken = ps_moment_now ();
  m->before = worker->before;
  ps_condition_read (worker->device, &m->after);
  ps_conditions_median (worker->rotation->conditions, (guint)(worker - worker->rotation->workers), worker->begin_ns,
                        ps_clock_now (), &m->during);
  report (worker, (Item){ .measurement = g_steal_pointer (&quantity->measurement) });
  g_atomic_int_add (&worker->rotation->n_open, -1);
}

static void
add_sample (Worker *worker, ResidentStage *stage, PsOpKind kind, gint64 ns, const PsMemoryUse *before,
            const PsMemoryUse *after)
{
  Quantity *quantity = stage->quantity[kind];
  gint64 now = ps_clock_now ();

  if (quantity == NULL || quantity->measurement == NULL || worker->begin_ns == 0)
    return;
  PsMeasurement *m = quantity->measurement;
  m->take_bytes = after->peak_bytes - ps_memory_use_held (before);
  m->give_bytes = after->peak_bytes - ps_memory_use_held (after);
  m->state_bytes = stage->state_bytes;
  note_device_ns (worker, quantity);
  if (ps_sampler_add (&quantity->sampler, ns, now - worker->begin_ns))
    finish_quantity (worker, quantity);
}

/* Makes the tensor that the neighbouring stage would send, if the op takes one. */
static gboolean
make_input (Worker *worker, const ResidentStage *stage, PsOpKind kind, PsTensor **input, GError **error)
{
  gboolean activation = kind == PS_OP_F && !stage->shape->embedding;
  gboolean gradient = (kind == PS_OP_B || kind == PS_OP_BW) && !stage->shape->head;

  *input = NULL;
  if (!activation && !gradient)
    return TRUE;
  *input = ps_calib_input (&worker->inputs, worker->device, worker->setting.model->precision, kind, error);
  if (*input == NULL)
    g_prefix_error (error, "stage %u: ", stage->stage);
  return *input != NULL;
}

/* Occupies or frees multiprocessors. It does so only while sampling: the first launch of a kernel may wait for all
 * others. */
static gboolean
keep_from_op (Worker *worker, gboolean begin, GError **error)
{
  const guint *kept = worker->rotation->calibration->kept;

  return kept == NULL || worker->begin_ns == 0
         || worker->device->class->occupy (worker->device, begin ? *kept : 0, error);
}

/* Empties the caches or holds multiprocessors. Nothing may come between this and the op. */
static gboolean
prepare_hardware (Worker *worker, PsTensor *input, GError **error)
{
  const PsDeviceClass *class = worker->device->class;

  if ((worker->rotation->cache != PS_CACHE_COLD || class->flush_cache (worker->device, error))
      && keep_from_op (worker, TRUE, error))
    return TRUE;
  if (input != NULL)
    class->tensor_free (input);
  return FALSE;
}

static gboolean
run_op (Worker *worker, ResidentStage *stage, PsOpKind kind, guint microbatch, GError **error)
{
  const PsDeviceClass *class = worker->device->class;
  PsOp op = { .kind = (guint8)kind, .stage = (guint16)stage->stage, .microbatch = microbatch & G_MAXINT32 };
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
    add_sample (worker, stage, kind, end - start, &before, &after);
  return ok;
}

/* Runs an op on the microbatch that has waited longest in one queue, and moves it to another queue. */
static gboolean
advance (Worker *worker, ResidentStage *stage, PsOpKind kind, GQueue *from, GQueue *to, GError **error)
{
  gpointer microbatch = g_queue_pop_head (from);

  g_queue_push_tail (to, microbatch);
  return run_op (worker, stage, kind, GPOINTER_TO_UINT (microbatch), error);
}

static gboolean
step (Worker *worker, ResidentStage *stage, PsOpKind kind, GError **error)
{
  switch (kind)
    {
    case PS_OP_F:
      return advance (worker, stage, kind, &stage->unused, &stage->forwarded, error);
    case PS_OP_B:
      return advance (worker, stage, kind, &stage->forwarded, &stage->backwarded, error);
    case PS_OP_W:
      return advance (worker, stage, kind, &stage->backwarded, &stage->unused, error);
    case PS_OP_BW:
      return advance (worker, stage, kind, &stage->forwarded, &stage->unused, error);
    default:
      return run_op (worker, stage, kind, 0, error);
    }
}

static gboolean
step_all (Worker *worker, PsOpKind kind, GError **error)
{
  for (guint i = 0; i < worker->n_stages; i++)
    if (!step (worker, &worker->stages[i], kind, error))
      return FALSE;
  return TRUE;
}

/* W works on the B of the cycle before, so that its data is as cold as that of a delayed W. */
static gboolean
run_cycle (Worker *worker, guint cycle, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_F, PS_OP_BW };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (!step_all (worker, kinds[i], error))
      return FALSE;
  return cycle % OPTIMIZER_CYCLES != 0 || step_all (worker, PS_OP_O, error);
}

/* Runs every op right after the op that it needs. */
static gboolean
run_warm_cycle (Worker *worker, guint cycle, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_F, PS_OP_BW, PS_OP_O };
  guint n = G_N_ELEMENTS (kinds) - (cycle % OPTIMIZER_CYCLES != 0);

  for (guint s = 0; s < worker->n_stages; s++)
    for (guint i = 0; i < n; i++)
      if (!step (worker, &worker->stages[s], kinds[i], error))
        return FALSE;
  return TRUE;
}

static gboolean
run_any_cycle (Worker *worker, guint cycle, GError **error)
{
  return worker->rotation->cache == PS_CACHE_WARM ? run_warm_cycle (worker, cycle, error)
                                                  : run_cycle (worker, cycle, error);
}

/* Fills the pipeline with the microbatches in flight, and one B whose W is due. */
static gboolean
warm_up (Worker *worker, GError **error)
{
  if (worker->rotation->cache == PS_CACHE_WARM)
    return run_warm_cycle (worker, 0, error);
  for (guint i = 0; i <= worker->rotation->n_in_flight; i++)
    if (!step_all (worker, PS_OP_F, error))
      return FALSE;
  return step_all (worker, PS_OP_B, error) && run_cycle (worker, 0, error);
}

static gboolean
prepare (Worker *worker, GError **error)
{
  const PsDeviceClass *class = worker->device->class;

  if (!class->attach (worker->device, error))
    return FALSE;
  for (guint i = 0; i < worker->n_stages; i++)
    {
      ResidentStage *stage = &worker->stages[i];
      PsMemoryUse before, after;

      class->memory (worker->device, &before);
      if (!class->add_stage (worker->device, stage->stage, stage->shape, error))
        return FALSE;
      class->memory (worker->device, &after);
      stage->state_bytes = after.current[PS_USE_STATE] - before.current[PS_USE_STATE];
    }
  return TRUE;
}

static gboolean
work (Worker *worker, GError **error)
{
  Rotation *rotation = worker->rotation;

  if (!prepare (worker, error) || !warm_up (worker, error))
    return FALSE;
  wait_for_all (worker);
  ps_condition_read (worker->device, &worker->before);
  worker->begin_ns = ps_clock_now ();
  for (guint cycle = 1; g_atomic_int_get (&rotation->n_open) > 0 && !g_atomic_int_get (&rotation->failed); cycle++)
    if (!run_any_cycle (worker, cycle, error))
      return FALSE;
  return TRUE;
}

static gpointer
worker_main (gpointer data)
{
  Worker *worker = data;
  GError *error = NULL;

  if (!work (worker, &error))
    rotation_fail (worker->rotation);
  report (worker, (Item){ .error = error });
  return NULL;
}

/* Finds the worker's quantity of that key. Makes it at first use, if this worker answers for the shape and the quantity
 * is wanted. */
static gboolean
find_quantity (Worker *worker, const char *key, PsOpKind kind, Quantity **found, GError **error)
{
  Rotation *rotation = worker->rotation;
  const PsCalibration *calibration = rotation->calibration;
  const guint *shares = worker->setting.shares;
  g_autofree char *shape
      = calibration->kept != NULL ? g_strdup_printf ("%s,blocks=%u", key, *calibration->kept) : g_strdup (key);
  gboolean wanted = FALSE;

  *found = NULL;
  for (guint i = 0; i < worker->quantities->len; i++)
    {
      Quantity *quantity = worker->quantities->pdata[i];

      if (quantity->measurement->kind == kind && g_str_equal (quantity->measurement->shape, shape))
        *found = quantity;
    }
  guint share = shares != NULL ? shares[worker->index] : 0;
  if (*found != NULL || ps_cut_owner (rotation->cut, key, shares, share) != worker->index)
    return TRUE;
  PsMeasurement name = { .kind = kind,
                         .shape = shape,
                         .devices = rotation->n_workers,
                         .sharing = calibration->kept != NULL ? 1 : calibration->sharing,
                         .share = share,
                         .cache = rotation->cache };
  if (!calibration->wanted (&name, calibration->data, &wanted, error))
    return FALSE;
  if (!wanted)
    return TRUE;
  *found = g_new0 (Quantity, 1);
  (*found)->measurement = g_memdup2 (&name, sizeof name);
  (*found)->measurement->shape = g_steal_pointer (&shape);
  ps_sampler_init (&(*found)->sampler, &calibration->rule);
  (*found)->device_ns = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_ptr_array_add (worker->quantities, *found);
  rotation->n_open++;
  return TRUE;
}

static void
quantity_free (Quantity *quantity)
{
  ps_measurement_free (quantity->measurement);
  ps_sampler_clear (&quantity->sampler);
  g_array_unref (quantity->device_ns);
  g_free (quantity);
}

static gboolean
init_stage (Worker *worker, ResidentStage *stage, guint number, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW, PS_OP_O };
  Rotation *rotation = worker->rotation;

  stage->stage = number;
  stage->shape = &rotation->cut->shapes[number];
  for (guint m = 0; m < worker->setting.n_microbatches; m++)
    g_queue_push_tail (&stage->unused, GUINT_TO_POINTER (m));
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (!find_quantity (worker, rotation->cut->keys[number], kinds[i], &stage->quantity[kinds[i]], error))
      return FALSE;
  return TRUE;
}

static gboolean
init_worker (Rotation *rotation, Worker *worker, guint index, GError **error)
{
  const PsCut *cut = rotation->cut;

  worker->rotation = rotation;
  worker->index = index;
  /* Two more than in flight: one whose W is due and one in its F. */
  worker->setting = ps_calib_device_setting (rotation->calibration, rotation->calibration->model, cut->n_stages,
                                             rotation->n_in_flight + 2, index);
  if (rotation->calibration->kept != NULL)
    {
      worker->setting.index = 0;
      worker->setting.n_local = 1;
      worker->setting.shares = NULL;
    }
  worker->stages = g_new0 (ResidentStage, cut->n_chunks);
  worker->n_stages = cut->n_chunks;
  worker->quantities = g_ptr_array_new_with_free_func ((GDestroyNotify)quantity_free);
  for (guint chunk = 0; chunk < cut->n_chunks; chunk++)
    if (!init_stage (worker, &worker->stages[chunk], chunk * cut->n_devices + index, error))
      return FALSE;
  return TRUE;
}

static void
clear_worker (Worker *worker)
{
  for (guint i = 0; i < worker->n_stages; i++)
    {
      g_queue_clear (&worker->stages[i].unused);
      g_queue_clear (&worker->stages[i].forwarded);
      g_queue_clear (&worker->stages[i].backwarded);
    }
  ps_calib_inputs_clear (&worker->inputs);
  if (worker->device != NULL)
    worker->device->class->close (worker->device);
  g_clear_pointer (&worker->quantities, g_ptr_array_unref);
  g_free (worker->stages);
}

static gboolean
hand_over (const PsCalibration *calibration, const Item *item, GError **error)
{
  return item->choices != NULL ? calibration->decided (item->choices, calibration->data, error)
                               : calibration->sink (item->measurement, calibration->data, error);
}

/* Stores reports until every started worker has ended. Returns the first error. */
static gboolean
collect (Rotation *rotation, guint n_started, GError **error)
{
  const PsCalibration *calibration = rotation->calibration;
  GError *first = NULL;

  for (guint n_ended = 0; n_ended < n_started;)
    {
      g_autofree Item *item = g_async_queue_pop (rotation->inbox);
      g_autoptr (PsMeasurement) measurement = item->measurement;
      g_autoptr (GBytes) choices = item->choices;
      g_autoptr (GError) failure = item->error;

      if (measurement == NULL && choices == NULL)
        n_ended++;
      else if (first == NULL && !hand_over (calibration, item, &failure))
        rotation_fail (rotation);
      if (failure != NULL && first == NULL)
        first = g_steal_pointer (&failure);
    }
  if (first != NULL)
    g_propagate_error (error, first);
  return first == NULL;
}

static gboolean
open_devices (Rotation *rotation, GError **error)
{
  g_autofree PsDevice **devices = g_new0 (PsDevice *, rotation->n_workers);

  for (guint i = 0; i < rotation->n_workers; i++)
    {
      Worker *worker = &rotation->workers[i];

      devices[i] = worker->device = rotation->calibration->device->open (&worker->setting, error);
      if (worker->device == NULL)
        return FALSE;
    }
  rotation->conditions = ps_conditions_new (devices, rotation->n_workers);
  return TRUE;
}

static gboolean
run_workers (Rotation *rotation, GError **error)
{
  GError *failure = NULL;
  guint n_started = 0;

  open_devices (rotation, &failure);
  for (; n_started < rotation->n_workers && failure == NULL; n_started += failure == NULL)
    rotation->workers[n_started].thread
        = g_thread_try_new ("calib", worker_main, &rotation->workers[n_started], &failure);
  if (failure != NULL)
    rotation_fail (rotation);
  gboolean ok = collect (rotation, n_started, failure != NULL ? NULL : error);
  for (guint i = 0; i < n_started; i++)
    g_thread_join (rotation->workers[i].thread);
  ps_conditions_free (rotation->conditions);
  if (failure != NULL)
    g_propagate_error (error, failure);
  return ok && failure == NULL;
}

gboolean
ps_calibrate_ops (const PsCalibration *calibration, const PsCut *cut, guint first, guint n_busy, PsCacheState cache,
                  GError **error)
{
  Rotation rotation = { .calibration = calibration,
                        .cut = cut,
                        .cache = cache,
                        .workers = g_new0 (Worker, n_busy),
                        .n_workers = n_busy,
                        .n_in_flight = CLAMP (cut->n_devices, 2, MAX_IN_FLIGHT),
                        .inbox = g_async_queue_new () };
  gboolean ok = TRUE;

  g_mutex_init (&rotation.mutex);
  g_cond_init (&rotation.all_ready);
  for (guint i = 0; i < n_busy && ok; i++)
    ok = init_worker (&rotation, &rotation.workers[i], first + i, error);
  if (ok && rotation.n_open > 0)
    ok = ps_watch (calibration, error) && run_workers (&rotation, error);
  for (guint i = 0; i < n_busy; i++)
    clear_worker (&rotation.workers[i]);
  g_free (rotation.workers);
  g_async_queue_unref (rotation.inbox);
  g_cond_clear (&rotation.all_ready);
  g_mutex_clear (&rotation.mutex);
  return ok;
}
