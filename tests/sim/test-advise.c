/* Tests of plan.h: the changes of a run, worked out again from their settings, and the edit of a launch. */
#include <pipesim/plan.h>

#include <math.h>
#include <string.h>

/* Llama 3 8B on 32 H100, everything recomputed. */
static PsSetting *begin (void)
{
  PsSetting *setting = ps_setting_new ();

  setting->n_devices = 4;
  setting->n_microbatches = 32;
  setting->n_tensor = 2;
  setting->n_replicas = 4;
  setting->replicas_adjacent = TRUE;
  setting->zero = 1;
  setting->recompute = PS_RECOMPUTE_FULL;
  setting->framework = PS_FRAMEWORK_MEGATRON;
  setting->has_framework = TRUE;
  setting->model = g_strdup ("llama-3-8b");
  setting->cluster = g_strdup ("h100-80gb");
  setting->layout = g_strdup ("even");
  return setting;
}

static PsAdvice *ask (const PsSetting *setting, const char *framework, gboolean every, guint n_jobs)
{
  g_autoptr (GError) error = NULL;
  PsAdvice *advice = ps_advice_new (
      &(const PsAdviceQuestion){
          .setting = setting, .schedule = "1f1b", .framework = framework, .every = every, .n_jobs = n_jobs },
      &error);

  g_assert_no_error (error);
  return advice;
}

static gint64 gpus_of (const PsSetting *setting)
{
  return (gint64)setting->n_devices * setting->n_tensor * setting->n_context * setting->n_replicas;
}

static gint64 batch_of (const PsSetting *setting)
{
  return (gint64)setting->n_microbatches * setting->n_replicas * MAX (setting->microbatch_size, 1);
}

/* The step and the peak are those of its setting, on the same GPUs with the same batch. */
static void check_run (const PsAdvice *advice, const PsAdvised *run)
{
  g_autoptr (PsPrediction) prediction = ps_predict (&run->setting, run->schedule, NULL);
  g_autofree char *refusal = ps_launch_refusal ("megatron-gpt", &run->setting, run->schedule);
  const double deviation = advice->error / 2, ratio = (double)advice->run.step_ns / (double)run->step_ns;

  g_assert_nonnull (prediction);
  g_assert_null (refusal);
  g_assert_cmpint (prediction->metrics.iteration_ns, ==, run->step_ns);
  g_assert_cmpint (prediction->metrics.peak_memory_bytes, ==, run->peak_memory_bytes);
  g_assert_cmpint (gpus_of (&run->setting), ==, gpus_of (&advice->run.setting));
  g_assert_cmpint (batch_of (&run->setting), ==, batch_of (&advice->run.setting));
  g_assert_cmpfloat_with_epsilon (run->gain, 1 - 1 / ratio, 1e-12);
  g_assert_cmpfloat_with_epsilon (run->certainty, 0.5 + 0.5 * erf (log (ratio) / deviation / sqrt (2)), 1e-9);
}

static void test_changes (void)
{
  g_autoptr (PsSetting) setting = begin ();
  g_autoptr (PsAdvice) advice = ask (setting, "megatron-gpt", TRUE, 2);
  gboolean none = FALSE;

  g_assert_null (advice->broken);
  g_assert_cmpuint (advice->changes->len, >, 8);
  for (guint i = 0; i < advice->changes->len; i++) {
    const PsAdvised *run = &g_array_index (advice->changes, PsAdvised, i);

    check_run (advice, run);
    g_assert_cmpstr (run->fits, ==, "yes");
    g_assert_cmpfloat (run->gain, >=, PS_ADVICE_LEAST_GAIN);
    g_assert_cmpint (run->step_ns, >=, g_array_index (advice->changes, PsAdvised, i > 0 ? i - 1 : 0).step_ns);
    none |= g_str_equal (run->options, "--recompute none");
  }
  g_assert_true (none);
  g_assert_nonnull (advice->together.options);
  check_run (advice, &advice->together);
  g_assert_cmpint (advice->together.step_ns, <, g_array_index (advice->changes, PsAdvised, 0).step_ns);
}

