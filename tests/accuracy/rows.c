/* rows.c - reads the rows of CSV files. */
#include "rows.h"

#include <string.h>

/* Columns */

const char *row_text (const Row *row, const char *column)
{
  for (guint i = 0; row->header[i] != NULL && row->cells[i] != NULL; i++)
    if (g_str_equal (row->header[i], column))
      return row->cells[i];
  return "";
}

double row_number (const Row *row, const char *column)
{
  return g_ascii_strtod (row_text (row, column), NULL);
}

guint row_count (const Row *row, const char *column)
{
  return (guint)MAX (row_number (row, column), 1);
}

GStrv row_split (const char *line)
{
  GPtrArray *cells = g_ptr_array_new ();
  GString *cell = g_string_new (NULL);
  gboolean quoted = FALSE;

  for (const char *c = line;; c++)
    if (*c == '"')
      quoted = !quoted;
    else if (*c == '\0' || (*c == ',' && !quoted)) {
      g_ptr_array_add (cells, g_strdup (cell->str));
      g_string_truncate (cell, 0);
      if (*c == '\0')
        break;
    } else if (*c != '\r')
      g_string_append_c (cell, *c);
  g_string_free (cell, TRUE);
  g_ptr_array_add (cells, NULL);
  return (GStrv)g_ptr_array_free (cells, FALSE);
}

/* Models and layouts */

static PsModel *gpt_model (const Row *row, guint layers, guint hidden, guint heads, guint vocabulary)
{
  PsModel *model = g_new0 (PsModel, 1);

  *model = (PsModel){ .name = g_strdup (row->name),
                      .layers = layers,
                      .hidden = hidden,
                      .heads = heads,
                      .kv_heads = heads,
                      .sequence = row_count (row, "sequence"),
                      .feed_forward = 4 * hidden,
                      .vocabulary = vocabulary,
                      .microbatch_size = row_count (row, "microbatch_size"),
                      .precision = PS_PRECISION_FP16,
                      .mlp = PS_MLP_GELU };
  return model;
}

/* Layers that p does not divide: the last stages have fewer. */
static char *even_layout (guint layers, guint p)
{
  guint each = (layers + p - 1) / p, full = layers / each;

  if (layers % p == 0 || p - full != 1)
    return g_strdup ("even");
  return g_strdup_printf ("Et*%u|(t*%u|)*%ut*%uL", each, each, full - 1, layers - full * each);
}

void row_set_layout (Row *row)
{
  PsSetting *setting = row->setting;

  setting->n_devices = row_count (row, "p");
  setting->n_chunks = row_count (row, "v");
  setting->n_tensor = row_count (row, "t");
  setting->n_replicas = row_count (row, "d");
  setting->n_context = row_count (row, "cp");
  setting->n_experts = row_count (row, "ep");
  setting->n_microbatches = row_count (row, "m");
  setting->replicas_adjacent = TRUE;
  setting->zero = 0;
  setting->reduce = PS_REDUCE_EXPOSED;
  setting->layout = even_layout (row_count (row, "layers"), setting->n_devices);
  row->schedule = setting->n_chunks > 1 ? "interleaved" : "1f1b";
  row->name
      = g_strdup_printf ("t=%u p=%u v=%u d=%u b=%u m=%u", setting->n_tensor, setting->n_devices, setting->n_chunks,
                         setting->n_replicas, row_count (row, "microbatch_size"), setting->n_microbatches);
}

static char *read_vtrain (Row *row)
{
  row_set_layout (row);
  row->model = gpt_model (row, row_count (row, "layers"), row_count (row, "hidden"), row_count (row, "heads"),
                          row_count (row, "vocabulary"));
  row->model->whole_sequences = TRUE;
  row->measured_s = row_number (row, "iteration_ms") / 1e3;
  row->setting->recompute = PS_RECOMPUTE_FULL;
  row->series = g_strdup_printf ("%u layers of %u on %s GPUs, batch %s", row->model->layers, row->model->hidden,
                                 row_text (row, "gpus"), row_text (row, "global_batch"));
  return NULL;
}

/* The column says full recomputation, as do the configurations of that repository. The seconds say none: doubling b
 * from 4 to 8 adds 0.76 and 1.88 ms to a layer of 1024 and 2048, which are 3 F at 0.75 of the peak and their bytes; 4 F
 * would need 0.95 of it. */
static char *read_vtrain_single (Row *row)
{
  char *reason = read_vtrain (row);

  row->setting->recompute = PS_RECOMPUTE_NONE;
  return reason;
}

