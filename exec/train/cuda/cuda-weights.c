/* cuda-weights.c - takes, starts, updates and reads a stage's parameters. */
#include "cuda-weights.h"

#include "train/data.h"

#include <math.h>
#include <string.h>

static gboolean take_zeros (PsCudaShared *shared, void *to, gsize bytes, GError **error)
{
  void *block = ps_cuda_shared_take (shared, bytes, PS_USE_STATE, "weights, gradients and optimizer state", error);

  *(void **)to = block;
  return block != NULL
         && ps_cuda_ok ("clearing memory", cudaMemsetAsync (block, 0, bytes, shared->context.stream), error);
}

static gboolean has_own_master (const PsCudaShared *shared)
{
  return shared->sizes.element != PS_CUDA_FP32;
}

static gsize count_bytes (const PsCudaWeights *weights, const PsCudaShared *shared)
{
  return MAX (weights->parameters.n_array, 1) * ps_cuda_element_bytes (shared->sizes.element);
}

static gboolean take_arrays (PsCudaWeights *weights, PsCudaShared *shared, GError **error)
{
  const gboolean own_master = has_own_master (shared);
  const gsize bytes = MAX (weights->parameters.n_array, 1) * sizeof (float);

  weights->n_versions = MAX (1, shared->setting->n_versions);
  weights->versions = g_new0 (void *, weights->n_versions);
  for (guint i = 0; i < weights->n_versions; i++)
    if (!take_zeros (shared, &weights->versions[i], count_bytes (weights, shared), error))
      return FALSE;
  weights->weights = weights->versions[0];
  weights->master = own_master ? NULL : weights->weights;
  return (!own_master || take_zeros (shared, &weights->master, bytes, error))
         && take_zeros (shared, &weights->gradients, bytes, error)
         && take_zeros (shared, &weights->momentum, bytes, error)
         && take_zeros (shared, &weights->variance, bytes, error)
         && (!shared->setting->tentative || take_zeros (shared, &weights->trial, count_bytes (weights, shared), error));
}

static void *newest (const PsCudaWeights *weights)
{
  return weights->versions[weights->n_steps % weights->n_versions];
}

/* Writes the values of a parameter to an array of the device, in the device's layout. from NULL: its start values.
 * Otherwise they are read at *from, which then moves to the next parameter. */
static gboolean write_parameter (PsCudaShared *shared, const PsCudaParameter *parameter, const float **from,
                                 float *array, GError **error)
{
  const gsize n = ps_cuda_parameter_extent (parameter), n_whole = ps_cuda_parameter_whole (parameter);
  g_autofree float *values = g_try_new (float, MAX (n, n_whole));

  if (n == 0)
    return TRUE;
  if (values == NULL)
    return ps_refuse (error, PS_ERROR_UNAVAILABLE, "no host memory for the values of weights");
  if (from == NULL)
    ps_cuda_parameter_start (parameter, shared->seed, values);
  else {
    memcpy (values, *from, n_whole * sizeof *values);
    *from += n_whole;
  }
  ps_cuda_parameter_cut (parameter, values);
  return ps_cuda_copy (&shared->context, array + parameter->first, values, n * sizeof *values, error);
}

/* values NULL: the start values. */
static gboolean write_array (PsCudaWeights *weights, PsCudaShared *shared, const float *values, float *array,
                             GError **error)
{
  for (guint i = 0; i < weights->parameters.all->len; i++)
    if (!write_parameter (shared, ps_cuda_parameters_get (&weights->parameters, i), values != NULL ? &values : NULL,
                          array, error))
      return FALSE;
  return TRUE;
}

static gboolean write_weights (PsCudaWeights *weights, PsCudaShared *shared, const float *values, GError **error)
{
  if (!write_array (weights, shared, values, weights->master, error))
    return FALSE;
  return weights->weights == (void *)weights->master
         || ps_cuda_ok (
             "rounding weights",
             ps_cuda_to_bf16 (weights->weights, weights->master, weights->parameters.n_array, shared->context.stream),
             error);
}

gboolean ps_cuda_weights_write_state (PsCudaWeights *weights, PsCudaShared *shared, const PsStageState *state,
                                      GError **error)
{
  g_assert (state->n == weights->parameters.n_dense);

  weights->n_steps = state->n_updates;
  weights->weights = newest (weights);
  if (!has_own_master (shared))
    weights->master = weights->weights;
  return write_weights (weights, shared, state->array[PS_STATE_WEIGHTS], error)
         && write_array (weights, shared, state->array[PS_STATE_FIRST_MOMENT], weights->momentum, error)
         && write_array (weights, shared, state->array[PS_STATE_SECOND_MOMENT], weights->variance, error);
}

