/* cuda-stage.c - runs the ops of one stage. */
#include "cuda-stage.h"

#include "cuda-parameters.h"
#include "cuda-slot.h"

#include <math.h>
#include <string.h>

struct _PsCudaStage
{
  PsCudaShared *shared;
  PsStageShape shape;
  PsCudaParameters parameters;
  void *weights;                                   /* of element: what products read; master itself for fp32 */
  float *master, *gradients, *momentum, *variance; /* parameters.n_array each */
  double *losses;                                  /* [n_microbatches] on the device; NULL without head */
  guint64 n_steps;
  PsCudaSlot *slots; /* [n_microbatches] */
  float *host_gradients;
};

static gboolean
take_state (PsCudaStage *stage, void *to, gsize bytes, int fill, GError **error)
{
  PsCudaShared *shared = stage->shared;
  void *block = ps_cuda_shared_take (shared, bytes, PS_MEMORY_STATE, "weights, gradients and optimizer state", error);

  *(void **)to = block;
  return block != NULL
         && ps_cuda_ok ("clearing memory", cudaMemsetAsync (block, fill, bytes, shared->context.stream), error);
}

static gboolean
take_parameters (PsCudaStage *stage, GError **error)
{
  const PsCudaShared *shared = stage->shared;
  const gsize n = MAX (stage->parameters.n_array, 1);
  float **const arrays[] = { &stage->master, &stage->gradients, &stage->momentum, &stage->variance };

  for (guint i = 0; i < G_N_ELEMENTS (arrays); i++)
    if (!take_state (stage, arrays[i], n * sizeof (float), 0, error))
      return FALSE;
  stage->weights = stage->master;
  /* All bytes 255 is NaN: no forward has run. */
  return (shared->sizes.element == PS_CUDA_FP32
          || take_state (stage, &stage->weights, n * ps_cuda_element_bytes (shared->sizes.element), 0, error))
         && (!stage->shape.head
             || take_state (stage, &stage->losses, shared->n_microbatches * sizeof (double), 0xff, error));
}

static gboolean
write_parameter (PsCudaStage *stage, const PsCudaParameter *parameter, GError **error)
{
  const gsize n = ps_cuda_parameter_extent (parameter);
  g_autofree float *values = g_try_new (float, n);

  if (n == 0)
    return TRUE;
  if (values == NULL)
    {
      g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "no host memory for the start values of weights");
      return FALSE;
    }
  ps_cuda_parameter_start (parameter, stage->shared->seed, values);
  return ps_cuda_copy (&stage->shared->context, stage->master + parameter->first, values, n * sizeof *values, error);
}

static gboolean
init_weights (PsCudaStage *stage, GError **error)
{
  PsCudaContext *context = &stage->shared->context;

  for (guint i = 0; i < stage->parameters.all->len; i++)
    if (!write_parameter (stage, ps_cuda_parameters_get (&stage->parameters, i), error))
      return FALSE;
  return stage->weights == stage->master
         || ps_cuda_ok ("rounding weights",
                        ps_cuda_to_bf16 (stage->weights, stage->master, stage->parameters.n_array, context->stream),
                        error);
}

/* Arrays of n parameters from number `first` on; NULL for those without rows. */
static void
look_up (const PsCudaStage *stage, guint first, guint n, const void **weights, float **gradients)
{
  for (guint i = 0; i < n; i++)
    {
      const PsCudaParameter *parameter = ps_cuda_parameters_get (&stage->parameters, first + i);
      const gboolean exists = parameter->rows > 0;

      weights[i] = exists ? ps_cuda_at (&stage->shared->sizes, stage->weights, parameter->first) : NULL;
      gradients[i] = exists ? stage->gradients + parameter->first : NULL;
    }
}

static PsCudaLayer
layer_of (const PsCudaStage *stage, guint layer)
{
  PsCudaLayer view;

  look_up (stage, stage->parameters.layers + layer * PS_CUDA_N_LAYER_PARAMETERS, PS_CUDA_N_LAYER_PARAMETERS,
           view.weight, view.gradient);
  return view;
}

static PsCudaHead
head_of (const PsCudaStage *stage)
{
  PsCudaHead view;

  look_up (stage, stage->parameters.head, PS_CUDA_N_HEAD_PARAMETERS, view.weight, view.gradient);
  return view;
}

