/* model.h - the model that is trained: a decoder-only transformer, read from data/models/<name>.ini, and the cut of its
 * layers into stages.
 *
 * Notation of the formulas: s sequence, b microbatch size, h hidden, a heads, f feed-forward, V vocabulary, k kv_heads.
 */
#ifndef PIPESIM_MODEL_H
#define PIPESIM_MODEL_H

#include <pipesim/base.h>

G_BEGIN_DECLS

typedef enum
{
  PS_PRECISION_FP32,
  PS_PRECISION_FP16,
  PS_PRECISION_BF16,
} PsPrecision;

typedef enum
{
  PS_MLP_GELU,   /* h -> f -> h, two matrices, GELU between (GPT) */
  PS_MLP_SWIGLU, /* h -> f twice, gated, f -> h, three matrices (Llama) */
} PsMlp;

typedef struct
{
  char *name;            /* from [model] name, else the file's base name */
  guint layers;          /* transformer layers, embedding and head not counted */
  guint hidden;          /* h */
  guint heads;           /* a; divides h */
  guint kv_heads;        /* k; defaults to heads; divides heads */
  guint sequence;        /* s, tokens */
  guint feed_forward;    /* f; defaults to 4h */
  guint vocabulary;      /* V, tokens */
  guint microbatch_size; /* b, sequences */
  PsPrecision precision; /* of activations and of the weights that kernels read */
  PsMlp mlp;
  gboolean flash_attention; /* TRUE: the softmax matrix is never stored */
  gboolean fp32_gradients;  /* TRUE: gradients are accumulated in fp32 at any precision; optional, default FALSE */
  gboolean whole_sequences; /* TRUE: GPUs that share a layer do so in its matrices alone (sequence_parallel = false) */
} PsModel;

/* Reads a model description. path may also be a bare name ("tiny-gpt"): the descriptions shipped with pipesim are found
 * by it. Every unknown key, missing key and absurd value is an error "FILE: [model] key: ...".
 * Errors: PS_ERROR_IO, PS_ERROR_INPUT. Free with ps_model_free. */
