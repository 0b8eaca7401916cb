/* transformer-stage.h - what the files of the transformer share: the parameters of a stage, the blocks of a layer, and
 * the arithmetic of a layer.
 *
 *   n1 = norm (x); qkv = turn (n1 wqkv + bqkv); context = attention (qkv); y = x + context wo + bo
 *   n2 = norm (y); z = n2 w1 + b1; g = GELU (z) or z's first half SwiGLU its second; output = y + g w2 + b2
 *
 * turn gives queries and keys rotary positions, if the model is gated. Models that are not gated have biases. W makes
 * n1 and n2 again, together with the gradients of the norms: that takes less time than their memory is worth.
 *
 * The part after the last layer is the head: logits = norm (x) w without bias, or norm (x) w^T if w is the embedding's
 * matrix of tokens; loss = mean cross-entropy over the tokens of whole sequences. The logits are kept once: the forward
 * already turns them into their gradient.
 *
 * Devices that share layers have some of the heads and of the columns of z each. So context wo and g w2 are added up
 * over them in the forward, and the gradients of n1 and n2 in the backward (Shoeybi et al., Megatron-LM, arXiv
 * 1909.08053, section 3: g and f). The first device adds bias and residual before that. Embedding and head are whole on
 * each.
 */
#pragma once

#include "train/transformer.h"

/* --- parameters and weights: transformer-weights.c ---
 *
 * On the device the parameters of a stage are one array: the embedding if the stage has it, the layers in model order,
 * the head if the stage has it. Each matrix starts on PsKernels.alignment elements; rows of the head's matrix are
 * padded. Weights, master weights, gradients and the moments of Adam all have this layout. The gaps are zero and stay
 * zero. On the host, in PsDeviceClass.gradients and in states, the parameters have the same order without gaps, and are
 * whole.
 */

/* The parameters of a layer. A parameter that a kind of model doesn't have has no rows. */
typedef enum {
  PS_NORM1_GAIN, /* h */
  PS_NORM1_BIAS, /* h */
  PS_WQKV,       /* h x qkv_width: queries, keys, values */
  PS_BQKV,       /* qkv_width */
  PS_WO,         /* width x h */
  PS_BO,         /* h */
  PS_NORM2_GAIN, /* h */
  PS_NORM2_BIAS, /* h */
  PS_W1,         /* h x up_width; gated: f columns of the gate, then the other f columns */
  PS_B1,         /* up_width */
  PS_W2,         /* f x h */
  PS_B2,         /* h */
  PS_N_LAYER_PARAMETERS
} PsLayerParameter;

typedef enum {
  PS_TOKEN,    /* V x h */
  PS_POSITION, /* s x h */
} PsEmbeddingParameter;

typedef enum {
  PS_HEAD_GAIN, /* h */
  PS_HEAD_BIAS, /* h */
  PS_HEAD_W,    /* h x V; rows are logits_width elements apart. Tied: V x h, then zeros up to logits_width rows */
} PsHeadParameter;

struct _PsWeights {
  PsTransformer *transformer;
  GArray *parameters;    /* where each is, in order */
  guint layers, head;    /* index of the first parameter of the first layer, and of the head */
  gsize n_whole;         /* elements of all parameters where they are whole */
  gsize n_array;         /* elements of the array, gaps included */
  gsize n;               /* those up to the last parameter's last one */
  void *weights;         /* of element: products read them; see versions and trial */
  void **versions;       /* [n_versions] of element: version k is in versions[k mod n_versions] */
  guint n_versions;      /* >= 1 */
  void *trial;           /* of element: weights of a tentative O; NULL: O is final */
  float *master;         /* [n_array] the newest version in float; with fp32 it is that version */
  float *gradients;      /* [n_array] */
  gsize first, n_own;    /* the parameters whose optimizer state is here, see PsDeviceSetting.sharded */
  float *moments[2];     /* [n_own] each */
  guint64 n_steps;       /* steps of the optimizer so far */
  float *host_gradients; /* [n_whole]; NULL until first asked for */
};

/* Sets the weights to their start values and all else to zero. After a failure, too, the caller must call
 * ps_weights_clear. The blocks stay with the transformer's memory. */
gboolean ps_weights_init (PsWeights *weights, PsTransformer *transformer, const PsStageShape *shape, GError **error);
void ps_weights_clear (PsWeights *weights);

/* The arrays of up to PS_N_LAYER_PARAMETERS parameters that follow each other; NULL: the model doesn't have it. */
typedef struct {
  const void *weight[PS_N_LAYER_PARAMETERS];
  float *gradient[PS_N_LAYER_PARAMETERS];
} PsParameters;

/* first: index of the first parameter. */
PsParameters ps_weights_look_up (const PsWeights *weights, guint first);

/* Puts O into the queue. */
void ps_weights_optimize (PsWeights *weights, PsQueue *queue);

/* --- layers and head: transformer-layer.c --- */

/* The blocks that a slice of a microbatch keeps of a layer; T tokens, of element unless said. The head has X, MEAN1,
 * SCALE1, LOGITS and DNORMED1.
 *
 * F makes the blocks up to LOGITS. B takes DOUTPUT and makes the blocks after it. B gives back QKV, KEPT and Z, whose
 * gradients are in DQKV and DZ. Where these don't exist, QKV and Z stay and hold their own gradients. B of later slices
 * makes INHERITED, and B of the slice itself gives it back. W gives back the rest. */
