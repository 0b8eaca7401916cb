/* where.h - a kernel that says where it runs. */
#pragma once

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Launches n_blocks blocks that keep their multiprocessor for some microseconds each. seen[i] of n_seen numbers in
 * device memory grows by the blocks that ran on multiprocessor i. */
cudaError_t where_launch (unsigned n_blocks, unsigned *seen, unsigned n_seen, cudaStream_t stream);

/* Launches one block that raises flags[own] and waits, wait_ns at most, until all n flags are up. flags[n] in device
 * memory are zero before; flags[own] becomes 2 if the block has seen them all, else 1. */
cudaError_t where_launch_meeting (unsigned *flags, unsigned n, unsigned own, unsigned long long wait_ns,
                                  cudaStream_t stream);

#ifdef __cplusplus
}
#endif
