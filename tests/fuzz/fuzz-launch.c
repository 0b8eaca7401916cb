/* fuzz-launch.c - the files that start a training run: their keys, their facts, the model that they
 * define, and the options that they stand for. */
#include "fuzz.h"

#include "plan/launch-private.h"

typedef struct {
  PsFromChoice from;
  PsSetting *setting;
} Options;

static const PsOption rows[] = {
  PS_OPTION_INCLUDE (Options, from, ps_from_rows),
  PS_OPTION_INCLUDE_AT (Options, setting, ps_setting_options, 0),
  PS_OPTION_END,
};

/* The file as options of a command. */
static void expand (const uint8_t *data, size_t size)
{
  g_autofree char *path = g_strdup (fuzz_file (data, size));
  char *argv[] = { "predict", "--from", path, NULL };
  g_auto (PsLaunchCommand) command = { 0 };
  g_autoptr (GError) error = NULL;
  gboolean done = ps_launch_expand (rows, argv, &command, &error);

  fuzz_check_error (done, &error);
}

/* The text with a launch in it changed; the whole of a long one takes too many readings. */
static void edit (const char *text, PsLaunchForm form)
{
  const PsLaunchEdit change
      = { .where = "fuzz",
          .text = text,
          .form = form,
          .before = "--tensor-model-parallel-size 2 --sequence-parallel --micro-batch-size 1",
          .after = "--tensor-model-parallel-size 1 --recompute-granularity full --micro-batch-size 2",
          .n_chunks = 1 };
  g_autoptr (GString) flags = g_string_new (NULL);
  g_autofree char *changed = strlen (text) < 400 ? ps_launch_edit (&change, flags) : NULL;
  g_autofree char *diff = changed != NULL ? ps_launch_diff ("fuzz", text, changed) : NULL;

  g_assert_true ((diff == NULL) == (changed == NULL));
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const PsLaunchForm forms[]
      = { PS_LAUNCH_WORDS, PS_LAUNCH_LOG, PS_LAUNCH_TOML, PS_LAUNCH_YAML, PS_LAUNCH_JSON };
  g_autofree char *text = fuzz_text (data, size);

  expand (data, size);
  for (guint i = 0; i < G_N_ELEMENTS (forms); i++) {
    g_autoptr (GError) error = NULL;
    g_autoptr (PsLaunchFacts) facts = ps_launch_facts ("fuzz", text, forms[i], &error);

    fuzz_check_error (facts != NULL, &error);
    edit (text, forms[i]);
    g_autofree char *ini = ps_launch_model_text ("fuzz", text, forms[i], &error);
    fuzz_check_error (ini != NULL, &error);
    g_autoptr (PsModel) model = ini != NULL ? ps_model_parse ("fuzz", ini, strlen (ini), &error) : NULL;
    fuzz_check_error (model != NULL || ini == NULL, &error);
  }
  return 0;
}
