/* philox.h - Philox-4x32-10: random numbers from a counter (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as
 * easy as 1, 2, 3, SC 2011, section 3.3 and table 2). */
#ifndef PIPESIM_CUDA_PHILOX_H
#define PIPESIM_CUDA_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define PS_ON_BOTH static __host__ __device__ inline
#else
#define PS_ON_BOTH static inline
#endif

/* Overwrites the counter by its four random numbers. */
PS_ON_BOTH void
ps_philox_4x32_10 (uint32_t counter[4], const uint32_t key[2])
{
  uint32_t key0 = key[0], key1 = key[1];

  for (int round = 0; round < 10; round++)
    {
      const uint64_t product0 = (uint64_t)0xd2511f53u * counter[0], product1 = (uint64_t)0xcd9e8d57u * counter[2];
      const uint32_t next0 = (uint32_t)(product1 >> 32) ^ counter[1] ^ key0;
      const uint32_t next2 = (uint32_t)(product0 >> 32) ^ counter[3] ^ key1;
      counter[0] = next0;
      counter[1] = (uint32_t)product1;
      counter[2] = next2;
      counter[3] = (uint32_t)product0;
      key0 += 0x9e3779b9u;
      key1 += 0xbb67ae85u;
    }
}

#endif
