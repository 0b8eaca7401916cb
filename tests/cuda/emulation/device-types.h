/* device-types.h - the small vector types of CUDA C++. */
#pragma once

#define __align__(n) __attribute__ ((aligned (n)))

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3 (unsigned x = 1, unsigned y = 1, unsigned z = 1) : x (x), y (y), z (z)
  {
  }
};

struct float2 {
  float x, y;
};

struct uint2 {
  unsigned x, y;
};

struct __align__ (16) float4
{
  float x, y, z, w;
};

struct __align__ (16) uint4
{
  unsigned x, y, z, w;
};

static inline float2 make_float2 (float x, float y)
{
  return { x, y };
}

static inline uint2 make_uint2 (unsigned x, unsigned y)
{
  return { x, y };
}
