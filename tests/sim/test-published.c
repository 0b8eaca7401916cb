/* test-published.c - what published runs on A100 80GB took, against costs modelled from the shipped figures of that GPU
 * (work.h). The figures were fitted to other runs (docs/accuracy.md), none of which is here. --verbose prints the
 * table. */
#include "models-rig.h"
#include "folder-rig.h"

#include <pipesim/setting.h>
#include <pipesim/work.h>

#include <math.h>

/* Times of ops in milliseconds. Zero bubble (arXiv 2401.10241, tables 3 and 9, and the settings of table 8): the mean
 * of T_F, T_B and T_W over its numbers of microbatches, of a stage of 3 or 2 layers. Vocabulary parallelism (arXiv
 * 2411.05288, its published artifact, baseline): 4 layers of the devices in the middle, and by how much the last
 * device's times exceed theirs, which is the head; its memory shows flash attention. Korthikanti et al. (arXiv
 * 2205.05198, table 4): a layer of the 22B model on 8 GPUs with sequence parallelism, all-reduces included. */
typedef struct {
  const char *what;
  guint hidden, heads, sequence, microbatch_size, vocabulary;
  gboolean flash;
  guint tensor;
  guint layers; /* 0: the head alone */
  PsOpKind kind;
  double measured;
} PublishedOp;

#define ZERO_BUBBLE_1B "zero bubble, 1.5B", 2304, 24, 1024, 6, 32000, FALSE, 1, 3
#define ZERO_BUBBLE_28B "zero bubble, 28.3B", 6144, 48, 1024, 1, 32000, FALSE, 1, 2
#define ZERO_BUBBLE_28B_2 "zero bubble, 28.3B, b = 2", 6144, 48, 1024, 2, 32000, FALSE, 1, 2
#define VOCABULARY(s, V, layers) "vocabulary parallelism, s = " #s ", V = " #V, 3072, 24, s, 1, V, TRUE, 1, layers
#define RECOMPUTATION_22B "activation recomputation, 22B", 6144, 64, 2048, 4, 51200, FALSE, 8, 1

static const PublishedOp published_ops[] = {
  { ZERO_BUBBLE_1B, PS_OP_F, 18.527 },
  { ZERO_BUBBLE_1B, PS_OP_B, 18.090 },
  { ZERO_BUBBLE_1B, PS_OP_W, 9.330 },
  { ZERO_BUBBLE_28B, PS_OP_F, 10.410 },
  { ZERO_BUBBLE_28B, PS_OP_B, 10.220 },
  { ZERO_BUBBLE_28B, PS_OP_W, 7.705 },
  { ZERO_BUBBLE_28B_2, PS_OP_F, 18.916 },
  { ZERO_BUBBLE_28B_2, PS_OP_B, 19.424 },
  { ZERO_BUBBLE_28B_2, PS_OP_W, 14.525 },
  { VOCABULARY (2048, 32000, 4), PS_OP_F, 10.664 },
  { VOCABULARY (2048, 32000, 4), PS_OP_BW, 21.325 },
  { VOCABULARY (4096, 32000, 4), PS_OP_F, 23.840 },
  { VOCABULARY (4096, 32000, 4), PS_OP_BW, 46.370 },
  { VOCABULARY (2048, 32000, 0), PS_OP_F, 3.940 },
  { VOCABULARY (2048, 32000, 0), PS_OP_BW, 4.672 },
  { VOCABULARY (2048, 256000, 0), PS_OP_F, 26.322 },
  { VOCABULARY (2048, 256000, 0), PS_OP_BW, 31.421 },
  { VOCABULARY (4096, 32000, 0), PS_OP_F, 7.773 },
  { VOCABULARY (4096, 32000, 0), PS_OP_BW, 10.096 },
  { VOCABULARY (4096, 256000, 0), PS_OP_F, 53.003 },
  { VOCABULARY (4096, 256000, 0), PS_OP_BW, 61.390 },
  { RECOMPUTATION_22B, PS_OP_F, 7.2 },
  { RECOMPUTATION_22B, PS_OP_BW, 11.8 },
};

