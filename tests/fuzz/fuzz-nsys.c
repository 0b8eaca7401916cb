/* fuzz-nsys.c - exports of Nsight Systems: damaged SQLite databases. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsTimeline) timeline = ps_timeline_load (fuzz_file (data, size), &error);

  fuzz_check_error (timeline != NULL, &error);
  if (timeline != NULL)
    fuzz_check_timeline (timeline);
  return 0;
}
