/* rotation.c - starts the workers of some devices, and stores their measurements. */
#include "rotation.h"

#include "rotation-worker.h"
#include "game.h"
#include "watch.h"

/* Microbatches in flight per stage: enough that an op's data is as cold as in a real run, few enough to bound memory.
 */
#define MAX_IN_FLIGHT 4

static PsQuantity *known_quantity (const PsRotationWorker *worker, const PsMeasurement *key)
{
  for (guint i = 0; i < worker->quantities->len; i++) {
    PsQuantity *quantity = worker->quantities->pdata[i];

    if (quantity->measurement->kind == key->kind && g_str_equal (quantity->measurement->shape, key->shape))
      return quantity;
  }
  return NULL;
}

static PsQuantity *new_quantity (PsRotationWorker *worker, const PsMeasurement *key)
{
  PsQuantity *quantity = g_new0 (PsQuantity, 1);

  quantity->measurement = g_memdup2 (key, sizeof *key);
  quantity->measurement->shape = g_strdup (key->shape);
  ps_sampler_init (&quantity->sampler, &worker->rotation->calibration->rule);
  quantity->launch_ns = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_ptr_array_add (worker->quantities, quantity);
  worker->rotation->n_open++;
  return quantity;
}

/* The shape under which a part of the ops of a stage is kept: all, those of a slice, or warm ones. Free with g_free. */
static char *part_of (const PsRotation *rotation, const char *shape, guint slice)
{
  guint n = rotation->cut->n_slices;

  if (rotation->calibration->kept != NULL)
    return g_strdup_printf ("%s,blocks=%u", shape, *rotation->calibration->kept);
  if (slice == n)
    return g_strconcat (shape, PS_WARM_SUFFIX, NULL);
  return n > 1 ? ps_slice_key (shape, slice, n) : g_strdup (shape);
}

/* Finds the worker's quantity of an op. Makes it at first use, if this worker answers for the shape and the quantity is
 * wanted; NULL if not. */
static gboolean find_quantity (PsRotationWorker *worker, const char *shape, PsOpKind kind, guint slice,
                               PsQuantity **found, GError **error)
{
  const PsRotation *rotation = worker->rotation;
  const PsCalibration *calibration = rotation->calibration;
  const guint *shares = worker->setting.shares;
  g_autofree char *part = part_of (rotation, shape, slice);
  const PsMeasurement key = { .kind = kind,
                              .shape = part,
                              .devices = rotation->n_busy,
                              .sharing = calibration->kept != NULL ? 1 : calibration->sharing,
                              .share = shares != NULL ? shares[worker->index] : 0,
                              .cache = rotation->cache };
  gboolean wanted = FALSE;

  *found = known_quantity (worker, &key);
  if (*found != NULL || worker->setting.tensor > 0
      || ps_cut_owner (rotation->cut, shape, shares, key.share) != worker->index)
    return TRUE;
  if (!calibration->wanted (&key, calibration->data, &wanted, error))
    return FALSE;
  if (wanted)
    *found = new_quantity (worker, &key);
  return TRUE;
}

static void quantity_free (PsQuantity *quantity)
{
  ps_measurement_free (quantity->measurement);
  ps_sampler_clear (&quantity->sampler);
  g_array_unref (quantity->launch_ns);
  g_free (quantity);
}

static gboolean init_stage (PsRotationWorker *worker, PsRotationStage *stage, guint number, GError **error)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW, PS_OP_O };
  PsRotation *rotation = worker->rotation;
  guint n_slices = rotation->cut->n_slices, n_parts = n_slices + (rotation->tells_warm ? 1 : 0);

  stage->stage = number;
  stage->shape = &rotation->cut->shapes[number];
  for (guint m = 0; m < worker->setting.n_microbatches; m++)
    g_queue_push_tail (&stage->unused, GUINT_TO_POINTER (m));
  stage->quantity = g_new0 (PsQuantity *, (gsize)PS_N_OP_KINDS * n_parts);
  for (guint part = 0; part < n_parts; part++)
    for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
      if ((n_slices == 1 && part == 0) || kinds[i] != PS_OP_O)
        if (!find_quantity (worker, rotation->cut->keys[number], kinds[i], part,
                            &stage->quantity[part * PS_N_OP_KINDS + kinds[i]], error))
          return FALSE;
  return TRUE;
}

