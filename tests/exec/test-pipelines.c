/* Tests of runs with several pipelines in one process: replicas, with a spread optimizer state too, and pipelines that
 * share layers. */
#include "run-rig.h"
#include "run/runtime.h"

#define N_STEPS 3
#define N_MICROBATCHES 4

typedef struct {
  const PsModel *model;
  PsRecompute recompute;
  guint n_replicas, n_tensor;
  gboolean zero;
  double clip;
  gboolean bypass;
  const guint *tokens; /* [N_MICROBATCHES] or NULL */
} Case;

static PsRunSetting setting_of (const Case *of)
{
  PsRunSetting setting = run_setting (&ps_cpu_device, NULL, N_STEPS);

  setting.model = of->model;
  setting.gradients = TRUE;
  setting.n_replicas = of->n_replicas;
  setting.n_tensor = of->n_tensor;
  setting.zero = of->zero;
  setting.clip = of->clip;
  setting.bypass = of->bypass;
  setting.tokens = of->tokens;
  setting.n_tokens = N_MICROBATCHES;
  return setting;
}

/* Like one device within rounding. Like one device that shares its layers in the same way bit for bit. */
static void check (const PsProgram *program, const Case *of)
{
  PsRunSetting setting = setting_of (of);
  const guint n_stages = program->schedule->placement->n_stages;
  g_autofree PsStageShape *shapes = g_new (PsStageShape, n_stages);
  g_autoptr (PsRunResult) result = NULL, alone = NULL;
  g_auto (PsVerdict) verdict = { 0 };
  g_autofree guint *delays = g_new (guint, n_stages);

  ps_model_split (of->model, n_stages, shapes, NULL);
  for (guint i = 0; i < n_stages; i++) {
    shapes[i].recompute = of->recompute;
    delays[i] = ps_schedule_delay (program->schedule, i);
  }
  setting.shapes = shapes;
  result = run (program, setting);
  fine (ps_verify (program->schedule, result, &setting, &verdict, &error));
  g_assert_cmpfloat (verdict.loss_difference, <, 1e-6);
  g_assert_cmpfloat (verdict.gradient_difference, <, 1e-6);
  if (of->n_replicas > 1 || program->schedule->placement->n_copies > 1)
    return;
  g_autoptr (PsProgram) reference = ps_verify_reference (program->schedule, result->n_microbatches);
  setting.delays = delays;
  setting.bypass = FALSE;
  alone = run (reference, setting);
  ps_verdict_clear (&verdict);
  ps_verify_compare (result, alone, &verdict);
  g_assert_cmpstr (ps_check_name (verdict.check), ==, "bit-equal");
}

static void check_family (const PsProgram *program)
{
  check (program, &(Case){ .model = &tiny, .n_tensor = 2 });
  check (program, &(Case){ .model = &tiny, .n_replicas = 2, .zero = TRUE });
}

static void test_families (void)
{
  for_each_family (2, 4, check_family);
}

/* Recomputation adds up within ops of backwards; a shared matrix is whole on all; a part of a share of the state. */
static void test_together (void)
{
  g_autoptr (PsProgram) program = family_program ("1f1b", 2, 4), slices = family_program ("seq1f1b", 2, 4);
  PsModel tied = tiny, wide = tiny, llama = tiny;

  tied.tied = TRUE;
  wide.heads = wide.kv_heads = llama.heads = 4;
  llama.mlp = PS_MLP_SWIGLU;
  llama.flash_attention = TRUE;
  check (program, &(Case){ .model = &tiny, .n_tensor = 2, .recompute = PS_RECOMPUTE_FULL });
  check (program, &(Case){ .model = &tiny, .n_tensor = 2, .recompute = PS_RECOMPUTE_SELECTIVE });
  check (slices, &(Case){ .model = &tiny, .n_tensor = 2, .recompute = PS_RECOMPUTE_SELECTIVE });
  check (slices, &(Case){ .model = &llama, .n_tensor = 2 });
  check (program, &(Case){ .model = &llama, .n_replicas = 2, .zero = TRUE, .recompute = PS_RECOMPUTE_FULL });
  check (program, &(Case){ .model = &tied, .n_tensor = 2 });
  check (program, &(Case){ .model = &wide, .n_tensor = 4, .n_replicas = 2, .zero = TRUE });
}

/* All parts of all layers have one norm, which clips every step; without a meeting every step is taken back. */
static void test_clip (void)
{
  g_autoptr (PsProgram) program = family_program ("zb-h1", 2, 4);

  check (program, &(Case){ .model = &tiny, .n_tensor = 2, .clip = 0.01 });
  check (program, &(Case){ .model = &tiny, .n_tensor = 2, .clip = 0.01, .bypass = TRUE });
  check (program, &(Case){ .model = &tiny, .n_tensor = 2, .n_replicas = 2, .clip = 0.01, .zero = TRUE });
}

/* Sequences of half the length in all microbatches are those of a model with half the length. */
static void test_lengths (void)
{
  g_autoptr (PsProgram) program = family_program ("zb-v", 2, N_MICROBATCHES);
  PsModel half = tiny;
  const guint n = tiny.sequence, mixed[N_MICROBATCHES] = { n, n / 2, 1, n },
              halves[N_MICROBATCHES] = { n / 2, n / 2, n / 2, n / 2 };

  check (program, &(Case){ .model = &tiny, .tokens = mixed });
  check (program, &(Case){ .model = &tiny, .tokens = mixed, .recompute = PS_RECOMPUTE_FULL, .n_tensor = 2 });
  check (program, &(Case){ .model = &tiny, .tokens = mixed, .recompute = PS_RECOMPUTE_SELECTIVE, .n_replicas = 2 });
  half.sequence = n / 2;
  g_autoptr (PsRunResult) shorter = run (program, setting_of (&(Case){ .model = &tiny, .tokens = halves }));
  g_autoptr (PsRunResult) whole = run (program, setting_of (&(Case){ .model = &half }));
  for (guint i = 0; i < N_STEPS * N_MICROBATCHES; i++)
    g_assert_cmpfloat (shorter->losses[i], ==, whole->losses[i]);
}

