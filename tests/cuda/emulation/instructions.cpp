/* instructions.cpp - matrix instructions, performed by the last lane of a warp that comes. PTX ISA 8.x: "Matrix
 * Fragments for mma.m16n8k16 with floating point type", "Warp-level matrix load instruction: ldmatrix", "Asynchronous
 * Warpgroup Level Matrix Instructions" with matrix descriptors and the layouts of shared memory with a swizzle of 128
 * bytes. */
#include <cuda_bf16.h>
#include <map>

static float half_of (uint32_t pair, int half)
{
  return __bfloat162float ({ (uint16_t)(pair >> 16 * half) });
}

/* What a lane brings to a product of 16 x 16 by 16 x n. */
struct Operand {
  float *d;
  const uint32_t *a, *b;
  uint64_t left, right; /* descriptors, where a and b are not in registers */
  int n;
  bool add;
};

/* The product of one warp. */
struct Product {
  float *d[32];
  float left[16][16];
  int n;
  bool add;
};

/* Lane l holds of a: rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next, and the same 8 columns further. */
static void read_left (float left[16][16], void *const *operands)
{
  for (int row = 0; row < 16; row++)
    for (int k = 0; k < 16; k++)
      left[row][k] = half_of (((const Operand *)operands[row % 8 * 4 + k % 8 / 2])->a[row / 8 + k / 8 * 2], k % 2);
}

/* right: 16 rows of n columns. Lane l holds of d: rows l / 4 and l / 4 + 8, columns 2 (l % 4) and the next of every 8.
 * Not sanitized: these arrays are the emulator's. */
__attribute__ ((no_sanitize ("address"))) static void multiply (const Product &product, const float *right)
{
  float sum[256];

  for (int row = 0; row < 16; row++) {
    for (int column = 0; column < product.n; column++)
      sum[column] = 0;
    for (int k = 0; k < 16; k++)
      for (int column = 0; column < product.n; column++)
        sum[column] += product.left[row][k] * right[k * product.n + column];
    for (int column = 0; column < product.n; column++) {
      float *d = product.d[row % 8 * 4 + column % 8 / 2] + column / 8 * 4 + row / 8 * 2 + column % 2;

      *d = product.add ? *d + sum[column] : sum[column];
    }
  }
}

void ps_emulator_mma (float d[4], const uint32_t a[4], const uint32_t b[2])
{
  Operand operand = { d, a, b, 0, 0, 8, true };

  ps_emulator_warp ("mma", &operand, [] (void *const *operands) {
    Product product = { {}, {}, 8, true };
    float right[16 * 8];

    read_left (product.left, operands);
    /* Lane l holds of b: column l / 4, rows 2 (l % 4) and the next, and the same 8 rows further. */
    for (int lane = 0; lane < 32; lane++) {
      const Operand *own = (const Operand *)operands[lane];

      product.d[lane] = own->d;
      for (int i = 0; i < 4; i++)
        right[(lane % 4 * 2 + i / 2 * 8 + i % 2) * 8 + lane / 4] = half_of (own->b[i / 2], i % 2);
    }
    multiply (product, right);
  });
}

void ps_emulator_load_matrices (uint32_t to[4], const void *row, bool transposed)
{
  struct Load {
    uint32_t *to;
    const uint16_t *row;
    bool transposed;
  } operand = { to, (const uint16_t *)row, transposed };

  if ((uintptr_t)row % 16 != 0)
    ps_emulator_fail ("a matrix row is not aligned");
  /* Lane l gets of matrix i row l / 4, columns 2 (l % 4) and the next; transposed: column l / 4, rows 2 (l % 4) and the
   * next. */
  ps_emulator_warp (transposed ? "ldmatrix.trans" : "ldmatrix", &operand, [] (void *const *operands) {
    for (int lane = 0; lane < 32; lane++)
      for (int i = 0; i < 4; i++) {
        const Load *own = (const Load *)operands[lane];
        const int row = lane / 4, column = lane % 4 * 2;
        auto element = [&] (int r, int c) { return (uint32_t)((const Load *)operands[i * 8 + r])->row[c]; };

        own->to[i] = own->transposed ? element (column, row) | element (column + 1, row) << 16
                                     : element (row, column) | element (row, column + 1) << 16;
      }
  });
}

