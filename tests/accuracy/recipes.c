/* recipes.c - reads NVIDIA's published runs of Megatron Bridge and the settings of their recipes. */
#include "rows.h"

#include <string.h>

const char *const recipe_keys[]
    = { "container", "task", "model", "system", "precision",       "variant",      "gpus",     "t", "p",
        "v",         "cp",   "ep",    "fsdp",   "microbatch_size", "global_batch", "sequence", NULL };

/* The number format by compute_recipe: "fp8 per tensor, current scaling", "fp8 blockwise 128", "mxfp8". */
static gboolean set_format (Row *row, const char *text)
{
  g_auto (GStrv) words = g_strsplit_set (text, " -", 3);
  gboolean in_blocks = g_strv_contains ((const char *const *)words, "blockwise");

  g_autofree char *name = g_ascii_strdown (words[0], -1);

  return ps_precision_parse ("recipe", in_blocks ? "fp8-block" : name, &row->model->precision, NULL);
}

/* The layout string says v, too: one table states another number than its layout has. */
static void set_cut (Row *row)
{
  PsSetting *setting = row->setting;
  const char *layout = row_text (row, "layout");
  g_auto (GStrv) chunks = g_strsplit (row_text (row, "chunk_layers"), " ", -1);
  guint n;

  g_free (setting->layout);
  if (chunks[0] != NULL)
    setting->n_chunks = MAX (g_strv_length (chunks) / setting->n_devices, 1);
  n = setting->n_devices * setting->n_chunks;
  setting->layout = *layout                             ? g_strdup (layout)
                    : row->model->layers % n == 0       ? g_strdup ("even")
                    : (row->model->layers + 2) % n == 0 ? g_strdup ("even:embedding:loss")
                                                        : g_strdup ("best");
}

/* Whether TFLOP/s and tokens/s of a GPU belong to the model's operations. */
static gboolean is_contradictory (const Row *row)
{
  const PsStageShape whole = ps_model_whole (row->model);
  double flops = (double)(ps_model_stage_flops (row->model, &whole, PS_OP_F)
                          + ps_model_stage_flops (row->model, &whole, PS_OP_BW));
  double ratio = row_number (row, "model_tflops_gpu") * 1e12 / row_number (row, "tokens_per_s_gpu") / flops
                 * (double)ps_model_tokens (row->model);

  return ratio < 1 / 1.5 || ratio > 1.5;
}

static gboolean is_on (const Row *row, const char *column)
{
  return row_number (row, column) > 0;
}

static PsCudaGraphs read_graphs (const Row *row)
{
  const char *scope = row_text (row, "cuda_graph_scope"), *active = row_text (row, "cuda_graph_active");

  return *scope == '\0' || g_str_equal (active, "0")  ? PS_CUDA_GRAPHS_NONE
         : g_str_has_prefix (scope, "full_iteration") ? PS_CUDA_GRAPHS_FULL
                                                      : PS_CUDA_GRAPHS_ATTN;
}

static PsDispatcher read_dispatcher (const Row *row)
{
  const char *text = row_text (row, "dispatcher");

  for (PsDispatcher dispatcher = 0; dispatcher < PS_N_DISPATCHERS; dispatcher++)
    if (g_str_has_suffix (text, ps_dispatcher_name (dispatcher)))
      return dispatcher;
  return PS_DISPATCHER_ALLTOALL;
}