static void
embed (PsCudaStage *stage, guint microbatch, void *x)
{
  const PsCudaSizes *sizes = &stage->shared->sizes;
  const void *weight[PS_CUDA_N_EMBEDDING_PARAMETERS];
  float *gradient[PS_CUDA_N_EMBEDDING_PARAMETERS];

  look_up (stage, 0, PS_CUDA_N_EMBEDDING_PARAMETERS, weight, gradient);
  ps_cuda_note (&stage->shared->context, "embedding",
                ps_cuda_embedding (sizes->element, x, weight[PS_CUDA_TOKEN], weight[PS_CUDA_POSITION],
                                   ps_cuda_shared_words (stage->shared, microbatch), sizes->batch, sizes->sequence,
                                   sizes->hidden, stage->shared->context.stream));
}

static void
embed_weights (PsCudaStage *stage, guint microbatch, const void *dx)
{
  PsCudaShared *shared = stage->shared;
  const PsCudaSizes *sizes = &shared->sizes;
  const void *weight[PS_CUDA_N_EMBEDDING_PARAMETERS];
  float *gradient[PS_CUDA_N_EMBEDDING_PARAMETERS];

  look_up (stage, 0, PS_CUDA_N_EMBEDDING_PARAMETERS, weight, gradient);
  ps_cuda_note (&shared->context, "gradient of the embedding",
                ps_cuda_embedding_weights (sizes->element, gradient[PS_CUDA_TOKEN], gradient[PS_CUDA_POSITION], dx,
                                           ps_cuda_shared_words (shared, microbatch), sizes->batch, sizes->sequence,
                                           sizes->hidden, shared->scratch, shared->context.stream));
}

/* The slot of a microbatch whose last op was `last`. */
static PsCudaSlot *
find_slot (PsCudaStage *stage, PsOp op, PsCudaProgress last, GError **error)
{
  static const char *const complaint[] = {
    [PS_CUDA_EMPTY] = "its F has not run",
    [PS_CUDA_FORWARD] = "its F has run, its B has not",
    [PS_CUDA_BACKWARD] = "its B has run, its W has not",
  };
  const char *name = op.kind == PS_OP_BW ? "B" : ps_op_kind_name (op.kind);
  const guint n = stage->shared->n_microbatches;

  if (op.microbatch < n && stage->slots[op.microbatch].progress == last)
    return &stage->slots[op.microbatch];
  if (op.microbatch < n)
    g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "%s of microbatch %u: %s", name, op.microbatch,
                 complaint[stage->slots[op.microbatch].progress]);
  else
    g_set_error (error, PS_ERROR, PS_ERROR_SCHEDULE, "%s of microbatch %u: there are only %u", name, op.microbatch, n);
  return NULL;
}

static gboolean
forward (PsCudaStage *stage, PsOp op, void *input, void **output, GError **error)
{
  PsCudaShared *shared = stage->shared;
  const PsStageShape *shape = &stage->shape;
  PsCudaSlot *slot = find_slot (stage, op, PS_CUDA_EMPTY, error);

  if (slot == NULL)
    {
      ps_device_memory_give (shared->memory, input);
      return FALSE;
    }
  if (!ps_cuda_slot_begin (slot, shared, shape, input, error))
    return FALSE;
  if (shape->embedding)
    embed (stage, op.microbatch, ps_cuda_slot_stream (slot, shape, 0));
  for (guint i = 0; i < shape->n_layers; i++)
    {
      const PsCudaLayer layer = layer_of (stage, i);
      ps_cuda_layer_forward (&layer, shared, &slot->layers[i], ps_cuda_slot_stream (slot, shape, i + 1));
    }
  if (shape->head)
    {
      const PsCudaHead head = head_of (stage);
      ps_cuda_head_forward (&head, shared, &slot->head, op.microbatch, stage->losses + op.microbatch);
    }
  slot->progress = PS_CUDA_FORWARD;
  *output = g_steal_pointer (&slot->output);
  return TRUE;
}

/* Replaces *gradient, that of the output of `layer`, by that of its input; layer n_layers is the head. */
static gboolean
backward_layer (PsCudaStage *stage, PsCudaSlot *slot, guint layer, void **gradient, GError **error)
{
  PsCudaShared *shared = stage->shared;

  if (!ps_cuda_slot_backward (slot, shared, &stage->shape, layer, g_steal_pointer (gradient), gradient, error))
    return FALSE;
  if (layer == stage->shape.n_layers)
    {
      const PsCudaHead head = head_of (stage);
      ps_cuda_head_backward (&head, shared, &slot->head, *gradient);
      return TRUE;
    }

  const PsCudaLayer view = layer_of (stage, layer);
  ps_cuda_layer_backward (&view, shared, &slot->layers[layer], *gradient);
  ps_cuda_slot_end_backward (slot, shared, layer);
  return TRUE;
}