/* The device shares its layers as in real runs, and has the core or the part of an accelerator that it has there. */
static void set_part (PsRotationWorker *worker)
{
  const PsCalibration *calibration = worker->rotation->calibration;
  PsDeviceSetting *setting = &worker->setting;

  setting->tensor = ps_team_part_of (calibration, worker->rotation->n_busy, worker->at);
  setting->n_tensor = calibration->n_tensor;
  setting->add_up = ps_rotation_add_up;
  setting->add_up_data = worker;
  setting->exclusive = calibration->transport->exclusive;
  setting->index += setting->tensor * calibration->n_local;
  if (setting->core >= 0)
    setting->core = (int)setting->index;
}

static gboolean init_worker (PsRotation *rotation, PsRotationWorker *worker, guint index, GError **error)
{
  const PsCut *cut = rotation->cut;

  worker->rotation = rotation;
  worker->at = (guint)(worker - rotation->workers);
  worker->index = index;
  /* Four more than in flight: one whose W is due, two in their F, and one whose ops are warm. */
  worker->setting = ps_calib_device_setting (rotation->calibration, rotation->calibration->model, cut->n_stages,
                                             rotation->n_in_flight + 4, index);
  worker->setting.n_slices = cut->n_slices;
  if (rotation->calibration->kept != NULL) {
    worker->setting.index = 0;
    worker->setting.n_local = 1;
    worker->setting.shares = NULL;
  }
  if (rotation->calibration->n_tensor > 1)
    set_part (worker);
  worker->stages = g_new0 (PsRotationStage, cut->n_chunks);
  worker->n_stages = cut->n_chunks;
  worker->quantities = g_ptr_array_new_with_free_func ((GDestroyNotify)quantity_free);
  for (guint chunk = 0; chunk < cut->n_chunks; chunk++)
    if (!init_stage (worker, &worker->stages[chunk], chunk * cut->n_devices + index, error))
      return FALSE;
  return TRUE;
}

static void clear_worker (PsRotationWorker *worker)
{
  for (guint i = 0; i < worker->n_stages; i++) {
    g_queue_clear (&worker->stages[i].unused);
    g_queue_clear (&worker->stages[i].forwarded);
    g_queue_clear (&worker->stages[i].backwarded);
    g_free (worker->stages[i].quantity);
  }
  ps_lone_inputs_clear (&worker->inputs);
  if (worker->device != NULL)
    worker->device->class->close (worker->device);
  g_clear_pointer (&worker->quantities, g_ptr_array_unref);
  g_free (worker->stages);
}

static gboolean hand_over (const PsCalibration *calibration, const PsRotationItem *item, GError **error)
{
  return item->choices != NULL ? calibration->decided (item->choices, calibration->data, error)
                               : calibration->sink (item->measurement, calibration->data, error);
}

/* Stores reports until every started worker has ended. Returns the first error. */
static gboolean collect (PsRotation *rotation, guint n_started, GError **error)
{
  const PsCalibration *calibration = rotation->calibration;
  GError *first = NULL;

  for (guint n_ended = 0; n_ended < n_started;) {
    g_autofree PsRotationItem *item = g_async_queue_pop (rotation->inbox);
    g_autoptr (PsMeasurement) measurement = item->measurement;
    g_autoptr (GBytes) choices = item->choices;
    g_autoptr (GError) failure = item->error;

    if (measurement == NULL && choices == NULL)
      n_ended++;
    else if (first == NULL && !hand_over (calibration, item, &failure))
      ps_rotation_fail (rotation, failure);
    if (failure != NULL && first == NULL)
      first = g_steal_pointer (&failure);
  }
  if (first != NULL)
    g_propagate_error (error, first);
  return first == NULL;
}

