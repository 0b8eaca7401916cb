/* cuda_bf16.h - bfloat16: the upper half of a float, rounded to nearest even. */
#pragma once

#include <cuda_runtime.h>

struct __nv_bfloat16 {
  uint16_t bits;
};

struct __align__ (4) __nv_bfloat162
{
  __nv_bfloat16 x, y;
};

static inline float __bfloat162float (__nv_bfloat16 value)
{
  const uint32_t bits = (uint32_t)value.bits << 16;
  float result;

  memcpy (&result, &bits, sizeof result);
  return result;
}

static inline __nv_bfloat16 __float2bfloat16_rn (float value)
{
  uint32_t bits;

  memcpy (&bits, &value, sizeof bits);
  if (value != value)
    return { 0x7fff };
  return { (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) };
}

static inline __nv_bfloat162 __floats2bfloat162_rn (float x, float y)
{
  return { __float2bfloat16_rn (x), __float2bfloat16_rn (y) };
}