/* Seconds times TFLOP/s are the operations of 4 F (Narayanan et al., arXiv 2104.04473, equation 3) of the batch. */
static gboolean contradicts (const Row *row)
{
  const PsModel *model = row->model;
  double h = model->hidden, s = model->sequence, V = model->vocabulary, l = model->layers;
  double flops = 96 * row_number (row, "global_batch") * s * l * h * h * (1 + s / (6 * h) + V / (16 * l * h));
  double stated
      = row_number (row, "seconds_per_iteration") * row_number (row, "tflops_gpu") * 1e12 * row_number (row, "gpus");

  return stated > 0 && (stated < flops / 1.3 || stated > flops * 1.3);
}

static gboolean setting_is (const Row *row, guint p, guint b)
{
  return row_count (row, "p") == p && row_count (row, "microbatch_size") == b;
}

static char *read_bloom (Row *row)
{
  guint hidden = row_count (row, "hidden");
  /* Where a section does not state heads, its 14400 wide layers had 96; 128 wide heads are assumed of the others. */
  guint heads = *row_text (row, "heads") ? row_count (row, "heads") : hidden % 1792 == 0 ? hidden / 128 : 96;

  row_set_layout (row);
  if (hidden % heads != 0)
    return g_strdup ("heads are not stated");
  row->model = gpt_model (row, row_count (row, "layers"), hidden, heads, 250880);
  row->model->whole_sequences = TRUE;
  row->model->tied = TRUE;
  row->model->framework = PS_FRAMEWORK_DEEPSPEED;
  if (g_str_has_prefix (row_text (row, "precision"), "bf16"))
    row->model->precision = PS_PRECISION_BF16;
  if (strstr (row_text (row, "precision"), "fp32 gradients") != NULL)
    row->model->state.main_grads = PS_DTYPE_FP32;
  row->setting->recompute = PS_RECOMPUTE_FULL;
  row->setting->zero = row_number (row, "zero_stage") > 0 && row->setting->n_replicas > 1;
  /* One table has the two figures of its first row exchanged. */
  row->measured_s = row_number (row, row_number (row, "line") == 669 ? "tflops_gpu" : "seconds_per_iteration");
  row->measured_bytes = row_number (row, "peak_memory_gb") * 1000 * (1 << 20); /* Megatron prints MiB */
  if (row_number (row, "layers") == 84 && hidden == 13824 && setting_is (row, 6, 2))
    row->memory_reason = "its 65 GB contradict the 59 GB of the same stages with twice the microbatch";
  row->out_of_memory = g_str_equal (row_text (row, "oom"), "yes");
  if (contradicts (row))
    return g_strdup ("its seconds and TFLOP/s contradict each other");
  row->series = g_strdup_printf ("%u layers of %u, %u heads, batch %s", row->model->layers, hidden, heads,
                                 row_text (row, "global_batch"));
  return NULL;
}

/* The name of a description that ships with pipesim. */
static const char *shipped_name (const char *name)
{
  static const char *const names[][2] = { { "llama3-70b", "llama-3-70b" },
                                          { "llama3-405b", "llama-3-405b" },
                                          { "llama31_405b", "llama-3-405b" },
                                          { "gpt3", "gpt-3-175b" },
                                          { "deepseekv2", "deepseek-v2" },
                                          { "deepseekv3", "deepseek-v3" },
                                          { "LLAMA3_70B", "llama-3-70b" },
                                          { "LLAMA3.1_70B", "llama-3-70b" },
                                          { "LLAMA3.1_405B", "llama-3-405b" },
                                          { "DeepSeekV3", "deepseek-v3" },
                                          { "Qwen3_235B_a22B", "qwen3-235b-a22b" },
                                          { "Qwen3_30B_a3B", "qwen3-30b-a3b" },
                                          { "Qwen3_Next_80B_a3B", "qwen3-next-80b-a3b" },
                                          { "Kimi_K2", "kimi-k2" },
                                          { "GPT OSS 120B", "gpt-oss-120b" },
                                          { "Nemotron_3_Nano", "nemotron-3-nano-30b-a3b" },
                                          { "Llama4_Maverick_400B", "llama-4-maverick" },
                                          { "Nemotron4_340B", "nemotron-4-340b" },
                                          { "Grok1_314B", "grok-1" } };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (names[i][0], name))
      return names[i][1];
  return name;
}