static double modelled_ms (const PublishedOp *row, const PsCluster *cluster)
{
  const PsModel model = { .layers = 96,
                          .hidden = row->hidden,
                          .heads = row->heads,
                          .kv_heads = row->heads,
                          .sequence = row->sequence,
                          .feed_forward = 4 * row->hidden,
                          .vocabulary = row->vocabulary,
                          .microbatch_size = row->microbatch_size,
                          .precision = PS_PRECISION_FP16,
                          .flash_attention = row->flash };
  const PsStageShape shape = { .n_layers = row->layers, .head = row->layers == 0 };
  PsCluster group = *cluster;
  PsWork work;

  g_assert_true (ps_cluster_group (&group, row->tensor, NULL));
  ps_work_stage (&model, &shape, row->kind, row->tensor, &work);
  return (double)ps_work_ns (&work, &group, ps_tensor_stage_ns (&model, &shape, &group, PS_OP_F)) / 1e6;
}

/* Narrow heads come out too fast, backwards of wide layers too slow. */
static void test_ops (void)
{
  g_autoptr (PsCluster) a100 = ps_cluster_load ("a100-80gb", NULL);
  double sum = 0;

  for (guint i = 0; i < G_N_ELEMENTS (published_ops); i++) {
    const PublishedOp *row = &published_ops[i];
    double modelled = modelled_ms (row, a100), error = modelled / row->measured - 1;

    g_test_message ("%s, %s of %s: %.2f ms, measured %.2f: %+.1f %%", row->what, ps_op_kind_name (row->kind),
                    row->layers > 0 ? "layers" : "head", modelled, row->measured, 100 * error);
    g_assert_cmpfloat (error, >, -0.21);
    g_assert_cmpfloat (error, <, 0.25);
    sum += ABS (error);
  }
  g_test_message ("mean of the errors without sign: %.1f %%", 100 * sum / G_N_ELEMENTS (published_ops));
  g_assert_cmpfloat (sum / G_N_ELEMENTS (published_ops), <, 0.12);
}

/* Nodes of eight GPUs with a 200 Gb/s port each. */
static PsCluster *a100_nodes (void)
{
  PsCluster *cluster = ps_cluster_load ("a100-80gb", NULL);

  cluster->nodes = 384;
  cluster->network_latency_ns = 10000;
  cluster->network_bandwidth = 25e9;
  return cluster;
}

/* GPTs of 2048 tokens and a vocabulary of 51200. */
typedef struct {
  guint heads, hidden, layers, t, p, v, n_gpus, batch, microbatch_size;
  PsRecompute recompute;
  double measured;
} PublishedStep;

static char *write_file (const char *name, const char *text)
{
  char *path = path_of (name);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  return path;
}

/* Megatron-LM of that time waited for each message on the computing stream (p2p_communication.py synchronised after
 * batch_isend_irecv): it takes time of its sender and its receiver, as op_ns and post_ns do. All stages are on nodes of
 * their own. */
static void expose_messages (PsCosts *costs)
{
  costs->post_ns = costs->n_stages > 1 ? costs->transfer_ns[ps_transfer_forward (costs, 0)] : 0;
  for (guint i = 1; i <= 2 * costs->n_stages; i++)
    costs->transfer_ns[i] = 0;
}

/* What recomputes everything was measured before sequence parallelism. */
static double predict_seconds (const PublishedStep *row)
{
  g_autofree char *text = g_strdup_printf (
      "[model]\nlayers = %u\nhidden = %u\nheads = %u\nsequence = 2048\nvocabulary = 51200\nmicrobatch_size = %u\n"
      "precision = fp16\nmlp = gelu\nflash_attention = false\nsequence_parallel = %s\n",
      row->layers, row->hidden, row->heads, row->microbatch_size,
      row->recompute == PS_RECOMPUTE_FULL ? "false" : "true");
  g_autoptr (PsCluster) cluster = a100_nodes ();
  g_autoptr (PsSetting) setting = ps_setting_new ();
  g_autoptr (GError) error = NULL;

  setting->model = write_file ("m.ini", text);
  setting->cluster = g_strdup ("a100-80gb");
  setting->known_cluster = cluster;
  setting->n_devices = row->p;
  setting->n_tensor = row->t;
  setting->n_chunks = row->v;
  setting->n_replicas = row->n_gpus / (row->p * row->t);
  setting->n_microbatches = row->batch / (setting->n_replicas * row->microbatch_size);
  setting->recompute = row->recompute;
  setting->layout = g_strdup ("even");
  g_autoptr (PsCosts) costs = fine (ps_setting_costs (setting, row->p, row->v, &error));
  expose_messages (costs);
  g_autoptr (PsPredictor) predictor = ps_predictor_new (setting, costs);
  g_autoptr (PsPrediction) prediction = ps_predictor_predict (predictor, row->v > 1 ? "interleaved" : "1f1b", &error);
  g_assert_no_error (error);
  return (double)prediction->metrics.iteration_ns * 1e-9;
}

