/* hopper-twin.cpp - products of a group, each warp's part by the last lane that comes. */
#include <algorithm>
#include <map>
#include <vector>

#include <cuda_bf16.h>
#include <string.h>

#include "device-language.h"
#include "emulator.h"
#include "hopper-twin.h"

/* One warp's part of a product. */
struct Product
{
  float *d[32];
  uint32_t left[32][4]; /* where it is not in shared memory */
  uint64_t a, b;
  int n, warp;
  bool left_is_shared, add;
};

/* Of one warp: batches under way, the last one open. */
struct Queue
{
  std::vector<std::vector<Product> > batches = std::vector<std::vector<Product> > (1);
  bool fenced = false;
};

static thread_local std::map<unsigned, Queue> queues;

static Queue *
own_queue ()
{
  return &queues[threadIdx.x / 32];
}

uint64_t
ps_emulator_shared_address (const void *place)
{
  return 1024 + (uint64_t)((const unsigned char *)place - ps_emulator_shared_bytes ());
}

/* --- matrices in shared memory --- */

struct Descriptor
{
  uint64_t start, leading, stride;
};

/* Bits 0-13 the address, 16-29 the leading and 32-45 the stride offset, all without their four lowest bits; 49-51 the
 * base offset; 62-63 the swizzle, 1 for 128 bytes. */
static Descriptor
read_descriptor (uint64_t bits)
{
  if (bits >> 62 != 1 || (bits >> 49 & 7) != 0)
    ps_emulator_fail ("a matrix is not described as swizzled over 128 bytes from 1024 bytes on");
  return { (bits & 0x3fff) << 4, (bits >> 16 & 0x3fff) << 4, (bits >> 32 & 0x3fff) << 4 };
}

/* The element whose address would be that without swizzle: bits 4-6 are turned by bits 7-9. */
static float
element_at (uint64_t address)
{
  __nv_bfloat16 element;

  memcpy (&element, ps_emulator_shared_bytes () + ((address ^ (address >> 7 & 7) << 4) - 1024), sizeof element);
  return __bfloat162float (element);
}

/* A matrix whose 16 summed columns lie side by side: 8 rows of 128 bytes, the next 8 at the stride. */
static float
row_element (const Descriptor &matrix, int row, int k)
{
  return element_at (matrix.start + (uint64_t)(row / 8) * matrix.stride + (uint64_t)(row % 8 * 128 + k * 2));
}

/* A matrix whose 16 summed rows lie one after the other, each 64 columns in 128 bytes: the next 8 rows at the stride,
 * the next 64 columns at the leading offset. */
static float
column_element (const Descriptor &matrix, int k, int column)
{
  return element_at (matrix.start + (uint64_t)(column / 64) * matrix.leading + (uint64_t)(k / 8) * matrix.stride
                     + (uint64_t)(k % 8 * 128 + column % 64 * 2));
}

/* --- products --- */

static float
half_of (uint32_t pair, int half)
{
  return __bfloat162float ({ (uint16_t)(pair >> (16 * half)) });
}

/* Lane l holds of the left side: rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next, and the same 8 further. */
static float
left_element (const Product &product, int row, int k)
{
  if (product.left_is_shared)
    return row_element (read_descriptor (product.a), product.warp % 4 * 16 + row, k);
  return half_of (product.left[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2);
}

/* Not sanitized: these arrays are the emulator's. */
__attribute__ ((no_sanitize ("address"))) static void
multiply (float *sum, int n, const float left[16], const float *right)
{
  for (int k = 0; k < 16; k++)
    for (int column = 0; column < n; column++)
      sum[column] += left[k] * right[k * n + column];
}

/* Lane l holds of d: rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next of every 8. */
static void
perform (const Product &product)
{
  const Descriptor described = read_descriptor (product.b);
  std::vector<float> right ((size_t)product.n * 16), sum ((size_t)product.n);

  for (int k = 0; k < 16; k++)
    for (int column = 0; column < product.n; column++)
      right[(size_t)(k * product.n + column)]
          = product.left_is_shared ? row_element (described, column, k) : column_element (described, k, column);
  for (int row = 0; row < 16; row++)
    {
      float left[16];
      for (int k = 0; k < 16; k++)
        left[k] = left_element (product, row, k);
      std::fill (sum.begin (), sum.end (), 0.0f);
      multiply (sum.data (), product.n, left, right.data ());
      for (int column = 0; column < product.n; column++)
        {
          float *d = product.d[row % 8 * 4 + column % 8 / 2] + column / 8 * 4 + row / 8 * 2 + column % 2;
          *d = product.add ? *d + sum[(size_t)column] : sum[(size_t)column];
        }
    }
}

/* What one lane brings. */
struct Operand
{
  float *d;
  const uint32_t *left;
  uint64_t a, b;
  int n, warp;
  bool add;
};

static void
start (void *const *operands)
{
  const Operand *first = (const Operand *)operands[0];
  Queue *queue = own_queue ();
  Product product = {};

  if (!queue->fenced)
    ps_emulator_fail ("a product is started without a fence");
  product.a = first->a;
  product.b = first->b;
  product.n = first->n;
  product.warp = first->warp;
  product.left_is_shared = first->left == nullptr;
  product.add = first->add;
  for (int lane = 0; lane < 32; lane++)
    {
      const Operand *own = (const Operand *)operands[lane];
      if (own->a != first->a || own->b != first->b)
        ps_emulator_fail ("the lanes of a warp describe different matrices");
      product.d[lane] = own->d;
      if (own->left != nullptr)
        memcpy (product.left[lane], own->left, sizeof product.left[lane]);
    }
  if (ps_emulator_is_backwards ())
    queue->batches.back ().push_back (product);
  else
    perform (product);
}

void
ps_emulator_group_product (float *d, int n, uint64_t a, uint64_t b, bool add)
{
  Operand operand = { d, nullptr, a, b, n, (int)threadIdx.x / 32, add };

  ps_emulator_warp ("wgmma of shared memory", &operand, start);
}

void
ps_emulator_group_product (float *d, int n, const uint32_t a[4], uint64_t b)
{
  Operand operand = { d, a, 0, b, n, (int)threadIdx.x / 32, true };

  ps_emulator_warp ("wgmma of registers", &operand, start);
}

void
ps_emulator_group_fence ()
{
  ps_emulator_warp ("wgmma.fence", nullptr, [] (void *const *) { own_queue ()->fenced = true; });
}

void
ps_emulator_group_commit ()
{
  ps_emulator_warp ("wgmma.commit_group", nullptr, [] (void *const *) {
    own_queue ()->fenced = false;
    own_queue ()->batches.emplace_back ();
  });
}

void
ps_emulator_group_wait (unsigned batches)
{
  ps_emulator_warp ("wgmma.wait_group", &batches, [] (void *const *operands) {
    auto &all = own_queue ()->batches;
    while (all.size () > *(const unsigned *)operands[0] + 1)
      {
        for (const Product &product : all.front ())
          perform (product);
        all.erase (all.begin ());
      }
  });
}