static gboolean open_devices (PsRotation *rotation, GError **error)
{
  g_autofree PsDevice **devices = g_new0 (PsDevice *, rotation->n_workers);

  for (guint i = 0; i < rotation->n_workers; i++) {
    PsRotationWorker *worker = &rotation->workers[i];

    devices[i] = worker->device = rotation->calibration->device->open (&worker->setting, error);
    if (worker->device == NULL)
      return FALSE;
  }
  rotation->conditions = ps_conditions_new (devices, rotation->n_workers);
  return TRUE;
}

static gboolean run_workers (PsRotation *rotation, GError **error)
{
  GError *failure = NULL;
  guint n_started = 0;

  open_devices (rotation, &failure);
  for (; n_started < rotation->n_workers && failure == NULL; n_started += failure == NULL)
    rotation->workers[n_started].thread
        = g_thread_try_new ("calib", ps_rotation_worker_main, &rotation->workers[n_started], &failure);
  if (failure != NULL)
    ps_rotation_fail (rotation, failure);
  gboolean ok = collect (rotation, n_started, failure != NULL ? NULL : error);
  for (guint i = 0; i < n_started; i++)
    g_thread_join (rotation->workers[i].thread);
  ps_conditions_free (rotation->conditions);
  if (failure != NULL)
    g_propagate_error (error, failure);
  return ok && failure == NULL;
}

/* Starts the workers, and those of other processes that have further parts. */
static gboolean run_all (PsRotation *rotation, guint first, GError **error)
{
  const PsCalibration *calibration = rotation->calibration;
  const PsGameOrder order = { .way = PS_N_WAYS,
                              .n_chunks = (gint32)rotation->cut->n_chunks,
                              .n_slices = (gint32)rotation->cut->n_slices,
                              .first = (gint32)first,
                              .n_busy = (gint32)rotation->n_busy,
                              .cache = (gint32)rotation->cache };

  if (calibration->n_tensor <= 1)
    return run_workers (rotation, error);
  ps_game_tell_others (calibration, &order);
  rotation->team = ps_team_new (calibration, rotation->n_busy, error);
  gboolean ok = rotation->team != NULL && run_workers (rotation, error);
  ps_team_free (rotation->team);
  return ok;
}

gboolean ps_calibrate_ops (const PsCalibration *calibration, const PsCut *cut, guint first, guint n_busy,
                           PsCacheState cache, GError **error)
{
  const guint n_workers = ps_team_n_here (calibration, n_busy);
  PsRotation rotation = { .calibration = calibration,
                          .cut = cut,
                          .cache = cache,
                          .workers = g_new0 (PsRotationWorker, n_workers),
                          .n_workers = n_workers,
                          .n_busy = n_busy,
                          .tells_warm = cache == PS_CACHE_RUN && cut->n_slices == 1 && calibration->kept == NULL,
                          .n_in_flight = CLAMP (cut->n_devices, 2, MAX_IN_FLIGHT),
                          .inbox = g_async_queue_new () };
  gboolean ok = TRUE;

  g_mutex_init (&rotation.mutex);
  g_cond_init (&rotation.all_ready);
  for (guint i = 0; i < n_workers && ok; i++)
    ok = init_worker (&rotation, &rotation.workers[i], first + i % n_busy, error);
  if (ok && (rotation.n_open > 0 || ps_processes_rank (calibration->processes) > 0))
    ok = ps_watch (calibration, error) && run_all (&rotation, first, error);
  for (guint i = 0; i < n_workers; i++)
    clear_worker (&rotation.workers[i]);
  g_free (rotation.workers);
  g_async_queue_unref (rotation.inbox);
  g_cond_clear (&rotation.all_ready);
  g_mutex_clear (&rotation.mutex);
  return ok;
}