static gboolean
backward (PsCudaStage *stage, PsOp op, void *input, void **output, GError **error)
{
  PsCudaSlot *slot = find_slot (stage, op, PS_CUDA_FORWARD, error);
  PsDeviceMemory *memory = stage->shared->memory;
  void *gradient = input;
  gboolean ok = slot != NULL;

  if (ok && input != NULL && (stage->shape.n_layers > 0 || stage->shape.embedding))
    ps_device_memory_retag (memory, input, PS_MEMORY_ACTIVATION);
  if (ok && stage->shape.head)
    ok = backward_layer (stage, slot, stage->shape.n_layers, &gradient, error);
  for (guint i = stage->shape.n_layers; ok && i > 0; i--)
    ok = backward_layer (stage, slot, i - 1, &gradient, error);
  if (!ok)
    {
      ps_device_memory_give (memory, gradient);
      return FALSE;
    }
  slot->progress = PS_CUDA_BACKWARD;
  *(stage->shape.embedding ? &slot->dembedding : output) = gradient;
  return TRUE;
}

static gboolean
weight_gradients (PsCudaStage *stage, PsOp op, GError **error)
{
  PsCudaSlot *slot = find_slot (stage, op, PS_CUDA_BACKWARD, error);

  if (slot == NULL)
    return FALSE;
  if (stage->shape.head)
    {
      const PsCudaHead head = head_of (stage);
      ps_cuda_head_weights (&head, stage->shared, &slot->head);
    }
  for (guint i = stage->shape.n_layers; i > 0; i--)
    {
      const PsCudaLayer layer = layer_of (stage, i - 1);
      ps_cuda_layer_weights (&layer, stage->shared, &slot->layers[i - 1]);
    }
  if (stage->shape.embedding)
    embed_weights (stage, op.microbatch, slot->dembedding);
  ps_cuda_slot_empty (slot, stage->shared, &stage->shape);
  return TRUE;
}

static void
optimize (PsCudaStage *stage)
{
  PsCudaShared *shared = stage->shared;
  void *weights = stage->weights != stage->master ? stage->weights : NULL;

  const float share = 1 / (float)(shared->n_microbatches * shared->n_replicas);

  stage->n_steps++;
  ps_cuda_note (&shared->context, "Adam",
                ps_cuda_adam (weights, stage->master, stage->gradients, stage->momentum, stage->variance,
                              stage->parameters.n_array, share, stage->n_steps, shared->context.stream));
}

static gboolean
run_op (PsCudaStage *stage, PsOp op, void *input, void **output, GError **error)
{
  switch (op.kind)
    {
    case PS_OP_F:
      return forward (stage, op, input, output, error);
    case PS_OP_B:
      return backward (stage, op, input, output, error);
    case PS_OP_BW:
      return backward (stage, op, input, output, error)
             && weight_gradients (stage, (PsOp){ .kind = PS_OP_W, .microbatch = op.microbatch }, error);
    case PS_OP_W:
      return weight_gradients (stage, op, error);
    case PS_OP_O:
      optimize (stage);
      return TRUE;
    default:
      g_set_error (error, PS_ERROR, PS_ERROR_UNAVAILABLE, "the cuda device can't run %s", ps_op_kind_name (op.kind));
      return FALSE;
    }
}

gboolean
ps_cuda_stage_run (PsCudaStage *stage, PsOp op, void *input, void **output, GError **error)
{
  PsCudaContext *context = &stage->shared->context;

  g_return_val_if_fail (op.kind != PS_OP_F || (input == NULL) == stage->shape.embedding, FALSE);
  g_return_val_if_fail ((op.kind != PS_OP_B && op.kind != PS_OP_BW) || (input == NULL) == stage->shape.head, FALSE);

  *output = NULL;
  ps_cuda_begin (context);
  if (!run_op (stage, op, input, output, error))
    {
      ps_cuda_finish (context, NULL);
      return FALSE;
    }
  if (ps_cuda_finish (context, error))
    return TRUE;
  ps_device_memory_give (stage->shared->memory, g_steal_pointer (output));
  return FALSE;
}

/* A boundary tensor of zeros where the stage takes one. */
static gboolean
zero_input (PsCudaStage *stage, gboolean wanted, void **input, GError **error)
{
  PsCudaShared *shared = stage->shared;
  const gsize bytes = ps_cuda_sizes_boundary_bytes (&shared->sizes);

  *input = NULL;
  if (!wanted)
    return TRUE;
  *input = ps_cuda_shared_take (shared, bytes, PS_MEMORY_BUFFER, "activations", error);
  return *input != NULL
         && ps_cuda_ok ("clearing memory", cudaMemsetAsync (*input, 0, bytes, shared->context.stream), error);
}

