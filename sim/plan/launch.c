/* launch.c - what training frameworks ask of a run, and the launch flags and configuration keys that start it.
 */
#include "launch-private.h"

#include <pipesim/formats.h>
#include <pipesim/model.h>

#include <string.h>

/* Bits, in the order of their names. */
typedef enum {
  HYBRID = 1, /* Megatron-LM's HybridModel */
  GPT = 2,    /* its GPTModel */
  TORCHTITAN = 4,
  TORCHTITAN_2 = 8,
  DEEPSPEED = 16,
  PYTORCH = 32,
  COLOSSALAI = 64,
  MEGATRON = HYBRID | GPT,
  TITANS = TORCHTITAN | TORCHTITAN_2,
  TORCH = TITANS | PYTORCH,
  ALL = 127
} Framework;

static const char *const frameworks[]
    = { "megatron", "megatron-gpt", "torchtitan", "torchtitan-0.2", "deepspeed", "pytorch", "colossalai" };
#define N_FRAMEWORKS 5 /* whose launches are printed */

/* Families that frameworks have by a name of their own. */
static const struct {
  const char *family;
  guint frameworks;
} families[] = {
  { "1f1b", ALL },
  { "interleaved", MEGATRON | TORCH | COLOSSALAI },
  { "gpipe", TORCH },
  { "looped-bfs", TORCH },
  { "interleaved-zb", TORCH },
  { "zb-v", TORCH },
  { "zb-v-auto", COLOSSALAI },
  { "dualpipe-v", TORCH },
  { "interleaved-overlap", MEGATRON },
  { "interleaved-overlap-w", MEGATRON },
};

const PsOption ps_launch_rows[] = {
  PS_OPTION (
      "to", 0, PS_TEXT (PsLaunchChoice, to), "FRAMEWORK",
      "Print only the flags or keys with which megatron (HybridModel of Megatron-LM 0.18 and later, whose pattern says "
      "units and stages), megatron-gpt (GPTModel of 0.16 to 0.19: a layout string), torchtitan, torchtitan-0.2 or "
      "deepspeed run it (plan: with --explain RANK; else the rows that it runs stand first); counts memory as that "
      "framework does",
      .parse = ps_launch_parse, .group = PS_GROUP_OUTPUT),
  PS_OPTION ("force", 0, PS_FLAG (PsLaunchChoice, force), NULL, "With --to: also where memory does not suffice",
             .group = PS_GROUP_OUTPUT),
  PS_OPTION_END,
};

const char *const *ps_launch_frameworks (guint *n)
{
  *n = N_FRAMEWORKS;
  return frameworks;
}

gboolean ps_launch_parse (const char *where, const char *text, guint *framework, GError **error)
{
  return ps_parse_name (where, text, frameworks, N_FRAMEWORKS, framework, error);
}

gboolean ps_launch_imply (const char *to, PsSetting *setting, GError **error)
{
  PsFramework *framework = &setting->framework;
  guint implied;

  if (to != NULL && g_str_equal (to, "megatron-gpt"))
    to = "megatron";
  /* FSDP adds gradients up in the format that it reduces them in (unsharded_grad_dtype of PyTorch's _fsdp_param.py). */
  if (to != NULL && g_str_has_prefix (to, "torchtitan") && setting->state.main_grads == PS_DTYPE_AUTO)
    setting->state.main_grads = PS_DTYPE_FP32;
  if (to == NULL || !ps_framework_parse ("--to", to, &implied, NULL))
    return TRUE;
  if (implied == PS_FRAMEWORK_MEGATRON && ps_framework_is_megatron (*framework))
    return TRUE;
  if (*framework != PS_FRAMEWORK_NONE && *framework != (PsFramework)implied)
    return ps_refuse (error, PS_ERROR_USAGE, "--framework %s: --to %s counts the memory of %s",
                      ps_framework_name (*framework), to, to);
  *framework = (PsFramework)implied;
  setting->has_framework = TRUE;
  return TRUE;
}

/* What rows of preconditions and writers look at. */
typedef struct {
  const PsLaunch *launch;
  PsModel model;        /* as Megatron-LM holds it; blank where none is known */
  PsSetting said;       /* the setting with what follows from it: p, m, v, group, ZeRO, precision */
  const char *schedule; /* interleaved of one chunk is 1f1b */
  guint v;              /* one device has no virtual stages */
  gboolean overlaps;    /* F and B, to hide the messages of experts */
} Run;

/* The frameworks that have the family by a name of their own. */
static guint known_by (const char *family)
{
  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    if (g_strcmp0 (families[i].family, family) == 0)
      return families[i].frameworks;
  return 0;
}

static Run read_launch (const PsLaunch *launch)
{
  static const PsModel blank = { .precision = PS_PRECISION_BF16 };
  const PsFamily *family = launch->schedule != NULL ? ps_family_find (launch->schedule) : NULL;
  Run run = { .launch = launch,
              .model = launch->model != NULL ? *launch->model : blank,
              .said = *launch->setting,
              .schedule = family != NULL ? family->name : launch->schedule,
              .v = launch->n_devices > 1 ? launch->n_chunks : 1 };
  PsSetting *said = &run.said;

  said->n_devices = launch->n_devices;
  said->n_chunks = launch->n_chunks;
  said->n_microbatches = launch->order != NULL ? launch->order->n_microbatches : said->n_microbatches;
  said->zero = ps_setting_zero (launch->setting);
  said->precision = (char *)ps_precision_name (run.model.precision);
  said->sequence = run.model.sequence;
  if (family != NULL && family->groups)
    said->group_size = ps_family_group_size (&(PsFamilySetting){ .n_devices = said->n_devices,
                                                                 .n_microbatches = said->n_microbatches,
                                                                 .group_size = said->group_size },
                                             said->n_devices);
  if (!ps_framework_is_megatron (run.model.framework))
    run.model.framework = PS_FRAMEWORK_MEGATRON;
  run.overlaps = run.schedule != NULL && g_str_has_prefix (run.schedule, "interleaved-overlap");
  if (g_strcmp0 (run.schedule, "interleaved") == 0 && (run.v == 1 || launch->n_chunks == 1))
    run.schedule = "1f1b";
  return run;
}

/* Preconditions */

typedef struct {
  guint frameworks; /* that ask it */
  gboolean broken;
  const char *option; /* of SETTING, to blame; "schedule", "model" */
  const char *words;
  const char *source; /* NULL: none is needed */
} Precondition;

/* Whether each microbatch is done before the next one begins; FALSE where that is not known. */
static gboolean runs_one_by_one (const PsSchedule *order)
{
  for (guint i = 1; order != NULL && i < ps_schedule_n_ops (order); i++)
    if (order->ops[i].microbatch < order->ops[i - 1].microbatch)
      return FALSE;
  return order != NULL;
}

/* Stages of several devices with modules of multi-token prediction, or else with losses; *last is the last of them. */
static guint count_stages (const PsLaunch *launch, gboolean mtp, guint *last)
{
  guint n = 0;

  for (guint s = 0; launch->shapes != NULL && launch->n_devices > 1 && s < launch->n_devices * launch->n_chunks; s++)
    if ((mtp ? launch->shapes[s].n_mtp : launch->shapes[s].head) > 0) {
      *last = s;
      n++;
    }
  return n;
}

/* Whether Megatron-LM has a letter for each unit. A window is said by options. */
static gboolean knows_units (const PsModel *model)
{
  g_autofree char *letters = model->layers > 0 ? ps_model_megatron_pattern (model) : g_strdup ("");

  for (const char *letter = letters; *letter != '\0'; letter++)
    if (*letter != '/' && !ps_unit_row (ps_unit_find (*letter))->megatron)
      return FALSE;
  return TRUE;
}

/* Whether GPTModel has not all of the units: it has sparse attention in all layers or in none. */
static gboolean mixes_units (const PsModel *model)
{
  g_autofree char *letters = ps_model_pattern (model);

  return strchr (letters, 'M') != NULL || (strchr (letters, 'D') != NULL && strpbrk (letters, "+G") != NULL);
}

/* Whether the optimizer keeps anything in fewer than 32 bits. */
static gboolean is_precise (const PsStateFormats *formats)
{
  return formats->main_params != PS_DTYPE_FP32 || formats->exp_avg != PS_DTYPE_FP32
         || formats->exp_avg_sq != PS_DTYPE_FP32;
}

