/* ops.c - times ops with the device code that real runs use.
 *
 * An op's cost depends on what its neighbours do and on the op before it. So a tight loop would not do. Each device
 * holds the stages that it would hold in a pipeline with loop placement, and keeps several microbatches in flight. In a
 * step it runs all F over all its stages, then B, W and BW in turn, then O. One run gives the samples of all ops:
 * PS_CACHE_RUN. So that some ops find warm data, each step also runs ops of each stage right after the op that they
 * need, on one more microbatch.
 *
 * PS_CACHE_COLD is the same with the caches emptied before each op, and without these. For PS_CACHE_WARM one stage
 * after the other goes through its ops, with one microbatch alone. */
#include "measure.h"

#include "clock.h"
#include "run/transports.h"

/* Microbatches in flight per stage: enough that an op's data is as cold as in a real run, few enough to bound memory.
 * An even number, half of which take B and W and half BW. */
#define MIN_IN_FLIGHT 4
#define MAX_IN_FLIGHT 6

#define TIMEOUT_NS G_GINT64_CONSTANT (60000000000)

#define TOO_SLOW (PS_THROTTLE_HEAT | PS_THROTTLE_HARDWARE) /* a power limit is how a device always runs */

/* One quantity that is sampled. */
typedef struct {
  PsMeasurement *measurement;
  PsSampler sampler;
  GArray *launch_ns; /* gint64: of each sample; empty where the class has no op_ns */
} Quantity;

/* A run under way. */
typedef struct {
  const PsCalibration *calibration;
  const PsCut *cut;
  guint first, n_busy;
  PsCacheState cache;
  guint n_in_flight;
  gboolean tells_warm;    /* warm ops are quantities of their own */
  guint n_parts;          /* of the ops of a stage: those of each slice, then warm ones */
  GHashTable *quantities; /* of Quantity, by key_of */
  GPtrArray *finished;    /* of Quantity, in the order in which they were */
  gint64 begin_ns;        /* of sampling */
  PsCondition *before;    /* [n_busy] */
  GBytes *choices;        /* that devices have made in the first step; NULL: none */
} Ops;

static void quantity_free (gpointer data)
{
  Quantity *quantity = data;

  ps_measurement_free (quantity->measurement);
  ps_sampler_clear (&quantity->sampler);
  g_array_unref (quantity->launch_ns);
  g_free (quantity);
}

static void ops_clear (Ops *ops)
{
  g_hash_table_unref (ops->quantities);
  g_ptr_array_unref (ops->finished);
  g_clear_pointer (&ops->choices, g_bytes_unref);
  g_free (ops->before);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Ops, ops_clear)

/* Quantities */

/* The shape under which a part of the ops of a stage is kept. Free with g_free. */
static char *part_key (const Ops *ops, const char *shape, guint part)
{
  guint n = ops->cut->n_slices;

  if (ops->calibration->kept != NULL)
    return g_strdup_printf ("%s,blocks=%u", shape, *ops->calibration->kept);
  if (part == n)
    return g_strconcat (shape, PS_WARM_SUFFIX, NULL);
  return n > 1 ? ps_slice_key (shape, part, n) : g_strdup (shape);
}

/* Of ops that a device of the run samples together: two of its stages may have the same shape. */
static char *key_of (guint device, PsOpKind kind, const char *shape)
{
  return g_strdup_printf ("%u %u %s", device, kind, shape);
}

/* Makes the quantity of ops of one stage of a device of the run, if this device answers for the shape and the quantity
 * is wanted. */
static void add_quantity (Ops *ops, guint device, guint stage, PsOpKind kind, guint part)
{
  const PsCalibration *calibration = ops->calibration;
  const guint *shares = calibration->kept != NULL ? NULL : calibration->shares;
  const char *shape = ops->cut->keys[stage];
  g_autofree char *key_shape = part_key (ops, shape, part), *name = key_of (device, kind, key_shape);
  const PsMeasurement key = { .kind = kind,
                              .shape = key_shape,
                              .devices = ops->n_busy,
                              .sharing = calibration->kept != NULL ? 1 : calibration->sharing,
                              .share = shares != NULL ? shares[ops->first + device] : 0,
                              .cache = ops->cache };

  if (g_hash_table_contains (ops->quantities, name)
      || ps_cut_owner (ops->cut, shape, shares, key.share) != ops->first + device
      || !calibration->wanted (&key, calibration->data))
    return;
  Quantity *quantity = g_new0 (Quantity, 1);
  quantity->measurement = g_memdup2 (&key, sizeof key);
  quantity->measurement->shape = g_steal_pointer (&key_shape);
  quantity->launch_ns = g_array_new (FALSE, FALSE, sizeof (gint64));
  ps_sampler_init (&quantity->sampler, &calibration->rule);
  g_hash_table_insert (ops->quantities, g_steal_pointer (&name), quantity);
}

