/* occupy.cu - a kernel that only waits, as a pending receive does. */
#include "launch.h"

static const int block_threads = 32;
static const unsigned poll_ns
    = 2000; /* the flag is in the host's memory: without a pause its reads slow down all launches */

/* The emulation runs a block to its end before the host goes on. There each look at the clock counts as a minute, so
 * that the limit ends the block. */
static __device__ unsigned long long time_ns ()
{
  unsigned long long now;
#ifdef PS_CUDA_EMULATED
  static thread_local unsigned long long minutes;
  now = ++minutes * 60000000000;
#else
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
#endif
  return now;
}

static __global__ void hold (volatile unsigned *held, const volatile unsigned *released, unsigned long long limit_ns)
{
  if (threadIdx.x > 0)
    return;
  const unsigned long long begin = time_ns ();
  held[blockIdx.x] = 1;
  while (*released == 0 && time_ns () - begin < limit_ns)
    __nanosleep (poll_ns);
}

extern "C" cudaError_t ps_cuda_hold (unsigned *held, const unsigned *released, unsigned n_blocks, uint64_t limit_ns,
                                     cudaStream_t stream)
{
  int device = 0, shared_bytes = 0;
  cudaError_t status = cudaGetDevice (&device);

  if (status == cudaSuccess)
    status = cudaDeviceGetAttribute (&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (status != cudaSuccess || n_blocks == 0)
    return status;
  return ps_start (hold, n_blocks, block_threads, (size_t)shared_bytes, stream, held, released,
                   (unsigned long long)limit_ns);
}