/* The first of the rows that is broken, as "-m 3: words"; NULL: none is. */
static char *first_broken (const Precondition *rows, guint n_rows, Framework framework, const Run *run)
{
  const PsLaunch *launch = run->launch;
  const guint n = launch->n_devices * launch->n_chunks;

  for (guint i = 0; i < n_rows; i++)
    if (rows[i].frameworks & framework && rows[i].broken) {
      PsSetting typed = run->said;
      g_autofree char *layout = launch->shapes != NULL ? ps_layout_write (NULL, launch->shapes, n) : NULL;
      g_autofree char *source = rows[i].source != NULL ? g_strdup_printf (" (%s)", rows[i].source) : g_strdup ("");
      g_autofree char *what = NULL;

      typed.layout = layout;
      if (g_str_equal (rows[i].option, "schedule"))
        what = g_strdup_printf ("schedule '%s'", launch->schedule);
      else if (g_str_equal (rows[i].option, "model"))
        what = g_strdup_printf ("model '%s'", launch->model != NULL ? run->model.name : "");
      else
        what = ps_option_typed (ps_option_find (ps_setting_options, rows[i].option), &typed);
      return g_strdup_printf ("%s: %s%s", what, rows[i].words, source);
    }
  return NULL;
}

/* Whether the GPUs of --cluster multiply 4 bits, as those of compute capability 10 do; TRUE without --cluster. */
static gboolean multiplies_4_bits (const PsSetting *setting)
{
  g_autoptr (PsCluster) cluster = setting->cluster != NULL ? ps_setting_read_cluster (setting, NULL) : NULL;

  return cluster == NULL || cluster->peak_flops_fp4 > 0;
}

/* Whether any framework has it. A new precondition is a new row. */
static char *ask_common (Framework framework, const Run *run)
{
  const PsLaunch *launch = run->launch;
  const PsSetting *said = &run->said;
  const PsModel *model = &run->model;
  const guint n = launch->n_devices * launch->n_chunks;
  const PsPlacement *placement = launch->order != NULL ? launch->order->placement : NULL;
  const gboolean known = launch->model != NULL;
  const Precondition rows[] = {
    { ALL, said->n_recompute > 0, "recompute", "of each stage is not available there", NULL },
    { ALL & ~MEGATRON, said->offload > 0 || said->n_offload > 0 || said->offload_modules != 0,
      said->offload_modules != 0 ? "offload-modules" : "offload", "is not available there", NULL },
    { MEGATRON, said->offload > 0 || said->n_offload > 0, "offload", "it moves modules; give --offload-modules", NULL },
    { MEGATRON, said->offload_modules & PS_OFFLOAD_ATTN_PROJ && !(said->offload_modules & PS_OFFLOAD_CORE_ATTN),
      "offload-modules", "attn_proj goes with core_attn alone", "transformer_config.py" },
    { MEGATRON, said->offload_modules != 0 && said->recompute & PS_RECOMPUTE_FULL, "offload-modules",
      "goes with modules recomputed, not with layers", "transformer_config.py" },
    { MEGATRON, run->overlaps && said->recompute & PS_RECOMPUTE_MOE, "recompute",
      "moe is not available with interleaved-overlap", "transformer_config.py" },
    { TITANS,
      said->recompute & PS_RECOMPUTE_MODULES && (said->recompute != PS_RECOMPUTE_SELECTIVE || model->flash_attention),
      "recompute", "it chooses operators, not modules; none and full are available", "activation_checkpoint.py" },
    { TITANS, said->recompute & PS_RECOMPUTE_FULL && said->recompute != PS_RECOMPUTE_FULL, "recompute",
      "it has full of all layers", "activation_checkpoint.py" },
    { DEEPSPEED,
      said->recompute & PS_RECOMPUTE_MODULES
          || (said->recompute & PS_RECOMPUTE_FULL && said->recompute >> PS_RECOMPUTE_LAYERS > 0
              && !(said->recompute & PS_RECOMPUTE_UNIFORM)),
      "recompute", "its pipelines know full and full:uniform=N", "pipe/module.py" },
    { ALL, said->sync == PS_SYNC_BYPASS, "sync", "is not available there", NULL },
    { ALL, said->serve != PS_SERVE_NONE, "serve", "it prints launches of training", NULL },
    { ALL, placement != NULL && placement->n_stages != n, "chunks", "it wants as many stages on each device", NULL },
    { ALL & ~MEGATRON, model->loss == PS_LOSS_FUSED, "loss", "is Megatron-LM's; nothing there fuses it with the head",
      NULL },
    { MEGATRON, model->loss == PS_LOSS_FUSED && !multiplies_4_bits (said), "loss",
      "its kernels are for compute capability 10 (Blackwell) alone", "fused_linear_cross_entropy.py" },
    { ALL & ~TORCHTITAN & ~PYTORCH, model->loss == PS_LOSS_CHUNKED, "loss", "is not available there", NULL },
    { ALL, known && model->window_heads + model->window_kv_heads + model->value_head_size + model->streams > 0, "model",
      "has heads or streams that no option here says", NULL },
    { ALL, known && model->encoder.images > 0, "model", "has an encoder, which no option here says", NULL },
    { MEGATRON | TITANS, launch->shapes != NULL && (!launch->shapes[0].embedding || !launch->shapes[n - 1].head),
      "layout", "the embedding goes in the first stage, the head in the last", NULL },
  };

  return first_broken (rows, G_N_ELEMENTS (rows), framework, run);
}

/* What Megatron-LM asks. A new precondition is a new row. */
static char *ask_megatron (Framework framework, const Run *run)
{
  const PsLaunch *launch = run->launch;
  const PsSetting *said = &run->said;
  const PsModel *model = &run->model;
  const guint p = launch->n_devices, v = run->v, m = said->n_microbatches, t = said->n_tensor, c = said->n_context,
              e = said->n_experts, n = launch->n_devices * launch->n_chunks;
  const PsExperts *experts = &model->experts;
  const PsStateFormats formats = ps_model_formats (model);
  const gboolean muon = formats.optimizer == PS_OPTIMIZER_MUON;
  const gboolean narrow = model->precision > PS_PRECISION_BF16;
  const gboolean known = launch->model != NULL;
  const gboolean named = launch->schedule != NULL;
  const guint n_units = known ? ps_model_layer_units (model, 0, (PsUnitKind[2]){ 0 }) : 0;
  guint mtp_stage = 0, loss_stage = 0;
  const guint n_mtp_stages = count_stages (launch, TRUE, &mtp_stage);
  const guint n_loss_stages = count_stages (launch, FALSE, &loss_stage);
  const Precondition rows[] = {
    { MEGATRON, named && p > 1 && v > 1 && m < p, "microbatches", "with virtual stages it wants p microbatches or more",
      "schedules.py" },
    { MEGATRON, run->overlaps && known && experts->count == 0, "schedule",
      "is for models with experts; interleaved would be right", "transformer_config.py" },
    { MEGATRON, run->overlaps && known && e < 2, "schedule", "is for experts that GPUs share; give --experts 2 or more",
      "transformer_config.py" },
    { MEGATRON, run->overlaps && said->recompute & PS_RECOMPUTE_FULL, "recompute",
      "is not available with interleaved-overlap; selective is", "transformer_config.py" },
    { MEGATRON, run->overlaps && model->precision == PS_PRECISION_FP32, "precision",
      "interleaved-overlap wants fp16, bf16 or fewer bits", "transformer_config.py" },
    { MEGATRON, run->overlaps && model->mtp > 1, "model",
      "interleaved-overlap takes one module of multi-token prediction", "transformer_config.py" },
    { MEGATRON, run->overlaps && p == 1, "devices", "one device overlaps whole microbatches", "combined_1f1b.py" },
    { MEGATRON, said->defer_head > 0 && p == 1, "defer-head", "needs a pipeline", "model_parallel_config.py" },
    { MEGATRON, c > 1 && model->sequence % (2 * c) != 0, "sequence", "wants a multiple of 2 contexts", "arguments.py" },
    { MEGATRON, model->mtp > 0 && model->mlp == PS_MLP_GELU, "model", "multi-token prediction needs rotary positions",
      "arguments.py" },
    { GPT, n_mtp_stages > 1 || (n_mtp_stages == 1 && mtp_stage / p < v - 1), "layout",
      "multi-token prediction goes in one stage, the last of its device", "pipeline_parallel_layer_layout.py" },
    { GPT, n_loss_stages > 1, "layout", "losses go in one stage", "pipeline_parallel_layer_layout.py" },
    { HYBRID, n_mtp_stages > 1 || (n_mtp_stages == 1 && mtp_stage + 1 < n), "layout",
      "multi-token prediction goes in the last stage; megatron-gpt has stages of it", "hybrid_layer_allocation.py" },
    { GPT, known && n_units == 1, "model", "has layers of one unit each; --to megatron has them",
      "gpt_layer_specs.py" },
    { HYBRID, known && run->overlaps && n_units == 1, "layout",
      "interleaved-overlap wants both units of a layer in one stage", "hybrid_layer_allocation.py" },
    { MEGATRON, experts->count > 0 && t > 1 && model->whole_sequences, "model",
      "experts with --tensor need sequence parallelism", "moe_layer.py" },
    { MEGATRON, said->tp_comm_overlap && t > 1 && model->whole_sequences, "tp-comm-overlap",
      "needs sequence parallelism", "arguments.py" },
    { GPT, known && mixes_units (model), "model", "has units that GPTModel does not have; --to megatron has them",
      "experimental_attention_variant_module_specs.py" },
    { MEGATRON, !knows_units (model), "model", "has units that its patterns do not have",
      "hybrid_layer_allocation.py" },
    { MEGATRON, formats.fp8_param_gather && narrow && said->zero == 0, "zero",
      "weights in the format of products need the distributed optimizer; give --zero 1", "arguments.py" },
    { MEGATRON, said->overlap_param_gather && said->zero == 0 && said->n_replicas * said->n_context > 1,
      "overlap-param-gather", "needs the distributed optimizer; give --zero 1", "arguments.py" },
    { MEGATRON, said->overlap_param_gather && said->reduce != PS_REDUCE_OVERLAPPED, "overlap-param-gather",
      "needs --reduce overlapped", "arguments.py" },
    { MEGATRON, is_precise (&formats) && said->zero == 0, "zero",
      "narrow moments and weights of the optimizer need the distributed one; give --zero 1", "optimizer/__init__.py" },
    { MEGATRON, is_precise (&formats) && muon, "optimizer", "has moments and weights in fp32", "optimizer_config.py" },
    { MEGATRON,
      said->cuda_graphs == PS_CUDA_GRAPHS_FULL && experts->count > 0 && experts->capacity <= 0
          && said->dispatcher != PS_DISPATCHER_HYBRIDEP,
      "cuda-graphs", "experts without a capacity ask the host how many tokens they have; attn would be right",
      "token_dispatcher.py" },
    { MEGATRON, muon && said->zero >= 2, "optimizer", "is not available with --zero 2 and 3", "arguments.py" },
    { MEGATRON, formats.main_params != PS_DTYPE_FP32 && formats.main_params != PS_DTYPE_FP16, "main-params-dtype",
      "fp32 or fp16 would be right", "arguments.py" },
    { MEGATRON, formats.main_grads == PS_DTYPE_FP8, "main-grads-dtype", "fp32 or bf16 would be right", "arguments.py" },
  };

  return first_broken (rows, G_N_ELEMENTS (rows), framework, run);
}

