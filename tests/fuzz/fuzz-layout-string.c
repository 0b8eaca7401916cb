/* fuzz-layout-string.c - Megatron-LM's layout strings; what is read is written, and reads as the same. */
#include "fuzz.h"

#include <pipesim/model.h>

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = fuzz_text (data, size), *written = NULL;
  guint n, n_again;
  g_autofree PsStageShape *shapes = ps_layout_parse ("fuzz", text, NULL, &n, &error), *again = NULL;

  fuzz_check_error (shapes != NULL, &error);
  if (shapes == NULL)
    return 0;
  written = ps_layout_write (NULL, shapes, n);
  again = ps_layout_parse ("again", written, NULL, &n_again, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (again, n_again * sizeof *again, shapes, n * sizeof *shapes);
  return 0;
}