static void add_quantities (Ops *ops)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_BW, PS_OP_O };

  for (guint device = 0; device < ops->n_busy; device++)
    for (guint stage = ops->first + device; stage < ops->cut->n_stages; stage += ops->cut->n_devices)
      for (guint part = 0; part < ops->n_parts; part++)
        for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
          if (kinds[i] != PS_OP_O || (ops->cut->n_slices == 1 && part == 0))
            add_quantity (ops, device, stage, kinds[i], part);
}

/* Streams */

/* A stream while it is written; all stages of its device do the same with the same microbatches. */
typedef struct {
  const Ops *ops;
  GArray *instructions;
  guint first;       /* stage of the device */
  GQueue unused;     /* microbatch numbers, as pointers */
  GQueue forwarded;  /* F done */
  GQueue backwarded; /* B done, W not */
} Stream;

/* Adds an op of all slices; backwards take the last slice first. */
static void add_op (Stream *stream, PsOpKind kind, guint stage, guint microbatch)
{
  guint n = kind == PS_OP_O ? 1 : stream->ops->cut->n_slices;

  for (guint i = 0; i < n; i++)
    ps_stream_add (stream->instructions, PS_INSTRUCTION_COMPUTE,
                   (PsOp){ .kind = (guint8)kind,
                           .slice = (guint8)(kind == PS_OP_F ? i : n - 1 - i),
                           .stage = (guint16)stage,
                           .microbatch = microbatch & G_MAXINT32 },
                   0);
}

/* Adds ops of a stage one right after the other on one microbatch. */
static void add_warm_ops (Stream *stream, guint stage, guint microbatch)
{
  static const PsOpKind kinds[] = { PS_OP_F, PS_OP_B, PS_OP_W, PS_OP_F, PS_OP_BW };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    add_op (stream, kinds[i], stage, microbatch);
}

/* Adds the op of all stages on the microbatch that has waited longest for it. */
static void advance (Stream *stream, PsOpKind kind)
{
  GQueue *from = kind == PS_OP_F ? &stream->unused : kind == PS_OP_W ? &stream->backwarded : &stream->forwarded;
  GQueue *to = kind == PS_OP_F ? &stream->forwarded : kind == PS_OP_B ? &stream->backwarded : &stream->unused;
  gpointer microbatch = g_queue_pop_head (from);
  const PsCut *cut = stream->ops->cut;

  g_queue_push_tail (to, microbatch);
  for (guint stage = stream->first; stage < cut->n_stages; stage += cut->n_devices)
    add_op (stream, kind, stage, GPOINTER_TO_UINT (microbatch));
}

/* W works on the B before the last, so that its data is as cold as that of a delayed W. */
static void add_backwards (Stream *stream)
{
  advance (stream, PS_OP_B);
  if (stream->backwarded.length > 1)
    advance (stream, PS_OP_W);
  if (stream->forwarded.length > 0)
    advance (stream, PS_OP_BW);
}

/* An F follows an F, and so finds no memory that was just freed. */
static void add_step (Stream *stream)
{
  const PsCut *cut = stream->ops->cut;

  for (guint i = 0; i < stream->ops->n_in_flight; i++)
    advance (stream, PS_OP_F);
  add_backwards (stream);
  for (guint stage = stream->first; stage < cut->n_stages && stream->ops->tells_warm; stage += cut->n_devices)
    add_warm_ops (stream, stage, GPOINTER_TO_UINT (g_queue_peek_tail (&stream->unused)));
  while (stream->forwarded.length > 0)
    add_backwards (stream);
  while (stream->backwarded.length > 0)
    advance (stream, PS_OP_W);
}