/* --- products of a group, one warp's part at a time --- */

struct Queue {
  PsEmulatorGroups batches;
  bool fenced = false;
};

/* The queue of the warp that runs. */
static Queue *own_queue ()
{
  static thread_local std::map<unsigned, Queue> queues;

  return &queues[threadIdx.x / 32];
}

uint64_t ps_emulator_shared_address (const void *place)
{
  return 1024 + (uint64_t)((const unsigned char *)place - ps_emulator_shared_bytes ());
}

/* Returns an element of a matrix with rows of 128 bytes. Bits 0-13 of its descriptor are the address, 16-29 the leading
 * offset (to the next 64 columns), 32-45 the stride offset (to the next 8 rows), all without their four lowest bits;
 * 49-51 the base offset; 62-63 the swizzle, 1 for 128 bytes: bits 4-6 of an address are turned by bits 7-9. */
static float element_at (uint64_t matrix, int row, int column)
{
  const uint64_t address = ((matrix & 0x3fff) << 4) + (uint64_t)(column / 64) * ((matrix >> 16 & 0x3fff) << 4)
                           + (uint64_t)(row / 8) * ((matrix >> 32 & 0x3fff) << 4)
                           + (uint64_t)(row % 8 * 128 + column % 64 * 2);
  __nv_bfloat16 element;

  memcpy (&element, ps_emulator_shared_bytes () + ((address ^ (address >> 7 & 7) << 4) - 1024), sizeof element);
  return __bfloat162float (element);
}

static void check_descriptor (uint64_t matrix)
{
  if (matrix >> 62 != 1 || (matrix >> 49 & 7) != 0)
    ps_emulator_fail ("a matrix is not described as swizzled over 128 bytes from 1024 bytes on");
}

void ps_emulator_group_product (float *d, int n, const uint32_t *a, uint64_t left, uint64_t right, bool add)
{
  Operand operand = { d, a, nullptr, left, right, n, add };

  ps_emulator_warp (
      a != nullptr ? "wgmma of registers" : "wgmma of shared memory", &operand, [] (void *const *operands) {
        const Operand first = *(const Operand *)operands[0];
        const int warp_row = (int)threadIdx.x / 32 % 4 * 16;
        Product product = { {}, {}, first.n, first.add };

        if (!own_queue ()->fenced)
          ps_emulator_fail ("a product is started without a fence");
        check_descriptor (first.right);
        for (int lane = 0; lane < 32; lane++) {
          const Operand *own = (const Operand *)operands[lane];

          if (own->left != first.left || own->right != first.right)
            ps_emulator_fail ("the lanes of a warp describe different matrices");
          product.d[lane] = own->d;
        }
        if (first.a != nullptr)
          read_left (product.left, operands);
        else
          check_descriptor (first.left);
        own_queue ()->batches.add ([=] {
          Product made = product;
          std::vector<float> columns ((size_t)made.n * 16);

          for (int k = 0; k < 16; k++) {
            for (int row = 0; first.a == nullptr && row < 16; row++)
              made.left[row][k] = element_at (first.left, warp_row + row, k);
            /* With a left side in shared memory the right one is transposed: its rows are columns of d. */
            for (int column = 0; column < made.n; column++)
              columns[(size_t)(k * made.n + column)]
                  = first.a == nullptr ? element_at (first.right, column, k) : element_at (first.right, k, column);
          }
          multiply (made, columns.data ());
        });
      });
}

void ps_emulator_group_fence ()
{
  ps_emulator_warp ("wgmma.fence", nullptr, [] (void *const *) { own_queue ()->fenced = true; });
}

void ps_emulator_group_commit ()
{
  ps_emulator_warp ("wgmma.commit_group", nullptr, [] (void *const *) {
    own_queue ()->fenced = false;
    own_queue ()->batches.commit ();
  });
}

void ps_emulator_group_wait (unsigned batches)
{
  ps_emulator_warp ("wgmma.wait_group", &batches,
                    [] (void *const *operands) { own_queue ()->batches.wait (*(const unsigned *)operands[0]); });
}
