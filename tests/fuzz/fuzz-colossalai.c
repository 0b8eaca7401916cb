/* fuzz-colossalai.c - ColossalAI's scheduled nodes. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  fuzz_format ("colossalai", data, size);
  return 0;
}
