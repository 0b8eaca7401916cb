/* cuda-shared.h - shared by the stages of a cuda device: its part of the GPU, its memory, and scratch that lasts for
 * one op. */
#pragma once

#include "cuda-context.h"
#include "cuda-products.h"
#include "cuda-sizes.h"

typedef struct {
  PsCudaContext context;
  PsCudaSizes sizes;
  PsMemoryPool *memory;
  guint n_microbatches;
  guint n_summed;   /* see PsDeviceSetting; >= 1 */
  guint n_replicas; /* >= 1 */
  guint64 seed;
  guint lane;                     /* 1: this is a twin, whose ops run beside those of the other */
  const PsDeviceSetting *setting; /* of the device: says which words a microbatch has */
  guint64 step;                   /* that its words and its learning rate are of */

  PsCudaProducts *products; /* this and the pointers after it: NULL until ps_cuda_shared_prepare */
  void *keys, *dkeys;       /* keys and values of all slices side by side, and their gradients; NULL for one slice */
  void *normed;             /* tokens x hidden of element */
  void *dcontext;           /* tokens x width of element */
  float *totals;            /* 2 x tokens x hidden, see cuda-sum.h; NULL: no device shares layers */
  float *sums;              /* tokens x hidden, for ps_cuda_shared_add_up; NULL: no device shares layers, or in fp32 */
  void *wide;               /* tokens x feed_forward of element; NULL unless gated */
  float *rotary;            /* table of rotary positions; NULL unless gated */
  float *token_losses;      /* tokens */
  void *scratch;            /* workspace of one kernel at a time */
  /* Per slice of a microbatch batch x (sequence + 1), see ps_data_read; NULL until a stage needs them. */
  uint32_t *words;
  gboolean alone; /* ops leave sums over devices out */
} PsCudaShared;

/* Takes the scratch memory, and the words if wanted, unless that was done before. The context is current. Errors:
 * PS_ERROR_UNAVAILABLE. */
gboolean ps_cuda_shared_prepare (PsCudaShared *shared, gboolean words, GError **error);

/* Makes a twin with a stream and scratch of its own; all else is that of `shared`, which is prepared. After a failure,
 * too, the caller must call ps_cuda_shared_clear_twin. The scratch stays with the memory. */
gboolean ps_cuda_shared_twin (PsCudaShared *twin, const PsCudaShared *shared, GError **error);
void ps_cuda_shared_clear_twin (PsCudaShared *twin);

/* Begins a step: words that change with it are replaced. */
gboolean ps_cuda_shared_begin (PsCudaShared *shared, guint64 step, GError **error);

/* Returns the words of a slice of a microbatch. */
const uint32_t *ps_cuda_shared_words (const PsCudaShared *shared, guint microbatch, guint slice);

/* Replaces tokens x hidden numbers of element by their sums over the devices that share the layer, see
 * PsDeviceSetting.add_up, in float. Notes problems in the context. */
void ps_cuda_shared_add_up (PsCudaShared *shared, void *values);

/* Takes a block; NULL with the error "no memory for SIZE of WHAT". */
void *ps_cuda_shared_take (PsCudaShared *shared, gsize bytes, PsUseKind kind, const char *what, GError **error);