gboolean row_load_model (Row *row, const char *name, guint layers)
{
  row->model = ps_model_load (shipped_name (name), NULL);
  if (row->model == NULL)
    return FALSE;
  row->model->layers = layers > 0 ? layers : row->model->layers;
  row->model->sequence = row_count (row, "sequence");
  row->model->microbatch_size = row_count (row, "microbatch_size");
  return TRUE;
}

/* As the configurations beside the runs: one dense layer, no multi-token prediction, experts filled to the mean, and
 * 405B with the 16 heads of keys and values of its first release. */
static char *read_simumax (Row *row)
{
  row_set_layout (row);
  if (!row_load_model (row, row_text (row, "model"), row_count (row, "layers")))
    return g_strdup_printf ("model %s", row_text (row, "model"));
  row->model->framework = PS_FRAMEWORK_MEGATRON;
  row->model->mtp = 0;
  row->model->experts.dense_layers = MIN (row->model->experts.dense_layers, 1);
  row->model->experts.capacity = row->model->experts.count > 0 ? 1 : 0;
  if (g_str_equal (row_text (row, "model"), "llama3-405b"))
    row->model->kv_heads = 16;
  row->setting->zero = row->setting->n_replicas * row->setting->n_context > 1;
  row->measured_s = row_number (row, "measured_ms") / 1e3;
  row->measured_bytes = row_number (row, "measured_alloc_max_rank_mb") * 1024 * 1024;
  row->counts_tensors = TRUE;
  row->series = g_strdup_printf ("%s, %s layers, m = %s", row_text (row, "model"), row_text (row, "layers"),
                                 row_text (row, "m"));
  return NULL;
}

const char *row_gpu_cluster (const char *gpu)
{
  static const char *const names[][2]
      = { { "A100", "a100-80gb" },  { "H100", "h100-80gb" },    { "H200", "h200-141gb" },  { "B200", "b200-180gb" },
          { "B300", "b300-270gb" }, { "GB200", "gb200-186gb" }, { "GB300", "gb300-279gb" } };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (names[i][0], gpu))
      return names[i][1];
  return gpu;
}

/* FP8 or NVFP4 in the layers, the optimizer spread over all replicas. */
static char *read_mlperf (Row *row)
{
  const char *benchmark = row_text (row, "benchmark");

  row_set_layout (row);
  if (*row_text (row, "duplicate_of"))
    return g_strdup ("the same log as another row");
  if (!row_load_model (row, benchmark, 0))
    return g_strdup_printf ("model %s", benchmark);
  if (g_str_equal (benchmark, "llama31_405b"))
    row->model->vocabulary = 32000;
  row->model->precision = g_str_equal (row_text (row, "precision"), "nvfp4") ? PS_PRECISION_NVFP4 : PS_PRECISION_FP8;
  if (g_str_equal (row_text (row, "asym_pp_embed"), "True")) {
    g_free (row->setting->layout);
    row->setting->layout = g_strdup ("even:embedding:loss");
  }
  row->setting->zero = TRUE;
  row->setting->cuda_graphs
      = g_str_equal (row_text (row, "cuda_graphs"), "yes") ? PS_CUDA_GRAPHS_FULL : PS_CUDA_GRAPHS_NONE;
  row->setting->tp_comm_overlap = TRUE;
  row->cluster = row_gpu_cluster (row_text (row, "gpu"));
  row->setting->reduce = PS_REDUCE_OVERLAPPED;
  row->measured_s = row_number (row, "step_seconds_median");
  row->series = g_strdup_printf ("%s in %s on %s, t=%s p=%s v=%s b=%s", benchmark, row_text (row, "precision"),
                                 row_text (row, "gpu"), row_text (row, "t"), row_text (row, "p"), row_text (row, "v"),
                                 row_text (row, "microbatch_size"));
  return NULL;
}

/* Six schedules side by side. PyTorch gives each pair of GPUs one queue. Neither m nor b is stated: with 32 and 1 the
 * interleaved schedule gains on 1F1B what it is said to. */
