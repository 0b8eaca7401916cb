/* fuzz-op.c - names of ops. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autofree char *text = fuzz_text (data, size);
  char name[48];
  const char *end;
  PsOp op, again;

  if (!ps_op_parse (text, &end, &op))
    return 0;
  g_assert_true (end > text && end <= text + strlen (text));
  g_assert_true (ps_op_parse (ps_op_format (op, name), &end, &again));
  g_assert_true (*end == '\0' && memcmp (&op, &again, sizeof op) == 0);
  return 0;
}