/* Models that torchtitan has: the module, the function of its configuration that trains it, and the flavor of 0.2. */
static const struct {
  guint layers, hidden, vocabulary;
  const char *module;
  const char *config; /* NULL: there is none */
  const char *flavor;
} titan_models[] = {
  { 32, 4096, 128256, "llama3", "llama3_8b", "8B" },
  { 80, 8192, 128256, "llama3", "llama3_70b", "70B" },
  { 126, 16384, 128256, "llama3", NULL, "405B" }, /* llama3_405b trains in fp8 */
  { 60, 5120, 102400, "deepseek_v3", NULL, "236B" },
  { 61, 7168, 129280, "deepseek_v3", "deepseek_v3_671b", "671B" },
  { 24, 2880, 201088, "gpt_oss", "gpt_oss_20b", "20b" },
  { 36, 2880, 201088, "gpt_oss", "gpt_oss_120b", "120b" },
  { 48, 2048, 151936, "qwen3", "qwen3_30b_a3b", "30B-A3B" },
  { 94, 4096, 151936, "qwen3", NULL, "235B-A22B" },
  { 48, 5120, 202048, "llama4", NULL, "17bx128e" },
};

/* Its number there; G_N_ELEMENTS (titan_models): it is not there. */
static guint find_titan_model (const PsModel *model)
{
  guint i = 0;

  while (i < G_N_ELEMENTS (titan_models)
         && (titan_models[i].layers != model->layers || titan_models[i].hidden != model->hidden
             || titan_models[i].vocabulary != model->vocabulary))
    i++;
  return i;
}

/* What torchtitan 0.2 calls the products' format; NULL: it has none. */
static const char *titan_converter (const PsModel *model)
{
  return model->precision == PS_PRECISION_FP8     ? "quantize.linear.float8"
         : model->precision == PS_PRECISION_MXFP8 ? "quantize.linear.mx"
                                                  : NULL;
}

/* What torchtitan, PyTorch's classes and DeepSpeed ask, and frameworks of one device. A new precondition is a new row.
 */
static char *ask_others (Framework framework, const Run *run)
{
  const PsLaunch *launch = run->launch;
  const PsSetting *said = &run->said;
  const PsModel *model = &run->model;
  const guint p = launch->n_devices, m = said->n_microbatches, t = said->n_tensor, c = said->n_context,
              e = said->n_experts, d = said->n_replicas, rounds = MAX (1, m / p), sharded = said->zero > 0 ? d : 1;
  const PsStateFormats formats = ps_model_formats (model);
  const gboolean muon = formats.optimizer == PS_OPTIMIZER_MUON;
  const gboolean named = launch->schedule != NULL;
  const gboolean in_rounds
      = g_strcmp0 (run->schedule, "interleaved") == 0 || g_strcmp0 (run->schedule, "interleaved-zb") == 0;
  const gboolean single = g_strcmp0 (run->schedule, "1f1b") == 0 || g_strcmp0 (run->schedule, "gpipe") == 0;
  const Precondition rows[] = {
    { TITANS, muon, "optimizer", "takes parameter groups, which are left to its configuration",
      "components/optimizer/optimizer.py" },
    { TITANS, model->state.main_grads > PS_DTYPE_FP32, "main-grads-dtype", "gradients are reduced in fp32",
      "configs.py" },
    { TITANS, formats.main_params != PS_DTYPE_FP32, "main-params-dtype", "its parameters are fp32", NULL },
    { TITANS,
      formats.exp_avg != formats.exp_avg_sq
          || (formats.exp_avg != PS_DTYPE_FP32 && formats.exp_avg != (framework == TORCHTITAN ? PS_DTYPE_BF16 : 0)),
      "exp-avg-dtype", framework == TORCHTITAN ? "both moments are fp32 or bf16" : "moments are fp32",
      "components/optimizer/optimizer.py" },
    { TITANS, model->pattern != NULL && find_titan_model (model) == G_N_ELEMENTS (titan_models), "model",
      "has layers of several kinds, which are not known there", NULL },
    { TORCHTITAN | DEEPSPEED, model->precision > PS_PRECISION_BF16, "precision", "is not known there; megatron has it",
      NULL },
    { TORCHTITAN_2, model->precision > PS_PRECISION_BF16 && titan_converter (model) == NULL, "precision",
      "is not known there; megatron has it", "components/quantization" },
    { TITANS, model->precision == PS_PRECISION_FP16, "precision", "it trains in bf16 or fp32", "configs.py" },
    { TORCHTITAN_2, model->precision != PS_PRECISION_FP32 && sharded * c * e == 1 && p * t > 1, "precision",
      "without sharded replicas or contexts it trains in fp32; 0.3 does not", "utils.py" },
    { TORCHTITAN_2, d > 1 && sharded * c * e == 1 && p * t > 1, "zero",
      "whole replicas go with nothing else; give --zero 1", "parallelize.py" },
    { TITANS, e > 1 && sharded * c * t % e != 0, "experts",
      "wants a divisor of t c times the replicas that --zero shards", "parallel_dims.py" },
    { TITANS, model->latent.kv_rank == 0 && model->kv_heads % t != 0, "tensor", "does not divide kv_heads", NULL },
    { TITANS, model->sequence % (t * (c > 1 || framework == TORCHTITAN_2 ? 2 * c : 1)) != 0, "sequence",
      "wants a multiple of t times 2 contexts", "parallel_dims.py" },
    { TITANS, c > 1 && said->cp_comm == PS_CP_COMM_A2A, "cp-comm-type", "contexts exchange keys and values",
      "configs.py" },
    { TITANS | DEEPSPEED, model->mtp > 0, "model", "has multi-token prediction, which pipelines do not support there",
      NULL },
    { TITANS, named && p == 1 && g_strcmp0 (run->schedule, "1f1b") != 0 && !runs_one_by_one (launch->order), "schedule",
      "one device has no pipeline, and runs microbatches in turn as 1f1b", NULL },
    { PYTORCH, p > 1 && single && m < p, "microbatches", "the class wants as many as stages, or a CSV",
      "pipelining/schedules.py" },
    { PYTORCH, p > 1 && g_strcmp0 (run->schedule, "dualpipe-v") == 0 && m < 2 * p, "microbatches",
      "the class wants as many as stages", "pipelining/schedules.py" },
    { PYTORCH, p > 1 && in_rounds && m % rounds != 0, "microbatches", "the class wants a multiple of m / p, or a CSV",
      "pipelining/schedules.py" },
    { PYTORCH, p > 1 && in_rounds && said->group_size != m / rounds, "group",
      "the class has groups of its own; a CSV can say these", "pipelining/schedules.py" },
    { TITANS, said->defer_head > 0 && p == 1, "defer-head", "one device has no pipeline whose end it fills", NULL },
    { PYTORCH | DEEPSPEED | COLOSSALAI, said->defer_head > 0, "defer-head", "its schedule puts off no W", NULL },
    { MEGATRON | TITANS, named && launch->order == NULL && p == 1 && launch->n_chunks > 1, "chunks",
      "one device has no virtual stages there; -v 1 is what runs", NULL },
    { DEEPSPEED, launch->n_chunks > 1, "chunks", "its devices have one", NULL },
    { DEEPSPEED, c > 1, "context", "its pipelines do not share sequences", NULL },
    { DEEPSPEED, e > 1, "experts", "its pipelines do not share experts", NULL },
    { DEEPSPEED, p > 1 && said->zero >= 2, "zero", "its pipelines refuse stages 2 and 3", "pipe/engine.py" },
  };

  return first_broken (rows, G_N_ELEMENTS (rows), framework, run);
}

