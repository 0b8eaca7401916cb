/* cuda-shared.h - what the stages of a cuda device share: its part of the GPU, its memory, and scratch that does not
 * outlive an op. */
#ifndef PIPESIM_CUDA_SHARED_H
#define PIPESIM_CUDA_SHARED_H

#include "cuda-context.h"
#include "cuda-memory.h"
#include "cuda-products.h"
#include "cuda-sizes.h"

typedef struct
{
  PsCudaContext context;
  PsCudaSizes sizes;
  PsMemoryPool *memory;
  guint n_microbatches;
  guint replica, n_replicas; /* see PsDeviceSetting; n_replicas >= 1 */
  guint64 seed;

  PsCudaProducts *products; /* NULL until ps_cuda_shared_prepare, and so is what follows */
  void *normed;             /* tokens x hidden of element */
  void *dcontext;           /* tokens x hidden of element */
  void *wide;               /* tokens x feed_forward of element; NULL unless gated */
  float *rotary;            /* turning table; NULL unless gated */
  float *token_losses;      /* tokens */
  void *scratch;            /* workspace of any one kernel */
  uint32_t *words; /* per microbatch batch x (sequence + 1), see ps_data_words; NULL until a stage needs them */
} PsCudaShared;

/* Takes the scratch memory, and the words if they are wanted, unless that was done before. The context is current.
 * Fails with PS_ERROR_UNAVAILABLE. */
gboolean ps_cuda_shared_prepare (PsCudaShared *shared, gboolean words, GError **error);

/* Words of a microbatch. */
const uint32_t *ps_cuda_shared_words (const PsCudaShared *shared, guint microbatch);

/* A block; NULL with "no memory for SIZE of WHAT". */
void *ps_cuda_shared_take (PsCudaShared *shared, gsize bytes, PsUseKind kind, const char *what, GError **error);

#endif