/* Returns the stream of a device of the run. n_microbatches that it has at the same time. */
static GArray *new_stream (const Ops *ops, guint device, guint n_microbatches)
{
  Stream stream = { .ops = ops,
                    .instructions = g_array_new (FALSE, FALSE, sizeof (PsInstruction)),
                    .first = ops->first + device };
  gboolean warm = ops->cache == PS_CACHE_WARM;

  for (guint i = 0; i < n_microbatches; i++)
    g_queue_push_tail (&stream.unused, GUINT_TO_POINTER (i));
  if (!warm)
    add_step (&stream);
  for (guint stage = stream.first; stage < ops->cut->n_stages; stage += ops->cut->n_devices) {
    if (warm)
      add_warm_ops (&stream, stage, 0);
    add_op (&stream, PS_OP_O, stage, 0);
  }
  g_queue_clear (&stream.unused);
  return stream.instructions;
}

/* Samples */

/* Whether the hardware protected itself at that time. */
static gboolean is_throttled (const PsMeasuredStep *step, const PsMeasuredEvent *event)
{
  PsCondition condition;

  ps_conditions_median (step->conditions, event->device, event->times.start_ns, event->times.end_ns, &condition);
  return (condition.throttle & TOO_SLOW) != 0;
}

static void finish (Ops *ops, const PsMeasuredStep *step, guint device, Quantity *quantity)
{
  PsMeasurement *m = quantity->measurement;

  ps_sampler_finish (&quantity->sampler, m);
  if (quantity->launch_ns->len > 0)
    m->launch_ns = ps_median ((gint64 *)(gpointer)quantity->launch_ns->data, quantity->launch_ns->len);
  m->before = ops->before[device];
  ps_condition_read (step->devices[device], &m->after);
  ps_conditions_median (step->conditions, device, ops->begin_ns, ps_clock_now (), &m->during);
  g_ptr_array_add (ops->finished, quantity);
}

/* A sample is the accelerator's own time where event->own_ns has it. The rest of the host's time is launching. */
static void add_sample (Ops *ops, const PsMeasuredStep *step, Quantity *quantity, const PsMeasuredEvent *event)
{
  gint64 host_ns = event->times.end_ns - event->times.start_ns, launch_ns = MAX (host_ns - event->own_ns, 1);
  gint64 elapsed_ns = event->times.end_ns - ops->begin_ns;
  gboolean stopped;

  quantity->measurement->take_bytes = event->take_bytes;
  quantity->measurement->give_bytes = event->give_bytes;
  quantity->measurement->state_bytes
      = step->state_bytes[event->device * ops->cut->n_stages + event->instruction.op.stage];
  if (is_throttled (step, event))
    stopped = ps_sampler_reject (&quantity->sampler, elapsed_ns);
  else {
    if (event->own_ns > 0)
      g_array_append_val (quantity->launch_ns, launch_ns);
    stopped = ps_sampler_add (&quantity->sampler, event->own_ns > 0 ? event->own_ns : host_ns, elapsed_ns);
  }
  if (stopped)
    finish (ops, step, event->device, quantity);
}

/* Further devices have other parts of the layers. */
static void add_samples (Ops *ops, const PsMeasuredStep *step)
{
  PsOp last = { .kind = PS_OP_O };

  for (guint i = 0; i < step->events->len; i++) {
    const PsMeasuredEvent *event = &g_array_index (step->events, PsMeasuredEvent, i);
    PsOp op = event->instruction.op;
    guint part = ops->tells_warm && ps_op_is_warm (last, op) ? ops->cut->n_slices : op.slice;
    g_autofree char *shape = part_key (ops, ops->cut->keys[op.stage], part);
    g_autofree char *name = key_of (event->device, (PsOpKind)op.kind, shape);
    Quantity *quantity = event->device < ops->n_busy ? g_hash_table_lookup (ops->quantities, name) : NULL;

    last = op;
    if (quantity != NULL && quantity->sampler.stop == NULL)
      add_sample (ops, step, quantity, event);
  }
}

/* PsMeasuring.step: after the first step all devices have made their choices. */
static gboolean take_step (const PsMeasuredStep *step, gpointer data, gboolean *more, GError **error)
{
  Ops *ops = data;
  const PsDeviceClass *class = step->devices[0]->class;

  if (step->number > 0)
    add_samples (ops, step);
  else {
    ops->choices = class->choices != NULL ? class->choices (step->devices[0]) : NULL;
    for (guint i = 0; i < ops->n_busy; i++)
      ps_condition_read (step->devices[i], &ops->before[i]);
    ops->begin_ns = ps_clock_now ();
  }
  *more = ops->finished->len < g_hash_table_size (ops->quantities);
  if (ops->calibration->n_tensor > 1)
    *more = ps_calib_agree (ops->calibration, *more);
  return TRUE;
}