gboolean ps_cuda_weights_init (PsCudaWeights *weights, PsCudaShared *shared, const PsStageShape *shape, GError **error)
{
  ps_cuda_parameters_init (&weights->parameters, &shared->sizes, shape);
  return take_arrays (weights, shared, error) && write_weights (weights, shared, NULL, error);
}

void ps_cuda_weights_clear (PsCudaWeights *weights)
{
  g_clear_pointer (&weights->host_gradients, g_free);
  g_clear_pointer (&weights->versions, g_free);
  ps_cuda_parameters_clear (&weights->parameters);
}

/* Looks up the arrays of n parameters from number `first` on; NULL for parameters without rows. */
static void look_up (const PsCudaWeights *weights, const PsCudaShared *shared, guint first, guint n,
                     const void **weight, float **gradient)
{
  for (guint i = 0; i < n; i++) {
    const PsCudaParameter *parameter = ps_cuda_parameters_get (&weights->parameters, first + i);
    const gboolean exists = parameter->rows > 0;

    weight[i] = exists ? ps_cuda_at (&shared->sizes, weights->weights, parameter->first) : NULL;
    gradient[i] = exists ? weights->gradients + parameter->first : NULL;
  }
}

PsCudaLayer ps_cuda_weights_layer (const PsCudaWeights *weights, const PsCudaShared *shared, guint layer)
{
  PsCudaLayer view;

  look_up (weights, shared, weights->parameters.layers + layer * PS_CUDA_N_LAYER_PARAMETERS, PS_CUDA_N_LAYER_PARAMETERS,
           view.weight, view.gradient);
  return view;
}

PsCudaEmbedding ps_cuda_weights_embedding (const PsCudaWeights *weights, const PsCudaShared *shared, guint slice)
{
  const gsize n = slice * (gsize)shared->sizes.sequence * (gsize)shared->sizes.hidden;
  PsCudaEmbedding view;

  look_up (weights, shared, 0, PS_CUDA_N_EMBEDDING_PARAMETERS, view.weight, view.gradient);
  if (view.gradient[PS_CUDA_POSITION] != NULL) {
    view.weight[PS_CUDA_POSITION]
        = (const char *)view.weight[PS_CUDA_POSITION] + n * ps_cuda_element_bytes (shared->sizes.element);
    view.gradient[PS_CUDA_POSITION] += n;
  }
  return view;
}

PsCudaHead ps_cuda_weights_head (const PsCudaWeights *weights, const PsCudaShared *shared)
{
  PsCudaHead view;

  look_up (weights, shared, weights->parameters.head, PS_CUDA_N_HEAD_PARAMETERS, view.weight, view.gradient);
  return view;
}

/* The factor that makes the sum of gradients their mean. */
static float mean_factor (const PsCudaShared *shared)
{
  return 1 / (float)(shared->n_summed * shared->n_replicas);
}

/* Makes the next weights in `trial`, and leaves all else as it is. */
static void try_step (PsCudaWeights *weights, PsCudaShared *shared)
{
  const gboolean own = has_own_master (shared);

  weights->weights = weights->trial;
  ps_cuda_note (&shared->context, "trying Adam",
                ps_cuda_adam_try (own ? weights->trial : NULL, own ? NULL : weights->trial, weights->master,
                                  weights->gradients, weights->momentum, weights->variance, weights->parameters.n_array,
                                  mean_factor (shared), ps_data_rate (shared->setting->training, shared->step),
                                  weights->n_steps + 1, shared->context.stream));
}

static void take_step (PsCudaWeights *weights, PsCudaShared *shared, float factor)
{
  const void *before = newest (weights);

  weights->n_steps++;
  weights->weights = newest (weights);
  if (!has_own_master (shared) && weights->weights != before)
    ps_cuda_note (&shared->context, "copying weights",
                  cudaMemcpyAsync (weights->weights, before, count_bytes (weights, shared), cudaMemcpyDeviceToDevice,
                                   shared->context.stream));
  if (!has_own_master (shared))
    weights->master = weights->weights;
  ps_cuda_note (&shared->context, "Adam",
                ps_cuda_adam (has_own_master (shared) ? weights->weights : NULL, weights->master, weights->gradients,
                              weights->momentum, weights->variance, weights->parameters.n_array, factor,
                              ps_data_rate (shared->setting->training, shared->step), weights->n_steps,
                              shared->context.stream));
}

void ps_cuda_weights_optimize (PsCudaWeights *weights, PsCudaShared *shared)
{
  if (weights->trial != NULL)
    try_step (weights, shared);
  else
    take_step (weights, shared, mean_factor (shared));
}

