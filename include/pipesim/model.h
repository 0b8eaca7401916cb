/* model.h - the model that is trained, its formulas, and the layers of each of its stages. */
#ifndef PIPESIM_MODEL_H
#define PIPESIM_MODEL_H

#include <pipesim/base.h>

G_BEGIN_DECLS

/* The descriptions of models and clusters that ship with pipesim; data/README.md has their sources. */

/* The names of the descriptions in a folder, "models" or "clusters", in alphabetical order. Free with g_strfreev. */
char **ps_shipped_names (const char *folder);

/* The description of that name as .ini text; NULL: there is none. Free with g_free. */
char *ps_shipped_text (const char *folder, const char *name);

/* The comment at the beginning of a description on one line: what it describes, and the source. Free with g_free. */
char *ps_shipped_about (const char *text);

/* The model that is trained: a sequence of units, read from data/models/<name>.ini or a config.json, and its cut into
 * stages.
 *
 * Notation of the formulas: s sequence, b microbatch size, h hidden, a heads, z head_size, f feed-forward, V
 * vocabulary, k kv_heads. q = az is the width of the queries, c = kz that of keys and of values; q = h where z = h / a.
 */

typedef enum {
  PS_PRECISION_FP32,
  PS_PRECISION_FP16,
  PS_PRECISION_BF16,
  /* bf16, but layers multiply matrices in 8 or 4 bits, with a scale */
  PS_PRECISION_FP8,       /* for each tensor */
  PS_PRECISION_FP8_BLOCK, /* for 128 elements in fp32 (DeepSeek-V3, arXiv 2412.19437, section 3.3.2) */
  PS_PRECISION_MXFP8,     /* for 32 elements in 8 bits (OCP Microscaling Formats, version 1.0) */
  PS_PRECISION_NVFP4,     /* for 16 elements in 8 bits (arXiv 2509.25149, section 2) */
} PsPrecision;
#define PS_N_PRECISIONS (PS_PRECISION_NVFP4 + 1)

/* A number format of training. */
typedef struct {
  guint bytes;        /* of an element, but of the products of layers */
  guint bits;         /* of an element that the products of layers multiply */
  double kept_bits;   /* the same in memory, with its part of the scale */
  double weight_bits; /* the same of a weight, whose blocks may be larger: 128 by 128 of fp8-block */
  gboolean blocks;    /* a block of elements has a scale */
  /* Moved to make one from two bytes: its largest element is found first where the whole tensor has a scale (nvfp4 has
   * both), and blocks make copies by rows and by columns. */
  double cast_bytes;
} PsNumberFormat;

extern const PsNumberFormat ps_number_formats[PS_N_PRECISIONS];

typedef enum {
  PS_MLP_GELU,   /* h -> f -> h, two matrices, GELU between (GPT) */
  PS_MLP_SWIGLU, /* h -> f twice, gated, f -> h, three matrices (Llama) */
  PS_MLP_RELU2,  /* h -> f -> h, two matrices, the square of ReLU between; all else as Llama (Nemotron) */
} PsMlp;

typedef enum {
  PS_QK_NORM_NONE,
  PS_QK_NORM_HEAD, /* of each head, which all heads share (Qwen3) */
  PS_QK_NORM_WIDE, /* of all heads together (OLMo 2) */
} PsQkNorm;

/* What is done with the logits. */
typedef enum {
  PS_LOSS_WHOLE,   /* F keeps all of them */
  PS_LOSS_FUSED,   /* F keeps none; B computes them again, and runs W's product with them (Megatron-LM's
                      --cross-entropy-fusion-impl linear, core/fusions/fused_linear_cross_entropy.py) */
  PS_LOSS_CHUNKED, /* F has an eighth of them at a time, and runs the products of B and W at once (torchtitan's
                      components/loss.py, ChunkedLossWrapper; Liger Kernel, arXiv 2410.10989, section 3.2) */
} PsLoss;

#define PS_LOSS_CHUNKS 8

/* Names and back; errors as those of ps_parse_name. */
const char *ps_loss_name (PsLoss loss); /* "whole", "fused", "chunked" */
gboolean ps_loss_parse (const char *where, const char *text, PsLoss *loss, GError **error);

typedef enum {
  PS_SINKS_NONE,
  PS_SINKS_ALL,    /* each head has a logit that no token has (gpt-oss) */
  PS_SINKS_WINDOW, /* in units with a window alone (MiMo-V2) */
} PsSinks;

/* Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values of all heads are made from
 * one narrow vector, and queries from another. */
typedef struct {
  guint kv_rank;    /* width of the vector of keys and values; 0: the model has heads of keys and values instead */
  guint q_rank;     /* width of the vector of queries, which heads of keys and values may have, too (Step 3); 0: queries
                       are made from h */
  guint nope_size;  /* size of each head's query and key without position */
  guint rope_size;  /* size of each query's part with position, and of that of the one common key */
  guint value_size; /* size of each head's value */
} PsLatent;

/* A mixture of experts in place of the feed-forward (DeepSeekMoE, arXiv 2401.06066, section 2). */
typedef struct {
  guint count;        /* experts of a layer to choose from; 0: the model has none */
  guint active;       /* experts that a token visits (top-k) */
  guint shared;       /* further experts, which every token visits */
  guint feed_forward; /* f of one expert */
  guint dense_layers; /* layers before the first with experts */
  guint latent; /* width that tokens are brought to before routed experts and back after them; 0: h (Nemotron 3) */
  guint shared_width;   /* f of all shared experts together; 0: shared times feed_forward */
  gboolean shared_gate; /* TRUE: a number for each token, h weights, gates the shared experts (Qwen2 MoE) */
  double capacity;      /* tokens an expert has room for, over the mean; it is filled up, and tokens beyond are dropped;
                           0: experts take what comes */
  double imbalance;     /* tokens of the GPU with the most over the mean; >= 1 */
} PsExperts;

/* Mamba-2 (arXiv 2405.21060): the width of the heads together, D, is heads times head_size. */
typedef struct {
  guint heads; /* 0: the model has no such unit, as in the next two */
  guint head_size;
  guint state;  /* N, numbers of each channel's state */
  guint groups; /* G, heads of one group share their B and C */
} PsMamba;

