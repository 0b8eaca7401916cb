/* options.c - what a setting can say: one row for each option of SETTING, and for each other field of a sweep's spec.
 */
#include "options.h"

#define COUNT(member, high) PS_COUNT (PsSetting, member, 1, high)
#define NUMBER(member, low, high) PS_NUMBER (PsSetting, member, low, high)
#define NAME(member, prefix) PS_NAME (PsSetting, member, prefix)
#define TEXT(member) PS_TEXT (PsSetting, member)
#define FILE(member) PS_FILE (PsSetting, member)
#define EACH(member) .each = offsetof (PsSetting, member##_each), .given = PS_MEMBER (PsSetting, n_##member, guint)
#define OWN(type_) .type = PS_OPTION_##type_

/* The part for sweeps: key, title and type of the column, and the other members of PsSweepField. */
#define SWEEP(key_, title_, type_, ...)                                                                                \
  .sweep = &(const PsSweepField)                                                                                       \
  {                                                                                                                    \
    .column = { key_, title_, PS_COLUMN_##type_ }, __VA_ARGS__                                                         \
  }

/* The same of an option of the model or of the machine, on which costs depend. */
#define SWEEP_COSTS(key, title, type) SWEEP (key, title, type, .costs = TRUE, .pace = -2)

/* A key of --costs by itself. */
#define COST(key, type, unit, help)                                                                                    \
  PS_OPTION ("costs." key, 0, OWN (type), NULL, help, .hidden = TRUE, .flags = PS_FIELD_OWN | PS_FIELD_NULL,           \
             SWEEP ("cost_" key "_" unit, "costs." key, type, .costs = TRUE, .pace = -3))
#define COST_TIME(key, help) COST (key, TIME, "ns", help)
#define COST_SIZE(key, help) COST (key, SIZE, "bytes", help)

/* A number format of what the optimizer keeps. */
#define DTYPE(name, member, key, title, help)                                                                          \
  PS_OPTION (name, 0, NAME (state.member, ps_dtype), "DTYPE", help, .otherwise = "the framework's",                    \
             .group = PS_GROUP_TRAINING,                                                                               \
             .flags = PS_FIELD_OF_MODEL | PS_FIELD_ALIKE | PS_FIELD_NOT_PARTITION | PS_FIELD_NULL,                     \
             SWEEP_COSTS (key, title, TEXT))

/* In the order of --help and of the columns of the results. */
const PsOption ps_setting_options[] = {
  PS_OPTION ("schedule", 0, OWN (TEXT), NULL, "Families, schedule files, or all", .hidden = TRUE,
             .flags = PS_FIELD_SCHEDULE | PS_FIELD_OWN, SWEEP ("schedule", "schedule", TEXT, .pace = 7)),
  PS_OPTION ("devices", 'p', COUNT (n_devices, PS_MAX_DEVICES), "P", "Number of devices (pipeline ranks)",
             .otherwise = "that of a schedule file; families need it", .group = PS_GROUP_WHAT,
             .flags = PS_FIELD_DECIDED | PS_FIELD_LISTED, SWEEP ("devices", "p", INTEGER, .costs = TRUE, .pace = -4)),
  PS_OPTION ("microbatches", 'm', COUNT (n_microbatches, PS_MAX_MICROBATCHES), "M", "Microbatches per iteration",
             .otherwise = "that of a schedule file; families need it", .group = PS_GROUP_WHAT,
             .flags = PS_FIELD_DECIDED | PS_FIELD_LISTED, SWEEP ("microbatches", "m", INTEGER, .pace = 6)),
  PS_OPTION ("chunks", 'v', COUNT (n_chunks, PS_MAX_STAGES), "V", "Stages per device", .otherwise = "the family's",
             .none = "auto", .group = PS_GROUP_WHAT, .flags = PS_FIELD_SCHEDULE | PS_FIELD_LISTED,
             SWEEP ("chunks", "v", INTEGER, .pace = -4)),
  PS_OPTION ("slices", 0, COUNT (n_slices, PS_MAX_SLICES), "Q|even-work:Q|TOKENS:TOKENS[:TOKENS...]",
             "Slices of each sequence: Q of equal length; with even-work, Q whose F takes the same time, later ones "
             "shorter; or so many tokens each",
             .each = PS_MEMBER (PsSetting, slice_tokens, guint *),
             .given = PS_MEMBER (PsSetting, n_slice_tokens, guint), .prefix = "even-work",
             .prefix_offset = PS_MEMBER (PsSetting, even_work, gboolean), .otherwise = "the family's; a search's: 1",
             .none = "auto", .group = PS_GROUP_WHAT, .flags = PS_FIELD_SCHEDULE | PS_FIELD_NOT_SERVE,
             SWEEP ("slices", "slices", INTEGER, .costs = TRUE, .pace = 3)),
  PS_OPTION ("slice-lengths", 0, OWN (TEXT), NULL, "Slices that are not equally long, as --slices says them",
             .hidden = TRUE, .flags = PS_FIELD_DERIVED | PS_FIELD_NULL,
             SWEEP ("slice_lengths", "slice lengths", TEXT, .costs = FALSE)),
  PS_OPTION ("attention-exchange", 0, PS_FLAG (PsSetting, attention_exchange), NULL,
             "Devices share the attention of modelled slices, so that all of them take the mean time (SlimPipe, arXiv "
             "2504.14519); ops hide its messages",
             .group = PS_GROUP_WHAT, .flags = PS_FIELD_NOT_SERVE | PS_FIELD_NOT_PARTITION | PS_FIELD_NOT_RUN,
             SWEEP_COSTS ("attention_exchange", "attention exchange", BOOLEAN)),
  PS_OPTION ("serve", 0, NAME (serve, ps_serve), "KIND",
             "prefill: forwards alone, which take prompts in chunk after chunk; without decoding. none: training",
             .group = PS_GROUP_WHAT, .flags = PS_FIELD_NULL | PS_FIELD_NOT_PARTITION,
             SWEEP_COSTS ("serve", "serve", TEXT)),
  PS_OPTION (
      "prompt", 0, COUNT (prompt, PS_MAX_SEQUENCE), "TOKENS[:TOKENS...]",
      "Prompts of --serve: one of so many tokens, or several one after the other; -m, if it is more, repeats them",
      .each = PS_MEMBER (PsSetting, prompt_each, guint *), .given = PS_MEMBER (PsSetting, n_prompt_each, guint),
      .none = "none", .group = PS_GROUP_WHAT, .flags = PS_FIELD_NULL | PS_FIELD_NOT_PARTITION,
      SWEEP_COSTS ("prompt", "prompt", TEXT)),
  PS_OPTION ("chunk", 0, COUNT (chunk, PS_MAX_SEQUENCE), "TOKENS[:TOKENS...]|even-work:N",
             "Chunks of each prompt: of so many tokens, the last size for all that follow; or N whose F takes the same "
             "time, later ones shorter",
             .each = PS_MEMBER (PsSetting, chunk_each, guint *), .given = PS_MEMBER (PsSetting, n_chunk_each, guint),
             .prefix = "even-work", .prefix_offset = PS_MEMBER (PsSetting, even_chunks, gboolean), .none = "none",
             .group = PS_GROUP_WHAT, .flags = PS_FIELD_SCHEDULE | PS_FIELD_NULL | PS_FIELD_NOT_PARTITION,
             SWEEP ("chunk", "chunk", TEXT, .pace = 3)),
  PS_OPTION ("group", 0, COUNT (group_size, PS_MAX_MICROBATCHES), "N", "Microbatches that pass a chunk in a row",
             .otherwise = "the family's", .none = "auto", .group = PS_GROUP_WHAT,
             .flags = PS_FIELD_SCHEDULE | PS_FIELD_NULL | PS_FIELD_NOT_SEARCH,
             SWEEP ("group_size", "group", INTEGER, .pace = 3)),
  PS_OPTION ("defer-head", 0, COUNT (defer_head, PS_MAX_MICROBATCHES), "N",
             "The last stage keeps W of its first N microbatches for the drain", .otherwise = "0",
             .group = PS_GROUP_WHAT,
             .flags = PS_FIELD_SCHEDULE | PS_FIELD_NOT_SERVE | PS_FIELD_NULL | PS_FIELD_NOT_SEARCH,
             SWEEP ("defer_head", "defer head", INTEGER, .pace = 3)),
  PS_OPTION (
      "lengths", 0, FILE (lengths), "FILE",
      "Lengths of the microbatches: a CSV with one line for each, of tokens and images per sequence, or of factors on "
      "the costs (factor, or f, b, w, c, act, msg). Not with search --joint",
      .otherwise = "all are alike", .group = PS_GROUP_WHAT,
      .flags = PS_FIELD_NOT_SERVE | PS_FIELD_NULL | PS_FIELD_NOT_PARTITION,
      SWEEP ("lengths", "lengths", TEXT, .pace = 4)),
  PS_OPTION ("microbatch-order", 0, NAME (microbatch_order, ps_microbatch_order), "ORDER",
             "Order of the microbatches of --lengths: given, ascending, descending or best (for each schedule)",
             .group = PS_GROUP_WHAT, .flags = PS_FIELD_DECIDED | PS_FIELD_NOT_PARTITION,
             SWEEP ("microbatch_order", "microbatch order", TEXT, .pace = 4)),
  PS_OPTION ("microbatch-size", 0, COUNT (microbatch_size, PS_MAX_MICROBATCHES), "N",
             "Sequences per microbatch in place of the model's, for modelled costs", .hidden = TRUE,
             .flags = PS_FIELD_DECIDED | PS_FIELD_NOT_SERVE | PS_FIELD_NULL,
             SWEEP_COSTS ("microbatch_size", "microbatch size", INTEGER)),
  PS_OPTION ("global-batch", 0, OWN (INTEGER), "N",
             "Sequences (microbatches, where their size is not known) per step of all replicas", .low = 1,
             .high = PS_MAX_SIZE_BYTES, .hidden = TRUE, .flags = PS_FIELD_OWN,
             SWEEP ("global_batch", "global batch", INTEGER, .pace = 5)),
  PS_OPTION ("model", 0, FILE (model), "FILE", "Model description or its name (tiny-gpt)", .group = PS_GROUP_COSTS,
             .flags = PS_FIELD_NULL | PS_FIELD_ALIKE, SWEEP ("model", "model", TEXT, .costs = TRUE, .pace = -3)),
  PS_OPTION (
      "precision", 0, TEXT (precision), "NAME",
      "Number format of the model: fp32, fp16, bf16, fp8, fp8-block, mxfp8 or nvfp4; the cluster's peak_flops does "
      "not change",
      .otherwise = "its own", .parse = ps_precision_parse, .group = PS_GROUP_COSTS,
      .flags = PS_FIELD_NULL | PS_FIELD_ALIKE, SWEEP ("precision", "precision", TEXT, .costs = TRUE, .pace = -3)),
  PS_OPTION ("sequence", 0, COUNT (sequence, PS_MAX_SEQUENCE), "N", "Tokens per sequence in place of the model's",
             .otherwise = "the model's", .group = PS_GROUP_COSTS,
             .flags = PS_FIELD_NOT_SERVE | PS_FIELD_NULL | PS_FIELD_ALIKE,
             SWEEP ("sequence", "sequence", INTEGER, .costs = TRUE, .pace = -3)),
  PS_OPTION ("images", 0, COUNT (images, PS_MAX_SEQUENCE), "N",
             "Images of each sequence, which the model's encoder turns into tokens of it", .otherwise = "the model's",
             .group = PS_GROUP_COSTS, .flags = PS_FIELD_NOT_SERVE | PS_FIELD_NULL,
             SWEEP ("images", "images", INTEGER, .costs = TRUE, .pace = -3)),
  PS_OPTION ("cluster", 0, FILE (cluster), "FILE", "Cluster description or its name", .group = PS_GROUP_MACHINE,
             .flags = PS_FIELD_NULL, SWEEP ("cluster", "cluster", TEXT, .costs = TRUE, .pace = -3)),
  PS_OPTION ("layout", 0, TEXT (layout), "STRING|FILE|even|best",
             "Stages of the model: a string as Megatron-LM takes it (Et*3|(tt|)*29,m|L) or a file with one, even "
             "(even:first=N:last=N, even:embedding:loss), or best, whose slowest stage is the fastest",
             .otherwise = "the better one of best and even; measured costs need the stages of best",
             .parse = ps_setting_layout_parse, .group = PS_GROUP_WHAT,
             .flags = PS_FIELD_SCHEDULE | PS_FIELD_NULL | PS_FIELD_NOT_PARTITION,
             SWEEP_COSTS ("layout", "layout", TEXT)),
  PS_OPTION ("link-bandwidth", 0, OWN (RATE), NULL, "Bandwidth of a link of the cluster, times bandwidth-factor",
             .hidden = TRUE, .flags = PS_FIELD_DERIVED | PS_FIELD_NULL,
             SWEEP ("link_bandwidth", "link bandwidth", RATE, .costs = FALSE)),
  PS_OPTION ("link-latency", 0, OWN (TIME), NULL, "Latency of a link of the cluster, times latency-factor",
             .hidden = TRUE, .flags = PS_FIELD_DERIVED | PS_FIELD_NULL,
             SWEEP ("link_latency_ns", "link latency", TIME, .costs = FALSE)),
  PS_OPTION (
      "costs-from", 0, FILE (costs_from), "PATH[=T]",
      "Costs of a run: a timeline, a trace, a folder with one trace per rank, or the log of Megatron-LM's timers. With "
      "several runs (it may be repeated, or has ':' between paths) one adds costs that another lacks. T is the time of "
      "an "
      "iteration without the profiler; the profiler's part is then taken out. With --model, a BW that no run splits "
      "is split into B and W by their operations. With --cluster and --model, transfers, all-reduces and memory are "
      "those of the model on the cluster",
      .joins = TRUE, .group = PS_GROUP_COSTS, .flags = PS_FIELD_NULL,
      SWEEP ("costs_from", "costs from", TEXT, .costs = TRUE, .pace = -3)),
  PS_OPTION ("db", 0, FILE (db), "FILE", "Measured costs", .group = PS_GROUP_COSTS,
             .flags = PS_FIELD_NULL | PS_FIELD_ALIKE, SWEEP ("db", "db", TEXT, .costs = TRUE, .pace = -3)),
  PS_OPTION ("profile", 0, TEXT (profile), "NAME", "Profile in the database", .otherwise = "the only one",
             .group = PS_GROUP_COSTS, .flags = PS_FIELD_NULL | PS_FIELD_ALIKE,
             SWEEP ("profile", "profile", TEXT, .costs = TRUE, .pace = -3)),
  PS_OPTION ("costs", 0, TEXT (costs), "COSTS",
             "Costs of a device's whole share, e.g. f=1ms,b=1ms,w=1ms,c=0,o=0,act=2MiB,wact=1MiB,weights=0,"
             " or lists of one value per stage: f=1ms:1.2ms:...",
             .group = PS_GROUP_COSTS, .flags = PS_FIELD_NULL,
             SWEEP ("costs", "costs", TEXT, .costs = TRUE, .pace = -3)),
  COST_TIME ("f", "forward; with --serve, of the longest prompt"),
  COST_TIME ("b", "backward for the input"),
  COST_TIME ("w", "backward for the weights"),
  COST_TIME ("bw", "full backward in one op (default: b + w); without b and w each is half of it"),
  COST_TIME ("c", "transfer between two devices"),
  COST_TIME ("o", "optimizer step"),
  COST_TIME ("pair", "forward and backward overlapped (default: both, one after the other)"),
  COST_TIME ("reduce", "all-reduce of the gradients over --replicas D of 2 or more; one replica pays none"),
  COST_TIME ("reduce2", "reduce where every stage has two weight copies: dualpipe, chimera (default: reduce)"),
  COST_TIME ("r", "recompute of a forward (default: f)"),
  COST_TIME ("host", "moving act to the host, or back, for --offload"),
  COST_TIME ("op", "host time of each op, in addition to its duration"),
  COST_TIME ("post", "host time of each send or receive (default: op)"),
  COST_SIZE ("act", "kept by a forward"),
  COST_SIZE ("wact", "part of act that W needs after B (default: act)"),
  COST_SIZE ("keep", "part of act that a recompute needs (default: msg)"),
  COST_SIZE ("weights", "held throughout"),
  COST_SIZE ("version", "one more version of the weights, for families that keep several"),
  COST_SIZE ("grad", "part of weights that is gradients"),
  COST_SIZE ("opt", "part of weights that is optimizer state"),
  COST_SIZE ("msg", "message between two devices"),
  PS_OPTION ("bandwidth-factor", 0, NUMBER (bandwidth_factor, PS_MIN_FACTOR, PS_MAX_FACTOR), "FACTOR",
             "Multiplies the speed of links and network; given and measured transfers and all-reduces take 1 / FACTOR "
             "of their time",
             .initial = 1, .group = PS_GROUP_MACHINE,
             SWEEP ("bandwidth_factor", "bandwidth factor", NUMBER, .costs = TRUE, .pace = -1)),
  PS_OPTION ("network-factor", 0, NUMBER (network_factor, PS_MIN_FACTOR, PS_MAX_FACTOR), "FACTOR",
             "Multiplies the speed of the network between the nodes of --cluster alone; NVLink and other links stay",
             .initial = 1, .group = PS_GROUP_MACHINE,
             SWEEP ("network_factor", "network factor", NUMBER, .costs = TRUE, .pace = -1)),
  PS_OPTION ("latency-factor", 0, NUMBER (latency_factor, PS_MIN_FACTOR, PS_MAX_FACTOR), "FACTOR",
             "Multiplies the latencies of links and network of --cluster", .initial = 1, .group = PS_GROUP_MACHINE,
             SWEEP ("latency_factor", "latency factor", NUMBER, .costs = TRUE, .pace = -1)),
  PS_OPTION ("recompute", 0, NAME (recompute, ps_recompute), "KIND[:KIND...]",
             "Part of a forward that the backward computes again: none, modules of layers (core_attn, also called "
             "selective, layernorm, mla_up_proj, moe_act, moe, mlp, shared_experts, joined by +), full, full:layers=N "
             "(the first N of each stage) or full:uniform=N (inputs of groups of N are kept), of all stages or of each",
             EACH (recompute), .any = "auto", .any_offset = PS_MEMBER (PsSetting, any_recompute, gboolean),
             .group = PS_GROUP_TRAINING, .flags = PS_FIELD_DECIDED | PS_FIELD_NOT_SERVE | PS_FIELD_MODELLED,
             SWEEP_COSTS ("recompute", "recompute", TEXT)),
  PS_OPTION ("offload", 0, NUMBER (offload, 0, 1), "RATIO[:RATIO...]",
             "Part of the activations that moves to the host, 0 to 1, of all stages or of each", EACH (offload),
             .group = PS_GROUP_TRAINING, .flags = PS_FIELD_DECIDED | PS_FIELD_NOT_SERVE | PS_FIELD_NOT_PARTITION,
             SWEEP_COSTS ("offload", "offload", NUMBER)),
  PS_OPTION ("offload-modules", 0, NAME (offload_modules, ps_offload), "MODULE[+MODULE...]",
             "Modules whose inputs move to the host: attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, "
             "expert_fc1, moe_act",
             .otherwise = "none", .group = PS_GROUP_TRAINING,
             .flags = PS_FIELD_NOT_SERVE | PS_FIELD_NOT_PARTITION | PS_FIELD_NOT_COMPUTED,
             SWEEP ("offload_modules", "offload modules", TEXT, .costs = TRUE, .pace = -2,
                    .not_run = "is predicted only; --offload RATIO runs here")),
  PS_OPTION ("replicas", 0, COUNT (n_replicas, PS_MAX_GPUS), "D", "Data-parallel copies of the pipeline", .initial = 1,
             .group = PS_GROUP_TRAINING, .flags = PS_FIELD_DECIDED | PS_FIELD_NOT_SERVE | PS_FIELD_NOT_PARTITION,
             SWEEP_COSTS ("replicas", "replicas", INTEGER)),
  PS_OPTION ("adjacent-replicas", 0, PS_FLAG (PsSetting, replicas_adjacent), NULL,
             "Replicas of a device are neighbours, as Megatron-LM places them",
             .otherwise = "neighbours of a pipeline are", .group = PS_GROUP_TRAINING,
             .flags = PS_FIELD_OF_MODEL | PS_FIELD_DECIDED | PS_FIELD_NOT_PARTITION | PS_FIELD_NOT_RUN,
             SWEEP ("adjacent_replicas", "adjacent replicas", BOOLEAN, .costs = TRUE, .pace = -2,
                    .not_run = "is predicted only; here neighbours of a pipeline are neighbours")),
  PS_OPTION ("cuda-graphs", 0, NAME (cuda_graphs, ps_cuda_graphs), "SCOPE",
             "Kernels of --cluster that do not wait for the host to launch them: none, attn (all but experts) or "
             "full_iteration",
             .group = PS_GROUP_MACHINE,
             .flags = PS_FIELD_OF_MODEL | PS_FIELD_DECIDED | PS_FIELD_ALIKE | PS_FIELD_MODELLED | PS_FIELD_NOT_RUN,
             SWEEP ("cuda_graphs", "CUDA graphs", TEXT, .costs = TRUE, .pace = -2,
                    .not_run = "is predicted only; PIPESIM_CUDA_GRAPHS=1 makes graphs here")),
  PS_OPTION ("tp-comm-overlap", 0, PS_FLAG (PsSetting, tp_comm_overlap), NULL,
             "Products hide the cluster's tensor_overlap of the all-reduces of --tensor", .group = PS_GROUP_MACHINE,
             .flags = PS_FIELD_OF_MODEL | PS_FIELD_DECIDED | PS_FIELD_ALIKE | PS_FIELD_MODELLED | PS_FIELD_NOT_RUN,
             SWEEP_COSTS ("tp_comm_overlap", "TP overlap", BOOLEAN)),
  PS_OPTION ("moe-token-dispatcher-type", 0, NAME (dispatcher, ps_dispatcher), "NAME",
             "What brings tokens to the experts of --experts: alltoall, deepep or hybridep", .group = PS_GROUP_MACHINE,
             .flags = PS_FIELD_OF_MODEL | PS_FIELD_DECIDED | PS_FIELD_ALIKE | PS_FIELD_MODELLED | PS_FIELD_NOT_RUN,
             SWEEP_COSTS ("moe_token_dispatcher_type", "dispatcher", TEXT)),
  PS_OPTION ("overlap-param-gather", 0, PS_FLAG (PsSetting, overlap_param_gather), NULL,
             "Forwards of the next step hide the gather of the weights after --zero 1 and 2",
             .group = PS_GROUP_TRAINING,
             .flags = PS_FIELD_OF_MODEL | PS_FIELD_DECIDED | PS_FIELD_ALIKE | PS_FIELD_NOT_PARTITION | PS_FIELD_NOT_RUN,
             SWEEP_COSTS ("overlap_param_gather", "gather overlapped", BOOLEAN)),
  PS_OPTION ("tensor", 0, COUNT (n_tensor, PS_MAX_TENSOR), "T",
             "GPUs of a device, which share its layers by tensor and sequence parallelism within a node", .initial = 1,
             .group = PS_GROUP_TRAINING, .flags = PS_FIELD_DECIDED | PS_FIELD_MODELLED | PS_FIELD_SHARED,
             SWEEP ("tensor", "tensor", INTEGER, .costs = TRUE, .pace = -2,
                    .not_run = "is predicted only, except on device cpu, whose cores share layers")),
  PS_OPTION ("context", 0, COUNT (n_context, PS_MAX_GPUS), "C",
             "Groups of --tensor GPUs in a device that share each sequence (context parallelism)", .initial = 1,
             .group = PS_GROUP_TRAINING, .flags = PS_FIELD_DECIDED | PS_FIELD_MODELLED | PS_FIELD_NOT_COMPUTED,
             SWEEP ("context", "context", INTEGER, .costs = TRUE, .pace = -2,
                    .not_run = "is predicted only; here one GPU, or a share of the cores, is a device")),
  PS_OPTION ("cp-comm-type", 0, NAME (cp_comm, ps_cp_comm), "NAME",
             "How the groups of --context exchange what attention needs: all_gather (keys and values, before it), p2p "
             "(the same in a ring that attention hides, Megatron-LM's default) or a2a (heads for tokens)",
             .group = PS_GROUP_TRAINING, .flags = PS_FIELD_ALIKE | PS_FIELD_MODELLED | PS_FIELD_NOT_COMPUTED,
             SWEEP_COSTS ("cp_comm_type", "cp comm", TEXT)),
  PS_OPTION ("experts", 0, COUNT (n_experts, PS_MAX_GPUS), "E",
             "GPUs of a device and its replicas that share the experts (expert parallelism)", .initial = 1,
             .group = PS_GROUP_TRAINING, .flags = PS_FIELD_DECIDED | PS_FIELD_NOT_PARTITION | PS_FIELD_NOT_COMPUTED,
             SWEEP ("experts", "experts", INTEGER, .costs = TRUE, .pace = -2,
                    .not_run = "is predicted only; here one GPU, or a share of the cores, is a device")),
  PS_OPTION (
      "loss", 0, NAME (loss, ps_loss), "NAME",
      "What is done with the logits: whole keeps them; fused keeps none and computes them again (Megatron-LM's "
      "linear fusion of cross-entropy); chunked has an eighth at a time, with their gradients (torchtitan, Liger)",
      .otherwise = "the model's", .group = PS_GROUP_TRAINING, .flags = PS_FIELD_NOT_COMPUTED,
      SWEEP ("loss", "loss", TEXT, .costs = TRUE, .pace = -2,
             .not_run = "is predicted only; here the logits are whole")),
  PS_OPTION ("sequence-parallel", 0, PS_FLAG (PsSetting, sequence_parallel), NULL,
             "GPUs of --tensor share each sequence outside the matrices, too, also where the launch or the model says "
             "that they do not",
             .otherwise = "the model's", .group = PS_GROUP_TRAINING,
             .flags = PS_FIELD_OF_MODEL | PS_FIELD_ALIKE | PS_FIELD_NOT_COMPUTED,
             SWEEP_COSTS ("sequence_parallel", "sequence parallel", BOOLEAN)),
  PS_OPTION ("activation-func-fp8-input-store", 0, PS_FLAG (PsSetting, fp8_input_store), NULL,
             "Forwards keep the inputs of SwiGLU in 8 bits", .otherwise = "the model's", .group = PS_GROUP_TRAINING,
             .flags = PS_FIELD_OF_MODEL | PS_FIELD_ALIKE | PS_FIELD_NOT_PARTITION | PS_FIELD_NOT_COMPUTED,
             SWEEP_COSTS ("activation_func_fp8_input_store", "fp8 activation inputs", BOOLEAN)),
  PS_OPTION ("framework", 0, NAME (framework, ps_framework), "NAME",
             "Framework whose use of memory is counted: none (formulas only), megatron, megatron-bridge (its "
             "performance recipes: gradients in bf16, fp8 and mxfp8 weights alone) or deepspeed",
             .given = PS_MEMBER (PsSetting, has_framework, gboolean),
             .otherwise = "the model's; megatron where the cluster's file states a datasheet's values alone",
             .group = PS_GROUP_TRAINING, .flags = PS_FIELD_ALIKE | PS_FIELD_NOT_PARTITION,
             SWEEP_COSTS ("framework", "framework", TEXT)),
  PS_OPTION ("optimizer", 0, NAME (state.optimizer, ps_optimizer), "NAME",
             "adam, or muon: of the matrices of layers, with adam of all else", .otherwise = "the model's",
             .group = PS_GROUP_TRAINING, .flags = PS_FIELD_OF_MODEL | PS_FIELD_ALIKE | PS_FIELD_NOT_PARTITION,
             SWEEP_COSTS ("optimizer", "optimizer", TEXT)),
  PS_OPTION ("optimizer-implementation", 0, NAME (state.implementation, ps_implementation), "NAME",
             "fused, or PyTorch's foreach, which takes 4 bytes more for each parameter that a GPU steps, while it does",
             .otherwise = "the model's", .group = PS_GROUP_TRAINING,
             .flags = PS_FIELD_OF_MODEL | PS_FIELD_ALIKE | PS_FIELD_NOT_PARTITION,
             SWEEP_COSTS ("optimizer_implementation", "optimizer implementation", TEXT)),
  DTYPE ("main-grads-dtype", main_grads, "main_grads_dtype", "main grads dtype",
         "Format in which gradients are added up and reduced: fp32, bf16, fp16, fp8"),
  DTYPE ("main-params-dtype", main_params, "main_params_dtype", "main params dtype",
         "Format of the weights that the optimizer updates"),
  DTYPE ("exp-avg-dtype", exp_avg, "exp_avg_dtype", "exp avg dtype",
         "Format of Adam's first moment, or of Muon's momentum"),
  DTYPE ("exp-avg-sq-dtype", exp_avg_sq, "exp_avg_sq_dtype", "exp avg sq dtype", "Format of Adam's second moment"),
  PS_OPTION ("fp8-param-gather", 0, PS_FLAG (PsSetting, state.fp8_param_gather), NULL,
             "Weights of products are stored in the number format of the products alone",
             .otherwise = "the framework's", .group = PS_GROUP_TRAINING,
             .flags = PS_FIELD_OF_MODEL | PS_FIELD_ALIKE | PS_FIELD_NOT_PARTITION,
             SWEEP_COSTS ("fp8_param_gather", "fp8 param gather", BOOLEAN)),
  PS_OPTION ("zero", 0, PS_COUNT (PsSetting, zero, 0, 3), "0|1|2|3",
             "Stage of ZeRO. The replicas share out, at 0, nothing; at 1, the optimizer state; at 2, gradients too, as "
             "PyTorch's pipelines do: whole until their stage's last backward, so that time and memory are those of "
             "1; at 3, the weights, gathered for three stages at a time (FSDP)",
             .initial = PS_ZERO_AUTO, .otherwise = "1 for modelled costs of several replicas or contexts, else 0",
             .group = PS_GROUP_TRAINING,
             .flags = PS_FIELD_DECIDED | PS_FIELD_NOT_SERVE | PS_FIELD_NOT_PARTITION | PS_FIELD_NULL,
             SWEEP_COSTS ("zero", "zero", INTEGER)),
  PS_OPTION (
      "reduce", 0, NAME (reduce, ps_reduce), "KIND",
      "All-reduce of the gradients: overlapped with the ops that the device still has to run, or exposed after them",
      .group = PS_GROUP_TRAINING, .flags = PS_FIELD_DECIDED | PS_FIELD_ALIKE,
      SWEEP ("reduce", "reduce", TEXT, .costs = FALSE)),
  PS_OPTION ("sync", 0, NAME (sync, ps_sync), "KIND",
             "Synchronisation at the optimizer: global (all devices meet) or bypass (each device steps and goes on)",
             .group = PS_GROUP_TRAINING, .flags = PS_FIELD_DECIDED, SWEEP ("sync", "sync", TEXT, .costs = TRUE)),
  PS_OPTION ("placement", 0, NAME (placement, ps_placement), "KIND",
             "Only schedules of this placement: loop, V, wave, bidirectional, or auto for any", .none = "auto",
             .given = PS_MEMBER (PsSetting, has_placement, gboolean), .group = PS_GROUP_WHAT,
             .flags = PS_FIELD_SCHEDULE, SWEEP ("placement", "placement", TEXT, .pace = 2)),
  PS_OPTION ("comm", 0, NAME (comm, ps_channel), "MODEL", "How transfers share channels",
             .add_values = ps_channel_add_models, .group = PS_GROUP_CHANNELS, .flags = PS_FIELD_NOT_PARTITION,
             SWEEP ("comm", "comm", TEXT, .costs = FALSE)),
  PS_OPTION ("comm-order", 0, NAME (comm_order, ps_comm_order), "ORDER",
             "Where receives are posted: asap (as PyTorch lowers), deferred (right before the op that needs them) or "
             "planned (for these costs and channels)",
             .otherwise = "as a torch-comms file says, else asap", .given = PS_MEMBER (PsSetting, reorder, gboolean),
             .group = PS_GROUP_CHANNELS, .flags = PS_FIELD_DECIDED,
             SWEEP ("comm_order", "comm order", TEXT, .pace = 1)),
  PS_OPTION ("eager", 0, PS_SIZE (PsSetting, eager_bytes), "SIZE",
             "Messages up to this size do not wait for their receiver", .group = PS_GROUP_CHANNELS,
             SWEEP ("eager_bytes", "eager", SIZE, .costs = FALSE)),
  PS_OPTION ("blocking", 0, PS_FLAG (PsSetting, blocking), NULL, "Sends and receives occupy their devices",
             .group = PS_GROUP_CHANNELS, .flags = PS_FIELD_NOT_PARTITION,
             SWEEP ("blocking", "blocking", BOOLEAN, .costs = FALSE)),
  PS_OPTION ("share-links", 0, PS_FLAG (PsSetting, share_links), NULL,
             "Transfers that run at the same time share the links of --cluster fairly", .group = PS_GROUP_CHANNELS,
             .flags = PS_FIELD_NOT_PARTITION, SWEEP ("share_links", "share links", BOOLEAN, .costs = FALSE)),
  PS_OPTION ("speed", 0, PS_VALUE (FACTORS, PsSetting, speed, double *), "FACTOR[:FACTOR...]",
             "Speed of all devices, or of each; at 0.8 an op takes 1 / 0.8 of its cost", .low = PS_MIN_SPEED,
             .high = PS_MAX_SPEED, .given = PS_MEMBER (PsSetting, n_speeds, guint), .otherwise = "1",
             .group = PS_GROUP_MACHINE, SWEEP ("speed", "speed", TEXT, .costs = FALSE)),
  PS_OPTION ("overlap-slowdown", 0, NUMBER (overlap_slowdown, 1, PS_MAX_SLOWDOWN), "FACTOR",
             "Factor on the time of ops while their device sends or receives, 1 to 8", .initial = 1,
             .group = PS_GROUP_MACHINE, .flags = PS_FIELD_NOT_PARTITION,
             SWEEP ("overlap_slowdown", "overlap slowdown", NUMBER, .costs = FALSE)),
  PS_OPTION ("overlap-waiting", 0, PS_FLAG (PsSetting, overlap_waiting), NULL,
             "Sends and receives also slow ops down while they wait, as NCCL's kernels do", .group = PS_GROUP_MACHINE,
             .flags = PS_FIELD_NOT_PARTITION, SWEEP ("overlap_waiting", "overlap waiting", BOOLEAN, .costs = FALSE)),
  PS_OPTION ("ready-order", 0, COUNT (ready_order, PS_MAX_OPS), "WINDOW",
             "Treats the order as a hint: a device starts the first of its next WINDOW ops that is ready",
             .none = "none", .group = PS_GROUP_MACHINE, .flags = PS_FIELD_DECIDED | PS_FIELD_NOT_PARTITION,
             SWEEP ("ready_order", "ready order", INTEGER, .costs = FALSE)),
  PS_OPTION ("memory-limit", 0, PS_VALUE (SIZES, PsSetting, memory_limit, gint64 *), "SIZE[:SIZE...]",
             "Memory of a device, or of each", .otherwise = "the cluster's", .none = "none",
             .given = PS_MEMBER (PsSetting, n_memory_limits, guint), .group = PS_GROUP_MACHINE, .flags = PS_FIELD_NULL,
             SWEEP ("memory_limit_bytes", "memory limit", SIZE, .pace = 4)),
  PS_OPTION_END,
};
const guint ps_setting_n_options = G_N_ELEMENTS (ps_setting_options) - 1;

PsSetting *ps_setting_new (void)
{
  PsSetting *setting = g_new0 (PsSetting, 1);

  ps_options_reset (ps_setting_options, setting);
  return setting;
}

void ps_setting_free (PsSetting *setting)
{
  if (setting == NULL)
    return;
  ps_options_reset (ps_setting_options, setting);
  g_free (setting);
}

static gboolean is_given (const PsOption *option, const PsSetting *setting)
{
  return !(option->flags & (PS_FIELD_OWN | PS_FIELD_DERIVED)) && !ps_option_is_initial (option, setting);
}

gboolean ps_setting_refuse (const PsSetting *setting, PsFieldFlags flags, const char *reason, GError **error)
{
  const PsOption *option = ps_setting_options;

  while (option->name != NULL && !(option->flags & flags && is_given (option, setting)))
    option++;
  if (option->name == NULL)
    return TRUE;
  g_autofree char *typed = ps_option_typed (option, setting);
  const char *own = option->sweep->not_run != NULL ? option->sweep->not_run : "is predicted only";
  return ps_refuse (error, PS_ERROR_USAGE, "%s: %s", typed, reason != NULL ? reason : own);
}

char *ps_setting_typed (const PsSetting *setting)
{
  GString *line = g_string_new (NULL);

  for (const PsOption *option = ps_setting_options; option->name != NULL; option++)
    if (is_given (option, setting)) {
      g_autofree char *typed = ps_option_typed (option, setting);

      g_string_append_printf (line, " %s", typed);
    }
  return g_string_free (line, FALSE);
}

PsValue ps_setting_column (const PsOption *option, const PsSetting *setting)
{
  guint flags = option->flags;

  if (flags & (PS_FIELD_OWN | PS_FIELD_DERIVED) || (flags & PS_FIELD_NULL && ps_option_is_initial (option, setting)))
    return (PsValue){ .type = PS_VALUE_NONE };
  if (option->type == PS_OPTION_FACTORS && ps_option_is_initial (option, setting))
    return (PsValue){ .type = PS_VALUE_TEXT, .text = "1" };
  return ps_option_value (option, setting);
}