void ps_cuda_weights_settle (PsCudaWeights *weights, PsCudaShared *shared, float scale)
{
  if (scale > 0)
    take_step (weights, shared, mean_factor (shared) * scale);
  else
    ps_cuda_note (
        &shared->context, "clearing gradients",
        cudaMemsetAsync (weights->gradients, 0, weights->parameters.n_array * sizeof (float), shared->context.stream));
  weights->weights = newest (weights);
}

gboolean ps_cuda_weights_use (PsCudaWeights *weights, guint64 version)
{
  if (version > weights->n_steps || version + weights->n_versions <= weights->n_steps)
    return FALSE;
  weights->weights = weights->versions[version % weights->n_versions];
  return TRUE;
}

/* Adds the squares of the n gradients from number `first` on. */
static gboolean add_squares (PsCudaWeights *weights, PsCudaShared *shared, gsize first, gsize n, double *total)
{
  double sum;

  if (!ps_cuda_ok ("norm of gradients",
                   ps_cuda_norm_square (shared->scratch, weights->gradients + first, n, mean_factor (shared),
                                        shared->context.stream),
                   NULL)
      || !ps_cuda_copy (&shared->context, &sum, shared->scratch, sizeof sum, NULL))
    return FALSE;
  *total += sum;
  return TRUE;
}

/* Adds up the parameters that count, as many as lie side by side at once. The gaps are zero. */
double ps_cuda_weights_norm_square (PsCudaWeights *weights, PsCudaShared *shared)
{
  const PsCudaParameters *parameters = &weights->parameters;
  double total = 0;

  for (guint i = 0, end; i < parameters->all->len; i = end) {
    const gboolean counts = ps_cuda_parameters_get (parameters, i)->counts;
    const gsize first = ps_cuda_parameters_get (parameters, i)->first;
    gsize after = parameters->n_array;

    for (end = i; end < parameters->all->len && ps_cuda_parameters_get (parameters, end)->counts == counts;)
      end++;
    if (end < parameters->all->len)
      after = ps_cuda_parameters_get (parameters, end)->first;
    if (counts && !add_squares (weights, shared, first, after - first, &total))
      return NAN;
  }
  return total;
}

gboolean ps_cuda_weights_forget (PsCudaWeights *weights, PsCudaShared *shared, GError **error)
{
  return ps_cuda_ok (
      "clearing gradients",
      cudaMemsetAsync (weights->gradients, 0, weights->parameters.n_array * sizeof (float), shared->context.stream),
      error);
}

/* Reads one parameter of an array to `values`, where it is whole. */
static gboolean read_parameter (PsCudaContext *context, const PsCudaParameter *parameter, const float *array,
                                float *values, GError **error)
{
  const float *from = array + parameter->first;
  const gsize n = ps_cuda_parameter_extent (parameter);

  if (n == 0 || (parameter->counts && n == ps_cuda_parameter_whole (parameter)))
    return n == 0 || ps_cuda_copy (context, values, from, n * sizeof *values, error);
  g_autofree float *own = g_new (float, n);
  if (!ps_cuda_copy (context, own, from, n * sizeof *own, error))
    return FALSE;
  ps_cuda_parameter_join (parameter, own, values);
  return TRUE;
}

static gboolean read_array (PsCudaWeights *weights, PsCudaShared *shared, const float *array, float *values,
                            GError **error)
{
  for (guint i = 0; i < weights->parameters.all->len; i++) {
    const PsCudaParameter *parameter = ps_cuda_parameters_get (&weights->parameters, i);

    if (!read_parameter (&shared->context, parameter, array, values, error))
      return FALSE;
    values += ps_cuda_parameter_whole (parameter);
  }
  return TRUE;
}

gboolean ps_cuda_weights_read_state (PsCudaWeights *weights, PsCudaShared *shared, PsStageState *state, GError **error)
{
  g_assert (state->n == weights->parameters.n_dense);

  state->n_updates = weights->n_steps;
  return read_array (weights, shared, weights->master, state->array[PS_STATE_WEIGHTS], error)
         && read_array (weights, shared, weights->momentum, state->array[PS_STATE_FIRST_MOMENT], error)
         && read_array (weights, shared, weights->variance, state->array[PS_STATE_SECOND_MOMENT], error);
}

const float *ps_cuda_weights_read (PsCudaWeights *weights, PsCudaShared *shared, gsize *n)
{
  if (weights->host_gradients == NULL)
    weights->host_gradients = g_new (float, MAX (weights->parameters.n_dense, 1));
  *n = weights->parameters.n_dense;
  return read_array (weights, shared, weights->gradients, weights->host_gradients, NULL) ? weights->host_gradients
                                                                                         : NULL;
}