/* Bytes that the first device holds before the first op. */
static gint64 state_bytes (const Case *of)
{
  g_autoptr (PsProgram) program = family_program ("1f1b", 2, 4);
  g_autoptr (PsRunResult) result = run (program, setting_of (of));

  return g_array_index (result->timeline->memory, PsMemoryPoint, 0).bytes;
}

/* Two layers of 3h + 4h^2 + 2hf + 6h + f parameters have 3h/2 + 2h^2 + hf + f/2 of them on the other device. Each takes
 * 16 B, and the workspace holds a matrix of tokens x feed_forward, the widest. All sizes are multiples of 64 B. */
static void test_memory (void)
{
  PsModel model = tiny;
  const Case whole = { .model = &model }, half = { .model = &model, .n_tensor = 2 };
  const gint64 h = 64, f = 256, parameters = 2 * (3 * h / 2 + 2 * h * h + h * f + f / 2);

  model.hidden = h;
  model.feed_forward = f;
  g_assert_cmpint (state_bytes (&whole) - state_bytes (&half), ==, 16 * parameters + model.sequence * f / 2 * 4);
}

static PsTransportClass watched; /* threads, whose settings are looked at */
static PsTransportSetting asked; /* the latest */
static guint8 asked_uses[16];    /* [4 * 4] of it */
static guint asked_tied[4];      /* the same */

static PsTransport *watched_open (const PsTransportSetting *setting, GError **error)
{
  asked = *setting;
  memcpy (asked_uses, setting->uses, setting->n_devices * setting->n_devices);
  for (guint i = 0; i < setting->n_devices; i++)
    asked_tied[i] = setting->tied != NULL ? setting->tied[i] : i;
  return ps_threads_transport.open (setting, error);
}

/* What a run asks of its transport: a message has the bytes of the boundary, or of a slice's, and goes where the
 * timeline has transfers. Devices that hold the matrix of embedding and head add up its gradient, though no message
 * goes between them. All pipelines are here. */
static void test_transport (void)
{
  static const struct {
    const char *family;
    guint n_devices, n_replicas, n_tensor, n_slices;
    gboolean tied;
  } rows[] = { { "1f1b", 4, 1, 1, 1, FALSE }, { "1f1b", 4, 1, 1, 1, TRUE },        { "gpipe", 2, 2, 1, 1, FALSE },
               { "zb-h1", 3, 1, 2, 1, TRUE }, { "interleaved", 2, 1, 1, 1, TRUE }, { "seq1f1b", 2, 1, 1, 4, FALSE } };
  PsModel model = tiny;

  watched = ps_threads_transport;
  watched.open = watched_open;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++) {
    const guint p = rows[i].n_devices;
    const PsFamily *family = ps_family_find (rows[i].family);
    const PsFamilySetting size
        = { .n_devices = p, .n_microbatches = 4, .n_chunks = family->default_chunks, .n_slices = rows[i].n_slices };
    g_autoptr (PsProgram) program = lower (ps_family_generate (family, &size, NULL));
    PsRunSetting setting = run_setting (&ps_cpu_device, NULL, 1);
    guint8 uses[16] = { 0 };

    g_test_message ("%s, %u devices", rows[i].family, p);
    model.tied = rows[i].tied;
    setting.model = &model;
    setting.transport = &watched;
    setting.n_replicas = rows[i].n_replicas;
    setting.n_tensor = rows[i].n_tensor;
    g_autoptr (PsRunResult) result = run (program, setting);
    for (guint k = 0; k < result->timeline->transfers->len; k++) {
      const PsSpan *transfer = &g_array_index (result->timeline->transfers, PsSpan, k);

      uses[transfer->device * p + transfer->peer] = TRUE;
    }
    g_assert_cmpmem (asked_uses, p * p, uses, p * p);
    for (guint k = 0; k < p; k++)
      g_assert_cmpuint (asked_tied[k], ==, rows[i].tied && (k == 0 || k == p - 1) ? p - 1 - k : k);
    g_assert_cmpuint (asked.n_devices, ==, p);
    g_assert_cmpuint (asked.message_bytes, ==, 8 * 16 * sizeof (float) / rows[i].n_slices);
    g_assert_cmpuint (asked.n_here, ==, p * rows[i].n_replicas * rows[i].n_tensor);
    g_assert_cmpuint (asked.n_replicas, ==, rows[i].n_replicas);
    g_assert_cmpuint (asked.n_tensor, ==, rows[i].n_tensor);
    g_assert_cmpuint (asked.first, ==, 0);
    g_assert_cmpuint (asked.pipeline, ==, 0);
    g_assert_cmpuint (asked.local, ==, 0);
    g_assert_cmpint (asked.timeout_ns, ==, setting.timeout_ns);
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/pipelines/transport", test_transport);
  g_test_add_func ("/pipelines/families", test_families);
  g_test_add_func ("/pipelines/together", test_together);
  g_test_add_func ("/pipelines/clip", test_clip);
  g_test_add_func ("/pipelines/lengths", test_lengths);
  g_test_add_func ("/pipelines/memory", test_memory);
  return g_test_run ();
}
