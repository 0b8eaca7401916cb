/* transformer-weights.c - the parameters of a stage: where they are, how they start, the optimizer that steps them, and
 * their way to the host and back. */
#include "train/data.h"
#include "train/transformer-stage.h"

#include <math.h>
#include <string.h>

#define DEVIATION 0.02f

/* --- where parameters are --- */

/* One matrix, or a vector as one row. It consists of n_runs times the elements of run[0], run[1] and run[2]. The whole
 * parameter has n_parts such runs for each, those of the devices that share it one after the other. */
typedef struct {
  gsize first; /* number of its first element in the stage's array */
  gsize rows, columns, stride;
  gsize n_runs, run[3];
  guint n_parts, part; /* 1, 0: the parameter is whole */
  gboolean counts;     /* of whole parameters that several devices have, those of the first count */
  float deviation;     /* standard deviation of its start values, see ps_data_weights; 0: all start as `constant` */
  float constant;
  guint32 stream, index;
} Parameter;

static const Parameter *parameter_at (const PsWeights *weights, guint i)
{
  return &g_array_index (weights->parameters, Parameter, i);
}

/* Elements from its first to its last, padding of all rows included; and without padding, where it is whole. */
static gsize extent_of (const Parameter *parameter)
{
  return parameter->rows * parameter->stride;
}

static gsize whole_of (const Parameter *parameter)
{
  return parameter->rows * parameter->columns * parameter->n_parts;
}

static void reserve (PsWeights *weights, gsize n)
{
  const gsize alignment = (gsize)weights->transformer->kernels->alignment;

  weights->n_array += (n + alignment - 1) / alignment * alignment;
}

/* Appends a parameter. Without runs all devices have it whole. Dense rows need no stride. */
static void append (PsWeights *weights, Parameter parameter)
{
  const PsSizes *sizes = &weights->transformer->sizes;
  const gboolean cut = parameter.n_runs > 0;

  parameter.counts = cut || sizes->part == 0;
  parameter.part = cut ? (guint)sizes->part : 0;
  parameter.n_parts = cut ? (guint)sizes->parts : 1;
  if (parameter.stride == 0)
    parameter.stride = parameter.columns;
  if (!cut) {
    parameter.n_runs = parameter.rows;
    parameter.run[0] = parameter.columns;
  }
  parameter.first = weights->n_array;
  g_array_append_val (weights->parameters, parameter);
  weights->n_whole += whole_of (&parameter);
  weights->n = parameter.first + extent_of (&parameter);
  reserve (weights, extent_of (&parameter));
}

static void append_vector (PsWeights *weights, gboolean exists, float constant)
{
  const gsize h = (gsize)weights->transformer->sizes.hidden;

  append (weights, (Parameter){ .rows = exists, .columns = h, .constant = constant });
}

/* Appends a parameter that starts from random numbers. */
static void append_random (PsWeights *weights, Parameter parameter, float deviation, guint32 stream, guint32 index)
{
  parameter.deviation = deviation;
  parameter.stream = stream;
  parameter.index = index;
  append (weights, parameter);
}

/* Appends the parameters of a layer in the order of PsLayerParameter. */
static void append_layer (PsWeights *weights, guint layer)
{
  const PsSizes *sizes = &weights->transformer->sizes;
  const gsize h = (gsize)sizes->hidden, f = (gsize)sizes->feed_forward, up = (gsize)sizes->up_width;
  const gsize width = (gsize)sizes->width, qkv_width = (gsize)sizes->qkv_width, keys = (qkv_width - width) / 2;
  const float last = DEVIATION / sqrtf (2.0f * (float)sizes->layers);
  const gsize biased = sizes->gated ? 0 : 1;
  Parameter qkv = { .rows = h, .columns = qkv_width, .n_runs = h, .run = { width, keys, keys } };
  Parameter mlp = { .rows = h, .columns = up, .n_runs = h, .run = { f, up - f } };

  append_vector (weights, TRUE, 1);
  append_vector (weights, biased, 0);
  append_random (weights, qkv, DEVIATION, layer, 0);
  qkv.rows = qkv.n_runs = biased;
  append (weights, qkv);
  append_random (weights, (Parameter){ .rows = width, .columns = h, .n_runs = 1, .run = { width * h } }, last, layer,
                 1);
  append_vector (weights, biased, 0);
  append_vector (weights, TRUE, 1);
  append_vector (weights, biased, 0);
  append_random (weights, mlp, DEVIATION, layer, 2);
  mlp.rows = mlp.n_runs = biased;
  append (weights, mlp);
  append_random (weights, (Parameter){ .rows = f, .columns = h, .n_runs = 1, .run = { f * h } }, last, layer, 3);
  append_vector (weights, biased, 0);
}