/* The first precondition of the framework that is broken; NULL: none is. Free with g_free. */
static char *find_broken (Framework framework, const Run *run)
{
  static char *(*const tables[]) (Framework, const Run *) = { ask_common, ask_megatron, ask_others };
  char *broken = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (tables) && broken == NULL; i++)
    broken = tables[i](framework, run);
  return broken;
}

/* TRUE if a CSV can say the schedule and torchtitan places its stages. */
static gboolean is_plain (const PsSchedule *order)
{
  return order != NULL && order->placement->kind == PS_PLACEMENT_LOOP && order->placement->n_copies == 1
         && order->n_slices == 1 && !order->asynchronous && !order->recomputes;
}

/* PyTorch's name of the schedule, where its class takes the run; NULL: it does not. */
static const char *torch_name (const Run *run)
{
  g_autofree char *broken = find_broken (PYTORCH, run);
  const PsFamily *family = run->schedule != NULL && broken == NULL ? ps_family_find (run->schedule) : NULL;

  return family != NULL ? family->torch : NULL;
}

/* Why the framework does not run that by its own name for the schedule; NULL: it does. */
static char *find_refusal (Framework framework, const Run *run)
{
  char *broken = find_broken (framework, run);
  g_autoptr (GString) known = g_string_new (NULL);

  if (run->schedule == NULL || known_by (run->schedule) & framework)
    return broken == NULL && TITANS & framework ? find_broken (PYTORCH, run) : broken;
  g_free (broken);
  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    if (families[i].frameworks & framework)
      g_string_append_printf (known, "%s%s", known->len > 0 ? ", " : "", families[i].family);
  return g_strdup_printf ("schedule '%s' is not available there; %s %s", run->launch->schedule, known->str,
                          TITANS & framework ? "and any synchronous schedule of placement loop without slices "
                                               "and R are"
                                             : "would be");
}

/* The refusals of those frameworks, in the order of their names: NULL where one runs that by a name of its own, and ""
 * for the others. */
static GPtrArray *ask (guint asked, const PsSetting *setting, const char *family)
{
  GPtrArray *refusals = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (PsModel) model = setting->model != NULL || setting->db != NULL ? ps_setting_model (setting, NULL) : NULL;
  guint p = MAX (setting->n_devices, 1);
  guint v = setting->n_chunks > 0 ? setting->n_chunks : ps_family_find (family)->default_chunks;
  g_autofree PsStageShape *shapes = model != NULL ? ps_setting_shapes (setting, model, p, v, NULL) : NULL;
  const PsLaunch launch
      = { .setting = setting, .model = model, .shapes = shapes, .n_devices = p, .n_chunks = v, .schedule = family };
  const Run run = read_launch (&launch);

  for (guint i = 0; i < G_N_ELEMENTS (frameworks); i++)
    g_ptr_array_add (refusals, asked & 1U << i ? find_refusal ((Framework)(1 << i), &run) : g_strdup (""));
  return refusals;
}

char *ps_launch_refusal (const char *framework, const PsSetting *setting, const char *family)
{
  guint i = 0;

  while (!g_str_equal (frameworks[i], framework))
    i++;
  /* The framework is whichever of its forms runs that. */
  g_autoptr (GPtrArray) refusals = ask (i == 0 ? MEGATRON : 1U << i, setting, family);
  return i == 0 && refusals->pdata[1] == NULL ? NULL : g_strdup (refusals->pdata[i]);
}

char *ps_launch_runs_in (const PsSetting *setting, const char *family)
{
  GString *text = g_string_new (NULL);
  g_autoptr (GPtrArray) refusals = ask (ALL & ~TORCHTITAN_2, setting, family);

  /* The older form of Megatron-LM counts where the newer one does not run that. */
  for (guint i = 0; i < refusals->len; i++)
    if (refusals->pdata[i] == NULL && (i != 1 || refusals->pdata[0] != NULL))
      g_string_append_printf (text, "%s%s", text->len > 0 ? ", " : "", frameworks[i]);
  return g_string_free (text, FALSE);
}

void ps_launch_lint (const PsSetting *setting, const char *family, GPtrArray *findings)
{
  g_autoptr (GPtrArray) refusals = ask (known_by (family) & ~TITANS, setting, family);

  for (guint i = 0; i < refusals->len; i++)
    if (refusals->pdata[i] != NULL && *(char *)refusals->pdata[i] && i != (refusals->pdata[1] == NULL ? 0 : 1))
      ps_finding_add (findings, TRUE, NULL, "%s: %s", frameworks[i], (char *)refusals->pdata[i]);
}

/* Writing */

/* The sequences of a step. */
static gint64 global_batch (const Run *run)
{
  return (gint64)run->said.n_microbatches * run->model.microbatch_size * run->said.n_replicas;
}

/* The sizes in a comment, and the command. The nodes are those of the cluster; measured costs know none. */
static void add_head (const Run *run, const char *title, const char *command, const char *nodes, const char *gpus,
                      const char *program, GString *text)
{
  const PsSetting *said = &run->said;
  guint n_gpus = said->n_devices * said->n_tensor * said->n_context * said->n_replicas;
  g_autoptr (PsCluster) cluster = said->cluster != NULL ? ps_cluster_load (said->cluster, NULL) : NULL;
  guint per_node = cluster != NULL ? MIN (cluster->devices_per_node, n_gpus) : n_gpus;

  while (n_gpus % per_node != 0) /* a launch has as many on each node */
    per_node--;

  g_string_append_printf (text, "# %s: %u GPUs, %u pipeline x %u tensor", title, n_gpus, said->n_devices,
                          said->n_tensor);
  if (said->n_context > 1)
    g_string_append_printf (text, " x %u context", said->n_context);
  g_string_append_printf (text, " x %u data parallel", said->n_replicas);
  if (said->n_experts > 1)
    g_string_append_printf (text, ", experts over %u GPUs", said->n_experts);
  if (said->lengths != NULL)
    g_string_append (text, "\n# not as predicted: microbatches have the lengths of your data");
  g_string_append_printf (text, "\n# launch: %s %s %u %s %u %s\n", command, nodes, n_gpus / per_node, gpus, per_node,
                          program);
}

/* Whether ranks have another order than the usual one of frameworks: the replicas of a device side by side. */
static gboolean is_reordered (const Run *run)
{
  return run->said.n_replicas > 1 && run->said.n_devices > 1 && !run->said.replicas_adjacent;
}

static void add_order_note (const Run *run, GString *text)
{
  if (is_reordered (run))
    g_string_append (text, "# not as predicted: the replicas of a device are side by side here; --adjacent-replicas "
                           "predicts that\n");
}

/* Megatron-LM */

#define ALONE (-1) /* a flag without a value */

typedef struct {
  gboolean given;
  const char *facts; /* as add_facts takes them */
  gint64 value;      /* of the last one */
} Flag;

/* Adds lines of options: each a fact of launch-keys.c with its value there, or an option without a fact. */
static void G_GNUC_PRINTF (2, 3) add_facts (GString *text, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *facts = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_auto (GStrv) lines = g_strsplit (facts, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++) {
    const char *value = lines[i] + strcspn (lines[i], " ");
    g_autofree char *fact = g_strndup (lines[i], (gsize)(value - lines[i]));
    g_autofree char *key = *fact == '-' ? g_strdup (fact + 2) : ps_launch_key (fact, "");

    g_string_append_printf (text, "--%s%s\n", g_strdelimit (key, "_", '-'), value);
  }
}

