/* tensor-core-twin.cpp - matrix instructions, performed by the last lane that comes. */
#include <cuda_bf16.h>

#include "emulator.h"
#include "tensor-core-twin.h"

struct Mma
{
  float *d;
  const uint32_t *a, *b;
  const float *c;
};

static float
low (uint32_t pair)
{
  return __bfloat162float ({ (uint16_t)pair });
}

static float
high (uint32_t pair)
{
  return __bfloat162float ({ (uint16_t)(pair >> 16) });
}

/* Lane l holds of a: rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next, and the same 8 columns further. */
static void
gather_a (float a[16][16], void *const *operands)
{
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 4; i++)
      {
        const uint32_t pair = ((const Mma *)operands[lane])->a[i];
        const int row = lane / 4 + (i % 2) * 8, column = lane % 4 * 2 + (i / 2) * 8;
        a[row][column] = low (pair);
        a[row][column + 1] = high (pair);
      }
}

/* Of b: column l / 4, rows 2 (l % 4) and the next, and the same 8 rows further. */
static void
gather_b (float b[16][8], void *const *operands)
{
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 2; i++)
      {
        const uint32_t pair = ((const Mma *)operands[lane])->b[i];
        const int row = lane % 4 * 2 + i * 8, column = lane / 4;
        b[row][column] = low (pair);
        b[row + 1][column] = high (pair);
      }
}

/* Not sanitized: these arrays are the emulator's. */
__attribute__ ((no_sanitize ("address"))) static void
multiply (float product[16][8], const float a[16][16], const float b[16][8])
{
  for (int row = 0; row < 16; row++)
    for (int k = 0; k < 16; k++)
      for (int column = 0; column < 8; column++)
        product[row][column] += a[row][k] * b[k][column];
}

/* Of c and d: rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next. */
static void
perform_mma (void *const *operands)
{
  float a[16][16], b[16][8], product[16][8] = {};

  gather_a (a, operands);
  gather_b (b, operands);
  multiply (product, a, b);
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 4; i++)
      {
        const Mma *own = (const Mma *)operands[lane];
        own->d[i] = product[lane / 4 + (i / 2) * 8][lane % 4 * 2 + i % 2] + own->c[i];
      }
}

void
ps_emulator_mma (float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4])
{
  Mma operand = { d, a, b, c };

  ps_emulator_warp ("mma", &operand, perform_mma);
}

struct Load
{
  uint32_t *to;
  const uint16_t *row;
};

/* Lane l gets of matrix i row l / 4, columns 2 (l % 4) and the next; transposed: column l / 4, rows 2 (l % 4) and the
 * next. */
template <bool transposed>
static void
perform_load (void *const *operands)
{
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 4; i++)
      {
        uint32_t pair = 0;
        for (int half = 0; half < 2; half++)
          {
            const int row = transposed ? lane % 4 * 2 + half : lane / 4;
            const int column = transposed ? lane / 4 : lane % 4 * 2 + half;
            pair |= (uint32_t)((const Load *)operands[i * 8 + row])->row[column] << (16 * half);
          }
        ((const Load *)operands[lane])->to[i] = pair;
      }
}

void
ps_emulator_load_matrices (uint32_t to[4], const void *row, bool transposed)
{
  Load operand = { to, (const uint16_t *)row };

  if ((uintptr_t)row % 16 != 0)
    ps_emulator_fail ("a matrix row is not aligned");
  if (transposed)
    ps_emulator_warp ("ldmatrix.trans", &operand, perform_load<true>);
  else
    ps_emulator_warp ("ldmatrix", &operand, perform_load<false>);
}