/* Gated delta net (arXiv 2412.06464, as in Qwen3-Next): a heads of keys and queries, b of values. */
typedef struct {
  guint key_heads;
  guint key_size;
  guint value_heads;
  guint value_size;
  guint gate_rank; /* width of the vectors that the decay of each channel and the gate of the result are made from (Kimi
                      Linear, arXiv 2510.26692, section 3); 0: a head has one decay, and the gate is made from h */
} PsDelta;

/* The lightning indexer of sparse attention (DeepSeek-V3.2, arXiv 2512.02556, section 2.1). */
typedef struct {
  guint heads;
  guint size; /* of a query of the indexer and of its one key */
  guint top;  /* tokens that a token attends to at most */
} PsIndexer;

/* Attention to the last tokens (PsModel.window) and to entries that several tokens are pooled into (DeepSeek-V4,
 * modeling_deepseek_v4.py of transformers 5.24). An indexer (PsIndexer) selects the entries of the first kind. */
typedef struct {
  guint sparse; /* tokens of an entry of PS_UNIT_COMPRESSED, made from as many tokens before, too */
  guint heavy;  /* tokens of an entry of PS_UNIT_HEAVY */
} PsCompress;

/* An encoder of images before the embedding: a transformer of its own width, whose results take the place of tokens of
 * the sequence (ViT, arXiv 2010.11929, section 3.1; LLaVA, arXiv 2304.08485, section 4.1). An encoder of sound is
 * described by the same keys: a clip is an image, a frame a patch. Its biases are there, and dropout is not. */
typedef struct {
  guint images; /* of each sequence; 0: text alone is trained, and the model has no encoder */
  guint layers; /* each with attention over one image and an MLP */
  guint hidden;
  guint heads;
  guint feed_forward;
  PsMlp mlp;
  gboolean no_biases;
  guint sequence;         /* tokens of an image in the encoder */
  guint results;          /* tokens of the decoder's sequence that it becomes */
  guint patch;            /* numbers that a token is made from */
  guint vectors;          /* learnt numbers outside of layers and matrices: positions, class token, norms, biases */
  guint projector_layers; /* matrices between the last layer and the decoder */
  guint projector_width;  /* width of what enters the first: several tokens may be put side by side */
  guint projector_hidden; /* width of what enters the others */
  gboolean projector_bias;
} PsEncoder;

#define PS_CONVOLUTION                                                                                                 \
  4 /* tokens that the convolution before Mamba-2 and gated delta net spans in every public model */

#define PS_MAX_SEQUENCE (1 << 20) /* tokens */

/* Further GPUs that share the work, apart from those of tensor parallelism (work.h). */
typedef struct {
  guint context; /* GPUs of a device that share each sequence, 0 or 1: none */
  guint experts; /* GPUs, of the device and its replicas, that share the experts; 0 or 1: those of tensor parallelism */
} PsSpread;

/* The program that trains, whose habits decide which bytes are held (work.h). */
typedef enum {
  PS_FRAMEWORK_NONE,      /* what the formulas here say and nothing else */
  PS_FRAMEWORK_MEGATRON,  /* Megatron-LM's core with Transformer Engine */
  PS_FRAMEWORK_DEEPSPEED, /* DeepSpeed's ZeRO stage 1 and pipeline engine, as in Megatron-DeepSpeed */
  PS_FRAMEWORK_BRIDGE,    /* Megatron-LM's core as the performance recipes of Megatron Bridge set it */
} PsFramework;

/* The format of a number that is kept for each parameter. */
typedef enum {
  PS_DTYPE_AUTO, /* the framework's */
  PS_DTYPE_FP32,
  PS_DTYPE_BF16,
  PS_DTYPE_FP16,
  PS_DTYPE_FP8,
} PsDtype;

typedef enum {
  PS_OPTIMIZER_ADAM,
  PS_OPTIMIZER_MUON, /* of the matrices of layers; Adam of all else (work.h) */
} PsOptimizer;

typedef enum {
  PS_IMPLEMENTATION_FUSED,   /* one kernel for each tensor, without temporaries */
  PS_IMPLEMENTATION_FOREACH, /* PyTorch's default: a temporary of each parameter */
} PsImplementation;

/* What an optimizer keeps of a parameter, in Megatron-LM's words. 0 says nothing. */
typedef struct {
  PsOptimizer optimizer;
  PsImplementation implementation; /* of the optimizer, in torchtitan's words */
  PsDtype main_grads;              /* accumulated and reduced gradients */
  PsDtype main_params;             /* the copy of the weights that the optimizer updates */
  PsDtype exp_avg;                 /* Adam's first moment, Muon's momentum */
  PsDtype exp_avg_sq;              /* Adam's second moment */
  gboolean fp8_param_gather;       /* TRUE: weights of products are in the format of the products, and in no other */
} PsStateFormats;