/* The run */

static gboolean run_streams (Ops *ops, GError **error)
{
  const PsCalibration *calibration = ops->calibration;
  const gboolean whole = calibration->kept != NULL, shared = calibration->n_tensor > 1;
  const guint n_microbatches = ops->n_in_flight + 1; /* one whose ops are warm */
  g_autoptr (GPtrArray) streams = g_ptr_array_new_with_free_func ((GDestroyNotify)g_array_unref);
  g_autofree guint *places = g_new0 (guint, ops->n_busy);
  const PsMeasuring measuring = { .places = places,
                                  .n_local = whole ? 1 : calibration->n_local,
                                  .cold = ops->cache == PS_CACHE_COLD,
                                  .n_blocks = whole ? *calibration->kept : 0,
                                  .step = take_step,
                                  .data = ops };
  const PsRunSetting setting = { .device = calibration->device,
                                 .transport = shared ? calibration->transport : &ps_threads_transport,
                                 .model = calibration->model,
                                 .shapes = ops->cut->shapes,
                                 .n_steps = 1,
                                 .seed = calibration->seed,
                                 .timeout_ns = TIMEOUT_NS,
                                 .shares = whole ? NULL : calibration->shares,
                                 .n_replicas = 1,
                                 .n_tensor = calibration->n_tensor,
                                 .processes = shared ? calibration->processes : NULL,
                                 .measuring = &measuring };

  for (guint i = 0; i < ops->n_busy; i++) {
    places[i] = whole ? 0 : (ops->first + i) % calibration->n_local;
    g_ptr_array_add (streams, new_stream (ops, i, n_microbatches));
  }
  return ps_measuring_run ((GArray **)streams->pdata, ops->n_busy, ops->cut->n_stages, n_microbatches,
                           ops->cut->n_slices, &setting, error);
}

static gboolean hand_over (const Ops *ops, GError **error)
{
  const PsCalibration *calibration = ops->calibration;

  if (ops->choices != NULL && calibration->decided != NULL
      && !calibration->decided (ops->choices, calibration->data, error))
    return FALSE;
  for (guint i = 0; i < ops->finished->len; i++)
    if (!calibration->sink (((Quantity *)ops->finished->pdata[i])->measurement, calibration->data, error))
      return FALSE;
  return TRUE;
}

gboolean ps_calibrate_ops (const PsCalibration *calibration, const PsCut *cut, guint first, guint n_busy,
                           PsCacheState cache, GError **error)
{
  const gboolean tells_warm = cache == PS_CACHE_RUN && cut->n_slices == 1 && calibration->kept == NULL;
  const guint n_parts = cut->n_slices + (tells_warm ? 1 : 0);
  g_auto (Ops) ops = { .calibration = calibration,
                       .cut = cut,
                       .first = first,
                       .n_busy = n_busy,
                       .cache = cache,
                       .n_in_flight = CLAMP (cut->n_devices / 2 * 2 + 2, MIN_IN_FLIGHT, MAX_IN_FLIGHT),
                       .tells_warm = tells_warm,
                       .n_parts = n_parts,
                       .quantities = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, quantity_free),
                       .finished = g_ptr_array_new (),
                       .before = g_new0 (PsCondition, n_busy) };
  const PsCalibOrder order = { .n_chunks = (gint32)cut->n_chunks,
                               .n_slices = (gint32)cut->n_slices,
                               .first = (gint32)first,
                               .n_busy = (gint32)n_busy,
                               .cache = (gint32)cache };

  /* Further processes have further parts of the layers, whose times nobody keeps. */
  if (ps_processes_rank (calibration->processes) > 0)
    return run_streams (&ops, error);
  add_quantities (&ops);
  if (g_hash_table_size (ops.quantities) == 0)
    return TRUE;
  if (!ps_calib_read_sentinel (calibration, error))
    return FALSE;
  if (calibration->n_tensor > 1)
    ps_calib_tell (calibration, &order);
  return run_streams (&ops, error) && hand_over (&ops, error);
}