static void add_flags (const Flag *flags, guint n, GString *text)
{
  for (guint i = 0; i < n; i++)
    if (flags[i].given && flags[i].value != ALONE)
      add_facts (text, "%s %" G_GINT64_FORMAT, flags[i].facts, flags[i].value);
    else if (flags[i].given)
      add_facts (text, "%s", flags[i].facts);
}

static const char *const megatron_formats[PS_N_PRECISIONS] = {
  [PS_PRECISION_FP16] = "precision.fp16",
  [PS_PRECISION_BF16] = "precision.bf16",
  [PS_PRECISION_FP8] = "precision.bf16\nprecision.fp8 hybrid\nprecision.recipe tensorwise",
  [PS_PRECISION_FP8_BLOCK] = "precision.bf16\nprecision.fp8 e4m3\nprecision.recipe blockwise",
  [PS_PRECISION_MXFP8] = "precision.bf16\nprecision.fp8 e4m3\nprecision.recipe mxfp8",
  [PS_PRECISION_NVFP4] = "precision.bf16\nprecision.fp4 e2m1\n--fp4-recipe nvfp4",
};

/* A Python list of 1 for each layer that has one of the units, else 0, repeats folded: "([0]*3+[1]*58)",
 * "([1,1,1,0]*12)". A layer has so many letters. */
static char *list_layers (const char *letters, guint n_letters, const char *units)
{
  const guint n = (guint)strcspn (letters, "/") / n_letters;
  g_autofree gboolean *has = g_new0 (gboolean, n);
  g_autoptr (GString) list = g_string_new ("(");
  guint period = 1, n_runs = 1;

  for (guint i = 0; i < n; i++) {
    for (guint k = 0; k < n_letters; k++)
      has[i] |= strchr (units, letters[i * n_letters + k]) != NULL;
    n_runs += i > 0 && has[i] != has[i - 1];
  }
  while (n % period != 0 || memcmp (has, has + period, (n - period) * sizeof *has) != 0)
    period++;
  if (n_runs > 2 && period <= n / 2) {
    for (guint i = 0; i < period; i++)
      g_string_append_printf (list, "%s%d", i > 0 ? "," : "[", has[i]);
    g_string_append_printf (list, "]*%u)", n / period);
    return g_string_free (g_steal_pointer (&list), FALSE);
  }
  for (guint i = 0, run = 1; i < n; i++, run++)
    if (i + 1 == n || has[i] != has[i + 1]) {
      g_string_append_printf (list, "%s[%d]*%u", list->len > 1 ? "+" : "", has[i], run);
      run = 0;
    }
  return g_string_free (g_string_append_c (g_steal_pointer (&list), ')'), FALSE);
}

/* What layers have of a kind that not all of them have. HybridModel counts each unit as a layer, and its pattern says
 * all but the window. */
static void add_megatron_kinds (const PsModel *model, gboolean hybrid, GString *text)
{
  const struct {
    const char *fact;
    const char *units, *others;
    gboolean all; /* forms of the model */
  } rows[] = { { "full-layers", "w", "*+DG", TRUE },
               { "linear-layers", "G", "*+D", FALSE },
               { "expert-layers", "E", "-", FALSE } };
  g_autofree char *letters = ps_model_pattern (model);
  guint n_letters = hybrid ? 1 : 2;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if ((rows[i].all || !hybrid) && strpbrk (letters, rows[i].units) != NULL
        && strpbrk (letters, rows[i].others) != NULL) {
      g_autofree char *list = list_layers (letters, n_letters, rows[i].units);

      add_facts (text, "%s '%s'", rows[i].fact, list);
    }
}

/* What a model has and no flag says. */
static void add_megatron_rest (const PsModel *model, GString *text)
{
  const struct {
    gboolean given;
    const char *key;
  } rows[] = { { model->post_norms, "post_norms" },
               { model->one_norm, "one_norm" },
               { model->embedding_norm, "embedding_norm" },
               { model->output_bias, "output_bias" },
               { model->qk_norm == PS_QK_NORM_WIDE, "qk_norm = wide" },
               { model->delta.gate_rank > 0, "delta_gate_rank" },
               { model->latent.q_rank > 0 && model->latent.kv_rank == 0, "q_rank" } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].given)
      g_string_append_printf (text, "# left to you: %s of the model, which no flag says\n", rows[i].key);
}

/* The model's definition. */
static void add_megatron_model (const PsModel *model, gboolean hybrid, GString *text)
{
  const PsExperts *experts = &model->experts;
  const PsLatent *latent = &model->latent;
  const PsMamba *mamba = &model->mamba;
  const PsDelta *delta = &model->delta;
  const PsIndexer *indexer = &model->indexer;
  gboolean llama = model->mlp != PS_MLP_GELU, is_latent = latent->kv_rank > 0, mixed = experts->count > 0;
  const Flag flags[] = {
    { !hybrid, "layers", model->layers },
    { TRUE, "hidden", model->hidden },
    { TRUE, "feed_forward", model->feed_forward },
    { TRUE, "heads", model->heads },
    { model->head_size > 0 && !is_latent, "head_size", model->head_size },
    { model->kv_heads < model->heads && !is_latent, "grouped", ALONE },
    { model->kv_heads < model->heads && !is_latent, "groups", model->kv_heads },
    { is_latent, "latent", ALONE },
    { is_latent && latent->q_rank > 0, "q_rank", latent->q_rank },
    { is_latent, "kv_rank", latent->kv_rank },
    { is_latent, "nope_size", latent->nope_size },
    { is_latent, "rope_size", latent->rope_size },
    { is_latent, "value_size", latent->value_size },
    { is_latent || model->qk_norm, "qk_norm", ALONE },
    { !model->flash_attention, "flash_attention unfused", ALONE },
    { TRUE, "vocabulary", model->vocabulary },
    { TRUE, "positions", MAX (model->sequence, model->position_rows) },
    { !model->tied, "tied", ALONE },
    { model->mlp == PS_MLP_SWIGLU, "swiglu", ALONE },
    { model->mlp == PS_MLP_RELU2, "squared-relu", ALONE },
    { model->attention_gate, "attention_gate", ALONE },
    { mamba->heads > 0, "mamba_heads", mamba->heads },
    { mamba->heads > 0, "mamba_head_size", mamba->head_size },
    { mamba->heads > 0, "mamba_state", mamba->state },
    { mamba->heads > 0, "mamba_groups", mamba->groups },
    { delta->key_heads > 0, "delta_key_heads", delta->key_heads },
    { delta->key_heads > 0, "delta_key_size", delta->key_size },
    { delta->key_heads > 0, "delta_value_heads", delta->value_heads },
    { delta->key_heads > 0, "delta_value_size", delta->value_size },
    { !hybrid && delta->key_heads > 0, "variant gated_delta_net", ALONE },
    { !hybrid && indexer->heads > 0, "variant dsa", ALONE },
    { indexer->heads > 0, "index_heads", indexer->heads },
    { indexer->heads > 0, "index_size", indexer->size },
    { indexer->heads > 0, "index_top", indexer->top },
    { experts->latent > 0, "expert_latent", experts->latent },
    { llama, "--normalization RMSNorm", ALONE },
    { llama, mamba->heads > 0 ? "--position-embedding-type none" : "--position-embedding-type rope", ALONE },
    { llama, "--attention-dropout", 0 },
    { llama, "--hidden-dropout", 0 },
    { !llama && model->no_positions, "--position-embedding-type rope", ALONE },
    { llama ? !model->other_biases : model->no_biases, "no-biases", ALONE },
    { llama && model->qkv_bias && !model->other_biases, "qkv-bias", ALONE },
    { mixed, "experts_of_layer", experts->count },
    { mixed, "active_experts", experts->active },
    { mixed && experts->active == 1, "--moe-router-pre-softmax", ALONE },
    { mixed, "expert_feed_forward", experts->feed_forward },
    { mixed, "--moe-grouped-gemm", ALONE },
    { mixed && experts->shared + experts->shared_width > 0, "shared_feed_forward",
      experts->shared_width > 0 ? experts->shared_width : (gint64)experts->shared * experts->feed_forward },
    { mixed && experts->capacity > 0, "padded", ALONE },
    { mixed && experts->shared_gate, "shared_gate", ALONE },
    { model->sinks, "sinks learnable", ALONE },
    { !hybrid && model->mtp > 0, "mtp", model->mtp },
  };

  add_flags (flags, G_N_ELEMENTS (flags), text);
  if (model->window > 0)
    add_facts (text, "window '(%u,0)'", model->window - 1);
  if (mixed && experts->capacity > 0)
    add_facts (text, "capacity %g", experts->capacity);
  add_megatron_kinds (model, hybrid, text);
}

