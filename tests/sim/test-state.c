/* Tests of what a GPU holds throughout: number formats of weights, gradients and optimizer state; Muon's owners. */
#include "model-costs.h"
#include "error-rig.h"

#include <pipesim/setting.h>
#include <pipesim/work.h>

/* A layer of h = 32 and f = 128: matrices h 3h, h h, h 2f, f h, all multiplied in the model's format; an embedding and
 * a head of V = 100, and norms. */
#define PRODUCTS (32 * (4 * 32 + 3 * 128))
#define VECTORS (2 * 32)

static PsModel small (PsPrecision precision, PsFramework framework)
{
  return (PsModel){ .name = (char *)"small",
                    .layers = 1,
                    .hidden = 32,
                    .heads = 4,
                    .kv_heads = 4,
                    .sequence = 64,
                    .feed_forward = 128,
                    .vocabulary = 100,
                    .microbatch_size = 2,
                    .precision = precision,
                    .mlp = PS_MLP_SWIGLU,
                    .framework = framework };
}

static const PsStageShape layer = { .n_layers = 1 };
static const PsCluster hopper
    = { .peak_flops = 1e12, .peak_flops_fp8 = 2e12, .efficiency = 1, .devices_per_node = 8, .tensor = 1 };
static const PsCluster blackwell = { .peak_flops = 1e12,
                                     .peak_flops_fp8 = 2e12,
                                     .peak_flops_fp4 = 4e12,
                                     .efficiency = 1,
                                     .devices_per_node = 8,
                                     .tensor = 1 };

static PsStateBytes state_of (const PsModel *model, const PsCluster *cluster)
{
  PsStateBytes experts;

  return ps_tensor_state (model, &layer, cluster, &experts);
}

