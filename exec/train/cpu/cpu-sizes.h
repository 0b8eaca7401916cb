/* cpu-sizes.h - the sizes of a model for every part of the cpu device, and the scratch memory that ops share. */
#pragma once

#include "cpu-memory.h"

#include <pipesim/device.h>

#define PS_CPU_MAX_SLICES (G_MAXUINT8 + 1) /* PsOp.slice has 8 bits */

/* int: the type that BLAS takes. */
typedef struct {
  int layers;
  int tokens;   /* of one op: batch * sequence */
  int batch;    /* sequences of one microbatch */
  int sequence; /* tokens of one sequence in a slice; a whole sequence where there is one slice */
  int longest;  /* tokens of a whole sequence of the model; microbatches may have shorter ones */
  int slices;   /* of each sequence */
  int hidden;
  int parts; /* devices that share each layer, see PsDeviceSetting.n_tensor */
  int part;  /* this one's */
  int heads; /* here */
  int head_size;
  int width;        /* of the queries, of the keys and of the values here: heads * head_size */
  int feed_forward; /* here */
  int vocabulary;
  gboolean tied; /* embedding and output projection are one matrix */
} PsCpuSizes;

/* Refuses models that the cpu device has no code for, and sequences that n_slices do not divide
 * (PS_ERROR_UNAVAILABLE, naming the field). */
gboolean ps_cpu_sizes_init (PsCpuSizes *sizes, const PsModel *model, guint n_slices, GError **error);

/* Gives the sizes of one part of n; ps_tensor_check has passed. */
void ps_cpu_sizes_share (PsCpuSizes *sizes, guint n, guint part);

/* Returns the floats that a layer takes and makes in one op: tokens * hidden. */
gsize ps_cpu_sizes_boundary (const PsCpuSizes *sizes);

/* Returns the floats of a tensor between stages, which has room for the longest sequences. */
gsize ps_cpu_sizes_message (const PsCpuSizes *sizes);

/* ps_cpu_carve returns the next n floats of a block, aligned to 64 bytes, and moves *cursor after them. If the cursor
 * starts at NULL, ps_cpu_carved returns how large the block must be. */
float *ps_cpu_carve (float **cursor, gsize n);
gsize ps_cpu_carved (const float *cursor);

/* Scratch that does not outlive an op. */
typedef struct {
  const PsDeviceSetting *setting; /* of the device, whose add_up layers call */
  float *normed;                  /* tokens x hidden */
  float *wide;                    /* tokens x feed_forward */
  float *square;                  /* sequence x sequence */
  float *narrow;                  /* sequence x head_size */
  guint32 *words;                 /* batch x (longest + 1) */
} PsCpuWorkspace;

/* Lays the parts out from `block` on and returns the floats needed. block NULL: only counts. */
gsize ps_cpu_workspace_lay_out (PsCpuWorkspace *workspace, const PsCpuSizes *sizes, float *block);