/* Narayanan et al., arXiv 2104.04473, table 1, everything recomputed: TFLOP/s of a GPU. What they leave open is
 * microbatches of one sequence and the smallest v above 1 here. They count 96 B s l h^2 (1 + s / 6h + V / 16lh)
 * operations per step, recomputation included (their equation 3). */
#define FULL 1, PS_RECOMPUTE_FULL

/* For p = 1 their microbatches were surely larger than one sequence. */
static void test_throughput (void)
{
  static const PublishedStep rows[] = {
    { 24, 2304, 24, 1, 1, 1, 32, 512, FULL, 137 },        { 32, 3072, 30, 2, 1, 1, 64, 512, FULL, 138 },
    { 32, 4096, 36, 4, 1, 1, 128, 512, FULL, 142 },       { 48, 6144, 40, 8, 1, 1, 256, 1024, FULL, 135 },
    { 64, 8192, 48, 8, 2, 2, 512, 1536, FULL, 138 },      { 80, 10240, 60, 8, 4, 3, 1024, 1792, FULL, 140 },
    { 96, 12288, 80, 8, 8, 2, 1536, 2304, FULL, 148 },    { 128, 16384, 96, 8, 16, 2, 1920, 2160, FULL, 155 },
    { 128, 20480, 105, 8, 35, 3, 2520, 2520, FULL, 163 }, { 160, 25600, 128, 8, 64, 2, 3072, 3072, FULL, 163 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    double h = rows[i].hidden, l = rows[i].layers, s = 2048;
    double flops = 96 * rows[i].batch * s * l * h * h * (1 + s / (6 * h) + 51200 / (16 * l * h));
    double rate = flops / (predict_seconds (&rows[i]) * rows[i].n_gpus) / 1e12;
    double error = rate / rows[i].measured - 1;

    g_test_message ("t = %u, p = %u: %.0f TFLOP/s, measured %.0f: %+.1f %%", rows[i].t, rows[i].p, rate,
                    rows[i].measured, 100 * error);
    g_assert_cmpfloat (error, >, rows[i].p == 1 ? -0.35 : -0.15);
    g_assert_cmpfloat (error, <, 0.15);
  }
}

/* Korthikanti et al., arXiv 2205.05198, tables 3 and 5: seconds per step with everything recomputed (there without
 * sequence parallelism), and with sequence parallelism and attention alone recomputed. */
static void test_seconds (void)
{
  static const PublishedStep rows[] = {
    { 64, 6144, 48, 8, 1, 1, 8, 4, 4, PS_RECOMPUTE_FULL, 1.42 },
    { 64, 6144, 48, 8, 1, 1, 8, 4, 4, PS_RECOMPUTE_SELECTIVE, 1.10 },
    { 96, 12288, 96, 8, 8, 3, 64, 64, 1, PS_RECOMPUTE_FULL, 18.13 },
    { 96, 12288, 96, 8, 8, 3, 64, 64, 1, PS_RECOMPUTE_SELECTIVE, 13.75 },
    { 128, 20480, 105, 8, 35, 3, 280, 280, 1, PS_RECOMPUTE_FULL, 49.05 },
    { 128, 20480, 105, 8, 35, 3, 280, 280, 1, PS_RECOMPUTE_SELECTIVE, 37.83 },
    { 160, 25600, 128, 8, 64, 1, 512, 512, 1, PS_RECOMPUTE_FULL, 94.42 },
    { 160, 25600, 128, 8, 64, 1, 512, 512, 1, PS_RECOMPUTE_SELECTIVE, 71.49 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    double seconds = predict_seconds (&rows[i]), error = seconds / rows[i].measured - 1;

    g_test_message ("p = %u, %s: %.2f s, measured %.2f: %+.1f %%", rows[i].p, ps_recompute_name (rows[i].recompute),
                    seconds, rows[i].measured, 100 * error);
    g_assert_cmpfloat (error, >, -0.05);
    g_assert_cmpfloat (error, <, 0.08);
  }
}

/* Zero bubble, table 4: 1F1B without tensor parallelism or replicas; samples per GPU and second. */
static void test_pipelines (void)
{
  static const struct {
    const char *model;
    guint p, m, microbatch_size;
    double measured;
  } rows[] = { { "gpt-1.5b", 8, 24, 6, 11.8 },   { "gpt-1.5b", 8, 32, 6, 12.5 },    { "gpt-1.5b", 8, 64, 6, 13.6 },
               { "gpt-28.3b", 32, 96, 1, 0.76 }, { "gpt-28.3b", 32, 128, 1, 0.80 }, { "gpt-28.3b", 32, 256, 1, 0.88 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsCluster) cluster = a100_nodes ();
    g_autoptr (PsSetting) setting = ps_setting_new ();

    setting->model = g_strdup (rows[i].model);
    setting->cluster = g_strdup ("a100-80gb");
    setting->known_cluster = cluster;
    setting->n_devices = rows[i].p;
    setting->n_microbatches = rows[i].m;
    setting->layout = g_strdup ("even:embedding:loss"); /* section 5.1 */
    g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, "1f1b", &error));
    double seconds = (double)prediction->metrics.iteration_ns * 1e-9;
    double rate = rows[i].m * rows[i].microbatch_size / (seconds * rows[i].p);
    double deviation = rate / rows[i].measured - 1;
    g_test_message ("%s, m = %u: %.2f samples/s, measured %.2f: %+.1f %%", rows[i].model, rows[i].m, rate,
                    rows[i].measured, 100 * deviation);
    g_assert_cmpfloat (deviation, >, -0.1);
    g_assert_cmpfloat (deviation, <, 0.1);
  }
}

