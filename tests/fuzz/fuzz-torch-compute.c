/* fuzz-torch-compute.c - PyTorch's CSV of computations. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  fuzz_format ("torch-compute", data, size);
  return 0;
}
