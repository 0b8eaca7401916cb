/* cuda-parameters.h - where the parameters of a stage lie.
 *
 * On the device they are one array: the embedding if the stage has it, the layers in model order, the head if the stage
 * has it; each matrix starts on PS_CUDA_ALIGNMENT elements, and the rows of the head's are padded. Weights, master
 * weights, gradients and the moments of Adam all lie so; what is between is zero and stays so. On the host, in
 * PsDeviceClass.gradients, the same without gaps: the order of the cpu device. */
#ifndef PIPESIM_CUDA_PARAMETERS_H
#define PIPESIM_CUDA_PARAMETERS_H

#include "cuda-sizes.h"

/* Of a layer. Those that a kind of model lacks have no rows. */
typedef enum
{
  PS_CUDA_NORM1_GAIN, /* h */
  PS_CUDA_NORM1_BIAS, /* h */
  PS_CUDA_WQKV,       /* h x qkv_width: queries, keys, values */
  PS_CUDA_BQKV,       /* qkv_width */
  PS_CUDA_WO,         /* h x h */
  PS_CUDA_BO,         /* h */
  PS_CUDA_NORM2_GAIN, /* h */
  PS_CUDA_NORM2_BIAS, /* h */
  PS_CUDA_W1,         /* h x up_width: where it is gated, the gate's f columns, then the other f */
  PS_CUDA_B1,         /* up_width */
  PS_CUDA_W2,         /* f x h */
  PS_CUDA_B2,         /* h */
  PS_CUDA_N_LAYER_PARAMETERS
} PsCudaLayerParameter;

typedef enum
{
  PS_CUDA_TOKEN,    /* V x h */
  PS_CUDA_POSITION, /* s x h */
  PS_CUDA_N_EMBEDDING_PARAMETERS
} PsCudaEmbeddingParameter;

typedef enum
{
  PS_CUDA_HEAD_GAIN, /* h */
  PS_CUDA_HEAD_BIAS, /* h */
  PS_CUDA_HEAD_W,    /* h x V, a row every logits_width elements */
  PS_CUDA_N_HEAD_PARAMETERS
} PsCudaHeadParameter;

/* One matrix, or a vector as one row. */
typedef struct
{
  gsize first; /* element in the stage's array */
  gsize rows, columns, stride;
  float deviation; /* of its random start, see ps_data_weights; 0: starts as `constant` */
  float constant;
  guint32 stream, index;
} PsCudaParameter;

typedef struct
{
  GArray *all;   /* PsCudaParameter, in order */
  guint layers;  /* index of the first layer's first */
  guint head;    /* index of the head's first */
  gsize n_dense; /* elements of all */
  gsize n_array; /* of the array, gaps included */
} PsCudaParameters;

void ps_cuda_parameters_init (PsCudaParameters *parameters, const PsCudaSizes *sizes, const PsStageShape *shape);
void ps_cuda_parameters_clear (PsCudaParameters *parameters);

const PsCudaParameter *ps_cuda_parameters_get (const PsCudaParameters *parameters, guint i);

/* Elements from the first to behind the last, padding of rows included. */
gsize ps_cuda_parameter_extent (const PsCudaParameter *parameter);

/* The start values as they lie on the device: ps_cuda_parameter_extent floats, padding zero. */
void ps_cuda_parameter_start (const PsCudaParameter *parameter, guint64 seed, float *values);

#endif
