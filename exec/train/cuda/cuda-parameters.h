/* cuda-parameters.h - the places of a stage's parameters.
 *
 * On the device they are one array: the embedding if the stage has it, the layers in model order, the head if the stage
 * has it. Each matrix starts on PS_CUDA_ALIGNMENT elements; rows of the head's matrix are padded. Weights, master
 * weights, gradients and the moments of Adam all have this layout. The gaps are zero and stay zero.
 *
 * On the host, in PsDeviceClass.gradients, the parameters have the same order without gaps, as on the cpu device.
 *
 * Devices that share layers have some columns of WQKV, BQKV, W1 and B1 each, those rows of WO and W2, and all else
 * whole. On the host all parameters are whole.
 */
#pragma once

#include "cuda-sizes.h"

/* The parameters of a layer. A parameter that a kind of model doesn't have has no rows. */
typedef enum {
  PS_CUDA_NORM1_GAIN, /* h */
  PS_CUDA_NORM1_BIAS, /* h */
  PS_CUDA_WQKV,       /* h x qkv_width: queries, keys, values */
  PS_CUDA_BQKV,       /* qkv_width */
  PS_CUDA_WO,         /* width x h */
  PS_CUDA_BO,         /* h */
  PS_CUDA_NORM2_GAIN, /* h */
  PS_CUDA_NORM2_BIAS, /* h */
  PS_CUDA_W1,         /* h x up_width; gated: f columns of the gate, then the other f columns */
  PS_CUDA_B1,         /* up_width */
  PS_CUDA_W2,         /* f x h */
  PS_CUDA_B2,         /* h */
  PS_CUDA_N_LAYER_PARAMETERS
} PsCudaLayerParameter;

typedef enum {
  PS_CUDA_TOKEN,    /* V x h */
  PS_CUDA_POSITION, /* s x h */
  PS_CUDA_N_EMBEDDING_PARAMETERS
} PsCudaEmbeddingParameter;

typedef enum {
  PS_CUDA_HEAD_GAIN, /* h */
  PS_CUDA_HEAD_BIAS, /* h */
  PS_CUDA_HEAD_W,    /* h x V; rows are logits_width elements apart. Tied: V x h, then zeros up to logits_width rows */
  PS_CUDA_N_HEAD_PARAMETERS
} PsCudaHeadParameter;

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
} PsCudaParameter;

typedef struct {
  GArray *all;   /* PsCudaParameter, in order */
  guint layers;  /* index of the first parameter of the first layer */
  guint head;    /* index of the first parameter of the head */
  gsize n_dense; /* elements of all parameters where they are whole */
  gsize n_array; /* elements of the array, gaps included */
  gsize n_end;   /* those up to the last parameter's last one */
} PsCudaParameters;

void ps_cuda_parameters_init (PsCudaParameters *parameters, const PsCudaSizes *sizes, const PsStageShape *shape);
void ps_cuda_parameters_clear (PsCudaParameters *parameters);

const PsCudaParameter *ps_cuda_parameters_get (const PsCudaParameters *parameters, guint i);

/* Returns the elements from its first to its last, padding of all rows included. */
gsize ps_cuda_parameter_extent (const PsCudaParameter *parameter);

/* Returns the elements of the whole parameter, without padding. */
gsize ps_cuda_parameter_whole (const PsCudaParameter *parameter);

/* Makes the start values of the whole parameter. */
void ps_cuda_parameter_start (const PsCudaParameter *parameter, guint64 seed, float *values);

/* Turns the whole parameter into the device's part of it in the device's layout, in place: values has room for both. */
void ps_cuda_parameter_cut (const PsCudaParameter *parameter, float *values);

/* Copies the device's part, in the device's layout, into the whole parameter, and zeros elsewhere: the results of all
 * devices that share it add up to it. */
void ps_cuda_parameter_join (const PsCudaParameter *parameter, const float *own, float *whole);