static char *read_primus (Row *row)
{
  static const char *const names[][2]
      = { { "1f1b", "1f1b" }, { "interleaved", "interleaved" }, { "zero bubble", "zb-h1" },
          { "zb-v", "zb-v" }, { "v-half", "v-half" },           { "v-min", "v-min" } };
  const char *text = row_text (row, "schedule");

  if (!g_str_equal (row_text (row, "model"), "llama2-7b"))
    return g_strdup ("m is not stated");
  row_set_layout (row);
  row->schedule = NULL;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_has_prefix (text, names[i][0]))
      row->schedule = names[i][1];
  if (row->schedule == NULL)
    return g_strdup_printf ("schedule %s", text);
  if (g_str_equal (row->schedule, "zb-h1"))
    row->setting->n_chunks = 1;
  row_load_model (row, "llama-3-8b", 32);
  row->model->kv_heads = row->model->heads;
  row->model->feed_forward = 11008;
  row->model->vocabulary = 32000;
  row->model->sequence = 4096;
  row->setting->n_microbatches = 32;
  row->setting->comm = PS_CHANNEL_PAIR;
  row->measured_s = 32 * 4096 / (row_number (row, "tokens_per_s_gpu") * row_number (row, "gpus"));
  row->series = g_strdup_printf ("llama2-7b on %s", row_text (row, "gpu"));
  return NULL;
}

/* One all-reduce over GPUs of a node, the mean of in place and out of place. */
static char *read_allreduce (Row *row)
{
  const char *gpu = row_text (row, "gpu");

  row->n_ring = row_count (row, "n_gpus");
  row->ring_bytes = (gint64)row_number (row, "bytes");
  row->name = g_strdup_printf ("%u GPUs, %" G_GINT64_FORMAT " bytes", row->n_ring, row->ring_bytes);
  row->series = g_strdup_printf ("%s, %u GPUs", gpu, row->n_ring);
  row->schedule = "all-reduce";
  row->setting->n_devices = row->setting->n_chunks = row->setting->n_microbatches = 1;
  row->measured_s = (row_number (row, "out_of_place_ns") + row_number (row, "in_place_ns")) / 2e9;
  return g_str_equal (gpu, "a100") ? NULL : g_strdup ("the machine is not described");
}

DataSet data_sets[] = {
  { .file = "vtrain_single_node",
    .title = "vTrain, small GPTs on one node of A100",
    .cluster = "a100-80gb",
    .kernel_ns = 36000,
    .collective_ns = 140000,
    .read = read_vtrain_single },
  { .file = "vtrain_multi_node",
    .title = "vTrain, GPTs on 64 to 512 A100",
    .cluster = "a100-80gb",
    .network = 12.5e9,
    .split_ring = 25e9,
    .read = read_vtrain },
  { .file = "bloom",
    .title = "BLOOM on 8 to 384 A100",
    .cluster = "a100-80gb",
    .network = 0.8e9,
    .collective_ns = 1200000,
    .read = read_bloom },
  { .file = "simumax", .title = "SimuMax's runs on 8 B200", .cluster = "b200-180gb", .read = read_simumax },
  { .file = "mlperf",
    .title = "MLPerf, GPT-3 and Llama 3.1 on 448 to 11,616 GPUs",
    .cluster = "h100-80gb",
    .read = read_mlperf,
    .from_one = TRUE },
  { .file = "primus",
    .title = "Primus, six schedules on 8 MI300X",
    .cluster = "mi300x-192gb",
    .read = read_primus,
    .from_one = TRUE,
    .ratios = TRUE },
  { .file = "deepseek_v3_profile_ops",
    .title = "DeepSeek-V3, one overlapped pair on H800, from its parts",
    .cluster = "h100-80gb",
    .read = row_read_pair,
    .whole = TRUE },
  { .file = "vtrain_allreduce",
    .title = "vTrain, all-reduces by NCCL within a node of A100",
    .cluster = "a100-80gb",
    .read = read_allreduce },
  { .file = "nvidia_nemo_megatron_bridge",
    .title = "Megatron Bridge, NVIDIA's recipes",
    .cluster = "h100-80gb",
    .read = row_read_recipe,
    .joined = "nemo_recipes",
    .keys = recipe_keys },
  { .file = "nvidia_nemo_megatron",
    .title = "Megatron Bridge, p = 1",
    .cluster = "h100-80gb",
    .read = row_read_one_stage,
    .unfitted = TRUE,
    .joined = "nemo_recipes",
    .keys = recipe_keys },
  { .file = "more_runs",
    .title = "NeMo's benchmarks and MLPerf v6.0",
    .cluster = "h100-80gb",
    .read = row_read_further,
    .unfitted = TRUE },
};
const guint n_data_sets = G_N_ELEMENTS (data_sets);

/* Files */