typedef struct {
  char *name;            /* from [model] name, else the file's base name */
  char *pattern;         /* the units of all layers, by their letters (PsUnitRow); NULL: all layers are alike, as
                            window, full_every, latent and experts say */
  char *unread;          /* keys of the file that nothing is known of, with commas between; NULL: none */
  guint layers;          /* transformer layers, embedding, head and mtp not counted */
  guint hidden;          /* h */
  guint heads;           /* a */
  guint kv_heads;        /* k; defaults to heads; divides heads */
  guint head_size;       /* z; 0: h / a, and a divides h */
  guint sequence;        /* s, tokens */
  guint longest;         /* the longest sequence that a config.json allows, which says no other; 0: not known */
  guint feed_forward;    /* f; defaults to 4h */
  guint vocabulary;      /* V, tokens */
  guint microbatch_size; /* b, sequences */
  PsPrecision precision; /* format of activations and of the weights that kernels read */
  PsMlp mlp;
  gboolean flash_attention; /* TRUE: the softmax matrix is never stored */
  gboolean whole_sequences; /* TRUE: GPUs that share a layer do so in its matrices alone (sequence_parallel = false) */
  /* TRUE: F keeps the input of SwiGLU in 8 bits, and B casts it back (Megatron-LM's
   * config.activation_func_fp8_input_store; DeepSeek-V3, arXiv 2412.19437, section 3.3.3) */
  gboolean fp8_input_store;
  PsLoss loss;
  gboolean tied;           /* TRUE: embedding and output projection are one matrix */
  gboolean qkv_bias;       /* TRUE: swiglu with biases of queries, keys and values (Qwen2); gelu has all biases */
  gboolean other_biases;   /* TRUE: swiglu with biases of all other matrices of its layers (gpt-oss) */
  gboolean output_bias;    /* TRUE: the same, of the projection after attention alone */
  PsQkNorm qk_norm;        /* whether queries and keys are normalised */
  gboolean post_norms;     /* TRUE: a norm after each unit of a layer, too (Gemma 2) */
  gboolean one_norm;       /* TRUE: the units of a layer share the norm before them (Falcon 7B) */
  gboolean no_biases;      /* TRUE: gelu with norms as GPT, and no bias of a matrix (Falcon) */
  gboolean no_positions;   /* TRUE: gelu without learnt positions (GPT-NeoX, BLOOM) */
  guint position_rows;     /* learnt positions of gelu; 0: `sequence` */
  gboolean embedding_norm; /* TRUE: gelu with a norm after the embedding (BLOOM) */
  gboolean no_dropout;     /* TRUE: gelu without dropout */
  guint value_head_size;   /* size of each value; 0: head_size (MiMo-V2) */
  gboolean shared_kv;      /* TRUE: the one vector of keys, with a norm, is that of values, too, and queries have a norm
                              without weights (DeepSeek-V4) */
  guint output_groups;     /* parts that the result of attention is projected in, each to output_rank, before the output
                              projection; 0: it has none (DeepSeek-V4) */
  guint output_rank;
  guint streams;         /* hidden states of a token, which hyper-connections mix before and after each unit (arXiv
                            2409.19606; 2512.24880); 0: one, with sums */
  guint window_heads;    /* heads of units with a window; 0: heads */
  guint window_kv_heads; /* 0: kv_heads */
  guint window;          /* tokens that a token attends to in units of PS_UNIT_WINDOW; 0: no layer has one */
  guint full_every;      /* every so manyth layer attends to all tokens in spite of window; 0: none */
  gboolean
      attention_gate; /* TRUE: what attention hands on is multiplied by a gate, made like the queries (Qwen3-Next) */
  PsSinks sinks;
  guint mtp; /* modules of multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2) */
  PsLatent latent;
  PsExperts experts;
  PsMamba mamba;
  PsDelta delta;
  PsIndexer indexer;
  PsCompress compress;
  PsEncoder encoder;
  PsSpread spread;
  PsFramework framework;
  PsStateFormats state;
  gboolean serves; /* TRUE: prefill, whose head runs for the last of these tokens alone, as vLLM's and SGLang's do */
  guint before; /* tokens of each sequence before the `sequence` tokens here, to which they attend too: those of earlier
                   slices (ps_model_slice); 0: none */
  guint after;  /* tokens of each sequence after them: those of later slices; 0: none */
} PsModel;

/* The key of the first field that makes a model other than a plain decoder, as the devices of exec compute it: its own
 * head size, tied matrices, biases and norms of queries, windows, latent attention, experts, multi-token prediction,
 * other units, an activation. NULL: none. */
const char *ps_model_special_key (const PsModel *model);

/* Units. A model is a sequence of units: those of an encoder, embedding, the units of each layer in turn, modules of
 * multi-token prediction, loss. A layer of an encoder is one unit. A layer of a decoder is two units, a mixer of tokens
 * and a feed-forward; a layer of a hybrid model (Megatron-LM's HybridModel) is one unit. Each unit is of a kind, and a
 * kind is a row of one table: which matrices and vectors it holds, which tensors its forward keeps, and which kernels
 * it runs. Parameters, operations, bytes and times of a stage are sums over its units.
 */
typedef enum {
  PS_UNIT_PATCHES,   /* tokens of an encoder from patches of images */
  PS_UNIT_ENCODER,   /* a layer of the encoder (PsEncoder) */
  PS_UNIT_PROJECTOR, /* from the encoder to the width of the decoder */
  PS_UNIT_EMBEDDING,
  PS_UNIT_ATTENTION,  /* heads of queries, and as many or fewer of keys and values, over all tokens */
  PS_UNIT_WINDOW,     /* the same over the last tokens (PsModel.window) */
  PS_UNIT_LATENT,     /* keys and values from one narrow vector (PsLatent) */
  PS_UNIT_SPARSE,     /* the same, over the tokens that an indexer selects (PsIndexer) */
  PS_UNIT_COMPRESSED, /* a window and compressed entries that an indexer selects (PsCompress) */
  PS_UNIT_HEAVY,      /* a window and heavily compressed entries */
  PS_UNIT_MAMBA,      /* PsMamba */
  PS_UNIT_DELTA,      /* PsDelta */
  PS_UNIT_LINEAR,     /* linear attention with a decay of each head (lightning attention, arXiv 2501.08313) */
  PS_UNIT_MLP,
  PS_UNIT_EXPERTS,
  PS_UNIT_MTP, /* what a module of multi-token prediction has besides the units of a layer */
  PS_UNIT_LOSS,
} PsUnitKind;
#define PS_N_UNIT_KINDS (PS_UNIT_LOSS + 1)

/* How the GPUs of a device share a matrix (work.h). */
typedef enum {
  PS_CUT_NONE, /* each has all of it */
  PS_CUT_COLUMNS,
  PS_CUT_ROWS,
  PS_CUT_EXPERTS, /* as PsSpread.experts says; else columns or rows of each expert */
} PsMatrixCut;

/* Matrices of weights of one size, side by side. */
typedef struct {
  const char *name;
  gint64 rows, columns;
  gint64 count;         /* of them; 0: the parameters are counted with the embedding's */
  gint64 active;        /* that each token is multiplied by */
  double load;          /* the same on the GPU with most tokens */
  guint passes[3];      /* products that F, B and W run with it: bits 1 << PS_OP_F, 1 << PS_OP_B and 1 << PS_OP_W */
  PsMatrixCut cut;      /* of PS_CUT_EXPERTS: the first is cut by columns, the second by rows */
  gboolean bias;        /* with a number for each column */
  guint bits;           /* of an element that is multiplied */
  double gradient_bits; /* of an element of the output's gradient, which W needs; 0: listed as kept */
  guint recompute;      /* as PsMemoryKernel.recompute */
} PsMatrix;

