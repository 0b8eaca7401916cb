/* test-training.c - what is learnt from a text: its windows, learning rates, and curves that no schedule changes. */
#include "run-rig.h"

#include "train/data.h"
#include "run/runtime.h"

#include <string.h>

static GBytes *some_text (void)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < 500; i++)
    g_string_append_printf (text, "%u apples and %u pears; ", i % 17, i % 5);
  return g_string_free_to_bytes (text);
}

/* Rows are pieces of the text as it stands, and the seed, the row and the step choose them. */
static void test_windows (void)
{
  g_autoptr (GBytes) text = some_text ();
  const char *bytes = g_bytes_get_data (text, NULL);
  guint32 words[2][3 * 9], again[3 * 9];

  for (guint i = 0; i < 2; i++)
    ps_data_text (words[i], 3, 8, text, 1, i);
  ps_data_text (again, 3, 8, text, 1, 1);
  g_assert_cmpmem (again, sizeof again, words[1], sizeof words[1]);
  g_assert_cmpint (memcmp (words[0], words[1], sizeof words[0]), !=, 0);
  ps_data_text (again, 3, 8, text, 2, 1);
  g_assert_cmpint (memcmp (again, words[1], sizeof again), !=, 0);
  for (guint row = 0; row < 3; row++) {
    char piece[10] = { 0 };

    for (guint i = 0; i < 9; i++)
      piece[i] = (char)words[1][row * 9 + i];
    g_assert_nonnull (strstr (bytes, piece));
  }
}

/* A text one byte longer than a sequence has one window. */
static void test_shortest (void)
{
  g_autoptr (GBytes) text = g_bytes_new_static ("012345678", 9);
  guint32 words[2 * 9];

  ps_data_text (words, 2, 8, text, 1, 7);
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    g_assert_cmpuint (words[i], ==, '0' + i % 9);
}

/* Two replicas of two microbatches read four different rows a step, and other ones in the next step; one replica of
 * four reads the same. */
static void test_replicas (void)
{
  g_autoptr (GBytes) text = some_text ();
  const PsTraining training = { .text = text };
  PsDeviceSetting alone = { .model = &tiny, .n_microbatches = 4, .training = &training, .seed = 3 };
  guint32 words[9], other[9];

  for (guint step = 0; step < 3; step++)
    for (guint i = 0; i < 4; i++) {
      const PsDeviceSetting replica = {
        .model = &tiny, .n_microbatches = 2, .replica = i / 2, .n_replicas = 2, .training = &training, .seed = 3
      };

      ps_data_read (words, &alone, step, i);
      ps_data_read (other, &replica, step, i % 2);
      g_assert_cmpmem (words, sizeof words, other, sizeof other);
      ps_data_read (other, &alone, step + 1, i);
      g_assert_cmpint (memcmp (words, other, sizeof words), !=, 0);
    }
}

static void test_rates (void)
{
  const PsTraining training = { .learning_rate = 8e-3, .least_rate = 2e-3, .warm_up = 4, .decay = 12 };
  const PsTraining constant = { .learning_rate = 8e-3 };

  g_assert_cmpfloat (ps_data_rate (NULL, 99), ==, 1e-3);
  g_assert_cmpfloat (ps_data_rate (&constant, 0), ==, 8e-3);
  g_assert_cmpfloat (ps_data_rate (&constant, 99), ==, 8e-3);
  g_assert_cmpfloat (ps_data_rate (&training, 0), ==, 2e-3);
  g_assert_cmpfloat (ps_data_rate (&training, 3), ==, 8e-3);
  g_assert_cmpfloat (ps_data_rate (&training, 4), ==, 8e-3);
  g_assert_cmpfloat_with_epsilon (ps_data_rate (&training, 8), 5e-3, 1e-15);
  g_assert_cmpfloat_with_epsilon (ps_data_rate (&training, 6), 5e-3 + 3e-3 * G_SQRT2 / 2, 1e-15);
  g_assert_cmpfloat_with_epsilon (ps_data_rate (&training, 12), 2e-3, 1e-15);
  g_assert_cmpfloat_with_epsilon (ps_data_rate (&training, 99), 2e-3, 1e-15);
}

static PsModel byte_model;

/* The losses of every step are those of one device, by the same text and rates. */
static void check_curve (const PsProgram *program)
{
  g_autoptr (GBytes) text = some_text ();
  const PsTraining training = { .text = text, .learning_rate = 4e-3, .least_rate = 1e-4, .warm_up = 3, .decay = 9 };
  PsRunSetting setting = run_setting (&ps_cpu_device, NULL, 10);
  g_auto (PsVerdict) verdict = { 0 };

  if (program->schedule->weight_versions != NULL)
    return;
  setting.model = &byte_model;
  setting.training = &training;
  setting.gradients = TRUE;
  g_autoptr (PsRunResult) result = run (program, setting);
  g_assert_cmpfloat (ps_run_result_mean_loss (result, 9), <, 0.95 * ps_run_result_mean_loss (result, 0));
  fine (ps_verify (program->schedule, result, &setting, &verdict, &error));
  g_assert_cmpfloat (verdict.loss_difference, <=, 1e-6);
  g_assert_true (verdict.check == PS_CHECK_BIT_EQUAL || verdict.check == PS_CHECK_EQUAL_WITHIN);
}

static void test_curves (void)
{
  byte_model = tiny;
  byte_model.vocabulary = 256;
  for_each_family (2, 4, check_curve);
}

/* Without its text, or at another rate, training goes another way. */
static void test_matters (void)
{
  g_autoptr (GBytes) text = some_text ();
  g_autoptr (PsProgram) program = family_program ("1f1b", 2, 4);
  const PsTraining trainings[]
      = { { .learning_rate = 1e-3 }, { .text = text, .learning_rate = 1e-3 }, { .text = text, .learning_rate = 2e-3 } };
  double losses[3];

  byte_model = tiny;
  byte_model.vocabulary = 256;
  for (guint i = 0; i < 3; i++) {
    PsRunSetting setting = run_setting (&ps_cpu_device, NULL, 3);

    setting.model = &byte_model;
    setting.training = &trainings[i];
    g_autoptr (PsRunResult) result = run (program, setting);
    losses[i] = ps_run_result_mean_loss (result, 2);
  }
  g_assert_cmpfloat (losses[0], !=, losses[1]);
  g_assert_cmpfloat (losses[1], !=, losses[2]);
}

int main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/training/windows", test_windows);
  g_test_add_func ("/training/shortest", test_shortest);
  g_test_add_func ("/training/replicas", test_replicas);
  g_test_add_func ("/training/rates", test_rates);
  g_test_add_func ("/training/curves", test_curves);
  g_test_add_func ("/training/matters", test_matters);
  return g_test_run ();
}
