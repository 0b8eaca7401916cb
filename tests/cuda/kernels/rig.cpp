/* rig.cpp - device arrays and comparisons. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static bool failed;

void must (cudaError_t status, const char *what)
{
  if (status == cudaSuccess)
    return;
  printf ("Bail out! %s: %s\n", what, cudaGetErrorString (status));
  exit (1);
}

void fail (const char *format, ...)
{
  va_list arguments;

  failed = true;
  printf ("# ");
  va_start (arguments, format);
  vprintf (format, arguments);
  va_end (arguments);
  printf ("\n");
}

/* --- numbers --- */

static uint16_t to_bf16 (float value)
{
  uint32_t bits;

  memcpy (&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16 (uint16_t half)
{
  const uint32_t bits = (uint32_t)half << 16;
  float value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

double round_to (PsCudaElement element, double value)
{
  return element == PS_CUDA_BF16 ? from_bf16 (to_bf16 ((float)value)) : (float)value;
}

/* Numerical Recipes' 64-bit linear congruence, upper bits. */
static uint32_t next_random (uint64_t *state)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

Values random_values (size_t n, double deviation, uint32_t seed)
{
  Values values (n);
  uint64_t state = seed * 977u + 1;

  for (double &value : values) {
    value = 0;
    for (int i = 0; i < 4; i++)
      value += next_random (&state) / 2147483648.0 - 0.5;
    value *= deviation * sqrt (3.0);
  }
  return values;
}

std::vector<uint32_t> random_words (size_t n, uint32_t vocabulary, uint32_t seed)
{
  std::vector<uint32_t> words (n);
  uint64_t state = seed * 977u + 1;

  for (uint32_t &word : words)
    word = next_random (&state) % vocabulary;
  return words;
}

Tolerance tolerance (PsCudaElement element)
{
  return { element == PS_CUDA_BF16 ? bf16_error : arithmetic_error, arithmetic_error };
}

const char *element_name (PsCudaElement element)
{
  return element == PS_CUDA_BF16 ? "bf16" : "fp32";
}

/* --- arrays --- */

Array::Array (PsCudaElement element, size_t n, int shift) : element (element), n (n), shift ((size_t)shift)
{
  const size_t size = (n + (size_t)shift) * ps_cuda_element_bytes (element);

  must (cudaMalloc (&memory, size), "cudaMalloc");
  must (cudaMemset (memory, 0xff, size), "cudaMemset");
}

Array::Array (PsCudaElement element, const Values &values, int shift) : Array (element, values.size (), shift)
{
  std::vector<unsigned char> all (n * ps_cuda_element_bytes (element));

  for (size_t i = 0; i < n; i++) {
    const float value = (float)values[i];
    const uint16_t half = to_bf16 (value);
    if (element == PS_CUDA_BF16)
      memcpy (&all[i * sizeof half], &half, sizeof half);
    else
      memcpy (&all[i * sizeof value], &value, sizeof value);
  }
  set_bytes (all);
}

Array::~Array ()
{
  cudaFree (memory);
}

void Array::set_bytes (const std::vector<unsigned char> &bytes)
{
  must (cudaMemcpy (at (), bytes.data (), bytes.size (), cudaMemcpyHostToDevice), "cudaMemcpy");
}

std::vector<unsigned char> Array::bytes () const
{
  std::vector<unsigned char> all (n * ps_cuda_element_bytes (element));

  must (cudaDeviceSynchronize (), "kernel");
  must (cudaMemcpy (all.data (), at (), all.size (), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return all;
}

Values Array::values () const
{
  const std::vector<unsigned char> all = bytes ();
  Values values (n);

  for (size_t i = 0; i < n; i++) {
    float value;
    uint16_t half;
    if (element == PS_CUDA_BF16) {
      memcpy (&half, &all[i * sizeof half], sizeof half);
      value = from_bf16 (half);
    } else
      memcpy (&value, &all[i * sizeof value], sizeof value);
    values[i] = value;
  }
  return values;
}

Bytes::Bytes (size_t n)
{
  must (cudaMalloc (&memory, n > 0 ? n : 1), "cudaMalloc");
  must (cudaMemset (memory, 0xff, n), "cudaMemset");
}

Bytes::Bytes (const std::vector<uint32_t> &words) : Bytes (words.size () * sizeof (uint32_t))
{
  must (cudaMemcpy (memory, words.data (), words.size () * sizeof (uint32_t), cudaMemcpyHostToDevice), "cudaMemcpy");
}

Bytes::~Bytes ()
{
  cudaFree (memory);
}

/* --- checks --- */

void check_near (const char *what, const Values &actual, const Values &expected, double relative, double absolute,
                 const Values *magnitude)
{
  if (actual.size () != expected.size ()) {
    fail ("%s: %zu numbers, expected %zu", what, actual.size (), expected.size ());
    return;
  }
  for (size_t i = 0; i < actual.size (); i++) {
    const double allowed = relative * fabs (expected[i]) + absolute * (magnitude != nullptr ? (*magnitude)[i] : 1);
    if (fabs (actual[i] - expected[i]) <= allowed)
      continue;
    fail ("%s: number %zu is %.9g, expected %.9g within %.3g", what, i, actual[i], expected[i], allowed);
    return;
  }
}

void check_status (const char *what, cudaError_t status, cudaError_t expected)
{
  if (status != expected)
    fail ("%s: %s, expected %s", what, cudaGetErrorString (status), cudaGetErrorString (expected));
}

static std::vector<std::vector<unsigned char>> bytes_of (std::initializer_list<Array *> arrays)
{
  std::vector<std::vector<unsigned char>> all;

  for (const Array *array : arrays)
    all.push_back (array->bytes ());
  return all;
}

void check_repeats (const char *what, std::initializer_list<Array *> outputs, void (*run) (void *), void *data)
{
  const auto before = bytes_of (outputs);
  size_t i = 0;

  run (data);
  const auto first = bytes_of (outputs);
  for (Array *output : outputs)
    output->set_bytes (before[i++]);
#ifdef PS_CUDA_EMULATED
  ps_emulator_set_backwards (true);
#endif
  run (data);
#ifdef PS_CUDA_EMULATED
  ps_emulator_set_backwards (false);
#endif
  if (bytes_of (outputs) != first)
    fail ("%s: a second run gave other bits", what);
}

bool take_failure ()
{
  const bool had = failed;

  failed = false;
  return had;
}
