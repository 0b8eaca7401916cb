/* cuda-parameters.c - the places and start values of a stage's parameters. */
#include "cuda-parameters.h"

#include "train/data.h"

#include <math.h>
#include <string.h>

#define DEVIATION 0.02f

static void reserve (PsCudaParameters *parameters, gsize n)
{
  parameters->n_array += (n + PS_CUDA_ALIGNMENT - 1) / PS_CUDA_ALIGNMENT * PS_CUDA_ALIGNMENT;
}

/* Appends a parameter that all devices have whole, unless it has runs. */
static void append (PsCudaParameters *parameters, const PsCudaSizes *sizes, PsCudaParameter parameter)
{
  const gsize extent = parameter.rows * parameter.stride;

  parameter.counts = parameter.n_runs > 0 || sizes->part == 0;
  parameter.part = parameter.n_runs > 0 ? (guint)sizes->part : 0;
  parameter.n_parts = parameter.n_runs > 0 ? (guint)sizes->parts : 1;
  if (parameter.n_runs == 0) {
    parameter.n_runs = parameter.rows;
    parameter.run[0] = parameter.columns;
  }
  parameter.first = parameters->n_array;
  g_array_append_val (parameters->all, parameter);
  parameters->n_dense += ps_cuda_parameter_whole (&parameter);
  parameters->n_end = parameter.first + extent;
  reserve (parameters, extent);
}

static void append_vector (PsCudaParameters *parameters, const PsCudaSizes *sizes, gboolean exists, float constant)
{
  const gsize h = (gsize)sizes->hidden;

  append (parameters, sizes, (PsCudaParameter){ .rows = exists, .columns = h, .stride = h, .constant = constant });
}

static void append_matrix (PsCudaParameters *parameters, const PsCudaSizes *sizes, int rows, int columns, int stride,
                           float deviation, guint32 stream, guint32 index)
{
  append (parameters, sizes,
          (PsCudaParameter){ .rows = (gsize)rows,
                             .columns = (gsize)columns,
                             .stride = (gsize)stride,
                             .deviation = deviation,
                             .stream = stream,
                             .index = index });
}

/* Appends a matrix of a layer that devices share, or a vector (deviation 0). */
static void append_cut (PsCudaParameters *parameters, const PsCudaSizes *sizes, int rows, int columns, gsize n_runs,
                        const gsize run[3], float deviation, guint32 layer, guint32 index)
{
  append (parameters, sizes,
          (PsCudaParameter){ .rows = (gsize)rows,
                             .columns = (gsize)columns,
                             .stride = (gsize)columns,
                             .n_runs = n_runs,
                             .run = { run[0], run[1], run[2] },
                             .deviation = deviation,
                             .stream = layer,
                             .index = index });
}

static void append_embedding (PsCudaParameters *parameters, const PsCudaSizes *sizes)
{
  const int h = sizes->hidden;

  append_matrix (parameters, sizes, sizes->vocabulary, h, h, DEVIATION, PS_DATA_STREAM_EMBEDDING, 0);
  append_matrix (parameters, sizes, sizes->gated ? 0 : ps_cuda_sizes_whole (sizes), h, h, DEVIATION,
                 PS_DATA_STREAM_EMBEDDING, 1);
}

/* Appends the parameters of a layer in the order of PsCudaLayerParameter. */
static void append_layer (PsCudaParameters *parameters, const PsCudaSizes *sizes, guint layer)
{
  const int h = sizes->hidden, f = sizes->feed_forward, up = sizes->up_width;
  const gsize rows = (gsize)h, width = (gsize)sizes->width, keys = (gsize)ps_cuda_sizes_kv_width (sizes) / 2;
  const gsize qkv[] = { width, keys, keys }, mlp[] = { (gsize)f, (gsize)(up - f), 0 };
  const float last = DEVIATION / sqrtf (2.0f * (float)sizes->layers);
  const gboolean biased = !sizes->gated;

  append_vector (parameters, sizes, TRUE, 1);
  append_vector (parameters, sizes, biased, 0);
  append_cut (parameters, sizes, h, sizes->qkv_width, rows, qkv, DEVIATION, layer, 0);
  append_cut (parameters, sizes, biased, sizes->qkv_width, (gsize)biased, qkv, 0, layer, 0);
  append_cut (parameters, sizes, sizes->width, h, 1, (gsize[]){ width * rows, 0, 0 }, last, layer, 1);
  append_vector (parameters, sizes, biased, 0);
  append_vector (parameters, sizes, TRUE, 1);
  append_vector (parameters, sizes, biased, 0);
  append_cut (parameters, sizes, h, up, rows, mlp, DEVIATION, layer, 2);
  append_cut (parameters, sizes, biased, up, (gsize)biased, mlp, 0, layer, 0);
  append_cut (parameters, sizes, f, h, 1, (gsize[]){ (gsize)f * rows, 0, 0 }, last, layer, 3);
  append_vector (parameters, sizes, biased, 0);
}

