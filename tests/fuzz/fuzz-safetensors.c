/* fuzz-safetensors.c - the header of a safetensors file, and every byte of the arrays that it names. */
#include "fuzz.h"

#include <pipesim/formats.h>

static volatile guint sum; /* of all bytes, so that they are read */

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autofree uint8_t *bytes = g_memdup2 (data, size); /* so that a read beyond the end is seen */
  g_autoptr (PsSafetensors) file = ps_safetensors_parse ("fuzz", bytes, size, &error);

  fuzz_check_error (file != NULL, &error);
  for (guint i = 0; file != NULL && i < file->entries->len; i++) {
    const PsTensorEntry *entry = file->entries->pdata[i];

    g_assert_true (ps_safetensors_find (file, entry->name) == entry);
    for (gsize k = 0; k < entry->n_bytes; k++)
      sum += bytes[file->header_bytes + entry->first + k];
  }
  return 0;
}