typedef enum {
  PS_KEPT_WEIGHT = 1, /* W needs it, too */
  PS_KEPT_WIDE = 2,   /* as wide as the model: whole with whole_sequences (work.h) */
} PsKeptFlags;

/* What the backward computes again instead of keeping it (Korthikanti et al., arXiv 2205.05198): modules of layers, by
 * the names of Megatron-LM's --recompute-modules (core/transformer/transformer_config.py), or whole layers. A tensor
 * that F keeps is dropped, and a kernel runs again, where one of its modules is among these. */
typedef enum {
  PS_RECOMPUTE_CORE_ATTN = 1 << 0,   /* section 5: scores, their softmax and dropout, 5as^2b of each layer; with
                                        flash attention the sums of the softmax alone */
  PS_RECOMPUTE_LAYERNORM = 1 << 1,   /* norms that are no part of the matrix after them: those before latent
                                        attention and before experts */
  PS_RECOMPUTE_MLA_UP_PROJ = 1 << 2, /* queries, keys and values of latent attention, from the narrow vectors */
  PS_RECOMPUTE_MOE_ACT = 1 << 3,     /* results of the activation of routed experts */
  PS_RECOMPUTE_MOE = 1 << 4,         /* the router and all experts */
  PS_RECOMPUTE_MLP = 1 << 5,         /* a dense MLP and the norm in it */
  PS_RECOMPUTE_SHARED_EXPERTS = 1 << 6,
  PS_RECOMPUTE_FULL = 1 << 7,    /* table 2: whole layers, whose inputs alone are kept, 2sbh each */
  PS_RECOMPUTE_UNIFORM = 1 << 8, /* with FULL: the inputs of groups of layers; else the first layers of a stage */
} PsRecomputeFlags;

/* Flags, and with FULL from bit PS_RECOMPUTE_LAYERS on the number of layers: of a group with UNIFORM, else of a stage
 * (0: all). */
typedef guint PsRecompute;
#define PS_RECOMPUTE_NONE 0
#define PS_RECOMPUTE_SELECTIVE PS_RECOMPUTE_CORE_ATTN
#define PS_RECOMPUTE_MODULES (PS_RECOMPUTE_FULL - 1U)
#define PS_RECOMPUTE_LAYERS 16

/* Tensors that F keeps and Megatron-LM can move to the host, by the names of its --offload-modules: inputs of these
 * modules (core/transformer/transformer_config.py). */
typedef enum {
  PS_OFFLOAD_ATTN_NORM = 1 << 0,
  PS_OFFLOAD_QKV_LINEAR = 1 << 1,
  PS_OFFLOAD_CORE_ATTN = 1 << 2,
  PS_OFFLOAD_ATTN_PROJ = 1 << 3,
  PS_OFFLOAD_MLP_NORM = 1 << 4,
  PS_OFFLOAD_EXPERT_FC1 = 1 << 5,
  PS_OFFLOAD_MOE_ACT = 1 << 6,
} PsOffloadFlags;

/* A tensor that F keeps for the backward. */
typedef struct {
  const char *module; /* part of the unit that makes it */
  const char *name;
  gint64 elements; /* of a token */
  double bits;     /* of an element, where the model's elements have 16; those of 32 have them at any precision */
  guint flags;     /* PsKeptFlags */
  guint recompute; /* PsRecomputeFlags: each of these drops it */
  guint offload;   /* PsOffloadFlags: each of these moves it */
} PsKept;

/* A kernel that moves bytes and multiplies nothing. */
typedef struct {
  const char *name;
  PsOpKind kind;   /* F or B */
  gint64 bytes;    /* of a token, read and written */
  gboolean wide;   /* as PS_KEPT_WIDE */
  guint recompute; /* PsRecomputeFlags: each of these runs it again. Without FULL it is a part of another one, which F
                      runs */
} PsMemoryKernel;

/* Products of tokens with tokens, or with a state: no weights. */
typedef struct {
  const char *name;
  gint64 heads;
  gint64 width;   /* of query and value of all heads together */
  gint64 most;    /* tokens that a token attends to at most; 0: a scan, whose width counts multiplications of a token */
  gboolean flash; /* scores are never stored */
  guint recompute; /* as PsMemoryKernel.recompute */
} PsScores;

/* What a unit is made of, for one token. */
typedef struct {
  PsMatrix matrix[12];
  PsKept kept[20];
  PsMemoryKernel move[24];
  PsScores scores[2];
  guint n_matrices, n_kept, n_moves, n_scores;
  guint recompute;      /* of what is listed next */
  gint64 whole_vectors; /* norms, positions: parameters that every GPU of a device has */
  gint64 cut_vectors;   /* parameters that they share */
  guint launches;       /* by the host, for F and for B, that no kernel of the lists stands for */
  gint64 running;       /* bytes of the gradients that run through it (work.h) */
} PsUnitParts;

typedef struct {
  const char *name;
  char letter;        /* in Megatron-LM's hybrid patterns, and in those of PsModel; NUL: its place says it */
  gboolean megatron;  /* whether Megatron-LM knows the letter */
  const char *keys;   /* of a model that it needs, and after a comma others that say its sizes */
  const char *source; /* of its formulas */
  void (*describe) (const PsModel *model, PsUnitKind kind, PsUnitParts *parts);
} PsUnitRow;

const PsUnitRow *ps_unit_row (PsUnitKind kind);

/* The model whose tokens and widths are those of a unit: `model`, or for the units of its encoder, and for a window
 * with heads of its own, one that is made in *own. It lives as long as both. */
const PsModel *ps_unit_model (const PsModel *model, PsUnitKind kind, PsModel *own);

/* What a unit of that kind is made of. Each thread keeps it until it asks for another model (one with other numbers).
 */
const PsUnitParts *ps_unit_describe (const PsModel *model, PsUnitKind kind);

/* The letters of patterns in the order of the kinds, "*w+D...". */
const char *ps_unit_letters (void);

/* The kind with that letter; PS_N_UNIT_KINDS: there is none. */
PsUnitKind ps_unit_find (char letter);

/* Units of a layer, 1 or 2, in kinds. Those of layer PsModel.layers are those of multi-token prediction. */
guint ps_model_layer_units (const PsModel *model, guint layer, PsUnitKind kinds[2]);

