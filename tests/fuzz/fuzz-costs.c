/* fuzz-costs.c - the text of --costs; the first two characters choose devices and chunks. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsCosts) costs = NULL, slice = NULL;

  if (size < 2)
    return 0;
  g_autofree char *text = fuzz_text (data + 2, size - 2);
  costs = ps_costs_parse (text, 1 + data[0] % 8, 1 + data[1] % 4, &error);
  fuzz_check_error (costs != NULL, &error);
  if (costs != NULL && ps_costs_check (costs, 64, NULL))
    slice = ps_costs_slice (costs, 3);
  return 0;
}
