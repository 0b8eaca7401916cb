/* tensor-core-twin.h - what the instructions in exec/train/cuda/tensor-core.h do, written out by the layouts in the
 * PTX ISA 8.x: sections "Matrix Fragments for mma.m16n8k16 with floating point type" and "Warp-level matrix load
 * instruction: ldmatrix". Called there by all lanes of a warp. */
#pragma once

#include <stdint.h>

/* d = a b + c in float: a is 16 x 16, b 16 x 8, both bf16, c and d 16 x 8 float, spread over the lanes. d may be c. */
void ps_emulator_mma (float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4]);

/* Four 8 x 8 matrices of 16-bit elements: lanes 8i to 8i + 7 give the rows of matrix i, 16 bytes each, and every lane
 * gets two elements of each, those of the transposed matrix if asked for. */
void ps_emulator_load_matrices (uint32_t to[4], const void *row, bool transposed);
