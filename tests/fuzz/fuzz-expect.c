/* fuzz-expect.c - files of predict --expect: what is read is written as a text that reads the same. */
#include "fuzz.h"

#include "plan/expect.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = fuzz_text (data, size);
  g_autoptr (GPtrArray) rows = ps_expected_parse ("fuzz", text, -1, &error);

  fuzz_check_error (rows != NULL, &error);
  if (rows == NULL)
    return 0;
  g_autofree char *written = ps_expected_to_json (rows);
  g_autoptr (GPtrArray) again = ps_expected_parse ("written", written, -1, &error);
  g_autofree char *twice = again != NULL ? ps_expected_to_json (again) : NULL;

  g_assert_no_error (error);
  g_assert_cmpstr (written, ==, twice);
  return 0;
}
