/* philox.h - random numbers from a counter: Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as
 * easy as 1, 2, 3, SC 2011, section 3.3 and table 2), and SplitMix64. The same bits on the host and, under nvcc, in a
 * kernel; no GLib. */
#ifndef PIPESIM_PHILOX_H
#define PIPESIM_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define PS_PHILOX_INLINE static __host__ __device__ inline
#else
#define PS_PHILOX_INLINE static inline
#endif

#define PS_PHILOX_ROUNDS 10
#define PS_PHILOX_FACTOR_0 0xd2511f53U
#define PS_PHILOX_FACTOR_1 0xcd9e8d57U
#define PS_PHILOX_KEY_0 0x9e3779b9U /* added to the key after each round */
#define PS_PHILOX_KEY_1 0xbb67ae85U

/* Replaces four words, the counter, by four random ones. key: its lower half is the first of the two words. */
PS_PHILOX_INLINE void ps_philox (uint32_t words[4], uint64_t key)
{
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

  for (int round = 0; round < PS_PHILOX_ROUNDS; round++) {
    const uint64_t a = (uint64_t)PS_PHILOX_FACTOR_0 * words[0], b = (uint64_t)PS_PHILOX_FACTOR_1 * words[2];

    words[0] = (uint32_t)(b >> 32) ^ words[1] ^ k0;
    words[1] = (uint32_t)b;
    words[2] = (uint32_t)(a >> 32) ^ words[3] ^ k1;
    words[3] = (uint32_t)a;
    k0 += PS_PHILOX_KEY_0;
    k1 += PS_PHILOX_KEY_1;
  }
}

/* Moves a counter on and returns its number in SplitMix64's sequence (Steele, Lea, Flood: Fast splittable pseudorandom
 * number generators, OOPSLA 2014). */
PS_PHILOX_INLINE uint64_t ps_splitmix_next (uint64_t *counter)
{
  uint64_t z = *counter += 0x9e3779b97f4a7c15u;

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

#endif