static void row_free (gpointer data)
{
  Row *row = data;

  g_strfreev (row->header);
  g_strfreev (row->cells);
  g_free (row->name);
  g_free (row->series);
  g_free (row->class);
  g_free (row->reason);
  ps_model_free (row->model);
  ps_setting_free (row->setting);
  ps_program_free (row->program);
  if (row->pair != NULL)
    g_array_unref (row->pair);
  g_free (row);
}

static void add_row (GPtrArray *rows, const DataSet *set, GStrv header, GStrv cells)
{
  Row *row = g_new0 (Row, 1);

  row->set = set;
  row->header = header;
  row->cells = cells;
  row->setting = ps_setting_new ();
  row->reason = set->read (row);
  g_ptr_array_add (rows, row);
}

static GStrv read_lines (const char *path, GError **error)
{
  g_autofree char *text = NULL;

  return g_file_get_contents (path, &text, NULL, error) ? g_strsplit (text, "\n", -1) : NULL;
}

static GStrv append (GStrv first, const GStrv second)
{
  g_autoptr (GStrvBuilder) both = g_strv_builder_new ();

  g_strv_builder_addv (both, (const char **)first);
  g_strv_builder_addv (both, (const char **)second);
  g_strfreev (first);
  return g_strv_builder_end (both);
}

static gboolean have_same_keys (const Row *a, const Row *b, const char *const *keys)
{
  for (guint i = 0; keys[i] != NULL; i++)
    if (!g_str_equal (row_text (a, keys[i]), row_text (b, keys[i])))
      return FALSE;
  return TRUE;
}

/* Appends the columns of the first line that has the same keys. */
static void join (Row *row, const DataSet *set, const GStrv lines)
{
  g_auto (GStrv) header = row_split (lines[0]);

  for (guint i = 1; lines[i] != NULL && *lines[i] != '\0'; i++) {
    g_auto (GStrv) cells = row_split (lines[i]);
    const Row other = { .header = header, .cells = cells };

    if (have_same_keys (row, &other, set->keys)) {
      row->header = append (row->header, header);
      row->cells = append (row->cells, cells);
      return;
    }
  }
}

static gboolean read_file (GPtrArray *rows, const DataSet *set, const char *folder, const char *name, GError **error)
{
  g_autofree char *path = g_build_filename (folder, name, NULL), *other = NULL;
  g_auto (GStrv) lines = read_lines (path, error), joined = NULL;

  if (set->joined != NULL) {
    g_autofree char *other_name = g_strconcat (set->joined, ".csv", NULL);

    other = g_build_filename (folder, other_name, NULL);
    joined = read_lines (other, error);
  }
  if (lines == NULL || (set->joined != NULL && joined == NULL))
    return FALSE;
  if (set->whole)
    add_row (rows, set, row_split (lines[0]), g_strdupv (lines));
  for (guint i = 1; !set->whole && lines[0] != NULL && lines[i] != NULL && *lines[i] != '\0'; i++) {
    Row line = { .header = row_split (lines[0]), .cells = row_split (lines[i]) };

    if (joined != NULL)
      join (&line, set, joined);
    add_row (rows, set, line.header, line.cells);
  }
  return TRUE;
}

static int compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *)a, *(const char *const *)b);
}

static GPtrArray *list_files (const char *folder, GError **error)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, error);
  const char *name;

  if (dir == NULL)
    return NULL;
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);
  while ((name = g_dir_read_name (dir)) != NULL)
    if (g_str_has_suffix (name, ".csv"))
      g_ptr_array_add (names, g_strdup (name));
  g_ptr_array_sort (names, compare_names);
  return names;
}

GPtrArray *rows_read (const char *folder, GPtrArray *others, GError **error)
{
  g_autoptr (GPtrArray) names = list_files (folder, error), rows = g_ptr_array_new_with_free_func (row_free);

  if (names == NULL)
    return NULL;
  for (guint s = 0; s <= n_data_sets; s++)
    for (guint i = 0; i < names->len; i++) {
      const char *name = names->pdata[i];
      gboolean known = FALSE;

      for (guint k = 0; k < n_data_sets; k++)
        known = known || g_str_has_prefix (name, data_sets[k].file)
                || (data_sets[k].joined != NULL && g_str_has_prefix (name, data_sets[k].joined));
      if (s == n_data_sets && !known)
        g_ptr_array_add (others, g_strdup (name));
      if (s < n_data_sets && g_str_has_prefix (name, data_sets[s].file)
          && !read_file (rows, &data_sets[s], folder, name, error))
        return NULL;
    }
  return g_steal_pointer (&rows);
}
