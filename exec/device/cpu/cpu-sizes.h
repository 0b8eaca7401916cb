/* cpu-sizes.h - the numbers of a model that every part of the cpu device needs, and the scratch memory that ops share.
 */
#ifndef PIPESIM_CPU_SIZES_H
#define PIPESIM_CPU_SIZES_H

#include "cpu-memory.h"

/* int, because that is what BLAS takes. */
typedef struct
{
  int layers;
  int tokens;   /* of one microbatch: batch * sequence */
  int batch;    /* sequences of one microbatch */
  int sequence; /* tokens of one sequence */
  int hidden;
  int heads;
  int head_size; /* hidden / heads */
  int feed_forward;
  int vocabulary;
} PsCpuSizes;

/* Refuses what the cpu device has no code for (PS_ERROR_UNAVAILABLE, naming the field). */
gboolean ps_cpu_sizes_init (PsCpuSizes *sizes, const PsModel *model, GError **error);

/* Floats of one boundary tensor: tokens * hidden. */
gsize ps_cpu_sizes_boundary (const PsCpuSizes *sizes);

/* The next n floats of a block, started anew on 64 bytes; moves *cursor behind them. With a cursor that starts at NULL
 * the final cursor says how large the block must be. */
float *ps_cpu_carve (float **cursor, gsize n);
gsize ps_cpu_carved (const float *cursor);

/* Scratch that does not outlive an op. */
typedef struct
{
  float *normed;  /* tokens x hidden */
  float *wide;    /* tokens x feed_forward */
  float *square;  /* sequence x sequence */
  float *narrow;  /* sequence x head_size */
  guint32 *words; /* batch x (sequence + 1) */
} PsCpuWorkspace;

/* Lays the parts out from block on; returns the floats needed. block NULL: only counts. */
gsize ps_cpu_workspace_lay_out (PsCpuWorkspace *workspace, const PsCpuSizes *sizes, float *block);

#endif