/* DeepSeek-V3 as published (arXiv 2412.19437): 2,048 H800, p = 16, 64 GPUs share the experts, DualPipe (section 3.2.1),
 * no tensor parallelism, ZeRO-1; batches of 15,360 sequences (section 4.2) at 180,000 GPU hours for 10^12 tokens (table
 * 1). Norms and up projections of attention are computed again, as are results of SwiGLU, whose inputs are kept in 8
 * bits; moments are in bf16, gradients and main weights in fp32, and products read weights in 8 bits alone (sections
 * 3.2.3 and 3.3). The cut, the file of the dispatcher's rates and the framework's memory are assumed: the cut is that
 * of Megatron Bridge's recipes for p = 16. The result of attention is in 12 bits there and in 16 here. */
static void test_deepseek (void)
{
  const double seconds = 180000 * 3600.0 / 2048 / (1e12 / (15360 * 4096.0));
  g_autoptr (PsSetting) setting = ps_setting_new ();

  setting->model = g_strdup ("deepseek-v3");
  setting->cluster = g_strdup ("h800-80gb");
  setting->precision = g_strdup ("fp8-block");
  setting->framework = PS_FRAMEWORK_MEGATRON;
  setting->n_devices = 16;
  setting->n_replicas = 128;
  setting->n_experts = 64;
  setting->n_microbatches = 15360 / 128;
  setting->zero = 1;
  setting->dispatcher = PS_DISPATCHER_DEEPEP;
  setting->recompute = PS_RECOMPUTE_LAYERNORM | PS_RECOMPUTE_MLA_UP_PROJ | PS_RECOMPUTE_MOE_ACT;
  setting->fp8_input_store = TRUE;
  setting->state = (PsStateFormats){ .exp_avg = PS_DTYPE_BF16, .exp_avg_sq = PS_DTYPE_BF16, .fp8_param_gather = TRUE };
  setting->layout = g_strdup ("Et*4|(t*4|)*14,tmL");
  g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, "dualpipe", &error));
  double error = (double)prediction->metrics.iteration_ns * 1e-9 / seconds - 1;
  gint64 peak = 0;

  for (guint d = 0; d < 16; d++)
    peak = MAX (peak, prediction->metrics.device[d].peak_memory_bytes);
  g_test_message ("%.2f s: %+.1f %%, %.1f GiB", seconds, 100 * error, (double)peak / (1 << 30));
  g_assert_cmpfloat (fabs (error), <, 0.07);
  g_assert_cmpfloat ((double)peak / (1 << 30), <, 79.18);
}