/* The pattern with [ ] around the two units of each layer with one of these letters after the other. */
static char *group_layers (const char *pattern)
{
  gsize n = strcspn (pattern, "/");
  GString *text = g_string_new (NULL);

  for (gsize i = 0; i < n; i++) {
    gboolean pair = pattern[i] != '|' && i + 1 < n && strchr ("-E", pattern[i + 1]) != NULL;

    g_string_append_printf (text, pair ? "[%.2s]" : "%.1s", pattern + i);
    i += pair;
  }
  g_string_append (text, pattern + n);
  return g_string_free (text, FALSE);
}

static void add_megatron_stages (const Run *run, gboolean hybrid, GString *text)
{
  const PsLaunch *launch = run->launch;
  guint n = launch->n_devices * run->v;

  add_facts (text, "devices %u", launch->n_devices);
  if (hybrid) {
    const PsStageShape whole = ps_model_whole (&run->model);
    g_autofree char *letters = ps_model_megatron_pattern (&run->model);
    g_autofree char *pattern = ps_layout_write (letters, n > 1 ? launch->shapes : &whole, n);
    g_autofree char *groups = run->overlaps ? group_layers (pattern) : g_strdup (pattern);

    if (run->overlaps)
      g_string_append (text, "# [ ] need pull request 4798 of Megatron-LM; megatron-gpt overlaps without it\n");
    add_facts (text, "pattern '%s'", groups);
  } else if (launch->n_devices > 1 && (!ps_stage_shapes_are_even (launch->shapes, n) || run->model.layers % n != 0)) {
    g_autofree char *layout = ps_layout_write (NULL, launch->shapes, n);

    add_facts (text, "layout '%s'", layout);
  } else if (run->v > 1)
    add_facts (text, "chunks.layers %u", launch->shapes[0].n_layers);
}

/* The optimizer, and what it keeps of a parameter. */
static void add_megatron_state (const PsModel *model, GString *text)
{
  const PsStateFormats formats = ps_model_formats (model);
  gboolean precise = is_precise (&formats), wide = formats.main_grads == PS_DTYPE_FP32;
  gboolean gathers = formats.fp8_param_gather, fp4 = model->precision == PS_PRECISION_NVFP4;
  const Flag flags[] = {
    { model->precision != PS_PRECISION_FP32 && wide, "--accumulate-allreduce-grads-in-fp32", ALONE },
    { formats.main_grads == PS_DTYPE_BF16, "main-grads-dtype.bf16", ALONE },
    { formats.optimizer == PS_OPTIMIZER_MUON, "optimizer muon", ALONE },
    { gathers && model->precision > PS_PRECISION_BF16, fp4 ? "--fp4-param-gather" : "fp8-param-gather", ALONE },
    { gathers && model->precision == PS_PRECISION_MXFP8, "--reuse-grad-buf-for-mxfp8-param-ag", ALONE },
    { precise, "precise", ALONE },
    { model->fp8_input_store, "--activation-func-fp8-input-store", ALONE },
    { precise && !wide, "main-grads-dtype bf16", ALONE },
  };

  add_flags (flags, G_N_ELEMENTS (flags), text);
  if (precise)
    add_facts (text, "main-params-dtype %s\nexp-avg-dtype %s\nexp-avg-sq-dtype %s", ps_dtype_name (formats.main_params),
               ps_dtype_name (formats.exp_avg), ps_dtype_name (formats.exp_avg_sq));
}

/* A fact, and "a+b" as "a b". */
static void add_modules (const char *fact, const char *modules, GString *text)
{
  g_autofree char *list = g_strdelimit (g_strdup (modules), "+", ' ');

  add_facts (text, "%s %s", fact, list);
}

static void add_megatron_run (const Run *run, gboolean hybrid, GString *text)
{
  static const char *const dispatchers[PS_N_DISPATCHERS]
      = { [PS_DISPATCHER_DEEPEP] = "moe-token-dispatcher-type flex\nmoe-token-dispatcher-type.backend deepep",
          [PS_DISPATCHER_HYBRIDEP] = "moe-token-dispatcher-type flex\nmoe-token-dispatcher-type.backend hybridep" };
  static const char *const graphs[]
      = { [PS_CUDA_GRAPHS_NONE] = NULL,
          [PS_CUDA_GRAPHS_ATTN]
          = "cuda-graphs.impl transformer_engine\ncuda-graphs.scope attn moe_router moe_preprocess",
          [PS_CUDA_GRAPHS_FULL] = "cuda-graphs.impl local\ncuda-graphs.scope full_iteration" };
  const PsSetting *said = &run->said;
  const PsModel *model = &run->model;
  gboolean full = (said->recompute & PS_RECOMPUTE_FULL) != 0, sharded = said->zero >= 2;
  guint n_layers = said->recompute >> PS_RECOMPUTE_LAYERS;
  guint n_units = hybrid ? ps_model_layer_units (model, 0, (PsUnitKind[2]){ 0 }) : 1; /* layers there of one here */
  gboolean block = full && n_layers > 0 && !(said->recompute & PS_RECOMPUTE_UNIFORM);
  const Flag flags[] = {
    { run->v > 1 && said->group_size != said->n_devices, "group", said->group_size },
    { run->overlaps, "schedule.overlaps", ALONE },
    { g_str_equal (run->schedule, "interleaved-overlap-w"), "schedule.delays-w", ALONE },
    { said->defer_head > 0, "defer-head.defers", ALONE },
    { said->defer_head > 0, "defer-head", said->defer_head },
    { model->precision != PS_PRECISION_FP32, megatron_formats[model->precision], ALONE },
    { TRUE, "microbatch-size", model->microbatch_size },
    { TRUE, "global-batch", global_batch (run) },
    { TRUE, "sequence", model->sequence },
    { said->recompute != PS_RECOMPUTE_NONE, full ? "recompute.granularity full" : "recompute.granularity selective",
      ALONE },
    { full, block ? "recompute.method block" : "recompute.method uniform", ALONE },
    { full, "recompute.layers", MAX (n_layers, 1) * n_units },
    { said->offload_modules != 0, "offload-modules.offloads", ALONE },
    { said->zero > 0, "zero.distributed-optimizer", ALONE },
    { model->loss == PS_LOSS_FUSED, "loss.fusion", ALONE },
    { model->loss == PS_LOSS_FUSED, "loss.impl linear", ALONE },
    { sharded, "zero.fsdp", ALONE },
    { sharded, "--ckpt-format fsdp_dtensor", ALONE },
    { said->zero == 2, "zero.strategy optim_grads", ALONE },
    { said->zero == 3, "zero.strategy optim_grads_params", ALONE },
    { said->reduce == PS_REDUCE_OVERLAPPED && said->n_replicas * said->n_context > 1, "reduce.overlap", ALONE },
    { said->overlap_param_gather && said->zero > 0, "overlap-param-gather", ALONE },
    { said->tp_comm_overlap, "tp-comm-overlap", ALONE },
    { said->dispatcher != PS_DISPATCHER_ALLTOALL, dispatchers[said->dispatcher], ALONE },
    { said->cuda_graphs != PS_CUDA_GRAPHS_NONE, graphs[said->cuda_graphs], ALONE },
  };

  if (said->defer_head > 0 && run->launch->shapes[said->n_devices * run->v - 1].n_layers > 0)
    g_string_append (text,
                     "# --defer-embedding-wgrad-compute puts off W of the head alone, not of the layers before it "
                     "in its stage\n");
  add_flags (flags, G_N_ELEMENTS (flags), text);
  if (said->recompute & PS_RECOMPUTE_MODULES && said->recompute != PS_RECOMPUTE_SELECTIVE)
    add_modules ("recompute.modules", ps_recompute_name (said->recompute), text);
  if (said->offload_modules != 0)
    add_modules ("offload-modules", ps_offload_name (said->offload_modules), text);
  add_megatron_state (model, text);
}

/* Where GPUs share the experts, or experts have biases, each expert is whole on its GPU. Contexts and such experts have
 * no other order of ranks. */
