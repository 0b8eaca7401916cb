/* where.cu - kernels of test-cuda-parts.c that say where they run, and whether others run at the same time. */
#include <cuda_runtime.h>

static const int block_threads = 256;
static const long long busy_cycles = 20000;

static __global__ void note_place (unsigned *seen, unsigned n_seen)
{
  const long long begin = clock64 ();
  unsigned number;

  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  if (threadIdx.x == 0 && number < n_seen)
    atomicAdd (&seen[number], 1u);
  while (clock64 () - begin < busy_cycles)
    ;
}

extern "C" cudaError_t where_launch (unsigned n_blocks, unsigned *seen, unsigned n_seen, cudaStream_t stream)
{
  note_place<<<n_blocks, block_threads, 0, stream>>> (seen, n_seen);
  return cudaGetLastError ();
}

static __device__ unsigned long long time_ns (void)
{
  unsigned long long now;

  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

static __global__ void meet (volatile unsigned *flags, unsigned n, unsigned own, unsigned long long wait_ns)
{
  const unsigned long long begin = time_ns ();
  unsigned n_up = 0;

  flags[own] = 1;
  while (n_up < n && time_ns () - begin < wait_ns) {
    n_up = 0;
    for (unsigned i = 0; i < n; i++)
      n_up += flags[i] != 0;
  }
  if (n_up == n)
    flags[own] = 2;
}

extern "C" cudaError_t where_launch_meeting (unsigned *flags, unsigned n, unsigned own, unsigned long long wait_ns,
                                             cudaStream_t stream)
{
  meet<<<1, 1, 0, stream>>> (flags, n, own, wait_ns);
  return cudaGetLastError ();
}
