/* fuzz-model.c - model descriptions. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsModel) model = ps_model_parse ("fuzz", (const char *)data, size, &error);
  g_autoptr (PsModel) again = NULL;
  g_autofree char *text = NULL, *digest = NULL, *digest_again = NULL;

  fuzz_check_error (model != NULL, &error);
  if (model == NULL)
    return 0;
  text = ps_model_to_text (model);
  again = ps_model_parse ("again", text, strlen (text), &error);
  g_assert_no_error (error);
  digest = ps_model_digest (model);
  digest_again = ps_model_digest (again);
  g_assert_cmpstr (digest, ==, digest_again);
  g_assert_cmpint (ps_model_parameters (model), >, 0);
  return 0;
}
