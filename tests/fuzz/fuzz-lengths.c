/* fuzz-lengths.c - the file of --lengths; what is read is within its bounds. */
#include "fuzz.h"

#include <pipesim/costs.h>

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = fuzz_text (data, size);
  g_autoptr (PsLengths) lengths = ps_lengths_parse ("fuzz", text, strlen (text), &error);

  fuzz_check_error (lengths != NULL, &error);
  for (guint i = 0; lengths != NULL && i < lengths->n; i++) {
    const PsLength *length = &lengths->length[lengths->of[i]];

    g_assert_cmpuint (lengths->of[i], <, lengths->n_lengths);
    g_assert_true (length->tokens > 0 || length->factors.f >= PS_MIN_LENGTH_FACTOR);
    g_assert_true (length->factors.msg <= PS_MAX_LENGTH_FACTOR);
  }
  return 0;
}