static void append_all (PsWeights *weights, const PsStageShape *shape)
{
  const PsSizes *sizes = &weights->transformer->sizes;
  const gsize h = (gsize)sizes->hidden, v = (gsize)sizes->vocabulary, padded = (gsize)sizes->logits_width;
  const gsize places = sizes->gated ? 0 : (gsize)sizes->whole;
  const Parameter token = { .rows = v, .columns = h }, position = { .rows = places, .columns = h };
  const Parameter head = { .rows = h, .columns = v, .stride = padded };

  weights->parameters = g_array_new (FALSE, FALSE, sizeof (Parameter));
  if (shape->embedding) {
    append_random (weights, token, DEVIATION, PS_DATA_STREAM_EMBEDDING, 0);
    append_random (weights, position, DEVIATION, PS_DATA_STREAM_EMBEDDING, 1);
  }
  weights->layers = weights->parameters->len;
  for (guint i = 0; i < shape->n_layers; i++)
    append_layer (weights, shape->first_layer + i);
  weights->head = weights->parameters->len;
  if (!shape->head)
    return;
  append_vector (weights, TRUE, 1);
  append_vector (weights, !sizes->gated, 0);
  if (sizes->tied) {
    append_random (weights, token, DEVIATION, PS_DATA_STREAM_EMBEDDING, 0);
    reserve (weights, (padded - v) * h);
  } else
    append_random (weights, head, DEVIATION, PS_DATA_STREAM_HEAD, 0);
}

PsParameters ps_weights_look_up (const PsWeights *weights, guint first)
{
  const gsize element = ps_element_bytes (weights->transformer->sizes.element);
  PsParameters view = { 0 };

  for (guint i = 0; i < PS_N_LAYER_PARAMETERS && first + i < weights->parameters->len; i++) {
    const Parameter *parameter = parameter_at (weights, first + i);

    if (parameter->rows == 0)
      continue;
    view.weight[i] = (const char *)weights->weights + parameter->first * element;
    view.gradient[i] = weights->gradients + parameter->first;
  }
  return view;
}

/* --- between host and device --- */

/* Turns the whole parameter into the device's part of it in the device's layout, in place: values has room for both. */
static void cut (const Parameter *parameter, float *values)
{
  const float *whole = values;
  float *own = values;

  for (gsize i = 0; i < 3 * parameter->n_runs; i++) {
    const gsize n = parameter->run[i % 3];

    memmove (own, whole + parameter->part * n, n * sizeof *own);
    own += n;
    whole += parameter->n_parts * n;
  }
  /* Moves each row to its padded place, from the last row to the first. */
  for (gsize row = parameter->stride != parameter->columns ? parameter->rows : 0; row-- > 0;) {
    float *to = values + row * parameter->stride;

    memmove (to, values + row * parameter->columns, parameter->columns * sizeof *values);
    memset (to + parameter->columns, 0, (parameter->stride - parameter->columns) * sizeof *values);
  }
}

/* Copies the device's part, in the device's layout, into the whole parameter, and zeros elsewhere: the results of all
 * devices that share it add up to it. */
static void join (const Parameter *parameter, const float *own, float *whole)
{
  const gsize gap = parameter->stride - parameter->columns; /* where it is not 0, run[0] is a row */

  memset (whole, 0, whole_of (parameter) * sizeof *whole);
  for (gsize i = 0; parameter->counts && i < 3 * parameter->n_runs; i++) {
    const gsize n = parameter->run[i % 3];

    memcpy (whole + parameter->part * n, own, n * sizeof *own);
    own += n + (i % 3 == 2 ? gap : 0);
    whole += parameter->n_parts * n;
  }
}

/* Returns how many elements of a parameter are among n from number `first` on; *skipped: how many of it come before. */
static gsize overlap (const Parameter *parameter, gsize first, gsize n, gsize *skipped)
{
  const gsize begin = MAX (parameter->first, first), end = MIN (parameter->first + extent_of (parameter), first + n);

  *skipped = begin - parameter->first;
  return end > begin ? end - begin : 0;
}

