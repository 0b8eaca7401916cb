/* recipes.c - reads NVIDIA's published runs of Megatron Bridge and the settings of their recipes. */
#include "rows.h"

#include <string.h>

const char *const recipe_keys[]
    = { "container", "task", "model", "system", "precision",       "variant",      "gpus",     "t", "p",
        "v",         "cp",   "ep",    "fsdp",   "microbatch_size", "global_batch", "sequence", NULL };

/* The number format by compute_recipe: "fp8 per tensor, current scaling", "fp8 blockwise 128", "mxfp8". */
static gboolean set_format (Row *row)
{
  g_auto (GStrv) words = g_strsplit_set (row_text (row, "compute_recipe"), " ", 3);
  gboolean in_blocks = g_strv_contains ((const char *const *)words, "blockwise");

  return ps_precision_parse ("recipe", in_blocks ? "fp8-block" : words[0], &row->model->precision, NULL);
}

/* The layout string says v, too: one table states another number than its layout has. */
static void set_cut (Row *row)
{
  PsSetting *setting = row->setting;
  const char *layout = row_text (row, "layout");
  g_auto (GStrv) chunks = g_strsplit (row_text (row, "chunk_layers"), " ", -1);

  g_free (setting->layout);
  setting->n_chunks = MAX (g_strv_length (chunks) / setting->n_devices, 1);
  if (*layout)
    setting->layout = g_strdup (layout);
  else
    setting->layout = g_strdup (row_number (row, "account_for_embedding") > 0 ? "even:embedding:loss" : "even");
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

/* Settings of a recipe of the same parallelism, microbatch and batch; others are the nearest recipe's. */
char *row_read_recipe (Row *row)
{
  g_auto (GStrv) model = g_strsplit (row_text (row, "model"), " (", 2);
  const char *gpu = row_text (row, "system");
  PsSetting *setting = row->setting;

  row_set_layout (row);
  if (row_number (row, "p") < 2)
    return g_strdup ("no pipeline");
  if (!g_str_equal (row_text (row, "settings_match"), "exact"))
    return g_strdup ("its settings are not known");
  if (!row_load_model (row, model[0], 0))
    return g_strdup_printf ("model %s", model[0]);
  if (!set_format (row))
    return g_strdup_printf ("format %s", row_text (row, "compute_recipe"));
  const char *format = ps_precision_name (row->model->precision);
  row->model->framework = PS_FRAMEWORK_MEGATRON;
  row->model->mtp = row_count (row, "mtp") * is_on (row, "mtp");
  row->model->experts.capacity = row_number (row, "token_capacity_factor");
  set_cut (row);
  if (is_contradictory (row))
    return g_strdup ("its tokens/s and TFLOP/s contradict each other");
  setting->zero = 1;
  setting->reduce = is_on (row, "overlap_grad_reduce") ? PS_REDUCE_OVERLAPPED : PS_REDUCE_EXPOSED;
  setting->cuda_graphs = is_on (row, "cuda_graph_active");
  row->schedule = setting->n_chunks == 1 ? "1f1b" : is_on (row, "ep_overlap") ? "interleaved-overlap" : "interleaved";
  gpu += g_str_has_prefix (gpu, "DGX-") ? strlen ("DGX-") : 0;
  row->cluster = row_gpu_cluster (gpu);
  row->measured_s = row_number (row, "step_seconds_derived");
  row->class = g_strdup_printf ("%s, %s, %s", gpu, format, row->model->experts.count > 0 ? "experts" : "dense");
  row->series = g_strdup_printf ("%s on %s GPUs of %s in %s, batch %s", model[0], row_text (row, "gpus"), gpu, format,
                                 row_text (row, "global_batch"));
  return NULL;
}