/* What does not fit gets what needs less, and together what fits. */
static void test_fits (void)
{
  g_autoptr (PsSetting) setting = begin ();

  setting->memory_limit = g_new (gint64, 1);
  setting->memory_limit[0] = G_GINT64_CONSTANT (15) << 30;
  setting->n_memory_limits = 1;
  setting->recompute = PS_RECOMPUTE_NONE;
  g_autoptr (PsAdvice) advice = ask (setting, "megatron-gpt", FALSE, 2);

  g_assert_cmpstr (advice->run.fits, ==, "no");
  g_assert_cmpuint (advice->changes->len, >, 2);
  for (guint i = 0; i < advice->changes->len; i++) {
    const PsAdvised *run = &g_array_index (advice->changes, PsAdvised, i);

    check_run (advice, run);
    g_assert_cmpint (run->peak_memory_bytes, <, advice->run.peak_memory_bytes);
  }
  if (advice->together.options != NULL)
    g_assert_cmpint (advice->together.peak_memory_bytes, <=, setting->memory_limit[0]);
}

static void test_threads (void)
{
  g_autoptr (PsSetting) setting = begin ();
  g_autoptr (PsAdvice) one = ask (setting, "megatron-gpt", FALSE, 1), three = ask (setting, "megatron-gpt", FALSE, 3);

  g_assert_cmpuint (one->changes->len, ==, three->changes->len);
  for (guint i = 0; i < one->changes->len; i++)
    g_assert_cmpstr (g_array_index (one->changes, PsAdvised, i).options, ==,
                     g_array_index (three->changes, PsAdvised, i).options);
  g_assert_cmpstr (one->together.options, ==, three->together.options);
  g_assert_cmpuint (one->n_predicted, ==, three->n_predicted);
}

/* A precondition that the run breaks, and changes that do not. */
static void test_broken (void)
{
  g_autoptr (PsSetting) setting = begin ();

  setting->zero = 0;
  setting->overlap_param_gather = TRUE;
  g_autoptr (PsAdvice) advice = ask (setting, "megatron-gpt", FALSE, 2);
  g_assert_nonnull (strstr (advice->broken, "--overlap-param-gather: needs the distributed optimizer"));
  for (guint i = 0; i < advice->changes->len; i++)
    g_assert_cmpuint (g_array_index (advice->changes, PsAdvised, i).setting.zero, !=, 0);
}

/* The text of each form with recomputation taken off. */
static void test_edit (void)
{
  static const struct {
    const char *text, *wanted;
  } cases[] = {
    { "--micro-batch-size 1 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --bf16\n",
      "--micro-batch-size 1 --bf16\n" },
    { "p --micro-batch-size 1 \\\n  --bf16 \\\n  --recompute-activations\n", "p --micro-batch-size 1 \\\n  --bf16\n" },
    { "A=(--bf16\n  --recompute-granularity full\n  --fp8-format hybrid)\nrun ${A[@]}\n",
      "A=(--bf16\n  --fp8-format hybrid)\nrun ${A[@]}\n" },
    { "train:\n  micro_batch_size: 1\n  recompute_granularity: selective\n  recompute_modules:\n    - mlp\n    - "
      "moe\nb: 2\n",
      "train:\n  micro_batch_size: 1\n  recompute_granularity: null\n  recompute_modules: null\nb: 2\n" },
  };
  g_autoptr (PsSetting) setting = begin ();
  g_autoptr (PsAdvice) advice = ask (setting, "megatron-gpt", TRUE, 2);
  const PsAdvised *none = NULL;

  for (guint i = 0; i < advice->changes->len; i++)
    if (g_str_equal (g_array_index (advice->changes, PsAdvised, i).options, "--recompute none"))
      none = &g_array_index (advice->changes, PsAdvised, i);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++) {
    g_auto (PsAdvisedFile) file = { 0 };

    ps_advice_edit (advice, none, "file", cases[i].text, &file);
    g_assert_cmpstr (file.text, ==, cases[i].wanted);
    g_assert_true (g_str_has_prefix (file.diff, "--- file\n+++ file\n@@ -"));
  }
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/advise/changes", test_changes);
  g_test_add_func ("/advise/fits", test_fits);
  g_test_add_func ("/advise/threads", test_threads);
  g_test_add_func ("/advise/broken", test_broken);
  g_test_add_func ("/advise/edit", test_edit);
  return g_test_run ();
}