/* Fills an array of the device, that of n elements from number `first` on. values NULL: start values. */
static gboolean write_array (PsWeights *weights, const float *values, float *array, gsize first, gsize n,
                             GError **error)
{
  PsTransformer *transformer = weights->transformer;
  const PsKernels *kernels = transformer->kernels;

  ps_queue_begin (transformer->queue);
  for (guint i = 0; i < weights->parameters->len; i++) {
    const Parameter *parameter = parameter_at (weights, i);
    const gsize n_whole = whole_of (parameter);
    g_autofree float *own = g_try_new (float, MAX (extent_of (parameter), n_whole));
    gsize skipped, n_here = overlap (parameter, first, n, &skipped);

    if (n_whole > 0 && own == NULL)
      return ps_refuse (error, PS_ERROR_UNAVAILABLE, "no host memory for the values of weights");
    if (values != NULL && n_whole > 0)
      memcpy (own, values, n_whole * sizeof *own);
    else if (parameter->deviation != 0)
      ps_data_weights (own, n_whole, parameter->deviation, transformer->setting.seed, parameter->stream,
                       parameter->index);
    else
      for (gsize k = 0; k < n_whole; k++)
        own[k] = parameter->constant;
    values = values != NULL ? values + n_whole : NULL;
    if (n_here == 0)
      continue;
    cut (parameter, own);
    kernels->copy (transformer->queue, array + parameter->first + skipped - first, own + skipped, n_here * sizeof *own);
    kernels->await (transformer->queue);
  }
  return ps_queue_finish (transformer->queue, error);
}

/* Reads such an array to values, where all parameters are whole; zeros where the array has nothing. */
static gboolean read_array (PsWeights *weights, const float *array, gsize first, gsize n, float *values, GError **error)
{
  PsTransformer *transformer = weights->transformer;

  ps_queue_begin (transformer->queue);
  for (guint i = 0; i < weights->parameters->len; i++) {
    const Parameter *parameter = parameter_at (weights, i);
    g_autofree float *own = g_new0 (float, extent_of (parameter));
    gsize skipped, n_here = overlap (parameter, first, n, &skipped);

    if (n_here > 0) {
      transformer->kernels->copy (transformer->queue, own + skipped, array + parameter->first + skipped - first,
                                  n_here * sizeof *own);
      transformer->kernels->await (transformer->queue);
    }
    join (parameter, own, values);
    values += whole_of (parameter);
  }
  return ps_queue_finish (transformer->queue, error);
}

const float *ps_transformer_gradients (PsDevice *device, guint stage, gsize *n)
{
  PsWeights *weights = ((PsTransformer *)device)->weights[stage];

  *n = weights != NULL ? weights->n_whole : 0;
  if (weights == NULL || (weights->transformer->kernels->on_host && weights->n_whole == weights->n_array))
    return weights != NULL ? weights->gradients : NULL;
  if (weights->host_gradients == NULL)
    weights->host_gradients = g_new (float, MAX (weights->n_whole, 1));
  return read_array (weights, weights->gradients, 0, weights->n, weights->host_gradients, NULL)
             ? weights->host_gradients
             : NULL;
}

float *ps_transformer_gradient_memory (PsDevice *device, guint stage, gsize *n)
{
  const PsWeights *weights = ((PsTransformer *)device)->weights[stage];

  *n = weights != NULL ? weights->n : 0;
  return weights != NULL ? weights->gradients : NULL;
}

float *ps_transformer_weight_memory (PsDevice *device, guint stage, gsize *n)
{
  const PsWeights *weights = ((PsTransformer *)device)->weights[stage];

  *n = weights->n;
  return weights->master;
}

gboolean ps_transformer_read_state (PsDevice *device, guint stage, PsStageState *state, GError **error)
{
  PsWeights *weights = ((PsTransformer *)device)->weights[stage];

  g_assert (state->n == weights->n_whole);

  state->n_updates = weights->n_steps;
  for (guint i = 0; i < 2; i++)
    if (!read_array (weights, weights->moments[i], weights->first, weights->n_own,
                     state->array[PS_STATE_FIRST_MOMENT + i], error))
      return FALSE;
  return read_array (weights, weights->master, 0, weights->n, state->array[PS_STATE_WEIGHTS], error);
}

