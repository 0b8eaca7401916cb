/* fuzz-schedule.c - the native schedule file. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  fuzz_format ("native", data, size);
  return 0;
}