static gboolean
try_op (PsCudaStage *stage, PsOpKind kind, gboolean has_input, GError **error)
{
  void *input, *output;

  if (!zero_input (stage, has_input, &input, error)
      || !ps_cuda_stage_run (stage, (PsOp){ .kind = (guint8)kind }, input, &output, error))
    return FALSE;
  ps_device_memory_give (stage->shared->memory, output);
  return TRUE;
}

static gboolean
warm_up (PsCudaStage *stage, GError **error)
{
  const PsCudaShared *shared = stage->shared;
  const cudaStream_t stream = shared->context.stream;

  return try_op (stage, PS_OP_F, !stage->shape.embedding, error) && try_op (stage, PS_OP_B, !stage->shape.head, error)
         && try_op (stage, PS_OP_W, FALSE, error)
         && ps_cuda_ok ("clearing gradients",
                        cudaMemsetAsync (stage->gradients, 0, stage->parameters.n_array * sizeof (float), stream),
                        error)
         && (stage->losses == NULL
             || ps_cuda_ok ("clearing losses",
                            cudaMemsetAsync (stage->losses, 0xff, shared->n_microbatches * sizeof (double), stream),
                            error))
         && ps_cuda_ok ("waiting", cudaStreamSynchronize (stream), error);
}

PsCudaStage *
ps_cuda_stage_new (PsCudaShared *shared, const PsStageShape *shape, GError **error)
{
  g_autoptr (PsCudaStage) stage = g_new0 (PsCudaStage, 1);

  stage->shared = shared;
  stage->shape = *shape;
  stage->slots = g_new0 (PsCudaSlot, shared->n_microbatches);
  ps_cuda_parameters_init (&stage->parameters, &shared->sizes, shape);
  if (!take_parameters (stage, error) || !init_weights (stage, error)
      || (shared->n_microbatches > 0 && !warm_up (stage, error)))
    return NULL;
  return g_steal_pointer (&stage);
}

void
ps_cuda_stage_free (PsCudaStage *stage)
{
  if (stage == NULL)
    return;
  for (guint i = 0; i < stage->shared->n_microbatches; i++)
    g_free (stage->slots[i].layers);
  g_free (stage->slots);
  g_free (stage->host_gradients);
  ps_cuda_parameters_clear (&stage->parameters);
  g_free (stage);
}

double
ps_cuda_stage_loss (PsCudaStage *stage, guint microbatch)
{
  double loss = NAN;

  g_return_val_if_fail (microbatch < stage->shared->n_microbatches, NAN);

  if (stage->losses != NULL
      && !ps_cuda_copy (&stage->shared->context, &loss, stage->losses + microbatch, sizeof loss, NULL))
    return NAN;
  return loss;
}

/* Reads one matrix without the padding of its rows to `values`. */
static gboolean
read_parameter (PsCudaStage *stage, const PsCudaParameter *parameter, float *values)
{
  const float *from = stage->gradients + parameter->first;
  PsCudaContext *context = &stage->shared->context;
  const gsize n = ps_cuda_parameter_extent (parameter);
  g_autofree float *padded = NULL;

  if (n == 0 || parameter->stride == parameter->columns)
    return n == 0 || ps_cuda_copy (context, values, from, n * sizeof *values, NULL);
  padded = g_new (float, n);
  if (!ps_cuda_copy (context, padded, from, n * sizeof *values, NULL))
    return FALSE;
  for (gsize row = 0; row < parameter->rows; row++)
    memcpy (values + row * parameter->columns, padded + row * parameter->stride, parameter->columns * sizeof *values);
  return TRUE;
}

const float *
ps_cuda_stage_gradients (PsCudaStage *stage, gsize *n)
{
  float *values;

  if (stage->host_gradients == NULL)
    stage->host_gradients = g_new (float, MAX (stage->parameters.n_dense, 1));
  *n = stage->parameters.n_dense;
  values = stage->host_gradients;
  for (guint i = 0; i < stage->parameters.all->len; i++)
    {
      const PsCudaParameter *parameter = ps_cuda_parameters_get (&stage->parameters, i);

      if (!read_parameter (stage, parameter, values))
        return NULL;
      values += parameter->rows * parameter->columns;
    }
  return stage->host_gradients;
}

float *
ps_cuda_stage_gradient_memory (PsCudaStage *stage, gsize *n)
{
  *n = stage->parameters.n_array;
  return stage->gradients;
}