/* What both files have alike. */
static char *read_run (Row *row, const char *model, const char *precision, const char *gpu)
{
  PsSetting *setting = row->setting;

  row_set_layout (row);
  if (!row_load_model (row, model, row_count (row, "layers") * is_on (row, "layers")))
    return g_strdup_printf ("model %s", model);
  if (!set_format (row, precision))
    return g_strdup_printf ("format %s", precision);
  const char *format = ps_precision_name (row->model->precision);
  row->model->framework = PS_FRAMEWORK_BRIDGE;
  if (row_number (row, "optimizer_bytes_per_param") == 8)
    row->model->state.exp_avg = row->model->state.exp_avg_sq = PS_DTYPE_BF16;
  if (strstr (row_text (row, "optimizer_state"), "muon") != NULL)
    row->model->state.optimizer = PS_OPTIMIZER_MUON;
  if (g_str_equal (row_text (row, "fp8_param_gather"), "0")) {
    row->model->framework = PS_FRAMEWORK_MEGATRON;
    row->model->state.main_grads = PS_DTYPE_BF16;
  }
  row->model->mtp = row_count (row, "mtp") * is_on (row, "mtp");
  row->model->experts.capacity = row_number (row, "token_capacity_factor");
  set_cut (row);
  if (*row_text (row, "recompute_modules")
      && !ps_recompute_parse ("recompute_modules", row_text (row, "recompute_modules"), &setting->recompute, NULL))
    return g_strdup_printf ("recomputation of %s", row_text (row, "recompute_modules"));
  setting->zero = 1;
  setting->reduce = PS_REDUCE_OVERLAPPED;
  setting->cuda_graphs = read_graphs (row);
  setting->dispatcher = read_dispatcher (row);
  row->schedule = setting->n_chunks == 1       ? "1f1b"
                  : !is_on (row, "ep_overlap") ? "interleaved"
                  : is_on (row, "delay_wgrad") ? "interleaved-overlap-w"
                                               : "interleaved-overlap";
  row->cluster = row_gpu_cluster (gpu);
  row->class = g_strdup_printf ("%s, %s, %s", gpu, format, row->model->experts.count > 0 ? "experts" : "dense");
  row->series = g_strdup_printf ("%s on %s GPUs of %s in %s, %u microbatches", model, row_text (row, "gpus"), gpu,
                                 format, setting->n_microbatches);
  return NULL;
}

/* Settings of a recipe of the same parallelism, microbatch and batch; others are the nearest recipe's. */
static char *read_recipe (Row *row)
{
  g_auto (GStrv) model = g_strsplit (row_text (row, "model"), " (", 2);
  const char *system = row_text (row, "system");
  char *reason = read_run (row, model[0], row_text (row, "compute_recipe"),
                           system + (g_str_has_prefix (system, "DGX-") ? strlen ("DGX-") : 0));

  if (reason != NULL)
    return reason;
  if (!g_str_equal (row_text (row, "settings_match"), "exact"))
    return g_strdup ("its settings are not known");
  if (is_contradictory (row))
    return g_strdup ("its tokens/s and TFLOP/s contradict each other");
  row->setting->reduce = is_on (row, "overlap_grad_reduce") ? PS_REDUCE_OVERLAPPED : PS_REDUCE_EXPOSED;
  row->setting->tp_comm_overlap = is_on (row, "tp_comm_overlap");
  row->setting->overlap_param_gather = is_on (row, "overlap_param_gather");
  row->measured_s = row_number (row, "step_seconds_derived");
  return NULL;
}

char *row_read_recipe (Row *row)
{
  return row_number (row, "p") < 2 ? g_strdup ("no pipeline") : read_recipe (row);
}

char *row_read_one_stage (Row *row)
{
  if (row_number (row, "p") > 1 || is_on (row, "fsdp"))
    return g_strdup (is_on (row, "fsdp") ? "Megatron's FSDP" : "a pipeline");
  char *reason = read_recipe (row);

  g_clear_pointer (&row->class, g_free);
  return reason;
}

/* NeMo and MLPerf overlap what they can. Their experts' GPUs share few tensors. */
char *row_read_further (Row *row)
{
  char *reason = row_number (row, "p") < 2
                     ? g_strdup ("no pipeline")
                     : read_run (row, row_text (row, "model"), row_text (row, "precision"), row_text (row, "system"));

  if (reason != NULL)
    return reason;
  row->setting->tp_comm_overlap = row->model->experts.count == 0 && row->model->precision != PS_PRECISION_NVFP4;
  row->setting->overlap_param_gather = TRUE;
  row->measured_s = row_number (row, "step_seconds");
  row->routes = row->model->experts.count > 0 && !is_on (row, "force_load_balancing");
  /* That module saves nothing with it. */
  row->model->flash_attention &= row->setting->recompute != PS_RECOMPUTE_CORE_ATTN;
  g_clear_pointer (&row->class, g_free);
  /* Megatron Bridge logs PyTorch's max_memory_allocated, and its log is the last GPU's (training/state.py). */
  row->measured_bytes = row_number (row, "peak_memory_bytes");
  row->counts_tensors = row->is_last = TRUE;
  return NULL;
}
