/* transformer.h - a device that trains stages of a transformer, over the table of kernels of a backend (kernels.h). The
 * classes cpu and cuda add what their machines need: threads and cores, or queues, messages and sums between GPUs.
 *
 * An op first takes the blocks of memory that its kernels write (its plan), and then puts the kernels into a queue. So
 * blocks that only this op needs are given back before the kernels run: the next op's kernels come later in the queue.
 */
#pragma once

#include "train/kernels.h"
#include "train/memory.h"

/* The sizes of a model, with the type that kernels take. Refused are sizes that overflow it. */
typedef struct {
  PsElement element;
  gboolean gated; /* SwiGLU, RMS norms, rotary positions, no biases (Llama); else GELU, layer norms, learnt positions */
  int layers;
  int batch;    /* sequences of one microbatch */
  int whole;    /* tokens of the model's sequences */
  int longest;  /* tokens of their longest slice */
  int sequence; /* tokens of a slice of the sequences of the op that runs, see PsDeviceSetting.tokens */
  int tokens;   /* of the op that runs: batch * sequence */
  int slices;   /* of each sequence */
  int hidden;
  int parts;        /* devices that share each layer, see PsDeviceSetting.n_tensor; the sizes from here on are of one */
  int part;         /* this one's */
  int width;        /* of the queries: heads * head_size */
  int qkv_width;    /* width + 2 * kv_heads * head_size */
  int feed_forward; /* f */
  int up_width;     /* output of the MLP's first product: f, or 2f if gated */
  int vocabulary;
  gboolean tied;         /* embedding and output projection are one matrix */
  int logits_width;      /* vocabulary, rounded up to PsKernels.row_alignment */
  PsAttention attention; /* of the op that runs, where keys and values are in the output of the product */
} PsSizes;

/* Elements of the keys and values of one token. */
static inline int ps_sizes_kv_width (const PsSizes *sizes)
{
  return sizes->qkv_width - sizes->width;
}

/* Returns the bytes of a tensor between stages, which has room for the longest sequences. */
static inline gsize ps_sizes_message_bytes (const PsSizes *sizes)
{
  return (gsize)sizes->batch * (gsize)sizes->longest * (gsize)sizes->hidden * ps_element_bytes (sizes->element);
}

/* A stage that is resident: its parameters, and the data of its microbatches in flight. */
typedef struct _PsStage PsStage;
typedef struct _PsWeights PsWeights;

/* A device of a class that computes; classes put it first in their own struct. Members of PsDeviceClass whose name
 * begins with ps_transformer_ take one. */
typedef struct {
  PsDevice base;
  const PsKernels *kernels;
  PsDeviceSetting setting;
  PsSizes sizes;
  PsQueue *queue;          /* the class sets it when it opens a device */
  PsQueue *twin;           /* second queue, for ops that run at the same time as those of the first; NULL: none */
  guint n_sms;             /* size of the device's part of an accelerator, see PsDeviceClass.part */
  PsMemoryPool *memory;    /* what a stage takes, the same on every device */
  PsMemoryPool *uncounted; /* words, positions and losses; and activations that are offloaded, if on the host */
  guint64 step;            /* that the words and the learning rate are of */
  uint32_t *words;         /* of all microbatches, see ps_transformer_words; NULL until a stage needs them */
  float *rotary;           /* table of rotary positions; NULL until a stage is there, and unless gated */
  gboolean alone;          /* ops leave sums over devices out */
  PsStage **stages;        /* [n_stages], NULL where not resident */
  PsWeights **weights;     /* [n_stages] of these */
} PsTransformer;

/* Refuses models that the transformer or the backend has no code for, and sequences that the slices do not divide
 * (PS_ERROR_UNAVAILABLE, naming the field); then the caller frees the struct. ps_tensor_check has passed. */
gboolean ps_transformer_init (PsTransformer *transformer, const PsDeviceClass *PS_CLASS, const PsKernels *kernels,
                              const PsDeviceSetting *setting, GError **error);
/* After all work of its queues. */
void ps_transformer_clear (PsTransformer *transformer);

/* Takes a block; NULL with the error "no memory for SIZE of WHAT". */
void *ps_transformer_take (PsTransformer *transformer, gsize bytes, PsUseKind kind, const char *what, GError **error);

/* Puts F, R, B, BW, W or O of device.h into the queue, or the twin, on blocks of one boundary tensor. input is taken,
 * also on failure; *output is NULL if the op has none. Errors: PS_ERROR_SCHEDULE if the stage is not resident, or the
 * op is not the microbatch's next one, PS_ERROR_UNAVAILABLE; they don't name the stage. */
gboolean ps_transformer_start (PsTransformer *transformer, gboolean twin, PsOp op, void *input, void **output,
                               GError **error);

/* Members of PsDeviceClass. A stage has scratch memory for each queue. Where the backend warms up, every op of a new
 * stage runs once on zeros, which chooses algorithms; it is as new afterwards. Those for tensors and `run` are for
 * backends on the host. */
gboolean ps_transformer_add_stage (PsDevice *device, guint stage, const PsStageShape *shape, GError **error);
PsTensor *ps_transformer_tensor_new (PsDevice *device);
void ps_transformer_tensor_free (PsTensor *tensor);
gboolean ps_transformer_run (PsDevice *device, PsOp op, PsTensor *input, PsTensor **output, GError **error);
gboolean ps_transformer_begin (PsDevice *device, guint64 step, GError **error);
gboolean ps_transformer_use_version (PsDevice *device, guint stage, guint64 version, GError **error);
double ps_transformer_norm_square (PsDevice *device, guint stage);
gboolean ps_transformer_settle (PsDevice *device, guint stage, float scale, GError **error);
void ps_transformer_forget (PsDevice *device);
double ps_transformer_loss (PsDevice *device, guint microbatch);
const float *ps_transformer_gradients (PsDevice *device, guint stage, gsize *n);
float *ps_transformer_gradient_memory (PsDevice *device, guint stage, gsize *n);
float *ps_transformer_weight_memory (PsDevice *device, guint stage, gsize *n);
gboolean ps_transformer_read_state (PsDevice *device, guint stage, PsStageState *state, GError **error);
gboolean ps_transformer_write_state (PsDevice *device, guint stage, const PsStageState *state, GError **error);
void ps_transformer_memory (PsDevice *device, PsMemoryUse *use);
void ps_transformer_reset_peak (PsDevice *device);

/* The rows of the table of a class that it takes as they are. */
#define PS_TRANSFORMER_HOOKS                                                                                           \
  .begin = ps_transformer_begin, .use_version = ps_transformer_use_version, .norm_square = ps_transformer_norm_square, \
  .settle = ps_transformer_settle, .forget = ps_transformer_forget, .loss = ps_transformer_loss,                       \
  .gradients = ps_transformer_gradients, .gradient_memory = ps_transformer_gradient_memory,                            \
  .read_state = ps_transformer_read_state, .write_state = ps_transformer_write_state,                                  \
  .reset_peak = ps_transformer_reset_peak