PsModel *ps_model_load (const char *path, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same from text in memory; `where` names it in messages. */
PsModel *ps_model_parse (const char *where, const char *text, gsize length, GError **error) G_GNUC_WARN_UNUSED_RESULT;
PsModel *ps_model_copy (const PsModel *model);
void ps_model_free (PsModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsModel, ps_model_free)

/* SHA-256 (hex) over every field except the name: two models with one digest have the same costs. Free with g_free. */
char *ps_model_digest (const PsModel *model);

/* The description as .ini text that ps_model_load reads back. Free with g_free. */
char *ps_model_to_text (const PsModel *model);

const char *ps_precision_name (PsPrecision precision); /* "fp32", "fp16", "bf16" */
gboolean ps_precision_parse (const char *where, const char *text, PsPrecision *precision, GError **error);
guint ps_precision_bytes (PsPrecision precision); /* bytes per element */

/* Gives the model the precision that text names, and where that is a new one a name that says so ("gpt-1.5b in bf16").
 * text NULL: leaves it. Errors: PS_ERROR_USAGE "where: ...". */
gboolean ps_model_set_precision (PsModel *model, const char *where, const char *text, GError **error);

/* A contiguous piece of the model. */
typedef struct
{
  guint first_layer;
  guint n_layers;
  gboolean embedding; /* token and position embedding before the layers */
  gboolean head;      /* final layer norm, output projection and cross-entropy loss after them */
  guint n_mtp;        /* modules of multi-token prediction after the layers */
} PsStageShape;

/* Splits the layers over n_stages as evenly as possible, larger stages first; the first stage gets the embedding, the
 * last the head. shapes has room for n_stages. Fails with PS_ERROR_USAGE when n_stages > layers. */
gboolean ps_model_split (const PsModel *model, guint n_stages, PsStageShape *shapes, GError **error);

/* Whether the shapes are those of ps_model_split. */
gboolean ps_stage_shapes_are_even (const PsStageShape *shapes, guint n_stages);

/* The units of the model in order, one to a shape: embedding, layers, modules of multi-token prediction, head. *n is
 * their number. Free with g_free. */
PsStageShape *ps_model_units (const PsModel *model, guint *n);

/* Joins units to stages: end[s] is the first unit after stage s. shapes has room for n_stages. */
void ps_stage_shapes_join (const PsStageShape *units, const guint *end, guint n_stages, PsStageShape *shapes);

/* The part of a shape that costs depend on: "layers=2", "layers=1,embedding", "layers=1,head". Free with g_free. */
char *ps_stage_shape_key (const PsStageShape *shape);

/* Tokens of a microbatch, bs. */
static inline gint64
ps_model_tokens (const PsModel *model)
{
  return (gint64)model->sequence * model->microbatch_size;
}

/* Width of the keys, and of the values, of all their heads: h k / a. */
static inline gint64
ps_model_kv_width (const PsModel *model)
{
  return (gint64)model->hidden / model->heads * model->kv_heads;
}

/* Parameter counts; c = hk/a is the width of keys and of values.
 *
 * - Layer, gelu (GPT: biases, layer norms with bias, learnt positions): 2h^2 + 2hc + 2hf weights, 7h + 2c + f biases
 *   and norms; 12h^2 + 13h for f = 4h and k = a.
 * - Layer, swiglu (Llama: no biases, RMS norms, rotary positions): 2h^2 + 2hc + 3hf weights, 2h norms.
 * - Embedding: (V + s)h (GPT), Vh (Llama).
 * - Head: final norm 2h (GPT), h (Llama), and its own Vh (untied).
 */
gint64 ps_model_layer_parameters (const PsModel *model);
gint64 ps_model_stage_parameters (const PsModel *model, const PsStageShape *shape);
gint64 ps_model_parameters (const PsModel *model);

/* Floating-point operations of a stage for one microbatch, multiply and add counted as two; kind is F, B, W, BW (B + W)
 * or R (F).
 *
 * - Layer, f = 4h and k = a: F bsh(24h + 4s), B bsh(24h + 8s), W 24bsh^2 (arXiv 2401.10241, zero bubble, section 2,
 *   table 1).
 * - Layer with N weights, any f, k and SwiGLU (the same sum over the matrices): F 2bsN + 4bs^2h, B 2bsN + 8bs^2h,
 *   W 2bsN.
 * - Head: 2bshV per F, B and W.
 */
gint64 ps_model_stage_flops (const PsModel *model, const PsStageShape *shape, PsOpKind kind);

/* Bytes that a forward keeps for one microbatch (Korthikanti et al., arXiv 2205.05198, section 4.1, dropout masks
 * included), scaled by element size / 2.
 *
 * - Layer, f = 4h and k = a: 34sbh + 5as^2b without flash attention (equation 1), 34sbh with it.
 * - Layer, any f and c = hk/a, by its derivation: sb(14h + 4c + 4f) (GPT), sb(12h + 4c + 6f) (Llama, which has no
 *   dropout), each with 5as^2b as above.
 * - Head: 4sbh and the fp32 logits, 4sbV, which are not scaled (section 4.3).
 */
gint64 ps_model_layer_activation_bytes (const PsModel *model);
gint64 ps_model_stage_activation_bytes (const PsModel *model, const PsStageShape *shape);

/* Bytes of a stage that W still needs after B: inputs of the matrices and gradients of their outputs.
 *
 * - Layer, f = 4h and k = a: 32sbh (arXiv 2401.10241, section 2: M_W = 32h against M_B = 34h + 5as per token).
 * - Layer, any f and c: 2sb(6h + 2c + 2f) (GPT), 2sb(6h + 2c + 3f) (Llama).
 * - Head: 2sbh + 4sbV.
 */
gint64 ps_model_stage_weight_activation_bytes (const PsModel *model, const PsStageShape *shape);

/* Recomputation before the backward instead of keeping (Korthikanti et al., arXiv 2205.05198). */
typedef enum
{
  PS_RECOMPUTE_NONE,
  PS_RECOMPUTE_SELECTIVE, /* section 5: the attention scores, their softmax and dropout, 5as^2b of each layer */
  PS_RECOMPUTE_FULL,      /* table 2: whole layers, whose inputs alone are kept, 2sbh each */
} PsRecompute;

/* Names and back; errors as those of ps_parse_name. */
const char *ps_recompute_name (PsRecompute recompute); /* "none", "selective", "full" */
gboolean ps_recompute_parse (const char *where, const char *text, PsRecompute *recompute, GError **error);

/* The bytes that a forward keeps under that recomputation; the head is never recomputed. With flash attention there is
 * nothing selective to drop. */
gint64 ps_model_stage_kept_bytes (const PsModel *model, const PsStageShape *shape, PsRecompute recompute);

/* The operations that are repeated: per layer 4bs^2h (scores, and weighting the values with them) or its whole F. */
gint64 ps_model_stage_recompute_flops (const PsModel *model, const PsStageShape *shape, PsRecompute recompute);

/* Bytes of one boundary tensor (activation or its gradient): s b h elements. */
gint64 ps_model_boundary_bytes (const PsModel *model);

/* The bytes that a stage holds throughout, by part. */
typedef struct
{
  gint64 weight_bytes;    /* read by kernels */
  gint64 gradient_bytes;  /* accumulated over the microbatches */
  gint64 optimizer_bytes; /* Adam's moments, and the fp32 master weights where the precision has them */
} PsStateBytes;

/* Weights, gradients and Adam state of n_parameters. Bytes per parameter: fp32 4 + 4 + 8, mixed precision 2 + 2 + 12
 * (fp32 master, momentum and variance; arXiv 1910.02054, ZeRO, section 3.1), with fp32_gradients 2 + 4 + 12. */
PsStateBytes ps_model_state (const PsModel *model, gint64 n_parameters);

/* The same for the parameters of a stage. */
PsStateBytes ps_model_stage_state (const PsModel *model, const PsStageShape *shape);

/* Sum of the parts of ps_model_stage_state: 16 bytes per parameter, 18 in mixed precision with fp32 gradients. */
gint64 ps_model_stage_state_bytes (const PsModel *model, const PsStageShape *shape);

G_END_DECLS

#endif
