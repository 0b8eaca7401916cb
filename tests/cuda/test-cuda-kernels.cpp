/* test-cuda-kernels.cpp - every kernel against its reference in plain C (kernels/kernels-reference.h),
 * emulated where there is no GPU. On a GPU machine with nothing but the toolkit, in the root of the source:
 *
 *   nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a -DPS_CUDA_HOPPER -Iinclude -Iexec/train/cuda
 *     -Itests/cuda/kernels -o test-cuda-kernels tests/cuda/test-cuda-kernels.cpp tests/cuda/kernels/[a-z]*.cpp
 *     exec/train/cuda/[a-z]*.cu tests/cuda/kernels/kernels-reference.c
 *
 * An argument chooses the tests whose names hold it; "figures" measures instead what each kernel reaches. */
#include <stdio.h>
#include <string.h>

#include "rig.h"

static int n_run, n_failed;

/* Those whose names hold `subset`. */
static void run_tests (const Test *tests, const char *subset)
{
  for (; tests->name != nullptr; tests++) {
    if (strstr (tests->name, subset) == nullptr)
      continue;
    tests->run ();
    const bool failed = take_failure ();
    n_failed += failed;
    printf ("%s %d - %s\n", failed ? "not ok" : "ok", ++n_run, tests->name);
    fflush (stdout);
  }
}

int main (int argc, char **argv)
{
  const char *subset = argc > 1 ? argv[1] : "";

  int n_devices = 0;
  const cudaError_t status = cudaGetDeviceCount (&n_devices);

  if (status != cudaSuccess || n_devices == 0) {
    printf ("1..0 # SKIP no GPU: %s\n", status != cudaSuccess ? cudaGetErrorString (status) : "none found");
    return 0;
  }
  if (strcmp (subset, "figures") == 0) {
    print_figures ();
    return 0;
  }
  for (const Test *tests : { element_tests, row_tests, end_tests, attention_tests })
    run_tests (tests, subset);
  printf ("1..%d\n", n_run);
  return n_failed > 0;
}
