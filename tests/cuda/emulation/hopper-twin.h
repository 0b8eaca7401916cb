/* hopper-twin.h - what the instructions in exec/train/cuda/hopper.h do, written out by the PTX ISA 8.x, section
 * "Asynchronous Warpgroup Level Matrix Instructions": fragments of wgmma.mma_async.m64nNk16, matrix descriptors and the
 * layouts of shared memory with a swizzle of 128 bytes. Called by all lanes of a warp, which works on its 16 rows
 * alone: that the four warps of a group come by the same products is not checked.
 *
 * A product is made when it is started or, backwards (ps_emulator_set_backwards), when it is waited for. What is looked
 * at too early, overwritten too early, or multiplied before a fence is found so. */
#pragma once

#include <stdint.h>

/* Of a place in the block's dynamic shared memory, which begins at 1024. */
uint64_t ps_emulator_shared_address (const void *place);

/* The lane's accumulators in a product of n / 8 * 8 columns: d = (or +=, with add) a b^T, both in shared memory; or d
 * += a b, a in registers. */
void ps_emulator_group_product (float *d, int n, uint64_t a, uint64_t b, bool add);
void ps_emulator_group_product (float *d, int n, const uint32_t a[4], uint64_t b);

template <int n> static inline void ps_emulator_group_multiply (float (&d)[n][4], uint64_t a, uint64_t b, bool add)
{
  ps_emulator_group_product (d[0], n * 8, a, b, add);
}

template <int n> static inline void ps_emulator_group_accumulate (float (&d)[n][4], const uint32_t (&a)[4], uint64_t b)
{
  ps_emulator_group_product (d[0], n * 8, a, b);
}

void ps_emulator_group_fence ();
void ps_emulator_group_commit ();
void ps_emulator_group_wait (unsigned batches);