typedef enum {
  PS_BLOCK_X,         /* T x h: input of the layer */
  PS_BLOCK_MEAN1,     /* T float; not for RMS norms */
  PS_BLOCK_SCALE1,    /* T float */
  PS_BLOCK_QKV,       /* T x qkv_width, after turn */
  PS_BLOCK_KEPT,      /* what attention keeps, see PsKernels.attention_kept_bytes */
  PS_BLOCK_CONTEXT,   /* T x width */
  PS_BLOCK_Y,         /* T x h */
  PS_BLOCK_MEAN2,     /* as MEAN1 */
  PS_BLOCK_SCALE2,    /* T float */
  PS_BLOCK_Z,         /* T x up_width */
  PS_BLOCK_G,         /* T x f */
  PS_BLOCK_LOGITS,    /* T x logits_width, of the head; after F the gradient of the logits */
  PS_BLOCK_DOUTPUT,   /* T x h: gradient of the output */
  PS_BLOCK_DZ,        /* T x f; not in gated models, nor with PsKernels.gelu_in_place */
  PS_BLOCK_DNORMED2,  /* T x h */
  PS_BLOCK_DY,        /* T x h */
  PS_BLOCK_DQKV,      /* T x qkv_width; not with PsKernels.attention_in_place */
  PS_BLOCK_DNORMED1,  /* T x h */
  PS_BLOCK_INHERITED, /* T x kv_width float: gradients of keys and values from later slices; NULL if there are none */
  PS_N_BLOCKS
} PsBlock;

/* NULL: not held now. */
typedef struct {
  void *at[PS_N_BLOCKS];
  void *host[PS_BLOCK_G + 1]; /* where blocks have moved to, in memory that is not the device's */
} PsBlocks;

/* An earlier slice of the same sequences. */
typedef struct {
  void *qkv;
  float *inherited; /* B adds to it */
  guint64 begins;   /* TRUE: there is nothing in it yet */
} PsEarlier;

/* What an op works with for as long as it runs. A stage has one for each queue. */
typedef struct {
  PsTransformer *transformer;
  const PsKernels *kernels; /* this and sizes: the transformer's */
  const PsSizes *sizes;
  PsQueue *queue;
  void *workspace;     /* PsQueue.workspace of the stage's ops */
  void *narrow;        /* T x h: the output of a norm, or the gradient of context */
  void *wide;          /* T x f; NULL unless gated */
  void *keys, *dkeys;  /* keys and values of all slices side by side, and their gradients; NULL for one slice */
  float *sums;         /* T x h for sums over devices; NULL: no device shares layers, or in fp32 */
  float *token_losses; /* T */
  guint slice;         /* of the op that runs */
} PsLane;

/* Takes the scratch memory. */
gboolean ps_lane_init (PsLane *lane, PsTransformer *transformer, PsQueue *queue, GError **error);

/* Returns the bytes of a block of a layer, or of the head, for the op that runs; 0: there is none. */
gsize ps_block_bytes (const PsTransformer *transformer, gboolean head, PsBlock block);

/* A layer, or the head, in the op that runs. */
typedef struct {
  PsParameters parameters;
  const PsBlocks *blocks;
  const PsEarlier *earlier; /* the slices before the lane's */
} PsLayer;

/* These put work into the lane's queue. output and dx: T x h. attend is the part of the forward that makes KEPT;
 * weights adds to the gradients of the weights. */
void ps_layer_forward (const PsLane *lane, const PsLayer *layer, void *output);
void ps_layer_attend (const PsLane *lane, const PsLayer *layer);
void ps_layer_backward (const PsLane *lane, const PsLayer *layer, void *dx);
void ps_layer_weights (const PsLane *lane, const PsLayer *layer);

/* The same for the head. words: of the slice. *loss, in the backend's memory: the slice's part of the loss of its
 * sequences. */
void ps_head_forward (const PsLane *lane, const PsLayer *head, const uint32_t *words, double *loss);
void ps_head_backward (const PsLane *lane, const PsLayer *head, void *dx);
void ps_head_weights (const PsLane *lane, const PsLayer *head);

/* --- what stages share: transformer.c --- */

/* Returns the words of a slice of a microbatch: batch x (sequence + 1), see ps_data_read. */
const uint32_t *ps_transformer_words (const PsTransformer *transformer, guint microbatch, guint slice);

/* Takes and fills the tables that a stage of that shape needs, unless they are there. */
gboolean ps_transformer_prepare (PsTransformer *transformer, const PsStageShape *shape, GError **error);

/* Tokens of a sequence before slice k, and in it, where the op that runs is of one of its slices. */
int ps_transformer_slice_begin (const PsTransformer *transformer, guint k);
int ps_transformer_slice_tokens (const PsTransformer *transformer, guint k);

/* Sets the sizes to those of a slice of a microbatch. */
void ps_transformer_set_slice (PsTransformer *transformer, guint microbatch, guint slice);