static void write_megatron (const Run *run, gboolean hybrid, GString *text)
{
  const PsSetting *said = &run->said;
  guint t = said->n_tensor, c = said->n_context, e = said->n_experts;
  gboolean whole = e > 1 || (t > 1 && ps_model_expert_gpus (&run->model) > 0), fixed = c > 1 || whole;
  gboolean one_queue = (t > 1 || c > 1) && said->zero < 2 && !run->overlaps;
  const Flag flags[] = {
    { TRUE, "tensor", t },
    { t > 1 && !run->model.whole_sequences, "sequence-parallel", ALONE },
    { c > 1, "context", c },
    { c > 1 && run->said.cp_comm == PS_CP_COMM_ALL_GATHER, "cp-comm-type all_gather", ALONE },
    { c > 1 && run->said.cp_comm == PS_CP_COMM_A2A, "cp-comm-type a2a", ALONE },
    { e > 1, "experts", e },
    { whole, "expert-tensor", 1 },
    { e > 1 && said->dispatcher == PS_DISPATCHER_ALLTOALL, "moe-token-dispatcher-type alltoall", ALONE },
    { is_reordered (run) && !fixed, "adjacent-replicas.mapping", ALONE },
  };

  add_head (run, "Megatron-LM", one_queue ? "CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun" : "torchrun", "--nnodes",
            "--nproc-per-node", hybrid ? "pretrain_hybrid.py" : "pretrain_gpt.py", text);
  if (fixed)
    add_order_note (run, text);
  if (run->launch->order != NULL) {
    g_string_append (text, "# left to you: tokenizer, data, iterations (--train-iters) and learning rate (--lr)\n");
    add_megatron_rest (&run->model, text);
    add_megatron_model (&run->model, hybrid, text);
  }
  if (hybrid)
    g_string_append (text, "--spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec\n");
  add_flags (flags, G_N_ELEMENTS (flags), text);
  add_megatron_stages (run, hybrid, text);
  if (run->launch->order != NULL)
    add_megatron_run (run, hybrid, text);
}

/* torchtitan */

gboolean ps_launch_titan_model (const char *module, const char *flavor, guint *layers, guint *hidden)
{
  for (guint i = 0; i < G_N_ELEMENTS (titan_models); i++)
    if (g_str_equal (titan_models[i].module, module)
        && (g_str_equal (titan_models[i].flavor, flavor) || g_strcmp0 (titan_models[i].config, flavor) == 0)) {
      *layers = titan_models[i].layers;
      *hidden = titan_models[i].hidden;
      return TRUE;
    }
  return FALSE;
}

/* Adds keys of its configuration: words of a command line, or TOML. */
typedef struct {
  GString *text;
  gboolean toml;
  const char *section; /* the last one */
} Keys;

static void G_GNUC_PRINTF (5, 6)
    add_key (Keys *keys, const char *section, const char *fact, gboolean quoted, const char *format, ...)
{
  const char *quote = quoted && keys->toml ? "\"" : "";
  g_autofree char *whole = ps_launch_key (fact, section);
  const char *key = whole + strlen (section) + 1;
  va_list arguments;

  if (keys->toml && g_strcmp0 (keys->section, section) != 0)
    g_string_append_printf (keys->text, "%s[%s]\n", keys->section != NULL ? "\n" : "", section);
  if (keys->toml)
    g_string_append_printf (keys->text, "%s = %s", key, quote);
  else
    g_string_append_printf (keys->text, "--%s.%s ", section, key);
  va_start (arguments, format);
  g_string_append_vprintf (keys->text, format, arguments);
  va_end (arguments);
  g_string_append_printf (keys->text, "%s\n", quote);
  keys->section = section;
}

static char *list_modules (const PsStageShape *shape, gboolean toml)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);

  if (shape->embedding)
    g_ptr_array_add (names, g_strdup ("tok_embeddings"));
  for (guint i = 0; i < shape->n_layers; i++)
    g_ptr_array_add (names, g_strdup_printf ("layers.%u", shape->first_layer + i));
  if (shape->head) {
    g_ptr_array_add (names, g_strdup ("norm"));
    g_ptr_array_add (names, g_strdup (toml ? "output" : "lm_head"));
  }
  g_ptr_array_add (names, NULL);
  return g_strjoinv (toml ? "\", \"" : ",", (char **)names->pdata);
}

static void add_parts (Keys *keys, const PsLaunch *launch)
{
  g_string_append (keys->text,
                   keys->toml ? "module_fqns_per_model_part = [\n" : "--parallelism.module_fqns_per_model_part");
  for (guint s = 0; s < launch->n_devices * launch->n_chunks; s++) {
    g_autofree char *names = list_modules (&launch->shapes[s], keys->toml);

    if (!keys->toml)
      g_string_append_printf (keys->text, *names ? " %s" : " ''", names);
    else
      g_string_append_printf (keys->text, *names ? "  [\"%s\"],\n" : "  [],\n", names);
  }
  g_string_append (keys->text, keys->toml ? "]\n" : "\n");
}

/* The order of a family needs few options, unless it looks at costs. */
static void add_torch_schedule (Keys *keys, const Run *run)
{
  const PsLaunch *launch = run->launch;
  const PsFamily *family = ps_family_find (launch->schedule);
  const char *name = torch_name (run);
  PsSetting given = *launch->setting;
  g_autoptr (PsSetting) few = ps_setting_new ();

  if (name != NULL) {
    add_key (keys, "parallelism", "schedule.torch", TRUE, "%s", name);
    return;
  }
  few->n_devices = given.n_devices;
  few->n_microbatches = given.n_microbatches;
  few->n_chunks = given.n_chunks;
  few->group_size = given.group_size;
  few->defer_head = given.defer_head;
  g_autofree char *typed = ps_setting_typed (family != NULL && family->uses_costs ? &given : few);
  g_string_append_printf (keys->text, "# pipesim schedule convert %s%s --to torch-compute -o schedule.csv\n",
                          launch->schedule, family != NULL ? typed : "");
  add_key (keys, "parallelism", "schedule.torch", TRUE, "PipelineSchedule%s",
           launch->n_chunks > 1 ? "Multi" : "Single");
  add_key (keys, "parallelism", "schedule", TRUE, "schedule.csv");
}

static void add_titan_model (Keys *keys, const PsModel *model)
{
  const char *module = "MODULE", *config = NULL, *flavor = "FLAVOR";
  const guint row = find_titan_model (model);

  if (row < G_N_ELEMENTS (titan_models)) {
    module = titan_models[row].module;
    config = titan_models[row].config;
    flavor = titan_models[row].flavor;
  }
  if (keys->toml ? *flavor == 'F' : config == NULL)
    g_string_append_printf (keys->text, "# left to you: %s that trains this model in its own precision (%s %s)\n",
                            keys->toml ? "a module and its FLAVOR" : "CONFIG, a function of the module's registry",
                            module, flavor);
  if (keys->toml) {
    add_key (keys, "model", "titan-module", TRUE, "%s", module);
    add_key (keys, "model", "titan-flavor", TRUE, "%s", flavor);
    if (titan_converter (model) != NULL)
      add_key (keys, "model", "precision.converters", FALSE, "[\"%s\"]", titan_converter (model));
  } else
    g_string_append_printf (keys->text, "--module %s\n--config %s\n", module, config != NULL ? config : "CONFIG");
}

/* One device has no pipeline: it runs a microbatch at a time and adds up gradients. */
static void add_titan_run (Keys *keys, const Run *run)
{
  const PsModel *model = &run->model;
  gboolean piped = run->said.n_devices > 1;

  add_titan_model (keys, model);
  add_key (keys, "training", "microbatches.local", FALSE, "%u",
           (piped ? run->said.n_microbatches : 1) * model->microbatch_size);
  add_key (keys, "training", "global-batch", FALSE, "%" G_GINT64_FORMAT, global_batch (run));
  add_key (keys, "training", "sequence", FALSE, "%u", model->sequence);
  add_key (keys, "training", "precision.bf16", TRUE, "%s",
           model->precision == PS_PRECISION_FP32 ? "float32" : "bfloat16");
  if (model->state.implementation == PS_IMPLEMENTATION_FOREACH || model->state.exp_avg > PS_DTYPE_FP32)
    add_key (keys, "optimizer", "optimizer-implementation", TRUE, "%s",
             model->state.exp_avg > PS_DTYPE_FP32 ? "fused_opt_states_bf16" : "foreach");
  if (keys->toml)
    add_key (keys, "activation_checkpoint", "recompute.granularity", TRUE, "%s",
             ps_recompute_name (run->said.recompute));
}