static void append_head (PsCudaParameters *parameters, const PsCudaSizes *sizes)
{
  const int h = sizes->hidden, v = sizes->vocabulary;

  append_vector (parameters, sizes, TRUE, 1);
  append_vector (parameters, sizes, !sizes->gated, 0);
  if (sizes->tied) {
    append_matrix (parameters, sizes, v, h, h, DEVIATION, PS_DATA_STREAM_EMBEDDING, 0);
    reserve (parameters, (gsize)(sizes->logits_width - v) * (gsize)h);
  } else
    append_matrix (parameters, sizes, h, v, sizes->logits_width, DEVIATION, PS_DATA_STREAM_HEAD, 0);
}

void ps_cuda_parameters_init (PsCudaParameters *parameters, const PsCudaSizes *sizes, const PsStageShape *shape)
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

void ps_cuda_parameters_clear (PsCudaParameters *parameters)
{
  g_clear_pointer (&parameters->all, g_array_unref);
}

const PsCudaParameter *ps_cuda_parameters_get (const PsCudaParameters *parameters, guint i)
{
  return &g_array_index (parameters->all, PsCudaParameter, i);
}

gsize ps_cuda_parameter_extent (const PsCudaParameter *parameter)
{
  return parameter->rows * parameter->stride;
}

gsize ps_cuda_parameter_whole (const PsCudaParameter *parameter)
{
  return parameter->rows * parameter->columns * parameter->n_parts;
}

void ps_cuda_parameter_start (const PsCudaParameter *parameter, guint64 seed, float *values)
{
  const gsize n = ps_cuda_parameter_whole (parameter);

  if (parameter->deviation != 0)
    ps_data_weights (values, n, parameter->deviation, seed, parameter->stream, parameter->index);
  for (gsize i = 0; parameter->deviation == 0 && i < n; i++)
    values[i] = parameter->constant;
}

static void pad (const PsCudaParameter *parameter, float *values)
{
  if (parameter->stride == parameter->columns)
    return;
  /* Moves each row to its padded place, from the last row to the first. */
  for (gsize row = parameter->rows; row-- > 0;) {
    float *to = values + row * parameter->stride;

    memmove (to, values + row * parameter->columns, parameter->columns * sizeof *values);
    memset (to + parameter->columns, 0, (parameter->stride - parameter->columns) * sizeof *values);
  }
}

void ps_cuda_parameter_cut (const PsCudaParameter *parameter, float *values)
{
  const float *whole = values;
  float *own = values;

  for (gsize i = 0; i < 3 * parameter->n_runs; i++) {
    const gsize n = parameter->run[i % 3];

    memmove (own, whole + parameter->part * n, n * sizeof *own);
    own += n;
    whole += parameter->n_parts * n;
  }
  pad (parameter, values);
}

void ps_cuda_parameter_join (const PsCudaParameter *parameter, const float *own, float *whole)
{
  const gsize gap = parameter->stride - parameter->columns; /* where it is not 0, run[0] is a row */

  memset (whole, 0, ps_cuda_parameter_whole (parameter) * sizeof *whole);
  for (gsize i = 0; parameter->counts && i < 3 * parameter->n_runs; i++) {
    const gsize n = parameter->run[i % 3];

    memcpy (whole + parameter->part * n, own, n * sizeof *own);
    own += n + (i % 3 == 2 ? gap : 0);
    whole += parameter->n_parts * n;
  }
}