/* Peaks of Llama 3 70B on 32 H100 in fp8, sequences of 4096 tokens, 32 to a batch (Megatron Bridge,
 * skills/nemo-mbridge-perf-memory-tuning and -activation-recompute): PyTorch's max_memory_allocated, which the last GPU
 * logs (training/state.py there). The rank is not stated; GPUs of the first stage ran out of 80 GB. */
static void test_peaks (void)
{
  static const struct {
    guint t, p, v;
    PsRecompute recompute;
    double measured; /* 1e9 bytes */
  } rows[] = { { 4, 4, 5, PS_RECOMPUTE_NONE, 58.8 },
               { 4, 4, 10, PS_RECOMPUTE_NONE, 60.2 },
               { 4, 8, 5, PS_RECOMPUTE_NONE, 53.2 },
               { 8, 4, 5, PS_RECOMPUTE_NONE, 50.2 },
               { 4, 4, 5, PS_RECOMPUTE_MLP, 55.6 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsSetting) setting = ps_setting_new ();

    setting->model = g_strdup ("llama-3-70b");
    setting->cluster = g_strdup ("h100-80gb");
    setting->precision = g_strdup ("fp8");
    setting->framework = PS_FRAMEWORK_BRIDGE;
    setting->sequence = 4096;
    setting->n_tensor = rows[i].t;
    setting->n_devices = rows[i].p;
    setting->n_chunks = rows[i].v;
    setting->n_replicas = 32 / (rows[i].t * rows[i].p);
    setting->n_microbatches = 32 / setting->n_replicas;
    setting->recompute = rows[i].recompute;
    setting->layout = g_strdup ("even");
    g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, "interleaved", &error));
    gint64 peak = prediction->metrics.device[rows[i].p - 1].peak_memory_bytes;
    double error = (double)(peak - ps_framework_context_bytes (setting->framework)) / 1e9 / rows[i].measured - 1;
    g_test_message ("t = %u, p = %u, v = %u: %+.1f %%", rows[i].t, rows[i].p, rows[i].v, 100 * error);
    g_assert_cmpfloat (fabs (error), <, 0.1);
  }
}

/* Two rows of NVIDIA's table for Llama 3 70B on 64 GB300 that cannot have run as they are printed: no recipe has these
 * sizes. */
static void test_impossible (void)
{
  static const struct {
    const char *precision;
    guint p, microbatch_size;
  } rows[] = { { "mxfp8", 4, 2 }, { "nvfp4", 1, 1 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    g_autoptr (PsSetting) setting = ps_setting_new ();
    guint replicas = 64 / rows[i].p;

    setting->model = g_strdup ("llama-3-70b");
    setting->cluster = g_strdup ("gb300-279gb");
    setting->precision = g_strdup (rows[i].precision);
    setting->framework = PS_FRAMEWORK_BRIDGE;
    setting->n_devices = rows[i].p;
    setting->n_replicas = replicas;
    setting->microbatch_size = rows[i].microbatch_size;
    setting->n_microbatches = 256 / (replicas * rows[i].microbatch_size);
    setting->layout = g_strdup ("even");
    g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, "1f1b", &error));
    g_autoptr (PsCluster) cluster = fine (ps_cluster_load ("gb300-279gb", &error));
    g_assert_cmpint (prediction->metrics.device[0].peak_memory_bytes, >, cluster->memory_bytes);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  go_to_models ();
  g_test_add_func ("/published/ops", test_ops);
  g_test_add_func ("/published/throughput", test_throughput);
  g_test_add_func ("/published/seconds", test_seconds);
  g_test_add_func ("/published/pipelines", test_pipelines);
  g_test_add_func ("/published/deepseek-v3", test_deepseek);
  g_test_add_func ("/published/peaks", test_peaks);
  g_test_add_func ("/published/impossible", test_impossible);
  return run_in_folder ();
}