/* The letters of the units of all layers, and after a "/" those of multi-token prediction: "M-M-ME*E/ME". Free with
 * g_free. */
char *ps_model_pattern (const PsModel *model);

/* The same with the letters of Megatron-LM, which knows no w: options say which attention has a window there. */
char *ps_model_megatron_pattern (const PsModel *model);

/* The units of the layers for people, repeats folded: "(*-)x3(*E)x58". Free with g_free. */
char *ps_model_units_text (const PsModel *model);

/* ps_model_pattern where each layer is one unit; NULL: they are two. Free with g_free. */
char *ps_model_hybrid_pattern (const PsModel *model);

/* Makes each unit of the layers a layer of its own, as HybridModel has it. */
void ps_model_unfold (PsModel *model);

/* Reads a model description: an .ini file, or the config.json of a model for Hugging Face's transformers, which is
 * recognised by its first character (model-read.c). path may also be a bare name ("tiny-gpt"): the
 * descriptions shipped with pipesim are found by it. Every unknown key, missing key and absurd value is an error "FILE:
 * [model] key: ...". Errors: PS_ERROR_IO, PS_ERROR_INPUT. Free with ps_model_free. */
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

/* Names and back; the words of Megatron-LM's --fp8-recipe are read, too, and fp4. Errors as those of ps_parse_name. */
const char *ps_precision_name (PsPrecision precision);
gboolean ps_precision_parse (const char *where, const char *text, PsPrecision *precision, GError **error);

const char *ps_framework_name (PsFramework framework); /* "none", "megatron", "deepspeed", "megatron-bridge" */
gboolean ps_framework_parse (const char *where, const char *text, PsFramework *framework, GError **error);
const char *ps_optimizer_name (PsOptimizer optimizer);
gboolean ps_optimizer_parse (const char *where, const char *text, PsOptimizer *optimizer, GError **error);
const char *ps_implementation_name (PsImplementation implementation);
gboolean ps_implementation_parse (const char *where, const char *text, PsImplementation *implementation,
                                  GError **error);
const char *ps_dtype_name (PsDtype dtype);
gboolean ps_dtype_parse (const char *where, const char *text, PsDtype *dtype, GError **error);

/* Gives the model the formats that `said` states; a 0 leaves the model's. */
void ps_model_set_state (PsModel *model, const PsStateFormats *said);

/* The formats of a model, without auto: what is not said is its framework's. */
PsStateFormats ps_model_formats (const PsModel *model);

/* Whether the framework is Megatron-LM's core, however it is set. */
static inline gboolean ps_framework_is_megatron (PsFramework framework)
{
  return framework == PS_FRAMEWORK_MEGATRON || framework == PS_FRAMEWORK_BRIDGE;
}

static inline guint ps_precision_bytes (PsPrecision precision)
{
  return ps_number_formats[precision].bytes;
}

/* Gives the model the precision that text names, and where that is a new one a name that says so ("gpt-1.5b in bf16").
 * text NULL: leaves it. Errors: PS_ERROR_USAGE "where: ...". */
gboolean ps_model_set_precision (PsModel *model, const char *where, const char *text, GError **error);

/* Gives the model microbatches of microbatch_size sequences of `sequence` tokens with `images` images; 0 leaves it.
 * Errors: PS_ERROR_USAGE where its figures get too large, where it has no encoder for images, and where they do not fit
 * into the sequence. */
gboolean ps_model_resize (PsModel *model, guint microbatch_size, guint sequence, guint images, GError **error);

/* Slices of a sequence are given by their lengths in tokens, an array. They are multiples of n_sharing, the GPUs that
 * share a slice, and add up to the sequence. */

/* Returns the lengths of n_slices slices as equal as can be. Free with g_free. Errors: PS_ERROR_USAGE where there are
 * not that many, or the model has images. */