/* --- versions --- */

static gboolean has_own_master (const PsWeights *weights)
{
  return weights->transformer->sizes.element != PS_ELEMENT_FP32;
}

static void *newest (const PsWeights *weights)
{
  return weights->versions[weights->n_steps % weights->n_versions];
}

/* Ops read the newest version. */
static void use_newest (PsWeights *weights)
{
  weights->weights = newest (weights);
  if (!has_own_master (weights))
    weights->master = weights->weights;
}

gboolean ps_transformer_use_version (PsDevice *device, guint stage, guint64 version, GError **error)
{
  PsWeights *weights = ((PsTransformer *)device)->weights[stage];

  if (version > weights->n_steps || version + weights->n_versions <= weights->n_steps)
    return ps_refuse (error, PS_ERROR_SCHEDULE,
                      "stage %u: an op needs version %" G_GUINT64_FORMAT
                      " of the weights: the newest is %" G_GUINT64_FORMAT ", and %u are kept",
                      stage, version, weights->n_steps, weights->n_versions);
  weights->weights = weights->versions[version % weights->n_versions];
  return TRUE;
}

/* values NULL: start values. */
static gboolean write_weights (PsWeights *weights, const float *values, GError **error)
{
  PsTransformer *transformer = weights->transformer;

  use_newest (weights);
  if (!write_array (weights, values, weights->master, 0, weights->n, error))
    return FALSE;
  if (has_own_master (weights))
    transformer->kernels->to_bf16 (transformer->queue, weights->weights, weights->master, weights->n_array);
  return ps_queue_finish (transformer->queue, error);
}

gboolean ps_transformer_write_state (PsDevice *device, guint stage, const PsStageState *state, GError **error)
{
  PsWeights *weights = ((PsTransformer *)device)->weights[stage];

  g_assert (state->n == weights->n_whole);

  weights->n_steps = state->n_updates;
  for (guint i = 0; i < 2; i++)
    if (!write_array (weights, state->array[PS_STATE_FIRST_MOMENT + i], weights->moments[i], weights->first,
                      weights->n_own, error))
      return FALSE;
  return write_weights (weights, state->array[PS_STATE_WEIGHTS], error);
}

static gboolean take_zeros (PsWeights *weights, void *to, gsize bytes, GError **error)
{
  PsTransformer *transformer = weights->transformer;
  void *block = ps_transformer_take (transformer, MAX (bytes, 1), PS_USE_STATE,
                                     "weights, gradients and optimizer state", error);

  *(void **)to = block;
  if (block != NULL)
    transformer->kernels->clear (transformer->queue, block, 0, bytes);
  return block != NULL;
}

/* Both moments are one block, so that a share of them is as large as predicted. */
static gboolean take_arrays (PsWeights *weights, GError **error)
{
  const PsDeviceSetting *setting = &weights->transformer->setting;
  const gsize own = weights->n_array * ps_element_bytes (weights->transformer->sizes.element);
  const gsize floats = weights->n_array * sizeof (float);

  weights->n_versions = MAX (1, setting->n_versions);
  weights->versions = g_new0 (void *, weights->n_versions);
  for (guint i = 0; i < weights->n_versions; i++)
    if (!take_zeros (weights, &weights->versions[i], own, error))
      return FALSE;
  if ((has_own_master (weights) && !take_zeros (weights, &weights->master, floats, error))
      || !take_zeros (weights, &weights->gradients, floats, error)
      || !take_zeros (weights, &weights->moments[0], 2 * weights->n_own * sizeof (float), error))
    return FALSE;
  weights->moments[1] = weights->moments[0] + weights->n_own;
  return !setting->tentative || take_zeros (weights, &weights->trial, own, error);
}

gboolean ps_weights_init (PsWeights *weights, PsTransformer *transformer, const PsStageShape *shape, GError **error)
{
  const PsDeviceSetting *setting = &transformer->setting;
  const guint n_shares = setting->sharded ? MAX (1, setting->n_replicas) : 1;
  const guint share = setting->sharded ? setting->replica : 0;

  *weights = (PsWeights){ .transformer = transformer };
  append_all (weights, shape);
  weights->n_own = weights->n_array;
  if (n_shares > 1) {
    weights->first = ps_share_begin (weights->n, share, n_shares);
    weights->n_own = ps_share_begin (weights->n, share + 1, n_shares) - weights->first;
  }
  ps_queue_begin (transformer->queue);
  return take_arrays (weights, error) && ps_queue_finish (transformer->queue, error)
         && write_weights (weights, NULL, error);
}