/* Bytes of a weight of products, and of an all-gather of it; all other weights have 2. */
static void test_weights (void)
{
  static const struct {
    PsPrecision precision;
    PsFramework framework;
    gboolean is_blackwell;
    double held, gathered;
  } rows[] = {
    { PS_PRECISION_BF16, PS_FRAMEWORK_MEGATRON, FALSE, 2, 2 },
    { PS_PRECISION_FP8, PS_FRAMEWORK_NONE, FALSE, 2, 2 },
    { PS_PRECISION_FP8, PS_FRAMEWORK_DEEPSPEED, FALSE, 2, 2 },
    { PS_PRECISION_FP8, PS_FRAMEWORK_MEGATRON, FALSE, 2 + 2, 2 },
    { PS_PRECISION_FP8, PS_FRAMEWORK_MEGATRON, TRUE, 2 + 1, 2 },
    { PS_PRECISION_FP8, PS_FRAMEWORK_BRIDGE, FALSE, 2, 1 },
    { PS_PRECISION_FP8, PS_FRAMEWORK_BRIDGE, TRUE, 1, 1 },
    { PS_PRECISION_FP8_BLOCK, PS_FRAMEWORK_BRIDGE, FALSE, 2 + 2 * (1 + 4 / 16384.0), 2 },
    { PS_PRECISION_MXFP8, PS_FRAMEWORK_BRIDGE, TRUE, 2 * 33 / 32.0, 2 },
    { PS_PRECISION_MXFP8, PS_FRAMEWORK_MEGATRON, TRUE, 2 + 2 * 33 / 32.0, 2 },
    { PS_PRECISION_NVFP4, PS_FRAMEWORK_BRIDGE, TRUE, 2 + 2 * (0.5 + 1 / 16.0), 2 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    PsModel model = small (rows[i].precision, rows[i].framework);
    const PsCluster *cluster = rows[i].is_blackwell ? &blackwell : &hopper;
    const PsStateBytes state = state_of (&model, cluster);

    g_assert_cmpint (state.weight_bytes, ==, 2 * VECTORS + (gint64)(rows[i].held * PRODUCTS));
    g_assert_cmpint (state.gathered_bytes, ==, 2 * VECTORS + (gint64)(rows[i].gathered * PRODUCTS));
    model.state.fp8_param_gather = TRUE;
    g_assert_cmpint (state_of (&model, cluster).weight_bytes, <=, state.weight_bytes);
  }
}

/* Bytes of a parameter: gradients, optimizer state, temporaries of its step. */
static void test_optimizer (void)
{
  static const struct {
    PsPrecision precision;
    PsFramework framework;
    PsStateFormats said;
    guint gradients, optimizer, step;
  } rows[] = {
    { PS_PRECISION_FP32, PS_FRAMEWORK_MEGATRON, { 0 }, 4, 8, 0 },
    { PS_PRECISION_BF16, PS_FRAMEWORK_NONE, { 0 }, 2, 12, 0 },
    { PS_PRECISION_BF16, PS_FRAMEWORK_NONE, { .main_grads = PS_DTYPE_FP32 }, 4, 12, 0 },
    { PS_PRECISION_BF16, PS_FRAMEWORK_NONE, { .implementation = PS_IMPLEMENTATION_FOREACH }, 2, 12, 4 },
    { PS_PRECISION_BF16, PS_FRAMEWORK_MEGATRON, { 0 }, 4, 12, 0 },
    { PS_PRECISION_FP16, PS_FRAMEWORK_MEGATRON, { 0 }, 4, 12, 0 },
    { PS_PRECISION_BF16, PS_FRAMEWORK_MEGATRON, { .main_grads = PS_DTYPE_BF16 }, 2, 12, 4 },
    { PS_PRECISION_BF16, PS_FRAMEWORK_MEGATRON, { .main_grads = PS_DTYPE_BF16, .exp_avg = PS_DTYPE_BF16 }, 2, 8, 0 },
    { PS_PRECISION_MXFP8, PS_FRAMEWORK_MEGATRON, { .exp_avg = PS_DTYPE_BF16, .exp_avg_sq = PS_DTYPE_BF16 }, 4, 8, 0 },
    { PS_PRECISION_FP8, PS_FRAMEWORK_MEGATRON, { .main_params = PS_DTYPE_FP16 }, 4, 10, 0 },
    { PS_PRECISION_BF16, PS_FRAMEWORK_BRIDGE, { 0 }, 2, 12, 4 },
    { PS_PRECISION_BF16, PS_FRAMEWORK_BRIDGE, { .exp_avg = PS_DTYPE_BF16, .exp_avg_sq = PS_DTYPE_FP8 }, 2, 7, 4 },
    { PS_PRECISION_NVFP4, PS_FRAMEWORK_BRIDGE, { .main_grads = PS_DTYPE_FP32 }, 4, 12, 0 },
    { PS_PRECISION_BF16, PS_FRAMEWORK_DEEPSPEED, { 0 }, 4, 12, 0 },
    { PS_PRECISION_FP16, PS_FRAMEWORK_DEEPSPEED, { 0 }, 2, 16, 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    PsModel model = small (rows[i].precision, rows[i].framework);

    ps_model_set_state (&model, &rows[i].said);
    const PsStateBytes state = state_of (&model, &hopper);
    g_assert_cmpint (state.gradient_bytes, ==, rows[i].gradients * (PRODUCTS + VECTORS));
    g_assert_cmpint (state.optimizer_bytes, ==, rows[i].optimizer * (PRODUCTS + VECTORS));
    g_assert_cmpint (state.step_bytes, ==, rows[i].step * (PRODUCTS + VECTORS));
  }
}

/* What a setting holds, bytes over 1e9, on its first device. */
typedef struct {
  const char *model, *cluster, *precision, *layout;
  guint p, v, t, d, e;
  PsDtype moments;
  double weights, gradients, optimizer;
} Run;

static double sum_of (const PsCosts *costs, guint p, gsize member)
{
  gint64 sum = 0;

  for (guint stage = 0; stage < costs->n_stages; stage += p)
    sum += G_STRUCT_MEMBER (gint64, &costs->stage[stage].state, member);
  return (double)sum / 1e9;
}

/* Three of NVIDIA's recipes, derived by hand from the sources of Megatron Bridge. DeepSeek-V3: 4.78e9 dense, 2.29e9 of
 * experts and 0.93e9 of embedding on the first device; 8 bytes of optimizer state, of the dense over 64 GPUs, of the
 * experts over one. */
static void test_recipes (void)
{
  static const Run runs[] = {
    { "llama-3-70b", "h100-80gb", "fp8", "even", 8, 5, 4, 2, 1, PS_DTYPE_AUTO, 4.8, 4.8, 14.4 },
    { "llama-3-405b", "gb300-279gb", "fp8", "even:embedding:loss", 8, 4, 4, 8, 1, PS_DTYPE_AUTO, 13.0, 25.0, 18.7 },
    { "deepseek-v3", "gb200-186gb", "mxfp8", "Et*4|(t*4|)*14tmL", 4, 4, 1, 64, 64, PS_DTYPE_BF16, 16.4, 16.0, 19.0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (runs); i++) {
    const Run *run = &runs[i];
    g_autoptr (PsSetting) setting = ps_setting_new ();

    setting->model = g_strdup (run->model);
    setting->cluster = g_strdup (run->cluster);
    setting->precision = g_strdup (run->precision);
    setting->layout = g_strdup (run->layout);
    setting->n_tensor = run->t;
    setting->n_replicas = run->d;
    setting->n_experts = run->e;
    setting->framework = PS_FRAMEWORK_BRIDGE;
    setting->state.exp_avg = setting->state.exp_avg_sq = run->moments;
    g_autoptr (PsCosts) costs = fine (ps_setting_costs (setting, run->p, run->v, &error));
    g_assert_cmpfloat_with_epsilon (sum_of (costs, run->p, G_STRUCT_OFFSET (PsStateBytes, weight_bytes)), run->weights,
                                    run->weights / 100);
    g_assert_cmpfloat_with_epsilon (sum_of (costs, run->p, G_STRUCT_OFFSET (PsStateBytes, gradient_bytes)),
                                    run->gradients, run->gradients / 100);
    g_assert_cmpfloat_with_epsilon (sum_of (costs, run->p, G_STRUCT_OFFSET (PsStateBytes, optimizer_bytes)),
                                    run->optimizer, run->optimizer / 100);
  }
}

/* The step's temporaries come before the first op. Parts add up to the peak of the simulation, whether the step or the
 * pipeline has it. */
static void test_step (void)
{
  for (guint m = 1; m <= 256; m *= 256) {
    g_autoptr (PsSetting) setting = ps_setting_new ();

    setting->model = g_strdup ("gpt-1.5b");
    setting->cluster = g_strdup ("h100-80gb");
    setting->n_devices = 2;
    setting->n_microbatches = m;
    setting->sequence = 128;
    setting->framework = PS_FRAMEWORK_BRIDGE;
    setting->state.implementation = PS_IMPLEMENTATION_FOREACH;
    g_autoptr (PsPrediction) prediction = fine (ps_predict (setting, "gpipe", &error));
    g_autoptr (PsMemory) memory = ps_memory_new (prediction->program, prediction->costs, prediction->simulation);
    for (guint d = 0; d < 2; d++) {
      const PsDeviceResult *device = &prediction->simulation->device[d];
      const PsStateBytes *state = &prediction->costs->stage[d].state;

      g_assert_cmpint (device->step_bytes, ==, state->step_bytes);
      g_assert_cmpint (state->step_bytes, ==, 4 * state->gradient_bytes);
      g_assert_cmpint (memory->device[d].peak_bytes, ==, device->peak_bytes);
      g_assert_cmpint (memory->device[d].peak_bytes, ==, ps_memory_sum (&memory->device[d].peak));
      if (m == 1)
        g_assert_cmpint (memory->device[d].peak.bytes[PS_MEMORY_WORKSPACE], ==, state->step_bytes);
      else
        g_assert_cmpint (memory->device[d].peak.bytes[PS_MEMORY_ACTIVATIONS], >, 0);
      if (m == 1)
        g_assert_cmpint (device->peak_bytes, ==, prediction->costs->stage[d].weight_bytes + state->step_bytes);
    }
  }
}

/* Newton-Schulz at 10^12 operations a second: five steps of 2 (2 m m n + m^3), which is `ns` for a matrix of m by n. */
static double step_ns (double m, double n)
{
  return 5 * 2 * (2 * m * m * n + m * m * m) / 1000;
}

/* Matrices of the layer keep a momentum of 4 bytes and main weights, the norms 12 bytes. Of h 3h, h h, h 2f and f h one
 * owner has all; of two owners one has the slowest, h 2f, and the other one the rest; of four or more the busiest has
 * h 2f. */
static void test_muon (void)
{
  const PsStateFormats muon = { .optimizer = PS_OPTIMIZER_MUON };
  const double ns[] = { step_ns (32, 96), step_ns (32, 32), step_ns (32, 256), step_ns (32, 128) };
  PsModel model = small (PS_PRECISION_BF16, PS_FRAMEWORK_MEGATRON);

  g_assert_cmpint (ps_muon_share (&model, &layer, &hopper, 1, 1).optimizer_bytes, ==, 0);
  ps_model_set_state (&model, &muon);
  g_assert_cmpint (state_of (&model, &hopper).optimizer_bytes, ==, 8 * PRODUCTS + 12 * VECTORS);
  for (gint64 copies = 1; copies <= 64; copies *= 2) {
    const PsMuonShare share = ps_muon_share (&model, &layer, &hopper, copies, 1);
    double busiest = copies == 1 ? ns[0] + ns[1] + ns[2] + ns[3] : MAX (ns[2], copies == 2 ? ns[0] + ns[1] + ns[3] : 0);
    gint64 most = copies == 1 ? PRODUCTS : 32 * 256;

    g_assert_cmpint (share.optimizer_bytes, ==, 8 * most);
    g_assert_cmpfloat_with_epsilon ((double)share.step_ns, busiest, 4);
  }
  model.state.exp_avg = PS_DTYPE_BF16;
  model.precision = PS_PRECISION_MXFP8;
  g_assert_cmpint (ps_muon_share (&model, &layer, &hopper, 64, 1).optimizer_bytes, ==, 6 * 32 * 256);
}

/* Owners under ZeRO: what is spread shrinks to the busiest owner's matrices and no further, in bytes and in time. */
static void test_muon_owners (void)
{
  gint64 before = G_MAXINT64, alone_ns = 0;

  for (guint d = 1; d <= 4096; d *= 8) {
    g_autoptr (PsSetting) setting = ps_setting_new ();

    setting->model = g_strdup ("llama-3-8b");
    setting->cluster = g_strdup ("h100-80gb");
    setting->state.optimizer = PS_OPTIMIZER_MUON;
    setting->n_replicas = d;
    setting->zero = d > 1 ? 1 : 0;
    g_autoptr (PsCosts) costs = fine (ps_setting_costs (setting, 4, 1, &error));
    gint64 bytes = costs->stage[1].state.optimizer_bytes, ns = ps_costs_op (costs, PS_OP_O, 1)->duration_ns;

    g_assert_cmpint (bytes, <=, before);
    g_assert_cmpint (bytes, >=, (gint64)8 * 2 * 4096 * 14336);
    alone_ns = d == 1 ? ns : alone_ns;
    g_assert_cmpint (ns, <=, d == 1 ? ns : alone_ns / 2);
    before = bytes;
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/state/weights", test_weights);
  g_test_add_func ("/state/optimizer", test_optimizer);
  g_test_add_func ("/state/recipes", test_recipes);
  g_test_add_func ("/state/step", test_step);
  g_test_add_func ("/state/muon", test_muon);
  g_test_add_func ("/state/muon-owners", test_muon_owners);
  return g_test_run ();
}