guint *ps_model_cut_equal (const PsModel *model, guint n_slices, guint n_sharing,
                           GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Checks lengths that were given. Errors: PS_ERROR_USAGE. */
gboolean ps_model_check_slices (const PsModel *model, const guint *tokens, guint n_slices, guint n_sharing,
                                GError **error);

/* Makes the model one of these slices: the others become tokens before and after it. Positions, and so parameters, are
 * those of the slice. */
void ps_model_slice (PsModel *model, const guint *tokens, guint n_slices, guint slice);

/* The tokens of the sequence that the model, or the slice, is of. */
static inline gint64 ps_model_whole_sequence (const PsModel *model)
{
  return (gint64)model->before + model->sequence + model->after;
}

/* The modules of a recomputation as text, and back: "none", "core_attn" (read as "selective" too, and written so where
 * it is alone), "mla_up_proj+mlp", "full", "full:layers=4", "full:uniform=2". The text lives as long as the program.
 * Errors: PS_ERROR_USAGE "where: ...". */
const char *ps_recompute_name (PsRecompute recompute);
gboolean ps_recompute_parse (const char *where, const char *text, PsRecompute *recompute, GError **error);

/* The same of PsOffloadFlags: "none", "core_attn+expert_fc1". */
const char *ps_offload_name (guint offload);
gboolean ps_offload_parse (const char *where, const char *text, guint *offload, GError **error);

/* How many of n_layers are computed again as wholes. *n_inputs: how many inputs of layers are kept for that. Both are 0
 * without PS_RECOMPUTE_FULL. */
guint ps_recompute_layers (PsRecompute recompute, guint n_layers, guint *n_inputs);

/* The modules that the model has, as flags. */
void ps_model_modules (const PsModel *model, PsRecompute *recompute, guint *offload);

/* Recomputations worth trying for the model: none, the modules that cost least time for a byte (norms, activations and
 * up projections; scores that are stored; else the MLP), and full. sets has room for PS_N_RECOMPUTE_SETS. Returns their
 * number. */
#define PS_N_RECOMPUTE_SETS 3
guint ps_model_recompute_sets (const PsModel *model, PsRecompute *sets);

/* A contiguous piece of the model, and how its ops run. */
typedef struct {
  guint first_encoder; /* of the layers of the encoder; patches come with the first, the projector with the last */
  guint n_encoder;
  guint first_layer;
  guint n_layers;
  gboolean embedding; /* token and position embedding before the layers */
  guint n_mtp;        /* modules of multi-token prediction after the layers */
  guint head;         /* losses after them: final layer norm, output projection and cross-entropy; a model has one, and
                         one more for each module */
  PsRecompute recompute; /* recomputation of its layers; in costs: the one that times and sizes have already */
  double offload;        /* part of what its layers' forwards keep that moves to the host; in costs as recompute */
  guint n_tensor;        /* devices that share its layers as PsDeviceSetting says; 0 counts as 1. Measured costs only */
} PsStageShape;

/* The layers of a stage that a recomputation is about: the first ones with PS_RECOMPUTE_FULL, else all, and those of
 * multi-token prediction. */
static inline PsStageShape ps_recompute_shape (const PsStageShape *shape, PsRecompute recompute)
{
  guint n_inputs, n_again = ps_recompute_layers (recompute, shape->n_layers, &n_inputs);
  gboolean full = (recompute & PS_RECOMPUTE_FULL) != 0;

  return (PsStageShape){ .first_layer = shape->first_layer,
                         .n_layers = full ? n_again : shape->n_layers,
                         .n_mtp = full ? 0 : shape->n_mtp };
}

/* Units of a stage as a layout counts them. */
static inline guint ps_stage_shape_units (const PsStageShape *shape)
{
  return shape->n_encoder + (guint)shape->embedding + shape->n_layers + shape->n_mtp + (shape->head > 0);
}

/* Counts the units of each kind in a stage. A module of multi-token prediction has the units of the last layer, too. */
void ps_model_count_units (const PsModel *model, const PsStageShape *shape, guint count[PS_N_UNIT_KINDS]);

/* Splits the layers over n_stages as evenly as possible, larger stages first; the first stage gets the encoder and the
 * embedding, the last the head. Where there are more stages than layers, the head, modules of multi-token prediction
 * and, last, the embedding have stages of their own. shapes has room for n_stages. Fails with PS_ERROR_USAGE when
 * n_stages is more than the units of the model. */
gboolean ps_model_split (const PsModel *model, guint n_stages, PsStageShape *shapes, GError **error);

/* Whether the shapes are those of ps_model_split for no more stages than layers. */
gboolean ps_stage_shapes_are_even (const PsStageShape *shapes, guint n_stages);

/* The units of the model in order, one to a shape: layers of the encoder, embedding, layers, modules of multi-token
 * prediction, head. *n is their number. Free with g_free. */
PsStageShape *ps_model_units (const PsModel *model, guint *n);

/* Joins units to stages: end[s] is the first unit after stage s. shapes has room for n_stages. */
void ps_stage_shapes_join (const PsStageShape *units, const guint *end, guint n_stages, PsStageShape *shapes);

/* The part of a shape that costs depend on: "layers=2", "layers=1,embedding", "layers=1,head",
 * "layers=2,recompute=full,offload=0.5", "layers=2,tensor=2", "layers=0,encoder=27". Free with g_free. */
char *ps_stage_shape_key (const PsStageShape *shape);

/* Tokens of a microbatch, bs. */
static inline gint64 ps_model_tokens (const PsModel *model)
{
  return (gint64)model->sequence * model->microbatch_size;
}

/* Width of the query, and of the key, of one head: z, or in latent attention its parts without and with position. */
static inline guint ps_model_head_size (const PsModel *model)
{
  if (model->latent.kv_rank > 0)
    return model->latent.nope_size + model->latent.rope_size;
  return model->head_size > 0 ? model->head_size : model->hidden / model->heads;
}

/* Width of the queries of all heads, q. */
static inline gint64 ps_model_query_width (const PsModel *model)
{
  return (gint64)ps_model_head_size (model) * model->heads;
}

/* Width of the keys, and of the values, of all their heads, c. */
static inline gint64 ps_model_kv_width (const PsModel *model)
{
  return (gint64)ps_model_head_size (model) * model->kv_heads;
}

/* Width of the values of all heads of keys and values; 0 where their keys are the values, too. */
static inline gint64 ps_model_own_value_width (const PsModel *model)
{
  guint size = model->value_head_size > 0 ? model->value_head_size : ps_model_head_size (model);

  return model->shared_kv ? 0 : (gint64)model->kv_heads * size;
}

/* Width of what attention hands to the output projection: the values of all heads. */
static inline gint64 ps_model_value_width (const PsModel *model)
{
  return model->latent.kv_rank        ? (gint64)model->heads * model->latent.value_size
         : model->value_head_size > 0 ? (gint64)model->heads * model->value_head_size
                                      : ps_model_query_width (model);
}

/* Tokens that the experts of the GPU with the most work on, for each token that comes in. */
static inline double ps_model_routed (const PsModel *model)
{
  const PsExperts *experts = &model->experts;

  return experts->active * (experts->capacity > 0 ? experts->capacity : experts->imbalance);
}

/* GPUs each of which holds its part of the experts as they are; 0: tensor parallelism cuts them like other matrices.
 * Megatron-LM cuts none that have biases, so that without PsSpread.experts every GPU holds all of them ("Bias in Moe is
 * only supported when ETP==1", core/transformer/transformer_config.py). */
static inline guint ps_model_expert_gpus (const PsModel *model)
{
  gboolean whole = ps_framework_is_megatron (model->framework) && model->experts.count > 0
                   && (model->other_biases || model->mlp == PS_MLP_GELU);

  return model->spread.experts > 1 ? model->spread.experts : whole ? 1 : 0;
}

/* Layers of the encoder that is trained. */
static inline guint ps_model_encoder_layers (const PsModel *model)
{
  return model->encoder.images > 0 ? model->encoder.layers : 0;
}

/* The whole model as one piece. */
static inline PsStageShape ps_model_whole (const PsModel *model)
{
  return (PsStageShape){ .n_encoder = ps_model_encoder_layers (model),
                         .n_layers = model->layers,
                         .embedding = TRUE,
                         .n_mtp = model->mtp,
                         .head = 1 + model->mtp };
}

/* Parameter counts. Those of a layer are sums over its units: attention and its norm, feed-forward and its norm.
 *
 * - Layer, gelu (GPT: biases, layer norms with bias, learnt positions): 2hq + 2hc + 2hf weights, q + 2c + 6h + f biases
 *   and norms; 12h^2 + 13h for f = 4h and k = a.
 * - Layer, swiglu (Llama: no biases, RMS norms, rotary positions): 2hq + 2hc + 3hf weights, 2h norms; qkv_bias adds
 *   q + 2c, qk_norm 2z, other_biases 2f + 2h, and with experts count for the router's.
 * - Latent attention in place of 2hq + 2hc (arXiv 2405.04434, section 2.1): h q_rank + q_rank q, or hq; h (kv_rank +
 *   rope_size); kv_rank a (nope_size + value_size); a value_size h; norms of q_rank and kv_rank.
 * - Experts in place of the feed-forward: (count + shared) times its weights and biases at their width, and the router,
 *   h count. With a latent width l routed experts have l for h, and 2hl bring tokens there and back.
 * - Values of another size than queries count with it; keys that are values, too, count once, with a norm of their
 * size. An output in g groups of rank r: vr and grh for hv. n streams: (2 + n)n (nh + 1) + 3 for each unit, n (nh + 1)
 * + 1 before the head.
 * - Compressed entries of rate t, z the size of a head: 4hz + 2tz + z, heavily compressed 2hz + tz + z; their indexer
 * of H heads of size d: q_rank Hd + 4hd + 2td + d + hH.
 * - Squared ReLU: 2hf where swiglu has 3hf.
 * - A gate of shared experts: h. A gate of attention: hv. Sinks: a. An indexer of H heads of size d: q_rank Hd + hd +
 * hH, and a norm of 2d.
 * - Mamba-2, D = heads times head_size: h (2D + 2GN + heads), Dh; a convolution of 4 tokens with bias, 5 (D + 2GN);
 *   decay, skip and bias of the step of each head, 3 heads; norms of D and h (Megatron-LM, core/ssm/mamba_mixer.py).
 * - Gated delta net, K and D the widths of keys and values: h (2K + 2D + 2 heads of values), Dh; a convolution 4 (2K +
 *   D); decay and bias of the step, 2 heads of values; norms of value_size and h (core/ssm/gated_delta_net.py there).
 * - Linear attention: queries, keys, values and a gate, 4hq, the output qh, norms of q and h.
 * - Encoder: a layer of its own width h, MLP and biases as GPT or Llama; patches of P numbers Ph and `vectors`; the
 *   projector, from width w with n matrices of hidden width u, wu + (n - 2)u^2 + uh, or wh, and its biases.
 * - Embedding: (V + s)h (GPT), Vh (Llama).
 * - Head: final norm 2h (GPT), h (Llama), and Vh. A tied model has no Vh of its own on a stage with the embedding.
 * - Module of multi-token prediction (arXiv 2412.19437, section 2.2): 2h^2, two norms and a layer; its loss has a norm.
 *   Embedding and output projection are the model's; a stage that has modules without the one, or losses without the
 *   other, holds a copy.
 */
gint64 ps_model_stage_parameters (const PsModel *model, const PsStageShape *shape);
gint64 ps_model_parameters (const PsModel *model);

/* Parameters that a token meets: without the experts that it does not visit and without multi-token prediction. */
gint64 ps_model_active_parameters (const PsModel *model);

/* Floating-point operations of a stage for one microbatch, multiply and add counted as two; kind is F, B, W, BW (B + W)
 * or R (F).
 *
 * - Layer, f = 4h and k = a: F bsh(24h + 4s), B bsh(24h + 8s), W 24bsh^2 (arXiv 2401.10241, zero bubble, section 2,
 *   table 1).
 * - Layer with N weights that a token meets (the same sum over the matrices): F 2bsN + A, B 2bsN + 2A, W 2bsN. A =
 *   2bsu (q + v), u the tokens attended to, s or at most window, v the width of the values; 4bs^2h for q = h.
 * - Each loss: 2bshV per F, B and W; fused 2bshV and 6bshV in F and B, chunked 6bshV in F. A module of multi-token
 *   prediction: 4bsh^2 and a layer.
 * - Sparse attention: u is at most PsIndexer.top, and the indexer multiplies 2bs^2 Hd.
 * - Scans work in chunks of C tokens, 2bs times a number of multiplications that A has above, per token: Mamba-2
 *   C (GN + D) + 2ND, C = 128 (arXiv 2405.21060, section 6: scores of groups, their sum, states and outputs); gated
 * delta net per head of values C (3k + 2v) + 3kv for sizes k and v, C = 64 (arXiv 2412.06464, section 3.3; the inverse
 * of a chunk's triangle left out); linear attention q (2C + 2z), C = 256 (arXiv 2501.08313, section 2.2).
 */
gint64 ps_model_stage_flops (const PsModel *model, const PsStageShape *shape, PsOpKind kind);

/* Bytes that a forward keeps for one microbatch under that recomputation; the head is never recomputed. Without any
 * (Korthikanti et al., arXiv 2205.05198, section 4.1, dropout masks included), scaled by element size / 2:
 *
 * - Layer, f = 4h and k = a: 34sbh + 5as^2b without flash attention (equation 1), 34sbh with it.
 * - Layer, any f, q and c, by its derivation: sb(10h + 4q + 4c + 4f) (GPT), sb(8h + 4q + 4c + 6f) (Llama, which has no
 *   dropout), each with 5as^2b as above; qk_norm keeps 2(q + c) more.
 * - Latent attention in place of 2h + 4q + 4c of it: inputs and outputs of the narrow matrices 2(h + 2 q_rank + 2
 * kv_rank + rope_size), queries and keys of all heads 4q, values and their weighted sum 4v.
 * - Experts in place of 2h + 6f (Llama): the router's input 2h, its scores in fp32 before and after softmax 8 count.
 * With r = ps_model_routed tokens at the experts' f: r (4h + 6f), for results are kept until they are weighed; for
 * shared experts 6f each.
 * - Mamba-2: projected tokens, the scan's result and that of its norm, 2 (2D + 2GN + heads) + 4D; the convolution runs
 *   again in B (mamba_ssm, ops/triton/ssd_combined.py). Gated delta net: 2 (2K + 2D + 2 heads) + 4D, queries, keys and
 *   values of all heads of values, and 64 elements of each head for a chunk (fla, ops/gated_delta_rule/chunk.py).
 * - Formats of 8 and 4 bits: inputs of matrices take q bytes, PsNumberFormat.kept_bits / 8, instead of 2, one copy for
 *   each matrix (Transformer Engine, pytorch/module/linear.py). 2 bytes stay: inputs of norms, queries, keys and
 * values, the result of attention, the inputs of activations, and of the router. A layer of Llama keeps sb((8 + 2q)h +
 * 4c + 4a + (4 + q)f), 4a of them the sums of the softmax, which count with any framework, too.
 * - Megatron-LM weighs the results of experts within the activation: r (2h + 6f), or r (qh + (4 + q)f).
 * - Each loss: 4sbh and the fp32 logits, 4sbV, which are not scaled (section 4.3); instead of these two numbers of fp32
 *   for each token where it is fused, and nothing where it is chunked. A module of multi-token prediction: 8sbh and a
 *   layer.
 */
gint64 ps_model_stage_kept_bytes (const PsModel *model, const PsStageShape *shape, PsRecompute recompute);

/* Bytes of a stage that W still needs after B: inputs of the matrices and gradients of their outputs.
 *
 * - Layer, f = 4h and k = a: 32sbh (arXiv 2401.10241, section 2: M_W = 32h against M_B = 34h + 5as per token).
 * - Layer, any f, q and c: 2sb(4h + 2q + 2c + 2f) (GPT), 2sb(4h + 2q + 2c + 3f) (Llama).
 * - Head: 2sbh + 4sbV; nothing where it is fused or chunked.
 * - Never more than what the forward keeps.
 */
gint64 ps_model_stage_weight_activation_bytes (const PsModel *model, const PsStageShape *shape);

/* The part of what F of a stage keeps under that recomputation that these modules (PsOffloadFlags) move. */
double ps_model_moved_part (const PsModel *model, const PsStageShape *shape, PsRecompute recompute, guint offload);

/* Bytes of a hidden state of the layers: s b h elements. */
gint64 ps_model_boundary_bytes (const PsModel *model);

/* Bytes of what a layer takes and hands on: those of all streams. */
gint64 ps_model_layer_bytes (const PsModel *model);

/* Bytes of what a stage hands on, and of its gradient, by its last unit:
 *
 * - after an embedding a hidden state, after a layer as many as there are streams;
 * - within an encoder its own tokens and width, after its last layer what the decoder takes of it;
 * - after a module of multi-token prediction the hidden states of the layers, and of each module, for the losses
 *   (Megatron-LM, core/transformer/multi_token_prediction.py).
 */
gint64 ps_model_stage_output_bytes (const PsModel *model, const PsStageShape *shape);

/* The bytes that a stage holds throughout, by part. */
typedef struct {
  gint64 weight_bytes;    /* read by kernels */
  gint64 gradient_bytes;  /* accumulated over the microbatches */
  gint64 optimizer_bytes; /* main weights, where the precision has them, and moments */
  gint64 gathered_bytes;  /* what an all-gather of the weights moves */
  gint64 step_bytes;      /* temporaries of the optimizer step, when no microbatch is alive */
  gint64 buffer_bytes;    /* memory of the framework itself and of its allocator (work.h) */
  gint64 context_bytes;   /* memory of the driver and of libraries (work.h) */
} PsStateBytes;

/* Weights, gradients and optimizer state of n_parameters, none of which products read in 8 or 4 bits. Bytes per
 * parameter: fp32 4 + 4 + 8, mixed precision 2 + 2 + 12 (fp32 main weights, momentum and variance; arXiv 1910.02054,
 * ZeRO, section 3.1). PsStateFormats says others, else the framework does (work.h). */
PsStateBytes ps_model_state (const PsModel *model, gint64 n_parameters);

/* Weights, gradients and optimizer state of the parameters of a stage together. */
gint64 ps_model_stage_state_bytes (const PsModel *model, const PsStageShape *shape);

/* The stages of a model as Megatron-LM writes them. A layout string, "Et*3|(tt|)*29,m|L", is of GPTModel
 * (--pipeline-model-parallel-layout; megatron/core/transformer/pipeline_parallel_layer_layout.py, core v0.16):
 *
 *   E t m L   units, in this order: embedding, layer, module of multi-token prediction, loss (head)
 *   v         a layer of an encoder, before E; Megatron-LM has no letter for it
 *   |         ends a stage; a stage may be empty
 *   X*n       the character X n times: t*3 is ttt
 *   (...)*n   the group n times: (tt|)*2 is tt|tt|; groups hold no groups
 *   ,         means nothing
 *
 * A pattern, "M-M-|M*-E/M-", is of HybridModel, which came after it (--hybrid-layer-pattern;
 * core/models/hybrid/hybrid_layer_allocation.py): a letter for each unit of the layers (PsUnitRow), | between stages, [
 * ] around units that are one layer there, and after each / the units of a module of multi-token prediction. The
 * embedding is in the first stage, these modules and the loss in the last. A cut may fall within a layer of two units.
 *
 * Stages stand in model order. Megatron gives stage s to rank s mod p as its chunk s / p, which is placement loop.
 */

/* Reads a string of either form as [*n_stages]. A layout string holds one E and at least one t. Its one L stands for
 * all losses; or there are as many L as losses, which stages share (NVIDIA/Megatron-LM pull request 5318). model NULL:
 * each letter of a pattern is a layer; else the string must have the units of the model. Errors: PS_ERROR_USAGE "WHERE:
 * character 7: ...". Free with g_free. */
PsStageShape *ps_layout_parse (const char *where, const char *text, const PsModel *model, guint *n_stages,
                               GError **error) G_GNUC_WARN_UNUSED_RESULT;

gboolean ps_layout_is_pattern (const char *text);

/* Whether the text is a pattern with a cut within a layer of the model. ps_model_unfold makes such cuts possible. */
gboolean ps_layout_cuts_layers (const char *text, const PsModel *model);

/* The string that reads as these shapes: a pattern of these units (ps_model_pattern), or where it is NULL or cannot
 * say where embedding, multi-token prediction and loss are, a layout
 * string with repeats folded where that makes it shorter. Free with g_free. */
char *ps_layout_write (const char *pattern, const PsStageShape *shapes, guint n_stages);

G_END_DECLS

#endif