void ps_weights_clear (PsWeights *weights)
{
  g_clear_pointer (&weights->host_gradients, g_free);
  g_clear_pointer (&weights->versions, g_free);
  g_clear_pointer (&weights->parameters, g_array_unref);
}

/* --- the optimizer --- */

/* The factor that makes the sum of gradients their mean. */
static float mean_factor (const PsWeights *weights)
{
  const PsDeviceSetting *setting = &weights->transformer->setting;
  const guint n_summed = setting->n_summed > 0 ? setting->n_summed : setting->n_microbatches;

  return 1 / (float)(n_summed * MAX (setting->n_replicas, 1));
}

static double rate_of (const PsWeights *weights)
{
  return ps_data_rate (weights->transformer->setting.training, weights->transformer->step);
}

static void clear_gradients (PsWeights *weights, PsQueue *queue)
{
  weights->transformer->kernels->clear (queue, weights->gradients, 0, weights->n_array * sizeof (float));
}

static void take_step (PsWeights *weights, PsQueue *queue, float factor)
{
  const PsKernels *kernels = weights->transformer->kernels;
  const void *before = newest (weights);
  const gboolean own = has_own_master (weights);

  weights->n_steps++;
  use_newest (weights);
  if (!own && weights->weights != before)
    kernels->copy (queue, weights->weights, before, weights->n_array * sizeof (float));
  kernels->adam (queue, own ? weights->weights : NULL, weights->master + weights->first,
                 weights->gradients + weights->first, weights->moments[0], weights->moments[1], weights->n_own, factor,
                 rate_of (weights), weights->n_steps);
  if (weights->n_own < weights->n)
    clear_gradients (weights, queue);
}

void ps_weights_optimize (PsWeights *weights, PsQueue *queue)
{
  const gboolean own = has_own_master (weights);

  if (weights->trial == NULL) {
    take_step (weights, queue, mean_factor (weights));
    return;
  }
  /* Makes the next weights in `trial`, and leaves all else as it is. */
  weights->weights = weights->trial;
  weights->transformer->kernels->adam_try (queue, own ? weights->trial : NULL, own ? NULL : weights->trial,
                                           weights->master, weights->gradients, weights->moments[0],
                                           weights->moments[1], weights->n_array, mean_factor (weights),
                                           rate_of (weights), weights->n_steps + 1);
}

gboolean ps_transformer_settle (PsDevice *device, guint stage, float scale, GError **error)
{
  PsWeights *weights = ((PsTransformer *)device)->weights[stage];
  PsQueue *queue = weights->transformer->queue;

  ps_queue_begin (queue);
  if (scale > 0)
    take_step (weights, queue, mean_factor (weights) * scale);
  else
    clear_gradients (weights, queue);
  weights->weights = newest (weights);
  weights->transformer->kernels->await (queue);
  if (ps_queue_finish (queue, error))
    return TRUE;
  g_prefix_error (error, "stage %u: ", stage);
  return FALSE;
}

/* Adds up the parameters that count, as many as lie next to each other at once. The gaps are zero. */
double ps_transformer_norm_square (PsDevice *device, guint stage)
{
  PsWeights *weights = ((PsTransformer *)device)->weights[stage];
  PsTransformer *transformer = weights->transformer;
  const guint n = weights->parameters->len;
  double total = 0;

  ps_queue_begin (transformer->queue);
  for (guint i = 0, end; i < n; i = end) {
    const gboolean counts = parameter_at (weights, i)->counts;
    const gsize first = parameter_at (weights, i)->first;

    for (end = i; end < n && parameter_at (weights, end)->counts == counts;)
      end++;
    const gsize after = end < n ? parameter_at (weights, end)->first : weights->n_array;
    if (counts)
      total += transformer->kernels->norm_square (transformer->queue, weights->gradients + first, after - first,
                                                  mean_factor (weights));
  }
  return ps_queue_finish (transformer->queue, NULL) ? total : NAN;
}
