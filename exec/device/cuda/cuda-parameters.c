/* cuda-parameters.c - the places and start values of a stage's parameters. */
#include "cuda-parameters.h"

#include "device/data.h"

#include <math.h>
#include <string.h>

#define DEVIATION 0.02f

static void
reserve (PsCudaParameters *parameters, gsize n)
{
  parameters->n_array += (n + PS_CUDA_ALIGNMENT - 1) / PS_CUDA_ALIGNMENT * PS_CUDA_ALIGNMENT;
}

static void
append (PsCudaParameters *parameters, PsCudaParameter parameter)
{
  const gsize extent = parameter.rows * parameter.stride;

  parameter.first = parameters->n_array;
  g_array_append_val (parameters->all, parameter);
  parameters->n_dense += parameter.rows * parameter.columns;
  parameters->n_end = parameter.first + extent;
  reserve (parameters, extent);
}

static void
append_vector (PsCudaParameters *parameters, gboolean exists, int n, float constant)
{
  append (parameters,
          (PsCudaParameter){ .rows = exists, .columns = (gsize)n, .stride = (gsize)n, .constant = constant });
}

static void
append_matrix (PsCudaParameters *parameters, int rows, int columns, int stride, float deviation, guint32 stream,
               guint32 index)
{
  append (parameters, (PsCudaParameter){ .rows = (gsize)rows,
                                         .columns = (gsize)columns,
                                         .stride = (gsize)stride,
                                         .deviation = deviation,
                                         .stream = stream,
                                         .index = index });
}

static void
append_embedding (PsCudaParameters *parameters, const PsCudaSizes *sizes)
{
  const int h = sizes->hidden;

  append_matrix (parameters, sizes->vocabulary, h, h, DEVIATION, PS_DATA_STREAM_EMBEDDING, 0);
  append_matrix (parameters, sizes->gated ? 0 : ps_cuda_sizes_whole (sizes), h, h, DEVIATION, PS_DATA_STREAM_EMBEDDING,
                 1);
}

/* Appends the parameters of a layer in the order of PsCudaLayerParameter. */
static void
append_layer (PsCudaParameters *parameters, const PsCudaSizes *sizes, guint layer)
{
  const int h = sizes->hidden, up = sizes->up_width;
  const float last = DEVIATION / sqrtf (2.0f * (float)sizes->layers);
  const gboolean biased = !sizes->gated;

  append_vector (parameters, TRUE, h, 1);
  append_vector (parameters, biased, h, 0);
  append_matrix (parameters, h, sizes->qkv_width, sizes->qkv_width, DEVIATION, layer, 0);
  append_vector (parameters, biased, sizes->qkv_width, 0);
  append_matrix (parameters, h, h, h, last, layer, 1);
  append_vector (parameters, biased, h, 0);
  append_vector (parameters, TRUE, h, 1);
  append_vector (parameters, biased, h, 0);
  append_matrix (parameters, h, up, up, DEVIATION, layer, 2);
  append_vector (parameters, biased, up, 0);
  append_matrix (parameters, sizes->feed_forward, h, h, last, layer, 3);
  append_vector (parameters, biased, h, 0);
}

static void
append_head (PsCudaParameters *parameters, const PsCudaSizes *sizes)
{
  append_vector (parameters, TRUE, sizes->hidden, 1);
  append_vector (parameters, !sizes->gated, sizes->hidden, 0);
  if (sizes->tied)
    {
      append_matrix (parameters, sizes->vocabulary, sizes->hidden, sizes->hidden, DEVIATION, PS_DATA_STREAM_EMBEDDING,
                     0);
      reserve (parameters, (gsize)(sizes->logits_width - sizes->vocabulary) * (gsize)sizes->hidden);
    }
  else
    append_matrix (parameters, sizes->hidden, sizes->vocabulary, sizes->logits_width, DEVIATION, PS_DATA_STREAM_HEAD,
                   0);
}

void
ps_cuda_parameters_init (PsCudaParameters *parameters, const PsCudaSizes *sizes, const PsStageShape *shape)
{
  *parameters = (PsCudaParameters){ .all = g_array_new (FALSE, FALSE, sizeof (PsCudaParameter)) };
  if (shape->embedding)
    append_embedding (parameters, sizes);
  parameters->layers = parameters->all->len;
  for (guint i = 0; i < shape->n_layers; i++)
    append_layer (parameters, sizes, shape->first_layer + i);
  parameters->head = parameters->all->len;
  if (shape->head)
    append_head (parameters, sizes);
}

void
ps_cuda_parameters_clear (PsCudaParameters *parameters)
{
  g_clear_pointer (&parameters->all, g_array_unref);
}

const PsCudaParameter *
ps_cuda_parameters_get (const PsCudaParameters *parameters, guint i)
{
  return &g_array_index (parameters->all, PsCudaParameter, i);
}

gsize
ps_cuda_parameter_extent (const PsCudaParameter *parameter)
{
  return parameter->rows * parameter->stride;
}

void
ps_cuda_parameter_start (const PsCudaParameter *parameter, guint64 seed, float *values)
{
  const gsize n = parameter->rows * parameter->columns;

  if (parameter->deviation != 0)
    ps_data_weights (values, n, parameter->deviation, seed, parameter->stream, parameter->index);
  for (gsize i = 0; parameter->deviation == 0 && i < n; i++)
    values[i] = parameter->constant;
  ps_cuda_parameter_pad (parameter, values);
}

void
ps_cuda_parameter_pad (const PsCudaParameter *parameter, float *values)
{
  if (parameter->stride == parameter->columns)
    return;
  /* Moves each row to its padded place, from the last row to the first. */
  for (gsize row = parameter->rows; row-- > 0;)
    {
      float *to = values + row * parameter->stride;

      memmove (to, values + row * parameter->columns, parameter->columns * sizeof *values);
      memset (to + parameter->columns, 0, (parameter->stride - parameter->columns) * sizeof *values);
    }
}
