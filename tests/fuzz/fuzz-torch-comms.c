/* fuzz-torch-comms.c - PyTorch's CSV of everything, read and linted. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = fuzz_text (data, size);
  GPtrArray *findings = ps_torch_lint_comms ("fuzz", text, strlen (text), &error);

  fuzz_check_error (findings != NULL, &error);
  g_clear_pointer (&findings, g_ptr_array_unref);
  fuzz_format ("torch-comms", data, size);
  fuzz_format ("torch-comms-2.14", data, size);
  return 0;
}