/* FSDP is what torchtitan has of ZeRO. The words of module_fqns_per_model_part end at the next option. */
static void write_titan (const Run *run, gboolean toml, GString *text)
{
  const PsSetting *said = &run->said;
  const PsLaunch *launch = run->launch;
  const struct {
    gboolean given;
    const char *fact;
    guint value;
  } degrees[] = {
    { TRUE, "replicas.replicated", said->zero > 0 ? 1 : said->n_replicas },
    { TRUE, "zero.sharded", said->zero > 0 ? said->n_replicas : 1 },
    { TRUE, "tensor", said->n_tensor },
    { TRUE, "devices", said->n_devices },
    { said->n_context > 1, "context", said->n_context },
    { said->n_experts > 1, "experts", said->n_experts },
    { launch->order != NULL && said->n_devices > 1, "microbatch-size", run->model.microbatch_size },
  };
  Keys keys = { .text = text, .toml = toml };

  add_head (run, "torchtitan", "torchrun", "--nnodes", "--nproc-per-node",
            toml ? "-m torchtitan.train --job.config_file FILE" : "-m torchtitan.train", text);
  add_order_note (run, text);
  if (said->n_devices == 1 && said->zero == 1 && said->n_replicas * said->n_context > 1)
    g_string_append (text, "# not as predicted: without a pipeline weights and gradients are spread, too; --zero 3 "
                           "predicts that\n");
  if (launch->order != NULL)
    add_titan_run (&keys, run);
  for (guint i = 0; i < G_N_ELEMENTS (degrees); i++)
    if (degrees[i].given)
      add_key (&keys, "parallelism", degrees[i].fact, FALSE, "%u", degrees[i].value);
  if (said->n_context > 1 && said->cp_comm == PS_CP_COMM_P2P)
    add_key (&keys, "parallelism", "cp-comm-type", TRUE, "alltoall");
  if (said->zero >= 2 || (said->zero == 1 && said->n_devices == 1)) /* without a pipeline it gathers weights again */
    add_key (&keys, "parallelism", "zero.reshard", TRUE, "%s", said->zero == 3 ? "always" : "never");
  if (launch->order != NULL && said->n_devices > 1)
    add_torch_schedule (&keys, run);
  if (said->n_devices > 1)
    add_parts (&keys, launch);
  if (launch->order != NULL && !toml)
    g_string_append_printf (text, "%sactivation_checkpoint:%s\n",
                            said->n_devices > 1 || said->n_experts > 1 ? "--training.disable_cuda_graphs\n" : "",
                            ps_recompute_name (said->recompute));
}

/* DeepSpeed */

static void add_deepspeed_parts (const PsLaunch *launch, GString *text)
{
  guint next = 0;

  if (ps_stage_shapes_are_even (launch->shapes, launch->n_devices)) {
    g_string_append (text,
                     "# TransformerLayer: the class of your layers\npartition_method=\"type:TransformerLayer\"\n");
    return;
  }
  g_string_append (text, "# for _partition_layers of a subclass; specs: embedding, layers, head\nparts=[0");
  for (guint s = 0; s < launch->n_devices; s++) {
    next += launch->shapes[s].n_layers + (guint)launch->shapes[s].embedding + (launch->shapes[s].head > 0);
    g_string_append_printf (text, ", %u", next);
  }
  g_string_append (text, "]\n");
}

static void write_deepspeed (const Run *run, GString *text)
{
  const PsSetting *said = &run->said;
  const PsModel *model = &run->model;

  add_head (run, "DeepSpeed", "deepspeed", "--num_nodes", "--num_gpus", "PROGRAM", text);
  g_string_append (text,
                   "# for the source of PROGRAM, and in { } for its configuration; an optimizer is left to you\n");
  add_order_note (run, text);
  g_string_append_printf (text, "topology=PipeModelDataParallelTopology(num_pp=%u, num_mp=%u, num_dp=%u)\n",
                          said->n_devices, said->n_tensor, said->n_replicas);
  if (said->n_devices > 1 || said->zero < 2)
    add_deepspeed_parts (run->launch, text);
  else
    g_string_append (text, "# without PipelineModule, whose engine refuses stages 2 and 3 of ZeRO\n");
  if (run->launch->order == NULL)
    return;
  g_string_append_printf (text, "activation_checkpoint_interval=%u\n",
                          said->recompute & PS_RECOMPUTE_FULL ? MAX (said->recompute >> PS_RECOMPUTE_LAYERS, 1) : 0);
  g_string_append_printf (text,
                          "{\n  \"train_batch_size\": %" G_GINT64_FORMAT
                          ",\n  \"train_micro_batch_size_per_gpu\": %u,\n"
                          "  \"gradient_accumulation_steps\": %u,\n",
                          global_batch (run), model->microbatch_size, said->n_microbatches);
  if (model->precision != PS_PRECISION_FP32)
    g_string_append_printf (text, "  \"%s\": { \"enabled\": true },\n", ps_precision_name (model->precision));
  if (model->precision == PS_PRECISION_BF16 || model->state.main_grads != PS_DTYPE_AUTO)
    g_string_append_printf (text, "  \"data_types\": { \"grad_accum_dtype\": \"%s\" },\n",
                            ps_dtype_name (ps_model_formats (model).main_grads));
  g_string_append_printf (text, "  \"zero_optimization\": { \"stage\": %u }\n}\n", said->zero);
}

/* All */

char *ps_launch_text (const char *framework, const PsLaunch *launch)
{
  const Run run = read_launch (launch);
  GString *text = g_string_new (NULL);
  guint index = 0;

  ps_launch_parse ("", framework, &index, NULL);
  const Framework to = (Framework)(1 << index);
  if (to & MEGATRON)
    write_megatron (&run, to == HYBRID, text);
  else if (to == DEEPSPEED)
    write_deepspeed (&run, text);
  else
    write_titan (&run, to == TORCHTITAN_2, text);
  return g_string_free (text, FALSE);
}

char *ps_launch_write (const char *framework, const PsLaunch *launch, GError **error)
{
  const Run run = read_launch (launch);
  guint index;

  if (!ps_launch_parse ("--to", framework, &index, error))
    return NULL;
  const Framework to = (Framework)(1 << index);
  gboolean csv = TITANS & to && is_plain (launch->order);
  g_autofree char *refusal = csv ? find_broken (to, &run) : find_refusal (to, &run);
  if (refusal != NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "--to %s: %s", framework, refusal);
  return ps_launch_text (framework, launch);
}

/* A comment where a prediction hardly fits the memory of a GPU, or does not fit and is printed all the same; "" where
 * it fits. NULL and PS_ERROR_SCHEDULE with the bytes that are missing where it is not to be printed. */
static char *note_memory (const PsLaunchChoice *choice, const PsSetting *setting, const PsPrediction *prediction,
                          GError **error)
{
  const PsMetrics *metrics = &prediction->metrics;
  g_autofree gint64 *limit = NULL;
  gint64 reserve;
  guint worst = 0;

  if (prediction->feasible)
    return g_strdup ("");
  if (!ps_setting_memory_limit (setting, metrics->n_devices, &limit, &reserve, error))
    return NULL;
  for (guint d = 1; d < metrics->n_devices; d++)
    if (metrics->device[d].peak_memory_bytes - limit[d] > metrics->device[worst].peak_memory_bytes - limit[worst])
      worst = d;
  gint64 peak = metrics->device[worst].peak_memory_bytes, all = limit[worst] + reserve;
  g_autofree char *needs = ps_format_size (peak), *has = ps_format_size (all), *missing = ps_format_size (peak - all);
  g_autofree char *kept = ps_format_size (reserve);
  if (peak <= all)
    return g_strdup_printf ("# tight: a GPU of device %u needs %s of %s, of which %s should stay free\n", worst, needs,
                            has, kept);
  if (choice->force)
    return g_strdup_printf ("# does not fit: a GPU of device %u needs %s of %s\n", worst, needs, has);
  return ps_refuse_null (error, PS_ERROR_SCHEDULE,
                         "--to %s: does not fit: a GPU of device %u needs %s of %s, %s are missing; "
                         "--force prints the launch all the same",
                         choice->to, worst, needs, has, missing);
}

PsLaunch ps_launch_of (const PsSetting *setting, const PsModel *model, const char *schedule,
                       const PsPrediction *prediction)
{
  const PsSchedule *order = prediction->program->schedule;

  return (PsLaunch){ .setting = setting,
                     .model = model,
                     .shapes = prediction->costs->shapes,
                     .n_devices = order->placement->n_devices,
                     .n_chunks = ps_placement_max_chunks (order->placement),
                     .schedule = schedule,
                     .order = order };
}

char *ps_launch_prediction (const PsLaunchChoice *choice, const PsSetting *setting, const char *schedule,
                            const PsPrediction *prediction, GError **error)
{
  if (prediction->costs->shapes == NULL)
    return ps_refuse_null (error, PS_ERROR_USAGE, "--to %s: needs the costs of a model, --model with --cluster or --db",
                           choice->to);
  g_autoptr (PsModel) model = ps_setting_model (setting, error);
  const PsLaunch launch = ps_launch_of (setting, model, schedule, prediction);
  g_autofree char *text = model != NULL ? ps_launch_write (choice->to, &launch, error) : NULL;
  g_autofree char *note = text != NULL ? note_memory (choice, setting, prediction, error) : NULL;
  return note != NULL ? g_strconcat (note, text, NULL) : NULL;
}
